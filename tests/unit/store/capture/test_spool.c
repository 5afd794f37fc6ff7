/* SPDX-License-Identifier: MIT */
/* What a guardian finds of a producer that died: this process plays both. */
#include "tests/unit/journalkit.h"

#include "store/capture/spool.h"

struct kit {
	struct shfs_store *store;
	struct shfs_spool *spool;
	struct shfs_journal *journal;
};

static struct kit kit_begin(void)
{
	struct kit k = { .store = kit_store(), .spool = shfs_spool_new() };
	struct shfs_journal_options o = { .kind = "fuse", .root = "/home/u/project" };

	assert_non_null(k.spool);
	o.told = shfs_spool_identity(k.spool);
	o.rotate_bytes = 20000;
	assert_ok(shfs_journal_open(k.store, &o, &k.journal));
	return k;
}

/* As it is emitted: in memory that is used again. */
static void add(struct kit *k, unsigned n)
{
	char path[32];
	struct shfs_record rec = numbered(n, path);

	shfs_spool_add(k->spool, &rec, (bool[]){ false, false });
	memset(path, 'x', sizeof(path));
}

static void add_all(struct kit *k, unsigned from, unsigned to)
{
	for (unsigned n = from; n < to; n++)
		add(k, n);
}

static void write_to_journal(struct kit *k, unsigned from, unsigned to)
{
	append_numbered(k->journal, from, to);
	assert_ok(shfs_journal_sync(k->journal));
}

struct seen {
	unsigned next; /* the number that is expected */
	uint64_t lost;
	unsigned segments, ends;
};

static int read_segment(const struct shfs_journal_file *file, void *arg)
{
	struct seen *seen = arg;
	struct shfs_segment *s;
	struct shfs_record rec, expected;
	char path[32];

	seen->segments++;
	assert_ok(shfs_segment_open(file->dirfd, file->name, 0, &s));
	while (shfs_segment_next(s, &rec) == 1) {
		if (rec.type == SHFS_REC_LOST) {
			seen->lost += rec.lost.count;
			assert_true(rec.seq >= seen->next);
		}
		seen->ends += rec.type == SHFS_REC_END;
		if (rec.type == SHFS_REC_PRODUCER)
			assert_int_equal(rec.producer.pid, getpid());
		if (rec.type != SHFS_REC_PREIMAGE)
			continue;
		expected = numbered(seen->next++, path);
		records_same(&expected, &rec);
	}
	assert_int_equal(shfs_segment_damaged(s), 0);
	shfs_segment_close(s);
	return 0;
}

/* The producer is gone; what is in the journal then. */
static struct seen rescued(struct kit *k)
{
	struct seen seen = { .next = 1 };

	shfs_journal_free(k->journal);
	for (int i = 0; i < 2; i++) /* a guardian that comes again finds it done */
		assert_ok(shfs_spool_rescue(k->spool, k->store, "/home/u/project"));
	assert_ok(
		shfs_journal_walk(k->store, SHFS_JOURNAL_SEGMENTS, read_segment, &seen));
	assert_int_equal(seen.ends, 0);
	shfs_spool_free(k->spool);
	shfs_store_close(k->store);
	return seen;
}

static void what_is_not_written_yet(void **state)
{
	struct kit k = kit_begin();
	struct seen seen;

	add_all(&k, 1, 500);
	write_to_journal(&k, 1, 100);
	shfs_spool_done(k.spool, 99);
	seen = rescued(&k);
	assert_int_equal(seen.next, 500);
	assert_int_equal(seen.lost, 0);
}

/* It died between the two. */
static void what_is_written_and_not_noted(void **state)
{
	struct kit k = kit_begin();

	add_all(&k, 1, 500);
	write_to_journal(&k, 1, 300);
	assert_int_equal(rescued(&k).next, 500);
}

static void nothing_is_left(void **state)
{
	struct kit k = kit_begin();
	struct seen seen;

	add(&k, 1);
	write_to_journal(&k, 1, 2);
	shfs_spool_done(k.spool, 1);
	seen = rescued(&k);
	assert_int_equal(seen.next, 2);
	assert_int_equal(seen.segments, 1);
}

/* Many times round, with more and less in it. */
static void round_and_round(void **state)
{
	struct kit k = kit_begin();
	unsigned n = 1, written = 1, end = 200000;

	while (n < end) {
		unsigned to = MIN(n + 1 + n * 7919 % 9000, end), upto;

		for (; n < to; n++)
			add(&k, n);
		upto = n == end ? n - 77 : n - MIN(n - written, n % 3000);
		write_to_journal(&k, written, upto);
		shfs_spool_done(k.spool, upto - 1);
		written = upto;
	}
	assert_int_equal(rescued(&k).next, end);
}

static void no_room(void **state)
{
	struct kit k = kit_begin();
	unsigned end = SHFS_SPOOL_BYTES / 64;
	struct seen seen;

	add_all(&k, 1, end);
	seen = rescued(&k);
	assert_true(seen.next > 1000 && seen.next < end);
	assert_int_equal(seen.lost, end - seen.next);
}

/* There was none, and all that was missed is in the journal since. */
static void room_again(void **state)
{
	struct kit k = kit_begin();
	unsigned end = SHFS_SPOOL_BYTES / 64;
	struct seen seen;

	add_all(&k, 1, end);
	write_to_journal(&k, 1, end);
	shfs_spool_done(k.spool, end - 1);
	add_all(&k, end, end + 100);
	seen = rescued(&k);
	assert_int_equal(seen.next, end + 100);
	assert_int_equal(seen.lost, 0);
}

static void contents_are_unknown(void **state)
{
	struct kit k = kit_begin();
	struct shfs_record rec = {
		.type = SHFS_REC_ACCESS,
		.seq = 1,
		.time = { 1, 2 },
		.boot_resolution_ns = 1,
		.access = {
			.process = 1,
			.path = shfs_bytes_str("f"),
			.seen = { .flags = SHFS_CONTENT_KNOWN, .size = 5 },
			.made = { .flags = SHFS_CONTENT_KNOWN, .size = 6 },
		},
	};
	struct shfs_segment *s;
	struct shfs_record back;
	char name[256];

	shfs_spool_add(k.spool, &rec, (bool[]){ false, true });
	shfs_journal_free(k.journal);
	assert_ok(shfs_spool_rescue(k.spool, k.store, "/home/u/project"));
	snprintf(name, sizeof(name), "fuse-%.8s-%.8s-000001.seg",
	         shfs_spool_identity(k.spool)->boot_id,
	         shfs_spool_identity(k.spool)->instance);
	assert_ok(shfs_segment_open(k.store->journal_fd, name, 0, &s));
	assert_int_equal(shfs_segment_next(s, &back), 1);
	assert_int_equal(shfs_segment_next(s, &back), 1);
	assert_int_equal(back.access.seen.size, 5);
	assert_int_equal(back.access.made.flags, SHFS_CONTENT_SKIP_ERROR);
	shfs_segment_close(s);
	shfs_spool_free(k.spool);
	shfs_store_close(k.store);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_written_yet),
		cmocka_unit_test(what_is_written_and_not_noted),
		cmocka_unit_test(nothing_is_left),
		cmocka_unit_test(round_and_round),
		cmocka_unit_test(no_room),
		cmocka_unit_test(room_again),
		cmocka_unit_test(contents_are_unknown),
	};

	return shfs_unit_main(tests, argc, argv);
}
