/* SPDX-License-Identifier: MIT */
#include "query/team/copy-line.h"

#include <stdlib.h>
#include <string.h>

/* --- COPY's own escapes --- */

static char plain_of(char escaped)
{
	static const char letters[] = "bfnrtv", plain[] = "\b\f\n\r\t\v";
	const char *at = escaped ? strchr(letters, escaped) : NULL;

	return at ? plain[at - letters] : escaped;
}

/* Ends the field that begins at *at with a NUL, and takes its escapes out of it. *at
 * becomes the begin of the next one; NULL: it was the last. */
static void read_field(char **at, char *end, struct shfs_mirror_value *out)
{
	char *from = *at, *to = *at;

	*out = (struct shfs_mirror_value){ .text = to };
	while (from < end && *from != '\t') {
		if (*from == '\\' && from + 1 < end) {
			out->is_null |= from == *at && from[1] == 'N';
			from++;
			*to++ = plain_of(*from++);
		} else {
			*to++ = *from++;
		}
	}
	*at = from < end ? from + 1 : NULL;
	*to = '\0';
	out->len = (size_t)(to - out->text);
}

/* --- the escapes of a text that is not UTF-8, and the digits of bytes --- */

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads two digits. -1: they are none. */
static int byte_of(const char *at, const char *end)
{
	int high = at + 1 < end ? digit(at[0]) : -1;
	int low = high >= 0 ? digit(at[1]) : -1;

	return low >= 0 ? high << 4 | low : -1;
}

/* Replaces "\xHH" and "\\". */
static bool read_escaped(struct shfs_mirror_value *v)
{
	char *to = (char *)v->text;
	const char *from = to, *end = to + v->len;

	while (from < end) {
		int byte = (unsigned char)*from++;

		if (byte == '\\' && from < end && *from == '\\') {
			from++;
		} else if (byte == '\\') {
			byte = from < end && *from == 'x' ? byte_of(from + 1, end) : -1;
			from += 3;
		}
		if (byte < 0)
			return false;
		*to++ = (char)byte;
	}
	v->len = (size_t)(to - v->text);
	return true;
}

/* Replaces "\x" and digits by the bytes. */
static bool read_bytes(struct shfs_mirror_value *v)
{
	char *to = (char *)v->text;
	const char *from = to, *end = to + v->len;

	if (v->len < 2 || memcmp(from, "\\x", 2) != 0 || v->len % 2)
		return false;
	for (from += 2; from < end; from += 2) {
		int byte = byte_of(from, end);

		if (byte < 0)
			return false;
		*to++ = (char)byte;
	}
	v->len = (size_t)(to - v->text);
	return true;
}

static bool read_number(struct shfs_mirror_value *v)
{
	char *end;

	v->n = strtoll(v->text, &end, 10);
	return v->len && !*end;
}

static bool read_value(struct shfs_mirror_value *v, char kind, bool escaped)
{
	if (v->is_null || kind == '-')
		return true;
	if (strchr("iIAV", kind))
		return read_number(v);
	if (strchr("bBs", kind))
		return read_bytes(v);
	return !escaped || read_escaped(v);
}

bool copy_line_read(struct shfs_buf *buf, const char *line, size_t len, const char *kinds,
                    struct shfs_mirror_value *values)
{
	struct shfs_mirror_value last;
	size_t n = strlen(kinds), i = 0;
	char *at;

	buf->len = 0;
	shfs_buf_add(buf, line, len);
	shfs_buf_u8(buf, 0);
	if (buf->failed || !len || line[len - 1] != '\n')
		return false;
	at = buf->data;
	for (; i <= n && at; i++)
		read_field(&at, buf->data + len - 1, i < n ? &values[i] : &last);
	if (at || i <= n || (!last.is_null && !read_number(&last)))
		return false;
	for (i = 0; i < n; i++)
		if (!read_value(&values[i], kinds[i], !last.is_null && last.n >> i & 1))
			return false;
	return true;
}
