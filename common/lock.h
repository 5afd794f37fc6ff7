/* SPDX-License-Identifier: MIT */
/*
 * lock.h - locks among the processes of one user on one host.
 *
 * A lock is a name in the abstract namespace of UNIX sockets (unix(7)): it needs no file
 * system, whose locks may be unreliable (NFS), and it ends with its holder. Another user
 * could take the name first: so a lock only prevents double work, and correctness does
 * not depend on it.
 */
#pragma once

#include "common/util.h"

/*
 * Takes the lock of that name (up to 80 bytes), and waits for it up to wait_ms. Returns
 * an fd: the lock is held until it, and each copy of it in a child, is closed.
 * -EADDRINUSE: another process holds it.
 */
_must_check_ int shfs_lock_take(const char *name, int wait_ms);
