/* SPDX-License-Identifier: MIT */
/* preview.h - shows a plan to people, and to programs. */
#pragma once

#include "query/undo/plan.h"

/* Counts the changes that are to be made, and what is left alone by verdict. */
struct shfs_undo_counts {
	size_t changes, conflicts, cannot;
};
struct shfs_undo_counts shfs_undo_count(const struct shfs_undo_plan *plan);

/* Appends head, and a line for each change; nothing, if there are none. */
_must_check_ int shfs_undo_show(const struct shfs_undo_plan *plan, const char *head,
                                struct shfs_buf *out);
/* Appends a line for each thing that is left alone, and why. */
_must_check_ int shfs_undo_show_reasons(const struct shfs_undo_plan *plan,
                                        struct shfs_buf *out);
/* Prints what changes of contents as diffs. An exit code. */
_must_check_ int shfs_undo_diff(const struct shfs_undo_plan *plan, bool color);
/* Members changes, left_alone, notes. */
_must_check_ int shfs_undo_json(const struct shfs_undo_plan *plan,
                                struct shfs_json *json);
