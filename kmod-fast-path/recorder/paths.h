/* SPDX-License-Identifier: MIT */
/*
 * paths.h - the file that a name led to, according to the events so far. The file system
 * can only say what the name leads to now.
 *
 * Of the last 16,384 names. One thread.
 */
#pragma once

#include "common/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct shfs_paths;

/* A file, by device and inode as in the events. */
struct shfs_paths_file {
	uint64_t dev, ino;
};

/* NULL: no memory. */
struct shfs_paths *shfs_paths_new(void);
void shfs_paths_free(struct shfs_paths *names); /* NULL is fine */

/* path leads to this file, and to no other any more. */
void shfs_paths_set(struct shfs_paths *names, const char *path,
                    struct shfs_paths_file file);

/* The file that path leads to; ino is 0 if it is unknown. */
struct shfs_paths_file shfs_paths_find(const struct shfs_paths *names, const char *path);

/* The last name that the file got, if path is none of its names; else NULL. Borrowed. */
const char *shfs_paths_other(const struct shfs_paths *names, struct shfs_paths_file file,
                             const char *path);

/* path, and with tree all below it, leads nowhere; is called to; those two have changed
 * places. */
void shfs_paths_gone(struct shfs_paths *names, const char *path, bool tree);
void shfs_paths_moved(struct shfs_paths *names, const char *from, const char *to,
                      bool tree);
void shfs_paths_exchanged(struct shfs_paths *names, const char *a, const char *b);

/* Events were lost: everything may have changed. */
void shfs_paths_forget(struct shfs_paths *names);
