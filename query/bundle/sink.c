/* SPDX-License-Identifier: MIT */
#include "query/bundle/sink.h"

#include "common/clock.h"
#include "common/io.h"
#include "query/export/libarchive.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PIECE 65536

/* --- a directory --- */

void shfs_sink_begin_directory(struct shfs_sink *sink, int dirfd, int64_t mtime_ns)
{
	*sink = (struct shfs_sink){ .dirfd = dirfd, .fd = -1, .mtime_ns = mtime_ns };
}

static int set_time(int dirfd, const char *name, int64_t mtime_ns)
{
	const struct timespec times[2] = { shfs_ns_timespec(mtime_ns),
		                           shfs_ns_timespec(mtime_ns) };

	return utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int make_directory(struct shfs_sink *sink, const char *name, mode_t mode)
{
	if (mkdirat(sink->dirfd, name, 0700) || fchmodat(sink->dirfd, name, mode, 0))
		return -errno;
	shfs_buf_add(&sink->dirs, name, strlen(name) + 1);
	return sink->dirs.failed ? -ENOMEM : 0;
}

/* -ESTALE: there are fewer bytes. */
static int make_file(struct shfs_sink *sink, const char *name, mode_t mode,
                     int64_t mtime_ns, uint64_t size, int fd)
{
	const struct timespec times[2] = { shfs_ns_timespec(mtime_ns),
		                           shfs_ns_timespec(mtime_ns) };
	_cleanup_close_ int to =
		openat(sink->dirfd, name,
	               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	int r = to < 0 ? -errno : shfs_copy_fd(fd, to);

	if (r)
		return r;
	if (fstat(to, &st) || fchmod(to, mode) || futimens(to, times))
		return -errno;
	return (uint64_t)st.st_size == size ? 0 : -ESTALE;
}

static int finish_directory(struct shfs_sink *sink)
{
	int r = 0;

	for (size_t at = 0; at < sink->dirs.len && !r;
	     at += strlen(sink->dirs.data + at) + 1)
		r = set_time(sink->dirfd, sink->dirs.data + at, sink->mtime_ns);
	return r ? r : set_time(sink->dirfd, ".", sink->mtime_ns);
}

/* --- a tar --- */

static la_ssize_t write_piece(struct archive *tar, void *arg, const void *data,
                              size_t len)
{
	struct shfs_sink *sink = arg;

	sink->error = shfs_write_all(sink->fd, data, len);
	if (sink->error)
		return -1;
	shfs_sha256_add(sink->hash, data, len);
	sink->size += len;
	return (la_ssize_t)len;
}

static int tar_error(struct shfs_sink *sink)
{
	int error = libarchive.archive_errno(sink->tar);

	return sink->error ? sink->error : error > 0 ? -error : -EIO;
}

int shfs_sink_begin_tar(struct shfs_sink *sink, int fd, const char *prefix, bool zstd,
                        int64_t mtime_ns)
{
	*sink = (struct shfs_sink){ .dirfd = -1,
		                    .fd = fd,
		                    .prefix = prefix,
		                    .mtime_ns = mtime_ns,
		                    .tar = libarchive.archive_write_new(),
		                    .hash = shfs_sha256_new() };
	if (!sink->tar || !sink->hash)
		return -ENOMEM;
	if (libarchive.archive_write_set_format_pax_restricted(sink->tar) ||
	    (zstd && libarchive.archive_write_add_filter_zstd(sink->tar)) ||
	    libarchive.archive_write_set_bytes_in_last_block(sink->tar, 1) ||
	    libarchive.archive_write_open(sink->tar, sink, NULL, write_piece, NULL))
		return tar_error(sink);
	return 0;
}

static int begin_entry(struct shfs_sink *sink, const char *name, unsigned type,
                       mode_t mode, int64_t mtime_ns, uint64_t size, const char *target)
{
	struct timespec time = shfs_ns_timespec(mtime_ns);
	struct archive_entry *entry = libarchive.archive_entry_new();
	struct shfs_buf path = { 0 };
	int r;

	shfs_buf_printf(&path, "%s%s%s", sink->prefix, name, type == AE_IFDIR ? "/" : "");
	if (!entry || path.failed) {
		shfs_buf_free(&path);
		return -ENOMEM;
	}
	libarchive.archive_entry_set_pathname(entry, path.data);
	libarchive.archive_entry_set_filetype(entry, type);
	libarchive.archive_entry_set_perm(entry, mode);
	libarchive.archive_entry_set_size(entry, (la_int64_t)size);
	libarchive.archive_entry_set_mtime(entry, time.tv_sec, time.tv_nsec);
	if (target)
		libarchive.archive_entry_set_symlink(entry, target);
	r = libarchive.archive_write_header(sink->tar, entry);
	libarchive.archive_entry_free(entry);
	shfs_buf_free(&path);
	/* it warns of names that are not ASCII, and marks them as bytes */
	return r == ARCHIVE_OK || (r == ARCHIVE_WARN && !sink->error) ? 0
	                                                              : tar_error(sink);
}

/* -ESTALE: there are fewer bytes. */
static int add_data(struct shfs_sink *sink, uint64_t size, int fd)
{
	_cleanup_free_ char *piece = malloc(PIECE);

	while (piece && size) {
		ssize_t n = read(fd, piece, MIN(size, (uint64_t)PIECE));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ESTALE;
		if (libarchive.archive_write_data(sink->tar, piece, (size_t)n) != n)
			return tar_error(sink);
		size -= (uint64_t)n;
	}
	return piece ? 0 : -ENOMEM;
}

/* --- either --- */

int shfs_sink_directory(struct shfs_sink *sink, const char *name, mode_t mode)
{
	return sink->tar
	               ? begin_entry(sink, name, AE_IFDIR, mode, sink->mtime_ns, 0, NULL)
	               : make_directory(sink, name, mode);
}

int shfs_sink_link(struct shfs_sink *sink, const char *name, const char *target)
{
	if (sink->tar)
		return begin_entry(sink, name, AE_IFLNK, 0777, sink->mtime_ns, 0, target);
	if (symlinkat(target, sink->dirfd, name))
		return -errno;
	return set_time(sink->dirfd, name, sink->mtime_ns);
}

int shfs_sink_file(struct shfs_sink *sink, const char *name, mode_t mode,
                   int64_t mtime_ns, uint64_t size, int fd)
{
	int r;

	if (!sink->tar)
		return make_file(sink, name, mode, mtime_ns, size, fd);
	r = begin_entry(sink, name, AE_IFREG, mode, mtime_ns, size, NULL);
	return r ? r : add_data(sink, size, fd);
}

int shfs_sink_text(struct shfs_sink *sink, const char *name, mode_t mode,
                   const struct shfs_buf *text)
{
	_cleanup_close_ int fd = memfd_create("text", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : text->failed ? -ENOMEM : 0;

	if (!r)
		r = shfs_write_all(fd, text->data, text->len);
	if (!r && lseek(fd, 0, SEEK_SET))
		r = -errno;
	return r ? r : shfs_sink_file(sink, name, mode, sink->mtime_ns, text->len, fd);
}

int shfs_sink_finish(struct shfs_sink *sink)
{
	if (!sink->tar)
		return finish_directory(sink);
	return libarchive.archive_write_close(sink->tar) ? tar_error(sink) : 0;
}

void shfs_sink_clear(struct shfs_sink *sink)
{
	char unused[SHFS_SHA256_SIZE];

	if (sink->tar)
		libarchive.archive_write_free(sink->tar);
	shfs_sha256_end(sink->hash, unused);
	shfs_buf_free(&sink->dirs);
	*sink = (struct shfs_sink){ .dirfd = -1, .fd = -1 };
}
