/* SPDX-License-Identifier: MIT */
/*
 * runtime.h - what hooks see in place of the store, where the store may hang.
 *
 * A prompt comes back whatever a server or a daemon does. So where a look at the store
 * may wait for one (shfs_store_may_hang), hooks write their logs to, and look for alerts
 * in, a directory of this machine with the layout of a store:
 *
 *     $XDG_RUNTIME_DIR/shfs/<hash>/journal/<host>/shell-*.log
 *     $XDG_RUNTIME_DIR/shfs/<hash>/state/alert-<host>*
 *
 * <hash> is that of the store's path: 16 hex digits, XXH3-64. The directory is gone after
 * a logout. So its logs are copied into the journal by whoever ingests, and ingest reads
 * the copies alone; alerts are written to both.
 */
#pragma once

#include "store/store.h"

/* malloc'ed; NULL: no such directory here (or no memory). It need not exist. */
char *shfs_runtime_dir(const char *store_path);

/* Where its hook logs of this host are; as above. */
char *shfs_runtime_hook_dir(const char *store_path);

/*
 * Appends what is new in the hook logs in dir, and beside it those that shells have begun
 * while this host had another name, to their copies in the journal, byte for byte, and
 * syncs them. A log is removed once its shell has ended and all of it is
 * copied. Safe at any time, from any number of processes; a crash between costs nothing.
 * No such directory: 0. After an error of one log (the first is returned) it goes on with
 * the others.
 */
_must_check_ int shfs_runtime_collect(struct shfs_store *store, const char *dir);

/*
 * Shows the alert `name` (a file in state/) to hooks that look here: a line of text, or
 * NULL to take it away. Does nothing where no hook has made the directory. As well as it
 * can be done, for what the store has already.
 */
void shfs_runtime_alert(const char *store_path, const char *name, const char *text);
