/* SPDX-License-Identifier: MIT */
/* line.h - a line of text that is being typed, with the keys of readline. */
#pragma once

#include "common/buf.h"

struct shfs_line {
	struct shfs_buf text; /* UTF-8 */
	size_t cursor;        /* bytes before it */
	struct shfs_buf cut;  /* by ^W, ^U and the like: what ^Y brings back */
};

_must_check_ int shfs_line_set(struct shfs_line *line, const char *text);
void shfs_line_clear(struct shfs_line *line);

/* Takes the key (screen.h) if it is one that moves in or changes the line. */
bool shfs_line_key(struct shfs_line *line, int key);
