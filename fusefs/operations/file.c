/* SPDX-License-Identifier: MIT */
/*
 * Requests for open files: open, create, read, write, fallocate, copy, flush and
 * release.
 */
#include "fusefs/operations/operations.h"
#include "fusefs/transport/protocol.h"
#include "fusefs/transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#define LEASE_NS 5000000
#define COPY_MAX (64u << 20) /* bounds the time in which the caller cannot be killed */

/* Returns the handle of a request; NULL: there is none, and ESTALE was replied. */
static struct shfs_handle *handle_of(fuse_req_t req, const struct fuse_file_info *fi)
{
	struct shfs_handle *handle = shfs_req_opened(req, fi);

	if (!handle)
		shfs_req_fail(req, -ESTALE);
	return handle;
}

int shfs_lower_flags(int flags)
{
	/*
	 * No O_DIRECT: data goes through our memory, which is not aligned. No O_APPEND:
	 * data written back from a mapping has an offset; other writes are appended one
	 * by one.
	 */
	return flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_NOFOLLOW | O_DIRECT |
	                 O_APPEND | SHFS_O_EXEC);
}

bool shfs_is_all_open(struct shfs_fs *fs)
{
	return fs->n_open >= fs->max_open;
}

/* Opens a file that has a lease, by trying again and again, so that a caller that is
 * being killed ends at once: a signal to this thread, instead, would be lost if it came
 * just before the system call. */
int shfs_open_waiting(fuse_req_t req, struct shfs_node *node, int flags)
{
	int fd;

	for (;;) {
		fd = shfs_node_open(shfs_req_fs(req)->tree, node, flags | O_NONBLOCK);
		if (fd != -EWOULDBLOCK && fd != -EINTR)
			return fd;
		if (shfs_req_is_killed(req) ||
		    shfs_transport_is_ending(shfs_req_fs(req)->transport))
			return -EINTR;
		nanosleep(&(struct timespec){ .tv_nsec = LEASE_NS }, NULL);
	}
}

/* Opens also for reading, if the user may read it, so that the content can be read at the
 * close. */
static int open_readable(fuse_req_t req, struct shfs_node *node, int flags)
{
	int as_well = (flags & ~O_ACCMODE) | O_RDWR, fd = -EPERM;

	if ((flags & O_ACCMODE) == O_WRONLY) {
		fd = shfs_open_waiting(req, node, as_well | O_NOATIME);
		if (fd == -EPERM)
			fd = shfs_open_waiting(req, node, as_well);
	}
	return fd == -EACCES || fd == -EPERM ? shfs_open_waiting(req, node, flags) : fd;
}

static int open_lower(fuse_req_t req, struct shfs_node *node, int flags)
{
	int fd = open_readable(req, node, shfs_lower_flags(flags));

	/* an open file, opened by /proc/PID/fd, in a directory that may not be entered */
	if (fd == -EACCES && shfs_adopt_open(shfs_req_fs(req), node) >= 0) {
		fd = open_readable(req, node, shfs_lower_flags(flags));
		shfs_node_fd_done(shfs_req_fs(req)->tree, node);
	}
	/* an append-only file (chattr +a) */
	if (fd == -EPERM && (flags & O_APPEND))
		fd = open_readable(req, node, shfs_lower_flags(flags) | O_APPEND);
	return fd;
}

int shfs_truncate(fuse_req_t req, int fd, off_t size)
{
	_cleanup_identity_ struct shfs_identity identity = { 0 };

	shfs_identity_assume_to_write(req, fd, &identity);
	return ftruncate(fd, size) ? -errno : 0;
}

static int truncate_opened(fuse_req_t req, struct shfs_handle *handle, int flags)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	_cleanup_close_ int opened = -1;
	struct shfs_change change;
	int fd = handle->fd, r;

	if ((flags & O_ACCMODE) == O_RDONLY)
		fd = opened = shfs_node_open(fs->tree, handle->node, O_WRONLY);
	if (fd < 0)
		return fd;
	change = shfs_watch_begin_change(fs, handle, shfs_req_tid(req),
	                                 SHFS_CHANGE_TRUNCATE);
	r = shfs_truncate(req, fd, 0);
	shfs_watch_end_change(fs, &change, r);
	return r;
}

int shfs_open_node(fuse_req_t req, struct shfs_node *node, int flags,
                   struct shfs_handle **out)
{
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_handle *handle;
	int fd, r;

	if (shfs_is_all_open(fs))
		return -ENFILE;
	if ((flags & SHFS_O_EXEC) && !shfs_ops_may_execute(fs, node))
		return -EACCES;
	fd = open_lower(req, node, flags);
	if (fd < 0)
		return fd;
	handle = shfs_handle_new(fs, node, fd, flags, false, shfs_req_tid(req),
	                         fuse_req_ctx(req)->uid);
	if (!handle)
		return -ENOMEM;
	if (flags & O_TRUNC) {
		r = truncate_opened(req, handle, flags);
		if (r) {
			shfs_watch_release(fs, handle);
			return r;
		}
	}
	*out = handle;
	return 0;
}

/* Makes the reply ourselves, as libfuse does not know backing ids. */
static struct shfs_fuse_open_out open_reply(const struct shfs_handle *handle,
                                            const struct fuse_file_info *fi)
{
	return (struct shfs_fuse_open_out){
		.fh = fi->fh,
		.open_flags = SHFS_FOPEN_PASSTHROUGH |
		              (fi->direct_io ? FOPEN_DIRECT_IO : 0) |
		              (fi->noflush ? FOPEN_NOFLUSH : 0),
		.backing_id = handle->passed.backing_id,
	};
}

static bool begin_io(fuse_req_t req, struct shfs_handle *handle,
                     struct fuse_file_info *fi)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct shfs_fs *fs = shfs_req_fs(req);

	/* otherwise the dead server opened it, but its reply was not read */
	if (!handle->fh) {
		shfs_handle_begin_io(fs, handle, fi->flags, ctx->uid, ctx->gid);
		handle->fh =
			shfs_heir_open(fs->heir,
		                       &(struct shfs_open){
					       .what = SHFS_OPENED_FILE,
					       .unique = shfs_transport_unique(),
					       .node = handle->node->id,
					       .fd = handle->fd,
					       .flags = fi->flags,
					       .tid = shfs_req_tid(req),
					       .boot_ns = handle->begin.boot_ns,
					       .uid = ctx->uid,
					       .gid = ctx->gid,
					       .backing_id = handle->passed.backing_id,
					       .io = (uint8_t)handle->passed.io,
					       .wrote = handle->is_dirty,
				       },
		                       handle);
	}
	fi->fh = handle->fh;
	fi->keep_cache = handle->keeps_cache;
	fi->direct_io = handle->passed.io == SHFS_IO_JOINED;
	fi->noflush = (fi->flags & O_ACCMODE) == O_RDONLY && !(fi->flags & O_TRUNC);
	return handle->passed.io == SHFS_IO_PASSED || handle->passed.io == SHFS_IO_JOINED;
}

int shfs_reply_open(fuse_req_t req, struct shfs_handle *handle, struct fuse_file_info *fi)
{
	struct shfs_fuse_open_out out;

	if (!begin_io(req, handle, fi))
		return fuse_reply_open(req, fi);
	out = open_reply(handle, fi);
	return fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

static struct fuse_attr attr_of(const struct stat *st)
{
	return (struct fuse_attr){
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.blocks = (uint64_t)st->st_blocks,
		.atime = (uint64_t)st->st_atim.tv_sec,
		.mtime = (uint64_t)st->st_mtim.tv_sec,
		.ctime = (uint64_t)st->st_ctim.tv_sec,
		.atimensec = (uint32_t)st->st_atim.tv_nsec,
		.mtimensec = (uint32_t)st->st_mtim.tv_nsec,
		.ctimensec = (uint32_t)st->st_ctim.tv_nsec,
		.mode = st->st_mode,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.rdev = (uint32_t)st->st_rdev,
		.blksize = (uint32_t)st->st_blksize,
	};
}

static void split_timeout(double timeout, uint64_t *sec, uint32_t *nsec)
{
	*sec = (uint64_t)timeout;
	*nsec = (uint32_t)((timeout - (double)*sec) * SHFS_NSEC_PER_SEC);
}

int shfs_reply_create(fuse_req_t req, const struct fuse_entry_param *entry,
                      struct shfs_handle *handle, struct fuse_file_info *fi)
{
	struct {
		struct fuse_entry_out entry;
		struct shfs_fuse_open_out open;
	} out = { 0 };

	if (!begin_io(req, handle, fi))
		return fuse_reply_create(req, entry, fi);
	out.entry.nodeid = entry->ino;
	out.entry.generation = entry->generation;
	out.entry.attr = attr_of(&entry->attr);
	split_timeout(entry->entry_timeout, &out.entry.entry_valid,
	              &out.entry.entry_valid_nsec);
	split_timeout(entry->attr_timeout, &out.entry.attr_valid,
	              &out.entry.attr_valid_nsec);
	out.open = open_reply(handle, fi);
	return fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

void *shfs_file_resume(struct shfs_fs *fs, const struct shfs_open *open, uint64_t fh)
{
	struct shfs_node *node = shfs_node_find(fs->tree, open->node);
	int flags = open->flags & ~(O_TRUNC | O_CREAT | O_EXCL); /* done already */
	struct shfs_handle *handle;
	uint32_t tid;

	if (!node || !shfs_node_resume(fs->tree, node, open->fd)) {
		close(open->fd);
		return NULL;
	}
	tid = shfs_caller_still(open->tid, open->boot_ns);
	handle = shfs_handle_new(fs, node, open->fd, flags, false, tid, open->uid);
	if (!handle)
		return NULL;
	handle->fh = fh;
	shfs_handle_resume_io(fs, handle, open, tid);
	return handle;
}

static void op_open(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct shfs_node *node = shfs_req_node(req, id);
	struct shfs_handle *handle;
	int r;

	if (!node)
		return;
	if (!shfs_node_name_is_sure(shfs_req_fs(req)->tree, node, shfs_req_tid(req))) {
		shfs_req_fail(req, -ESTALE);
		return;
	}
	r = shfs_open_node(req, node, fi->flags, &handle);
	if (r) {
		shfs_req_fail(req, r);
		return;
	}
	if (shfs_reply_open(req, handle, fi))
		shfs_watch_release(shfs_req_fs(req), handle);
}

/* --- this thread's buffer for data on its way --- */

static pthread_once_t buffer_once = PTHREAD_ONCE_INIT;
static pthread_key_t buffer_key; /* frees it when the thread ends */
static _Thread_local size_t buffer_size;

static void make_buffer_key(void)
{
	pthread_key_create(&buffer_key, free);
}

static char *data_buffer(size_t size)
{
	char *data;

	pthread_once(&buffer_once, make_buffer_key);
	data = pthread_getspecific(buffer_key);
	if (data && buffer_size >= size)
		return data;
	data = realloc(data, size);
	if (!data)
		return NULL;
	buffer_size = size;
	pthread_setspecific(buffer_key, data);
	return data;
}

static void op_read(fuse_req_t req, fuse_ino_t id, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
	struct shfs_handle *handle = handle_of(req, fi);
	char *data = shfs_transport_reply_space(size);
	ssize_t n;

	if (!handle)
		return;
	if (!data)
		data = data_buffer(size);
	if (!data) {
		shfs_req_fail(req, -ENOMEM);
		return;
	}
	do
		n = pread(handle->fd, data, size, offset);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		shfs_req_fail(req, -errno);
		return;
	}
	shfs_watch_read(handle);
	fuse_reply_buf(req, data, (size_t)n);
}

/* Writes as much as possible; an error only if nothing was written. */
static ssize_t write_lower(int fd, const char *data, size_t size, off_t offset,
                           bool append)
{
	size_t done = 0;

	while (done < size) {
		struct iovec rest = { (char *)data + done, size - done };
		ssize_t n = pwritev2(fd, &rest, 1, offset + (off_t)done,
		                     append ? RWF_APPEND : 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && !done)
			return -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Appends. there: number of first bytes that are at the file's end already. */
static ssize_t append_lower(fuse_req_t req, int fd, const char *data, size_t size,
                            size_t there)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st))
		return there ? (ssize_t)there : -errno;
	shfs_req_try(req, (uint64_t)st.st_size - there);
	n = write_lower(fd, data + there, size - there, 0, true);
	return n < 0 && !there ? n : MAX(n, (ssize_t)0) + (ssize_t)there;
}

void shfs_write(fuse_req_t req, const char *data, size_t size, off_t offset,
                const struct fuse_file_info *fi, size_t there)
{
	_cleanup_identity_ struct shfs_identity identity = { 0 };
	struct shfs_handle *handle = handle_of(req, fi);
	struct shfs_fs *fs = shfs_req_fs(req);
	bool mapped = fi->writepage;
	struct shfs_change change;
	ssize_t n;

	if (!handle)
		return;
	if (mapped)
		change = shfs_watch_begin_change(fs, handle, 0, SHFS_CHANGE_MAPPED);
	else
		change = shfs_watch_begin_write(fs, handle, shfs_req_tid(req), offset);
	if (!mapped)
		shfs_identity_assume_to_write(req, handle->fd, &identity);
	n = !mapped && (fi->flags & O_APPEND)
	            ? append_lower(req, handle->fd, data, size, there)
	            : write_lower(handle->fd, data, size, offset, false);
	shfs_watch_end_change(fs, &change, n);
	if (n < 0)
		shfs_req_fail(req, (int)n);
	else
		fuse_reply_write(req, (size_t)n);
}

static void op_write(fuse_req_t req, fuse_ino_t id, const char *data, size_t size,
                     off_t offset, struct fuse_file_info *fi)
{
	shfs_write(req, data, size, offset, fi, 0);
}

static void op_flush(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct shfs_handle *handle = handle_of(req, fi);
	struct shfs_fs *fs = shfs_req_fs(req);
	int fd, r = 0;

	if (!handle)
		return;
	fd = fs->served ? dup(handle->fd) : -1;

	/* a close reports late errors of a network file system */
	if (fd >= 0 && close(fd))
		r = -errno;
	shfs_watch_flush(fs, handle, shfs_req_tid(req));
	shfs_req_result(req, r);
}

static void op_release(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct shfs_handle *handle = shfs_req_opened(req, fi);

	if (handle)
		shfs_watch_release(shfs_req_fs(req), handle);
	else /* the dead server has released it, or we could not resume it */
		shfs_heir_open_done(shfs_req_fs(req)->heir, fi->fh);
	fuse_reply_err(req, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t id, int datasync,
                     struct fuse_file_info *fi)
{
	struct shfs_handle *handle = handle_of(req, fi);

	if (handle)
		shfs_req_result(req,
		                (datasync ? fdatasync(handle->fd) : fsync(handle->fd))
		                        ? -errno
		                        : 0);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t id, int mode, off_t offset,
                         off_t length, struct fuse_file_info *fi)
{
	_cleanup_identity_ struct shfs_identity identity = { 0 };
	struct shfs_handle *handle = handle_of(req, fi);
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_change change;
	int r;

	if (!handle)
		return;
	change = shfs_watch_begin_change(fs, handle, shfs_req_tid(req),
	                                 mode & ~FALLOC_FL_KEEP_SIZE
	                                         ? SHFS_CHANGE_EMPTY
	                                         : SHFS_CHANGE_ALLOCATE);
	shfs_identity_assume_to_write(req, handle->fd, &identity);
	r = fallocate(handle->fd, mode, offset, length) ? -errno : 0;
	shfs_watch_end_change(fs, &change, r);
	if (r) /* the kernel would keep its cached size and times */
		shfs_transport_invalidate(fs->transport, id, false);
	shfs_req_result(req, r);
}

/* Returns the answer for a file without holes. */
static off_t seek_data(int fd, off_t offset, int whence)
{
	struct stat st;

	if (fstat(fd, &st))
		return -1;
	if (offset < 0 || offset >= st.st_size) {
		errno = ENXIO;
		return -1;
	}
	return whence == SEEK_HOLE ? st.st_size : offset;
}

/* Answers lseek. Data stored to a mapping comes late, and may lie in a hole of the lower
 * file: then a program that copies the file would miss it, so holes are not reported. */
static void op_lseek(fuse_req_t req, fuse_ino_t id, off_t offset, int whence,
                     struct fuse_file_info *fi)
{
	struct shfs_handle *handle = handle_of(req, fi);
	off_t at;

	if (!handle)
		return;
	at = shfs_watch_may_be_mapped(shfs_req_fs(req), handle)
	             ? seek_data(handle->fd, offset, whence)
	             : lseek(handle->fd, offset, whence);
	if (at < 0)
		shfs_req_fail(req, -errno);
	else
		fuse_reply_lseek(req, at);
}

static bool has_other_atime(int fd, const struct stat *before)
{
	struct stat st;

	return fstat(fd, &st) || st.st_atim.tv_sec != before->st_atim.tv_sec ||
	       st.st_atim.tv_nsec != before->st_atim.tv_nsec;
}

static void op_copy_file_range(fuse_req_t req, fuse_ino_t id_in, off_t offset_in,
                               struct fuse_file_info *fi_in, fuse_ino_t id_out,
                               off_t offset_out, struct fuse_file_info *fi_out,
                               size_t len, int flags)
{
	_cleanup_identity_ struct shfs_identity identity = { 0 };
	struct shfs_handle *in = handle_of(req, fi_in), *out;
	struct shfs_fs *fs = shfs_req_fs(req);
	struct shfs_change change;
	struct stat before;
	ssize_t n;

	out = in ? handle_of(req, fi_out) : NULL;
	if (!out)
		return;
	if (fstat(in->fd, &before)) {
		shfs_req_fail(req, -errno);
		return;
	}
	change = shfs_watch_begin_change(fs, out, shfs_req_tid(req), SHFS_CHANGE_COPY);
	shfs_identity_assume_to_write(req, out->fd, &identity);
	n = copy_file_range(in->fd, &offset_in, out->fd, &offset_out, MIN(len, COPY_MAX),
	                    (unsigned)flags);
	if (n < 0)
		n = -errno;
	shfs_watch_end_change(fs, &change, n);
	if (n < 0) {
		shfs_req_fail(req, (int)n);
		return;
	}
	shfs_watch_read(in);
	if (has_other_atime(in->fd, &before))
		shfs_transport_invalidate(fs->transport, id_in, false);
	fuse_reply_write(req, (size_t)n);
}

void shfs_ops_add_file(struct fuse_lowlevel_ops *ops)
{
	ops->open = op_open;
	ops->read = op_read;
	ops->write = op_write;
	ops->flush = op_flush;
	ops->release = op_release;
	ops->fsync = op_fsync;
	ops->fallocate = op_fallocate;
	ops->lseek = op_lseek;
	ops->copy_file_range = op_copy_file_range;
}
