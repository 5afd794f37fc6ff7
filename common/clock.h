/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the two clocks of every record.
 *
 * real_ns is what people read (an attribute: it may jump); boot_ns (CLOCK_BOOTTIME) never
 * runs backwards within a boot and is comparable with the start times in /proc/PID/stat,
 * so attribution uses it alone.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#define SHFS_NSEC_PER_SEC 1000000000LL

struct shfs_time {
	int64_t real_ns;  /* since 1970, CLOCK_REALTIME */
	uint64_t boot_ns; /* since boot, CLOCK_BOOTTIME; 0: unknown */
};

static inline int64_t shfs_clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * SHFS_NSEC_PER_SEC + ts.tv_nsec;
}

static inline struct shfs_time shfs_time_now(void)
{
	return (struct shfs_time){ shfs_clock_ns(CLOCK_REALTIME),
		                   shfs_clock_ns(CLOCK_BOOTTIME) };
}

static inline int64_t shfs_timespec_ns(struct timespec ts)
{
	return ts.tv_sec * SHFS_NSEC_PER_SEC + ts.tv_nsec;
}
