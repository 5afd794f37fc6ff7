/* SPDX-License-Identifier: MIT */
/* reads.h - what a command read when it was run again, and not the first time. */
#pragma once

#include "query/rerun/rerun.h"

/* Paths, each as it was the first time; borrowed from the uses. */
struct shfs_rerun_paths {
	const char **list;
	size_t n, cap;
	size_t of_system; /* further ones, only counted (shfs_path_bookkeeping) */
};

struct shfs_rerun_reads {
	struct shfs_rerun_paths added, gone;
	struct shfs_uses then, now;
};

/* Takes into the index what was recorded of the runs. */
_must_check_ int shfs_rerun_take_in(struct shfs_rerun *rerun);

/* Compares the run of the step with what the command read then. 1; 0: the run was not
 * recorded, and out is empty; or a negative errno. */
_must_check_ int shfs_rerun_reads_load(const struct shfs_rerun *rerun,
                                       const struct shfs_rerun_step *step,
                                       struct shfs_rerun_reads *out);
void shfs_rerun_reads_clear(struct shfs_rerun_reads *reads);
#define _cleanup_reads_ _cleanup_(shfs_rerun_reads_clear)
