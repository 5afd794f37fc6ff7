/* SPDX-License-Identifier: MIT */
/*
 * refresh.h - a process beside the server that may write: it has the mounts flush, and
 * takes what is new into the index, as each query does. It ends with the server.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>

struct shfs_web_refresher {
	int ask, answer; /* pipes */
	bool is_waiting; /* for an answer */
};

/* Starts the process. Called before an index is opened, and before there are threads. */
_must_check_ int shfs_web_refresher_start(struct shfs_web_refresher *refresher,
                                          const char *store_path);

/* Has all that was done until now be in the index, or goes on after wait_ms:
 * -ETIMEDOUT. */
_must_check_ int shfs_web_refresher_ask(struct shfs_web_refresher *refresher,
                                        int wait_ms);
