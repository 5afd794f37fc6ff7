/* SPDX-License-Identifier: MIT */
/*
 * allowance.h - limits how many bytes a day of each other user's contents are archived in
 * one's store. A used up allowance comes back bit by bit, all of it within a day (a token
 * bucket). Each producer counts for itself, in memory: only the owner of the store can
 * start one anew.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <sys/types.h>

struct shfs_allowance;

/* bytes: a day. -ENOMEM. Any thread may use it. */
_must_check_ int shfs_allowance_new(uint64_t bytes, struct shfs_allowance **out);
void shfs_allowance_free(struct shfs_allowance *allowance); /* NULL is fine */

/* Is some of the user's allowance left? Root and the owner of the store, which is this
 * process's user, are not limited. now_ns: CLOCK_BOOTTIME, as below. */
_must_check_ bool shfs_allowance_is_left(struct shfs_allowance *allowance, uid_t uid,
                                         int64_t now_ns);
/* Counts stored bytes of the user: maybe more than were left, as several contents may be
 * under way at once. */
void shfs_allowance_use(struct shfs_allowance *allowance, uid_t uid, uint64_t bytes,
                        int64_t now_ns);
