/* SPDX-License-Identifier: MIT */
/*
 * packet.h - packets of protocol.h: sent, received with their fds, and checked. For both
 * sides; neither believes a length that the other tells.
 */
#pragma once

#include "common/util.h"
#include "kmod-fast-path/protocol/protocol.h"

#include <stdbool.h>

/* One packet that came. Large: never on a stack. */
struct shfs_packet_in {
	size_t len;
	size_t n_fds;
	bool fds_lost; /* this process may not have so many: only the first are here */
	int fds[SHFS_PACKET_FDS_MAX];
	union {
		struct shfs_packet packet; /* once shfs_packet_check was content */
		char data[SHFS_PACKET_MAX];
	};
};

/*
 * Never waits. 1: there is one, and its fds are the caller's to close. 0: none now.
 * -ECONNRESET: the other side has closed. -EBADMSG: longer than any may be, or with too
 * many fds; nothing of it is kept.
 */
_must_check_ int shfs_packet_receive(int socket, struct shfs_packet_in *in);

/* Closes the fds from the index on. */
void shfs_packet_close_fds(struct shfs_packet_in *in, size_t from);

/* Never waits. 0, -EAGAIN, or -errno; sends all of it or nothing. */
_must_check_ int shfs_packet_send(int socket, const void *data, size_t len,
                                  const int *fds, size_t n_fds);

/* A packet without anything behind it, whose strings are cut where they are too long. */
void shfs_packet_fill(struct shfs_packet *out, enum shfs_packet_type type, int error,
                      const char *driver, const char *why);

/*
 * Is it a packet of this version: its type known, its strings ended, nothing behind it
 * but events, and those whole? -EPROTONOSUPPORT: of another version, else -EBADMSG. data
 * is aligned to 8.
 */
_must_check_ int shfs_packet_check(const void *data, size_t len);

/* Is an event whole, within so many bytes? aligned to 8. */
bool shfs_event_is_whole(const struct shfs_event *event, size_t room);

/* Of a packet that was checked: the event at *at, which then is where the next begins
 * (first 0). NULL behind the last. */
const struct shfs_event *shfs_packet_next_event(const void *data, size_t len, size_t *at);
