/* SPDX-License-Identifier: MIT */
/* Reads the attributes of a file and of its directory that a change is about to do away
 * with. */
#include "fusefs/operations/operations.h"

#include "common/clock.h"

#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define LIST_MAX 65536 /* of all values of a file; more are not kept */

void shfs_former_status(struct shfs_former *former, const struct statx *stx)
{
	former->flags |= SHFS_FORMER_STATUS;
	former->mode = stx->stx_mode;
	former->uid = stx->stx_uid;
	former->gid = stx->stx_gid;
	former->links = stx->stx_nlink;
	former->dev = makedev(stx->stx_dev_major, stx->stx_dev_minor);
	former->ino = stx->stx_ino;
	former->rdev = makedev(stx->stx_rdev_major, stx->stx_rdev_minor);
	former->mtime_ns = shfs_time_ns(stx->stx_mtime.tv_sec, stx->stx_mtime.tv_nsec);
}

/* Adds one; one that is not there is no error. */
static int add_xattr(const char *path, const char *name, struct shfs_buf *list)
{
	_cleanup_free_ char *value = malloc(XATTR_SIZE_MAX);
	ssize_t n;

	if (!value)
		return -ENOMEM;
	n = getxattr(path, name, value, XATTR_SIZE_MAX);
	if (n < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
	shfs_xattr_add(list, shfs_bytes_str(name),
	               (struct shfs_bytes){ value, (size_t)n });
	return list->failed ? -ENOMEM : list->len > LIST_MAX ? -E2BIG : 0;
}

static int add_all_xattrs(const char *path, struct shfs_buf *list)
{
	_cleanup_free_ char *names = NULL;
	ssize_t n = listxattr(path, NULL, 0);
	int r = 0;

	if (n <= 0)
		return !n || errno == EOPNOTSUPP ? 0 : -errno;
	names = malloc((size_t)n);
	if (!names)
		return -ENOMEM;
	n = listxattr(path, names, (size_t)n);
	if (n < 0)
		return -errno;
	for (const char *p = names; p < names + n && !r; p += strlen(p) + 1)
		r = add_xattr(path, p, list);
	return r;
}

void shfs_former_xattrs(struct shfs_former *former, int fd, const char *name,
                        struct shfs_buf *list)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (name ? add_xattr(path, name, list) : add_all_xattrs(path, list))
		return;
	former->flags |= SHFS_FORMER_XATTRS;
	former->xattrs = (struct shfs_bytes){ list->data ?: "", list->len };
}

int64_t shfs_directory_mtime(int dirfd)
{
	struct stat st;

	return fstat(dirfd, &st) ? 0 : shfs_timespec_ns(st.st_mtim);
}

void shfs_former_directory(struct shfs_former *former, int dirfd)
{
	former->directory_mtime_ns = shfs_directory_mtime(dirfd);
	if (former->directory_mtime_ns)
		former->flags |= SHFS_FORMER_DIRECTORY;
}

void shfs_former_directory2(struct shfs_former *former, int dirfd)
{
	former->directory2_mtime_ns = shfs_directory_mtime(dirfd);
	if (former->directory2_mtime_ns)
		former->flags |= SHFS_FORMER_DIRECTORY2;
}
