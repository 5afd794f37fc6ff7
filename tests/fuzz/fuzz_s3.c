/* SPDX-License-Identifier: MIT */
/*
 * What an object store answers: an error ('e'), a page of a listing ('p'); and the URL of
 * a bucket ('u'), which must not bring anything but what it may into requests.
 */
#include "tests/fuzz/fuzz.h"

#include "query/remote/s3/answers.h"
#include "query/remote/s3/libs.h"
#include "query/remote/s3/settings.h"

#include <string.h>

static int check_name(void *arg, const char *name, uint64_t bytes)
{
	size_t *n = arg;

	FUZZ_ASSERT(*name && !shfs_ends_with(name, "/"));
	return ++*n == 1000 ? -1 : 0;
}

static void check_page(const char *data, size_t size)
{
	size_t n = 0;
	_cleanup_s3_page_ struct s3_page page = { .cut = "a/",
		                                  .fn = check_name,
		                                  .arg = &n };
	int r = s3_page_parse(data, size, &page);

	FUZZ_ASSERT(n <= 1000 && (n < 1000 || r));
	FUZZ_ASSERT(r || !n || !strncmp(page.last.data, "a/", 2));
	FUZZ_ASSERT(r || size); /* nothing is no listing */
}

static void check_error(const char *data, size_t size)
{
	struct s3_error error;

	s3_error_parse(data, size, &error);
	FUZZ_ASSERT(memchr(error.code, '\0', sizeof(error.code)));
	FUZZ_ASSERT(memchr(error.message, '\0', sizeof(error.message)));
	FUZZ_ASSERT(memchr(error.region, '\0', sizeof(error.region)));
}

static void check_url(const char *data, size_t size)
{
	_cleanup_s3_settings_ struct s3_settings s = { 0 };
	_cleanup_buf_ struct shfs_buf url = { 0 };

	shfs_buf_str(&url, S3_SCHEME);
	shfs_buf_add(&url, data, size);
	if (s3_settings_parse_url(url.data, &s))
		return;
	url.len = 0;
	if (!s.endpoint)
		s.endpoint = strdup("https://h");
	s3_settings_base(&s, &url);
	FUZZ_ASSERT(*s.bucket && !strpbrk(s.bucket, "/?@#%& "));
	FUZZ_ASSERT(!*s.prefix || shfs_ends_with(s.prefix, "/"));
	FUZZ_ASSERT(*s.prefix != '/' && !strstr(s.prefix, "//"));
	FUZZ_ASSERT(!strncasecmp(url.data, "http", 4) && shfs_ends_with(url.data, "/"));
	FUZZ_ASSERT(!strpbrk(url.data, "?@#%& \n") && strstr(url.data, s.bucket));
}

void fuzz_s3(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };
	const char *text = (const char *)data + 1;

	if (!size)
		return;
	FUZZ_ASSERT(!s3_libs_load(&why));
	if (*data == 'p')
		check_page(text, size - 1);
	else if (*data == 'e')
		check_error(text, size - 1);
	else if (*data == 'u')
		check_url(text, size - 1);
}
