/* SPDX-License-Identifier: MIT */
#include "query/web/http.h"

#include "query/web/web.h"

struct shfs_mhd shfs_mhd;

int shfs_web_load(void)
{
#define FUNCTION(name) { #name, (void **)&shfs_mhd.name },
	static const struct shfs_library_function functions[] = { SHFS_MHD_FUNCTIONS(
		FUNCTION) };
	const char *why;

	if (!shfs_library_load("libmicrohttpd.so.12", functions, ARRAY_SIZE(functions),
	                       &why))
		return SHFS_EXIT_OK;
	shfs_error("cannot load libmicrohttpd: %s", why);
	shfs_hint("on Debian it is in the package libmicrohttpd12");
	return SHFS_EXIT_UNAVAILABLE;
}
