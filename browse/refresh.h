/* SPDX-License-Identifier: MIT */
/*
 * refresh.h - a process beside shfs-browse that may write: it has the mounts flush, and
 * takes what is new into the index, as each query does. When the file system's process
 * has died, it unmounts.
 *
 * The server asks it by a byte, and it answers by one.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <sys/types.h>

struct shfs_refresher {
	int ask, answer;  /* pipes; -1: there is no such process */
	bool is_waiting;  /* for an answer, to a question of: */
	int64_t asked_ns; /* CLOCK_REALTIME */
	int64_t asked_monotonic_ns;
	int64_t fresh_ns;  /* all that was done before is in the index (CLOCK_REALTIME) */
	int64_t looked_ns; /* when that was asked for (CLOCK_MONOTONIC) */
};

/* Starts the process, which closes the fds given. mountpoint, device: of the mount. */
_must_check_ int shfs_refresher_start(struct shfs_refresher *refresher,
                                      const char *store_path, const char *mountpoint,
                                      dev_t device, const int *closes, size_t n);

/*
 * Has all that was done until now be in the index, and waits for that at most so long.
 * whole: however much it is; else, as a query does, for 0.2 s. -ETIMEDOUT; -EPIPE: the
 * process has ended; or why it failed.
 */
_must_check_ int shfs_refresher_ask(struct shfs_refresher *refresher, bool whole,
                                    int wait_ms);
