/* SPDX-License-Identifier: MIT */
/* Reading segments: positions, damage, other formats. */
#include "tests/unit/frames.h"
#include "tests/unit/journalkit.h"

#include <zstd.h>

/* --- positions --- */

/*
 * From each offset that a reader was told it goes on with the next record, sealed or not.
 */
static void offsets(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	uint64_t at[11];
	struct shfs_segment *s;
	struct shfs_record rec;
	struct found f = { 0 };
	char *name;

	append_numbered(j, 1, 10);
	s = first_segment(store);
	assert_int_equal(shfs_segment_offset(s), SHFS_SEGMENT_MAGIC_LEN);
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	for (unsigned n = 1; n <= 10; n++) {
		at[n] = shfs_segment_offset(s);
		assert_int_equal(shfs_segment_next(s, &rec), n < 10);
	}
	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_ALL, note_name, &f));
	name = strchr(f.names[0], '/') + 1;
	for (int sealed = 0; sealed < 2; sealed++) {
		for (unsigned n = 1; n <= 10; n++) {
			struct shfs_segment *t;

			assert_ok(shfs_segment_open(store->journal_fd, name, at[n], &t));
			assert_int_equal(shfs_segment_producer(t)->segment, 0);
			expect_numbered(t, n, 10);
			assert_int_equal(shfs_segment_damaged(t), 0);
			shfs_segment_close(t);
			/* not at a record: the next one is found */
			assert_ok(shfs_segment_open(store->journal_fd, name, at[n] - 3,
			                            &t));
			expect_numbered(t, n, 10);
			shfs_segment_close(t);
			/* behind the end */
			assert_ok(
				shfs_segment_open(store->journal_fd, name, 1 << 20, &t));
			assert_int_equal(shfs_segment_next(t, &rec), 0);
			shfs_segment_close(t);
		}
		if (!sealed) /* s has it open and goes on */
			assert_ok(shfs_journal_close(j));
	}
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	assert_int_equal(rec.type, SHFS_REC_END);
	shfs_segment_close(s);
	shfs_store_close(store);
}

/* --- damage --- */

/* A segment of so many records, as bytes; ends[n]: behind record n (0: PRODUCER). */
static void make_segment(unsigned records, struct shfs_buf *out, size_t *ends)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	struct shfs_segment *s;
	struct shfs_record rec;

	append_numbered(j, 1, records + 1);
	segment_bytes(store, out);
	s = first_segment(store);
	for (unsigned n = 0; shfs_segment_next(s, &rec) == 1; n++)
		ends[n] = shfs_segment_offset(s);
	shfs_segment_close(s);
	assert_ok(shfs_journal_close(j));
	shfs_store_close(store);
}

/*
 * Reads damaged bytes: every record must be one that was written, in order, as it was.
 * Returns which came (bit n), or -1 where it is no segment any more.
 */
static int read_damaged(const struct shfs_buf *b, uint64_t *damaged, uint64_t *offset)
{
	struct shfs_segment *s;
	struct shfs_record rec;
	int r = shfs_segment_from_memory(b->data, b->len, &s), came = 0;
	uint64_t last = 0;

	if (r) {
		assert_true(r == -EBADMSG || r == -EPROTONOSUPPORT);
		return -1;
	}
	while ((r = shfs_segment_next(s, &rec)) == 1) {
		char path[32];
		struct shfs_record expected;

		if (rec.type == SHFS_REC_PRODUCER)
			continue;
		assert_true(rec.seq > last);
		last = rec.seq;
		expected = numbered((unsigned)rec.seq, path);
		records_same(&expected, &rec);
		came |= 1 << rec.seq;
	}
	assert_ok(r);
	*damaged = shfs_segment_damaged(s);
	*offset = shfs_segment_offset(s);
	shfs_segment_close(s);
	return came;
}

/* Each bit of each byte flipped: the record it is in is lost, and nothing else. */
static void each_flip_costs_one_record(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t ends[8] = { 0 };
	unsigned n = 0;

	make_segment(5, &b, ends);
	for (size_t i = 0; i < b.len; i++) {
		n += i >= ends[n];
		for (int bit = 0; bit < 8; bit++) {
			uint64_t damaged = 0, offset = 0;
			int came, lost = 0x3e & ~(1 << n);

			b.data[i] ^= (char)(1 << bit);
			came = read_damaged(&b, &damaged, &offset);
			b.data[i] ^= (char)(1 << bit);
			if (i < ends[0]) { /* who wrote it is not known */
				assert_int_equal(came, -1);
				continue;
			}
			if (came != lost)
				fail_msg("byte %zu, bit %d: %x", i, bit, (unsigned)came);
			assert_int_equal(damaged, ends[n] - ends[n - 1]);
			assert_int_equal(offset, b.len);
		}
	}
}

static void each_cut_costs_what_it_cuts(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t ends[8] = { 0 };

	make_segment(5, &b, ends);
	for (size_t len = 0; len <= b.len; len++) {
		struct shfs_buf cut = { .data = malloc(len + 1), .len = len };
		uint64_t damaged = 0, offset = 0, whole = ends[0];
		int came, expected = 0;

		memcpy(cut.data, b.data, len);
		for (unsigned n = 1; n <= 5 && ends[n] <= len; n++) {
			expected |= 1 << n;
			whole = ends[n];
		}
		came = read_damaged(&cut, &damaged, &offset);
		assert_int_equal(came, len < ends[0] ? -1 : expected);
		assert_int_equal(damaged, came < 0 ? 0 : len - whole);
		free(cut.data);
	}
}

static bool ends_in_magic(const char *text)
{
	size_t len = strlen(text);

	return len >= 4 && !strcmp(text + len - 4, "SHFB");
}

/* Bytes taken out or put in anywhere behind the first record. */
static void holes_and_garbage(void **state)
{
	static const char *const garbage[] = { "x", "SHFB", "SHFBSHFBSHFBSHFB",
		                               "SHFB\x10\x10\x10\x10 and more" };
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t ends[8] = { 0 };
	unsigned n = 0;

	make_segment(5, &b, ends);
	for (size_t i = ends[0]; i < b.len; i++) {
		n += i >= ends[n];
		for (size_t g = 0; g < ARRAY_SIZE(garbage); g++) {
			_cleanup_buf_ struct shfs_buf made = { 0 };
			uint64_t damaged, offset;
			int came, all = 0x3e;

			shfs_buf_add(&made, b.data, i);
			shfs_buf_str(&made, garbage[g]);
			shfs_buf_add(&made, b.data + i, b.len - i);
			came = read_damaged(&made, &damaged, &offset);
			/* between two records it costs none */
			if (i == ends[n - 1] ||
			    (i == ends[n - 1] + 4 && ends_in_magic(garbage[g])) ||
			    (i == ends[n] - 1 && b.data[i] == garbage[g][0]))
				assert_int_equal(came, all);
			else
				assert_int_equal(came, all & ~(1 << n));

			if (b.data[i] == b.data[i + 1]) /* which one is gone? */
				continue;
			made.len = i;
			shfs_buf_add(&made, b.data + i + 1, b.len - i - 1);
			came = read_damaged(&made, &damaged, &offset);
			assert_int_equal(came, all & ~(1 << n));
		}
	}
}

/* A torn record at the end is not passed over while it may still be written. */
static void torn_tail_is_waited_for(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	const char *dir = shfs_unit_tmpdir();
	_cleanup_free_ char *path = shfs_path_join(dir, "a.seg");
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT, 0600);
	size_t ends[8] = { 0 };
	struct shfs_segment *s;
	struct shfs_record rec;

	make_segment(2, &b, ends);
	assert_ok(shfs_write_all(fd, b.data, ends[1]));
	assert_ok(shfs_segment_open(AT_FDCWD, path, 0, &s));
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	for (size_t i = ends[1]; i < ends[2]; i++) {
		assert_int_equal(shfs_segment_next(s, &rec), 0);
		assert_int_equal(shfs_segment_offset(s), ends[1]);
		assert_ok(shfs_write_all(fd, b.data + i, 1));
	}
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	assert_int_equal(rec.seq, 2);
	assert_int_equal(shfs_segment_damaged(s), 0);
	shfs_segment_close(s);
}

/* --- batches --- */

#define BATCHES   3
#define PER_BATCH 5

/* Numbered records in batches, as bytes; ends[n]: behind batch n (0: PRODUCER). */
static void make_batches(struct shfs_store *store, struct shfs_journal *j,
                         struct shfs_buf *out, size_t *ends)
{
	segment_bytes(store, out);
	ends[0] = out->len;
	for (unsigned i = 0; i < BATCHES; i++) {
		struct shfs_record recs[PER_BATCH];
		const struct shfs_record *batch[PER_BATCH];
		char paths[PER_BATCH][32];
		size_t n;

		for (unsigned k = 0; k < PER_BATCH; k++) {
			recs[k] = numbered(i * PER_BATCH + k + 1, paths[k]);
			batch[k] = &recs[k];
		}
		assert_ok(shfs_journal_append(j, batch, PER_BATCH, &n));
		assert_int_equal(n, PER_BATCH);
		segment_bytes(store, out);
		ends[i + 1] = out->len;
	}
}

/* Each bit flipped: the batch it is in is lost, and nothing else. */
static void each_flip_costs_one_batch(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t ends[BATCHES + 1];
	unsigned n = 0;

	make_batches(store, j, &b, ends);
	for (size_t i = ends[0]; i < b.len; i++) {
		n += i >= ends[n];
		for (int bit = 0; bit < 8; bit++) {
			uint64_t damaged = 0, offset = 0;
			int came, lost = ((1 << PER_BATCH) - 1)
			                 << ((n - 1) * PER_BATCH + 1);

			b.data[i] ^= (char)(1 << bit);
			came = read_damaged(&b, &damaged, &offset);
			b.data[i] ^= (char)(1 << bit);
			if (came != (0xfffe & ~lost))
				fail_msg("byte %zu, bit %d: %x", i, bit, (unsigned)came);
			assert_int_equal(damaged, ends[n] - ends[n - 1]);
			assert_int_equal(offset, b.len);
		}
	}
	assert_ok(shfs_journal_close(j));
	shfs_store_close(store);
}

/* From an offset that was told in the middle of a batch it goes on with the next record,
 * and counts no damage in front of it. */
static void offsets_in_batches(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	_cleanup_buf_ struct shfs_buf b = { 0 };
	uint64_t at[BATCHES * PER_BATCH + 2];
	size_t ends[BATCHES + 1];
	struct shfs_segment *s;
	struct shfs_record rec;
	struct found f = { 0 };
	char *name;

	make_batches(store, j, &b, ends);
	s = first_segment(store);
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	for (unsigned n = 1; n <= BATCHES * PER_BATCH; n++) {
		at[n] = shfs_segment_offset(s);
		if (n > 1)
			assert_true(at[n] > at[n - 1]);
		if (n % PER_BATCH == 1)
			assert_int_equal(at[n], ends[n / PER_BATCH]);
		assert_int_equal(shfs_segment_next(s, &rec), 1);
	}
	at[BATCHES * PER_BATCH + 1] = shfs_segment_offset(s);
	assert_int_equal(at[BATCHES * PER_BATCH + 1], b.len);
	shfs_segment_close(s);
	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_ALL, note_name, &f));
	name = strchr(f.names[0], '/') + 1;
	for (int round = 0; round < 3; round++) {
		/* as it is; with the first batch damaged; sealed */
		int fd = openat(store->journal_fd, name, O_WRONLY);

		if (round == 1)
			assert_int_equal(pwrite(fd, "?", 1, (off_t)ends[0] + 20), 1);
		if (round == 2) {
			assert_int_equal(pwrite(fd, b.data, b.len, 0), b.len);
			assert_ok(shfs_journal_close(j));
		}
		close(fd);
		for (unsigned n = 1; n <= BATCHES * PER_BATCH + 1; n++) {
			unsigned from = round == 1 && n <= PER_BATCH ? PER_BATCH + 1 : n;

			assert_ok(shfs_segment_open(store->journal_fd, name, at[n], &s));
			expect_numbered(s, from, BATCHES * PER_BATCH + 1);
			assert_int_equal(shfs_segment_damaged(s),
			                 from == n ? 0 : ends[1] - at[n]);
			shfs_segment_close(s);
		}
	}
	shfs_store_close(store);
}

/* --- formats that are not ours --- */

static void add_record(struct shfs_buf *b, const struct shfs_record *rec)
{
	struct shfs_record_context context = { 0 };
	_cleanup_buf_ struct shfs_buf batch = { 0 };

	assert_ok(shfs_record_pack(&context, rec, &batch));
	shfs_record_context_free(&context);
	add_frame(b, batch.data, batch.len);
}

static void add_producer(struct shfs_buf *b, uint32_t version)
{
	struct shfs_record rec;

	assert_true(records_get(0, &rec));
	rec.producer.version = version;
	add_record(b, &rec);
}

static void refused(const struct shfs_buf *b, int expected)
{
	struct shfs_segment *s = NULL;

	assert_int_equal(shfs_segment_from_memory(b->data, b->len, &s), expected);
	assert_null(s);
}

static void not_a_segment(void **state)
{
	static const struct shfs_record end = { .type = SHFS_REC_END, .seq = 77 };
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_segment *s;

	shfs_buf_str(&b, "");
	refused(&b, -EBADMSG);
	shfs_buf_str(&b, "SQLite format 3");
	refused(&b, -EBADMSG);
	b.len = 0;
	shfs_buf_str(&b, "shfsseg\1");
	refused(&b, -EPROTONOSUPPORT);
	b.len = 0;
	shfs_buf_str(&b, "shfsseg\3");
	refused(&b, -EPROTONOSUPPORT);
	b.len = 0;
	shfs_buf_str(&b, SHFS_SEGMENT_MAGIC);
	refused(&b, -EBADMSG);
	add_record(&b, &end); /* nobody says who wrote it */
	refused(&b, -EBADMSG);
	b.len = SHFS_SEGMENT_MAGIC_LEN;
	add_producer(&b, SHFS_RECORD_VERSION - 1);
	refused(&b, -EPROTONOSUPPORT);
	b.len = SHFS_SEGMENT_MAGIC_LEN;
	add_producer(&b, SHFS_RECORD_VERSION + 1);
	refused(&b, -EPROTONOSUPPORT);
	b.len = SHFS_SEGMENT_MAGIC_LEN;
	add_producer(&b, SHFS_RECORD_VERSION);
	assert_ok(shfs_segment_from_memory(b.data, b.len, &s));
	shfs_segment_close(s);
	shfs_segment_close(NULL);
}

/* Types of the future are passed over; what is too short takes the rest of its batch. */
static void unknown_and_short(void **state)
{
	/* type 99 and its length, a BEGIN and its length, a LOST; an ACCESS, an END */
	static const unsigned char good[] = { 8,  99, 0, 2, 'a', 'b', 8,
		                              17, 0,  0, 6, 0,   5,   2 };
	static const unsigned char bad[] = { 6, 0, 5, 2, 3, 0, 0x80, 7, 0 };
	static const struct shfs_record end = { .type = SHFS_REC_END, .seq = 77 };
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_segment *s;
	struct shfs_record rec;
	size_t behind;

	shfs_buf_str(&b, SHFS_SEGMENT_MAGIC);
	add_producer(&b, SHFS_RECORD_VERSION);
	add_frame(&b, good, sizeof(good));
	add_frame(&b, "", 0);
	add_frame(&b, bad, sizeof(bad));
	behind = b.len;
	add_record(&b, &end);
	assert_ok(shfs_segment_from_memory(b.data, b.len, &s));
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	assert_int_equal(rec.type, SHFS_REC_PRODUCER);
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	assert_int_equal(rec.type, SHFS_REC_LOST);
	assert_int_equal(rec.seq, 3);
	assert_int_equal(rec.lost.count, 5);
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	assert_int_equal(rec.type, SHFS_REC_LOST);
	assert_int_equal(rec.seq, 1);
	assert_int_equal(shfs_segment_damaged(s), 0);
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	assert_int_equal(rec.type, SHFS_REC_END);
	assert_int_equal(rec.seq, 77);
	assert_int_equal(shfs_segment_damaged(s), 5 + SHFS_FRAME_TAIL);
	assert_int_equal(shfs_segment_offset(s), b.len);
	assert_true(behind < b.len);
	assert_int_equal(shfs_segment_next(s, &rec), 0);
	shfs_segment_close(s);
}

/* A sealed segment that was cut still gives what is whole in it. */
static void damaged_seal(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	_cleanup_buf_ struct shfs_buf packed = { 0 };
	struct found f = { 0 };
	char *name, file[300];

	append_numbered(j, 1, 200);
	assert_ok(shfs_journal_close(j));
	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_ALL, note_name, &f));
	name = strchr(f.names[0], '/') + 1;
	*strchr(name, ' ') = '\0';
	snprintf(file, sizeof(file), "%s.zst", name);
	kit_read(store->journal_fd, file, &packed);
	for (size_t len = 0; len <= packed.len; len += 7) {
		struct shfs_segment *s;
		struct shfs_record rec;
		unsigned last = 0;
		int r;

		assert_ok(shfs_write_file_at(store->journal_fd, file, 0600, packed.data,
		                             len));
		r = shfs_segment_open(store->journal_fd, name, 0, &s);
		if (r) {
			assert_int_equal(r, -EBADMSG);
			continue;
		}
		while ((r = shfs_segment_next(s, &rec)) == 1)
			if (rec.type == SHFS_REC_PREIMAGE)
				assert_int_equal(rec.seq, ++last);
		assert_ok(r);
		shfs_segment_close(s);
	}
	shfs_store_close(store);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets),
		cmocka_unit_test(each_flip_costs_one_record),
		cmocka_unit_test(each_cut_costs_what_it_cuts),
		cmocka_unit_test(holes_and_garbage),
		cmocka_unit_test(torn_tail_is_waited_for),
		cmocka_unit_test(each_flip_costs_one_batch),
		cmocka_unit_test(offsets_in_batches),
		cmocka_unit_test(not_a_segment),
		cmocka_unit_test(unknown_and_short),
		cmocka_unit_test(damaged_seal),
	};

	return shfs_unit_main(tests, argc, argv);
}
