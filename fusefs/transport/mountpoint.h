/* SPDX-License-Identifier: MIT */
/*
 * mountpoint.h - mounts the file system over its directory, and unmounts it.
 *
 * A function that fails has written one line to message that says what to do, and returns
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

/* Returns the present path of the mount of this device (a directory above may have been
 * renamed), malloc'ed; NULL: it is not mounted. */
char *shfs_mountpoint_of(dev_t dev);

/* Is the mount of this device left dead, after the kernel has ended the connection? It is
 * if root has cut the connection (/sys/fs/fuse), or umount -f found the mount busy. */
bool shfs_mountpoint_is_dead(dev_t dev);

/*
 * Takes the lock of the mount point: returns an fd to close. It is taken before the check
 * and held until it is mounted, so that one of two concurrent mounts finds the other.
 * Negative: another process has held it for seconds; go on without it.
 */
int shfs_mountpoint_lock(int root_fd);

/* Checks whether a FUSE file system can be mounted on this machine and directory. */
_must_check_ int shfs_mountpoint_check(const char *path, struct shfs_buf *message);

_must_check_ int shfs_mountpoint_mount(struct fuse_session *session, const char *path,
                                       struct shfs_buf *message);

/* Removes the mount at this path: it is hidden at once, and ends when it is not used any
 * more. Runs fusermount3 where this user may not do it alone. */
void shfs_mountpoint_unmount_lazily(const char *path);
