/* SPDX-License-Identifier: MIT */
/*
 * protocol.h - what the helper (root) and a recorder (a user) send to each other: packets
 * of a SOCK_SEQPACKET socket, each beginning with struct shfs_packet, in host order.
 *
 *   recorder                         helper
 *   WATCH name, fd of the root  -->
 *                               <--  READY driver or error, and why
 *                               <--  EVENTS ... , an fd for each with SHFS_EVENT_PINNED
 *   SYNC cookie                 -->
 *                               <--  EVENTS all that had happened before, SYNCED cookie
 *
 * Each connection has one subscription; it ends when either side closes. The helper knows
 * the user by SO_PEERCRED. The fd, which was opened for reading, proves that the user may
 * read the directory. The helper never waits for a recorder: events that do not fit into
 * SHFS_HELPER_QUEUE_MAX are reported as one SHFS_EVENT_LOST.
 */
#pragma once

#include "common/event.h"
#include "common/recorders.h" /* SHFS_HELPER_SOCKET */

#define SHFS_HELPER_QUEUE_MAX (16u << 20) /* bytes that wait for one recorder */
#define SHFS_PACKET_MAX       (60u << 10) /* bytes of a packet */
#define SHFS_PACKET_FDS_MAX   200         /* fds with one packet */

enum shfs_packet_type {
	SHFS_PACKET_WATCH = 1, /* driver: its name; empty: the best that works */
	SHFS_PACKET_READY = 2,
	SHFS_PACKET_EVENTS = 3, /* events follow the packet, one after another */
	SHFS_PACKET_SYNC = 4,
	SHFS_PACKET_SYNCED = 5, /* error: what ended the driver; 0 */
};

struct shfs_packet {
	__u16 version;   /* SHFS_EVENT_VERSION */
	__u16 type;      /* enum shfs_packet_type */
	__s32 error;     /* READY, SYNCED: a negative errno; 0 */
	__u64 cookie;    /* SYNC, SYNCED */
	char driver[32]; /* WATCH, READY; ends with a NUL */
	char why[472];   /* READY: why no other driver, or why none; ends with a NUL */
};
