/* SPDX-License-Identifier: MIT */
/*
 * raw.h - contents of which the store has a fingerprint alone, for an archive: raw inputs
 * that were too large, or that a rule left out. Those that still lie there unchanged may
 * be taken along; in the archive they are contents as all others.
 */
#pragma once

#include "common/ids.h"
#include "query/base/cmd.h"
#include "store/objects/object.h"

struct shfs_raw;

/* Looks at the versions of these files (NULL: of all), and where to take them along at
 * the files themselves. */
_must_check_ int shfs_raw_find(struct shfs_index *index, const struct shfs_ids *files,
                               bool take_along, struct shfs_raw **out);
void shfs_raw_free(struct shfs_raw *raw); /* NULL is fine */

/* Gives the content of a record of one of these paths an object, if it is taken along. */
void shfs_raw_give(const struct shfs_raw *raw, struct shfs_bytes path,
                   struct shfs_bytes path2, struct shfs_content *content);

/* Copies the object to fd, an empty file: 1; 0: it is not taken along. -ECANCELED: it
 * cannot be, as the file was changed meanwhile or for what else a message has said. */
_must_check_ int shfs_raw_copy(const struct shfs_raw *raw,
                               const struct shfs_object_id *id, int fd);

/* Warns of those that are not taken along, with their number. */
void shfs_raw_warn(const struct shfs_raw *raw);
