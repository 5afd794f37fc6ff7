/* SPDX-License-Identifier: MIT */
/*
 * pruned.h - which objects were taken away on purpose, though records still name them:
 * pruned, in the store (docs/objects.md). One that is put again is there again.
 */
#pragma once

#include "store/objects/objects.h"
#include "store/store.h"

struct pruned;

struct pruned *pruned_new(void); /* NULL: no memory */
void pruned_free(struct pruned *pruned);

/* For an object that a record names and that is not there: was it pruned? 1; 0: it was
 * lost; or a negative errno. Thread-safe. */
_must_check_ int shfs_object_is_pruned(struct shfs_store *store,
                                       const struct shfs_object_id *id);

/* The same of one of which it is not known if it is there. */
_must_check_ int shfs_object_was_pruned(struct shfs_store *store,
                                        const struct shfs_object_id *id);

/* Notes it durably, before they go. What was pruned before and was put again is no more.
 * -ENOTRECOVERABLE: the list is damaged. One process. */
_must_check_ int pruned_add(struct shfs_store *store, const struct shfs_object_id *ids,
                            size_t n);

/* All of the list, sorted. -EBADMSG: it is damaged, and out has what may be left of it.
 */
_must_check_ int pruned_load(struct shfs_store *store, struct shfs_objects *out);
/* -ENOTRECOVERABLE: it is damaged. */
_must_check_ int pruned_look(struct shfs_store *store);
/* Writes a damaged one anew, with what may be left. */
_must_check_ int pruned_mend(struct shfs_store *store);

/* A list, as the file has it; among: only what is in there, too, or NULL. */
_must_check_ int pruned_parse(const void *list, size_t len,
                              const struct shfs_objects *among, struct shfs_objects *out);
void pruned_print(const struct shfs_objects *sorted, struct shfs_buf *out);
