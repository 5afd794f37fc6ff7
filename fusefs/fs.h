/* SPDX-License-Identifier: MIT */
/*
 * fs.h - one mount: what all parts of shfs-fuse share.
 *
 * Made by main.c before the first request and unchanged after it, but for what its parts
 * guard themselves. Locks, in the order in which they may be taken: the content of a file
 * (watch.c), the tree (node.h), then those of the table of nodes, of the callers, of the
 * capture.
 */
#pragma once

#include "common/config.h"
#include "fusefs/caller.h"
#include "fusefs/node.h"
#include "store/capture.h"

#include <pthread.h>

struct shfs_directory;
struct shfs_handle;
struct shfs_transport;

struct shfs_fs {
	struct shfs_store *store;
	struct shfs_config config;
	struct shfs_capture *capture;
	struct shfs_callers *callers;
	struct shfs_tree *tree;
	struct shfs_transport *transport;
	char *root;       /* the mounted directory, absolute */
	int root_fd;      /* of the directory beneath the mount (O_PATH) */
	int proc_fd;      /* /proc/self/fd */
	bool privileged;  /* serves all users: takes on the caller's identity */
	int64_t since_ns; /* CLOCK_REALTIME */

	pthread_rwlock_t rules_lock;
	struct shfs_rules *rules;

	pthread_mutex_t handles_lock;
	struct shfs_handle *handles;        /* all open files */
	struct shfs_directory *directories; /* all open directories */
};

/* Reads ROOT/.shfsignore (again); what cannot be read leaves the built-in rules. */
void shfs_fs_load_rules(struct shfs_fs *fs);

/* What to do with the content of this path. */
enum shfs_rule shfs_fs_rule(struct shfs_fs *fs, const char *path);
