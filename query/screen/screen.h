/* SPDX-License-Identifier: MIT */
/*
 * screen.h - the whole terminal, for a while (curses lives only here).
 *
 * It is /dev/tty, so that standard output stays free for what was chosen. However the
 * program ends, the terminal is what it was: when it is left, by a signal, by a crash,
 * and while it is stopped. What is said on standard error meanwhile appears afterwards.
 * One screen at a time.
 */
#pragma once

#include "common/buf.h"

/* Characters are themselves, and so are control characters ('\r' is Enter). */
enum shfs_key {
	SHFS_KEY_NONE = 0,
	SHFS_KEY_UP = 0x110000,
	SHFS_KEY_DOWN,
	SHFS_KEY_LEFT,
	SHFS_KEY_RIGHT,
	SHFS_KEY_PAGE_UP,
	SHFS_KEY_PAGE_DOWN,
	SHFS_KEY_HOME,
	SHFS_KEY_END,
	SHFS_KEY_DELETE,
	SHFS_KEY_SHIFT_UP,
	SHFS_KEY_SHIFT_DOWN,
	SHFS_KEY_RESIZED, /* or anything else for which all is to be drawn again */
	SHFS_KEY_GONE,    /* there is no terminal any more */
	SHFS_KEY_ALT = 0x1000000, /* | the key */
};
#define SHFS_KEY_CTRL(c) ((c)&0x1f)

struct shfs_screen;

/*
 * job: a shell may stop it (^Z) and go on with it, if it is a job of its own; else
 * nothing stops it. Returns 0, or an exit code after it has said why there is none.
 */
_must_check_ int shfs_screen_open(bool color, bool job, struct shfs_screen **out);
/* Leaves it; NULL is none. */
void shfs_screen_close(struct shfs_screen *screen);

int shfs_screen_rows(const struct shfs_screen *screen);
int shfs_screen_columns(const struct shfs_screen *screen);

/* The next key, or SHFS_KEY_NONE after so many ms (-1: any number). */
int shfs_screen_key(struct shfs_screen *screen, int timeout_ms);

/* Waits until fd can be read: true; or a key is there to be read: false. */
bool shfs_screen_wait(struct shfs_screen *screen, int fd);

/* --- drawing: nothing is seen before shfs_screen_show --- */

void shfs_screen_clear(struct shfs_screen *screen);

enum shfs_screen_look {
	SHFS_LOOK_PLAIN,
	SHFS_LOOK_DIM,
	SHFS_LOOK_CHOSEN, /* the line that keys are about */
};

/*
 * Text in at most width columns, and blanks behind it up to there if the look is chosen.
 * It has been escaped (common/quote.h) but for what struct shfs_style adds. Returns the
 * columns that it took.
 */
int shfs_screen_put(struct shfs_screen *screen, int row, int column, int width,
                    const char *text, size_t len, enum shfs_screen_look look);

/* The same of lines, from the skipped-th on, broken where they are too long; tabs are
 * eight columns. Returns how many there are in all. */
int shfs_screen_put_lines(struct shfs_screen *screen, int row, int column, int rows,
                          int width, const char *text, size_t len, int skipped);

void shfs_screen_show(struct shfs_screen *screen, int cursor_row, int cursor_column);
/* Draws all of it again, whatever others wrote there. */
void shfs_screen_refresh(struct shfs_screen *screen);
