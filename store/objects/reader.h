/* SPDX-License-Identifier: MIT */
/*
 * reader.h - reads any part of an object, for who serves contents to others: nothing of
 * it is returned before all of it was verified.
 *
 * A small object, or a delta, is held in memory as a whole; a large one is unpacked piece
 * by piece, in bounded memory, as far as it is read. A reader belongs to one thread.
 */
#pragma once

#include "store/objects/object.h"

struct shfs_object_reader;

/* Opens an object, and verifies it. Errors as shfs_object_read. */
_must_check_ int shfs_object_reader_open(struct shfs_store *store,
                                         const struct shfs_object_id *id,
                                         struct shfs_object_reader **out);
void shfs_object_reader_close(struct shfs_object_reader *reader);

static inline void shfs_object_reader_closep(struct shfs_object_reader **r)
{
	shfs_object_reader_close(*r);
}
#define _cleanup_object_reader_ _cleanup_(shfs_object_reader_closep)

/* Returns the size of the content in bytes. */
uint64_t shfs_object_reader_size(const struct shfs_object_reader *reader);

/* Returns the bytes of memory that the reader takes. */
size_t shfs_object_reader_memory(const struct shfs_object_reader *reader);

/* Reads up to len bytes at offset; less only at the end of the content: *n of them.
 * Cheapest from the front to the end: going back in a large object begins anew.
 * -EBADMSG. */
_must_check_ int shfs_object_reader_read(struct shfs_object_reader *reader,
                                         uint64_t offset, void *data, size_t len,
                                         size_t *n);
