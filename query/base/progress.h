/* SPDX-License-Identifier: MIT */
/*
 * progress.h - a line on standard error while something takes long: "reading the journal,
 * 12 s". It appears after a second, and is removed at the end. Only on a terminal.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* what: static. False: it is not shown, or another one is. */
bool shfs_progress_begin(const char *what);
/* How much of it is done, in bytes: "…, 12 s, 3.5 of 20.1 MiB, 0.3 MiB/s, 57 s left".
 * From any thread. */
void shfs_progress_bytes(uint64_t done, uint64_t all);
/* Ends the line, before anything else is printed; messages call it. Safe to call
 * again. */
void shfs_progress_end(void);

/* The text of the line. done, all: bytes; all 0: not known. The rate is that since the
 * beginning, and the rest what it leads to: neither is shown in the first second. */
void shfs_progress_text(struct shfs_buf *out, const char *what, int seconds,
                        uint64_t done, uint64_t all);
