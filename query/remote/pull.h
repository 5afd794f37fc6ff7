/* SPDX-License-Identifier: MIT */
/*
 * pull.h - takes over what other stores have pushed to a remote.
 *
 * First all that is new is fetched to remote/NAME/incoming, each piece checked; that may
 * be interrupted at any time, and goes on with what is there. Then it is imported, as an
 * archive is (store/care/import.h): nothing of the remote is trusted, so the caller
 * enters the sandbox in between. What this store recorded itself is not changed.
 *
 * The store that recorded something may have forgotten some of it since: then what was
 * pulled is replaced by what is left, and contents that nothing names any more are
 * removed.
 */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/place.h"
#include "store/objects/objects.h"

struct pull_options {
	bool dry_run; /* only lists are fetched */
	bool despite_damage;
	bool metadata; /* contents stay there (elsewhere.h) */
	bool direct;   /* the store itself answers: its generations may begin anew */
	void (*progress)(uint64_t done_bytes, uint64_t all_bytes);
};

struct pull_stats {
	uint64_t stores, stores_new; /* stores_new: they have pushed since */
	uint64_t files;              /* of the journal; new, or changed */
	uint64_t bytes;              /* that were fetched; of a dry run, to be fetched */
	uint64_t objects;
	uint64_t away;    /* contents that stay there */
	uint64_t missing; /* contents that are neither on the remote nor here */
	uint64_t damaged; /* pieces that were left out */
	uint64_t older;   /* stores whose newer state was pulled from elsewhere */
	bool forgotten;   /* some of it was forgotten where it was recorded */
	bool not_removed; /* and its contents could not be removed here now (-EBUSY) */
	char tree[80];    /* a tree that files are of; "" */
};

struct pull;

/* Finds what is new, and fetches it. The lock of places is held. Errors as push_run;
 * -EBADMSG: a blob is damaged; -ENODATA: one is missing. *out is made, and must be freed,
 * also where that fails, but for -ENOMEM (then it may be NULL). */
_must_check_ int pull_fetch(struct place *place, struct shfs_remote *remote,
                            const struct pull_options *options, struct pull **out);
/* Takes over what was fetched. -EEXIST: a content collides with another one here; -EBUSY;
 * -EBADMSG: a file is damaged, though it is what was pushed. */
_must_check_ int pull_take(struct pull *pull);

/*
 * Brings contents that were left at the remote by an earlier pull or clone, out of these
 * files of the store (elsewhere.h), with others of the pieces that are fetched for them.
 * Another process, in the sandbox, takes over what is fetched. The caller holds the lock
 * of places. -ENODATA: a blob is missing: the store has pushed since; -EBADMSG: one is
 * damaged, and nothing is kept.
 */
_must_check_ int pull_bring(struct place *place, struct shfs_remote *remote,
                            const char *store_id, const struct manifest *files,
                            const struct shfs_objects *ids,
                            void (*progress)(uint64_t done_bytes, uint64_t all_bytes));

const struct pull_stats *pull_stats(const struct pull *pull);
/* The host of the store that was at work when a function failed; or NULL. */
const char *pull_host(const struct pull *pull);
void pull_free(struct pull *pull); /* NULL is fine */
