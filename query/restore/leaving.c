/* SPDX-License-Identifier: MIT */
#include "query/restore/leaving.h"

#include "common/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 256 /* a git command with more arguments is not analysed */

static struct shfs_doer doer_of(struct shfs_rows *rows, int column)
{
	return (struct shfs_doer){ shfs_rows_int(rows, column),
		                   shfs_rows_int(rows, column + 1) };
}

static bool same_doer(struct shfs_doer a, struct shfs_doer b)
{
	if (a.command_id || b.command_id)
		return a.command_id == b.command_id;
	return a.process_id && a.process_id == b.process_id;
}

/* A state that cannot be unpacked (a damaged index) is not known. */
static int read_former(struct shfs_rows *rows, struct shfs_leaving *out)
{
	size_t len = shfs_rows_bytes(rows, 8);

	if (!out->removed || shfs_rows_is_null(rows, 8))
		return 0;
	out->data = malloc(len + 1);
	if (!out->data)
		return -ENOMEM;
	memcpy(out->data, shfs_rows_text(rows, 8), len);
	(void)!shfs_former_unpack(out->data, len, &out->former);
	return 0;
}

int shfs_leaving_load(struct shfs_index *index, int64_t file_id, struct shfs_leaving *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		index,
		"SELECT op, command_id, process_id, begin_ns, seq_key, seen_n,"
		" path2, flags, (SELECT f.data FROM v_former f"
		"  WHERE f.access_id = v_access.access_id)"
		" FROM v_access WHERE file_id = ?1 AND is_open = 0"
		" AND op IN ('unlink', 'rename', 'rmdir')"
		/* it came back since */
		" AND NOT EXISTS (SELECT 1 FROM v_file f WHERE f.file_id = ?1"
		"  AND f.present)"
		" ORDER BY seq_key DESC",
		SHFS_INTS(file_id), &rows);

	*out = (struct shfs_leaving){ 0 };
	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0)
		return r;
	out->moved = !strcmp(shfs_rows_text(rows, 0), "rename");
	out->removed = !out->moved;
	out->directory = !strcmp(shfs_rows_text(rows, 0), "rmdir");
	out->linked = shfs_rows_int(rows, 7) & SHFS_ACCESS_LINKED;
	if (out->removed && !shfs_rows_is_null(rows, 6)) {
		out->text = strdup(shfs_rows_text(rows, 6));
		if (!out->text)
			return -ENOMEM;
	}
	r = read_former(rows, out);
	if (r)
		return r;
	out->by = doer_of(rows, 1);
	out->time_ns = shfs_rows_int(rows, 3);
	out->seq = shfs_rows_int(rows, 4);
	out->n = shfs_rows_int(rows, 5);
	while ((r = shfs_rows_next(rows)) > 0 && same_doer(doer_of(rows, 1), out->by))
		;
	if (r <= 0)
		return r < 0 ? r : 1;
	out->earlier_ns = shfs_rows_int(rows, 3);
	out->earlier_seq = shfs_rows_int(rows, 4);
	out->earlier_n = shfs_rows_int(rows, 5);
	return 1;
}

void shfs_leaving_clear(struct shfs_leaving *leaving)
{
	free(TAKE_PTR(leaving->text));
	free(TAKE_PTR(leaving->data));
}

/* Asks about a path after seq: a row, or none. */
static int ask_since(struct shfs_index *index, const char *sql, int64_t file_id,
                     int64_t seq, struct shfs_rows **rows)
{
	int r = shfs_rows_open_ints(index, sql, SHFS_INTS(file_id, seq), rows);

	return r ? r : shfs_rows_next(*rows);
}

int shfs_leaving_kind(struct shfs_index *index, int64_t file_id,
                      struct shfs_leaving *leaving, enum shfs_leaving_kind *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	const char *op;
	int r;

	*out = leaving->directory ? SHFS_LEFT_DIRECTORY : SHFS_LEFT_LINK;
	if (leaving->directory || leaving->text)
		return 0;
	r = ask_since(index,
	              "SELECT op, path2 FROM v_access WHERE file_id = ?1 AND seq_key > ?2"
	              " AND (is_written OR op IN ('symlink', 'mknod'))"
	              " ORDER BY seq_key DESC LIMIT 1",
	              file_id, leaving->earlier_seq, &rows);
	*out = SHFS_LEFT_UNKNOWN;
	if (r <= 0)
		return r;
	op = shfs_rows_text(rows, 0);
	if (!strcmp(op, "mknod")) {
		*out = SHFS_LEFT_OTHER;
	} else if (strcmp(op, "symlink") != 0) {
		*out = SHFS_LEFT_FILE;
	} else {
		*out = SHFS_LEFT_LINK;
		leaving->text = strdup(shfs_rows_text(rows, 1));
	}
	return *out == SHFS_LEFT_LINK && !leaving->text ? -ENOMEM : 0;
}

int shfs_leaving_attributes(struct shfs_index *index, int64_t file_id,
                            const struct shfs_leaving *leaving)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;

	return ask_since(index,
	                 "SELECT 1 FROM v_access WHERE file_id = ?1 AND seq_key > ?2"
	                 " AND op = 'xattr' LIMIT 1",
	                 file_id, leaving->earlier_seq, &rows);
}

int shfs_leaving_mode(struct shfs_index *index, const char *path, mode_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index,
	                           "SELECT path2 FROM v_access WHERE " SHFS_SQL_FILE(
					   "?1") " AND is_open = 0 AND op = 'rmdir'"
	                                         " ORDER BY seq_key DESC LIMIT 1",
	                           path, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0 || shfs_rows_is_null(rows, 0))
		return MIN(r, 0);
	/* a directory may have a sticky bit, and pass on its group */
	*out = strtoul(shfs_rows_text(rows, 0), NULL, 8) & 03777;
	return 1;
}

/* Did its last life begin with a version that was found, so that its maker is unknown? */
static int was_found(struct shfs_index *index, int64_t file_id,
                     const struct shfs_leaving *leaving)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		index,
		"SELECT 1 FROM v_version WHERE file_id = ?1 AND n > ?2"
		" AND source = 'found' LIMIT 1",
		SHFS_INTS(file_id, leaving->earlier_n), &rows);

	return r ? r : shfs_rows_next(rows);
}

/* A file that was closed after its removal counts, too: its access is recorded later. */
int shfs_leaving_of_one(struct shfs_index *index, int64_t file_id,
                        const struct shfs_leaving *leaving)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	bool made = false;
	int r = shfs_rows_open_ints(index,
	                            "SELECT command_id, process_id FROM v_access"
	                            " WHERE file_id = ?1 AND (is_written"
	                            " OR op IN ('mknod', 'symlink', 'mkdir'))"
	                            " AND seq_key > ?2 AND begin_ns >= ?3 UNION ALL"
	                            " SELECT command_id, process_id FROM v_access"
	                            " WHERE file2_id = ?1 AND seq_key > ?2",
	                            SHFS_INTS(file_id, leaving->earlier_seq,
	                                      leaving->earlier_ns),
	                            &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		if (!same_doer(doer_of(rows, 0), leaving->by))
			return 0;
		made = true;
		r = 0;
	}
	if (r < 0 || !made)
		return r;
	r = was_found(index, file_id, leaving);
	return r < 0 ? r : !r;
}

/* --- git --- */

static bool is_any(const char *arg, const char *const *list, size_t n)
{
	return shfs_program_is_one_of(arg, strlen(arg), list, n);
}

/* Does the option let git remove contents that it does not have? git accepts combined
 * short and abbreviated long options. In doubt it does: then the file is offered. */
static bool is_forced(const char *arg)
{
	static const char *const forced[] = { "--force", "--discard-changes",
		                              "--no-overlay", "--abort", "--skip" };
	size_t len = strlen(arg);

	if (arg[0] != '-' || len < 2)
		return false;
	if (arg[1] != '-')
		return strchr(arg, 'f');
	for (size_t i = 0; i < ARRAY_SIZE(forced); i++)
		if (len > 2 && !strncmp(forced[i], arg, len))
			return true;
	return false;
}

/* When git changes branches it removes only files that it has, unless forced. */
static bool is_for_another_branch(const char *const *args, size_t n)
{
	static const char *const verbs[] = { "checkout", "switch",      "merge",
		                             "rebase",   "cherry-pick", "revert",
		                             "pull",     "bisect",      "am" };
	static const char *const with_value[] = { "-C", "-c", "--git-dir", "--work-tree",
		                                  "--namespace" };
	size_t i = 1;

	while (i < n && args[i][0] == '-')
		i += 1 + is_any(args[i], with_value, ARRAY_SIZE(with_value));
	if (i >= n || !is_any(args[i], verbs, ARRAY_SIZE(verbs)))
		return false;
	while (++i < n)
		if (is_forced(args[i]))
			return false;
	return true;
}

int shfs_leaving_by_git(struct shfs_index *index, const struct shfs_leaving *leaving)
{
	_cleanup_process_ struct shfs_process_row process = { 0 };
	const char *args[ARGS_MAX];
	int64_t id = leaving->by.process_id;
	size_t n = 0;
	int r = id ? shfs_process_load(index, id, &process) : 0;

	if (r <= 0 || !process.argv || strcmp(basename(process.exe), "git") != 0)
		return MIN(r, 0);
	for (size_t at = 0; at < process.argv_len && n < ARGS_MAX;
	     at += strlen(process.argv + at) + 1)
		args[n++] = process.argv + at;
	return n < ARGS_MAX && is_for_another_branch(args, n);
}

/* --- directories --- */

/* When the directory was last renamed away; 0: never, or it is back. */
static int moved_at(struct shfs_index *index, const char *dir, int64_t *seq)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(
		index,
		"SELECT (SELECT max(seq_key) FROM v_access a WHERE a.file_id = p.file_id"
		" AND directory AND op IN ('rename', 'exchange')),"
		" (SELECT max(seq_key) FROM v_access a WHERE a.file2_id = p.file_id)"
		" FROM v_path p WHERE " SHFS_SQL_FILE("?1"),
		dir, &rows);

	*seq = 0;
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0 && shfs_rows_int(rows, 0) >= shfs_rows_int(rows, 1))
		*seq = shfs_rows_int(rows, 0);
	return MIN(r, 0);
}

/* The last such rename of dir or a directory above it. Keeps the last answer, as files of
 * one directory follow one another. */
static int last_moved_at(struct shfs_index *index, const char *dir, int64_t *seq)
{
	static char *asked;
	static int64_t answer;
	char *path = strdup(dir);
	int64_t one;
	int r = 0;

	*seq = answer;
	if (path && asked && !strcmp(asked, dir)) {
		free(path);
		return 0;
	}
	*seq = 0;
	for (size_t n = strlen(dir); path && !r && n; path[n] = '\0') {
		r = moved_at(index, path, &one);
		*seq = MAX(*seq, one);
		while (n && path[--n] != '/')
			;
	}
	free(asked);
	asked = path ? strcpy(path, dir) : NULL;
	answer = *seq;
	return path ? r : -ENOMEM;
}

int shfs_leaving_moved_along(struct shfs_index *index, int64_t file_id, const char *path,
                             int64_t n, const struct shfs_leaving *leaving)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_free_ char *dir = strndup(path, (size_t)(strrchr(path, '/') - path));
	int64_t moved, used;
	int r = dir ? last_moved_at(index, dir, &moved) : -ENOMEM;

	if (r || !moved)
		return r;
	r = ask_since(index,
	              "SELECT max(seq_key) FROM (SELECT seq_key FROM v_access"
	              " WHERE file_id = ?1 UNION ALL"
	              " SELECT seq_key FROM v_access WHERE file2_id = ?1)"
	              " WHERE seq_key > ?2",
	              file_id, 0, &rows);
	if (r < 0)
		return r;
	used = shfs_rows_int(rows, 0);
	/* and the file was there */
	return moved > used && (used > leaving->seq || !leaving->seq || n > leaving->n);
}
