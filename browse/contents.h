/* SPDX-License-Identifier: MIT */
/*
 * contents.h - reads parts of objects, and keeps some readers for the next parts, within
 * a bound of memory. One thread at a time.
 */
#pragma once

#include "store/objects/reader.h"

struct shfs_contents {
	struct shfs_store *store;
	struct shfs_content_kept *kept; /* the one that was used last is the first */
	size_t bytes;
};

/* Is the object there, and undamaged? Errors as shfs_object_read. */
_must_check_ int shfs_contents_check(struct shfs_contents *contents,
                                     const struct shfs_object_id *id);

/* Reads as shfs_object_reader_read. */
_must_check_ int shfs_contents_read(struct shfs_contents *contents,
                                    const struct shfs_object_id *id, uint64_t offset,
                                    void *data, size_t len, size_t *n);

/* Keeps nothing of any object, nor of the packs that were removed: some may have been
 * forgotten. */
void shfs_contents_drop(struct shfs_contents *contents);
