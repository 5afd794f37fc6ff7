/* SPDX-License-Identifier: MIT */
/*
 * transport.h - brings requests to libfuse's protocol code, and its replies back.
 *
 * They come over io_uring where the kernel offers that (since Linux 6.14, if it is
 * switched on), else they are read from /dev/fuse: internal.h says how.
 *
 * An operation uses nothing of its arguments any more once it has replied: the reply may
 * take their place.
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
	/* First of each thread that serves requests: gives it a umask of its own. */
	void (*begin_thread)(void);
	/* Before the first request, where another server could take over: from now on
	 * what that has to know is in fs.heir. is_taken: goes on with what is in there.
	 */
	int (*inherit)(struct shfs_fs *fs, bool is_taken);
	/* Is this a request that libfuse does not know (FUSE_STATX)? Then out and, but
	 * for an error in there, reply are the answer. */
	bool (*answer)(struct shfs_fs *fs, const void *request, size_t size,
	               struct fuse_out_header *out, struct shfs_fuse_statx_out *reply);
};

/* session, whose userdata is fs, is mounted; all stay the caller's. Starts no thread yet.
 */
_must_check_ int shfs_transport_new(struct shfs_fs *fs, struct fuse_session *session,
                                    const struct shfs_transport_calls *calls,
                                    enum shfs_transport_kind kind,
                                    struct shfs_transport **out);
/* Of one that is not running, when the mount is gone. NULL is fine. */
void shfs_transport_free(struct shfs_transport *transport);

/* The request that this thread is at; and was it given to a server that died? It may have
 * been carried out then, all but the reply. */
uint64_t shfs_transport_unique(void);
bool shfs_transport_is_resent(void);

/* Before the start, of one that takes over: what the kernel offered is in fs.heir. */
void shfs_transport_take(struct shfs_transport *transport);
/* After it: could another one take over? */
bool shfs_transport_can_be_taken(const struct shfs_transport *transport);

/* Before the start: the kernel is to read and write files beneath itself, if it can
 * (protocol.h). After it: it can, and was asked to. */
void shfs_transport_want_passthrough(struct shfs_transport *transport);
bool shfs_transport_offers_passthrough(const struct shfs_transport *transport);

/*
 * Starts the threads. ended becomes readable (an eventfd) when the last has ended: the
 * mount is gone, or stop was called. -EOPNOTSUPP: there is no io_uring, and it must be.
 */
_must_check_ int shfs_transport_start(struct shfs_transport *transport);
int shfs_transport_ended_fd(const struct shfs_transport *transport);

/* Once started: "io_uring" or "dev", and why it is not io_uring (NULL: it is). */
const char *shfs_transport_name(const struct shfs_transport *transport);
const char *shfs_transport_reason(const struct shfs_transport *transport);

/*
 * Ends the threads once they have answered what they are at. Those whose reply is still
 * to come from elsewhere end with that. Then join them.
 */
void shfs_transport_stop(struct shfs_transport *transport);
/* Has the end begun? Then a request must not wait for anything any more. */
bool shfs_transport_is_ending(const struct shfs_transport *transport);
void shfs_transport_join(struct shfs_transport *transport);

/*
 * Asks the kernel to forget these nodes, if nobody uses them; those that it does forget
 * come back as FORGETs. Never while serving a request. -EINVAL: it cannot be asked.
 */
_must_check_ int shfs_transport_forget(struct shfs_transport *transport,
                                       const uint64_t *ids, size_t n);

/*
 * Asks the kernel to forget the attributes of a node; what fails is one that it does not
 * know. Takes no lock of the kernel that a request may hold. content: and what it has
 * cached of the file, which waits for reads and writes through the cache: when it is not
 * open so.
 */
void shfs_transport_invalidate(struct shfs_transport *transport, uint64_t id,
                               bool content);

/* Has the kernel ask for every name again. Takes no lock either; since Linux 6.16. */
void shfs_transport_expire_names(struct shfs_transport *transport);

/*
 * Waits, a second at most, until every request that was sent before this call has been
 * answered; called while serving a request.
 */
void shfs_transport_quiesce(struct shfs_transport *transport);

/* Where the data of the reply to the request that this thread is at can be put, so that
 * it need not be copied there. NULL: nowhere. */
void *shfs_transport_reply_space(size_t size);
