/* SPDX-License-Identifier: MIT */
/*
 * place.h - where index.db lies: in the store, but not if that is on a network.
 *
 * SQLite needs locks and shared memory, which a network file system may not have among
 * hosts, and we take no locks there. So each host that uses such a store has an index of
 * its own, in a directory of the machine: the first of $XDG_CACHE_HOME/shfs (else
 * ~/.cache/shfs), /var/tmp/shfs-UID and the runtime directory (common/path.h) that is on
 * no network, with the hash of the store's path below it. docs/index.md, "On a network".
 */
#pragma once

#include "store/store.h"

/* An fd of the directory, which is made, is the user's and closed to all others. path:
 * malloc'ed. -EREMOTE: there is no such place. */
_must_check_ int place_open(const char *store_path, char **path);

/*
 * Where records were changed or taken away (store/care/forget.h), indexes of other hosts
 * have read what is not there any more: announce it once that is done. An index is stale
 * if that happened since it was noted; never where it lies in the store. number: of
 * noting it, once it has been emptied.
 */
_must_check_ int place_announce(struct shfs_store *store);
_must_check_ int place_is_stale(struct shfs_store *store, uint64_t *number);
_must_check_ int place_note(struct shfs_store *store, uint64_t number);
