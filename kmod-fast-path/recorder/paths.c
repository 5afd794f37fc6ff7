/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/paths.h"

#include "common/buf.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#define NAMES_MAX 16384
#define LOST_MAX  1024

struct name {
	char *path;
	struct file *file;
	struct name *prev, *next; /* names of the same file, the oldest first */
	UT_hash_handle hh;
};

struct file {
	struct shfs_paths_file key;
	uint32_t generation;
	struct name *names;
	UT_hash_handle hh;
};

/* A file that had names. */
struct lost {
	struct shfs_paths_file key;
	char *path; /* that told.path borrows */
	struct shfs_paths_lost told;
	UT_hash_handle hh;
};

struct shfs_paths {
	struct name *names; /* by path; the oldest first */
	struct file *files;
	struct lost *lost; /* the oldest first */
	struct shfs_time now;
};

struct shfs_paths *shfs_paths_new(void)
{
	return calloc(1, sizeof(struct shfs_paths));
}

void shfs_paths_at(struct shfs_paths *n, struct shfs_time time)
{
	n->now = time;
}

/* --- files without a name --- */

static struct lost *find_nameless_file(const struct shfs_paths *n,
                                       struct shfs_paths_file key)
{
	struct lost *lost;

	HASH_FIND(hh, n->lost, &key, sizeof(key), lost);
	return lost;
}

static void drop_nameless_file(struct shfs_paths *n, struct lost *lost)
{
	if (!lost)
		return;
	HASH_DEL(n->lost, lost);
	free(lost->path);
	free(lost);
}

/* Takes path. */
static void note_nameless_file(struct shfs_paths *n, struct shfs_paths_file key,
                               uint32_t generation, char *path)
{
	struct lost *lost = calloc(1, sizeof(*lost));

	if (!lost) {
		free(path);
		return;
	}
	lost->key = key;
	lost->path = path;
	lost->told = (struct shfs_paths_lost){ .path = path,
		                               .time = n->now,
		                               .generation = generation };
	HASH_ADD(hh, n->lost, key, sizeof(lost->key), lost);
	if (HASH_COUNT(n->lost) > LOST_MAX)
		drop_nameless_file(n, n->lost);
}

const struct shfs_paths_lost *shfs_paths_lost(const struct shfs_paths *n,
                                              struct shfs_paths_file key)
{
	const struct lost *lost = find_nameless_file(n, key);

	return lost ? &lost->told : NULL;
}

/* --- names --- */

/* Returns its path, owned. */
static char *detach_file_name(struct shfs_paths *n, struct name *name)
{
	struct file *file = name->file;
	char *path = name->path;

	HASH_DEL(n->names, name);
	DL_DELETE(file->names, name);
	free(name);
	if (!file->names) {
		HASH_DEL(n->files, file);
		free(file);
	}
	return path;
}

/* Forgets what the name leads to. */
static void forget_file_name(struct shfs_paths *n, struct name *name)
{
	free(detach_file_name(n, name));
}

/* Notes that the file has lost the name. */
static void drop_file_name(struct shfs_paths *n, struct name *name)
{
	struct shfs_paths_file key = name->file->key;
	uint32_t generation = name->file->generation;
	bool is_last = !name->file->names->next;
	char *path = detach_file_name(n, name);

	if (is_last)
		note_nameless_file(n, key, generation, path);
	else
		free(path);
}

void shfs_paths_forget(struct shfs_paths *n)
{
	while (n->names)
		forget_file_name(n, n->names);
	while (n->lost)
		drop_nameless_file(n, n->lost);
}

void shfs_paths_free(struct shfs_paths *n)
{
	if (n)
		shfs_paths_forget(n);
	free(n);
}

static struct name *find_file_name(const struct shfs_paths *n, const char *path)
{
	struct name *name;

	HASH_FIND_STR(n->names, path, name);
	return name;
}

static struct file *find_named_file(const struct shfs_paths *n,
                                    struct shfs_paths_file key)
{
	struct file *file;

	HASH_FIND(hh, n->files, &key, sizeof(key), file);
	return file;
}

static struct file *get_named_file(struct shfs_paths *n, struct shfs_paths_file key)
{
	struct file *file = find_named_file(n, key);
	struct lost *lost = find_nameless_file(n, key);

	if (file)
		return file;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->key = key;
	file->generation = lost ? lost->told.generation : 0;
	drop_nameless_file(n, lost);
	HASH_ADD(hh, n->files, key, sizeof(file->key), file);
	return file;
}

/* Takes ownership of path. */
static void add_file_name(struct shfs_paths *n, char *path, struct shfs_paths_file key)
{
	struct name *name = path ? calloc(1, sizeof(*name)) : NULL;
	struct file *file = name ? get_named_file(n, key) : NULL;

	if (!file) {
		free(path);
		free(name);
		return;
	}
	name->path = path;
	name->file = file;
	HASH_ADD_KEYPTR(hh, n->names, path, strlen(path), name);
	DL_APPEND(file->names, name);
	if (HASH_COUNT(n->names) > NAMES_MAX)
		forget_file_name(n, n->names);
}

void shfs_paths_set(struct shfs_paths *n, const char *path, struct shfs_paths_file key,
                    uint32_t generation)
{
	struct name *name = find_file_name(n, path);
	struct file *file;

	if (!key.ino)
		return;
	if (!name || memcmp(&name->file->key, &key, sizeof(key)) != 0) {
		if (name)
			drop_file_name(n, name);
		add_file_name(n, strdup(path), key);
	}
	file = find_named_file(n, key);
	if (file && generation)
		file->generation = generation;
}

struct shfs_paths_file shfs_paths_find(const struct shfs_paths *n, const char *path)
{
	const struct name *name = find_file_name(n, path);

	return name ? name->file->key : (struct shfs_paths_file){ 0 };
}

const char *shfs_paths_other(const struct shfs_paths *n, struct shfs_paths_file key,
                             const char *path)
{
	const struct file *file = find_named_file(n, key);
	const struct name *name = find_file_name(n, path);

	if (!file || (name && name->file == file))
		return NULL;
	return file->names->prev->path; /* the first one's prev is the last */
}

unsigned shfs_paths_count(const struct shfs_paths *n, struct shfs_paths_file key)
{
	const struct file *file = find_named_file(n, key);
	const struct name *name;
	unsigned count = 0;

	if (file)
		DL_COUNT(file->names, name, count);
	return count;
}

/* The part of path behind dir, with its slash; NULL: it is not below dir. */
static const char *rest_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return !strncmp(path, dir, len) && path[len] == '/' ? path + len : NULL;
}

void shfs_paths_gone(struct shfs_paths *n, const char *path, bool tree)
{
	struct name *name = find_file_name(n, path), *next;

	if (name)
		drop_file_name(n, name);
	if (!tree)
		return;
	HASH_ITER (hh, n->names, name, next)
		if (rest_below(name->path, path))
			drop_file_name(n, name);
}

static char *concat_paths(const char *a, const char *b)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	shfs_buf_str(&path, a);
	shfs_buf_str(&path, b);
	return shfs_buf_take(&path);
}

void shfs_paths_moved(struct shfs_paths *n, const char *from, const char *to, bool tree)
{
	struct shfs_paths_file file = shfs_paths_find(n, from);
	struct name *name, *next;
	unsigned count = HASH_COUNT(n->names);

	shfs_paths_gone(n, to, tree);
	shfs_paths_gone(n, from, false);
	shfs_paths_set(n, to, file, 0);
	if (!tree)
		return;
	/* names that are added here come after all others */
	for (name = n->names; name && count--; name = next) {
		const char *rest = rest_below(name->path, from);
		char *path = rest ? concat_paths(to, rest) : NULL;

		next = name->hh.next;
		file = name->file->key;
		if (!rest)
			continue;
		drop_file_name(n, name);
		add_file_name(n, path, file);
	}
}

void shfs_paths_exchanged(struct shfs_paths *n, const char *a, const char *b)
{
	static const char meanwhile[] = "\xff/";

	shfs_paths_moved(n, a, meanwhile, true);
	shfs_paths_moved(n, b, a, true);
	shfs_paths_moved(n, meanwhile, b, true);
}
