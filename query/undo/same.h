/* SPDX-License-Identifier: MIT */
/* same.h - is something there as it was, or as it was left? */
#pragma once

#include "query/undo/plan.h"

/* Looks at a path without following links: 1: there is something; 0; or a negative errno.
 */
_must_check_ int shfs_undo_look_at(const char *path, struct stat *st);

/* Loads the versions before and left of a file. */
_must_check_ int shfs_undo_load_versions(struct shfs_undo_plan *plan,
                                         const struct shfs_past_file *file,
                                         struct shfs_undo_file *u);

/* Is it a version with this content? */
bool shfs_undo_is_object(const struct shfs_version *version,
                         const struct shfs_object_id *id);

/* Compares the file with a version, mostly that which the commands left: *same;
 * *archived: its content is in the store (as now, if it can be read). A file that may not
 * be read, or is too large, is compared by size and time. */
_must_check_ int shfs_undo_compare_with(struct shfs_undo_plan *plan,
                                        struct shfs_undo_file *u,
                                        const struct shfs_version *left, bool *same,
                                        bool *archived);

/* Are the extended attributes that were changed as they were? Notes those that the file
 * has now and had not, if all of them are known. */
_must_check_ int shfs_undo_compare_xattrs(struct shfs_past_file *file, const char *path,
                                          bool *same);

/* Lets files stay that were made at the name of one that is gone, with its content. */
_must_check_ int shfs_undo_keep_same_files(struct shfs_undo_plan *plan);
