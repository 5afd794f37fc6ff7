/* SPDX-License-Identifier: MIT */
/* objects.h - a set of objects, by their ids. One thread. */
#pragma once

#include "common/record.h"

#include <stddef.h>
#include <string.h>

/* Initialised by zeros. Owns ids. */
struct shfs_objects {
	struct shfs_object_id *ids;
	size_t n, cap;
};

/* Orders ids, for qsort and bsearch. */
int shfs_object_compare(const void *a, const void *b);

static inline bool shfs_object_equal(const struct shfs_object_id *a,
                                     const struct shfs_object_id *b)
{
	return a->nth == b->nth && !memcmp(a->hash, b->hash, sizeof(a->hash));
}

/* Appends an id. */
_must_check_ int shfs_objects_add(struct shfs_objects *objects,
                                  const struct shfs_object_id *id);
/* Appends all objects that the record names. */
_must_check_ int shfs_objects_add_of(struct shfs_objects *objects,
                                     struct shfs_record *record);
/* Sorts, and drops duplicates. The functions below need a sorted set. */
void shfs_objects_sort(struct shfs_objects *objects);
bool shfs_objects_has(const struct shfs_objects *objects,
                      const struct shfs_object_id *id);
/* Returns the index of id; SIZE_MAX: it is not in the set. */
size_t shfs_objects_find(const struct shfs_objects *objects,
                         const struct shfs_object_id *id);

void shfs_objects_free(struct shfs_objects *objects);
#define _cleanup_objects_ _cleanup_(shfs_objects_free)
