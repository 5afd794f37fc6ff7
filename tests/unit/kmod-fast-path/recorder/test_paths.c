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

	shfs_paths_set(n, "a", file(1), 0);
	shfs_paths_set(n, "b", file(2), 0);
	shfs_paths_moved(n, "a", "b", false);
	assert_leads(n, "a", 0);
	assert_leads(n, "b", 1);
	shfs_paths_moved(n, "unknown", "b", false);
	assert_leads(n, "b", 0);
	shfs_paths_set(n, "c", file(3), 0);
	shfs_paths_gone(n, "c", false);
	assert_leads(n, "c", 0);
	shfs_paths_free(n);
}

static void several_names(void **state)
{
	struct shfs_paths *n = shfs_paths_new();

	shfs_paths_set(n, "a", file(1), 0);
	assert_null(shfs_paths_other(n, file(1), "a"));
	assert_string_equal(shfs_paths_other(n, file(1), "x"), "a");
	shfs_paths_set(n, "b", file(1), 0);
	assert_null(shfs_paths_other(n, file(1), "a"));
	shfs_paths_gone(n, "a", false);
	assert_string_equal(shfs_paths_other(n, file(1), "a"), "b");
	shfs_paths_set(n, "b", file(2), 0);
	assert_null(shfs_paths_other(n, file(1), "a"));
	shfs_paths_free(n);
}

/* ns 0: it has a name, or nothing is known. */
static void assert_lost(const struct shfs_paths *n, uint64_t ino, int64_t ns)
{
	const struct shfs_paths_lost *lost = shfs_paths_lost(n, file(ino));

	assert_int_equal(lost ? lost->time.real_ns : 0, ns);
}

/* A file keeps its generation when it is renamed; the next one with its inode has
 * another. */
static void generations(void **state)
{
	struct shfs_paths *n = shfs_paths_new();

	shfs_paths_set(n, "a", file(1), 7);
	shfs_paths_set(n, "a", file(1), 0);
	shfs_paths_moved(n, "a", "b", false);
	shfs_paths_gone(n, "b", false);
	assert_int_equal(shfs_paths_lost(n, file(1))->generation, 7);
	shfs_paths_set(n, "c", file(1), 8);
	shfs_paths_gone(n, "c", false);
	assert_int_equal(shfs_paths_lost(n, file(1))->generation, 8);
	shfs_paths_free(n);
}

static void lost(void **state)
{
	struct shfs_paths *n = shfs_paths_new();

	for (uint64_t ino = 1; ino <= 4; ino++)
		shfs_paths_set(n, (char[]){ (char)('a' + ino - 1), 0 }, file(ino), 0);
	shfs_paths_set(n, "dir/f", file(5), 0);
	shfs_paths_set(n, "a link", file(4), 0);
	shfs_paths_at(n, (struct shfs_time){ .real_ns = 10 });
	shfs_paths_moved(n, "a", "b", false);
	shfs_paths_exchanged(n, "b", "c");
	shfs_paths_gone(n, "d", false);
	shfs_paths_moved(n, "dir", "other", true);
	for (uint64_t ino = 1; ino <= 6; ino++)
		assert_lost(n, ino, ino == 2 ? 10 : 0);
	shfs_paths_at(n, (struct shfs_time){ .real_ns = 20 });
	shfs_paths_gone(n, "a link", false);
	shfs_paths_gone(n, "other", true);
	assert_lost(n, 4, 20);
	assert_string_equal(shfs_paths_lost(n, file(4))->path, "a link");
	assert_lost(n, 5, 20);
	/* its number is another's */
	shfs_paths_set(n, "new", file(2), 0);
	assert_lost(n, 2, 0);
	shfs_paths_forget(n);
	assert_lost(n, 4, 0);
	for (uint64_t ino = 100; ino < 20000; ino++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", (int)ino);
		shfs_paths_set(n, name, file(ino), 0);
	}
	assert_lost(n, 100, 0); /* not told any more is not lost */
	shfs_paths_free(n);
}

static void directories(void **state)
{
	struct shfs_paths *n = shfs_paths_new();

	shfs_paths_set(n, "d/f", file(1), 0);
	shfs_paths_set(n, "d/e/f", file(2), 0);
	shfs_paths_set(n, "dd/f", file(3), 0);
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
		shfs_paths_set(n, path, file(i), 0);
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
		cmocka_unit_test(renamed_and_removed), cmocka_unit_test(several_names),
		cmocka_unit_test(generations),         cmocka_unit_test(lost),
		cmocka_unit_test(directories),         cmocka_unit_test(no_more_than_fit),
	};

	return shfs_unit_main(tests, argc, argv);
}
