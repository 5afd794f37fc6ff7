/* SPDX-License-Identifier: MIT */
/*
 * Requests over io_uring. The kernel has a queue for each CPU, and needs buffers for all
 * of them. It puts each request of a CPU's callers into a buffer of that queue, and takes
 * the reply from there. So one system call answers a request and waits for the next.
 *
 * Each thread has a ring of its own with one buffer: so a thread that serves a request is
 * given no other one, which would wait for the first. FORGET and INTERRUPT still come
 * from the device.
 *
 * A ring is limited when it is made (limit_ring), as the seccomp filter does not see what
 * goes through it.
 */
#include "fusefs/transport/internal.h"

#include "common/clock.h"
#include "common/io.h"
#include "store/capture/log.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SQ_SIZE      4
#define FRONT        4096 /* bytes of a buffer for headers, of kernel and libfuse */
#define CPUS_MAX     4096
#define FORGOTTEN_NS SHFS_NSEC_PER_SEC
#define NO_QUEUE     UINT16_MAX

struct entry {
	struct shfs_fuse_uring_header *header; /* in front of the payload */
	char *payload;
	size_t size; /* of the payload */
	uint16_t queue;
	uint64_t commit_id;
	_Atomic uint64_t unique; /* of the request in it; 0: none */
	atomic_bool is_replied;  /* the reply is in it */
	bool waits;              /* for a reply that did not come at once */
};

struct shfs_ring {
	struct shfs_transport *transport;
	struct io_uring ring;
	bool is_made;
	struct entry *entries;
	atomic_uint n_entries;
	struct entry *at; /* with the request that the thread serves */
	unsigned n_waiting;
	bool is_ended;
};

/* --- the queues of the kernel --- */

/* Reads a list of CPUs such as "0-3,6": marks them, and returns how many they are. */
static unsigned read_cpus(const char *path, bool cpus[static CPUS_MAX])
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	unsigned n = 0;
	char *at;

	if (shfs_read_file_at(AT_FDCWD, path, 65536, &text))
		return 0;
	for (at = text.data; *at >= '0' && *at <= '9'; at += *at == ',') {
		unsigned long first = strtoul(at, &at, 10), last = first;

		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		for (; first <= last && first < CPUS_MAX; first++) {
			n += !cpus[first];
			cpus[first] = true;
		}
	}
	return n;
}

/* Makes the queues, which are numbered like the CPUs. Those of all offline CPUs become
 * one.
 */
static int make_ring_queues(struct shfs_transport *t, unsigned n, const bool *online)
{
	struct shfs_queue *queues = calloc(n + 2, sizeof(*queues)), *offline;
	uint16_t *ids = calloc(n, sizeof(*ids)), *id = ids;
	unsigned n_queues = 1;

	if (!queues || !ids) {
		free(queues);
		free(ids);
		return -ENOMEM;
	}
	queues[0] = t->queues[0];
	for (unsigned cpu = 0; cpu < n; cpu++) {
		if (!online[cpu])
			continue;
		queues[n_queues++] =
			(struct shfs_queue){ .cpu = (int)cpu, .ids = id, .n = 1 };
		*id++ = (uint16_t)cpu;
	}
	offline = &queues[n_queues];
	*offline = (struct shfs_queue){ .cpu = SHFS_QUEUE_OFFLINE, .ids = id };
	for (unsigned cpu = 0; cpu < n; cpu++)
		if (!online[cpu])
			id[offline->n++] = (uint16_t)cpu;
	n_queues += offline->n > 0;
	free(t->queues);
	t->queues = queues;
	t->queue_ids = ids;
	t->n_queues = n_queues;
	return 0;
}

const char *shfs_uring_probe(struct shfs_transport *t)
{
	static const char parameter[] = "/sys/module/fuse/parameters/enable_uring";
	bool possible[CPUS_MAX] = { 0 }, online[CPUS_MAX] = { 0 };
	_cleanup_buf_ struct shfs_buf text = { 0 };
	unsigned n;

	if (shfs_read_file_at(AT_FDCWD, parameter, 16, &text))
		return "the kernel is too old for it";
	if (text.data[0] == 'N')
		return "switched off in /sys/module/fuse/parameters/enable_uring";
	n = read_cpus("/sys/devices/system/cpu/possible", possible);
	if (!n || !read_cpus("/sys/devices/system/cpu/online", online))
		return "the number of CPUs is unknown";
	return make_ring_queues(t, n, online) ? "out of memory" : NULL;
}

/* --- a ring --- */

/* Calls io_uring_register(2); liburing 2.3 does not export this. */
static int register_with(struct shfs_ring *ring, unsigned what, void *arg, unsigned n)
{
	long r = syscall(SYS_io_uring_register, ring->ring.ring_fd, what, arg, n);

	return r < 0 ? -errno : 0;
}

enum { FILE_DEVICE, FILE_BELL };

/* Limits the ring to FUSE's commands for one file, and to polling the bell. */
static int limit_ring(struct shfs_ring *ring)
{
	struct io_uring_restriction allowed[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_URING_CMD },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_POLL_ADD },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED,
		  .sqe_flags = IOSQE_FIXED_FILE },
	};
	int files[] = { fuse_session_fd(ring->transport->session),
		        ring->transport->bell };
	int r = io_uring_register_files(&ring->ring, files, ARRAY_SIZE(files));

	if (!r)
		r = register_with(ring, IORING_REGISTER_RESTRICTIONS, allowed,
		                  ARRAY_SIZE(allowed));
	return r;
}

/* Enables the ring, and registers it, so that it needs no descriptor. */
static int enable_ring(struct shfs_ring *ring)
{
	int r = io_uring_register_ring_fd(&ring->ring);

	if (r != 1)
		return r < 0 ? r : -EINVAL;
	r = register_with(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
	close(ring->ring.ring_fd);
	ring->ring.ring_fd = -1;
	return r;
}

int shfs_ring_new(struct shfs_transport *t, struct shfs_ring **out)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER |
		         IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED |
		         IORING_SETUP_CQSIZE,
		.cq_entries = t->n_queues + 2 * SQ_SIZE,
	};
	struct shfs_ring *ring = calloc(1, sizeof(*ring));
	int r;

	if (!ring)
		return -ENOMEM;
	ring->transport = t;
	r = io_uring_queue_init_params(SQ_SIZE, &ring->ring, &params);
	ring->is_made = !r;
	if (!r)
		r = limit_ring(ring);
	if (!r)
		r = enable_ring(ring);
	if (r) {
		shfs_ring_free(ring);
		return r;
	}
	*out = ring;
	return 0;
}

void shfs_ring_free(struct shfs_ring *ring)
{
	if (!ring)
		return;
	if (ring->is_made)
		io_uring_queue_exit(&ring->ring);
	for (unsigned i = 0; i < ring->n_entries; i++)
		munmap(ring->entries[i].header, FRONT + ring->entries[i].size);
	free(ring->entries);
	free(ring);
}

static struct io_uring_sqe *next_submission(struct shfs_ring *ring)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&ring->ring)))
		io_uring_submit(&ring->ring);
	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->flags = IOSQE_FIXED_FILE;
	return sqe;
}

/* Queues a command, which the next system call submits. */
static void queue_command(struct shfs_ring *ring, uint32_t what, struct entry *e,
                          const struct iovec *buffer)
{
	struct io_uring_sqe *sqe = next_submission(ring);
	struct shfs_fuse_uring_command *arg = (void *)sqe->cmd;

	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = FILE_DEVICE;
	sqe->cmd_op = what;
	sqe->user_data = (uintptr_t)e;
	arg->qid = e->queue;
	arg->commit_id = e->commit_id;
	sqe->addr = (uintptr_t)buffer;
	sqe->len = buffer ? 2 : 0;
}

static void listen_to_bell(struct shfs_ring *ring)
{
	struct io_uring_sqe *sqe = next_submission(ring);

	io_uring_prep_poll_multishot(sqe, FILE_BELL, POLLIN);
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->user_data = 0;
}

/* Writes to the bell. It is never read: each write wakes the pollers. */
void shfs_uring_ring(struct shfs_transport *t)
{
	while (eventfd_write(t->bell, 1) && shfs_transport_goes_on(errno))
		;
}

/* --- buffers --- */

static int make_entry(struct entry *e, uint16_t queue, size_t size)
{
	char *memory = mmap(NULL, FRONT + size, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	/* no huge pages: unused pages then cost nothing */
	madvise(memory, FRONT + size, MADV_NOHUGEPAGE);
	e->header = (void *)memory;
	e->payload = memory + FRONT;
	e->size = size;
	e->queue = queue;
	return 0;
}

static int offer_entry(struct shfs_ring *ring, struct entry *e)
{
	struct iovec buffer[] = {
		{ e->header, sizeof(*e->header) },
		{ e->payload, e->size },
	};

	int r;

	queue_command(ring, SHFS_FUSE_URING_REGISTER, e, buffer);
	r = io_uring_submit(&ring->ring);
	return MIN(r, 0);
}

/* Returns the error of an offer that was refused, which completes at once. */
static int first_error(struct shfs_ring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned head;

	io_uring_for_each_cqe(&ring->ring, head, cqe)
	{
		if (cqe->res < 0)
			return cqe->res;
	}
	return 0;
}

int shfs_ring_join(struct shfs_ring *ring, const struct shfs_queue *queue, size_t payload)
{
	int r = 0;

	ring->entries = calloc(queue->n, sizeof(struct entry));
	if (!ring->entries)
		return -ENOMEM;
	for (unsigned i = 0; i < queue->n && !r; i++) {
		r = make_entry(&ring->entries[i], queue->ids[i], payload);
		if (!r)
			atomic_store(&ring->n_entries, i + 1);
	}
	for (unsigned i = 0; i < queue->n && !r; i++) {
		r = offer_entry(ring, &ring->entries[i]);
		if (!r)
			r = first_error(ring);
	}
	return r;
}

void shfs_ring_refuse(struct shfs_ring *ring)
{
	struct entry none = { .queue = NO_QUEUE };

	(void)!offer_entry(ring, &none);
}

/* --- replies --- */

/* Finds the buffer with that request; called from any thread. */
static struct entry *find_entry(struct shfs_transport *t, uint64_t unique)
{
	for (unsigned i = 0; i < t->n_workers; i++) {
		struct shfs_ring *ring = t->workers[i].ring;
		unsigned n = ring ? atomic_load(&ring->n_entries) : 0;

		for (unsigned k = 0; k < n; k++) {
			if (atomic_load(&ring->entries[k].unique) == unique)
				return &ring->entries[k];
		}
	}
	return NULL;
}

/* Puts the reply into the buffer. If this is not the buffer's own thread, that may use
 * the buffer again at once. */
static ssize_t put_reply(struct entry *e, const struct iovec *iov, int count)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	size_t size = 0;

	for (int i = 1; i < count; i++) {
		if (iov[i].iov_len > e->size - size) {
			errno = EMSGSIZE;
			return -1;
		}
		/* the data may be there already: shfs_ring_space */
		if (iov[i].iov_base != e->payload + size)
			memmove(e->payload + size, iov[i].iov_base, iov[i].iov_len);
		size += iov[i].iov_len;
	}
	e->header->out = *header;
	e->header->payload_size = (uint32_t)size;
	atomic_store(&e->is_replied, true);
	return header->len;
}

ssize_t shfs_ring_reply(struct shfs_transport *t, const struct iovec *iov, int count)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	struct shfs_ring *ring = shfs_self ? shfs_self->ring : NULL;
	struct entry *e = ring ? ring->at : NULL;
	ssize_t n;

	if (e && e->unique == header->unique)
		return put_reply(e, iov, count);
	e = header->unique ? find_entry(t, header->unique) : NULL;
	if (!e)
		return 0;
	n = put_reply(e, iov, count);
	shfs_uring_ring(t);
	return n;
}

void *shfs_ring_space(struct shfs_ring *ring, size_t size)
{
	return ring->at && size <= ring->at->size ? ring->at->payload : NULL;
}

/* --- interrupts --- */

/*
 * Keeps an interrupt for a moment, as it may be read from the device before its request
 * is read from a ring: the worker that gets the request takes it. (The kernel sends an
 * interrupt again only for a request of the device.)
 */
static void remember_interrupt(struct shfs_transport *t, uint64_t unique)
{
	size_t oldest = 0;

	for (size_t i = 0; i < ARRAY_SIZE(t->interrupts.list); i++)
		if (t->interrupts.list[i].ns < t->interrupts.list[oldest].ns)
			oldest = i;
	if (!t->interrupts.list[oldest].unique)
		atomic_fetch_add(&t->interrupts.n, 1);
	t->interrupts.list[oldest] =
		(struct shfs_interrupt){ unique, shfs_clock_ns(CLOCK_MONOTONIC) };
}

/* Was there an interrupt of this request? Also drops old ones, of requests that were
 * answered. */
static bool recall_interrupt(struct shfs_transport *t, uint64_t unique)
{
	int64_t now = shfs_clock_ns(CLOCK_MONOTONIC);
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(t->interrupts.list); i++) {
		struct shfs_interrupt *one = &t->interrupts.list[i];

		if (!one->unique ||
		    (one->unique != unique && now - one->ns < FORGOTTEN_NS))
			continue;
		found = found || one->unique == unique;
		*one = (struct shfs_interrupt){ 0 };
		atomic_fetch_sub(&t->interrupts.n, 1);
	}
	return found;
}

static void pass_interrupt(struct shfs_transport *t, uint64_t unique)
{
	struct {
		struct fuse_in_header header;
		struct fuse_interrupt_in arg;
	} request = {
		.header = {
			.len = sizeof(request),
			.opcode = FUSE_INTERRUPT,
			.unique = unique | SHFS_FUSE_INTERRUPT_BIT,
		},
		.arg.unique = unique,
	};
	struct fuse_buf buf = { .mem = &request, .size = sizeof(request) };

	fuse_session_process_buf(t->session, &buf);
}

void shfs_ring_interrupt(struct shfs_transport *t, uint64_t unique)
{
	pthread_mutex_lock(&t->interrupts.lock);
	remember_interrupt(t, unique);
	/* otherwise the worker that begins the request finds the interrupt: it looks for
	 * one after it has set unique */
	if (find_entry(t, unique) && recall_interrupt(t, unique))
		pass_interrupt(t, unique);
	pthread_mutex_unlock(&t->interrupts.lock);
}

static void look_for_interrupt(struct shfs_transport *t, uint64_t unique)
{
	if (!atomic_load(&t->interrupts.n))
		return;
	pthread_mutex_lock(&t->interrupts.lock);
	if (recall_interrupt(t, unique))
		pass_interrupt(t, unique);
	pthread_mutex_unlock(&t->interrupts.lock);
}

/* --- requests --- */

/* Assembles the headers of a request in front of its payload. */
static char *assemble_request(struct entry *e, size_t *size)
{
	const struct shfs_fuse_uring_header *header = e->header;
	size_t op = header->in.len - sizeof(header->in) - header->payload_size;
	char *request = e->payload - op - sizeof(header->in);

	if (op > sizeof(header->op))
		return NULL;
	memcpy(request + sizeof(header->in), header->op, op);
	memcpy(request, &header->in, sizeof(header->in));
	*size = header->in.len;
	return request;
}

static void commit_reply(struct shfs_ring *ring, struct entry *e)
{
	atomic_store(&e->unique, 0);
	queue_command(ring, SHFS_FUSE_URING_COMMIT_AND_FETCH, e, NULL);
}

static void refuse_request(struct entry *e)
{
	struct fuse_out_header header = {
		.len = sizeof(header),
		.error = -EIO,
		.unique = e->header->in.unique,
	};
	struct iovec iov = { &header, sizeof(header) };

	(void)!put_reply(e, &iov, 1);
}

static void note_waiting(struct shfs_worker *w, int change)
{
	struct shfs_ring *ring = w->ring;

	ring->n_waiting += (unsigned)change;
	if (ring->n_waiting == (change > 0)) {
		if (change > 0)
			atomic_fetch_add(&w->transport->n_waiting, 1);
		else
			atomic_fetch_sub(&w->transport->n_waiting, 1);
	}
	atomic_store(&w->is_parked, ring->n_waiting == ring->n_entries);
}

static void serve_entry(struct shfs_worker *w, struct entry *e)
{
	struct shfs_ring *ring = w->ring;
	size_t size;
	char *request;

	shfs_worker_begin(w);
	e->commit_id = e->header->commit_id;
	atomic_store(&e->is_replied, false);
	atomic_store(&e->unique, e->header->in.unique);
	ring->at = e;
	request = assemble_request(e, &size);
	if (request) {
		look_for_interrupt(ring->transport, e->unique);
		shfs_transport_serve(ring->transport, request, size);
	} else {
		refuse_request(e);
	}
	ring->at = NULL;
	e->waits = !atomic_load(&e->is_replied);
	if (e->waits)
		note_waiting(w, 1);
	else
		commit_reply(ring, e);
	shfs_worker_end(w, ring->n_waiting < ring->n_entries);
}

/* Sends the replies that other threads have made meanwhile. */
static void send_late_replies(struct shfs_worker *w)
{
	struct shfs_ring *ring = w->ring;

	for (unsigned i = 0; i < ring->n_entries && ring->n_waiting; i++) {
		struct entry *e = &ring->entries[i];

		if (!e->waits || !atomic_load(&e->is_replied))
			continue;
		e->waits = false;
		if (ring->n_waiting == ring->n_entries)
			shfs_worker_free(w);
		note_waiting(w, -1);
		commit_reply(ring, e);
	}
}

/* Notes that a buffer came back without a request. */
static void note_failure(struct shfs_ring *ring, struct entry *e, int error)
{
	switch (error) {
	case -ENOTCONN:
	case -ECONNABORTED:
	case -ECANCELED:
		ring->is_ended = true; /* the mount is gone */
		break;
	default:
		shfs_log("the kernel did not take a reply: %s", strerror(-error));
		ring->is_ended = offer_entry(ring, e) != 0;
	}
}

static void reap_completions(struct shfs_worker *w)
{
	struct shfs_ring *ring = w->ring;
	bool rang = false, served = false;
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&ring->ring, &cqe)) {
		struct entry *e = (struct entry *)(uintptr_t)cqe->user_data;
		bool goes_on = cqe->flags & IORING_CQE_F_MORE;
		int res = cqe->res;

		io_uring_cqe_seen(&ring->ring, cqe);
		if (!e) {
			rang = true;
			if (!goes_on)
				listen_to_bell(ring);
		} else if (res < 0) {
			note_failure(ring, e, res);
		} else if (!fuse_session_exited(ring->transport->session)) {
			serve_entry(w, e);
			served = true;
		} /* otherwise the ring ends with the mount */
	}
	if (!rang)
		return;
	send_late_replies(w);
	/* only if it served none: meanwhile other requests may have waited for it */
	if (!served && !w->is_parked)
		atomic_fetch_add(&w->looks, 1);
}

void shfs_ring_work(struct shfs_worker *w)
{
	struct shfs_ring *ring = w->ring;

	listen_to_bell(ring);
	while (!ring->is_ended &&
	       (ring->n_waiting || !fuse_session_exited(ring->transport->session))) {
		int r = io_uring_submit_and_wait(&ring->ring, 1);

		if (r < 0 && !shfs_transport_goes_on(-r))
			break;
		reap_completions(w);
	}
	io_uring_submit(&ring->ring); /* the last reply */
	if (ring->n_waiting)
		atomic_fetch_sub(&ring->transport->n_waiting, 1);
}
