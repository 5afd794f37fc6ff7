/* SPDX-License-Identifier: MIT */
/*
 * own.h - what a store pushes: all that it has, but for what it has pulled.
 *
 * A pull puts contents into packs of their own (shfs_store.pulls). They go to a remote
 * with the store that they came from. A content that this store names too is put once
 * more, into a pack that is pushed: what another store has there may be gone tomorrow. So
 * is one that no record names, if a delta that is pushed has it as its base.
 */
#pragma once

#include "query/remote/place.h"
#include "store/objects/objects.h"

struct own;

/* Finds what is the store's own. May put objects into it, unless dry_run. there: objects
 * that are only at the remote, and stay there; sorted. bases: of deltas among these. */
_must_check_ int own_find(struct shfs_store *store, bool dry_run,
                          const struct shfs_objects *there,
                          const struct shfs_objects *bases, struct own **out);
/* Returns how many objects that are pushed are only at other remotes. */
uint64_t own_elsewhere(const struct own *own);
/* Finds only what own_has_file and own_was_pulled need. */
_must_check_ int own_find_files(struct shfs_store *store, struct own **out);
void own_free(struct own *own);
static inline void own_freep(struct own **own)
{
	own_free(*own);
}
#define _cleanup_own_ _cleanup_(own_freep)

/* Is this file of the journal pushed? */
bool own_has_file(const struct own *own, const char *host, const char *name);
/* Was it pulled: a loose object, objects/ab/...? This store may name it all the same. */
bool own_was_pulled(const struct own *own, const char *file);
/* Is this pack pushed? -errno; 1; 0. */
_must_check_ int own_has_pack(const struct own *own, const char *name);
/* Is this loose object pushed? */
bool own_has_loose(const struct own *own, const struct shfs_object_id *id);
