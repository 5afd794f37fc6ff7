/* SPDX-License-Identifier: MIT */
/* restore-past.h - puts paths back as they were at a time, or copies them as they were.
 */
#pragma once

#include "query/base/cmd.h"

#include <stdint.h>

struct shfs_restore_past {
	int64_t time_ns;
	char **paths; /* absolute, normal */
	size_t n_paths;
	bool may_be_new; /* paths that were not there then are no error */
	const char *to;  /* absolute: where the one path is copied to; NULL: in place */
	bool exact;      /* remove what was added since */
	bool git;        /* also in .git */
	bool force, dry_run, patch, partly, json;
};

/* Returns an exit code; what was done, or why nothing was, is printed. */
int shfs_restore_past(struct shfs_context *ctx, struct shfs_index *index,
                      const struct shfs_restore_past *what);
