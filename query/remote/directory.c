/* SPDX-License-Identifier: MIT */
/*
 * A remote that is a directory: of a disk, or of whatever is mounted there.
 *
 * A blob is written under no name, or under one that begins with ".put-", synced, and
 * then linked to its name: a link never replaces anything. Files and directories get the
 * permissions of the directory, as far as they apply: so its owner decides who may read.
 */
#include "query/remote/backend.h"

#include "common/io.h"
#include "common/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMP_PREFIX ".put-"
#define DEPTH_MAX   8 /* of directories */

struct directory {
	struct shfs_remote remote;
	char *path;
	int fd;      /* -1: it is not there yet */
	mode_t mode; /* of directories */
};

static struct directory *of(struct shfs_remote *remote)
{
	return container_of(remote, struct directory, remote);
}

static void close_directory(struct shfs_remote *remote)
{
	struct directory *d = of(remote);

	shfs_closep(&d->fd);
	free(d->path);
	free(d);
}

/* Opens the directory itself. -ENOENT. */
static int open_root(struct directory *d)
{
	struct stat st;

	if (d->fd >= 0)
		return 0;
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->fd < 0)
		return -errno;
	d->mode = fstat(d->fd, &st) ? 0700 : st.st_mode & 02777;
	return 0;
}

static int open_directory(const char *url, struct shfs_buf *why, struct shfs_remote **out)
{
	struct directory *d = calloc(1, sizeof(*d));
	int r = d ? 0 : -ENOMEM;

	if (r)
		return r;
	*d = (struct directory){ .remote.kind = &shfs_backend_directory,
		                 .path = strdup(url),
		                 .fd = -1 };
	r = d->path ? open_root(d) : -ENOMEM;
	if (r && r != -ENOENT) {
		close_directory(&d->remote);
		return r;
	}
	*out = &d->remote;
	return 0;
}

/* Makes a directory durably. */
static int make_directory(struct directory *d, int dirfd, const char *name)
{
	_cleanup_close_ int fd = -1;

	if (mkdirat(dirfd, name, 0700))
		return errno == EEXIST ? 0 : -errno;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* an error means that this file system has no permissions */
	if (fd >= 0)
		(void)!fchmod(fd, d->mode);
	return fsync(dirfd) && errno != EINVAL ? -errno : 0;
}

static int make_root(struct directory *d)
{
	int r = open_root(d);

	if (r != -ENOENT)
		return r;
	r = shfs_mkdir_p_at(AT_FDCWD, d->path, 0700);
	return r ? r : open_root(d);
}

/* Opens the directory that holds the name; *last is the name in it. */
static int open_parent(struct directory *d, const char *name, bool make,
                       const char **last)
{
	_cleanup_close_ int fd = -1;
	const char *slash;
	int r = make ? make_root(d) : open_root(d);

	if (r)
		return r;
	fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (; fd >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
		_cleanup_free_ char *part = strndup(name, (size_t)(slash - name));
		int below;

		if (!part)
			return -ENOMEM;
		if (make && (r = make_directory(d, fd, part)))
			return r;
		below = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below < 0)
			return -errno;
		close(fd);
		fd = below;
	}
	if (fd < 0)
		return -errno;
	*last = name;
	return TAKE_FD(fd);
}

/* Opens the file of a name. */
static int open_blob(struct directory *d, const char *name, struct stat *st)
{
	const char *last;
	_cleanup_close_ int dirfd = open_parent(d, name, false, &last);
	_cleanup_close_ int fd = -1;

	if (dirfd < 0)
		return dirfd;
	fd = openat(dirfd, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, st))
		return -errno;
	return S_ISREG(st->st_mode) ? TAKE_FD(fd) : -EBADMSG;
}

static int get_blob(struct shfs_remote *remote, const char *name, uint64_t offset,
                    size_t len, struct shfs_buf *out)
{
	struct stat st;
	_cleanup_close_ int fd = open_blob(of(remote), name, &st);
	ssize_t n;

	if (fd < 0)
		return fd;
	if (offset >= (uint64_t)st.st_size)
		return 0;
	len = (size_t)MIN((uint64_t)len, (uint64_t)st.st_size - offset);
	shfs_buf_reserve(out, len);
	if (out->failed)
		return -ENOMEM;
	n = shfs_pread_full(fd, out->data + out->len, len, (off_t)offset);
	if (n < 0)
		return (int)n;
	out->len += (size_t)n;
	out->data[out->len] = '\0';
	return 0;
}

static int stat_blob(struct shfs_remote *remote, const char *name, uint64_t *bytes)
{
	struct stat st;
	_cleanup_close_ int fd = open_blob(of(remote), name, &st);

	if (fd >= 0)
		*bytes = (uint64_t)st.st_size;
	return MIN(fd, 0);
}

/* --- puts --- */

/* A file without a name; or, where there can be none, with the name temp. */
static int open_temp(int dirfd, char temp[static 40])
{
	uint64_t number;
	int fd = openat(dirfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	*temp = '\0';
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL &&
	                errno != ENOENT))
		return fd < 0 ? -errno : fd;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	snprintf(temp, 40, TEMP_PREFIX "%016llx", (unsigned long long)number);
	fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	            0600);
	return fd < 0 ? -errno : fd;
}

/* Renames where there are no hard links. */
static int rename_temp(int dirfd, const char *temp, const char *name)
{
	if (!renameat2(dirfd, temp, dirfd, name, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL)
		return -errno;
	if (!faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW))
		return -EEXIST;
	return renameat(dirfd, temp, dirfd, name) ? -errno : 0;
}

static int name_temp(int dirfd, int fd, const char *temp, const char *name)
{
	char proc[40];
	int r;

	if (*temp) {
		r = linkat(dirfd, temp, dirfd, name, 0) ? -errno : 0;
		if (r == -EPERM || r == -EOPNOTSUPP || r == -EMLINK)
			return rename_temp(dirfd, temp, name);
		return r;
	}
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, proc, dirfd, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

static int put_blob(struct shfs_remote *remote, const char *name, const void *data,
                    size_t len)
{
	struct directory *d = of(remote);
	const char *last;
	_cleanup_close_ int dirfd = open_parent(d, name, true, &last);
	_cleanup_close_ int fd = -1;
	char temp[40] = "";
	int r = MIN(dirfd, 0);

	if (!r && !faccessat(dirfd, last, F_OK, AT_SYMLINK_NOFOLLOW))
		return -EEXIST;
	if (!r)
		r = MIN(fd = open_temp(dirfd, temp), 0);
	if (!r)
		r = shfs_write_all(fd, data, len);
	if (!r) {
		(void)!fchmod(fd, d->mode & 0666);
		r = fsync(fd) ? -errno : name_temp(dirfd, fd, temp, last);
	}
	if (*temp)
		unlinkat(dirfd, temp, 0);
	if (!r && fsync(dirfd) && errno != EINVAL)
		r = -errno;
	return r;
}

static int remove_blob(struct shfs_remote *remote, const char *name)
{
	const char *last;
	_cleanup_close_ int dirfd = open_parent(of(remote), name, false, &last);

	if (dirfd < 0)
		return dirfd == -ENOENT ? 0 : dirfd;
	if (unlinkat(dirfd, last, 0))
		return errno == ENOENT ? 0 : -errno;
	return fsync(dirfd) && errno != EINVAL ? -errno : 0;
}

/* --- listing --- */

struct walk {
	shfs_remote_fn fn; /* NULL: files that puts have left are removed */
	void *arg;
	struct shfs_buf name;
};

static int walk_directory(struct walk *w, int fd, unsigned depth);

static int walk_entry(struct walk *w, int dirfd, const struct dirent *e, unsigned depth)
{
	size_t len = w->name.len;
	struct stat st;
	int r = 0;

	if (e->d_name[0] == '.') {
		if (!w->fn && !strncmp(e->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)))
			r = unlinkat(dirfd, e->d_name, 0) && errno != ENOENT ? -errno : 0;
		return r;
	}
	if (fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	shfs_buf_printf(&w->name, "%s%s", len ? "/" : "", e->d_name);
	if (w->name.failed)
		return -ENOMEM;
	if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
		r = walk_directory(w,
		                   openat(dirfd, e->d_name,
		                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
		                                  O_CLOEXEC),
		                   depth + 1);
	else if (S_ISREG(st.st_mode) && w->fn)
		r = w->fn(w->arg, w->name.data, (uint64_t)st.st_size);
	w->name.len = len;
	w->name.data[len] = '\0';
	return r;
}

/* Takes ownership of fd. */
static int walk_directory(struct walk *w, int fd, unsigned depth)
{
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!dir) {
		r = -errno;
		shfs_closep(&fd);
		return r == -ENOENT ? 0 : r;
	}
	while (!r && (e = shfs_readdir(dir, &r)))
		r = walk_entry(w, dirfd(dir), e, depth);
	closedir(dir);
	return r;
}

static int walk_below(struct directory *d, const char *name, struct walk *w)
{
	int r = open_root(d);

	if (r)
		return r == -ENOENT ? 0 : r;
	shfs_buf_str(&w->name, name);
	if (!w->name.failed)
		r = walk_directory(w,
		                   openat(d->fd, *name ? name : ".",
		                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
		                                  O_CLOEXEC),
		                   0);
	shfs_buf_free(&w->name);
	return r;
}

static int list_directory(struct shfs_remote *remote, const char *dir, shfs_remote_fn fn,
                          void *arg)
{
	struct walk w = { .fn = fn, .arg = arg };

	return walk_below(of(remote), dir, &w);
}

static int sweep_directory(struct shfs_remote *remote, const char *dir)
{
	struct walk w = { 0 };

	return walk_below(of(remote), dir, &w);
}

const struct shfs_backend shfs_backend_directory = {
	.scheme = "",
	.open = open_directory,
	.close = close_directory,
	.list = list_directory,
	.get = get_blob,
	.put = put_blob,
	.stat = stat_blob,
	.remove = remove_blob,
	.sweep = sweep_directory,
};
