/* SPDX-License-Identifier: MIT */
/*
 * versions/PATH/N: each version of each file of the project.
 *
 * A path may have been a file, and a directory: then it holds both. A name in it that
 * could be the number of a version has one more "@" behind it.
 */
#include "browse/browse.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define DIGITS "0123456789"

/* Could it be a number of a version, with any number of "@" behind it? */
static bool is_like_number(const char *name)
{
	size_t n = strspn(name, DIGITS);

	return n && !name[n + strspn(name + n, "@")];
}

struct versioned {
	int64_t file_id, versions, last_ns; /* file_id 0: it is no file */
	bool is_directory;                  /* there are files below it */
};

static int find_file(struct shfs_browse *b, const char *path, struct versioned *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(
		b->index,
		"SELECT file_id, versions, last_ns FROM v_file WHERE dir = path_dir(?1)"
		" AND name_key = name_key(path_name(?1)) AND +name = path_name(?1)",
		path, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0) {
		out->file_id = shfs_rows_int(rows, 0);
		out->versions = shfs_rows_int(rows, 1);
		out->last_ns = shfs_rows_int(rows, 2);
	}
	return MIN(r, 0);
}

/* The first directory from begin to before end that has a file with versions, by the
 * order of paths: 1; 0: there is none. */
static int next_directory(struct shfs_browse *b, const char *begin, const char *end,
                          struct shfs_buf *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(b->index,
	                           "SELECT dir FROM v_file WHERE dir >= ?1 AND dir < ?2"
	                           " ORDER BY dir LIMIT 1",
	                           begin, &rows);

	if (!r)
		r = shfs_rows_bind_str(rows, 2, end);
	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0)
		return r;
	out->len = 0;
	shfs_buf_add(out, shfs_rows_text(rows, 0), shfs_rows_bytes(rows, 0));
	return out->failed ? -ENOMEM : 1;
}

/* Prints the bounds of all paths below path: begin <= each < end. */
static int print_bounds(const char *path, struct shfs_buf *begin, struct shfs_buf *end)
{
	shfs_buf_printf(begin, "%s/", path);
	shfs_buf_printf(end, "%s%c", path, '/' + 1);
	return begin->failed || end->failed ? -ENOMEM : 0;
}

static int find_directory(struct shfs_browse *b, const char *path, struct versioned *out)
{
	_cleanup_buf_ struct shfs_buf begin = { 0 }, end = { 0 }, found = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = print_bounds(path, &begin, &end);

	if (!r)
		r = shfs_rows_open_str(b->index,
		                       "SELECT 1 FROM v_file WHERE dir = ?1 LIMIT 1",
		                       path, &rows);
	if (!r)
		r = shfs_rows_next(rows);
	if (!r)
		r = next_directory(b, begin.data, end.data, &found);
	out->is_directory = r > 0;
	return MIN(r, 0);
}

static int look_up(struct shfs_browse *b, const char *path, struct versioned *out)
{
	int r = find_file(b, path, out);

	return r ? r : find_directory(b, path, out);
}

/* The path of the index for the directory at rest, with each name as it was given. */
static int real_path(struct shfs_browse *b, const char *rest, struct shfs_buf *out)
{
	_cleanup_free_ char *names = strdup(rest);
	char *left = names, *name;
	struct versioned in;
	int r = names ? 0 : -ENOMEM;

	shfs_buf_str(out, strcmp(b->root, "/") ? b->root : "");
	while (!r && (name = strsep(&left, "/")) && *name) {
		in = (struct versioned){ 0 };
		if (is_like_number(name)) {
			r = find_file(b, out->data ?: "", &in);
			if (in.file_id && name[strlen(name) - 1] != '@')
				r = -ENOENT; /* a version holds nothing */
			else if (in.file_id)
				name[strlen(name) - 1] = '\0';
		}
		shfs_buf_printf(out, "/%s", name);
	}
	if (!out->data)
		shfs_buf_str(out, "");
	return r ? r : out->failed ? -ENOMEM : 0;
}

/* Is the last name of rest a version? 1, with the place; 0. */
static int find_version(struct shfs_browse *b, const char *rest, struct shfs_place *out)
{
	const char *slash = strrchr(rest, '/');
	const char *name = slash ? slash + 1 : rest;
	_cleanup_free_ char *above = NULL;
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct shfs_version version = { 0 };
	struct versioned file = { 0 };
	int64_t n = 0;
	int r;

	if (!slash || name[strspn(name, DIGITS)] || *name == '0' || strlen(name) > 9)
		return 0;
	n = strtoll(name, NULL, 10);
	above = strndup(rest, slash - rest);
	r = above ? real_path(b, above, &path) : -ENOMEM;
	if (!r)
		r = find_file(b, path.data, &file);
	if (r || !file.file_id)
		return r;
	r = shfs_version_load(b->index, file.file_id << 32 | n, &version);
	if (r > 0)
		shfs_place_version(b, &version, out);
	return r;
}

static int find(struct shfs_browse *b, const char *rest, struct shfs_place *out)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct versioned in = { 0 };
	int r = find_version(b, rest, out);

	if (r)
		return MIN(r, 0);
	r = real_path(b, rest, &path);
	if (!r && *rest)
		r = look_up(b, path.data, &in);
	if (!r && *rest && !in.file_id && !in.is_directory)
		r = -ENOENT;
	if (!r)
		shfs_place_directory(b, in.last_ns, out);
	return r;
}

static int list_versions(struct shfs_browse *b, int64_t file_id, struct shfs_names *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	char name[24];
	int r = shfs_rows_open_ints(b->index,
	                            "SELECT n FROM v_version WHERE file_id = ?1",
	                            SHFS_INTS(file_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		snprintf(name, sizeof(name), "%" PRId64, shfs_rows_int(rows, 0));
		shfs_names_add(out, DT_REG, name);
		r = 0;
	}
	return r;
}

static void add_name(struct shfs_names *out, const char *name, bool beside_versions)
{
	shfs_names_add(out, DT_DIR, name);
	if (beside_versions && is_like_number(name)) {
		out->list.len--;
		shfs_buf_add(&out->list, "@", 2);
	}
}

/* Lists the files in a directory. */
static int list_files(struct shfs_browse *b, const char *path, bool beside_versions,
                      struct shfs_names *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(b->index, "SELECT name FROM v_file WHERE dir = ?1",
	                           path, &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		add_name(out, shfs_rows_text(rows, 0), beside_versions);
		r = 0;
	}
	return r;
}

/* Lists the directories in a directory that are not files, too, which have been listed.
 * One name may come in several turns, because "a-b" lies between "a" and "a/b". */
static int list_directories(struct shfs_browse *b, const char *path, bool beside_versions,
                            struct shfs_names *out)
{
	_cleanup_buf_ struct shfs_buf at = { 0 }, end = { 0 }, found = { 0 },
				      child = { 0 };
	int r = print_bounds(path, &at, &end);

	while (!r && (r = next_directory(b, at.data, end.data, &found)) > 0) {
		size_t begin = strlen(path) + 1;
		size_t len = begin + strcspn(found.data + begin, "/");
		struct versioned file = { 0 };
		bool whole = len == found.len;

		child.len = at.len = 0;
		shfs_buf_add(&child, found.data, len);
		if (child.failed)
			return -ENOMEM;
		r = find_file(b, child.data, &file);
		if (!r && !whole && !file.file_id) {
			/* was it there by itself before? */
			_cleanup_rows_ struct shfs_rows *rows = NULL;

			r = shfs_rows_open_str(b->index,
			                       "SELECT 1 FROM v_file WHERE dir = ?1"
			                       " LIMIT 1",
			                       child.data, &rows);
			if (!r)
				r = shfs_rows_next(rows);
			file.is_directory = r > 0;
			r = MIN(r, 0);
		}
		if (!r && !file.file_id && !file.is_directory)
			add_name(out, child.data + begin, beside_versions);
		/* behind the directory itself; or behind all below it */
		if (whole)
			shfs_buf_printf(&at, "%s%c", child.data, 1);
		else
			shfs_buf_printf(&at, "%s%c", child.data, '/' + 1);
		if (at.failed)
			return -ENOMEM;
	}
	return r;
}

static int list(struct shfs_browse *b, const char *rest, struct shfs_names *out)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct versioned in = { 0 };
	int r = real_path(b, rest, &path);

	if (!r && *rest)
		r = find_file(b, path.data, &in);
	if (!r && in.file_id)
		r = list_versions(b, in.file_id, out);
	if (!r)
		r = list_files(b, path.data, in.file_id, out);
	return r ? r : list_directories(b, path.data, in.file_id, out);
}

const struct shfs_view shfs_view_versions = {
	.name = "versions",
	.find = find,
	.list = list,
};
