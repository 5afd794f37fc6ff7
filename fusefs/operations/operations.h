/* SPDX-License-Identifier: MIT */
/*
 * operations.h - the file system's operations, as libfuse calls them, and their shared
 * functions.
 *
 *     file.c      open files: read, write, close
 *     name.c      lookup, create, rename, unlink, ...
 *     attr.c      attributes, extended attributes, ioctl
 *     former.c    what a change is about to do away with
 *     dir.c       reading directories
 *     statx.c     times of birth
 *     control.c   user.shfs.sync and user.shfs.status
 *     invented.c  .shfs and NAME@{WHEN}
 *     resent.c    requests that were sent before, to a server that died
 */
#pragma once

#include "fusefs/fs.h"
#include "fusefs/nodes/node.h"
#include "fusefs/takeover/heir.h"
#include "fusefs/transport/transport.h"
#include "fusefs/watch/watch.h"

#include <fuse3/fuse_lowlevel.h>

#define SHFS_XATTR_PREFIX "user.shfs."

/* Seconds for which the kernel may cache names and attributes: if changes by others would
 * be noticed (beneath.h), and otherwise (also that a name does not exist). */
#define SHFS_TIMEOUT_LONG (24 * 60 * 60.0)
#define SHFS_TIMEOUT      1.0

/* Makes the table of operations; each part adds its own. */
void shfs_ops_init(struct fuse_lowlevel_ops *ops);
void shfs_ops_add_file(struct fuse_lowlevel_ops *ops);
void shfs_ops_add_name(struct fuse_lowlevel_ops *ops);
void shfs_ops_add_attr(struct fuse_lowlevel_ops *ops);
void shfs_ops_add_dir(struct fuse_lowlevel_ops *ops);
/* Adds, as the last part, the check whether a request was carried out before. */
void shfs_ops_add_resent(struct fuse_lowlevel_ops *ops);

/*
 * Shows an owner without an id here as this user: in a user namespace the kernel refuses
 * to change a file whose owner is not mapped. The lower file system decides then who may
 * do what, as all requests are of the one user. Before the mount.
 */
void shfs_ops_show_unmapped_as_own(void);
/* Return the owner and the group that are shown. */
uint32_t shfs_shown_uid(const struct statx *stx);
uint32_t shfs_shown_gid(const struct statx *stx);

/* May this user execute the file? There the kernel asks no more than whether anybody may.
 * Elsewhere it decides itself: true. */
bool shfs_ops_may_execute(struct shfs_fs *fs, struct shfs_node *node);

/* Closes directories that are still open, after the last request; as
 * shfs_watch_release_all. */
void shfs_directories_release_all(struct shfs_fs *fs);

/* For shfs_transport_new. */
extern const struct shfs_transport_calls shfs_ops_calls;

static inline struct shfs_fs *shfs_req_fs(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static inline uint32_t shfs_req_tid(fuse_req_t req)
{
	return (uint32_t)fuse_req_ctx(req)->pid;
}

/* Returns the node of an id; NULL: there is none, which is an error of the kernel or
 * ours. */
struct shfs_node *shfs_fs_node(struct shfs_fs *fs, fuse_ino_t id);
/* Returns the node of an id; NULL: there is none, and ESTALE was replied, or EPERM for a
 * link that has none (req is gone). */
struct shfs_node *shfs_req_node(fuse_req_t req, fuse_ino_t id);

/*
 * former.c: what a change is about to do away with (struct shfs_former), before it is
 * made. fd may be an O_PATH one. Where something cannot be read, it is not known.
 */
void shfs_former_status(struct shfs_former *former, const struct statx *stx);
/* The extended attribute name, or with NULL all, of a file that will lose its last name.
 * list holds them. */
void shfs_former_xattrs(struct shfs_former *former, int fd, const char *name,
                        struct shfs_buf *list);
/* The time of the directory of path; 2: of path2. */
void shfs_former_directory(struct shfs_former *former, int dirfd);
void shfs_former_directory2(struct shfs_former *former, int dirfd);
/* The mtime of a directory; 0: not known. */
int64_t shfs_directory_mtime(int dirfd);

/* Replies -error. */
void shfs_req_fail(fuse_req_t req, int error);
/* Replies 0 or -error. */
void shfs_req_result(fuse_req_t req, int result);

/* Returns the text behind field ("Groups:") in the caller's /proc status, which is read
 * into status. NULL: unknown. */
const char *shfs_req_status(fuse_req_t req, const char *field, struct shfs_buf *status);

/* Is the caller being killed, so that its request is of no use any more? */
bool shfs_req_is_killed(fuse_req_t req);

/*
 * While a file is made for another user, this thread has that user's identity and umask,
 * so that owner, group, mode and default ACL are as they would be without us. Without
 * privilege only the umask matters. identity.c
 */
struct shfs_identity {
	bool assumed, groups;
};
void shfs_identity_assume(fuse_req_t req, struct shfs_identity *id);
/* Assumes the caller's identity while the file behind fd is written (without the groups
 * where they do not matter), so that the caller's quotas and reserved blocks count, and
 * set-id bits are cleared. */
void shfs_identity_assume_to_write(fuse_req_t req, int fd, struct shfs_identity *id);
void shfs_identity_restore(struct shfs_identity *id);
#define _cleanup_identity_ _cleanup_(shfs_identity_restore)

/* Called after a file was found: if that was by a new name, has the kernel look up the
 * old one again. */
void shfs_expire_moved(struct shfs_fs *fs);

/* Has the file several names? */
bool shfs_has_names(const struct statx *stx);
void shfs_stat_from_statx(const struct statx *stx, struct stat *out);

/* Replies with an entry; if the kernel does not take it, the lookup is given back. */
void shfs_reply_entry(fuse_req_t req, const struct shfs_node *parent,
                      struct shfs_node *node, const struct statx *stx);
void shfs_fill_entry(const struct shfs_node *parent, struct shfs_node *node,
                     const struct statx *stx, struct fuse_entry_param *out);
double shfs_attr_timeout(const struct shfs_node *node, const struct statx *stx);

/* Returns the open file or directory of a request. NULL: it was open in a dead server,
 * and we could not resume it. */
static inline void *shfs_req_opened(fuse_req_t req, const struct fuse_file_info *fi)
{
	return shfs_heir_opened(shfs_req_fs(req)->heir, fi->fh);
}

/* Called before and after a call that must not be done twice; shfs_req_tried returns its
 * result (0 or more, or -errno). If we die before the reply, resent.c finds out whether
 * it was done. */
static inline void shfs_req_try(fuse_req_t req, uint64_t note)
{
	shfs_heir_try(shfs_req_fs(req)->heir, shfs_transport_unique(), note);
}

static inline int shfs_req_tried(fuse_req_t req, int result)
{
	if (result < 0)
		shfs_heir_failed(shfs_req_fs(req)->heir, shfs_transport_unique());
	return result;
}

/* Resume files and directories that a dead server had open; before the first request. */
void *shfs_file_resume(struct shfs_fs *fs, const struct shfs_open *open, uint64_t fh);
void *shfs_directory_resume(struct shfs_fs *fs, const struct shfs_open *open,
                            uint64_t fh);

/* --- file.c --- */

/* Opens the node for the caller: *out is a handle; or a negative errno. */
_must_check_ int shfs_open_node(fuse_req_t req, struct shfs_node *node, int flags,
                                struct shfs_handle **out);
/* Opens as shfs_node_open, but waits for a lease (fcntl(2)) on the lower file. */
_must_check_ int shfs_open_waiting(fuse_req_t req, struct shfs_node *node, int flags);
/* Are so many files open that no more may be opened (-ENFILE)? */
bool shfs_is_all_open(struct shfs_fs *fs);
/* Replies with the handle, and how the kernel is to use it, as fuse_reply_open and
 * _create.
 */
int shfs_reply_open(fuse_req_t req, struct shfs_handle *handle,
                    struct fuse_file_info *fi);
int shfs_reply_create(fuse_req_t req, const struct fuse_entry_param *entry,
                      struct shfs_handle *handle, struct fuse_file_info *fi);
/* Writes, and replies. there: number of first bytes of data that are written already. */
void shfs_write(fuse_req_t req, const char *data, size_t size, off_t offset,
                const struct fuse_file_info *fi, size_t there);
/* Truncates the lower file for the caller. */
_must_check_ int shfs_truncate(fuse_req_t req, int fd, off_t size);
/* Returns the flags to open the lower file with. */
int shfs_lower_flags(int flags);

/* --- name.c --- */

/* Replies with a file that was made: if the kernel does not take it, its lookup is given
 * back and the handle released. */
void shfs_reply_created(fuse_req_t req, const struct shfs_node *parent,
                        struct shfs_node *node, const struct statx *stx,
                        struct shfs_handle *handle, struct fuse_file_info *fi);

/* --- records of names and attributes --- */

/*
 * Tree lock held. Records op by the caller on name below node (NULL: on node itself),
 * unless it is hidden. content as in shfs_capture_emit.
 */
void shfs_emit_pathop(struct shfs_fs *fs, uint64_t process, struct shfs_rec_pathop *op,
                      const struct shfs_node *node, const char *name,
                      struct shfs_snapshot *const content[2]);
/* Tree lock held. Records op with a path of its own as path2. */
void shfs_emit_pathop2(struct shfs_fs *fs, uint64_t process, struct shfs_rec_pathop *op,
                       const struct shfs_node *node, const char *name,
                       const struct shfs_node *node2, const char *name2,
                       struct shfs_snapshot *const content[2]);

/* --- attr.c --- */

/* Removes an extended attribute, and replies. may_be_gone: it may have been removed
 * already.
 */
void shfs_remove_xattr(fuse_req_t req, fuse_ino_t id, const char *name, bool may_be_gone);

/* Gets an fd as shfs_node_fd does, of an open file that cannot be reached by its name. */
_must_check_ int shfs_adopt_open(struct shfs_fs *fs, struct shfs_node *node);

/* Stats as shfs_node_stat, also an open file that cannot be reached by its name. */
_must_check_ int shfs_stat_node(struct shfs_fs *fs, struct shfs_node *node,
                                struct statx *out);

/* --- statx.c --- */

struct fuse_out_header;
struct shfs_fuse_statx_out;

/* Is this a request for attributes that libfuse does not know? Then out and (unless it
 * has an error) reply are the answer. */
bool shfs_statx_answer(struct shfs_fs *fs, const void *request, size_t size,
                       struct fuse_out_header *out, struct shfs_fuse_statx_out *reply);

/* --- control.c --- */

/* Answers getxattr of a name that begins with SHFS_XATTR_PREFIX on the root. */
void shfs_control_get(fuse_req_t req, const char *name, size_t size);
