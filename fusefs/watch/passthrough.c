/* SPDX-License-Identifier: MIT */
#include "fusefs/watch/passthrough.h"

#include "fusefs/fs.h"
#include "fusefs/takeover/heir.h"
#include "fusefs/transport/protocol.h"
#include "fusefs/transport/transport.h"
#include "fusefs/watch/beneath.h"
#include "fusefs/watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <utlist.h>

#define LARGE 131072
#define TRIES 8

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

struct shfs_passthrough {
	atomic_int mode;   /* enum shfs_passing_mode */
	int device;        /* of the mount; borrowed */
	uint64_t dev;      /* file system on which writes may be passed */
	atomic_bool tried; /* each write there has an mtime of its own */
};

/* --- the mode --- */

/* Does each change of this file, which was changed just now, get an mtime of its own? */
static bool has_fine_times(int fd)
{
	static const struct timespec now[2] = { { 0, UTIME_OMIT }, { 0, UTIME_NOW } };
	struct stat before, after;

	if (fd < 0 || fstat(fd, &before))
		return false;
	for (int i = 0; i < TRIES; i++) {
		if (futimens(fd, now) || fstat(fd, &after) ||
		    (before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
		     before.st_mtim.tv_nsec == after.st_mtim.tv_nsec))
			return false;
		before = after;
	}
	return true;
}

/* Does this kernel give each change an mtime of its own on file systems of this type? A
 * file system with an old format may still not have it. */
static bool has_kernel_fine_times(long type)
{
	_cleanup_close_ int fd = memfd_create("shfs-times", MFD_CLOEXEC);

	return (type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC ||
	        type == BTRFS_SUPER_MAGIC || type == TMPFS_MAGIC) &&
	       has_fine_times(fd);
}

static int32_t backing_open(int device_fd, int fd)
{
	struct shfs_fuse_backing_map map = { .fd = fd };
	int id = ioctl(device_fd, SHFS_FUSE_BACKING_OPEN, &map);

	return id < 0 ? -errno : id;
}

static void backing_close(int device_fd, int32_t id)
{
	uint32_t backing_id = (uint32_t)id;

	ioctl(device_fd, SHFS_FUSE_BACKING_CLOSE, &backing_id);
}

/* May we pass files? Found out by trying, as root in a container may not. */
static bool is_permitted(int device_fd)
{
	_cleanup_close_ int fd = memfd_create("shfs-backing", MFD_CLOEXEC);
	int32_t id = fd < 0 ? -errno : backing_open(device_fd, fd);

	if (id < 0)
		return false;
	backing_close(device_fd, id);
	return true;
}

int shfs_passthrough_begin(struct shfs_fs *fs, int device_fd)
{
	struct shfs_passthrough *p = calloc(1, sizeof(*p));
	struct stat st;

	if (!p)
		return -ENOMEM;
	p->device = device_fd;
	p->dev = fstat(fs->root_fd, &st) ? 0 : st.st_dev;
	fs->passthrough = p;
	return 0;
}

void shfs_passthrough_end(struct shfs_fs *fs)
{
	free(fs->passthrough);
	fs->passthrough = NULL;
}

static enum shfs_passing_mode find_mode(struct shfs_fs *fs)
{
	struct statfs beneath;

	if (!shfs_transport_offers_passthrough(fs->transport) ||
	    fstatfs(fs->root_fd, &beneath) || beneath.f_type == OVERLAYFS_SUPER_MAGIC ||
	    !is_permitted(fs->passthrough->device))
		return SHFS_PASSING_NONE;
	return has_kernel_fine_times(beneath.f_type) ? SHFS_PASSING_ALL
	                                             : SHFS_PASSING_READS;
}

enum shfs_passing_mode shfs_passthrough_mode(struct shfs_fs *fs)
{
	int mode = atomic_load(&fs->passthrough->mode);

	if (mode == SHFS_PASSING_UNKNOWN &&
	    atomic_compare_exchange_strong(&fs->passthrough->mode, &mode, find_mode(fs)))
		mode = atomic_load(&fs->passthrough->mode);
	return (enum shfs_passing_mode)mode;
}

/* --- of one file --- */

static bool is_to_write(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY;
}

/*
 * Does it pay to pass a reader? Yes for a small file that is read once: no request for
 * its content is needed. Not for one that is read again: after passed reads the kernel
 * asks for the attributes each time, which the cache of the mount saves. Yes for a large
 * file, which should not be cached twice.
 */
static bool pays_to_pass(const struct shfs_passing *passing, int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_size &&
	       (st.st_size >= LARGE || !passing->was_read);
}

/* Is each write to the file shown by its mtime? Tried with the first file that is made or
 * emptied. */
static bool are_writes_told(struct shfs_fs *fs, int fd)
{
	struct stat st = { 0 };
	bool fine;

	if (fs->passthrough->tried)
		return true;
	fine = !fstat(fd, &st) && has_fine_times(fd);
	/* restores the mtime, which the reply is about to give to the kernel */
	(void)!futimens(fd, (struct timespec[]){ { .tv_nsec = UTIME_OMIT }, st.st_mtim });
	if (!fine)
		atomic_store(&fs->passthrough->mode, SHFS_PASSING_READS);
	fs->passthrough->tried = fine;
	return fine;
}

/* May it depend on the writer's groups, which open_as does not set, whether a write
 * clears set-id bits? */
static bool groups_matter(int fd, const struct shfs_passing_wish *wish)
{
	struct stat st;

	return wish->uid && !fstat(fd, &st) && shfs_is_set_gid_alone(st.st_mode);
}

/* Would this open be passed if it were the only one? */
static bool is_wanted(struct shfs_fs *fs, const struct shfs_passing *passing,
                      const struct shfs_handle *handle,
                      const struct shfs_passing_wish *wish)
{
	if (shfs_passthrough_mode(fs) == SHFS_PASSING_NONE || (wish->flags & O_DIRECT))
		return false;
	if (!is_to_write(wish->flags))
		return pays_to_pass(passing, handle->fd);
	/* Not O_RDWR: we would not know whether it reads, or maps. Not O_APPEND: the
	 * kernel would go on to append after fcntl(2) or with RWF_NOAPPEND. */
	return (wish->flags & O_ACCMODE) == O_WRONLY && !(wish->flags & O_APPEND) &&
	       wish->emptied && wish->alone &&
	       shfs_passthrough_mode(fs) == SHFS_PASSING_ALL &&
	       handle->node->dev == fs->passthrough->dev &&
	       !groups_matter(handle->fd, wish) && are_writes_told(fs, handle->fd);
}

/* Opens the backing file with the caller's identity: the kernel uses it for the writes,
 * so the caller's rights decide on set-id bits and reserved blocks. */
static int32_t open_as(struct shfs_fs *fs, int fd, const struct shfs_passing_wish *wish)
{
	int32_t id;

	if (wish->uid) {
		setfsgid(wish->gid);
		setfsuid(wish->uid);
	}
	id = backing_open(fs->passthrough->device, fd);
	if (wish->uid) {
		setfsuid(0);
		setfsgid(0);
	}
	return id;
}

static enum shfs_io choose_io(struct shfs_fs *fs, struct shfs_passing *passing,
                              const struct shfs_handle *handle,
                              const struct shfs_passing_wish *wish)
{
	int32_t id;

	if (passing->n_cached)
		return SHFS_IO_CACHED;
	if (passing->n_passed) {
		if (!is_to_write(wish->flags))
			return SHFS_IO_PASSED;
		return is_wanted(fs, passing, handle, wish) && !passing->blind &&
		                       passing->uid == wish->uid &&
		                       passing->gid == wish->gid
		               ? SHFS_IO_PASSED
		               : SHFS_IO_JOINED;
	}
	if (!is_wanted(fs, passing, handle, wish))
		return SHFS_IO_CACHED;
	id = open_as(fs, handle->fd, wish);
	if (id < 0)
		return SHFS_IO_CACHED;
	passing->backing_id = id;
	passing->uid = wish->uid;
	passing->gid = wish->gid;
	return SHFS_IO_PASSED;
}

static void enter_io(struct shfs_fs *fs, struct shfs_passing *passing,
                     struct shfs_handle *handle, int flags)
{
	passing->was_read |= (flags & O_ACCMODE) != O_WRONLY;
	if (handle->passed.io == SHFS_IO_CACHED) {
		passing->n_cached++;
		passing->was_cached = true;
		return;
	}
	passing->n_passed++;
	passing->was_joined |= is_to_write(flags);
	handle->passed.backing_id = passing->backing_id;
	handle->passed.is_mappable =
		handle->passed.io == SHFS_IO_JOINED && (flags & O_ACCMODE) == O_RDWR;
	handle->passed.is_blind =
		handle->passed.is_mappable ||
		(handle->passed.io == SHFS_IO_PASSED && is_to_write(flags));
	if (!handle->passed.is_blind)
		return;
	if (!passing->blind)
		shfs_beneath_ignore(fs->beneath, handle->fd, true);
	DL_APPEND2(passing->blind, handle, passed.prev_blind, passed.next_blind);
	if (passing->blind == handle)
		shfs_passing_stamp(passing);
}

void shfs_passing_enter(struct shfs_fs *fs, struct shfs_passing *passing,
                        struct shfs_handle *handle, const struct shfs_passing_wish *wish)
{
	handle->passed.io = choose_io(fs, passing, handle, wish);
	enter_io(fs, passing, handle, wish->flags);
}

void shfs_passing_resume(struct shfs_fs *fs, struct shfs_passing *passing,
                         struct shfs_handle *handle, const struct shfs_open *open)
{
	handle->passed.io = (enum shfs_io)open->io;
	passing->was_cached = true; /* others may have opened it since */
	if (handle->passed.io != SHFS_IO_CACHED) {
		passing->backing_id = open->backing_id;
		passing->uid = open->uid;
		passing->gid = open->gid;
	}
	enter_io(fs, passing, handle, open->flags);
}

/*
 * Drops the kernel's cache of the file while no open file uses it. The next open must not
 * do so: others may write through the cache by then, and it has their data.
 */
static void drop_cache(struct shfs_fs *fs, struct shfs_passing *passing,
                       const struct shfs_node *node)
{
	if (passing->was_cached && passing->was_joined)
		shfs_transport_invalidate(fs->transport, node->id, true);
	passing->was_cached &= !passing->was_joined;
	passing->was_joined = false;
}

void shfs_passing_leave(struct shfs_fs *fs, struct shfs_passing *passing,
                        struct shfs_handle *handle)
{
	if (handle->passed.is_blind) {
		DL_DELETE2(passing->blind, handle, passed.prev_blind, passed.next_blind);
		if (!passing->blind)
			shfs_beneath_ignore(fs->beneath, handle->fd, false);
	}
	handle->passed.is_blind = false;
	if (handle->passed.io == SHFS_IO_CACHED)
		passing->n_cached--;
	if (handle->passed.io != SHFS_IO_PASSED && handle->passed.io != SHFS_IO_JOINED)
		return;
	if (--passing->n_passed)
		return;
	backing_close(fs->passthrough->device, passing->backing_id);
	drop_cache(fs, passing, handle->node);
}

bool shfs_passing_beside(const struct shfs_passing *passing,
                         const struct shfs_handle *handle)
{
	const struct shfs_handle *other;

	DL_FOREACH2 (passing->blind, other, passed.next_blind)
		if (other != handle && !other->passed.is_mappable)
			return true;
	return false;
}

static bool is_other(const struct shfs_passing *passing, struct stat *st)
{
	return passing->blind && !fstat(passing->blind->fd, st) &&
	       (st->st_size != passing->size ||
	        st->st_mtim.tv_sec != passing->mtime.tv_sec ||
	        st->st_mtim.tv_nsec != passing->mtime.tv_nsec);
}

bool shfs_passing_is_other(const struct shfs_passing *passing)
{
	struct stat st;

	return is_other(passing, &st);
}

bool shfs_passing_is_changed(struct shfs_passing *passing)
{
	struct stat st;

	if (!is_other(passing, &st))
		return false;
	passing->size = st.st_size;
	passing->mtime = st.st_mtim;
	return true;
}

void shfs_passing_stamp(struct shfs_passing *passing)
{
	shfs_passing_is_changed(passing);
}

/* Removes an extended attribute that does not exist, only to wait for the lock of the
 * file, which a write holds from before it sets the mtime to its end. */
void shfs_passing_finish_writes(const struct shfs_passing *passing)
{
	if (passing->blind)
		(void)!fremovexattr(passing->blind->fd, "user.shfs.none");
}
