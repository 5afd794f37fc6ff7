/* SPDX-License-Identifier: MIT */
/* Finds which file each step is about, before the first is taken: steps give files other
 * names, which later steps use. */
#include "query/undo/steps.h"

#include "query/base/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>

/* A name that steps have given, and the name that its file had before all of them. */
struct given {
	char *name, *was; /* was: NULL: a step made the file */
	UT_hash_handle hh;
};

static int give_name(struct given **all, const char *name, const char *was)
{
	struct given *g;

	HASH_FIND_STR(*all, name, g);
	if (!g) {
		g = calloc(1, sizeof(*g));
		if (!g || !(g->name = strdup(name))) {
			free(g);
			return -ENOMEM;
		}
		HASH_ADD_KEYPTR(hh, *all, g->name, strlen(g->name), g);
		if (!g->hh.tbl) {
			free(g->name);
			free(g);
			return -ENOMEM;
		}
	}
	free(g->was);
	g->was = was ? strdup(was) : NULL;
	return was && !g->was ? -ENOMEM : 0;
}

static void free_names(struct given **all)
{
	struct given *g, *next;

	HASH_ITER (hh, *all, g, next) {
		HASH_DEL(*all, g);
		free(g->name);
		free(g->was);
		free(g);
	}
}

/* Finds the name that the file at path had before all steps so far, by the innermost
 * directory (or itself) to which they gave a name: *out is malloc'ed; NULL: a step made
 * it. */
static int find_former_name(struct given *all, const char *path, char **out)
{
	size_t len = strlen(path);
	struct given *g = NULL;

	for (size_t n = len; n && !g; n = n ? n - 1 : 0) {
		while (n && n < len && path[n] != '/')
			n--;
		if (n)
			HASH_FIND(hh, all, path, n, g);
		if (g && !g->was) {
			*out = NULL;
			return 0;
		}
		if (g && asprintf(out, "%s%s", g->was, path + n) < 0)
			return -ENOMEM;
	}
	if (!g)
		*out = strdup(path);
	return *out ? 0 : -ENOMEM;
}

/* The inode number of what lies there now; 0: nothing does. */
static uint64_t inode_at(const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir =
		slash == path ? strdup("/") : strndup(path, slash - path);
	_cleanup_close_ int dirfd = -1;
	struct stat st;

	if (!dir ||
	    shfs_trusted_directory(dir, (struct shfs_way){ .no_own = true }, &dirfd))
		return 0;
	return fstatat(dirfd, slash + 1, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_ino;
}

static int identify_step(struct given **all, struct shfs_step *s)
{
	_cleanup_free_ char *was = NULL, *was2 = NULL;
	int r;

	if (s->kind == SHFS_STEP_MAKE || s->kind == SHFS_STEP_MKDIR)
		return give_name(all, s->path, NULL);
	r = find_former_name(*all, s->path, &was);
	if (r)
		return r;
	s->ino = was ? inode_at(was) : 0;
	if (s->kind == SHFS_STEP_REPLACE) {
		r = find_former_name(*all, s->path2, &was2);
		if (!r)
			r = give_name(all, s->path3, was2);
	}
	if (!r && (s->kind == SHFS_STEP_MOVE || s->kind == SHFS_STEP_REPLACE ||
	           s->kind == SHFS_STEP_LINK))
		r = give_name(all, s->path2, was);
	return r;
}

int shfs_steps_identify(struct shfs_steps *steps)
{
	struct given *all = NULL;
	int r = 0;

	for (size_t i = 0; i < steps->commit && !r; i++)
		r = identify_step(&all, &steps->list[i]);
	free_names(&all);
	return r;
}
