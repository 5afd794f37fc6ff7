/* SPDX-License-Identifier: MIT */
/* Tests of store/capture/allowance.c. */
#include "tests/unit/unit.h"

#include "common/clock.h"
#include "store/capture/allowance.h"

#include <unistd.h>

#define HOUR  (3600 * SHFS_NSEC_PER_SEC)
#define OTHER 4000000u

static void comes_back_within_a_day(void **state)
{
	struct shfs_allowance *a;

	assert_int_equal(shfs_allowance_new(2400, &a), 0);
	assert_true(shfs_allowance_is_left(a, OTHER, HOUR));
	shfs_allowance_use(a, OTHER, 2399, HOUR);
	assert_true(shfs_allowance_is_left(a, OTHER, HOUR));
	shfs_allowance_use(a, OTHER, 1001, HOUR);
	assert_false(shfs_allowance_is_left(a, OTHER, HOUR));
	assert_false(shfs_allowance_is_left(a, OTHER, 11 * HOUR));
	assert_true(shfs_allowance_is_left(a, OTHER, 12 * HOUR));
	/* and no more than all of it, however long that was */
	assert_true(shfs_allowance_is_left(a, OTHER, 1000 * HOUR));
	shfs_allowance_use(a, OTHER, 2400, 1000 * HOUR);
	assert_false(shfs_allowance_is_left(a, OTHER, 1000 * HOUR));
	shfs_allowance_free(a);
}

/* Each has his own; those who come when the table is full share one. */
static void is_of_each_user(void **state)
{
	struct shfs_allowance *a;

	assert_int_equal(shfs_allowance_new(100, &a), 0);
	for (unsigned i = 0; i < 300; i++) {
		assert_true(shfs_allowance_is_left(a, OTHER + i, HOUR));
		shfs_allowance_use(a, OTHER + i, i < 200 ? 100 : 1, HOUR);
		assert_int_equal(shfs_allowance_is_left(a, OTHER + i, HOUR), i >= 200);
	}
	shfs_allowance_use(a, OTHER + 10000, 99, HOUR);
	assert_false(shfs_allowance_is_left(a, OTHER + 20000, HOUR));
	shfs_allowance_free(a);
}

static void owner_and_root_have_no_bound(void **state)
{
	const uid_t free_ones[] = { 0, geteuid() };
	struct shfs_allowance *a;

	assert_int_equal(shfs_allowance_new(0, &a), 0);
	for (size_t i = 0; i < ARRAY_SIZE(free_ones); i++) {
		shfs_allowance_use(a, free_ones[i], 1 << 20, HOUR);
		assert_true(shfs_allowance_is_left(a, free_ones[i], HOUR));
	}
	assert_false(shfs_allowance_is_left(a, OTHER, HOUR));
	shfs_allowance_free(a);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(comes_back_within_a_day),
	cmocka_unit_test(is_of_each_user),
	cmocka_unit_test(owner_and_root_have_no_bound),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
