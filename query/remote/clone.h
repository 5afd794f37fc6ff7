/* SPDX-License-Identifier: MIT */
/*
 * clone.h - makes a store of what a store has pushed to a remote: the same store, after
 * its machine was lost, or to move it. Byte for byte, each piece checked.
 *
 * Files are fetched to remote/NAME/cloning in the new store, and get their names when all
 * are there, the file "format" last: before, there is no store. It may be killed at any
 * instant, and goes on when it is called again.
 */
#pragma once

#include "query/remote/backend.h"
#include "query/remote/heads.h"
#include "query/remote/place.h"

struct clone_options {
	const char *store, *url, *name; /* of the store and of the remote; borrowed */
	const struct place_encryption *encryption; /* of the remote */
	bool despite_damage;
	bool metadata; /* contents stay there (elsewhere.h) */
	void (*progress)(uint64_t done_bytes, uint64_t all_bytes);
};

struct clone;

/* May a clone of a remote of that name begin in this directory, or go on? Makes nothing.
 * -EEXIST: there is a store already. */
_must_check_ int clone_check(const char *store, const char *name);

/*
 * Fetches what the store has pushed. -EEXIST: there is a store already; -EBADMSG,
 * -ENODATA: something is damaged or missing on the remote; -EBUSY: another clone is at
 * work there.
 */
_must_check_ int clone_fetch(struct shfs_remote *remote, const char *store_id,
                             uint64_t generation, const struct clone_options *options,
                             struct clone **out);
/* Makes it a store. Strangers may have made what was fetched: called in the sandbox. */
_must_check_ int clone_finish(struct clone *clone);
void clone_free(struct clone *clone); /* NULL is fine */

const struct remote_head *clone_head(const struct clone *clone);
uint64_t clone_files(const struct clone *clone);
uint64_t clone_bytes(const struct clone *clone);
uint64_t clone_away(const struct clone *clone);    /* contents that stay there */
uint64_t clone_damaged(const struct clone *clone); /* pieces that were left out */
