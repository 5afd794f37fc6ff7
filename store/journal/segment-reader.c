/* SPDX-License-Identifier: MIT */
/* The reading half of journal.h: a segment may come from anywhere, so nothing in it is
 * trusted. */
#include "common/debug.h"
#include "common/io.h"
#include "store/journal/frame.h"
#include "store/journal/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

#define READ_BYTES (256 << 10)

/* The most bytes of invalid frames that are read: VAIN_FIRST, and VAIN_EACH for each byte
 * of the segment before pos. Real damage needs far fewer. */
#define VAIN_FIRST (256u << 20)
#define VAIN_EACH  16u

struct shfs_segment {
	int fd; /* -1: all bytes are in window */

	/* of a sealed segment */
	ZSTD_DStream *unpacker;
	unsigned char *packed;
	ZSTD_inBuffer in; /* into packed */
	uint64_t packed_offset;
	bool ended; /* nothing follows the bytes in window */
	bool whole; /* the compressed stream ended where it should */

	unsigned char *window; /* bytes of the segment from offset base on */
	size_t len, cap;
	uint64_t base, pos; /* offsets in the segment: of the window, of the next frame */
	uint64_t resume;    /* records that end up to here were read before */
	uint64_t vain;      /* bytes read that were no valid frame */
	uint64_t damaged;
	void (*on_damage)(void *arg, uint64_t from, uint64_t to); /* or NULL */
	void *on_damage_arg;

	struct shfs_cursor batch; /* the rest of the batch in the frame at pos */
	size_t frame_len;
	struct shfs_record_context context;

	struct shfs_buf producer_payload;
	struct shfs_rec_producer producer;
};

const struct shfs_rec_producer *shfs_segment_producer(const struct shfs_segment *s)
{
	return &s->producer;
}

/* Returns the offset of the next record of the batch. */
static uint64_t batch_offset(const struct shfs_segment *s)
{
	shfs_assert(s->batch.p <= s->batch.end);
	return s->pos + s->frame_len - SHFS_FRAME_TAIL - (s->batch.end - s->batch.p);
}

uint64_t shfs_segment_offset(const struct shfs_segment *s)
{
	return s->batch.p == s->batch.end ? s->pos : batch_offset(s);
}

uint64_t shfs_segment_damaged(const struct shfs_segment *s)
{
	return s->damaged;
}

void shfs_segment_on_damage(struct shfs_segment *s,
                            void (*fn)(void *arg, uint64_t from, uint64_t to), void *arg)
{
	s->on_damage = fn;
	s->on_damage_arg = arg;
}

void shfs_segment_close(struct shfs_segment *s)
{
	if (!s)
		return;
	shfs_closep(&s->fd);
	ZSTD_freeDStream(s->unpacker);
	free(s->packed);
	free(s->window);
	shfs_record_context_free(&s->context);
	shfs_buf_free(&s->producer_payload);
	free(s);
}

/* --- bytes --- */

/* Makes room for need bytes from pos on; bytes before pos are dropped. */
static int make_window_room(struct shfs_segment *s, size_t need)
{
	size_t skip = MIN(s->pos - s->base, (uint64_t)s->len);
	size_t cap = MAX(need, (size_t)READ_BYTES);

	s->len -= skip;
	s->base += skip;
	shfs_assert(s->len <= s->cap || s->fd < 0);
	if (skip && s->len)
		memmove(s->window, s->window + skip, s->len);
	if (cap > s->cap) {
		unsigned char *window = realloc(s->window, cap);

		if (!window)
			return -ENOMEM;
		s->window = window;
		s->cap = cap;
	}
	return 0;
}

/* Reads the bytes that follow the window into it. */
static int read_plain(struct shfs_segment *s)
{
	ssize_t n;

	shfs_assert(s->len < s->cap); /* otherwise the file would seem to end */
	n = shfs_pread_full(s->fd, s->window + s->len, s->cap - s->len, s->base + s->len);
	if (n > 0)
		s->len += n;
	return MIN(n, 0);
}

/*
 * Reads the bytes of a sealed segment that follow the window. The segment ends where it
 * is cut short or damaged, or larger than a segment may be.
 */
static int unpack_into_window(struct shfs_segment *s)
{
	ZSTD_outBuffer out = { s->window, s->cap, s->len };
	size_t left;
	ssize_t n;

	while (!s->ended && out.pos < out.size) {
		if (s->in.pos == s->in.size) {
			n = shfs_pread_full(s->fd, s->packed, ZSTD_DStreamInSize(),
			                    s->packed_offset);
			if (n < 0)
				return n;
			s->packed_offset += n;
			s->in = (ZSTD_inBuffer){ s->packed, n, 0 };
			s->ended = !n;
			if (!n)
				break;
		}
		left = ZSTD_decompressStream(s->unpacker, &out, &s->in);
		s->ended = ZSTD_isError(left);
		s->whole = !left;
	}
	s->len = out.pos;
	if (s->base + s->len > SHFS_SEGMENT_MAX)
		s->ended = true;
	return 0;
}

/* Reads a sealed segment up to pos, as it can be unpacked only in order. */
static int skip_sealed(struct shfs_segment *s)
{
	int r = 0;

	while (!r && !s->ended && s->pos > s->base + s->len) {
		shfs_assert(s->cap); /* otherwise this never ends */
		s->base += s->len;
		s->len = 0;
		r = unpack_into_window(s);
	}
	return r;
}

static size_t available(const struct shfs_segment *s)
{
	uint64_t end = s->base + s->len;

	return s->pos < end ? end - s->pos : 0;
}

/*
 * Makes at least need bytes from pos on available in the window, as far as the file has
 * them. Returns how many there are.
 */
static ssize_t fill_window(struct shfs_segment *s, size_t need)
{
	int r = 0;

	if (s->fd >= 0 && !s->unpacker &&
	    (s->pos < s->base || s->pos > s->base + s->len)) {
		s->base = s->pos;
		s->len = 0;
	}
	if (available(s) >= need || s->fd < 0)
		return available(s);
	if (s->unpacker)
		r = skip_sealed(s);
	if (!r && !s->ended)
		r = make_window_room(s, need);
	if (!r)
		r = s->unpacker ? unpack_into_window(s) : read_plain(s);
	return r ? r : (ssize_t)available(s);
}

static const unsigned char *at_pos(const struct shfs_segment *s)
{
	shfs_assert(s->pos >= s->base && s->pos - s->base <= s->len);
	return s->window + (s->pos - s->base);
}

/* Can nothing be appended to the segment any more? */
static bool is_complete(const struct shfs_segment *s)
{
	return s->fd < 0 || s->unpacker;
}

/* --- frames --- */

/* Reads the length of the frame at pos from its head: 1; 0: the file ends; -EBADMSG. */
static int frame_length(struct shfs_segment *s, size_t *len)
{
	ssize_t have = fill_window(s, SHFS_FRAME_HEAD);
	struct shfs_cursor c;
	uint32_t magic, payload;

	if (have < SHFS_FRAME_HEAD)
		return have < 0 ? have : 0;
	c = (struct shfs_cursor){ at_pos(s), at_pos(s) + SHFS_FRAME_HEAD, false };
	magic = shfs_cursor_u32(&c);
	payload = shfs_cursor_u32(&c);
	if (magic != SHFS_FRAME_MAGIC || payload > SHFS_PAYLOAD_MAX)
		return -EBADMSG;
	*len = SHFS_FRAME_HEAD + payload + SHFS_FRAME_TAIL;
	return 1;
}

/*
 * Checks the frame at pos. 1: it is whole and valid (*len is its length); 0: the file
 * ends before it does; -EBADMSG: it is not a frame, or too many bytes were checked in
 * vain: a segment filled with forged heads must not keep us busy.
 */
static int check_frame(struct shfs_segment *s, size_t *len)
{
	int r = frame_length(s, len);
	struct shfs_cursor c;
	ssize_t have;

	if (r <= 0)
		return r;
	if (s->vain + *len > VAIN_FIRST + VAIN_EACH * s->pos)
		return -EBADMSG;
	have = fill_window(s, *len);
	if (have < 0)
		return have;
	if ((size_t)have < *len) {
		s->vain += (size_t)have;
		return 0;
	}
	c = (struct shfs_cursor){ at_pos(s) + *len - SHFS_FRAME_TAIL, at_pos(s) + *len,
		                  false };
	if (XXH3_64bits(at_pos(s), *len - SHFS_FRAME_TAIL) == shfs_cursor_u64(&c))
		return 1;
	s->vain += *len;
	return -EBADMSG;
}

static void count_damage(struct shfs_segment *s, uint64_t from, uint64_t to)
{
	from = MAX(from, s->resume);
	if (to <= from)
		return;
	s->damaged += to - from;
	shfs_debug(JOURNAL, "byte %" PRIu64 " to %" PRIu64 " of a segment are damaged",
	           from, to - 1);
	if (s->on_damage)
		s->on_damage(s->on_damage_arg, from, to);
}

/*
 * Skips from start, where no valid frame was, to pos, where one is. Looks at start again
 * before: the frame there may have been completed meanwhile, by the write that also
 * appended the one at pos.
 */
static int skip_damage(struct shfs_segment *s, uint64_t start, size_t *len)
{
	uint64_t right = s->pos, vain = s->vain;
	int r;

	shfs_assert(start < right);
	if (!is_complete(s)) {
		s->pos = start;
		r = check_frame(s, len);
		if (r && r != -EBADMSG)
			return r;
		s->pos = right;
		s->vain = vain;
	}
	r = check_frame(s, len);
	if (r == 1)
		count_damage(s, start, right);
	else
		s->pos = start;
	return r == -EBADMSG ? 0 : r;
}

/* Moves pos to the next valid frame: 1. 0: there is none; pos is then unchanged, as the
 * rest may still be being written. */
static int resync(struct shfs_segment *s, size_t *len)
{
	uint64_t start = s->pos;
	ssize_t have;

	for (s->pos++; (have = fill_window(s, SHFS_FRAME_HEAD)) >= SHFS_FRAME_HEAD;
	     s->pos++) {
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
	if (have < 0)
		return have;
	if (is_complete(s)) { /* bytes behind its last frame are damage */
		s->pos = s->base + s->len;
		count_damage(s, start, s->pos);
	} else {
		s->pos = start;
	}
	return 0;
}

/* --- the end --- */

/* Would these bytes be a valid frame if their head were intact? */
static bool is_right_but_for_its_head(const struct shfs_segment *s,
                                      const unsigned char *bytes, size_t len)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_cursor sum = { bytes + len - SHFS_FRAME_TAIL, bytes + len, false };

	if (len < SHFS_FRAME_HEAD + SHFS_FRAME_TAIL)
		return false;
	shfs_buf_u32(&b, SHFS_FRAME_MAGIC);
	shfs_buf_u32(&b, (uint32_t)(len - SHFS_FRAME_HEAD - SHFS_FRAME_TAIL));
	shfs_buf_add(&b, bytes + 8, len - 8 - SHFS_FRAME_TAIL);
	return !b.failed && XXH3_64bits(b.data, b.len) == shfs_cursor_u64(&sum);
}

/*
 * Is this what a write that was cut short leaves? That is the first bytes of a frame, or
 * its full length with some bytes missing: then its checksum, which comes last, is zero.
 */
static bool is_torn(struct shfs_segment *s, const unsigned char *p, size_t have)
{
	static const uint32_t magic = SHFS_FRAME_MAGIC;
	size_t len = 0;
	int r;

	if (shfs_is_zero(p, have))
		return true;
	if (have < SHFS_FRAME_HEAD)
		return !memcmp(p, &magic, MIN(have, sizeof(magic)));
	r = frame_length(s, &len);
	if (r != 1)
		return false;
	if (len > have)
		return !is_right_but_for_its_head(s, p, have);
	return shfs_is_zero(p + len - SHFS_FRAME_TAIL, SHFS_FRAME_TAIL);
}

int shfs_segment_tail(struct shfs_segment *s, uint64_t *bytes)
{
	ssize_t have;

	*bytes = 0;
	if (is_complete(s))
		return s->whole || s->fd < 0 ? SHFS_TAIL_NONE : SHFS_TAIL_DAMAGED;
	have = fill_window(s, SHFS_FRAME_HEAD + SHFS_PAYLOAD_MAX + SHFS_FRAME_TAIL);
	if (have <= 0)
		return (int)have;
	*bytes = (uint64_t)have;
	return is_torn(s, at_pos(s), (size_t)have) ? SHFS_TAIL_TORN : SHFS_TAIL_DAMAGED;
}

/* --- records --- */

static void begin_batch(struct shfs_segment *s, size_t len)
{
	shfs_assert(s->batch.p == s->batch.end); /* no record of the last one is left */
	s->batch = (struct shfs_cursor){ at_pos(s) + SHFS_FRAME_HEAD,
		                         at_pos(s) + len - SHFS_FRAME_TAIL, false };
	shfs_assert(s->batch.p <= s->batch.end);
	s->frame_len = len;
	shfs_record_context_reset(&s->context);
	if (s->batch.p == s->batch.end)
		s->pos += len;
}

static void end_batch(struct shfs_segment *s)
{
	shfs_assert(s->batch.end && s->frame_len >= SHFS_FRAME_HEAD + SHFS_FRAME_TAIL);
	s->batch = (struct shfs_cursor){ 0 };
	s->pos += s->frame_len;
}

/* Unpacks the next record of the batch, with the result of shfs_record_unpack; -EEXIST:
 * it was read before. A record that cannot be unpacked ends the batch. */
static int next_of_batch(struct shfs_segment *s, struct shfs_record *rec)
{
	uint64_t begin = batch_offset(s), end;
	int r = shfs_record_unpack(&s->context, &s->batch, rec);

	end = batch_offset(s);
	if (r == -EBADMSG)
		count_damage(s, begin, s->pos + s->frame_len);
	if (r == -EBADMSG || s->batch.p == s->batch.end)
		end_batch(s);
	return !r && end <= s->resume ? -EEXIST : r;
}

/* Moves pos to the next valid frame. 1: it is there; 0: at the end. */
static int next_frame(struct shfs_segment *s, size_t *len)
{
	uint64_t vain = s->vain;
	int r = check_frame(s, len);

	/* The frame is not whole yet, or its length is damaged. A valid frame behind it
	 * shows the latter. */
	if (r == -EBADMSG || !r)
		r = resync(s, len);
	if (!r) /* the same bytes are checked again once there are more */
		s->vain = vain;
	return r;
}

int shfs_segment_next(struct shfs_segment *s, struct shfs_record *rec)
{
	for (;;) {
		size_t len = 0;
		int r;

		if (s->batch.p < s->batch.end) {
			r = next_of_batch(s, rec);
		} else {
			r = next_frame(s, &len);
			if (r <= 0)
				return r;
			begin_batch(s, len);
			r = s->batch.p < s->batch.end ? next_of_batch(s, rec) : -ENOTSUP;
		}
		if (!r)
			return 1;
		if (r != -EBADMSG && r != -ENOTSUP && r != -EEXIST)
			return r;
	}
}

/* --- opening --- */

static int read_segment_magic(struct shfs_segment *s)
{
	ssize_t have = fill_window(s, SHFS_SEGMENT_MAGIC_LEN);

	if (have < SHFS_SEGMENT_MAGIC_LEN)
		return have < 0 ? have : -EBADMSG;
	if (memcmp(at_pos(s), SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN - 1))
		return -EBADMSG;
	if (memcmp(at_pos(s), SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN))
		return -EPROTONOSUPPORT;
	s->pos = SHFS_SEGMENT_MAGIC_LEN;
	return 0;
}

/* Reads the PRODUCER record; its strings are kept, as the window moves on. */
static int read_producer(struct shfs_segment *s)
{
	struct shfs_record rec = { 0 };
	struct shfs_record_context context = { 0 };
	struct shfs_buf *kept = &s->producer_payload;
	struct shfs_cursor c;
	size_t len = 0;
	int r = check_frame(s, &len);

	if (r <= 0)
		return r ? r : -EBADMSG;
	shfs_buf_add(kept, at_pos(s) + SHFS_FRAME_HEAD,
	             len - SHFS_FRAME_HEAD - SHFS_FRAME_TAIL);
	if (kept->failed)
		return -ENOMEM;
	c = (struct shfs_cursor){ (unsigned char *)kept->data,
		                  (unsigned char *)kept->data + kept->len, false };
	r = shfs_record_unpack(&context, &c, &rec);
	shfs_record_context_free(&context);
	if (r == -ENOMEM)
		return r;
	if (r || rec.type != SHFS_REC_PRODUCER)
		return -EBADMSG;
	if (rec.producer.version != SHFS_RECORD_VERSION)
		return -EPROTONOSUPPORT;
	s->producer = rec.producer;
	return 0;
}

/* Moves from the first frame to the one that contains offset. */
static int count_frames(struct shfs_segment *s, uint64_t offset)
{
	size_t len = 0;
	int r;

	s->pos = SHFS_SEGMENT_MAGIC_LEN;
	while ((r = frame_length(s, &len)) > 0 && s->pos + len <= offset)
		s->pos += len;
	return r == -EBADMSG ? 0 : MIN(r, 0);
}

/* Moves to an offset. Mostly a frame begins or will begin there; but it may lie in the
 * middle of a batch. */
static int go_to(struct shfs_segment *s, uint64_t offset)
{
	size_t len = 0;
	int r;

	s->resume = offset;
	if (is_complete(s))
		return count_frames(s, offset);
	s->pos = MAX(offset, (uint64_t)SHFS_SEGMENT_MAGIC_LEN);
	r = check_frame(s, &len);
	if (r < 0 ? r != -EBADMSG : r || !available(s))
		return MIN(r, 0);
	return count_frames(s, offset);
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
	int r = read_segment_magic(s);

	if (!r)
		r = read_producer(s);
	if (!r)
		r = go_to(s, offset);
	if (r) {
		shfs_segment_close(s);
		return r;
	}
	*out = s;
	return 0;
}

int shfs_segment_from_memory(const void *data, size_t len, struct shfs_segment **out)
{
	struct shfs_segment *s = segment_new();

	if (!s)
		return -ENOMEM;
	s->window = malloc(MAX(len, (size_t)1));
	if (!s->window) {
		shfs_segment_close(s);
		return -ENOMEM;
	}
	if (len)
		memcpy(s->window, data, len);
	s->len = len;
	return finish_open(s, 0, out);
}

/* Decompresses a sealed segment. -EBADMSG: it is not whole. */
static int unseal(const void *data, size_t len, struct shfs_buf *out)
{
	unsigned long long size = ZSTD_getFrameContentSize(data, len);

	if (!size || size > SHFS_SEGMENT_MAX)
		return -EBADMSG;
	shfs_buf_reserve(out, size);
	if (out->failed)
		return -ENOMEM;
	if (ZSTD_decompress(out->data, size, data, len) != size)
		return -EBADMSG;
	out->len = size;
	return 0;
}

int shfs_segment_from_sealed(const void *data, size_t len, struct shfs_segment **out)
{
	_cleanup_buf_ struct shfs_buf whole = { 0 };

	return unseal(data, len, &whole)
	               ?: shfs_segment_from_memory(whole.data, whole.len, out);
}

bool shfs_segment_is_of_another_version(const void *data, size_t len, bool sealed)
{
	_cleanup_buf_ struct shfs_buf copy = { 0 };
	struct shfs_segment *segment = NULL;
	int r = 0;

	if (sealed)
		r = unseal(data, len, &copy);
	else
		shfs_buf_add(&copy, data, len);
	if (r || copy.failed || copy.len < SHFS_SEGMENT_MAGIC_LEN)
		return false;
	memcpy(copy.data, SHFS_SEGMENT_MAGIC, SHFS_SEGMENT_MAGIC_LEN);
	r = shfs_segment_from_memory(copy.data, copy.len, &segment);
	shfs_segment_close(segment);
	return r == -EPROTONOSUPPORT;
}

int shfs_segment_open(int dirfd, const char *name, uint64_t offset,
                      struct shfs_segment **out)
{
	struct shfs_segment *s = segment_new();
	bool sealed = false;
	char file[300];
	int r = 0;

	if (!s)
		return -ENOMEM;
	s->fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd < 0 && errno == ENOENT) { /* sealed meanwhile */
		snprintf(file, sizeof(file), "%s.zst", name);
		s->fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		sealed = true;
	}
	if (s->fd < 0) {
		r = -errno;
	} else if (sealed) {
		s->unpacker = ZSTD_createDStream();
		s->packed = malloc(ZSTD_DStreamInSize());
		r = s->unpacker && s->packed ? 0 : -ENOMEM;
	}
	if (r) {
		shfs_segment_close(s);
		return r;
	}
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

static int name_list_add(struct name_list *l, const char *name)
{
	char *copy = MAKE_ROOM(l->names, l->n, l->cap) ? strdup(name) : NULL;

	if (!copy)
		return -ENOMEM;
	l->names[l->n++] = copy;
	return 0;
}

/* Lists the names for which wanted returns true; NULL: all. */
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
	while (!r && (e = shfs_readdir(d, &r)))
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
	int r;

	f.hook_log = shfs_ends_with(name, ".log");
	f.sealed = shfs_ends_with(name, ".seg.zst");
	if (!f.hook_log && !f.sealed && !shfs_ends_with(name, ".seg"))
		return 0;
	r = shfs_stat_now(dirfd, name, &st);
	if (r)
		return r == -ENOENT ? 0 : r;
	if (!S_ISREG(st.st_mode))
		return 0;
	/* Between the rename and the unlink of sealing, both files exist: only one is
	 * visited. */
	if (next && !strncmp(next, name, strlen(name)) &&
	    !strcmp(next + strlen(name), ".zst"))
		return 0;
	if (f.sealed)
		name[strlen(name) - 4] = '\0';
	f.size_bytes = (uint64_t)st.st_size;
	return visit(&f, arg);
}

static bool is_of_kind(const char *name, int kinds)
{
	bool log = shfs_ends_with(name, ".log");

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

bool shfs_journal_is_host(const char *host)
{
	size_t len = strlen(host);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)host[i] <= ' ' || host[i] == '/' || host[i] == 0x7f)
			return false;
	return len && len <= 64 && *host != '.';
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

		/* A file that is no directory is not ours. Other errors are returned, as
		 * a collection of objects must not miss a host. */
		if (fd >= 0)
			r = walk_host(hosts.names[i], fd, kinds, visit, arg);
		else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
			r = -errno;
	}
	return r;
}
