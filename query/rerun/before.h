/* SPDX-License-Identifier: MIT */
/*
 * before.h - what directories hold before a command is run again: names, modes, times,
 * targets of links. It is noted in the store before the command begins, so that
 * put-back.h can put all of it back, even by another process after a kill. The contents
 * are in the store, as the recording archives them before each change; those that it
 * would not archive are set aside.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <sys/stat.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct shfs_store;

struct shfs_before_file {
	char *path, *text; /* text: the target of a symbolic link, else NULL */
	uint32_t mode, uid, gid, links;
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
	uint32_t aside; /* the number of its copy, from 1; 0: none */
	bool known;     /* the command is known to change it */
	bool unread;    /* a directory that cannot be read */
	UT_hash_handle hh;

	/* while it is put back (put-back.c) */
	char *moved;          /* where it was found, and moved to for a moment */
	bool changed, needed; /* needed: its content, or itself */
	bool again;           /* there was no room for it */
	bool left;            /* it could not be put back, or must not be */
	bool entries_changed, entries_left; /* of a directory */
};

/* All files below some directories, by their paths. */
struct shfs_before {
	struct shfs_before_file **list; /* each directory before what it holds */
	size_t n, cap;
	struct shfs_before_file *table;
	char **roots;
	size_t n_roots;
	/* of the command that is about to run */
	char *session;
	uint64_t number;
	int64_t begin_ns;
	int32_t expected;     /* the exit status that is right, besides 0 */
	struct shfs_buf born; /* paths, each with a NUL, that it is known to make */
	uint32_t n_aside;
};

/* Adds a directory to look at. The root of a file system is none. */
_must_check_ int shfs_before_add_root(struct shfs_before *before, const char *root);

/* Looks at all files below the roots, but not into the store. */
_must_check_ int shfs_before_look(struct shfs_before *before,
                                  const struct shfs_store *store);
struct shfs_before_file *shfs_before_find(const struct shfs_before *before,
                                          const char *path);
void shfs_before_clear(struct shfs_before *before);
#define _cleanup_before_ _cleanup_(shfs_before_clear)

/* --- in the store --- */

/* Where one process notes it: a directory of the store, locked as long as that process or
 * a child of it lives. */
struct shfs_before_place {
	int dirfd, lock_fd;
	char name[160];
};

/* Removes the places of which the command has ended well, and the process is gone.
 * *path: of a place that is still needed, or may be: malloc'ed; NULL: there is none. */
_must_check_ int shfs_before_remove_ended(const struct shfs_store *store, char **path);

/* Makes the place of this process. */
_must_check_ int shfs_before_open(const struct shfs_store *store,
                                  struct shfs_before_place *out);
/* Opens the next place of a process of this host that is gone: 1, or 0. */
_must_check_ int shfs_before_open_left(const struct shfs_store *store,
                                       struct shfs_before_place *out);
/* Its path, malloc'ed; NULL: no memory. */
char *shfs_before_path(const struct shfs_store *store,
                       const struct shfs_before_place *place);
/* Removes the place if nothing is in it, and unlocks it. -ENOTEMPTY: something is. */
_must_check_ int shfs_before_close(const struct shfs_store *store,
                                   struct shfs_before_place *place);

/* Copies the content of the file there. */
_must_check_ int shfs_before_set_aside(const struct shfs_before_place *place,
                                       struct shfs_before *before,
                                       struct shfs_before_file *file);
/* Notes it; durable. */
_must_check_ int shfs_before_save(const struct shfs_before_place *place,
                                  const struct shfs_before *before);
/* Reads what was noted: 1, or 0 if there is none. *ended: has the command ended as
 * expected? */
_must_check_ int shfs_before_load(const struct shfs_before_place *place,
                                  struct shfs_before *out, bool *ended);
/* Forgets what was noted, with the copies. */
_must_check_ int shfs_before_drop(const struct shfs_before_place *place);

/* Opens the copy of a file. A negative errno. */
_must_check_ int shfs_before_aside(const struct shfs_before_place *place,
                                   const struct shfs_before_file *file);

/* Notes how the command ended. */
_must_check_ int shfs_before_note_end(int dirfd, int status);
