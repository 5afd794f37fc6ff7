/* SPDX-License-Identifier: MIT */
/*
 * demand.h - fetches contents that only a remote has when this process reads them.
 *
 * A process of its own fetches, as this one may forbid itself the network and other
 * programs. It takes names of objects and nothing else, says what goes wrong on standard
 * error, keeps its connections (that to a host only while contents are asked for, as
 * nothing of its store can be removed meanwhile), and ends with this process.
 */
#pragma once

#include "query/base/cmd.h"

/* Begins it, if the store has contents that are away. Called before there are threads. If
 * it cannot be begun, reading these fails as without it. */
void demand_begin(struct shfs_context *ctx);
/* Ends it, and waits for that. */
void demand_end(void);
