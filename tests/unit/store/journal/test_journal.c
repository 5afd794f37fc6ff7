/* SPDX-License-Identifier: MIT */
/* Tests of store/journal/segment-writer.c. */
#include "tests/unit/journalkit.h"

#include "common/proc.h"
#include "store/journal/frame.h"
#include "store/objects/object.h"

#include <pthread.h>
#include <sys/syscall.h>

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

/* --- what is written --- */

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
			assert_int_equal(back.seq, 14);
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
	/* END with a gap, clocks apart, nanoseconds; 6 - 1, 772, 258 - 772 as zigzag */
	static const unsigned char frame[] = "SHFB\6\0\0\0\xb7\x0a\x88\x0c\x83\x08";
	const size_t len = 8 + 6;
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	struct shfs_record end = { .type = SHFS_REC_END,
		                   .seq = 6,
		                   .time = { 0x102, 0x304 } };
	_cleanup_buf_ struct shfs_buf before = { 0 }, after = { 0 };
	uint64_t sum = 0;

	segment_bytes(store, &before);
	assert_memory_equal(before.data, "shfsseg\2SHFB", 12);
	assert_ok(append(j, &end));
	segment_bytes(store, &after);
	assert_int_equal(after.len - before.len, len + 8);
	assert_memory_equal(after.data, before.data, before.len);
	assert_memory_equal(after.data + before.len, frame, len);
	for (int i = 8; i-- > 0;)
		sum = sum << 8 | (unsigned char)after.data[after.len - 8 + i];
	assert_true(sum == shfs_object_hash64(frame, len));
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
	size_t n;

	for (unsigned i = 0; i < 3; i++)
		recs[i] = numbered(i + 1, paths[i]);
	assert_int_equal(shfs_journal_append(j, bad + 1, 2, &n), -EINVAL);
	assert_int_equal(n, 0);
	huge.data = calloc(1, SHFS_PAYLOAD_MAX);
	huge.len = SHFS_PAYLOAD_MAX;
	hook = recs[1];
	hook.preimage.path = (struct shfs_bytes){ huge.data, huge.len };
	assert_int_equal(shfs_journal_append(j, bad + 1, 2, &n), -EMSGSIZE);
	assert_int_equal(n, 0);
	/* what is in front of a bad one is told, and goes */
	assert_int_equal(shfs_journal_append(j, bad, 3, &n), -EMSGSIZE);
	assert_int_equal(n, 1);
	assert_ok(shfs_journal_append(j, bad, 0, &n));
	assert_ok(shfs_journal_append(j, good + 1, 2, &n));
	assert_int_equal(n, 2);
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

/* --- failing writes --- */

/* A batch is there or it is not; nothing of it stays behind. */
static void limit_in_the_middle(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	struct shfs_record recs[4];
	const struct shfs_record *batch[] = { &recs[0], &recs[1], &recs[2], &recs[3] };
	unsigned next = 1;
	size_t n;
	struct shfs_segment *s;
	char paths[4][32];

	for (size_t more = 0; more < 240; more += 17, next += 4) {
		_cleanup_buf_ struct shfs_buf before = { 0 }, after = { 0 };
		struct rlimit old;

		for (unsigned i = 0; i < 4; i++)
			recs[i] = numbered(next + i, paths[i]);
		segment_bytes(store, &before);
		old = kit_limit_files(before.len + more);
		assert_int_equal(shfs_journal_append(j, batch, 4, &n), -EFBIG);
		assert_int_equal(n, 0);
		assert_ok(setrlimit(RLIMIT_FSIZE, &old));
		segment_bytes(store, &after);
		assert_int_equal(after.len, before.len);
		assert_memory_equal(after.data, before.data, before.len);
		assert_ok(shfs_journal_append(j, batch, 4, &n));
	}
	assert_ok(shfs_journal_close(j));
	s = first_segment(store);
	expect_numbered(s, 1, next);
	assert_int_equal(shfs_segment_damaged(s), 0);
	shfs_segment_close(s);
	shfs_store_close(store);
}

/* More than a frame takes is told in several, and those that fit stay. */
static void limit_between_frames(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	_cleanup_buf_ struct shfs_buf argv = { 0 }, before = { 0 };
	struct shfs_record recs[7];
	const struct shfs_record *batch[7];
	struct shfs_segment *s;
	struct shfs_record rec;
	struct rlimit old;
	size_t n;

	kit_noise(&argv, 7 * 40000, 5);
	for (unsigned i = 0; i < 7; i++) {
		assert_true(records_get(1, &recs[i]));
		recs[i].seq = i + 1;
		recs[i].process.argv =
			(struct shfs_bytes){ argv.data + i * 40000, 40000 };
		batch[i] = &recs[i];
	}
	segment_bytes(store, &before);
	old = kit_limit_files(before.len + 200000);
	assert_int_equal(shfs_journal_append(j, batch, 7, &n), -EFBIG);
	assert_int_equal(n, 4); /* two in each */
	assert_ok(setrlimit(RLIMIT_FSIZE, &old));
	assert_ok(shfs_journal_append(j, batch + n, 7 - n, &n));
	assert_int_equal(n, 3);
	assert_ok(shfs_journal_close(j));
	s = first_segment(store);
	assert_int_equal(shfs_segment_next(s, &rec), 1);
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(shfs_segment_next(s, &rec), 1);
		records_same(&recs[i], &rec);
	}
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
		cmocka_unit_test(limit_in_the_middle),
		cmocka_unit_test(limit_between_frames),
		cmocka_unit_test(cut_fails_for_a_while),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(reads_while_written),
		cmocka_unit_test(two_writers),
		cmocka_unit_test(walk),
	};

	return shfs_unit_main(tests, argc, argv);
}
