/* SPDX-License-Identifier: MIT */
/*
 * diff.h - compares two contents with diff(1).
 */
#pragma once

#include "query/base/model.h"

/* One side: its content, and its label. fd starts as -1. */
struct shfs_diff_side {
	int fd;
	struct shfs_buf label;
};

void shfs_diff_side_clear(struct shfs_diff_side *side);

/* Copies the content into a memory file, rewound; 0: failed, and *why says why. */
_must_check_ int shfs_version_content(struct shfs_store *store,
                                      const struct shfs_version *version, int *fd,
                                      struct shfs_buf *why);

/* Each returns 0, or an exit code after a message. */
_must_check_ int shfs_diff_version(struct shfs_store *store,
                                   const struct shfs_version *version,
                                   struct shfs_diff_side *side);
/* Opens the file as it is now. */
_must_check_ int shfs_diff_now(const char *path, struct shfs_diff_side *side);
/* Opens an empty side: there is no file. */
_must_check_ int shfs_diff_nothing(struct shfs_diff_side *side);

struct shfs_diff_options {
	const char *context; /* lines; NULL: diff's default */
	bool brief, color;
};

/* Starts diff, with its output to the fd out (-1: standard output). A negative errno. */
_must_check_ int shfs_diff_start(const struct shfs_diff_side side[2],
                                 const struct shfs_diff_options *options, int out,
                                 pid_t *pid);

/* Runs diff to standard output, which must have been flushed: 0: the same, 1: different,
 * else an exit code, after a message. */
_must_check_ int shfs_diff_run(const struct shfs_diff_side side[2],
                               const struct shfs_diff_options *options);
