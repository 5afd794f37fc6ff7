/* SPDX-License-Identifier: MIT */
/*
 * libraries.h - the packages that a process of R has loaded, as far as its maps tell: a
 * package with compiled code has mapped LIB/NAME/libs/NAME.so. One of R code alone leaves
 * nothing there.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>

/* Is the path in a list of shfs_libraries_of? */
bool shfs_libraries_have(const struct shfs_buf *list, const char *path);

/* Adds the paths of such files, each ended by a NUL, of the process of shfs_proc_open;
 * without those of R itself, and those that were replaced since. */
_must_check_ int shfs_libraries_of(int procfd, struct shfs_buf *out);
