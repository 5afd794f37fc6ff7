/* SPDX-License-Identifier: MIT */
/* Lists in records (record.h): of extended attributes, and of names that were looked up.
 */
#include "common/record.h"

void shfs_xattr_add(struct shfs_buf *list, struct shfs_bytes name,
                    struct shfs_bytes value)
{
	shfs_buf_bytes(list, name.data, name.len);
	shfs_buf_bytes(list, value.data, value.len);
}

static bool next_bytes(struct shfs_cursor *c, struct shfs_bytes *out)
{
	size_t len = shfs_cursor_u32(c);

	if (c->failed || len > (size_t)(c->end - c->p))
		return false;
	*out = (struct shfs_bytes){ (const char *)c->p, len };
	c->p += len;
	return true;
}

bool shfs_xattr_next(struct shfs_cursor *list, struct shfs_bytes *name,
                     struct shfs_bytes *value)
{
	return list->p < list->end && next_bytes(list, name) && next_bytes(list, value);
}

/* --- names that were looked up --- */

static void add_bytes(struct shfs_buf *list, const char *data, size_t len)
{
	shfs_buf_reserve(list, SHFS_VARINT_MAX);
	shfs_put_varint(list, len);
	shfs_buf_add(list, data, len);
}

void shfs_lookup_add(struct shfs_buf *list, struct shfs_buf *last,
                     const struct shfs_lookup *lookup)
{
	size_t same = 0, max = MIN(last->len, lookup->path.len);

	while (same < max && last->data[same] == lookup->path.data[same])
		same++;
	shfs_buf_reserve(list, SHFS_VARINT_MAX);
	shfs_put_varint(list, (uint64_t)same << 3 | lookup->found);
	add_bytes(list, lookup->path.data + same, lookup->path.len - same);
	if (lookup->found == SHFS_FOUND_TEXT)
		add_bytes(list, lookup->text.data, lookup->text.len);
	last->len = same;
	shfs_buf_add(last, lookup->path.data + same, lookup->path.len - same);
	list->failed |= last->failed;
}

bool shfs_lookup_next(struct shfs_cursor *list, struct shfs_buf *last,
                      struct shfs_lookup *out)
{
	struct shfs_bytes rest;
	uint64_t head;

	if (list->failed || list->p == list->end)
		return false;
	head = shfs_get_varint(list);
	rest = shfs_get_bytes(list);
	*out = (struct shfs_lookup){ .found = head & 7 };
	if (out->found == SHFS_FOUND_TEXT)
		out->text = shfs_get_bytes(list);
	if (head >> 3 > last->len || (head >> 3) + rest.len > SHFS_RECORD_PATH_MAX)
		list->failed = true;
	if (list->failed)
		return false;
	last->len = head >> 3;
	shfs_buf_add(last, rest.data, rest.len);
	out->path = (struct shfs_bytes){ last->data, last->len };
	return !last->failed;
}
