/* SPDX-License-Identifier: MIT */
/*
 * diff.h - two contents through diff(1).
 */
#pragma once

#include "query/base/model.h"

/* What diff reads, and what it is called. fd starts as -1. */
struct shfs_diff_side {
	int fd;
	struct shfs_buf label;
};

void shfs_diff_side_clear(struct shfs_diff_side *side);

/* The whole of it in a memory file, at its beginning; 0: else why says why not. */
_must_check_ int shfs_version_content(struct shfs_store *store,
                                      const struct shfs_version *version, int *fd,
                                      struct shfs_buf *why);

/* Each returns 0, or an exit code after it has said what is wrong. */
_must_check_ int shfs_diff_version(struct shfs_store *store,
                                   const struct shfs_version *version,
                                   struct shfs_diff_side *side);
/* The file as it is now. */
_must_check_ int shfs_diff_now(const char *path, struct shfs_diff_side *side);
/* No file. */
_must_check_ int shfs_diff_nothing(struct shfs_diff_side *side);

struct shfs_diff_options {
	const char *context; /* lines; NULL: diff's default */
	bool brief, color;
};

/* Begins it, with its output to the fd out (-1: standard output). A negative errno. */
_must_check_ int shfs_diff_start(const struct shfs_diff_side side[2],
                                 const struct shfs_diff_options *options, int out,
                                 pid_t *pid);

/* To standard output, which must have been flushed: 0 the same, 1 different, else an exit
 * code (what is wrong has been said). */
_must_check_ int shfs_diff_run(const struct shfs_diff_side side[2],
                               const struct shfs_diff_options *options);
