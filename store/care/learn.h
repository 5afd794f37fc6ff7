/* SPDX-License-Identifier: MIT */
/*
 * learn.h - contents of which the journal here has a fingerprint alone, and an archive
 * that is imported has the bytes: their records learn which object they are.
 *
 * What is not known of a content tells versions apart. So a record learns nothing if its
 * path already had that object, by another record here: two versions would become one.
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

/* The same record, here and in the archive: 1: ours has learned an object, 0, or a
 * negative errno. */
_must_check_ int learning_record(struct learning *learning,
                                 const struct shfs_rec_producer *producer,
                                 struct shfs_record *ours, struct shfs_record *theirs);

/* An object of the archive. -EBADMSG: one that was learned does not have the fingerprint
 * that is here. */
_must_check_ int learning_object(struct learning *learning,
                                 const struct shfs_object_id *id, const void *data,
                                 size_t len);

/* All objects came. -EBADMSG: one that was learned did not, and is not among the
 * pruned ones. */
_must_check_ int learning_finish(const struct learning *learning,
                                 const struct shfs_objects *pruned);
