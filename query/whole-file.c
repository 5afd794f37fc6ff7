/* SPDX-License-Identifier: MIT */
#include "query/whole-file.h"

#include "common/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int name_temp(struct shfs_whole_file *f)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	const char *slash = strrchr(f->path, '/');
	int dir = slash ? (int)(slash - f->path) + 1 : 0;

	shfs_buf_printf(&name, "%.*s.shfs-%d", dir, f->path, (int)getpid());
	f->temp = shfs_buf_take(&name);
	return f->temp ? 0 : -ENOMEM;
}

static int open_nameless(const char *path, mode_t mode)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir =
		slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");

	return dir ? open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, mode) : -1;
}

int shfs_whole_file_begin(struct shfs_whole_file *f, const char *path, bool replace,
                          mode_t mode)
{
	bool exists, is_link;
	struct stat st;
	int r;

	*f = (struct shfs_whole_file){ .fd = -1, .replace = replace };
	is_link = !lstat(path, &st) && S_ISLNK(st.st_mode);
	exists = !stat(path, &st);
	if ((exists && !S_ISREG(st.st_mode)) || (is_link && !exists))
		return -ENOTSUP;
	if (exists && !replace)
		return -EEXIST;
	f->path = is_link ? realpath(path, NULL) : strdup(path);
	if (!f->path)
		return -errno;
	f->fd = open_nameless(f->path, mode);
	if (f->fd < 0) {
		r = name_temp(f);
		if (r)
			return r;
		unlink(f->temp); /* of one that was killed, long ago */
		f->fd = open(f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	}
	if (f->fd < 0)
		return -errno;
	return exists && fchmod(f->fd, st.st_mode & 07777) ? -errno : 0;
}

/* From none to one, so that it can be renamed. */
static int give_name(struct shfs_whole_file *f, const char *name)
{
	char self[32];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

static int name_new(struct shfs_whole_file *f)
{
	if (!f->temp)
		return give_name(f, f->path);
	if (!link(f->temp, f->path))
		return 0; /* close removes the other name */
	if (errno == EEXIST)
		return -EEXIST;
	/* a file system without links */
	if (!access(f->path, F_OK))
		return -EEXIST;
	return rename(f->temp, f->path) ? -errno : 0;
}

static int name_over(struct shfs_whole_file *f)
{
	int r = 0;

	if (!f->temp) {
		r = name_temp(f);
		if (!r)
			unlink(f->temp);
		if (!r)
			r = give_name(f, f->temp);
	}
	return r ? r : rename(f->temp, f->path) ? -errno : 0;
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
		unlink(f->temp);
	if (f->fd >= 0)
		close(f->fd);
	free(f->path);
	free(f->temp);
}
