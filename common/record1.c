/* SPDX-License-Identifier: MIT */
/* Payloads of version 1, which shfs 0.1 wrote: a record in each frame. */
#include "common/record.h"

#include <errno.h>

static struct shfs_time get_time(struct shfs_cursor *c)
{
	struct shfs_time t;

	t.real_ns = shfs_cursor_u64(c);
	t.boot_ns = shfs_cursor_u64(c);
	return t;
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

static void get_preimage(struct shfs_cursor *c, struct shfs_rec_preimage *p)
{
	p->process = shfs_cursor_u64(c);
	p->path = shfs_cursor_bytes(c);
	p->dev = shfs_cursor_u64(c);
	p->ino = shfs_cursor_u64(c);
	p->content = get_content(c);
}

int shfs_record_decode1(const void *payload, size_t len, struct shfs_record *rec)
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
