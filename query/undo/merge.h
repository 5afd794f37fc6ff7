/* SPDX-License-Identifier: MIT */
/*
 * merge.h - files that others have changed since, merged by git merge-file(1): the base
 * is what the commands left, ours what is there now, theirs what was there before.
 */
#pragma once

#include "query/undo/plan.h"

/* Merges all files of which that is wanted; one that cannot be merged is a conflict. */
_must_check_ int shfs_undo_merge(struct shfs_undo_plan *plan);
