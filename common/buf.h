/* SPDX-License-Identifier: MIT */
/*
 * buf.h - a growing byte buffer, and a bounded cursor to read one back.
 *
 * A struct shfs_buf starts as {0} and owns data, which shfs_buf_free frees. An append
 * without memory sets failed, and later appends change nothing, so a chain of appends is
 * checked once, at its end. Not thread-safe; each buffer belongs to one thread at a time.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

struct shfs_buf {
	char *data; /* NUL-terminated behind len when non-NULL */
	size_t len; /* bytes */
	size_t cap; /* bytes allocated */
	bool failed;
};

void shfs_buf_free(struct shfs_buf *b);
#define _cleanup_buf_ _cleanup_(shfs_buf_free)

/* Makes room for so many more bytes. */
void shfs_buf_reserve(struct shfs_buf *b, size_t more);

void shfs_buf_add(struct shfs_buf *b, const void *data, size_t len);
void shfs_buf_str(struct shfs_buf *b, const char *s);
void shfs_buf_char(struct shfs_buf *b, char c);
void shfs_buf_int(struct shfs_buf *b, int64_t v); /* decimal */
void shfs_buf_printf(struct shfs_buf *b, const char *fmt, ...) _printf_(2, 3);

/* Little-endian, whatever the machine. */
void shfs_buf_u8(struct shfs_buf *b, uint8_t v);
void shfs_buf_u32(struct shfs_buf *b, uint32_t v);
void shfs_buf_u64(struct shfs_buf *b, uint64_t v);
/* Appends a u32 length and the bytes. */
void shfs_buf_bytes(struct shfs_buf *b, const void *data, size_t len);

/* Takes the string out of the buffer, which is then empty. NULL if an append failed. */
char *shfs_buf_take(struct shfs_buf *b);

/* Borrowed bytes; not NUL-terminated unless stated. */
struct shfs_bytes {
	const char *data;
	size_t len;
};

/* Replaces what is in the buffer by the path of rel below root; rel "": of root; an
 * absolute rel: by that, in the tree of root. */
void shfs_buf_set_path(struct shfs_buf *b, struct shfs_bytes root, struct shfs_bytes rel);

/* Reads untrusted bytes. Past the end, failed is set and zeros are returned. */
struct shfs_cursor {
	const unsigned char *p, *end;
	bool failed;
};

static inline uint8_t shfs_cursor_u8(struct shfs_cursor *c)
{
	if (!c->failed && c->p < c->end)
		return *c->p++;
	c->failed = true;
	return 0;
}
uint16_t shfs_cursor_u16(struct shfs_cursor *c);
uint32_t shfs_cursor_u32(struct shfs_cursor *c);
uint64_t shfs_cursor_u64(struct shfs_cursor *c);
void shfs_cursor_copy(struct shfs_cursor *c, void *out, size_t len);

/* --- unsigned numbers of 1 to 10 bytes: seven bits in each, the lowest first; the top
 * bit is set if a further byte follows (LEB128) --- */

#define SHFS_VARINT_MAX 10 /* bytes */

/* Appends a number; the buffer has room for it. */
static inline void shfs_put_varint(struct shfs_buf *b, uint64_t v)
{
	if (b->failed) /* the buffer may have no room */
		return;
	for (; v >= 0x80; v >>= 7)
		b->data[b->len++] = (char)(v | 0x80);
	b->data[b->len++] = (char)v;
}

static inline uint64_t shfs_get_varint(struct shfs_cursor *c)
{
	uint64_t v = 0;

	for (int shift = 0; shift < 64 && c->p < c->end; shift += 7) {
		unsigned char byte = *c->p++;

		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return v;
	}
	c->failed = true;
	return 0;
}

/* Takes a length, as such a number, and so many bytes; borrowed. */
static inline struct shfs_bytes shfs_get_bytes(struct shfs_cursor *c)
{
	uint64_t len = shfs_get_varint(c);
	struct shfs_bytes bytes = { (const char *)c->p, len };

	if (c->failed || len > (size_t)(c->end - c->p)) {
		c->failed = true;
		return (struct shfs_bytes){ "", 0 };
	}
	c->p += len;
	return bytes;
}
