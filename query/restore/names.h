/* SPDX-License-Identifier: MIT */
/*
 * names.h - which removed files were names of one file, and are to be that again.
 *
 * A link that was seen made counts as long as both of its names are what they were then,
 * or were until they were removed for the last time: "ln a b; rm b; cp a b" makes a b of
 * its own.
 */
#pragma once

#include "query/base/model.h"

struct shfs_names;

/* *names: NULL at first. Did path have other names when it was removed? 1 or 0. */
_must_check_ int shfs_names_add(struct shfs_names **names, struct shfs_index *index,
                                int64_t file_id, const char *path);

/* One of the others that is there, or NULL. */
const char *shfs_names_other(struct shfs_names *names, const char *path);

/* path, which was added, is there now: the others are to be names of it. */
void shfs_names_is_there(struct shfs_names *names, const char *path);

void shfs_names_free(struct shfs_names **names);
