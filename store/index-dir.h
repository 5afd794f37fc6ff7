/* SPDX-License-Identifier: MIT */
/*
 * index-dir.h - where index.db lies: in the store, unless the store is on a network.
 *
 * SQLite needs locks and shared memory, which a network file system may not have among
 * hosts, and we take no locks there. So each host that uses such a store has an index of
 * its own, in a directory of the machine: the first of $XDG_CACHE_HOME/shfs (else
 * ~/.cache/shfs), /var/tmp/shfs-UID and the runtime directory (common/path.h) that is not
 * on a network. The index is in a subdirectory named by the hash of the store's path.
 * docs/index.md, "On a network".
 */
#pragma once

#include "store/store.h"

/* Opens the directory of the index, and makes it if need be; it is the user's alone.
 * Returns its fd. *path: malloc'ed. -EREMOTE: there is no such directory. */
_must_check_ int index_dir_open(const char *store_path, char **path);

/*
 * When records were changed or removed (store/care/forget.h), indexes of other hosts have
 * rows of records that no longer exist. index_dir_announce announces that, afterwards.
 * index_dir_is_stale says whether there was an announcement that this index has not
 * noted; never if the index lies in the store. *number is to be noted by index_dir_note
 * once the index has been emptied. index_dir_announced gets the number of the last
 * announcement; 0: there was none.
 */
_must_check_ int index_dir_announce(struct shfs_store *store);
_must_check_ int index_dir_announced(struct shfs_store *store, uint64_t *number);
_must_check_ int index_dir_is_stale(struct shfs_store *store, uint64_t *number);
_must_check_ int index_dir_note(struct shfs_store *store, uint64_t number);
