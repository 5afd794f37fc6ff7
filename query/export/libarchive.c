/* SPDX-License-Identifier: MIT */
#include "query/export/libarchive.h"

#include <dlfcn.h>

struct shfs_libarchive libarchive;

int shfs_libarchive_load(void)
{
	static const struct {
		const char *name;
		void **to;
	} functions[] = {
#define FUNCTION(name) { #name, (void **)&libarchive.name },
		SHFS_LIBARCHIVE_FUNCTIONS(FUNCTION)
	};
	void *lib = dlopen("libarchive.so.13", RTLD_NOW);
	bool is_whole = lib;

	for (size_t i = 0; i < ARRAY_SIZE(functions) && is_whole; i++) {
		*functions[i].to = dlsym(lib, functions[i].name);
		is_whole = *functions[i].to;
	}
	if (is_whole)
		return SHFS_EXIT_OK;
	shfs_error("cannot load libarchive: %s", dlerror());
	shfs_hint("on Debian it is in the package libarchive13");
	return SHFS_EXIT_FAILURE;
}
