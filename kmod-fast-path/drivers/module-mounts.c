/* SPDX-License-Identifier: MIT */
/*
 * Finds the mounts below the root for the module: it finds a file's path by directory
 * entries, which end at the top of each file system.
 */
#include "kmod-fast-path/drivers/module.h"

#include "common/path.h"
#include "common/util.h"
#include "kmod-fast-path/drivers/mountinfo.h"
#include "kmod-fast-path/module/device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

struct mounts {
	struct shfs_device_mount list[SHFS_DEVICE_MOUNTS_MAX];
	unsigned count;
	bool too_many;
};

static void mounts_free(struct mounts *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		close(m->list[i].fd);
		free((void *)(uintptr_t)m->list[i].text);
	}
}

/* The device of a mount; 0 also where only its server could tell: that may never
 * answer. */
static __u64 device_of(int fd)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
		return 0;
	return makedev(st.stx_dev_major, st.stx_dev_minor);
}

static int add_device_mount(struct mounts *m, int root, const char *where)
{
	_cleanup_free_ char *text = strdup(where);
	struct shfs_device_mount *mount;
	__u64 dev;
	int fd;

	if (!text)
		return -ENOMEM;
	if (m->count == SHFS_DEVICE_MOUNTS_MAX) {
		m->too_many = true;
		return 0;
	}
	fd = openat(root, where, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return 0; /* gone again */
	dev = device_of(fd);
	mount = &m->list[m->count++];
	mount->fd = fd;
	mount->text_len = (__u32)strlen(text);
	mount->dev = dev == device_of(root) ? 0 : dev;
	mount->text = (uintptr_t)TAKE_PTR(text);
	return 0;
}

/* The mount point is the fifth word of a line. */
static char *mount_point(char *line)
{
	char *rest = line, *word = NULL;

	for (int i = 0; i < 5; i++)
		word = strsep(&rest, " ");
	if (word)
		unescape_mountinfo(word);
	return word;
}

static int list_device_mounts(struct mounts *m, int root, int mountinfo)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *line = NULL;
	char link[32], top[PATH_MAX];
	size_t room = 0;
	ssize_t len;
	int r = 0;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", root);
	len = readlink(link, top, sizeof(top) - 1);
	if (len < 0)
		return -errno;
	top[len] = 0;
	fd = fcntl(mountinfo, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	f = fdopen(fd, "r");
	if (!f)
		return -errno;
	(void)TAKE_FD(fd);
	while (!r && getline(&line, &room, f) > 0) {
		const char *where = mount_point(line);
		const char *below = where ? shfs_path_relative(where, top) : NULL;

		if (below && *below)
			r = add_device_mount(m, root, below);
	}
	return r;
}

int shfs_module_mounts(int device, int root, int mountinfo)
{
	_cleanup_(mounts_free) struct mounts m = { 0 };
	struct shfs_device_mounts order = { .mounts = (uintptr_t)m.list };
	int r;

	r = list_device_mounts(&m, root, mountinfo);
	order.count = m.count;
	if (!r && ioctl(device, SHFS_DEVICE_MOUNTS, &order) < 0)
		r = -errno;
	if (!r && m.too_many)
		r = -E2BIG;
	return r < 0 ? r : (int)m.count;
}
