/* SPDX-License-Identifier: MIT */
/*
 * The column data of the table version, packed:
 *
 *     head (the source, 4 more if it was made again, and enum head), flags, mode (if the
 * head says so), size (varints), mtime (8 bytes), 3 bytes of the partial hash if the
 * flags say that there is one, what the head says (varints): how far the ctime and the
 * time it was made are from the mtime; the access that made it, by process and number
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
	HEAD_MODE = 1 << 4, /* not the usual one */
	HEAD_CTIME = 1 << 5,
	HEAD_TIME = 1 << 6,
	HEAD_ACCESS = 1 << 7,
};

/* Sources are 1 to 4, so that 8 is the one that becomes 0. */
static unsigned head_of_source(const struct shfs_version_fact *version)
{
	return (version->source + (version->again ? 4 : 0)) & HEAD_SOURCE;
}

static void get_source(unsigned head, struct shfs_version_fact *out)
{
	unsigned source = head & HEAD_SOURCE ? head & HEAD_SOURCE : HEAD_SOURCE + 1;

	out->again = source > 4;
	out->source = out->again ? source - 4 : source;
}

static uint8_t *put_fixed(uint8_t *p, uint64_t value, int bytes)
{
	for (; bytes--; value >>= 8)
		*p++ = (uint8_t)value;
	return p;
}

size_t shfs_version_pack(const struct shfs_version_fact *version,
                         uint8_t out[static SHFS_VERSION_PACKED])
{
	const struct shfs_content *c = &version->content;
	int64_t ctime = shfs_wrap_sub(c->ctime_ns, c->mtime_ns);
	int64_t time = shfs_wrap_sub(version->time_ns, c->mtime_ns);
	uint8_t *p = out;

	*p++ = head_of_source(version) | (version->carried ? HEAD_CARRIED : 0) |
	       (c->mode != USUAL_MODE ? HEAD_MODE : 0) | (ctime ? HEAD_CTIME : 0) |
	       (time ? HEAD_TIME : 0) | (version->access_id ? HEAD_ACCESS : 0);
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
	if (version->access_id) {
		p = shfs_varint_put(p, (uint64_t)version->access_id >> 32);
		p = shfs_varint_put(p, (uint32_t)version->access_id);
	}
	return p - out;
}

static int get_data(struct shfs_bytes data, struct shfs_version_fact *out)
{
	struct shfs_cursor at = { (const uint8_t *)data.data,
		                  (const uint8_t *)data.data + data.len };
	unsigned head = shfs_cursor_u8(&at);
	struct shfs_content *c = &out->content;

	get_source(head, out);
	out->carried = head & HEAD_CARRIED;
	c->flags = shfs_varint_get(&at);
	c->mode = head & HEAD_MODE ? shfs_varint_get(&at) : USUAL_MODE;
	c->size = shfs_varint_get(&at);
	c->mtime_ns = (int64_t)shfs_cursor_u64(&at);
	for (int bit = 0; c->flags & SHFS_CONTENT_PHASH && bit < SHFS_PHASH_KEPT;
	     bit += 8)
		c->phash |= (uint64_t)shfs_cursor_u8(&at) << bit;
	c->ctime_ns = out->time_ns = c->mtime_ns;
	if (head & HEAD_CTIME)
		c->ctime_ns =
			shfs_wrap_add(c->mtime_ns, shfs_unzigzag(shfs_varint_get(&at)));
	if (head & HEAD_TIME)
		out->time_ns =
			shfs_wrap_add(c->mtime_ns, shfs_unzigzag(shfs_varint_get(&at)));
	if (head & HEAD_ACCESS) {
		out->access_id = (int64_t)(shfs_varint_get(&at) << 32);
		out->access_id |= (uint32_t)shfs_varint_get(&at);
	}
	out->process_id = out->access_id >> 32;
	return at.failed || at.p != at.end ? -EBADMSG : 0;
}

int shfs_version_unpack(struct shfs_bytes data, struct shfs_bytes object,
                        struct shfs_version_fact *out)
{
	struct shfs_content *c = &out->content;
	int r;

	*out = (struct shfs_version_fact){ 0 };
	r = get_data(data, out);
	if (r)
		return r;
	c->flags &= ~SHFS_CONTENT_OBJECT;
	if (!object.len)
		return 0;
	c->flags |= SHFS_CONTENT_OBJECT;
	return shfs_object_unpack(object.data, object.len, &c->object) ? -EBADMSG : 0;
}

static struct shfs_bytes column_bytes(sqlite3_stmt *stmt, int col)
{
	const void *data = sqlite3_column_blob(stmt, col);

	return (struct shfs_bytes){ data, sqlite3_column_bytes(stmt, col) };
}

int shfs_version_columns(sqlite3_stmt *stmt, int col, struct shfs_version_fact *out)
{
	return shfs_version_unpack(column_bytes(stmt, col), column_bytes(stmt, col + 1),
	                           out);
}

const char *shfs_version_source_name(enum shfs_version_source source)
{
	static const char *const names[] = {
		[SHFS_SOURCE_WRITTEN] = "written",
		[SHFS_SOURCE_FOUND] = "found",
		[SHFS_SOURCE_RENAMED] = "renamed",
		[SHFS_SOURCE_LINKED] = "linked",
	};

	source &= ~(SHFS_SOURCE_CARRIED | SHFS_SOURCE_AGAIN);
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
	PART_IS_AGAIN,
	PART_CARRIED,
};

static const char *const parts[] = {
	[PART_FLAGS] = "version_flags",       [PART_MODE] = "version_mode",
	[PART_SIZE] = "version_size",         [PART_MTIME] = "version_mtime_ns",
	[PART_CTIME] = "version_ctime_ns",    [PART_PHASH] = "version_phash",
	[PART_SOURCE] = "version_source",     [PART_ACCESS] = "version_access_id",
	[PART_TIME] = "version_time_ns",      [PART_IS_CARRIED] = "version_is_carried",
	[PART_IS_AGAIN] = "version_is_again", [PART_CARRIED] = "version_carried",
};

/* Returns the packed row of a version that a rename carries. */
static void result_carried(sqlite3_context *ctx, struct shfs_version_fact *version)
{
	uint8_t data[SHFS_VERSION_PACKED];

	version->carried = true;
	sqlite3_result_blob(ctx, data, (int)shfs_version_pack(version, data),
	                    SQLITE_TRANSIENT);
}

static void version_part(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	enum part part = (enum part)(intptr_t)sqlite3_user_data(ctx);
	struct shfs_bytes data = { sqlite3_value_blob(argv[0]),
		                   sqlite3_value_bytes(argv[0]) };
	struct shfs_version_fact version = { 0 };
	int64_t value = 0;

	if (get_data(data, &version))
		return; /* NULL */
	switch (part) {
	case PART_FLAGS:
		value = version.content.flags & (SHFS_CONTENT_PRUNED - 1);
		break;
	case PART_MODE:
		value = version.content.mode;
		break;
	case PART_SIZE:
		value = (int64_t)version.content.size;
		break;
	case PART_MTIME:
		value = version.content.mtime_ns;
		break;
	case PART_CTIME:
		value = version.content.ctime_ns;
		break;
	case PART_PHASH:
		value = (int64_t)version.content.phash;
		break;
	case PART_SOURCE:
		return sqlite3_result_text(ctx, shfs_version_source_name(version.source),
		                           -1, SQLITE_STATIC);
	case PART_ACCESS:
		value = version.access_id;
		if (!value)
			return; /* NULL */
		break;
	case PART_TIME:
		value = version.time_ns;
		break;
	case PART_IS_CARRIED:
		value = version.carried;
		break;
	case PART_IS_AGAIN:
		value = version.again;
		break;
	case PART_CARRIED:
		return result_carried(ctx, &version);
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

bool shfs_content_is_unchanged(const struct shfs_content *then,
                               const struct shfs_content *now)
{
	bool is_hashed = shfs_content_hashed_alike(then->flags, now->flags);
	bool is_whole = S_ISLNK(now->mode) || now->size <= SHFS_OBJECT_PARTIAL ||
	                now->flags & SHFS_CONTENT_WHOLE;

	return then->size == now->size && S_ISLNK(then->mode) == S_ISLNK(now->mode) &&
	       (!is_hashed ||
	        shfs_phash_kept(then->phash) == shfs_phash_kept(now->phash)) &&
	       (then->mtime_ns == now->mtime_ns || (is_hashed && is_whole));
}
