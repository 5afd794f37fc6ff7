/* SPDX-License-Identifier: MIT */
/*
 * trusted.h - the way to a file that is to be written. A symbolic link on it that
 * somebody else made leads where they want: it is not followed. Those of root are.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

struct shfs_way {
	bool no_own; /* nor are one's own links */
	bool make;   /* directories that are missing */
};

/* Opens the directory at path, O_PATH. -ELOOP: behind a link that is not followed. */
_must_check_ int shfs_trusted_directory(const char *path, struct shfs_way way, int *fd);

/* Opens the directory of a file at path, that of what a link leads to which is followed.
 * name: malloc'ed; to be used with O_NOFOLLOW. */
_must_check_ int shfs_trusted_parent(const char *path, struct shfs_way way, int *dirfd,
                                     char **name);
