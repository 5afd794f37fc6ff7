/* SPDX-License-Identifier: MIT */
/*
 * lock.h - locks among the processes of one user on one host.
 *
 * A lock is a name in the abstract namespace of UNIX sockets (unix(7)): it lies on no
 * file system, whose locks may not be trusted (NFS), and it is gone with its holder.
 * Another user could take the name first: a lock saves from doing a thing twice at once,
 * and what must not be wrong is right without it.
 */
#pragma once

#include "common/util.h"

/*
 * Takes the lock of that name (up to 80 bytes), waiting for it at most so long. Returns
 * an fd, which is the lock: until it, and each copy that a child has, is closed.
 * -EADDRINUSE: somebody else holds it.
 */
_must_check_ int shfs_lock_take(const char *name, int wait_ms);
