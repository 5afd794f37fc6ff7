/* SPDX-License-Identifier: MIT */
/*
 * split.h - a screen with a list, in which one line is chosen, and a text about that
 * line: beside the list on a wide screen, below it on a high one.
 */
#pragma once

#include "query/screen/screen.h"

struct shfs_area {
	int row, column, rows, columns;
};

struct shfs_split {
	struct shfs_screen *screen;
	int head_rows;               /* above both */
	int part;                    /* percentage of columns for the list */
	bool alone;                  /* only the list, without the text */
	size_t chosen, top;          /* lines of the list; top is the first visible one */
	struct shfs_area list, side; /* side: all 0 if there is no room for it */

	struct shfs_buf text;
	int scrolled, lines; /* of the text: lines above the visible part; all lines */
};

void shfs_split_clear(struct shfs_split *split);

/* Begins drawing: computes the areas, clears the screen, draws border and text. */
void shfs_split_draw(struct shfs_split *split, size_t n_lines);

/* Handles the key or the mouse, if it moves in a list of n lines or in the text, or hides
 * the text. */
bool shfs_split_key(struct shfs_split *split, int key, size_t n_lines);
