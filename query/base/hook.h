/* SPDX-License-Identifier: MIT */
/* hook.h - does the shell that runs this program have the hook? */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Looks for the hook log of an ancestor process, and returns that process's pid, or 0. */
pid_t shfs_hook_of_ancestor(const char *store_path);

/* "bash", "zsh" or "fish" by $SHELL; bash if it is another shell. Static. */
const char *shfs_hook_shell(void);

/* The line that loads the hook into such a shell. Static. */
const char *shfs_hook_line(const char *shell);
/* The same for the shell's start-up file: it prints nothing if shfs is not installed any
 * more. */
const char *shfs_hook_rc_line(const char *shell);
