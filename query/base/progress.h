/* SPDX-License-Identifier: MIT */
/*
 * progress.h - a line on standard error while something takes its time: "reading the
 * journal, 12 s", after a second, and gone in the end. Nothing where that is no terminal.
 */
#pragma once

#include <stdbool.h>

/* what: static. False: it is not shown, or another is. */
bool shfs_progress_begin(const char *what);
/* Before anything else is printed; messages see to it. Safe to call again. */
void shfs_progress_end(void);
