/* SPDX-License-Identifier: MIT */
#include "fusefs/transport.h"

#include "fusefs/ops.h"

#include <errno.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#define THREADS_MIN 2
#define THREADS_MAX 8
#define WAKE        SIGUSR1 /* makes read(2) on /dev/fuse return */
#define GRACE_NS    2000000
#define QUIESCE_NS  SHFS_NSEC_PER_SEC

struct worker {
	struct shfs_transport *transport;
	pthread_t thread;
	atomic_uint turn; /* odd: at a request */
};

struct shfs_transport {
	struct fuse_session *session;
	int ended_fd;
	atomic_uint n_running;
	unsigned n;
	struct worker workers[THREADS_MAX];
};

static _Thread_local struct worker *self;

/* --- the handshake --- */

/*
 * What libfuse 3.14 does not know, is told here in words that it knows.
 *
 * FUSE_HANDLE_KILLPRIV_V2, without which the kernel asks for security.capability before
 * every write. We do as it says (see identity.c), so it is put into the first reply,
 * which is INIT's, where the kernel offers it.
 *
 * FUSE_TMPFILE: it has the arguments of FUSE_CREATE, with O_TMPFILE among the flags.
 *
 * FUSE_STATX is answered at once.
 */
static struct {
	bool offered, answered;
} handshake;

static ssize_t dev_read(int fd, void *buf, size_t size, void *userdata)
{
	ssize_t n = read(fd, buf, size);
	struct fuse_in_header *header = buf;
	const struct fuse_init_in *init = (const void *)(header + 1);

	if (n < (ssize_t)sizeof(*header))
		return n;
	if (!handshake.answered && header->opcode == FUSE_INIT &&
	    n >= (ssize_t)(sizeof(*header) + sizeof(*init)))
		handshake.offered = init->flags & FUSE_HANDLE_KILLPRIV_V2;
	if (header->opcode == FUSE_TMPFILE)
		header->opcode = FUSE_CREATE;
	if (shfs_statx_serve(userdata, fd, buf, (size_t)n)) {
		errno = EINTR; /* there is no request any more */
		return -1;
	}
	return n;
}

static ssize_t dev_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	if (!handshake.answered) {
		struct fuse_init_out *init = count > 1 ? iov[1].iov_base : NULL;

		if (init && handshake.offered &&
		    iov[1].iov_len >= offsetof(struct fuse_init_out, max_background))
			init->flags |= FUSE_HANDLE_KILLPRIV_V2;
		handshake.answered = true;
	}
	return writev(fd, iov, count);
}

static const struct fuse_custom_io dev_io = {
	.read = dev_read,
	.writev = dev_writev,
};

/* INIT is served before any thread is started, so handshake needs no lock. */
static int serve_one(struct fuse_session *session)
{
	struct fuse_buf buf = { 0 };
	int r;

	do
		r = fuse_session_receive_buf(session, &buf);
	while (r == -EINTR);
	if (r > 0)
		fuse_session_process_buf(session, &buf);
	free(buf.mem);
	return r > 0 ? 0 : r ? r : -ENODEV;
}

/* --- threads --- */

static void *work(void *arg)
{
	struct worker *worker = self = arg;
	struct shfs_transport *t = worker->transport;
	struct fuse_buf buf = { 0 };

	shfs_ops_begin_thread();
	while (!fuse_session_exited(t->session)) {
		int r = fuse_session_receive_buf(t->session, &buf);

		if (r == -EINTR || r == -EAGAIN)
			continue;
		if (r <= 0)
			break;
		atomic_fetch_add(&worker->turn, 1);
		fuse_session_process_buf(t->session, &buf);
		atomic_fetch_add(&worker->turn, 1);
	}
	free(buf.mem);
	if (atomic_fetch_sub(&t->n_running, 1) == 1)
		eventfd_write(t->ended_fd, 1);
	return NULL;
}

static void on_wake(int sig)
{
}

static unsigned wanted_threads(void)
{
	cpu_set_t cpus;
	int n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 4 : CPU_COUNT(&cpus);

	return (unsigned)MIN(MAX(n, THREADS_MIN), THREADS_MAX);
}

int shfs_transport_new(struct fuse_session *session, struct shfs_transport **out)
{
	struct shfs_transport *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->session = session;
	t->ended_fd = eventfd(0, EFD_CLOEXEC);
	r = t->ended_fd < 0
	            ? -errno
	            : fuse_session_custom_io(session, &dev_io, fuse_session_fd(session));
	if (r) {
		shfs_transport_free(t);
		return r;
	}
	*out = t;
	return 0;
}

void shfs_transport_free(struct shfs_transport *t)
{
	if (!t)
		return;
	shfs_closep(&t->ended_fd);
	free(t);
}

int shfs_transport_start(struct shfs_transport *t)
{
	struct sigaction action = { .sa_handler = on_wake };
	unsigned n = wanted_threads();
	int r = serve_one(t->session);

	if (r)
		return r;
	sigaction(WAKE, &action, NULL); /* without SA_RESTART */
	atomic_store(&t->n_running, n);
	for (; t->n < n; t->n++) {
		struct worker *worker = &t->workers[t->n];

		worker->transport = t;
		r = pthread_create(&worker->thread, NULL, work, worker);
		if (r)
			break;
	}
	if (t->n < n && atomic_fetch_sub(&t->n_running, n - t->n) == n - t->n)
		eventfd_write(t->ended_fd, 1);
	return t->n ? 0 : -r;
}

int shfs_transport_ended_fd(const struct shfs_transport *t)
{
	return t->ended_fd;
}

void shfs_transport_stop(struct shfs_transport *t)
{
	fuse_session_exit(t->session);
	/* again, should one have been about to read */
	while (atomic_load(&t->n_running)) {
		for (unsigned i = 0; i < t->n; i++)
			pthread_kill(t->workers[i].thread, WAKE);
		nanosleep(&(struct timespec){ .tv_nsec = GRACE_NS }, NULL);
	}
}

void shfs_transport_wake(struct shfs_transport *t, pthread_t thread)
{
	pthread_kill(thread, WAKE);
}

void shfs_transport_join(struct shfs_transport *t)
{
	for (unsigned i = 0; i < t->n; i++)
		pthread_join(t->workers[i].thread, NULL);
	t->n = 0;
}

/* Another worker that waits here itself is at no request that anybody waits for. */
void shfs_transport_quiesce(struct shfs_transport *t)
{
	struct timespec pause = { .tv_nsec = GRACE_NS };
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + QUIESCE_NS;
	unsigned turn[THREADS_MAX];

	if (self)
		atomic_fetch_add(&self->turn, 1);
	/* one may have read a request and not said so yet */
	nanosleep(&pause, NULL);
	/* those that were not started have an even turn */
	for (unsigned i = 0; i < THREADS_MAX; i++)
		turn[i] = atomic_load(&t->workers[i].turn);
	for (unsigned i = 0; i < THREADS_MAX; i++)
		while ((turn[i] & 1) && atomic_load(&t->workers[i].turn) == turn[i] &&
		       shfs_clock_ns(CLOCK_MONOTONIC) < until)
			nanosleep(&pause, NULL);
	if (self)
		atomic_fetch_add(&self->turn, 1);
}

/* FUSE_NOTIFY_PRUNE, since Linux 6.18 */
int shfs_transport_forget(struct shfs_transport *t, const uint64_t *ids, size_t n)
{
	struct {
		struct fuse_out_header header;
		uint32_t count, padding;
		uint64_t spare;
	} notice = { .header.error = 9, .count = (uint32_t)n };
	struct iovec iov[] = {
		{ &notice, sizeof(notice) },
		{ (void *)ids, n * sizeof(*ids) },
	};

	notice.header.len = (uint32_t)(iov[0].iov_len + iov[1].iov_len);
	return writev(fuse_session_fd(t->session), iov, 2) < 0 ? -errno : 0;
}
