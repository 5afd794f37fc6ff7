/* SPDX-License-Identifier: MIT */
/* fanotify: the mounts that are marked, and the directories that are ignored. */
#include "kmod-fast-path/drivers/fanotify-internal.h"

#include "common/fnv.h"
#include "common/path.h"
#include "kmod-fast-path/drivers/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/fanotify.h>
#include <sys/sysmacros.h>

#ifndef FAN_MARK_IGNORE
#define FAN_MARK_EVICTABLE 0x00000200
#define FAN_MARK_IGNORE    0x00000400
#endif
#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000
#endif

#define CLOSE_EVENTS (FAN_CLOSE_WRITE | FAN_CLOSE_NOWRITE | FAN_OPEN_EXEC)

/* --- mounts --- */

int fan_mount_open(const struct shfs_driver *d, uint32_t mount)
{
	int fd;

	if (mount >= d->n_mounts || !d->mounts[mount].mount_id)
		return -ESTALE;
	if (!d->mounts[mount].path)
		fd = fcntl(d->root_fd, F_DUPFD_CLOEXEC, 0);
	else
		fd = open(d->mounts[mount].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

bool fan_mounts_has_mount(const struct shfs_driver *d, uint64_t mount_id)
{
	for (size_t i = 0; i < d->n_mounts; i++)
		if (d->mounts[i].mount_id == mount_id)
			return true;
	return false;
}

int fan_closes_mark(struct shfs_driver *d, int dir_fd)
{
	return fanotify_mark(d->closes_fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM,
	                     CLOSE_EVENTS, dir_fd, NULL)
	               ? -errno
	               : 0;
}

/* Takes ownership of path. */
static int add_mount_place(struct shfs_driver *d, int fd, uint64_t mount_id, char *path)
{
	struct fan_mount *mounts =
		reallocarray(d->mounts, d->n_mounts + 1, sizeof(*mounts));
	struct statfs fs;
	struct stat st;

	if (mounts)
		d->mounts = mounts;
	if (!mounts || fstat(fd, &st) || fstatfs(fd, &fs)) {
		free(path);
		return mounts ? -errno : -ENOMEM;
	}
	mounts[d->n_mounts++] = (struct fan_mount){ .mount_id = mount_id,
		                                    .path = path,
		                                    .dev = st.st_dev,
		                                    .fsid = fs.f_fsid,
		                                    .seen = true };
	return 0;
}

/* The path by which this process reaches what the watcher calls path. */
static char *path_for_us(const struct shfs_driver *d, const char *path)
{
	char *ours;

	if (!d->watcher)
		return strdup(path);
	return asprintf(&ours, "/proc/%d/root%s", (int)d->watcher, path) < 0 ? NULL
	                                                                     : ours;
}

static void see_mount(struct shfs_driver *d, uint64_t mount_id, const char *path)
{
	_cleanup_close_ int fd = -1;
	struct statx st;
	char *ours;

	for (size_t i = 0; i < d->n_mounts; i++) {
		if (d->mounts[i].mount_id == mount_id) {
			d->mounts[i].seen = true;
			return;
		}
	}
	ours = path_for_us(d, path);
	fd = ours ? open(ours, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	/* another mount may lie over it */
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) ||
	    st.stx_mnt_id != mount_id) {
		free(ours);
		return;
	}
	/* a mount that cannot be watched reports nothing */
	if (add_mount_place(d, fd, mount_id, ours) < 0 || fan_closes_mark(d, fd) < 0 ||
	    fan_names_mark(d, fd) < 0)
		return;
}

/* Reads the mounts below the root, except FUSE mounts: their server may never answer, and
 * that would block everything else. */
static void read_mount_places(struct shfs_driver *d)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	int fd = fcntl(d->mounts_fd, F_DUPFD_CLOEXEC, 0);
	size_t room = 0;

	file = fd < 0 ? NULL : fdopen(fd, "r");
	if (!file)
		return;
	rewind(file);
	for (size_t i = 1; i < d->n_mounts; i++)
		d->mounts[i].seen = false;
	while (getline(&line, &room, file) > 0) {
		unsigned long long id;
		char *path = NULL;

		if (sscanf(line, "%llu %*s %*s %*s %ms", &id, &path) == 2) {
			unescape_mountinfo(path);
			if (strcmp(path, d->root) && shfs_path_is_below(path, d->root) &&
			    !strstr(line, " - fuse"))
				see_mount(d, id, path);
		}
		free(path);
	}
	for (size_t i = 1; i < d->n_mounts; i++)
		if (!d->mounts[i].seen)
			d->mounts[i].mount_id = 0;
}

void fan_mounts_refresh(struct shfs_driver *d)
{
	struct pollfd poll_fd = { .fd = d->mounts_fd, .events = POLLPRI };

	if (poll(&poll_fd, 1, 0) > 0)
		read_mount_places(d);
}

int fan_mounts_open(struct shfs_driver *d, const struct shfs_subscription_order *order,
                    struct shfs_buf *why)
{
	char path[64] = "/proc/self/mountinfo";
	struct statx st;
	int r;

	if (order->pid)
		snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)order->pid);
	d->mounts_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (d->mounts_fd < 0) {
		r = -errno;
		shfs_buf_printf(why, "%s: %s", path, strerror(-r));
		return r;
	}
	if (statx(d->root_fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) ||
	    !(st.stx_mask & STATX_MNT_ID)) {
		shfs_buf_str(why, "the kernel does not number mounts (Linux 5.8 does)");
		return -EOPNOTSUPP;
	}
	r = add_mount_place(d, d->root_fd, st.stx_mnt_id, NULL);
	if (r >= 0)
		r = fan_closes_mark(d, d->root_fd);
	if (r >= 0)
		r = fan_names_mark(d, d->root_fd);
	if (r < 0)
		shfs_buf_printf(why, "the file system does not report its files: %s",
		                strerror(-r));
	else
		read_mount_places(d);
	return r;
}

void fan_mounts_free(struct shfs_driver *d)
{
	for (size_t i = 0; i < d->n_mounts; i++)
		free(d->mounts[i].path);
	free(d->mounts);
}

/* --- ignored directories --- */

/* May only root rename the directory or one above it? Then no other user can move it
 * below the root of the recording. */
static bool is_fixed(const char *dir)
{
	_cleanup_free_ char *path = strdup(dir);
	struct stat st;
	char *slash;

	while (path) {
		if (lstat(*path ? path : "/", &st) || st.st_uid ||
		    (st.st_mode & 022 && !(st.st_mode & S_ISVTX)))
			return false;
		slash = strrchr(path, '/');
		if (!*path || !slash)
			return true;
		*slash = '\0';
	}
	return false;
}

void fan_ignore_dir_of(struct shfs_driver *d, const char *path, const struct statx *st)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = NULL;
	struct stat named;
	uint64_t *slot, h;

	if (!d->ignores || !slash || *path != '/')
		return;
	h = shfs_fnv(SHFS_FNV_BEGIN, path, (size_t)(slash - path)) | 1;
	slot = &d->not_ignored[(h >> 1) % FAN_ELSEWHERE_SLOTS];
	if (*slot == h)
		return;
	dir = slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
	/* does this path still name the same file? */
	if (!dir || lstat(path, &named) || named.st_ino != st->stx_ino ||
	    named.st_dev != makedev(st->stx_dev_major, st->stx_dev_minor) ||
	    !is_fixed(dir)) {
		*slot = h;
		return;
	}
	if (fanotify_mark(d->closes_fd,
	                  FAN_MARK_ADD | FAN_MARK_IGNORE | FAN_MARK_IGNORED_SURV_MODIFY |
	                          FAN_MARK_EVICTABLE,
	                  FAN_CLOSE_NOWRITE | FAN_EVENT_ON_CHILD, AT_FDCWD, dir) &&
	    errno == EINVAL)
		d->ignores = false;
}

void fan_ignore_none(struct shfs_driver *d)
{
	(void)fanotify_mark(d->closes_fd, FAN_MARK_FLUSH, 0, AT_FDCWD, NULL);
}
