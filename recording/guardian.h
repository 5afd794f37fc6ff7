/* SPDX-License-Identifier: MIT */
/*
 * guardian.h - a process of its own that outlives one that records: where that ends
 * without having said so, it writes what the journal still lacks (spool.h), and starts
 * the recording again, or tells at the next prompt that it has stopped.
 */
#pragma once

#include "store/capture/spool.h"
#include "store/store.h"

/*
 * In the guardian's process. Of the fds of the one that made it none is there; but where
 * it may take its place (succeeds), both have the same all the time.
 */
struct shfs_guardian {
	const char *root;
	struct shfs_spool *spool;
	/* a byte that shfs_guardian_order sent; may be NULL */
	void (*order)(struct shfs_guardian *guardian, char order);
	/* that process has died: ends what it held */
	void (*died)(struct shfs_guardian *guardian);
	/* and last, all that it left is written; may be NULL. May raise the alert. */
	void (*last)(struct shfs_guardian *guardian);
	/* May be NULL. Else before all of these: true, where it takes its place. It is to
	 * close what the dead one had open, and is not wanted any more. */
	bool (*succeeds)(struct shfs_guardian *guardian);

	void *data; /* of who made it, for these functions; borrowed */

	struct shfs_store store; /* guardian.c's, as are the others */
	int orders;
	int guarded; /* a pidfd */
};

/* Starts it: while there is one thread. One for each process. -errno. Returns 1 in the
 * guardian, once that is to take the place of the process that it guarded. */
_must_check_ int shfs_guardian_start(const struct shfs_guardian *guardian,
                                     const struct shfs_store *store);
/* Any but NUL. */
void shfs_guardian_order(char order);
/* What the next prompt shows: the recording has stopped. */
void shfs_guardian_alert(const struct shfs_guardian *guardian);
/* All is well: the guardian ends. */
void shfs_guardian_dismiss(void);
