/* SPDX-License-Identifier: MIT */
#include "tests/unit/records.h"
#include "tests/unit/storekit.h"

#include "common/proc.h"
#include "store/frame.h"
#include "store/journal.h"
#include "store/object.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* --- ftruncate that fails when asked to --- */

static bool fail_truncate;

int ftruncate64(int fd, off_t len);

int ftruncate64(int fd, off_t len)
{
	if (!fail_truncate)
		return (int)syscall(SYS_ftruncate, fd, len);
	errno = EIO;
	return -1;
}

/* --- writing --- */

static struct shfs_journal *journal_at(struct shfs_store *store, uint64_t rotate_bytes)
{
	struct shfs_journal_options o = { .kind = "fuse",
		                          .root = "/home/u/project",
		                          .rotate_bytes = rotate_bytes };
	struct shfs_journal *j;

	assert_ok(shfs_journal_open(store, &o, &j));
	return j;
}

static int append(struct shfs_journal *j, const struct shfs_record *rec)
{
	return shfs_journal_append(j, &rec, 1, &(size_t){ 0 });
}

/* The nth record of a run of any length: its path tells n. */
static struct shfs_record numbered(unsigned n, char path[static 32])
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

static void append_numbered(struct shfs_journal *j, unsigned from, unsigned to)
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

static int note_name(const struct shfs_journal_file *file, void *arg)
{
	struct found *f = arg;

	assert_true(f->n < ARRAY_SIZE(f->names));
	snprintf(f->names[f->n++], sizeof(f->names[0]), "%s/%s%s%s", file->host,
	         file->name, file->sealed ? " sealed" : "", file->hook_log ? " log" : "");
	return 0;
}

static int open_first(const struct shfs_journal_file *file, void *arg)
{
	struct shfs_segment **s = arg;

	assert_ok(shfs_segment_open(file->dirfd, file->name, 0, s));
	return 1;
}

/* The first segment of the store. */
static struct shfs_segment *first_segment(struct shfs_store *store)
{
	struct shfs_segment *s = NULL;

	assert_int_equal(shfs_journal_walk(store, SHFS_JOURNAL_ALL, open_first, &s), 1);
	return s;
}

static int read_first(const struct shfs_journal_file *file, void *arg)
{
	kit_read(file->dirfd, file->name, arg);
	return 1;
}

/* All bytes of the first segment, which is not sealed. */
static void segment_bytes(struct shfs_store *store, struct shfs_buf *out)
{
	assert_int_equal(shfs_journal_walk(store, SHFS_JOURNAL_ALL, read_first, out), 1);
}

/* Reads numbered records up to the end: they must be from..to-1, but for one at most. */
static void expect_numbered(struct shfs_segment *s, unsigned from, unsigned to)
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

/* --- tests --- */

static void each_record_comes_back(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	struct shfs_record rec, back;
	struct shfs_segment *s;

	for (unsigned n = 1; records_get(n, &rec); n++)
		assert_ok(append(j, &rec));
	assert_ok(shfs_journal_sync(j));
	for (int sealed = 0; sealed < 2; sealed++) {
		s = first_segment(store);
		assert_int_equal(shfs_segment_next(s, &back), 1);
		assert_int_equal(back.type, SHFS_REC_PRODUCER);
		records_same_producer(&back.producer, shfs_segment_producer(s));
		for (unsigned n = 1; records_get(n, &rec); n++) {
			assert_int_equal(shfs_segment_next(s, &back), 1);
			records_same(&rec, &back);
		}
		if (sealed) { /* and the END that close adds */
			assert_int_equal(shfs_segment_next(s, &back), 1);
			assert_int_equal(back.type, SHFS_REC_END);
			assert_int_equal(back.seq, 9);
		}
		assert_int_equal(shfs_segment_next(s, &back), 0);
		assert_int_equal(shfs_segment_next(s, &back), 0);
		assert_int_equal(shfs_segment_damaged(s), 0);
		shfs_segment_close(s);
		if (!sealed)
			assert_ok(shfs_journal_close(j));
	}
	shfs_store_close(store);
}

static void producer_says_who(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	struct shfs_segment *s = first_segment(store);
	const struct shfs_rec_producer *p = shfs_segment_producer(s);
	struct shfs_proc_stat self;
	int procfd = shfs_proc_open((uint32_t)getpid());
	char boot[37];

	assert_ok(shfs_proc_read_stat(procfd, &self));
	assert_ok(shfs_proc_boot_id(boot));
	close(procfd);
	assert_int_equal(p->version, SHFS_RECORD_VERSION);
	records_same_bytes(p->host, shfs_bytes_str(store->host));
	records_same_bytes(p->boot_id, shfs_bytes_str(boot));
	records_same_bytes(p->kind, shfs_bytes_str("fuse"));
	records_same_bytes(p->root, shfs_bytes_str("/home/u/project"));
	records_same_bytes(p->software, shfs_bytes_str("shfs " SHFS_VERSION));
	assert_int_equal(p->instance.len, 32);
	assert_int_equal(p->pid, getpid());
	assert_int_equal(p->uid, geteuid());
	assert_true(p->start_ticks == self.start_ticks);
	assert_int_equal(p->segment, 0);
	assert_true(p->pid_max >= 301);
	shfs_segment_close(s);
	assert_ok(shfs_journal_close(j));
	shfs_store_close(store);
}

/* The layout of docs/journal.md, byte by byte. */
static void layout(void **state)
{
	static const unsigned char frame[44] =
		"SHFR\0\0\0\0\7\0\0\0\6\0\0\0\0\0\0\0\2\1\0\0\0\0\0\0\4\3\0\0\0\0\0";
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	struct shfs_record end = { .type = SHFS_REC_END,
		                   .seq = 6,
		                   .time = { 0x102, 0x304 } };
	_cleanup_buf_ struct shfs_buf before = { 0 }, after = { 0 };
	uint64_t sum = 0;

	segment_bytes(store, &before);
	assert_memory_equal(before.data, "shfsseg\1SHFR", 12);
	assert_ok(append(j, &end));
	segment_bytes(store, &after);
	assert_int_equal(after.len - before.len, sizeof(frame));
	assert_memory_equal(after.data, before.data, before.len);
	assert_memory_equal(after.data + before.len, frame, 36);
	for (int i = 8; i-- > 0;)
		sum = sum << 8 | (unsigned char)after.data[after.len - 8 + i];
	assert_true(sum == shfs_object_hash64(frame, 36));
	assert_ok(shfs_journal_close(j));
	shfs_store_close(store);
}

static void a_batch_is_one(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	struct shfs_record recs[3], hook = { .type = SHFS_REC_BEGIN, .seq = 3 };
	const struct shfs_record *good[] = { &recs[0], &recs[1], &recs[2] };
	const struct shfs_record *bad[] = { &recs[0], &hook, &recs[2] };
	_cleanup_buf_ struct shfs_buf huge = { 0 };
	struct shfs_segment *s;
	char paths[3][32];

	for (unsigned n = 0; n < 3; n++)
		recs[n] = numbered(n + 1, paths[n]);
	assert_int_equal(shfs_journal_append(j, bad, 3, &(size_t){ 0 }), -EINVAL);
	huge.data = calloc(1, SHFS_PAYLOAD_MAX);
	huge.len = SHFS_PAYLOAD_MAX;
	hook = recs[1];
	hook.preimage.path = (struct shfs_bytes){ huge.data, huge.len };
	assert_int_equal(shfs_journal_append(j, bad, 3, &(size_t){ 0 }), -EMSGSIZE);
	assert_ok(shfs_journal_append(j, bad, 0, &(size_t){ 0 }));
	assert_ok(shfs_journal_append(j, good, 3, &(size_t){ 0 }));
	assert_ok(shfs_journal_close(j));
	s = first_segment(store);
	expect_numbered(s, 1, 4);
	shfs_segment_close(s);
	shfs_store_close(store);
}

/* Payloads around the sizes in which a reader reads, up to the largest. */
static void large_records(void **state)
{
	static const size_t sizes[] = { 0,          262000,      262144,
		                        262145,     1 << 20,     SHFS_PAYLOAD_MAX - 200,
		                        524288 - 8, 262144 - 600 };
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 64 << 20);
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct shfs_record rec, back;
	struct shfs_segment *s;
	char name[32];

	kit_noise(&path, SHFS_PAYLOAD_MAX, 3);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		rec = numbered(i + 1, name);
		rec.preimage.path = (struct shfs_bytes){ path.data, sizes[i] };
		assert_ok(append(j, &rec));
	}
	for (int sealed = 0; sealed < 2; sealed++) {
		s = first_segment(store);
		assert_int_equal(shfs_segment_next(s, &back), 1);
		for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
			rec = numbered(i + 1, name);
			rec.preimage.path = (struct shfs_bytes){ path.data, sizes[i] };
			assert_int_equal(shfs_segment_next(s, &back), 1);
			records_same(&rec, &back);
		}
		shfs_segment_close(s);
		if (!sealed)
			assert_ok(shfs_journal_close(j));
	}
	shfs_store_close(store);
}

static void rotation(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 1000);
	unsigned next = 1;
	struct found f = { 0 };
	struct stat st;

	append_numbered(j, 1, 60);
	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_ALL, note_name, &f));
	assert_true(f.n > 5);
	assert_non_null(strstr(f.names[0], "-000000.seg sealed"));
	assert_non_null(strstr(f.names[1], "-000001.seg sealed"));
	assert_null(strstr(f.names[f.n - 1], "sealed"));
	assert_ok(shfs_journal_close(j));
	f.n = 0;
	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_ALL, note_name, &f));
	for (unsigned i = 0; i < f.n; i++) {
		char *name = strchr(f.names[i], '/') + 1, file[300];
		const struct shfs_rec_producer *p;
		struct shfs_segment *s;
		struct shfs_record rec;

		*strchr(name, ' ') = '\0';
		assert_ok(shfs_segment_open(store->journal_fd, name, 0, &s));
		p = shfs_segment_producer(s);
		assert_int_equal(p->segment, i);
		assert_int_equal(shfs_segment_next(s, &rec), 1);
		assert_int_equal(rec.seq, next - 1); /* the last one before */
		while (shfs_segment_next(s, &rec) == 1)
			assert_int_equal(rec.seq, next++);
		shfs_segment_close(s);
		snprintf(file, sizeof(file), "%s.zst", name);
		assert_ok(fstatat(store->journal_fd, file, &st, 0));
		assert_int_equal(st.st_mode & 07777, 0600);
		assert_int_not_equal(faccessat(store->journal_fd, name, F_OK, 0), 0);
	}
	assert_int_equal(next, 61); /* 59 and the END */
	shfs_store_close(store);
}

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

	return len >= 4 && !strcmp(text + len - 4, "SHFR");
}

/* Bytes taken out or put in anywhere behind the first record. */
static void holes_and_garbage(void **state)
{
	static const char *const garbage[] = { "x", "SHFR", "SHFRSHFRSHFRSHFR",
		                               "SHFR\x10\x10\x10\x10 and more" };
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
			    (i == ends[n - 1] + 4 && ends_in_magic(garbage[g])))
				assert_int_equal(came, all);
			else
				assert_int_equal(came, all & ~(1 << n));

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

/* --- formats that are not ours --- */

static void add_frame(struct shfs_buf *b, unsigned type, const char *payload, size_t len)
{
	size_t start = b->len;

	shfs_buf_u32(b, SHFS_FRAME_MAGIC);
	shfs_buf_u32(b, (uint32_t)len);
	shfs_buf_u16(b, (uint16_t)type);
	shfs_buf_u16(b, 0);
	shfs_buf_u64(b, 77);
	shfs_buf_u64(b, 1);
	shfs_buf_u64(b, 2);
	shfs_buf_add(b, payload, len);
	shfs_buf_u64(b, shfs_object_hash64(b->data + start, b->len - start));
}

static void add_producer(struct shfs_buf *b, uint32_t version)
{
	_cleanup_buf_ struct shfs_buf payload = { 0 };
	struct shfs_record rec;

	assert_true(records_get(0, &rec));
	rec.producer.version = version;
	assert_ok(shfs_record_encode(&rec, &payload));
	add_frame(b, SHFS_REC_PRODUCER, payload.data, payload.len);
}

static void refused(const struct shfs_buf *b, int expected)
{
	struct shfs_segment *s = NULL;

	assert_int_equal(shfs_segment_from_memory(b->data, b->len, &s), expected);
	assert_null(s);
}

static void not_a_segment(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_segment *s;

	shfs_buf_str(&b, "");
	refused(&b, -EBADMSG);
	shfs_buf_str(&b, "SQLite format 3");
	refused(&b, -EBADMSG);
	b.len = 0;
	shfs_buf_str(&b, "shfsseg\2");
	refused(&b, -EPROTONOSUPPORT);
	b.len = 0;
	shfs_buf_str(&b, SHFS_SEGMENT_MAGIC);
	refused(&b, -EBADMSG);
	add_frame(&b, SHFS_REC_END, "", 0); /* nobody says who wrote it */
	refused(&b, -EBADMSG);
	b.len = SHFS_SEGMENT_MAGIC_LEN;
	add_producer(&b, SHFS_RECORD_VERSION + 1);
	refused(&b, -EPROTONOSUPPORT);
	b.len = SHFS_SEGMENT_MAGIC_LEN;
	add_producer(&b, SHFS_RECORD_VERSION);
	assert_ok(shfs_segment_from_memory(b.data, b.len, &s));
	shfs_segment_close(s);
	shfs_segment_close(NULL);
}

/* Types of the future are passed over; payloads that are too short count as damage. */
static void unknown_and_short(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_segment *s;
	struct shfs_record rec;

	shfs_buf_str(&b, SHFS_SEGMENT_MAGIC);
	add_producer(&b, SHFS_RECORD_VERSION);
	add_frame(&b, 999, "of the future", 13);
	add_frame(&b, SHFS_REC_BEGIN, "a hook's", 8);
	add_frame(&b, SHFS_REC_ACCESS, "too short", 9);
	add_frame(&b, SHFS_REC_END, "", 0);
	assert_ok(shfs_segment_from_memory(b.data, b.len, &s));
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	assert_int_equal(rec.type, SHFS_REC_PRODUCER);
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	assert_int_equal(rec.type, SHFS_REC_END);
	assert_int_equal(rec.seq, 77);
	assert_int_equal(shfs_segment_damaged(s), 44 + 9);
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

/* --- failing writes --- */

/* Whole records stay, as a reader may have taken them; the rest is cut off. */
static void limit_in_the_middle(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	struct shfs_record recs[4];
	const struct shfs_record *batch[] = { &recs[0], &recs[1], &recs[2], &recs[3] };
	unsigned next = 1;
	size_t n, most = 0;
	struct shfs_segment *s;
	char paths[4][32];

	for (size_t more = 0; more < 350; more += 31, next += 4) {
		_cleanup_buf_ struct shfs_buf before = { 0 }, after = { 0 };
		struct rlimit old;

		for (unsigned i = 0; i < 4; i++)
			recs[i] = numbered(next + i, paths[i]);
		segment_bytes(store, &before);
		old = kit_limit_files(before.len + more);
		assert_int_equal(shfs_journal_append(j, batch, 4, &n), -EFBIG);
		assert_ok(setrlimit(RLIMIT_FSIZE, &old));
		most = MAX(most, n);
		segment_bytes(store, &after);
		assert_in_range(after.len, before.len, before.len + more);
		assert_memory_equal(after.data, before.data, before.len);
		assert_ok(shfs_journal_append(j, batch + n, 4 - n, &n));
	}
	assert_in_range(most, 1, 3);
	assert_ok(shfs_journal_close(j));
	s = first_segment(store);
	expect_numbered(s, 1, next);
	assert_int_equal(shfs_segment_damaged(s), 0);
	shfs_segment_close(s);
	shfs_store_close(store);
}

/* No room: what was told to be written is there, what was not is not, and it goes on. */
static void full_disk(void **state)
{
	const char *dir = kit_small_begin(256 << 10);
	struct shfs_store *store;
	struct shfs_journal *j;
	struct shfs_segment *s;
	struct shfs_record rec;
	unsigned n = 1, failed = 0;
	uint64_t expected = 0;
	char path[32];
	int r;

	if (!dir)
		shfs_unit_skip("may not mount a small file system");
	store = kit_store_at(dir);
	j = journal_at(store, 4096);
	kit_fill(store->dirfd, "filler");
	for (; failed < 50; n++) {
		rec = numbered(n - failed, path);
		r = append(j, &rec);
		if (r) {
			assert_int_equal(r, -ENOSPC);
			failed++;
		}
	}
	assert_ok(unlinkat(store->dirfd, "filler", 0));
	append_numbered(j, n - failed, n - failed + 100);
	assert_ok(shfs_journal_close(j));
	for (unsigned i = 0;; i++) {
		struct found f = { 0 };

		assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_ALL, note_name, &f));
		if (i == f.n)
			break;
		*strchr(strchr(f.names[i], '/'), ' ') = '\0';
		assert_ok(shfs_segment_open(store->journal_fd,
		                            strchr(f.names[i], '/') + 1, 0, &s));
		while (shfs_segment_next(s, &rec) == 1)
			if (rec.type == SHFS_REC_PREIMAGE)
				assert_int_equal(rec.seq, ++expected);
		assert_int_equal(shfs_segment_damaged(s), 0);
		shfs_segment_close(s);
	}
	assert_int_equal(expected, n - failed + 99);
	shfs_store_close(store);
	kit_small_end();
}

/* Even when the cutting back fails for a while, nothing that came later is cut. */
static void cut_fails_for_a_while(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	_cleanup_buf_ struct shfs_buf before = { 0 };
	struct shfs_segment *s;
	struct shfs_record rec;
	char path[32];

	append_numbered(j, 1, 4);
	segment_bytes(store, &before);
	for (unsigned n = 4; n < 8; n++) {
		struct rlimit old = kit_limit_files(before.len + 50);

		rec = numbered(n, path);
		fail_truncate = true;
		assert_int_equal(append(j, &rec), n == 4 ? -EFBIG : -EIO);
		fail_truncate = n % 2;
		assert_ok(setrlimit(RLIMIT_FSIZE, &old));
	}
	assert_int_equal(append(j, &rec), -EIO);
	fail_truncate = false;
	append_numbered(j, 4, 8);
	assert_ok(shfs_journal_close(j));
	s = first_segment(store);
	expect_numbered(s, 1, 8);
	assert_int_equal(shfs_segment_damaged(s), 0);
	shfs_segment_close(s);
	shfs_store_close(store);
}

/* --- a reader beside the writer --- */

#define BESIDE 3000

static void *write_beside(void *arg)
{
	struct shfs_journal *j = arg;

	append_numbered(j, 1, BESIDE + 1);
	return NULL;
}

static void reads_while_written(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	struct shfs_segment *s = first_segment(store);
	unsigned next = 1;
	pthread_t thread;

	assert_ok(pthread_create(&thread, NULL, write_beside, j));
	while (next <= BESIDE) {
		struct shfs_record rec, expected;
		char path[32];
		int r = shfs_segment_next(s, &rec);

		assert_true(r >= 0);
		if (r == 0 || rec.type == SHFS_REC_PRODUCER)
			continue;
		expected = numbered(next++, path);
		records_same(&expected, &rec);
	}
	assert_ok(pthread_join(thread, NULL));
	assert_int_equal(shfs_segment_damaged(s), 0);
	shfs_segment_close(s);
	assert_ok(shfs_journal_close(j));
	shfs_store_close(store);
}

/* Two journals of one kind at once do not meet. */
static void two_writers(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *a = journal_at(store, 2000), *b = journal_at(store, 2000);
	struct found f = { 0 };

	append_numbered(a, 1, 10);
	append_numbered(b, 1, 10);
	assert_ok(shfs_journal_close(a));
	assert_ok(shfs_journal_close(b));
	assert_ok(shfs_journal_close(NULL));
	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_ALL, note_name, &f));
	assert_int_equal(f.n, 2);
	shfs_store_close(store);
}

/* --- the walk --- */

static void make(int dirfd, const char *name)
{
	assert_ok(shfs_write_file_at(dirfd, name, 0600, "x", 1));
}

static int stop_at_second(const struct shfs_journal_file *file, void *arg)
{
	return ++*(int *)arg == 2 ? -EINTR : 0;
}

static void walk(void **state)
{
	struct shfs_store *store = kit_store();
	int other, n = 0;
	struct found f = { 0 };
	char text[200];

	assert_ok(shfs_mkdir_p_at(store->dirfd, "journal/!other", 0700));
	other = openat(store->dirfd, "journal/!other", O_RDONLY | O_DIRECTORY);
	make(other, "b.seg");
	make(other, "b.seg.zst"); /* a seal that was interrupted */
	make(other, "a.seg.zst");
	make(other, "c.log");
	make(other, "c.seg.zst.tmp-12");
	make(other, "notes.txt");
	make(other, ".hidden.seg");
	assert_ok(symlinkat("c.log", other, "d.log"));
	assert_ok(mkdirat(other, "e.seg", 0700));
	assert_ok(mkfifoat(other, "f.log", 0600));
	make(store->journal_fd, "z.log");
	assert_ok(symlinkat("/", store->journal_fd, "../link"));
	assert_ok(symlinkat("/tmp", store->dirfd, "journal/tmp"));

	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_ALL, note_name, &f));
	assert_int_equal(f.n, 4);
	assert_string_equal(f.names[0], "!other/a.seg sealed");
	assert_string_equal(f.names[1], "!other/b.seg sealed");
	assert_string_equal(f.names[2], "!other/c.log log");
	snprintf(text, sizeof(text), "%s/z.log log", store->host);
	assert_string_equal(f.names[3], text);

	f.n = 0;
	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_SEGMENTS, note_name, &f));
	assert_int_equal(f.n, 2);
	assert_string_equal(f.names[1], "!other/b.seg sealed");
	f.n = 0;
	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_HOOK_LOGS, note_name, &f));
	assert_int_equal(f.n, 2);
	assert_string_equal(f.names[0], "!other/c.log log");
	assert_int_equal(shfs_journal_walk(store, SHFS_JOURNAL_ALL, stop_at_second, &n),
	                 -EINTR);
	assert_int_equal(n, 2);
	close(other);
	shfs_store_close(store);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_record_comes_back),
		cmocka_unit_test(producer_says_who),
		cmocka_unit_test(layout),
		cmocka_unit_test(a_batch_is_one),
		cmocka_unit_test(large_records),
		cmocka_unit_test(rotation),
		cmocka_unit_test(offsets),
		cmocka_unit_test(each_flip_costs_one_record),
		cmocka_unit_test(each_cut_costs_what_it_cuts),
		cmocka_unit_test(holes_and_garbage),
		cmocka_unit_test(torn_tail_is_waited_for),
		cmocka_unit_test(not_a_segment),
		cmocka_unit_test(unknown_and_short),
		cmocka_unit_test(damaged_seal),
		cmocka_unit_test(limit_in_the_middle),
		cmocka_unit_test(cut_fails_for_a_while),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(reads_while_written),
		cmocka_unit_test(two_writers),
		cmocka_unit_test(walk),
	};

	return shfs_unit_main(tests, argc, argv);
}
