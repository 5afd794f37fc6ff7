/* SPDX-License-Identifier: MIT */
#include "store/objects/pack.h"

#include "common/io.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define WINDOW_FIRST (16u << 10) /* bytes that are read at once: first, and at most */
#define WINDOW_BYTES (4u << 20)  /* more than the longest frame */
#define SECTOR_BYTES 4096u       /* around one that cannot be read */

/* The most bytes that are hashed in vain: VAIN_FIRST, and VAIN_EACH for each byte
 * scanned. Bytes that look like a head by accident need far fewer. */
#define VAIN_FIRST (4u << 20)
#define VAIN_EACH  4u

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

/* --- bytes that are no frame --- */

/* Would these bytes be a frame if their head were intact? */
static bool is_frame_but_for_its_head(const unsigned char *p, size_t n)
{
	_cleanup_free_ unsigned char *copy = malloc(n + 1);

	for (int kind = FRAME_RAW; copy && kind <= FRAME_DELTA; kind++) {
		uint32_t stored = (uint32_t)(n - frame_head_bytes(kind));

		if (n < frame_head_bytes(kind))
			continue;
		memcpy(copy, p, n);
		copy[24] = (unsigned char)kind;
		for (int i = 0; i < 4; i++)
			copy[28 + i] = (unsigned char)(stored >> 8 * i);
		if (frame_is_intact(copy, n))
			return true;
	}
	return false;
}

bool pack_is_torn(const unsigned char *p, size_t n, bool at_end)
{
	struct frame f;
	size_t len;
	int r;

	if (shfs_is_zero(p, n))
		return true;
	if (memcmp(p, "\xd5shf", MIN(n, (size_t)4)))
		return false;
	if (n < FRAME_HEAD_BYTES)
		return true;
	r = frame_parse(p, n, &f);
	if (r)
		return r == -EAGAIN;
	len = frame_head_bytes(f.kind) + f.stored;
	if (len > n)
		return !is_frame_but_for_its_head(p, n);
	/* after a power cut the file may have its length, but not its bytes */
	return at_end && f.kind != FRAME_RAW && f.stored >= 16 &&
	       shfs_is_zero(p + len - 16, 16);
}

/* --- scanning --- */

ssize_t pack_read_around(int fd, unsigned char *bytes, size_t len, uint64_t offset)
{
	size_t done = 0;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	while (done < len && offset + done < (uint64_t)st.st_size) {
		size_t want = MIN((size_t)SECTOR_BYTES, len - done);
		off_t at = (off_t)(offset + done);
		ssize_t n = shfs_pread_full(fd, bytes + done, want, at);

		if (n < 0 && n != -EIO)
			return n;
		if (n == -EIO) {
			n = (ssize_t)MIN((uint64_t)want, (uint64_t)(st.st_size - at));
			memset(bytes + done, 0, (size_t)n);
		}
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

struct scan_frames {
	int fd;
	unsigned char *bytes;
	size_t room, n, at; /* n bytes of the file from base on; done up to at */
	uint64_t from, base;
	uint64_t vain; /* bytes hashed in vain */
	bool last;     /* the file ends with them */
	bool unreadable;
};

/* Moves the bytes that are not done to the front, and reads on behind them. */
static int scan_read(struct scan_frames *s)
{
	size_t room = s->room ? MIN(s->room * 4, (size_t)WINDOW_BYTES) : WINDOW_FIRST;
	unsigned char *bytes = room == s->room ? s->bytes : realloc(s->bytes, room);
	ssize_t n;

	if (!bytes)
		return -ENOMEM;
	s->bytes = bytes;
	s->room = room;
	s->base += s->at;
	s->at = 0;
	n = shfs_pread_full(s->fd, bytes, room, (off_t)s->base);
	if (n == -EIO) {
		s->unreadable = true;
		n = pack_read_around(s->fd, bytes, room, s->base);
	}
	s->n = (size_t)MAX(n, (ssize_t)0);
	s->last = s->n < room;
	return (int)MIN(n, (ssize_t)0);
}

/* Is this an intact frame? A pack filled with forged heads must not keep us busy. */
static bool scan_believes(struct scan_frames *s, size_t len)
{
	uint64_t passed = s->base + s->at - s->from;

	if (s->vain + len > VAIN_FIRST + VAIN_EACH * passed)
		return false;
	if (frame_is_intact(s->bytes + s->at, len))
		return true;
	s->vain += len;
	return false;
}

/* Moves to the next intact frame. Returns its length; 0: there is none in the bytes that
 * were read. */
static size_t scan_find(struct scan_frames *s, struct frame *f)
{
	for (;; s->at++) {
		const unsigned char *p = memmem(s->bytes + s->at, s->n - s->at,
		                                frame_magic, sizeof(frame_magic));
		size_t left, len;
		int r;

		if (!p) {
			s->at = s->n - MIN(s->n - s->at, sizeof(frame_magic) - 1);
			return 0;
		}
		s->at = (size_t)(p - s->bytes);
		left = s->n - s->at;
		r = left < FRAME_HEAD_BYTES ? -EAGAIN : frame_parse(p, left, f);
		len = r ? 0 : frame_head_bytes(f->kind) + f->stored;
		if (!s->last && (r == -EAGAIN || len > left))
			return 0;
		if (!r && len <= left && scan_believes(s, len))
			return len;
	}
}

static int scan_frames(struct scan_frames *s, pack_frame_fn fn, void *arg, uint64_t *end)
{
	struct frame f;
	size_t len;
	int r;

	do {
		r = scan_read(s);
		if (!r && !s->base && s->n >= PACK_HEAD_BYTES &&
		    !memcmp(s->bytes, PACK_MAGIC, PACK_HEAD_BYTES))
			*end = s->at = PACK_HEAD_BYTES;
		while (!r && (len = scan_find(s, &f))) {
			r = fn(arg, &f, s->base + s->at);
			if (r)
				break;
			s->at += len;
			*end = s->base + s->at;
		}
	} while (!r && !s->last);
	return r;
}

int pack_scan(int fd, uint64_t from, pack_frame_fn fn, void *arg, uint64_t *end)
{
	struct scan_frames s = { .fd = fd, .from = from, .base = from };
	int r;

	*end = from;
	r = scan_frames(&s, fn, arg, end);
	free(s.bytes);
	return r ? r : s.unreadable ? -EIO : 0;
}
