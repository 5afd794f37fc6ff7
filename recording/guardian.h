/* SPDX-License-Identifier: MIT */
/*
 * guardian.h - the guardian: a process that outlives a process that records. If that
 * dies, the guardian writes the records that the journal lacks (spool.h), and starts the
 * recording again, or has the next prompt show that it has stopped.
 */
#pragma once

#include "store/capture/spool.h"
#include "store/store.h"

/*
 * The state of the guardian's process. It has no fds of the process that made it; but if
 * it may take its place (succeeds), both share all fds at any time.
 */
struct shfs_guardian {
	const char *root;
	struct shfs_spool *spool;
	/* called for a byte of shfs_guardian_order; may be NULL */
	void (*order)(struct shfs_guardian *guardian, char order);
	/* called when the process has died: ends what it held */
	void (*died)(struct shfs_guardian *guardian);
	/* called last, when all its records are written; may raise the alert; or NULL */
	void (*last)(struct shfs_guardian *guardian);
	/* Called first when the process has died; or NULL. True: the guardian takes its
	 * place. Closes fds of the dead process that are not needed any more. */
	bool (*succeeds)(struct shfs_guardian *guardian);

	void *data; /* of the caller, for these functions; borrowed */

	struct shfs_store store; /* of guardian.c, as the next ones */
	int orders;
	int guarded; /* a pidfd */
};

/* Starts the guardian; only while there is one thread, and once in a process. -errno.
 * Returns 1 in the guardian, if that is to take the place of the process it guarded. */
_must_check_ int shfs_guardian_start(const struct shfs_guardian *guardian,
                                     const struct shfs_store *store);
/* Sends a byte, not NUL, to the guardian. */
void shfs_guardian_order(char order);
/* Raises the alert that the recording has stopped, for the next prompt. */
void shfs_guardian_alert(const struct shfs_guardian *guardian);
/* Ends the guardian, as the process ends regularly. */
void shfs_guardian_dismiss(void);
