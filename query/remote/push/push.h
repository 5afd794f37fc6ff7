/* SPDX-License-Identifier: MIT */
/*
 * push.h - brings what a store has to a remote, and removes there what the store has no
 * more. docs/remotes.md says in which order.
 *
 * Nothing of a push can be seen before its head is put, and what an earlier head needs is
 * removed only after that. So it may be killed at any instant, and the next push goes on.
 */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/place.h"
#include "store/index/index.h"

struct upload;

struct push_options {
	bool dry_run; /* nothing is put or removed */
	void (*progress)(uint64_t done_bytes, uint64_t all_bytes);
	/* Called at the end, while nothing is moved or removed in the store; or NULL. */
	int (*at_end)(struct upload *u, void *arg);
	void *arg;
};

struct push_stats {
	uint64_t files, files_new; /* files_new: or changed */
	uint64_t blobs, bytes;     /* that were put */
	uint64_t removed;          /* blobs */
	uint64_t generation;       /* of the head */
	uint64_t elsewhere;        /* contents that only other remotes have: not pushed */
	char not_brought[44]; /* a content that is only there and cannot be fetched */
	bool nothing_new;
	bool was_lost; /* the remote had lost what was pushed before */
};

/*
 * Pushes the store. The lock of places is held. index: of the store, borrowed; for
 * recordings that go on. -ESTALE: another copy of this store has pushed since; -EBUSY: a
 * prune, gc, forget or import is at work; -EINPROGRESS: a forget is not complete;
 * -ENOENT, -ENOTEMPTY, -EPROTONOSUPPORT: as remote_look.
 */
_must_check_ int push_run(struct shfs_index *index, struct place *place,
                          struct shfs_remote *remote, const struct push_options *options,
                          struct push_stats *stats);
