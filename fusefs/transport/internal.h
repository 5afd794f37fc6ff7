/* SPDX-License-Identifier: MIT */
/*
 * internal.h - shared by the files of the transport.
 *
 *     transport.c   the handshake, threads, their start and end
 *     dev.c         requests read from /dev/fuse, near the CPU of their callers
 *     uring.c       requests that come over io_uring
 *
 * Threads of a queue take requests from it, each one at a time. A request may block as
 * long as another program likes, which may itself wait for another request. So there are
 * spare threads: if all threads of a queue have been at the same requests for a moment, a
 * spare one joins them for good.
 */
#pragma once

#include "fusefs/transport/protocol.h"
#include "fusefs/transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHFS_QUEUE_DEVICE  (-1)
#define SHFS_QUEUE_OFFLINE (-2)

struct shfs_queue {
	int cpu;             /* of its callers; or one of the values above */
	const uint16_t *ids; /* the kernel's numbers of the queue: several for that */
	unsigned n;          /* of all offline CPUs */
	atomic_int n_idle;   /* threads that wait for a request */
	_Atomic enum { SHFS_QUEUE_CALM, SHFS_QUEUE_SHORT, SHFS_QUEUE_WATCHED } state;
};

struct shfs_ring; /* uring.c */

struct shfs_worker {
	struct shfs_transport *transport;
	struct shfs_ring *ring;             /* NULL: reads the device only */
	_Atomic(struct shfs_queue *) queue; /* NULL: a spare thread */
	pthread_t thread;
	bool is_started;
	pthread_t stirrer; /* transport.c */
	bool is_stirred;
	char *buffer; /* of dev.c: for a request, and behind it for the data of its reply
	               */
	atomic_int statfd;     /* its stat in /proc, if it reads the device; or 0 */
	atomic_uint turn;      /* odd: at a request */
	atomic_uint looks;     /* how often it was woken and had nothing to do */
	atomic_bool is_parked; /* waits for a reply of another thread; takes no request */
};

struct shfs_transport {
	struct shfs_fs *fs;
	struct fuse_session *session;
	const struct shfs_transport_calls *calls;
	enum shfs_transport_kind kind; /* AUTO until it has started */
	const char *reason;            /* why it is not io_uring */
	int ended_fd;
	int bell;       /* an eventfd */
	bool answered;  /* INIT was answered */
	bool is_taken;  /* INIT was answered by another server */
	uint32_t minor; /* of the kernel's protocol */
	uint64_t offered, wanted;
	struct shfs_fuse_init_out init;

	struct shfs_queue *queues; /* the first is that of the device */
	uint16_t *queue_ids;
	unsigned n_queues;
	struct shfs_worker *workers; /* the last are spare ones */
	unsigned n_workers;
	atomic_uint n_running; /* workers with a queue */
	atomic_uint n_waiting; /* of these: waiting for a reply of another thread */

	pthread_mutex_t lock; /* guards the rest; no other is taken with it */
	pthread_cond_t change;
	pthread_cond_t call; /* calls one spare thread */
	enum {
		SHFS_STAGE_PREPARE, /* until INIT */
		SHFS_STAGE_JOIN,    /* their queues */
		SHFS_STAGE_SERVE,
		SHFS_STAGE_END,
		SHFS_STAGE_DROPPED, /* without having served */
	} stage;
	unsigned n_reports; /* of workers, in this stage */
	int error;          /* the first error reported */

	struct {
		pthread_mutex_t lock; /* locks of libfuse are taken with it */
		atomic_uint n;
		struct shfs_interrupt {
			uint64_t unique;
			int64_t ns;
		} list[16];
	} interrupts; /* of requests that no worker is known to serve */
};

/* The worker of this thread; NULL: none. */
extern _Thread_local struct shfs_worker *shfs_self;

/* --- transport.c --- */

/* Decides after an error of the device or a ring. False: there will be no more requests.
 * Otherwise the caller tries again; if resources lack, this waits a moment first. A
 * thread that ended would leave callers waiting for ever. */
bool shfs_transport_goes_on(int error);

/* Called before and after each request. If it is not answered at its end, the worker may
 * not be free for another one; once it is, it calls _free. */
void shfs_worker_begin(struct shfs_worker *worker);
void shfs_worker_end(struct shfs_worker *worker, bool is_free);
void shfs_worker_free(struct shfs_worker *worker);

/* Serves a request: gives it to libfuse, or answers it. */
void shfs_transport_serve(struct shfs_transport *t, void *request, size_t size);

/* --- dev.c --- */

/* Serves requests until the mount is gone, or the transport is stopped. */
void shfs_dev_work(struct shfs_worker *worker);
/* As shfs_transport_reply_space. */
void *shfs_dev_space(struct shfs_worker *worker, size_t size);

/* --- uring.c --- */

/* Adds the queues that the kernel wants: NULL; or returns why there is no io_uring. */
const char *shfs_uring_probe(struct shfs_transport *t);

/* Makes a ring, in the thread that uses it. Afterwards that needs only io_uring_enter(2).
 */
_must_check_ int shfs_ring_new(struct shfs_transport *t, struct shfs_ring **out);
/* Frees the ring, when its thread has ended. NULL is fine. */
void shfs_ring_free(struct shfs_ring *ring);

/* Offers buffers of that size to the kernel, for requests of this queue.
 */
_must_check_ int shfs_ring_join(struct shfs_ring *ring, const struct shfs_queue *queue,
                                size_t payload);

/* Has the kernel give up io_uring, while it waits for all queues to be joined. */
void shfs_ring_refuse(struct shfs_ring *ring);

/* Serves requests until the mount is gone, or the transport is stopped. */
void shfs_ring_work(struct shfs_worker *worker);

/* Wakes all threads that wait in their rings, to look for a request, a reply, or the end.
 */
void shfs_uring_ring(struct shfs_transport *t);

/* Takes a reply to a request of a ring. 0: the request is not of a ring. */
_must_check_ ssize_t shfs_ring_reply(struct shfs_transport *t, const struct iovec *iov,
                                     int count);
/* As shfs_transport_reply_space. */
void *shfs_ring_space(struct shfs_ring *ring, size_t size);

/* Passes an interrupt to its request; it is kept if libfuse does not know that yet. */
void shfs_ring_interrupt(struct shfs_transport *t, uint64_t unique);
