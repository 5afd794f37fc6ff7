/* SPDX-License-Identifier: MIT */
/*
 * restore-set.h - the files that one command line restores: all that can be, or, where
 * one of them is refused, none.
 */
#pragma once

#include "query/restore/restore.h"

struct shfs_restore_item {
	struct shfs_version version; /* owned */
	char *base, *below;          /* as in struct shfs_restore_target */
	int code;                    /* what became of it, or would: an exit code */
};

struct shfs_restore_set {
	struct shfs_restore_item *items;
	size_t n, cap;
	bool no_links; /* as in struct shfs_restore_target */
};

/*
 * Takes version over (it is cleared). Its place is below the directory dir, by its path
 * in its project; dir NULL: where it was.
 */
_must_check_ int shfs_restore_set_add(struct shfs_restore_set *set,
                                      struct shfs_index *index,
                                      struct shfs_version *version, const char *dir);

/* The same, to be restored as the file path (absolute). */
_must_check_ int shfs_restore_set_add_as(struct shfs_restore_set *set,
                                         struct shfs_version *version, const char *path);
void shfs_restore_set_clear(struct shfs_restore_set *set);
#define _cleanup_restore_set_ _cleanup_(shfs_restore_set_clear)

/* Restores them, says what became of each, and returns the exit code. */
int shfs_restore_set_run(struct shfs_restore_set *set, struct shfs_context *ctx,
                         struct shfs_index *index, struct shfs_restore_options options);
