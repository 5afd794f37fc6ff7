/* SPDX-License-Identifier: MIT */
#include "common/quote.h"

#include <string.h>
#include <wchar.h>

/* Decodes one UTF-8 sequence (RFC 3629: no surrogates, no overlong forms). Returns its
 * length, or 0 if it is not valid. */
static size_t decode(const char *s, size_t len, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	uint32_t c = p[0];
	size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

	if (n > len || (c >= 0x80 && c < 0xc2) || c > 0xf4)
		return 0;
	if (n > 1)
		c &= 0x7f >> n;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*code = c;
	return n;
}

/* Would the character change how other text is shown, or is it invisible? C0, DEL, C1,
 * line separators, bidi controls, and invisible ones that disguise names. */
static bool is_disguising(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

static void escape_code(struct shfs_buf *out, uint32_t c)
{
	static const char letters[] = "abtnvfr"; /* from 7 on */

	if (c >= 7 && c <= 13)
		shfs_buf_printf(out, "\\%c", letters[c - 7]);
	else if (c == 0x1b)
		shfs_buf_str(out, "\\e");
	else if (c < 0x80)
		shfs_buf_printf(out, "\\x%02x", c);
	else
		shfs_buf_printf(out, "\\u{%x}", c);
}

/* Is this ASCII that needs no escape? */
static bool is_plain_byte(char c)
{
	return (c >= ' ') & (c < 0x7f) & (c != '"') & (c != '\\');
}

/* The compiler vectorises this loop if it is not unrolled by hand. */
size_t shfs_quote_plain(const char *s, size_t len)
{
	enum { BLOCK = 16 };
	size_t n = 0;

	for (; n + BLOCK <= len; n += BLOCK) {
		unsigned char others = 0;

#pragma GCC unroll 1
		for (size_t i = 0; i < BLOCK; i++)
			others |= !is_plain_byte(s[n + i]);
		if (others)
			break;
	}
	while (n < len && is_plain_byte(s[n]))
		n++;
	return n;
}

static void display(struct shfs_buf *out, const char *s, size_t len, const char *keep)
{
	while (len) {
		uint32_t c = ' ';
		size_t n = shfs_quote_plain(s, len) ?: decode(s, len, &c);

		if (!n) {
			shfs_buf_printf(out, "\\x%02x", (unsigned char)*s);
			n = 1;
		} else if (is_disguising(c) && !(c && c < 0x80 && strchr(keep, c))) {
			escape_code(out, c);
		} else {
			shfs_buf_add(out, s, n);
		}
		s += n;
		len -= n;
	}
	shfs_buf_add(out, "", 0);
}

void shfs_quote_display(struct shfs_buf *out, const char *s, size_t len)
{
	display(out, s, len, "");
}

void shfs_quote_text(struct shfs_buf *out, const char *s, size_t len)
{
	display(out, s, len, "\n\t");
}

/* Does the string need no quotes in any shell? */
static bool needs_no_quotes(const char *s, size_t len)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		"_@%+=:,./-";

	if (!len || *s == '=') /* zsh expands =ls to the path of ls */
		return false;
	for (size_t i = 0; i < len; i++)
		if (!s[i] || !strchr(safe, s[i]))
			return false;
	return true;
}

static bool needs_dollar(const char *s, size_t len)
{
	while (len) {
		uint32_t c = 0;
		size_t n = decode(s, len, &c);

		if (!n || is_disguising(c))
			return true;
		s += n;
		len -= n;
	}
	return false;
}

static void quote_dollar(struct shfs_buf *out, const char *s, size_t len)
{
	shfs_buf_str(out, "$'");
	while (len) {
		uint32_t c = 0;
		size_t n = decode(s, len, &c);

		if (n && !is_disguising(c)) {
			if (c == '\'' || c == '\\')
				shfs_buf_char(out, '\\');
			shfs_buf_add(out, s, n);
		} else if (c == '\n' || c == '\t') {
			shfs_buf_str(out, c == '\n' ? "\\n" : "\\t");
		} else {
			/*
			 * Three octal digits end by themselves; \x would take further
			 * hex digits.
			 */
			n = MAX(n, (size_t)1);
			for (size_t i = 0; i < n; i++)
				shfs_buf_printf(out, "\\%03o", (unsigned char)s[i]);
		}
		s += n;
		len -= n;
	}
	shfs_buf_char(out, '\'');
}

void shfs_quote_shell(struct shfs_buf *out, const char *s, size_t len)
{
	if (needs_no_quotes(s, len)) {
		shfs_buf_add(out, s, len);
		return;
	}
	if (needs_dollar(s, len)) {
		quote_dollar(out, s, len);
		return;
	}
	shfs_buf_char(out, '\'');
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '\'')
			shfs_buf_str(out, "'\\''");
		else
			shfs_buf_char(out, s[i]);
	}
	shfs_buf_char(out, '\'');
}

void shfs_quote_command(struct shfs_buf *out, char *const *words)
{
	for (char *const *word = words; *word; word++) {
		if (word > words)
			shfs_buf_char(out, ' ');
		shfs_quote_shell(out, *word, strlen(*word));
	}
}

void shfs_quote_fish(struct shfs_buf *out, const char *s, size_t len)
{
	if (needs_no_quotes(s, len)) {
		shfs_buf_add(out, s, len);
		return;
	}
	shfs_buf_char(out, '\'');
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '\\' || s[i] == '\'')
			shfs_buf_char(out, '\\');
		shfs_buf_char(out, s[i]);
	}
	shfs_buf_char(out, '\'');
}

void shfs_quote_json(struct shfs_buf *out, const char *s, size_t len)
{
	shfs_buf_char(out, '"');
	while (len) {
		uint32_t c = ' ';
		size_t n = shfs_quote_plain(s, len) ?: decode(s, len, &c);

		if (!n) {
			shfs_buf_printf(out, "\\udc%02x", (unsigned char)*s);
			n = 1;
		} else if (c == '"' || c == '\\') {
			shfs_buf_printf(out, "\\%c", c);
		} else if (c == '\n' || c == '\t') {
			shfs_buf_str(out, c == '\n' ? "\\n" : "\\t");
		} else if (is_disguising(c) && c < 0x10000) {
			shfs_buf_printf(out, "\\u%04x", c);
		} else if (is_disguising(c)) {
			c -= 0x10000;
			shfs_buf_printf(out, "\\u%04x\\u%04x", 0xd800 + (c >> 10),
			                0xdc00 + (c & 0x3ff));
		} else {
			shfs_buf_add(out, s, n);
		}
		s += n;
		len -= n;
	}
	shfs_buf_char(out, '"');
}

void shfs_quote_turtle(struct shfs_buf *out, const char *s, size_t len)
{
	shfs_buf_char(out, '"');
	while (len) {
		uint32_t c = 0;
		size_t n = decode(s, len, &c);

		if (!n) {
			shfs_buf_printf(out, "\\\\x%02x", (unsigned char)*s);
			n = 1;
		} else if (c == '"' || c == '\\') {
			shfs_buf_printf(out, "\\%c", c);
		} else if (c == '\n' || c == '\t') {
			shfs_buf_str(out, c == '\n' ? "\\n" : "\\t");
		} else if (is_disguising(c)) {
			shfs_buf_printf(out, c < 0x10000 ? "\\u%04X" : "\\U%08X", c);
		} else {
			shfs_buf_add(out, s, n);
		}
		s += n;
		len -= n;
	}
	shfs_buf_char(out, '"');
}

void shfs_quote_uri(struct shfs_buf *out, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = s[i];

		if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
		    (c >= 'a' && c <= 'z') || (c && strchr("-._~/", c)))
			shfs_buf_char(out, c);
		else
			shfs_buf_printf(out, "%%%02X", c);
	}
}

bool shfs_is_utf8(const char *s, size_t len)
{
	for (size_t n; len; s += n, len -= n) {
		uint32_t c;

		n = decode(s, len, &c);
		if (!n)
			return false;
	}
	return true;
}

size_t shfs_quote_width(const char *s, size_t len)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	size_t width = 0;

	if (shfs_quote_plain(s, len) == len)
		return len;
	shfs_quote_display(&shown, s, len);
	for (size_t i = 0; i < shown.len;) {
		uint32_t c = 0;
		size_t n = shfs_quote_plain(shown.data + i, shown.len - i);
		int w;

		i += n;
		width += n;
		if (n)
			continue;
		n = decode(shown.data + i, shown.len - i, &c);
		w = wcwidth(c);
		width += w >= 0 ? w : 1;
		i += MAX(n, (size_t)1);
	}
	return width;
}
