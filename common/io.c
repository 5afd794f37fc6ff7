/* SPDX-License-Identifier: MIT */
#include "common/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/sendfile.h>

#define COPY_BYTES (1 << 20)

int shfs_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = TEMP_FAILURE_RETRY(write(fd, p, len));

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		len -= n;
	}
	return 0;
}

int shfs_copy_fd(int from, int to)
{
	ssize_t n;

	while ((n = TEMP_FAILURE_RETRY(sendfile(to, from, NULL, COPY_BYTES))) > 0)
		;
	return n ? -errno : 0;
}

ssize_t shfs_pread_full(int fd, void *data, size_t len, off_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = TEMP_FAILURE_RETRY(
			pread(fd, (char *)data + done, len - done, offset + done));

		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += n;
	}
	return done;
}

int shfs_read_fd(int fd, size_t max_bytes, struct shfs_buf *out)
{
	char chunk[16384];
	size_t total = 0;

	for (;;) {
		ssize_t n = TEMP_FAILURE_RETRY(read(fd, chunk, sizeof(chunk)));

		if (n < 0)
			return -errno;
		if (!n)
			break;
		total += n;
		if (total > max_bytes)
			return -EFBIG;
		shfs_buf_add(out, chunk, n);
	}
	shfs_buf_add(out, "", 0);
	return out->failed ? -ENOMEM : 0;
}

int shfs_read_file_at(int dirfd, const char *name, size_t max_bytes, struct shfs_buf *out)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return -errno;
	return shfs_read_fd(fd, max_bytes, out);
}

int shfs_write_file_at(int dirfd, const char *name, mode_t mode, const void *data,
                       size_t len)
{
	_cleanup_buf_ struct shfs_buf tmp = { 0 };
	_cleanup_close_ int fd = -1;
	int r;

	shfs_buf_printf(&tmp, "%s.tmp-%d", name, (int)getpid());
	if (tmp.failed)
		return -ENOMEM;
	unlinkat(dirfd, tmp.data, 0);
	fd = openat(dirfd, tmp.data, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	            mode);
	if (fd < 0)
		return -errno;
	r = shfs_write_all(fd, data, len);
	if (!r && fsync(fd))
		r = -errno;
	if (!r && renameat(dirfd, tmp.data, dirfd, name))
		r = -errno;
	if (r) {
		unlinkat(dirfd, tmp.data, 0);
		return r;
	}
	shfs_closep(&fd);
	fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd))
		return -errno;
	return 0;
}

struct dirent *shfs_readdir(DIR *dir, int *r)
{
	struct dirent *e;

	errno = 0;
	e = readdir(dir);
	if (!e)
		*r = -errno;
	return e;
}

bool shfs_is_empty_directory(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;
	int r = 0;

	while (dir && shfs_readdir(dir, &r))
		n++;
	if (dir)
		closedir(dir);
	return dir && !r && n <= 2; /* . and .. */
}

int shfs_mkdir_p_at(int dirfd, const char *path, mode_t mode)
{
	_cleanup_free_ char *copy = strdup(path);
	char *p = copy;

	if (!copy)
		return -ENOMEM;
	for (;;) {
		p += strspn(p, "/");
		p += strcspn(p, "/");
		char end = *p;

		*p = '\0';
		if (mkdirat(dirfd, copy, mode) && errno != EEXIST)
			return -errno;
		if (!end)
			return 0;
		*p++ = end;
		if (!p[strspn(p, "/")])
			return 0;
	}
}

bool shfs_is_network(const struct statfs *fs)
{
	static const unsigned long network[] = {
		NFS_SUPER_MAGIC,
		SMB_SUPER_MAGIC,
		CIFS_SUPER_MAGIC,
		SMB2_SUPER_MAGIC,
		CODA_SUPER_MAGIC,
		AFS_SUPER_MAGIC,
		AFS_FS_MAGIC,
		CEPH_SUPER_MAGIC,
		V9FS_MAGIC,
		0x0bd00bd0 /* Lustre */,
		0x47504653 /* GPFS */,
		0x19830326 /* BeeGFS */,
	};

	for (size_t i = 0; i < ARRAY_SIZE(network); i++)
		if ((unsigned long)fs->f_type == network[i])
			return true;
	return false;
}

bool shfs_is_served(const struct statfs *fs)
{
	return fs->f_type == 0x65735546 /* FUSE */ || shfs_is_network(fs);
}

bool shfs_fd_is_served(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) || shfs_is_served(&fs);
}

int shfs_stat_now(int dirfd, const char *name, struct stat *out)
{
	int flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
	struct statx stx;

	/* this updates the kernel's cache, which fstatat reads */
	if (statx(dirfd, name, flags | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &stx))
		return -errno;
	return fstatat(dirfd, name, out, flags) ? -errno : 0;
}
