/* SPDX-License-Identifier: MIT */
/*
 * away.h - contents that are not here, and that a remote has: the file "away" of the
 * store, a list of their objects as pruned.h has it (docs/remotes.md, Contents on
 * demand). An object of the list may be here, too: it was brought since. In pruned.c.
 */
#pragma once

#include "store/objects/objects.h"
#include "store/store.h"

/* Is the object in the list? 1; 0; or a negative errno. Thread-safe. */
_must_check_ int shfs_object_is_away(struct shfs_store *store,
                                     const struct shfs_object_id *id);

/* Is any content away? */
bool shfs_store_has_away(const char *store_path);

/* Counts the objects of the list that are not here. */
_must_check_ int shfs_away_count(struct shfs_store *store, uint64_t *out);

/* Is there a list, and is it whole? 1; 0; -errno. */
_must_check_ int away_is_whole(struct shfs_store *store);
/* Reads the list, sorted. There may be none. -EBADMSG: it is damaged. */
_must_check_ int away_load(struct shfs_store *store, struct shfs_objects *out);
/* Writes the sorted list durably to the directory of a store; removes it. */
_must_check_ int away_write(int dirfd, const struct shfs_objects *sorted);
_must_check_ int away_remove(int dirfd);
/* Takes the lock under which the list is read, changed and written, of pulls and pushes
 * as of collectors; it is the last lock that is taken. A descriptor that holds it;
 * -EBUSY. */
_must_check_ int away_lock(struct shfs_store *store);
/* Takes objects off the list: they were pruned or forgotten. -ENOTRECOVERABLE: it is
 * damaged. */
_must_check_ int away_drop(struct shfs_store *store, const struct shfs_object_id *ids,
                           size_t n);

/* Brings an object that is away: afterwards it is here. Called without locks. */
typedef int (*shfs_supply_fn)(struct shfs_store *store, const struct shfs_object_id *id);
/* From now on this process has contents brought that it reads and that are away. Without
 * it, reading them is -EREMOTE. Called before there are threads. */
void shfs_object_supply_by(shfs_supply_fn fn);
/* Brings it. -EREMOTE: that failed, or nothing brings any. */
_must_check_ int away_supply(struct shfs_store *store, const struct shfs_object_id *id);
