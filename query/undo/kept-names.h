/* SPDX-License-Identifier: MIT */
/* kept-names.h - names that files have kept, which lost others. */
#pragma once

#include "query/undo/plan.h"

/* Finds names of files that are to be made, by their numbers and contents, in their
 * projects: such a file is there, and gets its other names back (other_name). A file
 * that has none is made anew. */
_must_check_ int shfs_undo_find_kept_names(struct shfs_undo_plan *plan);
