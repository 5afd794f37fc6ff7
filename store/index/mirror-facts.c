/* SPDX-License-Identifier: MIT */
/* Answers the questions of facts.h about a mirror, each by a query of its tables. */
#include "store/index/facts-all.h"

#include <errno.h>
#include <string.h>

/* --- versions --- */

#define VERSION                                                                          \
	"SELECT version_id, file_id, n, origin_version_id, access_id, process_id,"       \
	" command_id, time_ns, carried, again, flags, size, mode, mtime_ns, phash,"      \
	" object, source FROM m_version"

static enum shfs_version_source source_of(const char *name)
{
	for (enum shfs_version_source s = SHFS_SOURCE_WRITTEN; s <= SHFS_SOURCE_LINKED;
	     s++)
		if (name && !strcmp(shfs_version_source_name(s), name))
			return s;
	return 0;
}

static int take_version(sqlite3_stmt *stmt, struct shfs_version_fact *out)
{
	const char *object = (const char *)sqlite3_column_text(stmt, 15);
	uint32_t flags = (uint32_t)sqlite3_column_int64(stmt, 10);

	*out = (struct shfs_version_fact){
		.version_id = sqlite3_column_int64(stmt, 0),
		.file_id = sqlite3_column_int64(stmt, 1),
		.n = sqlite3_column_int64(stmt, 2),
		.origin_version_id = sqlite3_column_int64(stmt, 3),
		.access_id = sqlite3_column_int64(stmt, 4),
		.process_id = sqlite3_column_int64(stmt, 5),
		.command_id = sqlite3_column_int64(stmt, 6),
		.time_ns = sqlite3_column_int64(stmt, 7),
		.carried = sqlite3_column_int(stmt, 8),
		.again = sqlite3_column_int(stmt, 9),
		.content = { .flags = flags & ~SHFS_CONTENT_OBJECT,
		             .size = (uint64_t)sqlite3_column_int64(stmt, 11),
		             .mode = (uint32_t)sqlite3_column_int64(stmt, 12),
		             .mtime_ns = sqlite3_column_int64(stmt, 13),
		             .ctime_ns = sqlite3_column_int64(stmt, 13),
		             .phash = (uint64_t)sqlite3_column_int64(stmt, 14) },
		.source = source_of((const char *)sqlite3_column_text(stmt, 16)),
	};
	if (!object)
		return 1;
	out->content.flags |= SHFS_CONTENT_OBJECT;
	return shfs_object_parse(object, &out->content.object) ? -EBADMSG : 1;
}

int shfs_mirror_version(struct shfs_index *mirror, int64_t version_id,
                        struct shfs_version_fact *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(mirror, &stmt, VERSION " WHERE version_id = ?",
	                     shfs_arg_int(version_id));

	return r > 0 ? take_version(stmt, out) : r;
}

int shfs_mirror_find_object(struct shfs_index *mirror, const void *data, size_t len,
                            struct shfs_object_id *id)
{
	struct shfs_object_id found;
	int64_t flags = 0;
	char name[44];
	int r;

	shfs_object_id_of(data, len, &found);
	shfs_object_name(&found, name);
	r = shfs_sql_int(mirror, &flags,
	                 "SELECT min(flags & ?2) FROM m_version"
	                 " WHERE object_key(object) = object_key(?1) AND object = ?1"
	                 " HAVING count(*)",
	                 shfs_arg_text(shfs_bytes_str(name)),
	                 shfs_arg_int(SHFS_CONTENT_PRUNED));
	if (r <= 0 || flags)
		return MIN(r, 0);
	*id = found;
	return 1;
}

/* --- files --- */

int shfs_mirror_file(struct shfs_index *mirror, int64_t file_id,
                     struct shfs_file_fact *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(mirror, &stmt,
	                     "SELECT versions, present, directory, last_ns FROM m_file"
	                     " WHERE file_id = ?",
	                     shfs_arg_int(file_id));

	if (r > 0)
		*out = (struct shfs_file_fact){
			.versions = sqlite3_column_int64(stmt, 0),
			.present = sqlite3_column_int(stmt, 1),
			.directory = sqlite3_column_int(stmt, 2),
			.last_ns = sqlite3_column_int64(stmt, 3),
		};
	return r;
}

static int add_path(struct shfs_index *mirror, int64_t file_id, struct shfs_buf *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(mirror, &stmt,
	                     "SELECT dir || '/' || name FROM m_file WHERE file_id = ?",
	                     shfs_arg_int(file_id));

	if (r <= 0)
		return r;
	shfs_buf_add(out, sqlite3_column_text(stmt, 0), sqlite3_column_bytes(stmt, 0));
	shfs_buf_u8(out, 0);
	return out->failed ? -ENOMEM : 1;
}

int shfs_mirror_paths(struct shfs_index *mirror, const int64_t *file_ids, size_t n,
                      shfs_path_fn fn, void *arg)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	int r = 0;

	for (size_t i = 0; i < n && !r; i++) {
		path.len = 0;
		r = add_path(mirror, file_ids[i], &path);
		if (r > 0)
			r = fn(file_ids[i], path.data, arg);
	}
	return r;
}

int shfs_mirror_count_uses(struct shfs_index *mirror, const int64_t *file_ids, size_t n,
                           int64_t *out)
{
	int64_t uses = 0;
	int r = 1;

	*out = 0;
	for (size_t i = 0; i < n && r > 0; i++) {
		r = shfs_sql_int(mirror, &uses,
		                 "SELECT count(*) FROM m_access"
		                 " WHERE file_id = ?1 OR file2_id = ?1",
		                 shfs_arg_int(file_ids[i]));
		*out += uses;
	}
	return MIN(r, 0);
}

/* --- accesses --- */

#define ACCESS                                                                           \
	"SELECT a.access_id, a.seq_key, a.op, a.flags, a.directory, a.seen_flawed,"      \
	" a.file_id, a.file2_id, a.begin_ns, a.end_ns, a.seen_n, a.made_n FROM m_access" \
	" a"

/* Calls fn for the accesses that ACCESS and the rest of a statement select. */
static int each_access(struct shfs_index *mirror, const char *sql, int64_t id,
                       shfs_access_fn fn, void *arg)
{
	sqlite3_stmt *stmt = NULL;
	int rc, r = shfs_stmt_take(mirror, sql, &stmt);

	if (r)
		return r;
	rc = sqlite3_bind_int64(stmt, 1, id);
	while (!rc && !r && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		const struct shfs_access a = {
			.access_id = sqlite3_column_int64(stmt, 0),
			.seq = sqlite3_column_int64(stmt, 1),
			.op = (uint32_t)sqlite3_column_int64(stmt, 2),
			.flags = (uint32_t)sqlite3_column_int64(stmt, 3),
			.directory = sqlite3_column_int(stmt, 4),
			.flawed = sqlite3_column_int(stmt, 5),
			.file_id = sqlite3_column_int64(stmt, 6),
			.file2_id = sqlite3_column_int64(stmt, 7),
			.begin_us = sqlite3_column_int64(stmt, 8) / 1000,
			.end_us = sqlite3_column_int64(stmt, 9) / 1000,
			.seen_n = sqlite3_column_int64(stmt, 10),
			.made_n = sqlite3_column_int64(stmt, 11),
		};

		rc = SQLITE_OK;
		r = fn(&a, arg);
	}
	r = r ? r : shfs_index_errno(mirror->db, rc);
	shfs_stmt_give(mirror, sql, stmt);
	return r;
}

/* Those of shells come last, as in an index. */
int shfs_mirror_of_command(struct shfs_index *mirror, int64_t command_id,
                           shfs_access_fn fn, void *arg)
{
	return each_access(mirror,
	                   ACCESS " LEFT JOIN m_process p USING (process_id)"
	                          " WHERE a.command_id = ? ORDER BY p.shell, a.access_id",
	                   command_id, fn, arg);
}

int shfs_mirror_of_process(struct shfs_index *mirror, int64_t process_id, bool nobody,
                           shfs_access_fn fn, void *arg)
{
	return each_access(mirror,
	                   nobody ? ACCESS
	                           " WHERE a.process_id = ? AND a.command_id IS NULL"
	                           " ORDER BY a.access_id"
	                          : ACCESS " WHERE a.process_id = ? ORDER BY a.access_id",
	                   process_id, fn, arg);
}

int shfs_mirror_opens_of_file(struct shfs_index *mirror, int64_t file_id,
                              shfs_access_fn fn, void *arg)
{
	return each_access(mirror,
	                   ACCESS " WHERE a.file_id = ? AND a.is_open = 1"
	                          " ORDER BY a.access_id",
	                   file_id, fn, arg);
}

int shfs_mirror_access(struct shfs_index *mirror, int64_t access_id,
                       struct shfs_access *out)
{
	return each_access(mirror, ACCESS " WHERE a.access_id = ?", access_id,
	                   facts_copy_access, out);
}

#define LAST                                                                             \
	" AND a.made_n = ?1 & 4294967295 AND a.command_id IS NOT NULL"                   \
	" ORDER BY a.seq_key DESC LIMIT 1"

int shfs_mirror_last_made(struct shfs_index *mirror, int64_t version_id, bool moved,
                          struct shfs_access *out)
{
	return each_access(mirror,
	                   moved ? ACCESS " WHERE a.file2_id = ?1 >> 32" LAST
	                         : ACCESS " WHERE a.file_id = ?1 >> 32"
	                                  " AND a.file2_id IS NULL" LAST,
	                   version_id, facts_copy_access, out);
}

/* --- processes --- */

#define PROGRAM "(SELECT min(q.process_id) FROM m_process q WHERE q.exe = p.exe)"

int shfs_mirror_processes(struct shfs_index *mirror, int64_t command_id,
                          shfs_process_fn fn, void *arg)
{
	static const char sql[] =
		"SELECT p.process_id, " PROGRAM ", p.pid, p.ppid, p.start_ticks,"
		" p.first_ns, p.streams IS NOT NULL AND p.streams <> '', p.outside"
		" FROM m_process p WHERE p.command_id = ? ORDER BY p.process_id";
	sqlite3_stmt *stmt = NULL;
	int rc, r = shfs_stmt_take(mirror, sql, &stmt);

	if (r)
		return r;
	rc = sqlite3_bind_int64(stmt, 1, command_id);
	while (!rc && !r && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		const struct shfs_process_fact p = {
			.process_id = sqlite3_column_int64(stmt, 0),
			.program_id = sqlite3_column_int64(stmt, 1),
			.pid = sqlite3_column_int64(stmt, 2),
			.ppid = sqlite3_column_int64(stmt, 3),
			.start_ticks = sqlite3_column_int64(stmt, 4),
			.first_ns = sqlite3_column_int64(stmt, 5),
			.streams_id = sqlite3_column_int(stmt, 6)
			                      ? sqlite3_column_int64(stmt, 0)
			                      : 0,
			.outside = sqlite3_column_int(stmt, 7),
		};

		rc = SQLITE_OK;
		r = fn(&p, arg);
	}
	r = r ? r : shfs_index_errno(mirror->db, rc);
	shfs_stmt_give(mirror, sql, stmt);
	return r;
}

int shfs_mirror_program(struct shfs_index *mirror, int64_t process_id,
                        int64_t *program_id)
{
	return shfs_sql_int(mirror, program_id,
	                    "SELECT " PROGRAM " FROM m_process p WHERE p.process_id = ?",
	                    shfs_arg_int(process_id));
}
