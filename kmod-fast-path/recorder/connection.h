/* SPDX-License-Identifier: MIT */
/*
 * connection.h - the recorder's side of protocol.h: it asks a helper to watch a
 * directory, and takes the events one by one.
 *
 *   shfs_connection_open or _spawn, shfs_connection_subscribe; then, whenever
 *   shfs_connection_fd is readable, shfs_connection_next until it returns 0.
 *
 * For one thread at a time. Every length is checked, whichever side sent it.
 */
#pragma once

#include "common/buf.h"
#include "kmod-fast-path/protocol/protocol.h"

#include <stdbool.h>

struct shfs_connection;

/* Connects to the helper that listens at path (NULL: SHFS_HELPER_SOCKET). -errno, and why
 * is a line without a full stop that says what to start; -EPERM: the listener is not
 * root. */
_must_check_ int shfs_connection_open(const char *path, struct shfs_connection **out,
                                      struct shfs_buf *why);

/* Starts a helper that ends with the connection: for root. program: its path. */
_must_check_ int shfs_connection_spawn(const char *program, struct shfs_connection **out,
                                       struct shfs_buf *why);

/* Makes a connection of a socket that is connected to a helper, and owns the socket from
 * then on. NULL: no memory. */
struct shfs_connection *shfs_connection_adopt(int socket);

/* Ends the subscription. Events that were not taken are gone. NULL is fine. */
void shfs_connection_close(struct shfs_connection *c);

/*
 * Waits until the subscription has begun, at most 30 s. driver: its name, or NULL: the
 * best that works. root_fd: of the directory, O_RDONLY. Once for each connection. -errno,
 * and why, as the helper says it.
 */
_must_check_ int shfs_connection_subscribe(struct shfs_connection *c, int root_fd,
                                           const char *driver, struct shfs_buf *why);

/* The driver in use, and why it is not a better one (may be empty); borrowed, once the
 * subscription has begun. */
const char *shfs_connection_driver(const struct shfs_connection *c);
const char *shfs_connection_why(const struct shfs_connection *c);

/* From now on a thread receives packets into memory (receiver.h). Call it after
 * shfs_connection_subscribe, and after any fork. -errno: packets are received on demand,
 * as before. */
_must_check_ int shfs_connection_receive_ahead(struct shfs_connection *c);

/* Bytes of packets that wait in memory. */
uint64_t shfs_connection_bytes(const struct shfs_connection *c);

/* To poll for POLLIN. It is another one after shfs_connection_receive_ahead. */
int shfs_connection_fd(const struct shfs_connection *c);

/* Asks for all events that have happened before; they have been taken when the cookie
 * comes back. */
_must_check_ int shfs_connection_sync(struct shfs_connection *c, uint64_t cookie);

enum shfs_told_type {
	SHFS_TOLD_EVENT = 1,
	SHFS_TOLD_SYNCED = 2, /* cookie */
};

struct shfs_told {
	const struct shfs_event *event; /* borrowed until the next call */
	int content_fd;  /* of SHFS_EVENT_PINNED, the caller closes it; -1: none, or
	                  * this process has too many open */
	uint64_t cookie; /* of SYNCED */
};

/*
 * Takes the next event or answer, in order, and returns its type. 0: nothing more now.
 * -errno: the subscription has ended; -ECONNRESET: the helper is gone; -ESHUTDOWN: it was
 * ended; -EPROTONOSUPPORT: it has another version; -EBADMSG: it sent nonsense; else the
 * error that ended the driver. After an error: shfs_connection_close.
 */
_must_check_ int shfs_connection_next(struct shfs_connection *c, struct shfs_told *out);
