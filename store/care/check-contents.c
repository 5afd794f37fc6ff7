/* SPDX-License-Identifier: MIT */
/*
 * Checks the contents of a pack's frames. Each frame is unpacked once, and while it is in
 * memory, all deltas of it and of these. So few contents are in memory, however far apart
 * the versions of a file lie in the pack.
 */
#include "store/care/check-objects.h"

#include "common/io.h"
#include "store/objects/collect.h"
#include "store/objects/object-internal.h"

#include <errno.h>
#include <string.h>

#define HELD_MAX    (8u << 20) /* bytes of waiting contents; more are read again */
#define LARGE_BYTES (8u << 20) /* only one thread at a time has a larger content */

/* A content, and the deltas of it that are not read yet. */
struct level {
	struct shfs_object_id id;
	char *data; /* NULL: it must be read again */
	size_t len;
	size_t next, end; /* its deltas that are left, in by_base */
};

struct contents {
	struct walk *w;
	uint32_t *by_base; /* all deltas, sorted by base, then by offset */
	size_t n;
	struct level *levels;
	size_t depth, cap;
	size_t held;         /* bytes of their data */
	bool large;          /* scan->large is locked */
	struct solid *solid; /* the solid frame that was read last; or NULL */
	uint32_t solid_offset;
};

/* --- deltas and their bases --- */

static int compare_bases(const void *a, const void *b, void *arg)
{
	const struct found *list = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return shfs_object_compare(&list[x].base, &list[y].base) ?: (x > y) - (x < y);
}

static int sort_deltas(struct contents *c)
{
	const struct found_list *l = &c->w->frames;

	c->by_base = malloc((l->n + 1) * sizeof(*c->by_base));
	if (!c->by_base)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		if (l->list[i].delta)
			c->by_base[c->n++] = (uint32_t)i;
	qsort_r(c->by_base, c->n, sizeof(*c->by_base), compare_bases, l->list);
	return 0;
}

static struct found *delta_at(const struct contents *c, size_t i)
{
	return &c->w->frames.list[c->by_base[i]];
}

/* Finds the deltas of a content: from *from to *to in by_base. */
static void deltas_of(const struct contents *c, const struct shfs_object_id *id,
                      size_t *from, size_t *to)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (shfs_object_compare(&delta_at(c, middle)->base, id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*from = *to = low;
	while (*to < c->n && !shfs_object_compare(&delta_at(c, *to)->base, id))
		++*to;
}

/* --- levels --- */

static void take_large(struct contents *c)
{
	if (!c->large)
		pthread_mutex_lock(&c->w->rd->scan->large);
	c->large = true;
}

static void give_large(struct contents *c)
{
	if (c->large)
		pthread_mutex_unlock(&c->w->rd->scan->large);
	c->large = false;
}

static void forget_data(struct contents *c, struct level *l)
{
	if (l->data)
		c->held -= l->len;
	free(TAKE_PTR(l->data));
}

static void keep_data(struct contents *c, struct level *l, char *data, size_t len)
{
	l->data = data;
	l->len = len;
	c->held += len;
}

/* Frees data of levels but the last: of the first ones first, as they wait longest. */
static void hold_less(struct contents *c)
{
	for (size_t i = 0;
	     i + 1 < c->depth && c->held > HELD_MAX + c->levels[c->depth - 1].len; i++)
		forget_data(c, &c->levels[i]);
}

/* Pushes a level; takes ownership of data. */
static int push_level(struct contents *c, const struct shfs_object_id *id, char *data,
                      size_t len)
{
	struct level l = { .id = *id };

	deltas_of(c, id, &l.next, &l.end);
	while (l.next < l.end && delta_at(c, l.next)->read)
		l.next++;
	if (l.next == l.end) {
		free(data);
		return 0;
	}
	if (!MAKE_ROOM(c->levels, c->depth, c->cap)) {
		free(data);
		return -ENOMEM;
	}
	keep_data(c, &l, data, len);
	c->levels[c->depth++] = l;
	hold_less(c);
	return 0;
}

static void pop_level(struct contents *c)
{
	forget_data(c, &c->levels[--c->depth]);
}

/* --- frames --- */

/* Reads a base by its name, wherever it is. */
static int read_base(struct contents *c, const struct shfs_object_id *id, char **data,
                     size_t *len)
{
	struct shfs_store *store = c->w->rd->scan->run->store;
	struct content read = { 0 };
	int r = content_read(store, id, c->large ? DELTA_LEN_MAX : LARGE_BYTES, &read);

	if (r == -EFBIG && !c->large) {
		take_large(c);
		r = content_read(store, id, DELTA_LEN_MAX, &read);
	}
	*data = read.data;
	*len = read.len;
	return r == -EBADMSG || r == -EFBIG || r == -EIO ? -ENOENT : r;
}

/* Hashes a frame that is too large for memory; it has no base. */
static int stream_frame(const struct frame *f, unsigned char *bytes, uint8_t hash[16])
{
	struct object_hash *h = object_hash_new();
	int r = h ? codec_each_piece(bytes + FRAME_HEAD_BYTES, f->stored, f->size,
	                             check_hash_piece, h)
	          : -ENOMEM;

	object_hash_end(h, hash);
	return r;
}

/* Returns where the frame ends at the latest. */
static uint64_t end_of_frame(const struct walk *w, const struct found *f)
{
	const struct found *end = w->frames.list + w->frames.n;
	const struct found *next = f + 1;

	while (next < end && next->offset == f->offset) /* of the same solid frame */
		next++;
	return next < end ? next->offset : w->size;
}

/* Gets the head and the stored bytes of a frame. -ENOENT: it is not there any more; -EIO:
 * it cannot be read; frame->stored is set. */
static int get_frame(struct walk *w, const struct found *f, struct frame *frame,
                     unsigned char **bytes)
{
	size_t len = (size_t)MIN(end_of_frame(w, f) - f->offset, (uint64_t)FRAME_MAX);
	ssize_t n;

	if (f->delta) {
		*bytes = w->rd->frame;
		n = shfs_pread_full(w->fd, *bytes, len, (off_t)f->offset);
	} else {
		n = check_get(w, f->offset, len, bytes);
	}
	if (n < 0) {
		frame->kind = f->delta ? FRAME_DELTA : FRAME_ZSTD;
		frame->stored = (uint32_t)(len - frame_head_bytes(frame->kind));
		return (int)n;
	}
	if (n < FRAME_HEAD_BYTES || frame_parse(*bytes, (size_t)n, frame) ||
	    frame_head_bytes(frame->kind) + frame->stored > (size_t)n)
		return -ENOENT;
	return 0;
}

/* Unpacks a frame and checks its hash. -EBADMSG: it is not the content of its name. *out
 * is NULL if it has no deltas. */
static int unpack_checked_frame(struct contents *c, const struct frame *f,
                                unsigned char *bytes, const struct level *base,
                                char **out)
{
	uint8_t hash[16];
	int r;

	*out = NULL;
	if (f->kind == FRAME_ZSTD && f->size > DELTA_LEN_MAX) {
		r = stream_frame(f, bytes, hash);
	} else {
		if (f->size > DELTA_LEN_MAX)
			return -EBADMSG;
		if (f->size > LARGE_BYTES)
			take_large(c);
		r = content_decode(c->w->rd->scan->run->store, f,
		                   bytes + frame_head_bytes(f->kind),
		                   base ? base->data : NULL, base ? base->len : 0, out);
		if (!r)
			shfs_object_hash(*out, f->size, hash);
	}
	if (!r && memcmp(hash, f->id.hash, sizeof(hash)))
		r = -EBADMSG;
	if (r)
		free(TAKE_PTR(*out));
	return r;
}

/* Gets a content of a solid frame: *frame is set also if that cannot be unpacked. */
static int unpack_member(struct contents *c, const struct found *f, struct frame *frame,
                         char **out)
{
	struct walk *w = c->w;
	unsigned char *bytes, *copy;
	uint8_t hash[16];
	int r = 0;

	if (!c->solid || c->solid_offset != f->offset) {
		solid_unref(TAKE_PTR(c->solid));
		r = get_frame(w, f, frame, &bytes);
		if (r)
			return r;
		/* it was intact when the pack was walked */
		if (frame->kind != FRAME_SOLID ||
		    !frame_is_intact(bytes, frame_bytes(frame)))
			return -ENOENT;
		copy = malloc(frame_bytes(frame));
		if (copy)
			memcpy(copy, bytes, frame_bytes(frame));
		c->solid = copy ? solid_new(copy, frame_bytes(frame)) : NULL;
		if (!c->solid) {
			free(copy);
			return -ENOMEM;
		}
		c->solid_offset = f->offset;
	}
	if (f->member >= solid_count(c->solid))
		return -ENOENT;
	*frame = solid_member(c->solid, f->member);
	r = solid_content(c->solid, w->rd->scan->run->store->codecs, frame, out);
	if (r)
		return r;
	shfs_object_hash(*out, frame->size, hash);
	if (!memcmp(hash, frame->id.hash, sizeof(hash)))
		return 0;
	free(TAKE_PTR(*out));
	return -EBADMSG;
}

/* Reads a frame, and pushes a level for its deltas. */
static int read_checked_frame(struct contents *c, struct found *f)
{
	const struct level *base = c->depth ? &c->levels[c->depth - 1] : NULL;
	struct walk *w = c->w;
	struct frame frame = { 0 };
	unsigned char *bytes;
	char *data = NULL;
	int r = f->solid ? unpack_member(c, f, &frame, &data)
	                 : get_frame(w, f, &frame, &bytes);

	f->read = true;
	if (!r && !f->solid)
		r = unpack_checked_frame(c, &frame, bytes, f->delta ? base : NULL, &data);
	if (r == -EBADMSG || r == -EIO) {
		f->state = LOST;
		w->flawed = true;
		/* a frame that cannot be read now may be good when the pack is written
		 * anew */
		check_unit_flaw(
			w->rd->scan, w->unit,
			r == -EIO ? SHFS_FLAW_FRAME : SHFS_FLAW_CONTENT, f->offset,
			frame_head_bytes(frame.kind) + frame.stored, &f->id, "%s",
			r == -EIO ? "it cannot be read"
				  : "the stored bytes are not the content of its name");
	}
	if (r)
		return r == -EBADMSG || r == -EIO || r == -ENOENT ? 0 : r;
	w->content_bytes += frame.size;
	/* what is behind it is its own */
	if (f->delta && base->next == base->end)
		pop_level(c);
	return data ? push_level(c, &f->id, data, frame.size) : 0;
}

/* Skips deltas whose base cannot be read, so that they cannot be, either; check.c reports
 * them. */
static void pass_over(struct contents *c, size_t from, size_t to)
{
	while (from < to)
		delta_at(c, from++)->read = true;
}

/* Reads the next delta of the content on top. */
static int read_next_delta(struct contents *c)
{
	struct level *l = &c->levels[c->depth - 1];
	char *data;
	size_t len;
	int r = 0;

	while (l->next < l->end && delta_at(c, l->next)->read)
		l->next++;
	if (l->next < l->end && !l->data) {
		r = read_base(c, &l->id, &data, &len);
		if (!r)
			keep_data(c, l, data, len);
		if (r == -ENOENT)
			pass_over(c, l->next, l->end);
	}
	if (r == -ENOENT || l->next == l->end) {
		pop_level(c);
		return 0;
	}
	return r ? r : read_checked_frame(c, delta_at(c, l->next++));
}

/* Reads the base of a delta that is not in this pack, or damaged in it. */
static int read_base_of(struct contents *c, const struct found *f)
{
	char *data;
	size_t len, from, to;
	int r = read_base(c, &f->base, &data, &len);

	if (!r)
		return push_level(c, &f->base, data, len);
	if (r != -ENOENT)
		return r;
	deltas_of(c, &f->base, &from, &to);
	pass_over(c, from, to);
	return 0;
}

int check_contents(struct walk *w)
{
	struct contents c = { .w = w };
	int r = sort_deltas(&c);

	for (size_t i = 0; i < w->frames.n && !r; i++) {
		struct found *f = &w->frames.list[i];

		if (f->read)
			continue;
		r = f->delta ? read_base_of(&c, f) : read_checked_frame(&c, f);
		while (!r && c.depth)
			r = read_next_delta(&c);
		give_large(&c);
	}
	while (c.depth)
		pop_level(&c);
	solid_unref(c.solid);
	free(c.levels);
	free(c.by_base);
	return r;
}
