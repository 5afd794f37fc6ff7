/* SPDX-License-Identifier: MIT */
/*
 * split.h - a screen of a list, of which one line is chosen, with a text about that
 * beside it where the screen is wide, below it where it is high.
 */
#pragma once

#include "query/screen/screen.h"

struct shfs_area {
	int row, column, rows, columns;
};

struct shfs_split {
	struct shfs_screen *screen;
	int head_rows;      /* above both */
	int part;           /* of 100 columns, that the list has */
	bool alone;         /* the list, without the text */
	size_t chosen, top; /* of the lines of the list; top is the first that is seen */
	struct shfs_area list, side; /* side: all 0 where there is no room for it */

	struct shfs_buf text;
	int scrolled, lines; /* of the text: above what is seen; in all */
};

void shfs_split_clear(struct shfs_split *split);

/* Begins to draw: finds the areas, empties the screen, draws border and text. */
void shfs_split_draw(struct shfs_split *split, size_t n_lines);

/* Does what the key is for, if it is one that moves in a list of n lines or in the text,
 * or that hides it. */
bool shfs_split_key(struct shfs_split *split, int key, size_t n_lines);
