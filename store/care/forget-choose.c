/* SPDX-License-Identifier: MIT */
/* Chooses the rows to forget: those that were given, and all that belong to them. */
#include "store/care/forget-choose.h"

#include <stdlib.h>
#include <string.h>

/* Adds the first column of all rows. */
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

/* --- given rows --- */

int shfs_forget_add(struct shfs_forget *f, enum shfs_forget_kind kind, int64_t id)
{
	struct shfs_ids *lists[] = {
		[SHFS_FORGET_COMMAND] = &f->commands,
		[SHFS_FORGET_PROCESS] = &f->processes,
		[SHFS_FORGET_ACCESS] = &f->accesses,
		[SHFS_FORGET_VERSION] = &f->versions,
		[SHFS_FORGET_FILE] = &f->files,
		[SHFS_FORGET_NOTE] = &f->notes,
	};

	return shfs_ids_add(lists[kind], id);
}

/* --- rows that belong to them --- */

/* Adds an access of a command, and the version that the access made; not one that it only
 * renamed. */
static int note_access(const struct shfs_access *a, void *arg)
{
	struct shfs_forget *f = arg;
	struct shfs_version_fact made;
	int64_t version_id = shfs_version_id(a->file_id, a->made_n);
	int r = shfs_ids_add(&f->accesses, a->access_id);

	if (r || !a->made_n || !shfs_access_is_written(a))
		return r;
	r = shfs_version_look(f->index, version_id, &made);
	if (r > 0 && made.access_id == a->access_id)
		return shfs_ids_add(&f->versions, version_id);
	return MIN(r, 0);
}

/* The processes of the shfs run or record that ran it: the one whose session has this
 * command alone, and its parents with the same arguments, which say the text. */
#define RUN_OF_COMMAND                                                                   \
	"WITH RECURSIVE run(process_id, argv_id, boot_id, ppid, parent_start) AS ("      \
	"SELECT p.process_id, p.argv_id, t.boot_id, t.ppid,"                             \
	" t.start_ticks - t.parent_start_ticks FROM command c"                           \
	" JOIN session s USING (session_id) JOIN task t ON t.boot_id = s.boot_id"        \
	" AND t.pid = s.pid AND t.start_ticks = s.start_ticks"                           \
	" JOIN process p ON p.process_id = t.task_id OR p.task_id = t.task_id"           \
	" WHERE c.command_id = ? AND s.shell = 'run'"                                    \
	" UNION SELECT p.process_id, p.argv_id, t.boot_id, t.ppid,"                      \
	" t.start_ticks - t.parent_start_ticks FROM run r JOIN task t"                   \
	" ON t.boot_id = r.boot_id AND t.start_ticks = r.parent_start"                   \
	" AND t.pid = r.ppid"                                                            \
	" JOIN process p ON (p.process_id = t.task_id OR p.task_id = t.task_id)"         \
	" AND p.argv_id = r.argv_id)"                                                    \
	" SELECT process_id FROM run"

static int add_uses_of_commands(struct shfs_forget *f)
{
	int r = 0;

	for (size_t i = 0; i < f->commands.n && !r; i++) {
		int64_t id = f->commands.ids[i];

		r = shfs_accesses_of_command(f->index, id, note_access, f);
		if (!r)
			r = shfs_owner_processes(f->index, id, &f->processes);
		if (!r)
			r = add_rows(f, &f->processes, RUN_OF_COMMAND, shfs_arg_int(id));
	}
	return r;
}

static int add_accesses_of_file(struct shfs_forget *f, int64_t file_id)
{
	struct shfs_arg id = shfs_arg_int(file_id);
	int r = add_rows(f, &f->accesses,
	                 "SELECT access_id FROM access WHERE file_id = ? AND is_shown",
	                 id);

	return r ? r
	         : add_rows(
			   f, &f->accesses,
			   "SELECT access_id FROM access WHERE file2_id = ? AND is_shown",
			   id);
}

/* Adds the accesses that used one version. */
static int add_uses_of(struct shfs_forget *f, int64_t version_id)
{
	return add_rows(f, &f->accesses,
	                "SELECT access_id FROM access WHERE file_id = ?1 >> 32"
	                " AND is_shown AND (seen_n = ?1 & 4294967295"
	                " OR file2_id IS NULL AND made_n = ?1 & 4294967295)",
	                shfs_arg_int(version_id));
}

/*
 * Adds what the file was before it came to this path by a rename or link (say, an
 * editor's temporary file), and the accesses of it there. That is: the version that came,
 * and those that the same file held at the other path before, back to where another file
 * left that path or came to it. A file that was only linked and still exists there keeps
 * its past.
 */
static int add_past_of_file(struct shfs_forget *f, int64_t file_id)
{
	_cleanup_ids_ struct shfs_ids past = { 0 };
	int r = add_rows(
		f, &past,
		"WITH RECURSIVE past(id, moved) AS (SELECT origin_version_id,"
		" version_source(data) = 'renamed' FROM version WHERE file_id = ?"
		" AND origin_version_id IS NOT NULL UNION SELECT"
		" v.origin_version_id, version_source(v.data) = 'renamed' FROM past"
		" JOIN version v ON v.file_id = past.id >> 32"
		" AND v.n = past.id & 4294967295"
		" WHERE v.origin_version_id IS NOT NULL"
		" UNION SELECT past.id - 1, moved FROM past"
		" JOIN version v ON v.file_id = past.id >> 32"
		" AND v.n = past.id & 4294967295"
		" JOIN file ON file.file_id = v.file_id"
		" WHERE (moved OR state & 1) AND v.n > 1 AND "
		"version_source(v.data) NOT IN ('renamed', 'linked')"
		" AND NOT EXISTS (SELECT 1 FROM access a"
		" WHERE a.file_id = past.id >> 32 AND op_name(a.op) IN ('rename', "
		"'unlink')"
		" AND a.seen_n = v.n - 1)) SELECT DISTINCT id FROM past",
		shfs_arg_int(file_id));

	for (size_t i = 0; i < past.n && !r; i++) {
		r = shfs_ids_add(&f->versions, past.ids[i]);
		if (!r)
			r = add_uses_of(f, past.ids[i]);
	}
	return r;
}

static int add_files(struct shfs_forget *f)
{
	int r = 0;

	for (size_t i = 0; i < f->files.n && !r; i++) {
		r = add_accesses_of_file(f, f->files.ids[i]);
		if (!r)
			r = add_rows(f, &f->versions,
			             "SELECT file_id << 32 | n FROM version"
			             " WHERE file_id = ?1",
			             shfs_arg_int(f->files.ids[i]));
		if (!r)
			r = add_past_of_file(f, f->files.ids[i]);
	}
	return r;
}

/* Adds the versions that have the same content by a rename or a link. */
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

int64_t forget_key_of_path(struct shfs_bytes path)
{
	return (int64_t)shfs_object_hash64(path.data, path.len);
}

/* Returns a key for a content at a path, made of its object; without one, of its size and
 * mtime. */
int64_t forget_key_of_content(struct shfs_bytes path, const struct shfs_content *c)
{
	struct {
		int64_t path;
		uint8_t object[20];
		uint32_t archived;
		uint64_t size;
		int64_t mtime_ns;
	} key = { .path = forget_key_of_path(path) };

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
	struct shfs_version_fact version;
	int r = shfs_version_columns(stmt, 2, &version);

	if (!r)
		*key = forget_key_of_content(path, &version.content);
	return r;
}

int64_t forget_key_of_object(const struct shfs_object_id *object)
{
	uint8_t packed[20] = { 0 };

	shfs_object_pack(object, packed);
	return (int64_t)shfs_object_hash64(packed, sizeof(packed));
}

/* --- the same contents at other paths --- */

/* Shorter contents ("{}", an empty line) are in many files. */
#define SAME_MIN 5

static int find_same(struct shfs_forget *f, const struct shfs_content *content)
{
	_cleanup_ids_ struct shfs_ids all = { 0 };
	uint8_t packed[20];
	size_t len = shfs_object_pack(&content->object, packed);
	bool stays = false;
	int r = add_rows(f, &all,
	                 "SELECT file_id << 32 | n FROM version WHERE"
	                 " substr(object, 1, 3) = substr(?1, 1, 3) AND object = ?1",
	                 shfs_arg_blob((struct shfs_bytes){ (const char *)packed, len }));

	for (size_t i = 0; i < all.n && !r; i++) {
		if (shfs_ids_has(&f->versions, all.ids[i]))
			continue;
		stays = true;
		if (content->size >= SAME_MIN)
			r = shfs_ids_add(&f->same, all.ids[i]);
	}
	return r || stays
	               ? r
	               : shfs_ids_add(&f->gone, forget_key_of_object(&content->object));
}

static int find_all_same(struct shfs_forget *f)
{
	int r = 0;

	f->same.n = f->gone.n = 0;
	for (size_t i = 0; i < f->versions.n && !r; i++) {
		struct shfs_version_fact version;

		r = shfs_version_look(f->index, f->versions.ids[i], &version);
		if (r > 0)
			r = version.content.flags & SHFS_CONTENT_OBJECT
			            ? find_same(f, &version.content)
			            : 0;
	}
	shfs_ids_sort(&f->same);
	shfs_ids_sort(&f->gone);
	return MIN(r, 0);
}

static int look_everywhere(struct shfs_forget *f)
{
	int r = find_all_same(f);

	if (r || !f->everywhere || !f->same.n)
		return r;
	for (size_t i = 0; i < f->same.n && !r; i++) {
		r = shfs_ids_add(&f->versions, f->same.ids[i]);
		if (!r)
			r = add_uses_of(f, f->same.ids[i]);
	}
	shfs_ids_sort(&f->versions);
	shfs_ids_sort(&f->accesses);
	return r ? r : find_all_same(f);
}

/* Gets the keys of a file's versions: of those to forget, and of those that stay. */
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
			r = shfs_ids_add(shfs_ids_has(&f->versions, id) ? &f->contents
			                                                : stay,
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
	shfs_ids_sort(&f->contents);
	shfs_ids_sort(&stay);
	for (size_t i = 0; i < f->contents.n; i++)
		if (!shfs_ids_has(&stay, f->contents.ids[i]))
			f->contents.ids[n++] = f->contents.ids[i];
	f->contents.n = n;
	return r;
}

static int add_key_of_path(int64_t file_id, const char *path, void *arg)
{
	struct shfs_forget *f = arg;

	return shfs_ids_add(&f->paths, forget_key_of_path(shfs_bytes_str(path)));
}

/* Keeps recorded shells, as their other commands stay. */
static int keep_shells(struct shfs_forget *f)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < f->processes.n && r >= 0; i++) {
		struct shfs_owner owner;

		r = shfs_owner_of_process(f->index, f->processes.ids[i], &owner);
		if (!owner.shell)
			f->processes.ids[n++] = f->processes.ids[i];
	}
	f->processes.n = n;
	return MIN(r, 0);
}

/* Gets the ids of the programs (strings) that some process has executed, and of those
 * that a process which stays has executed. */
static int executed_programs(struct shfs_forget *f, struct shfs_ids *all,
                             struct shfs_ids *stay)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(f->index, &stmt,
	                          "SELECT process_id, exe_id FROM process", NULL, 0);

	for (; r > 0; r = r ? r : shfs_sql_next(f->index, stmt)) {
		int64_t exe_id = sqlite3_column_int64(stmt, 1);

		r = shfs_ids_add(all, exe_id);
		if (!r && !shfs_ids_has(&f->processes, sqlite3_column_int64(stmt, 0)))
			r = shfs_ids_add(stay, exe_id);
	}
	shfs_ids_sort(all);
	shfs_ids_sort(stay);
	return r;
}

/* Adds what is recorded of programs that no process which stays has executed, and of
 * files to forget. The record of a script goes with the process that was the first to
 * execute it. */
static int add_programs(struct shfs_forget *f)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	_cleanup_ids_ struct shfs_ids all = { 0 }, stay = { 0 };
	int r = executed_programs(f, &all, &stay);

	if (!r)
		r = shfs_sql_get_args(
			f->index, &stmt,
			"SELECT g.program_id, g.path_id, g.process_id, s.text"
			" FROM program g JOIN string_text_of s"
			" ON s.string_id = g.path_id",
			NULL, 0);
	for (; r > 0; r = r ? r : shfs_sql_next(f->index, stmt)) {
		int64_t path_id = sqlite3_column_int64(stmt, 1);
		const char *path = (const char *)sqlite3_column_text(stmt, 3);
		bool goes = shfs_ids_has(&all, path_id)
		                    ? !shfs_ids_has(&stay, path_id)
		                    : shfs_ids_has(&f->processes,
		                                   sqlite3_column_int64(stmt, 2));

		goes |= shfs_ids_has(&f->paths, forget_key_of_path(shfs_bytes_str(path)));
		r = goes ? shfs_ids_add(&f->programs, sqlite3_column_int64(stmt, 0)) : 0;
	}
	shfs_ids_sort(&f->programs);
	return r;
}

/* A note goes with what it is about. */
#define NOTES                                                                            \
	"SELECT n.note_id, c.command_id, v.file_id << 32 | v.n, n.path FROM note n"      \
	" LEFT JOIN command c ON n.command <> '' AND c.id = n.command"                   \
	" LEFT JOIN v_version v ON n.command = '' AND v.time_ns = n.version_ns"          \
	"  AND v.file_id = (SELECT p.file_id FROM v_path p"                              \
	"   WHERE p.dir = path_dir(n.path) AND p.name_key = name_key(path_name(n.path))" \
	"   AND +p.name = path_name(n.path))"

static int add_notes(struct shfs_forget *f)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(f->index, &stmt, NOTES, NULL, 0);

	while (r > 0) {
		int64_t path = forget_key_of_path(shfs_bytes_column(stmt, 3));
		bool goes = shfs_ids_has(&f->commands, sqlite3_column_int64(stmt, 1)) ||
		            shfs_ids_has(&f->versions, sqlite3_column_int64(stmt, 2)) ||
		            shfs_ids_has(&f->paths, path);

		r = goes ? shfs_ids_add(&f->notes, sqlite3_column_int64(stmt, 0)) : 0;
		if (!r)
			r = shfs_sql_next(f->index, stmt);
	}
	shfs_ids_sort(&f->notes);
	return r;
}

int forget_complete(struct shfs_forget *f)
{
	int r = 0;

	shfs_ids_sort(&f->commands);
	shfs_ids_sort(&f->processes);
	shfs_ids_sort(&f->files);
	for (size_t i = 0; i < f->processes.n && !r; i++)
		r = shfs_accesses_of_nobody(f->index, f->processes.ids[i], note_access,
		                            f);
	if (!r)
		r = keep_shells(f);
	f->n_loose = f->processes.n;
	if (!r)
		r = add_uses_of_commands(f);
	if (!r)
		r = add_files(f);
	if (!r)
		r = add_copies(f);
	shfs_ids_sort(&f->processes);
	shfs_ids_sort(&f->accesses);
	shfs_ids_sort(&f->versions);
	if (!r)
		r = look_everywhere(f);
	if (!r)
		r = content_keys(f);
	if (!r)
		r = shfs_paths_of(f->index, f->files.ids, f->files.n, add_key_of_path, f);
	shfs_ids_sort(&f->paths);
	if (!r)
		r = add_notes(f);
	return r ? r : add_programs(f);
}
