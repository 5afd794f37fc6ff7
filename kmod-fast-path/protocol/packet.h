/* SPDX-License-Identifier: MIT */
/*
 * packet.h - the packets of protocol.h: sends them, receives them with their fds, and
 * checks them. For both sides; neither trusts a length that the other sends.
 */
#pragma once

#include "common/util.h"
#include "kmod-fast-path/protocol/protocol.h"

#include <stdbool.h>

/* One received packet. Large: never on a stack. */
struct shfs_packet_in {
	size_t len;
	size_t n_fds;
	bool fds_lost; /* the limit of this process: only the first fds are here */
	int fds[SHFS_PACKET_FDS_MAX];
	union {
		struct shfs_packet packet; /* valid after shfs_packet_check */
		char data[SHFS_PACKET_MAX];
	};
};

/*
 * Receives a packet without waiting. 1: there is one, and the caller closes its fds. 0:
 * none now. -ECONNRESET: the other side has closed. -EBADMSG: too long or with too many
 * fds; nothing of it is kept.
 */
_must_check_ int shfs_packet_receive(int socket, struct shfs_packet_in *in);

/* Closes the fds from this index on. */
void shfs_packet_close_fds(struct shfs_packet_in *in, size_t from);

/* Sends without waiting: all of it or nothing. 0, -EAGAIN, or -errno. */
_must_check_ int shfs_packet_send(int socket, const void *data, size_t len,
                                  const int *fds, size_t n_fds);

/* Fills in a packet with nothing behind it; strings that are too long are cut. */
void shfs_packet_fill(struct shfs_packet *out, enum shfs_packet_type type, int error,
                      const char *driver, const char *why);

/*
 * Is it a valid packet of this version: a type that exists, strings that end, and only
 * whole events behind it? -EPROTONOSUPPORT: another version, else -EBADMSG. data is
 * aligned to 8.
 */
_must_check_ int shfs_packet_check(const void *data, size_t len);

/* Is the event whole, within room bytes? It is aligned to 8. */
bool shfs_event_is_whole(const struct shfs_event *event, size_t room);

/* The event at *at (at first 0) of a packet that was checked; *at moves to the next.
 * NULL: there are no more. */
const struct shfs_event *shfs_packet_next_event(const void *data, size_t len, size_t *at);
