/* SPDX-License-Identifier: MIT */
/* Which file each name leads to, by what is told. */
#include "tests/unit/unit.h"

#include "kmod-fast-path/recorder/paths.h"

#include <stdio.h>

static struct shfs_paths_file file(uint64_t ino)
{
	return (struct shfs_paths_file){ .ino = ino };
}

static void assert_leads(const struct shfs_paths *n, const char *path, uint64_t ino)
{
	assert_int_equal(shfs_paths_find(n, path).ino, ino);
}

static void renamed_and_removed(void **state)
{
	struct shfs_paths *n = shfs_paths_new();

	shfs_paths_set(n, "a", file(1));
	shfs_paths_set(n, "b", file(2));
	shfs_paths_moved(n, "a", "b", false);
	assert_leads(n, "a", 0);
	assert_leads(n, "b", 1);
	shfs_paths_moved(n, "unknown", "b", false);
	assert_leads(n, "b", 0);
	shfs_paths_set(n, "c", file(3));
	shfs_paths_gone(n, "c", false);
	assert_leads(n, "c", 0);
	shfs_paths_free(n);
}

static void several_names(void **state)
{
	struct shfs_paths *n = shfs_paths_new();

	shfs_paths_set(n, "a", file(1));
	assert_null(shfs_paths_other(n, file(1), "a"));
	assert_string_equal(shfs_paths_other(n, file(1), "x"), "a");
	shfs_paths_set(n, "b", file(1));
	assert_null(shfs_paths_other(n, file(1), "a"));
	shfs_paths_gone(n, "a", false);
	assert_string_equal(shfs_paths_other(n, file(1), "a"), "b");
	shfs_paths_set(n, "b", file(2));
	assert_null(shfs_paths_other(n, file(1), "a"));
	shfs_paths_free(n);
}

static void directories(void **state)
{
	struct shfs_paths *n = shfs_paths_new();

	shfs_paths_set(n, "d/f", file(1));
	shfs_paths_set(n, "d/e/f", file(2));
	shfs_paths_set(n, "dd/f", file(3));
	shfs_paths_moved(n, "d", "g/h", true);
	assert_leads(n, "d/f", 0);
	assert_leads(n, "g/h/f", 1);
	assert_leads(n, "g/h/e/f", 2);
	assert_leads(n, "dd/f", 3);
	shfs_paths_exchanged(n, "g/h", "dd/f");
	assert_leads(n, "g/h", 3);
	assert_leads(n, "dd/f/f", 1);
	assert_leads(n, "dd/f/e/f", 2);
	shfs_paths_gone(n, "dd/f", true);
	assert_leads(n, "dd/f/f", 0);
	assert_leads(n, "g/h", 3);
	shfs_paths_forget(n);
	assert_leads(n, "g/h", 0);
	shfs_paths_free(n);
}

/* The oldest go, also while others move. */
static void no_more_than_fit(void **state)
{
	struct shfs_paths *n = shfs_paths_new();
	char path[32];

	for (unsigned i = 1; i <= 20000; i++) {
		snprintf(path, sizeof(path), "d/%u", i);
		shfs_paths_set(n, path, file(i));
	}
	assert_leads(n, "d/1", 0);
	assert_leads(n, "d/20000", 20000);
	shfs_paths_moved(n, "d", "e", true);
	assert_leads(n, "d/20000", 0);
	assert_leads(n, "e/20000", 20000);
	assert_leads(n, "e/3617", 3617);
	assert_leads(n, "e/3616", 0);
	shfs_paths_free(n);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(renamed_and_removed),
		cmocka_unit_test(several_names),
		cmocka_unit_test(directories),
		cmocka_unit_test(no_more_than_fit),
	};

	return shfs_unit_main(tests, argc, argv);
}
