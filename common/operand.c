/* SPDX-License-Identifier: MIT */
#include "common/operand.h"

#include "common/program.h"
#include "common/util.h"

#include <string.h>

const char *shfs_operand_of_word(const char *word)
{
	const char *equals = strchr(word, '=');

	if (equals && (*word == '-' || equals[1] == '/'))
		word = equals + 1;
	return *word && *word != '-' && word[strlen(word) - 1] != '/' ? word : NULL;
}

bool shfs_operand_is_output(const char *exe, const char *before, const char *word,
                            bool is_last)
{
	static const char *const options[] = { "-o",        "-O",     "--out*",
		                               "-out*",     "-w",     "--write*",
		                               "--result*", "--log*", "--save*" };
	const char *name = basename(exe), *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : 0;

	return (before && shfs_program_is_one_of(before, strlen(before), options,
	                                         ARRAY_SIZE(options))) ||
	       (equals &&
	        (!strncmp(word, "of=", 3) ||
	         shfs_program_is_one_of(word, len, options, ARRAY_SIZE(options)))) ||
	       !strcmp(name, "tee") ||
	       (is_last && shfs_program_is_copier(name, strlen(name))) ||
	       (!strcmp(name, "tar") && before && strchr(before, 'f') &&
	        strpbrk(before, "cru") && *word == '/');
}
