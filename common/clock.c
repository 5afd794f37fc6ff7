/* SPDX-License-Identifier: MIT */
#include "common/clock.h"

#include <stdatomic.h>

#define USEC 1000

static int64_t whole(int64_t ns)
{
	int64_t rest = ns % USEC;

	return rest > 0 ? ns + USEC - rest : ns - rest;
}

struct shfs_time shfs_time_now(void)
{
	static _Atomic int64_t last_offset;
	/* The thread may have to wait between two of them, for as long as others run. */
	int64_t boot = shfs_clock_ns(CLOCK_BOOTTIME);
	int64_t real = shfs_clock_ns(CLOCK_REALTIME);
	int64_t end = shfs_clock_ns(CLOCK_BOOTTIME);
	int64_t offset = whole(real - boot);
	int64_t last = atomic_load_explicit(&last_offset, memory_order_relaxed);

	if (last >= real - end && last <= offset)
		offset = last;
	else
		atomic_store_explicit(&last_offset, offset, memory_order_relaxed);
	boot = whole(boot);
	return (struct shfs_time){ boot + offset, boot };
}

int64_t shfs_clock_distance_ns(clockid_t clock, clockid_t other)
{
	int64_t distance = 0, least = INT64_MAX;

	for (int i = 0; i < 8 && least > USEC; i++) {
		int64_t begin = shfs_clock_ns(other), now = shfs_clock_ns(clock);
		int64_t took = shfs_clock_ns(other) - begin;

		if (took < least) {
			least = took;
			distance = now - begin;
		}
	}
	return distance;
}
