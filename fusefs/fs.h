/* SPDX-License-Identifier: MIT */
/*
 * fs.h - one mount: the state that all parts of shfs-fuse share. It includes none of
 * them.
 *
 * main.c makes it before the first request. It does not change afterwards, except for the
 * fields that parts guard by their own locks. Locks, in the order in which they may be
 * taken: the content of a file (watch.c), the tree (node.h), then those of the table of
 * nodes, of the callers, of the capture. The lock of the readers of arguments (argv.c) is
 * taken alone.
 *
 * A request waits no longer than a moment for the memory map of its caller, which the
 * caller's other threads may hold until they are answered. So only the threads of argv.c
 * read /proc/PID/cmdline, environ, maps and the like.
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
struct shfs_invented;
struct shfs_links;
struct shfs_lookups;
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
	struct shfs_heir *heir;   /* for a server that takes over */
	struct shfs_callers *callers;
	struct shfs_links *links;
	struct shfs_lookups *lookups; /* NULL: not kept */
	struct shfs_tree *tree;
	struct shfs_invented *invented; /* NULL: the past is not shown */
	struct shfs_transport *transport;
	struct shfs_passthrough *passthrough;
	struct shfs_beneath
		*beneath; /* NULL: changes of the lower files are not noticed */
	char *root;       /* the recorded directory, absolute */
	char *at;         /* where it is mounted for one command (shfs record); NULL: over
	                   * itself */
	int root_fd;      /* of the lower directory (O_PATH) */
	int proc_fd;      /* /proc/self/fd */
	bool served;      /* root_fd is on a network or the like: shfs_fd_is_served */
	bool privileged;  /* serves all users: takes on the caller's identity */
	int64_t since_ns; /* CLOCK_REALTIME */
	struct shfs_again *again;
	int device;     /* of a mount that is taken over from a dead server; -1 */
	char *moved_to; /* the present path of that mount */
	dev_t mounted;  /* device number of the mount; 0: not known */
	bool died;      /* the connection ended without an unmount */

	struct shfs_project_rules rules;

	pthread_mutex_t handles_lock;
	struct shfs_handle *handles;        /* all open files */
	struct shfs_directory *directories; /* all open directories */
	atomic_size_t n_open;               /* of both */
	size_t max_open; /* leaves fds to reach names when so many are open */
};
