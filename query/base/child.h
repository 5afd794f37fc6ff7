/* SPDX-License-Identifier: MIT */
/*
 * child.h - programs that a command runs for itself, as other commands of shfs.
 */
#pragma once

#include <sys/types.h>

enum shfs_child_says {
	SHFS_CHILD_ALL,
	SHFS_CHILD_MESSAGES, /* its standard output goes nowhere */
	SHFS_CHILD_NOTHING,  /* its standard error, too */
};

/* Starts a program, found in PATH if file has no slash; it reads nothing. -1, errno: it
 * cannot be started. */
pid_t shfs_child_start(const char *file, const char *const *argv,
                       enum shfs_child_says says);

/* Waits for its end: its exit status; SHFS_EXIT_FAILURE if a signal ended it. */
int shfs_child_wait(pid_t pid);
