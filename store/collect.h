/* SPDX-License-Identifier: MIT */
/*
 * collect.h - takes objects away. No producer may be at work in the store (see
 * shfs_store_exclude); who reads meanwhile finds all others all the time.
 */
#pragma once

#include "store/object.h"

/* Bytes that the objects take, as far as they are there. */
_must_check_ int shfs_objects_measure(struct shfs_store *store,
                                      const struct shfs_object_id *ids, size_t n,
                                      uint64_t *bytes);

/*
 * Removes them: packs that have one are written anew without it, and contents that are
 * deltas of one are stored anew. Killed at any time, all others are there, and it can be
 * done again. ids is sorted by it.
 */
_must_check_ int shfs_objects_remove(struct shfs_store *store, struct shfs_object_id *ids,
                                     size_t n);

/*
 * Writes the packs (names below objects/packs) anew, with all of their frames that are
 * intact and that keep wants, and then removes them. As above.
 */
_must_check_ int
shfs_packs_salvage(struct shfs_store *store, char *const *packs, size_t n,
                   bool (*keep)(void *arg, const char *pack, uint64_t offset), void *arg);

/* Orders objects, for qsort and bsearch. */
int shfs_object_compare(const void *a, const void *b);
