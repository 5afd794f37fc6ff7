/* SPDX-License-Identifier: MIT */
/*
 * alert.h - what is wrong with the recording of a project, for the next prompt.
 *
 * Each project of this host has a line of its own, in state/trouble-<host>-<hash of its
 * root>; all of them together, one behind the other, are state/alert-<host> (and what
 * shfs_runtime_alert keeps), of which hooks show each line once. So no project takes away
 * what another one has to say, and nobody needs a lock: the whole is made of the lines
 * again until it is what they say.
 */
#pragma once

#include "store/store.h"

/* state/trouble-<host>-<16 hex digits>; alert-<host> */
#define SHFS_ALERT_NAME_MAX 128

/*
 * The project at root has this line (ending in a newline) to say. reserve: an fd of
 * shfs_alert_reserve, used and closed (-1) where the disk is full; it may be NULL.
 * As well as it can be done: what is wrong with the store may be wrong with this too.
 */
void shfs_alert_raise(const struct shfs_store *store, const char *root, const char *line,
                      int *reserve);

/* It has nothing to say any more. */
void shfs_alert_clear(const struct shfs_store *store, const char *root);

/* Room for a line, taken while there is some: an fd; -1: none. */
int shfs_alert_reserve(const struct shfs_store *store);
