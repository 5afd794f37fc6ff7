/* SPDX-License-Identifier: MIT */
/*
 * pieces.h - replaces the rows of one table of a store in the database.
 *
 * Rows come in the order of their keys and are cut into pieces, at keys that their hash
 * chooses, so that a new row changes one piece. A piece that is in the database with the
 * same first and last key and the same hash stays; any other that is there is removed. A
 * transaction replaces some pieces and says so in the table of pieces: it may end
 * anywhere, and the next time goes on from what is there.
 */
#pragma once

#include "query/team/database.h"

struct piece {
	int64_t first, last; /* keys */
	int64_t hash, rows;
};

struct pieces_stats {
	uint64_t rows, sent, removed, bytes;
};

struct pieces {
	struct database *db;
	int64_t store_id; /* 0: the database has nothing of it */
	const char *table, *key;
	bool dry_run;
	struct pieces_stats *stats;
	/* what the database has, by the first key; how far it was compared */
	struct piece *known;
	size_t n_known, cap_known, at_known;
	/* the piece that is being made, and the batch that will be sent */
	struct piece now;
	struct shfs_buf lines, batch, removals, notes;
	size_t n_batch;
};

/* Begins a table; the other fields are set. False after a message. */
_must_check_ bool pieces_begin(struct pieces *p);
/* Adds a row: a line of COPY's text format without the store's number. */
_must_check_ bool pieces_add(struct pieces *p, int64_t key, const char *line, size_t len);
/* Sends what is left, and removes what was not added. */
_must_check_ bool pieces_finish(struct pieces *p);
void pieces_clear(struct pieces *p);
