/* SPDX-License-Identifier: MIT */
/*
 * Strings that repeat: programs, arguments, directories, markers. Each is stored once,
 * found by its hash. Arguments of one program are similar, so a long string is packed by
 * zstd with a base: a string with the same begin, which is not packed itself.
 */
#include "store/index/internal.h"

#include "store/objects/codec.h"

#include <errno.h>
#include <string.h>

#define PACK_MIN  48 /* bytes; below that zstd has no room to save anything */
#define BASE_MAX  4000
#define LEVEL     3
#define KEY_BYTES 4 /* at the begin; equal in a string and its base */

/* Returns the 32 bits of the hash that the table has. */
static int64_t column_of(uint64_t hash)
{
	return (int32_t)hash;
}

/* --- packed --- */

/* Packs a string: its length, then its zstd frame. 1: it stays as it is. */
static int pack_string(struct shfs_index *index, struct shfs_bytes value,
                       const struct shfs_string_base *base, struct shfs_buf *out)
{
	_cleanup_coded_ struct coded coded = { 0 };
	uint8_t head[10];
	size_t max = value.len / 3 * 2;
	int r = codec_compress(index->codecs, value.data, value.len, LEVEL,
	                       base->value.data, base->value.len, CODEC_MAGIC_BYTES, max,
	                       &coded);

	if (r)
		return r;
	shfs_buf_add(out, head, shfs_varint_put(head, value.len) - head);
	shfs_buf_add(out, coded.bytes + CODEC_MAGIC_BYTES, coded.len);
	return out->failed ? -ENOMEM : 0;
}

int shfs_string_unpack(struct codecs *codecs, struct shfs_bytes packed,
                       struct shfs_bytes base, struct shfs_buf *out)
{
	struct shfs_cursor c = { (const uint8_t *)packed.data,
		                 (const uint8_t *)packed.data + packed.len };
	uint64_t size = shfs_varint_get(&c);
	_cleanup_free_ unsigned char *stored = NULL;
	size_t len = c.end - c.p;
	int r;

	if (c.failed || !len || size > INT32_MAX)
		return -EBADMSG;
	out->len = 0;
	shfs_buf_reserve(out, size + 1);
	stored = malloc(CODEC_MAGIC_BYTES + len);
	if (out->failed || !stored)
		return -ENOMEM;
	memcpy(stored + CODEC_MAGIC_BYTES, c.p, len);
	r = codec_decompress(codecs, stored + CODEC_MAGIC_BYTES, len, base.data, base.len,
	                     out->data, size);
	if (!r)
		out->len = size;
	return r;
}

/* --- bases of long strings --- */

static int base_load(struct shfs_ingest *ing, struct shfs_string_base *base)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(ing->index, &stmt,
	                     "SELECT s.string_id, s.value FROM string_base b"
	                     " JOIN string s USING (string_id) WHERE b.key = ?",
	                     shfs_arg_int(base->key));

	base->value.len = 0;
	base->string_id = 0;
	if (r > 0) {
		base->string_id = sqlite3_column_int64(stmt, 0);
		shfs_buf_add(&base->value, sqlite3_column_blob(stmt, 1),
		             sqlite3_column_bytes(stmt, 1));
	}
	return r < 0 ? r : base->value.failed ? -ENOMEM : 0;
}

/* Gets the base of strings that begin like this one; its string_id is 0 if there is none.
 */
static int base_get(struct shfs_ingest *ing, struct shfs_bytes value,
                    struct shfs_string_base **out)
{
	struct shfs_string_base *base;
	uint32_t key;

	memcpy(&key, value.data, KEY_BYTES);
	base = &ing->bases[(key * 0x9e3779b1u) >> 16 & (ARRAY_SIZE(ing->bases) - 1)];
	*out = base;
	if (base->string_id && base->key == key)
		return 0;
	base->key = key;
	return base_load(ing, base);
}

static int base_set(struct shfs_ingest *ing, struct shfs_string_base *base,
                    int64_t string_id, struct shfs_bytes value)
{
	base->string_id = string_id;
	base->value.len = 0;
	shfs_buf_add(&base->value, value.data, value.len);
	if (base->value.failed)
		return -ENOMEM;
	return shfs_sql_run(ing->index,
	                    "INSERT INTO string_base (key, string_id) VALUES (?, ?)"
	                    " ON CONFLICT DO UPDATE SET string_id = excluded.string_id",
	                    shfs_arg_int(base->key), shfs_arg_int(string_id));
}

/* --- the table --- */

static int insert_string(struct shfs_index *index, int64_t hash, int64_t base_id,
                         struct shfs_bytes value, int64_t *out)
{
	int r = shfs_sql_run(index,
	                     "INSERT INTO string (hash, base_id, value) VALUES (?, ?, ?)",
	                     shfs_arg_int(hash), shfs_arg_id(base_id),
	                     shfs_arg_blob(value));

	*out = sqlite3_last_insert_rowid(index->db);
	return r;
}

/* Adds a long string. If the base does not make it smaller, it becomes the next base. */
static int add_long(struct shfs_ingest *ing, struct shfs_bytes value, int64_t hash,
                    int64_t *out)
{
	_cleanup_buf_ struct shfs_buf packed = { 0 };
	struct shfs_string_base *base;
	int r = base_get(ing, value, &base);

	if (r)
		return r;
	r = base->string_id ? pack_string(ing->index, value, base, &packed) : 1;
	if (!r)
		return insert_string(ing->index, hash, base->string_id,
		                     (struct shfs_bytes){ packed.data, packed.len }, out);
	if (r > 0)
		r = insert_string(ing->index, hash, 0, value, out);
	return r || value.len > BASE_MAX ? r : base_set(ing, base, *out, value);
}

/* Has this row the string `value`? */
static int is_string_of_row(struct shfs_index *index, sqlite3_stmt *stmt,
                            struct shfs_bytes value)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_bytes stored = { sqlite3_column_blob(stmt, 1),
		                     sqlite3_column_bytes(stmt, 1) };
	struct shfs_bytes base = { sqlite3_column_blob(stmt, 2),
		                   sqlite3_column_bytes(stmt, 2) };
	int r;

	if (sqlite3_column_type(stmt, 2) != SQLITE_NULL) {
		r = shfs_string_unpack(index->codecs, stored, base, &text);
		if (r)
			return r == -EBADMSG ? 0 : r;
		stored = (struct shfs_bytes){ text.data, text.len };
	}
	return stored.len == value.len &&
	       (!value.len || !memcmp(stored.data, value.data, value.len));
}

static int find_string(struct shfs_index *index, struct shfs_bytes value, int64_t hash,
                       int64_t *out)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get(index, &stmt,
	                     "SELECT s.string_id, s.value, b.value FROM string s"
	                     " LEFT JOIN string b ON b.string_id = s.base_id"
	                     " WHERE s.hash = ?",
	                     shfs_arg_int(hash));

	for (; r > 0; r = shfs_sql_next(index, stmt)) {
		r = is_string_of_row(index, stmt, value);
		if (!r)
			continue;
		*out = sqlite3_column_int64(stmt, 0);
		return r;
	}
	return r;
}

/* Most strings are short, and needed again and again: these are cached. */
int shfs_string_id(struct shfs_ingest *ing, struct shfs_bytes value, int64_t *out)
{
	uint64_t hash = shfs_object_hash64(value.len ? value.data : "", value.len);
	struct shfs_string *kept = &ing->strings[hash % ARRAY_SIZE(ing->strings)];
	int r;

	if (kept->id && kept->len == value.len &&
	    !memcmp(kept->value, value.data, value.len)) {
		*out = kept->id;
		return 0;
	}
	r = find_string(ing->index, value, column_of(hash), out);
	if (!r)
		r = value.len < PACK_MIN
		            ? insert_string(ing->index, column_of(hash), 0, value, out)
		            : add_long(ing, value, column_of(hash), out);
	if (r < 0 || !value.len || value.len > sizeof(kept->value))
		return MIN(r, 0);
	kept->id = *out;
	kept->len = value.len;
	memcpy(kept->value, value.data, value.len);
	return 0;
}

void shfs_strings_forget(struct shfs_ingest *ing)
{
	memset(ing->strings, 0, sizeof(ing->strings));
	for (size_t i = 0; i < ARRAY_SIZE(ing->bases); i++) {
		shfs_buf_free(&ing->bases[i].value);
		ing->bases[i] = (struct shfs_string_base){ 0 };
	}
}
