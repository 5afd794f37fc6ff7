/* SPDX-License-Identifier: MIT */
/* operand.h - which words of a program's arguments may name files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* path: a word, or what follows "=" in it ("of=/tmp/x", "--file=x"); borrowed. is_output:
 * it stands where the program has its output. Not 0: the search ends. */
typedef int (*shfs_operand_fn)(const char *path, bool is_output, void *arg);

/* Calls fn for the words that may be paths: not options, nor what ends in a slash. exe:
 * the program's path or name; argv: its arguments, the name it was called by first, each
 * ended by a NUL. Only the first thousand count. Returns what fn returned last, or 0. */
int shfs_operands_each(const char *exe, const char *argv, size_t len, shfs_operand_fn fn,
                       void *arg);
