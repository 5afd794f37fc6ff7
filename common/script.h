/* SPDX-License-Identifier: MIT */
/*
 * script.h - finds the script that an interpreter executes.
 */
#pragma once

#include "common/buf.h"

/*
 * Returns the absolute path of the script of a process, malloc'ed, as its arguments
 * (separated by NUL) name it: with a slash, as a script has that was found by PATH or has
 * "#!". NULL: there is none, the program is no interpreter (of Python, Perl, Ruby,
 * JavaScript, a shell), or no memory.
 */
char *shfs_script_of(struct shfs_bytes exe, struct shfs_bytes argv,
                     struct shfs_bytes cwd);
