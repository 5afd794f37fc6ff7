/* SPDX-License-Identifier: MIT */
/* check-show.h - what is wrong with a store, for people and for programs. */
#pragma once

#include "query/base/json.h"

#include "store/care/check.h"

/* A line for each flaw, those that are harmless last; and one for each version that is
 * lost. */
void shfs_check_show(struct shfs_buf *out, const struct shfs_check *check);

/* What was looked at, in a line. */
void shfs_check_show_counts(struct shfs_buf *out, const struct shfs_check *check);

/* "flaws", "lost" and the counts. */
void shfs_check_json(struct shfs_json *json, const struct shfs_check *check);

/* A shfs_check_options.progress: a line on standard error, if that is a terminal. */
void shfs_check_progress(void *arg, uint64_t done, uint64_t total);
void shfs_check_progress_end(void);

/* Says why it could not be done. Returns an exit code. */
int shfs_check_fail(int error);
