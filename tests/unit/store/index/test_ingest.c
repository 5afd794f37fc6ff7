/* SPDX-License-Identifier: MIT */
/* Tests of store/index: ingest and attribution. */
#include "tests/unit/indexkit.h"

#include "store/journal/frame.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* A shell with two commands, one of which writes what the other reads. */
static void session(struct kit *k, double t, uint32_t pid, const char *name)
{
	uint64_t a, b;

	kit_shell(k, pid, t, t + 50);
	kit_begin(k, 1, t + 1000, pid, "make data");
	a = kit_process(k, pid + 1, t + 1005, pid, t, .sid = pid);
	kit_write(k, a, name, t + 1010, kit_content(k, name, t + 1010));
	kit_end(k, 1, t + 1020, pid + 1, 0);
	kit_begin(k, 2, t + 2000, pid + 1, "use data");
	b = kit_process(k, pid + 2, t + 2005, pid, t, .sid = pid);
	kit_read(k, b, name, t + 2010, kit_content(k, name, t + 1010));
	kit_end(k, 2, t + 2020, pid + 2, 3);
}

static void test_rows(void **state)
{
	struct kit k;
	struct shfs_ingest_stats stats;

	kit_open(&k);
	kit_mount(&k);
	session(&k, 10000, 500, "data.txt");
	stats = kit_ingest(&k);
	assert_int_equal(stats.commands, 2);
	assert_int_equal(stats.accesses, 2);
	assert_int_equal(stats.versions, 1);
	assert_int_equal(stats.damaged_bytes, 0);
	assert_string_equal(kit_ask(&k, 6,
	                            "SELECT number, text, status, n_read, n_written, cwd"
	                            " FROM v_command ORDER BY begin_ns"),
	                    "1|make data|0|0|1|" KIT_ROOT "\n"
	                    "2|use data|3|1|0|" KIT_ROOT);
	assert_string_equal(kit_ask(&k, 4,
	                            "SELECT path, root, versions, present FROM v_file"),
	                    KIT_ROOT "/data.txt|" KIT_ROOT "|1|1");
	assert_string_equal(kit_ask(&k, 3,
	                            "SELECT v.n, v.source, c.text FROM v_version v"
	                            " JOIN v_command c USING (command_id)"),
	                    "1|written|make data");
	assert_string_equal(kit_ask(&k, 2,
	                            "SELECT a.op, v.n FROM v_access a JOIN v_version v"
	                            " ON v.version_id = a.seen_version_id"),
	                    "open|1");
	assert_string_equal(kit_ask(&k, 4,
	                            "SELECT kind, root, end_ns, records FROM v_producer"),
	                    "fuse|" KIT_ROOT "|NULL|4");
	assert_string_equal(kit_ask(&k, 3,
	                            "SELECT shell, commands, length(id) FROM v_session"),
	                    "bash|2|16");
	assert_string_equal(kit_ask(&k, 1, "SELECT hex(argv) FROM v_process LIMIT 1"),
	                    "610062");
	kit_umount(&k);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 1, "SELECT end_ns IS NULL FROM v_producer"), "0");
	kit_close(&k);
}

static void test_again_changes_nothing(void **state)
{
	_cleanup_free_ char *first = NULL, *second = NULL;
	struct kit k;

	kit_open(&k);
	kit_mount(&k);
	session(&k, 10000, 500, "data.txt");
	assert_true(kit_ingest(&k).records > 0);
	first = kit_dump(&k);
	assert_int_equal(kit_ingest(&k).records, 0);
	kit_umount(&k); /* sealing changes the file, not the records: but for the end */
	assert_int_equal(kit_ingest(&k).records, 1);
	assert_int_equal(kit_ingest(&k).records, 0);
	second = kit_dump(&k);
	assert_string_not_equal(first, second);
	kit_close(&k);
}

/*
 * One mount after another, with an ingest after each step, or one at the end: the same.
 */
static void test_rebuild_is_equal(void **state)
{
	_cleanup_free_ char *steps = NULL, *whole = NULL;
	struct kit k;

	kit_open(&k);
	for (int i = 0; i < 6; i++) {
		double t = 10000 + 5000 * i;
		uint64_t p;

		kit_mount_at(&k, KIT_ROOT, i % 2 ? 600 : 0);
		session(&k, t, 500 + 10 * i, i < 3 ? "a.txt" : "b.txt");
		kit_ingest(&k);
		p = kit_process(&k, 505 + 10 * i, t + 2500, 500 + 10 * i, t);
		kit_pathop(&k, p, SHFS_OP_UNLINK, "c.txt", NULL, t + 2600, NULL, NULL,
		           false);
		kit_rename(&k, p, i < 3 ? "a.txt" : "b.txt", "c.txt", t + 2700);
		kit_ingest(&k);
		kit_umount(&k);
		if (i % 2)
			kit_ingest(&k);
	}
	kit_ingest(&k);
	steps = kit_dump(&k);
	assert_ok(shfs_index_rebuild(k.store, NULL, NULL));
	whole = kit_dump(&k);
	assert_string_equal(steps, whole);
	/* two contents: what comes back is no new version */
	assert_non_null(strstr(whole, "/c.txt|" KIT_ROOT "|2|1|"));
	kit_close(&k);
}

/* More than a transaction holds, over several segments. */
static void test_batches(void **state)
{
	_cleanup_free_ char *steps = NULL, *whole = NULL;
	struct kit k;
	uint64_t p;

	shfs_ingest_batch = 2000;
	kit_open(&k);
	kit_mount_at(&k, KIT_ROOT, 200000);
	kit_shell(&k, 500, 1000, 1100);
	kit_begin(&k, 1, 2000, 500, "generate");
	p = kit_process(&k, 501, 2000, 500, 1000);
	for (int i = 0; i < 9000; i++) {
		char name[32], text[32];

		snprintf(name, sizeof(name), "f%d", i % 600);
		snprintf(text, sizeof(text), "%d", i);
		kit_write(&k, p, name, 2100 + i, kit_content(&k, text, 2100 + i));
		if (i == 6000)
			kit_ingest(&k);
	}
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 2, "SELECT versions, accesses FROM v_stats"),
	                    "9000|9000");
	assert_string_equal(kit_ask(&k, 1, "SELECT n_written FROM v_command"), "600");
	steps = kit_dump(&k);
	assert_ok(shfs_index_rebuild(k.store, NULL, NULL));
	whole = kit_dump(&k);
	assert_string_equal(steps, whole);
	kit_close(&k);
}

static void test_two_at_once(void **state)
{
	struct kit k;
	pid_t children[4];
	uint64_t p;

	shfs_ingest_batch = 1000;
	kit_open(&k);
	kit_mount(&k);
	kit_shell(&k, 500, 1000, 1100);
	for (int i = 1; i <= 200; i++)
		kit_begin(&k, i, 2000 + i, 500, "x");
	p = kit_process(&k, 501, 3000, 500, 1000);
	for (int i = 0; i < 25000; i++)
		kit_write(&k, p, "f", 3000 + i, kit_content(&k, i % 2 ? "1" : "0", i));
	for (int i = 0; i < 4; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (!children[i]) {
			struct shfs_index *index;
			int r = shfs_index_open(k.store, SHFS_INDEX_WRITE, &index);

			if (!r)
				r = shfs_index_ingest(index, NULL, NULL);
			if (r)
				fprintf(stderr, "child: %s\n", strerror(-r));
			_exit(r ? 1 : 0);
		}
	}
	for (int i = 0; i < 4; i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	assert_string_equal(kit_ask(&k, 3,
	                            "SELECT commands, versions, accesses FROM v_stats"),
	                    "200|25000|25000");
	kit_close(&k);
}

static void test_lost(void **state)
{
	struct kit k;
	struct shfs_record rec = { .type = SHFS_REC_LOST, .lost = { 17, ENOSPC } };

	kit_open(&k);
	kit_mount(&k);
	kit_append(&k, &rec);
	kit_append(&k, &rec);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 2, "SELECT lost, records FROM v_producer"),
	                    "34|0");
	assert_string_equal(kit_ask(&k, 1, "SELECT lost FROM v_stats"), "34");
	kit_close(&k);
}

static void tell_exit(struct kit *k, uint64_t process, uint32_t status, uint64_t us,
                      uint64_t kib)
{
	struct shfs_record rec = { .type = SHFS_REC_EXIT,
		                   .exit = { process, status, us, us / 2, kib } };

	kit_append(k, &rec);
}

/* What a process has used is of all its programs; of what is not known it says nothing.
 */
static void test_exits(void **state)
{
	struct kit k;
	uint64_t p;

	kit_open(&k);
	kit_mount(&k);
	p = kit_process(&k, 501, 2000, 500, 1000);
	kit_process(&k, 501, 2000, 500, 1000, .exe = "/bin/next");
	tell_exit(&k, p + 1, 0x300, 2000, 70);
	tell_exit(&k, p, 0x300, 1000, 80); /* as another recorder saw it */
	tell_exit(&k, kit_process(&k, 502, 2000, 500, 1000), 0x89, UINT64_MAX, 0);
	tell_exit(&k, 0, 1, 1, 1);
	tell_exit(&k, 999, 1, 1, 1);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 5,
	                            "SELECT pid, status, user_us, system_us, max_rss_kib"
	                            " FROM v_exit JOIN v_process USING (process_id)"
	                            " ORDER BY pid"),
	                    "501|3|2000|1000|80\n501|3|2000|1000|80\n"
	                    "502|137|9223372036854775807|9223372036854775807|0");
	assert_string_equal(kit_ask(&k, 2, "SELECT records, lost FROM v_producer"),
	                    "8|0");
	kit_close(&k);
}

/* What a limit or a rule kept out is counted on the command, a preimage's too. */
static void test_cut_and_torn(void **state)
{
	struct kit k;
	struct shfs_content big, torn, fifo;
	uint64_t p;

	kit_open(&k);
	kit_mount(&k);
	kit_shell(&k, 500, 1000, 1100);
	kit_begin(&k, 1, 2000, 500, "x");
	p = kit_process(&k, 501, 2000, 500, 1000);
	big = kit_print(&k, "big", 2000);
	big.flags |= SHFS_CONTENT_SKIP_SIZE;
	torn = kit_content(&k, "torn", 2000);
	torn.flags |= SHFS_CONTENT_INCOMPLETE;
	fifo = kit_print(&k, "", 2000);
	fifo.flags = SHFS_CONTENT_KNOWN | SHFS_CONTENT_SKIP_TYPE;
	kit_write(&k, p, "big", 2100, big);
	kit_write(&k, p, "torn", 2110, torn);
	kit_read(&k, p, "fifo", 2120, fifo);
	kit_preimage(&k, p, "other", 2130, big);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 2,
	                            "SELECT n_skipped, n_incomplete FROM v_command"),
	                    "2|1");
	assert_string_equal(kit_ask(&k, 1, "SELECT accesses FROM v_stats"), "3");
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT replace(path, '" KIT_ROOT "', '') FROM v_file"
	                            " ORDER BY path"),
	                    "/big\n/other\n/torn");
	kit_close(&k);
}

/* A file counts once for its command, read or written or renamed to. */
static void test_distinct_files(void **state)
{
	struct kit k;
	uint64_t p;

	kit_open(&k);
	kit_mount(&k);
	kit_shell(&k, 500, 1000, 1100);
	kit_begin(&k, 1, 2000, 500, "sed -i");
	p = kit_process(&k, 501, 2000, 500, 1000);
	for (int i = 0; i < 3; i++) {
		kit_read(&k, p, "conf", 2010 + i, kit_content(&k, "old", 1000));
		kit_write(&k, p, "tmp", 2020 + i, kit_content(&k, "new", 2020));
	}
	kit_rename(&k, p, "tmp", "conf", 2030);
	kit_write(&k, p, "conf", 2040, kit_content(&k, "newer", 2040));
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 2, "SELECT n_read, n_written FROM v_command"),
	                    "1|2");
	kit_close(&k);
}

static char *segment_name(struct kit *k, bool hook);

struct found {
	char name[200];
	bool hook;
};

static int remember(const struct shfs_journal_file *file, void *arg)
{
	struct found *f = arg;

	if (file->hook_log == f->hook)
		snprintf(f->name, sizeof(f->name), "%s", file->name);
	return 0;
}

static char *segment_name(struct kit *k, bool hook)
{
	struct found f = { .hook = hook };

	assert_ok(shfs_journal_walk(k->store, SHFS_JOURNAL_ALL, remember, &f));
	assert_true(f.name[0]);
	return strdup(f.name);
}

static void overwrite(struct kit *k, const char *name, off_t at, const char *bytes)
{
	_cleanup_close_ int fd = openat(k->store->journal_fd, name, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, strlen(bytes), at), strlen(bytes));
}

static void test_damage(void **state)
{
	_cleanup_free_ char *name = NULL, *log = NULL;
	struct kit k;
	struct shfs_ingest_stats stats;
	struct stat st;
	uint64_t p;

	kit_open(&k);
	kit_mount(&k);
	kit_shell(&k, 500, 1000, 1100);
	p = kit_process(&k, 501, 2000, 500, 1000);
	kit_write(&k, p, "one", 2100, kit_content(&k, "1", 2100));
	name = segment_name(&k, false);
	assert_ok(fstatat(k.store->journal_fd, name, &st, 0));
	kit_write(&k, p, "two", 2110, kit_content(&k, "2", 2110));
	kit_write(&k, p, "three", 2120, kit_content(&k, "3", 2120));
	overwrite(&k, name, st.st_size + 50, "XXXXXXXX");
	log = segment_name(&k, true);
	kit_begin(&k, 1, 2000, 500, "broken");
	assert_ok(fstatat(k.store->journal_fd, log, &st, 0));
	overwrite(&k, log, st.st_size - 3, "zz");
	kit_begin(&k, 2, 2500, 501, "whole");
	stats = kit_ingest(&k);
	assert_true(stats.damaged_bytes > 100);
	assert_string_equal(kit_ask(&k, 1, "SELECT text FROM v_command"), "whole");
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT replace(path, '" KIT_ROOT "', '') FROM v_file"
	                            " ORDER BY path"),
	                    "/one\n/three");
	assert_int_equal(strtoull(kit_ask(&k, 1, "SELECT damaged_bytes FROM v_stats"),
	                          NULL, 10),
	                 stats.damaged_bytes);
	assert_int_equal(kit_ingest(&k).damaged_bytes, 0);
	kit_close(&k);
}

static void put_file(struct kit *k, const char *name, const void *data, size_t len)
{
	assert_ok(shfs_write_file_at(k->store->journal_fd, name, 0600, data, len));
}

/* Files that are no segments or of a newer version do not keep the others out. */
static void test_foreign_files(void **state)
{
	struct kit k;

	kit_open(&k);
	put_file(&k, "fuse-00000000-00000000-0.seg", "rubbish, and more rubbish", 25);
	put_file(&k, "fuse-00000000-00000001-0.seg.zst", "rubbish", 7);
	put_file(&k, "fuse-00000000-00000002-0.seg", "", 0);
	put_file(&k, "fuse-00000000-00000003-0.seg", "shfsseg\x7f and what not", 20);
	put_file(&k, "shell-00000000-1-1.log",
	         "rubbish\0\x1e"
	         "B1\0",
	         12);
	kit_mount(&k);
	session(&k, 10000, 500, "data.txt");
	assert_int_equal(kit_ingest(&k).commands, 2);
	assert_string_equal(kit_ask(&k, 1, "SELECT damaged_bytes FROM v_stats"), "32");
	assert_int_equal(kit_ingest(&k).damaged_bytes, 0);
	kit_close(&k);
}

/*
 * Records that are whole and lie: paths that leave the root, times without end, cycles.
 */
static void test_hostile_records(void **state)
{
	static const char *const paths[] = {
		"../etc/passwd", "/etc/passwd", "a//b", "a/../b", ".", "a/", ""
	};
	struct kit k;
	struct shfs_record rec = { .type = SHFS_REC_ACCESS };
	struct shfs_ingest_stats stats;
	uint64_t p;

	kit_open(&k);
	kit_mount(&k);
	p = kit_process(&k, 77, 100, 77, 100, .sid = 77);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		kit_write(&k, p, paths[i], 2000, kit_content(&k, "x", 2000));
	rec.access = (struct shfs_rec_access){ .flags = ~0u,
		                               .path = { "a\0b", 3 },
		                               .process = UINT64_MAX };
	kit_append(&k, &rec);
	rec.access.path = shfs_bytes_str("times");
	rec.access.begin = (struct shfs_time){ INT64_MIN, UINT64_MAX };
	rec.access.last = (struct shfs_time){ INT64_MAX, UINT64_MAX };
	rec.time = rec.access.begin;
	rec.access.made = (struct shfs_content){ .flags = ~0u & ~SHFS_CONTENT_SKIP_TYPE,
		                                 .size = UINT64_MAX,
		                                 .mtime_ns = INT64_MIN };
	rec.access.seen = rec.access.made;
	kit_append(&k, &rec);
	rec = (struct shfs_record){ .type = SHFS_REC_PATHOP, .pathop = { .op = 4711 } };
	kit_append(&k, &rec);
	rec.pathop = (struct shfs_rec_pathop){ .op = SHFS_OP_RENAME,
		                               .directory = 1,
		                               .path = shfs_bytes_str("times"),
		                               .path2 = shfs_bytes_str("times/below") };
	kit_append(&k, &rec);
	rec = (struct shfs_record){ .type = SHFS_REC_PROCESS,
		                    .process = { .pid = UINT32_MAX,
		                                 .ppid = UINT32_MAX,
		                                 .start_ticks = UINT64_MAX,
		                                 .parent_start_ticks = UINT64_MAX,
		                                 .pgid = 1,
		                                 .sid = 1 } };
	p = kit_append(&k, &rec);
	kit_write(&k, p, "after", 2000, kit_content(&k, "x", 2000));
	stats = kit_ingest(&k);
	/* all but the empty path, which is the root itself, and the two that pass */
	assert_int_equal(stats.accesses, 4);
	assert_true(stats.damaged_bytes > 8 * 44);
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT count(*) FROM v_access WHERE path LIKE '%..%'"
	                            " OR path LIKE '%//%' OR path NOT LIKE '" KIT_ROOT
	                            "%'"),
	                    "0");
	assert_int_equal(kit_ingest(&k).records, 0);
	kit_close(&k);
}

/* What a cut-back segment gives again is not taken twice. */
static void test_same_seq_twice(void **state)
{
	struct kit k;
	uint64_t p;

	kit_open(&k);
	kit_mount(&k);
	p = kit_process(&k, 501, 2000, 500, 1000);
	kit_write(&k, p, "f", 2100, kit_content(&k, "1", 2100));
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 2, "SELECT accesses, versions FROM v_stats"),
	                    "1|1");
	k.seq--;
	kit_write(&k, p, "f", 2100, kit_content(&k, "1", 2100));
	kit_write(&k, p, "f", 2200, kit_content(&k, "2", 2200));
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 2, "SELECT accesses, versions FROM v_stats"),
	                    "2|2");
	kit_close(&k);
}

/* A begin without a finish is closed by the next begin. */
static void test_missing_finish(void **state)
{
	struct kit k;

	kit_open(&k);
	kit_shell(&k, 500, 1000, 1100);
	kit_begin(&k, 1, 2000, 500, "one");
	kit_begin(&k, 2, 3000, 500, "two");
	kit_end(&k, 1, 3100, 500, 0); /* of a command that is not the current one */
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 3,
	                            "SELECT text, (end_ns - begin_ns) / 1000000, status"
	                            " FROM v_command ORDER BY begin_ns"),
	                    "one|1000|NULL\ntwo|NULL|NULL");
	kit_close(&k);
}

/* --- what a shell did itself, as a producer without times tells it --- */

static void three_commands(struct kit *k)
{
	kit_shell(k, 900, 1000, 1100);
	kit_begin(k, 1, 2000, 900, "first");
	kit_end(k, 1, 2050, 900, 0);
	kit_begin(k, 2, 2060, 900, "second");
	kit_end(k, 2, 2100, 900, 0);
	kit_begin(k, 3, 3000, 900, "third");
	kit_end(k, 3, 3050, 900, 0);
}

static void write_of_shell(struct kit *k, uint64_t shell, const char *path, double ms,
                           uint32_t late)
{
	struct shfs_content made = kit_content(k, path, ms);

	kit_access(k, shell, path, ms, ms, SHFS_ACCESS_WRITTEN | late, NULL, &made);
}

/* It was then, or up to 40 ms before: that is one command's alone, or nobody's. Also
 * where the log comes later than the accesses. */
static void test_late_accesses(void **state)
{
	for (int later = 0; later < 2; later++) {
		struct kit k;
		uint64_t shell;

		kit_open(&k);
		kit_mount(&k);
		if (!later)
			three_commands(&k);
		shell = kit_process(&k, 900, 1000, 1, 0);
		write_of_shell(&k, shell, "a exact, at the prompt", 2055, 0);
		write_of_shell(&k, shell, "b of the first", 2055, SHFS_ACCESS_LATE);
		write_of_shell(&k, shell, "c of two", 2070, SHFS_ACCESS_LATE);
		write_of_shell(&k, shell, "d exact, of the second", 2070, 0);
		write_of_shell(&k, shell, "e after the third", 3070, SHFS_ACCESS_LATE);
		write_of_shell(&k, shell, "f long after", 3200, SHFS_ACCESS_LATE);
		kit_ingest(&k);
		if (later)
			three_commands(&k);
		kit_ingest(&k);
		assert_string_equal(
			kit_ask(&k, 1,
		                "SELECT coalesce((SELECT text FROM v_command c WHERE"
		                " c.command_id = a.command_id), 'nobody') FROM v_access a"
		                " ORDER BY path"),
			"nobody\nfirst\nnobody\nsecond\nthird\nnobody");
		kit_close(&k);
	}
}

/* A hook log that was copied into the journal says nothing new. */
static void test_copied_log(void **state)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct kit k;

	kit_open(&k);
	kit_mount(&k);
	session(&k, 10000, 500, "data.txt");
	assert_ok(shfs_read_file_at(k.store->journal_fd, k.log, 1 << 20, &text));
	put_file(&k, "shell-copy.log", text.data, text.len);
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 2, "SELECT commands, sessions FROM v_stats"),
	                    "2|1");
	assert_string_equal(kit_ask(&k, 1, "SELECT commands FROM v_session"), "2");
	kit_close(&k);
}

/* --- many at once --- */

#define MANY 50

/* Runs them all at the same moment; each must succeed. */
static void at_once(struct kit *k, int n, int (*run)(struct kit *k, int i))
{
	pid_t children[MANY];
	int gate[2], bad = 0;

	assert_ok(pipe(gate));
	for (int i = 0; i < n; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (!children[i]) {
			char c;
			int r;

			close(gate[1]);
			(void)!read(gate[0], &c, 1);
			r = run(k, i);
			if (r)
				fprintf(stderr, "child: %s\n", strerror(-r));
			_exit(r ? 1 : 0);
		}
	}
	close(gate[0]);
	close(gate[1]);
	for (int i = 0; i < n; i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		bad += status != 0;
	}
	assert_int_equal(bad, 0);
}

static int query(struct kit *k, int i)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	int r = shfs_index_open(k->store, SHFS_INDEX_WRITE, &index);

	return r ? r : shfs_index_ingest(index, NULL, NULL);
}

static int query_or_rebuild(struct kit *k, int i)
{
	return i % 5 ? query(k, i) : shfs_index_rebuild(k->store, NULL, NULL);
}

static int rebuild(struct kit *k, int i)
{
	return shfs_index_rebuild(k->store, NULL, NULL);
}

static void remove_index(struct kit *k)
{
	unlinkat(k->store->dirfd, "index.db", 0);
	unlinkat(k->store->dirfd, "index.db-wal", 0);
	unlinkat(k->store->dirfd, "index.db-shm", 0);
}

static bool is_set_aside(struct kit *k)
{
	return !faccessat(k->store->dirfd, "index.db.damaged", F_OK, 0);
}

/* Nobody may see an index that is half made, and take it for damaged. */
static void test_first_queries_at_once(void **state)
{
	struct kit k;

	kit_open(&k);
	kit_mount(&k);
	session(&k, 10000, 500, "data.txt");
	for (int round = 0; round < 2; round++) {
		remove_index(&k);
		at_once(&k, MANY, query);
		assert_string_equal(kit_ask(&k, 1, "SELECT commands FROM v_stats"), "2");
		remove_index(&k);
		at_once(&k, 20, query_or_rebuild);
		assert_string_equal(kit_ask(&k, 1, "SELECT commands FROM v_stats"), "2");
		assert_false(is_set_aside(&k));
	}
	kit_close(&k);
}

/* Several rebuilds of a damaged index: it is set aside once, and never its successor. */
static void test_rebuilds_at_once(void **state)
{
	static const char rubbish[] = "this is no database, and was never one";
	struct kit k;

	kit_open(&k);
	kit_mount(&k);
	session(&k, 10000, 500, "data.txt");
	for (int round = 0; round < 2; round++) {
		_cleanup_buf_ struct shfs_buf aside = { 0 };

		remove_index(&k);
		unlinkat(k.store->dirfd, "index.db.damaged", 0);
		assert_ok(shfs_write_file_at(k.store->dirfd, "index.db", 0600, rubbish,
		                             sizeof(rubbish)));
		at_once(&k, 8, rebuild);
		assert_string_equal(kit_ask(&k, 1, "SELECT commands FROM v_stats"), "2");
		assert_ok(shfs_read_file_at(k.store->dirfd, "index.db.damaged", 1 << 20,
		                            &aside));
		assert_int_equal(aside.len, sizeof(rubbish));
		assert_memory_equal(aside.data, rubbish, sizeof(rubbish));
	}
	kit_close(&k);
}

/* --- recordings that ended unexpectedly --- */

#define GAPS                                                                             \
	"SELECT replace(root, '" KIT_ROOT "', 'R') || CASE WHEN end_ns IS NULL"          \
	" THEN ' open' ELSE ' closed' END FROM v_gap ORDER BY begin_ns, root"

/* A producer whose process ends in the middle. */
static void die(struct kit *k, const char *root, const char *kind)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		struct shfs_journal_options o = { .kind = kind, .root = root };

		assert_ok(shfs_journal_open(k->store, &o, &k->journal));
		k->seq = 0;
		kit_write(k, 0, "f", 3000, kit_content(k, "1", 3000));
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void check_gaps(struct kit *k, const char *expected)
{
	_cleanup_free_ char *before = NULL, *after = NULL;

	kit_ingest(k);
	assert_string_equal(kit_ask(k, 1, GAPS), expected);
	before = kit_dump(k);
	kit_ingest(k);
	assert_ok(shfs_index_rebuild(k->store, NULL, NULL));
	after = kit_dump(k);
	assert_string_equal(before, after);
	assert_string_equal(kit_ask(k, 1, GAPS), expected);
}

static void test_gap(void **state)
{
	struct kit k;

	kit_open(&k);
	kit_mount(&k); /* it lives, and then ends well */
	check_gaps(&k, "");
	kit_umount(&k);
	check_gaps(&k, "");
	die(&k, KIT_ROOT "/x", "restore");
	check_gaps(&k, "");
	die(&k, KIT_ROOT, "fuse");
	check_gaps(&k, "R open");
	assert_int_equal(strtoll(kit_ask(&k, 1, "SELECT begin_ns FROM v_gap"), NULL, 10),
	                 kit_time(&k, 3001).real_ns);
	kit_mount_at(&k, KIT_ROOT "/other", 0);
	check_gaps(&k, "R open");
	kit_umount(&k);
	kit_mount(&k);
	check_gaps(&k, "R closed");
	kit_umount(&k);
	die(&k, KIT_ROOT, "fuse");
	check_gaps(&k, "R closed\nR open");
	kit_close(&k);
}

/* It lived when all of it was read, and dies without another word. */
static void test_gap_without_news(void **state)
{
	int go[2], ready[2], status;
	struct kit k;
	pid_t child;
	char c;

	kit_open(&k);
	assert_ok(pipe(go));
	assert_ok(pipe(ready));
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		kit_mount(&k);
		kit_write(&k, 0, "f", 3000, kit_content(&k, "1", 3000));
		(void)!write(ready[1], "r", 1);
		close(go[1]);
		(void)!read(go[0], &c, 1);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	check_gaps(&k, "");
	assert_int_equal(kill(child, SIGKILL), 0);
	/* it has ended, though nobody has waited for it */
	assert_ok(waitid(P_PID, child, &(siginfo_t){ 0 }, WEXITED | WNOWAIT));
	assert_int_equal(kit_ingest(&k).records, 0);
	assert_string_equal(kit_ask(&k, 1, GAPS), "R open");
	assert_int_equal(waitpid(child, &status, 0), child);
	check_gaps(&k, "R open");
	kit_close(&k);
}

/* The only segment, as another boot's: all of its PRODUCER record is made right again. */
static void change_boot(struct kit *k, const char *dir)
{
	_cleanup_free_ char *name = segment_name(k, false);
	_cleanup_buf_ struct shfs_buf bytes = { 0 }, path = { 0 };
	size_t at = 8, len;
	uint64_t sum;
	uint32_t n;
	char *boot;

	assert_ok(shfs_read_file_at(k->store->journal_fd, name, 1 << 20, &bytes));
	assert_ok(unlinkat(k->store->journal_fd, name, 0));
	memcpy(&n, bytes.data + at + 4, sizeof(n));
	len = SHFS_FRAME_HEAD + n;
	boot = memmem(bytes.data + at, len, k->boot_id, 36);
	assert_non_null(boot);
	memset(boot, '0', 8);
	sum = shfs_object_hash64(bytes.data + at, len);
	memcpy(bytes.data + at + len, &sum, 8);
	shfs_buf_printf(&path, "journal/%s", dir);
	assert_ok(shfs_mkdir_p_at(k->store->dirfd, path.data, 0700));
	shfs_buf_printf(&path, "/%s", name);
	assert_ok(shfs_write_file_at(k->store->dirfd, path.data, 0600, bytes.data,
	                             bytes.len));
}

/* Of another boot of this host: dead, whoever has its pid now. Of another host: only once
 * the journal says more. */
static void test_gap_of_another_boot(void **state)
{
	struct kit k;

	kit_open(&k);
	kit_mount(&k);
	kit_write(&k, 0, "f", 3000, kit_content(&k, "1", 3000));
	change_boot(&k, k.store->host);
	check_gaps(&k, "R open");
	kit_close(&k);

	kit_open(&k);
	kit_mount(&k);
	kit_write(&k, 0, "f", 3000, kit_content(&k, "1", 3000));
	change_boot(&k, "elsewhere");
	check_gaps(&k, "");
	kit_close(&k);
}

static struct {
	uint64_t done, all;
	int n;
} said;

static void hear_progress(uint64_t done_bytes, uint64_t all_bytes)
{
	assert_true(done_bytes >= said.done && done_bytes <= all_bytes && all_bytes);
	assert_true(!said.n || all_bytes == said.all);
	said.done = done_bytes;
	said.all = all_bytes;
	said.n++;
}

/* Each file that has news counts, once, with the bytes that are new: so all of them are
 * counted in the end, and none by an ingest that finds nothing. */
static void test_progress(void **state)
{
	struct kit k;

	kit_open(&k);
	kit_mount_at(&k, KIT_ROOT, 3000);
	shfs_ingest_progress = hear_progress;
	for (int i = 1; i < 4; i++) {
		memset(&said, 0, sizeof(said));
		kit_write(&k, kit_process(&k, 1000 + i, 3000 + i, 900, 1000), "file",
		          4000 + i, kit_content(&k, "1", 4000 + i));
		kit_ingest(&k);
		assert_true(said.n > 0 && said.all > 0);
		assert_true(said.done == said.all);
		memset(&said, 0, sizeof(said));
		kit_ingest(&k);
		assert_true(said.done == 0);
	}
	shfs_ingest_progress = NULL;
	kit_close(&k);
}

/* Distinct objects are counted as they come, whether or not their beginnings are kept in
 * memory: some begin alike, and come again, in this ingest or in a later one. */
static void test_objects_that_begin_alike(void **state)
{
	unsigned usual = shfs_seen_after;

	for (unsigned seed = 1; seed <= 6; seed++) {
		uint32_t random = seed;
		struct kit k;
		uint64_t p;

		shfs_seen_after = seed * 20; /* ingests have some 100 records */
		kit_open(&k);
		kit_mount(&k);
		p = kit_process(&k, 501, 2000, 500, 1000);
		for (int i = 0; i < 300; i++) {
			struct shfs_content c = kit_content(&k, "x", 2010 + i);
			char name[16];

			random = random * 1664525 + 1013904223;
			memset(c.object.hash, 0, sizeof(c.object.hash));
			c.object.hash[2] = random >> 16 & 7;
			c.object.hash[15] = random >> 20 & 15;
			snprintf(name, sizeof(name), "f%u", random >> 24 & 15);
			kit_write(&k, p, name, 2010 + i, c);
			if (i % 100 != 99)
				continue;
			kit_ingest(&k);
			assert_string_equal(
				kit_ask(&k, 1,
			                "SELECT objects - (SELECT count(DISTINCT object)"
			                " FROM v_version) FROM v_stats"),
				"0");
		}
		kit_close(&k);
	}
	shfs_seen_after = usual;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_rows),
	cmocka_unit_test(test_again_changes_nothing),
	cmocka_unit_test(test_rebuild_is_equal),
	cmocka_unit_test(test_batches),
	cmocka_unit_test(test_two_at_once),
	cmocka_unit_test(test_lost),
	cmocka_unit_test(test_exits),
	cmocka_unit_test(test_cut_and_torn),
	cmocka_unit_test(test_distinct_files),
	cmocka_unit_test(test_damage),
	cmocka_unit_test(test_foreign_files),
	cmocka_unit_test(test_hostile_records),
	cmocka_unit_test(test_same_seq_twice),
	cmocka_unit_test(test_missing_finish),
	cmocka_unit_test(test_late_accesses),
	cmocka_unit_test(test_copied_log),
	cmocka_unit_test(test_first_queries_at_once),
	cmocka_unit_test(test_rebuilds_at_once),
	cmocka_unit_test(test_gap),
	cmocka_unit_test(test_gap_without_news),
	cmocka_unit_test(test_gap_of_another_boot),
	cmocka_unit_test(test_progress),
	cmocka_unit_test(test_objects_that_begin_alike),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
