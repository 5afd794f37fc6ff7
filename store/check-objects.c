/* SPDX-License-Identifier: MIT */
/*
 * Packs and loose objects. Of each frame the head is looked at; to read the data, a few
 * threads take file after file, and unpack each frame once: what deltas are of mostly
 * was unpacked a moment ago.
 */
#include "store/index-check.h"

#include "common/clock.h"
#include "common/io.h"
#include "store/collect.h"
#include "store/content.h"
#include "store/object-internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define THREADS_MAX  4
#define FRAME_MAX    (FRAME_DELTA_BYTES + FRAME_STORED_MAX)
#define WINDOW_BYTES (4u << 20)
#define CACHE_MAX    256
#define CACHE_BYTES  (32u << 20)
#define SAVE_NS      SHFS_NSEC_PER_SEC
#define CHAIN_MAX    128

/* A frame, or a loose object, that is as it should be. */
struct found {
	struct shfs_object_id id, base;
	bool delta;
	enum { UNKNOWN, ASKED, GOOD, LOST } state; /* with what it is a delta of */
};

struct found_list {
	struct found *list;
	size_t n, cap;
};

/* A file to be looked at. */
struct unit {
	char *name; /* below objects/ */
	uint64_t bytes;
	bool pack, done;
	bool read; /* all of it, now */
};

struct scan {
	struct check_run *run;
	int packs_fd;
	pthread_mutex_t lock; /* of all below, and of run->out */
	struct unit *units;   /* by name */
	size_t n, cap, next, settled;
	struct found_list found;
	int64_t saved_ns;
	int error;
};

struct cached {
	struct shfs_object_id id;
	char *data;
	size_t len;
};

/* What one thread has. */
struct reader {
	struct scan *scan;
	unsigned char *window; /* of the file that is read */
	size_t len;
	uint64_t base;
	struct cached cache[CACHE_MAX];
	size_t oldest, n_cached, cached_bytes;
};

/* A pack. */
struct walk {
	struct reader *rd;
	struct unit *unit;
	int fd;
	uint64_t size;
	struct pack_entry *frames; /* in order */
	size_t n, cap;
	struct span {
		uint64_t from, to;
	} * gaps;
	size_t n_gaps;
	struct found_list found;
	bool flawed;
	/* its index, as it was before */
	int index_fd; /* or an error */
	struct pack_index index;
};

static void *grow(void *list, size_t n, size_t *cap, size_t size)
{
	size_t more = MAX(*cap * 2, (size_t)64);

	if (n < *cap)
		return list;
	list = reallocarray(list, more, size);
	if (list)
		*cap = more;
	return list;
}

static int found_add(struct found_list *l, const struct found *f)
{
	struct found *list = grow(l->list, l->n, &l->cap, sizeof(*list));

	if (!list)
		return -ENOMEM;
	l->list = list;
	l->list[l->n++] = *f;
	return 0;
}

/* bytes 0: the whole file. */
static void _printf_(7, 8)
	flaw(struct scan *s, const struct unit *unit, enum shfs_flaw_kind kind,
             uint64_t offset, uint64_t bytes, const struct shfs_object_id *object,
             const char *text, ...)
{
	_cleanup_free_ char *said = NULL;
	struct shfs_flaw *f;
	va_list ap;
	int n;

	va_start(ap, text);
	n = vasprintf(&said, text, ap);
	va_end(ap);
	pthread_mutex_lock(&s->lock);
	f = check_flaw(s->run, kind, offset, bytes, "objects/%s", unit->name);
	check_say(f, "%s", n < 0 ? "" : said);
	if (f && object) {
		f->has_object = true;
		f->object = *object;
		if (shfs_object_list_has(&s->run->known.objects, object))
			f->harmless = true;
	}
	pthread_mutex_unlock(&s->lock);
}

/* --- contents that were unpacked --- */

static const struct cached *cache_find(const struct reader *rd,
                                       const struct shfs_object_id *id)
{
	for (size_t i = rd->n_cached; i-- > 0;) {
		const struct cached *c = &rd->cache[(rd->oldest + i) % CACHE_MAX];

		if (!shfs_object_compare(&c->id, id))
			return c;
	}
	return NULL;
}

static void cache_drop(struct reader *rd)
{
	struct cached *c = &rd->cache[rd->oldest];

	rd->cached_bytes -= c->len;
	free(TAKE_PTR(c->data));
	rd->oldest = (rd->oldest + 1) % CACHE_MAX;
	rd->n_cached--;
}

/* Takes data over. */
static void cache_add(struct reader *rd, const struct shfs_object_id *id, char *data,
                      size_t len)
{
	while (rd->n_cached == CACHE_MAX ||
	       (rd->n_cached && rd->cached_bytes + len > CACHE_BYTES))
		cache_drop(rd);
	rd->cache[(rd->oldest + rd->n_cached++) % CACHE_MAX] =
		(struct cached){ *id, data, len };
	rd->cached_bytes += len;
}

/* --- the content of a frame --- */

static int base_of(struct reader *rd, const struct frame *f, struct content *read,
                   const char **data, size_t *len)
{
	const struct cached *c;
	int r;

	if (f->kind != FRAME_DELTA)
		return 0;
	c = cache_find(rd, &f->base);
	r = c ? 0 : content_read(rd->scan->run->store, &f->base, DELTA_LEN_MAX, read);
	*data = c ? c->data : read->data;
	*len = c ? c->len : read->len;
	return r;
}

static int hash_piece(void *arg, const void *data, size_t len)
{
	object_hash_add(arg, data, len);
	return 0;
}

/* One that is too large for memory; it has no base. */
static int stream_frame(const struct frame *f, unsigned char *bytes, uint8_t hash[16])
{
	struct object_hash *h = object_hash_new();
	int r = h ? codec_each_piece(bytes + FRAME_HEAD_BYTES, f->stored, f->size,
	                             hash_piece, h)
	          : -ENOMEM;

	object_hash_end(h, hash);
	return r;
}

/* Of an intact frame. -EBADMSG: not what its name says; -ENOENT: what it is a delta of is
 * not there. */
static int read_content(struct reader *rd, const struct frame *f, unsigned char *bytes)
{
	_cleanup_content_ struct content read = { 0 };
	struct shfs_store *store = rd->scan->run->store;
	const char *base = NULL;
	size_t base_len = 0;
	uint8_t hash[16];
	char *data = NULL;
	int r;

	if (f->kind == FRAME_ZSTD && f->size > DELTA_LEN_MAX) {
		r = stream_frame(f, bytes, hash);
	} else {
		if (f->size > DELTA_LEN_MAX)
			return -EBADMSG;
		r = base_of(rd, f, &read, &base, &base_len);
		if (r)
			return r == -EBADMSG || r == -EFBIG ? -ENOENT : r;
		r = content_decode(store, f, bytes + frame_head_bytes(f->kind), base,
		                   base_len, &data);
		if (!r)
			shfs_object_hash(data, f->size, hash);
	}
	if (!r && memcmp(hash, f->id.hash, sizeof(hash)))
		r = -EBADMSG;
	if (!r && data)
		cache_add(rd, &f->id, TAKE_PTR(data), f->size);
	free(data);
	return r;
}

/* --- the frames of a pack --- */

/* Up to need bytes at offset: fewer at the end, or where the disk is bad. */
static ssize_t get(struct walk *w, uint64_t offset, size_t need, unsigned char **out)
{
	struct reader *rd = w->rd;
	size_t want = w->unit->read ? WINDOW_BYTES : need;

	if (offset < rd->base || offset + need > rd->base + rd->len) {
		ssize_t n = shfs_pread_full(w->fd, rd->window, want, (off_t)offset);

		if (n < 0 && n != -EIO)
			return n;
		rd->base = offset;
		rd->len = n < 0 ? 0 : (size_t)n;
	}
	*out = rd->window + (offset - rd->base);
	return (ssize_t)MIN((uint64_t)need, rd->base + rd->len - offset);
}

/* The length of the frame at offset; 0: there is none. It is intact, if data is read;
 * else it looks like one. */
static ssize_t frame_at(struct walk *w, uint64_t offset, struct frame *f,
                        unsigned char **bytes)
{
	ssize_t n = get(w, offset, w->unit->read ? FRAME_MAX : FRAME_DELTA_BYTES, bytes);
	size_t len;

	if (n < 0)
		return n;
	if (n < FRAME_HEAD_BYTES || frame_parse(*bytes, (size_t)n, f))
		return 0;
	len = frame_head_bytes(f->kind) + f->stored;
	if (offset + len > w->size)
		return 0;
	if (w->unit->read && ((size_t)n < len || !frame_is_intact(*bytes, len)))
		return 0;
	return (ssize_t)len;
}

static int note_frame(struct walk *w, const struct frame *f, uint64_t offset, bool good)
{
	struct pack_entry *frames = grow(w->frames, w->n, &w->cap, sizeof(*frames));
	struct found found = { .id = f->id,
		               .base = f->base,
		               .delta = f->kind == FRAME_DELTA };

	if (!frames)
		return -ENOMEM;
	w->frames = frames;
	w->frames[w->n++] = (struct pack_entry){ pack_prefix(&f->id), (uint32_t)offset };
	return good ? found_add(&w->found, &found) : 0;
}

static int take_frame(struct walk *w, const struct frame *f, uint64_t offset, size_t len,
                      unsigned char *bytes)
{
	struct scan *s = w->rd->scan;
	int r = w->unit->read ? read_content(w->rd, f, bytes) : 0;

	if (r && r != -EBADMSG && r != -ENOENT)
		return r;
	if (r == -EBADMSG) {
		flaw(s, w->unit, SHFS_FLAW_CONTENT, offset, len, &f->id,
		     "what is stored there is not the content of its name");
		w->flawed = true;
	}
	if (w->unit->read) {
		pthread_mutex_lock(&s->lock);
		s->run->out->content_bytes += r ? 0 : f->size;
		pthread_mutex_unlock(&s->lock);
	}
	return note_frame(w, f, offset, r != -EBADMSG);
}

/* --- what is no frame --- */

static bool is_zero(const unsigned char *p, size_t n)
{
	return !n || (!*p && !memcmp(p, p + 1, n - 1));
}

/* Would all of these be a frame, if the head said so? */
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

/* Is it what a write leaves that was cut short? n: all of it, or a frame's length. */
static bool is_torn(const unsigned char *p, size_t n, bool at_end)
{
	struct frame f;
	size_t len;
	int r;

	if (is_zero(p, n))
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
	/* room for it, but not its bytes: after a power cut */
	return at_end && f.kind != FRAME_RAW && f.stored >= 16 &&
	       is_zero(p + len - 16, 16);
}

static int stop_here(void *arg, const struct frame *f, uint64_t offset)
{
	*(uint64_t *)arg = offset;
	return 1;
}

/* Where the next intact frame begins, or the end. */
static int next_intact(struct walk *w, uint64_t from, uint64_t *out)
{
	uint64_t end;
	int r;

	*out = w->size;
	r = pack_scan(w->fd, from, stop_here, out, &end);
	*out = MIN(*out, w->size);
	return r == 1 || r == -EIO ? 0 : r;
}

/* Only its head was looked at, and it may have lied about the length. */
static int look_at_last(struct walk *w, uint64_t *from)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	uint64_t last = w->n ? w->frames[w->n - 1].offset : 0;
	ssize_t n;

	if (w->unit->read || !w->n)
		return 0;
	bytes = malloc(*from - last);
	if (!bytes)
		return -ENOMEM;
	n = shfs_pread_full(w->fd, bytes, *from - last, (off_t)last);
	if (n == (ssize_t)(*from - last) && frame_is_intact(bytes, (size_t)n))
		return 0;
	*from = last;
	w->n--;
	w->found.n--;
	return 0;
}

static int note_gap(struct walk *w, uint64_t from, uint64_t to)
{
	struct span *gaps = reallocarray(w->gaps, w->n_gaps + 1, sizeof(*gaps));

	if (!gaps)
		return -ENOMEM;
	w->gaps = gaps;
	w->gaps[w->n_gaps++] = (struct span){ from, to };
	return 0;
}

static void tell_gap(struct walk *w, uint64_t from, uint64_t to)
{
	size_t len = (size_t)MIN(to - from, (uint64_t)FRAME_MAX);
	_cleanup_free_ unsigned char *bytes = malloc(len + 1);
	ssize_t n = bytes ? shfs_pread_full(w->fd, bytes, len, (off_t)from) : -ENOMEM;
	struct scan *s = w->rd->scan;
	struct frame f;
	struct stat st;

	/* somebody writes there */
	if (to == w->size && (fstat(w->fd, &st) || (uint64_t)st.st_size != w->size))
		return;
	if (n < 0) {
		flaw(s, w->unit, SHFS_FLAW_FRAME, from, to - from, NULL,
		     "it cannot be read: %s", strerror((int)-n));
	} else if (is_torn(bytes, (size_t)n, to == w->size)) {
		flaw(s, w->unit, SHFS_FLAW_TORN, from, to - from, NULL,
		     "a write was cut short there");
		return;
	} else if (n >= FRAME_HEAD_BYTES && !frame_parse(bytes, (size_t)n, &f)) {
		flaw(s, w->unit, SHFS_FLAW_FRAME, from, to - from, &f.id,
		     "its check does not agree");
	} else {
		flaw(s, w->unit, SHFS_FLAW_FRAME, from, to - from, NULL,
		     "there is no frame");
	}
	w->flawed = true;
}

static int pass_gap(struct walk *w, uint64_t *at)
{
	uint64_t from = *at, to;
	int r = look_at_last(w, &from);

	if (!r)
		r = next_intact(w, from, &to);
	if (!r)
		r = note_gap(w, from, to);
	if (r)
		return r;
	tell_gap(w, from, to);
	*at = to;
	return 0;
}

/* --- the index of a pack --- */

static int compare_offsets(const void *a, const void *b)
{
	const struct pack_entry *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

struct entries {
	struct pack_entry *list;
	size_t n;
};

static int add_entries(void *arg, const struct pack_entry *entries, size_t n)
{
	struct entries *e = arg;

	memcpy(e->list + e->n, entries, n * sizeof(*entries));
	e->n += n;
	return 0;
}

static bool is_in_gap(const struct walk *w, uint64_t offset)
{
	for (size_t i = 0; i < w->n_gaps; i++)
		if (offset >= w->gaps[i].from && offset < w->gaps[i].to)
			return true;
	return false;
}

/* The first byte of the pack at which the two differ; UINT64_MAX: nowhere. */
static uint64_t find_difference(const struct walk *w, const struct entries *e)
{
	size_t i = 0, k = 0;

	for (;;) {
		bool entry = i < e->n;
		bool frame = k < w->n && w->frames[k].offset < w->index.covered;
		uint64_t a = entry ? e->list[i].offset : UINT64_MAX;
		uint64_t b = frame ? w->frames[k].offset : UINT64_MAX;

		if (!entry && !frame)
			return UINT64_MAX;
		if (a == b && e->list[i].prefix != w->frames[k].prefix)
			return a;
		if (b < a || (a < b && !is_in_gap(w, a)))
			return MIN(a, b);
		i++;
		k += a == b;
	}
}

static int check_lookup(struct walk *w)
{
	struct entries e = { 0 };
	uint64_t at = 0;
	struct unit idx = { 0 };
	_cleanup_free_ char *name = strdup(w->unit->name);
	int r = w->index_fd;

	if (!name)
		return -ENOMEM;
	if (r == -ENOENT)
		return 0;
	strcpy(name + strlen(name) - strlen(".pack"), ".idx");
	idx.name = name;
	if (r >= 0 && !(e.list = calloc(w->index.n + 1, sizeof(*e.list))))
		return -ENOMEM;
	r = r < 0 ? r : pack_index_each(w->index_fd, &w->index, add_entries, &e);
	if (!r && e.n)
		qsort(e.list, e.n, sizeof(*e.list), compare_offsets);
	if (!r)
		at = find_difference(w, &e);
	free(e.list);
	if (r || w->index.covered > w->size)
		flaw(w->rd->scan, &idx, SHFS_FLAW_LOOKUP, 0, 0, NULL, "%s",
		     r == -EBADMSG || !r ? "it is damaged" : strerror(-r));
	else if (at != UINT64_MAX)
		flaw(w->rd->scan, &idx, SHFS_FLAW_LOOKUP, 0, 0, NULL,
		     "it is not that of its pack, at byte %llu there",
		     (unsigned long long)at);
	else
		return 0;
	w->flawed = true;
	return 0;
}

/* --- a file --- */

static int open_below(struct scan *s, const char *name)
{
	int fd = openat(s->run->store->objects_fd, name,
	                O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

static int open_pack(struct walk *w)
{
	char name[256];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "%s", w->unit->name + strlen("packs/"));
	strcpy(name + strlen(name) - strlen(".pack"), ".idx");
	w->index_fd = pack_index_open(w->rd->scan->packs_fd, name, &w->index);
	fd = open_below(w->rd->scan, w->unit->name);
	if (fd < 0)
		return fd;
	w->fd = fd;
	if (fstat(fd, &st))
		return -errno;
	w->size = (uint64_t)st.st_size;
	return S_ISREG(st.st_mode) ? 0 : -ELOOP;
}

static int walk_frames(struct walk *w)
{
	unsigned char *bytes;
	uint64_t at = PACK_HEAD_BYTES;
	ssize_t n = get(w, 0, PACK_HEAD_BYTES, &bytes);
	int r = 0;

	if (n < 0)
		return (int)n;
	if (n < PACK_HEAD_BYTES) /* it is just being made */
		return 0;
	if (memcmp(bytes, PACK_MAGIC, PACK_HEAD_BYTES)) {
		flaw(w->rd->scan, w->unit, SHFS_FLAW_FRAME, 0, PACK_HEAD_BYTES, NULL,
		     "it does not begin as a pack");
		w->flawed = true;
	}
	while (!r && at < w->size) {
		struct frame f;

		n = frame_at(w, at, &f, &bytes);
		if (n < 0)
			return (int)n;
		r = n ? take_frame(w, &f, at, (size_t)n, bytes) : pass_gap(w, &at);
		at += (uint64_t)n;
	}
	return r;
}

static int merge(struct scan *s, struct walk *w)
{
	int r = 0;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < w->found.n && !r; i++)
		r = found_add(&s->found, &w->found.list[i]);
	s->run->out->packs++;
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* 1: there is a flaw. */
static int check_pack(struct reader *rd, struct unit *unit)
{
	struct walk w = { .rd = rd, .unit = unit, .fd = -1, .index_fd = -1 };
	int r = open_pack(&w);

	rd->len = 0;
	if (r == -ENOENT) { /* meanwhile */
		r = 0;
	} else if (r) {
		flaw(rd->scan, unit, SHFS_FLAW_FRAME, 0, 0, NULL, "it cannot be read: %s",
		     strerror(-r));
		w.flawed = true;
		r = 0;
	} else {
		r = walk_frames(&w);
		if (!r)
			r = check_lookup(&w);
		if (!r)
			r = merge(rd->scan, &w);
	}
	shfs_closep(&w.fd);
	shfs_closep(&w.index_fd);
	free(w.frames);
	free(w.gaps);
	free(w.found.list);
	return r ? r : w.flawed;
}

static int read_loose(struct scan *s, int fd, const struct shfs_object_id *id,
                      uint64_t size)
{
	struct object_hash *h = object_hash_new();
	uint8_t hash[16];
	int r = h ? loose_each_piece(fd, hash_piece, h) : -ENOMEM;

	object_hash_end(h, hash);
	if (!r && memcmp(hash, id->hash, sizeof(hash)))
		r = -EBADMSG;
	pthread_mutex_lock(&s->lock);
	s->run->out->content_bytes += r ? 0 : size;
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int check_loose(struct reader *rd, struct unit *unit)
{
	struct found found = { 0 };
	char name[64];
	uint64_t size = 0;
	int fd, r;

	snprintf(name, sizeof(name), "%.2s%s", unit->name, unit->name + 3);
	if (shfs_object_parse(name, &found.id)) {
		flaw(rd->scan, unit, SHFS_FLAW_UNCHECKED, 0, 0, NULL, "it is no object");
		return 0;
	}
	fd = loose_open(rd->scan->run->store, &found.id, &size);
	if (fd == -ENOENT)
		return 0;
	r = fd < 0 ? fd : unit->read ? read_loose(rd->scan, fd, &found.id, size) : 0;
	shfs_closep(&fd);
	if (r == -ENOMEM)
		return r;
	if (r) {
		flaw(rd->scan, unit, SHFS_FLAW_CONTENT, 0, 0, &found.id, "%s",
		     r == -EBADMSG ? "it is not the content of its name" : strerror(-r));
		return 1;
	}
	pthread_mutex_lock(&rd->scan->lock);
	r = found_add(&rd->scan->found, &found);
	rd->scan->run->out->loose++;
	pthread_mutex_unlock(&rd->scan->lock);
	return r;
}

/* --- all files --- */

static int unit_add(struct scan *s, const char *dir, const char *name, bool pack)
{
	struct unit *units = grow(s->units, s->n, &s->cap, sizeof(*units));
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct unit u = { .pack = pack };
	struct stat st;

	if (!units)
		return -ENOMEM;
	s->units = units;
	shfs_buf_printf(&path, "%s/%s", dir, name);
	if (path.failed)
		return -ENOMEM;
	if (fstatat(s->run->store->objects_fd, path.data, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	u.bytes = (uint64_t)st.st_size;
	u.name = shfs_buf_take(&path);
	s->units[s->n++] = u;
	return u.name ? 0 : -ENOMEM;
}

static bool is_odd(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name <= ' ' || *name == 0x7f)
			return true;
	return false;
}

static int add_directory(struct scan *s, const char *dir, const char *suffix)
{
	int fd = openat(s->run->store->objects_fd, dir,
	                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d) {
		shfs_closep(&fd);
		return errno == ENOENT ? 0 : -errno;
	}
	while (!r && (e = shfs_readdir(d, &r))) {
		size_t len = strlen(e->d_name), m = strlen(suffix);

		if (e->d_name[0] == '.' || len <= m || len > 120 ||
		    strcmp(e->d_name + len - m, suffix) || is_odd(e->d_name))
			continue;
		r = unit_add(s, dir, e->d_name, *suffix);
	}
	closedir(d);
	return r;
}

static int compare_units(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static uint64_t part_of(const struct unit *u, unsigned parts)
{
	return shfs_object_hash64(u->name, strlen(u->name)) % parts + 1;
}

/* Which are to be read, and where an earlier one was interrupted. */
static void choose(struct scan *s)
{
	const struct shfs_check_options *o = s->run->options;
	const struct check_state *state = &s->run->state;

	for (size_t i = 0; i < s->n; i++) {
		struct unit *u = &s->units[i];

		u->read = o->read_data && (!o->parts || part_of(u, o->parts) == o->part);
		if (state->position && strcmp(u->name, state->position) <= 0 &&
		    !check_state_is_bad(state, u->name))
			u->read = false;
		if (u->read)
			s->run->out->total_bytes += u->bytes;
	}
}

static int list_units(struct scan *s)
{
	int r = add_directory(s, "packs", ".pack");

	for (int i = 0; i < 256 && !r; i++) {
		char dir[3];

		snprintf(dir, sizeof(dir), "%02x", i);
		r = add_directory(s, dir, "");
	}
	if (s->n)
		qsort(s->units, s->n, sizeof(*s->units), compare_units);
	choose(s);
	return r;
}

/* --- at work --- */

/* With the lock held. */
static int unit_done(struct scan *s, struct unit *u, bool flawed)
{
	struct check_run *run = s->run;
	int64_t now = shfs_clock_ns(CLOCK_MONOTONIC);
	int r = 0;

	u->done = true;
	while (s->settled < s->n && s->units[s->settled].done)
		s->settled++;
	if (u->read) {
		run->out->read_bytes += u->bytes;
		if (run->options->progress)
			run->options->progress(run->options->arg, run->out->read_bytes,
			                       run->out->total_bytes);
	}
	if (!run->options->read_data)
		return 0;
	if (flawed)
		r = check_state_add_bad(&run->state, u->name);
	if (r || now < s->saved_ns + SAVE_NS || !s->settled)
		return r;
	s->saved_ns = now;
	free(run->state.position);
	run->state.position = strdup(s->units[s->settled - 1].name);
	return check_state_save(run->store, &run->state);
}

static void *work(void *arg)
{
	struct scan *s = arg;
	struct reader rd = { .scan = s, .window = malloc(WINDOW_BYTES) };

	pthread_mutex_lock(&s->lock);
	if (!rd.window)
		s->error = -ENOMEM;
	while (!s->error && s->next < s->n) {
		struct unit *u = &s->units[s->next++];
		int r;

		pthread_mutex_unlock(&s->lock);
		r = u->pack ? check_pack(&rd, u) : check_loose(&rd, u);
		pthread_mutex_lock(&s->lock);
		if (r >= 0)
			r = unit_done(s, u, r);
		if (r && !s->error)
			s->error = r;
	}
	pthread_mutex_unlock(&s->lock);
	while (rd.n_cached)
		cache_drop(&rd);
	free(rd.window);
	return NULL;
}

static void work_together(struct scan *s)
{
	pthread_t threads[THREADS_MAX];
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = 0, want = MIN((size_t)MAX(processors, 1L), s->n);

	if (!s->run->options->read_data)
		want = 1;
	while (n + 1 < MIN(want, (size_t)THREADS_MAX) &&
	       !pthread_create(&threads[n], NULL, work, s))
		n++;
	work(s);
	while (n)
		pthread_join(threads[--n], NULL);
}

/* --- which contents are there --- */

static int compare_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return shfs_object_compare(&x->id, &y->id);
}

static bool is_good(struct found_list *l, const struct shfs_object_id *id, int depth)
{
	struct found key = { .id = *id };
	struct found *f =
		l->n ? bsearch(&key, l->list, l->n, sizeof(key), compare_found) : NULL;

	if (!f || depth > CHAIN_MAX)
		return false;
	while (f > l->list && !compare_found(f - 1, &key))
		f--;
	for (; f < l->list + l->n && !compare_found(f, &key); f++) {
		if (f->state == UNKNOWN) {
			f->state = ASKED;
			f->state = !f->delta || is_good(l, &f->base, depth + 1) ? GOOD
			                                                        : LOST;
		}
		if (f->state == GOOD)
			return true;
	}
	return false;
}

static int list_there(struct scan *s)
{
	struct found_list *l = &s->found;
	int r = 0;

	if (l->n)
		qsort(l->list, l->n, sizeof(*l->list), compare_found);
	for (size_t i = 0; i < l->n && !r; i++)
		if (is_good(l, &l->list[i].id, 0))
			r = shfs_object_list_add(&s->run->there, &l->list[i].id);
	shfs_object_list_sort(&s->run->there);
	s->run->out->objects = s->run->there.n;
	return r;
}

int check_objects(struct check_run *run)
{
	struct scan s = { .run = run };
	int r = packs_refresh(run->store);

	if (r && r != -EIO)
		return r;
	pthread_mutex_init(&s.lock, NULL);
	s.packs_fd = openat(run->store->objects_fd, "packs",
	                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = list_units(&s);
	if (!r)
		work_together(&s);
	r = r ? r : s.error;
	if (!r)
		r = list_there(&s);
	for (size_t i = 0; i < s.n; i++)
		free(s.units[i].name);
	free(s.units);
	free(s.found.list);
	shfs_closep(&s.packs_fd);
	pthread_mutex_destroy(&s.lock);
	return r;
}
