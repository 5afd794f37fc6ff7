/* SPDX-License-Identifier: MIT */
/*
 * shell-text.h - what the text of a command takes from the shell that it was typed into,
 * as far as one can see without being that shell.
 */
#pragma once

#include "common/buf.h"

/* Says what (a variable, a job, the input from the terminal), for behind "it": true, or
 * false where nothing is seen. What is exported to us is there. */
bool shfs_text_needs_shell(const char *text, struct shfs_buf *what);

/* A word without quotes, variables and the like. */
struct shfs_word {
	const char *text; /* in that of the command: no NUL behind it */
	size_t len;
	bool is_command; /* it names what is to be run */
};

/* Each of them, up to what this does not understand (documents, case, functions); ends
 * with what fn returns, if that is not 0. */
int shfs_text_words(const char *text, int (*fn)(const struct shfs_word *word, void *arg),
                    void *arg);

/* Adds why a command cannot be run again that runs this word, which is no program. */
void shfs_text_show_unknown(struct shfs_buf *out, const char *word, size_t len);
