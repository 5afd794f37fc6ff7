/* SPDX-License-Identifier: MIT */
/*
 * collect.h - takes objects away. Who reads meanwhile finds all others all the time.
 */
#pragma once

#include "store/objects/object.h"
#include "store/objects/objects.h"

/* Bytes that the objects take, as far as they are there. */
_must_check_ int shfs_objects_measure(struct shfs_store *store,
                                      const struct shfs_object_id *ids, size_t n,
                                      uint64_t *bytes);

/*
 * Removes them: packs that have one are written anew without it, and contents that are
 * deltas of one are stored anew. Killed at any time, all others are there, and it can be
 * done again. ids is sorted by it. No producer may name or lean on them any more (see
 * shfs_store_exclude, and shfs_collect). -EBUSY: some are left, in packs in use.
 */
_must_check_ int shfs_objects_remove(struct shfs_store *store, struct shfs_object_id *ids,
                                     size_t n);

/*
 * Writes the packs (names below objects/packs) anew, with all of their frames that are
 * intact and that keep wants, and then removes them. As above.
 */
_must_check_ int
shfs_packs_salvage(struct shfs_store *store, char *const *packs, size_t n,
                   bool (*keep)(void *arg, const char *pack, uint64_t offset), void *arg);

/*
 * What to collect while producers are at work. pick is asked twice: before, and once all
 * records are in the journal that were under way then; what it names both times goes, but
 * for what a producer claimed.
 */
struct shfs_collect {
	int (*pick)(void *arg, struct shfs_objects *out);
	void *arg;
	bool named;  /* by records: they are noted as pruned (store/objects/pruned.h) */
	bool shared; /* the caller holds the store (shfs_store_share) */
	bool forget; /* nobody claims any, records name them no more */
	int (*tell)(void *arg); /* as struct lease_condemnation has it, or NULL */
	void *tell_arg;
	bool alone;  /* on a network file system: nobody records, says the user */
	int wait_ms; /* for producers */
	uint64_t *objects, *bytes; /* out: that went, as they were stored */
};

/* -EBUSY: a producer did not let go, or another collection is at work, and nothing is
 * removed; or some of it is left. -EOPNOTSUPP: a network file system. */
_must_check_ int shfs_collect(struct shfs_store *store, const struct shfs_collect *how);

/* The same for who holds the store shared, and the gate. */
struct lease_gate;
_must_check_ int shfs_collect_at(struct shfs_store *store, struct lease_gate *gate,
                                 const struct shfs_collect *how);
