/* SPDX-License-Identifier: MIT */
/* tree-copy.h - makes steps that copy a directory as it was at a time to another place.
 */
#pragma once

#include "query/past/tree.h"
#include "query/undo/steps.h"

/* Something that is not as it was in the copy, or not there at all. */
struct shfs_tree_copy_gap {
	char *path; /* as it was */
	char *why;
	bool missing;
};

struct shfs_tree_copy {
	struct shfs_steps *steps;
	bool git; /* also what is in .git */
	size_t n_files, n_directories, n_others;
	bool without_git; /* some of it is left out */
	struct shfs_tree_copy_gap *gaps;
	size_t n_gaps, cap_gaps;
};

/* Adds steps that make `to` (absolute; nothing is there) what path was in the tree. 0, or
 * a negative errno. */
_must_check_ int shfs_tree_copy_arrange(struct shfs_tree_copy *copy,
                                        const struct shfs_tree *tree, const char *path,
                                        const char *to);
void shfs_tree_copy_clear(struct shfs_tree_copy *copy);
#define _cleanup_tree_copy_ _cleanup_(shfs_tree_copy_clear)
