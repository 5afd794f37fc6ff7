/* SPDX-License-Identifier: MIT */
#include "query/remote/contents.h"

#include "store/objects/inventory.h"
#include "store/objects/objects.h"
#include "store/objects/pack.h"

#include <errno.h>
#include <string.h>

#define MAGIC "shfscon\1"

void contents_free(struct contents *c)
{
	free(c->list);
	*c = (struct contents){ 0 };
}

static int compare_objects(const void *a, const void *b)
{
	return shfs_object_compare(&((const struct packed_object *)a)->id,
	                           &((const struct packed_object *)b)->id);
}

static int compare_frames(const void *a, const void *b)
{
	const struct packed_object *x = a, *y = b;

	return compare_objects(a, b) ?: (x->at > y->at) - (x->at < y->at);
}

/* --- of a pack --- */

struct listing {
	struct contents *contents;
	uint64_t end;
};

static int list_frame(void *arg, const struct frame *f, uint64_t offset)
{
	struct listing *l = arg;
	struct contents *c = l->contents;
	struct packed_object *o;
	uint64_t bytes = frame_head_bytes(f->kind) + f->stored;

	if (!offset || offset + bytes > MIN(l->end, (uint64_t)PACK_BYTES_MAX))
		return 0;
	if (!MAKE_ROOM(c->list, c->n, c->cap))
		return -ENOMEM;
	o = &c->list[c->n++];
	*o = (struct packed_object){ .id = f->id };
	o->at = (uint32_t)offset;
	o->bytes = (uint32_t)bytes;
	o->has_base = f->kind == FRAME_DELTA;
	if (o->has_base)
		o->base = f->base;
	return 0;
}

int contents_of_pack(int dirfd, const char *pack, uint64_t bytes, struct contents *out)
{
	_cleanup_contents_ struct contents c = { 0 };
	struct listing l = { &c, bytes };
	int r = inventory_pack(dirfd, pack, list_frame, &l);

	if (r == -EIO) /* what can be read is listed */
		r = 0;
	if (r)
		return r;
	if (c.n)
		qsort(c.list, c.n, sizeof(*c.list), compare_frames);
	*out = c;
	c = (struct contents){ 0 };
	return 0;
}

/* --- its bytes --- */

static void print_id(const struct shfs_object_id *id, struct shfs_buf *out)
{
	shfs_buf_add(out, id->hash, sizeof(id->hash));
	shfs_buf_u8(out, (uint8_t)id->nth);
}

void contents_print(const struct contents *c, struct shfs_buf *out)
{
	static const char none[5];

	shfs_buf_str(out, MAGIC);
	shfs_buf_u64(out, c->n);
	for (size_t i = 0; i < c->n; i++) {
		const struct packed_object *o = &c->list[i];

		print_id(&o->id, out);
		shfs_buf_u8(out, o->has_base);
		print_id(&o->base, out);
		shfs_buf_u32(out, o->at);
		shfs_buf_u32(out, o->bytes);
		shfs_buf_add(out, none, sizeof(none));
	}
}

static void parse_id(struct shfs_cursor *c, struct shfs_object_id *id)
{
	shfs_cursor_copy(c, id->hash, sizeof(id->hash));
	id->nth = shfs_cursor_u8(c);
}

int contents_parse(const void *data, size_t len, struct contents *out)
{
	_cleanup_contents_ struct contents c = { 0 };
	struct shfs_cursor in = { data, (const unsigned char *)data + len, false };
	char magic[sizeof(MAGIC) - 1], none[5];
	uint64_t n;

	shfs_cursor_copy(&in, magic, sizeof(magic));
	n = shfs_cursor_u64(&in);
	if (in.failed || memcmp(magic, MAGIC, sizeof(magic)) ||
	    n > len / CONTENTS_ENTRY_BYTES ||
	    len != sizeof(magic) + 8 + n * CONTENTS_ENTRY_BYTES)
		return -EBADMSG;
	c.list = calloc(n + 1, sizeof(*c.list));
	if (!c.list)
		return -ENOMEM;
	for (c.n = 0; c.n < n; c.n++) {
		struct packed_object *o = &c.list[c.n];

		parse_id(&in, &o->id);
		o->has_base = shfs_cursor_u8(&in);
		parse_id(&in, &o->base);
		o->at = shfs_cursor_u32(&in);
		o->bytes = shfs_cursor_u32(&in);
		shfs_cursor_copy(&in, none, sizeof(none));
		if (c.n && compare_objects(o - 1, o) > 0)
			return -EBADMSG;
	}
	*out = c;
	c = (struct contents){ 0 };
	return 0;
}

const struct packed_object *contents_find(const struct contents *c,
                                          const struct shfs_object_id *id)
{
	const struct packed_object key = { .id = *id };

	return c->n ? bsearch(&key, c->list, c->n, sizeof(key), compare_objects) : NULL;
}
