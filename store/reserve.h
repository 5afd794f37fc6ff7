/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - room for prune, gc and forget on a disk that is full: a file of the store
 * (state/reserve) that they give up first, as what they write comes before what goes.
 *
 * A recording that had no room waits for twice as much (store/capture/writer.c): what was
 * given up is not enough for it to go on.
 */
#pragma once

#include "store/store.h"

#define SHFS_RESERVE_BYTES (1u << 20)

/* Makes it, where it is not there and its disk has room for sixteen of them. */
void reserve_make(struct shfs_store *store);

/* False: there was none. */
bool reserve_give_up(struct shfs_store *store);
