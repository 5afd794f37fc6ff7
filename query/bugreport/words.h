/* SPDX-License-Identifier: MIT */
/*
 * words.h - leaves of a text the words that shfs's own programs have.
 *
 * A log is free text: a name of a file can stand anywhere in it, and look like anything.
 * So nothing is searched for and removed: a word stays if it is one of the words in the
 * messages of shfs's program files, or in an error of the C library. Short ones go, too:
 * too many of them are names. In place of all else is "…".
 */
#pragma once

#include "common/buf.h"

struct words {
	char **list; /* sorted */
	size_t n, cap;
};

/* Reads the program files; one that cannot be read has no words. Without memory there are
 * fewer words. */
void words_open(struct words *words);
void words_close(struct words *words);

/* Appends what is left of a line. */
void words_keep(const struct words *words, const char *line, size_t len,
                struct shfs_buf *out);
