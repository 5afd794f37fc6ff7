/* SPDX-License-Identifier: MIT */
/*
 * layer.h - the layers of a store: what a command that was only tried has changed.
 *
 * A layer is the directory try/N of the store:
 *
 *   info            the project, the command, when it began
 *   ended           when it ended, and how; missing: it runs, or was killed
 *   store/          the record of what happened in the layer: a store of its own
 *   temporary/      TMPDIR of the command, where /tmp holds the store
 *   project/, …     for each directory that the command could write to: `upper`, what is
 *                   not as below, as overlayfs keeps it, and `work`, which that needs
 *
 * A process that uses a layer holds its lock (flock of info).
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct shfs_store;

#define SHFS_LAYER_PROJECT "project"
#define SHFS_LAYER_STORE   "store"
#define SHFS_LAYER_TMP     "temporary"

struct shfs_layer {
	int64_t n;
	char *path;    /* of its directory */
	int dirfd;     /* likewise */
	int lock_fd;   /* -1: not locked */
	char *project; /* the directory that it lies over */
	char *command; /* as a line, without secrets */
	int64_t began_ns;
	int64_t ended_ns; /* 0: not ended */
	int status;       /* as of a shell; once it has ended */
};

/* Makes a layer, locked and durable. */
_must_check_ int shfs_layer_new(const struct shfs_store *store, const char *project,
                                const char *command, struct shfs_layer *out);
/* -ENOENT: there is none of this number. */
_must_check_ int shfs_layer_open(const struct shfs_store *store, int64_t n,
                                 struct shfs_layer *out);
void shfs_layer_close(struct shfs_layer *layer);
#define _cleanup_layer_ _cleanup_(shfs_layer_close)

/* -EBUSY: a command runs in it. */
_must_check_ int shfs_layer_lock(struct shfs_layer *layer);
/* Does a command run in it? */
bool shfs_layer_runs(struct shfs_layer *layer);
/* Notes that the command begins (again), has ended. */
_must_check_ int shfs_layer_begin(struct shfs_layer *layer);
_must_check_ int shfs_layer_end(struct shfs_layer *layer, int status);
/* Removes it; it is locked, or no command was begun in it. */
_must_check_ int shfs_layer_remove(struct shfs_layer *layer);

/* The numbers of all layers, ascending; the caller frees *out. */
_must_check_ int shfs_layers_list(const struct shfs_store *store, int64_t **out,
                                  size_t *n);
