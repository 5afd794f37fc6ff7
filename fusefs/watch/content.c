/* SPDX-License-Identifier: MIT */
/* The content of a watched file: whether it may be archived, and how it is read. */
#include "fusefs/watch/internal.h"

#include "common/debug.h"
#include "store/capture/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

/* Lists the paths of all names of a file, each with a NUL. */
static void list_paths(struct shfs_fs *fs, const struct shfs_node *node,
                       struct shfs_buf *paths)
{
	shfs_tree_lock_read(fs->tree);
	shfs_node_paths(node, paths);
	shfs_tree_unlock(fs->tree);
}

enum shfs_rule shfs_watch_rule(struct shfs_fs *fs, struct shfs_node *node,
                               struct shfs_watch *watch)
{
	enum shfs_rule rule = watch->coming, one;
	_cleanup_buf_ struct shfs_buf paths = { 0 };

	list_paths(fs, node, &paths);
	if (paths.failed)
		return SHFS_RULE_ARCHIVE;
	for (const char *p = paths.data; p < paths.data + paths.len; p += strlen(p) + 1) {
		one = shfs_project_rules_match(&fs->rules, p);
		if (one == SHFS_RULE_IGNORE)
			watch->secret |=
				shfs_project_rules_is_secret(&fs->rules, p, false);
		rule = shfs_rule_of_both(rule, one);
	}
	shfs_debug(WATCH, "file %" PRIu64 ", %s: %s", node->ino,
	           paths.len ? paths.data : "",
	           watch->secret                   ? "a secret"
	           : rule <= SHFS_RULE_FINGERPRINT ? "is not to be archived"
	           : rule == SHFS_RULE_ARCHIVE
	                   ? "is archived when it is written"
	                   : "is archived when it is read or written");
	return watch->secret ? SHFS_RULE_IGNORE : rule;
}

/* Opens a file for reading without setting its atime, if permitted. */
static int open_quietly(struct shfs_fs *fs, struct shfs_node *node)
{
	int fd = shfs_node_open(fs->tree, node, O_RDONLY | O_NOATIME);

	return fd == -EPERM ? shfs_node_open(fs->tree, node, O_RDONLY) : fd;
}

bool shfs_watch_is_secret(struct shfs_fs *fs, const struct shfs_node *node)
{
	_cleanup_buf_ struct shfs_buf paths = { 0 };

	list_paths(fs, node, &paths);
	for (size_t at = 0; at < paths.len && !paths.failed;
	     at += strlen(paths.data + at) + 1)
		if (shfs_project_rules_is_secret(&fs->rules, paths.data + at, false))
			return true;
	return false;
}

static void conceal_node(struct shfs_node *node)
{
	struct shfs_watch *watch = atomic_load(&node->watch);

	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	if (watch->current)
		shfs_snapshot_conceal(watch->current);
	if (watch->asked < SHFS_DEPTH_ARCHIVE)
		watch->asked = -1; /* so that the next reader's open takes it */
	pthread_mutex_unlock(&watch->lock);
}

static void conceal_below(struct shfs_node *node, void *fs)
{
	if (shfs_watch_is_secret(fs, node))
		conceal_node(node);
}

void shfs_watch_conceal(struct shfs_fs *fs, struct shfs_node *node)
{
	if (S_ISDIR(node->type))
		shfs_tree_visit_below(fs->tree, node, conceal_below, fs);
	else
		conceal_node(node);
}

static int readable_fd(struct shfs_fs *fs, struct shfs_node *node,
                       const struct shfs_handle *handle, int *opened)
{
	if (!handle || !handle->readable)
		return *opened = open_quietly(fs, node);
	if (handle->is_quiet)
		return handle->fd;
	*opened = openat(fs->proc_fd, shfs_fd_name(handle->fd).name,
	                 O_RDONLY | O_NOATIME | O_NONBLOCK | O_CLOEXEC);
	return *opened < 0 ? handle->fd : *opened;
}

/*
 * Opens a file that its owner may not read. The owner can change it all the same (by
 * chmod, if need be), so its content must be kept: the permission to read is set for a
 * moment. Other changes of permissions wait for the watch's lock
 * (shfs_watch_begin_touch).
 */
static int open_forbidden(struct shfs_fs *fs, struct shfs_node *node)
{
	int fd = shfs_node_fd(fs->tree, node), opened = -EACCES;
	struct stat st;

	if (fd < 0)
		return fd;
	if (!fstat(fd, &st) && st.st_uid == geteuid() &&
	    !(st.st_mode & (S_IRUSR | S_ISUID | S_ISGID))) {
		shfs_node_turn_lent(node);
		if (!fchmodat(fs->proc_fd, shfs_fd_name(fd).name,
		              (st.st_mode & ALLPERMS) | S_IRUSR, 0)) {
			opened = open_quietly(fs, node);
			if (fchmodat(fs->proc_fd, shfs_fd_name(fd).name,
			             st.st_mode & ALLPERMS, 0))
				shfs_log("cannot restore the permissions of a file: %m");
		}
		shfs_node_turn_lent(node);
	}
	shfs_node_fd_done(fs->tree, node);
	return opened;
}

int shfs_watch_fd(struct shfs_fs *fs, struct shfs_node *node,
                  const struct shfs_handle *handle, bool lend, int *opened)
{
	int fd = readable_fd(fs, node, handle, opened);

	if (fd == -EACCES && lend)
		fd = *opened = open_forbidden(fs, node);
	if (fd < 0)
		shfs_debug(WATCH, "file %" PRIu64 ": cannot be read: %s", node->ino,
		           strerrordesc_np(-fd));
	return fd;
}
