/* SPDX-License-Identifier: MIT */
/*
 * lease.h - keeps objects from being collected between a put and the record that names
 * what was put. docs/objects.md, "Collecting".
 *
 * A producer holds a lease while anything is under way. A collection condemns objects in
 * a new generation: from then on no put finds them. It removes them once all leases of
 * the generation before have ended or were renewed, and but for those that were claimed
 * then. Nobody ever waits for a collection. Thread-safe.
 */
#pragma once

#include "common/record.h"
#include "store/store.h"

#include <stdbool.h>

struct leases;

struct leases *leases_new(void); /* NULL: no memory */
void leases_free(struct leases *leases);

/* Opens what is needed, so that begin needs neither room nor a free descriptor. */
_must_check_ int shfs_lease_prepare(struct shfs_store *store);

/* One thing more, one less, is under way. */
_must_check_ int shfs_lease_begin(struct shfs_store *store);
void shfs_lease_end(struct shfs_store *store);
/* One more, while there is one. */
void shfs_lease_keep(struct shfs_store *store);

/* Has a collection begun that waits for this process? */
bool shfs_lease_is_stale(struct shfs_store *store);

/* What is under way will name these objects at most, beside those that are put from now
 * on: they are claimed, and the collection need not wait. No put must be uncommitted. */
_must_check_ int shfs_lease_renew(struct shfs_store *store,
                                  const struct shfs_object_id *ids, size_t n);

/* It grows with each collection: what was durable, and since another number, may be gone.
 */
uint64_t shfs_lease_generation(struct shfs_store *store);

/* May this object be gone in a moment? Then nothing new must name it or lean on it. */
bool lease_condemns(struct shfs_store *store, const struct shfs_object_id *id);

/* The objects that are condemned now, if they are to be forgotten, and the number of that
 * generation; else none. A lease was begun since. ids: malloc'ed. */
_must_check_ int lease_forgotten(struct shfs_store *store, struct shfs_object_id **ids,
                                 size_t *n, uint64_t *generation);

/* --- the collector --- */

struct lease_gate {
	int dirfd, lock, leases[2];
	uint64_t generation;
	bool condemned;
	bool locks; /* flock may be used */
};

/* How to condemn. */
struct lease_condemnation {
	int wait_ms; /* for producers */
	bool forget; /* nobody claims what is condemned: records name it no more */
	/* Called once it is condemned, before producers are waited for; or NULL. */
	int (*tell)(void *arg);
	void *arg;
};

/* One at a time. -EBUSY. */
_must_check_ int lease_gate_open(struct shfs_store *store, struct lease_gate *gate);

/* Keeps collections away until it is closed: nothing is condemned. -EBUSY. */
_must_check_ int lease_gate_shut(struct shfs_store *store, struct lease_gate *gate);

/* A new generation, in which these (sorted) are condemned. Returns once no lease of the
 * one before is left. -EBUSY: one was there for wait_ms; nothing is condemned then. */
_must_check_ int lease_gate_condemn(struct lease_gate *gate,
                                    const struct shfs_object_id *ids, size_t n,
                                    const struct lease_condemnation *how);

/* What was claimed since. ids: malloc'ed. */
_must_check_ int lease_gate_claims(struct lease_gate *gate, struct shfs_object_id **ids,
                                   size_t *n);

/* The condemned are gone, or are not to go. */
void lease_gate_close(struct lease_gate *gate);
