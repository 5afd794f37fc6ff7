/* SPDX-License-Identifier: MIT */
/*
 * child.h - programs that a command runs for itself, as other commands of shfs.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Starts a program, found in PATH if file has no slash; it reads nothing, and if quiet
 * its standard output goes nowhere. -1, errno: it cannot be started. */
pid_t shfs_child_start(const char *file, const char *const *argv, bool quiet);

/* Waits for its end: its exit status; SHFS_EXIT_FAILURE if a signal ended it. */
int shfs_child_wait(pid_t pid);
