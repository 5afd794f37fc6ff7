/* SPDX-License-Identifier: MIT */
#include "query/screen/line.h"

#include "query/screen/screen.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <wchar.h>

#define LINE_MAX_BYTES 1000

int shfs_line_set(struct shfs_line *line, const char *text)
{
	line->text.len = 0;
	shfs_buf_str(&line->text, text);
	line->cursor = line->text.len;
	return line->text.failed ? -ENOMEM : 0;
}

void shfs_line_clear(struct shfs_line *line)
{
	shfs_buf_free(&line->text);
	shfs_buf_free(&line->cut);
}

/* --- positions --- */

static bool is_inside_char(const struct shfs_line *l, size_t at)
{
	return ((unsigned char)l->text.data[at] & 0xc0) == 0x80;
}

static size_t start_of_char_before(const struct shfs_line *l, size_t at)
{
	if (at)
		at--;
	while (at && is_inside_char(l, at))
		at--;
	return at;
}

static size_t end_of_char_at(const struct shfs_line *l, size_t at)
{
	if (at < l->text.len)
		at++;
	while (at < l->text.len && is_inside_char(l, at))
		at++;
	return at;
}

static size_t word_before(const struct shfs_line *l, size_t at)
{
	while (at && l->text.data[at - 1] == ' ')
		at--;
	while (at && l->text.data[at - 1] != ' ')
		at--;
	return at;
}

static size_t word_behind(const struct shfs_line *l, size_t at)
{
	while (at < l->text.len && l->text.data[at] == ' ')
		at++;
	while (at < l->text.len && l->text.data[at] != ' ')
		at++;
	return at;
}

/* --- changes --- */

static void remove_part(struct shfs_line *l, size_t begin, size_t end, bool keep)
{
	if (begin == end)
		return;
	if (keep) {
		l->cut.len = 0;
		shfs_buf_add(&l->cut, l->text.data + begin, end - begin);
	}
	memmove(l->text.data + begin, l->text.data + end, l->text.len - end + 1);
	l->text.len -= end - begin;
	l->cursor = begin;
}

static void insert_text(struct shfs_line *l, const char *text, size_t len)
{
	if (!len || l->text.len + len > LINE_MAX_BYTES)
		return;
	shfs_buf_add(&l->text, text, len); /* this makes room */
	if (l->text.failed)
		return;
	memmove(l->text.data + l->cursor + len, l->text.data + l->cursor,
	        l->text.len - len - l->cursor);
	memcpy(l->text.data + l->cursor, text, len);
	l->cursor += len;
}

static bool insert_char(struct shfs_line *l, int key)
{
	char bytes[MB_LEN_MAX];
	mbstate_t state = { 0 };
	size_t len;

	if (key < ' ' || (key >= 0x7f && key < 0xa0) || key >= SHFS_KEY_UP)
		return false;
	len = wcrtomb(bytes, key, &state);
	if (len <= sizeof(bytes))
		insert_text(l, bytes, len);
	return true;
}

bool shfs_line_key(struct shfs_line *l, int key)
{
	switch (key) {
	case SHFS_KEY_LEFT:
	case SHFS_KEY_CTRL('B'):
		l->cursor = start_of_char_before(l, l->cursor);
		return true;
	case SHFS_KEY_RIGHT:
	case SHFS_KEY_CTRL('F'):
		l->cursor = end_of_char_at(l, l->cursor);
		return true;
	case SHFS_KEY_HOME:
	case SHFS_KEY_CTRL('A'):
		l->cursor = 0;
		return true;
	case SHFS_KEY_END:
	case SHFS_KEY_CTRL('E'):
		l->cursor = l->text.len;
		return true;
	case SHFS_KEY_ALT | 'b':
		l->cursor = word_before(l, l->cursor);
		return true;
	case SHFS_KEY_ALT | 'f':
		l->cursor = word_behind(l, l->cursor);
		return true;
	case 0x7f:
		remove_part(l, start_of_char_before(l, l->cursor), l->cursor, false);
		return true;
	case SHFS_KEY_DELETE:
	case SHFS_KEY_CTRL('D'):
		remove_part(l, l->cursor, end_of_char_at(l, l->cursor), false);
		return true;
	case SHFS_KEY_ALT | 0x7f:
	case SHFS_KEY_CTRL('W'):
		remove_part(l, word_before(l, l->cursor), l->cursor, true);
		return true;
	case SHFS_KEY_ALT | 'd':
		remove_part(l, l->cursor, word_behind(l, l->cursor), true);
		return true;
	case SHFS_KEY_CTRL('U'):
		remove_part(l, 0, l->cursor, true);
		return true;
	case SHFS_KEY_CTRL('Y'):
		insert_text(l, l->cut.data, l->cut.len);
		return true;
	default:
		return insert_char(l, key);
	}
}
