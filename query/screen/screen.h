/* SPDX-License-Identifier: MIT */
/*
 * screen.h - takes over the whole terminal for a while (only here curses is used).
 *
 * It uses /dev/tty, so that standard output stays free for the choice. However the
 * program ends, the terminal is restored: when the screen is closed, by a signal, by a
 * crash, and while the program is stopped. Standard error is held back, and printed
 * afterwards. One screen at a time.
 */
#pragma once

#include "common/buf.h"

/* Characters, also control characters, are themselves ('\r' is Enter). */
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
	SHFS_KEY_SHIFT_TAB,
	SHFS_KEY_HELP, /* F1 */
	/* of the mouse: shfs_screen_pointer says where */
	SHFS_KEY_CLICK,
	SHFS_KEY_WHEEL_UP,
	SHFS_KEY_WHEEL_DOWN,
	SHFS_KEY_RESIZED,         /* or anything else that needs a redraw */
	SHFS_KEY_GONE,            /* the terminal is gone */
	SHFS_KEY_ALT = 0x1000000, /* combined with a key by | */
};
#define SHFS_KEY_CTRL(c) ((c)&0x1f)

struct shfs_screen;
struct shfs_context;

/*
 * job: a shell may stop the program (^Z) and continue it, if it is a job of its own; else
 * nothing stops it. Returns 0, or an exit code after a message.
 */
_must_check_ int shfs_screen_open(bool color, bool job, struct shfs_screen **out);
/* Closes the screen; NULL is fine. */
void shfs_screen_close(struct shfs_screen *screen);

int shfs_screen_rows(const struct shfs_screen *screen);
int shfs_screen_columns(const struct shfs_screen *screen);

/* The next key, or SHFS_KEY_NONE after so many ms (-1: waits forever). */
int shfs_screen_key(struct shfs_screen *screen, int timeout_ms);

/* Where the mouse was at the last key that it sent. */
void shfs_screen_pointer(const struct shfs_screen *screen, int *row, int *column);

/* Waits until fd can be read: true; or a key can be read: false. */
bool shfs_screen_wait(struct shfs_screen *screen, int fd);

/* Puts text into the clipboard of the terminal (OSC 52), where that knows how. -ENOMEM.
 */
_must_check_ int shfs_screen_copy(struct shfs_screen *screen, const char *text,
                                  size_t len);

/*
 * --- other programs on the terminal: leave, run and ask as often as needed, return ---
 */

/* Leaves the screen to others; the terminal edits lines again. */
void shfs_screen_leave(struct shfs_screen *screen);
/* Runs another command of shfs there (words as of shfs_context_exec), and waits for its
 * end: its exit status. An interrupt ends that command alone; nothing is stopped. */
int shfs_screen_run(struct shfs_screen *screen, struct shfs_context *ctx,
                    const char *const *words);
/* Prints a question, and returns the key that answers; what was typed before it does not.
 */
int shfs_screen_ask(struct shfs_screen *screen, const char *question);
/* Takes the terminal again; what was drawn is shown. */
void shfs_screen_return(struct shfs_screen *screen);

/* --- drawing: nothing is visible before shfs_screen_show --- */

void shfs_screen_clear(struct shfs_screen *screen);

enum shfs_screen_look {
	SHFS_LOOK_PLAIN,
	SHFS_LOOK_DIM,
	SHFS_LOOK_CHOSEN, /* the line that keys apply to */
};

/*
 * Puts text in at most width columns, filled with blanks if the look is chosen. It is
 * escaped (common/quote.h) except for struct shfs_style. Returns the columns that it
 * took.
 */
int shfs_screen_put(struct shfs_screen *screen, int row, int column, int width,
                    const char *text, size_t len, enum shfs_screen_look look);

/* Puts lines likewise, from the skipped-th on; long ones are broken; tabs are eight
 * columns. Returns the number of all lines. */
int shfs_screen_put_lines(struct shfs_screen *screen, int row, int column, int rows,
                          int width, const char *text, size_t len, int skipped);

void shfs_screen_show(struct shfs_screen *screen, int cursor_row, int cursor_column);
/* Redraws everything, whatever others wrote there. */
void shfs_screen_refresh(struct shfs_screen *screen);
