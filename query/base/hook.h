/* SPDX-License-Identifier: MIT */
/* hook.h - is the shell that runs this program one with the hook? */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Looks for the hook log of an ancestor of ours, and says whose: its pid, or 0. */
pid_t shfs_hook_of_ancestor(const char *store_path);

/* "bash", "zsh" or "fish" by $SHELL; bash where that is another one. Static. */
const char *shfs_hook_shell(void);

/* The line that loads the hook into such a shell. Static. */
const char *shfs_hook_line(const char *shell);
/* The same for its start-up file: it says nothing where shfs is gone. */
const char *shfs_hook_rc_line(const char *shell);
