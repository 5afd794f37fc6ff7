/* SPDX-License-Identifier: MIT */
/*
 * debug.h - debugging output: one line for each decision, by area.
 *
 * SHFS_DEBUG=capture,ingest (or all) chooses the areas. Lines go to standard error, or to
 * the function of shfs_debug_to. An area that is off costs the load of a mask.
 * Thread-safe, except for the functions that choose.
 */
#pragma once

#include "common/util.h"

enum shfs_debug_area {
	SHFS_DEBUG_CAPTURE,   /* which contents are archived, and which are incomplete */
	SHFS_DEBUG_COMMAND,   /* which command a process belongs to */
	SHFS_DEBUG_INGEST,    /* what is read of the journal, and what is skipped */
	SHFS_DEBUG_JOURNAL,   /* segments: begun, sealed, cut */
	SHFS_DEBUG_OBJECTS,   /* how contents are stored, found, collected */
	SHFS_DEBUG_QUERY,     /* which store, index and mounts are used */
	SHFS_DEBUG_RECORDER,  /* how a recorder handles events */
	SHFS_DEBUG_RECORDING, /* daemons: begin, guardian, filter */
	SHFS_DEBUG_TRANSPORT, /* how requests are read and answered */
	SHFS_DEBUG_WATCH,     /* how a mount handles opens, changes and closes */
};

extern unsigned shfs_debug_mask; /* 1 << area */

/* Turns on the areas of the list, or those of SHFS_DEBUG if it is NULL. -EINVAL: one of
 * them does not exist; nothing is changed. */
_must_check_ int shfs_debug_choose(const char *areas);

/* Returns the names of all areas, with commas between them. */
const char *shfs_debug_areas(void);

/* Has say called with each line (without newline), from any thread. NULL: standard error.
 */
void shfs_debug_to(void (*say)(const char *line));

void shfs_debug_say(enum shfs_debug_area area, const char *fmt, ...) _printf_(2, 3);

#define shfs_debug_on(area) __builtin_expect(shfs_debug_mask & 1u << SHFS_DEBUG_##area, 0)

/* shfs_debug(CAPTURE, "%s: ...", path). Control characters are shown as "?". */
#define shfs_debug(area, ...)                                                            \
	(shfs_debug_on(area) ? shfs_debug_say(SHFS_DEBUG_##area, __VA_ARGS__) : (void)0)
