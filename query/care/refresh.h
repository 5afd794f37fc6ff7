/* SPDX-License-Identifier: MIT */
/*
 * refresh.h - a process beside a server that may change nothing: it has the mounts flush,
 * and takes what is new into the index, as each query does. It ends with the server.
 *
 * The server asks it by a byte, and it answers by one.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

struct shfs_refresher {
	int ask, answer;  /* pipes; -1: there is no such process */
	bool is_waiting;  /* for an answer, to a question of: */
	int64_t asked_ns; /* CLOCK_REALTIME */
	int64_t asked_monotonic_ns;
	int64_t fresh_ns;  /* all that was done before is in the index (CLOCK_REALTIME) */
	int64_t looked_ns; /* when that was asked for (CLOCK_MONOTONIC) */
};

/* The refresher calls these as it begins and ends; each may be NULL. */
struct shfs_refresher_duties {
	void (*begin)(void *closure);
	void (*end)(void *closure); /* the server has ended, or died */
	void *closure;
};

/* Starts the process. Called before an index is opened, and before there are threads.
 * duties may be NULL. */
_must_check_ int shfs_refresher_start(struct shfs_refresher *refresher,
                                      const char *store_path,
                                      const struct shfs_refresher_duties *duties);

/*
 * Has all that was done until now be in the index, and waits for that at most so long.
 * whole: however much it is; else, as a query does, for 0.2 s. -ETIMEDOUT; -EPIPE: the
 * process has ended; or why it failed.
 */
_must_check_ int shfs_refresher_ask(struct shfs_refresher *refresher, bool whole,
                                    int wait_ms);

/* Waits for the answer to the last question: 0 also if there is none. Errors likewise. */
_must_check_ int shfs_refresher_await(struct shfs_refresher *refresher, int wait_ms);
