/* SPDX-License-Identifier: MIT */
/* Requests read from /dev/fuse, one read(2) and one writev(2) for each. */
#include "fusefs/transport/internal.h"

#include "common/clock.h"
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/mman.h>

#define HEAD_MAX    4096 /* of a request: all but the data of a write */
#define REQUEST_MAX (HEAD_MAX + SHFS_MAX_WRITE)
#define LOOK_EVERY  64 /* requests */
#define LOOK_NS     5000000

#define FRESH_NS 100000000

/* The CPUs of callers: when one was seen there last, and how many threads of the device
 * stay there. */
static struct {
	_Atomic int64_t seen_ns;
	atomic_int n_threads;
} cpus[CPU_SETSIZE];

/* The CPU that a thread of the device stays on. */
struct seat {
	cpu_set_t allowed;   /* the CPUs that this process may use */
	int cpu;             /* -1: none yet */
	unsigned n_requests; /* since its callers were looked for, */
	int64_t looked_ns;   /* at this time */
};

static int find_cpu(uint32_t tid)
{
	_cleanup_close_ int fd = -1;
	struct shfs_proc_stat stat;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || shfs_proc_reread_stat(fd, &stat) || stat.cpu >= CPU_SETSIZE)
		return -1;
	return (int)stat.cpu;
}

/* Is this the only thread where callers were seen of late, and one is there already where
 * they are now? */
static bool is_needed(const struct seat *seat, int cpu, int64_t now_ns)
{
	return seat->cpu >= 0 && atomic_load(&cpus[seat->cpu].n_threads) == 1 &&
	       now_ns - atomic_load(&cpus[seat->cpu].seen_ns) < FRESH_NS &&
	       atomic_load(&cpus[cpu].n_threads) > 0;
}

static void leave_seat(struct seat *seat)
{
	if (seat->cpu >= 0)
		atomic_fetch_sub(&cpus[seat->cpu].n_threads, 1);
	seat->cpu = -1;
}

static void take_seat(struct seat *seat, int cpu)
{
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		return;
	leave_seat(seat);
	seat->cpu = cpu;
	atomic_fetch_add(&cpus[cpu].n_threads, 1);
}

/*
 * Keeps this thread on a CPU from which its requests come. Then a request wakes it there,
 * and no other CPU that sleeps, which takes longer than most requests. Left alone, the
 * kernel wakes it on the CPU where it ran last.
 *
 * A reply often moves the caller to another CPU, as this thread occupies that one. From
 * there it wakes the thread that has waited longest: so one stays on each of these CPUs.
 * One may be occupied by other work for long: then the time makes a thread look again.
 */
static void sit_near_caller(struct seat *seat, const struct fuse_in_header *header)
{
	int64_t now_ns;
	int cpu;

	if (!header->pid) /* no process, or one of another pid namespace */
		return;
	/* A process may close its files in an exec. To read its stat then waits until the
	 * exec has gone on, which waits for our answer. */
	if (header->opcode == FUSE_FLUSH)
		return;
	now_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	if (++seat->n_requests < LOOK_EVERY && now_ns - seat->looked_ns < LOOK_NS)
		return;
	seat->n_requests = 0;
	seat->looked_ns = now_ns;
	cpu = find_cpu(header->pid);
	if (cpu < 0 || !CPU_ISSET(cpu, &seat->allowed))
		return;
	atomic_store(&cpus[cpu].seen_ns, now_ns);
	if (cpu != seat->cpu && !is_needed(seat, cpu, now_ns))
		take_seat(seat, cpu);
}

/* Returns a buffer, or NULL. It is a mapping of its own: from the heap it might get pages
 * that were used already, which this thread then keeps for small requests. */
static char *map_buffer(void)
{
	char *buffer = mmap(NULL, REQUEST_MAX, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (buffer == MAP_FAILED)
		return NULL;
	madvise(buffer, REQUEST_MAX, MADV_NOHUGEPAGE);
	return buffer;
}

void *shfs_dev_space(struct shfs_worker *worker, size_t size)
{
	return size <= SHFS_MAX_WRITE ? worker->buffer + HEAD_MAX : NULL;
}

void shfs_dev_work(struct shfs_worker *worker)
{
	struct shfs_transport *t = worker->transport;
	int fd = fuse_session_fd(t->session);
	char *request = worker->buffer = map_buffer();
	struct seat seat = { .cpu = -1 };

	if (sched_getaffinity(0, sizeof(seat.allowed), &seat.allowed))
		CPU_ZERO(&seat.allowed);
	atomic_store(&worker->statfd,
	             MAX(0, open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC)));
	while (request && !fuse_session_exited(t->session)) {
		ssize_t n = read(fd, request, REQUEST_MAX);

		if (n < 0 && shfs_transport_goes_on(errno))
			continue;
		if (n < (ssize_t)sizeof(struct fuse_in_header))
			break;
		shfs_worker_begin(worker);
		sit_near_caller(&seat, (const void *)request);
		shfs_transport_serve(t, request, (size_t)n);
		shfs_worker_end(worker, true);
	}
	leave_seat(&seat);
	worker->buffer = NULL;
	if (request)
		munmap(request, REQUEST_MAX);
}
