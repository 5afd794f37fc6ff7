/* SPDX-License-Identifier: MIT */
/*
 * Answers requests that were sent before, to a server that died (docs/takeover.md), if
 * that has carried them out but not replied. Others are served as usual.
 *
 * 1. An operation notes its request just before the call beneath (shfs_req_try).
 * 2. The server dies, before its reply was read.
 * 3. The kernel sends the request again, to the one that takes over.
 *
 * The file system shows whether the call of a noted request was done: the kernel lets
 * only one request at a time change the names of a directory, or write to a file. So a
 * file that was to be made and exists was made by this request, and a name that was to be
 * removed and is gone was removed by it.
 */
#include "fusefs/operations/operations.h"

#include "fusefs/watch/beneath.h"
#include "store/capture/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static struct fuse_lowlevel_ops
	first; /* operations for requests sent for the first time */

/* Was the request tried before? Gets its note, which may be NULL. */
static bool was_tried(fuse_req_t req, uint64_t *note)
{
	return shfs_transport_is_resent() &&
	       shfs_heir_was_tried(shfs_req_fs(req)->heir, shfs_transport_unique(), note);
}

/* Returns the number of the file that this request has opened; 0: none. */
static uint64_t opened_before(fuse_req_t req)
{
	return shfs_transport_is_resent() ? shfs_heir_opened_by(shfs_req_fs(req)->heir,
	                                                        shfs_transport_unique())
	                                  : 0;
}

/* Looks up the file of that name, with one more lookup, and its directory. */
static int look_up_named(fuse_req_t req, fuse_ino_t parent_id, const char *name,
                         struct shfs_node **parent, struct statx *stx,
                         struct shfs_node **node)
{
	*parent = shfs_fs_node(shfs_req_fs(req), parent_id);
	return *parent ? shfs_node_lookup(shfs_req_fs(req)->tree, *parent, name, stx,
	                                  node)
	               : -ESTALE;
}

/* Stats that name, without a node for it. */
static int stat_child_by_id(fuse_req_t req, fuse_ino_t parent_id, const char *name,
                            struct statx *stx)
{
	struct shfs_node *parent = shfs_fs_node(shfs_req_fs(req), parent_id);

	return parent ? shfs_node_stat_child(shfs_req_fs(req)->tree, parent, name, stx)
	              : -ESTALE;
}

/* --- making --- */

/* Replies with a file that was made: true. id: of the file with the new name; 0: any. */
static bool reply_made(fuse_req_t req, fuse_ino_t parent_id, const char *name,
                       fuse_ino_t id)
{
	struct shfs_node *parent, *node;
	struct statx stx;

	if (!was_tried(req, NULL) ||
	    look_up_named(req, parent_id, name, &parent, &stx, &node))
		return false;
	if (id && node->id != id) {
		shfs_node_forget(shfs_req_fs(req)->tree, node->id, 1);
		return false;
	}
	shfs_reply_entry(req, parent, node, &stx);
	return true;
}

static void again_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	if (!reply_made(req, parent, name, 0))
		first.mkdir(req, parent, name, mode);
}

static void again_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                        dev_t rdev)
{
	if (!reply_made(req, parent, name, 0))
		first.mknod(req, parent, name, mode, rdev);
}

static void again_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
                          const char *name)
{
	if (!reply_made(req, parent, name, 0))
		first.symlink(req, target, parent, name);
}

/* Checks before it looks for the node of id: this server may not know that file yet, and
 * told ESTALE the kernel would find that the name exists. */
static void again_link(fuse_req_t req, fuse_ino_t id, fuse_ino_t parent, const char *name)
{
	if (!reply_made(req, parent, name, id))
		first.link(req, id, parent, name);
}

/* --- opening --- */

static void again_open(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	uint64_t fh = opened_before(req);

	if (fh) {
		if (shfs_req_node(req, id))
			shfs_reply_open(req, shfs_heir_opened(shfs_req_fs(req)->heir, fh),
			                fi);
		return;
	}
	/* told ESTALE a second time, for the name, the open would fail */
	if (shfs_transport_is_resent())
		shfs_tree_told_stale(shfs_req_fs(req)->tree, shfs_req_tid(req));
	first.open(req, id, fi);
}

static void again_opendir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	uint64_t fh = opened_before(req);
	struct shfs_node *node;

	if (!fh) {
		first.opendir(req, id, fi);
		return;
	}
	node = shfs_req_node(req, id);
	if (!node)
		return;
	shfs_beneath_watch(shfs_req_fs(req)->beneath, node);
	fi->fh = fh;
	fuse_reply_open(req, fi);
}

/* Opens a file that was made, also with a mode by which its owner may not open it. */
static int open_made(fuse_req_t req, struct shfs_node *node, int flags,
                     const struct statx *stx, struct shfs_handle **handle)
{
	int r = shfs_open_node(req, node, flags, handle), fd;
	struct shfs_fs *fs = shfs_req_fs(req);

	if (r != -EACCES || !S_ISREG(stx->stx_mode) || stx->stx_size)
		return r;
	fd = shfs_node_fd(fs->tree, node);
	if (fd < 0)
		return fd;
	if (!fchmodat(fs->proc_fd, shfs_fd_name(fd).name,
	              (stx->stx_mode & ALLPERMS) | S_IRUSR | S_IWUSR, 0)) {
		r = shfs_open_node(req, node, flags, handle);
		if (fchmodat(fs->proc_fd, shfs_fd_name(fd).name, stx->stx_mode & ALLPERMS,
		             0))
			shfs_log("cannot restore the permissions of a file: %m");
	}
	shfs_node_fd_done(fs->tree, node);
	return r;
}

static void again_create(fuse_req_t req, fuse_ino_t parent_id, const char *name,
                         mode_t mode, struct fuse_file_info *fi)
{
	struct shfs_handle *handle =
		shfs_heir_opened(shfs_req_fs(req)->heir, opened_before(req));
	struct shfs_node *parent, *node;
	struct statx stx;
	int r;

	/* a file of O_TMPFILE that is not among the open files is gone with the dead
	 * server
	 */
	if (!handle && (!was_tried(req, NULL) || (fi->flags & O_TMPFILE) == O_TMPFILE ||
	                stat_child_by_id(req, parent_id, name, &stx))) {
		first.create(req, parent_id, name, mode, fi);
		return;
	}
	r = look_up_named(req, parent_id, name, &parent, &stx, &node);
	if (r) {
		shfs_req_fail(req, r);
		return;
	}
	if (!handle)
		r = open_made(req, node, fi->flags & ~(O_CREAT | O_EXCL), &stx, &handle);
	else if (handle->node != node)
		r = -ESTALE;
	if (r) {
		shfs_node_forget(shfs_req_fs(req)->tree, node->id, 1);
		shfs_req_fail(req, r);
		return;
	}
	shfs_reply_created(req, parent, node, &stx, handle, fi);
}

/* --- removing and moving --- */

static bool was_removed(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct statx stx;

	return was_tried(req, NULL) &&
	       stat_child_by_id(req, parent, name, &stx) == -ENOENT;
}

static void again_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (was_removed(req, parent, name))
		shfs_req_result(req, 0);
	else
		first.unlink(req, parent, name);
}

static void again_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (was_removed(req, parent, name))
		shfs_req_result(req, 0);
	else
		first.rmdir(req, parent, name);
}

/* The inode number of the file to move was noted: has the file the new name? */
static void again_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
                         fuse_ino_t new_parent, const char *new_name, unsigned flags)
{
	struct statx stx;
	uint64_t moved;

	if (was_tried(req, &moved) &&
	    ((flags & RENAME_EXCHANGE) ||
	     stat_child_by_id(req, parent, name, &stx) == -ENOENT) &&
	    !stat_child_by_id(req, new_parent, new_name, &stx) && stx.stx_ino == moved)
		shfs_req_result(req, 0);
	else
		first.rename(req, parent, name, new_parent, new_name, flags);
}

/* --- changing --- */

/*
 * Returns how many bytes were appended at offset, where the file ended before: all, a
 * part or none. If the file may not be read, its size decides.
 */
static size_t appended_before(int fd, const char *data, size_t size, off_t offset)
{
	char there[4096];
	size_t done = 0;
	struct stat st;
	ssize_t n;

	while (done < size) {
		n = pread(fd, there, MIN(size - done, sizeof(there)),
		          offset + (off_t)done);
		if (n < 0 && !fstat(fd, &st))
			return (size_t)MIN((off_t)size,
			                   MAX(st.st_size - offset, (off_t)0));
		if (n <= 0)
			break;
		if (memcmp(there, data + done, (size_t)n) != 0)
			return 0;
		done += (size_t)n;
	}
	return done;
}

static void again_write(fuse_req_t req, fuse_ino_t id, const char *data, size_t size,
                        off_t offset, struct fuse_file_info *fi)
{
	const struct shfs_handle *handle = shfs_req_opened(req, fi);
	uint64_t end;

	/* a write at an offset can be repeated */
	if (handle && !fi->writepage && (fi->flags & O_APPEND) && was_tried(req, &end))
		shfs_write(req, data, size, offset, fi,
		           appended_before(handle->fd, data, size, (off_t)end));
	else
		first.write(req, id, data, size, offset, fi);
}

/* Sets the attribute once more, if it was set. */
static void again_setxattr(fuse_req_t req, fuse_ino_t id, const char *name,
                           const char *value, size_t size, int flags)
{

	if (was_tried(req, NULL))
		flags &= ~XATTR_CREATE;
	first.setxattr(req, id, name, value, size, flags);
}

static void again_removexattr(fuse_req_t req, fuse_ino_t id, const char *name)
{

	if (was_tried(req, NULL))
		shfs_remove_xattr(req, id, name, true);
	else
		first.removexattr(req, id, name);
}

void shfs_ops_add_resent(struct fuse_lowlevel_ops *ops)
{
	first = *ops;
	ops->mkdir = again_mkdir;
	ops->mknod = again_mknod;
	ops->symlink = again_symlink;
	ops->link = again_link;
	ops->open = again_open;
	ops->opendir = again_opendir;
	ops->create = again_create;
	ops->unlink = again_unlink;
	ops->rmdir = again_rmdir;
	ops->rename = again_rename;
	ops->write = again_write;
	ops->setxattr = again_setxattr;
	ops->removexattr = again_removexattr;
}
