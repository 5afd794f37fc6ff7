/* SPDX-License-Identifier: MIT */
/* stats-store.h - what the store takes, and for which files. */
#pragma once

#include "query/base/cmd.h"

/* limit: of each list. Returns an exit code; where it is not 0, the reason has been said.
 */
int shfs_stats_store(struct shfs_context *ctx, struct shfs_index *index,
                     struct shfs_store *store, int64_t limit, bool json);
