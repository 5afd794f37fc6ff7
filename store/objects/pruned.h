/* SPDX-License-Identifier: MIT */
/*
 * pruned.h - tombstones: the list of objects that were pruned though records still name
 * them (docs/objects.md). An object that is put again is no longer pruned.
 */
#pragma once

#include "store/objects/objects.h"
#include "store/store.h"

struct pruned;

#define PRUNED_NAME "pruned"
#define AWAY_NAME   "away"

/* A list of objects in a file of that name of the store (static), as this one and that of
 * away.h. NULL: no memory. */
struct pruned *pruned_new(const char *name);
void pruned_free(struct pruned *pruned);

/* Is the object in the list? 1; 0; or a negative errno. Thread-safe. */
_must_check_ int pruned_has(struct shfs_store *store, struct pruned *list,
                            const struct shfs_object_id *id);

/* Says whether an object that a record names and that is missing was pruned: 1; 0: it was
 * lost; or a negative errno. Thread-safe. */
_must_check_ int shfs_object_is_pruned(struct shfs_store *store,
                                       const struct shfs_object_id *id);

/* Says whether an object was pruned that may or may not be missing; otherwise as above.
 */
_must_check_ int shfs_object_was_pruned(struct shfs_store *store,
                                        const struct shfs_object_id *id);

/* Notes durably that the objects are pruned, before they are removed. Objects in the list
 * that were put again are dropped. -ENOTRECOVERABLE: the list is damaged. Only one
 * process may do so at a time. */
_must_check_ int pruned_add(struct shfs_store *store, const struct shfs_object_id *ids,
                            size_t n);

/* Reads the list, sorted. -EBADMSG: it is damaged, and *out has the ids that may be left.
 */
_must_check_ int pruned_load(struct shfs_store *store, struct shfs_objects *out);
/* Checks the list. -ENOTRECOVERABLE: it is damaged. */
_must_check_ int pruned_look(struct shfs_store *store);
/* Writes a damaged list anew, with the ids that may be left. */
_must_check_ int pruned_mend(struct shfs_store *store);

/* Parses a list as the file has it. among: takes only ids that are in it too; or NULL. */
_must_check_ int pruned_parse(const void *list, size_t len,
                              const struct shfs_objects *among, struct shfs_objects *out);
void pruned_print(const struct shfs_objects *sorted, struct shfs_buf *out);
