/* SPDX-License-Identifier: MIT */
/*
 * driver_fake.h - a driver that tells what a script says, so that the helper can be
 * tested on any kernel. The script is the file "script" in the directory that is watched;
 * lines that are added to it later are told then:
 *
 *   [N] TYPE UID PID PATH [PATH2]   an event, N times; TYPE: close, rename, link, unlink,
 *                                   fork, exec, exit, directory
 *   pinned UID PID PATH             a CLOSE with PATH's content
 *   early UID PID PATH              the same, of a file that was opened at the beginning:
 *                                   "early" in the directory "locked"
 *   exists UID PID PATH             a CHANGE of "x", if there is such a file (not below
 *                                   the directory: by its whole name)
 *   broken                          an event whose size cannot be
 *   end | crash | hang              the driver fails; dies; does not return
 */
#pragma once

#include "kmod-fast-path/drivers/driver.h"

extern const struct shfs_driver_ops shfs_driver_fake;   /* "fake" */
extern const struct shfs_driver_ops shfs_driver_unable; /* "unable": never works */

extern const struct shfs_driver_ops *const shfs_drivers_fake[]; /* unable, fake */
