/* SPDX-License-Identifier: MIT */
/*
 * uses.h - the aliases and functions that a line uses, with all that these use in turn:
 * without them its text cannot be run again.
 *
 * Words are looked up wherever the shell could look them up, and in a few more places: a
 * definition too many is of no harm, as the shell that runs the line again decides anew
 * what each word is.
 */
#pragma once

#include "shellhook/hook.h"

#pragma GCC visibility push(hidden)

/* The definition of a word in the shell. Pointers are borrowed until the next look-up. */
struct definition {
	char kind; /* as in a D1 record: docs/shellhook.md */
	const char *name, *body;
	size_t len;        /* of body */
	const void *shell; /* its own */
};

struct shell_option {
	const char *command; /* sets it as it is not in a new shell */
	const char *signs; /* a line that depends on it has one of them; NULL: any may */
};

/* --- implemented for each shell --- */

/* Finds the alias that the shell would put in the place of the word. is_command: the word
 * is that of a command. */
bool shell_find_alias(const char *word, bool is_command, struct definition *out);
/* Finds a function, without its body. only_exported: if programs have it, too. */
bool shell_find_function(const char *word, bool only_exported, struct definition *out);
/* Sets the body; it stays NULL if it is longer than max, or cannot be written as text. */
void shell_load_function(struct definition *d, size_t max);
/* Is what follows a "#" a comment? */
bool shell_has_comments(void);
/* The options that lines may depend on, by number from 0; NULL behind the last. *usual:
 * it is as in a new shell. */
const struct shell_option *shell_option(size_t i, bool *usual);

/* --- of a line --- */

#define USES_BYTES (16 << 10) /* of names and bodies */
#define USES_MAX   64

struct use {
	size_t at, len; /* in raw of uses: kind, name and NUL, body and NUL */
	bool whole;     /* false: the body is too long, or the shell cannot tell it */
};

struct uses {
	char raw[USES_BYTES];
	size_t len;
	struct use list[USES_MAX];
	size_t n;
	bool more; /* there are further ones */
};

/* Finds what the line uses. */
void uses_find(struct uses *uses, const char *line);
void uses_clear(struct uses *uses);

#pragma GCC visibility pop
