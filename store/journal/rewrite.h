/* SPDX-License-Identifier: MIT */
/*
 * rewrite.h - writes a segment anew, with some of its records (store/care/forget.h):
 * sealed, in format 2, under a name that no reader takes. Records keep their sequence
 * numbers and times.
 */
#pragma once

#include "common/record.h"

struct shfs_rewrite;

/* What it is called until it takes its place: behind the segment's name. */
#define SHFS_REWRITE_SUFFIX ".zst.new"

_must_check_ int shfs_rewrite_new(struct shfs_rewrite **out);
void shfs_rewrite_free(struct shfs_rewrite *rewrite);

/* The first one is the PRODUCER. Strings are borrowed for the call. */
_must_check_ int shfs_rewrite_add(struct shfs_rewrite *rewrite,
                                  const struct shfs_record *rec);

/* The bytes of the segment, not sealed; borrowed, nothing is added behind it. NULL: no
 * memory. */
const struct shfs_buf *shfs_rewrite_bytes(struct shfs_rewrite *rewrite);

/* Durable as NAME.zst.new below dirfd. name: of the segment, "....seg". */
_must_check_ int shfs_rewrite_save(struct shfs_rewrite *rewrite, int dirfd,
                                   const char *name);

/* Durable in the place of the segment, sealed or not. Done already: 0. */
_must_check_ int shfs_rewrite_install(int dirfd, const char *name);
