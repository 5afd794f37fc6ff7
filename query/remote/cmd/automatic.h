/* SPDX-License-Identifier: MIT */
/* automatic.h - pushes by themselves: which remotes are due, and how failures are told.
 */
#pragma once

#include "query/base/context.h"

/*
 * Pushes to each remote (name: to this one) that is due by [remote] push. A failure is
 * noted for shfs status, and said once: the same one again is silent, and is then no
 * failure of this command. Returns an exit code.
 */
int push_automatically(struct shfs_context *ctx, struct shfs_store *store,
                       const char *name);

/* Has the user's systemd do that, if [remote] push is set. What cannot be is said. */
void push_enable_timer(const struct shfs_config *config);
