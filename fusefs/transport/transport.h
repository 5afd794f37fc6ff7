/* SPDX-License-Identifier: MIT */
/*
 * transport.h - passes requests of the kernel to libfuse's protocol code, and its replies
 * back.
 *
 * Requests come over io_uring if the kernel offers that (since Linux 6.14, if it is
 * switched on), else they are read from /dev/fuse: see internal.h.
 *
 * An operation must not use its arguments once it has replied: the reply may overwrite
 * them.
 */
#pragma once

#include "common/config.h"

#include <fuse3/fuse_lowlevel.h>

#define SHFS_MAX_WRITE (1u << 20) /* bytes of one request */

struct fuse_out_header;
struct shfs_fs;
struct shfs_fuse_statx_out;
struct shfs_transport;

/* The transport calls these functions of the operations; libfuse calls the others. */
struct shfs_transport_calls {
	/* Called first by each thread that serves requests: gives it a umask of its own.
	 */
	void (*begin_thread)(void);
	/* Called before the first request, if another server could take over: from now on
	 * the state for that is kept in fs.heir. is_taken: goes on with the state there.
	 */
	int (*inherit)(struct shfs_fs *fs, bool is_taken);
	/* Is this a request that libfuse does not know (FUSE_STATX)? Then out and (unless
	 * it has an error) reply are the answer. */
	bool (*answer)(struct shfs_fs *fs, const void *request, size_t size,
	               struct fuse_out_header *out, struct shfs_fuse_statx_out *reply);
};

/* Makes a transport; starts no thread yet. session, whose userdata is fs, is mounted; all
 * are borrowed. */
_must_check_ int shfs_transport_new(struct shfs_fs *fs, struct fuse_session *session,
                                    const struct shfs_transport_calls *calls,
                                    enum shfs_transport_kind kind,
                                    struct shfs_transport **out);
/* Frees a transport that does not run, when the mount is gone. NULL is fine. */
void shfs_transport_free(struct shfs_transport *transport);

/* Return the unique of the request that this thread serves, and whether it was sent
 * before to a server that died: that may have carried it out, but not replied. */
uint64_t shfs_transport_unique(void);
bool shfs_transport_is_resent(void);

/* Called before the start by a server that takes over: the kernel's INIT is in fs.heir.
 */
void shfs_transport_take(struct shfs_transport *transport);
/* Could another server take over? Called after the start. */
bool shfs_transport_can_be_taken(const struct shfs_transport *transport);

/* Ask the kernel, before the start, to read and write lower files itself (protocol.h);
 * and does it, after the start? */
void shfs_transport_want_passthrough(struct shfs_transport *transport);
bool shfs_transport_offers_passthrough(const struct shfs_transport *transport);

/*
 * Starts the threads. ended_fd (an eventfd) becomes readable when the last one has ended:
 * the mount is gone, or stop was called. -EOPNOTSUPP: io_uring is demanded and not
 * available.
 */
_must_check_ int shfs_transport_start(struct shfs_transport *transport);
int shfs_transport_ended_fd(const struct shfs_transport *transport);

/* Return, after the start, "io_uring" or "dev", and why it is not io_uring (NULL: it is).
 */
const char *shfs_transport_name(const struct shfs_transport *transport);
const char *shfs_transport_reason(const struct shfs_transport *transport);

/*
 * Ends the threads once they have answered their requests. A thread whose reply comes
 * from another thread ends after that. To be followed by shfs_transport_join.
 */
void shfs_transport_stop(struct shfs_transport *transport);
/* Has the end begun? Then a request must not wait for anything any more. */
bool shfs_transport_is_ending(const struct shfs_transport *transport);
void shfs_transport_join(struct shfs_transport *transport);

/*
 * Asks the kernel to forget these nodes, if they are not used; for each that it forgets,
 * a FORGET comes. Never called while serving a request. -EINVAL: the kernel is too old.
 */
_must_check_ int shfs_transport_forget(struct shfs_transport *transport,
                                       const uint64_t *ids, size_t n);

/*
 * Asks the kernel to forget the attributes of a node; ignored for one that it does not
 * know. Takes no lock of the kernel that a request may hold. content: also the cached
 * content; that waits for reads and writes through the cache, so only if the file is not
 * open through it.
 */
void shfs_transport_invalidate(struct shfs_transport *transport, uint64_t id,
                               bool content);

/* Has the kernel look up every name again. Takes no such lock, either. Needs Linux 6.16.
 */
void shfs_transport_expire_names(struct shfs_transport *transport);

/*
 * Waits, a second at most, until every request that was sent before this call has been
 * answered; called while serving a request.
 */
void shfs_transport_quiesce(struct shfs_transport *transport);

/* Returns where to put the data of the reply to this thread's request, so that it need
 * not be copied. NULL: nowhere. */
void *shfs_transport_reply_space(size_t size);
