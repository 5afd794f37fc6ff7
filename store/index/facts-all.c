/* SPDX-License-Identifier: MIT */
#include "store/index/facts-all.h"

#include "common/path.h"

#include <errno.h>
#include <string.h>

/* The whole index in memory. A row that ingest has numbered has its number as its index.
 */
struct packed_access {
	int64_t begin_us;
	uint32_t took_us; /* end_us - begin_us */
	uint32_t seq, file_id, seen_n, made_n;
	uint16_t flags;
	uint8_t op;
	bool directory : 1;
	bool has_more : 1; /* there is a struct more_access */
};
_Static_assert(sizeof(struct packed_access) == 32, "there are many of them");

/* Few accesses have another file, or a long time: they have a row of this. */
struct more_access {
	uint32_t at, file2_id; /* at: index of the access */
	int64_t end_us;
};

struct process_fact {
	struct shfs_process_fact f;
	int64_t command_id;
	uint32_t next_of_command; /* a process_id */
	bool known, shell;
};

struct file_fact {
	int64_t last_ns;
	size_t name_at;
	uint32_t directory_id;
	uint32_t first, n; /* its versions */
	int64_t state;
	bool known;
};

/* A version, packed as in the table: the columns data and object follow in the buffer. */
struct packed_version {
	size_t at;
	int64_t origin_version_id;
	uint32_t file_id;
	uint8_t data_len, object_len;
	uint32_t next_same; /* index + 1 of the next with the same hash of its object */
};

struct pair {
	int64_t key, value;
};

/* The accesses of a process, the versions of a file. */
struct range {
	uint32_t first, n;
};

/* A list of rows, with indexes from 0 on. */
struct table {
	void *rows;
	size_t n, cap, size;
};

struct facts_all {
	struct shfs_index *index;
	struct table processes, files, directories, commands;
	struct table accesses, more, of_process, versions, of_file;
	/* sorted pairs: the commands of accesses of shells, and the reverse; the versions
	 * that have an origin, by the origin */
	struct table shell, shell_by_command, origins;
	struct shfs_buf names, bytes; /* names and paths; packed versions */
	int64_t *opens;               /* access_ids, by file */
	uint32_t *open_ends; /* end of each file in opens, and begin of the next one */
	/* for each version, access_ids: what wrote it last, what moved it there */
	int64_t *last_made[2];
	uint32_t *same; /* by a hash of the object: index of a version, plus 1 */
	size_t same_mask;
};

/* --- tables --- */

#define ROWS(table, type) ((struct type *)(table).rows)

static int table_reserve(struct table *t, size_t n)
{
	size_t cap = MAX(t->cap * 2, MAX(n, (size_t)1024));
	void *rows;

	if (n <= t->cap)
		return 0;
	rows = reallocarray(t->rows, cap, t->size);
	if (!rows)
		return -ENOMEM;
	t->rows = rows;
	t->cap = cap;
	return 0;
}

/* Gets the row with this number; the table grows to it. */
static int table_at(struct table *t, int64_t id, void **out)
{
	int r;

	/* with so large a hole, rows are not found by their numbers */
	if (id < 0 || id >= UINT32_MAX || (size_t)id > 2 * t->n + (1 << 20))
		return -ERANGE;
	if ((size_t)id >= t->n) {
		r = table_reserve(t, id + 1);
		if (r)
			return r;
		memset((char *)t->rows + t->n * t->size, 0, (id + 1 - t->n) * t->size);
		t->n = id + 1;
	}
	*out = (char *)t->rows + id * t->size;
	return 0;
}

static int table_add_row(struct table *t, void **out)
{
	int r = t->n < UINT32_MAX - 1 ? table_reserve(t, t->n + 1) : -ERANGE;

	if (!r)
		*out = (char *)t->rows + t->n++ * t->size;
	return r;
}

/* Returns the row with this number; NULL: there is none. */
static void *find_row(const struct table *t, int64_t id)
{
	return id >= 0 && (size_t)id < t->n ? (char *)t->rows + id * t->size : NULL;
}

static struct process_fact *find_process_fact(struct facts_all *all, int64_t id)
{
	return find_row(&all->processes, id);
}

static struct range find_range(const struct table *t, int64_t id)
{
	const struct range *range = find_row(t, id);

	return range ? *range : (struct range){ 0 };
}

static struct file_fact *find_file_fact(struct facts_all *all, int64_t id)
{
	struct file_fact *f = find_row(&all->files, id);

	return f && f->known ? f : NULL;
}

/* --- reading all --- */

/* Called for each row; row: its columns, as selected. */
typedef int (*row_fn)(struct facts_all *all, sqlite3_value **row);

struct reader {
	struct facts_all *all;
	row_fn fn;
	int result;
};

#define READER "shfs_reader"

void facts_take_row(sqlite3_context *ctx, int n, sqlite3_value **values)
{
	struct reader *reader = n ? sqlite3_value_pointer(values[0], READER) : NULL;

	if (reader && !reader->result)
		reader->result = reader->fn(reader->all, values + 1);
	if (!reader || reader->result)
		sqlite3_result_error_code(ctx, SQLITE_ABORT);
}

void facts_end_rows(sqlite3_context *ctx)
{
}

static int each_row(struct facts_all *all, const char *sql, row_fn fn)
{
	struct reader reader = { .all = all, .fn = fn };
	sqlite3 *db = all->index->db;
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

	if (!rc)
		rc = sqlite3_bind_pointer(stmt, 1, &reader, READER, NULL);
	if (!rc)
		rc = sqlite3_step(stmt);
	sqlite3_finalize(stmt);
	return reader.result ? reader.result : shfs_index_errno(db, rc);
}

static size_t keep_text(struct facts_all *all, sqlite3_value *value)
{
	struct shfs_bytes text = shfs_value_bytes(value);
	size_t at = all->names.len;

	shfs_buf_add(&all->names, text.data, text.len);
	shfs_buf_char(&all->names, '\0');
	return at;
}

/* Selects all of a table in the order of its key. A function call for each row costs less
 * than sqlite3_step. */
#define ALL(columns, table) "SELECT take_row(?1, " columns ") FROM " table " NOT INDEXED"

#define TASKS ALL("task_id, command_id, shell, pid, ppid, start_ticks", "task")
#define PROCESSES                                                                        \
	ALL("process_id, task_id, exe_id, first_ns, streams_id, outside", "process")
#define SHELL       ALL("access_id, command_id", "shell_access")
#define CHUNKS      ALL("chunk_id, data", "chunk")
#define DIRECTORIES ALL("directory_id, path", "directory")
#define FILES       ALL("file_id, directory_id, name, state, data", "file")
#define VERSIONS    ALL("file_id, n, data, object, origin_version_id", "version")

static int load_task_row(struct facts_all *all, sqlite3_value **row)
{
	struct process_fact *p;
	int r = table_at(&all->processes, sqlite3_value_int64(row[0]), (void **)&p);

	if (r)
		return r;
	p->known = true;
	p->command_id = sqlite3_value_int64(row[1]);
	p->shell = sqlite3_value_int(row[2]);
	p->f.pid = sqlite3_value_int64(row[3]);
	p->f.ppid = sqlite3_value_int64(row[4]);
	p->f.start_ticks = sqlite3_value_int64(row[5]);
	return 0;
}

/* Adds a program run; one that a process executed later belongs to its task. */
static int load_process_row(struct facts_all *all, sqlite3_value **row)
{
	struct process_fact *p, *task;
	int r = table_at(&all->processes, sqlite3_value_int64(row[0]), (void **)&p);

	if (r)
		return r;
	task = find_process_fact(all, sqlite3_value_int64(row[1]));
	if (sqlite3_value_type(row[1]) != SQLITE_NULL && task)
		*p = *task;
	p->f.process_id = sqlite3_value_int64(row[0]);
	p->f.program_id = sqlite3_value_int64(row[2]);
	p->f.first_ns = sqlite3_value_int64(row[3]);
	p->f.streams_id = sqlite3_value_int64(row[4]);
	p->f.outside = sqlite3_value_int(row[5]);
	return 0;
}

static int add_pair(struct table *t, int64_t key, int64_t value)
{
	struct pair *pair;
	int r = table_add_row(t, (void **)&pair);

	if (!r)
		*pair = (struct pair){ key, value };
	return r;
}

static int load_shell_access_row(struct facts_all *all, sqlite3_value **row)
{
	int64_t access_id = sqlite3_value_int64(row[0]);
	int64_t command_id = sqlite3_value_int64(row[1]);

	if (!command_id)
		return 0;
	return add_pair(&all->shell, access_id, command_id)
	               ?: add_pair(&all->shell_by_command, command_id, access_id);
}

static int add_more(struct facts_all *all, const struct shfs_access *a)
{
	struct more_access *more;
	int r = table_add_row(&all->more, (void **)&more);

	if (!r)
		*more = (struct more_access){ .at = (uint32_t)all->accesses.n,
			                      .file2_id = (uint32_t)a->file2_id,
			                      .end_us = a->end_us };
	return r;
}

/* Adds an access; the caller has made room for it. */
static int add_access(struct facts_all *all, struct range *p, const struct shfs_access *a)
{
	struct packed_access *x = ROWS(all->accesses, packed_access) + all->accesses.n;
	uint64_t took_us = (uint64_t)shfs_wrap_sub(a->end_us, a->begin_us);
	bool has_more = a->file2_id || took_us > UINT32_MAX;
	int r;

	if (!p->n)
		p->first = all->accesses.n;
	if ((uint32_t)a->access_id != ++p->n || all->accesses.n >= UINT32_MAX - 1 ||
	    (a->seq | a->file_id | a->file2_id | a->seen_n | a->made_n) >> 32 ||
	    a->flags > UINT16_MAX || a->op > UINT8_MAX)
		return -ERANGE;
	r = has_more ? add_more(all, a) : 0;
	if (r)
		return r;
	all->accesses.n++;
	*x = (struct packed_access){
		.seq = (uint32_t)a->seq,
		.begin_us = a->begin_us,
		.took_us = (uint32_t)took_us,
		.has_more = has_more,
		.file_id = (uint32_t)a->file_id,
		.seen_n = (uint32_t)a->seen_n,
		.made_n = (uint32_t)a->made_n,
		.flags = (uint16_t)a->flags,
		.op = (uint8_t)a->op,
		.directory = a->directory,
	};
	return 0;
}

static int load_chunk_row(struct facts_all *all, sqlite3_value **row)
{
	int64_t chunk_id = sqlite3_value_int64(row[0]);
	struct shfs_bytes data = shfs_value_bytes(row[1]);
	struct shfs_chunk_reader reader;
	struct range *p = NULL;
	int r = table_at(&all->of_process, chunk_id >> 32, (void **)&p);

	/* each access takes a byte or more */
	r = r ? r : table_reserve(&all->accesses, all->accesses.n + data.len);
	shfs_chunk_open(&reader, chunk_id, data.data, data.len);
	while (!r && (r = shfs_chunk_next(&reader)) > 0)
		r = add_access(all, p, &reader.access);
	return r;
}

static int load_directory_row(struct facts_all *all, sqlite3_value **row)
{
	size_t *at;
	int r = table_at(&all->directories, sqlite3_value_int64(row[0]), (void **)&at);

	if (!r)
		*at = keep_text(all, row[1]);
	return r;
}

static int load_file_row(struct facts_all *all, sqlite3_value **row)
{
	struct shfs_bytes data = shfs_value_bytes(row[4]);
	struct file_fact *f;
	int r = table_at(&all->files, sqlite3_value_int64(row[0]), (void **)&f);

	if (r)
		return r;
	f->directory_id = (uint32_t)sqlite3_value_int64(row[1]);
	f->name_at = keep_text(all, row[2]);
	f->state = sqlite3_value_int64(row[3]);
	f->known = true;
	shfs_file_get_last_ns(data.data, data.len, &f->last_ns);
	return f->directory_id < all->directories.n ? 0 : -EBADMSG;
}

static int load_version_row(struct facts_all *all, sqlite3_value **row)
{
	int64_t file_id = sqlite3_value_int64(row[0]);
	struct shfs_bytes data = shfs_value_bytes(row[2]),
			  object = shfs_value_bytes(row[3]);
	struct range *f;
	struct packed_version *v;
	int r = table_at(&all->of_file, file_id, (void **)&f);

	if (!r)
		r = table_add_row(&all->versions, (void **)&v);
	if (r)
		return r;
	if (!f->n)
		f->first = all->versions.n - 1;
	if (sqlite3_value_int64(row[1]) != ++f->n || data.len > UINT8_MAX ||
	    object.len > UINT8_MAX)
		return -ERANGE;
	*v = (struct packed_version){
		.at = all->bytes.len,
		.file_id = (uint32_t)file_id,
		.data_len = (uint8_t)data.len,
		.object_len = (uint8_t)object.len,
		.origin_version_id = sqlite3_value_int64(row[4]),
	};
	shfs_buf_add(&all->bytes, data.data, data.len);
	shfs_buf_add(&all->bytes, object.data, object.len);
	return v->origin_version_id ? add_pair(&all->origins, v->origin_version_id,
	                                       shfs_version_id(file_id, f->n))
	                            : 0;
}

/* Links the processes of each command, in the order of their numbers: they are prepended
 * from the last one on. */
static int list_processes(struct facts_all *all)
{
	struct process_fact *p = all->processes.rows;
	int64_t last = 0;
	uint32_t *heads;

	for (size_t i = 1; i < all->processes.n; i++)
		last = MAX(last, p[i].command_id);
	if (last >= UINT32_MAX)
		return -ERANGE;
	heads = calloc(last + 1, sizeof(*heads));
	if (!heads)
		return -ENOMEM;
	all->commands.rows = heads;
	all->commands.n = last + 1;
	for (size_t i = all->processes.n; i-- > 1;)
		if (p[i].known && p[i].command_id > 0) {
			p[i].next_of_command = heads[p[i].command_id];
			heads[p[i].command_id] = (uint32_t)i;
		}
	return 0;
}

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->value > y->value) - (x->value < y->value);
}

static void sort_pairs(struct table *t)
{
	if (t->n)
		qsort(t->rows, t->n, sizeof(struct pair), compare_pairs);
}

/* Finds the first pair with this key, or with a larger one. */
static size_t find_pair(const struct table *t, int64_t key)
{
	const struct pair *pairs = t->rows;
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pairs[middle].key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int load_all_facts(struct facts_all *all)
{
	int r;

	shfs_buf_char(&all->names, '\0'); /* offset 0 stands for no name */
	r = each_row(all, TASKS, load_task_row)
	            ?: each_row(all, PROCESSES, load_process_row)
	            ?: each_row(all, SHELL, load_shell_access_row)
	            ?: each_row(all, DIRECTORIES, load_directory_row)
	            ?: each_row(all, FILES, load_file_row)
	            ?: each_row(all, VERSIONS, load_version_row)
	            ?: each_row(all, CHUNKS, load_chunk_row)
	            ?: list_processes(all);
	sort_pairs(&all->shell_by_command);
	sort_pairs(&all->origins);
	return r ? r : all->names.failed || all->bytes.failed ? -ENOMEM : 0;
}

int facts_all_load(struct shfs_index *index, struct facts_all **out)
{
	struct facts_all *all = calloc(1, sizeof(*all));
	int r;

	if (!all)
		return -ENOMEM;
	all->index = index;
	all->accesses.size = sizeof(struct packed_access);
	all->more.size = sizeof(struct more_access);
	all->processes.size = sizeof(struct process_fact);
	all->files.size = sizeof(struct file_fact);
	all->versions.size = sizeof(struct packed_version);
	all->directories.size = sizeof(size_t);
	all->commands.size = sizeof(uint32_t);
	all->of_process.size = all->of_file.size = sizeof(struct range);
	all->shell.size = all->shell_by_command.size = all->origins.size =
		sizeof(struct pair);
	r = load_all_facts(all);
	if (r)
		facts_all_free(all);
	else
		*out = all;
	return r;
}

void facts_all_free(struct facts_all *all)
{
	if (!all)
		return;
	free(all->accesses.rows);
	free(all->more.rows);
	free(all->processes.rows);
	free(all->files.rows);
	free(all->versions.rows);
	free(all->directories.rows);
	free(all->commands.rows);
	free(all->of_process.rows);
	free(all->of_file.rows);
	free(all->shell.rows);
	free(all->shell_by_command.rows);
	free(all->origins.rows);
	shfs_buf_free(&all->names);
	shfs_buf_free(&all->bytes);
	free(all->opens);
	free(all->open_ends);
	free(all->last_made[0]);
	free(all->last_made[1]);
	free(all->same);
	free(all);
}

/* --- accesses --- */

static int compare_at(const void *at, const void *more)
{
	uint32_t a = *(const uint32_t *)at, b = ((const struct more_access *)more)->at;

	return (a > b) - (a < b);
}

/* Finds what else there is of an access, by its index. */
static const struct more_access *find_more(const struct facts_all *all,
                                           const struct packed_access *x)
{
	uint32_t at = (uint32_t)(x - ROWS(all->accesses, packed_access));

	return bsearch(&at, all->more.rows, all->more.n, sizeof(struct more_access),
	               compare_at);
}

static uint32_t file2_of(const struct facts_all *all, const struct packed_access *x)
{
	return x->has_more ? find_more(all, x)->file2_id : 0;
}

static int give(const struct facts_all *all, const struct packed_access *x,
                int64_t access_id, shfs_access_fn fn, void *arg)
{
	const struct more_access *more = x->has_more ? find_more(all, x) : NULL;
	struct shfs_access a = {
		.access_id = access_id,
		.seq = x->seq,
		.op = x->op,
		.flags = x->flags,
		.directory = x->directory,
		.file_id = x->file_id,
		.file2_id = more ? more->file2_id : 0,
		.begin_us = x->begin_us,
		.end_us = more ? more->end_us : shfs_wrap_add(x->begin_us, x->took_us),
		.seen_n = x->seen_n,
		.made_n = x->made_n,
	};

	return x->op < SHFS_OP_PREIMAGE ? fn(&a, arg) : 0;
}

static const struct packed_access *find_access(struct facts_all *all, int64_t access_id)
{
	struct range p = find_range(&all->of_process, access_id >> 32);
	uint32_t n = (uint32_t)access_id;

	return n && n <= p.n ? ROWS(all->accesses, packed_access) + p.first + n - 1
	                     : NULL;
}

int facts_all_access(struct facts_all *all, int64_t access_id, struct shfs_access *out)
{
	const struct packed_access *x = find_access(all, access_id);

	return x ? give(all, x, access_id, facts_copy_access, out) : 0;
}

/* Returns the command of an access of a shell; 0: none. */
static int64_t shell_command(struct facts_all *all, int64_t access_id)
{
	size_t i = find_pair(&all->shell, access_id);
	const struct pair *x = ROWS(all->shell, pair) + i;

	return i < all->shell.n && x->key == access_id ? x->value : 0;
}

/* Returns the command of an access, as owner.c does; 0: none. */
static int64_t owner(struct facts_all *all, int64_t access_id)
{
	const struct process_fact *p = find_process_fact(all, access_id >> 32);

	return !p ? 0 : p->shell ? shell_command(all, access_id) : p->command_id;
}

int facts_all_owner(struct facts_all *all, int64_t access_id, int64_t *command_id)
{
	*command_id = owner(all, access_id);
	return 1;
}

int facts_all_program(struct facts_all *all, int64_t process_id, int64_t *program_id)
{
	const struct process_fact *p = find_process_fact(all, process_id);

	if (!p || !p->known)
		return 0;
	*program_id = p->f.program_id;
	return 1;
}

/* Calls fn for the accesses of a process; nobodys: only for those of no command. */
static int each_of_process(struct facts_all *all, int64_t process_id, bool nobodys,
                           shfs_access_fn fn, void *arg)
{
	struct range p = find_range(&all->of_process, process_id);
	const struct packed_access *x = ROWS(all->accesses, packed_access);
	int r = 0;

	for (uint32_t n = 1; n <= p.n && !r; n++) {
		int64_t access_id = shfs_access_id(process_id, n);

		if (!nobodys || !owner(all, access_id))
			r = give(all, &x[p.first + n - 1], access_id, fn, arg);
	}
	return r;
}

/* Returns the first process_id of a command; 0: none. */
static uint32_t first_of_command(struct facts_all *all, int64_t command_id)
{
	const uint32_t *head = find_row(&all->commands, command_id);

	return head ? *head : 0;
}

int facts_all_processes(struct facts_all *all, int64_t command_id, shfs_process_fn fn,
                        void *arg)
{
	int r = 0;

	for (uint32_t id = first_of_command(all, command_id), next; id && !r; id = next) {
		const struct process_fact *p = find_process_fact(all, id);

		next = p->next_of_command;
		r = fn(&p->f, arg);
	}
	return r;
}

int facts_all_of_command(struct facts_all *all, int64_t command_id, shfs_access_fn fn,
                         void *arg)
{
	const struct pair *x = all->shell_by_command.rows;
	int r = 0;

	for (uint32_t id = first_of_command(all, command_id); id && !r;
	     id = find_process_fact(all, id)->next_of_command)
		if (!find_process_fact(all, id)->shell)
			r = each_of_process(all, id, false, fn, arg);
	for (size_t i = find_pair(&all->shell_by_command, command_id);
	     i < all->shell_by_command.n && x[i].key == command_id && !r; i++) {
		const struct packed_access *a = find_access(all, x[i].value);

		r = a ? give(all, a, x[i].value, fn, arg) : 0;
	}
	return r;
}

int facts_all_of_process(struct facts_all *all, int64_t process_id, shfs_access_fn fn,
                         void *arg)
{
	return each_of_process(all, process_id, false, fn, arg);
}

int facts_all_of_nobody(struct facts_all *all, int64_t process_id, shfs_access_fn fn,
                        void *arg)
{
	return each_of_process(all, process_id, true, fn, arg);
}

/* --- by file --- */

static bool is_open(struct facts_all *all, const struct packed_access *x)
{
	return !x->op && x->file_id < all->files.n;
}

static void count_opens(struct facts_all *all)
{
	const struct packed_access *x = all->accesses.rows;

	for (size_t i = 0; i < all->accesses.n; i++)
		if (is_open(all, &x[i]))
			all->open_ends[x[i].file_id + 1]++;
	for (size_t i = 1; i <= all->files.n; i++)
		all->open_ends[i] += all->open_ends[i - 1];
}

/* Sorts the opens by file, by counting: the begin of each file's opens moves on until it
 * is their end. */
static int sort_opens(struct facts_all *all)
{
	const struct packed_access *x = all->accesses.rows;

	all->open_ends = calloc(all->files.n + 2, sizeof(*all->open_ends));
	all->opens = calloc(all->accesses.n + 1, sizeof(*all->opens));
	if (!all->open_ends || !all->opens)
		return -ENOMEM;
	count_opens(all);
	for (size_t id = 0; id < all->of_process.n; id++) {
		struct range p = find_range(&all->of_process, (int64_t)id);

		for (uint32_t n = 0; n < p.n; n++)
			if (is_open(all, &x[p.first + n]))
				all->opens[all->open_ends[x[p.first + n].file_id]++] =
					shfs_access_id((int64_t)id, n + 1);
	}
	return 0;
}

int facts_all_opens_of_file(struct facts_all *all, int64_t file_id, shfs_access_fn fn,
                            void *arg)
{
	int r = all->opens ? 0 : sort_opens(all);
	size_t i;

	if (r || file_id <= 0 || (size_t)file_id >= all->files.n)
		return r;
	for (i = all->open_ends[file_id - 1]; i < all->open_ends[file_id] && !r; i++)
		r = give(all, find_access(all, all->opens[i]), all->opens[i], fn, arg);
	return r;
}

/* --- files and versions --- */

int facts_all_add_path(struct facts_all *all, int64_t file_id, struct shfs_buf *out)
{
	const struct file_fact *f = find_file_fact(all, file_id);
	const size_t *directories = all->directories.rows;

	if (!f)
		return 0;
	shfs_buf_str(out, all->names.data + directories[f->directory_id]);
	shfs_buf_char(out, '/');
	shfs_buf_str(out, all->names.data + f->name_at);
	return out->failed ? -ENOMEM : 1;
}

/* Is the file in a directory at path or below it, or at path itself? */
static bool is_file_below(struct facts_all *all, const struct file_fact *f,
                          const bool *directories, const char *path)
{
	const size_t *at = all->directories.rows;
	const char *slash = strrchr(path, '/');
	const char *dir = all->names.data + at[f->directory_id];
	size_t len = slash ? slash - path : 0;

	if (directories[f->directory_id])
		return true;
	return slash && strlen(dir) == len && !memcmp(dir, path, len) &&
	       !strcmp(all->names.data + f->name_at, slash + 1);
}

static bool *directories_below(struct facts_all *all, const char *path)
{
	bool *below = calloc(all->directories.n + 1, sizeof(*below));
	const size_t *at = all->directories.rows;

	for (size_t i = 1; below && i < all->directories.n; i++)
		below[i] = at[i] && shfs_path_is_below(all->names.data + at[i], path);
	return below;
}

int facts_all_below(struct facts_all *all, const char *path, shfs_id_fn fn, void *arg)
{
	_cleanup_free_ bool *below = directories_below(all, path);
	int r = below ? 0 : -ENOMEM;

	for (size_t id = 1; id < all->files.n && !r; id++) {
		const struct file_fact *f = find_file_fact(all, id);

		if (f && is_file_below(all, f, below, path))
			r = fn(id, arg);
	}
	return r;
}

static const struct packed_version *find_packed_version(struct facts_all *all,
                                                        int64_t version_id)
{
	struct range f = find_range(&all->of_file, version_id >> 32);
	uint32_t n = (uint32_t)version_id;

	return n && n <= f.n ? ROWS(all->versions, packed_version) + f.first + n - 1
	                     : NULL;
}

int facts_all_version(struct facts_all *all, int64_t version_id,
                      struct shfs_version_fact *out)
{
	const struct packed_version *v = find_packed_version(all, version_id);
	struct shfs_bytes data, object;

	if (!v)
		return 0;
	data = (struct shfs_bytes){ all->bytes.data + v->at, v->data_len };
	object = (struct shfs_bytes){ data.data + data.len, v->object_len };
	if (shfs_version_unpack(data, object, out))
		return -EBADMSG;
	out->version_id = version_id;
	out->file_id = version_id >> 32;
	out->n = version_id & UINT32_MAX;
	out->origin_version_id = v->origin_version_id;
	out->command_id = owner(all, out->access_id);
	return 1;
}

int facts_all_file(struct facts_all *all, int64_t file_id, struct shfs_file_fact *out)
{
	const struct file_fact *f = find_file_fact(all, file_id);

	if (!f)
		return 0;
	shfs_file_get_state(f->state, out);
	out->last_ns = f->last_ns;
	return 1;
}

/* --- the access that last made a version --- */

static void note_last_made(struct facts_all *all, const struct packed_access *x,
                           int64_t access_id)
{
	uint32_t file2_id = file2_of(all, x);
	const struct packed_version *v =
		find_packed_version(all, shfs_version_id(file2_id ? file2_id : x->file_id,
	                                                 x->made_n));
	int64_t *last =
		v ? all->last_made[!!file2_id] + (v - ROWS(all->versions, packed_version))
		  : NULL;

	if (v && (!*last || find_access(all, *last)->seq < x->seq) &&
	    owner(all, access_id))
		*last = access_id;
}

static int list_made(struct facts_all *all)
{
	const struct packed_access *x = all->accesses.rows;

	for (int i = 0; i < 2; i++) {
		all->last_made[i] = calloc(all->versions.n + 1, sizeof(int64_t));
		if (!all->last_made[i])
			return -ENOMEM;
	}
	for (size_t id = 0; id < all->of_process.n; id++) {
		struct range p = find_range(&all->of_process, (int64_t)id);

		for (uint32_t n = 0; n < p.n; n++)
			if (x[p.first + n].made_n && x[p.first + n].op < SHFS_OP_PREIMAGE)
				note_last_made(all, &x[p.first + n],
				               shfs_access_id((int64_t)id, n + 1));
	}
	return 0;
}

int facts_all_last_made(struct facts_all *all, int64_t version_id, bool moved,
                        struct shfs_access *out)
{
	const struct packed_version *v = find_packed_version(all, version_id);
	int r = all->last_made[1] ? 0 : list_made(all);
	int64_t id;

	if (r || !v)
		return r;
	id = all->last_made[moved][v - ROWS(all->versions, packed_version)];
	return id ? give(all, find_access(all, id), id, facts_copy_access, out) : 0;
}

/* --- versions with the same object --- */

static bool has_same_object(struct facts_all *all, const struct packed_version *v,
                            const struct packed_version *w)
{
	const char *bytes = all->bytes.data;

	return v->object_len == w->object_len &&
	       !memcmp(bytes + v->at + v->data_len, bytes + w->at + w->data_len,
	               v->object_len);
}

static uint32_t *same_head(struct facts_all *all, const struct packed_version *v)
{
	uint32_t hash;

	memcpy(&hash, all->bytes.data + v->at + v->data_len, sizeof(hash));
	return &all->same[hash & all->same_mask];
}

static int list_same(struct facts_all *all)
{
	struct packed_version *v = all->versions.rows;

	for (all->same_mask = 1; all->same_mask < all->versions.n;)
		all->same_mask = all->same_mask << 1 | 1;
	all->same = calloc(all->same_mask + 1, sizeof(*all->same));
	if (!all->same)
		return -ENOMEM;
	for (size_t i = all->versions.n; i-- > 0;)
		if (v[i].object_len >= sizeof(uint32_t)) {
			uint32_t *head = same_head(all, &v[i]);

			v[i].next_same = *head;
			*head = (uint32_t)i + 1;
		}
	return 0;
}

int facts_all_same(struct facts_all *all, int64_t version_id, shfs_id_fn fn, void *arg)
{
	const struct packed_version *v = find_packed_version(all, version_id), *w;
	int r = !v || all->same ? 0 : list_same(all);

	if (r || !v || v->object_len < sizeof(uint32_t))
		return r;
	for (uint32_t at = *same_head(all, v); at && !r; at = w->next_same) {
		w = ROWS(all->versions, packed_version) + at - 1;
		if (has_same_object(all, v, w))
			r = fn(shfs_version_id(
				       w->file_id,
				       at - find_range(&all->of_file, w->file_id).first),
			       arg);
	}
	return r;
}

int facts_all_moved(struct facts_all *all, int64_t version_id, shfs_id_fn fn, void *arg)
{
	const struct pair *x = all->origins.rows;
	int r = 0;

	for (size_t i = find_pair(&all->origins, version_id);
	     i < all->origins.n && x[i].key == version_id && !r; i++)
		r = fn(x[i].value, arg);
	return r;
}
