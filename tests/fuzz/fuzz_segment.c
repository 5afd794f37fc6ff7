/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a segment. As no fuzzer guesses checksums, an input that begins with 'B'
 * says how to build one: pieces of a type (1 byte), a length (2) and a payload, where the
 * type 255 is garbage between the frames.
 */
#include "tests/fuzz/fuzz.h"

#include "store/frame.h"
#include "store/journal.h"
#include "store/object.h"

#include <errno.h>
#include <string.h>

static void add_frame(struct shfs_buf *b, unsigned type, const uint8_t *payload,
                      size_t len)
{
	size_t start = b->len;

	shfs_buf_u32(b, SHFS_FRAME_MAGIC);
	shfs_buf_u32(b, (uint32_t)len);
	shfs_buf_u16(b, (uint16_t)type);
	shfs_buf_u16(b, 0);
	shfs_buf_u64(b, b->len);
	shfs_buf_u64(b, 1);
	shfs_buf_u64(b, 2);
	shfs_buf_add(b, payload, len);
	shfs_buf_u64(b, shfs_object_hash64(b->data + start, b->len - start));
}

static void add_producer(struct shfs_buf *b)
{
	_cleanup_buf_ struct shfs_buf payload = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PRODUCER,
		                   .producer = { .version = SHFS_RECORD_VERSION } };

	FUZZ_ASSERT(shfs_record_encode(&rec, &payload) == 0);
	add_frame(b, SHFS_REC_PRODUCER, (uint8_t *)payload.data, payload.len);
}

/* Returns how many frames there are that a reader must find. */
static size_t build(struct shfs_cursor *c, struct shfs_buf *b)
{
	size_t sound = 0;

	shfs_buf_add(b, SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN);
	add_producer(b);
	while (c->p < c->end) {
		unsigned type = shfs_cursor_u8(c);
		size_t len = shfs_cursor_u16(c);
		struct shfs_record rec = { .type = type };

		if (c->failed)
			break;
		len = MIN(len, (size_t)(c->end - c->p));
		if (type == 255) {
			shfs_buf_add(b, c->p, len);
		} else {
			add_frame(b, type, c->p, len);
			sound += shfs_record_decode(c->p, len, &rec) == 0;
		}
		c->p += len;
	}
	add_frame(b, SHFS_REC_END, NULL, 0);
	return sound + 2;
}

/* Returns how many records there are. */
static size_t read_all(const char *data, size_t len)
{
	struct shfs_segment *s;
	struct shfs_record rec;
	uint64_t last = 0;
	size_t n = 0;
	int r = shfs_segment_from_memory(data, len, &s);

	FUZZ_ASSERT(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT);
	if (r)
		return 0;
	fuzz_touch(shfs_segment_producer(s)->root);
	while ((r = shfs_segment_next(s, &rec)) == 1) {
		_cleanup_buf_ struct shfs_buf payload = { 0 };

		FUZZ_ASSERT(shfs_record_encode(&rec, &payload) == 0);
		FUZZ_ASSERT(shfs_segment_offset(s) > last);
		last = shfs_segment_offset(s);
		FUZZ_ASSERT(last <= len);
		n++;
	}
	FUZZ_ASSERT(r == 0);
	FUZZ_ASSERT(shfs_segment_damaged(s) < len);
	FUZZ_ASSERT(shfs_segment_next(s, &rec) == 0);
	shfs_segment_close(s);
	return n;
}

void fuzz_segment(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_cursor c = { data + 1, data + size, false };

	if (!size || data[0] != 'B') {
		read_all((const char *)data, size);
		return;
	}
	size_t sound = build(&c, &b);

	/* more, where the garbage is of another segment */
	FUZZ_ASSERT(read_all(b.data, b.len) >= sound);
}
