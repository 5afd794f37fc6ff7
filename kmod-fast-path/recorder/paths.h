/* SPDX-License-Identifier: MIT */
/*
 * paths.h - which file a name led to at an event. That is learned from the events before
 * it: the file system itself only shows what the name leads to by now.
 *
 * Remembers the last 16,384 names, and 1,024 files that have lost theirs. For one thread.
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

/* Sets the time of the following calls. */
void shfs_paths_at(struct shfs_paths *names, struct shfs_time time);

/* Notes that path leads to this file, and to no other any more. generation: tells files
 * apart that get the same inode one after the other; 0: unknown. */
void shfs_paths_set(struct shfs_paths *names, const char *path,
                    struct shfs_paths_file file, uint32_t generation);

/* The file that path leads to; its ino is 0: unknown. */
struct shfs_paths_file shfs_paths_find(const struct shfs_paths *names, const char *path);

/* The latest name of the file, borrowed. NULL: the file has no remembered name, or path
 * is one of its names. */
const char *shfs_paths_other(const struct shfs_paths *names, struct shfs_paths_file file,
                             const char *path);

/* Returns how many names of the file are remembered. */
unsigned shfs_paths_count(const struct shfs_paths *names, struct shfs_paths_file file);

/* The last name of a file that has none any more, and when it lost that. */
struct shfs_paths_lost {
	const char *path;
	struct shfs_time time;
	uint32_t generation; /* 0: unknown */
};

/* Borrowed. NULL: the file has a name, or is unknown. */
const struct shfs_paths_lost *shfs_paths_lost(const struct shfs_paths *names,
                                              struct shfs_paths_file file);

/* Notes that path was removed, and with tree all below it. */
void shfs_paths_gone(struct shfs_paths *names, const char *path, bool tree);
/* Notes that from was renamed to to, and with tree all below it. */
void shfs_paths_moved(struct shfs_paths *names, const char *from, const char *to,
                      bool tree);
/* Notes that the two paths, and all below them, were exchanged. */
void shfs_paths_exchanged(struct shfs_paths *names, const char *a, const char *b);

/* Forgets all names and files: events were lost, so any may be wrong. */
void shfs_paths_forget(struct shfs_paths *names);
