/* SPDX-License-Identifier: MIT */
/* Answers the single questions of facts.h. */
#include "store/index/internal.h"

#include <errno.h>
#include <string.h>

/* --- accesses --- */

static int pass_shown_access(const struct shfs_access *a, shfs_access_fn fn, void *arg)
{
	return a->op < SHFS_OP_PREIMAGE ? fn(a, arg) : 0;
}

int shfs_access_walk(struct shfs_reader *reader, int64_t access_id, shfs_access_fn fn,
                     void *arg)
{
	int r = shfs_reader_find(reader, access_id);

	return r > 0 ? pass_shown_access(&reader->chunk.access, fn, arg) : r;
}

/* Calls fn for the accesses of a process; by_itself: only for those of no command, which
 * is looked up for each. */
static int walk_process(struct shfs_reader *reader, int64_t process_id, bool by_itself,
                        shfs_access_fn fn, void *arg)
{
	struct shfs_last_owner last = { 0 };
	struct shfs_owner owner = { 0 };
	int r = shfs_reader_range(reader, shfs_access_id(process_id, 0),
	                          shfs_access_id(process_id, UINT32_MAX));

	while (!r && (r = shfs_reader_next(reader)) > 0) {
		const struct shfs_access *a = &reader->chunk.access;

		r = by_itself ? shfs_owner_of_access(reader->index, a->access_id, &last,
		                                     &owner)
		              : 0;
		if (!r && !owner.command_id)
			r = pass_shown_access(a, fn, arg);
	}
	return r;
}

int shfs_accesses_of_command(struct shfs_index *index, int64_t command_id,
                             shfs_access_fn fn, void *arg)
{
	_cleanup_reader_ struct shfs_reader reader = { .index = index };
	_cleanup_ids_ struct shfs_ids processes = { 0 }, accesses = { 0 };
	int r;

	if (index->is_mirror)
		return shfs_mirror_of_command(index, command_id, fn, arg);
	r = shfs_owner_processes(index, command_id, &processes)
	            ?: shfs_owner_shell_accesses(index, command_id, &accesses);

	for (size_t i = 0; i < processes.n && !r; i++)
		r = walk_process(&reader, processes.ids[i], false, fn, arg);
	for (size_t i = 0; i < accesses.n && !r; i++)
		r = shfs_access_walk(&reader, accesses.ids[i], fn, arg);
	return r;
}

int shfs_accesses_of_process(struct shfs_index *index, int64_t process_id,
                             shfs_access_fn fn, void *arg)
{
	_cleanup_reader_ struct shfs_reader reader = { .index = index };

	return index->is_mirror
	               ? shfs_mirror_of_process(index, process_id, false, fn, arg)
	               : walk_process(&reader, process_id, false, fn, arg);
}

int shfs_accesses_of_nobody(struct shfs_index *index, int64_t process_id,
                            shfs_access_fn fn, void *arg)
{
	_cleanup_reader_ struct shfs_reader reader = { .index = index };
	struct shfs_owner owner;
	int r;

	if (index->is_mirror)
		return shfs_mirror_of_process(index, process_id, true, fn, arg);
	r = shfs_owner_of_process(index, process_id, &owner);

	if (r < 0 || (!owner.shell && owner.command_id))
		return MIN(r, 0);
	return walk_process(&reader, process_id, owner.shell, fn, arg);
}

int shfs_uses_count(struct shfs_index *index, const int64_t *file_ids, size_t n,
                    int64_t *out)
{
	const struct shfs_ids files = { .ids = (int64_t *)file_ids, .n = n };
	_cleanup_ids_ struct shfs_ids changes = { 0 };
	struct shfs_file_uses opens = { 0 };
	int r;

	if (index->is_mirror)
		return shfs_mirror_count_uses(index, file_ids, n, out);
	r = shfs_file_uses_find(index, &files, false, &opens, &changes);
	*out = (int64_t)(opens.n + changes.n);
	free(opens.list);
	return r;
}

/* --- commands --- */

int shfs_command_id_shared(struct shfs_index *index, const char *id, size_t *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(
		index, &stmt,
		index->is_mirror ? "SELECT (SELECT max(id) FROM m_command WHERE id < ?1),"
				   " (SELECT min(id) FROM m_command WHERE id > ?1)"
				 : "SELECT (SELECT max(id) FROM command WHERE id < ?1),"
				   " (SELECT min(id) FROM command WHERE id > ?1)",
		shfs_arg_text((struct shfs_bytes){ id, strlen(id) }));

	*out = 0;
	for (int i = 0; i < 2 && r > 0; i++) {
		const char *other = (const char *)sqlite3_column_text(stmt, i) ?: "";
		size_t same = 0;

		while (id[same] && id[same] == other[same])
			same++;
		*out = MAX(*out, same);
	}
	return MIN(r, 0);
}

/* --- paths --- */

#define NEAR 24

/* The last directory: files of one directory come one after the other. */
struct directory {
	int64_t id;
	struct shfs_buf path; /* followed by the name of a file */
	size_t len;
};

static int get_directory_path(struct shfs_index *index, struct directory *d, int64_t id)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r;

	d->path.len = d->len;
	if (d->id == id)
		return 0;
	r = shfs_sql_get(index, &stmt,
	                 "SELECT path FROM directory WHERE directory_id = ?",
	                 shfs_arg_int(id));
	if (r <= 0)
		return r ?: -EBADMSG;
	d->path.len = 0;
	shfs_buf_add(&d->path, sqlite3_column_text(stmt, 0),
	             sqlite3_column_bytes(stmt, 0));
	shfs_buf_char(&d->path, '/');
	d->len = d->path.len;
	d->id = id;
	return 0;
}

static int give_path(struct shfs_index *index, struct directory *d, sqlite3_stmt *stmt,
                     int64_t file_id, shfs_path_fn fn, void *arg)
{
	int r = get_directory_path(index, d, sqlite3_column_int64(stmt, 1));

	if (r)
		return r;
	shfs_buf_add(&d->path, sqlite3_column_text(stmt, 2),
	             sqlite3_column_bytes(stmt, 2));
	shfs_buf_char(&d->path, '\0');
	return d->path.failed ? -ENOMEM : fn(file_id, d->path.data, arg);
}

/* Reads the paths of files whose ids are near each other in one query. */
static int paths(struct shfs_index *index, struct directory *d, const int64_t *ids,
                 size_t n, shfs_path_fn fn, void *arg)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int64_t at = INT64_MIN;
	int r = 0;

	for (size_t i = 0; i < n && !r; i++) {
		bool seek = at < ids[i] - NEAR;

		while (r >= 0 && (seek || at < ids[i])) {
			r = seek ? shfs_sql_get(index, &stmt,
			                        "SELECT file_id, directory_id, name"
			                        " FROM file WHERE file_id >= ?"
			                        " ORDER BY file_id",
			                        shfs_arg_int(ids[i]))
			         : shfs_sql_next(index, stmt);
			at = r > 0 ? sqlite3_column_int64(stmt, 0) : INT64_MAX;
			seek = false;
		}
		r = r >= 0 && at == ids[i] ? give_path(index, d, stmt, at, fn, arg)
		                           : MIN(r, 0);
	}
	return r;
}

int shfs_paths_of(struct shfs_index *index, const int64_t *file_ids, size_t n,
                  shfs_path_fn fn, void *arg)
{
	struct directory d = { 0 };
	int r;

	if (index->is_mirror)
		return shfs_mirror_paths(index, file_ids, n, fn, arg);
	r = paths(index, &d, file_ids, n, fn, arg);

	shfs_buf_free(&d.path);
	return r;
}

/* --- versions --- */

int shfs_version_look(struct shfs_index *index, int64_t version_id,
                      struct shfs_version_fact *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r;

	if (index->is_mirror)
		return shfs_mirror_version(index, version_id, out);
	r = shfs_sql_get(index, &stmt,
	                 "SELECT data, object, origin_version_id FROM version"
	                 " WHERE file_id = ? AND n = ?",
	                 shfs_arg_int(version_id >> 32),
	                 shfs_arg_int(version_id & UINT32_MAX));
	if (r > 0)
		r = shfs_version_columns(stmt, 0, out) ?: 1;
	if (r <= 0)
		return r;
	out->version_id = version_id;
	out->file_id = version_id >> 32;
	out->n = version_id & UINT32_MAX;
	out->origin_version_id = sqlite3_column_int64(stmt, 2);
	return 1;
}
