/* SPDX-License-Identifier: MIT */
/*
 * paths.h - which file a name led to, by what was told up to now: a look at the file
 * system tells what it leads to by the time that one looks.
 *
 * Of the last 16,384 names, and 1,024 files that have lost theirs. One thread.
 */
#pragma once

#include "common/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct shfs_paths;

/* A file, by device and inode as the events have them. */
struct shfs_paths_file {
	uint64_t dev, ino;
};

/* NULL: no memory. */
struct shfs_paths *shfs_paths_new(void);
void shfs_paths_free(struct shfs_paths *names); /* NULL is fine */

/* What is told from now on was then. */
void shfs_paths_at(struct shfs_paths *names, struct shfs_time time);

/* path leads to this file, and to no other any more. */
void shfs_paths_set(struct shfs_paths *names, const char *path,
                    struct shfs_paths_file file);

/* ino is 0 where it is not known. */
struct shfs_paths_file shfs_paths_find(const struct shfs_paths *names, const char *path);

/* The name that the file got last, if it has some, and path is none of them; else NULL.
 * Borrowed. */
const char *shfs_paths_other(const struct shfs_paths *names, struct shfs_paths_file file,
                             const char *path);

/* The last name of a file that has none any more, and when it lost that. */
struct shfs_paths_lost {
	const char *path;
	struct shfs_time time;
};

/* NULL: it has a name, or nothing is known of it. Borrowed. */
const struct shfs_paths_lost *shfs_paths_lost(const struct shfs_paths *names,
                                              struct shfs_paths_file file);

/* path, and with tree all below it, leads nowhere; is called to; those two have changed
 * places. */
void shfs_paths_gone(struct shfs_paths *names, const char *path, bool tree);
void shfs_paths_moved(struct shfs_paths *names, const char *from, const char *to,
                      bool tree);
void shfs_paths_exchanged(struct shfs_paths *names, const char *a, const char *b);

/* Something was not told: all may be otherwise. */
void shfs_paths_forget(struct shfs_paths *names);
