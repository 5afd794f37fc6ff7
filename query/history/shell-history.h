/* SPDX-License-Identifier: MIT */
/*
 * shell-history.h - reads the files in which bash, zsh and fish themselves keep what was
 * typed.
 *
 *   bash  a command a line; behind "#SECONDS" all lines up to the next such line are one
 *   zsh   a command a line, or ": SECONDS:DURATION;COMMAND"; a newline is kept behind a
 *         backslash, a colon at its beginning, too, and a byte that is special to zsh as
 * 0x83 and the byte ^ 32 fish  "- cmd: COMMAND", "  when: SECONDS", with \n and \\ in
 * COMMAND
 */
#pragma once

#include "common/util.h"

#include <stddef.h>
#include <stdint.h>

struct shfs_typed {
	char *text;
	int64_t time_s; /* 0: not known */
};

struct shfs_shell_history {
	struct shfs_typed *list; /* the oldest first */
	size_t n, cap;
};

/* Reads the file of this shell ("bash", "zsh", "fish"). A negative errno. */
_must_check_ int shfs_shell_history_read(const char *shell, const char *path,
                                         struct shfs_shell_history *out);
void shfs_shell_history_clear(struct shfs_shell_history *history);
#define _cleanup_shell_history_ _cleanup_(shfs_shell_history_clear)

/* Where the shell keeps it by default, or NULL: there is none. Allocated. */
char *shfs_shell_history_path(const char *shell);
