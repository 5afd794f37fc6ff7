/* SPDX-License-Identifier: MIT */
/* libmicrohttpd, loaded when it is needed first. */
#include "query/web/http.h"

#include "query/web/web.h"

#include <dlfcn.h>

struct shfs_mhd shfs_mhd;

int shfs_web_load(void)
{
	static const struct {
		const char *name;
		void **to;
	} functions[] = {
#define FUNCTION(name) { #name, (void **)&shfs_mhd.name },
		SHFS_MHD_FUNCTIONS(FUNCTION)
	};
	void *lib = dlopen("libmicrohttpd.so.12", RTLD_NOW);
	bool is_whole = lib;

	for (size_t i = 0; i < ARRAY_SIZE(functions) && is_whole; i++) {
		*functions[i].to = dlsym(lib, functions[i].name);
		is_whole = *functions[i].to;
	}
	if (is_whole)
		return SHFS_EXIT_OK;
	shfs_error("cannot load libmicrohttpd: %s", dlerror());
	shfs_hint("on Debian it is in the package libmicrohttpd12");
	return SHFS_EXIT_UNAVAILABLE;
}
