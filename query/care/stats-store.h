/* SPDX-License-Identifier: MIT */
/* stats-store.h - how much room the store takes, and for which files. */
#pragma once

#include "query/base/cmd.h"

/* limit: for each list. Returns an exit code; if it is not 0, a message was printed. */
int shfs_stats_store(struct shfs_context *ctx, struct shfs_index *index,
                     struct shfs_store *store, int64_t limit, bool json);
