/* SPDX-License-Identifier: MIT */
/* Requests read from /dev/fuse, one read(2) and one writev(2) for each. */
#include "fusefs/transport/internal.h"

#include <errno.h>
#include <fcntl.h>

/* The largest request of the kernel. */
#define REQUEST_MAX (SHFS_MAX_WRITE + 4096)

void shfs_dev_work(struct shfs_worker *worker)
{
	struct shfs_transport *t = worker->transport;
	int fd = fuse_session_fd(t->session);
	char *request = malloc(REQUEST_MAX);

	atomic_store(&worker->statfd,
	             MAX(0, open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC)));
	while (request && !fuse_session_exited(t->session)) {
		ssize_t n = read(fd, request, REQUEST_MAX);

		if (n < 0 && shfs_transport_goes_on(errno))
			continue;
		if (n < (ssize_t)sizeof(struct fuse_in_header))
			break;
		shfs_worker_begin(worker);
		shfs_transport_serve(t, request, (size_t)n);
		shfs_worker_end(worker, true);
	}
	free(request);
}
