/* SPDX-License-Identifier: MIT */
/*
 * What a row of the table version says of its content, packed:
 *
 *     head (the source, and enum head), flags, mode (if the head says so), size
 * (varints), mtime (8 bytes), 3 bytes of the partial hash if the flags say that there is
 * one, what the head says (varints): how far the ctime and the time it was made are from
 *     the mtime; the access that made it, by process and number
 *
 * and the functions of SQL that read it.
 */
#include "store/index/internal.h"

#include <errno.h>
#include <sys/stat.h>

#define USUAL_MODE (S_IFREG | 0644)

enum head {
	HEAD_SOURCE = 7,
	HEAD_CARRIED = 1 << 3,
	HEAD_MODE = 1 << 4, /* it is not the usual */
	HEAD_CTIME = 1 << 5,
	HEAD_TIME = 1 << 6,
	HEAD_ACCESS = 1 << 7,
};

static uint8_t *put_fixed(uint8_t *p, uint64_t value, int bytes)
{
	for (; bytes--; value >>= 8)
		*p++ = (uint8_t)value;
	return p;
}

size_t shfs_version_pack(const struct shfs_version_row *row,
                         uint8_t out[static SHFS_VERSION_PACKED])
{
	const struct shfs_content *c = &row->content;
	int64_t ctime = shfs_wrap_sub(c->ctime_ns, c->mtime_ns);
	int64_t time = shfs_wrap_sub(row->time_ns, c->mtime_ns);
	uint8_t *p = out;

	*p++ = (row->source & HEAD_SOURCE) |
	       (row->source & SHFS_SOURCE_CARRIED ? HEAD_CARRIED : 0) |
	       (c->mode != USUAL_MODE ? HEAD_MODE : 0) | (ctime ? HEAD_CTIME : 0) |
	       (time ? HEAD_TIME : 0) | (row->access_id ? HEAD_ACCESS : 0);
	p = shfs_varint_put(p, c->flags);
	if (c->mode != USUAL_MODE)
		p = shfs_varint_put(p, c->mode);
	p = shfs_varint_put(p, c->size);
	p = put_fixed(p, c->mtime_ns, 8);
	if (c->flags & SHFS_CONTENT_PHASH)
		p = put_fixed(p, c->phash, SHFS_PHASH_KEPT / 8);
	if (ctime)
		p = shfs_varint_put(p, shfs_zigzag(ctime));
	if (time)
		p = shfs_varint_put(p, shfs_zigzag(time));
	if (row->access_id) {
		p = shfs_varint_put(p, (uint64_t)row->access_id >> 32);
		p = shfs_varint_put(p, (uint32_t)row->access_id);
	}
	return p - out;
}

int shfs_version_unpack(const void *data, size_t len, struct shfs_version_row *out)
{
	struct shfs_cursor at = { data, (const uint8_t *)data + len };
	unsigned head = shfs_cursor_u8(&at);
	struct shfs_version_row row = { .source = head & HEAD_SOURCE };
	struct shfs_content *c = &row.content;

	if (head & HEAD_CARRIED)
		row.source |= SHFS_SOURCE_CARRIED;
	c->flags = shfs_varint_get(&at);
	c->mode = head & HEAD_MODE ? shfs_varint_get(&at) : USUAL_MODE;
	c->size = shfs_varint_get(&at);
	c->mtime_ns = (int64_t)shfs_cursor_u64(&at);
	for (int bit = 0; c->flags & SHFS_CONTENT_PHASH && bit < SHFS_PHASH_KEPT;
	     bit += 8)
		c->phash |= (uint64_t)shfs_cursor_u8(&at) << bit;
	c->ctime_ns = row.time_ns = c->mtime_ns;
	if (head & HEAD_CTIME)
		c->ctime_ns =
			shfs_wrap_add(c->mtime_ns, shfs_unzigzag(shfs_varint_get(&at)));
	if (head & HEAD_TIME)
		row.time_ns =
			shfs_wrap_add(c->mtime_ns, shfs_unzigzag(shfs_varint_get(&at)));
	if (head & HEAD_ACCESS) {
		row.access_id = (int64_t)(shfs_varint_get(&at) << 32);
		row.access_id |= (uint32_t)shfs_varint_get(&at);
	}
	if (at.failed || at.p != at.end)
		return -EBADMSG;
	*out = row;
	return 0;
}

int shfs_version_fact_unpack(struct shfs_version_fact *out, const void *data,
                             size_t data_len, const void *object, size_t object_len)
{
	struct shfs_version_row row;
	int r = shfs_version_unpack(data, data_len, &row);

	if (r)
		return r;
	out->file_id = out->version_id >> 32;
	out->n = out->version_id & UINT32_MAX;
	out->content = row.content;
	out->content.flags &= ~SHFS_CONTENT_OBJECT;
	if (object_len && shfs_object_unpack(object, object_len, &out->content.object))
		return -EBADMSG;
	out->content.flags |= object_len ? SHFS_CONTENT_OBJECT : 0;
	out->source = row.source & ~SHFS_SOURCE_CARRIED;
	out->carried = row.source & SHFS_SOURCE_CARRIED;
	out->access_id = row.access_id;
	out->process_id = row.access_id >> 32;
	out->time_ns = row.time_ns;
	return 0;
}

const char *shfs_version_source_name(enum shfs_version_source source)
{
	static const char *const names[] = {
		[SHFS_SOURCE_WRITTEN] = "written",
		[SHFS_SOURCE_FOUND] = "found",
		[SHFS_SOURCE_RENAMED] = "renamed",
		[SHFS_SOURCE_LINKED] = "linked",
	};

	source &= ~SHFS_SOURCE_CARRIED;
	return source < ARRAY_SIZE(names) ? names[source] : NULL;
}

/* --- version_flags(data), ... --- */

enum part {
	PART_FLAGS,
	PART_MODE,
	PART_SIZE,
	PART_MTIME,
	PART_CTIME,
	PART_PHASH,
	PART_SOURCE,
	PART_ACCESS,
	PART_TIME,
	PART_IS_CARRIED,
	PART_CARRIED,
};

static const char *const parts[] = {
	[PART_FLAGS] = "version_flags",     [PART_MODE] = "version_mode",
	[PART_SIZE] = "version_size",       [PART_MTIME] = "version_mtime_ns",
	[PART_CTIME] = "version_ctime_ns",  [PART_PHASH] = "version_phash",
	[PART_SOURCE] = "version_source",   [PART_ACCESS] = "version_access_id",
	[PART_TIME] = "version_time_ns",    [PART_IS_CARRIED] = "version_is_carried",
	[PART_CARRIED] = "version_carried",
};

/* The packed row of the version that a rename takes along. */
static void result_carried(sqlite3_context *ctx, struct shfs_version_row *row)
{
	uint8_t data[SHFS_VERSION_PACKED];

	row->source |= SHFS_SOURCE_CARRIED;
	sqlite3_result_blob(ctx, data, (int)shfs_version_pack(row, data),
	                    SQLITE_TRANSIENT);
}

static void version_part(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	enum part part = (enum part)(intptr_t)sqlite3_user_data(ctx);
	struct shfs_version_row row;
	int64_t value = 0;

	if (shfs_version_unpack(sqlite3_value_blob(argv[0]), sqlite3_value_bytes(argv[0]),
	                        &row))
		return; /* NULL */
	switch (part) {
	case PART_FLAGS:
		value = row.content.flags & (SHFS_CONTENT_PRUNED - 1);
		break;
	case PART_MODE:
		value = row.content.mode;
		break;
	case PART_SIZE:
		value = (int64_t)row.content.size;
		break;
	case PART_MTIME:
		value = row.content.mtime_ns;
		break;
	case PART_CTIME:
		value = row.content.ctime_ns;
		break;
	case PART_PHASH:
		value = (int64_t)row.content.phash;
		break;
	case PART_SOURCE:
		return sqlite3_result_text(ctx, shfs_version_source_name(row.source), -1,
		                           SQLITE_STATIC);
	case PART_ACCESS:
		value = row.access_id;
		if (!value)
			return; /* NULL */
		break;
	case PART_TIME:
		value = row.time_ns;
		break;
	case PART_IS_CARRIED:
		value = !!(row.source & SHFS_SOURCE_CARRIED);
		break;
	case PART_CARRIED:
		return result_carried(ctx, &row);
	}
	sqlite3_result_int64(ctx, value);
}

int shfs_version_functions_register(sqlite3 *db)
{
	int rc = SQLITE_OK;

	for (size_t i = 0; i < ARRAY_SIZE(parts) && !rc; i++)
		rc = sqlite3_create_function(db, parts[i], 1,
		                             SQLITE_UTF8 | SQLITE_DETERMINISTIC |
		                                     SQLITE_INNOCUOUS,
		                             (void *)(intptr_t)i, version_part, NULL,
		                             NULL);
	return rc;
}
