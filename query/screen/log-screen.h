/* SPDX-License-Identifier: MIT */
/* log-screen.h - shows the versions of a file, and beside them what each changed. */
#pragma once

#include "query/base/model.h"

/* Lets the user choose from the version last on, downwards. 0 and *n is its number; or an
 * exit code: not found if none was chosen. */
_must_check_ int shfs_log_choose(struct shfs_context *ctx, struct shfs_index *index,
                                 struct shfs_store *store,
                                 const struct shfs_version *last, int64_t *n);
