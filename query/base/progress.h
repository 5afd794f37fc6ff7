/* SPDX-License-Identifier: MIT */
/*
 * progress.h - a line on standard error while something takes long: "reading the journal,
 * 12 s". It appears after a second, and is removed at the end. Only on a terminal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* what: static. False: it is not shown, or another one is. */
bool shfs_progress_begin(const char *what);
/* How much of it is done, in bytes: "…, 12 s, 3.5 of 20.1 MiB". From any thread. */
void shfs_progress_bytes(uint64_t done, uint64_t all);
/* Ends the line, before anything else is printed; messages call it. Safe to call
 * again. */
void shfs_progress_end(void);
