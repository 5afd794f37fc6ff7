/* SPDX-License-Identifier: MIT */
/*
 * transport.h - brings requests to libfuse's protocol code, and its replies back.
 *
 * transport-dev.c does it by reading and writing /dev/fuse in a few threads. Another way
 * (io_uring) would be another file behind these functions.
 */
#pragma once

#include "fusefs/fs.h"

#include <fuse3/fuse_lowlevel.h>

struct shfs_transport;

/* session is mounted; both stay the caller's. Starts no thread yet. */
_must_check_ int shfs_transport_new(struct fuse_session *session,
                                    struct shfs_transport **out);
void shfs_transport_free(struct shfs_transport *transport);

/* Starts the threads. ended becomes readable (an eventfd) when the last has ended: the
 * mount is gone, or stop was called. */
_must_check_ int shfs_transport_start(struct shfs_transport *transport);
int shfs_transport_ended_fd(const struct shfs_transport *transport);

/* Ends the threads once they have answered what they are at. Then join them. */
void shfs_transport_stop(struct shfs_transport *transport);
void shfs_transport_join(struct shfs_transport *transport);

/*
 * Asks the kernel to forget these nodes, if nobody uses them; those that it does forget
 * come back as FORGETs. Never while serving a request. -EINVAL: it cannot be asked.
 */
_must_check_ int shfs_transport_forget(struct shfs_transport *transport,
                                       const uint64_t *ids, size_t n);

/* A system call that makes this thread of it wait returns EINTR. */
void shfs_transport_wake(struct shfs_transport *transport, pthread_t thread);

/*
 * Waits, a second at most, until every request that was sent before this call has been
 * answered; called while serving a request.
 */
void shfs_transport_quiesce(struct shfs_transport *transport);
