/* SPDX-License-Identifier: MIT */
/*
 * allowance.h - how much of what other users write is archived in one's store: so many
 * bytes a day for each of them. Who has used up his allowance gets it back bit by bit,
 * all of it within a day (a token bucket). It is counted in memory, by each producer for
 * itself, as only the owner of the store can start one anew.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <sys/types.h>

struct shfs_allowance;

/* bytes: a day. -ENOMEM. Any thread may use it. */
_must_check_ int shfs_allowance_new(uint64_t bytes, struct shfs_allowance **out);
void shfs_allowance_free(struct shfs_allowance *allowance); /* NULL is fine */

/* Is something left for that user? Of root and the owner of the store, which is this
 * process's user, there is always. now_ns: CLOCK_BOOTTIME, as below. */
_must_check_ bool shfs_allowance_is_left(struct shfs_allowance *allowance, uid_t uid,
                                         int64_t now_ns);
/* So many bytes of him have been stored: maybe more than was left, by what was under way
 * at once. */
void shfs_allowance_use(struct shfs_allowance *allowance, uid_t uid, uint64_t bytes,
                        int64_t now_ns);
