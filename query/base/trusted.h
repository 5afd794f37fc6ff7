/* SPDX-License-Identifier: MIT */
/*
 * trusted.h - walks the path of a file that will be written, without following a symbolic
 * link that another user made: it may lead anywhere. Links of root are followed.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

struct shfs_way {
	bool no_own; /* do not follow the user's own links either */
	bool make;   /* make missing directories */
};

/* Opens the directory at path, O_PATH. -ELOOP: a link is not followed. */
_must_check_ int shfs_trusted_directory(const char *path, struct shfs_way way, int *fd);

/* Opens the directory of the file at path; if path is a link that is followed, the
 * directory of its target. name: malloc'ed; use it with O_NOFOLLOW. */
_must_check_ int shfs_trusted_parent(const char *path, struct shfs_way way, int *dirfd,
                                     char **name);
