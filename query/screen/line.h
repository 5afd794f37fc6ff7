/* SPDX-License-Identifier: MIT */
/* line.h - an editable line of text, with the keys of readline. */
#pragma once

#include "common/buf.h"

struct shfs_line {
	struct shfs_buf text; /* UTF-8 */
	size_t cursor;        /* offset in bytes */
	struct shfs_buf cut;  /* text that ^W, ^U and the like removed, and ^Y brings
	                       * back */
};

_must_check_ int shfs_line_set(struct shfs_line *line, const char *text);
void shfs_line_clear(struct shfs_line *line);

/* Handles the key (screen.h) if it moves in the line or changes it. */
bool shfs_line_key(struct shfs_line *line, int key);
