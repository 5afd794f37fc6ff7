/* SPDX-License-Identifier: MIT */
/*
 * recent.h - contents that were put a moment ago, in memory: what the next one may be a
 * delta against. Bounded; thread-safe.
 */
#pragma once

#include "common/record.h"

#include <stdatomic.h>
#include <stdbool.h>

#define RECENT_BYTES_MAX (12u << 20)
#define RECENT_ONE_MAX   (4u << 20) /* a larger content is not kept */
#define RECENT_FEATURES  8

enum recent_state {
	RECENT_PENDING,   /* no object yet */
	RECENT_NAMED,     /* it is one if the commit under way succeeds */
	RECENT_COMMITTED, /* id names a durable object */
	RECENT_DEAD,      /* it will be none */
};

/* A reference keeps it in memory; all but the state and the id stays as it is. */
struct recent {
	atomic_uint refs;
	struct recent *prev, *next; /* of recents, the oldest first */
	struct recent *also;        /* of those whose hashes begin alike */
	char *data;
	size_t len;
	uint32_t features[RECENT_FEATURES];
	uint64_t chain_bytes; /* sum of what must be decoded for it */
	unsigned depth;
	bool kept; /* in recents */
	/* under the lock of recents */
	struct shfs_object_id id;
	enum recent_state state;
};

struct recents;

struct recents *recents_new(void); /* NULL: no memory */
void recents_free(struct recents *recents);
size_t recents_bytes(struct recents *recents); /* of what it keeps */

/*
 * What a content is recognised by, though parts of it change: the smallest of the hashes
 * of its pieces. All zero for one without.
 */
void recent_features(const void *data, size_t len, uint32_t out[static RECENT_FEATURES]);

/* A copy of the content, PENDING. A reference; NULL: too large, or no memory. */
struct recent *recents_add(struct recents *recents, const struct shfs_object_id *id,
                           const void *data, size_t len,
                           const uint32_t features[static RECENT_FEATURES],
                           unsigned depth, uint64_t chain_bytes);

/* The one with this id, or the most similar one; a reference, or NULL. */
struct recent *recents_find(struct recents *recents, const struct shfs_object_id *id);
struct recent *recents_similar(struct recents *recents,
                               const uint32_t features[static RECENT_FEATURES]);

/* A commit is about to give it this id. */
void recent_name(struct recents *recents, struct recent *recent,
                 const struct shfs_object_id *id);
/* And has ended; one that is committed stays so. A dead one is found no more. */
void recent_settle(struct recents *recents, struct recent *recent,
                   enum recent_state state);
enum recent_state recent_state(struct recents *recents, const struct recent *recent,
                               struct shfs_object_id *id);

/* Objects may be gone: what is one already is found no more. */
void recents_forget(struct recents *recents);

void recent_unref(struct recent *recent); /* NULL is fine */
