/* SPDX-License-Identifier: MIT */
/*
 * progress.h - a line on standard error while something takes long: "reading the journal,
 * 12 s". It appears after a second, and is removed at the end. Only on a terminal.
 */
#pragma once

#include <stdbool.h>

/* what: static. False: it is not shown, or another one is. */
bool shfs_progress_begin(const char *what);
/* Ends the line, before anything else is printed; messages call it. Safe to call
 * again. */
void shfs_progress_end(void);
