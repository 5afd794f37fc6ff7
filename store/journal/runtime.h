/* SPDX-License-Identifier: MIT */
/*
 * runtime.h - the directory that hooks use instead of a store that may hang.
 *
 * A prompt must not wait for a server or a daemon. So if access to the store may wait for
 * one (shfs_store_may_hang), hooks write their logs to, and look for alerts in, a
 * directory of this machine with the layout of a store:
 *
 *     $XDG_RUNTIME_DIR/shfs/<hash>/journal/<host>/shell-*.log
 *     $XDG_RUNTIME_DIR/shfs/<hash>/state/alert-<host>*
 *
 * <hash> is the XXH3-64 of the store's path in 16 hex digits. The directory is gone after
 * a logout. So ingest copies its logs into the journal, and reads only the copies; alerts
 * are written to both.
 */
#pragma once

#include "store/store.h"

/* Returns the path of that directory, malloc'ed; it need not exist. NULL: this machine
 * has no place for it (or no memory). */
char *shfs_runtime_dir(const char *store_path);

/* Returns the path of this host's hook logs in that directory, likewise. */
char *shfs_runtime_hook_dir(const char *store_path);

/*
 * Appends the new bytes of the hook logs in dir to their copies in the journal, and syncs
 * the copies. This includes logs that shells began while this host had another name. A
 * log is removed once its shell has ended and all of it is copied. Safe at any time, from
 * any number of processes; a crash in between loses nothing. No such directory: 0. An
 * error of one log does not stop the others; the first error is returned.
 */
_must_check_ int shfs_runtime_collect(struct shfs_store *store, const char *dir);

/*
 * Writes the alert `name` (a file in state/, with a line of text) for hooks that look
 * here, or removes it (NULL). Does nothing if no hook has made the directory. Errors are
 * ignored: the store has the same alert.
 */
void shfs_runtime_alert(const char *store_path, const char *name, const char *text);
