/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a segment. As no fuzzer guesses checksums, an input that begins with 'B'
 * says how to build one: pieces of a type (1 byte), a length (2) and a batch, where the
 * type 255 is garbage between the frames.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/frames.h"

#include "store/journal/journal.h"
#include "store/objects/object.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static void add_record(struct shfs_buf *b, const struct shfs_record *rec)
{
	struct shfs_record_context context = { 0 };
	_cleanup_buf_ struct shfs_buf batch = { 0 };

	FUZZ_ASSERT(shfs_record_pack(&context, rec, &batch) == 0);
	shfs_record_context_free(&context);
	add_frame(b, batch.data, batch.len);
}

/* How many records a reader must find. */
static size_t sound_in_batch(const uint8_t *batch, size_t len)
{
	struct shfs_record_context context = { 0 };
	struct shfs_cursor c = { batch, batch + len, false };
	struct shfs_record rec;
	size_t n = 0;
	int r = 0;

	while (c.p < c.end && r != -EBADMSG) {
		r = shfs_record_unpack(&context, &c, &rec);
		n += !r;
	}
	shfs_record_context_free(&context);
	return n;
}

/* Returns how many records there are that a reader must find. */
static size_t build(struct shfs_cursor *c, struct shfs_buf *b)
{
	struct shfs_record producer = { .type = SHFS_REC_PRODUCER,
		                        .producer = { .version = SHFS_RECORD_VERSION } };
	struct shfs_record end = { .type = SHFS_REC_END };
	size_t sound = 0;

	shfs_buf_add(b, SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN);
	add_record(b, &producer);
	while (c->p < c->end) {
		unsigned type = shfs_cursor_u8(c);
		size_t len = shfs_cursor_u16(c);

		if (c->failed)
			break;
		len = MIN(len, (size_t)(c->end - c->p));
		if (type == 255) {
			shfs_buf_add(b, c->p, len);
		} else {
			add_frame(b, c->p, len);
			sound += sound_in_batch(c->p, len);
		}
		c->p += len;
	}
	add_record(b, &end);
	return sound + 2;
}

/* Returns how many records there are. */
static size_t read_all(const char *data, size_t len)
{
	struct shfs_record_context context = { 0 };
	_cleanup_buf_ struct shfs_buf batch = { 0 };
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
		batch.len = 0;
		shfs_record_context_reset(&context);
		FUZZ_ASSERT(shfs_record_pack(&context, &rec, &batch) == 0);
		FUZZ_ASSERT(shfs_segment_offset(s) > last);
		last = shfs_segment_offset(s);
		FUZZ_ASSERT(last <= len);
		n++;
	}
	FUZZ_ASSERT(r == 0);
	FUZZ_ASSERT(shfs_segment_damaged(s) < len);
	FUZZ_ASSERT(shfs_segment_next(s, &rec) == 0);
	shfs_segment_close(s);
	shfs_record_context_free(&context);
	return n;
}

void fuzz_build_segment(const uint8_t *data, size_t size, struct shfs_buf *out)
{
	struct shfs_cursor c = { data + MIN(size, (size_t)1), data + size, false };

	build(&c, out);
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
