/* SPDX-License-Identifier: MIT */
/*
 * queue.h - packets that wait to be sent to one recorder. The queue is bounded: events
 * that find no room are counted, and reported in their place as SHFS_EVENT_LOST once
 * there is room again. The helper never waits for a recorder that does not read.
 */
#pragma once

#include "kmod-fast-path/protocol/packet.h"

#define SHFS_QUEUE_FDS_MAX 4096 /* contents that wait for one recorder */
/* The kernel limits the descriptors that root has sent and no process has received. Each
 * connection may have so many of them. */
#define SHFS_QUEUE_FLIGHT_MAX  400
#define SHFS_QUEUE_CONTROL_MAX 64 /* answers to SYNC */

struct shfs_queue_packet;

struct shfs_queue { /* begins as {0} */
	struct shfs_queue_packet *first, *last;
	size_t bytes, n_fds, n_control;
	size_t in_flight; /* fds, at most: sent and perhaps not received */
	uint64_t lost;    /* since the last event that found room */
	/* for the log */
	uint64_t n_sent, n_lost, n_unpinned;
};

/* Copies event, and the fd where that is not -1. If there is no room for the fd alone,
 * the event goes without it, and is not SHFS_EVENT_PINNED. */
void shfs_queue_event(struct shfs_queue *q, const struct shfs_event *event,
                      int content_fd);

/* Appends an answer behind all earlier events. It always finds room; the caller takes no
 * orders while SHFS_QUEUE_CONTROL_MAX wait. -ENOMEM. */
_must_check_ int shfs_queue_control(struct shfs_queue *q, const struct shfs_packet *p);

/* Sends what can be sent. 0: everything. -EAGAIN: the socket becomes writable when there
 * is more room. -EBUSY: try again in a moment. Else the connection is broken. */
_must_check_ int shfs_queue_send(struct shfs_queue *q, int socket);

void shfs_queue_free(struct shfs_queue *q);
