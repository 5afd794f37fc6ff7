/* SPDX-License-Identifier: MIT */
/*
 * whole.h - runs a command with all of the tree of files recorded, not a project alone.
 *
 * The command sees a mount of shfs over "/" in a mount namespace of its own, with its own
 * ids and, of a user, without privileges. As they are stay /proc, /sys, /dev and /run,
 * the store, and projects that are mounted already, which go on recording themselves.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <stddef.h>

struct shfs_redactor;

struct shfs_whole {
	const char *store;     /* its path, absolute, without links; it exists */
	const char *config;    /* the configuration file that was named; NULL */
	char *const *projects; /* whose contents are archived; absolute */
	size_t n_projects;
	char *const *mounted; /* mounts of shfs that stay; absolute */
	size_t n_mounted;
	bool bundle;                    /* the contents of all files are archived */
	char *const *argv;              /* of the command */
	struct shfs_redactor *redactor; /* of its text; NULL: nothing is a secret */
};

/*
 * Runs it, with this process's streams and terminal. Signals to this process are passed
 * on. What it leaves in the background goes on, and is recorded. *status: as of
 * waitpid(2). An exit code after a message, if it could not begin.
 */
_must_check_ int shfs_whole_run(const struct shfs_whole *whole, int *status);
