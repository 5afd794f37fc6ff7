/* SPDX-License-Identifier: MIT */
/*
 * put-back.h - puts directories back as they were before a command: contents, names,
 * modes and times. A change is the command's if it is recorded so; or if nobody is
 * recorded to have made it, and the command made such a change in its earlier run. What
 * another process has changed since stays, and is named.
 */
#pragma once

#include "query/rerun/before.h"
#include "query/restore/restore.h"

struct shfs_put_back {
	struct shfs_index *index;
	struct shfs_store *store;
	struct shfs_restorer *restorer; /* that forces */
	const struct shfs_before_place *place;
	bool later; /* the command ended some time ago: keeps what was changed since */
};

/* Puts it back, with a warning for each file that stays as it is (its member left). 0;
 * 1: something failed that may succeed later; or a negative errno. */
_must_check_ int shfs_put_back(const struct shfs_put_back *how,
                               struct shfs_before *before);

/* Finds the archived version that the file was at this time, as far as size and times
 * tell: 1, or 0. */
_must_check_ int shfs_put_back_version(struct shfs_index *index,
                                       const struct shfs_before_file *file, int64_t at_ns,
                                       struct shfs_version *out);
