/* SPDX-License-Identifier: MIT */
/*
 * log.h - the log of a recording process, which has no terminal.
 *
 * Lines go to log/<name>-<pid>.log of the store, which is made with the first of them, or
 * to standard error in the foreground; so do those of common/debug.h. Thread-safe.
 */
#pragma once

#include "store/store.h"

/* Sets the log up. name: "fuse" for shfs-fuse. fd: an open file (standard error), or -1.
 * name and store must outlive the log. */
void shfs_log_open(const struct shfs_store *store, const char *name, int fd);
void shfs_log(const char *fmt, ...) _printf_(1, 2);
