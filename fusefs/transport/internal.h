/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the files of the transport share.
 *
 *     transport.c   the handshake, threads, their start and end
 *     dev.c         requests read from /dev/fuse
 *     uring.c       requests that come over io_uring
 *
 * Threads of a queue take requests from it, each one at a time. A request may block for
 * as long as another program likes, and that may be for another request. So there are
 * spare threads: where all threads of a queue have been at the same requests for a
 * moment, a spare one joins them for good.
 */
#pragma once

#include "fusefs/transport/protocol.h"
#include "fusefs/transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHFS_QUEUE_DEVICE  (-1)
#define SHFS_QUEUE_OFFLINE (-2)

struct shfs_queue {
	int cpu;             /* of its callers; or one of the above */
	const uint16_t *ids; /* the kernel's numbers for it, which are several for all */
	unsigned n;          /* CPUs that are offline */
	atomic_int n_idle;   /* threads that wait for a request */
	_Atomic enum { SHFS_QUEUE_CALM, SHFS_QUEUE_SHORT, SHFS_QUEUE_WATCHED } state;
};

struct shfs_ring; /* uring.c */

struct shfs_worker {
	struct shfs_transport *transport;
	struct shfs_ring *ring;             /* NULL: reads the device only */
	_Atomic(struct shfs_queue *) queue; /* NULL: a spare one */
	pthread_t thread;
	bool is_started;
	pthread_t stirrer; /* transport.c */
	bool is_stirred;
	atomic_int statfd;     /* its stat in /proc, where it reads the device; or 0 */
	atomic_uint turn;      /* odd: at a request */
	atomic_uint looks;     /* how often it was asked to look, and had nothing to do */
	atomic_bool is_parked; /* waits for replies from elsewhere, and can take none */
};

struct shfs_transport {
	struct shfs_fs *fs;
	struct fuse_session *session;
	const struct shfs_transport_calls *calls;
	enum shfs_transport_kind kind; /* AUTO until it has started */
	const char *reason;            /* why it is not io_uring */
	int ended_fd;
	int bell;       /* an eventfd */
	bool answered;  /* INIT */
	bool is_taken;  /* it was, to another server */
	uint32_t minor; /* of the kernel's protocol */
	uint64_t offered, wanted;
	struct shfs_fuse_init_out init;

	struct shfs_queue *queues; /* the first is the device's */
	uint16_t *queue_ids;
	unsigned n_queues;
	struct shfs_worker *workers; /* the last are spare ones */
	unsigned n_workers;
	atomic_uint n_running; /* those with a queue */
	atomic_uint n_waiting; /* of them: with a reply that comes from elsewhere */

	pthread_mutex_t lock; /* of the rest; no other is taken with it */
	pthread_cond_t change;
	pthread_cond_t call; /* of one spare thread */
	enum {
		SHFS_STAGE_PREPARE, /* until INIT */
		SHFS_STAGE_JOIN,    /* their queues */
		SHFS_STAGE_SERVE,
		SHFS_STAGE_END,
		SHFS_STAGE_DROPPED, /* without having served */
	} stage;
	unsigned n_reports; /* of workers, in this stage */
	int error;          /* the first of them */

	struct {
		pthread_mutex_t lock; /* libfuse's are taken with it */
		atomic_uint n;
		struct shfs_interrupt {
			uint64_t unique;
			int64_t ns;
		} list[16];
	} interrupts; /* of requests that nobody is known to be at */
};

/* The worker that this thread is; NULL: none. */
extern _Thread_local struct shfs_worker *shfs_self;

/* --- transport.c --- */

/* After an error of the device or a ring: false where there will be no more requests.
 * Else it is tried again, a moment later where something lacks: a thread that ended would
 * leave callers waiting for ever. */
bool shfs_transport_goes_on(int error);

/* Around each request. Where that is not answered at its end, the worker may not be free
 * for another; once it is, it calls _free. */
void shfs_worker_begin(struct shfs_worker *worker);
void shfs_worker_end(struct shfs_worker *worker, bool is_free);
void shfs_worker_free(struct shfs_worker *worker);

/* Gives a request to libfuse, or answers it. */
void shfs_transport_serve(struct shfs_transport *t, void *request, size_t size);

/* --- dev.c --- */

/* Serves until the mount is gone, or the end is asked for. */
void shfs_dev_work(struct shfs_worker *worker);

/* --- uring.c --- */

/* Adds the queues that the kernel wants to the device's. Or why there is no io_uring. */
const char *shfs_uring_probe(struct shfs_transport *t);

/* In the thread that uses it. After this it needs nothing but io_uring_enter(2). */
_must_check_ int shfs_ring_new(struct shfs_transport *t, struct shfs_ring **out);
/* When its thread has ended. NULL is fine. */
void shfs_ring_free(struct shfs_ring *ring);

/* Offers buffers of that size to the kernel, for requests of this queue.
 */
_must_check_ int shfs_ring_join(struct shfs_ring *ring, const struct shfs_queue *queue,
                                size_t payload);

/* While the kernel waits for all queues to be joined: has it give up. */
void shfs_ring_refuse(struct shfs_ring *ring);

/* Serves until the mount is gone, or the end is asked for. */
void shfs_ring_work(struct shfs_worker *worker);

/* Has those who wait in their rings look whether there is a request, a reply, or the end.
 */
void shfs_uring_ring(struct shfs_transport *t);

/* Takes a reply to a request of a ring. 0: it is none. */
_must_check_ ssize_t shfs_ring_reply(struct shfs_transport *t, const struct iovec *iov,
                                     int count);
/* As shfs_transport_reply_space. */
void *shfs_ring_space(struct shfs_ring *ring, size_t size);

/* Brings an interrupt to the request, which is not lost if libfuse does not know it yet.
 */
void shfs_ring_interrupt(struct shfs_transport *t, uint64_t unique);
