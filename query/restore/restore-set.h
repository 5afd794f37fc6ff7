/* SPDX-License-Identifier: MIT */
/*
 * restore-set.h - the files that one command line restores: all of them or, if one is
 * refused, none.
 */
#pragma once

#include "query/restore/restore.h"

struct shfs_restore_item {
	struct shfs_version version; /* owned */
	char *base, *below;          /* as in struct shfs_restore_target */
	int code;                    /* the result, or what it would be: an exit code */
};

struct shfs_restore_set {
	struct shfs_restore_item *items;
	size_t n, cap;
	bool no_links; /* as in struct shfs_restore_target */
};

/*
 * Adds a file; version is moved (it is cleared). It is restored below the directory dir,
 * at its path within its project; dir NULL: at its original path.
 */
_must_check_ int shfs_restore_set_add(struct shfs_restore_set *set,
                                      struct shfs_index *index,
                                      struct shfs_version *version, const char *dir);

/* Adds a file that is restored as path (absolute). */
_must_check_ int shfs_restore_set_add_as(struct shfs_restore_set *set,
                                         struct shfs_version *version, const char *path);
void shfs_restore_set_clear(struct shfs_restore_set *set);
#define _cleanup_restore_set_ _cleanup_(shfs_restore_set_clear)

/* Restores them, prints the result of each, and returns the exit code. */
int shfs_restore_set_run(struct shfs_restore_set *set, struct shfs_context *ctx,
                         struct shfs_index *index, struct shfs_restore_options options);
