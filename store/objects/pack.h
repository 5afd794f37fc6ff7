/* SPDX-License-Identifier: MIT */
/*
 * pack.h - the layout of packs and of their indexes (docs/objects.md): one file at a
 * time, no state. packs.h knows all packs of a store.
 */
#pragma once

#include "common/record.h"

#include <stdbool.h>

#define PACK_MAGIC         "shfspak\2" /* as it is written */
#define PACK_HEAD_BYTES    8
#define FRAME_HEAD_BYTES   40
#define FRAME_DELTA_BYTES  60        /* the head of a delta */
#define FRAME_STORED_MAX   (1 << 20) /* bytes behind a head */
#define FRAME_MAX          (FRAME_DELTA_BYTES + FRAME_STORED_MAX)
#define FRAME_MEMBER_BYTES 21         /* for each content of a solid frame */
#define PACK_BYTES_MAX     UINT32_MAX /* offsets have 32 bits */

#define SOLID_CONTENTS_MAX 256
#define SOLID_BYTES_MAX    (1u << 20) /* of all contents of a solid frame */

enum frame_kind {
	FRAME_RAW,
	FRAME_ZSTD,
	FRAME_DELTA, /* zstd, with the content of base as its prefix */
	FRAME_SOLID, /* zstd, of several contents; since format 2 */
};

/* A frame; or a content of a solid one. */
struct frame {
	enum frame_kind kind;
	struct shfs_object_id id, base;
	uint64_t size;      /* of the content; of a solid frame: of all contents */
	uint32_t stored;    /* bytes behind the head */
	uint32_t chain_kib; /* of a delta: size of all contents to decode for this one */
	uint8_t depth;      /* of a delta: number of deltas to decode */
	/* of a solid frame */
	uint32_t n_members;
	uint32_t solid_bytes; /* of all contents */
	uint32_t member, at;  /* of a content: its number, and where it begins */
};

/* Returns the format of a pack that begins with these bytes, which is known; else 0. */
unsigned pack_format(const unsigned char bytes[static PACK_HEAD_BYTES]);

size_t frame_head_bytes(enum frame_kind kind);

/* Fills in the head of a frame whose stored bytes lie behind the room for it. */
void frame_seal(const struct frame *f, unsigned char *bytes);

/* Parses the head of a frame from at least FRAME_HEAD_BYTES. -EBADMSG: it is no head;
 * -EAGAIN: it is longer than n. */
_must_check_ int frame_parse(const unsigned char *bytes, size_t n, struct frame *out);

/* Writes a content's entry into a solid frame that is not sealed yet. */
void frame_put_member(unsigned char *bytes, unsigned member,
                      const struct shfs_object_id *id, uint32_t len);

/* Makes the solid frame *f its content number `member`: 0 first, then one by one. */
void frame_next_member(const unsigned char *bytes, unsigned member, struct frame *f);

/* Do the sizes of the contents agree with the head? The head and all entries are there.
 */
bool frame_members_agree(const struct frame *f, const unsigned char *bytes);

/* Returns the bytes that the content takes: the frame, or a solid one's part. */
uint64_t frame_share(const struct frame *f);

/* Returns the length of a frame. */
static inline size_t frame_bytes(const struct frame *f)
{
	return frame_head_bytes(f->kind) + f->stored;
}

/* Is this frame (head and stored bytes) as it was sealed? */
bool frame_is_intact(const unsigned char *bytes, size_t len);

/* Are these bytes, which are no frame, left by a write that was cut short? n: all of
 * them, or at least the longest frame's length; at_end: they are the end of the pack. */
bool pack_is_torn(const unsigned char *bytes, size_t n, bool at_end);

/* Returns the number by which an object is looked up. */
uint64_t pack_prefix(const struct shfs_object_id *id);

typedef int (*pack_frame_fn)(void *arg, const struct frame *f, uint64_t offset);

/* Calls fn for the frame, or for each content of a solid one. */
_must_check_ int frame_each(const struct frame *f, const unsigned char *bytes,
                            pack_frame_fn fn, void *arg, uint64_t offset);

/*
 * Calls fn for each intact frame (of a solid one: for each of its contents) from offset
 * `from` on. Damage is skipped. *end is where
 * the last intact frame ends (or from): bytes behind it may still be being written. Stops
 * when fn returns non-zero, and returns that. -EIO, once all else was read: some bytes
 * cannot be read.
 */
_must_check_ int pack_scan(int fd, uint64_t from, pack_frame_fn fn, void *arg,
                           uint64_t *end);

/* As pack_scan, but calls fn once for each frame, with all of it. */
typedef int (*pack_bytes_fn)(void *arg, const struct frame *f, const unsigned char *bytes,
                             uint64_t offset);
_must_check_ int pack_scan_frames(int fd, uint64_t from, pack_bytes_fn fn, void *arg,
                                  uint64_t *end);

/* Reads up to len bytes at offset; bytes that the disk cannot read are zeros. */
_must_check_ ssize_t pack_read_around(int fd, unsigned char *bytes, size_t len,
                                      uint64_t offset);

/* --- the index of a pack --- */

struct pack_entry {
	uint64_t prefix;
	uint32_t offset;
};

/* Orders entries by offset, and those of one solid frame by prefix; for qsort. */
static inline int pack_entry_compare_offsets(const void *a, const void *b)
{
	const struct pack_entry *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset)
	               ?: (x->prefix > y->prefix) - (x->prefix < y->prefix);
}

struct pack_index {
	uint64_t covered; /* bytes of the pack */
	uint64_t n;       /* entries */
};

/* Opens an index: returns an fd. -ENOENT, -EBADMSG. */
_must_check_ int pack_index_open(int dirfd, const char *name, struct pack_index *out);

/* Gets the offsets of up to max entries, ascending; returns how many. -EBADMSG. */
_must_check_ int pack_index_find(int fd, const struct pack_index *index, uint64_t prefix,
                                 uint32_t *offsets, size_t max);

/* Calls fn for all entries, block by block. -EBADMSG. */
_must_check_ int pack_index_each(int fd, const struct pack_index *index,
                                 int (*fn)(void *arg, const struct pack_entry *entries,
                                           size_t n),
                                 void *arg);

/* Replaces the index; sorts the entries. */
_must_check_ int pack_index_write(int dirfd, const char *name, uint64_t covered,
                                  struct pack_entry *entries, size_t n);
