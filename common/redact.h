/* SPDX-License-Identifier: MIT */
/*
 * redact.h - redacts: replaces secrets in a command by a mark, before it is written.
 *
 * Hooks are linked with redact.c (shellhook/), so it needs only libc, and is fast for a
 * text without secrets: one look at each byte shows where a pattern may begin, and only
 * there a regular expression is tried, which is compiled when it is first needed.
 *
 * Patterns are bytes, whatever the locale. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

#define SHFS_REDACTED "[redacted]"

struct shfs_redactor;

/* Makes a redactor. patterns: one a line, as of shfs_secrets_patterns (secrets.h);
 * invalid ones are left out. NULL: no memory. */
struct shfs_redactor *shfs_redactor_new(const char *patterns);
void shfs_redactor_free(struct shfs_redactor *r);

/*
 * Redacts a text. 0: there is no secret in it (or r is NULL). 1: *out is malloc'ed,
 * *out_len bytes and a NUL, with marks. -ENOMEM. separated: the text is not a line of a
 * shell but arguments with a NUL between them, which need not end in one; otherwise
 * text[len] is a NUL.
 */
int shfs_redact(struct shfs_redactor *r, const char *text, size_t len, bool separated,
                char **out, size_t *out_len);

/* Returns what is wrong with a pattern, or NULL. */
const char *shfs_redact_fault(const char *pattern);

/* Returns the text that a match of the pattern begins with, malloc'ed; NULL: no memory,
 * or it is no pattern. */
char *shfs_redact_needle(const char *pattern);
/* Returns the pattern's parentheses around the secret, *end is behind them; NULL: the
 * whole match is the secret. */
const char *shfs_redact_group(const char *pattern, const char **end);

#pragma GCC visibility pop
