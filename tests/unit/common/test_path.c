/* SPDX-License-Identifier: MIT */
/* Tests of common/path.c. */
#include "tests/unit/unit.h"

#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static void assert_path(char *path, const char *expected)
{
	assert_non_null(path);
	assert_string_equal(path, expected);
	free(path);
}

static void join(void **state)
{
	assert_path(shfs_path_join("/a", "b"), "/a/b");
	assert_path(shfs_path_join("/a/", "b"), "/a/b");
	assert_path(shfs_path_join("/a///", "b/c"), "/a/b/c");
	assert_path(shfs_path_join("/", "b"), "/b");
	assert_path(shfs_path_join("a", "b"), "a/b");
	assert_path(shfs_path_join("/a", "/b"), "/b");
	assert_path(shfs_path_join("/a", ""), "/a/");
}

static void absolute_is_normal(void **state)
{
	static const char *const cases[][2] = {
		{ "/", "/" },
		{ "//", "/" },
		{ "/.", "/" },
		{ "/..", "/" },
		{ "/../../a", "/a" },
		{ "/a/../..", "/" },
		{ "/a//b/./c/", "/a/b/c" },
		{ "/a/b/../c", "/a/c" },
		{ "/a/b/../../c/..", "/" },
		{ "/...", "/..." },
		{ "/..a/.b", "/..a/.b" },
		{ "/a/..b", "/a/..b" },
		{ "/a/long-name/../b", "/a/b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_path(shfs_path_absolute(cases[i][0]), cases[i][1]);
}

/* The directory as the user sees it, through a link, where $PWD names it. */
static void absolute_from_here(void **state)
{
	const char *dir = shfs_unit_tmpdir();
	_cleanup_free_ char *real = shfs_path_join(dir, "real"),
			    *link = shfs_path_join(dir, "link"), *seen = NULL,
			    *expected = NULL;

	assert_int_equal(mkdir(real, 0700), 0);
	assert_int_equal(symlink("real", link), 0);
	assert_int_equal(chdir(link), 0);
	setenv("PWD", link, 1);
	expected = shfs_path_join(link, "x/y");
	assert_path(shfs_path_absolute("x/./z/../y"), expected);
	assert_path(shfs_path_absolute(""), link);
	assert_path(shfs_path_absolute("."), link);

	/* $PWD names another directory, or is not absolute */
	setenv("PWD", dir, 1);
	free(expected);
	expected = realpath(real, NULL);
	assert_path(shfs_path_absolute("."), expected);
	setenv("PWD", ".", 1);
	assert_path(shfs_path_absolute("."), expected);
	unsetenv("PWD");
	assert_path(shfs_path_absolute("."), expected);
	assert_int_equal(chdir("/"), 0);
}

static void below(void **state)
{
	assert_true(shfs_path_is_below("/a/b", "/a"));
	assert_true(shfs_path_is_below("/a", "/a"));
	assert_true(shfs_path_is_below("/a/b", "/a/"));
	assert_true(shfs_path_is_below("/a", "/"));
	assert_true(shfs_path_is_below("/", "/"));
	assert_false(shfs_path_is_below("/ab", "/a"));
	assert_false(shfs_path_is_below("/", "/a"));
	assert_false(shfs_path_is_below("/a", "/a/b"));
	assert_string_equal(shfs_path_relative("/a/b/c", "/a"), "b/c");
	assert_string_equal(shfs_path_relative("/a", "/a"), "");
	assert_string_equal(shfs_path_relative("/a/b", "/"), "a/b");
	assert_string_equal(shfs_path_relative("/", "/"), "");
	assert_null(shfs_path_relative("/abc", "/ab"));
}

static void store_is_where_the_user_says(void **state)
{
	setenv("HOME", "/home/u", 1);
	unsetenv("SHFS_STORE");
	unsetenv("XDG_DATA_HOME");
	assert_path(shfs_path_store(NULL), "/home/u/.local/share/shfs");
	setenv("XDG_DATA_HOME", "relative", 1); /* does not count */
	assert_path(shfs_path_store(NULL), "/home/u/.local/share/shfs");
	setenv("XDG_DATA_HOME", "/data/", 1);
	assert_path(shfs_path_store(NULL), "/data/shfs");
	setenv("SHFS_STORE", "", 1);
	assert_path(shfs_path_store(NULL), "/data/shfs");
	setenv("SHFS_STORE", "/s/../store/", 1);
	assert_path(shfs_path_store(NULL), "/store");
	assert_path(shfs_path_store("/mine"), "/mine");
}

/* Where the variable does not help there is the usual place, or none. */
static void assert_no_runtime(void)
{
	_cleanup_free_ char *path = shfs_path_runtime();
	char usual[40];

	snprintf(usual, sizeof(usual), "/run/user/%u/shfs", (unsigned)geteuid());
	if (path)
		assert_string_equal(path, usual);
}

static void config_and_runtime(void **state)
{
	_cleanup_free_ char *expected = NULL;
	const char *dir;

	setenv("HOME", "/home/u", 1);
	unsetenv("XDG_CONFIG_HOME");
	assert_path(shfs_path_config(), "/home/u/.config/shfs/config.ini");
	setenv("XDG_CONFIG_HOME", "/c", 1);
	assert_path(shfs_path_config(), "/c/shfs/config.ini");
	unsetenv("XDG_RUNTIME_DIR");
	assert_no_runtime();
	setenv("XDG_RUNTIME_DIR", "run", 1);
	assert_no_runtime();
	dir = shfs_unit_tmpdir();
	expected = shfs_path_join(dir, "shfs");
	setenv("XDG_RUNTIME_DIR", dir, 1);
	assert_path(shfs_path_runtime(), expected);
	/* what others could put there is not ours */
	assert_int_equal(chmod(dir, 0770), 0);
	assert_no_runtime();
	assert_int_equal(chmod(dir, 0700), 0);
	setenv("XDG_RUNTIME_DIR", geteuid() ? "/" : "/proc/self/fd/nothing", 1);
	assert_no_runtime();
}

/* Without a usable $HOME there is the password database. */
static void home_of_the_user(void **state)
{
	_cleanup_free_ char *path = NULL;

	unsetenv("SHFS_STORE");
	unsetenv("XDG_DATA_HOME");
	setenv("HOME", "nowhere", 1);
	path = shfs_path_store(NULL);
	assert_non_null(path);
	assert_int_equal(path[0], '/');
	assert_non_null(strstr(path, "/.local/share/shfs"));
}

static void installed_says_what_is_not_there(void **state)
{
	errno = 0;
	assert_null(shfs_path_installed("libexec", "no-such-file"));
	assert_int_equal(errno, ENOENT);
	errno = 0;
	assert_null(shfs_path_installed("no-such-kind", "shfs-fuse"));
	assert_int_equal(errno, ENOENT);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(join),
		cmocka_unit_test(absolute_is_normal),
		cmocka_unit_test(absolute_from_here),
		cmocka_unit_test(below),
		cmocka_unit_test(store_is_where_the_user_says),
		cmocka_unit_test(config_and_runtime),
		cmocka_unit_test(home_of_the_user),
		cmocka_unit_test(installed_says_what_is_not_there),
	};

	return shfs_unit_main(tests, argc, argv);
}
