/* SPDX-License-Identifier: MIT */
/*
 * learn.h - contents of which the journal here has a fingerprint alone, and an archive
 * that is imported has the bytes: their records learn which object they are.
 *
 * A record learns nothing if its path already had that object, by another record here:
 * two versions, which only the unknown bytes of one tell apart, would become one.
 */
#pragma once

#include "common/ids.h"
#include "store/objects/objects.h"
#include "store/store.h"

struct learned;

struct learning {
	struct shfs_store *store; /* borrowed; set it, and all else to 0 */
	struct learned *list;     /* sorted by their objects once these come */
	size_t n, cap;
	struct shfs_ids here; /* keys of objects at their paths, in the journal here */
	bool is_sorted, has_here;
};

void learning_clear(struct learning *learning);

/* Compares a record here with the same one of the archive: 1: ours has learned an object,
 * 0, or a negative errno. */
_must_check_ int learning_record(struct learning *learning,
                                 const struct shfs_rec_producer *producer,
                                 struct shfs_record *ours, struct shfs_record *theirs);

/* Checks an object of the archive. -EBADMSG: one that was learned does not have the
 * fingerprint that is here. */
_must_check_ int learning_object(struct learning *learning,
                                 const struct shfs_object_id *id, const void *data,
                                 size_t len);

/* Checks, when all objects came, that those which were learned are among them; counts
 * these. -EBADMSG: one did not, and is not among the pruned ones. */
_must_check_ int learning_finish(struct learning *learning,
                                 const struct shfs_objects *pruned, uint64_t *completed);
