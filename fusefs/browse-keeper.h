/* SPDX-License-Identifier: MIT */
/*
 * browse-keeper.h - the keeper: a process beside the one of a mount that runs shfs-browse
 * of the same project, from when it is first asked until the mount ends.
 *
 * The process of the mount is under a filter, and reads nothing of the past. The keeper
 * is not: it reads nothing but the bytes that it is sent (operations/invented.h). When
 * the process of the mount dies, it ends what it has begun, and the one that takes over
 * starts another keeper.
 */
#pragma once

#include "common/util.h"

#include <sys/types.h>

/*
 * Starts the keeper for the project at root; only while there is one thread. store is the
 * path of the store. *place (malloc'ed) is where it will have shfs-browse mounted, *fd
 * the socket to it, *pid its process. -ENOTDIR: there is no directory of this user's for
 * that outside of the project. -errno.
 */
_must_check_ int shfs_browse_keeper_start(const char *store, const char *root,
                                          char **place, int *fd, pid_t *pid);
/* Waits until it has ended, after the socket was closed. pid 0 is fine. */
void shfs_browse_keeper_end(pid_t pid);
