/* SPDX-License-Identifier: MIT */
/*
 * mount-guardian.h - the guardian of a mount: when the server dies, it takes over, or
 * unmounts and mounts again.
 */
#pragma once

#include "common/util.h"

struct shfs_fs;

/*
 * Starts a guardian (recording/guardian.h). If this process dies, and it cannot take
 * over, it unmounts, so that the directory does not fail with ENOTCONN, and mounts again
 * (again.h). Called while there is one thread. -errno. Returns 1 in a guardian that takes
 * over: it is to serve the mount on fs.device, with the state in fs.heir and the open
 * fds.
 */
_must_check_ int shfs_mountpoint_guard(struct shfs_fs *fs);
/* Tells the guardian, once we have mounted, which mount is ours. */
void shfs_mountpoint_guarded(void);
/* Asks the guardian to detach the mount now; open files stay usable. */
void shfs_mountpoint_detach(void);
