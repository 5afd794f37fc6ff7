/* SPDX-License-Identifier: MIT */
/* ask.h - makes a team's database what a command asks: --db URL. */
#pragma once

#include "query/base/context.h"

/*
 * Gives the context an index of all that the role of the URL sees: a mirror
 * (store/index/mirror.h) in $XDG_CACHE_HOME/shfs/db/HASH, of URL and role, which is
 * brought up to date. The store stays the one here, if there is one: contents are not in
 * the database. Before a sandbox is entered. An exit code, after a message.
 */
_must_check_ int team_ask(struct shfs_context *ctx, const char *url);

/* Removes all such mirrors: what was forgotten is in none. Warns of one that stays. */
void team_forget(void);
