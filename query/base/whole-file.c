/* SPDX-License-Identifier: MIT */
#include "query/base/whole-file.h"

#include "query/base/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int name_temp(struct shfs_whole_file *f)
{
	if (asprintf(&f->temp, ".shfs-%d", (int)getpid()) >= 0)
		return 0;
	f->temp = NULL;
	return -ENOMEM;
}

int shfs_whole_file_begin(struct shfs_whole_file *f, const char *path, bool replace,
                          mode_t mode)
{
	bool exists;
	struct stat st;
	int r;

	*f = (struct shfs_whole_file){ .fd = -1, .dirfd = -1, .replace = replace };
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return -ENOTSUP;
	r = shfs_trusted_parent(path, (struct shfs_way){ 0 }, &f->dirfd, &f->name);
	if (r)
		return r;
	exists = !fstatat(f->dirfd, f->name, &st, AT_SYMLINK_NOFOLLOW);
	if (exists && !S_ISREG(st.st_mode))
		return -ENOTSUP;
	if (exists && !replace)
		return -EEXIST;
	f->fd = openat(f->dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (f->fd < 0) {
		r = name_temp(f);
		if (r)
			return r;
		unlinkat(f->dirfd, f->temp, 0); /* left by a process that was killed,
		                                 * long ago */
		f->fd = openat(f->dirfd, f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
		               mode);
	}
	if (f->fd < 0)
		return -errno;
	return exists && fchmod(f->fd, st.st_mode & 07777) ? -errno : 0;
}

/* Gives the file a first name, so that it can be renamed. */
static int give_name(struct shfs_whole_file *f, const char *name)
{
	char self[32];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	return linkat(AT_FDCWD, self, f->dirfd, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

static int name_new(struct shfs_whole_file *f)
{
	if (!f->temp)
		return give_name(f, f->name);
	if (!linkat(f->dirfd, f->temp, f->dirfd, f->name, 0))
		return 0; /* shfs_whole_file_close removes the other name */
	if (errno == EEXIST)
		return -EEXIST;
	/* a file system without hard links */
	if (!faccessat(f->dirfd, f->name, F_OK, AT_SYMLINK_NOFOLLOW))
		return -EEXIST;
	return renameat(f->dirfd, f->temp, f->dirfd, f->name) ? -errno : 0;
}

static int name_over(struct shfs_whole_file *f)
{
	int r = 0;

	if (!f->temp) {
		r = name_temp(f);
		if (!r)
			unlinkat(f->dirfd, f->temp, 0);
		if (!r)
			r = give_name(f, f->temp);
	}
	return r ? r : renameat(f->dirfd, f->temp, f->dirfd, f->name) ? -errno : 0;
}

int shfs_whole_file_finish(struct shfs_whole_file *f)
{
	if (fsync(f->fd))
		return -errno;
	return f->replace ? name_over(f) : name_new(f);
}

void shfs_whole_file_close(struct shfs_whole_file *f)
{
	if (f->fd >= 0 && f->temp)
		unlinkat(f->dirfd, f->temp, 0);
	if (f->fd >= 0)
		close(f->fd);
	if (f->dirfd >= 0)
		close(f->dirfd);
	free(f->name);
	free(f->temp);
}
