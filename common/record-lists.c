/* SPDX-License-Identifier: MIT */
/* Lists of extended attributes in records (record.h). */
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
