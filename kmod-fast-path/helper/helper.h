/* SPDX-License-Identifier: MIT */
/*
 * helper.h - shfs-helper: takes connections, and starts a process for each.
 */
#pragma once

#include "kmod-fast-path/drivers/driver.h"

#define SHFS_HELPER_USER_MAX  16  /* connections of one user; no limit for root */
#define SHFS_HELPER_TOTAL_MAX 256 /* connections of all users */

/* The main function, with these drivers, the best first. */
int shfs_helper_main(int argc, char **argv, const struct shfs_driver_ops *const *drivers);
