/* SPDX-License-Identifier: MIT */
/* detach.h - removes a mount, with umount2 or fusermount3, as this user may. */
#pragma once

#include "common/buf.h"

#include <stdbool.h>

/*
 * lazy: the mount is hidden at once, and ends when the last process has left it. 0;
 * -EBUSY; -ENOENT: fusermount3 is not installed; -EIO: it failed, and *said has its
 * message.
 */
_must_check_ int shfs_detach(const char *dir, bool lazy, struct shfs_buf *said);

/* Prints such an error. shown: the directory, escaped. Returns an exit code. */
int shfs_fail_detach(const char *shown, int error, const struct shfs_buf *said);
