/* SPDX-License-Identifier: MIT */
#include "query/team/libpq.h"

#include "query/base/cmd.h"

struct libpq libpq;

int libpq_load(void)
{
#define FUNCTION(name) { #name, (void **)&libpq.name },
	static const struct shfs_library_function functions[] = { LIBPQ_FUNCTIONS(
		FUNCTION) };
	const char *why;

	if (!shfs_library_load("libpq.so.5", functions, ARRAY_SIZE(functions), &why))
		return SHFS_EXIT_OK;
	shfs_error("cannot load libpq: %s", why);
	shfs_hint("on Debian it is in the package libpq5");
	return SHFS_EXIT_FAILURE;
}
