/* SPDX-License-Identifier: MIT */
/* Tests of the text of query/base/progress.c. */
#include "tests/unit/unit.h"

#include "query/base/progress.h"

#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static void assert_text(int seconds, uint64_t done, uint64_t all, const char *wanted)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_progress_text(&out, "pushing", seconds, done, all);
	assert_string_equal(out.data, wanted);
}

static void test_text(void **state)
{
	assert_text(12, 0, 0, "pushing, 12 s");
	assert_text(12, 5, 0, "pushing, 12 s");
	assert_text(1, 4 * MIB, 20 * MIB, "pushing, 1 s, 4.0 of 20.0 MiB");
	assert_text(4, 0, 20 * MIB, "pushing, 4 s, 0.0 of 20.0 MiB");
	assert_text(4, 4 * MIB, 20 * MIB,
	            "pushing, 4 s, 4.0 of 20.0 MiB, 1.0 MiB/s, 16 s left");
	assert_text(4, 20 * MIB, 20 * MIB, "pushing, 4 s, 20.0 of 20.0 MiB, 5.0 MiB/s");
	assert_text(10, MIB, 61 * MIB,
	            "pushing, 10 s, 1.0 of 61.0 MiB, 0.1 MiB/s, 10 min left");
	assert_text(100, 10 * MIB, 10240 * MIB,
	            "pushing, 100 s, 0.0 of 10.0 GiB, 0.1 MiB/s, 28 h left");
	/* more than was said: it grew meanwhile */
	assert_text(2, 3 * MIB, 2 * MIB, "pushing, 2 s, 3.0 of 2.0 MiB, 1.5 MiB/s");
}

/* Work at an even rate: what is done by then and what is left give the time that it will
 * have taken in all, whenever one asks. */
static void test_rest_of_even_work(void **state)
{
	unsigned int seed = 1;

	for (int i = 0; i < 2000; i++) {
		int whole = 3 + rand_r(&seed) % 90, at = 2 + rand_r(&seed) % (whole - 2);
		uint64_t each = 1 + (uint64_t)rand_r(&seed) % (64 * MIB);
		_cleanup_buf_ struct shfs_buf out = { 0 };
		const char *left;

		shfs_progress_text(&out, "x", at, each * (uint64_t)at,
		                   each * (uint64_t)whole);
		left = strstr(out.data, "MiB/s, ");
		if (at == whole) {
			assert_null(left);
			continue;
		}
		assert_non_null(left);
		assert_int_equal(atoi(left + strlen("MiB/s, ")), whole - at);
		assert_non_null(strstr(left, " s left"));
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_rest_of_even_work),
	};

	return shfs_unit_main(tests, argc, argv);
}
