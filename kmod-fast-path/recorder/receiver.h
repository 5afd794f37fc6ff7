/* SPDX-License-Identifier: MIT */
/*
 * receiver.h - a thread that does nothing but take packets from a socket into memory, so
 * that the other side has room for more while this one reads, hashes and writes. It waits
 * with more than SHFS_RECEIVER_MAX bytes: who sends them counts then what is lost.
 */
#pragma once

#include "kmod-fast-path/protocol/packet.h"

#define SHFS_RECEIVER_MAX     (96u << 20)
#define SHFS_RECEIVER_FDS_MAX 4096 /* that wait; what comes with more comes without */

struct shfs_receiver;

/* Begins with the next packet of the socket, which is borrowed. -errno. */
_must_check_ int shfs_receiver_new(int socket, struct shfs_receiver **out);

/* Ends it. What was not taken is gone. NULL is fine. */
void shfs_receiver_free(struct shfs_receiver *r);

/* To poll: POLLIN while there is a packet, or an error. */
int shfs_receiver_fd(const struct shfs_receiver *r);

/* As shfs_packet_receive: the errors come behind the packets from before. */
_must_check_ int shfs_receiver_next(struct shfs_receiver *r, struct shfs_packet_in *in);

/* Of the packets that wait. */
uint64_t shfs_receiver_bytes(struct shfs_receiver *r);
