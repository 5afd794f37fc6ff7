/* SPDX-License-Identifier: MIT */
/*
 * whole-file.h - writes a file that has its name only once it is whole; until then what
 * had that name before stays. It has no name meanwhile, or one that begins with ".shfs-"
 * where the file system has no O_TMPFILE.
 */
#pragma once

#include "common/util.h"

struct shfs_whole_file {
	int fd; /* to write to */
	bool replace;
	int dirfd;  /* of the file, or of what a link leads to (trusted.h) */
	char *name; /* in dirfd */
	char *temp; /* its name meanwhile, likewise; NULL: it has none */
};

/* replace: a regular file may have the name, and gives its mode; else -EEXIST. -ENOTSUP:
 * something else has it, to which one writes directly. -ELOOP: as trusted.h. mode: of a
 * new one. */
_must_check_ int shfs_whole_file_begin(struct shfs_whole_file *file, const char *path,
                                       bool replace, mode_t mode);
/* Makes it durable and gives it its name. */
_must_check_ int shfs_whole_file_finish(struct shfs_whole_file *file);
/* After either; one without a finish is gone. */
void shfs_whole_file_close(struct shfs_whole_file *file);
