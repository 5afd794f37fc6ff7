/* SPDX-License-Identifier: MIT */
/*
 * loose.h - objects with a file of their own, objects/ab/cdef...: large ones, and those
 * that were stored before there were packs. An object that can be opened by name is
 * complete.
 */
#pragma once

#include "common/record.h"
#include "store/store.h"

#include <stdbool.h>

#define LOOSE_HEAD_BYTES 40

/* A file that has no name yet. */
struct loose_file {
	int fd;     /* -1: none */
	char *temp; /* its name below objects/, where there is no O_TMPFILE */
};

#define LOOSE_FILE_NONE ((struct loose_file){ .fd = -1 })

/* Writes the content, packed by zstd or (packed NULL) as it is. -ENOSPC, -EIO, ... */
_must_check_ int loose_write(struct shfs_store *store, const struct shfs_object_id *id,
                             uint64_t size, const void *bytes, size_t len, bool packed,
                             struct loose_file *out);

/* Gives the file the name. -EEXIST. */
_must_check_ int loose_name(struct shfs_store *store, const struct loose_file *file,
                            const struct shfs_object_id *id);

/* Closes the file; it is deleted unless it was given the object's name. */
void loose_drop(struct shfs_store *store, struct loose_file *file);

/* Makes the name durable. */
_must_check_ int loose_sync_name(struct shfs_store *store,
                                 const struct shfs_object_id *id);

int loose_remove(struct shfs_store *store, const struct shfs_object_id *id);

/* Opens the object: returns an fd, and the size of its content. -ENOENT, -EBADMSG. */
_must_check_ int loose_open(struct shfs_store *store, const struct shfs_object_id *id,
                            uint64_t *size);

/*
 * Which of the directories of loose objects there are: most stores have few large
 * contents, and a producer looks for each new content also there. Thread-safe.
 */
struct loose_dirs;
struct loose_dirs *loose_dirs_new(void); /* NULL: no memory */
void loose_dirs_free(struct loose_dirs *dirs);

/* Finds directories that others made since. */
void loose_refresh(struct shfs_store *store);

/* May there be a loose object of this name? False: there was none at the last
 * loose_refresh, or when this was first asked. */
bool loose_may_have(struct shfs_store *store, const struct shfs_object_id *id);

/* Is the content in the file compressed by zstd? 1, 0, or -EBADMSG. */
_must_check_ int loose_is_compressed(int fd);

typedef int (*loose_piece_fn)(void *arg, const void *data, size_t len);

/* Calls fn for the content of a loose object piece by piece, exactly as many bytes as its
 * head says. -EBADMSG, or the result of fn if that is not 0. */
_must_check_ int loose_each_piece(int fd, loose_piece_fn fn, void *arg);
