/* SPDX-License-Identifier: MIT */
/*
 * scope.h - what the recording of a command is about: the files of the whole machine, but
 * only as processes use them that descend from one. The root is "/".
 */
#pragma once

#include "common/event.h"
#include "kmod-fast-path/recorder/own-mounts.h"
#include "store/capture/project-rules.h"

#include <sys/types.h>

struct shfs_scope {
	pid_t above;           /* that process: it waits for the command */
	char *const *projects; /* whose contents are archived; absolute */
	size_t n_projects;
	char *const *except; /* directories that have a recording of their own; absolute.
	                      * /proc, /sys, /dev and /run are excepted anyway */
	size_t n_except;
	struct shfs_own_mounts mounts; /* of now; begins as own-mounts.h says */
	/* standard streams of the process above that are files, which it keeps open to
	 * the end; ino 0: no file */
	struct shfs_scope_stream {
		uint64_t dev, ino;
	} streams[3];
};

/* Has the contents of the projects alone archived, and finds the streams. The caller has
 * set the lists. */
void shfs_scope_begin(struct shfs_scope *scope, struct shfs_project_rules *rules,
                      const char *root);

/* Is nothing of this path, relative to the root, recorded here? */
bool shfs_scope_excepts(const struct shfs_scope *scope, const char *root,
                        const char *path);

void shfs_scope_end(struct shfs_scope *scope);

/* Is this file of an event a stream of the process above? No lease can be had of it. */
bool shfs_scope_has_stream(const struct shfs_scope *scope, int root_fd,
                           const struct shfs_event_file *file);
