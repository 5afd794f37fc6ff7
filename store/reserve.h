/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - room for prune, gc and forget on a full disk: a file of the store
 * (state/reserve) that they delete first, as they must write before they can remove.
 *
 * A recording that stopped for lack of room goes on only when twice as much is free
 * (store/capture/writer.c), so it does not take the room that was given up.
 */
#pragma once

#include "store/store.h"

#define SHFS_RESERVE_BYTES (1u << 20)

/* Makes the reserve, if there is none and the disk has room for sixteen of them. */
void reserve_make(struct shfs_store *store);

/* Deletes the reserve. False: there was none. */
bool reserve_give_up(struct shfs_store *store);
