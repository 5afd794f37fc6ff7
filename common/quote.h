/* SPDX-License-Identifier: MIT */
/*
 * quote.h - escapes bytes of users, so that they are safe to show or to paste.
 *
 * Names and commands are bytes: newline, escape sequences and invalid UTF-8 are kept
 * exactly in the store and escaped here, once, wherever they are shown. Each appends to
 * out.
 */
#pragma once

#include "common/buf.h"

/* Quotes for display: printable UTF-8 as it is, all else (controls, DEL, C1, bidi
 * controls, invalid bytes) as \n, \t, \e, \xHH or \u{HHHH}; a backslash stays as it is.
 * Never spans lines. */
void shfs_quote_display(struct shfs_buf *out, const char *s, size_t len);

/* Quotes for display, but keeps newlines and tabs: for a command of several lines. */
void shfs_quote_text(struct shfs_buf *out, const char *s, size_t len);

/* Quotes for a shell: a plain string as it is, else '...' or, with controls, $'...'. */
void shfs_quote_shell(struct shfs_buf *out, const char *s, size_t len);

/* Quotes the words of a command, which end with a NULL, as a line of a shell. */
void shfs_quote_command(struct shfs_buf *out, char *const *words);

/* Quotes for fish: '...', in which controls stay as they are. */
void shfs_quote_fish(struct shfs_buf *out, const char *s, size_t len);

/* Makes a JSON string with its quotes. Bytes that are not UTF-8 become U+DC80..U+DCFF
 * escapes (as with Python's surrogateescape), so that different names stay different. */
void shfs_quote_json(struct shfs_buf *out, const char *s, size_t len);

/* Makes a Turtle string with its quotes. It cannot hold bytes that are not UTF-8: they
 * become \\xHH. */
void shfs_quote_turtle(struct shfs_buf *out, const char *s, size_t len);

/* Makes a path of a URI; all characters but the unreserved ones become %HH. */
void shfs_quote_uri(struct shfs_buf *out, const char *s, size_t len);

bool shfs_is_utf8(const char *s, size_t len);

/* Returns how many bytes from here on are ASCII that no format escapes, one column each.
 */
size_t shfs_quote_plain(const char *s, size_t len);

/* Returns the columns that a terminal needs for these bytes, after shfs_quote_display. */
size_t shfs_quote_width(const char *s, size_t len);
