/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/helper/peer.h"

#include "common/clock.h"
#include "kmod-fast-path/helper/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SEEN_FOR_NS SHFS_NSEC_PER_SEC

static int read_groups(int socket, struct shfs_peer *peer)
{
	_cleanup_free_ gid_t *groups = NULL;
	socklen_t len = 0;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) && errno != ERANGE)
		return -errno;
	if (!len)
		return 0;
	groups = malloc(len);
	if (!groups)
		return -ENOMEM;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &len))
		return -errno;
	peer->n_groups = len / sizeof(*groups);
	peer->groups = TAKE_PTR(groups);
	return 0;
}

int shfs_peer_read(int socket, struct shfs_peer *out)
{
	struct shfs_peer peer = { 0 };
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (cred.uid == (uid_t)-1)
		return -ENOTCONN;
	peer.uid = cred.uid;
	peer.gid = cred.gid;
	peer.pid = cred.pid;
	r = read_groups(socket, &peer);
	if (!r)
		*out = peer;
	return r;
}

void shfs_peer_free(struct shfs_peer *peer)
{
	free(peer->groups);
	*peer = (struct shfs_peer){ 0 };
}

/* --- namespaces --- */

static int open_namespace(pid_t pid, const char *kind)
{
	char path[40];
	int fd;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	else
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Compares two namespaces that are open: 1: the same, 0: different. */
static int is_same_namespace(int a, int b)
{
	struct stat x, y;

	if (a < 0 || b < 0)
		return a < 0 ? a : b;
	if (fstat(a, &x) || fstat(b, &y))
		return -errno;
	return x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static int shares_pids(const struct shfs_peer *peer)
{
	_cleanup_close_ int theirs =
		peer->pid ? open_namespace(peer->pid, "pid") : -ESRCH;
	_cleanup_close_ int ours = open_namespace(0, "pid");

	return is_same_namespace(ours, theirs);
}

/* Does the mount namespace belong to the user namespace of this process? */
static bool is_roots(int mounts)
{
	_cleanup_close_ int owner = ioctl(mounts, NS_GET_USERNS);
	_cleanup_close_ int ours = open_namespace(0, "user");

	return is_same_namespace(ours, owner) == 1;
}

int shfs_peer_enter(const struct shfs_peer *peer, const char **why)
{
	_cleanup_close_ int theirs = -1, ours = -1;
	int r = shares_pids(peer);

	if (r <= 0) {
		*why = "the watcher is gone, or in another pid namespace (a container)";
		return r < 0 ? r : -EOPNOTSUPP;
	}
	theirs = open_namespace(peer->pid, "mnt");
	ours = open_namespace(0, "mnt");
	r = is_same_namespace(ours, theirs);
	if (r == 1)
		return 0;
	*why = "the watcher is in a mount namespace of its own, which is not root's";
	if (r || !is_roots(theirs))
		return r ? r : -EOPNOTSUPP;
	*why = "the mount namespace of the watcher cannot be entered";
	return setns(theirs, CLONE_NEWNS) ? -errno : 0;
}

/* --- directories --- */

/* faccessat2 with the file system identity of this process, which is the peer's, instead
 * of its real one. libc's function is no help: on old kernels it looks at other ids. */
static int check_access(int dirfd, const char *path, int mode, int flags)
{
	return syscall(SYS_faccessat2, dirfd, path, mode, AT_EACCESS | flags) ? -errno
	                                                                      : 0;
}

/* Cuts off the last name; false: there was none. */
static bool cut_last_name(char *dir)
{
	char *slash = strrchr(dir, '/');

	if (!*dir)
		return false;
	*(slash ? slash : dir) = '\0';
	return true;
}

/* Can the user reach the directory? A directory that is gone is judged by what is left of
 * the way to it. dir is changed. */
static bool can_reach_dir(const struct shfs_reach *reach, char *dir)
{
	do {
		const char *name = *dir ? dir : ".";
		struct stat st;

		if (!check_access(reach->root_fd, name, X_OK, AT_SYMLINK_NOFOLLOW))
			return true;
		if (errno != EACCES && errno != EPERM)
			continue;
		if (!fstatat(reach->root_fd, name, &st, AT_SYMLINK_NOFOLLOW))
			return st.st_uid == reach->uid;
	} while (cut_last_name(dir));
	return false;
}

static bool has_dots(const char *dir)
{
	for (const char *p = dir; *p; p += strcspn(p, "/"), p += *p == '/') {
		size_t len = strcspn(p, "/");

		if (len <= 2 && !strncmp(p, "..", len))
			return true;
	}
	return false;
}

static size_t reach_cache_slot(const char *dir, size_t len)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)dir[i]) * 16777619u;
	return hash % SHFS_REACH_CACHE;
}

static bool can_reach_path(struct shfs_reach *reach, const char *path, size_t len)
{
	_cleanup_free_ char *dir = NULL;
	const char *slash = memrchr(path, '/', len);
	size_t dir_len = slash ? (size_t)(slash - path) : 0,
	       slot = reach_cache_slot(path, dir_len);
	struct shfs_buf *known = &reach->cache[slot].dir;
	int64_t now = shfs_clock_ns(CLOCK_MONOTONIC);

	if (slash == path && len)
		return false; /* not below the root */
	if (known->data && known->len == dir_len && !memcmp(known->data, path, dir_len) &&
	    now - reach->cache[slot].seen_ns < SEEN_FOR_NS)
		return true;
	dir = strndup(path, dir_len);
	if (!dir || strlen(dir) < dir_len || has_dots(dir))
		return false;
	shfs_privilege_as_peer(true);
	if (!can_reach_dir(reach, dir)) {
		shfs_privilege_as_peer(false);
		return false;
	}
	shfs_privilege_as_peer(false);
	known->len = 0;
	shfs_buf_add(known, path, dir_len);
	reach->cache[slot].seen_ns = now;
	if (known->failed)
		shfs_buf_free(known);
	return true;
}

void shfs_reach_free(struct shfs_reach *reach)
{
	for (size_t i = 0; i < SHFS_REACH_CACHE; i++)
		shfs_buf_free(&reach->cache[i].dir);
}

static bool can_reach_paths(struct shfs_reach *reach, const struct shfs_event *event)
{
	if (!can_reach_path(reach, event->text, event->text_len))
		return false;
	if (event->type != SHFS_EVENT_RENAME && event->type != SHFS_EVENT_LINK)
		return true;
	return can_reach_path(reach, event->text + event->text_len, event->text2_len);
}

bool shfs_reach_event(struct shfs_reach *reach, const struct shfs_event *event)
{
	bool known = true;

	if (!reach->uid || event->type == SHFS_EVENT_LOST)
		return true;
	switch (event->type) {
	case SHFS_EVENT_CLOSE ... SHFS_EVENT_CHANGE:
		known = event->process.uid == reach->uid && can_reach_paths(reach, event);
		break;
	case SHFS_EVENT_FORK:
	case SHFS_EVENT_EXEC:
	case SHFS_EVENT_EXIT:
		known = event->process.uid == reach->uid;
		break;
	default:
		known = false; /* such an event says nothing of its user */
	}
	reach->n_refused += !known;
	return known;
}

bool shfs_reach_content(const struct shfs_reach *reach, int content_fd)
{
	struct stat st;
	int r;

	if (!reach->uid || (!fstat(content_fd, &st) && st.st_uid == reach->uid))
		return true;
	shfs_privilege_as_peer(true);
	r = check_access(content_fd, "", R_OK, AT_EMPTY_PATH);
	shfs_privilege_as_peer(false);
	return !r;
}
