/* SPDX-License-Identifier: MIT */
/* records.h - a record of each type, with a distinct value in each field. */
#pragma once

#include "tests/unit/unit.h"

#include "common/record.h"

#include <string.h>

static inline struct shfs_content records_content(unsigned n)
{
	struct shfs_content c = {
		.flags = SHFS_CONTENT_KNOWN | SHFS_CONTENT_OBJECT | SHFS_CONTENT_PHASH,
		.mode = 0100600 + n,
		.size = 0x1122334455667700 + n,
		.mtime_ns = 1700000000000000000 + n,
		.ctime_ns = -5 - (int64_t)n,
		.phash = 0xfedcba9876543200 + n,
		.object = { .nth = n },
	};

	memset(c.object.hash, 0xa0 + n, sizeof(c.object.hash));
	return c;
}

static inline struct shfs_rec_producer records_producer(void)
{
	return (struct shfs_rec_producer){
		.version = SHFS_RECORD_VERSION,
		.host = shfs_bytes_str("host.example"),
		.boot_id = shfs_bytes_str("01234567-89ab-cdef-0123-456789abcdef"),
		.kind = shfs_bytes_str("fuse"),
		.instance = shfs_bytes_str("00112233445566778899aabbccddeeff"),
		.root = shfs_bytes_str("/home/u/pro\xffject\n"),
		.software = shfs_bytes_str("shfs 9.9"),
		.pid_namespace = 4026531836,
		.pid = 1234,
		.uid = 0xfffffffe,
		.start_ticks = 987654321012,
		.segment = 7,
		.pid_max = 4194304,
	};
}

static inline struct shfs_rec_process records_process(void)
{
	return (struct shfs_rec_process){
		.pid = 1,
		.ppid = 2,
		.pgid = 3,
		.sid = 4,
		.uid = 5,
		.tty_nr = 34816,
		.start_ticks = 1ULL << 40,
		.parent_start_ticks = (1ULL << 40) - 1,
		.exe = shfs_bytes_str("/usr/bin/env"),
		.cwd = shfs_bytes_str("/"),
		.argv = { "env\0\0-i", 7 },
		.marker = shfs_bytes_str("01234567-1-99-3"),
		.streams = { "/dev/null\0pipe:[7]\0", 19 },
		.environment = { "HOME=/h\0PATH=/bin\0", 18 },
	};
}

static const struct shfs_former records_former = {
	.flags = SHFS_FORMER_STATUS | SHFS_FORMER_XATTRS | SHFS_FORMER_DIRECTORY |
	         SHFS_FORMER_DIRECTORY2 | SHFS_FORMER_TEXT,
	.mode = 0104755,
	.uid = 1000,
	.gid = 0xfffffffe,
	.links = 3,
	.dev = 0x800000001,
	.ino = UINT64_MAX - 2,
	.rdev = 0x501,
	.mtime_ns = -7,
	.xattrs = { "\6\0\0\0user.a\2\0\0\0\0v", 16 },
	.directory_mtime_ns = 1700000000000000008,
	.directory2_mtime_ns = 1700000000000000009,
	.text = { "../else", 7 },
};

static const struct shfs_rec_lookup records_lookup = {
	.process = 2,
	.list = { "\0\3usr\x1b\4/lib\x3d\2/x\1y", 16 },
};

/* Those without a path below the root. */
static inline void records_get_small(unsigned n, struct shfs_record *r)
{
	switch (n) {
	case 6:
		r->type = SHFS_REC_LOST;
		r->lost = (struct shfs_rec_lost){ .count = 1ULL << 33, .error = -28 };
		break;
	case 7:
		r->type = SHFS_REC_PROGRAM;
		r->program = (struct shfs_rec_program){
			.process = 2,
			.path = shfs_bytes_str("/usr/bin/sort"),
			.content = records_content(6),
			.manager = shfs_bytes_str("dpkg"),
			.package = shfs_bytes_str("coreutils"),
			.version = shfs_bytes_str("9.1-1"),
		};
		break;
	case 8:
		r->type = SHFS_REC_EXIT;
		r->exit = (struct shfs_rec_exit){
			.process = 2,
			.status = 0x300,
			.user_us = UINT64_MAX,
			.system_us = 1ULL << 33,
			.max_rss_kib = 102400,
		};
		break;
	case 10:
		r->type = SHFS_REC_NOTE;
		r->note = (struct shfs_rec_note){
			.removed = 1,
			.time_ns = -1,
			.host = shfs_bytes_str("hosta"),
			.boot_id = shfs_bytes_str("0b1d2c3e-0000-4000-8000-000000000000"),
			.path = shfs_bytes_str("/home/u/project/a b"),
			.version_ns = INT64_MAX,
			.tag = shfs_bytes_str("fig2"),
		};
		break;
	case 11:
		r->type = SHFS_REC_NOTE;
		r->note = (struct shfs_rec_note){
			.time_ns = 1700000000000000000,
			.command = shfs_bytes_str("0123456789abcdef"),
			.text = shfs_bytes_str("the good one\nsee fig. 2"),
		};
		break;
	}
}

/* The nth of them; false behind the last. */
static inline bool records_get(unsigned n, struct shfs_record *out)
{
	struct shfs_record r = { .seq = n + 1,
		                 .time = { 1700000000000000000 + n, 123456789 + n },
		                 .boot_resolution_ns = 1 };

	switch (n) {
	case 0:
		r.type = SHFS_REC_PRODUCER;
		r.producer = records_producer();
		break;
	case 1:
		r.type = SHFS_REC_PROCESS;
		r.process = records_process();
		break;
	case 2:
		r.type = SHFS_REC_ACCESS;
		r.access = (struct shfs_rec_access){
			.process = 2,
			.flags = SHFS_ACCESS_READ | SHFS_ACCESS_WRITTEN,
			.begin = { 11, 12 },
			.last = { 13, 14 },
			.path = shfs_bytes_str("a/b"),
			.dev = 15,
			.ino = UINT64_MAX,
			.seen = records_content(1),
			.made = records_content(2),
			.directory_mtime_ns = 1700000000000000007,
		};
		break;
	case 3: /* contents that nobody looked at take no room */
		r.type = SHFS_REC_ACCESS;
		r.access = (struct shfs_rec_access){ .path = shfs_bytes_str("") };
		break;
	case 4:
		r.type = SHFS_REC_PATHOP;
		r.pathop = (struct shfs_rec_pathop){
			.process = 2,
			.op = SHFS_OP_RENAME,
			.directory = 1,
			.path = shfs_bytes_str("from"),
			.path2 = shfs_bytes_str("to"),
			.content = records_content(3),
			.victim = records_content(4),
			.dev = 0x800000001,
			.ino = UINT64_MAX - 1,
			.nameless = 1,
			.former = records_former,
		};
		break;
	case 5:
		r.type = SHFS_REC_PREIMAGE;
		r.preimage = (struct shfs_rec_preimage){
			.process = UINT64_MAX,
			.path = shfs_bytes_str("\n\x1e\x01"),
			.dev = 21,
			.ino = 22,
			.content = records_content(5),
		};
		break;
	case 6 ... 8:
		records_get_small(n, &r);
		break;
	case 9:
		r.type = SHFS_REC_LOOKUP;
		r.lookup = records_lookup;
		break;
	case 10 ... 11:
		records_get_small(n, &r);
		break;
	case 12:
		r.type = SHFS_REC_END;
		break;
	default:
		return false;
	}
	*out = r;
	return true;
}

static inline void records_same_bytes(struct shfs_bytes a, struct shfs_bytes b)
{
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.data, b.data, a.len);
}

static inline void records_same_content(const struct shfs_content *a,
                                        const struct shfs_content *b)
{
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->mode, b->mode);
	assert_true(a->size == b->size && a->phash == b->phash);
	assert_true(a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns);
	assert_memory_equal(a->object.hash, b->object.hash, 16);
	assert_int_equal(a->object.nth, b->object.nth);
}

static inline void records_same_time(struct shfs_time a, struct shfs_time b)
{
	assert_true(a.real_ns == b.real_ns && a.boot_ns == b.boot_ns);
}

static inline void records_same_producer(const struct shfs_rec_producer *a,
                                         const struct shfs_rec_producer *b)
{
	assert_int_equal(a->version, b->version);
	records_same_bytes(a->host, b->host);
	records_same_bytes(a->boot_id, b->boot_id);
	records_same_bytes(a->kind, b->kind);
	records_same_bytes(a->instance, b->instance);
	records_same_bytes(a->root, b->root);
	records_same_bytes(a->software, b->software);
	assert_true(a->pid_namespace == b->pid_namespace);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->uid, b->uid);
	assert_true(a->start_ticks == b->start_ticks);
	assert_int_equal(a->segment, b->segment);
	assert_int_equal(a->pid_max, b->pid_max);
}

static inline void records_same_process(const struct shfs_rec_process *a,
                                        const struct shfs_rec_process *b)
{
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->ppid, b->ppid);
	assert_int_equal(a->pgid, b->pgid);
	assert_int_equal(a->sid, b->sid);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->tty_nr, b->tty_nr);
	assert_true(a->start_ticks == b->start_ticks);
	assert_true(a->parent_start_ticks == b->parent_start_ticks);
	records_same_bytes(a->exe, b->exe);
	records_same_bytes(a->cwd, b->cwd);
	records_same_bytes(a->argv, b->argv);
	records_same_bytes(a->marker, b->marker);
	records_same_bytes(a->streams, b->streams);
	records_same_bytes(a->environment, b->environment);
}

static inline void records_same_access(const struct shfs_rec_access *a,
                                       const struct shfs_rec_access *b)
{
	assert_true(a->process == b->process);
	assert_int_equal(a->flags, b->flags);
	records_same_time(a->begin, b->begin);
	records_same_time(a->last, b->last);
	records_same_bytes(a->path, b->path);
	assert_true(a->dev == b->dev && a->ino == b->ino);
	records_same_content(&a->seen, &b->seen);
	records_same_content(&a->made, &b->made);
	assert_true(a->directory_mtime_ns == b->directory_mtime_ns);
}

static inline void records_same_former(const struct shfs_former *a,
                                       const struct shfs_former *b)
{
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_true(a->links == b->links && a->dev == b->dev && a->ino == b->ino);
	assert_true(a->rdev == b->rdev && a->mtime_ns == b->mtime_ns);
	records_same_bytes(a->xattrs, b->xattrs);
	records_same_bytes(a->text, b->text);
	assert_true(a->directory_mtime_ns == b->directory_mtime_ns);
	assert_true(a->directory2_mtime_ns == b->directory2_mtime_ns);
}

/* What the payload holds. */
static inline void records_same_payload(const struct shfs_record *a,
                                        const struct shfs_record *b)
{
	assert_int_equal(a->type, b->type);
	switch (a->type) {
	case SHFS_REC_PRODUCER:
		records_same_producer(&a->producer, &b->producer);
		break;
	case SHFS_REC_PROCESS:
		records_same_process(&a->process, &b->process);
		break;
	case SHFS_REC_ACCESS:
		records_same_access(&a->access, &b->access);
		break;
	case SHFS_REC_PATHOP:
		assert_true(a->pathop.process == b->pathop.process);
		assert_int_equal(a->pathop.op, b->pathop.op);
		assert_int_equal(a->pathop.directory, b->pathop.directory);
		records_same_bytes(a->pathop.path, b->pathop.path);
		records_same_bytes(a->pathop.path2, b->pathop.path2);
		records_same_content(&a->pathop.content, &b->pathop.content);
		records_same_content(&a->pathop.victim, &b->pathop.victim);
		records_same_former(&a->pathop.former, &b->pathop.former);
		assert_true(a->pathop.dev == b->pathop.dev);
		assert_true(a->pathop.ino == b->pathop.ino);
		assert_int_equal(a->pathop.nameless, b->pathop.nameless);
		break;
	case SHFS_REC_PREIMAGE:
		assert_true(a->preimage.process == b->preimage.process);
		records_same_bytes(a->preimage.path, b->preimage.path);
		assert_true(a->preimage.dev == b->preimage.dev);
		assert_true(a->preimage.ino == b->preimage.ino);
		records_same_content(&a->preimage.content, &b->preimage.content);
		break;
	case SHFS_REC_LOST:
		assert_true(a->lost.count == b->lost.count);
		assert_int_equal(a->lost.error, b->lost.error);
		break;
	case SHFS_REC_END:
		break;
	case SHFS_REC_LOOKUP:
		assert_true(a->lookup.process == b->lookup.process);
		records_same_bytes(a->lookup.list, b->lookup.list);
		break;
	case SHFS_REC_EXIT:
		assert_true(a->exit.process == b->exit.process);
		assert_int_equal(a->exit.status, b->exit.status);
		assert_true(a->exit.user_us == b->exit.user_us);
		assert_true(a->exit.system_us == b->exit.system_us);
		assert_true(a->exit.max_rss_kib == b->exit.max_rss_kib);
		break;
	case SHFS_REC_NOTE:
		assert_int_equal(a->note.removed, b->note.removed);
		assert_true(a->note.time_ns == b->note.time_ns);
		records_same_bytes(a->note.command, b->note.command);
		records_same_bytes(a->note.host, b->note.host);
		records_same_bytes(a->note.boot_id, b->note.boot_id);
		records_same_bytes(a->note.path, b->note.path);
		assert_true(a->note.version_ns == b->note.version_ns);
		records_same_bytes(a->note.tag, b->note.tag);
		records_same_bytes(a->note.text, b->note.text);
		break;
	case SHFS_REC_PROGRAM:
		assert_true(a->program.process == b->program.process);
		records_same_bytes(a->program.path, b->program.path);
		records_same_content(&a->program.content, &b->program.content);
		records_same_bytes(a->program.manager, b->program.manager);
		records_same_bytes(a->program.package, b->program.package);
		records_same_bytes(a->program.version, b->program.version);
		break;
	default:
		fail_msg("type %d", a->type);
	}
}

static inline void records_same(const struct shfs_record *a, const struct shfs_record *b)
{
	assert_true(a->seq == b->seq);
	records_same_time(a->time, b->time);
	assert_int_equal(a->boot_resolution_ns, b->boot_resolution_ns);
	records_same_payload(a, b);
}
