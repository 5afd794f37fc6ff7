/* SPDX-License-Identifier: MIT */
/*
 * rewrite.h - writes a segment anew, with some of its records (store/care/forget.h):
 * sealed, in format 2, under a name that no reader takes. Records keep their sequence
 * numbers and times.
 */
#pragma once

#include "common/record.h"

struct shfs_rewrite;

/* Suffix of the new file's name, until the file replaces the segment. */
#define SHFS_REWRITE_SUFFIX ".zst.new"

_must_check_ int shfs_rewrite_new(struct shfs_rewrite **out);
void shfs_rewrite_free(struct shfs_rewrite *rewrite);

/* Adds a record; the first is the PRODUCER. Strings are borrowed for the call. */
_must_check_ int shfs_rewrite_add(struct shfs_rewrite *rewrite,
                                  const struct shfs_record *rec);

/* Returns the bytes of the segment, not sealed; borrowed. Nothing may be added
 * afterwards. NULL: no memory. */
const struct shfs_buf *shfs_rewrite_bytes(struct shfs_rewrite *rewrite);

/* Saves the segment durably as NAME.zst.new below dirfd. name: "....seg". */
_must_check_ int shfs_rewrite_save(struct shfs_rewrite *rewrite, int dirfd,
                                   const char *name);

/* Replaces the segment, sealed or not, by the saved file, durably. Done already: 0. */
_must_check_ int shfs_rewrite_install(int dirfd, const char *name);
