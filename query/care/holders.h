/* SPDX-License-Identifier: MIT */
/*
 * holders.h - which processes keep a mount busy, and with what.
 *
 * Only /proc is asked, nothing on the mount itself, so a daemon that is stuck does not
 * hold us. Processes of other users cannot be looked into, and are left out.
 */
#pragma once

#include "query/base/mounts.h"

struct shfs_holder {
	pid_t pid;
	char comm[64];
	bool stands; /* its working or root directory is inside, or an fd of O_PATH */
	char *file;  /* one that it has open, maps or executes; NULL: none */
	unsigned n_files; /* how many those are, at least */
};

struct shfs_holders {
	struct shfs_holder *list; /* in the order of /proc */
	size_t n;
};

_must_check_ int shfs_holders_find(const struct shfs_mount *mount,
                                   struct shfs_holders *out);
/* Who has it in another mount namespace: a process of each, or of some twice. */
_must_check_ int shfs_holders_elsewhere(const struct shfs_mount *mount,
                                        struct shfs_holders *out);
void shfs_holders_clear(struct shfs_holders *holders);
#define _cleanup_holders_ _cleanup_(shfs_holders_clear)
