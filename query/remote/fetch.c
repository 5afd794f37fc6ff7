/* SPDX-License-Identifier: MIT */
#include "query/remote/fetch.h"

#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void fetcher_clear(struct fetcher *f)
{
	shfs_buf_free(&f->bytes);
	*f->blob = '\0';
}

/* Gets the blob as a whole, if it is not the last one. */
static int fetch_blob(struct fetcher *f, const char *blob)
{
	char name[REMOTE_NAME_SIZE];
	int r;

	if (!strcmp(f->blob, blob))
		return 0;
	*f->blob = '\0';
	f->bytes.len = 0;
	blob_name(f->store_id, blob, name);
	r = shfs_remote_get(f->remote, name, 0, PIECE_BYTES, &f->bytes);
	if (!r)
		memcpy(f->blob, blob, SHFS_SHA256_SIZE);
	return r;
}

int fetch_piece(struct fetcher *f, const struct piece *piece, struct shfs_buf *out)
{
	char sha[SHFS_SHA256_SIZE];
	int r = fetch_blob(f, piece->blob);

	out->len = 0;
	if (r)
		return r;
	if (piece->at > f->bytes.len || piece->bytes > f->bytes.len - piece->at)
		return -EBADMSG;
	shfs_sha256_of(f->bytes.data + piece->at, piece->bytes, sha);
	if (strcmp(sha, piece->sha) != 0)
		return -EBADMSG;
	shfs_buf_add(out, f->bytes.data + piece->at, piece->bytes);
	return out->failed ? -ENOMEM : 0;
}

/* Is the piece in the file already? */
static bool is_there(int fd, uint64_t at, const struct piece *piece,
                     struct shfs_buf *room)
{
	char sha[SHFS_SHA256_SIZE];
	ssize_t n;

	room->len = 0;
	shfs_buf_reserve(room, piece->bytes);
	if (room->failed)
		return false;
	n = shfs_pread_full(fd, room->data, piece->bytes, (off_t)at);
	if (n != (ssize_t)piece->bytes)
		return false;
	shfs_sha256_of(room->data, piece->bytes, sha);
	return !strcmp(sha, piece->sha);
}

static int write_at(int fd, const struct shfs_buf *bytes, uint64_t at)
{
	for (size_t done = 0; done < bytes->len;) {
		ssize_t n = pwrite(fd, bytes->data + done, bytes->len - done,
		                   (off_t)(at + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static void count_done(struct fetcher *f, uint64_t bytes)
{
	f->done_bytes += bytes;
	if (f->progress)
		f->progress(f->done_bytes, f->all_bytes);
}

static int open_file(int dirfd, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = slash ? strndup(path, (size_t)(slash - path)) : NULL;
	int r = 0, fd;

	if (slash && !dir)
		return -ENOMEM;
	if (dir)
		r = shfs_mkdir_p_at(dirfd, dir, 0700);
	if (r)
		return r;
	fd = openat(dirfd, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

int fetch_file(struct fetcher *f, const struct remote_file *file, int dirfd,
               const char *path, const bool *wanted)
{
	_cleanup_close_ int fd = open_file(dirfd, path);
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	uint64_t at = 0;
	struct stat st;
	bool left_out = false;
	int r = MIN(fd, 0);

	if (!r && fstat(fd, &st))
		r = -errno;
	for (size_t i = 0; i < file->n && !r; at += file->pieces[i++].bytes) {
		const struct piece *piece = &file->pieces[i];

		if (wanted && !wanted[i])
			continue;
		if (at >= (uint64_t)st.st_size || !is_there(fd, at, piece, &bytes)) {
			r = fetch_piece(f, piece, &bytes);
			if (!r)
				r = write_at(fd, &bytes, at);
			else if (f->despite_damage && (r == -EBADMSG || r == -ENOENT)) {
				f->damaged++;
				left_out = true;
				r = 0;
			}
		}
		count_done(f, piece->bytes);
	}
	if (!r && ftruncate(fd, (off_t)file->bytes))
		r = -errno;
	return r ? r : left_out;
}
