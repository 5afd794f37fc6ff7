/* SPDX-License-Identifier: MIT */
/* frames.h - frames of a segment, made by hand. */
#pragma once

#include "common/buf.h"
#include "store/journal/frame.h"
#include "store/objects/object.h"

static inline void add_frame(struct shfs_buf *b, const void *batch, size_t len)
{
	size_t start = b->len;

	shfs_buf_u32(b, SHFS_FRAME_MAGIC);
	shfs_buf_u32(b, (uint32_t)len);
	shfs_buf_add(b, batch, len);
	shfs_buf_u64(b, shfs_object_hash64(b->data + start, b->len - start));
}
