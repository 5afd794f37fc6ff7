/* SPDX-License-Identifier: MIT */
#include "common/lock.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 10

int shfs_lock_take(const char *name, int wait_ms)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "shfs-%u-%s",
	                 (unsigned)geteuid(), name);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);

	if (fd < 0)
		return -errno;
	if (n >= (int)sizeof(address.sun_path) - 1)
		return -ENAMETOOLONG;
	for (int ms = 0; bind(fd, (struct sockaddr *)&address, len); ms += POLL_MS) {
		if (errno != EADDRINUSE || ms >= wait_ms)
			return -errno;
		nanosleep(&(struct timespec){ .tv_nsec = POLL_MS * 1000000L }, NULL);
	}
	return TAKE_FD(fd);
}
