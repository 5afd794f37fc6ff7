/* SPDX-License-Identifier: MIT */
/* check-show.h - shows the flaws of a store, to people and to programs. */
#pragma once

#include "query/base/json.h"

#include "store/care/check.h"

/* Adds a line for each flaw, harmless ones last; and one for each lost version. */
void shfs_check_show(struct shfs_buf *out, const struct shfs_check *check);

/* Adds a line that says what was checked. */
void shfs_check_show_counts(struct shfs_buf *out, const struct shfs_check *check);

/* "flaws", "lost" and the counts. */
void shfs_check_json(struct shfs_json *json, const struct shfs_check *check);

/* A shfs_check_options.progress: a line on standard error, if that is a terminal. */
void shfs_check_progress(void *arg, uint64_t done, uint64_t total);
void shfs_check_progress_end(void);

/* Prints why the check failed. Returns an exit code. */
int shfs_check_fail(int error);
