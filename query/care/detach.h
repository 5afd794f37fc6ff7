/* SPDX-License-Identifier: MIT */
/* detach.h - taking a mount away, as the kernel or fusermount3 lets this user. */
#pragma once

#include "common/buf.h"

#include <stdbool.h>

/*
 * lazy: it is out of sight at once, and lives on until the last one has left it. 0;
 * -EBUSY; -ENOENT: fusermount3 is not installed; -EIO: it failed, and what it said is in
 * *said.
 */
_must_check_ int shfs_detach(const char *dir, bool lazy, struct shfs_buf *said);

/* Tells of such an error. shown: the directory, escaped. Returns an exit code. */
int shfs_fail_detach(const char *shown, int error, const struct shfs_buf *said);
