/* SPDX-License-Identifier: MIT */
/*
 * capturekit.h - a store, a project directory and a capture between them; system calls
 * that wait or fail when asked to; the journal as a list.
 */
#pragma once

#include "tests/unit/storekit.h"

#include "store/capture/capture.h"
#include "store/objects/object.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#define MANY (16 << 20)

/* --- system calls --- */

/* Reads of these inodes wait while they are set. */
static _Atomic ino_t kit_gate, kit_other_gate;
static atomic_int kit_waiting; /* so many do */

/* What writes and allocations below the store fail with; 0. */
static atomic_int kit_write_error;

ssize_t pread64(int fd, void *data, size_t len, off_t offset);
ssize_t write(int fd, const void *data, size_t len);
int fallocate64(int fd, int mode, off_t offset, off_t len);

static inline bool kit_is_gated(ino_t inode)
{
	return inode == kit_gate || inode == kit_other_gate;
}

ssize_t pread64(int fd, void *data, size_t len, off_t offset)
{
	struct stat st;

	if ((kit_gate || kit_other_gate) && !fstat(fd, &st) && kit_is_gated(st.st_ino)) {
		kit_waiting++;
		while (kit_is_gated(st.st_ino))
			usleep(1000);
		kit_waiting--;
	}
	return syscall(SYS_pread64, fd, data, len, offset);
}

ssize_t write(int fd, const void *data, size_t len)
{
	if (kit_write_error && fd > STDERR_FILENO) {
		errno = kit_write_error;
		return -1;
	}
	return syscall(SYS_write, fd, data, len);
}

int fallocate64(int fd, int mode, off_t offset, off_t len)
{
	if (kit_write_error) {
		errno = kit_write_error;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

static inline int64_t kit_now_ms(void)
{
	return shfs_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* Waits until it is true, for up to ten seconds. */
#define kit_until(condition)                                                             \
	do {                                                                             \
		int64_t until_ = kit_now_ms() + 10000;                                   \
		while (!(condition) && kit_now_ms() < until_)                            \
			usleep(2000);                                                    \
		assert_true(condition);                                                  \
	} while (0)

/* --- a capture --- */

struct kit {
	struct shfs_store *store;
	struct shfs_config config;
	struct shfs_capture *capture;
	int dirfd; /* of the project */
};

static inline _unused_ void kit_begin(struct kit *k, struct shfs_store *store,
                                      size_t queue_max, unsigned threads)
{
	struct shfs_capture_options o = { .config = &k->config,
		                          .kind = "fuse",
		                          .root = "/home/u/project",
		                          .queue_max = queue_max,
		                          .threads = threads };

	if (!k->config.ignore)
		assert_ok(shfs_config_init(&k->config));
	k->store = store;
	k->dirfd = open(shfs_unit_tmpdir(), O_RDONLY | O_DIRECTORY);
	assert_true(k->dirfd >= 0);
	assert_ok(shfs_capture_open(store, &o, &k->capture));
}

static inline _unused_ void kit_close(struct kit *k)
{
	shfs_capture_close(TAKE_PTR(k->capture));
}

static inline _unused_ void kit_end(struct kit *k)
{
	kit_gate = kit_other_gate = 0;
	kit_write_error = 0;
	kit_close(k);
	shfs_config_free(&k->config);
	shfs_store_close(k->store);
	close(k->dirfd);
}

static inline _unused_ struct shfs_capture_stats kit_stats(struct kit *k)
{
	struct shfs_capture_stats stats;

	shfs_capture_get_stats(k->capture, &stats);
	return stats;
}

/* --- files of the project --- */

static inline _unused_ void kit_write_file(struct kit *k, const char *name,
                                           const struct shfs_buf *b)
{
	_cleanup_close_ int fd =
		openat(k->dirfd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	for (size_t done = 0; done < b->len;) {
		ssize_t n = pwrite(fd, b->data + done, b->len - done, (off_t)done);

		assert_true(n > 0);
		done += (size_t)n;
	}
}

/* A file of so many bytes that its seed decides; opened for reading. */
static inline _unused_ int kit_file(struct kit *k, const char *name, size_t len,
                                    uint64_t seed)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	int fd;

	kit_noise(&b, len, seed);
	kit_write_file(k, name, &b);
	fd = openat(k->dirfd, name, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static inline _unused_ struct shfs_snapshot *kit_archive(struct kit *k, int fd)
{
	struct shfs_snapshot *s = shfs_snapshot_new(k->capture);

	shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
	return s;
}

static inline _unused_ ino_t kit_inode(int fd)
{
	struct stat st;

	assert_ok(fstat(fd, &st));
	return st.st_ino;
}

/* An archiver hangs in reading this new file of 100000 bytes, until kit_gate is 0. */
static inline _unused_ int kit_hang(struct kit *k, const char *name, uint64_t seed,
                                    struct shfs_snapshot **s)
{
	int fd = kit_file(k, name, 100000, seed);

	kit_gate = kit_inode(fd);
	*s = kit_archive(k, fd);
	return fd;
}

static inline _unused_ void kit_assert_object(struct kit *k, const struct shfs_content *c,
                                              size_t len, uint64_t seed)
{
	_cleanup_buf_ struct shfs_buf b = { 0 }, out = { 0 };

	kit_noise(&b, len, seed);
	assert_true(c->flags & SHFS_CONTENT_OBJECT);
	assert_int_equal(c->size, len);
	assert_ok(shfs_object_read(k->store, &c->object, len, &out));
	assert_int_equal(out.len, len);
	assert_memory_equal(out.data, b.data, len);
}

/* --- events --- */

static inline _unused_ uint64_t kit_emit_preimage(struct kit *k, const char *path,
                                                  struct shfs_snapshot *s)
{
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE };
	struct shfs_snapshot *content[2] = { s, NULL };

	rec.preimage.path = shfs_bytes_str(path);
	return shfs_capture_emit(k->capture, &rec, content);
}

static inline _unused_ uint64_t kit_emit_process(struct kit *k, uint32_t pid)
{
	struct shfs_record rec = { .type = SHFS_REC_PROCESS };

	rec.process.pid = pid;
	rec.process.exe = shfs_bytes_str("/bin/sh");
	return shfs_capture_emit(k->capture, &rec, NULL);
}

/* --- the journal --- */

#define KIT_RECORDS_MAX 5000

struct kit_journal {
	struct shfs_record recs[KIT_RECORDS_MAX]; /* without their strings */
	char paths[KIT_RECORDS_MAX][32];
	unsigned n;
	uint64_t lost; /* counted by LOST records */
	int lost_error;
	bool ended;
};

static inline void kit_note(struct kit_journal *j, const struct shfs_record *rec)
{
	struct shfs_bytes path = { "", 0 };

	switch (rec->type) {
	case SHFS_REC_PRODUCER:
		return;
	case SHFS_REC_END:
		j->ended = true;
		return;
	case SHFS_REC_LOST:
		j->lost += rec->lost.count;
		j->lost_error = rec->lost.error;
		return;
	case SHFS_REC_PREIMAGE:
		path = rec->preimage.path;
		break;
	case SHFS_REC_ACCESS:
		path = rec->access.path;
		break;
	default:
		break;
	}
	assert_true(j->n < KIT_RECORDS_MAX);
	snprintf(j->paths[j->n], sizeof(j->paths[0]), "%.*s", (int)path.len, path.data);
	j->recs[j->n++] = *rec;
}

static inline int kit_read_segment(const struct shfs_journal_file *file, void *arg)
{
	struct kit_journal *j = arg;
	struct shfs_segment *s;
	struct shfs_record rec;
	uint64_t last = 0;
	int r;

	assert_ok(shfs_segment_open(file->dirfd, file->name, 0, &s));
	while ((r = shfs_segment_next(s, &rec)) == 1) {
		assert_true(rec.seq > last || rec.type == SHFS_REC_PRODUCER);
		last = rec.seq;
		kit_note(j, &rec);
	}
	assert_ok(r);
	assert_int_equal(shfs_segment_damaged(s), 0);
	shfs_segment_close(s);
	return 0;
}

/* All that is in the journal. To be freed. */
static inline _unused_ struct kit_journal *kit_read_journal(struct kit *k)
{
	struct kit_journal *j = calloc(1, sizeof(*j));

	assert_non_null(j);
	assert_ok(shfs_journal_walk(k->store, SHFS_JOURNAL_ALL, kit_read_segment, j));
	return j;
}

/* The record of this path; fails where there is none. */
static inline _unused_ const struct shfs_record *kit_find(const struct kit_journal *j,
                                                          const char *path)
{
	for (unsigned i = 0; i < j->n; i++)
		if (!strcmp(j->paths[i], path))
			return &j->recs[i];
	fail_msg("no record of %s", path);
	return NULL;
}
