/* SPDX-License-Identifier: MIT */
#include "fusefs/operations/operations.h"
#include "fusefs/operations/invented.h"

#include "common/io.h"
#include "fusefs/watch/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/sysmacros.h>

#define PROC_STATUS_MAX (1 << 20) /* enough for 65536 groups */

const char *shfs_req_status(fuse_req_t req, const char *field, struct shfs_buf *status)
{
	const char *at;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%u/status", shfs_req_tid(req));
	if (!shfs_req_tid(req) ||
	    shfs_read_file_at(AT_FDCWD, path, PROC_STATUS_MAX, status))
		return NULL;
	/* in this file, newlines in the name of a program are escaped */
	for (at = status->data; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (!strncmp(at, field, strlen(field)))
			return at + strlen(field);
	}
	return NULL;
}

struct shfs_node *shfs_fs_node(struct shfs_fs *fs, fuse_ino_t id)
{
	struct shfs_node *node = shfs_node_find(fs->tree, id);

	if (node && atomic_load_explicit(&node->suspect, memory_order_relaxed) &&
	    shfs_node_recheck(fs->tree, node))
		return NULL;
	return node;
}

struct shfs_node *shfs_req_node(fuse_req_t req, fuse_ino_t id)
{
	struct shfs_node *node = shfs_fs_node(shfs_req_fs(req), id);

	if (!node)
		shfs_req_fail(req, shfs_invented_is_id(id) ? -EPERM : -ESTALE);
	return node;
}

void shfs_req_fail(fuse_req_t req, int error)
{
	if (error == -ESTALE)
		shfs_tree_told_stale(shfs_req_fs(req)->tree, shfs_req_tid(req));
	fuse_reply_err(req, -error);
}

void shfs_req_result(fuse_req_t req, int result)
{
	fuse_reply_err(req, result < 0 ? -result : 0);
}

bool shfs_req_is_killed(fuse_req_t req)
{
	_cleanup_buf_ struct shfs_buf status = { 0 };
	/* whatever signal kills a process, each of its threads gets SIGKILL */
	const char *pending = shfs_req_status(req, "SigPnd:", &status);

	return pending && (strtoull(pending, NULL, 16) & (1ull << (SIGKILL - 1)));
}

static struct timespec timespec_of(struct statx_timestamp t)
{
	return (struct timespec){ .tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec };
}

/* In a user namespace: the ids that stand for all that have none there. */
static struct {
	bool shows_own;
	uint32_t uid, gid;
} unmapped;

static uint32_t read_id(const char *path)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	return shfs_read_file_at(AT_FDCWD, path, 32, &text)
	               ? UINT32_MAX
	               : (uint32_t)strtoul(text.data, NULL, 10);
}

void shfs_ops_show_unmapped_as_own(void)
{
	unmapped.uid = read_id("/proc/sys/kernel/overflowuid");
	unmapped.gid = read_id("/proc/sys/kernel/overflowgid");
	unmapped.shows_own = true;
}

uint32_t shfs_shown_uid(const struct statx *stx)
{
	return unmapped.shows_own && stx->stx_uid == unmapped.uid ? geteuid()
	                                                          : stx->stx_uid;
}

uint32_t shfs_shown_gid(const struct statx *stx)
{
	return unmapped.shows_own && stx->stx_gid == unmapped.gid ? getegid()
	                                                          : stx->stx_gid;
}

bool shfs_ops_may_execute(struct shfs_fs *fs, struct shfs_node *node)
{
	int fd = unmapped.shows_own ? shfs_node_fd(fs->tree, node) : -1;
	bool may = fd < 0 ||
	           !faccessat(fs->proc_fd, shfs_fd_name(fd).name, X_OK, AT_EACCESS);

	if (fd >= 0)
		shfs_node_fd_done(fs->tree, node);
	return may;
}

void shfs_stat_from_statx(const struct statx *stx, struct stat *out)
{
	*out = (struct stat){
		.st_ino = stx->stx_ino,
		.st_mode = stx->stx_mode,
		.st_nlink = stx->stx_nlink,
		.st_uid = shfs_shown_uid(stx),
		.st_gid = shfs_shown_gid(stx),
		.st_rdev = makedev(stx->stx_rdev_major, stx->stx_rdev_minor),
		.st_size = (off_t)stx->stx_size,
		.st_blksize = stx->stx_blksize,
		.st_blocks = (blkcnt_t)stx->stx_blocks,
		.st_atim = timespec_of(stx->stx_atime),
		.st_mtim = timespec_of(stx->stx_mtime),
		.st_ctim = timespec_of(stx->stx_ctime),
	};
}

bool shfs_has_names(const struct statx *stx)
{
	return S_ISREG(stx->stx_mode) && stx->stx_nlink > 1;
}

double shfs_attr_timeout(const struct shfs_node *node, const struct statx *stx)
{
	/* the store changes by our own writes to the lower files, and a query reads it */
	if (node->hidden || atomic_load(&node->suspect) || atomic_load(&node->moving))
		return 0;
	/* a write clears these bits, without a request of the kernel */
	if (S_ISREG(stx->stx_mode) && (stx->stx_mode & (S_ISUID | S_ISGID)))
		return 0;
	/* a file with several names may have one outside of the mount, and be changed by
	 * that */
	if (!atomic_load(&node->lasting) || shfs_has_names(stx) ||
	    (S_ISDIR(node->type) && !shfs_beneath_is_watched(node)))
		return SHFS_TIMEOUT;
	return SHFS_TIMEOUT_LONG;
}

void shfs_expire_moved(struct shfs_fs *fs)
{
	if (shfs_tree_has_moved(fs->tree))
		shfs_transport_expire_names(fs->transport);
}

void shfs_fill_entry(const struct shfs_node *parent, struct shfs_node *node,
                     const struct statx *stx, struct fuse_entry_param *out)
{
	bool lasting = shfs_beneath_is_watched(parent) && node->dev == parent->dev;

	atomic_store(&node->lasting, lasting);
	*out = (struct fuse_entry_param){
		.ino = node->id,
		.generation = node->generation,
		.attr_timeout = shfs_attr_timeout(node, stx),
		.entry_timeout = lasting ? SHFS_TIMEOUT_LONG : SHFS_TIMEOUT,
	};
	/* the kernel asks nothing about a symbolic link that it follows */
	if (S_ISLNK(node->type))
		out->entry_timeout = SHFS_TIMEOUT;
	/* the name that is used must be looked up each time */
	if (node->hidden || shfs_has_names(stx))
		out->entry_timeout = 0;
	shfs_stat_from_statx(stx, &out->attr);
}

void shfs_reply_entry(fuse_req_t req, const struct shfs_node *parent,
                      struct shfs_node *node, const struct statx *stx)
{
	struct shfs_tree *tree = shfs_req_fs(req)->tree;
	struct fuse_entry_param entry;
	uint64_t id = node->id;

	shfs_fill_entry(parent, node, stx, &entry);
	if (fuse_reply_entry(req, &entry))
		shfs_node_forget(tree, id, 1);
}

static void emit_path_operation(struct shfs_fs *fs, uint64_t process,
                                struct shfs_rec_pathop *op, const struct shfs_buf *path,
                                struct shfs_snapshot *const content[2])
{
	struct shfs_record rec = { .type = SHFS_REC_PATHOP };

	if (path->failed) {
		shfs_capture_lose(fs->capture, -ENOMEM);
		return;
	}
	op->process = process;
	op->path = (struct shfs_bytes){ path->data, path->len };
	rec.pathop = *op;
	shfs_capture_emit(fs->capture, &rec, content);
}

void shfs_emit_pathop(struct shfs_fs *fs, uint64_t process, struct shfs_rec_pathop *op,
                      const struct shfs_node *node, const char *name,
                      struct shfs_snapshot *const content[2])
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	if (node->hidden)
		return;
	shfs_node_path(node, name, &path);
	emit_path_operation(fs, process, op, &path, content);
}

void shfs_emit_pathop2(struct shfs_fs *fs, uint64_t process, struct shfs_rec_pathop *op,
                       const struct shfs_node *node, const char *name,
                       const struct shfs_node *node2, const char *name2,
                       struct shfs_snapshot *const content[2])
{
	_cleanup_buf_ struct shfs_buf path = { 0 }, path2 = { 0 };

	if (node->hidden && node2->hidden)
		return;
	shfs_node_path(node, name, &path);
	shfs_node_path(node2, name2, &path2);
	path.failed |= path2.failed;
	op->path2 = (struct shfs_bytes){ path2.data, path2.len };
	emit_path_operation(fs, process, op, &path, content);
}

static void *resume_open(const struct shfs_open *open, uint64_t fh, void *arg)
{
	return open->what == SHFS_OPENED_FILE ? shfs_file_resume(arg, open, fh)
	                                      : shfs_directory_resume(arg, open, fh);
}

static int inherit_nodes(struct shfs_fs *fs, bool is_taken)
{
	int r = shfs_tree_inherit(fs->tree, fs->heir, is_taken);

	if (!r && is_taken)
		shfs_heir_each_open(fs->heir, resume_open, fs);
	return r;
}

static void begin_thread(void)
{
	/* fails only without memory; then two threads may disturb each other's umask */
	(void)!unshare(CLONE_FS);
}

const struct shfs_transport_calls shfs_ops_calls = {
	.begin_thread = begin_thread,
	.inherit = inherit_nodes,
	.answer = shfs_statx_answer,
};

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	/* Never FUSE_CAP_WRITEBACK_CACHE: an acknowledged write is in the lower file. Nor
	 * FUSE_CAP_CACHE_SYMLINKS: who goes through a link is seen (watch/links.h). */
	conn->want =
		conn->capable &
		(FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_DONT_MASK |
	         FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
	         FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_IOCTL_DIR |
	         FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_EXPIRE_ONLY | FUSE_CAP_POSIX_ACL);
	/* names that come with a list would not be looked up (watch/lookups.h) */
	if (((struct shfs_fs *)userdata)->lookups)
		conn->want &= ~(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
	/* with it the kernel decides by the mode who may do what, and there is no default
	 * but that */
	if (unmapped.shows_own)
		conn->want &= ~FUSE_CAP_POSIX_ACL;
	conn->max_write = SHFS_MAX_WRITE;
	conn->max_readahead = 1 << 20;
	conn->max_background = 256;
	conn->congestion_threshold = 192;
	conn->time_gran = 1;
}

void shfs_ops_init(struct fuse_lowlevel_ops *ops)
{
	*ops = (struct fuse_lowlevel_ops){ .init = op_init };
	shfs_ops_add_file(ops);
	shfs_ops_add_name(ops);
	shfs_ops_add_attr(ops);
	shfs_ops_add_dir(ops);
	shfs_ops_add_resent(ops);
}
