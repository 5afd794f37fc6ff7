/* SPDX-License-Identifier: MIT */
/*
 * unit.h - main of a unit test, and what tests share.
 *
 *   static const struct CMUnitTest tests[] = { cmocka_unit_test(test_one), ... };
 *
 *   int main(int argc, char **argv)
 *   {
 *           return shfs_unit_main(tests, argc, argv);
 *   }
 *
 * The program runs all of its tests; with --list it prints their names, one a line; names
 * as arguments (with * and ?) choose among them, and one that matches nothing is an
 * error.
 */
#pragma once

/* cmocka.h wants these four before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/*
 * Returns the exit status of the program: 0 all passed, 1 some failed, 2 no such test, 77
 * all that were chosen skipped themselves.
 */
#define shfs_unit_main(tests, argc, argv)                                                \
	shfs_unit_run((tests), sizeof(tests) / sizeof((tests)[0]), (argc), (argv))

int shfs_unit_run(const struct CMUnitTest *tests, size_t n, int argc, char **argv);

/*
 * A new, empty directory of mode 0700 (below $TMPDIR, else /tmp), removed with all that
 * is in it when the program ends. Borrowed: valid until then. Fails the test if it cannot
 * be made.
 */
const char *shfs_unit_tmpdir(void);

/* The lowest that is free: the same again where nothing was left open. */
int shfs_unit_free_fd(void);

/* Two ends of a connection, by packets. */
void shfs_unit_socketpair(int pair[static 2]);

/* Skips the running test and says why; never skip() alone. */
#define shfs_unit_skip(why)                                                              \
	do {                                                                             \
		shfs_unit_skipped(why);                                                  \
		skip();                                                                  \
	} while (0)

void shfs_unit_skipped(const char *why);
