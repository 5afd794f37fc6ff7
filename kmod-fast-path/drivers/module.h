/* SPDX-License-Identifier: MIT */
/* module.h - the parts of the module driver to each other. */
#pragma once

/*
 * Passes the mounts below the root to the module, and returns their number; -E2BIG: there
 * are more than it takes, and it has the first of them. mountinfo: /proc/self/mountinfo,
 * open.
 */
int shfs_module_mounts(int device, int root, int mountinfo);
