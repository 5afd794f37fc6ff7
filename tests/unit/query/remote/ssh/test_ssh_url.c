/* SPDX-License-Identifier: MIT */
/* URLs of remotes on other hosts. */
#include "tests/unit/unit.h"

#include "query/remote/backend.h"
#include "query/remote/ssh/url.h"

#include <errno.h>

static const struct {
	const char *text, *host, *path;
	unsigned port;
} good[] = {
	{ "ssh://host/srv/shfs", "host", "/srv/shfs", 0 },
	{ "ssh://ben@host:2222/srv", "ben@host", "/srv", 2222 },
	{ "ssh://host:/srv", "host", "/srv", 0 },
	{ "ssh://host/~/lab", "host", "lab", 0 },
	{ "ssh://host/~ben/lab", "host", "~ben/lab", 0 },
	{ "ssh://[::1]/x", "::1", "/x", 0 },
	{ "ssh://ben@[fe80::1]:22/x", "ben@fe80::1", "/x", 22 },
	{ "ssh://host/a%20b%25", "host", "/a b%", 0 },
	{ "host:lab", "host", "lab", 0 },
	{ "host:/srv/a b%c", "host", "/srv/a b%c", 0 },
	{ "ben@host:~/lab", "ben@host", "lab", 0 },
	{ "host:~ben/lab", "host", "~ben/lab", 0 },
	{ "[::1]:lab", "::1", "lab", 0 },
	{ "ben@[::1]:/lab", "ben@::1", "/lab", 0 },
	{ "[host:2222]:lab", "host", "lab", 2222 },
	{ "ben@[host:2222]:lab", "ben@host", "lab", 2222 },
	{ "host:a:b", "host", "a:b", 0 },
};

static void taken_apart(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		_cleanup_ssh_url_ struct ssh_url url = { 0 };
		_cleanup_free_ char *whole = NULL, *again = NULL;

		assert_int_equal(shfs_remote_url(good[i].text, &whole), 0);
		assert_int_equal(ssh_url_parse(whole, &url), 0);
		assert_string_equal(url.host, good[i].host);
		assert_string_equal(url.path, good[i].path);
		assert_int_equal(url.port, good[i].port);
		/* what is noted is a URL itself */
		assert_int_equal(shfs_remote_url(whole, &again), 0);
		assert_string_equal(whole, again);
	}
}

static void refused(void **state)
{
	static const char *const bad[] = {
		"ssh://",
		"ssh://host",
		"ssh://host/",
		"ssh:///x",
		"ssh://-oProxyCommand=touch x/y",
		"ssh://-host/x",
		"ssh://ben@-host/x",
		"ssh://-l@host/x",
		"ssh://%2dhost/x",
		"ssh://@host/x",
		"ssh://host:0/x",
		"ssh://host:65536/x",
		"ssh://host:22x/x",
		"ssh://host:18446744073709551638/x",
		"ssh://host/a%0ab",
		"ssh://host/a%00b",
		"ssh://host/a%4",
		"ssh://host/a%",
		"ssh://ho st/x",
		"ssh://ho$(x)st/x",
		"ssh://host/~/",
		"-oProxyCommand=x:y",
		"-host:x",
		"ben@-host:x",
		"host:",
		":x",
		"[]:x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char *whole = NULL;

		if (shfs_remote_url(bad[i], &whole) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
	}
}

/* As git tells them apart. */
static void paths(void **state)
{
	static const struct {
		const char *text;
		bool is_short;
	} texts[] = {
		{ "./a:b", false }, { "/a:b", false },   { "a/b:c", false },
		{ "a:b", true },    { "a:/b", true },    { "a", false },
		{ "a://b", false }, { "[a/b:c", false }, { "u@h:x@y", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (ssh_url_is_short(texts[i].text) != texts[i].is_short)
			fail_msg("%s", texts[i].text);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(taken_apart),
		cmocka_unit_test(refused),
		cmocka_unit_test(paths),
	};

	return shfs_unit_main(tests, argc, argv);
}
