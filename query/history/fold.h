/* SPDX-License-Identifier: MIT */
/*
 * fold.h - what one command made of a file in a row, as one entry: a loop of 60 appends
 * is one step of the user's.
 */
#pragma once

#include "query/history/version-show.h"

/* So many versions make a fold: of fewer, each is an entry, which takes no more lines. */
#define SHFS_FOLD_MIN 3

/* Takes an entry, from oldest to newest: the same version, if it is not a fold. Returns
 * 0, or anything else to end there. */
typedef int shfs_fold_entry(void *arg, const struct shfs_version *newest,
                            const struct shfs_version *oldest);

/*
 * Calls entry for all versions of rows, which begin with SHFS_VERSION_COLUMNS, are of one
 * file, and in order of n, up or down. fold: versions that follow one another are one
 * entry, if the same command (or process that is in none) made them, nothing else
 * happened between them (gone; NULL: not looked at), and nothing is to be told of one
 * alone (it is incomplete, not archived for another reason, or noted).
 * Returns 0, what entry returned, or a negative errno.
 */
_must_check_ int shfs_fold_each(struct shfs_rows *rows, bool fold,
                                const struct shfs_gone_list *gone, shfs_fold_entry *entry,
                                void *arg);
