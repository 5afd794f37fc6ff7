/* SPDX-License-Identifier: MIT */
#include "common/operand.h"

#include "common/program.h"
#include "common/util.h"

#include <string.h>

#define WORDS_MAX 1000

/* Returns what may be a path in the word; NULL: nothing. */
static const char *path_of_word(const char *word)
{
	const char *equals = strchr(word, '=');

	if (equals && (*word == '-' || equals[1] == '/'))
		word = equals + 1;
	return *word && *word != '-' && word[strlen(word) - 1] != '/' ? word : NULL;
}

/* Does the word stand where a program has its output? before: the word before it. */
static bool is_output_word(const char *exe, const char *before, const char *word,
                           bool is_last)
{
	static const char *const options[] = { "-o",        "-O",     "--out*",
		                               "-out*",     "-w",     "--write*",
		                               "--result*", "--log*", "--save*" };
	const char *name = basename(exe), *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : 0;

	return shfs_program_is_one_of(before, strlen(before), options,
	                              ARRAY_SIZE(options)) ||
	       (equals &&
	        (!strncmp(word, "of=", 3) ||
	         shfs_program_is_one_of(word, len, options, ARRAY_SIZE(options)))) ||
	       !strcmp(name, "tee") ||
	       (is_last && shfs_program_is_copier(name, strlen(name))) ||
	       (!strcmp(name, "tar") && strchr(before, 'f') && strpbrk(before, "cru") &&
	        *word == '/');
}

int shfs_operands_each(const char *exe, const char *argv, size_t len, shfs_operand_fn fn,
                       void *arg)
{
	const char *before = argv, *end = argv + len, *next;
	int n = 1, r = 0;

	for (const char *word = len ? argv + strlen(argv) + 1 : end;
	     word < end && n < WORDS_MAX && !r; before = word, word = next, n++) {
		const char *path = path_of_word(word);

		next = word + strlen(word) + 1;
		if (path)
			r = fn(path, is_output_word(exe, before, word, next >= end), arg);
	}
	return r;
}
