/* SPDX-License-Identifier: MIT */
/*
 * peer.h - the user at the other end of a connection, and what the user may learn: a
 * second check of each event, whatever its driver did before.
 */
#pragma once

#include "common/buf.h"
#include "kmod-fast-path/protocol/protocol.h"

#include <stdbool.h>
#include <sys/types.h>

struct shfs_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* 0: in another pid namespace */
	gid_t *groups;
	size_t n_groups;
};

/* Reads the peer's ids as they were when it connected. */
_must_check_ int shfs_peer_read(int socket, struct shfs_peer *out);
void shfs_peer_free(struct shfs_peer *peer);

/*
 * Enters the mount namespace of the peer, so that names and mounts mean the same for this
 * process. Only a namespace that belongs to root is entered: in another one the user
 * could give things false names. That, and a peer in another pid namespace, is refused.
 * -errno, and *why is a line as in driver.h.
 */
_must_check_ int shfs_peer_enter(const struct shfs_peer *peer, const char **why);

#define SHFS_REACH_CACHE 64

/* The directories below the root that the user was seen to reach, a moment ago. */
struct shfs_reach {
	uid_t uid;
	int root_fd; /* borrowed */
	struct {
		struct shfs_buf dir;
		int64_t seen_ns;
	} cache[SHFS_REACH_CACHE];
	uint64_t n_refused; /* events that the user may not learn of */
};

void shfs_reach_free(struct shfs_reach *reach);

/*
 * Both are true for root. This process has the peer's file system identity (privilege.h).
 *
 * May the user learn of the event? It must be caused by a process of the user, to a file
 * that the user can reach by name from the root of the subscription, or could before
 * closing a directory of their own.
 */
bool shfs_reach_event(struct shfs_reach *reach, const struct shfs_event *event);

/* May the user know what the file holds? The user can read it now, or owns it. */
bool shfs_reach_content(const struct shfs_reach *reach, int content_fd);
