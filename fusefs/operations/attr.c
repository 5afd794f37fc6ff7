/* SPDX-License-Identifier: MIT */
/*
 * Requests for attributes: getattr, setattr, access, statfs, extended attributes and
 * ioctl.
 */
#include "fusefs/operations/invented.h"
#include "fusefs/operations/operations.h"
#include "fusefs/transport/transport.h"
#include "fusefs/watch/links.h"
#include "fusefs/watch/lookups.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <utlist.h>

static void reply_attr(fuse_req_t req, const struct shfs_node *node,
                       const struct statx *stx)
{
	struct stat st;

	shfs_stat_from_statx(stx, &st);
	fuse_reply_attr(req, &st, shfs_attr_timeout(node, stx));
}

/* Finds an open file of the node; with the lock of the handles. */
static const struct shfs_handle *find_open(const struct shfs_fs *fs,
                                           const struct shfs_node *node)
{
	const struct shfs_handle *handle;

	DL_FOREACH2 (fs->handles, handle, next_open)
		if (handle->node == node)
			return handle;
	return NULL;
}

/* Does the error mean that the lower file cannot be reached by its name: that is gone, or
 * a directory above it may not be entered by us? Neither matters if the file is open. */
static bool is_out_of_reach(int r)
{
	return r == -ESTALE || r == -EACCES;
}

int shfs_adopt_open(struct shfs_fs *fs, struct shfs_node *node)
{
	const struct shfs_handle *handle;
	int fd = -ESTALE;

	pthread_mutex_lock(&fs->handles_lock);
	handle = find_open(fs, node);
	if (handle)
		fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&fs->handles_lock);
	if (fd < 0)
		return fd;
	return shfs_node_adopt_fd(fs->tree, node, fd);
}

/* Gets the node of an id, and its fd, which is held until shfs_node_fd_done. That comes
 * before the reply, as the kernel may then forget the node. false: failed, and replied.
 */
static bool begin_node_request(fuse_req_t req, fuse_ino_t id, struct shfs_node **node,
                               int *fd)
{
	*node = shfs_req_node(req, id);
	if (!*node)
		return false;
	*fd = shfs_node_fd(shfs_req_fs(req)->tree, *node);
	if (is_out_of_reach(*fd)) {
		int adopted = shfs_adopt_open(shfs_req_fs(req), *node);

		*fd = adopted == -ESTALE ? *fd : adopted;
	}
	if (*fd < 0)
		shfs_req_fail(req, *fd);
	return *fd >= 0;
}

/* Stats a file that is out of reach but open; returns r if it is not. */
static int stat_open(struct shfs_fs *fs, const struct shfs_node *node, int r,
                     struct statx *out)
{
	const struct shfs_handle *handle;

	pthread_mutex_lock(&fs->handles_lock);
	handle = find_open(fs, node);
	if (handle)
		r = shfs_node_statx(handle->fd, "", out);
	pthread_mutex_unlock(&fs->handles_lock);
	return r;
}

int shfs_stat_node(struct shfs_fs *fs, struct shfs_node *node, struct statx *out)
{
	int r = shfs_node_stat(fs->tree, node, out);

	return is_out_of_reach(r) ? stat_open(fs, node, r, out) : r;
}

static void get_invented_attr(fuse_req_t req, fuse_ino_t id)
{
	struct statx stx;
	struct stat st;
	int r = shfs_invented_stat(shfs_req_fs(req), id, &stx);

	if (r) {
		shfs_req_fail(req, r);
		return;
	}
	shfs_stat_from_statx(&stx, &st);
	fuse_reply_attr(req, &st, SHFS_TIMEOUT_LONG);
}

static void op_getattr(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *node;
	struct statx stx;
	int r;

	if (shfs_invented_is_id(id)) {
		get_invented_attr(req, id);
		return;
	}
	node = shfs_req_node(req, id);
	if (!node)
		return;
	r = shfs_stat_node(fs, node, &stx);
	if (r)
		shfs_req_fail(req, r);
	else
		reply_attr(req, node, &stx);
}

/* --- setattr --- */

/* Returns the content that stx describes, without a hash; flags are added to its own. */
static struct shfs_content content_of(const struct statx *stx, uint32_t flags)
{
	return (struct shfs_content){
		.flags = SHFS_CONTENT_KNOWN | flags |
		         (shfs_has_names(stx) ? SHFS_CONTENT_LINKED : 0),
		.mode = stx->stx_mode,
		.size = stx->stx_size,
		.mtime_ns = shfs_time_ns(stx->stx_mtime.tv_sec, stx->stx_mtime.tv_nsec),
		.ctime_ns = shfs_time_ns(stx->stx_ctime.tv_sec, stx->stx_ctime.tv_nsec),
	};
}

/* Records a change. was: the file before, for the operations that tell it. content: NULL:
 * after tells it. */
static void record_change(struct shfs_fs *fs, uint64_t process, struct shfs_node *node,
                          uint32_t op, const struct statx *was,
                          const struct shfs_content *after, struct shfs_snapshot *content)
{
	struct shfs_rec_pathop record = {
		.op = op,
		.directory = S_ISDIR(node->type),
		.dev = node->dev,
		.ino = node->ino,
		.content = *after,
	};
	struct shfs_snapshot *contents[2] = { content, NULL };

	if (was) {
		record.victim = content_of(was, after->flags & SHFS_CONTENT_INCOMPLETE);
		shfs_former_status(&record.former, was);
	}
	shfs_tree_lock_read(fs->tree);
	shfs_emit_pathop(fs, process, &record, node, NULL, contents);
	shfs_tree_unlock(fs->tree);
}

static int set_open_size(fuse_req_t req, struct shfs_handle *handle, off_t size)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_change change = shfs_watch_begin_change(fs, handle, shfs_req_tid(req),
	                                                    SHFS_CHANGE_TRUNCATE);
	int r = shfs_truncate(req, handle->fd, size);

	shfs_watch_end_change(fs, &change, r);
	return r;
}

/* Does a truncate(2), and records it before anyone can change the file again. */
static int truncate_node(fuse_req_t req, struct shfs_node *node, off_t size)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	_cleanup_close_ int fd = shfs_open_waiting(req, node, O_WRONLY);
	struct shfs_snapshot *content = NULL;
	struct shfs_content after;
	struct shfs_change change;
	struct statx stx;
	uint64_t process;
	int r;

	if (fd < 0)
		return fd;
	process = shfs_caller_process(fs->callers, shfs_req_tid(req));
	change = shfs_watch_begin_truncate(fs, node, fd, process);
	r = shfs_truncate(req, fd, size);
	if (shfs_watch_has_truncated(fs, node, &change, r, &content) &&
	    !shfs_node_statx(fd, "", &stx)) {
		after = content_of(&stx, 0);
		record_change(fs, process, node, SHFS_OP_TRUNCATE, NULL, &after, content);
	}
	shfs_watch_end_change(fs, &change, r);
	shfs_snapshot_unref(content);
	return r;
}

static struct timespec wanted_time(int to_set, int set, int now, struct timespec value)
{
	if (to_set & now)
		value.tv_nsec = UTIME_NOW;
	else if (!(to_set & set))
		value.tv_nsec = UTIME_OMIT;
	return value;
}

static int set_times(struct shfs_fs *fs, struct shfs_node *node, int fd,
                     const struct stat *attr, int to_set)
{
	struct timespec times[2] = {
		wanted_time(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW,
		            attr->st_atim),
		wanted_time(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW,
		            attr->st_mtim),
	};

	return utimensat(fs->proc_fd, shfs_fd_name(fd).name, times, 0) ? -errno : 0;
}

#define SET_OWNER (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)
#define SET_TIMES                                                                        \
	(FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW |           \
	 FUSE_SET_ATTR_MTIME_NOW)

#define SET_TOUCH (FUSE_SET_ATTR_MODE | SET_OWNER | SET_TIMES)

static int set_touch(fuse_req_t req, struct shfs_node *node, int fd,
                     const struct stat *attr, int to_set)
{
	struct shfs_identity identity = { 0 };
	struct shfs_fs *fs = shfs_req_fs(req);
	struct stat st;
	int r = 0;

	if (to_set & FUSE_SET_ATTR_MODE)
		r = fchmodat(fs->proc_fd, shfs_fd_name(fd).name, attr->st_mode, 0)
		            ? -errno
		            : 0;
	/* an owner who changes the group clears it too, if it is not executable */
	if (!r && (to_set & SET_OWNER) && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    shfs_is_set_gid_alone(st.st_mode))
		shfs_identity_assume(req, &identity);
	if (!r && (to_set & SET_OWNER))
		r = fchownat(fd, "",
		             to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1,
		             to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1,
		             AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)
		            ? -errno
		            : 0;
	shfs_identity_restore(&identity);
	if (!r && (to_set & SET_TIMES))
		r = set_times(fs, node, fd, attr, to_set);
	return r;
}

static void record_touch(struct shfs_fs *fs, uint64_t process, struct shfs_node *node,
                         int to_set, const struct statx *was,
                         const struct shfs_content *after)
{
	if (to_set & FUSE_SET_ATTR_MODE)
		record_change(fs, process, node, SHFS_OP_CHMOD, was, after, NULL);
	if (to_set & SET_OWNER)
		record_change(fs, process, node, SHFS_OP_CHOWN, was, after, NULL);
	if (to_set & SET_TIMES)
		record_change(fs, process, node, SHFS_OP_UTIMES, was, after, NULL);
}

/* Sets mode, owner and times, and records that before anyone can change the content. */
static int touch_node(fuse_req_t req, struct shfs_node *node, int fd,
                      const struct stat *attr, int to_set)
{
	bool changing;
	struct shfs_fs *fs = shfs_req_fs(req);
	uint64_t process = shfs_caller_process(fs->callers, shfs_req_tid(req));
	struct shfs_watch *watch =
		shfs_watch_begin_touch(fs, node, to_set & SET_TIMES, &changing);
	uint32_t flags = changing ? SHFS_CONTENT_INCOMPLETE : 0;
	struct shfs_content after;
	struct statx was, stx;
	int r = shfs_node_statx(fd, "", &was);

	if (!r)
		r = set_touch(req, node, fd, attr, to_set);
	if (!r)
		r = shfs_node_statx(fd, "", &stx);
	if (!r) {
		after = content_of(&stx, flags);
		record_touch(fs, process, node, to_set, &was, &after);
	}
	shfs_watch_end_touch(watch, fd);
	return r;
}

static void op_setattr(fuse_req_t req, fuse_ino_t id, struct stat *attr, int to_set,
                       struct fuse_file_info *fi)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_handle *handle;
	struct shfs_node *node;
	struct statx stx;
	int fd, r = 0;

	if (!begin_node_request(req, id, &node, &fd))
		return;
	handle = fi ? shfs_req_opened(req, fi) : NULL;
	if (to_set & FUSE_SET_ATTR_SIZE)
		r = handle ? set_open_size(req, handle, attr->st_size)
		           : truncate_node(req, node, attr->st_size);
	if (!r && (to_set & SET_TOUCH))
		r = touch_node(req, node, fd, attr, to_set);
	if (!r)
		r = shfs_stat_node(fs, node, &stx);
	shfs_node_fd_done(fs->tree, node);
	if (r) {
		shfs_req_fail(req, r);
		return;
	}
	reply_attr(req, node, &stx);
}

static void op_readlink(fuse_req_t req, fuse_ino_t id)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *node;
	char target[PATH_MAX + 1];
	ssize_t n;
	int fd;

	if (shfs_invented_is_id(id)) {
		shfs_invented_read(req, id);
		return;
	}
	if (!begin_node_request(req, id, &node, &fd))
		return;
	n = readlinkat(fd, "", target, sizeof(target) - 1);
	if (n < 0) {
		n = -errno;
	} else {
		target[n] = 0;
		shfs_links_note_read(fs, node, fd, target, shfs_req_tid(req));
		shfs_lookups_note(fs, shfs_req_tid(req), node, NULL, SHFS_FOUND_TEXT,
		                  target);
	}
	shfs_node_fd_done(fs->tree, node);
	if (n < 0) {
		shfs_req_fail(req, (int)n);
	} else {
		fuse_reply_readlink(req, target);
	}
}

static void op_statfs(fuse_req_t req, fuse_ino_t id)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *node;
	struct statvfs st;
	int fd, r;

	if (shfs_invented_is_id(id))
		id = SHFS_NODE_ROOT;
	if (!begin_node_request(req, id, &node, &fd))
		return;
	r = fstatvfs(fd, &st) ? -errno : 0;
	shfs_node_fd_done(fs->tree, node);
	if (r)
		shfs_req_fail(req, r);
	else
		fuse_reply_statfs(req, &st);
}

/* --- extended attributes --- */

/* A path of an O_PATH fd, for calls on extended attributes, which need a path. */
struct proc_path {
	char path[40];
};

static struct proc_path proc_path(int fd)
{
	struct proc_path out;

	snprintf(out.path, sizeof(out.path), "/proc/self/fd/%d", fd);
	return out;
}

static bool is_control_name(fuse_ino_t id, const char *name)
{
	return id == SHFS_NODE_ROOT &&
	       !strncmp(name, SHFS_XATTR_PREFIX, strlen(SHFS_XATTR_PREFIX));
}

/* Replies with the result of get or list: n bytes, or only their number. */
static void reply_xattr(fuse_req_t req, const char *value, size_t size, ssize_t n)
{
	if (n < 0)
		shfs_req_fail(req, (int)n);
	else if (size)
		fuse_reply_buf(req, value, (size_t)n);
	else
		fuse_reply_xattr(req, (size_t)n);
}

/* Removes the names from the list that only a privileged caller sees (listxattr(2)). */
static ssize_t drop_trusted(char *list, ssize_t n)
{
	ssize_t kept = 0;

	for (ssize_t at = 0, len; at < n; at += len) {
		len = (ssize_t)strlen(list + at) + 1;
		if (!strncmp(list + at, "trusted.", strlen("trusted.")))
			continue;
		memmove(list + kept, list + at, (size_t)len);
		kept += len;
	}
	return kept;
}

static void get_xattr(fuse_req_t req, fuse_ino_t id, const char *name, size_t size)
{
	_cleanup_free_ char *value = size ? malloc(size) : NULL;
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *node;
	ssize_t n;
	int fd;

	if (size && !value) {
		shfs_req_fail(req, -ENOMEM);
		return;
	}
	if (!begin_node_request(req, id, &node, &fd))
		return;
	n = name ? getxattr(proc_path(fd).path, name, value, size)
	         : listxattr(proc_path(fd).path, value, size);
	if (n < 0)
		n = -errno;
	if (!name && value && n > 0 && fuse_req_ctx(req)->uid)
		n = drop_trusted(value, n);
	shfs_node_fd_done(fs->tree, node);
	reply_xattr(req, value, size, n);
}

/* Is this a request for the capabilities of a file that has none? The kernel asks for
 * them before a file is first written. */
static bool has_no_capability(fuse_req_t req, fuse_ino_t id, const char *name)
{
	const struct shfs_node *node;

	if (strcmp(name, "security.capability") != 0)
		return false;
	node = shfs_node_find(shfs_req_fs(req)->tree, id);
	return node && atomic_load(&node->incapable);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t id, const char *name, size_t size)
{
	if (is_control_name(id, name))
		shfs_control_get(req, name, size);
	else if (shfs_invented_is_id(id))
		shfs_req_fail(req, -ENODATA);
	else if (has_no_capability(req, id, name))
		shfs_req_fail(req, -ENODATA);
	else
		get_xattr(req, id, name, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t id, size_t size)
{
	if (shfs_invented_is_id(id))
		reply_xattr(req, "", size, 0);
	else
		get_xattr(req, id, NULL, size);
}

/* Sets an extended attribute; value NULL: removes it. may_be_gone: it may have been
 * removed already. */
static void set_xattr(fuse_req_t req, fuse_ino_t id, const char *name, const char *value,
                      size_t size, int flags, bool may_be_gone)
{
	struct shfs_rec_pathop record = { .op = SHFS_OP_XATTR };
	struct shfs_identity identity = { 0 };
	_cleanup_buf_ struct shfs_buf former = { 0 };
	struct statx stx;
	struct stat st;
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *node;
	uint64_t process;
	int fd, r;

	if (is_control_name(id, name)) {
		shfs_req_fail(req, -EPERM);
		return;
	}
	if (!begin_node_request(req, id, &node, &fd))
		return;
	atomic_store(&node->incapable, false);
	/* an ACL set by an owner who is not in the group clears the set-gid bit */
	if (!strcmp(name, "system.posix_acl_access") && !fstat(fd, &st) &&
	    (st.st_mode & S_ISGID))
		shfs_identity_assume(req, &identity);
	/* if we die, a successor must know the node: told ESTALE, the kernel would repeat
	 * the call by another request */
	shfs_node_opened(fs->tree, node);
	if (!shfs_node_statx(fd, "", &stx)) {
		record.victim = content_of(&stx, 0);
		shfs_former_status(&record.former, &stx);
	}
	shfs_former_xattrs(&record.former, fd, name, &former);
	shfs_req_try(req, 0);
	r = value ? setxattr(proc_path(fd).path, name, value, size, flags)
	          : removexattr(proc_path(fd).path, name);
	r = r ? -errno : 0;
	if (may_be_gone && r == -ENODATA)
		r = 0;
	r = shfs_req_tried(req, r);
	shfs_identity_restore(&identity);
	shfs_node_fd_done(fs->tree, node);
	if (!r) {
		/* the number of blocks changes; the kernel updates the ctime itself */
		shfs_transport_invalidate(fs->transport, id, false);
		process = shfs_caller_process(fs->callers, shfs_req_tid(req));
		record.directory = S_ISDIR(node->type);
		record.path2 = shfs_bytes_str(name);
		shfs_tree_lock_read(fs->tree);
		shfs_emit_pathop(fs, process, &record, node, NULL, NULL);
		shfs_tree_unlock(fs->tree);
	}
	shfs_req_result(req, r);
	shfs_node_closed(fs->tree, node);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t id, const char *name,
                        const char *value, size_t size, int flags)
{
	set_xattr(req, id, name, value ? value : "", size, flags, false);
}

void shfs_remove_xattr(fuse_req_t req, fuse_ino_t id, const char *name, bool may_be_gone)
{
	set_xattr(req, id, name, NULL, 0, 0, may_be_gone);
}

static void op_removexattr(fuse_req_t req, fuse_ino_t id, const char *name)
{
	shfs_remove_xattr(req, id, name, false);
}

/* --- ioctl: chattr and lsattr --- */

union ioctl_data {
	unsigned flags;
	unsigned long version;
	struct fsxattr fsxattr;
};

static bool is_known_ioctl(unsigned cmd)
{
	return cmd == FS_IOC_GETFLAGS || cmd == FS_IOC_SETFLAGS ||
	       cmd == FS_IOC_FSGETXATTR || cmd == FS_IOC_FSSETXATTR ||
	       cmd == FS_IOC_GETVERSION;
}

static void op_ioctl(fuse_req_t req, fuse_ino_t id, unsigned cmd, void *arg,
                     struct fuse_file_info *fi, unsigned flags, const void *in,
                     size_t in_size, size_t out_size)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *node;
	_cleanup_close_ int fd = -1;
	union ioctl_data data = { 0 };
	int path_fd, r;

	if (!is_known_ioctl(cmd) ||
	    (flags & (FUSE_IOCTL_COMPAT | FUSE_IOCTL_UNRESTRICTED)) ||
	    in_size > sizeof(data) || out_size > sizeof(data)) {
		shfs_req_fail(req, -ENOTTY);
		return;
	}
	if (!begin_node_request(req, id, &node, &path_fd))
		return;
	/* not that of a handle: the request may be for a directory, or have no handle */
	fd = shfs_node_open(fs->tree, node, O_RDONLY);
	shfs_node_fd_done(fs->tree, node);
	if (fd < 0) {
		shfs_req_fail(req, fd);
		return;
	}
	if (in_size)
		memcpy(&data, in, in_size);
	r = ioctl(fd, cmd, &data);
	if (r < 0)
		r = -errno;
	if (cmd == FS_IOC_SETFLAGS || cmd == FS_IOC_FSSETXATTR)
		/* the ctime, which may be set even if the call fails */
		shfs_transport_invalidate(fs->transport, id, false);
	if (r < 0)
		shfs_req_fail(req, r);
	else
		fuse_reply_ioctl(req, r, &data, out_size);
}

/* Asked only where the kernel does not decide itself, by the mode. */
static void op_access(fuse_req_t req, fuse_ino_t id, int mask)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *node = shfs_req_node(req, id);
	char name[16];
	int fd;

	if (!node)
		return;
	fd = shfs_node_fd(fs->tree, node);
	if (fd < 0) {
		shfs_req_fail(req, fd);
		return;
	}
	snprintf(name, sizeof(name), "%d", fd);
	shfs_req_result(req, faccessat(fs->proc_fd, name, mask, AT_EACCESS) ? -errno : 0);
	shfs_node_fd_done(fs->tree, node);
}

void shfs_ops_add_attr(struct fuse_lowlevel_ops *ops)
{
	ops->access = op_access;
	ops->getattr = op_getattr;
	ops->setattr = op_setattr;
	ops->readlink = op_readlink;
	ops->statfs = op_statfs;
	ops->getxattr = op_getxattr;
	ops->listxattr = op_listxattr;
	ops->setxattr = op_setxattr;
	ops->removexattr = op_removexattr;
	ops->ioctl = op_ioctl;
}
