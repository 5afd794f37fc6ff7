/* SPDX-License-Identifier: MIT */
/* operations.h - the requests of the kernel, as libfuse calls them. */
#pragma once

#include "browse/browse.h"

#include <fuse3/fuse_lowlevel.h>

/* The user data of the session is a struct shfs_browse. */
extern const struct fuse_lowlevel_ops shfs_browse_operations;

/* Closes what is still open: the kernel need not say so when it is unmounted. */
void shfs_operations_end(void);
