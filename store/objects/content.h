/* SPDX-License-Identifier: MIT */
/*
 * content.h - what is stored, wherever it lies: in a pack, as a delta, or loose. What
 * object.c (puts and commits) and content.c (reading) share.
 */
#pragma once

#include "store/objects/codec.h"
#include "store/objects/loose.h"
#include "store/objects/object.h"
#include "store/objects/packs.h"
#include "store/objects/recent.h"

/* Bounds of what is written; what is read may go beyond by far. */
#define DELTA_DEPTH_MAX 50
#define DELTA_LEN_MAX   (32u << 20)
#define DELTA_CHAIN_MAX (16u << 20) /* bytes to decode for a content, if it is ... */
#define DELTA_CHAIN_OWN 8           /* ... not itself larger than that by so much */

#define COLLISIONS_MAX 64

/* A content that was read. */
struct content {
	char *data; /* owned */
	size_t len;
	unsigned depth;
	uint64_t chain_bytes;
	struct pack *unsynced; /* it lies in there and may not be durable; or NULL */
	bool loose;            /* it has a file of its own */
};

static inline void content_free(struct content *c)
{
	free(c->data);
}
#define _cleanup_content_ _cleanup_(content_free)

/*
 * Reads the object as far as this process knows packs. It has the hash of its name.
 * -ENOENT, -EBADMSG: it is damaged; -EFBIG.
 */
_must_check_ int content_read(struct shfs_store *store, const struct shfs_object_id *id,
                              uint64_t max_bytes, struct content *out);

/*
 * -ENOENT: it is not there, or only as a delta of what is not there; else it is, be it
 * damaged. A collection that was killed leaves such deltas, of what it was to take away.
 */
_must_check_ int content_look(struct shfs_store *store, const struct shfs_object_id *id);

/* Is it these bytes? 1 and (but for the data) *out; 0: others; errors as above. */
_must_check_ int content_is(struct shfs_store *store, const struct shfs_object_id *id,
                            const void *data, size_t len, struct content *out);

/* Decodes a frame that is not a delta, or one whose base is given. */
_must_check_ int content_decode(struct shfs_store *store, const struct frame *frame,
                                unsigned char *stored, const void *base, size_t base_len,
                                char **out);

/* The hash of what comes in pieces; NULL: no memory. end frees it, and may be given NULL.
 */
struct object_hash;
struct object_hash *object_hash_new(void);
void object_hash_add(struct object_hash *hash, const void *data, size_t len);
void object_hash_end(struct object_hash *hash, uint8_t out[16]);
