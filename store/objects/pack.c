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
 * delta also the hash of its base (16) and u32 chain_kib; then the stored bytes. A solid
 * frame has the number of its contents in place of the hash; its stored bytes begin with
 * an entry for each: hash (16), nth (a byte), u32 size.
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
	if (f->kind == FRAME_SOLID) {
		memset(p + 8, 0, 16);
		put_le(p + 8, f->n_members, 4);
	} else {
		memcpy(p + 8, f->id.hash, 16);
	}
	p[24] = (unsigned char)f->kind;
	p[25] = f->kind == FRAME_SOLID ? 0 : (unsigned char)f->id.nth;
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

static uint32_t get_u32(const unsigned char *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int parse_solid(struct frame *f, const unsigned char *bytes, struct frame *out)
{
	f->n_members = get_u32(bytes + 8);
	f->id = (struct shfs_object_id){ 0 };
	f->base = (struct shfs_object_id){ 0 };
	f->depth = 0;
	f->solid_bytes = (uint32_t)MIN(f->size, (uint64_t)UINT32_MAX);
	if (!f->n_members || f->n_members > SOLID_CONTENTS_MAX ||
	    f->size > SOLID_BYTES_MAX || f->n_members * FRAME_MEMBER_BYTES > f->stored)
		return -EBADMSG;
	*out = *f;
	return 0;
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
	if (f.kind > FRAME_SOLID || f.stored > FRAME_STORED_MAX)
		return -EBADMSG;
	if (f.kind == FRAME_SOLID)
		return parse_solid(&f, bytes, out);
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
	struct frame f;

	put_le(check, check_of(bytes, len), 4);
	if (memcmp(check, bytes + 4, 4))
		return false;
	return bytes[24] != FRAME_SOLID ||
	       (!frame_parse(bytes, len, &f) && frame_members_agree(&f, bytes));
}

/* --- solid frames --- */

void frame_put_member(unsigned char *bytes, unsigned member,
                      const struct shfs_object_id *id, uint32_t len)
{
	unsigned char *p = bytes + FRAME_HEAD_BYTES + (size_t)member * FRAME_MEMBER_BYTES;

	memcpy(p, id->hash, 16);
	p[16] = (unsigned char)id->nth;
	put_le(p + 17, len, 4);
}

void frame_next_member(const unsigned char *bytes, unsigned member, struct frame *f)
{
	const unsigned char *p =
		bytes + FRAME_HEAD_BYTES + (size_t)member * FRAME_MEMBER_BYTES;

	f->at = member ? f->at + (uint32_t)f->size : 0;
	f->member = member;
	memcpy(f->id.hash, p, 16);
	f->id.nth = p[16];
	f->size = get_u32(p + 17);
}

bool frame_members_agree(const struct frame *f, const unsigned char *bytes)
{
	struct frame m = *f;
	uint64_t sum = 0;

	for (unsigned i = 0; i < f->n_members; i++) {
		frame_next_member(bytes, i, &m);
		sum += m.size;
	}
	return sum == f->solid_bytes;
}

int frame_each(const struct frame *f, const unsigned char *bytes, pack_frame_fn fn,
               void *arg, uint64_t offset)
{
	struct frame m = *f;
	int r = 0;

	if (f->kind != FRAME_SOLID)
		return fn(arg, f, offset);
	for (unsigned i = 0; i < f->n_members && !r; i++) {
		frame_next_member(bytes, i, &m);
		r = fn(arg, &m, offset);
	}
	return r;
}

uint64_t frame_share(const struct frame *f)
{
	uint64_t packed;

	if (f->kind != FRAME_SOLID)
		return frame_bytes(f);
	packed = f->stored - (uint64_t)f->n_members * FRAME_MEMBER_BYTES;
	return FRAME_MEMBER_BYTES +
	       (f->solid_bytes ? packed * f->size / f->solid_bytes : 0);
}

unsigned pack_format(const unsigned char bytes[static PACK_HEAD_BYTES])
{
	unsigned format = bytes[7];

	return !memcmp(bytes, PACK_MAGIC, 7) && format >= 1 && format <= 2 ? format : 0;
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

	for (int kind = FRAME_RAW; copy && kind <= FRAME_SOLID; kind++) {
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

static int scan_frames(struct scan_frames *s, pack_bytes_fn fn, void *arg, uint64_t *end)
{
	struct frame f;
	size_t len;
	int r;

	do {
		r = scan_read(s);
		if (!r && !s->base && s->n >= PACK_HEAD_BYTES && pack_format(s->bytes))
			*end = s->at = PACK_HEAD_BYTES;
		while (!r && (len = scan_find(s, &f))) {
			r = fn(arg, &f, s->bytes + s->at, s->base + s->at);
			if (r)
				break;
			s->at += len;
			*end = s->base + s->at;
		}
	} while (!r && !s->last);
	return r;
}

int pack_scan_frames(int fd, uint64_t from, pack_bytes_fn fn, void *arg, uint64_t *end)
{
	struct scan_frames s = { .fd = fd, .from = from, .base = from };
	int r;

	*end = from;
	r = scan_frames(&s, fn, arg, end);
	free(s.bytes);
	return r ? r : s.unreadable ? -EIO : 0;
}

struct scan_contents {
	pack_frame_fn fn;
	void *arg;
};

static int scan_contents(void *arg, const struct frame *f, const unsigned char *bytes,
                         uint64_t offset)
{
	const struct scan_contents *c = arg;

	return frame_each(f, bytes, c->fn, c->arg, offset);
}

int pack_scan(int fd, uint64_t from, pack_frame_fn fn, void *arg, uint64_t *end)
{
	struct scan_contents c = { fn, arg };

	return pack_scan_frames(fd, from, scan_contents, &c, end);
}
