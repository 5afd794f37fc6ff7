/* SPDX-License-Identifier: MIT */
#include "common/buf.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

void shfs_closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

void shfs_buf_free(struct shfs_buf *b)
{
	free(b->data);
	*b = (struct shfs_buf){ 0 };
}

static bool reserve(struct shfs_buf *b, size_t more)
{
	size_t need, cap;
	char *data;

	if (b->failed || __builtin_add_overflow(b->len, more, &need) ||
	    need > SIZE_MAX / 4)
		goto fail;
	if (need + 1 <= b->cap)
		return true;
	cap = MAX(b->cap * 2, MAX(need + 1, (size_t)64));
	data = realloc(b->data, cap);
	if (!data)
		goto fail;
	b->data = data;
	b->cap = cap;
	return true;
fail:
	b->failed = true;
	return false;
}

void shfs_buf_reserve(struct shfs_buf *b, size_t more)
{
	reserve(b, more);
}

void shfs_buf_add(struct shfs_buf *b, const void *data, size_t len)
{
	if (!reserve(b, len))
		return;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void shfs_buf_str(struct shfs_buf *b, const char *s)
{
	shfs_buf_add(b, s, strlen(s));
}

void shfs_buf_char(struct shfs_buf *b, char c)
{
	shfs_buf_add(b, &c, 1);
}

void shfs_buf_int(struct shfs_buf *b, int64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);
	uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;

	do
		digits[--at] = '0' + left % 10;
	while (left /= 10);
	if (v < 0)
		digits[--at] = '-';
	shfs_buf_add(b, digits + at, sizeof(digits) - at);
}

#define PRINTF_ROOM 40 /* enough for most texts */

void shfs_buf_printf(struct shfs_buf *b, const char *fmt, ...)
{
	size_t room = reserve(b, PRINTF_ROOM) ? b->cap - b->len : 0;
	va_list ap;
	int n;

	if (!room)
		return;
	va_start(ap, fmt);
	n = vsnprintf(b->data + b->len, room, fmt, ap);
	va_end(ap);
	if (n < 0 || !reserve(b, n)) {
		b->data[b->len] = '\0';
		b->failed = true;
		return;
	}
	if ((size_t)n >= room) {
		va_start(ap, fmt);
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	b->len += n;
}

static void add_le(struct shfs_buf *b, uint64_t v, int n)
{
	unsigned char le[8];

	for (int i = 0; i < n; i++)
		le[i] = v >> (8 * i);
	shfs_buf_add(b, le, n);
}

void shfs_buf_u8(struct shfs_buf *b, uint8_t v)
{
	add_le(b, v, 1);
}

void shfs_buf_u32(struct shfs_buf *b, uint32_t v)
{
	add_le(b, v, 4);
}

void shfs_buf_u64(struct shfs_buf *b, uint64_t v)
{
	add_le(b, v, 8);
}

void shfs_buf_bytes(struct shfs_buf *b, const void *data, size_t len)
{
	if (len > UINT32_MAX) {
		b->failed = true;
		return;
	}
	shfs_buf_u32(b, len);
	shfs_buf_add(b, data, len);
}

void shfs_buf_set_path(struct shfs_buf *b, struct shfs_bytes root, struct shfs_bytes rel)
{
	bool is_absolute = rel.len && rel.data[0] == '/';
	const char *slash =
		is_absolute && root.len ? memchr(root.data, '/', root.len) : NULL;

	b->len = 0;
	/* of a root in another tree (store/trees.h), the name of that */
	shfs_buf_add(b, root.data, slash ? (size_t)(slash - root.data) : root.len);
	if (!is_absolute && rel.len && root.len && root.data[root.len - 1] != '/')
		shfs_buf_char(b, '/');
	shfs_buf_add(b, rel.data, rel.len);
}

char *shfs_buf_take(struct shfs_buf *b)
{
	char *data;

	shfs_buf_add(b, "", 0);
	data = b->failed ? NULL : TAKE_PTR(b->data);
	shfs_buf_free(b);
	return data;
}

static uint64_t cursor_le(struct shfs_cursor *c, size_t n)
{
	uint64_t v = 0;

	if (c->failed || (size_t)(c->end - c->p) < n) {
		c->failed = true;
		return 0;
	}
	memcpy(&v, c->p, n);
	c->p += n;
	return le64toh(v);
}

uint16_t shfs_cursor_u16(struct shfs_cursor *c)
{
	return cursor_le(c, 2);
}

uint32_t shfs_cursor_u32(struct shfs_cursor *c)
{
	return cursor_le(c, 4);
}

uint64_t shfs_cursor_u64(struct shfs_cursor *c)
{
	return cursor_le(c, 8);
}

void shfs_cursor_copy(struct shfs_cursor *c, void *out, size_t len)
{
	if (c->failed || (size_t)(c->end - c->p) < len) {
		c->failed = true;
		memset(out, 0, len);
		return;
	}
	memcpy(out, c->p, len);
	c->p += len;
}
