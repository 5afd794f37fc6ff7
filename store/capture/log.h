/* SPDX-License-Identifier: MIT */
/*
 * log.h - what a recording process has to say once nobody looks at its terminal.
 *
 * Lines go to log/<name>-<pid>.log of the store, which is made with the first of them, or
 * to standard error in the foreground; so do those of common/debug.h. Thread-safe.
 */
#pragma once

#include "store/store.h"

/* name: "fuse" for shfs-fuse. fd: a file that is open already (standard error), or -1.
 * Name and store must outlive it. */
void shfs_log_open(const struct shfs_store *store, const char *name, int fd);
void shfs_log(const char *fmt, ...) _printf_(1, 2);
