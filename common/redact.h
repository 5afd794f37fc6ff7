/* SPDX-License-Identifier: MIT */
/*
 * redact.h - replaces what is secret in a command by a mark, before it is written.
 *
 * Hooks are linked with redact.c (shellhook/), so it needs nothing but libc, and is quick
 * where there is nothing to do: one look at each byte tells where the beginning of a
 * pattern may be, and only there a regular expression is tried, which is compiled when it
 * is first needed.
 *
 * Patterns are bytes, whatever the locale. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

#define SHFS_REDACTED "[redacted]"

struct shfs_redactor;

/* patterns: one a line, as shfs_secrets_patterns (secrets.h) gives them; those that are
 * none are left out. NULL: no memory. */
struct shfs_redactor *shfs_redactor_new(const char *patterns);
void shfs_redactor_free(struct shfs_redactor *r);

/*
 * Unless separated, text[len] is a NUL. 0: there is no secret in it (or r is NULL). 1:
 * *out is malloc'ed, *out_len bytes and a NUL, with marks. -ENOMEM. separated: these are
 * arguments with a NUL between them, of which none need be behind the last; and not a
 * line of a shell.
 */
int shfs_redact(struct shfs_redactor *r, const char *text, size_t len, bool separated,
                char **out, size_t *out_len);

/* What is wrong with a pattern, or NULL. */
const char *shfs_redact_fault(const char *pattern);

/* What a match of the pattern begins with, malloc'ed; NULL: no memory, or it is none. */
char *shfs_redact_needle(const char *pattern);
/* Its parentheses with the secret: *end is behind them. NULL: all of it is. */
const char *shfs_redact_group(const char *pattern, const char **end);

#pragma GCC visibility pop
