/* SPDX-License-Identifier: MIT */
/*
 * io.h - whole reads and writes, files by directory fd.
 *
 * All retry on EINTR and return 0 (or a byte count) or a negative errno.
 */
#pragma once

#include "common/buf.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Writes all of it. -EIO when write(2) makes no progress. */
_must_check_ int shfs_write_all(int fd, const void *data, size_t len);

/* Copies what is left to read of a regular file. */
_must_check_ int shfs_copy_fd(int from, int to);

/* Reads up to len bytes from offset; fewer only at the end of the file. Returns the
 * count. */
_must_check_ ssize_t shfs_pread_full(int fd, void *data, size_t len, off_t offset);

/* Appends the whole file to out; -EFBIG beyond max_bytes. */
_must_check_ int shfs_read_fd(int fd, size_t max_bytes, struct shfs_buf *out);

/* Appends the whole file `name`, relative to dirfd (AT_FDCWD allowed). Follows links. */
_must_check_ int shfs_read_file_at(int dirfd, const char *name, size_t max_bytes,
                                   struct shfs_buf *out);

/*
 * Replaces name below dirfd as a whole: a temporary file of this mode beside it, fsync,
 * rename. Readers see the old bytes or the new ones. The directory is synced too.
 */
_must_check_ int shfs_write_file_at(int dirfd, const char *name, mode_t mode,
                                    const void *data, size_t len);

/* Is this a file system that another machine or program serves (NFS, SMB, Lustre, FUSE)?
 * Access to it may hang, and other machines may change it unseen. By statfs f_type.
 * shfs_is_network: not FUSE. */
bool shfs_fd_is_served(int fd);
bool shfs_is_served(const struct statfs *fs);
bool shfs_is_network(const struct statfs *fs);

/* Stats name below dirfd ("": dirfd itself), without following a link, as the server has
 * it now, not from a cache. */
_must_check_ int shfs_stat_now(int dirfd, const char *name, struct stat *out);

/* Returns the next entry. NULL: there is none left (*r is 0), or an error (a negative
 * errno). */
_must_check_ struct dirent *shfs_readdir(DIR *dir, int *r);

/* Is the directory empty? False also if it cannot be read. */
bool shfs_is_empty_directory(const char *path);

/* mkdir -p relative to dirfd; each directory made has this mode. Existing ones are left
 * alone. */
_must_check_ int shfs_mkdir_p_at(int dirfd, const char *path, mode_t mode);

/* Does the error (negative) mean that nothing can be written: the disk is full or
 * read-only, or a quota is used up? */
static inline bool shfs_takes_nothing(int error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -EROFS;
}
