/* SPDX-License-Identifier: MIT */
#include "query/restore/names.h"

#include "common/hash.h"
#include "store/index/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A path, and the last change of the file that it names. */
struct name {
	char *path;
	UT_hash_handle hh;
	int64_t since_seq, since_ns; /* of that change; of its last creation by an open */
	bool removed;
	struct name *up;    /* towards the root of its set; NULL: it is the root */
	struct name *there; /* in a root: an existing name of the set */
};

struct shfs_names {
	struct name *list;
};

static int open_rows_of_file(struct shfs_index *index, const char *sql, int64_t file_id,
                             struct shfs_rows **rows)
{
	int r = shfs_rows_open(index, sql, rows);

	return r ? r : shfs_rows_bind_int(*rows, 1, file_id);
}

/* Loads the last change. If the last access is a removal, the one before counts: until
 * its removal the name was as that left it. */
static int load_change(struct shfs_index *index, int64_t file_id, struct name *name)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = open_rows_of_file(
		index,
		"SELECT seq_key, op = 'unlink' FROM v_access WHERE file_id = ?1"
		" AND is_open = 0 AND op IN ('unlink', 'rename', 'exchange', 'rmdir',"
		" 'symlink', 'mknod', 'mkdir') UNION ALL"
		" SELECT seq_key, 0 FROM v_access WHERE file2_id = ?1"
		" ORDER BY seq_key DESC LIMIT 2",
		file_id, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0 && shfs_rows_int(rows, 1)) {
		name->removed = true;
		r = shfs_rows_next(rows);
	}
	if (r > 0)
		name->since_seq = shfs_rows_int(rows, 0);
	return MIN(r, 0);
}

/* Loads the last creation by an open. Opens are recorded at their end; their begin
 * counts. */
static int load_creation(struct shfs_index *index, int64_t file_id, struct name *name)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = open_rows_of_file(index,
	                          "SELECT max(begin_ns) FROM v_access WHERE file_id = ?1"
	                          " AND is_open = 1 AND flags & 4",
	                          file_id, &rows);

	_Static_assert(SHFS_ACCESS_CREATED == 4, "as the question says");
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		name->since_ns = shfs_rows_int(rows, 0);
	return MIN(r, 0);
}

static struct name *find_name_by_path(struct shfs_names *names, const char *path)
{
	struct name *name = NULL;

	if (names)
		HASH_FIND_STR(names->list, path, name);
	return name;
}

static void free_name(struct name *name)
{
	if (name)
		free(name->path);
	free(name);
}

static int get_name(struct shfs_names *names, struct shfs_index *index, int64_t file_id,
                    const char *path, struct name **out)
{
	struct name *name = find_name_by_path(names, path);
	struct stat st;
	int r;

	*out = name;
	if (name)
		return 0;
	name = calloc(1, sizeof(*name));
	if (!name || !(name->path = strdup(path))) {
		free_name(name);
		return -ENOMEM;
	}
	r = load_change(index, file_id, name);
	if (!r)
		r = load_creation(index, file_id, name);
	if (!r) {
		HASH_ADD_KEYPTR(hh, names->list, name->path, strlen(path), name);
		r = name->hh.tbl ? 0 : -ENOMEM;
	}
	if (r) {
		free_name(name);
		return r;
	}
	if (!name->removed && !lstat(path, &st))
		name->there = name;
	*out = name;
	return 0;
}

static struct name *root_of(struct name *name)
{
	while (name->up) {
		if (name->up->up)
			name->up = name->up->up;
		name = name->up;
	}
	return name;
}

static void join_linked_names(struct name *a, struct name *b)
{
	a = root_of(a);
	b = root_of(b);
	if (a == b)
		return;
	b->up = a;
	if (!a->there)
		a->there = b->there;
}

static bool is_since(const struct name *name, int64_t seq, int64_t ns)
{
	return seq >= name->since_seq && ns >= name->since_ns;
}

int shfs_names_add(struct shfs_names **names, struct shfs_index *index, int64_t file_id,
                   const char *path)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct name *name, *other;
	bool found = false;
	int r = open_rows_of_file(
		index,
		"SELECT file2_id, path2, seq_key, begin_ns FROM v_access"
		" WHERE file_id = ?1 AND is_open = 0 AND op = 'link' UNION ALL"
		" SELECT file_id, path, seq_key, begin_ns FROM v_access"
		" WHERE file2_id = ?1 AND op = 'link'",
		file_id, &rows);

	if (!*names && !(*names = calloc(1, sizeof(**names))))
		return -ENOMEM;
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		int64_t seq = shfs_rows_int(rows, 2), ns = shfs_rows_int(rows, 3);

		r = get_name(*names, index, file_id, path, &name);
		if (!r && is_since(name, seq, ns))
			r = get_name(*names, index, shfs_rows_int(rows, 0),
			             shfs_rows_text(rows, 1), &other);
		else
			continue;
		if (!r && is_since(other, seq, ns)) {
			join_linked_names(name, other);
			found = true;
		}
	}
	return r < 0 ? r : found;
}

const char *shfs_names_other(struct shfs_names *names, const char *path)
{
	struct name *name = find_name_by_path(names, path),
		    *there = name ? root_of(name)->there : NULL;

	return there && there != name ? there->path : NULL;
}

void shfs_names_is_there(struct shfs_names *names, const char *path)
{
	struct name *name = find_name_by_path(names, path);

	if (name)
		root_of(name)->there = name;
}

void shfs_names_free(struct shfs_names **names)
{
	struct name *name, *next;

	if (!*names)
		return;
	HASH_ITER (hh, (*names)->list, name, next) {
		HASH_DEL((*names)->list, name);
		free_name(name);
	}
	free(TAKE_PTR(*names));
}
