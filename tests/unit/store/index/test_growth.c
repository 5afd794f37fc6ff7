/* SPDX-License-Identifier: MIT */
/* How the work of an ingest grows: SQLite's steps for N of something, and for twice as
 * many; never a time. And in which pieces it is committed. */
#include "tests/unit/indexkit.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

/* What SQLite's virtual machine did, rows that it only passed by included. */
static uint64_t steps;

static unsigned commits, die_after; /* 0: never */

int __real_sqlite3_step(sqlite3_stmt *stmt);
int __wrap_sqlite3_step(sqlite3_stmt *stmt);

int __wrap_sqlite3_step(sqlite3_stmt *stmt)
{
	int rc = __real_sqlite3_step(stmt);

	steps += (unsigned)sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 1);
	if (rc == SQLITE_DONE && !strcmp(sqlite3_sql(stmt), "COMMIT") &&
	    ++commits == die_after)
		raise(SIGKILL);
	return rc;
}

#define FILES 100

/* n of something; ms: the time of the first. */
typedef void (*work_fn)(struct kit *k, unsigned n, double ms);

static struct shfs_content linked(const struct kit *k, struct shfs_content c,
                                  double ctime_ms)
{
	c.flags |= SHFS_CONTENT_LINKED;
	c.ctime_ns = kit_time(k, ctime_ms).real_ns;
	return c;
}

static const char *name_of(const char *stem, unsigned i)
{
	static char names[2][32];
	static unsigned turn;

	turn = !turn;
	snprintf(names[turn], sizeof(names[0]), "%s%u", stem, i);
	return names[turn];
}

/* --- names of one file --- */

static struct shfs_content text_of(const struct kit *k)
{
	return kit_content(k, "text", 2000);
}

/* Not archived: known by its times alone. */
static struct shfs_content print_of(const struct kit *k)
{
	return kit_print(k, "text", 2000);
}

/* Each change of a name sets the ctime. */
static double link_all(struct kit *k, struct shfs_content c, unsigned n, double ms)
{
	kit_write(k, 0, "f", 2000, c);
	for (unsigned i = 0; i < n; i++, ms++) {
		struct shfs_content now = linked(k, c, ms - 1);

		kit_inode_op(k, 0, SHFS_OP_LINK, "f", name_of("l", i), ms, i ? &now : &c,
		             NULL);
	}
	return ms;
}

static void links(struct kit *k, unsigned n, double ms)
{
	link_all(k, text_of(k), n, ms);
}

static void links_not_archived(struct kit *k, unsigned n, double ms)
{
	link_all(k, print_of(k), n, ms);
}

static void chmods(struct kit *k, unsigned n, double ms)
{
	ms = link_all(k, print_of(k), n, ms);
	for (unsigned i = 0; i < n; i++, ms++) {
		struct shfs_content now = linked(k, print_of(k), ms);

		now.mode = i % 2 ? 0100644 : 0100600;
		kit_inode_op(k, 0, SHFS_OP_CHMOD, name_of("l", i), NULL, ms, &now, NULL);
	}
}

static void reads(struct kit *k, unsigned n, double ms)
{
	struct shfs_content now;

	ms = link_all(k, print_of(k), n, ms);
	now = linked(k, print_of(k), ms - 1);
	for (unsigned i = 0; i < n; i++, ms++)
		kit_read(k, 0, name_of("l", i), ms, now);
}

static void unlink_all(struct kit *k, unsigned n, double ctime_ms, double ms)
{
	for (unsigned i = 0; i < n; i++, ms++) {
		struct shfs_content now = linked(k, print_of(k), ctime_ms);

		kit_inode_op(k, 0, SHFS_OP_UNLINK, name_of("l", i), NULL, ms, NULL, &now);
		ctime_ms = ms;
	}
}

static void unlinks(struct kit *k, unsigned n, double ms)
{
	ms = link_all(k, print_of(k), n, ms);
	unlink_all(k, n, ms - 1, ms);
}

static void renames(struct kit *k, unsigned n, double ms)
{
	ms = link_all(k, print_of(k), n, ms);
	for (unsigned i = 0; i < n; i++, ms++) {
		struct shfs_content now = linked(k, print_of(k), ms - 1);

		kit_inode_op(k, 0, SHFS_OP_RENAME, name_of("l", i), name_of("m", i), ms,
		             &now, NULL);
	}
}

/* Names that come and go, as of lock files. */
static void links_and_unlinks(struct kit *k, unsigned n, double ms)
{
	struct shfs_content now = print_of(k);

	kit_write(k, 0, "f", 2000, now);
	for (unsigned i = 0; i < n; i++, ms += 2) {
		const char *name = name_of("l", i);

		kit_inode_op(k, 0, SHFS_OP_LINK, "f", name, ms, &now, NULL);
		now = linked(k, now, ms);
		kit_inode_op(k, 0, SHFS_OP_UNLINK, name, NULL, ms + 1, NULL, &now);
		now = linked(k, now, ms + 1);
	}
}

/* One that knows nothing of what the one before it saw. */
static void links_and_another_mount(struct kit *k, unsigned n, double ms)
{
	ms = link_all(k, print_of(k), n, ms);
	kit_umount(k);
	kit_mount(k);
	unlink_all(k, n, ms - 1, ms);
}

/* The first content that is archived is that of all. */
static void learned_late(struct kit *k, unsigned n, double ms)
{
	ms = link_all(k, print_of(k), n, ms);
	for (unsigned i = 0; i < n; i++, ms++)
		kit_read(k, 0, name_of("l", i), ms,
		         linked(k, kit_content(k, "text", 2000), 2100 + n - 1));
}

/* --- files --- */

static void files_of_one_directory(struct kit *k, unsigned n, double ms)
{
	for (unsigned i = 0; i < n; i++, ms++)
		kit_write(k, 0, name_of("d/f", i), ms,
		          kit_content(k, name_of("", i), ms));
}

static void versions_of_one_file(struct kit *k, unsigned n, double ms)
{
	for (unsigned i = 0; i < n; i++, ms++) {
		kit_write(k, 0, "f", ms, kit_content(k, name_of("", i), ms));
		kit_preimage(k, 0, "f", ms, kit_content(k, name_of("", i), ms));
	}
}

/* Written and put in place, again and again. */
static void saves(struct kit *k, unsigned n, double ms)
{
	for (unsigned i = 0; i < n; i++, ms += 2) {
		kit_write(k, 0, name_of("t", i), ms, kit_content(k, name_of("", i), ms));
		kit_rename(k, 0, name_of("t", i), "f", ms + 1);
	}
}

static void renames_of_learned(struct kit *k, unsigned n, double ms)
{
	for (unsigned i = 0; i < n; i++, ms += 3) {
		const char *text = name_of("", i);

		kit_write(k, 0, name_of("t", i), ms, kit_print(k, text, ms));
		kit_rename(k, 0, name_of("t", i), name_of("f", i), ms + 1);
		kit_read(k, 0, name_of("f", i), ms + 2,
		         kit_content(k, name_of("", i), ms));
	}
}

/* --- directories --- */

static void rename_dir(struct kit *k, const char *from, const char *to, double ms)
{
	kit_pathop(k, 0, SHFS_OP_RENAME, from, to, ms, NULL, NULL, true);
}

static void directory_to_and_fro(struct kit *k, unsigned n, double ms)
{
	for (unsigned i = 0; i < 5; i++)
		kit_write(k, 0, name_of("d0/f", i), ms++, text_of(k));
	for (unsigned i = 0; i < n; i++, ms++)
		rename_dir(k, i % 2 ? "d1" : "d0", i % 2 ? "d0" : "d1", ms);
}

/* As package managers unpack. */
static void directories_put_in_place(struct kit *k, unsigned n, double ms)
{
	for (unsigned i = 0; i < n; i++, ms += 3) {
		char file[64];

		snprintf(file, sizeof(file), "t%u/f", i);
		kit_write(k, 0, file, ms, kit_content(k, file, ms));
		rename_dir(k, name_of("t", i), name_of("p/d", i), ms + 1);
	}
}

/* --- processes and commands --- */

static void many_processes(struct kit *k, unsigned n, double ms)
{
	kit_shell(k, 500, 1000, 1100);
	kit_begin(k, 1, 2000, 500, "all");
	for (unsigned i = 0; i < n; i++, ms += 20) {
		uint64_t p = kit_process(k, 1000 + i, ms, 500, 1000);

		kit_write(k, p, name_of("f", i % FILES), ms + 5, text_of(k));
	}
}

static void one_process(struct kit *k, unsigned n, double ms)
{
	uint64_t p = kit_process(k, 501, 2000, 500, 1000);

	kit_shell(k, 500, 1000, 1100);
	kit_begin(k, 1, 1500, 500, "all");
	for (unsigned i = 0; i < n; i++, ms++)
		kit_write(k, p, name_of("f", i % FILES), ms, text_of(k));
}

static void many_commands(struct kit *k, unsigned n, double ms)
{
	kit_shell(k, 500, 1000, 1100);
	for (unsigned i = 0; i < n; i++, ms += 40) {
		uint64_t p;

		kit_begin(k, i + 1, ms, 1000 + i, "one");
		p = kit_process(k, 1001 + i, ms + 10, 500, 1000);
		kit_write(k, p, name_of("f", i % FILES), ms + 15, text_of(k));
		kit_end(k, i + 1, ms + 30, 1001 + i, 0);
	}
}

static void commands_of_the_shell(struct kit *k, unsigned n, double ms)
{
	uint64_t p = kit_process(k, 500, 1000, 1, 10, .seen_ms = 1100);

	kit_shell(k, 500, 1000, 1100);
	for (unsigned i = 0; i < n; i++, ms += 40) {
		kit_begin(k, i + 1, ms, 1000, "echo");
		kit_write(k, p, name_of("f", i % FILES), ms + 15, text_of(k));
		kit_end(k, i + 1, ms + 30, 1000, 0);
	}
}

/* Each of another shell, and none ends. */
static void commands_at_once(struct kit *k, unsigned n, double ms)
{
	for (unsigned i = 0; i < n; i++) {
		kit_shell(k, 5000 + i, 1000, 1100);
		kit_begin(k, 1, 2000, 500, "one");
	}
	for (unsigned i = 0; i < n; i++, ms += 20) {
		uint64_t p = kit_process(k, 20000 + i, ms, 5000 + i, 1000);

		kit_write(k, p, name_of("f", i % FILES), ms + 5, text_of(k));
	}
}

/* Each the child of a server, and marked by a command of one long session. */
static void adopted_and_marked(struct kit *k, unsigned n, double ms)
{
	char marker[128];

	kit_shell(k, 500, 1000, 1100);
	for (unsigned i = 0; i < n; i++)
		kit_begin(k, i + 1, ms + i, 1000, "start it");
	ms += n;
	for (unsigned i = 0; i < n; i++, ms += 20) {
		uint64_t p;

		snprintf(marker, sizeof(marker), "%.8s-500-%" PRIu64 "-%u", k->boot_id,
		         kit_ticks(1000), i + 1);
		p = kit_process(k, 20000 + i, ms, 1, 0, .marker = marker);
		kit_write(k, p, name_of("f", i % FILES), ms + 5, text_of(k));
	}
}

/* One mount after the other. */
static void mounts(struct kit *k, unsigned n, double ms)
{
	for (unsigned i = 0; i < n; i++, ms += 40) {
		kit_umount(k);
		kit_mount_at(k, KIT_ROOT, ms);
		kit_write(k, kit_process(k, 20000 + i, ms, 1, 10), "f", ms + 10,
		          text_of(k));
	}
}

/* --- */

static uint64_t steps_for(work_fn work, unsigned n)
{
	struct kit k;
	uint64_t took;

	kit_open(&k);
	kit_mount(&k);
	work(&k, n, 2100);
	kit_umount(&k);
	steps = 0;
	kit_ingest(&k);
	took = steps;
	kit_close(&k);
	return took;
}

#define N 150

static const struct {
	const char *name;
	work_fn work;
} works[] = {
#define WORK(name)                                                                       \
	{                                                                                \
#name, name                                                              \
	}
	WORK(links),
	WORK(links_not_archived),
	WORK(chmods),
	WORK(reads),
	WORK(unlinks),
	WORK(renames),
	WORK(links_and_unlinks),
	WORK(links_and_another_mount),
	WORK(learned_late),
	WORK(files_of_one_directory),
	WORK(versions_of_one_file),
	WORK(saves),
	WORK(renames_of_learned),
	WORK(directory_to_and_fro),
	WORK(directories_put_in_place),
	WORK(many_processes),
	WORK(one_process),
	WORK(many_commands),
	WORK(commands_of_the_shell),
	WORK(commands_at_once),
	WORK(adopted_and_marked),
	WORK(mounts),
};

/* What is there once for all, as the schema, does not count. */
static void test_growth(void **state)
{
	bool grown = false;

	for (size_t i = 0; i < ARRAY_SIZE(works); i++) {
		uint64_t one = steps_for(works[i].work, N);
		uint64_t two = steps_for(works[i].work, 2 * N);

		if (two * 10 <= one * 24)
			continue;
		print_error("%s: %" PRIu64 " steps for %u, %" PRIu64 " for %u\n",
		            works[i].name, one, N, two, 2 * N);
		grown = true;
	}
	assert_false(grown);
}

/* --- pieces --- */

#define WRITES 30

/* Who is killed has committed what it read in time, and the next one goes on there. */
static void test_killed_between_transactions(void **state)
{
	_cleanup_free_ char *steps_of_two = NULL, *whole = NULL;
	struct kit k;
	int status;
	pid_t pid;

	kit_open(&k);
	kit_mount(&k);
	kit_shell(&k, 500, 1000, 1100);
	kit_begin(&k, 1, 2000, 500, "all");
	one_process(&k, WRITES, 2100);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		shfs_ingest_batch_ms = 0;
		commits = 0;
		die_after = 20;
		kit_ingest(&k);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_string_not_equal(kit_ask(&k, 1, "SELECT accesses FROM v_stats"), "0");
	assert_in_range(kit_ingest(&k).records, 1, WRITES);
	steps_of_two = kit_dump(&k);
	assert_int_equal(strtoul(kit_ask(&k, 1, "SELECT accesses FROM v_stats"), NULL,
	                         10),
	                 WRITES);
	assert_ok(shfs_index_rebuild(k.store, NULL, NULL));
	whole = kit_dump(&k);
	assert_string_equal(steps_of_two, whole);
	kit_close(&k);
}

/* A record a transaction, of hook logs, too; processes are looked at again in pieces. */
static void test_as_short_as_can_be(void **state)
{
	_cleanup_free_ char *pieces = NULL, *whole = NULL;
	struct kit k;

	kit_open(&k);
	kit_mount(&k);
	many_commands(&k, 10, 2100);
	many_processes(&k, 100, 5000);
	for (unsigned i = 0; i < 1100; i++) /* of nobody */
		kit_write(&k, kit_process(&k, 30000 + i, 9000, 1, 10), "f", 9500,
		          text_of(&k));
	kit_umount(&k);
	shfs_ingest_batch_ms = 0;
	commits = 0;
	kit_ingest(&k);
	shfs_ingest_batch_ms = 2000;
	assert_true(commits > 2200);
	pieces = kit_dump(&k);
	assert_ok(shfs_index_rebuild(k.store, NULL, NULL));
	whole = kit_dump(&k);
	assert_string_equal(pieces, whole);
	kit_close(&k);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_growth),
	cmocka_unit_test(test_killed_between_transactions),
	cmocka_unit_test(test_as_short_as_can_be),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
