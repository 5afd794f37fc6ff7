/* SPDX-License-Identifier: MIT */
/*
 * peer.h - who is at the other end of a connection, and what he may know: a second
 * look at each event, whatever its driver did before.
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

/* As the kernel knew him when he connected. */
_must_check_ int shfs_peer_read(int socket, struct shfs_peer *out);
void shfs_peer_free(struct shfs_peer *peer);

/*
 * Names and mounts are to mean for this process what they mean for him: enters the mount
 * namespace that he has, where that is one of root's. Nobody else could give things false
 * names in it; one of others is refused, and a peer in another pid namespace. -errno, and
 * *why is a line as in driver.h.
 */
_must_check_ int shfs_peer_enter(const struct shfs_peer *peer, const char **why);

#define SHFS_REACH_CACHE 64

/* The directories below the root that he was seen to reach, a moment ago. */
struct shfs_reach {
	uid_t uid;
	int root_fd; /* borrowed */
	struct {
		struct shfs_buf dir;
		int64_t seen_ns;
	} cache[SHFS_REACH_CACHE];
	uint64_t n_refused; /* events that were not his to know */
};

void shfs_reach_free(struct shfs_reach *reach);

/*
 * Both are true for root. This process has the peer's file system identity
 * (helper-privilege.h).
 *
 * An event: of a process of his, on a file that he can reach by name from the root of the
 * watch, or could before he closed a directory of his own.
 */
bool shfs_reach_event(struct shfs_reach *reach, const struct shfs_event *event);

/* What a file holds: he may read it now, or owns it. */
bool shfs_reach_content(const struct shfs_reach *reach, int content_fd);
