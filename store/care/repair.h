/* SPDX-License-Identifier: MIT */
/*
 * repair.h - keeps what can be kept of a damaged store. All data is read first (check.h).
 * What is damaged is copied or moved to quarantine/<time>/ in the store, and nothing of
 * it is deleted; what is right goes on in new files. The index is made again. What could
 * not be brought back is noted in state/damage, as told.
 *
 * Killed at any time it can be run again.
 */
#pragma once

#include "store/care/check.h"

struct shfs_repair {
	struct shfs_check found;              /* what was wrong */
	char *aside;                          /* a directory below the store */
	bool any;                             /* there is something in it */
	size_t segments, packs, loose, modes; /* mended, written anew, moved away */
	size_t unreadable; /* files of the journal, moved away: nothing of them is left */
	bool indexed;
};

/* dry_run: only looks. -EBUSY: something records into the store; -EACCES: some of it may
 * not be read (found tells of it), and nothing was changed. */
_must_check_ int shfs_repair_run(struct shfs_store *store, const char *hook_dir,
                                 const struct shfs_check_options *options, bool dry_run,
                                 struct shfs_repair *out);
void shfs_repair_free(struct shfs_repair *repair);
#define _cleanup_repair_ _cleanup_(shfs_repair_free)
