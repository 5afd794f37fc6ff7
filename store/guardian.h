/* SPDX-License-Identifier: MIT */
/*
 * guardian.h - a process of its own that outlives one that records: where that ends
 * without having said so, it writes what the journal still lacks (spool.h), and starts
 * the recording again, or tells at the next prompt that it has stopped.
 */
#pragma once

#include "store/spool.h"
#include "store/store.h"

/* In the guardian's process. Of the fds of the one that made it none is there. */
struct shfs_guardian {
	const char *root;
	struct shfs_spool *spool;
	/* a byte that shfs_guardian_order sent; may be NULL */
	void (*order)(struct shfs_guardian *guardian, char order);
	/* that process has died: ends what it held */
	void (*died)(struct shfs_guardian *guardian);
	/* and last, all that it left is written; may be NULL. May raise the alert. */
	void (*last)(struct shfs_guardian *guardian);

	/* fusefs/guardian.c's */
	const struct shfs_again *again;
	dev_t dev;
	char *where;

	struct shfs_store store; /* guardian.c's, as is orders */
	int orders;
};

/* Starts it: while there is one thread. One for each process. -errno. */
_must_check_ int shfs_guardian_start(const struct shfs_guardian *guardian,
                                     const struct shfs_store *store);
/* Any but NUL. */
void shfs_guardian_order(char order);
/* What the next prompt shows: the recording has stopped. */
void shfs_guardian_alert(const struct shfs_guardian *guardian);
/* All is well: the guardian ends. */
void shfs_guardian_dismiss(void);
