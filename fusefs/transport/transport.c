/* SPDX-License-Identifier: MIT */
#include "fusefs/transport/internal.h"

#include "common/clock.h"
#include "common/debug.h"
#include "common/proc.h"
#include "fusefs/fs.h"
#include "fusefs/takeover/heir.h"
#include "store/capture/capture.h"
#include "store/capture/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define DEV_MIN 2
#define DEV_MAX 8
#define RING_WORKERS                                                                     \
	2 /* for a queue: the second takes requests while the first serves one */
#define SPARES     24
#define WAKE       SIGUSR1 /* makes system calls return */
#define GRACE_NS   2000000
#define GLANCE_NS  100000
#define QUIESCE_NS SHFS_NSEC_PER_SEC
#define STUCK_NS   20000000

_Thread_local struct shfs_worker *shfs_self;
static _Thread_local uint64_t unique_now;

static void sleep_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

bool shfs_transport_goes_on(int error)
{
	switch (error) {
	case ENODEV: /* unmounted */
	case ECONNABORTED:
	case ENOTCONN:
	case EPERM:
	case EINVAL:
	case EBADF:
	case EBADFD:
		return false;
	case EINTR:
	case EAGAIN:
	case EBUSY:
	case ENOENT: /* the request was interrupted meanwhile */
		return true;
	default:
		sleep_ns(GRACE_NS);
		return true;
	}
}

/* --- the handshake --- */

/*
 * Translates parts of the protocol that libfuse 3.14 does not know.
 *
 * FUSE_HANDLE_KILLPRIV_V2: without it the kernel asks for security.capability before
 * every write. We do what it demands (see identity.c), so it is added to the reply to
 * INIT, if the kernel offers it; and so are other wanted flags.
 *
 * FUSE_TMPFILE: it has the arguments of FUSE_CREATE, with O_TMPFILE among the flags.
 *
 * FUSE_STATX is answered at once.
 */
static void note_init(struct shfs_transport *t, const struct fuse_in_header *header,
                      size_t size)
{
	const struct fuse_init_in *init = (const void *)(header + 1);

	if (size < sizeof(*header) + offsetof(struct fuse_init_in, flags2))
		return;
	t->minor = init->minor;
	shfs_heir_set_init(t->fs->heir, header, size);
	t->offered = init->flags;
	if ((init->flags & FUSE_INIT_EXT) && size >= sizeof(*header) + sizeof(*init))
		t->offered |= (uint64_t)init->flags2 << 32;
}

/* Adds flags that libfuse does not know to the reply to INIT. */
static void complete_init(struct shfs_transport *t, struct iovec *iov, int count)
{
	struct fuse_out_header *header = iov[0].iov_base;
	uint64_t flags = t->wanted & t->offered;

	if (count != 2 || header->error || iov[1].iov_len > sizeof(t->init) ||
	    iov[1].iov_len < offsetof(struct shfs_fuse_init_out, max_background))
		return;
	memcpy(&t->init, iov[1].iov_base, iov[1].iov_len);
	t->init.flags |= (uint32_t)flags;
	if (t->offered & FUSE_INIT_EXT) {
		t->init.flags |= FUSE_INIT_EXT;
		t->init.flags2 |= (uint32_t)(flags >> 32);
	}
	if (flags & SHFS_FUSE_PASSTHROUGH)
		t->init.max_stack_depth = 1;
	header->len += (uint32_t)(sizeof(t->init) - iov[1].iov_len);
	iov[1] = (struct iovec){ &t->init, sizeof(t->init) };
}

/* Is this libfuse's reply to an interrupt whose request it has not found yet? The kernel
 * sends the interrupt again, if the request came from the device and is not answered. */
static bool is_late_interrupt(const struct fuse_out_header *reply)
{
	return reply->error == -EAGAIN && (reply->unique & SHFS_FUSE_INTERRUPT_BIT);
}

static ssize_t write_session_reply(int fd, struct iovec *iov, int count, void *userdata)
{
	struct shfs_transport *t = ((struct shfs_fs *)userdata)->transport;
	const struct fuse_out_header *header = iov[0].iov_base;
	ssize_t n;

	if (!t->answered) {
		complete_init(t, iov, count);
		t->answered = true;
		if (t->is_taken)
			return header->len;
	} else if (t->kind == SHFS_TRANSPORT_URING) {
		if (is_late_interrupt(header)) {
			shfs_ring_interrupt(t, header->unique & ~SHFS_FUSE_INTERRUPT_BIT);
			return header->len;
		}
		n = shfs_ring_reply(t, iov, count);
		if (n)
			return n;
	}
	/* tried again, as without a reply the caller would wait for ever */
	do
		n = writev(fd, iov, count);
	while (n < 0 && errno != ENOENT && shfs_transport_goes_on(errno));
	return n;
}

/* A read function that libfuse demands, but never calls. */
static ssize_t read_nothing(int fd, void *buf, size_t size, void *userdata)
{
	errno = EINVAL;
	return -1;
}

static const struct fuse_custom_io custom_io = {
	.read = read_nothing,
	.writev = write_session_reply,
};

static bool serve_statx(struct shfs_transport *t, const void *request, size_t size)
{
	struct fuse_out_header header;
	struct shfs_fuse_statx_out reply;
	struct iovec iov[2] = {
		{ &header, sizeof(header) },
		{ &reply, sizeof(reply) },
	};

	if (!t->calls->answer(t->fs, request, size, &header, &reply))
		return false;
	/* fails only if the mount is gone */
	(void)!write_session_reply(fuse_session_fd(t->session), iov, header.error ? 1 : 2,
	                           t->fs);
	return true;
}

/* Does the request end in records, and does its caller wait for it? */
static bool ends_in_records(uint32_t opcode)
{
	static const uint32_t opcodes[] = {
		FUSE_OPEN,    FUSE_CREATE,  FUSE_MKNOD,   FUSE_MKDIR,
		FUSE_SYMLINK, FUSE_LINK,    FUSE_UNLINK,  FUSE_RMDIR,
		FUSE_RENAME,  FUSE_RENAME2, FUSE_SETATTR, FUSE_SETXATTR,
	};

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++)
		if (opcodes[i] == opcode)
			return true;
	return false;
}

void shfs_transport_serve(struct shfs_transport *t, void *request, size_t size)
{
	struct fuse_buf buf = { .mem = request, .size = size };
	struct fuse_in_header *header = request;
	const struct fuse_interrupt_in *interrupt = (const void *)(header + 1);

	unique_now = header->unique;
	if (header->opcode == FUSE_INIT && !t->answered)
		note_init(t, header, size);
	else if (header->opcode == FUSE_TMPFILE)
		header->opcode = FUSE_CREATE;
	if (ends_in_records(header->opcode))
		shfs_capture_throttle(t->fs->capture);
	if (header->opcode == FUSE_INTERRUPT && t->kind == SHFS_TRANSPORT_URING)
		shfs_ring_interrupt(t, interrupt->unique);
	else if (!serve_statx(t, request, size))
		fuse_session_process_buf(t->session, &buf);
}

/* INIT is served before any other request. */
static int serve_init(struct shfs_transport *t)
{
	char request[8192 + 4096];
	const void *init;
	size_t size;
	ssize_t n;

	if (t->is_taken) {
		init = shfs_heir_init(t->fs->heir, &size);
		memcpy(request, init, size);
		shfs_transport_serve(t, request, size);
		return 0;
	}
	do
		n = read(fuse_session_fd(t->session), request, sizeof(request));
	while (n < 0 && (errno == EINTR || errno == ENOENT));
	if (n < (ssize_t)sizeof(struct fuse_in_header))
		return n < 0 ? -errno : -ENODEV;
	shfs_transport_serve(t, request, (size_t)n);
	return 0;
}

/* --- spare threads --- */

static void set_stage(struct shfs_transport *t, int stage)
{
	pthread_mutex_lock(&t->lock);
	t->stage = stage;
	pthread_cond_broadcast(&t->change);
	pthread_cond_broadcast(&t->call);
	pthread_mutex_unlock(&t->lock);
}

static bool set_queue_state(struct shfs_queue *q, int from, int to)
{
	return atomic_compare_exchange_strong(&q->state, &from, to);
}

static void call_spare(struct shfs_transport *t, struct shfs_queue *q)
{
	if (!set_queue_state(q, SHFS_QUEUE_CALM, SHFS_QUEUE_SHORT))
		return;
	pthread_mutex_lock(&t->lock);
	pthread_cond_signal(&t->call);
	pthread_mutex_unlock(&t->lock);
}

void shfs_worker_begin(struct shfs_worker *w)
{
	struct shfs_queue *q = w->queue;

	atomic_fetch_add(&w->turn, 1);
	if (atomic_fetch_sub(&q->n_idle, 1) == 1 &&
	    atomic_load_explicit(&q->state, memory_order_relaxed) == SHFS_QUEUE_CALM)
		call_spare(w->transport, q);
}

void shfs_worker_free(struct shfs_worker *w)
{
	atomic_fetch_add(&w->queue->n_idle, 1);
}

void shfs_worker_end(struct shfs_worker *w, bool is_free)
{
	if (is_free)
		shfs_worker_free(w);
	atomic_fetch_add(&w->turn, 1);
}

static unsigned count_turns(const struct shfs_transport *t, const struct shfs_queue *q)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < t->n_workers; i++)
		if (t->workers[i].queue == q)
			sum += atomic_load(&t->workers[i].turn);
	return sum;
}

/* Is the queue stuck? All its threads serve requests; it is not if one of them soon
 * serves another one, or none. */
static bool is_stuck(struct shfs_transport *t, struct shfs_queue *q)
{
	for (;;) {
		unsigned before = count_turns(t, q);

		sleep_ns(STUCK_NS);
		if (fuse_session_exited(t->session))
			return false;
		if (atomic_load(&q->n_idle) <= 0) {
			if (count_turns(t, q) == before)
				return true;
			continue;
		}
		atomic_store(&q->state, SHFS_QUEUE_CALM);
		/* the last idle thread may have taken a request just before this */
		if (atomic_load(&q->n_idle) > 0 ||
		    !set_queue_state(q, SHFS_QUEUE_CALM, SHFS_QUEUE_WATCHED))
			return false;
	}
}

static struct shfs_queue *find_short(struct shfs_transport *t)
{
	for (unsigned i = 0; i < t->n_queues; i++)
		if (set_queue_state(&t->queues[i], SHFS_QUEUE_SHORT, SHFS_QUEUE_WATCHED))
			return &t->queues[i];
	return NULL;
}

/* Waits for a queue that needs one more thread, and returns it. NULL: the end. */
static struct shfs_queue *await_need(struct shfs_transport *t)
{
	struct shfs_queue *q = NULL;

	pthread_mutex_lock(&t->lock);
	while (t->stage < SHFS_STAGE_END && !q) {
		q = find_short(t);
		if (!q) {
			pthread_cond_wait(&t->call, &t->lock);
			continue;
		}
		pthread_mutex_unlock(&t->lock);
		if (!is_stuck(t, q))
			q = NULL;
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return q;
}

/* --- threads --- */

static void report_start(struct shfs_transport *t, int error)
{
	pthread_mutex_lock(&t->lock);
	t->n_reports++;
	t->error = t->error ? t->error : error;
	pthread_cond_broadcast(&t->change);
	pthread_mutex_unlock(&t->lock);
}

/* Waits for n reports, and returns the first error. */
static int await_reports(struct shfs_transport *t, unsigned n)
{
	int error;

	pthread_mutex_lock(&t->lock);
	while (t->n_reports < n)
		pthread_cond_wait(&t->change, &t->lock);
	t->n_reports = 0;
	error = t->error;
	t->error = 0;
	pthread_mutex_unlock(&t->lock);
	return error;
}

/* Waits for a stage. False: the end came instead. */
static bool await_stage(struct shfs_transport *t, int stage)
{
	bool has_come;

	pthread_mutex_lock(&t->lock);
	while (t->stage < (unsigned)stage)
		pthread_cond_wait(&t->change, &t->lock);
	/* true also if the stage is over by now: the end waits for all that were counted
	 */
	has_come = t->stage != SHFS_STAGE_DROPPED;
	pthread_mutex_unlock(&t->lock);
	return has_come;
}

/* Moves this thread to the CPU of its callers: a reply from there wakes no other CPU.
 * Fails if we may not use that CPU. */
static void go_to_cpu(int cpu)
{
	cpu_set_t cpus;

	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	(void)!sched_setaffinity(0, sizeof(cpus), &cpus);
}

static bool is_ring_wanted(const struct shfs_worker *w)
{
	return w->transport->kind == SHFS_TRANSPORT_URING &&
	       (!w->queue || w->queue->cpu != SHFS_QUEUE_DEVICE);
}

static int join_queue(struct shfs_worker *w, struct shfs_queue *q)
{
	struct shfs_transport *t = w->transport;
	size_t payload = MAX(MAX(t->init.max_write, t->init.max_pages * 4096u),
	                     (uint32_t)FUSE_MIN_READ_BUFFER);

	if (q->cpu == SHFS_QUEUE_DEVICE)
		return 0;
	go_to_cpu(q->cpu);
	return shfs_ring_join(w->ring, q, payload);
}

static void serve_queue(struct shfs_worker *w, struct shfs_queue *q)
{
	if (q->cpu == SHFS_QUEUE_DEVICE)
		shfs_dev_work(w);
	else
		shfs_ring_work(w);
	atomic_fetch_sub(&q->n_idle, 1);
}

/* Counts a thread that ends; the last one makes ended_fd readable. */
static void leave_transport(struct shfs_transport *t)
{
	if (atomic_fetch_sub(&t->n_running, 1) != 1)
		return;
	fuse_session_exit(t->session);
	set_stage(t, SHFS_STAGE_END);
	eventfd_write(t->ended_fd, 1);
}

static void work_at_first(struct shfs_worker *w)
{
	struct shfs_transport *t = w->transport;

	int r = join_queue(w, w->queue);

	if (r && w->ring)
		shfs_ring_refuse(w->ring);
	report_start(t, r);
	if (!await_stage(t, SHFS_STAGE_SERVE))
		return;
	serve_queue(w, w->queue);
	leave_transport(t);
}

/*
 * Sends a request to a queue that a spare thread has joined. Otherwise:
 *
 * 1. Requests wait in the queue, as all its threads are stuck.
 * 2. A spare thread offers a new buffer.
 * 3. The kernel gives it no waiting request, only a new one: waiting requests are given
 * to buffers whose request was answered.
 *
 * The request is sent from the CPU of the queue, by a thread of its own: if another
 * request takes the buffer and is stuck too, this one waits until the next spare thread
 * comes.
 */
static void *stir_queue(void *arg)
{
	struct shfs_worker *w = arg;
	struct statx stx;

	pthread_setname_np(pthread_self(), "fuse-stir");
	go_to_cpu(w->queue->cpu);
	(void)!statx(AT_FDCWD, w->transport->fs->root, AT_STATX_FORCE_SYNC,
	             STATX_BASIC_STATS, &stx);
	return NULL;
}

static void work_when_needed(struct shfs_worker *w)
{
	struct shfs_transport *t = w->transport;
	struct shfs_queue *q = await_need(t);

	if (!q)
		return;
	atomic_fetch_add(&t->n_running, 1);
	atomic_store(&w->queue, q);
	atomic_fetch_add(&q->n_idle, 1);
	atomic_store(&q->state, SHFS_QUEUE_CALM);
	if (!join_queue(w, q)) {
		w->is_stirred = q->cpu != SHFS_QUEUE_DEVICE &&
		                !pthread_create(&w->stirrer, NULL, stir_queue, w);
		serve_queue(w, q);
	} else {
		atomic_fetch_sub(&q->n_idle, 1);
	}
	leave_transport(t);
}

static void *run_worker(void *arg)
{
	struct shfs_worker *w = shfs_self = arg;
	struct shfs_transport *t = w->transport;

	pthread_setname_np(pthread_self(), w->queue ? "fuse" : "fuse-spare");
	t->calls->begin_thread();
	report_start(t, is_ring_wanted(w) ? shfs_ring_new(t, &w->ring) : 0);
	if (await_stage(t, SHFS_STAGE_JOIN)) {
		if (w->queue)
			work_at_first(w);
		else
			work_when_needed(w);
	}
	return NULL;
}

/* --- the start --- */

static void on_wake(int sig)
{
}

static unsigned n_dev_workers(const struct shfs_transport *t)
{
	cpu_set_t cpus;
	int n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 4 : CPU_COUNT(&cpus);

	if (t->kind == SHFS_TRANSPORT_URING)
		return DEV_MIN;
	return (unsigned)MIN(MAX(n, DEV_MIN), DEV_MAX);
}

/* Makes the workers of each queue, and spare ones. */
static int make_workers(struct shfs_transport *t)
{
	unsigned n_dev = n_dev_workers(t), n = 0;

	t->n_workers = n_dev + RING_WORKERS * (t->n_queues - 1) + SPARES;
	t->workers = calloc(t->n_workers, sizeof(*t->workers));
	if (!t->workers)
		return -ENOMEM;
	for (unsigned i = 0; i < t->n_queues; i++) {
		unsigned wanted = i ? RING_WORKERS : n_dev;

		atomic_store(&t->queues[i].n_idle, (int)wanted);
		while (wanted--)
			t->workers[n++].queue = &t->queues[i];
	}
	atomic_store(&t->n_running, n);
	return 0;
}

static void drop_workers(struct shfs_transport *t)
{
	set_stage(t, SHFS_STAGE_DROPPED);
	shfs_transport_join(t);
	free(t->workers);
	t->workers = NULL;
	t->n_workers = t->n_reports = 0;
	t->error = 0;
	t->stage = SHFS_STAGE_PREPARE;
}

/* Starts the workers; they wait for the next stage. */
static int start_workers(struct shfs_transport *t)
{
	int r = make_workers(t);

	for (unsigned i = 0; i < t->n_workers && !r; i++) {
		struct shfs_worker *w = &t->workers[i];

		w->transport = t;
		r = -pthread_create(&w->thread, NULL, run_worker, w);
		w->is_started = !r;
	}
	if (!r)
		r = await_reports(t, t->n_workers);
	if (r)
		drop_workers(t);
	return r;
}

/* Has the workers join their queues, and serve them. */
static int let_workers_serve(struct shfs_transport *t)
{
	int r;

	set_stage(t, SHFS_STAGE_JOIN);
	r = await_reports(t, t->n_workers - SPARES);
	if (r)
		drop_workers(t);
	else
		set_stage(t, SHFS_STAGE_SERVE);
	return r;
}

static int make_device_queue(struct shfs_transport *t)
{
	t->queues = calloc(1, sizeof(*t->queues));
	if (!t->queues)
		return -ENOMEM;
	t->queues[0].cpu = SHFS_QUEUE_DEVICE;
	t->n_queues = 1;
	return 0;
}

static const char *reason_of(int error)
{
	switch (error) {
	case -EPERM:
	case -EACCES:
		return "not permitted here";
	case -ENOSYS:
	case -EINVAL:
		return "the kernel is too old for it";
	default:
		return strerror(-error);
	}
}

/* Goes back to the device, during the start. */
static void do_without_uring(struct shfs_transport *t, const char *reason)
{
	shfs_debug(TRANSPORT, "no io_uring: %s", reason);
	t->reason = reason;
	t->kind = SHFS_TRANSPORT_DEV;
	t->wanted &= ~SHFS_FUSE_OVER_IO_URING;
	t->n_queues = 1;
}

/* Prepares io_uring before INIT: makes the rings, so that only offers remain. */
static void prepare_uring(struct shfs_transport *t)
{
	int r;

	t->kind = SHFS_TRANSPORT_URING;
	t->wanted |= SHFS_FUSE_OVER_IO_URING;
	t->reason = shfs_uring_probe(t);
	if (t->reason) {
		do_without_uring(t, t->reason);
		return;
	}
	r = start_workers(t);
	if (r)
		do_without_uring(t, reason_of(r));
}

/* Begins io_uring, once the kernel has offered it: it waits until we join all queues, or
 * fail. */
static void begin_uring(struct shfs_transport *t)
{
	int r;

	if (!(t->offered & SHFS_FUSE_OVER_IO_URING)) {
		drop_workers(t);
		do_without_uring(t, "the kernel does not offer it");
		return;
	}
	r = let_workers_serve(t);
	if (r)
		do_without_uring(t, reason_of(r));
}

/* Drops all that the kernel has cached from the dead server: the lower files may have
 * changed unnoticed meanwhile. */
static void doubt_all(struct shfs_transport *t)
{
	struct shfs_heir_node *heir_node = NULL;

	shfs_transport_expire_names(t);
	while ((heir_node = shfs_heir_next_node(t->fs->heir, heir_node)))
		shfs_transport_invalidate(t, heir_node->id, false);
}

/* Asks the kernel to send requests again that were not answered. Called before any
 * request is read, as that would be sent again, too. */
static void ask_again(struct shfs_transport *t)
{
	struct fuse_out_header notice = { .len = sizeof(notice),
		                          .error = SHFS_FUSE_NOTIFY_RESEND };

	if (write(fuse_session_fd(t->session), &notice, sizeof(notice)) < 0)
		shfs_log("requests that were not answered cannot be sent again: %m");
}

static int begin_dev(struct shfs_transport *t)
{
	int r = start_workers(t);

	if (!r && shfs_transport_can_be_taken(t))
		r = t->calls->inherit(t->fs, t->is_taken);
	if (!r && t->is_taken) {
		doubt_all(t);
		ask_again(t);
	}
	return r ? r : let_workers_serve(t);
}

int shfs_transport_start(struct shfs_transport *t)
{
	struct sigaction action = { .sa_handler = on_wake };
	enum shfs_transport_kind asked = t->kind;
	int r = make_device_queue(t);

	sigaction(WAKE, &action, NULL); /* no SA_RESTART: calls return */
	if (r)
		return r;
	if (asked == SHFS_TRANSPORT_DEV)
		t->reason = "as configured";
	else
		prepare_uring(t);
	r = serve_init(t);
	if (r) {
		drop_workers(t);
		return r;
	}
	if (t->kind == SHFS_TRANSPORT_URING)
		begin_uring(t);
	shfs_debug(TRANSPORT, "requests come by %s", shfs_transport_name(t));
	if (t->kind == SHFS_TRANSPORT_URING)
		return 0;
	if (asked == SHFS_TRANSPORT_URING)
		return -EOPNOTSUPP;
	return begin_dev(t);
}

int shfs_transport_new(struct shfs_fs *fs, struct fuse_session *session,
                       const struct shfs_transport_calls *calls,
                       enum shfs_transport_kind kind, struct shfs_transport **out)
{
	struct shfs_transport *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->fs = fs;
	t->session = session;
	t->calls = calls;
	t->kind = kind;
	t->wanted = FUSE_HANDLE_KILLPRIV_V2;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->change, NULL);
	pthread_cond_init(&t->call, NULL);
	pthread_mutex_init(&t->interrupts.lock, NULL);
	t->ended_fd = eventfd(0, EFD_CLOEXEC);
	t->bell = eventfd(0, EFD_CLOEXEC);
	r = t->ended_fd < 0 || t->bell < 0
	            ? -errno
	            : fuse_session_custom_io(session, &custom_io,
	                                     fuse_session_fd(session));
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
	for (unsigned i = 0; i < t->n_workers; i++)
		if (t->workers[i].is_stirred)
			pthread_join(t->workers[i].stirrer, NULL);
	free(t->workers);
	free(t->queues);
	free(t->queue_ids);
	pthread_mutex_destroy(&t->interrupts.lock);
	pthread_cond_destroy(&t->change);
	pthread_cond_destroy(&t->call);
	pthread_mutex_destroy(&t->lock);
	shfs_closep(&t->ended_fd);
	shfs_closep(&t->bell);
	free(t);
}

uint64_t shfs_transport_unique(void)
{
	return unique_now & ~SHFS_FUSE_RESENT_BIT;
}

bool shfs_transport_is_resent(void)
{
	return unique_now & SHFS_FUSE_RESENT_BIT;
}

void shfs_transport_take(struct shfs_transport *t)
{
	t->is_taken = true;
	t->kind = SHFS_TRANSPORT_DEV;
}

/*
 * Can the mount be taken over? Not with io_uring: requests in a ring are lost with it.
 * And the kernel must support epochs (7.44), to look all names up anew, as a successor
 * knows none of them.
 */
bool shfs_transport_can_be_taken(const struct shfs_transport *t)
{
	return t->kind == SHFS_TRANSPORT_DEV && (t->offered & SHFS_FUSE_HAS_RESEND) &&
	       t->minor >= 44;
}

void shfs_transport_want_passthrough(struct shfs_transport *t)
{
	t->wanted |= SHFS_FUSE_PASSTHROUGH;
}

bool shfs_transport_offers_passthrough(const struct shfs_transport *t)
{
	return t->wanted & t->offered & SHFS_FUSE_PASSTHROUGH;
}

int shfs_transport_ended_fd(const struct shfs_transport *t)
{
	return t->ended_fd;
}

const char *shfs_transport_name(const struct shfs_transport *t)
{
	return t->kind == SHFS_TRANSPORT_URING ? "io_uring" : "dev";
}

const char *shfs_transport_reason(const struct shfs_transport *t)
{
	return t->reason;
}

/* --- the end --- */

void shfs_transport_stop(struct shfs_transport *t)
{
	fuse_session_exit(t->session);
	set_stage(t, SHFS_STAGE_END);
	/* again and again, as a thread may have been about to read */
	while (atomic_load(&t->n_running) > atomic_load(&t->n_waiting)) {
		for (unsigned i = 0; i < t->n_workers; i++)
			pthread_kill(t->workers[i].thread, WAKE);
		shfs_uring_ring(t);
		sleep_ns(GRACE_NS);
	}
}

bool shfs_transport_is_ending(const struct shfs_transport *t)
{
	return fuse_session_exited(t->session);
}

void shfs_transport_join(struct shfs_transport *t)
{
	for (unsigned i = 0; i < t->n_workers; i++) {
		if (t->workers[i].is_started)
			pthread_join(t->workers[i].thread, NULL);
		t->workers[i].is_started = false;
	}
	for (unsigned i = 0; i < t->n_workers; i++) {
		struct shfs_worker *w = &t->workers[i];

		shfs_ring_free(TAKE_PTR(w->ring));
		if (w->statfd)
			close(w->statfd);
		w->statfd = 0;
	}
}

/* --- while serving --- */

struct sight {
	unsigned turn, looks;
};

static bool has_looked(const struct shfs_worker *w, struct sight before)
{
	return atomic_load(&w->looks) != before.looks;
}

/* Does the worker wait for a request of the device? True also if that is not known. */
static bool is_waiting(const struct shfs_worker *w)
{
	struct shfs_proc_stat stat;
	int fd = atomic_load(&w->statfd);

	return !fd || shfs_proc_reread_stat(fd, &stat) || stat.waiting;
}

/* Has the worker answered all requests that it had at the sight `before`? A worker that
 * serves none may have been given one without having noticed. */
static bool has_answered_requests(const struct shfs_worker *w, struct sight before)
{
	const struct shfs_queue *q = w->queue;
	unsigned turns = atomic_load(&w->turn) - before.turn;

	if (!q || w == shfs_self || atomic_load(&w->is_parked))
		return true;
	if (before.turn & 1)
		return turns > 0;
	if (q->cpu == SHFS_QUEUE_DEVICE && !turns && is_waiting(w))
		return atomic_load(&w->turn) == before.turn;
	return turns > 1 || has_looked(w, before);
}

/* Had a thread of the queue nothing to do, so that no request waited in it? */
static bool was_empty(const struct shfs_transport *t, const struct shfs_queue *q,
                      const struct sight *before)
{
	if (q->cpu == SHFS_QUEUE_DEVICE)
		return true;
	for (unsigned i = 0; i < t->n_workers; i++)
		if (t->workers[i].queue == q && has_looked(&t->workers[i], before[i]))
			return true;
	return false;
}

static bool is_quiet(struct shfs_transport *t, const struct sight *before)
{
	for (unsigned i = 0; i < t->n_workers; i++)
		if (!has_answered_requests(&t->workers[i], before[i]))
			return false;
	for (unsigned i = 0; i < t->n_queues; i++)
		if (!was_empty(t, &t->queues[i], before))
			return false;
	return true;
}

/* Does not wait for workers that wait here themselves: no caller needs their requests
 * first. */
void shfs_transport_quiesce(struct shfs_transport *t)
{
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + QUIESCE_NS;
	struct sight *before = calloc(t->n_workers, sizeof(*before));

	if (!before)
		return;
	if (shfs_self)
		atomic_fetch_add(&shfs_self->turn, 1);
	for (unsigned i = 0; i < t->n_workers; i++)
		before[i] = (struct sight){ atomic_load(&t->workers[i].turn),
			                    atomic_load(&t->workers[i].looks) };
	while (!is_quiet(t, before) && shfs_clock_ns(CLOCK_MONOTONIC) < until) {
		shfs_uring_ring(t);
		sleep_ns(GLANCE_NS);
	}
	if (shfs_self)
		atomic_fetch_add(&shfs_self->turn, 1);
	free(before);
}

void *shfs_transport_reply_space(size_t size)
{
	if (!shfs_self)
		return NULL;
	return shfs_self->buffer ? shfs_dev_space(shfs_self, size)
	       : shfs_self->ring ? shfs_ring_space(shfs_self->ring, size)
	                         : NULL;
}

/* Needs Linux 6.18. */
int shfs_transport_forget(struct shfs_transport *t, const uint64_t *ids, size_t n)
{
	struct {
		struct fuse_out_header header;
		struct shfs_fuse_prune_out prune;
	} notice = { .header.error = SHFS_FUSE_NOTIFY_PRUNE, .prune.count = (uint32_t)n };
	struct iovec iov[] = {
		{ &notice, sizeof(notice) },
		{ (void *)ids, n * sizeof(*ids) },
	};

	notice.header.len = (uint32_t)(iov[0].iov_len + iov[1].iov_len);
	return writev(fuse_session_fd(t->session), iov, 2) < 0 ? -errno : 0;
}

void shfs_transport_invalidate(struct shfs_transport *t, uint64_t id, bool content)
{
	struct {
		struct fuse_out_header header;
		struct fuse_notify_inval_inode_out inode;
	} notice = {
		.header = { .len = sizeof(notice), .error = FUSE_NOTIFY_INVAL_INODE },
		.inode = { .ino = id, .off = content ? 0 : -1 },
	};

	(void)!write(fuse_session_fd(t->session), &notice, sizeof(notice));
}

void shfs_transport_expire_names(struct shfs_transport *t)
{
	struct fuse_out_header notice = { .len = sizeof(notice),
		                          .error = SHFS_FUSE_NOTIFY_INC_EPOCH };

	(void)!write(fuse_session_fd(t->session), &notice, sizeof(notice));
}
