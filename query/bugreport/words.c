/* SPDX-License-Identifier: MIT */
#include "query/bugreport/words.h"

#include "common/io.h"
#include "common/path.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>

#define PROGRAM_MAX (256 << 20)
#define WORD_LEAST  2 /* shorter ones say nothing */
#define ERRORS_MAX  134

static void add_program(struct words *words, const char *path)
{
	if (path && shfs_read_file_at(AT_FDCWD, path, PROGRAM_MAX, &words->programs))
		return;
	shfs_buf_char(&words->programs, '\0');
}

void words_open(struct words *words)
{
	_cleanup_free_ char *server = shfs_path_installed("libexec", "shfs-fuse");

	*words = (struct words){ 0 };
	add_program(words, "/proc/self/exe");
	add_program(words, server);
}

void words_close(struct words *words)
{
	shfs_buf_free(&words->programs);
}

static bool is_letter(char c)
{
	return isalpha((unsigned char)c);
}

/* Is the word in the text, with no letter beside it? */
static bool has_word(const char *text, size_t text_len, const char *word, size_t len)
{
	const char *end = text + text_len, *at = text;

	while ((at = memmem(at, end - at, word, len))) {
		if ((at == text || !is_letter(at[-1])) &&
		    (at + len == end || !is_letter(at[len])))
			return true;
		at++;
	}
	return false;
}

static bool is_known(const struct words *words, const char *word, size_t len)
{
	if (len < WORD_LEAST)
		return false;
	for (int i = 1; i < ERRORS_MAX; i++) {
		const char *text = strerrordesc_np(i);

		if (text && has_word(text, strlen(text), word, len))
			return true;
	}
	return !words->programs.failed &&
	       has_word(words->programs.data, words->programs.len, word, len);
}

/* Is this word nothing but letters, and a sign of punctuation behind them? */
static bool is_plain(const char *word, size_t len, size_t *letters)
{
	size_t n = 0;

	while (n < len && is_letter(word[n]))
		n++;
	*letters = n;
	return n == len || (n + 1 == len && strchr(":;,.", word[n]));
}

void words_keep(const struct words *words, const char *line, size_t len,
                struct shfs_buf *out)
{
	bool left_out = false, first = true;
	size_t n, letters;

	for (size_t i = 0; i < len; i += n) {
		n = 0;
		while (i < len && (line[i] == ' ' || line[i] == '\t'))
			i++;
		while (i + n < len && line[i + n] != ' ' && line[i + n] != '\t')
			n++;
		if (!n)
			return;
		if (is_plain(line + i, n, &letters) &&
		    is_known(words, line + i, letters)) {
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
