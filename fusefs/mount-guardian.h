/* SPDX-License-Identifier: MIT */
/*
 * mount-guardian.h - the guardian of a mount: when the daemon dies, it takes over, or
 * takes the mount away and makes it again.
 */
#pragma once

#include "common/util.h"

struct shfs_fs;

/*
 * Starts a guardian (recording/guardian.h) that also takes the mount away when this
 * process ends without having been unmounted, so that nobody is left with a directory
 * that answers ENOTCONN, and makes it again (again.h). While there is one thread. -errno.
 * 1: in the guardian, which is to serve the mount now: by fs.device, with what is in
 * fs.heir and is open.
 */
_must_check_ int shfs_mountpoint_guard(struct shfs_fs *fs);
/* Tells it which mount is ours: once it is there. */
void shfs_mountpoint_guarded(void);
/* Asks it to detach the mount now; files that are open stay usable. */
void shfs_mountpoint_detach(void);
