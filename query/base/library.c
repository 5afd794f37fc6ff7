/* SPDX-License-Identifier: MIT */
#include "query/base/library.h"

#include <dlfcn.h>
#include <errno.h>

int shfs_library_load(const char *file, const struct shfs_library_function *functions,
                      size_t n, const char **why)
{
	void *lib = dlopen(file, RTLD_NOW);
	size_t found = 0;

	while (lib && found < n &&
	       (*functions[found].to = dlsym(lib, functions[found].name)))
		found++;
	if (lib && found == n)
		return 0;
	*why = dlerror();
	for (size_t i = 0; i < n; i++)
		*functions[i].to = NULL;
	return -ENOPKG;
}
