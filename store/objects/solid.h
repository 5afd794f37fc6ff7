/* SPDX-License-Identifier: MIT */
/*
 * solid.h - a solid frame: several contents that were compressed as one
 * (docs/objects.md). It is unpacked as a whole, once, and shared by all who read one of
 * its contents.
 */
#pragma once

#include "store/objects/codec.h"
#include "store/objects/pack.h"

/* A content that goes into a solid frame. */
struct solid_piece {
	struct shfs_object_id id;
	const void *data;
	size_t len;
};

/* Compresses n contents, at most SOLID_CONTENTS_MAX with SOLID_BYTES_MAX. Their ids are
 * not needed yet. 0 and *out, with room for the head; 1: they do not become smaller. */
_must_check_ int solid_compress(struct codecs *codecs, const struct solid_piece *pieces,
                                size_t n, int level, struct coded *out);

/* Fills in the head, with the ids of the contents. */
void solid_seal(struct coded *coded, const struct solid_piece *pieces, size_t n);

/* A solid frame that was read. Thread-safe. */
struct solid;

/* Takes ownership of bytes, an intact solid frame. NULL: no memory; bytes stay the
 * caller's. */
struct solid *solid_new(unsigned char *bytes, size_t len);
struct solid *solid_ref(struct solid *solid);
void solid_unref(struct solid *solid); /* NULL is fine */

/* Returns the length of the frame. */
size_t solid_frame_bytes(const struct solid *solid);

/* Returns the bytes of memory that it takes at most: also those until it is unpacked. */
size_t solid_memory(const struct solid *solid);

/* Returns how many contents it has, and gets the one with that number. */
unsigned solid_count(const struct solid *solid);
struct frame solid_member(const struct solid *solid, unsigned member);

/* Finds the content of this name. -ENOENT. */
_must_check_ int solid_find(const struct solid *solid, const struct shfs_object_id *id,
                            struct frame *out);

/* Unpacks a content, not checking its hash. *out: f->size bytes and a NUL; owned.
 * -EBADMSG. */
_must_check_ int solid_content(struct solid *solid, struct codecs *codecs,
                               const struct frame *f, char **out);
