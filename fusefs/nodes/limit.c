/* SPDX-License-Identifier: MIT */
#include "fusefs/nodes/limit.h"

#include "fusefs/nodes/node.h"
#include "fusefs/transport/transport.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>

#define BATCH         512
#define FORGET_NS     20000000 /* time for the kernel to send FORGET */
#define PAUSE_MS      50       /* before looking again, and if nothing was forgotten */
#define PAUSE_MAX_MS  10000
#define TRIM_AFTER_MS 2000 /* after the number of nodes has stopped changing */

struct shfs_pruner {
	struct shfs_tree *tree;
	struct shfs_transport *transport;
	size_t max;
	pthread_t thread;
	atomic_bool ending;
	bool refused; /* this kernel does not support it */
};

/* Asks the kernel to forget so many names that it does not help only for a few files. */
static void forget_idle_nodes(struct shfs_pruner *p)
{
	size_t size = shfs_tree_size(p->tree), goal = p->max - p->max / 8, n;
	uint64_t ids[BATCH];

	while (size > goal && !p->refused && !atomic_load(&p->ending)) {
		n = shfs_tree_idle(p->tree, ids, MIN(size - goal, (size_t)BATCH));
		if (!n)
			return;
		p->refused = shfs_transport_forget(p->transport, ids, n) < 0;
		size -= n;
	}
}

static void *run_pruner(void *arg)
{
	struct shfs_pruner *p = arg;
	struct pollfd fd = { .fd = shfs_tree_size_fd(p->tree), .events = POLLIN };
	int pause = PAUSE_MS;
	bool trimmed = true;
	eventfd_t changes;

	pthread_setname_np(pthread_self(), "prune");
	while (!atomic_load(&p->ending)) {
		bool crowded = !p->refused && shfs_tree_size(p->tree) > p->max;

		if (crowded) {
			forget_idle_nodes(p);
			nanosleep(&(struct timespec){ .tv_nsec = FORGET_NS }, NULL);
		}
		pause = crowded ? MIN(2 * pause, PAUSE_MAX_MS) : PAUSE_MS;
		if (poll(&fd, 1, crowded ? pause : trimmed ? -1 : TRIM_AFTER_MS) > 0) {
			(void)!eventfd_read(fd.fd, &changes);
			trimmed = false;
		} else if (!crowded && !trimmed) {
			malloc_trim(0);
			trimmed = true;
		}
	}
	return NULL;
}

int shfs_pruner_new(struct shfs_tree *tree, struct shfs_transport *transport,
                    size_t max_nodes, struct shfs_pruner **out)
{
	_cleanup_free_ struct shfs_pruner *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->tree = tree;
	p->transport = transport;
	p->max = max_nodes;
	r = -pthread_create(&p->thread, NULL, run_pruner, p);
	if (!r)
		*out = TAKE_PTR(p);
	return r;
}

void shfs_pruner_free(struct shfs_pruner *p)
{
	if (!p)
		return;
	atomic_store(&p->ending, true);
	eventfd_write(shfs_tree_size_fd(p->tree), 1);
	pthread_join(p->thread, NULL);
	free(p);
}
