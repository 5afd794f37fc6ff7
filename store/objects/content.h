/* SPDX-License-Identifier: MIT */
/*
 * content.h - reads contents wherever they lie: in a pack, as a delta, or loose. Shared
 * by object.c (puts and commits) and content.c (reading).
 */
#pragma once

#include "store/objects/codec.h"
#include "store/objects/loose.h"
#include "store/objects/object.h"
#include "store/objects/packs.h"
#include "store/objects/recent.h"

/* Bounds for writing; reading accepts much larger values. */
#define DELTA_DEPTH_MAX 50
#define DELTA_LEN_MAX   (32u << 20)
#define DELTA_CHAIN_MAX (16u << 20) /* bytes to decode for a content, or ... */
#define DELTA_CHAIN_OWN 8           /* ... so many times its own size, if that is more */

#define COLLISIONS_MAX 64

/* A content that was read. */
struct content {
	char *data; /* owned */
	size_t len;
	unsigned depth;
	uint64_t chain_bytes;
	struct pack *unsynced; /* holds some of it that may not be durable; or NULL */
	bool loose;            /* it has a file of its own */
};

static inline void content_free(struct content *c)
{
	free(c->data);
}
#define _cleanup_content_ _cleanup_(content_free)

/*
 * Reads the object from the packs that this process knows, and checks its hash. -ENOENT;
 * -EBADMSG: it is damaged; -EFBIG.
 */
_must_check_ int content_read(struct shfs_store *store, const struct shfs_object_id *id,
                              uint64_t max_bytes, struct content *out);

/*
 * Says whether the object exists, be it damaged. -ENOENT: it does not, or only as a delta
 * of a missing object: a killed collection leaves such deltas of objects to remove.
 */
_must_check_ int content_look(struct shfs_store *store, const struct shfs_object_id *id);

/* Does the object hold these bytes? 1 and *out (without the data); 0: it holds others;
 * errors as above. */
_must_check_ int content_is(struct shfs_store *store, const struct shfs_object_id *id,
                            const void *data, size_t len, struct content *out);

/* Decodes a frame that is not a delta, or one whose base is given. */
_must_check_ int content_decode(struct shfs_store *store, const struct frame *frame,
                                unsigned char *stored, const void *base, size_t base_len,
                                char **out);

/* Hashes a content that comes in pieces; NULL: no memory. object_hash_end frees the hash;
 * NULL is fine. */
struct object_hash;
struct object_hash *object_hash_new(void);
void object_hash_add(struct object_hash *hash, const void *data, size_t len);
void object_hash_end(struct object_hash *hash, uint8_t out[16]);
