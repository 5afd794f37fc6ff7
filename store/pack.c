/* SPDX-License-Identifier: MIT */
#include "store/pack.h"

#include "common/io.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define WINDOW_BYTES (4u << 20) /* more than two of the longest frames */
#define SECTOR_BYTES 4096u      /* around one that cannot be read */

static const unsigned char frame_magic[4] = { 0xd5, 's', 'h', 'f' };

/*
 * A frame: magic (4 bytes), check (the low 32 bits of the XXH3-64 of all that follows),
 * hash (16), kind, nth, depth, nth of base (a byte each), u32 stored, u64 size; of a
 * delta also the hash of its base (16) and u32 chain_kib; then the stored bytes.
 */
size_t frame_head_bytes(enum frame_kind kind)
{
	return kind == FRAME_DELTA ? FRAME_DELTA_BYTES : FRAME_HEAD_BYTES;
}

static void put_le(unsigned char *p, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		p[i] = (unsigned char)(v >> 8 * i);
}

static uint32_t check_of(const unsigned char *bytes, size_t len)
{
	return (uint32_t)XXH3_64bits(bytes + 8, len - 8);
}

void frame_seal(const struct frame *f, unsigned char *p)
{
	memcpy(p, frame_magic, 4);
	memcpy(p + 8, f->id.hash, 16);
	p[24] = (unsigned char)f->kind;
	p[25] = (unsigned char)f->id.nth;
	p[26] = f->kind == FRAME_DELTA ? f->depth : 0;
	p[27] = f->kind == FRAME_DELTA ? (unsigned char)f->base.nth : 0;
	put_le(p + 28, f->stored, 4);
	put_le(p + 32, f->size, 8);
	if (f->kind == FRAME_DELTA) {
		memcpy(p + 40, f->base.hash, 16);
		put_le(p + 56, f->chain_kib, 4);
	}
	put_le(p + 4, check_of(p, frame_head_bytes(f->kind) + f->stored), 4);
}

int frame_parse(const unsigned char *bytes, size_t n, struct frame *out)
{
	struct shfs_cursor c = { bytes + 8, bytes + n, false };
	struct frame f = { 0 };

	if (memcmp(bytes, frame_magic, 4))
		return -EBADMSG;
	shfs_cursor_copy(&c, f.id.hash, 16);
	f.kind = shfs_cursor_u8(&c);
	f.id.nth = shfs_cursor_u8(&c);
	f.depth = shfs_cursor_u8(&c);
	f.base.nth = shfs_cursor_u8(&c);
	f.stored = shfs_cursor_u32(&c);
	f.size = shfs_cursor_u64(&c);
	if (f.kind > FRAME_DELTA || f.stored > FRAME_STORED_MAX)
		return -EBADMSG;
	if (f.kind == FRAME_RAW && f.size != f.stored)
		return -EBADMSG;
	if (f.kind == FRAME_DELTA) {
		if (n < FRAME_DELTA_BYTES)
			return -EAGAIN;
		shfs_cursor_copy(&c, f.base.hash, 16);
		f.chain_kib = shfs_cursor_u32(&c);
	}
	*out = f;
	return 0;
}

bool frame_is_intact(const unsigned char *bytes, size_t len)
{
	unsigned char check[4];

	put_le(check, check_of(bytes, len), 4);
	return !memcmp(check, bytes + 4, 4);
}

uint64_t pack_prefix(const struct shfs_object_id *id)
{
	uint64_t prefix = 0;

	for (int i = 0; i < 8; i++)
		prefix = prefix << 8 | id->hash[i];
	return prefix;
}

/* --- scanning --- */

/* The intact frame at the begin of n bytes: its length; 0: there is none. */
static size_t whole_frame(const unsigned char *bytes, size_t n, struct frame *f)
{
	size_t len;

	if (n < FRAME_HEAD_BYTES || frame_parse(bytes, n, f))
		return 0;
	len = frame_head_bytes(f->kind) + f->stored;
	return len <= n && frame_is_intact(bytes, len) ? len : 0;
}

/* Where the next intact frame begins in n bytes; n: nowhere. */
static size_t next_frame(const unsigned char *bytes, size_t n, size_t at)
{
	struct frame f;

	while (at + FRAME_HEAD_BYTES <= n) {
		const unsigned char *p =
			memmem(bytes + at, n - at, frame_magic, sizeof(frame_magic));

		if (!p)
			break;
		at = (size_t)(p - bytes);
		if (whole_frame(p, n - at, &f))
			return at;
		at++;
	}
	return n;
}

/*
 * One window of the file that begins at base: calls fn for what is whole in it. Returns
 * how far it was read: the rest, less than the longest frame, may go on behind it.
 */
static int scan_window(const unsigned char *bytes, size_t n, uint64_t base,
                       pack_frame_fn fn, void *arg, size_t *end, size_t *looked)
{
	size_t longest = FRAME_DELTA_BYTES + FRAME_STORED_MAX;
	struct frame f;
	size_t at = 0, len;
	int r;

	if (!base && n >= PACK_HEAD_BYTES && !memcmp(bytes, PACK_MAGIC, PACK_HEAD_BYTES))
		at = *end = PACK_HEAD_BYTES;
	for (;;) {
		len = whole_frame(bytes + at, n - at, &f);
		if (len) {
			r = fn(arg, &f, base + at);
			if (r)
				return r;
			at += len;
			*end = at;
			continue;
		}
		if (n - at < longest)
			break;
		at = next_frame(bytes, n, at + 1);
		if (at == n) { /* one may begin in what is left */
			at = n - longest + 1;
			break;
		}
	}
	*looked = at;
	return 0;
}

/* What cannot be read of a window are zeros in it. */
static ssize_t read_around(int fd, unsigned char *bytes, uint64_t base)
{
	ssize_t done = 0;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	while ((size_t)done < WINDOW_BYTES &&
	       base + (uint64_t)done < (uint64_t)st.st_size) {
		ssize_t n = shfs_pread_full(fd, bytes + done, SECTOR_BYTES,
		                            (off_t)(base + (uint64_t)done));

		if (n < 0 && n != -EIO)
			return n;
		if (n == -EIO) {
			n = (ssize_t)MIN((uint64_t)SECTOR_BYTES,
			                 (uint64_t)st.st_size - base - (uint64_t)done);
			memset(bytes + done, 0, (size_t)n);
		}
		if (!n)
			break;
		done += n;
	}
	return done;
}

int pack_scan(int fd, uint64_t from, pack_frame_fn fn, void *arg, uint64_t *end)
{
	_cleanup_free_ unsigned char *bytes = malloc(WINDOW_BYTES);
	uint64_t base = from;
	int error = 0;

	*end = from;
	if (!bytes)
		return -ENOMEM;
	for (;;) {
		ssize_t n = shfs_pread_full(fd, bytes, WINDOW_BYTES, (off_t)base);
		size_t found = 0, looked = 0;
		int r;

		if (n == -EIO) {
			error = -EIO;
			n = read_around(fd, bytes, base);
		}
		if (n <= 0)
			return n ? (int)n : error;
		r = scan_window(bytes, (size_t)n, base, fn, arg, &found, &looked);
		if (found)
			*end = base + found;
		if (r)
			return r;
		if (looked) {
			base += looked;
			continue;
		}
		/* Nothing whole at its begin: behind that is a whole frame, or the end.
		 */
		looked = next_frame(bytes, (size_t)n, 1);
		if (looked == (size_t)n)
			return error;
		base += looked;
	}
}
