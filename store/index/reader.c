/* SPDX-License-Identifier: MIT */
/* Reads accesses from their chunks: a range of them, or single ones. */
#include "store/index/internal.h"

static const char range_sql[] = "SELECT chunk_id, data FROM chunk WHERE chunk_id >= ?1"
				" AND chunk_id <= ?2 ORDER BY chunk_id";
/* Selects the chunk that may have the access. */
static const char single_sql[] = "SELECT chunk_id, data FROM chunk WHERE chunk_id <= ?1"
				 " ORDER BY chunk_id DESC LIMIT 1";

void shfs_reader_end(struct shfs_reader *reader)
{
	shfs_stmt_give(reader->index, range_sql, TAKE_PTR(reader->range));
	shfs_stmt_give(reader->index, single_sql, TAKE_PTR(reader->single));
}

/* Like shfs_sql_next, and opens the chunk. */
static int next_chunk(struct shfs_reader *reader, sqlite3_stmt *stmt)
{
	int r = shfs_sql_next(reader->index, stmt);

	if (r > 0)
		shfs_chunk_open(&reader->chunk, sqlite3_column_int64(stmt, 0),
		                sqlite3_column_blob(stmt, 1),
		                sqlite3_column_bytes(stmt, 1));
	return r;
}

int shfs_reader_range(struct shfs_reader *reader, int64_t first_id, int64_t last_id)
{
	int r = reader->range ? 0
	                      : shfs_stmt_take(reader->index, range_sql, &reader->range);

	if (r)
		return r;
	sqlite3_reset(reader->range);
	sqlite3_bind_int64(reader->range, 1, first_id);
	sqlite3_bind_int64(reader->range, 2, last_id);
	reader->in_range = true;
	reader->process_id = -1;
	r = next_chunk(reader, reader->range);
	reader->in_range = r > 0;
	return MIN(r, 0);
}

int shfs_reader_next(struct shfs_reader *reader)
{
	int r = 0;

	while (reader->in_range && !(r = shfs_chunk_next(&reader->chunk))) {
		r = next_chunk(reader, reader->range);
		reader->in_range = r > 0;
	}
	return r;
}

/* Moves forward in the open chunk. 1; 0: the access is further on, or does not exist. */
static int skip_to(struct shfs_reader *reader, int64_t access_id)
{
	int r = 1;

	if (reader->process_id != access_id >> 32 ||
	    reader->chunk.access.access_id >= access_id)
		return 0;
	while (r > 0 && reader->chunk.access.access_id < access_id)
		r = shfs_chunk_next(&reader->chunk);
	return r;
}

int shfs_reader_find(struct shfs_reader *reader, int64_t access_id)
{
	bool is_first = !reader->single;
	int r = is_first ? shfs_stmt_take(reader->index, single_sql, &reader->single)
	                 : skip_to(reader, access_id);

	if (!r) {
		reader->in_range = false;
		reader->process_id = -1;
		sqlite3_reset(reader->single);
		sqlite3_bind_int64(reader->single, 1, access_id);
		r = next_chunk(reader, reader->single);
		if (r <= 0)
			return r;
		reader->process_id = access_id >> 32;
		r = skip_to(reader, access_id);
	}
	return r > 0 ? reader->chunk.access.access_id == access_id : r;
}
