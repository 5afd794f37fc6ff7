/* SPDX-License-Identifier: MIT */
/* operand.h - which words of a program's arguments may name files. */
#pragma once

#include <stdbool.h>

/* Returns what may be a path: the word, or what follows "=" in it ("of=/tmp/x",
 * "--file=x"); borrowed. NULL: it is an option, empty, or a directory by its slash. */
const char *shfs_operand_of_word(const char *word);

/* Does the word stand where a program has its output? exe: its path or name; before: the
 * word before it, or NULL; is_last: it is the last one. */
bool shfs_operand_is_output(const char *exe, const char *before, const char *word,
                            bool is_last);
