/* SPDX-License-Identifier: MIT */
/* Requests for names: lookup, mknod, mkdir, link, symlink, rename, unlink and rmdir. */
#include "fusefs/operations/invented.h"
#include "fusefs/operations/operations.h"
#include "fusefs/transport/transport.h"
#include "fusefs/watch/beneath.h"
#include "fusefs/watch/lookups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define REMOVED_MS      1000
#define REMOVED_POLL_MS 5

static void op_lookup(fuse_req_t req, fuse_ino_t parent_id, const char *name)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *parent = shfs_req_node(req, parent_id), *node;
	struct statx stx;
	int r;

	if (!parent)
		return;
	shfs_beneath_watch(fs->beneath, parent);
	r = shfs_node_lookup(fs->tree, parent, name, &stx, &node);
	if (r == -ENOENT && shfs_invented_lookup(req, parent, name))
		return;
	if (r == -ENOENT) {
		shfs_lookups_note(fs, shfs_req_tid(req), parent, name, SHFS_FOUND_NOTHING,
		                  NULL);
		/* the kernel may cache that the name does not exist */
		fuse_reply_entry(req,
		                 &(struct fuse_entry_param){
					 .entry_timeout =
						 parent->hidden ? 0 : SHFS_TIMEOUT });
	} else if (r) {
		shfs_req_fail(req, r);
	} else {
		if (shfs_has_names(&stx))
			shfs_node_found(fs->tree, node, parent, name, shfs_req_tid(req));
		shfs_lookups_note_mode(fs, shfs_req_tid(req), parent, name, stx.stx_mode);
		shfs_expire_moved(fs);
		shfs_reply_entry(req, parent, node, &stx);
	}
}

static void forget_id(struct shfs_fs *fs, uint64_t id, uint64_t n)
{
	if (shfs_invented_is_id(id))
		shfs_invented_forget(fs, id, n);
	else
		shfs_node_forget(fs->tree, id, n);
}

static void op_forget(fuse_req_t req, fuse_ino_t id, uint64_t n)
{
	forget_id(shfs_req_fs(req), id, n);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *list)
{
	for (size_t i = 0; i < count; i++)
		forget_id(shfs_req_fs(req), list[i].ino, list[i].nlookup);
	fuse_reply_none(req);
}

/* --- making files --- */

struct making {
	struct shfs_node *parent;
	const char *name;
	struct shfs_rec_pathop record;
	mode_t mode;
	dev_t rdev;
	const char *target;
};

static int make_lower(int dirfd, const struct making *m)
{
	switch (m->record.op) {
	case SHFS_OP_MKDIR:
		return mkdirat(dirfd, m->name, m->mode) ? -errno : 0;
	case SHFS_OP_SYMLINK:
		return symlinkat(m->target, dirfd, m->name) ? -errno : 0;
	default:
		return mknodat(dirfd, m->name, m->mode, m->rdev) ? -errno : 0;
	}
}

static void make_new_file(fuse_req_t req, fuse_ino_t parent_id, struct making *m)
{
	_cleanup_identity_ struct shfs_identity identity = { 0 };
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *node;
	struct statx stx;
	uint64_t process;
	int dirfd, r;

	m->parent = shfs_req_node(req, parent_id);
	if (!m->parent)
		return;
	dirfd = shfs_node_fd(fs->tree, m->parent);
	if (dirfd < 0) {
		shfs_req_fail(req, dirfd);
		return;
	}
	process = shfs_caller_process(fs->callers, shfs_req_tid(req));
	shfs_identity_assume(req, &identity);
	shfs_tree_lock_read(fs->tree);
	shfs_former_directory(&m->record.former, dirfd);
	shfs_req_try(req, 0);
	r = shfs_req_tried(req, make_lower(dirfd, m));
	if (!r)
		shfs_emit_pathop(fs, process, &m->record, m->parent, m->name, NULL);
	shfs_tree_unlock(fs->tree);
	shfs_identity_restore(&identity);
	shfs_node_fd_done(fs->tree, m->parent);
	if (!r)
		r = shfs_node_lookup(fs->tree, m->parent, m->name, &stx, &node);
	if (r)
		shfs_req_fail(req, r);
	else
		shfs_reply_entry(req, m->parent, node, &stx);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct making m = {
		.name = name,
		.mode = mode,
		.record = { .op = SHFS_OP_MKDIR, .directory = 1 },
	};

	make_new_file(req, parent, &m);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                     dev_t rdev)
{
	struct making m = {
		.name = name,
		.mode = mode,
		.rdev = rdev,
		.record = { .op = SHFS_OP_MKNOD },
	};

	make_new_file(req, parent, &m);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
                       const char *name)
{
	struct making m = {
		.name = name,
		.target = target,
		.record = { .op = SHFS_OP_SYMLINK, .path2 = shfs_bytes_str(target) },
	};

	make_new_file(req, parent, &m);
}

static bool is_nameless(int flags)
{
	return (flags & O_TMPFILE) == O_TMPFILE;
}

/* Creates a new file: returns its fd, or a negative errno (-EEXIST). */
static int create_lower(fuse_req_t req, struct shfs_node *parent, const char *name,
                        mode_t mode, int flags, int64_t *directory_mtime_ns)
{
	_cleanup_identity_ struct shfs_identity identity = { 0 };
	struct shfs_tree *tree = shfs_req_fs(req)->tree;
	int dirfd = shfs_node_fd(tree, parent), fd;

	if (dirfd < 0)
		return dirfd;
	if (is_nameless(flags)) {
		flags = O_TMPFILE |
		        (flags & O_EXCL); /* O_EXCL: it may never get a name */
		name = ".";
	} else {
		flags = shfs_lower_flags(flags) | O_CREAT | O_EXCL | O_NOFOLLOW;
	}
	flags = (flags & ~O_ACCMODE) | O_RDWR | O_CLOEXEC; /* it is read at the close */
	*directory_mtime_ns = shfs_directory_mtime(dirfd);
	shfs_identity_assume(req, &identity);
	shfs_req_try(req, 0);
	fd = openat(dirfd, name, flags, mode);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE) && shfs_tree_spare_fds(tree))
		fd = openat(dirfd, name, flags, mode);
	fd = shfs_req_tried(req, fd < 0 ? -errno : fd);
	shfs_node_fd_done(tree, parent);
	return fd;
}

/* Creates a new file, and a handle for it; the node has one more lookup. */
static int create_new(fuse_req_t req, struct shfs_node *parent, const char *name,
                      mode_t mode, int flags, struct statx *stx, struct shfs_node **node,
                      struct shfs_handle **handle)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	int64_t directory_mtime_ns;
	int fd, r;

	if (shfs_is_all_open(fs))
		return -ENFILE;
	fd = create_lower(req, parent, name, mode, flags, &directory_mtime_ns);
	if (fd < 0)
		return fd;
	r = shfs_node_statx(fd, "", stx);
	if (!r)
		r = is_nameless(flags)
		            ? shfs_node_enter_nameless(fs->tree, parent, fd, stx, node)
		            : shfs_node_enter(fs->tree, parent, name, stx, node);
	if (r) {
		close(fd);
		return r;
	}
	atomic_store(&(*node)->incapable, true);
	*handle = shfs_handle_new(fs, *node, fd, flags, true, shfs_req_tid(req),
	                          fuse_req_ctx(req)->uid);
	if (*handle) {
		(*handle)->directory_mtime_ns = directory_mtime_ns;
		return 0;
	}
	shfs_node_forget(fs->tree, (*node)->id, 1);
	return -ENOMEM;
}

void shfs_reply_created(fuse_req_t req, const struct shfs_node *parent,
                        struct shfs_node *node, const struct statx *stx,
                        struct shfs_handle *handle, struct fuse_file_info *fi)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct fuse_entry_param entry;

	shfs_fill_entry(parent, node, stx, &entry);
	if (shfs_reply_create(req, &entry, handle, fi)) {
		shfs_watch_release(fs, handle);
		shfs_node_forget(fs->tree, entry.ino, 1);
	}
}

static void op_create(fuse_req_t req, fuse_ino_t parent_id, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
	struct shfs_node *parent = shfs_req_node(req, parent_id), *node;
	struct shfs_handle *handle;
	struct statx stx;
	int r;

	if (!parent)
		return;
	r = create_new(req, parent, name, mode, fi->flags, &stx, &node, &handle);
	/* Another process was first. The kernel does not know the file, and would not
	 * check whether the caller may open it: told ESTALE, it looks the name up. */
	if (r == -EEXIST && !(fi->flags & O_EXCL))
		r = -ESTALE;
	if (r)
		shfs_req_fail(req, r);
	else
		shfs_reply_created(req, parent, node, &stx, handle, fi);
}

/* Returns the rule of a name; *secret: is it a secret name? */
static enum shfs_rule name_rule(struct shfs_fs *fs, struct shfs_node *parent,
                                const char *name, bool directory, bool *secret)
{
	_cleanup_free_ char *path = NULL;
	struct shfs_buf buf = { 0 };
	enum shfs_rule rule;

	shfs_tree_lock_read(fs->tree);
	shfs_node_path(parent, name, &buf);
	shfs_tree_unlock(fs->tree);
	path = shfs_buf_take(&buf);
	rule = path ? shfs_project_rules_match(&fs->rules, path) : SHFS_RULE_ARCHIVE;
	*secret = path && shfs_project_rules_is_secret(&fs->rules, path, directory);
	return rule;
}

/* Returns the flags of a content without a snapshot, as the file is being written. */
static uint32_t flags_without(const struct shfs_node *node,
                              const struct shfs_snapshot *content)
{
	return node && S_ISREG(node->type) && !content ? SHFS_CONTENT_CHANGING : 0;
}

/* Conceals a content whose file has got a secret name, before that is recorded. */
static void conceal_renamed(struct shfs_snapshot *content)
{
	if (content)
		shfs_snapshot_conceal(content);
}

static int link_run(fuse_req_t req, struct shfs_node *node, struct shfs_node *parent,
                    const char *name, uint64_t process)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_snapshot *content[2] = { NULL };
	struct shfs_rec_pathop record = {
		.op = SHFS_OP_LINK,
		.dev = node->dev,
		.ino = node->ino,
	};
	bool had_one, secret;
	struct statx stx;
	int fd, dirfd, r;

	fd = shfs_node_fd(fs->tree, node);
	if (fd < 0)
		return fd;
	dirfd = shfs_node_fd(fs->tree, parent);
	if (dirfd < 0) {
		shfs_node_fd_done(fs->tree, node);
		return dirfd;
	}
	content[0] = shfs_watch_content(fs, node, false,
	                                name_rule(fs, parent, name, false, &secret));
	record.content.flags = flags_without(node, content[0]);
	shfs_tree_lock_write(fs->tree);
	shfs_former_directory2(&record.former, dirfd);
	shfs_req_try(req, 0);
	r = linkat(fs->proc_fd, shfs_fd_name(fd).name, dirfd, name, AT_SYMLINK_FOLLOW)
	            ? -errno
	            : 0;
	r = shfs_req_tried(req, r);
	if (!r) {
		record.nameless = shfs_node_is_nameless(node);
		if (secret)
			conceal_renamed(content[0]);
		shfs_emit_pathop2(fs, process, &record, node, NULL, parent, name,
		                  content);
		had_one = !shfs_node_statx(fd, "", &stx) && stx.stx_nlink == 2;
		shfs_node_linked(fs->tree, node, parent, name, had_one);
	}
	shfs_tree_unlock(fs->tree);
	if (!r && secret)
		shfs_watch_conceal(fs, node);
	shfs_snapshot_unref(content[0]);
	shfs_node_fd_done(fs->tree, parent);
	shfs_node_fd_done(fs->tree, node);
	return r;
}

static void op_link(fuse_req_t req, fuse_ino_t id, fuse_ino_t parent_id, const char *name)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *parent = shfs_req_node(req, parent_id), *node;
	struct statx stx;
	int r;

	if (!parent)
		return;
	node = shfs_req_node(req, id);
	if (!node)
		return;
	r = link_run(req, node, parent, name,
	             shfs_caller_process(fs->callers, shfs_req_tid(req)));
	if (!r) {
		r = shfs_node_stat(fs->tree, node, &stx);
		if (r)
			shfs_node_forget(fs->tree, node->id, 1);
	}
	if (r)
		shfs_req_fail(req, r);
	else
		shfs_reply_entry(req, parent, node, &stx);
}

/* --- removing names --- */

/* Has the directory only files left that were removed while open (.nfs* of NFS)? */
static bool holds_removed(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool all = dir;

	if (!dir) {
		shfs_closep(&fd);
		return false;
	}
	while (all && (e = readdir(dir)))
		all = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		      !strncmp(e->d_name, ".nfs", 4);
	closedir(dir);
	return all;
}

/* Waits until such files are gone: we may close a file a moment later than the caller
 * did, and that must not prevent the removal of its directory. */
static bool await_removed(struct shfs_fs *fs, int dirfd, const char *name, int *ms)
{
	if (!fs->served || *ms >= REMOVED_MS || !holds_removed(dirfd, name))
		return false;
	nanosleep(&(struct timespec){ .tv_nsec = REMOVED_POLL_MS * 1000000L }, NULL);
	*ms += REMOVED_POLL_MS;
	return true;
}

/* Adds the mode of a directory, or the target of a symbolic link, for shfs undelete. */
static void add_mode_or_target(const struct statx *stx, int dirfd, const char *name,
                               char text[static PATH_MAX], struct shfs_rec_pathop *record)
{
	ssize_t n = 0;

	if (S_ISDIR(stx->stx_mode))
		n = snprintf(text, PATH_MAX, "%04o", stx->stx_mode & 07777U);
	else if (S_ISLNK(stx->stx_mode))
		n = readlinkat(dirfd, name, text, PATH_MAX);
	if (n > 0)
		record->path2 = (struct shfs_bytes){ text, (size_t)n };
}

/* Adds what a file was that loses a name. Its extended attributes stay with another. */
static void add_former(struct shfs_former *former, const struct statx *stx, int fd,
                       struct shfs_buf *xattrs)
{
	shfs_former_status(former, stx);
	if (fd >= 0 && (stx->stx_nlink == 1 || S_ISDIR(stx->stx_mode)))
		shfs_former_xattrs(former, fd, NULL, xattrs);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent_id, const char *name,
                        bool directory)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_node *parent = shfs_req_node(req, parent_id), *node;
	struct shfs_snapshot *content[2] = { NULL };
	struct shfs_rec_pathop record = {
		.op = directory ? SHFS_OP_RMDIR : SHFS_OP_UNLINK,
		.directory = directory,
	};
	_cleanup_buf_ struct shfs_buf xattrs = { 0 };
	struct statx stx;
	char rest[PATH_MAX];
	uint64_t process;
	int fd, dirfd, r, ms = 0;

	if (!parent)
		return;
	r = shfs_node_lookup_known(fs->tree, parent, name, shfs_req_tid(req), &stx,
	                           &node);
	if (r == -ENOENT && shfs_invented_is_seen(req, parent, name)) {
		/* nothing is there, and what the caller will make finds it so */
		shfs_req_result(req, 0);
		return;
	}
	if (r) {
		shfs_req_result(req, r);
		return;
	}
	process = shfs_caller_process(fs->callers, shfs_req_tid(req));
	if (!directory)
		content[1] = shfs_watch_last_content(fs, node);
	fd = shfs_node_fd(fs->tree, node); /* reaches it when the name is gone */
	dirfd = shfs_node_fd(fs->tree, parent);
	r = MIN(dirfd, 0);
	if (!r) {
		add_mode_or_target(&stx, dirfd, name, rest, &record);
		add_former(&record.former, &stx, fd, &xattrs);
	}
	while (!r) {
		shfs_tree_lock_write(fs->tree);
		shfs_former_directory(&record.former, dirfd);
		shfs_req_try(req, 0);
		r = unlinkat(dirfd, name, directory ? AT_REMOVEDIR : 0) ? -errno : 0;
		r = shfs_req_tried(req, r);
		if (!r) {
			shfs_emit_pathop(fs, process, &record, parent, name, content);
			shfs_node_gone(fs->tree, node, parent, name);
		}
		shfs_tree_unlock(fs->tree);
		if ((r != -ENOTEMPTY && r != -EEXIST) ||
		    !await_removed(fs, dirfd, name, &ms))
			break;
		r = 0;
	}
	if (dirfd >= 0)
		shfs_node_fd_done(fs->tree, parent);
	if (fd >= 0)
		shfs_node_fd_done(fs->tree, node);
	if (!r && content[1] && stx.stx_nlink == 1)
		shfs_snapshot_gone(content[1]);
	shfs_snapshot_unref(content[1]);
	shfs_node_forget(fs->tree, node->id, 1);
	shfs_req_result(req, r);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, false);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, true);
}

/* --- rename --- */

struct moving {
	struct shfs_node *parent, *new_parent;
	const char *name, *new_name;
	unsigned flags;
	struct shfs_node *node, *victim; /* each with a lookup; victim: may be NULL */
	bool secret[2];                  /* is the new name of each secret? */
	bool victim_ends;                /* the victim has no other name */
	struct shfs_former former;       /* the victim */
	struct shfs_buf xattrs;          /* likewise */
	char text[PATH_MAX];             /* of a victim that is a symbolic link */
	struct shfs_snapshot *content[2];
};

static int moving_find(fuse_req_t req, struct moving *m)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct statx stx;
	int r = shfs_node_lookup_known(fs->tree, m->parent, m->name, shfs_req_tid(req),
	                               &stx, &m->node);

	if (r)
		return r;
	r = shfs_node_lookup(fs->tree, m->new_parent, m->new_name, &stx, &m->victim);
	m->victim_ends = !r && stx.stx_nlink == 1;
	if (!r && !(m->flags & RENAME_EXCHANGE))
		shfs_former_status(&m->former, &stx);
	return r == -ENOENT ? 0 : r;
}

/* Captures the contents of a rename. If the file replaces another one, both contents are
 * archived. A file that only moves keeps its past; it is archived if it gets a name by
 * which it will not be archived any more, or the first one by which it is. */
static void moving_capture(struct shfs_fs *fs, struct moving *m)
{
	bool directory = S_ISDIR(m->node->type),
	     other_is = m->victim && S_ISDIR(m->victim->type);
	bool below = directory || other_is, exchange = m->flags & RENAME_EXCHANGE;
	enum shfs_rule rule = name_rule(fs, m->new_parent, m->new_name, directory,
	                                &m->secret[0]),
		       there = name_rule(fs, m->parent, m->name, other_is, &m->secret[1]);

	if (below)
		shfs_watch_settle_all(fs); /* files closed below, by their old names */
	/* a reader that has closed the file read it by its old name, but its RELEASE may
	 * still be on its way */
	if (shfs_watch_is_read(fs, below ? NULL : m->node) ||
	    (exchange && shfs_watch_is_read(fs, m->victim)))
		shfs_transport_quiesce(fs->transport);
	m->content[0] = shfs_watch_content(fs, m->node,
	                                   (m->victim || rule <= SHFS_RULE_FINGERPRINT) &&
	                                           !m->secret[0],
	                                   rule);
	m->secret[1] &= m->victim && exchange;
	if (m->victim && exchange)
		m->content[1] = shfs_watch_content(fs, m->victim, !m->secret[1], there);
	else if (m->victim)
		m->content[1] = shfs_watch_last_content(fs, m->victim);
}

static int moving_run(fuse_req_t req, struct moving *m, uint64_t process)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	bool exchange = m->flags & RENAME_EXCHANGE;
	struct shfs_rec_pathop record = {
		.op = exchange ? SHFS_OP_EXCHANGE : SHFS_OP_RENAME,
		.directory = S_ISDIR(m->node->type),
		.content.flags = flags_without(m->node, m->content[0]),
		.victim.flags = flags_without(m->victim, m->content[1]),
		.former = m->former,
	};
	int dirfd, new_dirfd, r;

	dirfd = shfs_node_fd(fs->tree, m->parent);
	if (dirfd < 0)
		return dirfd;
	new_dirfd = shfs_node_fd(fs->tree, m->new_parent);
	if (new_dirfd < 0) {
		shfs_node_fd_done(fs->tree, m->parent);
		return new_dirfd;
	}
	shfs_tree_lock_write(fs->tree);
	shfs_former_directory(&record.former, dirfd);
	shfs_former_directory2(&record.former, new_dirfd);
	shfs_req_try(req, m->node->ino);
	shfs_node_moving(fs->tree, m->node, m->new_parent, m->new_name);
	shfs_node_moving(fs->tree, exchange ? m->victim : NULL, m->parent, m->name);
	r = renameat2(dirfd, m->name, new_dirfd, m->new_name, m->flags) ? -errno : 0;
	r = shfs_req_tried(req, r);
	if (!r) {
		for (int i = 0; i < 2; i++)
			if (m->secret[i])
				conceal_renamed(m->content[i]);
		shfs_emit_pathop2(fs, process, &record, m->parent, m->name, m->new_parent,
		                  m->new_name, m->content);
		if (m->victim && exchange)
			shfs_node_moved(fs->tree, m->victim, m->new_parent, m->new_name,
			                m->parent, m->name);
		else if (m->victim)
			shfs_node_gone(fs->tree, m->victim, m->new_parent, m->new_name);
		shfs_node_moved(fs->tree, m->node, m->parent, m->name, m->new_parent,
		                m->new_name);
	}
	shfs_node_moving_done(fs->tree);
	shfs_tree_unlock(fs->tree);
	shfs_node_fd_done(fs->tree, m->new_parent);
	shfs_node_fd_done(fs->tree, m->parent);
	return r;
}

/* The kernel keeps its long time-outs of a file that moves: so drop them if it moves to a
 * directory where changes by others would not be noticed. */
static void moving_doubt(struct shfs_fs *fs, struct shfs_node *node,
                         const struct shfs_node *new_parent)
{
	if (!node || shfs_beneath_is_watched(new_parent) ||
	    !atomic_exchange(&node->lasting, false))
		return;
	shfs_transport_invalidate(fs->transport, node->id, false);
	shfs_transport_expire_names(fs->transport);
}

/* Conceals contents whose files get a secret name. */
static void moving_conceal(struct shfs_fs *fs, struct moving *m)
{
	if (m->secret[0] || S_ISDIR(m->node->type))
		shfs_watch_conceal(fs, m->node);
	if (m->victim && (m->secret[1] || S_ISDIR(m->victim->type)))
		shfs_watch_conceal(fs, m->victim);
	if (m->victim_ends && m->content[1] && !(m->flags & RENAME_EXCHANGE))
		shfs_snapshot_gone(m->content[1]);
}

static void moving_clear(struct shfs_fs *fs, struct moving *m)
{
	shfs_snapshot_unref(m->content[0]);
	shfs_snapshot_unref(m->content[1]);
	shfs_buf_free(&m->xattrs);
	if (m->node)
		shfs_node_forget(fs->tree, m->node->id, 1);
	if (m->victim)
		shfs_node_forget(fs->tree, m->victim->id, 1);
}

static void moving_add_former(struct moving *m, int victim_fd)
{
	ssize_t n = S_ISLNK(m->victim->type)
	                    ? readlinkat(victim_fd, "", m->text, sizeof(m->text))
	                    : 0;

	if (n > 0) {
		m->former.flags |= SHFS_FORMER_TEXT;
		m->former.text = (struct shfs_bytes){ m->text, (size_t)n };
	}
	if (m->victim_ends || S_ISDIR(m->victim->type))
		shfs_former_xattrs(&m->former, victim_fd, NULL, &m->xattrs);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
                      fuse_ino_t new_parent, const char *new_name, unsigned flags)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct moving m = { .name = name, .new_name = new_name, .flags = flags };
	uint64_t process;
	int victim_fd = -1, r;

	m.parent = shfs_req_node(req, parent);
	m.new_parent = m.parent ? shfs_req_node(req, new_parent) : NULL;
	if (!m.new_parent)
		return;
	shfs_beneath_watch(fs->beneath,
	                   m.new_parent); /* the kernel keeps its time-outs */
	process = shfs_caller_process(fs->callers, shfs_req_tid(req));
	r = moving_find(req, &m);
	if (!r && m.victim && (flags & RENAME_NOREPLACE))
		r = -EEXIST;
	if (!r) {
		moving_capture(fs, &m);
		if (m.victim) /* reaches it when the name is gone */
			victim_fd = shfs_node_fd(fs->tree, m.victim);
		if (victim_fd >= 0 && !(flags & RENAME_EXCHANGE))
			moving_add_former(&m, victim_fd);
		r = moving_run(req, &m, process);
	}
	if (!r) {
		moving_conceal(fs, &m);
		moving_doubt(fs, m.node, m.new_parent);
		if (flags & RENAME_EXCHANGE)
			moving_doubt(fs, m.victim, m.parent);
	}
	if (victim_fd >= 0)
		shfs_node_fd_done(fs->tree, m.victim);
	moving_clear(fs, &m);
	if (r)
		shfs_req_fail(req, r);
	else
		shfs_req_result(req, 0);
}

void shfs_ops_add_name(struct fuse_lowlevel_ops *ops)
{
	ops->lookup = op_lookup;
	ops->forget = op_forget;
	ops->forget_multi = op_forget_multi;
	ops->mkdir = op_mkdir;
	ops->mknod = op_mknod;
	ops->symlink = op_symlink;
	ops->create = op_create;
	ops->link = op_link;
	ops->unlink = op_unlink;
	ops->rmdir = op_rmdir;
	ops->rename = op_rename;
}
