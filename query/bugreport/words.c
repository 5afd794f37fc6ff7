/* SPDX-License-Identifier: MIT */
#include "query/bugreport/words.h"

#include "common/io.h"
#include "common/path.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_MAX   (256 << 20)
#define MESSAGE_LEAST 8 /* bytes of a text that may be a message */
#define WORD_LEAST    4 /* letters; shorter ones say little, and many are names */
#define ERRORS_MAX    134
#define BEFORE_WORD   "(\"'"
#define BEHIND_WORD   ")\"':;,."

/* Is this word nothing but letters, and signs of punctuation around them? Says which. */
static bool is_plain(const char *word, size_t len, size_t *from, size_t *letters)
{
	size_t end;

	for (*from = 0; *from < len && strchr(BEFORE_WORD, word[*from]);)
		++*from;
	for (end = *from; end < len && isalpha((unsigned char)word[end]);)
		end++;
	*letters = end - *from;
	while (end < len && strchr(BEHIND_WORD, word[end]))
		end++;
	return end == len && *letters >= WORD_LEAST;
}

/* --- the words of messages --- */

static void add_words(struct words *words, const char *text, size_t len)
{
	size_t n, from, letters;

	for (size_t i = 0; i < len; i += n + 1) {
		n = 0;
		while (i + n < len && text[i + n] != ' ')
			n++;
		if (is_plain(text + i, n, &from, &letters) &&
		    MAKE_ROOM(words->list, words->n, words->cap) &&
		    (words->list[words->n] = strndup(text + i + from, letters)))
			words->n++;
	}
}

/* Is it for the database, where words are in capitals? Names of columns are words like
 * names of people. */
static bool is_query(const char *text)
{
	static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	unsigned words = 0;

	while (*text) {
		size_t n = strspn(text, capitals);

		words += n > 1 && strchr(" (", text[n]); /* or at the end */
		text += n;
		text += strcspn(text, " ");
		text += strspn(text, " ");
	}
	return words > 1;
}

/* Is it the text of a message, and not a symbol, or bytes that happen to be letters? */
static bool is_message(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)text[i]))
			return false;
	return len >= MESSAGE_LEAST && strpbrk(text, " %") && !is_query(text);
}

static void add_program(struct words *words, const char *path)
{
	_cleanup_buf_ struct shfs_buf program = { 0 };
	size_t len;

	if (!path || shfs_read_file_at(AT_FDCWD, path, PROGRAM_MAX, &program))
		return;
	for (size_t i = 0; i < program.len; i += len + 1) {
		len = strnlen(program.data + i, program.len - i);
		if (i + len < program.len && is_message(program.data + i, len))
			add_words(words, program.data + i, len);
	}
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void words_open(struct words *words)
{
	_cleanup_free_ char *server = shfs_path_installed("libexec", "shfs-fuse");

	*words = (struct words){ 0 };
	add_program(words, "/proc/self/exe");
	add_program(words, server);
	for (int i = 1; i < ERRORS_MAX; i++) {
		const char *text = strerrordesc_np(i);

		if (text)
			add_words(words, text, strlen(text));
	}
	if (words->n)
		qsort(words->list, words->n, sizeof(*words->list), compare_words);
}

void words_close(struct words *words)
{
	for (size_t i = 0; i < words->n; i++)
		free(words->list[i]);
	free(words->list);
	*words = (struct words){ 0 };
}

/* --- a line --- */

static bool is_known(const struct words *words, const char *word, size_t len)
{
	_cleanup_free_ char *key = strndup(word, len);

	return key && words->n &&
	       bsearch(&key, words->list, words->n, sizeof(*words->list), compare_words);
}

void words_keep(const struct words *words, const char *line, size_t len,
                struct shfs_buf *out)
{
	bool left_out = false, first = true;
	size_t n, from, letters;

	for (size_t i = 0; i < len; i += n) {
		n = 0;
		while (i < len && (line[i] == ' ' || line[i] == '\t'))
			i++;
		while (i + n < len && line[i + n] != ' ' && line[i + n] != '\t')
			n++;
		if (!n)
			return;
		if (is_plain(line + i, n, &from, &letters) &&
		    is_known(words, line + i + from, letters)) {
			shfs_buf_str(out, first ? "" : " ");
			shfs_buf_add(out, line + i, n);
			left_out = false;
		} else if (!left_out) {
			shfs_buf_str(out, first ? "…" : " …");
			left_out = true;
		}
		first = false;
	}
}
