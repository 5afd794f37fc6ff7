/* SPDX-License-Identifier: MIT */
/*
 * quote.h - bytes that came from the user, made safe to show or to paste.
 *
 * Names and commands are bytes: newline, escape sequences and invalid UTF-8 are kept
 * exactly in the store and escaped here, once, wherever they are shown. Each appends to
 * out.
 */
#pragma once

#include "common/buf.h"

/* For a person's eyes: printable UTF-8 as it is, all else (controls, DEL, C1, bidi
 * controls, invalid bytes) as \n, \t, \e, \xHH or \u{HHHH}; a backslash stays one. Never
 * spans lines. */
void shfs_quote_display(struct shfs_buf *out, const char *s, size_t len);

/* The same, but newlines and tabs stay: for the text of a command of several lines. */
void shfs_quote_text(struct shfs_buf *out, const char *s, size_t len);

/* For a shell: as it is when plain, else '...' or, with controls in it, $'...'. */
void shfs_quote_shell(struct shfs_buf *out, const char *s, size_t len);

/* The same for fish: '...', in which all else stands as it is. */
void shfs_quote_fish(struct shfs_buf *out, const char *s, size_t len);

/* A JSON string with its quotes. Bytes that are not UTF-8 become U+DC80..U+DCFF escapes
 * (as Python's surrogateescape does), so that no two names become one. */
void shfs_quote_json(struct shfs_buf *out, const char *s, size_t len);

/* A string of Turtle with its quotes. It cannot hold bytes that are not UTF-8: \\xHH. */
void shfs_quote_turtle(struct shfs_buf *out, const char *s, size_t len);

/* A path of a URI, in its smallest set of characters: all others are %HH. */
void shfs_quote_uri(struct shfs_buf *out, const char *s, size_t len);

bool shfs_is_utf8(const char *s, size_t len);

/* How many bytes from here are ASCII that no form of text escapes, a column each. */
size_t shfs_quote_plain(const char *s, size_t len);

/* Columns that a terminal needs for these bytes, after shfs_quote_display. */
size_t shfs_quote_width(const char *s, size_t len);
