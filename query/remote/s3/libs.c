/* SPDX-License-Identifier: MIT */
#include "query/remote/s3/libs.h"

#include <errno.h>

struct s3_libs s3_libs;

#define FUNCTION(name) { #name, (void **)&s3_libs.name },

static const struct shfs_library_function of_curl[] = { S3_CURL_FUNCTIONS(FUNCTION) },
					  of_expat[] = { S3_EXPAT_FUNCTIONS(FUNCTION) };

static int load(const char *file, const char *package,
                const struct shfs_library_function *functions, size_t n,
                struct shfs_buf *why)
{
	const char *text;
	int r = shfs_library_load(file, functions, n, &text);

	if (r)
		shfs_buf_printf(why, "s3:// needs %s (on Debian: the package %s): %s",
		                file, package, text);
	return r;
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
