/* SPDX-License-Identifier: MIT */
/*
 * connection.h - the recorder's side of protocol.h: a helper is asked to watch a
 * directory, and what it tells is taken event by event.
 *
 *   shfs_connection_open or _spawn, shfs_connection_watch; then, whenever
 *   shfs_connection_fd is readable, shfs_connection_next until it says 0.
 *
 * For one thread at a time. Every length is checked, whoever sent it.
 */
#pragma once

#include "common/buf.h"
#include "kmod-fast-path/protocol/protocol.h"

#include <stdbool.h>

struct shfs_connection;

/* To the helper that listens at path (NULL: SHFS_HELPER_SOCKET). -errno, and why is a
 * line without a full stop that says what to start; -EPERM: who listens there is not
 * root. */
_must_check_ int shfs_connection_open(const char *path, struct shfs_connection **out,
                                      struct shfs_buf *why);

/* To a helper of our own, that ends with the connection: for root. program: its path. */
_must_check_ int shfs_connection_spawn(const char *program, struct shfs_connection **out,
                                       struct shfs_buf *why);

/* On a socket that is connected to a helper, and is the connection's from then on. NULL:
 * no memory. */
struct shfs_connection *shfs_connection_adopt(int socket);

/* Ends the watch. What was not taken is gone. NULL is fine. */
void shfs_connection_close(struct shfs_connection *c);

/*
 * Waits until the watch has begun, 30 s at most. driver: its name, or NULL: the best that
 * works. root_fd: of the directory, O_RDONLY. Once for each connection. -errno, and why
 * as above, as the helper says it.
 */
_must_check_ int shfs_connection_watch(struct shfs_connection *c, int root_fd,
                                       const char *driver, struct shfs_buf *why);

/* Since it watches; borrowed. Why no better driver: may be empty. */
const char *shfs_connection_driver(const struct shfs_connection *c);
const char *shfs_connection_why(const struct shfs_connection *c);

/* From now on a thread takes what comes into memory (receiver.h). Behind a watch that has
 * begun, and behind any fork. -errno: it is taken as it is asked for, as before. */
_must_check_ int shfs_connection_receive_ahead(struct shfs_connection *c);

/* That so wait. */
uint64_t shfs_connection_bytes(const struct shfs_connection *c);

/* To poll: POLLIN. It is another one once it receives ahead. */
int shfs_connection_fd(const struct shfs_connection *c);

/* Asks for all that has happened before; it has been told when the cookie comes back. */
_must_check_ int shfs_connection_sync(struct shfs_connection *c, uint64_t cookie);

enum shfs_told_type {
	SHFS_TOLD_EVENT = 1,
	SHFS_TOLD_SYNCED = 2, /* cookie */
};

struct shfs_told {
	const struct shfs_event *event; /* borrowed until the next call */
	int content_fd;  /* of SHFS_EVENT_PINNED, yours to close; -1: none, or this
	                    process has too many open already */
	uint64_t cookie; /* of SYNCED */
};

/*
 * The next that was told, in order: its type. 0: nothing more now. -errno: the watch has
 * ended; -ECONNRESET: the helper is gone; -ESHUTDOWN: it was ended; -EPROTONOSUPPORT: it
 * is of another version; -EBADMSG: what it says cannot be; else what ended the driver.
 * After an error: shfs_connection_close.
 */
_must_check_ int shfs_connection_next(struct shfs_connection *c, struct shfs_told *out);
