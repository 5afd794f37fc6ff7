/* SPDX-License-Identifier: MIT */
#include "query/base/trusted.h"

#include "common/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* the kernel's limit */

/* A walk along a path: fd is the directory so far, rest the remaining path. */
struct walk {
	struct shfs_way way;
	int fd, n_links;
	char *path, *rest; /* rest is in path */
};

static void walk_clear(struct walk *w)
{
	shfs_closep(&w->fd);
	free(w->path);
}

/* Goes on with rest: malloc'ed, now owned by w. */
static int set_rest(struct walk *w, char *rest)
{
	if (!rest)
		return -ENOMEM;
	free(w->path);
	w->path = w->rest = rest;
	if (*rest != '/' && w->fd >= 0)
		return 0;
	shfs_closep(&w->fd);
	w->fd = open(*rest == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return w->fd < 0 ? -errno : 0;
}

/* Goes on where the link leads that is open as fd. */
static int follow_trusted_link(struct walk *w, int fd, uid_t owner)
{
	_cleanup_buf_ struct shfs_buf rest = { 0 };
	char target[PATH_MAX];
	ssize_t n;

	if ((owner && (owner != geteuid() || w->way.no_own)) || ++w->n_links > LINKS_MAX)
		return -ELOOP;
	n = readlinkat(fd, "", target, sizeof(target));
	if (n < 0)
		return -errno;
	shfs_buf_add(&rest, target, n);
	shfs_buf_printf(&rest, "/%s", w->rest);
	return set_rest(w, shfs_buf_take(&rest));
}

static int open_part(struct walk *w, const char *part)
{
	int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(w->fd, part, flags);

	if (fd < 0 && errno == ENOENT && w->way.make) {
		if (mkdirat(w->fd, part, 0777) && errno != EEXIST)
			return -errno;
		fd = openat(w->fd, part, flags);
	}
	return fd < 0 ? -errno : fd;
}

/* Steps into one part of the path: a directory, or a link. */
static int step(struct walk *w, const char *part)
{
	_cleanup_close_ int fd = open_part(w, part);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		return -errno;
	if (S_ISLNK(st.st_mode))
		return follow_trusted_link(w, fd, st.st_uid);
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	shfs_closep(&w->fd);
	w->fd = TAKE_FD(fd);
	return 0;
}

/* Cuts off the next part; NULL: there is none. */
static char *next_part(struct walk *w)
{
	char *part = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(part, "/");

	w->rest = part + len;
	if (*w->rest)
		*w->rest++ = '\0';
	return len ? part : NULL;
}

int shfs_trusted_directory(const char *path, struct shfs_way way, int *fd)
{
	_cleanup_(walk_clear) struct walk w = { .way = way, .fd = -1 };
	int r = set_rest(&w, strdup(path));
	char *part;

	while (!r && (part = next_part(&w)))
		r = step(&w, part);
	if (!r)
		*fd = TAKE_FD(w.fd);
	return r;
}

/* The last part: the name of the file, or a link to it. 1: found. */
static int step_last(struct walk *w, const char *part, char **name)
{
	struct stat st;

	if (fstatat(w->fd, part, &st, AT_SYMLINK_NOFOLLOW) || !S_ISLNK(st.st_mode)) {
		*name = strdup(part);
		return *name ? 1 : -ENOMEM;
	}
	return step(w, part);
}

int shfs_trusted_parent(const char *path, struct shfs_way way, int *dirfd, char **name)
{
	_cleanup_(walk_clear) struct walk w = { .way = way, .fd = -1 };
	size_t len = strlen(path);
	int r = len && path[len - 1] == '/' ? -EISDIR : set_rest(&w, strdup(path));
	char *part;

	while (!r) {
		part = next_part(&w);
		if (!part)
			return -EISDIR;
		r = w.rest[strspn(w.rest, "/")] ? step(&w, part)
		                                : step_last(&w, part, name);
	}
	if (r < 0)
		return r;
	*dirfd = TAKE_FD(w.fd);
	return 0;
}
