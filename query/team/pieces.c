/* SPDX-License-Identifier: MIT */
#include "query/team/pieces.h"

#include "query/base/cmd.h"
#include "query/base/progress.h"
#include "store/objects/object.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PIECE_ROWS  512        /* about so many are in a piece */
#define PIECE_BYTES (1u << 20) /* and not many more than these */
#define BATCH_BYTES (8u << 20)

void pieces_clear(struct pieces *p)
{
	free(p->known);
	shfs_buf_free(&p->lines);
	shfs_buf_free(&p->batch);
	shfs_buf_free(&p->removals);
	shfs_buf_free(&p->notes);
}

static bool run_text(struct pieces *p, const struct shfs_buf *sql)
{
	if (!sql->failed)
		return database_run(p->db, sql->data);
	shfs_no_memory();
	return false;
}

/* --- what is there --- */

static int note_known(void *arg, const char *const *row)
{
	struct pieces *p = arg;
	struct piece *piece;

	if (!MAKE_ROOM(p->known, p->n_known, p->cap_known))
		return -1;
	piece = &p->known[p->n_known++];
	piece->first = strtoll(row[0], NULL, 10);
	piece->last = strtoll(row[1], NULL, 10);
	piece->hash = strtoll(row[2], NULL, 10);
	piece->rows = strtoll(row[3], NULL, 10);
	return 0;
}

bool pieces_begin(struct pieces *p)
{
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	char store[24];

	if (!p->store_id)
		return true;
	snprintf(store, sizeof(store), "%" PRId64, p->store_id);
	if (!database_ask(p->db,
	                  "SELECT first, last, hash, rows FROM shfs.piece"
	                  " WHERE store_id = $1::int AND name = $2 ORDER BY first",
	                  (const char *const[]){ store, p->table, NULL }, note_known, p))
		return false;
	if (p->dry_run)
		return true;
	/* COPY into a table with row-level security is not allowed */
	shfs_buf_printf(&sql,
	                "CREATE TEMP TABLE IF NOT EXISTS load_%s (LIKE shfs.%s)"
	                " ON COMMIT DELETE ROWS",
	                p->table, p->table);
	return run_text(p, &sql);
}

/* --- batches --- */

static void batch_empty(struct pieces *p)
{
	p->batch.len = p->removals.len = p->notes.len = 0;
	p->n_batch = 0;
}

/* Has whoever keeps a copy of the store ask again (fetch.h), and warns whoever does so
 * before all is there. The time makes the number another one in a database that was made
 * anew. */
static bool note_change(struct pieces *p)
{
	_cleanup_buf_ struct shfs_buf sql = { 0 };

	shfs_buf_printf(&sql,
	                "UPDATE shfs.store SET published_ns = NULL,"
	                " changes = greatest(changes + 1,"
	                " (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint)"
	                " WHERE store_id = %" PRId64,
	                p->store_id);
	return run_text(p, &sql);
}

static bool send_rows(struct pieces *p)
{
	_cleanup_buf_ struct shfs_buf copy = { 0 }, insert = { 0 };

	if (!p->n_batch)
		return true;
	shfs_buf_printf(&copy, "COPY pg_temp.load_%s FROM STDIN", p->table);
	shfs_buf_printf(&insert, "INSERT INTO shfs.%s SELECT * FROM pg_temp.load_%s",
	                p->table, p->table);
	if (copy.failed) {
		shfs_no_memory();
		return false;
	}
	return database_copy(p->db, copy.data, p->batch.data, p->batch.len) &&
	       run_text(p, &insert) && run_text(p, &p->notes);
}

static bool send_batch(struct pieces *p)
{
	bool ok;

	if (p->batch.failed || p->removals.failed || p->notes.failed) {
		shfs_no_memory();
		return false;
	}
	if (p->dry_run || (!p->n_batch && !p->removals.len)) {
		batch_empty(p);
		return true;
	}
	ok = database_run(p->db, "BEGIN") &&
	     (!p->removals.len || run_text(p, &p->removals)) && send_rows(p) &&
	     note_change(p) && database_run(p->db, "COMMIT");
	batch_empty(p);
	return ok;
}

/* --- pieces --- */

static void remove_known(struct pieces *p, const struct piece *piece)
{
	p->stats->removed += (uint64_t)piece->rows;
	shfs_buf_printf(&p->removals, "DELETE FROM shfs.%s WHERE store_id = ", p->table);
	shfs_buf_int(&p->removals, p->store_id);
	shfs_buf_printf(&p->removals, " AND %s BETWEEN ", p->key);
	shfs_buf_int(&p->removals, piece->first);
	shfs_buf_str(&p->removals, " AND ");
	shfs_buf_int(&p->removals, piece->last);
	shfs_buf_printf(&p->removals,
	                "; DELETE FROM shfs.piece WHERE name = '%s' AND store_id = ",
	                p->table);
	shfs_buf_int(&p->removals, p->store_id);
	shfs_buf_str(&p->removals, " AND first = ");
	shfs_buf_int(&p->removals, piece->first);
	shfs_buf_char(&p->removals, ';');
}

/* Removes what is there up to a key. Is the piece there, as it is? */
static bool compare_known(struct pieces *p, const struct piece *piece, int64_t last)
{
	bool same = false;

	while (p->at_known < p->n_known && p->known[p->at_known].first <= last) {
		const struct piece *known = &p->known[p->at_known++];

		if (piece && !memcmp(known, piece, sizeof(*piece)))
			same = true;
		else
			remove_known(p, known);
	}
	return same;
}

static void note_piece(struct pieces *p)
{
	shfs_buf_str(&p->notes, p->n_batch++ ? ", " : "INSERT INTO shfs.piece VALUES ");
	shfs_buf_printf(&p->notes,
	                "(%" PRId64 ", '%s', %" PRId64 ", %" PRId64 ", %" PRId64
	                ", %" PRId64 ")",
	                p->store_id, p->table, p->now.first, p->now.last, p->now.hash,
	                p->now.rows);
}

/* Ends the piece that is being made. */
static bool end_piece(struct pieces *p)
{
	if (!p->now.rows)
		return true;
	if (p->lines.failed) {
		shfs_no_memory();
		return false;
	}
	p->now.hash = (int64_t)shfs_object_hash64(p->lines.data, p->lines.len);
	p->stats->rows += (uint64_t)p->now.rows;
	if (!compare_known(p, &p->now, p->now.last)) {
		note_piece(p);
		shfs_buf_add(&p->batch, p->lines.data, p->lines.len);
		p->stats->sent += (uint64_t)p->now.rows;
		p->stats->bytes += p->lines.len;
	}
	p->now = (struct piece){ 0 };
	p->lines.len = 0;
	return p->batch.len + p->removals.len < BATCH_BYTES || send_batch(p);
}

/* Does a piece end before this key? The keys alone decide, or the bytes. */
static bool is_cut(const struct pieces *p, int64_t key)
{
	return p->now.rows && key != p->now.last &&
	       (p->lines.len > PIECE_BYTES ||
	        shfs_object_hash64(&key, sizeof(key)) % PIECE_ROWS == 0);
}

bool pieces_add(struct pieces *p, int64_t key, const char *line, size_t len)
{
	if (is_cut(p, key) && !end_piece(p))
		return false;
	if (!p->now.rows++)
		p->now.first = key;
	shfs_assert(p->now.rows == 1 || key >= p->now.last);
	p->now.last = key;
	shfs_buf_int(&p->lines, p->store_id);
	shfs_buf_add(&p->lines, line, len);
	shfs_buf_char(&p->lines, '\n');
	return true;
}

bool pieces_finish(struct pieces *p)
{
	if (!end_piece(p))
		return false;
	compare_known(p, NULL, INT64_MAX);
	return send_batch(p);
}
