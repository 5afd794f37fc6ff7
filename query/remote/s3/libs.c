/* SPDX-License-Identifier: MIT */
#include "query/remote/s3/libs.h"

#include <dlfcn.h>
#include <errno.h>

struct s3_libs s3_libs;

struct function {
	const char *name;
	void **to;
};

#define FUNCTION(name) { #name, (void **)&s3_libs.name },

static const struct function of_curl[] = { S3_CURL_FUNCTIONS(FUNCTION) },
			     of_expat[] = { S3_EXPAT_FUNCTIONS(FUNCTION) };

static int load(const char *file, const char *package, const struct function *functions,
                size_t n, struct shfs_buf *why)
{
	void *lib = dlopen(file, RTLD_NOW);
	bool is_whole = lib;

	for (size_t i = 0; i < n && is_whole; i++) {
		*functions[i].to = dlsym(lib, functions[i].name);
		is_whole = *functions[i].to;
	}
	if (is_whole)
		return 0;
	shfs_buf_printf(why, "s3:// needs %s (on Debian: the package %s): %s", file,
	                package, dlerror());
	return -ENOPKG;
}

int s3_libs_load(struct shfs_buf *why)
{
	int r = 0;

	if (s3_libs.XML_StopParser)
		return 0;
	r = load("libcurl.so.4", "libcurl4", of_curl, ARRAY_SIZE(of_curl), why);
	if (!r && s3_libs.curl_global_init(CURL_GLOBAL_DEFAULT))
		r = -ENOMEM;
	if (!r)
		r = load("libexpat.so.1", "libexpat1", of_expat, ARRAY_SIZE(of_expat),
		         why);
	return r;
}
