/* SPDX-License-Identifier: MIT */
/* log-screen.h - the versions of a file, with what each changed beside them. */
#pragma once

#include "query/base/model.h"

/* From the version last on, downwards. Its number in *n: 0; or an exit code: not found,
 * where none was chosen. */
_must_check_ int shfs_log_choose(struct shfs_context *ctx, struct shfs_index *index,
                                 struct shfs_store *store,
                                 const struct shfs_version *last, int64_t *n);
