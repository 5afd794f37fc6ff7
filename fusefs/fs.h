/* SPDX-License-Identifier: MIT */
/*
 * fs.h - one mount: what all parts of shfs-fuse share. It knows none of them.
 *
 * Made by main.c before the first request and unchanged after it, but for what its parts
 * guard themselves. Locks, in the order in which they may be taken: the content of a file
 * (watch.c), the tree (node.h), then those of the table of nodes, of the callers, of the
 * capture. That of the readers of arguments (argv.c) is taken alone.
 *
 * A request never waits, but for a moment, for what its caller's threads may keep until
 * they are answered: their memory map. So /proc/PID/cmdline, environ, maps and the like
 * are read by the threads of argv.c alone, or not at all.
 */
#pragma once

#include "common/config.h"
#include "store/capture/project-rules.h"

#include <pthread.h>
#include <stdatomic.h>

struct shfs_again;
struct shfs_beneath;
struct shfs_callers;
struct shfs_capture;
struct shfs_directory;
struct shfs_handle;
struct shfs_heir;
struct shfs_passthrough;
struct shfs_spool;
struct shfs_store;
struct shfs_transport;
struct shfs_tree;

struct shfs_fs {
	struct shfs_store *store;
	struct shfs_config config;
	struct shfs_capture *capture;
	struct shfs_spool *spool; /* for the guardian */
	struct shfs_heir *heir;   /* for the one that takes over */
	struct shfs_callers *callers;
	struct shfs_tree *tree;
	struct shfs_transport *transport;
	struct shfs_passthrough *passthrough;
	struct shfs_beneath *beneath; /* NULL: changes beneath cannot be noticed */
	char *root;                   /* the mounted directory, absolute */
	int root_fd;                  /* of the directory beneath the mount (O_PATH) */
	int proc_fd;                  /* /proc/self/fd */
	bool served;      /* root_fd is on a network or the like: shfs_fd_is_served */
	bool privileged;  /* serves all users: takes on the caller's identity */
	int64_t since_ns; /* CLOCK_REALTIME */
	struct shfs_again *again;
	int device;     /* of the mount, where it was another's that died; -1 */
	char *moved_to; /* and where that is by now */
	dev_t mounted;  /* the number of the mount; 0: not known */
	bool died;      /* the mount, without having been taken away */

	struct shfs_project_rules rules;

	pthread_mutex_t handles_lock;
	struct shfs_handle *handles;        /* all open files */
	struct shfs_directory *directories; /* all open directories */
	atomic_size_t n_open;               /* of both */
	size_t max_open; /* so that names can be reached with all of them open */
};
