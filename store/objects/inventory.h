/* SPDX-License-Identifier: MIT */
/*
 * inventory.h - lists all objects of a store with their sizes, without reading contents.
 */
#pragma once

#include "store/objects/pack.h"
#include "store/store.h"

struct shfs_stored {
	struct shfs_object_id id;
	uint64_t size;   /* of the content */
	uint64_t stored; /* bytes that the object takes */
	bool loose;      /* in a file of its own */
	bool delta;
};

typedef int (*shfs_stored_fn)(void *arg, const struct shfs_stored *object);

/* Calls fn for each object, in no order; an object that is stored twice comes twice.
 * Stops when fn returns non-zero, and returns that. */
_must_check_ int shfs_inventory(struct shfs_store *store, shfs_stored_fn fn, void *arg);

/* Calls fn for the frames of a pack below dirfd; frames in its index are not checked, and
 * may be damaged. */
_must_check_ int inventory_pack(int dirfd, const char *name, pack_frame_fn fn, void *arg);

/* Calls fn for names in a directory that end in suffix; NULL: for all. Stops when fn
 * returns non-zero, and returns that. */
_must_check_ int inventory_names(int dirfd, const char *suffix,
                                 int (*fn)(void *arg, const char *name), void *arg);
