/* SPDX-License-Identifier: MIT */
/* shfs_time_now, with clocks of its own: a thread may have to wait between two readings.
 */
#include "tests/unit/unit.h"

#include "common/clock.h"

#include <stdlib.h>

#define MSEC 1000000LL

static int64_t boot_ns = 5 * SHFS_NSEC_PER_SEC, distance_ns = 1795773600123456789LL;
static int64_t wait_ns;
static int wait_before; /* wait so many readings later */

/* Instead of the C library's. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	int64_t ns;

	boot_ns += 30;
	if (wait_before && !--wait_before)
		boot_ns += wait_ns;
	ns = id == CLOCK_REALTIME ? boot_ns + distance_ns : boot_ns;
	*ts = (struct timespec){ ns / SHFS_NSEC_PER_SEC, ns % SHFS_NSEC_PER_SEC };
	return 0;
}

/* Is the time that of some moment since then, and a few microseconds late at most? */
static void check_time(int64_t since_ns)
{
	struct shfs_time t = shfs_time_now();
	int64_t late_ns = t.real_ns - (int64_t)t.boot_ns - distance_ns;

	assert_in_range(late_ns, 0, 3000);
	assert_in_range(t.boot_ns, since_ns, boot_ns + 1000);
}

static void test_waits(void **state)
{
	check_time(boot_ns);
	for (int i = 0; i < 10000; i++) {
		wait_before = i % 5;
		wait_ns = rand() % (i % 2 ? 4000 : 200 * MSEC);
		check_time(boot_ns);
		wait_before = 0;
	}
}

static void test_clock_that_is_set(void **state)
{
	static const int64_t by_ns[] = { 3600 * SHFS_NSEC_PER_SEC, -7 * SHFS_NSEC_PER_SEC,
		                         50 * MSEC, -50 * MSEC, 5000 };

	for (size_t i = 0; i < sizeof(by_ns) / sizeof(*by_ns); i++) {
		distance_ns += by_ns[i];
		check_time(boot_ns);
		check_time(boot_ns);
	}
}

static void test_distance(void **state)
{
	for (int i = 0; i < 1000; i++) {
		int64_t d;

		wait_before = i % 4;
		wait_ns = rand() % (200 * MSEC);
		d = shfs_clock_distance_ns(CLOCK_REALTIME, CLOCK_BOOTTIME);
		assert_in_range(d - distance_ns, 0, 3000);
		wait_before = 0;
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_clock_that_is_set),
		cmocka_unit_test(test_distance),
	};

	return shfs_unit_main(tests, argc, argv);
}
