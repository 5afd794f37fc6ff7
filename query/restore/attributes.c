/* SPDX-License-Identifier: MIT */
#include "query/restore/attributes.h"

#include "common/clock.h"
#include "query/base/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MODE_BITS      (07777 & ~(S_ISUID | S_ISGID))
#define DIRECTORY_BITS (07777 & ~S_ISUID)

static int open_file(int dirfd, const char *name, char proc[static 40])
{
	int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	snprintf(proc, 40, "/proc/self/fd/%d", fd);
	return fd;
}

int shfs_attributes_set(int dirfd, const char *name, uint32_t what,
                        struct shfs_attributes a)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		                     shfs_ns_timespec(a.mtime_ns) };
	char proc[40];
	_cleanup_close_ int fd = open_file(dirfd, name, proc);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		return -errno;
	if (what & SHFS_ATTRIBUTE_OWNER && (st.st_uid != a.uid || st.st_gid != a.gid) &&
	    fchownat(fd, "", a.uid, a.gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) &&
	    errno != EPERM)
		return -errno;
	if (what & SHFS_ATTRIBUTE_MODE && !S_ISLNK(st.st_mode) &&
	    (st.st_mode & 07777) != (a.mode & 07777) &&
	    chmod(proc, a.mode & (S_ISDIR(st.st_mode) ? DIRECTORY_BITS : MODE_BITS)))
		return -errno;
	if (what & SHFS_ATTRIBUTE_TIME &&
	    utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return 0;
}

int shfs_attributes_set_xattr(int dirfd, const char *name, const char *xattr,
                              struct shfs_bytes value)
{
	char proc[40];
	_cleanup_close_ int fd = open_file(dirfd, name, proc);
	int r;

	if (fd < 0)
		return fd;
	r = value.data ? setxattr(proc, xattr, value.data, value.len, 0)
	               : removexattr(proc, xattr);
	return r && errno != ENODATA && errno != EPERM && errno != EOPNOTSUPP ? -errno
	                                                                      : 0;
}

/* Removes what a new file has got by its directory's default ACL. */
static int remove_acls(int dirfd, const char *name)
{
	static const char *const acls[] = { "system.posix_acl_access",
		                            "system.posix_acl_default" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(acls) && !r; i++) {
		r = shfs_attributes_set_xattr(dirfd, name, acls[i],
		                              (struct shfs_bytes){ NULL, 0 });
		r = r == -EACCES ? 0 : r; /* it has no default one */
	}
	return r;
}

static int put_back_xattrs(int dirfd, const char *name, const struct shfs_former *former)
{
	struct shfs_cursor list = { (const unsigned char *)former->xattrs.data,
		                    (const unsigned char *)former->xattrs.data +
		                            former->xattrs.len,
		                    false };
	struct shfs_bytes xattr, value;
	int r = remove_acls(dirfd, name);

	while (!r && shfs_xattr_next(&list, &xattr, &value)) {
		char text[256];

		if (xattr.len >= sizeof(text))
			return -EINVAL;
		memcpy(text, xattr.data, xattr.len);
		text[xattr.len] = '\0';
		value.data = value.data ?: "";
		r = shfs_attributes_set_xattr(dirfd, name, text, value);
	}
	return r;
}

int shfs_attributes_put_back(const char *path, const struct shfs_former *former)
{
	_cleanup_close_ int dirfd = -1;
	const char *name = strrchr(path, '/') + 1;
	_cleanup_free_ char *directory = strndup(path, (size_t)(name - path));
	uint32_t what = 0;
	int r = directory ? shfs_trusted_directory(directory,
	                                           (struct shfs_way){ .no_own = true },
	                                           &dirfd)
	                  : -ENOMEM;

	if (former->flags & (SHFS_FORMER_STATUS | SHFS_FORMER_TIME))
		what = SHFS_ATTRIBUTE_MODE | SHFS_ATTRIBUTE_TIME;
	if (former->flags & SHFS_FORMER_STATUS)
		what |= SHFS_ATTRIBUTE_OWNER;
	if (!r && former->flags & SHFS_FORMER_XATTRS)
		r = put_back_xattrs(dirfd, name, former);
	/* an ACL or an owner changes the mode */
	return r ? r
	         : shfs_attributes_set(dirfd, name, what,
	                               (struct shfs_attributes){ former->mode,
	                                                         former->uid, former->gid,
	                                                         former->mtime_ns });
}
