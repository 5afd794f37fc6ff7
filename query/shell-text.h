/* SPDX-License-Identifier: MIT */
/*
 * shell-text.h - what the text of a command takes from the shell that it was typed into,
 * as far as one can see without being that shell.
 */
#pragma once

#include "common/buf.h"

/* Says what (a variable, a job, the input from the terminal), for behind "it": true, or
 * false where nothing is seen. What is exported to us is there. */
bool shfs_text_needs_shell(const char *text, struct shfs_buf *what);
