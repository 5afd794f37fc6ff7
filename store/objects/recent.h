/* SPDX-License-Identifier: MIT */
/*
 * recent.h - keeps recently put contents in memory, as bases for deltas. Bounded;
 * thread-safe.
 */
#pragma once

#include "common/record.h"

#include <stdatomic.h>
#include <stdbool.h>

#define RECENT_BYTES_MAX (12u << 20)
#define RECENT_ONE_MAX   (4u << 20) /* a larger content is not kept */
#define RECENT_FEATURES  8
#define RECENT_SIMILAR   2 /* features that similar contents have in common */
#define RECENT_ALIKE     4 /* and those that are much alike */

enum recent_state {
	RECENT_PENDING,   /* no object yet */
	RECENT_NAMED,     /* an object if the commit under way succeeds */
	RECENT_COMMITTED, /* id names a durable object */
	RECENT_DEAD,      /* it will not become an object */
};

/* What it takes to decode an object. */
struct recent_cost {
	unsigned depth;       /* deltas that are decoded for it */
	uint64_t chain_bytes; /* bytes, with its own */
};

/* A content. A reference keeps it in memory; what is under the lock may change. */
struct recent {
	atomic_uint refs;
	struct recent *prev, *next; /* of recents, the oldest first */
	struct recent *also;        /* the next one in the same bucket of by_id */
	char *data;
	size_t len;
	uint32_t features[RECENT_FEATURES];
	bool kept; /* in recents */
	/* under the lock of recents */
	struct shfs_object_id id;
	struct recent_cost cost;
	enum recent_state state;
};

struct recents;

struct recents *recents_new(void); /* NULL: no memory */
void recents_free(struct recents *recents);
size_t recents_bytes(struct recents *recents); /* of all that are kept */

/*
 * Computes the features of a content, by which a similar one is found: the smallest
 * hashes of its pieces. All zero: it has none.
 */
void recent_features(const void *data, size_t len, uint32_t out[static RECENT_FEATURES]);

/* Adds a copy of the content, PENDING, and returns a reference; NULL: too large, or no
 * memory. */
struct recent *recents_add(struct recents *recents, const struct shfs_object_id *id,
                           const void *data, size_t len,
                           const uint32_t features[static RECENT_FEATURES],
                           struct recent_cost cost);

/* Find the content with this id, or the most similar one, which has so many features in
 * common; return a reference, or NULL. */
struct recent *recents_find(struct recents *recents, const struct shfs_object_id *id);
struct recent *recents_similar(struct recents *recents,
                               const uint32_t features[static RECENT_FEATURES],
                               unsigned votes_min);

/* Notes the id that a commit under way gives to the content, and what its object costs:
 * that may be another one's, if the same content was put twice. */
void recent_name(struct recents *recents, struct recent *recent,
                 const struct shfs_object_id *id, struct recent_cost cost);
/* Notes the state after the commit; COMMITTED is final. A DEAD content is not found any
 * more. */
void recent_settle(struct recents *recents, struct recent *recent,
                   enum recent_state state);
/* cost may be NULL. */
enum recent_state recent_state(struct recents *recents, const struct recent *recent,
                               struct shfs_object_id *id, struct recent_cost *cost);

/* After a collection: committed contents are not found any more, as their objects may
 * have been removed. */
void recents_forget(struct recents *recents);

void recent_unref(struct recent *recent); /* NULL is fine */
