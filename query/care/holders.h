/* SPDX-License-Identifier: MIT */
/*
 * holders.h - finds the processes that keep a mount busy, and what they hold.
 *
 * Only /proc is read, nothing on the mount itself: a daemon that hangs cannot block the
 * search. Processes of other users cannot be read, and are left out.
 */
#pragma once

#include "query/base/mounts.h"

struct shfs_holder {
	pid_t pid;
	char comm[64];
	bool stands; /* its working or root directory is inside, or an fd of O_PATH */
	char *file;  /* a file that it has open, maps or executes; NULL: none */
	unsigned n_files; /* number of such files, at least */
};

struct shfs_holders {
	struct shfs_holder *list; /* in the order of /proc */
	size_t n;
};

_must_check_ int shfs_holders_find(const struct shfs_mount *mount,
                                   struct shfs_holders *out);
/* Finds processes in other mount namespaces where it is mounted, too: one for each
 * namespace, maybe more. */
_must_check_ int shfs_holders_elsewhere(const struct shfs_mount *mount,
                                        struct shfs_holders *out);
void shfs_holders_clear(struct shfs_holders *holders);
#define _cleanup_holders_ _cleanup_(shfs_holders_clear)
