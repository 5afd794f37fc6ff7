/* SPDX-License-Identifier: MIT */
/*
 * receiver.h - a thread that only takes packets from a socket into memory, so that the
 * other side has room for more while this one reads, hashes and writes. It waits while
 * there are more than SHFS_RECEIVER_MAX bytes: then the sender counts what is lost.
 */
#pragma once

#include "kmod-fast-path/protocol/packet.h"

#define SHFS_RECEIVER_MAX     (96u << 20)
#define SHFS_RECEIVER_FDS_MAX 4096 /* that wait; further packets lose their fds */

struct shfs_receiver;

/* Begins with the next packet of the socket, which is borrowed. -errno. */
_must_check_ int shfs_receiver_new(int socket, struct shfs_receiver **out);

/* Ends the thread. Packets that were not taken are gone. NULL is fine. */
void shfs_receiver_free(struct shfs_receiver *r);

/* To poll for POLLIN: there is a packet, or an error. */
int shfs_receiver_fd(const struct shfs_receiver *r);

/* As shfs_packet_receive: errors come after the packets from before. */
_must_check_ int shfs_receiver_next(struct shfs_receiver *r, struct shfs_packet_in *in);

/* Bytes of the packets that wait. */
uint64_t shfs_receiver_bytes(struct shfs_receiver *r);
