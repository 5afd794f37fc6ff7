/* SPDX-License-Identifier: MIT */
/*
 * own-mounts.h - the mounts of shfs that there are now: what happens there is recorded
 * by them, also where a command that is recorded has made them itself.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct shfs_own_mounts {
	int table_fd;         /* of the table of mounts, which says when it changes; -1 */
	struct shfs_buf dirs; /* absolute, each with a NUL */
	struct shfs_buf devs; /* uint64_t, as st_dev */
};

/* Begins as { .table_fd = -1 }. */
void shfs_own_mounts_clear(struct shfs_own_mounts *mounts);

/* Is a file of this path and device (0: unknown) on one of them? path: relative to "/".
 */
bool shfs_own_mounts_hold(struct shfs_own_mounts *mounts, const char *path, uint64_t dev);
