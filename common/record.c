/* SPDX-License-Identifier: MIT */
/*
 * Packs and unpacks records. The same function does both, so that it names the fields
 * once: a coder either writes or reads. docs/journal.md shows the layout.
 */
#include "common/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIXED_MAX 512 /* most bytes of a record without its strings */

struct coder {
	struct shfs_record_context *context;
	struct shfs_buf *out;   /* writing: there is room for FIXED_MAX */
	struct shfs_cursor *in; /* reading */
};

/* The bits of the first byte of a record. */
enum head {
	HEAD_TYPE = 7,      /* 0: the type follows */
	HEAD_LONG = 1 << 3, /* the length of the rest behind the head follows */
	HEAD_GAP = 1 << 4,
	HEAD_CLOCK = 1 << 5,
	HEAD_PROCESS = 1 << 6,
	HEAD_NS = 1 << 7, /* times are in nanoseconds, not microseconds */
};

/* The bits of the first byte of the rest of an ACCESS. */
enum shape {
	SHAPE_LAST = 1 << 0,
	SHAPE_CLOCKS = 1 << 1,
	SHAPE_DEV = 1 << 2,
	SHAPE_NEAR = 1 << 3,
	SHAPE_SEEN = 1 << 4,
	SHAPE_MADE = 1 << 5,
	SHAPE_FILE = 1 << 6, /* the file is in this batch already: its number follows */
	SHAPE_SAME = 1 << 7, /* seen is the last content of that file in this batch */
};

#define FILES_MAX 1024 /* of a batch, that have a number */
#define SLOTS     (2 * FILES_MAX)

struct shfs_record_file {
	size_t path, path_len; /* offset and length in the context's names */
	uint64_t dev, ino;
	struct shfs_content content;
};

struct shfs_record_files {
	size_t n;
	struct shfs_buf names;
	struct shfs_record_file list[FILES_MAX];
	uint16_t slots[SLOTS]; /* writing: number + 1 of the last file with that path */
};

/* --- numbers --- */

static uint64_t unit_of(unsigned head)
{
	return head & HEAD_NS ? 1 : 1000;
}

static uint64_t zigzag(uint64_t v)
{
	return v << 1 ^ -(v >> 63);
}

static uint64_t unzigzag(uint64_t v)
{
	return v >> 1 ^ -(v & 1);
}

static uint64_t x_u64(struct coder *c, uint64_t v)
{
	if (c->in)
		return shfs_get_varint(c->in);
	shfs_put_varint(c->out, v);
	return v;
}

static unsigned x_u8(struct coder *c, unsigned v)
{
	if (c->in)
		return shfs_cursor_u8(c->in);
	shfs_buf_u8(c->out, v);
	return v;
}

static uint32_t x_u32(struct coder *c, uint32_t v)
{
	return (uint32_t)x_u64(c, v);
}

/* Codes v by its difference from base, which may wrap around. */
static uint64_t x_near(struct coder *c, uint64_t base, uint64_t v)
{
	return base + unzigzag(x_u64(c, zigzag(v - base)));
}

static uint32_t x_near32(struct coder *c, uint32_t base, uint32_t v)
{
	return (uint32_t)x_near(c, base, v);
}

static void x_raw(struct coder *c, void *v, size_t len)
{
	if (c->in) {
		shfs_cursor_copy(c->in, v, len);
	} else if (!c->out->failed) {
		memcpy(c->out->data + c->out->len, v, len);
		c->out->len += len;
	}
}

/* Codes v in eight bytes, so that compression finds equal ones. */
static uint64_t x_fixed64(struct coder *c, uint64_t v)
{
	if (c->in)
		return shfs_cursor_u64(c->in);
	shfs_buf_u64(c->out, v);
	return v;
}

/* --- strings --- */

static size_t shared_prefix_bytes(const struct shfs_buf *a, const struct shfs_bytes *b)
{
	size_t n = 0, max = MIN(a->len, b->len);

	while (n < max && a->data[n] == b->data[n])
		n++;
	return n;
}

/* Codes a string by its difference from the last one of its kind, which is kept in last.
 */
static struct shfs_bytes x_text(struct coder *c, struct shfs_buf *last,
                                struct shfs_bytes v)
{
	size_t same = x_u64(c, c->in ? 0 : shared_prefix_bytes(last, &v));
	size_t len = x_u64(c, v.len - same);
	const char *rest = v.len ? v.data + same : "";

	if (c->in) {
		if (same > last->len || len > (size_t)(c->in->end - c->in->p))
			c->in->failed = true;
		if (c->in->failed)
			return (struct shfs_bytes){ "", 0 };
		rest = (const char *)c->in->p;
		c->in->p += len;
	} else {
		shfs_buf_add(c->out, rest, len);
		shfs_buf_reserve(c->out, FIXED_MAX);
	}
	last->len = same;
	shfs_buf_add(last, rest, len);
	return (struct shfs_bytes){ last->data, last->len };
}

/* --- parts of records --- */

static uint64_t offset_of(struct shfs_time t)
{
	return (uint64_t)t.real_ns - t.boot_ns;
}

static struct shfs_content x_content(struct coder *c, struct shfs_content v)
{
	struct shfs_content zero = { .flags = x_u32(c, v.flags) };

	if (c->in)
		v = zero;
	if (!(v.flags & SHFS_CONTENT_KNOWN)) {
		/* only the flags that say why nothing is known */
		v.flags &= SHFS_CONTENT_SKIPPED | SHFS_CONTENT_CHANGING;
		return v;
	}
	v.mode = x_near32(c, c->context->mode, v.mode);
	c->context->mode = v.mode;
	v.size = x_u64(c, v.size);
	v.mtime_ns = (int64_t)x_fixed64(c, v.mtime_ns);
	v.ctime_ns = (int64_t)x_near(c, v.mtime_ns, v.ctime_ns);
	if (v.flags & SHFS_CONTENT_PHASH)
		v.phash = x_fixed64(c, v.phash);
	if (v.flags & SHFS_CONTENT_OBJECT) {
		x_raw(c, v.object.hash, sizeof(v.object.hash));
		v.object.nth = x_u32(c, v.object.nth);
	}
	return v;
}

static struct shfs_bytes x_bytes(struct coder *c, struct shfs_bytes v)
{
	if (c->in)
		return shfs_get_bytes(c->in);
	shfs_put_varint(c->out, v.len);
	shfs_buf_add(c->out, v.data, v.len);
	shfs_buf_reserve(c->out, FIXED_MAX);
	return v;
}

static uint64_t x_process_of(struct coder *c, unsigned head, uint64_t v)
{
	if (head & HEAD_PROCESS)
		c->context->process = x_near(c, c->context->process, v);
	return c->context->process;
}

/* --- standard streams --- */

/* Most are the terminal of the process before, or a pipe that was made just before. */
enum stream_kind {
	STREAM_CLOSED,
	STREAM_SAME_DEVICE,
	STREAM_DEVICE,
	STREAM_PIPE,
	STREAM_SOCKET,
	STREAM_FILE,
};

/* Does the text say a number, as "pipe:[7]", and nothing else? */
static bool is_numbered(struct shfs_bytes v, const char *what, uint32_t *number)
{
	size_t len = strlen(what);
	char again[32];

	if (v.len < len || v.len >= sizeof(again) || memcmp(v.data, what, len))
		return false;
	memcpy(again, v.data, v.len);
	again[v.len] = 0;
	*number = (uint32_t)strtoul(again + len, NULL, 10);
	snprintf(again, sizeof(again), "%s%" PRIu32 "]", what, *number);
	return strlen(again) == v.len && !memcmp(again, v.data, v.len);
}

#define PIPE   "pipe:["
#define SOCKET "socket:["

static enum stream_kind stream_kind_of(const struct shfs_record_context *last,
                                       struct shfs_bytes v, uint32_t *number)
{
	if (!v.len)
		return v.data ? STREAM_CLOSED : STREAM_FILE;
	if (is_numbered(v, PIPE, number))
		return STREAM_PIPE;
	if (is_numbered(v, SOCKET, number))
		return STREAM_SOCKET;
	if (v.len < 5 || memcmp(v.data, "/dev/", 5))
		return STREAM_FILE;
	return v.len == last->device.len && !memcmp(v.data, last->device.data, v.len)
	               ? STREAM_SAME_DEVICE
	               : STREAM_DEVICE;
}

/* Codes one stream; what is read is appended to context->streams. False: it is a file
 * without a name, which stands for one that could not be seen. */
static bool x_stream(struct coder *c, struct shfs_bytes v)
{
	struct shfs_record_context *last = c->context;
	uint32_t number = 0;
	unsigned kind = x_u32(c, c->in ? 0 : stream_kind_of(last, v, &number));

	switch (kind) {
	case STREAM_CLOSED:
		return true;
	case STREAM_SAME_DEVICE:
		v = (struct shfs_bytes){ last->device.data, last->device.len };
		break;
	case STREAM_DEVICE:
		v = x_text(c, &last->device, v);
		break;
	case STREAM_PIPE:
	case STREAM_SOCKET:
		last->pipe = x_near32(c, last->pipe, number);
		if (c->in)
			shfs_buf_printf(&last->streams, "%s%" PRIu32 "]",
			                kind == STREAM_PIPE ? PIPE : SOCKET, last->pipe);
		return true;
	case STREAM_FILE:
		v = x_text(c, &last->stream, v);
		break;
	default: /* only where it is read */
		c->in->failed = true;
		return true;
	}
	if (c->in)
		shfs_buf_add(&last->streams, v.data, v.len);
	return v.len;
}

static struct shfs_bytes read_streams(struct coder *c)
{
	struct shfs_buf *text = &c->context->streams;
	bool seen = true;

	text->len = 0;
	for (int i = 0; i < 3; i++) {
		if (i)
			shfs_buf_u8(text, 0);
		seen &= x_stream(c, (struct shfs_bytes){ "", 0 });
	}
	return (struct shfs_bytes){ text->data, seen ? text->len : 0 };
}

/* Codes the three streams, which are separated by NUL. Readers of before take those that
 * could not be seen for closed. */
static struct shfs_bytes x_streams(struct coder *c, struct shfs_bytes v)
{
	const char *at, *end;

	if (c->in)
		return read_streams(c);
	at = v.len ? v.data : NULL;
	end = at + v.len;
	for (int i = 0; i < 3; i++) {
		size_t len = at ? strnlen(at, (size_t)(end - at)) : 0;

		x_stream(c, (struct shfs_bytes){ at, len });
		at += len + (at + len < end);
	}
	return v;
}

/* --- records --- */

static void x_producer(struct coder *c, struct shfs_rec_producer *p)
{
	p->version = x_u32(c, p->version);
	p->host = x_bytes(c, p->host);
	p->boot_id = x_bytes(c, p->boot_id);
	p->kind = x_bytes(c, p->kind);
	p->instance = x_bytes(c, p->instance);
	p->root = x_bytes(c, p->root);
	p->software = x_bytes(c, p->software);
	p->pid_namespace = x_u64(c, p->pid_namespace);
	p->pid = x_u32(c, p->pid);
	p->uid = x_u32(c, p->uid);
	p->start_ticks = x_u64(c, p->start_ticks);
	p->segment = x_u32(c, p->segment);
	p->pid_max = x_u32(c, p->pid_max);
}

static void x_process(struct coder *c, struct shfs_rec_process *p)
{
	struct shfs_record_context *last = c->context;

	p->pid = last->pid = x_near32(c, last->pid, p->pid);
	p->ppid = x_near32(c, p->pid, p->ppid);
	p->pgid = x_near32(c, p->pid, p->pgid);
	p->sid = x_near32(c, p->ppid, p->sid);
	p->uid = x_u32(c, p->uid);
	p->tty_nr = x_u32(c, p->tty_nr);
	p->start_ticks = last->start_ticks = x_near(c, last->start_ticks, p->start_ticks);
	p->parent_start_ticks = x_near(c, p->start_ticks, p->parent_start_ticks);
	p->exe = x_text(c, &last->exe, p->exe);
	p->cwd = x_text(c, &last->cwd, p->cwd);
	p->argv = x_text(c, &last->argv, p->argv);
	p->marker = x_text(c, &last->marker, p->marker);
}

/* --- files of a batch --- */

static struct shfs_bytes context_file_path(const struct shfs_record_files *files,
                                           const struct shfs_record_file *f)
{
	return (struct shfs_bytes){ files->names.data + f->path, f->path_len };
}

static uint32_t hash_path(struct shfs_bytes path)
{
	uint64_t h = path.len, word;
	size_t i = 0;

	for (; i + 8 <= path.len; i += 8) {
		memcpy(&word, path.data + i, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15;
		h ^= h >> 29;
	}
	for (; i < path.len; i++)
		h = (h ^ (unsigned char)path.data[i]) * 0x9e3779b97f4a7c15;
	return h >> 40;
}

/* Finds the slot of the path: that of its last file, or a free one. */
static uint16_t *find_slot(struct shfs_record_files *files, struct shfs_bytes path)
{
	uint32_t i = hash_path(path) % SLOTS;

	for (;; i = (i + 1) % SLOTS) {
		const struct shfs_record_file *f;

		if (!files->slots[i])
			return &files->slots[i];
		f = &files->list[files->slots[i] - 1];
		if (f->path_len == path.len &&
		    !memcmp(context_file_path(files, f).data, path.data, path.len))
			return &files->slots[i];
	}
}

/* Adds a file to the list, which is the same for writing and reading. NULL: it is full,
 * or there is no memory. */
static struct shfs_record_file *context_add_file(struct coder *c,
                                                 const struct shfs_rec_access *a)
{
	struct shfs_record_files *files = c->context->files;
	struct shfs_record_file *f;

	if (files->n == FILES_MAX)
		return NULL;
	if (c->out)
		*find_slot(files, a->path) = files->n + 1;
	f = &files->list[files->n++];
	*f = (struct shfs_record_file){ .path = files->names.len,
		                        .path_len = a->path.len,
		                        .dev = a->dev,
		                        .ino = a->ino };
	shfs_buf_add(&files->names, a->path.data, a->path.len);
	return f;
}

/* Writing: finds the file of the access, if it is in this batch already. */
static struct shfs_record_file *known_file(struct shfs_record_files *files,
                                           const struct shfs_rec_access *a)
{
	uint16_t number = *find_slot(files, a->path);
	struct shfs_record_file *f = number ? &files->list[number - 1] : NULL;

	return f && f->dev == a->dev && f->ino == a->ino ? f : NULL;
}

static bool same_content(const struct shfs_content *a, const struct shfs_content *b)
{
	return a->flags == b->flags && a->mode == b->mode && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns &&
	       a->phash == b->phash && a->object.nth == b->object.nth &&
	       !memcmp(a->object.hash, b->object.hash, sizeof(a->object.hash));
}

/* --- an access --- */

static unsigned access_shape(const struct shfs_record_context *last,
                             const struct shfs_record_file *known,
                             const struct shfs_rec_access *a)
{
	unsigned shape = 0;

	if (a->last.boot_ns != a->begin.boot_ns || a->last.real_ns != a->begin.real_ns)
		shape |= SHAPE_LAST;
	if (offset_of(a->begin) != last->offset_ns ||
	    offset_of(a->last) != last->offset_ns)
		shape |= SHAPE_CLOCKS;
	if (known)
		shape |= SHAPE_FILE;
	else if (a->dev != last->dev)
		shape |= SHAPE_DEV;
	if (!known && a->ino - last->ino + 32 < 64)
		shape |= SHAPE_NEAR;
	if (known && a->seen.flags && same_content(&a->seen, &known->content))
		shape |= SHAPE_SAME;
	else if (a->seen.flags)
		shape |= SHAPE_SEEN;
	if (a->made.flags)
		shape |= SHAPE_MADE;
	return shape;
}

/* Codes v by its difference from base, which is a multiple of unit. */
static uint64_t x_ns(struct coder *c, uint64_t unit, uint64_t base, uint64_t v)
{
	int64_t units = c->in ? 0 : (int64_t)(v - base) / (int64_t)unit;

	return base + unit * x_near(c, 0, (uint64_t)units);
}

/* Codes a time. clocks: the difference of the two clocks is not that of the record's
 * time.
 */
static struct shfs_time x_time(struct coder *c, uint64_t unit, bool clocks, uint64_t base,
                               struct shfs_time t)
{
	uint64_t offset = c->context->offset_ns;

	t.boot_ns = x_ns(c, unit, base, t.boot_ns);
	if (clocks)
		offset = x_ns(c, unit, offset, offset_of(t));
	t.real_ns = (int64_t)(t.boot_ns + offset);
	return t;
}

/* Codes a file that is in this batch already, by its number. NULL: there is none. */
static struct shfs_record_file *
x_known_file(struct coder *c, struct shfs_record_file *known, struct shfs_rec_access *a)
{
	struct shfs_record_files *files = c->context->files;
	size_t number = x_u64(c, known ? (size_t)(known - files->list) : 0);

	if (number >= files->n) {
		c->in->failed = true;
		return NULL;
	}
	known = &files->list[number];
	a->path = context_file_path(files, known);
	a->dev = known->dev;
	a->ino = known->ino;
	return known;
}

static struct shfs_record_file *x_new_file(struct coder *c, unsigned shape,
                                           struct shfs_rec_access *a)
{
	struct shfs_record_context *last = c->context;

	if (shape & SHAPE_DEV)
		last->dev = x_u64(c, a->dev);
	a->dev = last->dev;
	a->path = x_text(c, &last->path, a->path);
	if (c->in &&
	    a->path.len > SHFS_RECORD_PATH_MAX) { /* the files keep a copy of each */
		c->in->failed = true;
		return NULL;
	}
	a->ino = last->ino = x_near(c, shape & SHAPE_NEAR ? last->ino : 0, a->ino);
	return context_add_file(c, a);
}

static void x_contents(struct coder *c, unsigned shape, struct shfs_record_file *file,
                       struct shfs_rec_access *a)
{
	if (shape & SHAPE_SEEN)
		a->seen = x_content(c, a->seen);
	else if (shape & SHAPE_SAME && file)
		a->seen = file->content;
	if (shape & SHAPE_MADE)
		a->made = x_content(c, a->made);
	if (!file)
		return;
	if (a->made.flags)
		file->content = a->made;
	else if (a->seen.flags)
		file->content = a->seen;
}

static void x_access(struct coder *c, unsigned head, uint64_t now_ns,
                     struct shfs_rec_access *a)
{
	struct shfs_record_file *file = c->out ? known_file(c->context->files, a) : NULL;
	unsigned shape = c->out ? access_shape(c->context, file, a) : 0;
	bool clocks;

	shape = x_u8(c, shape);
	clocks = shape & SHAPE_CLOCKS;
	a->flags = x_u32(c, a->flags);
	a->begin = x_time(c, unit_of(head), clocks, now_ns, a->begin);
	a->last = shape & SHAPE_LAST ? x_time(c, unit_of(head), clocks, now_ns, a->last)
	                             : a->begin;
	a->process = x_process_of(c, head, a->process);
	file = shape & SHAPE_FILE ? x_known_file(c, file, a) : x_new_file(c, shape, a);
	x_contents(c, shape, file, a);
}

static void x_former(struct coder *c, struct shfs_former *f)
{
	f->flags = x_u32(c, f->flags);
	if (f->flags & (SHFS_FORMER_STATUS | SHFS_FORMER_TIME)) {
		f->mode = x_u32(c, f->mode);
		f->mtime_ns = (int64_t)x_fixed64(c, f->mtime_ns);
	}
	if (f->flags & SHFS_FORMER_STATUS) {
		f->uid = x_u32(c, f->uid);
		f->gid = x_u32(c, f->gid);
		f->links = x_u64(c, f->links);
		f->rdev = x_u64(c, f->rdev);
	}
	if (f->flags & (SHFS_FORMER_STATUS | SHFS_FORMER_NUMBER)) {
		f->dev = x_u64(c, f->dev);
		f->ino = x_u64(c, f->ino);
	}
	if (f->flags & SHFS_FORMER_XATTRS)
		f->xattrs = x_bytes(c, f->xattrs);
	if (f->flags & SHFS_FORMER_DIRECTORY)
		f->directory_mtime_ns = (int64_t)x_fixed64(c, f->directory_mtime_ns);
	if (f->flags & SHFS_FORMER_DIRECTORY2)
		f->directory2_mtime_ns = (int64_t)x_fixed64(c, f->directory2_mtime_ns);
	if (f->flags & SHFS_FORMER_TEXT)
		f->text = x_bytes(c, f->text);
}

static void x_pathop(struct coder *c, unsigned head, struct shfs_rec_pathop *o)
{
	struct shfs_record_context *last = c->context;

	o->op = x_u32(c, o->op);
	o->directory = x_u32(c, o->directory);
	o->process = x_process_of(c, head, o->process);
	o->path = x_text(c, &last->path, o->path);
	/* path2 is mostly in the same directory as path */
	last->path2.len = 0;
	shfs_buf_add(&last->path2, o->path.data, o->path.len);
	o->path2 = x_text(c, &last->path2, o->path2);
	o->content = x_content(c, o->content);
	o->victim = x_content(c, o->victim);
	o->dev = x_u64(c, o->dev);
	o->ino = x_u64(c, o->ino);
	o->nameless = x_u32(c, o->nameless);
}

static void x_preimage(struct coder *c, unsigned head, struct shfs_rec_preimage *p)
{
	p->process = x_process_of(c, head, p->process);
	p->path = x_text(c, &c->context->path, p->path);
	p->dev = x_u64(c, p->dev);
	p->ino = x_u64(c, p->ino);
	p->content = x_content(c, p->content);
}

/* Codes nothing by the context: readers that do not know this type skip it. */
static void x_program(struct coder *c, struct shfs_rec_program *p)
{
	uint32_t mode = c->context->mode;

	p->process = x_u64(c, p->process);
	p->path = x_bytes(c, p->path);
	c->context->mode = 0;
	p->content = x_content(c, p->content);
	c->context->mode = mode;
	p->manager = x_bytes(c, p->manager);
	p->package = x_bytes(c, p->package);
	p->version = x_bytes(c, p->version);
}

/* Codes nothing by the context, as x_program. */
static void x_lookup(struct coder *c, struct shfs_rec_lookup *l)
{
	l->process = x_u64(c, l->process);
	l->list = x_bytes(c, l->list);
}

/* Likewise. */
static void x_exit(struct coder *c, struct shfs_rec_exit *e)
{
	e->process = x_u64(c, e->process);
	e->status = x_u32(c, e->status);
	e->user_us = x_u64(c, e->user_us);
	e->system_us = x_u64(c, e->system_us);
	e->max_rss_kib = x_u64(c, e->max_rss_kib);
}

/* Likewise. */
static void x_note(struct coder *c, struct shfs_rec_note *n)
{
	n->removed = x_u32(c, n->removed);
	n->time_ns = (int64_t)x_fixed64(c, n->time_ns);
	n->command = x_bytes(c, n->command);
	n->host = x_bytes(c, n->host);
	n->boot_id = x_bytes(c, n->boot_id);
	n->path = x_bytes(c, n->path);
	n->version_ns = (int64_t)x_fixed64(c, n->version_ns);
	n->tag = x_bytes(c, n->tag);
	n->text = x_bytes(c, n->text);
}

static void x_lost(struct coder *c, struct shfs_rec_lost *l)
{
	l->count = x_u64(c, l->count);
	l->error = (int32_t)x_near32(c, 0, (uint32_t)l->error);
}

/* Codes the fields of a record. False: its type is not one of segments. */
static bool x_body(struct coder *c, unsigned head, struct shfs_record *rec)
{
	switch (rec->type) {
	case SHFS_REC_PRODUCER:
		x_producer(c, &rec->producer);
		return true;
	case SHFS_REC_PROCESS:
		x_process(c, &rec->process);
		return true;
	case SHFS_REC_ACCESS:
		x_access(c, head, rec->time.boot_ns, &rec->access);
		return true;
	case SHFS_REC_PATHOP:
		x_pathop(c, head, &rec->pathop);
		return true;
	case SHFS_REC_PREIMAGE:
		x_preimage(c, head, &rec->preimage);
		return true;
	case SHFS_REC_LOST:
		x_lost(c, &rec->lost);
		return true;
	case SHFS_REC_END:
		return true;
	case SHFS_REC_PROGRAM:
		x_program(c, &rec->program);
		return true;
	case SHFS_REC_LOOKUP:
		x_lookup(c, &rec->lookup);
		return true;
	case SHFS_REC_EXIT:
		x_exit(c, &rec->exit);
		return true;
	case SHFS_REC_NOTE:
		x_note(c, &rec->note);
		return true;
	default:
		return false;
	}
}

/* Returns the process of a record; `otherwise`: its type has none. */
static uint64_t record_process_id(const struct shfs_record *rec, uint64_t otherwise)
{
	switch (rec->type) {
	case SHFS_REC_ACCESS:
		return rec->access.process;
	case SHFS_REC_PATHOP:
		return rec->pathop.process;
	case SHFS_REC_PREIMAGE:
		return rec->preimage.process;
	default:
		return otherwise;
	}
}

static void x_head(struct coder *c, unsigned head, struct shfs_record *rec)
{
	struct shfs_record_context *last = c->context;
	uint64_t offset = last->offset_ns;

	rec->seq = head & HEAD_GAP ? x_near(c, last->seq + 1, rec->seq) : last->seq + 1;
	rec->time.boot_ns = x_ns(c, unit_of(head), last->boot_ns, rec->time.boot_ns);
	if (head & HEAD_CLOCK)
		offset = x_ns(c, unit_of(head), offset, offset_of(rec->time));
	rec->time.real_ns = (int64_t)(rec->time.boot_ns + offset);
	last->seq = rec->seq;
	last->boot_ns = rec->time.boot_ns;
	last->offset_ns = offset;
}

static bool context_failed(const struct shfs_record_context *context)
{
	return context->files->names.failed || context->path.failed ||
	       context->path2.failed || context->exe.failed || context->cwd.failed ||
	       context->argv.failed || context->marker.failed ||
	       context->environment.failed || context->device.failed ||
	       context->stream.failed || context->streams.failed;
}

/* Is the time in whole microseconds, and so far from the limits that no difference
 * overflows? */
static bool is_whole_microseconds(struct shfs_time t)
{
	return t.boot_ns % 1000 == 0 && t.real_ns % 1000 == 0 && t.real_ns >= 0 &&
	       t.real_ns < INT64_C(1) << 62 && t.boot_ns < UINT64_C(1) << 60;
}

static bool has_whole_times(const struct shfs_record *rec)
{
	if (rec->type == SHFS_REC_ACCESS && !(is_whole_microseconds(rec->access.begin) &&
	                                      is_whole_microseconds(rec->access.last)))
		return false;
	return is_whole_microseconds(rec->time);
}

/* Allocates the part of the context that is too large for the struct. */
static int context_begin(struct shfs_record_context *context)
{
	if (!context->files)
		context->files = calloc(1, sizeof(*context->files));
	return context->files ? 0 : -ENOMEM;
}

/* Does the record have fields that version 2 did not begin with? Readers that do not know
 * them skip them. */
static bool has_more_fields(const struct shfs_record *rec)
{
	switch (rec->type) {
	case SHFS_REC_PROCESS:
		return rec->process.streams.len || rec->process.environment.len;
	case SHFS_REC_ACCESS:
		return rec->access.directory_mtime_ns;
	case SHFS_REC_PATHOP:
		return rec->pathop.former.flags;
	default:
		return rec->type >= SHFS_REC_PROGRAM;
	}
}

/* end: of the body; NULL where it is written. */
static void x_more_fields(struct coder *c, const unsigned char *end,
                          struct shfs_record *rec)
{
	struct shfs_rec_process *p = &rec->process;

	if (rec->type == SHFS_REC_ACCESS)
		rec->access.directory_mtime_ns =
			(int64_t)x_fixed64(c, rec->access.directory_mtime_ns);
	if (rec->type == SHFS_REC_PATHOP)
		x_former(c, &rec->pathop.former);
	if (rec->type != SHFS_REC_PROCESS)
		return;
	p->streams = x_streams(c, p->streams);
	if (end ? c->in->p < end : p->environment.len)
		p->environment = x_text(c, &c->context->environment, p->environment);
}

/* Packs the body with its length in front. */
static void pack_long_body(struct coder *c, unsigned head, struct shfs_record *rec)
{
	_cleanup_buf_ struct shfs_buf body = { 0 };
	struct coder inner = { .context = c->context, .out = &body };

	shfs_buf_reserve(&body, FIXED_MAX);
	x_body(&inner, head, rec);
	x_more_fields(&inner, NULL, rec);
	c->out->failed |= body.failed;
	if (c->out->failed)
		return;
	shfs_put_varint(c->out, body.len);
	shfs_buf_add(c->out, body.data, body.len);
	shfs_buf_reserve(c->out, FIXED_MAX);
}

int shfs_record_pack(struct shfs_record_context *context, const struct shfs_record *rec,
                     struct shfs_buf *out)
{
	struct coder c = { .context = context, .out = out };
	struct shfs_record copy = *rec;
	unsigned head = (unsigned)rec->type <= HEAD_TYPE ? rec->type : 0;

	if (rec->type < SHFS_REC_PRODUCER || rec->type > SHFS_REC_NOTE)
		return -EINVAL;
	shfs_buf_reserve(out, FIXED_MAX);
	if (out->failed || context_begin(context))
		return -ENOMEM;
	if (rec->seq != context->seq + 1)
		head |= HEAD_GAP;
	if (offset_of(rec->time) != context->offset_ns)
		head |= HEAD_CLOCK;
	if (record_process_id(rec, context->process) != context->process)
		head |= HEAD_PROCESS;
	if (has_more_fields(rec))
		head |= HEAD_LONG;
	context->whole = context->whole && has_whole_times(rec);
	if (!context->whole)
		head |= HEAD_NS;
	shfs_buf_u8(out, head);
	if (!(head & HEAD_TYPE))
		shfs_put_varint(out, rec->type);
	x_head(&c, head, &copy);
	if (head & HEAD_LONG)
		pack_long_body(&c, head, &copy);
	else
		x_body(&c, head, &copy);
	return out->failed || context_failed(context) ? -ENOMEM : 0;
}

/* Reads the head: the record's type, and where it ends if it has a length. */
static void unpack_head(struct coder *c, struct shfs_record *rec, unsigned *head)
{
	*head = shfs_cursor_u8(c->in);
	*rec = (struct shfs_record){ .type = *head & HEAD_TYPE, .boot_resolution_ns = 1 };
	if (!rec->type)
		rec->type = x_u32(c, 0);
	x_head(c, *head, rec);
}

int shfs_record_unpack(struct shfs_record_context *context, struct shfs_cursor *in,
                       struct shfs_record *rec)
{
	struct coder c = { .context = context, .in = in };
	const unsigned char *end = NULL;
	bool known;
	unsigned head;

	if (context_begin(context))
		return -ENOMEM;
	unpack_head(&c, rec, &head);
	if (head & HEAD_LONG) {
		size_t len = shfs_get_varint(in);

		if (in->failed || len > (size_t)(in->end - in->p))
			in->failed = true;
		else
			end = in->p + len;
	}
	known = !in->failed && x_body(&c, head, rec);
	if (known && !in->failed && end && in->p < end)
		x_more_fields(&c, end, rec);
	if (context_failed(context))
		return -ENOMEM;
	if (in->failed || (end && in->p > end) || (!known && !end))
		return -EBADMSG;
	if (end)
		in->p = end;
	return known ? 0 : -ENOTSUP;
}

void shfs_record_context_reset(struct shfs_record_context *context)
{
	struct shfs_record_context empty = {
		.whole = true,
		.path = context->path,
		.path2 = context->path2,
		.exe = context->exe,
		.cwd = context->cwd,
		.argv = context->argv,
		.marker = context->marker,
		.environment = context->environment,
		.device = context->device,
		.stream = context->stream,
		.streams = context->streams,
		.files = context->files,
	};

	empty.path.len = empty.path2.len = empty.exe.len = 0;
	empty.cwd.len = empty.argv.len = empty.marker.len = 0;
	empty.environment.len = 0;
	empty.device.len = empty.stream.len = empty.streams.len = 0;
	*context = empty;
	if (!context->files)
		return;
	context->files->n = context->files->names.len = 0;
	memset(context->files->slots, 0, sizeof(context->files->slots));
}

void shfs_record_context_free(struct shfs_record_context *context)
{
	shfs_buf_free(&context->path);
	shfs_buf_free(&context->path2);
	shfs_buf_free(&context->exe);
	shfs_buf_free(&context->cwd);
	shfs_buf_free(&context->argv);
	shfs_buf_free(&context->marker);
	shfs_buf_free(&context->environment);
	shfs_buf_free(&context->device);
	shfs_buf_free(&context->stream);
	shfs_buf_free(&context->streams);
	if (context->files)
		shfs_buf_free(&context->files->names);
	free(context->files);
	*context = (struct shfs_record_context){ 0 };
}

/* --- what a change did away with --- */

void shfs_former_pack(const struct shfs_former *former, struct shfs_buf *out)
{
	struct coder c = { .out = out };
	struct shfs_former copy = *former;

	shfs_buf_reserve(out, FIXED_MAX);
	x_former(&c, &copy);
}

int shfs_former_unpack(const void *data, size_t len, struct shfs_former *out)
{
	struct shfs_cursor in = { data, (const unsigned char *)data + len, false };
	struct coder c = { .in = &in };
	struct shfs_former f = { 0 };

	x_former(&c, &f);
	if (in.failed)
		return -EBADMSG;
	*out = f;
	return 0;
}

void shfs_record_contents(struct shfs_record *rec, struct shfs_content *out[static 3])
{
	out[0] = out[1] = out[2] = NULL;
	if (rec->type == SHFS_REC_PREIMAGE) {
		out[0] = &rec->preimage.content;
	} else if (rec->type == SHFS_REC_ACCESS) {
		out[0] = &rec->access.seen;
		out[1] = &rec->access.made;
	} else if (rec->type == SHFS_REC_PATHOP) {
		out[0] = &rec->pathop.content;
		out[1] = &rec->pathop.victim;
	}
}
