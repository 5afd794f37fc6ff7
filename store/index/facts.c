/* SPDX-License-Identifier: MIT */
#include "store/index/facts.h"

#include "store/index/facts-all.h"
#include "store/index/heap.h"

#include <errno.h>
#include <string.h>

/* A query takes as long as reading so many accesses. */
#define ACCESSES_PER_QUESTION 250
#define FEW                   500

struct shfs_facts {
	struct shfs_index *index;
	struct facts_all *all; /* NULL: not loaded */
	size_t asked, few;     /* number of questions; beyond few, all is loaded */
	bool held;
};

int shfs_facts_new(struct shfs_index *index, struct shfs_facts **out)
{
	struct shfs_facts *f = calloc(1, sizeof(*f));
	int64_t accesses = 0;
	int r = !f ? -ENOMEM
	        : index->is_mirror
	                ? 0
	                : shfs_sql_int(index, &accesses, "SELECT accesses FROM state");

	if (r < 0) {
		free(f);
		return r;
	}
	f->index = index;
	f->few = index->is_mirror
	                 ? SIZE_MAX /* it has no other way than to be asked */
	                 : MAX((size_t)accesses / ACCESSES_PER_QUESTION, (size_t)FEW);
	*out = f;
	return 0;
}

void shfs_facts_free(struct shfs_facts *f)
{
	if (!f)
		return;
	facts_all_free(f->all);
	free(f);
}

int shfs_facts_hold(struct shfs_facts *f)
{
	int rc = SQLITE_OK;

	f->held = sqlite3_get_autocommit(f->index->db);
	if (f->held)
		rc = sqlite3_exec(f->index->db, "BEGIN", NULL, NULL, NULL);
	return shfs_index_errno(f->index->db, rc);
}

void shfs_facts_release(struct shfs_facts *f)
{
	if (f->held)
		sqlite3_exec(f->index->db, "COMMIT", NULL, NULL, NULL);
	f->held = false;
}

/* Loads the whole index; pages are read once, so the cache need not keep them. */
int shfs_facts_load(struct shfs_facts *f)
{
	sqlite3 *db = f->index->db;
	bool alone = sqlite3_get_autocommit(db);
	char restore[64];
	int64_t pages = 0;
	int r = f->all ? 0 : shfs_sql_int(f->index, &pages, "PRAGMA cache_size");

	f->few = SIZE_MAX;
	if (f->all || f->index->is_mirror || r < 0)
		return MIN(r, 0);
	snprintf(restore, sizeof(restore), "PRAGMA cache_size = %lld", (long long)pages);
	sqlite3_exec(db, "PRAGMA cache_size = -1024", NULL, NULL, NULL);
	r = shfs_index_errno(db, alone ? sqlite3_exec(db, "BEGIN", NULL, NULL, NULL)
	                               : SQLITE_OK);
	shfs_heap_reserve();
	r = r ? r : facts_all_load(f->index, &f->all);
	if (alone)
		sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	sqlite3_exec(db, restore, NULL, NULL, NULL);
	/* otherwise each question is a query */
	return r == -ERANGE || r == -ENOMEM ? 0 : r;
}

/* Says that n questions follow. */
static int expect(struct shfs_facts *f, size_t n)
{
	f->asked += n;
	return f->asked < f->few ? 0 : shfs_facts_load(f);
}

static int expect_question(struct shfs_facts *f)
{
	return f->all ? 0 : expect(f, 1);
}

/* --- versions --- */

int shfs_facts_version(struct shfs_facts *f, int64_t version_id,
                       struct shfs_version_fact *out)
{
	int r = expect_question(f);

	if (r || f->all)
		return r ? r : facts_all_version(f->all, version_id, out);
	r = shfs_version_look(f->index, version_id, out);
	return r > 0 ? shfs_facts_owner(f, out->access_id, &out->command_id) : r;
}

static int each_id(struct shfs_facts *f, const char *sql, int64_t version_id,
                   shfs_id_fn fn, void *arg)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(f->index, &stmt, sql, shfs_arg_int(version_id));

	for (; r > 0; r = shfs_sql_next(f->index, stmt)) {
		r = fn(sqlite3_column_int64(stmt, 0), arg);
		if (r)
			return r;
	}
	return r;
}

int shfs_facts_same(struct shfs_facts *f, int64_t version_id, shfs_id_fn fn, void *arg)
{
	static const char of_mirror[] =
		"SELECT w.version_id FROM m_version v JOIN m_version w"
		" ON object_key(w.object) = object_key(v.object) AND w.object = v.object"
		" WHERE v.version_id = ? ORDER BY w.version_id";
	static const char same[] =
		"SELECT w.file_id << 32 | w.n FROM version v JOIN version w"
		" ON substr(w.object, 1, 3) = substr(v.object, 1, 3)"
		" AND w.object = v.object"
		" WHERE v.file_id = ?1 >> 32 AND v.n = ?1 & 4294967295";
	int r = expect_question(f);

	return r        ? r
	       : f->all ? facts_all_same(f->all, version_id, fn, arg)
	                : each_id(f, f->index->is_mirror ? of_mirror : same, version_id,
	                          fn, arg);
}

int shfs_facts_moved(struct shfs_facts *f, int64_t version_id, shfs_id_fn fn, void *arg)
{
	static const char of_mirror[] =
		"SELECT version_id FROM m_version"
		" WHERE origin_version_id = ? ORDER BY version_id";
	static const char moved[] = "SELECT file_id << 32 | n FROM version"
				    " WHERE origin_version_id = ? ORDER BY file_id, n";
	int r = expect_question(f);

	return r        ? r
	       : f->all ? facts_all_moved(f->all, version_id, fn, arg)
	                : each_id(f, f->index->is_mirror ? of_mirror : moved, version_id,
	                          fn, arg);
}

/* --- files --- */

static int column_text(sqlite3_stmt *stmt, struct shfs_buf *out)
{
	shfs_buf_add(out, sqlite3_column_text(stmt, 0) ?: (const unsigned char *)"",
	             sqlite3_column_bytes(stmt, 0));
	return out->failed ? -ENOMEM : 1;
}

static int look_at_path(struct shfs_facts *f, int64_t file_id, struct shfs_buf *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		f->index, &stmt,
		f->index->is_mirror
			? "SELECT dir || '/' || name FROM m_file WHERE file_id = ?"
			: "SELECT d.path || '/' || f.name FROM file f"
			  " JOIN directory d USING (directory_id) WHERE f.file_id = ?",
		shfs_arg_int(file_id));

	return r > 0 ? column_text(stmt, out) : r;
}

int shfs_facts_add_path(struct shfs_facts *f, int64_t file_id, struct shfs_buf *out)
{
	int r = expect_question(f);

	return r        ? r
	       : f->all ? facts_all_add_path(f->all, file_id, out)
	                : look_at_path(f, file_id, out);
}

int shfs_facts_path(struct shfs_facts *f, int64_t file_id, char **out)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	int r = shfs_facts_add_path(f, file_id, &path);

	if (r > 0)
		*out = TAKE_PTR(path.data);
	return r;
}

static int get_file_fact(struct shfs_facts *f, int64_t file_id,
                         struct shfs_file_fact *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r;

	if (f->index->is_mirror)
		return shfs_mirror_file(f->index, file_id, out);
	r = shfs_sql_get(f->index, &stmt,
	                 "SELECT state, data FROM file WHERE file_id = ?",
	                 shfs_arg_int(file_id));

	if (r <= 0)
		return r;
	shfs_file_get_state(sqlite3_column_int64(stmt, 0), out);
	shfs_file_get_last_ns(sqlite3_column_blob(stmt, 1), sqlite3_column_bytes(stmt, 1),
	                      &out->last_ns);
	return 1;
}

int shfs_facts_file(struct shfs_facts *f, int64_t file_id, struct shfs_file_fact *out)
{
	int r = expect_question(f);

	return r        ? r
	       : f->all ? facts_all_file(f->all, file_id, out)
	                : get_file_fact(f, file_id, out);
}

/* A condition for a directory and those below it. */
#define BELOW "path = ?1 OR (path > ?1 || '/' AND path < ?1 || '0')"

/* Questions: a file's state, its latest version, that one's owner and what it had read.
 */
#define QUESTIONS_A_FILE 4

/* Estimates the questions that follow, by the average number of files in the directories
 * at path and below. */
static int expect_below(struct shfs_facts *f, struct shfs_arg path)
{
	int64_t files = 0;
	int r;

	if (f->index->is_mirror)
		return 0;
	r = shfs_sql_int(f->index, &files,
	                 "SELECT (SELECT count(*) FROM directory WHERE " BELOW ")"
	                 " * (SELECT files FROM state)"
	                 " / max((SELECT count(*) FROM directory), 1)",
	                 path);

	return r < 0 ? r : f->all ? 0 : expect(f, files * QUESTIONS_A_FILE);
}

static int list_files_below_path(struct shfs_facts *f, struct shfs_arg path,
                                 struct shfs_ids *ids)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		f->index, &stmt,
		f->index->is_mirror
			? "SELECT file_id FROM m_file WHERE dir = path_dir(?1)"
			  " AND name_key = name_key(path_name(?1))"
			  " AND +name = path_name(?1)"
			  " UNION ALL SELECT file_id FROM m_file WHERE dir = ?1"
			  " OR (dir > ?1 || '/' AND dir < ?1 || '0')"
			: "SELECT f.file_id FROM directory d JOIN file f"
			  " USING (directory_id) WHERE d.path = path_dir(?1)"
			  " AND name_key(f.name) = name_key(path_name(?1))"
			  " AND +f.name = path_name(?1)"
			  " UNION ALL SELECT file_id FROM file WHERE directory_id IN"
			  " (SELECT directory_id FROM directory WHERE " BELOW ")",
		path);

	for (; r > 0; r = shfs_sql_next(f->index, stmt))
		if (shfs_ids_add(ids, sqlite3_column_int64(stmt, 0)))
			return -ENOMEM;
	return r;
}

static int each_below(struct shfs_facts *f, struct shfs_arg path, shfs_id_fn fn,
                      void *arg)
{
	_cleanup_ids_ struct shfs_ids list = { 0 };
	int r = list_files_below_path(f, path, &list);

	if (list.n)
		qsort(list.ids, list.n, sizeof(*list.ids), shfs_compare_int64);
	for (size_t i = 0; i < list.n && !r; i++)
		r = fn(list.ids[i], arg);
	return r;
}

int shfs_facts_below(struct shfs_facts *f, const char *path, shfs_id_fn fn, void *arg)
{
	size_t len = strcmp(path, "/") ? strlen(path) : 0;
	struct shfs_arg text = shfs_arg_text((struct shfs_bytes){ path, len });
	int r = expect_below(f, text);

	return r        ? r
	       : f->all ? facts_all_below(f->all, path, fn, arg)
	                : each_below(f, text, fn, arg);
}

/* --- accesses --- */

static int look_at_access(struct shfs_facts *f, int64_t access_id,
                          struct shfs_access *out)
{
	_cleanup_reader_ struct shfs_reader reader = { .index = f->index };

	return f->index->is_mirror
	               ? shfs_mirror_access(f->index, access_id, out)
	               : shfs_access_walk(&reader, access_id, facts_copy_access, out);
}

int shfs_facts_access(struct shfs_facts *f, int64_t access_id, struct shfs_access *out)
{
	int r = expect_question(f);

	return r        ? r
	       : f->all ? facts_all_access(f->all, access_id, out)
	                : look_at_access(f, access_id, out);
}

int shfs_facts_owner(struct shfs_facts *f, int64_t access_id, int64_t *command_id)
{
	int r = expect_question(f);

	if (r || f->all)
		return r ? r : facts_all_owner(f->all, access_id, command_id);
	return shfs_access_command(f->index, access_id, command_id) ?: 1;
}

int shfs_facts_program(struct shfs_facts *f, int64_t process_id, int64_t *program_id)
{
	int r = expect_question(f);

	if (!r && f->index->is_mirror)
		return shfs_mirror_program(f->index, process_id, program_id);
	return r        ? r
	       : f->all ? facts_all_program(f->all, process_id, program_id)
	                : shfs_sql_int(f->index, program_id,
	                               "SELECT p.exe_id FROM process p JOIN task t ON"
	                               " t.task_id = coalesce(p.task_id, p.process_id)"
	                               " WHERE p.process_id = ?",
	                               shfs_arg_int(process_id));
}

int shfs_facts_string(struct shfs_facts *f, int64_t string_id, struct shfs_buf *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		f->index, &stmt,
		f->index->is_mirror
			? "SELECT streams FROM m_process WHERE process_id = ?"
			: "SELECT text FROM string_text_of WHERE string_id = ?",
		shfs_arg_int(string_id));

	return r > 0 ? column_text(stmt, out) : r;
}

static int exe_of_mirror(struct shfs_facts *f, int64_t program_id, struct shfs_buf *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(f->index, &stmt,
	                     "SELECT exe FROM m_process WHERE process_id = ?",
	                     shfs_arg_int(program_id));

	return r > 0 ? column_text(stmt, out) : r;
}

int shfs_facts_exe(struct shfs_facts *f, int64_t program_id, char **out)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = f->index->is_mirror ? exe_of_mirror(f, program_id, &text)
	                            : shfs_facts_string(f, program_id, &text);

	if (r <= 0)
		return r;
	shfs_buf_u8(&text, 0);
	*out = text.failed ? NULL : TAKE_PTR(text.data);
	return *out ? 1 : -ENOMEM;
}

int shfs_facts_argv(struct shfs_facts *f, int64_t process_id, struct shfs_buf *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		f->index, &stmt,
		f->index->is_mirror
			? "SELECT argv FROM m_process WHERE process_id = ?"
			: "SELECT s.text FROM process p JOIN string_text_of s"
			  " ON s.string_id = p.argv_id WHERE p.process_id = ?",
		shfs_arg_int(process_id));

	return r > 0 ? column_text(stmt, out) : r;
}

#define LAST                                                                             \
	" AND made_n = ?1 & 4294967295 AND is_shown AND command_id IS NOT NULL"          \
	" ORDER BY seq DESC LIMIT 1"

int shfs_facts_last_made(struct shfs_facts *f, int64_t version_id, bool moved,
                         struct shfs_access *out)
{
	int64_t access_id;
	int r = expect_question(f);

	if (r || f->all)
		return r ? r : facts_all_last_made(f->all, version_id, moved, out);
	if (f->index->is_mirror)
		return shfs_mirror_last_made(f->index, version_id, moved, out);
	r = shfs_sql_int(
		f->index, &access_id,
		moved ? "SELECT access_id FROM access WHERE file2_id = ?1 >> 32" LAST
		      : "SELECT access_id FROM access WHERE file_id = ?1 >> 32"
			" AND file2_id IS NULL" LAST,
		shfs_arg_int(version_id));
	return r > 0 ? look_at_access(f, access_id, out) : r;
}

static int query_processes(struct shfs_facts *f, int64_t command_id, shfs_process_fn fn,
                           void *arg)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(f->index, &stmt,
	                     "SELECT p.process_id, p.exe_id, t.pid, t.ppid,"
	                     " t.start_ticks, p.first_ns, p.streams_id, p.outside"
	                     " FROM task t JOIN process p"
	                     " ON p.process_id = t.task_id OR p.task_id = t.task_id"
	                     " WHERE t.command_id = ? ORDER BY p.process_id",
	                     shfs_arg_int(command_id));

	for (; r > 0; r = shfs_sql_next(f->index, stmt)) {
		const struct shfs_process_fact p = {
			.process_id = sqlite3_column_int64(stmt, 0),
			.program_id = sqlite3_column_int64(stmt, 1),
			.pid = sqlite3_column_int64(stmt, 2),
			.ppid = sqlite3_column_int64(stmt, 3),
			.start_ticks = sqlite3_column_int64(stmt, 4),
			.first_ns = sqlite3_column_int64(stmt, 5),
			.streams_id = sqlite3_column_int64(stmt, 6),
			.outside = sqlite3_column_int(stmt, 7),
		};

		r = fn(&p, arg);
		if (r)
			return r;
	}
	return r;
}

int shfs_facts_processes(struct shfs_facts *f, int64_t command_id, shfs_process_fn fn,
                         void *arg)
{
	int r = expect_question(f);

	if (!r && f->index->is_mirror)
		return shfs_mirror_processes(f->index, command_id, fn, arg);
	return r        ? r
	       : f->all ? facts_all_processes(f->all, command_id, fn, arg)
	                : query_processes(f, command_id, fn, arg);
}

int shfs_facts_of_command(struct shfs_facts *f, int64_t command_id, shfs_access_fn fn,
                          void *arg)
{
	int r = expect_question(f);

	return r        ? r
	       : f->all ? facts_all_of_command(f->all, command_id, fn, arg)
	                : shfs_accesses_of_command(f->index, command_id, fn, arg);
}

int shfs_facts_of_nobody(struct shfs_facts *f, int64_t process_id, shfs_access_fn fn,
                         void *arg)
{
	int r = expect_question(f);

	return r        ? r
	       : f->all ? facts_all_of_nobody(f->all, process_id, fn, arg)
	                : shfs_accesses_of_nobody(f->index, process_id, fn, arg);
}

int shfs_facts_of_process(struct shfs_facts *f, int64_t process_id, shfs_access_fn fn,
                          void *arg)
{
	int r = expect_question(f);

	return r        ? r
	       : f->all ? facts_all_of_process(f->all, process_id, fn, arg)
	                : shfs_accesses_of_process(f->index, process_id, fn, arg);
}

static int each_open(struct shfs_facts *f, int64_t file_id, shfs_access_fn fn, void *arg)
{
	const struct shfs_ids files = { .ids = &file_id, .n = 1 };
	_cleanup_reader_ struct shfs_reader reader = { .index = f->index };
	_cleanup_ids_ struct shfs_ids changes = { 0 };
	struct shfs_file_uses opens = { 0 };
	int r = shfs_file_uses_find(f->index, &files, false, &opens, &changes);

	for (size_t i = 0; i < opens.n && !r; i++)
		r = shfs_access_walk(&reader, opens.list[i].access_id, fn, arg);
	free(opens.list);
	return r;
}

int shfs_facts_opens_of_file(struct shfs_facts *f, int64_t file_id, shfs_access_fn fn,
                             void *arg)
{
	int r = expect_question(f);

	if (r || f->all)
		return r ? r : facts_all_opens_of_file(f->all, file_id, fn, arg);
	return f->index->is_mirror ? shfs_mirror_opens_of_file(f->index, file_id, fn, arg)
	                           : each_open(f, file_id, fn, arg);
}
