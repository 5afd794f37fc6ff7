/* SPDX-License-Identifier: MIT */
#include "query/remote/push/upload.h"

#include "common/clock.h"
#include "common/io.h"
#include "query/remote/contents.h"
#include "query/remote/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARCEL_SMALL (512u << 10) /* a parcel of less is made anew with others */

void upload_clear(struct upload *u)
{
	manifest_clear(&u->old);
	manifest_clear(&u->now);
	manifest_clear(&u->away);
	blobs_clear(&u->there);
	blobs_clear(&u->bad);
	shfs_buf_free(&u->made_trees);
	shfs_buf_free(&u->made_alive);
	shfs_buf_free(&u->parcel);
	free(u->members);
}

/* --- blobs --- */

/* Notes that the blob may be on the remote from now on. */
static int note_blob(struct upload *u, const char *blob)
{
	char line[SHFS_SHA256_SIZE + 8];

	snprintf(line, sizeof(line), "blob %s", blob);
	return place_add_line(u->place, "unfinished", line);
}

/* Puts a blob over whatever an earlier push, or damage, has left there. */
static int put_blob(struct upload *u, const char *blob, const void *data, size_t len)
{
	char name[REMOTE_NAME_SIZE];
	uint64_t bytes;
	int r;

	blob_name(u->now.head.store_id, blob, name);
	if (blobs_find(&u->bad, blob)) {
		r = shfs_remote_remove(u->remote, name);
		if (r)
			return r;
	} else if (u->looks && !shfs_remote_stat(u->remote, name, &bytes) &&
	           bytes == len) {
		return 0;
	}
	r = shfs_remote_put(u->remote, name, data, len);
	if (r != -EEXIST) {
		u->stats.blobs += !r;
		u->stats.bytes += r ? 0 : len;
		return r;
	}
	r = shfs_remote_stat(u->remote, name, &bytes);
	if (!r && bytes == len)
		return 0;
	if (!r || r == -EBADMSG)
		r = shfs_remote_remove(u->remote, name);
	if (!r)
		r = shfs_remote_put(u->remote, name, data, len);
	u->stats.blobs += !r;
	u->stats.bytes += r ? 0 : len;
	return r;
}

int upload_blob(struct upload *u, const void *data, size_t len, const char *sha,
                char blob[static SHFS_SHA256_SIZE])
{
	int r = 0;

	shfs_remote_name_blob(u->remote, u->now.head.store_id, sha, blob);
	if (blobs_find(&u->there, blob))
		return 0;
	if (u->options->dry_run) {
		u->stats.blobs++;
		u->stats.bytes += len;
	} else {
		r = note_blob(u, blob);
		if (!r)
			r = put_blob(u, blob, data, len);
	}
	if (!r && !blobs_add(&u->there, blob))
		r = -ENOMEM;
	return r;
}

/* --- the bytes of a file --- */

struct source {
	int fd; /* -1: in memory */
	const struct shfs_buf *made;
	struct shfs_buf contents;
};

static void source_close(struct source *s)
{
	shfs_closep(&s->fd);
	shfs_buf_free(&s->contents);
}

static int make_contents(struct upload *u, const char *pack, struct source *s)
{
	_cleanup_contents_ struct contents contents = { 0 };
	_cleanup_buf_ struct shfs_buf name = { 0 };
	_cleanup_close_ int packs =
		openat(u->store->objects_fd, "packs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct remote_file *file;
	int r;

	shfs_buf_printf(&name, "objects/packs/%s", pack);
	if (name.failed)
		return -ENOMEM;
	file = manifest_find(&u->now, name.data);
	if (packs < 0 || !file)
		return -EAGAIN;
	r = contents_of_pack(packs, pack, file->bytes, &contents);
	if (r)
		return r;
	contents_print(&contents, &s->contents);
	s->made = &s->contents;
	return s->contents.failed ? -ENOMEM : 0;
}

static int source_open(struct upload *u, const struct remote_file *file,
                       struct source *out)
{
	enum file_kind kind = file_kind_of(file->name);

	*out = (struct source){ .fd = -1 };
	switch (kind) {
	case FILE_TREES:
		out->made = &u->made_trees;
		return 0;
	case FILE_ALIVE:
		out->made = &u->made_alive;
		return 0;
	case FILE_CONTENTS:
		return make_contents(u, strrchr(file->name, '/') + 1, out);
	default:
		out->fd = openat(u->store->dirfd, file_path(file->name, kind),
		                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (out->fd < 0) /* it was sealed meanwhile */
			return errno == ENOENT ? -EAGAIN : -errno;
		return 0;
	}
}

/* Sets out to len bytes of the file. -EAGAIN: it has become shorter. */
static int source_read(const struct source *s, uint64_t at, size_t len,
                       struct shfs_buf *out)
{
	ssize_t n;

	out->len = 0;
	if (s->fd < 0) {
		shfs_buf_add(out, s->made->data + at, len);
		return out->failed ? -ENOMEM : 0;
	}
	shfs_buf_reserve(out, len);
	if (out->failed)
		return -ENOMEM;
	n = shfs_pread_full(s->fd, out->data, len, (off_t)at);
	if (n < 0)
		return (int)n;
	out->len = (size_t)n;
	return (size_t)n == len ? 0 : -EAGAIN;
}

int upload_read(struct upload *u, const struct remote_file *file, uint64_t at, size_t len,
                struct shfs_buf *out)
{
	_cleanup_(source_close) struct source source = { .fd = -1 };
	int r = source_open(u, file, &source);

	if (!r && source.fd < 0 && (at > source.made->len || len > source.made->len - at))
		r = -EAGAIN;
	return r ? r : source_read(&source, at, len, out);
}

/* --- what is there already --- */

static bool has_bad_piece(const struct upload *u, const struct remote_file *file)
{
	for (size_t i = 0; u->bad.set && i < file->n; i++)
		if (blobs_find(&u->bad, file->pieces[i].blob))
			return true;
	return false;
}

static bool is_state_equal(const struct remote_file *a, const struct remote_file *b)
{
	return a->state.ino && a->bytes == b->bytes && a->state.ino == b->state.ino &&
	       a->state.bytes == b->state.bytes &&
	       a->state.mtime_ns == b->state.mtime_ns &&
	       a->state.ctime_ns == b->state.ctime_ns;
}

static void count_done(struct upload *u, uint64_t bytes)
{
	u->done_bytes += bytes;
	if (u->options->progress)
		u->options->progress(u->done_bytes, u->all_bytes);
}

/* Takes the pieces that the file had, if it is surely the same. 1; 0; or -errno. */
static int take_old_pieces(struct upload *u, struct remote_file *file)
{
	const struct remote_file *old = manifest_find(&u->old, file->name);
	int r;

	if (!old || !is_state_equal(old, file) || has_bad_piece(u, old))
		return 0;
	r = remote_file_copy_pieces(file, old);
	if (!r)
		count_done(u, file->bytes);
	return r ? r : 1;
}

/* --- large files --- */

static int put_piece(struct upload *u, struct remote_file *file,
                     const struct remote_file *old, const struct shfs_buf *bytes)
{
	struct piece piece = { .bytes = (uint32_t)bytes->len };
	const struct piece *was = old && file->n < old->n ? &old->pieces[file->n] : NULL;
	int r = 0;

	shfs_sha256_of(bytes->data, bytes->len, piece.sha);
	if (was && !strcmp(was->sha, piece.sha) && !blobs_find(&u->bad, was->blob))
		piece = *was;
	else
		r = upload_blob(u, bytes->data, bytes->len, piece.sha, piece.blob);
	count_done(u, bytes->len);
	return r ? r : manifest_add_piece(file, &piece);
}

static int put_large(struct upload *u, struct remote_file *file,
                     const struct source *source)
{
	const struct remote_file *old = manifest_find(&u->old, file->name);
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	int r = 0;

	/* a piece of a parcel stays there only while the file is a small one */
	if (old && old->bytes <= SMALL_BYTES)
		old = NULL;
	file->n = 0;
	for (uint64_t at = 0; at < file->bytes && !r; at += PIECE_BYTES) {
		r = source_read(source, at,
		                (size_t)MIN(file->bytes - at, (uint64_t)PIECE_BYTES),
		                &bytes);
		if (!r)
			r = put_piece(u, file, old, &bytes);
	}
	return r;
}

static int put_large_file(struct upload *u, struct remote_file *file)
{
	_cleanup_(source_close) struct source source = { .fd = -1 };
	int r = file->stays ? 1 : take_old_pieces(u, file);

	if (r)
		return MIN(r, 0);
	r = source_open(u, file, &source);
	return r ? r : put_large(u, file, &source);
}

static bool is_object(const struct remote_file *file)
{
	enum file_kind kind = file_kind_of(file->name);

	return kind == FILE_PACK || kind == FILE_LOOSE;
}

/* Objects first, then what names them. */
static int put_large_files(struct upload *u, bool objects)
{
	int r = 0;

	for (size_t i = 0; i < u->now.n && !r; i++) {
		struct remote_file *file = &u->now.files[i];

		if (file->bytes > SMALL_BYTES && is_object(file) == objects)
			r = put_large_file(u, file);
	}
	return r;
}

/* --- lists of contents --- */

/* The list of a pack that is as it was is not made again. 1: it was taken; 0. */
static int take_old_contents(struct upload *u, struct remote_file *file)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	const struct remote_file *old = manifest_find(&u->old, file->name), *pack, *was;
	int r;

	shfs_buf_printf(&name, "objects/packs/%s", strrchr(file->name, '/') + 1);
	if (name.failed)
		return -ENOMEM;
	pack = manifest_find(&u->now, name.data);
	was = manifest_find(&u->old, name.data);
	if (!old || !pack || !was || has_bad_piece(u, old) ||
	    !remote_file_equal(pack, was))
		return 0;
	file->bytes = old->bytes;
	r = remote_file_copy_pieces(file, old);
	return r ? r : 1;
}

static int find_contents(struct upload *u, struct remote_file *file)
{
	_cleanup_(source_close) struct source source = { .fd = -1 };
	int r = take_old_contents(u, file);

	if (r)
		return MIN(r, 0);
	r = source_open(u, file, &source);
	if (r)
		return r;
	file->bytes = source.contents.len;
	u->all_bytes += file->bytes;
	return file->bytes > SMALL_BYTES ? put_large(u, file, &source) : 0;
}

static int find_all_contents(struct upload *u)
{
	int r = 0;

	for (size_t i = 0; i < u->now.n && !r; i++)
		if (file_kind_of(u->now.files[i].name) == FILE_CONTENTS &&
		    !u->now.files[i].stays)
			r = find_contents(u, &u->now.files[i]);
	return r;
}

/* --- small files --- */

static bool is_small(const struct remote_file *file)
{
	return file->bytes && file->bytes <= SMALL_BYTES;
}

/* Finds the one piece of a small file if it has the bytes that it had. */
static int find_small(struct upload *u, struct remote_file *file)
{
	_cleanup_(source_close) struct source source = { .fd = -1 };
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	const struct remote_file *old = manifest_find(&u->old, file->name);
	char sha[SHFS_SHA256_SIZE];
	int r = file->n ? 1 : take_old_pieces(u, file);

	if (r)
		return MIN(r, 0);
	if (!old || old->n != 1 || old->bytes != file->bytes || has_bad_piece(u, old))
		return 0;
	r = source_open(u, file, &source);
	if (!r)
		r = source_read(&source, 0, (size_t)file->bytes, &bytes);
	if (r)
		return r;
	shfs_sha256_of(bytes.data, bytes.len, sha);
	return strcmp(sha, old->pieces[0].sha) ? 0 : remote_file_copy_pieces(file, old);
}

/* The trees say by which machine the store is pushed: with nothing else, another one than
 * before is nothing new. What is read later, at_end, has to be what is listed. */
static int keep_trees(struct upload *u)
{
	struct remote_file *trees = manifest_find(&u->now, "made/trees");
	const struct remote_file *was = manifest_find(&u->old, "made/trees");

	if (!trees || !was || u->options->at_end || has_bad_piece(u, was) ||
	    u->now.n != u->old.n)
		return 0;
	for (size_t i = 0; i < u->now.n; i++) {
		const struct remote_file *file = &u->now.files[i];

		if (strcmp(file->name, u->old.files[i].name) != 0 ||
		    (file != trees && !remote_file_equal(file, &u->old.files[i])))
			return 0;
	}
	trees->bytes = was->bytes;
	return remote_file_copy_pieces(trees, was);
}

/* Counts, for each parcel, the files that it was made of and those that stay. */
static int count_members(const struct manifest *m, struct blobs *parcels, bool kept)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct remote_file *file = &m->files[i];
		struct blob *parcel;

		if (!is_small(file) || file->n != 1)
			continue;
		parcel = blobs_add(parcels, file->pieces[0].blob);
		if (!parcel)
			return -ENOMEM;
		parcel->bytes = MAX(parcel->bytes,
		                    (uint64_t)file->pieces[0].at + file->pieces[0].bytes);
		parcel->kept += kept;
		parcel->total += !kept;
	}
	return 0;
}

/* Has the others leave the parcels of which a file is gone; and, where there is a new
 * parcel anyway, those that are small. */
static void leave_parcels(struct upload *u, const struct blobs *parcels)
{
	bool any = false;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < u->now.n; i++) {
			struct remote_file *file = &u->now.files[i];
			const struct blob *parcel;

			if (!is_small(file))
				continue;
			parcel = file->n ? blobs_find(parcels, file->pieces[0].blob)
			                 : NULL;
			if (parcel && (parcel->kept != parcel->total ||
			               (pass && any && parcel->bytes < PARCEL_SMALL)))
				file->n = 0;
			any |= !file->n;
		}
}

static int finish_parcel(struct upload *u)
{
	char sha[SHFS_SHA256_SIZE], blob[SHFS_SHA256_SIZE];
	int r;

	if (!u->n_members)
		return 0;
	shfs_sha256_of(u->parcel.data, u->parcel.len, sha);
	r = upload_blob(u, u->parcel.data, u->parcel.len, sha, blob);
	for (size_t i = 0; i < u->n_members && !r; i++)
		memcpy(u->now.files[u->members[i]].pieces[0].blob, blob, sizeof(blob));
	u->n_members = u->parcel.len = 0;
	return r;
}

/* Gets the bytes of a small file: of one that is only on the remote, from there. */
static int read_small(struct upload *u, const struct remote_file *file,
                      struct shfs_buf *out)
{
	_cleanup_(source_close) struct source source = { .fd = -1 };
	const struct remote_file *old = manifest_find(&u->old, file->name);
	struct fetcher f = { .remote = u->remote, .store_id = u->now.head.store_id };
	int r;

	if (!file->stays) {
		r = source_open(u, file, &source);
		return r ? r : source_read(&source, 0, (size_t)file->bytes, out);
	}
	r = old && old->n == 1 ? fetch_piece(&f, &old->pieces[0], out) : -EBADMSG;
	fetcher_clear(&f);
	return r == -ENOENT ? -EBADMSG : r;
}

static int add_to_parcel(struct upload *u, size_t i)
{
	struct remote_file *file = &u->now.files[i];
	_cleanup_buf_ struct shfs_buf bytes = { 0 };
	struct piece piece = { .bytes = (uint32_t)file->bytes };
	int r = 0;

	if (u->parcel.len + file->bytes > PIECE_BYTES)
		r = finish_parcel(u);
	if (!r)
		r = read_small(u, file, &bytes);
	if (r)
		return r;
	shfs_sha256_of(bytes.data, bytes.len, piece.sha);
	piece.at = (uint32_t)u->parcel.len;
	shfs_buf_add(&u->parcel, bytes.data, bytes.len);
	if (u->parcel.failed || !MAKE_ROOM(u->members, u->n_members, u->cap_members))
		return -ENOMEM;
	u->members[u->n_members++] = i;
	count_done(u, file->bytes);
	return manifest_add_piece(file, &piece);
}

static int put_small_files(struct upload *u)
{
	_cleanup_blobs_ struct blobs parcels = { 0 };
	int r = 0;

	for (size_t i = 0; i < u->now.n && !r; i++)
		if (is_small(&u->now.files[i]))
			r = find_small(u, &u->now.files[i]);
	if (!r)
		r = keep_trees(u);
	if (!r)
		r = count_members(&u->old, &parcels, false);
	if (!r)
		r = count_members(&u->now, &parcels, true);
	if (!r)
		leave_parcels(u, &parcels);
	for (size_t i = 0; i < u->now.n && !r; i++)
		if (is_small(&u->now.files[i]) && !u->now.files[i].n)
			r = add_to_parcel(u, i);
	return r ? r : finish_parcel(u);
}

int upload_files(struct upload *u)
{
	int r = put_large_files(u, true);

	if (!r)
		r = put_large_files(u, false);
	if (!r)
		r = find_all_contents(u);
	if (!r)
		r = put_small_files(u);
	return r;
}
