/* SPDX-License-Identifier: MIT */
/*
 * ended.h - how a process ended, and what it had used by then, in all programs that it
 * executed: known where it was recorded without a mount, by a driver that is told.
 */
#pragma once

#include "query/base/model.h"

struct shfs_ended {
	bool known;
	int64_t status; /* as a shell tells it: 128 and the signal */
	int64_t user_us, system_us, max_rss_kib;
};

/* process_id: of any program that the process executed. */
_must_check_ int shfs_ended_load(struct shfs_index *index, int64_t process_id,
                                 struct shfs_ended *out);
/* Sets out[i] for each of the processes of a command. */
_must_check_ int shfs_ended_load_all(struct shfs_index *index, int64_t command_id,
                                     const struct shfs_process_row *processes, size_t n,
                                     struct shfs_ended *out);
