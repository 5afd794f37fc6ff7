/* SPDX-License-Identifier: MIT */
/*
 * local.h - reaches files by their paths without asking a file system that may not
 * answer: another mount of shfs that asks us in turn, a server that is gone. Only file
 * systems of this machine are entered, and that of the recorded directory, which is
 * entered beneath its mount.
 */
#pragma once

#include "common/util.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/stat.h>

struct shfs_local {
	pthread_mutex_t lock; /* guards the list */
	struct local_mount {
		uint64_t id, dev;
		bool is_open; /* may be entered */
	} mounts[64];         /* that were met; a ring */
	unsigned n;
	const char *root;  /* the recorded directory */
	int root_fd;       /* beneath its mount; -1: it has none */
	uint64_t home_dev; /* its device */
};

/* root is absolute, without links. Both are borrowed. */
void shfs_local_init(struct shfs_local *local, const char *root, int root_fd);
void shfs_local_clear(struct shfs_local *local);

/*
 * Opens what is at the absolute, normalised path with O_PATH, through links. Sets *real
 * to its path without links, which the caller frees. -errno; -EXDEV: it is on a file
 * system that is not entered. Thread-safe.
 */
_must_check_ int shfs_local_open(struct shfs_local *local, const char *path, char **real);
