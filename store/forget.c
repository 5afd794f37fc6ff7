/* SPDX-License-Identifier: MIT */
/* What goes: from rows of the index back to the records that they were made of. */
#include "store/forget.h"

#include "common/io.h"
#include "store/collect.h"
#include "store/hooklog.h"
#include "store/index-internal.h"
#include "store/journal.h"
#include "store/rewrite.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct shfs_forget {
	struct shfs_store *store; /* borrowed */
	char *hook_dir;
	bool alone;
	struct shfs_draft *draft;
	struct shfs_index *index; /* of the draft */
	struct shfs_trace trace;

	/* Ids; sorted, once all are there. */
	struct shfs_ids commands, processes, accesses, versions, files;
	/* Keys of paths, and of contents at their paths, that go. */
	struct shfs_ids paths, contents;

	struct shfs_objects objects; /* that records which go or change had */
	struct shfs_ids known; /* keys of contents with one of these, in what stays */
	bool *named;           /* by what stays; one for each object */
	bool *changed;         /* one for each file of the trace */
};

/* --- sets of numbers --- */

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void sort(struct shfs_ids *list)
{
	size_t n = 0;

	if (!list->n)
		return;
	qsort(list->ids, list->n, sizeof(*list->ids), compare);
	for (size_t i = 0; i < list->n; i++)
		if (!n || list->ids[i] != list->ids[n - 1])
			list->ids[n++] = list->ids[i];
	list->n = n;
}

static bool has(const struct shfs_ids *list, int64_t id)
{
	return list->n && bsearch(&id, list->ids, list->n, sizeof(id), compare);
}

/* The first column of all rows. */
#define add_rows(f, out, sql, ...) add_rows_args(f, out, sql, SHFS_ARGS(__VA_ARGS__))
static int add_rows_args(struct shfs_forget *f, struct shfs_ids *out, const char *sql,
                         const struct shfs_arg *args, size_t n)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(f->index, &stmt, sql, args, n);

	while (r > 0) {
		r = shfs_ids_add(out, sqlite3_column_int64(stmt, 0));
		if (!r)
			r = shfs_sql_next(f->index, stmt);
	}
	return r;
}

/* --- what is told --- */

int shfs_forget_add(struct shfs_forget *f, enum shfs_forget_kind kind, int64_t id)
{
	struct shfs_ids *lists[] = {
		[SHFS_FORGET_COMMAND] = &f->commands,
		[SHFS_FORGET_PROCESS] = &f->processes,
		[SHFS_FORGET_ACCESS] = &f->accesses,
		[SHFS_FORGET_VERSION] = &f->versions,
		[SHFS_FORGET_FILE] = &f->files,
	};

	return shfs_ids_add(lists[kind], id);
}

/* --- what goes with it --- */

/* Of a command: also the version that it made. What it only renamed was made before. */
static int note_access(const struct shfs_access *a, void *arg)
{
	struct shfs_forget *f = arg;
	struct shfs_version_look look;
	int r = shfs_ids_add(&f->accesses, a->access_id);

	if (r || !a->made_n || !shfs_access_is_written(a))
		return r;
	r = shfs_version_look(f->index, a->file_id, a->made_n, &look);
	if (r > 0 && look.access_id == a->access_id)
		return shfs_ids_add(&f->versions, shfs_version_id(a->file_id, a->made_n));
	return MIN(r, 0);
}

static int add_commands(struct shfs_forget *f)
{
	int r = 0;

	for (size_t i = 0; i < f->processes.n && !r; i++)
		r = shfs_accesses_of_nobody(f->index, f->processes.ids[i], note_access,
		                            f);
	for (size_t i = 0; i < f->commands.n && !r; i++) {
		int64_t id = f->commands.ids[i];

		r = shfs_accesses_of_command(f->index, id, note_access, f);
		if (!r)
			r = add_rows(f, &f->processes,
			             "SELECT p.process_id FROM task t JOIN process p"
			             " ON p.process_id = t.task_id OR p.task_id = "
			             "t.task_id"
			             " WHERE t.command_id = ? AND NOT t.shell",
			             shfs_arg_int(id));
	}
	return r;
}

static int add_uses(struct shfs_forget *f, int64_t file_id)
{
	struct shfs_arg id = shfs_arg_int(file_id);
	int r = add_rows(f, &f->accesses,
	                 "SELECT access_id FROM access WHERE file_id = ? AND op < 100",
	                 id);

	return r ? r
	         : add_rows(
			   f, &f->accesses,
			   "SELECT access_id FROM access WHERE file2_id = ? AND op < 100",
			   id);
}

/* What it was before it came to this path by a rename, and who used it there. */
static int add_past(struct shfs_forget *f, int64_t file_id)
{
	_cleanup_ids_ struct shfs_ids past = { 0 };
	int r = add_rows(f, &past,
	                 "WITH RECURSIVE past(id) AS (SELECT origin_version_id"
	                 " FROM version WHERE file_id = ? AND version_source(data) >= 16"
	                 " UNION SELECT v.origin_version_id FROM past"
	                 " JOIN version v ON v.file_id = past.id >> 32"
	                 " AND v.n = past.id & 4294967295"
	                 " AND version_source(v.data) >= 16)"
	                 " SELECT id FROM past WHERE id IS NOT NULL",
	                 shfs_arg_int(file_id));

	for (size_t i = 0; i < past.n && !r; i++) {
		r = shfs_ids_add(&f->versions, past.ids[i]);
		if (!r)
			r = add_rows(
				f, &f->accesses,
				"SELECT access_id FROM access WHERE file_id = ?1 >> 32"
				" AND op < 100 AND (seen_n = ?1 & 4294967295"
				" OR file2_id IS NULL AND made_n = ?1 & 4294967295)",
				shfs_arg_int(past.ids[i]));
	}
	return r;
}

static int add_files(struct shfs_forget *f)
{
	int r = 0;

	for (size_t i = 0; i < f->files.n && !r; i++) {
		r = add_uses(f, f->files.ids[i]);
		if (!r)
			r = add_rows(f, &f->versions,
			             "SELECT file_id << 32 | n FROM version"
			             " WHERE file_id = ?1",
			             shfs_arg_int(f->files.ids[i]));
		if (!r)
			r = add_past(f, f->files.ids[i]);
	}
	return r;
}

/* What is the same content by a rename or a link. */
static int add_copies(struct shfs_forget *f)
{
	size_t n = f->versions.n;
	int r = 0;

	for (size_t i = 0; i < n && !r; i++)
		r = add_rows(f, &f->versions,
		             "WITH RECURSIVE copy(id) AS (VALUES (?) UNION"
		             " SELECT v.file_id << 32 | v.n FROM copy JOIN version v"
		             " ON v.origin_version_id = copy.id) SELECT id FROM copy",
		             shfs_arg_int(f->versions.ids[i]));
	return r;
}

static int64_t key_of_path(struct shfs_bytes path)
{
	return (int64_t)shfs_object_hash64(path.data, path.len);
}

/* A content of a path: by its object; one without, by what else is known of it. */
static int64_t key_of_content(struct shfs_bytes path, const struct shfs_content *c)
{
	struct {
		int64_t path;
		uint8_t object[20];
		uint32_t archived;
		uint64_t size;
		int64_t mtime_ns;
	} key = { .path = key_of_path(path) };

	key.archived = c->flags & SHFS_CONTENT_OBJECT;
	if (key.archived) {
		shfs_object_pack(&c->object, key.object);
	} else {
		key.size = c->size;
		key.mtime_ns = c->mtime_ns;
	}
	return (int64_t)shfs_object_hash64(&key, sizeof(key));
}

static int row_key(sqlite3_stmt *stmt, int64_t *key)
{
	struct shfs_bytes path = { (const char *)sqlite3_column_text(stmt, 0),
		                   sqlite3_column_bytes(stmt, 0) };
	struct shfs_version_row row;
	int r = shfs_version_unpack(sqlite3_column_blob(stmt, 2),
	                            sqlite3_column_bytes(stmt, 2), &row);

	if (r)
		return r;
	row.content.flags &= ~SHFS_CONTENT_OBJECT;
	if (!shfs_object_unpack(sqlite3_column_blob(stmt, 3),
	                        sqlite3_column_bytes(stmt, 3), &row.content.object))
		row.content.flags |= SHFS_CONTENT_OBJECT;
	*key = key_of_content(path, &row.content);
	return 0;
}

/* The keys of a file's versions: of those that go, and of those that stay. */
static int file_keys(struct shfs_forget *f, int64_t file_id, struct shfs_ids *stay)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(f->index, &stmt,
	                     "SELECT d.path || '/' || f.name, v.n, v.data, v.object"
	                     " FROM version v JOIN file f USING (file_id)"
	                     " JOIN directory d USING (directory_id)"
	                     " WHERE v.file_id = ?",
	                     shfs_arg_int(file_id));

	for (; r > 0; r = shfs_sql_next(f->index, stmt)) {
		int64_t id = shfs_version_id(file_id, sqlite3_column_int64(stmt, 1)), key;

		r = row_key(stmt, &key);
		if (!r)
			r = shfs_ids_add(has(&f->versions, id) ? &f->contents : stay,
			                 key);
		if (r)
			return r;
	}
	return r;
}

static int content_keys(struct shfs_forget *f)
{
	_cleanup_ids_ struct shfs_ids stay = { 0 };
	int64_t last = 0;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < f->versions.n && !r; i++) {
		int64_t file_id = f->versions.ids[i] >> 32;

		if (i && file_id == last)
			continue;
		last = file_id;
		r = file_keys(f, file_id, &stay);
	}
	sort(&f->contents);
	sort(&stay);
	for (size_t i = 0; i < f->contents.n; i++)
		if (!has(&stay, f->contents.ids[i]))
			f->contents.ids[n++] = f->contents.ids[i];
	f->contents.n = n;
	return r;
}

static int note_path(int64_t file_id, const char *path, void *arg)
{
	struct shfs_forget *f = arg;

	return shfs_ids_add(&f->paths, key_of_path(shfs_bytes_str(path)));
}

static int complete(struct shfs_forget *f)
{
	int r;

	sort(&f->commands);
	sort(&f->processes);
	sort(&f->files);
	r = add_commands(f);
	if (!r)
		r = add_files(f);
	if (!r)
		r = add_copies(f);
	sort(&f->processes);
	sort(&f->accesses);
	sort(&f->versions);
	if (!r)
		r = content_keys(f);
	if (!r)
		r = shfs_paths_of(f->index, f->files.ids, f->files.n, note_path, f);
	sort(&f->paths);
	return r;
}

/* --- records --- */

enum verdict {
	KEEP,
	CHANGE,
	DROP,
	RESCUE, /* as a PREIMAGE: what the file held, which nobody else tells */
};

struct key {
	int64_t value;
	UT_hash_handle hh;
};

/* 1: it is new. */
static int key_add(struct key **set, int64_t value)
{
	struct key *key;

	HASH_FIND(hh, *set, &value, sizeof(value), key);
	if (key)
		return 0;
	key = calloc(1, sizeof(*key));
	if (!key)
		return -ENOMEM;
	key->value = value;
	HASH_ADD(hh, *set, value, sizeof(value), key);
	if (key->hh.tbl)
		return 1;
	free(key);
	return -ENOMEM;
}

static void keys_free(struct key **set)
{
	struct key *key, *next;

	HASH_ITER (hh, *set, key, next) {
		HASH_DEL(*set, key);
		free(key);
	}
}

/* A segment while it is read. */
struct reading {
	struct shfs_forget *f;
	struct shfs_bytes root;
	struct shfs_buf path, path2; /* of the record */
	int64_t row;                 /* that it led to */
	struct key *rescued;         /* contents at their paths */
	bool failed;                 /* no memory */
};

static void absolute(const struct reading *s, struct shfs_bytes rel, struct shfs_buf *out)
{
	out->len = 0;
	shfs_buf_add(out, s->root.data, s->root.len);
	if (rel.len && s->root.len > 1)
		shfs_buf_char(out, '/');
	shfs_buf_add(out, rel.data, rel.len);
}

static struct shfs_bytes bytes_of(const struct shfs_buf *b)
{
	return (struct shfs_bytes){ b->data ? b->data : "", b->len };
}

static bool is_path_op(const struct shfs_record *rec)
{
	return rec->type == SHFS_REC_PATHOP && rec->pathop.op >= SHFS_OP_RENAME &&
	       rec->pathop.op <= SHFS_OP_LINK;
}

static void read_paths(struct reading *s, const struct shfs_record *rec)
{
	s->path.len = s->path2.len = 0;
	if (rec->type == SHFS_REC_ACCESS)
		absolute(s, rec->access.path, &s->path);
	else if (rec->type == SHFS_REC_PREIMAGE)
		absolute(s, rec->preimage.path, &s->path);
	else if (rec->type == SHFS_REC_PATHOP)
		absolute(s, rec->pathop.path, &s->path);
	if (is_path_op(rec))
		absolute(s, rec->pathop.path2, &s->path2);
}

static bool content_goes(const struct reading *s, const struct shfs_content *c)
{
	const struct shfs_ids *gone = &s->f->contents;

	return c->flags & SHFS_CONTENT_KNOWN &&
	       (has(gone, key_of_content(bytes_of(&s->path), c)) ||
	        (s->path2.len && has(gone, key_of_content(bytes_of(&s->path2), c))));
}

static bool path_goes(const struct reading *s)
{
	return has(&s->f->paths, key_of_path(bytes_of(&s->path))) ||
	       (s->path2.len && has(&s->f->paths, key_of_path(bytes_of(&s->path2))));
}

static size_t object_place(const struct shfs_forget *f, const struct shfs_content *c)
{
	return c->flags & SHFS_CONTENT_OBJECT ? shfs_objects_find(&f->objects, &c->object)
	                                      : SIZE_MAX;
}

/* The content that a file held before the record's change, and where. */
static const struct shfs_content *held_before(const struct reading *s,
                                              const struct shfs_record *rec,
                                              struct shfs_bytes *path)
{
	const struct shfs_rec_pathop *op = &rec->pathop;
	const struct shfs_content *c = NULL;

	*path = rec->type == SHFS_REC_ACCESS ? rec->access.path : op->path;
	if (rec->type == SHFS_REC_ACCESS && rec->access.flags & SHFS_ACCESS_READ) {
		c = &rec->access.seen;
	} else if (rec->type == SHFS_REC_PATHOP &&
	           op->victim.flags & SHFS_CONTENT_OBJECT) {
		c = &op->victim;
		if (op->op != SHFS_OP_UNLINK)
			*path = op->path2;
	} else if (is_path_op(rec)) {
		c = &op->content;
	}
	return c && c->flags & SHFS_CONTENT_OBJECT && !content_goes(s, c) ? c : NULL;
}

/* Of a record that goes. With known: those that stay have been asked. */
static enum verdict drop(struct reading *s, struct shfs_record *rec, bool known)
{
	struct shfs_content content;
	struct shfs_bytes path;
	const struct shfs_content *c;
	int64_t key;
	int fresh;

	c = path_goes(s) ? NULL : held_before(s, rec, &path);
	if (!c || !known)
		return DROP;
	content = *c;
	content.flags &= ~SHFS_CONTENT_LINKED; /* its inode may be another's */
	absolute(s, path, &s->path);
	key = key_of_content(bytes_of(&s->path), &content);
	if (has(&s->f->known, key))
		return DROP;
	fresh = key_add(&s->rescued, key);
	s->failed |= fresh < 0;
	if (fresh <= 0)
		return DROP;
	rec->type = SHFS_REC_PREIMAGE;
	rec->preimage = (struct shfs_rec_preimage){ .path = path, .content = content };
	return RESCUE;
}

static enum verdict judge(struct reading *s, struct shfs_record *rec, bool known)
{
	struct shfs_content *contents[3];
	enum verdict v = KEEP;

	if (rec->type == SHFS_REC_PROCESS)
		return s->row && has(&s->f->processes, s->row) ? DROP : KEEP;
	read_paths(s, rec);
	if (rec->type == SHFS_REC_PREIMAGE)
		return path_goes(s) || content_goes(s, &rec->preimage.content) ? DROP
		                                                               : KEEP;
	if (rec->type != SHFS_REC_ACCESS && rec->type != SHFS_REC_PATHOP)
		return KEEP;
	if (s->row && has(&s->f->accesses, s->row))
		return drop(s, rec, known);
	shfs_record_contents(rec, contents);
	for (int i = 0; contents[i]; i++)
		if (content_goes(s, contents[i])) {
			*contents[i] = (struct shfs_content){ 0 };
			v = CHANGE;
		}
	return v;
}

/* --- segments --- */

/* Called for each record with what is to become of it; rec is as it will be. */
typedef int (*record_fn)(struct reading *s, size_t file, struct shfs_record *rec,
                         enum verdict verdict, const struct shfs_record *was, void *arg);

static int read_file(struct shfs_forget *f, size_t file, bool known, record_fn fn,
                     void *arg)
{
	const struct shfs_trace_file *t = &f->trace.list[file];
	_cleanup_close_ int dirfd = forget_open_host(f->store, t->host);
	struct reading s = { .f = f };
	struct shfs_segment *segment;
	struct shfs_record rec;
	int r = dirfd < 0 ? dirfd : forget_open_segment(dirfd, t->name, &segment);

	if (r)
		return MIN(r, 0);
	s.root = shfs_segment_producer(segment)->root;
	for (size_t i = 0; (r = shfs_segment_next(segment, &rec)) > 0; i++) {
		struct shfs_record was = rec;
		enum verdict v;

		s.row = i < t->rows.n ? t->rows.ids[i] : 0;
		v = judge(&s, &rec, known);
		r = s.path.failed || s.path2.failed || s.failed
		            ? -ENOMEM
		            : fn(&s, file, &rec, v, &was, arg);
		if (r)
			break;
	}
	shfs_segment_close(segment);
	shfs_buf_free(&s.path);
	shfs_buf_free(&s.path2);
	keys_free(&s.rescued);
	return r;
}

/* changed: only those that change. */
static int read_files(struct shfs_forget *f, bool changed, bool known, record_fn fn,
                      void *arg)
{
	int r = 0;

	for (size_t i = 0; i < f->trace.n && !r; i++)
		if (!f->trace.list[i].hook_log && (!changed || f->changed[i]))
			r = read_file(f, i, known, fn, arg);
	return r;
}

/* First: which segments change, and which objects may go. */
static int find_changes(struct reading *s, size_t file, struct shfs_record *rec,
                        enum verdict verdict, const struct shfs_record *was, void *arg)
{
	struct shfs_record copy = *was;

	if (verdict == KEEP)
		return 0;
	s->f->changed[file] = true;
	return shfs_objects_add_of(&s->f->objects, &copy);
}

/* Then: which of these objects, and at which paths, are told by what stays. */
static int find_known(struct reading *s, size_t file, struct shfs_record *rec,
                      enum verdict verdict, const struct shfs_record *was, void *arg)
{
	struct shfs_content *contents[3];
	int r = 0;

	if (verdict == DROP)
		return 0;
	shfs_record_contents(rec, contents);
	for (int i = 0; contents[i] && !r; i++) {
		size_t place = object_place(s->f, contents[i]);

		if (place == SIZE_MAX)
			continue;
		s->f->named[place] = true;
		r = shfs_ids_add(&s->f->known,
		                 key_of_content(bytes_of(&s->path), contents[i]));
		if (!r && s->path2.len)
			r = shfs_ids_add(&s->f->known, key_of_content(bytes_of(&s->path2),
			                                              contents[i]));
	}
	return r;
}

/* At last, of those that change: what becomes of them. */
static int find_rescued(struct reading *s, size_t file, struct shfs_record *rec,
                        enum verdict verdict, const struct shfs_record *was, void *arg)
{
	size_t place =
		verdict == RESCUE ? object_place(s->f, &rec->preimage.content) : SIZE_MAX;

	if (place != SIZE_MAX)
		s->f->named[place] = true;
	return 0;
}

static int write_record(struct reading *s, size_t file, struct shfs_record *rec,
                        enum verdict verdict, const struct shfs_record *was, void *arg)
{
	if (rec->type == SHFS_REC_PRODUCER)
		rec->producer.version = SHFS_RECORD_VERSION;
	return verdict == DROP ? 0 : shfs_rewrite_add(arg, rec);
}

static int read_journal(struct shfs_forget *f)
{
	size_t n = 0;
	int r;

	f->changed = calloc(f->trace.n + 1, sizeof(*f->changed));
	if (!f->changed)
		return -ENOMEM;
	r = read_files(f, false, false, find_changes, NULL);
	shfs_objects_sort(&f->objects);
	f->named = calloc(f->objects.n + 1, sizeof(*f->named));
	if (!f->named)
		return -ENOMEM;
	if (!r && f->objects.n)
		r = read_files(f, false, false, find_known, NULL);
	sort(&f->known);
	if (!r && f->objects.n)
		r = read_files(f, true, true, find_rescued, NULL);
	for (size_t i = 0; i < f->objects.n; i++)
		if (!f->named[i])
			f->objects.ids[n++] = f->objects.ids[i];
	f->objects.n = n;
	return r;
}

int shfs_forget_measure(struct shfs_forget *f, struct shfs_forget_stats *out)
{
	struct shfs_forget_stats stats = { 0 };
	int r = complete(f);

	if (!r)
		r = read_journal(f);
	if (!r)
		r = shfs_objects_measure(f->store, f->objects.ids, f->objects.n,
		                         &stats.bytes);
	stats.commands = f->commands.n;
	stats.accesses = f->accesses.n;
	stats.versions = f->versions.n;
	stats.objects = f->objects.n;
	if (!r)
		*out = stats;
	return r;
}

/* --- doing it --- */

struct damage {
	struct shfs_store *store;
	char file[400];
};

static void tell_damage(void *arg, uint64_t from, uint64_t to)
{
	const struct damage *d = arg;

	d->store->on_dropped(d->store, d->file, from, to);
}

/* Of a segment that is written anew: what is no record goes with it. */
static int tell_dropped(struct shfs_store *store, int dirfd,
                        const struct shfs_trace_file *t)
{
	struct damage d = { .store = store };
	struct shfs_segment *segment;
	struct shfs_record rec;
	uint64_t at, bytes;
	int r = store->on_dropped ? forget_open_segment(dirfd, t->name, &segment) : 1;

	if (r)
		return MIN(r, 0);
	snprintf(d.file, sizeof(d.file), "journal/%s/%s", t->host, t->name);
	shfs_segment_on_damage(segment, tell_damage, &d);
	while ((r = shfs_segment_next(segment, &rec)) > 0)
		;
	at = shfs_segment_offset(segment);
	if (!r && shfs_segment_tail(segment, &bytes) == SHFS_TAIL_DAMAGED)
		tell_damage(&d, at, at + bytes);
	shfs_segment_close(segment);
	return r;
}

static int write_segments(struct shfs_forget *f, struct shfs_buf *plan)
{
	int r = 0;

	for (size_t i = 0; i < f->trace.n && !r; i++) {
		const struct shfs_trace_file *t = &f->trace.list[i];
		_cleanup_close_ int dirfd = -1;
		struct shfs_rewrite *w = NULL;

		if (!f->changed[i])
			continue;
		dirfd = forget_open_host(f->store, t->host);
		r = dirfd < 0 ? dirfd : tell_dropped(f->store, dirfd, t);
		if (!r)
			r = shfs_rewrite_new(&w);
		if (!r)
			r = read_file(f, i, true, write_record, w);
		if (!r)
			r = shfs_rewrite_save(w, dirfd, t->name);
		shfs_rewrite_free(w);
		forget_plan_segment(plan, t->host, t->name);
	}
	return r;
}

/* The commands in a hook log: their begins, and the ends that belong to these. */
static int find_blanks(struct shfs_forget *f, const struct shfs_trace_file *t,
                       struct shfs_hooklog *log,
                       void (*fn)(const struct shfs_trace_file *t, uint64_t offset,
                                  uint64_t len, struct shfs_buf *out),
                       struct shfs_buf *out)
{
	struct shfs_record rec;
	uint64_t number = 0;
	bool goes = false;
	int r;

	for (size_t i = 0; (r = shfs_hooklog_next(log, &rec)) > 0; i++) {
		if (rec.type == SHFS_REC_BEGIN) {
			goes = i < t->rows.n && has(&f->commands, t->rows.ids[i]);
			number = rec.begin.number;
		}
		if (goes && (rec.type == SHFS_REC_BEGIN || (rec.type == SHFS_REC_FINISH &&
		                                            rec.finish.number == number)))
			fn(t, shfs_hooklog_begin(log),
			   shfs_hooklog_offset(log) - shfs_hooklog_begin(log), out);
	}
	return r;
}

static void plan_blank(const struct shfs_trace_file *t, uint64_t offset, uint64_t len,
                       struct shfs_buf *plan)
{
	forget_plan_blank(plan, t->host, t->name, offset, len);
}

static int plan_blanks(struct shfs_forget *f, const struct shfs_trace_file *t,
                       struct shfs_buf *plan)
{
	_cleanup_close_ int dirfd = forget_open_host(f->store, t->host);
	struct shfs_hooklog *log;
	int r = dirfd < 0 ? dirfd : shfs_hooklog_open(dirfd, t->name, 0, &log);

	if (r)
		return r;
	r = find_blanks(f, t, log, plan_blank, plan);
	shfs_hooklog_close(log);
	return r;
}

int shfs_forget_run(struct shfs_forget *f)
{
	_cleanup_buf_ struct shfs_buf plan = { 0 };
	int r;

	if (!f->alone || !f->changed)
		return -EINVAL;
	r = write_segments(f, &plan);
	for (size_t i = 0; i < f->trace.n && !r && f->commands.n; i++)
		if (f->trace.list[i].hook_log)
			r = plan_blanks(f, &f->trace.list[i], &plan);
	for (size_t i = 0; i < f->objects.n; i++)
		forget_plan_object(&plan, &f->objects.ids[i]);
	if (r)
		return r;
	/* The index is made again beside the other, too. */
	shfs_draft_close(TAKE_PTR(f->draft));
	return forget_plan_run(f->store, f->hook_dir, &plan);
}

/* --- handing out the rest --- */

struct handing_out {
	struct shfs_rewrite *segment;
	bool has_files; /* the segment tells of some */
	struct shfs_objects objects;
};

static int hand_out_record(struct reading *s, size_t file, struct shfs_record *rec,
                           enum verdict verdict, const struct shfs_record *was, void *arg)
{
	struct handing_out *h = arg;
	int r = write_record(s, file, rec, verdict, was, h->segment);

	if (r || verdict == DROP)
		return r;
	h->has_files |= rec->type == SHFS_REC_ACCESS || rec->type == SHFS_REC_PREIMAGE ||
	                rec->type == SHFS_REC_PATHOP;
	return shfs_objects_add_of(&h->objects, rec);
}

static int hand_out_segment(struct shfs_forget *f, size_t file, struct handing_out *h,
                            const struct shfs_handed_out *to)
{
	const struct shfs_trace_file *t = &f->trace.list[file];
	const struct shfs_buf *bytes;
	int r = shfs_rewrite_new(&h->segment);

	if (r)
		return r;
	h->has_files = false;
	r = read_file(f, file, true, hand_out_record, h);
	bytes = shfs_rewrite_bytes(h->segment);
	if (!r && !bytes)
		r = -ENOMEM;
	if (!r && (h->has_files || !f->changed[file]))
		r = to->file(t->host, t->name, bytes, to->arg);
	shfs_rewrite_free(h->segment);
	return r;
}

static void blank_out(const struct shfs_trace_file *t, uint64_t offset, uint64_t len,
                      struct shfs_buf *text)
{
	shfs_hooklog_blank(text->data + offset, len);
}

static int hand_out_log(struct shfs_forget *f, const struct shfs_trace_file *t,
                        const struct shfs_handed_out *to)
{
	_cleanup_close_ int dirfd = forget_open_host(f->store, t->host);
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_hooklog *log;
	int r = dirfd < 0 ? dirfd : shfs_read_file_at(dirfd, t->name, INT32_MAX, &text);

	if (!r)
		r = shfs_hooklog_from_memory(text.data, text.len, &log);
	if (r)
		return r;
	r = find_blanks(f, t, log, blank_out, &text);
	shfs_hooklog_close(log);
	return r ? r : to->file(t->host, t->name, &text, to->arg);
}

static int hand_out_objects(struct handing_out *h, const struct shfs_handed_out *to)
{
	int r = 0;

	shfs_objects_sort(&h->objects);
	for (size_t i = 0; i < h->objects.n && !r; i++)
		r = to->object(&h->objects.ids[i], to->arg);
	return r;
}

int shfs_forget_hand_out(struct shfs_forget *f, const struct shfs_handed_out *to)
{
	struct handing_out h = { 0 };
	int r = 0;

	for (size_t i = 0; i < f->trace.n && !r; i++)
		r = f->trace.list[i].hook_log ? hand_out_log(f, &f->trace.list[i], to)
		                              : hand_out_segment(f, i, &h, to);
	if (!r)
		r = hand_out_objects(&h, to);
	shfs_objects_free(&h.objects);
	return r;
}

/* --- begin and end --- */

struct shfs_index *shfs_forget_index(struct shfs_forget *f)
{
	return f->index;
}

static void free_lists(struct shfs_forget *f)
{
	struct shfs_ids *lists[] = { &f->commands, &f->processes, &f->accesses,
		                     &f->versions, &f->files,     &f->paths,
		                     &f->contents, &f->known };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		shfs_ids_free(lists[i]);
}

void shfs_forget_close(struct shfs_forget *f)
{
	if (!f)
		return;
	shfs_draft_close(f->draft);
	shfs_trace_free(&f->trace);
	free_lists(f);
	shfs_objects_free(&f->objects);
	free(f->named);
	free(f->changed);
	free(f->hook_dir);
	free(f);
}

int shfs_forget_open(struct shfs_store *store, const char *hook_dir, bool alone,
                     struct shfs_forget **out)
{
	struct shfs_forget *f = calloc(1, sizeof(*f));
	int r = 0;

	if (!f)
		return -ENOMEM;
	f->store = store;
	f->alone = alone;
	if (hook_dir && !(f->hook_dir = strdup(hook_dir)))
		r = -ENOMEM;
	if (!r && alone)
		r = shfs_store_exclude(store);
	if (!r && alone)
		r = forget_plan_clear(store);
	if (!r)
		r = shfs_draft_open(store, hook_dir, &f->trace, NULL, &f->draft);
	if (r) {
		shfs_forget_close(f);
		return r;
	}
	f->index = shfs_draft_index(f->draft);
	*out = f;
	return 0;
}
