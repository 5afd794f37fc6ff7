/* SPDX-License-Identifier: MIT */
/*
 * lease.h - keeps objects from being collected between a put and the record that names
 * the object. docs/objects.md, "Collecting".
 *
 * 1. A producer begins a lease before a put, and ends it once the record is written.
 * 2. A collection condemns objects in a new generation: from then on no put finds them.
 * 3. It waits until all leases of the generation before have ended or were renewed. A
 *    producer that renews claims the objects that it is about to name.
 * 4. It removes the condemned objects that were not claimed.
 *
 * A producer never waits for a collection. Thread-safe.
 */
#pragma once

#include "common/record.h"
#include "store/store.h"

#include <stdbool.h>

struct leases;

struct leases *leases_new(void); /* NULL: no memory */
void leases_free(struct leases *leases);

/* Opens the files, so that shfs_lease_begin needs neither room nor a free descriptor. */
_must_check_ int shfs_lease_prepare(struct shfs_store *store);

/* Begin and end a lease; nested leases of a process are counted. */
_must_check_ int shfs_lease_begin(struct shfs_store *store);
void shfs_lease_end(struct shfs_store *store);
/* Begins a further lease while one is held; cannot fail. */
void shfs_lease_keep(struct shfs_store *store);

/* Has a collection begun that waits for this process? */
bool shfs_lease_is_stale(struct shfs_store *store);

/* Claims the objects that records under way may name, so that the collection need not
 * wait for this process. All puts must be committed; later ones need no claim. */
_must_check_ int shfs_lease_renew(struct shfs_store *store,
                                  const struct shfs_object_id *ids, size_t n);

/* Returns a number that grows with each collection: an object that was durable at another
 * number may have been removed. */
uint64_t shfs_lease_generation(struct shfs_store *store);

/* Is this object condemned? Then nothing new must name it or be a delta of it. */
bool lease_condemns(struct shfs_store *store, const struct shfs_object_id *id);

/* Gets the condemned objects if they are to be forgotten, else none, and the generation,
 * as of the last begin of a lease. *ids: malloc'ed. */
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
	bool forget; /* to be forgotten: no record names them any more, none is claimed */
	/* Called once objects are condemned, before producers are waited for; or NULL. */
	int (*tell)(void *arg);
	void *arg;
};

/* Opens the gate for a collector; -EBUSY: another one is at work. */
_must_check_ int lease_gate_open(struct shfs_store *store, struct lease_gate *gate);

/* Prevents collections until the gate is closed: nothing is condemned. -EBUSY. */
_must_check_ int lease_gate_shut(struct shfs_store *store, struct lease_gate *gate);

/* Begins a new generation in which these objects (sorted) are condemned. Returns once no
 * lease of the generation before is left. -EBUSY: one was held for wait_ms; nothing is
 * condemned once the gate is closed. */
_must_check_ int lease_gate_condemn(struct lease_gate *gate,
                                    const struct shfs_object_id *ids, size_t n,
                                    const struct lease_condemnation *how);

/* Gets the objects that were claimed since, sorted. *ids: malloc'ed. */
_must_check_ int lease_gate_claims(struct lease_gate *gate, struct shfs_object_id **ids,
                                   size_t *n);

/* Closes the gate: the condemned objects were removed, or are condemned no longer. */
void lease_gate_close(struct lease_gate *gate);
