/* SPDX-License-Identifier: MIT */
/*
 * beside.h - a process beside a server that is asked through one pipe, and answers
 * through another. Its reads end when the server does.
 */
#pragma once

#include "common/util.h"

#include <sys/types.h>

/* The ends of the two pipes, in the server or in the process beside it. */
struct shfs_beside {
	int questions, answers;
};

/* Forks: 0 in the process beside, its pid in the server, or -errno. The caller owns the
 * ends, which are close-on-exec, and -1 after an error. Called before an index is opened,
 * and before there are threads. */
_must_check_ pid_t shfs_beside_fork(struct shfs_beside *ends);
