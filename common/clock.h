/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the two clocks of every record.
 *
 * real_ns is shown to users (only an attribute: it may jump). boot_ns (CLOCK_BOOTTIME)
 * never runs backwards within a boot, and compares with the start times in
 * /proc/PID/stat: so attribution uses only boot_ns.
 */
#pragma once

#include <stdint.h>
#include <sys/select.h> /* struct timeval */
#include <time.h>

#define SHFS_NSEC_PER_SEC 1000000000LL
/* By which the kernel's time of a file may lag behind the clock: a tick. */
#define SHFS_FILE_TIME_LAG_NS (SHFS_NSEC_PER_SEC / 100)

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

/*
 * Returns both clocks as records have them: in whole microseconds, rounded up, and with a
 * difference that changes only if the clocks do. So the real time is a few microseconds
 * late at most, and never early; the first one of a process may be later, if the thread
 * had to wait while it read the clocks.
 */
struct shfs_time shfs_time_now(void);

/* How far the clock is ahead of the other one. The reading that took the least time
 * counts, of several if the thread had to wait meanwhile. */
int64_t shfs_clock_distance_ns(clockid_t clock, clockid_t other);

/* Converts a time of a file. One that does not fit (before 1677, after 2262) becomes the
 * nearest that does. */
static inline int64_t shfs_time_ns(int64_t sec, int64_t nsec)
{
	int64_t ns;

	if (__builtin_mul_overflow(sec, SHFS_NSEC_PER_SEC, &ns) ||
	    __builtin_add_overflow(ns, nsec, &ns))
		return sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

static inline int64_t shfs_timespec_ns(struct timespec ts)
{
	return shfs_time_ns(ts.tv_sec, ts.tv_nsec);
}

static inline int64_t shfs_timeval_us(struct timeval tv)
{
	return (int64_t)tv.tv_sec * 1000000 + tv.tv_usec;
}

/* Converts back to a timespec; its nanoseconds are never negative. */
static inline struct timespec shfs_ns_timespec(int64_t ns)
{
	int64_t rest = ns % SHFS_NSEC_PER_SEC;

	return (struct timespec){ ns / SHFS_NSEC_PER_SEC - (rest < 0),
		                  rest + (rest < 0 ? SHFS_NSEC_PER_SEC : 0) };
}
