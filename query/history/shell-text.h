/* SPDX-License-Identifier: MIT */
/*
 * shell-text.h - finds what a command needs from the shell that it was typed into, as far
 * as its text shows.
 */
#pragma once

#include "common/buf.h"

/* Adds what it needs (a variable, a job, the input from the terminal), to follow "it".
 * False: nothing was found. Exported variables of this process do not count. */
bool shfs_text_needs_shell(const char *text, struct shfs_buf *what);

/* A word without quotes, variables and the like. */
struct shfs_word {
	const char *text; /* points into the command's text: no NUL follows */
	size_t len;
	bool is_command; /* it names a program to run */
};

/* Calls fn for each word, until one is not understood (documents, case, functions) or fn
 * returns something other than 0, which is returned. */
int shfs_text_words(const char *text, int (*fn)(const struct shfs_word *word, void *arg),
                    void *arg);

/* The last part of a word that is a path. */
struct shfs_bytes shfs_word_base(const char *word, size_t len);

/* Is it one command line of programs, with pipes at most: is its exit status that of the
 * last program? */
bool shfs_text_is_pipeline(const char *text);

/* Adds why a command cannot be run again: it runs this word, which is no program. */
void shfs_text_show_unknown(struct shfs_buf *out, const char *word, size_t len);
