/* SPDX-License-Identifier: MIT */
/* The reading half of journal.h: segments come from anywhere, so nothing in them is
 * believed. */
#include "common/io.h"
#include "store/frame.h"
#include "store/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

#define READ_BYTES (256 << 10)

struct shfs_segment {
	int fd;                 /* of a plain file; -1: all bytes are in window */
	struct shfs_buf window; /* bytes of the segment from offset base on */
	uint64_t base, pos; /* offsets in the segment: of the window, of the next frame */
	uint64_t damaged;
	struct shfs_buf producer_payload;
	struct shfs_rec_producer producer;
};

const struct shfs_rec_producer *shfs_segment_producer(const struct shfs_segment *s)
{
	return &s->producer;
}

uint64_t shfs_segment_offset(const struct shfs_segment *s)
{
	return s->pos;
}

uint64_t shfs_segment_damaged(const struct shfs_segment *s)
{
	return s->damaged;
}

void shfs_segment_close(struct shfs_segment *s)
{
	if (!s)
		return;
	shfs_closep(&s->fd);
	shfs_buf_free(&s->window);
	shfs_buf_free(&s->producer_payload);
	free(s);
}

/*
 * Makes at least need bytes from pos on available in the window, as far as the file has
 * them. Returns how many there are.
 */
static ssize_t fill(struct shfs_segment *s, size_t need)
{
	struct shfs_buf *w = &s->window;
	size_t skip = s->pos - s->base;

	if (skip <= w->len && w->len - skip >= need)
		return w->len - skip;
	if (s->fd >= 0) {
		size_t want = MAX(need, (size_t)READ_BYTES), have;
		struct shfs_buf fresh = { 0 };
		char *chunk;
		ssize_t n;

		skip = MIN(skip, w->len);
		have = w->len - skip;
		chunk = malloc(want);
		if (!chunk)
			return -ENOMEM;
		n = shfs_pread_full(s->fd, chunk, want - have, s->pos + have);
		if (n > 0 || have)
			shfs_buf_add(&fresh, w->data + skip, have);
		if (n > 0)
			shfs_buf_add(&fresh, chunk, n);
		free(chunk);
		if (n < 0 || fresh.failed) {
			shfs_buf_free(&fresh);
			return n < 0 ? n : -ENOMEM;
		}
		shfs_buf_free(w);
		*w = fresh;
		s->base = s->pos;
		return w->len;
	}
	return skip <= w->len ? w->len - skip : 0;
}

static const unsigned char *at_pos(const struct shfs_segment *s)
{
	return (const unsigned char *)s->window.data + (s->pos - s->base);
}

/*
 * Looks at the frame at pos. 1: whole and right (*len is its length); 0: the file ends
 * before it does; -EBADMSG: not a frame.
 */
static int check_frame(struct shfs_segment *s, size_t *len)
{
	ssize_t have = fill(s, SHFS_FRAME_HEAD);
	struct shfs_cursor c;
	uint32_t magic, payload;
	uint64_t sum;

	if (have < SHFS_FRAME_HEAD)
		return have < 0 ? have : 0;
	c = (struct shfs_cursor){ at_pos(s), at_pos(s) + SHFS_FRAME_HEAD, false };
	magic = shfs_cursor_u32(&c);
	payload = shfs_cursor_u32(&c);
	if (magic != SHFS_FRAME_MAGIC || payload > SHFS_PAYLOAD_MAX)
		return -EBADMSG;
	*len = SHFS_FRAME_HEAD + payload + SHFS_FRAME_TAIL;
	have = fill(s, *len);
	if (have < 0)
		return have;
	if ((size_t)have < *len)
		return 0;
	c = (struct shfs_cursor){ at_pos(s) + *len - SHFS_FRAME_TAIL, at_pos(s) + *len,
		                  false };
	sum = shfs_cursor_u64(&c);
	return XXH3_64bits(at_pos(s), *len - SHFS_FRAME_TAIL) == sum ? 1 : -EBADMSG;
}

/*
 * pos is at a right frame, start at what was none: skips what is between them. But that
 * may have been a frame that was still being written, and by now both are there.
 */
static int skip_damage(struct shfs_segment *s, uint64_t start, size_t *len)
{
	uint64_t right = s->pos;
	int r;

	s->pos = start;
	r = check_frame(s, len);
	if (r && r != -EBADMSG)
		return r;
	s->pos = right;
	r = check_frame(s, len);
	if (r == 1)
		s->damaged += right - start;
	else
		s->pos = start;
	return r == -EBADMSG ? 0 : r;
}

/* Moves pos to the next frame that proves right; 0 where there is none (pos is then
 * unchanged, as the rest may still be being written). */
static int resync(struct shfs_segment *s, size_t *len)
{
	uint64_t start = s->pos;
	ssize_t have;

	for (s->pos++; (have = fill(s, SHFS_FRAME_HEAD)) >= SHFS_FRAME_HEAD; s->pos++) {
		const unsigned char *hit =
			memchr(at_pos(s), SHFS_FRAME_MAGIC & 0xff, have);
		int r;

		if (!hit) {
			s->pos += have - 1;
			continue;
		}
		s->pos += hit - at_pos(s);
		r = check_frame(s, len);
		if (r == 1)
			return skip_damage(s, start, len);
		if (r < 0 && r != -EBADMSG)
			return r;
	}
	s->pos = start;
	return have < 0 ? have : 0;
}

static int parse_frame(struct shfs_segment *s, size_t len, struct shfs_record *rec)
{
	struct shfs_cursor c = { at_pos(s), at_pos(s) + len, false };

	c.p += 8;
	*rec = (struct shfs_record){ .type = shfs_cursor_u16(&c),
		                     .boot_resolution_ns = 1 };
	shfs_cursor_u16(&c);
	rec->seq = shfs_cursor_u64(&c);
	rec->time.real_ns = shfs_cursor_u64(&c);
	rec->time.boot_ns = shfs_cursor_u64(&c);
	return shfs_record_decode(c.p, len - SHFS_FRAME_HEAD - SHFS_FRAME_TAIL, rec);
}

/* What is behind the last frame of a segment that is complete is damage. */
static void skip_rest(struct shfs_segment *s)
{
	uint64_t end = s->base + s->window.len;

	if (s->fd >= 0 || s->pos >= end)
		return;
	s->damaged += end - s->pos;
	s->pos = end;
}

int shfs_segment_next(struct shfs_segment *s, struct shfs_record *rec)
{
	for (;;) {
		size_t len = 0;
		int r = check_frame(s, &len);

		/*
		 * Not whole yet, or its length is damaged: a right frame behind it tells.
		 */
		if (r == -EBADMSG || !r)
			r = resync(s, &len);
		if (!r)
			skip_rest(s);
		if (r <= 0)
			return r;
		r = parse_frame(s, len, rec);
		s->pos += len;
		if (!r)
			return 1;
		if (r == -EBADMSG)
			s->damaged += len;
		else if (r != -ENOTSUP)
			return r;
	}
}

/* The first record says who writes; its strings are kept, as the window moves on. */
static int read_producer(struct shfs_segment *s)
{
	struct shfs_record rec;
	size_t len = 0, payload;
	ssize_t have = fill(s, SHFS_SEGMENT_MAGIC_LEN);
	int r;

	if (have < SHFS_SEGMENT_MAGIC_LEN)
		return have < 0 ? have : -EBADMSG;
	if (memcmp(at_pos(s), SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN))
		return memcmp(at_pos(s), SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN - 1)
		               ? -EBADMSG
		               : -EPROTONOSUPPORT;
	s->pos = SHFS_SEGMENT_MAGIC_LEN;
	r = check_frame(s, &len);
	if (r <= 0)
		return r ? r : -EBADMSG;
	payload = len - SHFS_FRAME_HEAD - SHFS_FRAME_TAIL;
	shfs_buf_add(&s->producer_payload, at_pos(s) + SHFS_FRAME_HEAD, payload);
	if (s->producer_payload.failed)
		return -ENOMEM;
	if (parse_frame(s, len, &rec) || rec.type != SHFS_REC_PRODUCER ||
	    shfs_record_decode(s->producer_payload.data, payload, &rec))
		return -EBADMSG;
	if (rec.producer.version > SHFS_RECORD_VERSION)
		return -EPROTONOSUPPORT;
	s->producer = rec.producer;
	return 0;
}

static struct shfs_segment *segment_new(void)
{
	struct shfs_segment *s = calloc(1, sizeof(*s));

	if (s)
		s->fd = -1;
	return s;
}

static int finish_open(struct shfs_segment *s, uint64_t offset, struct shfs_segment **out)
{
	int r = read_producer(s);

	if (r) {
		shfs_segment_close(s);
		return r;
	}
	s->pos = MAX(offset, (uint64_t)SHFS_SEGMENT_MAGIC_LEN);
	if (s->fd >= 0) { /* the window must hold pos */
		shfs_buf_free(&s->window);
		s->base = s->pos;
	} else {
		s->pos = MIN(s->pos, (uint64_t)s->window.len);
	}
	*out = s;
	return 0;
}

int shfs_segment_from_memory(const void *data, size_t len, struct shfs_segment **out)
{
	struct shfs_segment *s = segment_new();

	if (!s)
		return -ENOMEM;
	shfs_buf_add(&s->window, data, len);
	if (s->window.failed) {
		shfs_segment_close(s);
		return -ENOMEM;
	}
	return finish_open(s, 0, out);
}

/* Streams, so that a small file that claims to be a huge one is found out in time. */
static int unpack(int fd, struct shfs_buf *out)
{
	ZSTD_DStream *ds = ZSTD_createDStream();
	size_t in_cap = ZSTD_DStreamInSize(), out_cap = ZSTD_DStreamOutSize(), left = 1;
	_cleanup_free_ char *in = malloc(in_cap), *part = malloc(out_cap);
	int r = ds && in && part ? 0 : -ENOMEM;
	off_t off = 0;

	while (!r) {
		ssize_t n = shfs_pread_full(fd, in, in_cap, off);
		ZSTD_inBuffer src = { in, MAX(n, 0), 0 };

		if (n <=
		    0) { /* ends in the middle of a frame: what there is still counts */
			r = n;
			break;
		}
		off += n;
		while (!r && src.pos < src.size) {
			ZSTD_outBuffer dst = { part, out_cap, 0 };

			left = ZSTD_decompressStream(ds, &dst, &src);
			if (ZSTD_isError(left))
				r = -EBADMSG;
			shfs_buf_add(out, part, dst.pos);
			if (out->len > SHFS_SEGMENT_MAX || out->failed)
				r = out->failed ? -ENOMEM : -EFBIG;
		}
	}
	ZSTD_freeDStream(ds);
	return r == -EBADMSG && out->len ? 0 : r;
}

static int open_sealed(int fd, uint64_t offset, struct shfs_segment **out)
{
	struct shfs_segment *s = segment_new();
	int r;

	if (!s)
		return -ENOMEM;
	r = unpack(fd, &s->window);
	if (r) {
		shfs_segment_close(s);
		return r;
	}
	return finish_open(s, offset, out);
}

int shfs_segment_open(int dirfd, const char *name, uint64_t offset,
                      struct shfs_segment **out)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct shfs_segment *s;
	char sealed[300];

	if (fd < 0 && errno != ENOENT)
		return -errno;
	if (fd < 0) { /* sealed meanwhile */
		snprintf(sealed, sizeof(sealed), "%s.zst", name);
		fd = openat(dirfd, sealed, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		return fd < 0 ? -errno : open_sealed(fd, offset, out);
	}
	s = segment_new();
	if (!s)
		return -ENOMEM;
	s->fd = TAKE_FD(fd);
	return finish_open(s, offset, out);
}

/* --- the walk --- */

struct name_list {
	char **names;
	size_t n, cap;
};

static void name_list_free(struct name_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->names[i]);
	free(l->names);
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static int name_list_add(struct name_list *l, const char *name)
{
	char *copy = strdup(name);

	if (l->n == l->cap) {
		size_t cap = MAX(l->cap * 2, (size_t)32);
		char **names = reallocarray(l->names, cap, sizeof(*names));

		if (!names) {
			free(copy);
			return -ENOMEM;
		}
		l->names = names;
		l->cap = cap;
	}
	if (!copy)
		return -ENOMEM;
	l->names[l->n++] = copy;
	return 0;
}

/* wanted: which names; NULL: all. */
static int list_dir(int dirfd, bool (*wanted)(const char *name, int kinds), int kinds,
                    struct name_list *out)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (!r && (e = readdir(d)))
		if (e->d_name[0] != '.' && (!wanted || wanted(e->d_name, kinds)))
			r = name_list_add(out, e->d_name);
	closedir(d);
	if (!r && out->n)
		qsort(out->names, out->n, sizeof(*out->names), name_cmp);
	return r;
}

typedef int (*visit_fn)(const struct shfs_journal_file *file, void *arg);

static int visit_name(const char *host, int dirfd, char *name, const char *next,
                      visit_fn visit, void *arg)
{
	struct shfs_journal_file f = { .host = host, .name = name, .dirfd = dirfd };
	struct stat st;

	f.hook_log = ends_with(name, ".log");
	f.sealed = ends_with(name, ".seg.zst");
	if (!f.hook_log && !f.sealed && !ends_with(name, ".seg"))
		return 0;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return 0;
	/* Between the rename and the unlink of a seal both are there: one visit is
	 * enough. */
	if (next && !strncmp(next, name, strlen(name)) &&
	    !strcmp(next + strlen(name), ".zst"))
		return 0;
	if (f.sealed)
		name[strlen(name) - 4] = '\0';
	f.size_bytes = f.sealed ? UINT64_MAX : (uint64_t)st.st_size;
	return visit(&f, arg);
}

static bool is_of_kind(const char *name, int kinds)
{
	bool log = ends_with(name, ".log");

	return kinds & (log ? SHFS_JOURNAL_HOOK_LOGS : SHFS_JOURNAL_SEGMENTS);
}

static int walk_host(const char *host, int dirfd, enum shfs_journal_kinds kinds,
                     visit_fn visit, void *arg)
{
	_cleanup_(name_list_free) struct name_list l = { 0 };
	int r = list_dir(dirfd, is_of_kind, kinds, &l);

	for (size_t i = 0; !r && i < l.n; i++)
		r = visit_name(host, dirfd, l.names[i],
		               i + 1 < l.n ? l.names[i + 1] : NULL, visit, arg);
	return r;
}

int shfs_journal_walk(struct shfs_store *store, enum shfs_journal_kinds kinds,
                      visit_fn visit, void *arg)
{
	_cleanup_close_ int journal =
		openat(store->dirfd, "journal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(name_list_free) struct name_list hosts = { 0 };
	int r;

	if (journal < 0)
		return errno == ENOENT ? 0 : -errno;
	r = list_dir(journal, NULL, 0, &hosts);
	for (size_t i = 0; !r && i < hosts.n; i++) {
		_cleanup_close_ int fd =
			openat(journal, hosts.names[i],
		               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0)
			r = walk_host(hosts.names[i], fd, kinds, visit, arg);
	}
	return r;
}
