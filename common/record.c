/* SPDX-License-Identifier: MIT */
#include "common/record.h"

#include <errno.h>

static void put(struct shfs_buf *b, struct shfs_bytes v)
{
	shfs_buf_bytes(b, v.data, v.len);
}

static void put_time(struct shfs_buf *b, struct shfs_time t)
{
	shfs_buf_u64(b, t.real_ns);
	shfs_buf_u64(b, t.boot_ns);
}

static struct shfs_time get_time(struct shfs_cursor *c)
{
	struct shfs_time t;

	t.real_ns = shfs_cursor_u64(c);
	t.boot_ns = shfs_cursor_u64(c);
	return t;
}

static void put_content(struct shfs_buf *b, const struct shfs_content *v)
{
	shfs_buf_u32(b, v->flags);
	if (!(v->flags & SHFS_CONTENT_KNOWN))
		return;
	shfs_buf_u32(b, v->mode);
	shfs_buf_u64(b, v->size);
	shfs_buf_u64(b, v->mtime_ns);
	shfs_buf_u64(b, v->ctime_ns);
	shfs_buf_u64(b, v->phash);
	shfs_buf_add(b, v->object.hash, sizeof(v->object.hash));
	shfs_buf_u32(b, v->object.nth);
}

static struct shfs_content get_content(struct shfs_cursor *c)
{
	struct shfs_content v = { .flags = shfs_cursor_u32(c) };

	if (!(v.flags & SHFS_CONTENT_KNOWN)) {
		v.flags &= SHFS_CONTENT_SKIPPED; /* why nothing is known */
		return v;
	}
	v.mode = shfs_cursor_u32(c);
	v.size = shfs_cursor_u64(c);
	v.mtime_ns = shfs_cursor_u64(c);
	v.ctime_ns = shfs_cursor_u64(c);
	v.phash = shfs_cursor_u64(c);
	shfs_cursor_copy(c, v.object.hash, sizeof(v.object.hash));
	v.object.nth = shfs_cursor_u32(c);
	return v;
}

static void put_producer(struct shfs_buf *b, const struct shfs_rec_producer *p)
{
	shfs_buf_u32(b, p->version);
	put(b, p->host);
	put(b, p->boot_id);
	put(b, p->kind);
	put(b, p->instance);
	put(b, p->root);
	put(b, p->software);
	shfs_buf_u64(b, p->pid_namespace);
	shfs_buf_u32(b, p->pid);
	shfs_buf_u32(b, p->uid);
	shfs_buf_u64(b, p->start_ticks);
	shfs_buf_u32(b, p->segment);
	shfs_buf_u32(b, p->pid_max);
}

static void get_producer(struct shfs_cursor *c, struct shfs_rec_producer *p)
{
	p->version = shfs_cursor_u32(c);
	p->host = shfs_cursor_bytes(c);
	p->boot_id = shfs_cursor_bytes(c);
	p->kind = shfs_cursor_bytes(c);
	p->instance = shfs_cursor_bytes(c);
	p->root = shfs_cursor_bytes(c);
	p->software = shfs_cursor_bytes(c);
	p->pid_namespace = shfs_cursor_u64(c);
	p->pid = shfs_cursor_u32(c);
	p->uid = shfs_cursor_u32(c);
	p->start_ticks = shfs_cursor_u64(c);
	p->segment = shfs_cursor_u32(c);
	p->pid_max = shfs_cursor_u32(c);
}

static void put_process(struct shfs_buf *b, const struct shfs_rec_process *p)
{
	shfs_buf_u32(b, p->pid);
	shfs_buf_u32(b, p->ppid);
	shfs_buf_u32(b, p->pgid);
	shfs_buf_u32(b, p->sid);
	shfs_buf_u32(b, p->uid);
	shfs_buf_u32(b, p->tty_nr);
	shfs_buf_u64(b, p->start_ticks);
	shfs_buf_u64(b, p->parent_start_ticks);
	put(b, p->exe);
	put(b, p->cwd);
	put(b, p->argv);
	put(b, p->marker);
}

static void get_process(struct shfs_cursor *c, struct shfs_rec_process *p)
{
	p->pid = shfs_cursor_u32(c);
	p->ppid = shfs_cursor_u32(c);
	p->pgid = shfs_cursor_u32(c);
	p->sid = shfs_cursor_u32(c);
	p->uid = shfs_cursor_u32(c);
	p->tty_nr = shfs_cursor_u32(c);
	p->start_ticks = shfs_cursor_u64(c);
	p->parent_start_ticks = shfs_cursor_u64(c);
	p->exe = shfs_cursor_bytes(c);
	p->cwd = shfs_cursor_bytes(c);
	p->argv = shfs_cursor_bytes(c);
	if (c->p == c->end) /* written before these were there */
		return;
	p->marker = shfs_cursor_bytes(c);
}

static void put_access(struct shfs_buf *b, const struct shfs_rec_access *a)
{
	shfs_buf_u64(b, a->process);
	shfs_buf_u32(b, a->flags);
	put_time(b, a->begin);
	put_time(b, a->last);
	put(b, a->path);
	shfs_buf_u64(b, a->dev);
	shfs_buf_u64(b, a->ino);
	put_content(b, &a->seen);
	put_content(b, &a->made);
}

static void get_access(struct shfs_cursor *c, struct shfs_rec_access *a)
{
	a->process = shfs_cursor_u64(c);
	a->flags = shfs_cursor_u32(c);
	a->begin = get_time(c);
	a->last = get_time(c);
	a->path = shfs_cursor_bytes(c);
	a->dev = shfs_cursor_u64(c);
	a->ino = shfs_cursor_u64(c);
	a->seen = get_content(c);
	a->made = get_content(c);
}

static void put_pathop(struct shfs_buf *b, const struct shfs_rec_pathop *o)
{
	shfs_buf_u64(b, o->process);
	shfs_buf_u32(b, o->op);
	shfs_buf_u32(b, o->directory);
	put(b, o->path);
	put(b, o->path2);
	put_content(b, &o->content);
	put_content(b, &o->victim);
	shfs_buf_u64(b, o->dev);
	shfs_buf_u64(b, o->ino);
	shfs_buf_u32(b, o->nameless);
}

static void get_pathop(struct shfs_cursor *c, struct shfs_rec_pathop *o)
{
	o->process = shfs_cursor_u64(c);
	o->op = shfs_cursor_u32(c);
	o->directory = shfs_cursor_u32(c);
	o->path = shfs_cursor_bytes(c);
	o->path2 = shfs_cursor_bytes(c);
	o->content = get_content(c);
	o->victim = get_content(c);
	if (c->p == c->end) /* written before these were there */
		return;
	o->dev = shfs_cursor_u64(c);
	o->ino = shfs_cursor_u64(c);
	o->nameless = shfs_cursor_u32(c);
}

static void put_preimage(struct shfs_buf *b, const struct shfs_rec_preimage *p)
{
	shfs_buf_u64(b, p->process);
	put(b, p->path);
	shfs_buf_u64(b, p->dev);
	shfs_buf_u64(b, p->ino);
	put_content(b, &p->content);
}

static void get_preimage(struct shfs_cursor *c, struct shfs_rec_preimage *p)
{
	p->process = shfs_cursor_u64(c);
	p->path = shfs_cursor_bytes(c);
	p->dev = shfs_cursor_u64(c);
	p->ino = shfs_cursor_u64(c);
	p->content = get_content(c);
}

int shfs_record_encode(const struct shfs_record *rec, struct shfs_buf *out)
{
	switch (rec->type) {
	case SHFS_REC_PRODUCER:
		put_producer(out, &rec->producer);
		break;
	case SHFS_REC_PROCESS:
		put_process(out, &rec->process);
		break;
	case SHFS_REC_ACCESS:
		put_access(out, &rec->access);
		break;
	case SHFS_REC_PATHOP:
		put_pathop(out, &rec->pathop);
		break;
	case SHFS_REC_PREIMAGE:
		put_preimage(out, &rec->preimage);
		break;
	case SHFS_REC_LOST:
		shfs_buf_u64(out, rec->lost.count);
		shfs_buf_u32(out, rec->lost.error);
		break;
	case SHFS_REC_END:
		break;
	default:
		return -EINVAL;
	}
	return out->failed ? -ENOMEM : 0;
}

int shfs_record_decode(const void *payload, size_t len, struct shfs_record *rec)
{
	struct shfs_cursor c = { payload, (const unsigned char *)payload + len, false };

	switch (rec->type) {
	case SHFS_REC_PRODUCER:
		get_producer(&c, &rec->producer);
		break;
	case SHFS_REC_PROCESS:
		get_process(&c, &rec->process);
		break;
	case SHFS_REC_ACCESS:
		get_access(&c, &rec->access);
		break;
	case SHFS_REC_PATHOP:
		get_pathop(&c, &rec->pathop);
		break;
	case SHFS_REC_PREIMAGE:
		get_preimage(&c, &rec->preimage);
		break;
	case SHFS_REC_LOST:
		rec->lost.count = shfs_cursor_u64(&c);
		rec->lost.error = shfs_cursor_u32(&c);
		break;
	case SHFS_REC_END:
		break;
	default:
		return -ENOTSUP;
	}
	return c.failed ? -EBADMSG : 0;
}
