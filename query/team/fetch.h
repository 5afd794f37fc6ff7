/* SPDX-License-Identifier: MIT */
/*
 * fetch.h - makes a mirror (store/index/mirror.h) what a role sees of the database.
 *
 * The database decides by row-level security what that is: the role reads its tables as
 * any client. A store whose mark is that of the last time is not read; of one that is
 * seen as a whole, only those pieces are (pieces.h) that have changed. All happens in one
 * transaction here and in one there, so a fetch may be killed, and leaves what was there.
 */
#pragma once

#include "query/team/database.h"
#include "store/index/mirror.h"
#include "store/trees.h"

/* The database was prepared. trees: of the store here; stores of other machines become
 * trees of it, in memory. An exit code; or -EBADMSG, without a message: the mirror is
 * damaged. */
_must_check_ int fetch_mirror(struct database *db, struct shfs_index *mirror,
                              struct shfs_trees *trees);
