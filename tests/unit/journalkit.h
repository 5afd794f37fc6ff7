/* SPDX-License-Identifier: MIT */
/* journalkit.h - a journal of numbered records, and reading it back. */
#pragma once

#include "tests/unit/records.h"
#include "tests/unit/storekit.h"

#include "store/journal/journal.h"

/* --- writing --- */

static inline _unused_ struct shfs_journal *journal_at(struct shfs_store *store,
                                                       uint64_t rotate_bytes)
{
	struct shfs_journal_options o = { .kind = "fuse",
		                          .root = "/home/u/project",
		                          .rotate_bytes = rotate_bytes };
	struct shfs_journal *j;

	assert_ok(shfs_journal_open(store, &o, &j));
	return j;
}

static inline _unused_ int append(struct shfs_journal *j, const struct shfs_record *rec)
{
	return shfs_journal_append(j, &rec, 1, &(size_t){ 0 });
}

/* The nth record of a run of any length: its path tells n. */
static inline _unused_ struct shfs_record numbered(unsigned n, char path[static 32])
{
	struct shfs_record rec = {
		.type = SHFS_REC_PREIMAGE,
		.seq = n,
		.time = { 1000 + n, 2000 + n },
		.boot_resolution_ns = 1,
	};

	snprintf(path, 32, "file-%u", n);
	rec.preimage.path = shfs_bytes_str(path);
	rec.preimage.ino = n;
	rec.preimage.content = records_content(n % 7);
	return rec;
}

static inline _unused_ void append_numbered(struct shfs_journal *j, unsigned from,
                                            unsigned to)
{
	for (unsigned n = from; n < to; n++) {
		char path[32];
		struct shfs_record rec = numbered(n, path);

		assert_ok(append(j, &rec));
	}
}

/* --- reading --- */

struct found {
	char names[16][200];
	unsigned n;
};

static inline _unused_ int note_name(const struct shfs_journal_file *file, void *arg)
{
	struct found *f = arg;

	assert_true(f->n < ARRAY_SIZE(f->names));
	snprintf(f->names[f->n++], sizeof(f->names[0]), "%s/%s%s%s", file->host,
	         file->name, file->sealed ? " sealed" : "", file->hook_log ? " log" : "");
	return 0;
}

static inline _unused_ int open_first(const struct shfs_journal_file *file, void *arg)
{
	struct shfs_segment **s = arg;

	assert_ok(shfs_segment_open(file->dirfd, file->name, 0, s));
	return 1;
}

/* The first segment of the store. */
static inline _unused_ struct shfs_segment *first_segment(struct shfs_store *store)
{
	struct shfs_segment *s = NULL;

	assert_int_equal(shfs_journal_walk(store, SHFS_JOURNAL_ALL, open_first, &s), 1);
	return s;
}

static inline _unused_ int read_first(const struct shfs_journal_file *file, void *arg)
{
	kit_read(file->dirfd, file->name, arg);
	return 1;
}

/* All bytes of the first segment, which is not sealed. */
static inline _unused_ void segment_bytes(struct shfs_store *store, struct shfs_buf *out)
{
	assert_int_equal(shfs_journal_walk(store, SHFS_JOURNAL_ALL, read_first, out), 1);
}

/* Reads numbered records up to the end: they must be from..to-1, but for one at most. */
static inline _unused_ void expect_numbered(struct shfs_segment *s, unsigned from,
                                            unsigned to)
{
	struct shfs_record rec;
	char path[32];
	int r;

	while ((r = shfs_segment_next(s, &rec)) == 1) {
		struct shfs_record expected;

		if (rec.type != SHFS_REC_PREIMAGE)
			continue;
		expected = numbered(from++, path);
		records_same(&expected, &rec);
	}
	assert_ok(r);
	assert_int_equal(from, to);
}
