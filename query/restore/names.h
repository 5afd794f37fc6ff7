/* SPDX-License-Identifier: MIT */
/*
 * names.h - finds removed files that were names of one file, to make them that again.
 *
 * A link that was seen counts as long as neither name was changed since, except by its
 * last removal: "ln a b; rm b; cp a b" makes b a file of its own.
 */
#pragma once

#include "query/base/model.h"

struct shfs_names;

/* Adds a path; *names is NULL at first. Did it have other names when it was removed? 1 or
 * 0. */
_must_check_ int shfs_names_add(struct shfs_names **names, struct shfs_index *index,
                                int64_t file_id, const char *path);

/* An existing other name of the file, or NULL. */
const char *shfs_names_other(struct shfs_names *names, const char *path);

/* path, which was added, exists now: the others become names of its file. */
void shfs_names_is_there(struct shfs_names *names, const char *path);

void shfs_names_free(struct shfs_names **names);
