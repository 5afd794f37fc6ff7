/* SPDX-License-Identifier: MIT */
/*
 * alert.h - alerts: what is wrong with the recording of a project, for the next prompt.
 *
 * Each project of this host has a line of its own, in state/trouble-<host>-<hash of its
 * root>. All these lines together are state/alert-<host> (and the copy of
 * shfs_runtime_alert), of which hooks show each line once. So no project overwrites the
 * line of another one. No lock is needed: the whole is made of the lines again until it
 * agrees with them.
 */
#pragma once

#include "store/store.h"

/* longest name: state/trouble-<host>-<16 hex digits>; alert-<host> */
#define SHFS_ALERT_NAME_MAX 128

/*
 * Sets the line (ending in a newline) of the project at root. *reserve: an fd of
 * shfs_alert_reserve, used and closed (-1) if the disk is full; it may be NULL. Errors
 * are ignored: the cause of the alert may prevent it, too.
 */
void shfs_alert_raise(const struct shfs_store *store, const char *root, const char *line,
                      int *reserve);

/* Removes the line of the project. */
void shfs_alert_clear(const struct shfs_store *store, const char *root);

/* Reserves room for a line while there is some: returns an fd; -1: there is none. */
int shfs_alert_reserve(const struct shfs_store *store);
