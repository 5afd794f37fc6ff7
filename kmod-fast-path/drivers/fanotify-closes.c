/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/drivers/fanotify-closes.h"

#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/resource.h>

int fan_closes_open(unsigned limits, struct shfs_buf *why)
{
	int fd;

	shfs_proc_raise_limit(RLIMIT_NOFILE);
	/* O_NONBLOCK: the kernel opens the closed file, which may be a FIFO */
	fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK | limits,
	                   O_RDONLY | O_CLOEXEC | O_LARGEFILE | O_NONBLOCK | O_NOATIME);

	if (fd >= 0)
		return fd;
	shfs_buf_printf(why, "fanotify cannot be used: %s", strerror(errno));
	return -errno;
}

static void proc_path_of_fd(int fd, char path[static 32])
{
	snprintf(path, 32, "/proc/self/fd/%d", fd);
}

void fan_closes_ignore(int closes_fd, int fd)
{
	char path[32];

	proc_path_of_fd(fd, path);
	/* the mark may go with the inode: then the file is seen again, no harm */
	(void)fanotify_mark(closes_fd,
	                    FAN_MARK_ADD | FAN_MARK_IGNORED_MASK |
	                            FAN_MARK_IGNORED_SURV_MODIFY,
	                    FAN_CLOSE | FAN_OPEN_EXEC, AT_FDCWD, path);
}

int fan_closes_pin(int fd)
{
	char path[32];

	proc_path_of_fd(fd, path);
	return open(path, O_PATH | O_CLOEXEC);
}
