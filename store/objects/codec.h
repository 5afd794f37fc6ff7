/* SPDX-License-Identifier: MIT */
/*
 * codec.h - compresses contents to the stored bytes of a frame and back. Some contexts of
 * zstd are kept for the next call. Thread-safe.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

/* An allocated buffer: head bytes of room, then the stored bytes. The last four bytes of
 * the room hold the magic number of a zstd frame, which is not stored in packs. */
struct coded {
	unsigned char *bytes;
	size_t head, len; /* len: stored bytes */
};

#define CODEC_MAGIC_BYTES 4

static inline void coded_free(struct coded *c)
{
	free(c->bytes);
}
#define _cleanup_coded_ _cleanup_(coded_free)

struct codecs;

struct codecs *codecs_new(void); /* NULL: no memory */
void codecs_free(struct codecs *codecs);

/* Returns the bytes of the contexts that are kept. */
size_t codecs_bytes(struct codecs *codecs);

/* Compresses a content. base: the content that it is a delta of, or NULL. 0 and *out; 1:
 * it does not become smaller than max bytes; -ENOMEM. */
_must_check_ int codec_compress(struct codecs *codecs, const void *data, size_t len,
                                int level, const void *base, size_t base_len, size_t head,
                                size_t max, struct coded *out);

/* Decompresses to exactly size bytes at out. The CODEC_MAGIC_BYTES before stored are
 * overwritten. -EBADMSG. */
_must_check_ int codec_decompress(struct codecs *codecs, unsigned char *stored,
                                  size_t len, const void *base, size_t base_len,
                                  void *out, size_t size);

typedef int (*codec_piece_fn)(void *arg, const void *data, size_t len);

/* Decompresses a content without a base piece by piece, in bounded memory. */
_must_check_ int codec_each_piece(unsigned char *stored, size_t len, uint64_t size,
                                  codec_piece_fn fn, void *arg);
