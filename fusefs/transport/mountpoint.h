/* SPDX-License-Identifier: MIT */
/*
 * mountpoint.h - puts the file system over its directory, and takes it away.
 *
 * Functions that fail have written one line that says what to do to message, and return
 * an exit code.
 */
#pragma once

#include "common/buf.h"
#include "common/exit.h"

#include <fuse3/fuse_lowlevel.h>
#include <stdbool.h>
#include <sys/types.h>

/* Is there a mount of ours at exactly this path? *dev: its device. */
bool shfs_mountpoint_is_ours(const char *path, dev_t *dev);

/* Where the mount of this device is now: a directory above it may have been renamed.
 * malloc'ed; NULL: nowhere. */
char *shfs_mountpoint_of(dev_t dev);

/* Once the kernel has ended the connection: is the mount of this device left, dead? So it
 * is where root cut the connection (/sys/fs/fuse), or umount -f that found it busy. */
bool shfs_mountpoint_is_dead(dev_t dev);

/*
 * Taken before the check and held until the mount is there, so that of two mounts at once
 * one sees the other: an fd to close. Negative: somebody has kept it for seconds; go on
 * without it.
 */
int shfs_mountpoint_lock(int root_fd);

/* Can a FUSE file system be mounted here at all, on this directory? */
_must_check_ int shfs_mountpoint_check(const char *path, struct shfs_buf *message);

_must_check_ int shfs_mountpoint_mount(struct fuse_session *session, const char *path,
                                       struct shfs_buf *message);
