/* SPDX-License-Identifier: MIT */
/*
 * repair.h - repairs a damaged store. All data is read first (check.h). Damaged bytes are
 * copied or moved to quarantine/<time>/ in the store, nothing of them is deleted; the
 * intact rest is written to new files. The index is made again. Losses are noted in
 * state/damage as reported.
 *
 * If it is killed, it can be run again.
 */
#pragma once

#include "store/care/check.h"

struct shfs_repair {
	struct shfs_check found;              /* what was wrong */
	char *aside;                          /* a directory below the store */
	bool any;                             /* the directory is not empty */
	size_t segments, packs, loose, modes; /* mended, written anew, moved away */
	size_t unreadable; /* files of the journal of which nothing can be read; moved */
	bool indexed;
};

/* Repairs the store. dry_run: only checks. -EBUSY: a producer records into the store;
 * -EACCES: we may not read some of it (see found), and nothing was changed. */
_must_check_ int shfs_repair_run(struct shfs_store *store, const char *hook_dir,
                                 const struct shfs_check_options *options, bool dry_run,
                                 struct shfs_repair *out);
void shfs_repair_free(struct shfs_repair *repair);
#define _cleanup_repair_ _cleanup_(shfs_repair_free)
