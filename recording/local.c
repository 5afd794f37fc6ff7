/* SPDX-License-Identifier: MIT */
#include "recording/local.h"

#include "common/io.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#define LINKS_MAX 40 /* as in the kernel */
#define TABLE_MAX (4u << 20)

/* Gets what is known of fd itself without a request to a server. */
static int look_at_fd(int fd, struct statx *stx)
{
	int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
	            AT_STATX_DONT_SYNC;

	if (statx(fd, "", flags, STATX_TYPE | STATX_MNT_ID, stx))
		return -errno;
	return stx->stx_mask & STATX_MNT_ID ? 0 : -EOPNOTSUPP;
}

static uint64_t dev_of(const struct statx *stx)
{
	return makedev(stx->stx_dev_major, stx->stx_dev_minor);
}

/* Opens a part of a path, maybe the recorded directory. */
static int open_part(const struct shfs_local *local, int dir, const char *path,
                     const char *part, size_t len)
{
	char name[NAME_MAX + 1];
	int fd;

	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, part, len);
	name[len] = '\0';
	len += (size_t)(part - path);
	if (local->root_fd >= 0 && len == strlen(local->root) &&
	    !memcmp(path, local->root, len))
		fd = fcntl(local->root_fd, F_DUPFD_CLOEXEC, 0);
	else
		fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void shfs_local_init(struct shfs_local *local, const char *root, int root_fd)
{
	_cleanup_close_ int own =
		root_fd < 0 ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	struct statx stx;

	*local = (struct shfs_local){ .root = root, .root_fd = root_fd };
	pthread_mutex_init(&local->lock, NULL);
	if (!look_at_fd(root_fd < 0 ? own : root_fd, &stx))
		local->home_dev = dev_of(&stx);
}

void shfs_local_clear(struct shfs_local *local)
{
	pthread_mutex_destroy(&local->lock);
}

static bool is_local_type(const char *type)
{
	static const char *const types[] = {
		"ext2",     "ext3", "ext4",     "xfs",      "btrfs", "f2fs",    "zfs",
		"bcachefs", "jfs",  "reiserfs", "tmpfs",    "vfat",  "exfat",   "ntfs3",
		"iso9660",  "udf",  "erofs",    "squashfs", "ramfs", "overlay",
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strcmp(type, types[i]))
			return true;
	return false;
}

/* Is the mount with this id, by the table of mounts (proc(5), mountinfo), of a local
 * type? */
static bool is_local_mount(uint64_t id)
{
	_cleanup_buf_ struct shfs_buf table = { 0 };
	char *rest, *line;

	if (shfs_read_file_at(AT_FDCWD, "/proc/self/mountinfo", TABLE_MAX, &table))
		return false;
	shfs_buf_u8(&table, 0);
	rest = table.failed ? NULL : table.data;
	while ((line = strsep(&rest, "\n"))) {
		const char *dash = strstr(line, " - ");
		char type[32];

		if (strtoull(line, NULL, 10) == id && dash &&
		    sscanf(dash, " - %31s", type) == 1)
			return is_local_type(type);
	}
	return false;
}

static bool may_enter(struct shfs_local *local, const struct statx *stx)
{
	struct local_mount m = { stx->stx_mnt_id, dev_of(stx), false };
	bool is_known = false;

	if (m.dev == local->home_dev)
		return true;
	pthread_mutex_lock(&local->lock);
	for (unsigned i = 0; i < MIN(local->n, ARRAY_SIZE(local->mounts)) && !is_known;
	     i++)
		if (local->mounts[i].id == m.id && local->mounts[i].dev == m.dev) {
			m = local->mounts[i];
			is_known = true;
		}
	pthread_mutex_unlock(&local->lock);
	if (is_known)
		return m.is_open;
	m.is_open = is_local_mount(m.id);
	pthread_mutex_lock(&local->lock);
	local->mounts[local->n++ % ARRAY_SIZE(local->mounts)] = m;
	pthread_mutex_unlock(&local->lock);
	return m.is_open;
}

/* The path to go on with at a link, the last part of path up to len; NULL. */
static char *follow(int link_fd, const char *path, size_t len)
{
	_cleanup_free_ char *dir = strndup(path, len), *leads = NULL, *all = NULL;
	char text[PATH_MAX];
	ssize_t n = readlinkat(link_fd, "", text, sizeof(text) - 1);

	if (!dir || n <= 0)
		return NULL;
	text[n] = '\0';
	strrchr(dir, '/')[1] = '\0';
	leads = shfs_path_join(dir, text);
	if (!leads || asprintf(&all, "%s%s", leads, path + len) < 0)
		return NULL;
	return shfs_path_absolute(all);
}

/* Goes down path: its fd, a negative errno, or 0 and *next at a link. */
static int walk(struct shfs_local *local, const char *path, char **next)
{
	_cleanup_close_ int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statx stx;
	int r = fd < 0 ? -errno : 0;

	for (const char *part = path + 1; !r && *part;) {
		size_t len = strcspn(part, "/");
		int below = open_part(local, fd, path, part, len);

		if (below < 0)
			return below;
		close(fd);
		fd = below;
		r = look_at_fd(fd, &stx);
		if (!r && !may_enter(local, &stx))
			r = -EXDEV;
		part += len;
		if (!r && S_ISLNK(stx.stx_mode)) {
			*next = follow(fd, path, (size_t)(part - path));
			return *next ? 0 : -ENOENT;
		}
		part += *part == '/';
	}
	return r ? r : TAKE_FD(fd);
}

int shfs_local_open(struct shfs_local *local, const char *path, char **real)
{
	_cleanup_free_ char *at = strdup(path);
	int fd = at ? 0 : -ENOMEM;

	for (int links = 0; !fd && links < LINKS_MAX; links++) {
		char *next = NULL;

		fd = walk(local, at, &next);
		if (next) {
			free(at);
			at = next;
		}
	}
	if (fd > 0)
		*real = TAKE_PTR(at);
	return fd ? fd : -ELOOP;
}
