/* SPDX-License-Identifier: MIT */
/*
 * disk_tool - a disk image as a file that a loop device can lie on, with a log of what is
 * written to it, for tests/cases/powercut.py.
 *
 *   disk_tool IMAGE LOG DIRECTORY
 *
 * Mounts a file system over DIRECTORY whose only file, "disk", is IMAGE. LOG gets an
 * entry for each write, flush (fsync) and mark (what is set as the attribute user.mark of
 * "disk"), in their order: struct entry, then its bytes. A write in front of a flush is
 * durable by it.
 */
#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind {
	KIND_WRITE = 'w',
	KIND_FLUSH = 'f',
	KIND_MARK = 'm',
};

struct entry {
	uint64_t offset;
	uint32_t len, kind;
};

static int image, out;

static int log_entry(enum kind kind, off_t offset, const void *data, size_t len)
{
	struct entry e = { (uint64_t)offset, (uint32_t)len, kind };
	int r = shfs_write_all(out, (char *)&e, sizeof(e));

	return r || !len ? r : shfs_write_all(out, data, len);
}

static bool is_disk(const char *path)
{
	return !strcmp(path, "/disk");
}

static int disk_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
	if (!is_disk(path) && strcmp(path, "/"))
		return -ENOENT;
	if (fstat(image, st))
		return -errno;
	if (!is_disk(path))
		st->st_mode = S_IFDIR | 0700;
	return 0;
}

static int disk_open(const char *path, struct fuse_file_info *info)
{
	info->direct_io = 1;
	return is_disk(path) ? 0 : -ENOENT;
}

static int disk_read(const char *path, char *data, size_t len, off_t offset,
                     struct fuse_file_info *info)
{
	return (int)shfs_pread_full(image, data, len, offset);
}

static int disk_write(const char *path, const char *data, size_t len, off_t offset,
                      struct fuse_file_info *info)
{
	ssize_t n = pwrite(image, data, len, offset);
	int r = n < 0 ? -errno : log_entry(KIND_WRITE, offset, data, (size_t)n);

	return r ? r : (int)n;
}

static int disk_fsync(const char *path, int datasync, struct fuse_file_info *info)
{
	return log_entry(KIND_FLUSH, 0, NULL, 0);
}

static int disk_setxattr(const char *path, const char *name, const char *value,
                         size_t len, int flags)
{
	return strcmp(name, "user.mark") ? -EOPNOTSUPP
	                                 : log_entry(KIND_MARK, 0, value, len);
}

static const struct fuse_operations operations = {
	.getattr = disk_getattr,
	.open = disk_open,
	.read = disk_read,
	.write = disk_write,
	.fsync = disk_fsync,
	.setxattr = disk_setxattr,
};

int main(int argc, char **argv)
{
	char *args[] = { argv[0], (char[]){ "-f" }, (char[]){ "-s" }, argv[argc - 1],
		         NULL };

	if (argc != 4) {
		fprintf(stderr, "usage: disk_tool IMAGE LOG DIRECTORY\n");
		return 2;
	}
	image = open(argv[1], O_RDWR | O_CLOEXEC);
	out = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (image < 0 || out < 0) {
		perror("disk_tool");
		return 1;
	}
	return fuse_main(4, args, &operations, NULL);
}
