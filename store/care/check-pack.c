/* SPDX-License-Identifier: MIT */
/* Checks a pack, from frame to frame. Bytes that are no frame are damaged, or torn. */
#include "store/care/check-objects.h"

#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* --- the frames of a pack --- */

ssize_t check_get(struct walk *w, uint64_t offset, size_t need, unsigned char **out)
{
	struct reader *rd = w->rd;
	uint64_t end = rd->base + rd->len;
	size_t want = w->unit->read ? CHECK_WINDOW_BYTES : need;

	if (offset < rd->base || (offset + need > end && end < w->size)) {
		ssize_t n = shfs_pread_full(w->fd, rd->window, want, (off_t)offset);

		if (n == -EIO)
			n = pack_read_around(w->fd, rd->window, want, offset);
		if (n < 0)
			return n;
		rd->base = offset;
		rd->len = (size_t)n;
		end = offset + (uint64_t)n;
	}
	*out = rd->window + (offset - rd->base);
	return (ssize_t)MIN((uint64_t)need, end - MIN(offset, end));
}

/* Returns the length of the frame at offset; 0: there is none. If data is read, the frame
 * was checked; otherwise only its head was. */
static ssize_t frame_at(struct walk *w, uint64_t offset, struct frame *f,
                        unsigned char **bytes)
{
	ssize_t n = check_get(w, offset, w->unit->read ? FRAME_MAX : FRAME_DELTA_BYTES,
	                      bytes);
	size_t len;

	if (n < 0)
		return n;
	if (n < FRAME_HEAD_BYTES || frame_parse(*bytes, (size_t)n, f))
		return 0;
	len = frame_bytes(f);
	if (offset + len > w->size)
		return 0;
	if (w->unit->read && ((size_t)n < len || !frame_is_intact(*bytes, len)))
		return 0;
	if (!w->unit->read && f->kind == FRAME_SOLID) {
		size_t need = FRAME_HEAD_BYTES + f->n_members * FRAME_MEMBER_BYTES;

		n = check_get(w, offset, need, bytes);
		if (n < 0)
			return n;
		if ((size_t)n < need || !frame_members_agree(f, *bytes))
			return 0;
	}
	return (ssize_t)len;
}

static int note_content(void *arg, const struct frame *f, uint64_t offset)
{
	struct walk *w = arg;
	struct found found = { .id = f->id,
		               .base = f->base,
		               .offset = (uint32_t)offset,
		               .delta = f->kind == FRAME_DELTA,
		               .solid = f->kind == FRAME_SOLID,
		               .member = f->member };

	return found_add(&w->frames, &found);
}

/* --- bytes that are no frame --- */

static int stop_here(void *arg, const struct frame *f, uint64_t offset)
{
	*(uint64_t *)arg = offset;
	return 1;
}

/* Finds where the next intact frame begins, or the end. */
static int next_intact(struct walk *w, uint64_t from, uint64_t *out)
{
	uint64_t end;
	int r;

	*out = w->size;
	r = pack_scan(w->fd, from, stop_here, out, &end);
	*out = MIN(*out, w->size);
	return r == 1 || r == -EIO ? 0 : r;
}

/* Checks the last frame, of which only the head was looked at: its length may be wrong.
 * If so, it belongs to the gap. */
static int look_at_last(struct walk *w, uint64_t *from)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	size_t n_frames = w->frames.n;
	uint64_t last = n_frames ? w->frames.list[n_frames - 1].offset : 0;
	ssize_t n;

	if (w->unit->read || !n_frames)
		return 0;
	bytes = malloc(*from - last);
	if (!bytes)
		return -ENOMEM;
	n = shfs_pread_full(w->fd, bytes, *from - last, (off_t)last);
	if (n == (ssize_t)(*from - last) && frame_is_intact(bytes, (size_t)n))
		return 0;
	*from = last;
	while (w->frames.n && w->frames.list[w->frames.n - 1].offset == last)
		w->frames.n--;
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

	/* the pack is being written */
	if (to == w->size && (fstat(w->fd, &st) || (uint64_t)st.st_size != w->size))
		return;
	if (n < 0) {
		check_unit_flaw(s, w->unit, SHFS_FLAW_FRAME, from, to - from, NULL,
		                "it cannot be read: %s", strerror((int)-n));
	} else if (pack_is_torn(bytes, (size_t)n, to == w->size)) {
		check_unit_flaw(s, w->unit, SHFS_FLAW_TORN, from, to - from, NULL,
		                "a write was cut short there");
		return;
	} else if (n >= FRAME_HEAD_BYTES && !frame_parse(bytes, (size_t)n, &f)) {
		check_unit_flaw(s, w->unit, SHFS_FLAW_FRAME, from, to - from,
		                f.kind == FRAME_SOLID ? NULL : &f.id,
		                "its checksum does not match");
	} else {
		check_unit_flaw(s, w->unit, SHFS_FLAW_FRAME, from, to - from, NULL,
		                "these bytes are not a frame");
	}
	w->flawed = true;
}

static int pass_flawed_gap(struct walk *w, uint64_t *at)
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

/* Lists what the index should have, in the order of pack_entry_compare_offsets. */
static int list_entries(const struct walk *w, struct entries *out)
{
	out->list = calloc(w->frames.n + 1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	for (size_t i = 0; i < w->frames.n; i++)
		if (w->frames.list[i].offset < w->index.covered)
			out->list[out->n++] =
				(struct pack_entry){ pack_prefix(&w->frames.list[i].id),
				                     w->frames.list[i].offset };
	qsort(out->list, out->n, sizeof(*out->list), pack_entry_compare_offsets);
	return 0;
}

/* Returns the first offset in the pack at which the index and the frames differ;
 * UINT64_MAX: none. */
static uint64_t find_difference(const struct walk *w, const struct entries *e,
                                const struct entries *frames)
{
	size_t i = 0, k = 0;

	for (;;) {
		bool entry = i < e->n, frame = k < frames->n;
		uint64_t a = entry ? e->list[i].offset : UINT64_MAX;
		uint64_t b = frame ? frames->list[k].offset : UINT64_MAX;

		if (!entry && !frame)
			return UINT64_MAX;
		if (a == b && e->list[i].prefix != frames->list[k].prefix)
			return a;
		if (b < a || (a < b && !is_in_gap(w, a)))
			return MIN(a, b);
		i++;
		k += a == b;
	}
}

static int check_lookup(struct walk *w)
{
	struct entries e = { 0 }, frames = { 0 };
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
		qsort(e.list, e.n, sizeof(*e.list), pack_entry_compare_offsets);
	if (!r && !(r = list_entries(w, &frames)))
		at = find_difference(w, &e, &frames);
	free(frames.list);
	free(e.list);
	if (r || w->index.covered > w->size)
		check_unit_flaw(w->rd->scan, &idx, SHFS_FLAW_LOOKUP, 0, 0, NULL, "%s",
		                r == -EBADMSG || !r ? "it is damaged" : strerror(-r));
	else if (at != UINT64_MAX)
		check_unit_flaw(w->rd->scan, &idx, SHFS_FLAW_LOOKUP, 0, 0, NULL,
		                "it does not match its pack, at byte %llu of that",
		                (unsigned long long)at);
	else
		return 0;
	w->flawed = true;
	return 0;
}

/* --- a file --- */

static int open_walked_pack(struct walk *w)
{
	char name[256];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "%s", w->unit->name + strlen("packs/"));
	strcpy(name + strlen(name) - strlen(".pack"), ".idx");
	w->index_fd = pack_index_open(w->rd->scan->packs_fd, name, &w->index);
	fd = openat(w->rd->scan->run->store->objects_fd, w->unit->name,
	            O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
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
	ssize_t n = check_get(w, 0, PACK_HEAD_BYTES, &bytes);
	int r = 0;

	if (n < 0)
		return (int)n;
	if (n < PACK_HEAD_BYTES) /* the pack is being made */
		return 0;
	if (!pack_format(bytes)) {
		check_unit_flaw(w->rd->scan, w->unit, SHFS_FLAW_FRAME, 0, PACK_HEAD_BYTES,
		                NULL, "it does not begin like a pack");
		w->flawed = true;
	}
	while (!r && at < w->size) {
		struct frame f;

		n = frame_at(w, at, &f, &bytes);
		if (n < 0)
			return (int)n;
		r = n ? frame_each(&f, bytes, note_content, w, at)
		      : pass_flawed_gap(w, &at);
		at += (uint64_t)n;
	}
	return r;
}

static int scan_add_walk(struct scan *s, struct walk *w)
{
	int r = 0;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < w->frames.n && !r; i++)
		r = found_add(&s->found, &w->frames.list[i]);
	s->run->out->content_bytes += w->content_bytes;
	s->run->out->packs++;
	pthread_mutex_unlock(&s->lock);
	return r;
}

int check_pack(struct reader *rd, struct unit *unit)
{
	struct walk w = { .rd = rd, .unit = unit, .fd = -1, .index_fd = -1 };
	int r = open_walked_pack(&w);

	rd->base = rd->len = 0;
	if (r == -ENOENT) { /* removed meanwhile */
		r = 0;
	} else if (check_is_ours(r)) {
		/* nothing is known of the pack */
	} else if (r) {
		/* a flaw of 0 bytes would be a path that is no file, and set aside */
		check_unit_flaw(rd->scan, unit, SHFS_FLAW_FRAME, 0,
		                r == -ELOOP ? 0 : MAX(unit->bytes, (uint64_t)1), NULL,
		                "it cannot be read: %s", strerror(-r));
		w.flawed = true;
		r = 0;
	} else {
		if (unit->read)
			posix_fadvise(w.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		r = walk_frames(&w);
		if (!r && unit->read)
			r = check_contents(&w);
		if (!r)
			r = check_lookup(&w);
		if (!r)
			r = scan_add_walk(rd->scan, &w);
	}
	shfs_closep(&w.fd);
	shfs_closep(&w.index_fd);
	free(w.gaps);
	free(w.frames.list);
	return r ? r : w.flawed;
}
