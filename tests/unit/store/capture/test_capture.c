/* SPDX-License-Identifier: MIT */
/* Tests of store/capture: from an event to a durable record. */
#include "tests/unit/capturekit.h"

#include "store/capture/alert.h"

#include <sys/wait.h>

static void number_name(char out[static 32], const char *prefix, unsigned n)
{
	snprintf(out, 32, "%s%u", prefix, n);
}

/* --- sync, waited for --- */

struct sync {
	atomic_int calls, error;
};

static void on_sync(void *arg, int error)
{
	struct sync *s = arg;

	s->error = error;
	s->calls++;
}

/* The error that a sync tells, which must come within ten seconds. */
static int sync_now(struct kit *k)
{
	struct sync s = { 0 };

	assert_ok(shfs_capture_sync(k->capture, on_sync, &s));
	kit_until(s.calls == 1);
	return s.error;
}

/* --- alerts --- */

static bool alert_read(struct kit *k, struct shfs_buf *out)
{
	char name[80];

	snprintf(name, sizeof(name), "alert-%s", k->store->host);
	out->len = 0;
	return shfs_read_file_at(k->store->state_fd, name, 4096, out) == 0;
}

static bool alert_is_there(struct kit *k)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	return alert_read(k, &text);
}

/* --- events --- */

static void order_is_that_of_the_calls(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct kit k = { 0 };

	kit_begin(&k, kit_store(), 0, 0);
	for (unsigned i = 1; i <= 2000; i++) {
		char name[32];

		number_name(name, "e", i);
		assert_int_equal(kit_emit_preimage(&k, name, NULL), i);
	}
	kit_close(&k);
	j = kit_read_journal(&k);
	assert_int_equal(j->n, 2000);
	assert_true(j->ended);
	assert_int_equal(j->lost, 0);
	for (unsigned i = 0; i < 2000; i++) {
		char name[32];

		number_name(name, "e", i + 1);
		assert_string_equal(j->paths[i], name);
		assert_int_equal(j->recs[i].seq, i + 1);
	}
	kit_end(&k);
}

/*
 * An event whose content is not read yet holds up those behind it, and is not overtaken.
 */
static void order_holds_for_slow_contents(void **state)
{
	_cleanup_free_ struct kit_journal *before = NULL, *after = NULL;
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = kit_hang(&k, "slow", 1, &s);
	kit_emit_preimage(&k, "first", NULL);
	kit_emit_preimage(&k, "slow", s);
	kit_emit_preimage(&k, "last", NULL);
	shfs_snapshot_unref(s);
	kit_until(kit_stats(&k).records == 1);
	usleep(600000); /* in which the others might come */
	before = kit_read_journal(&k);
	assert_int_equal(before->n, 1);
	assert_string_equal(before->paths[0], "first");
	kit_gate = 0;
	kit_close(&k);
	after = kit_read_journal(&k);
	assert_int_equal(after->n, 3);
	assert_string_equal(after->paths[1], "slow");
	assert_string_equal(after->paths[2], "last");
	kit_assert_object(&k, &after->recs[1].preimage.content, 100000, 1);
	close(fd);
	kit_end(&k);
}

static void written_within_a_moment(void **state)
{
	struct kit k = { 0 };
	int64_t begin;

	kit_begin(&k, kit_store(), 0, 0);
	begin = kit_now_ms();
	kit_emit_preimage(&k, "alone", NULL);
	kit_until(kit_stats(&k).records == 1);
	assert_true(kit_now_ms() - begin < 5000);
	kit_end(&k);
}

/* Every field comes through, the contents at their places. */
static void fields(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct kit k = { 0 };
	struct shfs_snapshot *a, *b;
	struct shfs_record rec;
	char path[] = "the path";
	int fd_a, fd_b;

	kit_begin(&k, kit_store(), 0, 0);
	fd_a = kit_file(&k, "a", 100, 1);
	fd_b = kit_file(&k, "b", 50000, 2);
	a = shfs_snapshot_new(k.capture);
	b = shfs_snapshot_new(k.capture);
	shfs_snapshot_take(a, fd_a, SHFS_DEPTH_ARCHIVE, MANY, 0);
	shfs_snapshot_take(b, fd_b, SHFS_DEPTH_ARCHIVE, MANY, 0);

	rec = (struct shfs_record){ .type = SHFS_REC_ACCESS, .time = { 5, 6 } };
	rec.access.path = shfs_bytes_str(path);
	rec.access.ino = 7;
	assert_int_equal(shfs_capture_emit(k.capture, &rec,
	                                   (struct shfs_snapshot *[]){ a, b }),
	                 1);
	assert_int_equal(rec.seq, 1);
	memset(path, 'x', 3); /* it was copied */

	rec = (struct shfs_record){ .type = SHFS_REC_PATHOP };
	rec.pathop.op = SHFS_OP_RENAME;
	rec.pathop.path = shfs_bytes_str("from");
	rec.pathop.path2 = shfs_bytes_str("to");
	rec.pathop.content.flags = SHFS_CONTENT_KNOWN;
	rec.pathop.content.mode = 0123;
	assert_int_equal(shfs_capture_emit(k.capture, &rec,
	                                   (struct shfs_snapshot *[]){ NULL, b }),
	                 2);
	assert_true(rec.time.real_ns && rec.time.boot_ns);

	shfs_snapshot_unref(a);
	shfs_snapshot_unref(b);
	kit_close(&k);
	j = kit_read_journal(&k);
	assert_int_equal(j->n, 2);
	assert_string_equal(j->paths[0], "the path");
	assert_true(j->recs[0].time.real_ns == 5 && j->recs[0].time.boot_ns == 6);
	assert_int_equal(j->recs[0].access.ino, 7);
	kit_assert_object(&k, &j->recs[0].access.seen, 100, 1);
	kit_assert_object(&k, &j->recs[0].access.made, 50000, 2);
	assert_int_equal(j->recs[1].pathop.op, SHFS_OP_RENAME);
	assert_int_equal(j->recs[1].pathop.content.mode, 0123); /* NULL leaves it */
	kit_assert_object(&k, &j->recs[1].pathop.victim, 50000, 2);
	close(fd_a);
	close(fd_b);
	kit_end(&k);
}

/* What is not a producer's to emit is refused, and counted. */
static void wrong_types(void **state)
{
	static const enum shfs_record_type types[] = { SHFS_REC_PRODUCER, SHFS_REC_END,
		                                       SHFS_REC_BEGIN, 999 };
	struct kit k = { 0 };

	kit_begin(&k, kit_store(), 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct shfs_record rec = { .type = types[i], .seq = 5 };

		assert_int_equal(shfs_capture_emit(k.capture, &rec, NULL), 0);
		assert_int_equal(rec.seq, 0);
	}
	assert_int_equal(kit_stats(&k).lost, 4);
	kit_end(&k);
}

/* One that is too large for the journal is lost alone. */
static void too_large_for_a_record(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	_cleanup_buf_ struct shfs_buf huge = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE };
	struct kit k = { 0 };

	kit_begin(&k, kit_store(), 0, 0);
	kit_noise(&huge, 17 << 20, 1);
	kit_emit_preimage(&k, "before", NULL);
	rec.preimage.path = (struct shfs_bytes){ huge.data, huge.len };
	assert_int_equal(shfs_capture_emit(k.capture, &rec, NULL), 2);
	kit_emit_preimage(&k, "after", NULL);
	assert_int_equal(sync_now(&k), -EMSGSIZE);
	kit_close(&k);
	j = kit_read_journal(&k);
	assert_int_equal(j->n, 2);
	assert_int_equal(j->lost, 1);
	kit_find(j, "before");
	kit_find(j, "after");
	kit_end(&k);
}

/* --- the queue is full --- */

static void overflow_is_counted(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct shfs_capture_stats stats;
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	unsigned refused = 0;
	int fd;

	kit_begin(&k, kit_store(), 50, 0);
	fd = kit_hang(&k, "slow", 1, &s);
	kit_emit_preimage(&k, "slow", s); /* nothing passes it */
	shfs_snapshot_unref(s);
	for (unsigned i = 1; i < 80; i++) {
		char name[32];

		number_name(name, "e", i);
		refused += !kit_emit_preimage(&k, name, NULL);
	}
	assert_int_equal(refused, 30);
	stats = kit_stats(&k);
	assert_int_equal(stats.lost, 30);
	assert_int_equal(stats.queued, 50);
	assert_int_equal(stats.records, 0);
	assert_int_equal(stats.error, 0);
	kit_gate = 0;
	assert_int_equal(sync_now(&k), -ENOBUFS);
	assert_int_equal(sync_now(&k), 0); /* told once */
	kit_emit_preimage(&k, "afterwards", NULL);
	assert_int_equal(sync_now(&k), 0);
	stats = kit_stats(&k);
	assert_int_equal(stats.records, 51);
	assert_int_equal(stats.queued, 0);
	assert_false(alert_is_there(&k));
	kit_close(&k);
	j = kit_read_journal(&k);
	assert_int_equal(j->n, 51);
	assert_int_equal(j->lost, 30);
	assert_int_equal(j->lost_error, ENOBUFS);
	assert_string_equal(j->paths[49], "e49");
	assert_string_equal(j->paths[50], "afterwards");
	close(fd);
	kit_end(&k);
}

/* Long paths count by their bytes. */
static void overflow_of_bytes(void **state)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE };
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	unsigned refused = 0;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = kit_hang(&k, "slow", 1, &s);
	kit_emit_preimage(&k, "slow", s);
	shfs_snapshot_unref(s);
	kit_noise(&path, 1 << 20, 1);
	rec.preimage.path = (struct shfs_bytes){ path.data, path.len };
	for (unsigned i = 0; i < 70; i++)
		refused += !shfs_capture_emit(k.capture, &rec, NULL);
	assert_true(refused >= 6 && refused < 10);
	close(fd);
	kit_end(&k);
}

/* --- syncs --- */

struct syncs {
	struct kit *k;
	atomic_uint calls;
	unsigned order[10];
	uint64_t records[10];
};

struct one_sync {
	struct syncs *all;
	unsigned n;
};

static void on_one_sync(void *arg, int error)
{
	struct one_sync *one = arg;
	struct syncs *all = one->all;

	assert_ok(error);
	all->records[all->calls] = kit_stats(all->k).records;
	all->order[all->calls] = one->n;
	all->calls++;
}

static void syncs_come_in_order(void **state)
{
	struct kit k = { 0 };
	struct syncs all = { .k = &k };
	struct one_sync one[10];

	kit_begin(&k, kit_store(), 0, 0);
	for (unsigned i = 0; i < 10; i++) {
		char name[32];

		number_name(name, "e", i);
		kit_emit_preimage(&k, name, NULL);
		one[i] = (struct one_sync){ &all, i };
		assert_ok(shfs_capture_sync(k.capture, on_one_sync, &one[i]));
	}
	kit_until(all.calls == 10);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(all.order[i], i);
		assert_true(all.records[i] > i); /* its event was written */
	}
	kit_end(&k);
}

static void sync_of_nothing(void **state)
{
	struct kit k = { 0 };
	int64_t begin;

	kit_begin(&k, kit_store(), 0, 0);
	begin = kit_now_ms();
	assert_int_equal(sync_now(&k), 0);
	assert_int_equal(sync_now(&k), 0);
	assert_true(kit_now_ms() - begin < 5000);
	kit_end(&k);
}

/* Once a sync has said so, another process finds record and object. */
static void sync_means_readable(void **state)
{
	struct kit k = { 0 };

	kit_begin(&k, kit_store(), 0, 0);
	for (unsigned i = 0; i < 20; i++) {
		_cleanup_free_ struct kit_journal *j = NULL;
		struct shfs_snapshot *s = shfs_snapshot_new(k.capture);
		char name[32];
		int fd;

		number_name(name, "f", i);
		fd = kit_file(&k, name, 1000 + i * 5000, i);
		shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
		kit_emit_preimage(&k, name, s);
		shfs_snapshot_unref(s);
		close(fd);
		assert_int_equal(sync_now(&k), 0);
		j = kit_read_journal(&k);
		kit_assert_object(&k, &kit_find(j, name)->preimage.content,
		                  1000 + i * 5000, i);
	}
	kit_end(&k);
}

/* A reader beside it never sees a record whose object is not there. */
static void objects_come_first(void **state)
{
	struct kit k = { 0 };
	unsigned seen = 0;

	kit_begin(&k, kit_store(), 0, 0);
	for (unsigned i = 0; i < 150; i++) {
		struct shfs_snapshot *s = shfs_snapshot_new(k.capture);
		char name[32];
		int fd;

		number_name(name, "f", i);
		fd = kit_file(&k, name, 2000 + i * 300, i);
		shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
		kit_emit_preimage(&k, name, s);
		shfs_snapshot_unref(s);
		close(fd);
		if (i % 10 == 9) {
			_cleanup_free_ struct kit_journal *j = kit_read_journal(&k);

			for (; seen < j->n; seen++)
				kit_assert_object(&k, &j->recs[seen].preimage.content,
				                  2000 + seen * 300, seen);
			usleep(100000);
		}
	}
	assert_true(seen > 0);
	kit_end(&k);
}

/* --- statistics --- */

static void statistics(void **state)
{
	struct shfs_capture_stats stats;
	struct shfs_snapshot *s[4];
	struct kit k = { 0 };
	int fd[3];

	kit_begin(&k, kit_store(), 0, 0);
	fd[0] = kit_file(&k, "a", 1000, 1);
	fd[1] = kit_file(&k, "same", 1000, 1);
	fd[2] = kit_file(&k, "big", 9000, 2);
	for (int i = 0; i < 4; i++)
		s[i] = shfs_snapshot_new(k.capture);
	shfs_snapshot_take(s[0], fd[0], SHFS_DEPTH_ARCHIVE, 8000, 0);
	shfs_snapshot_take(s[1], fd[1], SHFS_DEPTH_ARCHIVE, 8000, 0);
	shfs_snapshot_take(s[2], fd[2], SHFS_DEPTH_ARCHIVE, 8000, 0);
	shfs_snapshot_take(s[3], fd[2], SHFS_DEPTH_STAT, 8000, SHFS_CONTENT_SKIP_RULE);
	for (int i = 0; i < 4; i++) {
		kit_emit_preimage(&k, "p", s[i]);
		kit_emit_preimage(&k, "p", s[i]); /* one content in two records */
		shfs_snapshot_unref(s[i]);
	}
	assert_int_equal(sync_now(&k), 0);
	stats = kit_stats(&k);
	assert_int_equal(stats.records, 8);
	assert_int_equal(stats.lost + stats.queued, 0);
	assert_int_equal(stats.objects, 1);
	assert_int_equal(stats.object_bytes, 1000);
	assert_int_equal(stats.stored_bytes, 1040);
	assert_int_equal(stats.skipped, 2);
	assert_int_equal(stats.incomplete, 0);
	assert_int_equal(stats.error, 0);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	kit_end(&k);
}

/* --- the store fails --- */

/* Until the capture has noticed. Returns how many that took. */
static unsigned until_it_fails(struct kit *k, int error)
{
	int64_t until = kit_now_ms() + 10000;
	unsigned seed = 1, n = 0;
	char path[1000];

	for (; !kit_stats(k).error && kit_now_ms() < until; n++) {
		/* a full disk may have room in the last page of the journal: long ones */
		for (size_t i = 0; i < sizeof(path) - 1; i++)
			path[i] = (char)('a' +
			                 (seed = seed * 1103515245 + 12345) / 65536 % 26);
		path[sizeof(path) - 1] = '\0';
		kit_emit_preimage(k, path, NULL);
		usleep(20000);
	}
	assert_int_equal(kit_stats(k).error, error);
	return n;
}

static void fails_and_recovers(struct kit *k, int error, void (*worsen)(struct kit *),
                               void (*heal)(struct kit *))
{
	_cleanup_free_ struct kit_journal *j = NULL;
	_cleanup_buf_ struct shfs_buf alert = { 0 };
	struct shfs_capture_stats stats;
	struct shfs_snapshot *s;
	uint64_t process, emitted;
	int64_t begin;
	int fd = kit_file(k, "f", 100000, 1);

	kit_emit_preimage(k, "good", NULL);
	assert_int_equal(sync_now(k), 0);
	worsen(k);
	emitted = until_it_fails(k, error) + 4; /* with those that have names */
	kit_until(alert_read(k, &alert));
	assert_memory_equal(alert.data, "shfs: not recording in /home/u/project: ", 40);
	assert_non_null(strstr(alert.data, k->store->path));
	assert_ptr_equal(strchr(alert.data, '\n'), alert.data + alert.len - 1);
	assert_int_equal(sync_now(k), error);

	/* nothing waits, and who is told a number can name it later */
	begin = kit_now_ms();
	s = kit_archive(k, fd);
	assert_true(shfs_snapshot_wait(s, 2000));
	assert_int_equal(kit_emit_preimage(k, "dropped", s), 0);
	shfs_snapshot_unref(s);
	process = kit_emit_process(k, 4711);
	assert_true(process > 0);
	assert_true(kit_now_ms() - begin < 1500);
	assert_int_equal(kit_stats(k).error, error);

	heal(k);
	kit_until(kit_stats(k).error == 0);
	kit_until(!alert_is_there(k));
	sync_now(k); /* may tell the loss */
	s = kit_archive(k, fd);
	assert_true(kit_emit_preimage(k, "again", s) > process);
	shfs_snapshot_unref(s);
	assert_int_equal(sync_now(k), 0);
	stats = kit_stats(k);
	assert_int_equal(stats.queued, 0);
	assert_true(stats.lost >= 2);
	assert_int_equal(stats.records + stats.lost, emitted);
	kit_close(k);

	j = kit_read_journal(k);
	assert_true(j->ended);
	assert_int_equal(j->lost, stats.lost);
	assert_int_equal(j->n, emitted - stats.lost);
	kit_find(j, "good");
	kit_assert_object(k, &kit_find(j, "again")->preimage.content, 100000, 1);
	for (unsigned i = 0;; i++) {
		assert_true(i < j->n);
		assert_string_not_equal(j->paths[i], "dropped");
		if (j->recs[i].type != SHFS_REC_PROCESS)
			continue;
		assert_int_equal(j->recs[i].seq, process);
		assert_int_equal(j->recs[i].process.pid, 4711);
		break;
	}
	close(fd);
	kit_end(k);
}

static void error_begins(struct kit *k)
{
	kit_write_error = EIO;
}

static void no_space_begins(struct kit *k)
{
	kit_write_error = ENOSPC;
}

static void error_ends(struct kit *k)
{
	kit_write_error = 0;
}

static void no_space(void **state)
{
	struct kit k = { 0 };

	kit_begin(&k, kit_store(), 0, 0);
	fails_and_recovers(&k, -ENOSPC, no_space_begins, error_ends);
}

static void bad_disk(void **state)
{
	struct kit k = { 0 };

	kit_begin(&k, kit_store(), 0, 0);
	fails_and_recovers(&k, -EIO, error_begins, error_ends);
}

static void disk_fills(struct kit *k)
{
	kit_fill(k->store->dirfd, "filler");
}

static void disk_is_freed(struct kit *k)
{
	assert_ok(unlinkat(k->store->dirfd, "filler", 0));
}

/* A real one: there the reserve for the alert matters too. */
static void full_disk(void **state)
{
	const char *dir = kit_small_begin(4 << 20);
	struct kit k = { 0 };

	if (!dir)
		shfs_unit_skip("may not mount a small file system");
	kit_begin(&k, kit_store_at(dir), 0, 0);
	fails_and_recovers(&k, -ENOSPC, disk_fills, disk_is_freed);
	kit_small_end();
}

/* The object has no room, the record would have: it says why there is no object. */
static void object_without_room(void **state)
{
	const char *dir = kit_small_begin(4 << 20);
	_cleanup_free_ struct kit_journal *j = NULL;
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	int fd;

	if (!dir)
		shfs_unit_skip("may not mount a small file system");
	kit_begin(&k, kit_store_at(dir), 0, 0);
	fd = kit_file(&k, "f", 6 << 20, 1);
	s = kit_archive(&k, fd);
	kit_emit_preimage(&k, "too large", s);
	kit_until(kit_stats(&k).error == -ENOSPC);
	assert_true(shfs_snapshot_depth(s) < SHFS_DEPTH_ARCHIVE);
	shfs_snapshot_unref(s);
	kit_until(alert_is_there(&k));
	kit_close(&k); /* in time, although nothing gets better */
	j = kit_read_journal(&k);
	assert_int_equal(j->n + j->lost, 1);
	close(fd);
	kit_end(&k);
	kit_small_end();
}

/* Closing while the store fails: no hanging, and the good part can be read. */
static void close_of_a_failed_store(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct kit k = { 0 };
	int64_t begin;

	kit_begin(&k, kit_store(), 0, 0);
	kit_emit_preimage(&k, "good", NULL);
	assert_int_equal(sync_now(&k), 0);
	kit_write_error = ENOSPC;
	until_it_fails(&k, -ENOSPC);
	kit_emit_process(&k, 1);
	begin = kit_now_ms();
	kit_close(&k);
	assert_true(kit_now_ms() - begin < 5000);
	kit_write_error = 0;
	j = kit_read_journal(&k);
	assert_int_equal(j->n, 1);
	assert_false(j->ended);
	kit_end(&k);
}

/* The alert of a process that died with it is taken away by the next one. */
static void stale_alert(void **state)
{
	struct shfs_store *store = kit_store();
	struct kit k = { 0 };
	char name[80];

	snprintf(name, sizeof(name), "alert-%s", store->host);
	assert_ok(shfs_write_file_at(store->state_fd, name, 0600, "old\n", 4));
	kit_begin(&k, store, 0, 0);
	assert_false(alert_is_there(&k));
	kit_end(&k);
}

static void alert_is(struct kit *k, const char *expected)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	assert_true(alert_read(k, &text));
	assert_string_equal(text.data, expected);
}

/* Each project has its line, which a mount of another one leaves alone, and a restore. */
static void alerts_of_projects(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_capture_options o = { .kind = "restore", .root = "/home/u/project" };
	struct shfs_capture *restore;
	struct kit k = { 0 };

	shfs_alert_raise(store, "/home/u/project", "ours\n", NULL);
	shfs_alert_raise(store, "/elsewhere", "theirs\n", NULL);
	k.store = store;
	assert_ok(shfs_config_init(&k.config));
	o.config = &k.config;
	assert_ok(shfs_capture_open(store, &o, &restore));
	shfs_capture_close(restore);
	{
		_cleanup_buf_ struct shfs_buf text = { 0 };

		assert_true(alert_read(&k, &text));
		assert_non_null(strstr(text.data, "ours\n"));
		assert_non_null(strstr(text.data, "theirs\n"));
		assert_int_equal(text.len, 12);
	}
	kit_begin(&k, store, 0, 0);
	alert_is(&k, "theirs\n");
	shfs_alert_raise(store, "/elsewhere", "still\n", NULL);
	alert_is(&k, "still\n");
	shfs_alert_clear(store, "/elsewhere");
	assert_false(alert_is_there(&k));
	kit_end(&k);
}

/* In the end there is what each said last. */
static void change_line(struct shfs_store *store, int i, int round)
{
	char root[16], line[32];

	snprintf(root, sizeof(root), "/p%d", i);
	snprintf(line, sizeof(line), "<%d: %d>\n", i, round);
	shfs_alert_raise(store, root, "first\n", NULL);
	shfs_alert_raise(store, root, line, NULL);
	if (i % 2)
		shfs_alert_clear(store, root);
}

/* Many processes change their lines at the same time, again and again. */
static void alerts_at_once(void **state)
{
	enum { N = 12, ROUNDS = 20 };
	struct shfs_store *store = kit_store();
	struct kit k = { .store = store };

	for (int round = 0; round < ROUNDS; round++) {
		_cleanup_buf_ struct shfs_buf text = { 0 }, expected = { 0 };
		unsigned lines = 0;
		pid_t children[N];

		for (int i = 0; i < N; i++) {
			children[i] = fork();
			assert_true(children[i] >= 0);
			if (!children[i]) {
				change_line(store, i, round);
				_exit(0);
			}
		}
		for (int i = 0, status; i < N; i++) {
			assert_int_equal(waitpid(children[i], &status, 0), children[i]);
			assert_int_equal(status, 0);
		}
		assert_true(alert_read(&k, &text));
		for (int i = 0; i < N; i += 2) {
			expected.len = 0;
			shfs_buf_printf(&expected, "<%d: %d>\n", i, round);
			assert_non_null(strstr(text.data, expected.data));
		}
		for (const char *p = text.data; *p; p++)
			lines += *p == '\n';
		assert_int_equal(lines, N / 2);
	}
	shfs_store_close(store);
}

/* --- closing --- */

static void close_drains(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct sync sync = { 0 };
	struct kit k = { 0 };

	kit_begin(&k, kit_store(), 0, 0);
	for (unsigned i = 0; i < 100; i++) {
		struct shfs_snapshot *s = shfs_snapshot_new(k.capture);
		char name[32];
		int fd;

		number_name(name, "f", i);
		fd = kit_file(&k, name, 20000 + i, i);
		shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
		kit_emit_preimage(&k, name, s);
		shfs_snapshot_unref(s);
		close(fd);
	}
	assert_ok(shfs_capture_sync(k.capture, on_sync, &sync));
	kit_close(&k);
	assert_int_equal(sync.calls, 1);
	assert_int_equal(sync.error, 0);
	j = kit_read_journal(&k);
	assert_int_equal(j->n, 100);
	assert_true(j->ended);
	for (unsigned i = 0; i < 100; i++)
		kit_assert_object(&k, &j->recs[i].preimage.content, 20000 + i, i);
	shfs_capture_close(NULL);
	kit_end(&k);
}

static void close_of_nothing(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct kit k = { 0 };

	kit_begin(&k, kit_store(), 0, 16);
	kit_close(&k);
	j = kit_read_journal(&k);
	assert_int_equal(j->n, 0);
	assert_true(j->ended);
	kit_end(&k);
}

static void open_without_a_store(void **state)
{
	struct kit k = { 0 };
	struct shfs_capture_options o = { .config = &k.config,
		                          .kind = "fuse",
		                          .root = "/" };
	struct shfs_capture *capture = NULL;

	assert_ok(shfs_config_init(&k.config));
	k.store = kit_store();
	kit_write_error = ENOSPC;
	assert_int_equal(shfs_capture_open(k.store, &o, &capture), -ENOSPC);
	kit_write_error = 0;
	assert_null(capture);
	shfs_config_free(&k.config);
	shfs_store_close(k.store);
}

/* --- many at once --- */

struct emitter {
	pthread_t thread;
	struct kit *k;
	unsigned n, accepted;
	int fd;
};

static void *emit_many(void *arg)
{
	struct emitter *e = arg;

	for (unsigned i = 0; i < 400; i++) {
		struct shfs_snapshot *s = NULL;
		char name[32];

		snprintf(name, sizeof(name), "%u-%u", e->n, i);
		if (i % 8 == 0) {
			s = shfs_snapshot_new(e->k->capture);
			shfs_snapshot_take(s, e->fd, i % 3, MANY, 0);
		}
		e->accepted += kit_emit_preimage(e->k, name, s) > 0;
		if (i % 50 == 0)
			sync_now(e->k);
		shfs_snapshot_unref(s);
	}
	return NULL;
}

/* Each thread's events are in its order, and as many as were accepted. */
static void assert_order(const struct kit_journal *j, const struct emitter *e, size_t n)
{
	unsigned came[8] = { 0 };
	int last[8];

	memset(last, -1, sizeof(last));
	for (unsigned i = 0; i < j->n; i++) {
		unsigned thread;
		int number;

		assert_int_equal(sscanf(j->paths[i], "%u-%d", &thread, &number), 2);
		assert_true(thread < n && number > last[thread]);
		last[thread] = number;
		came[thread]++;
	}
	for (size_t i = 0; i < n; i++)
		assert_int_equal(came[i], e[i].accepted);
}

static void emit_from_threads(size_t queue_max, bool disturb)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct shfs_capture_stats stats;
	struct emitter e[6];
	struct kit k = { 0 };
	int fd;

	assert_ok(shfs_config_init(&k.config));
	k.config.wait_ms = 60000;
	kit_begin(&k, kit_store(), queue_max, 0);
	fd = kit_file(&k, "f", 30000, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(e); i++) {
		e[i] = (struct emitter){ .k = &k, .n = i, .fd = fd };
		assert_ok(pthread_create(&e[i].thread, NULL, emit_many, &e[i]));
	}
	for (int i = 0; disturb && i < 6; i++) {
		usleep(50000);
		kit_write_error = i % 2 ? 0 : ENOSPC;
	}
	kit_write_error = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(e); i++)
		assert_ok(pthread_join(e[i].thread, NULL));
	kit_until(kit_stats(&k).error == 0);
	sync_now(&k);
	stats = kit_stats(&k);
	assert_int_equal(stats.records + stats.lost, 6 * 400);
	kit_close(&k);
	j = kit_read_journal(&k);
	assert_int_equal(j->n, stats.records);
	assert_int_equal(j->lost, stats.lost);
	if (!disturb) { /* a full queue slows down who emits */
		assert_int_equal(stats.lost, 0);
		assert_order(j, e, ARRAY_SIZE(e));
	}
	close(fd);
	kit_end(&k);
}

static void many_threads(void **state)
{
	emit_from_threads(0, false);
}

static void many_threads_and_a_short_queue(void **state)
{
	emit_from_threads(20, false);
}

static void many_threads_and_a_bad_disk(void **state)
{
	emit_from_threads(0, true);
}

/* More files at once than there may be uncommitted objects, with few fds left. */
static void few_descriptors(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct rlimit before, few;
	struct kit k = { 0 };

	assert_ok(getrlimit(RLIMIT_NOFILE, &before));
	few = before;
	few.rlim_cur = 80;
	assert_ok(setrlimit(RLIMIT_NOFILE, &few));
	kit_begin(&k, kit_store(), 0, 0);
	for (unsigned i = 0; i < 300; i++) {
		struct shfs_snapshot *s = shfs_snapshot_new(k.capture);
		char name[32];
		int fd;

		number_name(name, "f", i);
		fd = kit_file(&k, name, 17000 + i, i);
		shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
		shfs_snapshot_wait(s, 1000);
		kit_emit_preimage(&k, name, s);
		shfs_snapshot_unref(s);
		close(fd);
	}
	kit_close(&k);
	assert_ok(setrlimit(RLIMIT_NOFILE, &before));
	j = kit_read_journal(&k);
	assert_int_equal(j->n, 300);
	for (unsigned i = 0; i < 300; i++)
		kit_assert_object(&k, &j->recs[i].preimage.content, 17000 + i, i);
	kit_end(&k);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_is_that_of_the_calls),
		cmocka_unit_test(order_holds_for_slow_contents),
		cmocka_unit_test(written_within_a_moment),
		cmocka_unit_test(fields),
		cmocka_unit_test(wrong_types),
		cmocka_unit_test(too_large_for_a_record),
		cmocka_unit_test(overflow_is_counted),
		cmocka_unit_test(overflow_of_bytes),
		cmocka_unit_test(syncs_come_in_order),
		cmocka_unit_test(sync_of_nothing),
		cmocka_unit_test(sync_means_readable),
		cmocka_unit_test(objects_come_first),
		cmocka_unit_test(statistics),
		cmocka_unit_test(no_space),
		cmocka_unit_test(bad_disk),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(object_without_room),
		cmocka_unit_test(close_of_a_failed_store),
		cmocka_unit_test(stale_alert),
		cmocka_unit_test(alerts_of_projects),
		cmocka_unit_test(alerts_at_once),
		cmocka_unit_test(close_drains),
		cmocka_unit_test(close_of_nothing),
		cmocka_unit_test(open_without_a_store),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(many_threads_and_a_short_queue),
		cmocka_unit_test(many_threads_and_a_bad_disk),
		cmocka_unit_test(few_descriptors),
	};

	return shfs_unit_main(tests, argc, argv);
}
