/* SPDX-License-Identifier: MIT */
/* Writes the rows of processes: one for each program run. */
#include "store/index/internal.h"

#include "common/clock.h"
#include "common/path.h"
#include "common/proc.h"
#include "store/journal/origin.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define CACHE_MAX 65536

struct process_key {
	int64_t producer_id;
	uint64_t seq;
};

struct shfs_process_cache {
	struct process_key key;
	struct shfs_process process;
	bool owned; /* its owner was looked for */
	UT_hash_handle hh;
};

void shfs_processes_forget(struct shfs_ingest *ing)
{
	struct shfs_process_cache *c, *next;

	ing->proc = NULL;
	HASH_ITER (hh, ing->procs, c, next) {
		HASH_DEL(ing->procs, c);
		free(c);
	}
}

static int cache_add(struct shfs_ingest *ing, struct process_key key,
                     const struct shfs_process *process, struct shfs_process_cache **out)
{
	struct shfs_process_cache *c;

	HASH_FIND(hh, ing->procs, &key, sizeof(key), c);
	if (c) {
		c->process = *process;
		c->owned = false;
		*out = c;
		return 0;
	}
	if (HASH_COUNT(ing->procs) >= CACHE_MAX)
		shfs_processes_forget(ing);
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->key = key;
	c->process = *process;
	HASH_ADD(hh, ing->procs, key, sizeof(c->key), c);
	*out = c;
	if (c->hh.tbl)
		return 0;
	free(c);
	return -ENOMEM;
}

/* The strings of a marker; 0: it has none. */
struct marker {
	int64_t id; /* the command that it names */
	int64_t origin_id, mark_id;
};

static int get_marker(struct shfs_ingest *ing, const struct shfs_record *rec,
                      struct marker *out)
{
	struct shfs_bytes marker = rec->process.marker, marks = shfs_marker_marks(marker),
			  value;
	struct shfs_origin origin;
	int r = marks.len ? shfs_string_id(ing, marks, &out->mark_id) : 0;

	marker.len -= marks.len;
	value = shfs_origin_of_marker(marker);
	marker.len -= value.data ? value.len + 1 : 0;
	if (!r && value.len && !shfs_origin_parse(value, &origin))
		r = shfs_string_id(ing, value, &out->origin_id);
	return !r && marker.len ? shfs_string_id(ing, marker, &out->id) : r;
}

/* Returns the column parent_start_ticks of the table task. */
static struct shfs_arg parent_start(const struct shfs_rec_process *p)
{
	return p->parent_start_ticks
	               ? shfs_arg_int((int64_t)(p->start_ticks - p->parent_start_ticks))
	               : shfs_arg_id(0);
}

/* Returns the column seen_ns: the time since the begin of the process takes fewer bytes.
 */
static int64_t seen_column(const struct shfs_record *rec)
{
	uint64_t begin_ns = rec->process.start_ticks * (SHFS_NSEC_PER_SEC / 100);

	return shfs_wrap_sub(shfs_sane_ns(rec->time.boot_ns), (int64_t)begin_ns);
}

/* Inserts a task. Its first program is inserted next, with the same id. */
static int task_insert(struct shfs_ingest *ing, const struct shfs_record *rec,
                       int64_t *task_id)
{
	const struct shfs_rec_process *p = &rec->process;
	struct marker marker = { 0 };
	unsigned role = 0;
	int r = get_marker(ing, rec, &marker);

	if (!r)
		r = shfs_invoker_role(p, &role);
	if (r)
		return r;
	r = shfs_sql_run(
		ing->index,
		"INSERT INTO task (task_id, boot_id, pid_namespace, pid, start_ticks,"
		" ppid, parent_start_ticks, pgid, sid, seen_ns, marker_id, mark_id, role,"
		" origin_id, shell) VALUES ((SELECT max(process_id) + 1 FROM process),"
		" ?1, ?11, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?12, ?13, ?14,"
		" EXISTS (SELECT 1 FROM session WHERE boot_id = ?1 AND pid = ?3"
		"  AND start_ticks = ?4 AND pid_namespace IN (0, ?2) AND invoker = ''))",
		shfs_arg_int(ing->producer.boot_id),
		shfs_arg_int(ing->producer.pid_namespace), shfs_arg_int(p->pid),
		shfs_arg_int(p->start_ticks), shfs_arg_int(p->ppid), parent_start(p),
		shfs_arg_int((int64_t)p->pgid - p->pid), shfs_arg_int(p->sid),
		shfs_arg_int(seen_column(rec)), shfs_arg_id(marker.id),
		shfs_arg_int(shfs_namespace_column(ing->producer.pid_namespace)),
		shfs_arg_id(marker.mark_id), shfs_arg_int(role),
		shfs_arg_id(marker.origin_id));

	*task_id = sqlite3_last_insert_rowid(ing->index->db);
	return r;
}

static int task_revise(struct shfs_ingest *ing, int64_t task_id)
{
	int r = shfs_chunks_flush(ing);

	if (!r)
		r = shfs_task_revise(ing, task_id, 0);
	shfs_processes_forget(ing);
	return r;
}

/* Updates a task by an earlier record of the same process, which knew its parents better.
 */
static int task_update(struct shfs_ingest *ing, const struct shfs_record *rec,
                       int64_t task_id)
{
	const struct shfs_rec_process *p = &rec->process;
	struct marker marker = { 0 };
	int r = get_marker(ing, rec, &marker);

	if (r)
		return r;
	r = shfs_sql_run(ing->index,
	                 "UPDATE task SET ppid = ?, parent_start_ticks = ?, pgid = ?,"
	                 " sid = ?, seen_ns = ?, marker_id = coalesce(?7, marker_id),"
	                 " mark_id = coalesce(?8, mark_id),"
	                 " origin_id = coalesce(?9, origin_id)"
	                 " WHERE task_id = ?6",
	                 shfs_arg_int(p->ppid), parent_start(p),
	                 shfs_arg_int((int64_t)p->pgid - p->pid), shfs_arg_int(p->sid),
	                 shfs_arg_int(seen_column(rec)), shfs_arg_int(task_id),
	                 shfs_arg_id(marker.id), shfs_arg_id(marker.mark_id),
	                 shfs_arg_id(marker.origin_id));

	return r ? r : task_revise(ing, task_id);
}

/* Sets the marker of a task whose later program has one: its first program, a subshell,
 * had none. */
static int task_mark(struct shfs_ingest *ing, const struct shfs_record *rec,
                     int64_t task_id)
{
	struct marker marker = { 0 };
	int64_t is_nobodys = 0;
	int r = get_marker(ing, rec, &marker);

	if (!r && (marker.id || marker.mark_id || marker.origin_id))
		r = shfs_sql_int(
			ing->index, &is_nobodys,
			"UPDATE task SET marker_id = coalesce(marker_id, ?1),"
			" mark_id = coalesce(mark_id, ?2),"
			" origin_id = coalesce(origin_id, ?4) WHERE task_id = ?3"
			" AND (marker_id IS NULL AND ?1 OR mark_id IS NULL AND ?2"
			"  OR origin_id IS NULL AND ?4)"
			" RETURNING session_id IS NULL OR ?2 IS NOT NULL",
			shfs_arg_id(marker.id), shfs_arg_id(marker.mark_id),
			shfs_arg_int(task_id), shfs_arg_id(marker.origin_id));
	return r > 0 && is_nobodys ? task_revise(ing, task_id) : MIN(r, 0);
}

/*
 * Finds the task of a record. A pid can be reused within a tick of the clock. A process
 * that loses its parent gets an older one: so if a later record has a younger parent, it
 * is of another process.
 */
static int task_find(struct shfs_ingest *ing, const struct shfs_record *rec,
                     sqlite3_stmt **stmt)
{
	const struct shfs_rec_process *p = &rec->process;
	uint64_t namespace = ing->producer.pid_namespace;

	return shfs_sql_get(ing->index, stmt,
	                    "SELECT task_id, seen_ns FROM task WHERE boot_id = ?"
	                    " AND pid = ? AND start_ticks = ? AND pid_namespace = ?"
	                    " AND coalesce((ppid = ?5 AND parent_start_ticks = ?6)"
	                    "  OR (parent_start_ticks < ?6) = (seen_ns <= ?7), 1)"
	                    " ORDER BY task_id DESC LIMIT 1",
	                    shfs_arg_int(ing->producer.boot_id), shfs_arg_int(p->pid),
	                    shfs_arg_int(p->start_ticks),
	                    shfs_arg_int(shfs_namespace_column(namespace)),
	                    shfs_arg_int(p->ppid), parent_start(p),
	                    shfs_arg_int(seen_column(rec)));
}

static int task_get(struct shfs_ingest *ing, const struct shfs_record *rec,
                    int64_t *task_id, bool *fresh)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int64_t seen;
	int r = task_find(ing, rec, &stmt);

	*fresh = !r;
	if (r < 0)
		return r;
	if (!r)
		return task_insert(ing, rec, task_id);
	*task_id = sqlite3_column_int64(stmt, 0);
	seen = sqlite3_column_int64(stmt, 1);
	return seen_column(rec) < seen ? task_update(ing, rec, *task_id)
	                               : task_mark(ing, rec, *task_id);
}

/* Finds the row of a program run; its earliest record counts, in whatever order segments
 * are read. */
static int process_find(struct shfs_ingest *ing, const struct shfs_record *rec,
                        int64_t task_id, int64_t exe, int64_t argv, int64_t cwd,
                        int64_t streams, int64_t environment, int64_t *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT process_id, first_ns FROM process"
	                     " WHERE (process_id = ?1 OR task_id = ?1)"
	                     " AND exe_id = ?2 AND argv_id = ?3",
	                     shfs_arg_int(task_id), shfs_arg_int(exe),
	                     shfs_arg_int(argv));

	if (r <= 0)
		return r;
	*out = sqlite3_column_int64(stmt, 0);
	if (sqlite3_column_int64(stmt, 1) <= rec->time.real_ns)
		return 1;
	return shfs_sql_run(ing->index,
	                    "UPDATE process SET first_ns = ?, cwd_id = ?, streams_id = ?,"
	                    " environment_id = ?, uid = ? WHERE process_id = ?",
	                    shfs_arg_int(rec->time.real_ns), shfs_arg_int(cwd),
	                    shfs_arg_int(streams), shfs_arg_int(environment),
	                    shfs_arg_int(rec->process.uid), shfs_arg_int(*out))
	               ?: 1;
}

/* Puts the name of the tree before the files among the streams. */
static int streams_in_tree(struct shfs_ingest *ing, struct shfs_bytes streams,
                           struct shfs_buf *out)
{
	for (size_t at = 0; at < streams.len;) {
		const char *text = streams.data + at;
		struct shfs_bytes one = { text, strnlen(text, streams.len - at) }, path;
		int r = shfs_path_in_tree(ing, ing->producer.tree, one, &path);

		if (r)
			return r;
		shfs_buf_add(out, path.data, path.len);
		at += one.len + 1;
		if (at <= streams.len)
			shfs_buf_u8(out, 0);
	}
	return out->failed ? -ENOMEM : 0;
}

/* --- files outside of the project --- */

/* May an absolute path be a file outside? */
static bool is_outside(const char *path, const char *root)
{
	return *path == '/' && path[1] && !shfs_path_is_below(path, root) &&
	       !shfs_path_is_system(path);
}

static bool word_is_outside(const char *word, const char *root)
{
	const char *equals = strchr(word, '=');

	if (shfs_ends_with(word, " (deleted)")) /* a here-document */
		return false;
	return is_outside(word, root) || strstr(word, "..") ||
	       (equals && is_outside(equals + 1, root));
}

/* May the arguments or streams of a process name a file outside of the project? Those of
 * another machine are not looked at: nothing here would tell more of its files. */
static bool names_outside(const struct shfs_ingest *ing, const struct shfs_rec_process *p)
{
	const char *root = ing->producer.root.data ?: "";
	_cleanup_buf_ struct shfs_buf words = { 0 };
	size_t first = strnlen(p->argv.data ?: "", p->argv.len) + 1;
	bool found;

	if (*ing->producer.tree)
		return false;
	shfs_buf_add(&words, p->cwd.data, p->cwd.len);
	shfs_buf_u8(&words, 0);
	if (words.failed)
		return true;
	found = first < p->argv.len && !shfs_path_is_below(words.data, root);
	words.len = 0;
	shfs_buf_add(&words, p->streams.data, p->streams.len);
	shfs_buf_u8(&words, 0);
	if (first < p->argv.len)
		shfs_buf_add(&words, p->argv.data + first, p->argv.len - first);
	shfs_buf_u8(&words, 0);
	for (size_t at = 0; at < words.len && !words.failed && !found;
	     at += strlen(words.data + at) + 1)
		found = word_is_outside(words.data + at, root);
	return found || words.failed;
}

/* A program that is a file of the project, of another machine: its name is that of the
 * file. Others are the same everywhere. */
static int program_in_tree(struct shfs_ingest *ing, struct shfs_bytes exe,
                           struct shfs_bytes *out)
{
	const struct shfs_buf *root = &ing->producer.root;
	size_t tree = strlen(ing->producer.tree) + 1,
	       len = root->len - MIN(tree, root->len);

	*out = exe;
	if (!*ing->producer.tree || exe.len <= len ||
	    memcmp(exe.data, root->data + tree, len) != 0 || exe.data[len] != '/')
		return 0;
	return shfs_path_in_tree(ing, ing->producer.tree, exe, out);
}

/* A process that was known has executed another program: what it is, and whose it and its
 * children are, may be another matter now. */
static int note_next_program(struct shfs_ingest *ing, const struct shfs_record *rec,
                             int64_t task_id)
{
	struct shfs_way_step parent = { 0 };
	int64_t known = 0;
	unsigned role;
	int r = shfs_invoker_role(&rec->process, &role);

	if (!r)
		r = shfs_invoker_command_refresh(ing->index, task_id);
	if (!r)
		r = shfs_sql_int(ing->index, &known,
		                 "SELECT role FROM task WHERE task_id = ?",
		                 shfs_arg_int(task_id));
	/* the child of an invoker may have been taken for the invoker itself */
	if (r >= 0)
		r = shfs_task_parent(ing->index, task_id, &parent);
	if (r < 0 || (!(parent.role & SHFS_ROLE_INVOKER) && !(role & ~(unsigned)known)))
		return MIN(r, 0);
	r = shfs_sql_run(ing->index, "UPDATE task SET role = role | ? WHERE task_id = ?",
	                 shfs_arg_int(role), shfs_arg_int(task_id));
	return r ? r : shfs_task_revise_below(ing, task_id);
}

static int process_get(struct shfs_ingest *ing, const struct shfs_record *rec,
                       int64_t task_id, bool is_first, int64_t *out)
{
	const struct shfs_rec_process *p = &rec->process;
	int64_t exe = 0, argv = 0, cwd = 0, streams = 0, environment = 0;
	_cleanup_buf_ struct shfs_buf in_tree_streams = { 0 };
	struct shfs_bytes in_tree;
	int r = program_in_tree(ing, p->exe, &in_tree);

	if (!r)
		r = shfs_string_id(ing, in_tree, &exe);

	if (!r)
		r = shfs_string_id(ing, p->argv, &argv);
	if (!r)
		r = shfs_path_in_tree(ing, ing->producer.tree, p->cwd, &in_tree);
	if (!r)
		r = shfs_string_id(ing, in_tree, &cwd);
	if (!r && *ing->producer.tree)
		r = streams_in_tree(ing, p->streams, &in_tree_streams);
	if (!r)
		r = shfs_string_id(ing,
		                   in_tree_streams.len
		                           ? (struct shfs_bytes){ in_tree_streams.data,
		                                                  in_tree_streams.len }
		                           : p->streams,
		                   &streams);
	if (!r)
		r = shfs_string_id(ing, p->environment, &environment);
	if (!r)
		r = process_find(ing, rec, task_id, exe, argv, cwd, streams, environment,
		                 out);
	if (r > 0 && !is_first)
		r = shfs_invoker_command_refresh(ing->index, task_id) ?: 1;
	if (r)
		return MIN(r, 0);
	r = shfs_sql_run(ing->index,
	                 "INSERT INTO process (process_id, task_id, exe_id, argv_id,"
	                 " cwd_id, streams_id, environment_id, uid, first_ns, outside,"
	                 " accesses) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
	                 shfs_arg_id(is_first ? task_id : 0),
	                 shfs_arg_id(is_first ? 0 : task_id), shfs_arg_int(exe),
	                 shfs_arg_int(argv), shfs_arg_int(cwd), shfs_arg_int(streams),
	                 shfs_arg_int(environment), shfs_arg_int(p->uid),
	                 shfs_arg_int(rec->time.real_ns),
	                 shfs_arg_int(names_outside(ing, p)));
	*out = sqlite3_last_insert_rowid(ing->index->db);
	return r || is_first ? r : note_next_program(ing, rec, task_id);
}

/* --- software --- */

#define SOFTWARE_TEXT_MAX 1024

static bool is_plausible_text(struct shfs_bytes text)
{
	return text.len <= SOFTWARE_TEXT_MAX && !memchr(text.data, 0, text.len);
}

int shfs_program_add(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	const struct shfs_rec_program *p = &rec->program;
	struct shfs_process process;
	struct shfs_bytes path;
	int64_t path_id = 0;
	int r;

	if (!p->path.len || *p->path.data != '/' || p->path.len > PATH_MAX ||
	    memchr(p->path.data, 0, p->path.len) || !is_plausible_text(p->manager) ||
	    !is_plausible_text(p->package) || !is_plausible_text(p->version))
		return SHFS_DROPPED;
	r = shfs_process_find(ing, p->process, &process);
	if (r >= 0)
		r = program_in_tree(ing, p->path, &path);
	if (!r)
		r = shfs_string_id(ing, path, &path_id);
	if (!r)
		r = shfs_sql_run(ing->index,
		                 "INSERT INTO program (boot_id, path_id, since_ns,"
		                 " process_id, size, mtime_ns, phash, manager, package,"
		                 " version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		                 shfs_arg_int(ing->producer.boot_id),
		                 shfs_arg_int(path_id), shfs_arg_int(rec->time.real_ns),
		                 shfs_arg_int(process.process_id),
		                 shfs_arg_int((int64_t)p->content.size),
		                 shfs_arg_int(p->content.mtime_ns),
		                 shfs_arg_int((int64_t)p->content.phash),
		                 shfs_arg_text(p->manager), shfs_arg_text(p->package),
		                 shfs_arg_text(p->version));
	ing->row = sqlite3_last_insert_rowid(ing->index->db);
	return r;
}

/* --- what was looked up --- */

/* Can the list be read to its end, with a possible path in each name? */
static int list_is_plausible(struct shfs_bytes list)
{
	const unsigned char *data = (const unsigned char *)list.data;
	struct shfs_cursor in = { data, data + list.len, false };
	_cleanup_buf_ struct shfs_buf last = { 0 };
	struct shfs_lookup lookup;
	bool plausible = true;

	while (plausible && shfs_lookup_next(&in, &last, &lookup))
		plausible = shfs_is_plausible_path(lookup.path) &&
		            (!lookup.text.len ||
		             !memchr(lookup.text.data, 0, lookup.text.len));
	return last.failed ? -ENOMEM : plausible && !in.failed;
}

int shfs_lookups_add(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	struct shfs_process process;
	int r = list_is_plausible(rec->lookup.list);

	if (r <= 0)
		return r ? r : SHFS_DROPPED;
	r = shfs_process_find(ing, rec->lookup.process, &process);
	if (r >= 0)
		r = shfs_sql_run(ing->index,
		                 "INSERT INTO lookup (producer_id, process_id, list)"
		                 " VALUES (?, ?, ?)",
		                 shfs_arg_int(ing->producer.id),
		                 shfs_arg_int(process.process_id),
		                 shfs_arg_blob(rec->lookup.list));
	ing->row = process.process_id;
	return r;
}

/* --- what processes have used --- */

static struct shfs_arg number(uint64_t n)
{
	return shfs_arg_int((int64_t)MIN(n, (uint64_t)INT64_MAX));
}

int shfs_exit_add(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	const struct shfs_rec_exit *e = &rec->exit;
	struct shfs_process process;
	int r = shfs_process_find(ing, e->process, &process);

	if (r < 0 || !process.task_id)
		return MIN(r, 0);
	ing->row = process.process_id;
	/* two recorders may have seen it, the one less than the other */
	return shfs_sql_run(
		ing->index,
		"INSERT INTO task_exit (task_id, status, user_us, system_us,"
		" max_rss_kib) VALUES (?, ?, ?, ?, ?)"
		" ON CONFLICT DO UPDATE SET status = max(status, excluded.status),"
		" user_us = max(user_us, excluded.user_us),"
		" system_us = max(system_us, excluded.system_us),"
		" max_rss_kib = max(max_rss_kib, excluded.max_rss_kib)",
		shfs_arg_int(process.task_id), shfs_arg_int(e->status),
		number(e->user_us), number(e->system_us), number(e->max_rss_kib));
}

/* --- processes --- */

/* Also keeps the process in the cache, as it is most likely used next. */
int shfs_process_add(struct shfs_ingest *ing, const struct shfs_record *rec)
{
	struct process_key key = { ing->producer.id, rec->seq };
	struct shfs_process process = { 0 };
	struct shfs_process_cache *c;
	bool fresh;
	int r = task_get(ing, rec, &process.task_id, &fresh);

	if (!r)
		r = process_get(ing, rec, process.task_id, fresh, &process.process_id);
	if (!r)
		r = shfs_sql_run(ing->index,
		                 "INSERT INTO process_ref (producer_id, seq, process_id)"
		                 " VALUES (?, ?, ?) ON CONFLICT DO UPDATE"
		                 " SET process_id = excluded.process_id",
		                 shfs_arg_int(ing->producer.id), shfs_arg_int(rec->seq),
		                 shfs_arg_int(process.process_id));
	ing->row = process.process_id;
	return r ? r : cache_add(ing, key, &process, &c);
}

static int process_load(struct shfs_ingest *ing, struct process_key key,
                        struct shfs_process_cache **out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct shfs_process process = { 0 };
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT r.process_id, coalesce(p.task_id, p.process_id)"
	                     " FROM process_ref r"
	                     " JOIN process p USING (process_id)"
	                     " WHERE r.producer_id = ? AND r.seq = ?",
	                     shfs_arg_int(key.producer_id), shfs_arg_int(key.seq));

	if (r <= 0)
		return r;
	process.process_id = sqlite3_column_int64(stmt, 0);
	process.task_id = sqlite3_column_int64(stmt, 1);
	return cache_add(ing, key, &process, out) ?: 1;
}

/* Is the process a producer of this store, so that what it does is done for others? Not
 * shfs restore, which acts for itself. */
static int process_records(struct shfs_ingest *ing, struct shfs_process *process)
{
	int64_t one;
	int r = shfs_sql_int(ing->index, &one,
	                     "SELECT 1 FROM task t JOIN producer p USING (boot_id, pid)"
	                     " WHERE t.task_id = ? AND p.start_ticks = t.start_ticks"
	                     " AND p.pid_namespace = ? AND p.kind <> 'restore' LIMIT 1",
	                     shfs_arg_int(process->task_id),
	                     shfs_arg_int(ing->producer.pid_namespace));

	process->records = r > 0;
	return MIN(r, 0);
}

/*
 * Attributes a process at its first use, when all its ancestors are recorded.
 */
static int process_attribute(struct shfs_ingest *ing, struct shfs_process_cache *c)
{
	int r = shfs_task_owner(ing->index, c->process.task_id, &c->process.owner);

	if (!r)
		r = process_records(ing, &c->process);
	if (!r)
		r = shfs_owner_set_of_task(ing->index, c->process.task_id,
		                           &c->process.owner);
	c->owned = !r;
	return r;
}

int shfs_process_find(struct shfs_ingest *ing, uint64_t seq, struct shfs_process *out)
{
	struct process_key key = { ing->producer.id, seq };
	struct shfs_process_cache *c = ing->proc;
	int r = 1;

	*out = (struct shfs_process){ 0 };
	if (!seq)
		return 0;
	if (!c || memcmp(&c->key, &key, sizeof(key)) != 0)
		HASH_FIND(hh, ing->procs, &key, sizeof(key), c);
	if (!c)
		r = process_load(ing, key, &c);
	if (r > 0 && !c->owned)
		r = process_attribute(ing, c) ?: 1;
	if (r > 0) {
		ing->proc = c;
		*out = c->process;
	}
	return r;
}

int shfs_process_owner(struct shfs_ingest *ing, const struct shfs_process *process,
                       uint64_t boot_ns, int64_t late_ns, struct shfs_owner *out)
{
	*out = process->owner;
	if (!process->owner.shell)
		return 0;
	return shfs_shell_owner(ing->index, process->task_id, process->owner.session_id,
	                        shfs_sane_ns(boot_ns), late_ns, out);
}
