/* SPDX-License-Identifier: MIT */
/*
 * changes.h - what a layer has changed, beside the project as it is now.
 *
 * A layer keeps what is not as below (overlayfs, "userxattr"): a whole file or directory
 * that was made or changed; a device 0:0 where something was removed; the attribute
 * user.overlay.opaque=y on a directory that hides the one below, user.overlay.origin on
 * what was copied up. A file is a conflict if it was changed below since the layer began:
 * its ctime is later.
 * https://docs.kernel.org/filesystems/overlayfs.html
 */
#pragma once

#include "query/try/layer.h"

#include <sys/stat.h>

enum shfs_change_kind {
	SHFS_CHANGE_MADE,
	SHFS_CHANGE_CHANGED,    /* its content, what it is, or its extended attributes */
	SHFS_CHANGE_ATTRIBUTES, /* its mode, owner or time alone; of a directory any */
	SHFS_CHANGE_REMOVED,
};

struct shfs_change {
	enum shfs_change_kind kind;
	char *path;           /* below the project */
	struct stat now;      /* in the layer; st_mode 0: it is not there */
	struct stat then;     /* in the project, likewise */
	const char *conflict; /* what others did meanwhile, static; NULL */
	bool inside;          /* of a directory that is removed as well */
};

/* In the order in which they can be made; what a removed directory held follows it. */
struct shfs_changes {
	struct shfs_change *list;
	size_t n, cap;
	size_t conflicts;
};

/* Those of the whole layer. A negative errno. */
_must_check_ int shfs_changes_find(const struct shfs_layer *layer,
                                   struct shfs_changes *out);
void shfs_changes_clear(struct shfs_changes *changes);
#define _cleanup_changes_ _cleanup_(shfs_changes_clear)

/* Leaves only those at these paths (absolute) or below them, with the directories that
 * they need. True if each path has one; else *without is the first that has none. */
bool shfs_changes_select(struct shfs_changes *changes, const struct shfs_layer *layer,
                         char *const *paths, size_t n, const char **without);
