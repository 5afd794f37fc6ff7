/* SPDX-License-Identifier: MIT */
#include "store/objects/reader.h"

#include "common/io.h"
#include "store/objects/content.h"
#include "store/objects/object-internal.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#define PIECE_BYTES (128 << 10)
#define WHOLE_BYTES (1u << 20) /* a larger content is unpacked piece by piece */
#define LOOKS       3          /* for an object that a collection is moving */

static const unsigned char magic[CODEC_MAGIC_BYTES] = { 0x28, 0xb5, 0x2f, 0xfd };

struct shfs_object_reader {
	uint64_t size;
	struct shfs_buf whole; /* all of it; or it is in one of: */
	int fd;                /* a loose object; -1: none */
	bool is_zstd;          /* the loose object is compressed */
	struct packed frame;   /* a frame of a pack */
	/* unpacking */
	ZSTD_DStream *stream; /* NULL: not begun */
	char *in;             /* bytes of the file */
	ZSTD_inBuffer source;
	off_t source_end; /* of them, in the file */
	char *piece;      /* the last one that was unpacked */
	size_t piece_len;
	uint64_t piece_at; /* its offset in the content */
};

void shfs_object_reader_close(struct shfs_object_reader *r)
{
	if (!r)
		return;
	shfs_buf_free(&r->whole);
	shfs_closep(&r->fd);
	packed_free(&r->frame);
	ZSTD_freeDStream(r->stream);
	free(r->in);
	free(r->piece);
	free(r);
}

uint64_t shfs_object_reader_size(const struct shfs_object_reader *r)
{
	return r->size;
}

size_t shfs_object_reader_memory(const struct shfs_object_reader *r)
{
	return sizeof(*r) + r->whole.cap + (r->frame.bytes ? r->frame.frame.stored : 0) +
	       (r->in ? PIECE_BYTES : 0) + (r->piece ? PIECE_BYTES : 0) +
	       ZSTD_sizeof_DStream(r->stream);
}

/* --- unpacking --- */

/* Begins, or begins anew, at the front. */
static int rewind_stream(struct shfs_object_reader *r)
{
	unsigned char *stored = r->frame.bytes;

	if (!r->stream)
		r->stream = ZSTD_createDStream();
	if (!r->piece)
		r->piece = malloc(PIECE_BYTES);
	if (!stored && !r->in)
		r->in = malloc(PIECE_BYTES);
	if (!r->stream || !r->piece || (!stored && !r->in))
		return -ENOMEM;
	ZSTD_DCtx_reset(r->stream, ZSTD_reset_session_only);
	r->piece_at = r->piece_len = 0;
	r->source = (ZSTD_inBuffer){ r->in, 0, 0 };
	r->source_end = LOOSE_HEAD_BYTES;
	if (stored) {
		stored += FRAME_HEAD_BYTES - CODEC_MAGIC_BYTES;
		memcpy(stored, magic, sizeof(magic));
		r->source = (ZSTD_inBuffer){ stored,
			                     r->frame.frame.stored + sizeof(magic), 0 };
	}
	return 0;
}

/* Reads on in the file. 0: it has ended. */
static ssize_t read_source(struct shfs_object_reader *r)
{
	ssize_t n = 0;

	if (r->fd >= 0)
		n = shfs_pread_full(r->fd, r->in, PIECE_BYTES, r->source_end);
	r->source_end += MAX(n, 0);
	r->source = (ZSTD_inBuffer){ r->in, MAX(n, 0), 0 };
	return n;
}

/* Unpacks the next piece. -EBADMSG: there is none. */
static int unpack_piece(struct shfs_object_reader *r)
{
	ZSTD_outBuffer out = { r->piece, PIECE_BYTES, 0 };

	r->piece_at += r->piece_len;
	r->piece_len = 0;
	while (!out.pos) {
		size_t before = r->source.pos, left;
		ssize_t n = 1;

		if (r->source.pos == r->source.size && r->fd >= 0)
			n = read_source(r);
		if (n < 0)
			return n;
		left = ZSTD_decompressStream(r->stream, &out, &r->source);
		if (ZSTD_isError(left) || out.pos > r->size - r->piece_at ||
		    (!out.pos && r->source.pos == before))
			return -EBADMSG;
	}
	r->piece_len = out.pos;
	return 0;
}

static int read_stream(struct shfs_object_reader *r, uint64_t offset, char *data,
                       size_t len)
{
	int error = 0;

	if (!r->stream || offset < r->piece_at)
		error = rewind_stream(r);
	while (len && !error) {
		uint64_t end = r->piece_at + r->piece_len;

		if (offset < end) {
			size_t n = MIN(len, (size_t)(end - offset));

			memcpy(data, r->piece + (offset - r->piece_at), n);
			data += n;
			offset += n;
			len -= n;
		} else {
			error = unpack_piece(r);
		}
	}
	return error;
}

int shfs_object_reader_read(struct shfs_object_reader *r, uint64_t offset, void *data,
                            size_t len, size_t *n)
{
	ssize_t got;
	int error = 0;

	len = offset < r->size ? MIN(len, r->size - offset) : 0;
	if (!len) {
		*n = 0;
		return 0;
	}
	if (r->fd < 0 && !r->frame.bytes) {
		memcpy(data, r->whole.data + offset, len);
	} else if (r->fd >= 0 && !r->is_zstd) {
		got = shfs_pread_full(r->fd, data, len,
		                      (off_t)(offset + LOOSE_HEAD_BYTES));
		error = got < 0 ? (int)got : (size_t)got < len ? -EBADMSG : 0;
	} else {
		error = read_stream(r, offset, data, len);
	}
	if (!error)
		*n = len;
	return error;
}

/* --- opening --- */

/* Compares the hash of all of it with its name. */
static int verify_stream(struct shfs_object_reader *r, const struct shfs_object_id *id)
{
	_cleanup_free_ char *data = malloc(PIECE_BYTES);
	struct object_hash *hash = object_hash_new();
	uint8_t got[16] = { 0 };
	uint64_t at = 0;
	int error = data && hash ? 0 : -ENOMEM;

	while (!error && at < r->size) {
		size_t n;

		error = shfs_object_reader_read(r, at, data, PIECE_BYTES, &n);
		if (!error) {
			object_hash_add(hash, data, n);
			at += n;
		}
	}
	object_hash_end(hash, got);
	/* (a test may have replaced the hash that names objects) */
	if (!error && shfs_object_hash == shfs_object_hash_xxh3 &&
	    memcmp(got, id->hash, sizeof(got)))
		error = -EBADMSG;
	return error;
}

/* 1: a large content is ready to be unpacked; 0: it is to be read as a whole. */
static int open_stream(struct shfs_store *store, const struct shfs_object_id *id,
                       struct shfs_object_reader *r)
{
	int error = packs_read(store, id, 0, &r->frame);

	if (!error && r->frame.frame.kind == FRAME_ZSTD &&
	    r->frame.frame.size > WHOLE_BYTES) {
		r->size = r->frame.frame.size;
	} else {
		packed_free(&r->frame);
		r->frame = (struct packed){ 0 };
		if (error != -ENOENT)
			return error;
		r->fd = loose_open(store, id, &r->size);
		if (r->fd < 0)
			return TAKE_FD(r->fd);
		error = loose_is_compressed(r->fd);
		if (error < 0)
			return error;
		r->is_zstd = error;
	}
	return verify_stream(r, id) ?: 1;
}

static int open_whole(struct shfs_store *store, const struct shfs_object_id *id,
                      struct shfs_object_reader *r)
{
	int error = shfs_object_read(store, id, DELTA_LEN_MAX, &r->whole);

	r->size = r->whole.len;
	return error;
}

int shfs_object_reader_open(struct shfs_store *store, const struct shfs_object_id *id,
                            struct shfs_object_reader **out)
{
	int error = -EAGAIN;

	for (int i = 0; i < LOOKS && error == -EAGAIN; i++) {
		_cleanup_object_reader_ struct shfs_object_reader *r =
			calloc(1, sizeof(*r));
		_cleanup_object_reader_ struct shfs_object_reader *other =
			calloc(1, sizeof(*other));

		if (!r || !other)
			return -ENOMEM;
		r->fd = other->fd = -1;
		error = open_stream(store, id, r);
		if (error == 1) {
			*out = TAKE_PTR(r);
			return 0;
		}
		if (error && error != -ENOENT && error != -EBADMSG)
			return error;
		/* it also finds what was moved, other frames, and why it is gone */
		error = open_whole(store, id, other);
		if (!error)
			*out = TAKE_PTR(other);
		else if (error == -EFBIG) /* a large one, which was found now */
			error = i == LOOKS - 1 ? -EBADMSG : -EAGAIN;
	}
	return error;
}
