/* SPDX-License-Identifier: MIT */
/*
 * inside.h - runs a command in a layer.
 *
 * The command is in a user and a mount namespace of its own, with its own ids and without
 * privileges. There, an overlay covers the project, /tmp, /var/tmp and the user's caches:
 * what is written goes to the layer. All else is read-only. The project's overlay is
 * mounted by shfs, which records into the store of the layer.
 *
 * It is no wall against a program that means harm: sockets, other processes of the user
 * and the network (unless no_net) are what they are.
 */
#pragma once

#include "query/try/layer.h"

struct shfs_inside {
	struct shfs_layer *layer; /* locked */
	const char *config;       /* the configuration file that was named; NULL */
	char *const *argv;        /* NULL: the user's shell */
	bool no_net;
};

/*
 * Runs it, with this process's streams and terminal; what it leaves in the background is
 * ended. Signals to this process are passed on. *status: as of waitpid(2). An exit code
 * after a message, if it could not begin.
 */
_must_check_ int shfs_inside_run(const struct shfs_inside *inside, int *status);
