/* SPDX-License-Identifier: MIT */
#include "store/objects/solid.h"

#include "store/objects/objects.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* --- writing --- */

static size_t head_bytes(size_t n)
{
	return FRAME_HEAD_BYTES + n * FRAME_MEMBER_BYTES;
}

static size_t joined_bytes(const struct solid_piece *pieces, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += pieces[i].len;
	return len;
}

int solid_compress(struct codecs *codecs, const struct solid_piece *pieces, size_t n,
                   int level, struct coded *out)
{
	size_t len = joined_bytes(pieces, n), table = n * FRAME_MEMBER_BYTES, at = 0;
	_cleanup_free_ char *joined = NULL;

	shfs_assert(n && n <= SOLID_CONTENTS_MAX && len <= SOLID_BYTES_MAX);
	if (table >= len)
		return 1;
	joined = malloc(len);
	if (!joined)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		memcpy(joined + at, pieces[i].data, pieces[i].len);
		at += pieces[i].len;
	}
	return codec_compress(codecs, joined, len, level, NULL, 0, head_bytes(n),
	                      MIN(len, (size_t)FRAME_STORED_MAX) - table, out);
}

void solid_seal(struct coded *coded, const struct solid_piece *pieces, size_t n)
{
	struct frame f = { .kind = FRAME_SOLID,
		           .n_members = (uint32_t)n,
		           .size = joined_bytes(pieces, n) };

	shfs_assert(coded->head == head_bytes(n));
	f.stored = (uint32_t)(n * FRAME_MEMBER_BYTES + coded->len);
	for (size_t i = 0; i < n; i++)
		frame_put_member(coded->bytes, (unsigned)i, &pieces[i].id,
		                 (uint32_t)pieces[i].len);
	frame_seal(&f, coded->bytes);
}

/* --- reading --- */

struct solid {
	atomic_uint refs;
	struct frame frame;
	unsigned char *bytes; /* head and members; the rest goes once it is unpacked */
	pthread_mutex_t lock; /* guards what follows, and the rest of bytes */
	char *joined;         /* all contents; NULL: not unpacked yet */
	bool bad;             /* it cannot be unpacked */
};

struct solid *solid_new(unsigned char *bytes, size_t len)
{
	struct solid *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (frame_parse(bytes, len, &s->frame) || s->frame.kind != FRAME_SOLID) {
		free(s);
		return NULL;
	}
	atomic_init(&s->refs, 1);
	pthread_mutex_init(&s->lock, NULL);
	s->bytes = bytes;
	return s;
}

struct solid *solid_ref(struct solid *s)
{
	atomic_fetch_add(&s->refs, 1);
	return s;
}

void solid_unref(struct solid *s)
{
	if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s->joined);
	free(s->bytes);
	free(s);
}

size_t solid_frame_bytes(const struct solid *s)
{
	return FRAME_HEAD_BYTES + s->frame.stored;
}

size_t solid_memory(const struct solid *s)
{
	return sizeof(*s) + solid_frame_bytes(s) + s->frame.size;
}

unsigned solid_count(const struct solid *s)
{
	return s->frame.n_members;
}

struct frame solid_member(const struct solid *s, unsigned member)
{
	struct frame f = s->frame;

	for (unsigned i = 0; i <= member; i++)
		frame_next_member(s->bytes, i, &f);
	return f;
}

int solid_find(const struct solid *s, const struct shfs_object_id *id, struct frame *out)
{
	struct frame f = s->frame;

	for (unsigned i = 0; i < s->frame.n_members; i++) {
		frame_next_member(s->bytes, i, &f);
		if (!shfs_object_equal(&f.id, id))
			continue;
		*out = f;
		return 0;
	}
	return -ENOENT;
}

/* Lock held. */
static int unpack_solid(struct solid *s, struct codecs *codecs)
{
	size_t head = head_bytes(s->frame.n_members);
	char *joined = malloc(s->frame.size + 1);
	unsigned char *rest;
	int r;

	if (!joined)
		return -ENOMEM;
	/* the bytes before the stored ones, which the codec needs, are the last member's
	 */
	rest = malloc(CODEC_MAGIC_BYTES + s->frame.stored);
	if (!rest) {
		free(joined);
		return -ENOMEM;
	}
	memcpy(rest + CODEC_MAGIC_BYTES, s->bytes + head,
	       FRAME_HEAD_BYTES + s->frame.stored - head);
	r = codec_decompress(codecs, rest + CODEC_MAGIC_BYTES,
	                     FRAME_HEAD_BYTES + s->frame.stored - head, NULL, 0, joined,
	                     s->frame.size);
	free(rest);
	if (r) {
		free(joined);
		return r;
	}
	s->joined = joined;
	rest = realloc(s->bytes, head);
	if (rest)
		s->bytes = rest;
	return 0;
}

int solid_content(struct solid *s, struct codecs *codecs, const struct frame *f,
                  char **out)
{
	int r = 0;
	char *data = NULL;

	shfs_assert(f->at + f->size <= s->frame.size);
	pthread_mutex_lock(&s->lock);
	if (!s->joined)
		r = s->bad ? -EBADMSG : unpack_solid(s, codecs);
	s->bad = r == -EBADMSG;
	if (!r && !(data = malloc(f->size + 1)))
		r = -ENOMEM;
	if (!r) {
		memcpy(data, s->joined + f->at, f->size);
		data[f->size] = '\0';
	}
	pthread_mutex_unlock(&s->lock);
	if (!r)
		*out = data;
	return r;
}
