/* SPDX-License-Identifier: MIT */
/* publish.h - makes the rows of a store in the database those of its index. */
#pragma once

#include "query/team/database.h"
#include "query/team/pieces.h"
#include "store/index/index.h"

struct publish_options {
	const char *store, *host;   /* its id, this host's name */
	const char *machine, *home; /* as store/trees.h has them */
	bool dry_run;
};

/* The database was prepared; is_there: has it the schema? Returns an exit code, or a
 * negative errno if the index cannot be read. */
_must_check_ int publish_index(struct database *db, struct shfs_index *index,
                               bool is_there, const struct publish_options *options,
                               struct pieces_stats *stats);

/* Removes all rows of a store. An exit code; *was_there: there was one. */
_must_check_ int publish_remove(struct database *db, const char *store, bool *was_there);
