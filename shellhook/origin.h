/* SPDX-License-Identifier: MIT */
/*
 * origin.h - sets the variable LC_SHFS while a command runs, which ssh takes along, and
 * keeps what it was when the shell began (docs/ssh.md).
 */
#pragma once

#include <stdbool.h>

/* hidden: the names of the shell are in the same space */
#pragma GCC visibility push(hidden)

/* Keeps the value that the shell began with, unless it names a command of this host.
 * session: BOOT-PID-START. sets: commands are named from now on. */
void origin_start(const char *host, const char *session, bool sets);
/* Names the command in LC_SHFS; number "0": empties it, at the prompt. */
void origin_mark(const char *number);
/* Returns the value that was kept, or NULL. */
const char *origin_kept(void);

#pragma GCC visibility pop
