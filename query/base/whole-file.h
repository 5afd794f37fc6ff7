/* SPDX-License-Identifier: MIT */
/*
 * whole-file.h - writes a file that gets its name only once it is complete; until then
 * the name keeps its old file. In the meantime it has no name, or one that begins with
 * ".shfs-" if the file system has no O_TMPFILE.
 */
#pragma once

#include "common/util.h"

struct shfs_whole_file {
	int fd; /* to write to */
	bool replace;
	int dirfd;  /* of the file, or of a link's target (trusted.h) */
	char *name; /* in dirfd */
	char *temp; /* its temporary name in dirfd; NULL: it has none */
};

/* replace: a regular file may have the name, and gives its mode; else -EEXIST. -ENOTSUP:
 * the name is something else, to be written directly. -ELOOP: as in trusted.h. mode: of a
 * new file. */
_must_check_ int shfs_whole_file_begin(struct shfs_whole_file *file, const char *path,
                                       bool replace, mode_t mode);
/* Makes it durable and gives it its name. */
_must_check_ int shfs_whole_file_finish(struct shfs_whole_file *file);
/* Call it after either; without shfs_whole_file_finish the new file is discarded. */
void shfs_whole_file_close(struct shfs_whole_file *file);
