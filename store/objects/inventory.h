/* SPDX-License-Identifier: MIT */
/*
 * inventory.h - all objects of a store: what each takes. Of contents nothing is read.
 */
#pragma once

#include "store/objects/pack.h"
#include "store/store.h"

struct shfs_stored {
	struct shfs_object_id id;
	uint64_t size;   /* of the content */
	uint64_t stored; /* bytes that it takes */
	bool loose;      /* in a file of its own */
	bool delta;
};

typedef int (*shfs_stored_fn)(void *arg, const struct shfs_stored *object);

/* In no order; one that lies twice comes twice. Not 0 ends it, and is returned. */
_must_check_ int shfs_inventory(struct shfs_store *store, shfs_stored_fn fn, void *arg);

/* The frames of a pack below dirfd, by its index as far as that goes: not all of them are
 * intact. */
_must_check_ int inventory_pack(int dirfd, const char *name, pack_frame_fn fn, void *arg);

/* Names in a directory that end in suffix; NULL: all. Not 0 ends it, and is returned. */
_must_check_ int inventory_names(int dirfd, const char *suffix,
                                 int (*fn)(void *arg, const char *name), void *arg);
