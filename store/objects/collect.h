/* SPDX-License-Identifier: MIT */
/*
 * collect.h - the collector: removes objects. Readers find all other objects at any time.
 */
#pragma once

#include "store/objects/object.h"
#include "store/objects/objects.h"

/* Sums the bytes that the objects take; missing ones take none. */
_must_check_ int shfs_objects_measure(struct shfs_store *store,
                                      const struct shfs_object_id *ids, size_t n,
                                      uint64_t *bytes);

/*
 * Removes the objects: packs that hold one are written anew without it, and contents that
 * are deltas of one are stored anew. If it is killed, all other objects are still there,
 * and it can be called again. Sorts ids. No producer may name these objects or make
 * deltas of them any more (see shfs_store_exclude and shfs_collect). -EBUSY: some are
 * left, in packs that are in use.
 */
_must_check_ int shfs_objects_remove(struct shfs_store *store, struct shfs_object_id *ids,
                                     size_t n);

/* Is the content id to stay that the frame at that offset of the pack has? */
typedef bool (*shfs_keep_fn)(void *arg, const char *pack, uint64_t offset,
                             const struct shfs_object_id *id);

/*
 * Writes the packs (names below objects/packs) anew with the contents of their intact
 * frames for which keep returns true, and then removes the old packs. Errors as above.
 */
_must_check_ int shfs_packs_salvage(struct shfs_store *store, char *const *packs,
                                    size_t n, shfs_keep_fn keep, void *arg);

/*
 * A collection while producers are at work. pick is called twice: first, and again once
 * all records that were under way then are in the journal. The objects that it names both
 * times are removed, except those that a producer has claimed.
 */
struct shfs_collect {
	int (*pick)(void *arg, struct shfs_objects *out);
	void *arg;
	bool named;  /* records name them: note them as pruned (store/objects/pruned.h) */
	bool shared; /* the caller holds the store (shfs_store_share) */
	bool forget; /* no record names them any more, and none may be claimed */
	int (*tell)(void *arg); /* see struct lease_condemnation; or NULL */
	void *tell_arg;
	bool alone;  /* on a network file system: the user says that nobody records */
	int wait_ms; /* for producers */
	uint64_t *objects, *bytes; /* out: removed objects, and their stored bytes */
};

/* Runs a collection. -EBUSY: a producer kept its lease, or another collection is at work,
 * and nothing was removed; or some objects are left. -EOPNOTSUPP: a network file system.
 */
_must_check_ int shfs_collect(struct shfs_store *store, const struct shfs_collect *how);

/* Runs a collection for a caller that holds the store shared, and the gate. */
struct lease_gate;
_must_check_ int shfs_collect_at(struct shfs_store *store, struct lease_gate *gate,
                                 const struct shfs_collect *how);
