/* SPDX-License-Identifier: MIT */
#include "query/export/libarchive.h"

struct shfs_libarchive libarchive;

int shfs_libarchive_load(void)
{
#define FUNCTION(name) { #name, (void **)&libarchive.name },
	static const struct shfs_library_function functions[] = {
		SHFS_LIBARCHIVE_FUNCTIONS(FUNCTION)
	};
	const char *why;

	if (!shfs_library_load("libarchive.so.13", functions, ARRAY_SIZE(functions),
	                       &why))
		return SHFS_EXIT_OK;
	shfs_error("cannot load libarchive: %s", why);
	shfs_hint("on Debian it is in the package libarchive13");
	return SHFS_EXIT_FAILURE;
}
