/* SPDX-License-Identifier: MIT */
/*
 * Which objects the index surely lacks, so that they are not looked for. Whether an
 * object is new takes a look into a large index, of which each part is as likely as
 * another. An ingest that makes much of the index keeps a bit for the beginnings of all
 * objects: one whose bit is clear is new.
 */
#include "store/index/internal.h"

#include <errno.h>

#define PREFIX_BYTES 3 /* as in the index version_object */
#define SEEN_BYTES   ((size_t)1 << (8 * PREFIX_BYTES - 3))

unsigned shfs_seen_after = 20000; /* records */

/* Sets the bit of an object. Returns whether it was set. */
static bool set_bit(uint8_t *bits, const void *object, size_t len)
{
	const uint8_t *p = object;
	uint32_t prefix =
		len < PREFIX_BYTES ? 0 : (uint32_t)(p[0] << 16 | p[1] << 8 | p[2]);
	uint8_t bit = (uint8_t)(1 << prefix % 8);
	bool was = bits[prefix / 8] & bit;

	bits[prefix / 8] |= bit;
	return was;
}

/* Reads what there is, if it is worth it by now: if this ingest has made much of it. */
static int load_seen(struct shfs_ingest *ing)
{
	_cleanup_free_ uint8_t *seen = NULL;
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r;

	if (ing->seen || ing->stats.records < shfs_seen_after ||
	    ing->stats.records < (uint64_t)ing->totals.versions / 2)
		return 0;
	seen = calloc(SEEN_BYTES, 1);
	if (!seen)
		return -ENOMEM;
	r = shfs_sql_get(ing->index, &stmt,
	                 "SELECT object FROM version WHERE object IS NOT NULL");
	for (; r > 0; r = shfs_sql_next(ing->index, stmt))
		set_bit(seen, sqlite3_column_blob(stmt, 0),
		        sqlite3_column_bytes(stmt, 0));
	if (!r)
		ing->seen = TAKE_PTR(seen);
	return r;
}

void shfs_seen_forget(struct shfs_ingest *ing)
{
	free(ing->seen);
	ing->seen = NULL;
}

int shfs_seen_object(struct shfs_ingest *ing, struct shfs_bytes object)
{
	int r = load_seen(ing);

	return r ? r : !ing->seen || set_bit(ing->seen, object.data, object.len);
}
