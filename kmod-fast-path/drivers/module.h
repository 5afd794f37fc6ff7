/* SPDX-License-Identifier: MIT */
/* driver-module.h - the parts of driver-module.c to each other. */
#pragma once

/*
 * Tells the module what is mounted below the root now: how many; -E2BIG: more than it
 * takes, the first of them are known. mountinfo: /proc/self/mountinfo, open.
 */
int shfs_module_mounts(int device, int root, int mountinfo);
