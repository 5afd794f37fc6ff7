/* SPDX-License-Identifier: MIT */
/* tree-diff.h - compares a directory as it was at two times. */
#pragma once

#include "query/history/diff.h"
#include "query/past/tree.h"

/* Prints what differs, contents by diff(1); only what changes are recorded of is looked
 * at. Both trees have one root. 0: nothing does, 1: something, else an exit code, after a
 * message. */
_must_check_ int shfs_tree_diff(struct shfs_store *store, const struct shfs_tree *first,
                                const struct shfs_tree *second,
                                const struct shfs_diff_options *options);
