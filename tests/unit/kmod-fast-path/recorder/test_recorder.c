/* SPDX-License-Identifier: MIT */
/* From events to records: this test plays the kernel. With processes.c and contents.c. */
#include "tests/unit/kmod-fast-path/recorder/recorderkit.h"

#include <time.h>

static const struct shfs_record *record_of_pid(const struct kit_journal *j, uint32_t pid)
{
	const struct shfs_record *found = NULL;

	for (unsigned i = 0; i < j->n; i++)
		if (j->recs[i].type == SHFS_REC_PROCESS && j->recs[i].process.pid == pid)
			found = &j->recs[i];
	assert_non_null(found);
	return found;
}

/* --- contents --- */

static void what_a_close_left(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;

	scene_begin(&s);
	write_now(&s, "f", 5000, 1);
	tell_close(&s, "f", PID, SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	j = scene_journal(&s);
	rec = kit_find(j, "f");
	assert_int_equal(rec->access.flags, SHFS_ACCESS_WRITTEN);
	kit_assert_object(&s.kit, &rec->access.made, 5000, 1);
	assert_false(rec->access.made.flags & SHFS_CONTENT_INCOMPLETE);
	scene_end(&s);
}

static void superseded_is_never_invented(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	union event e;

	scene_begin(&s);
	write_now(&s, "f", 5000, 1);
	fill_close(&s, &e, PID, "f", SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	write_now(&s, "f", 6000, 2); /* before anybody looked */
	tell(&s, &e);
	j = scene_journal(&s);
	rec = kit_find(j, "f");
	assert_true(rec->access.made.flags & SHFS_CONTENT_INCOMPLETE);
	assert_false(rec->access.made.flags & SHFS_CONTENT_OBJECT);
	assert_int_equal(rec->access.made.size, 5000);
	scene_end(&s);
}

/* Nor is it taken for what was there before, where size and mtime are as they were. */
static void superseded_is_not_what_was_before(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	union event e;

	scene_begin(&s);
	write_now(&s, "f", 5000, 1);
	set_mtime(&s, "f");
	tell_close(&s, "f", PID, SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	write_now(&s, "f", 5000, 2);
	fill_close(&s, &e, PID, "f", SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	set_mtime(&s, "f"); /* before anybody looked */
	tell(&s, &e);
	fill(&s, &e, SHFS_EVENT_CHANGE, PID, "f", "");
	fill_file(&s, &e, "f");
	tell(&s, &e);
	j = scene_journal(&s);
	kit_assert_object(&s.kit, &j->recs[j->n - 1].pathop.content, 5000, 2);
	scene_end(&s);
}

static void *close_later(void *fd)
{
	usleep(100000);
	close(*(int *)fd);
	return NULL;
}

/* Tracepoints tell of the call, and the file is let go behind that. */
static void a_close_that_is_not_done_is_waited_for(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	pthread_t thread;
	union event e;
	int fd;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	write_now(&s, "f", 5000, 1);
	set_mtime(&s, "f");
	fd = openat(s.r.root_fd, "f", O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	fill_close(&s, &e, PID, "f", SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	happens_now(&e);
	assert_ok(pthread_create(&thread, NULL, close_later, &fd));
	tell(&s, &e);
	assert_ok(pthread_join(thread, NULL));
	j = scene_journal(&s);
	assert_false(kit_find(j, "f")->access.made.flags & SHFS_CONTENT_INCOMPLETE);
	kit_assert_object(&s.kit, &kit_find(j, "f")->access.made, 5000, 1);
	scene_end(&s);
}

static _Thread_local unsigned n_sleeps;

int nanosleep(const struct timespec *span, struct timespec *left)
{
	n_sleeps++;
	return clock_nanosleep(CLOCK_MONOTONIC, 0, span, left) ? -1 : 0;
}

/* Others follow, for which there is no room for ever. */
static void who_is_behind_waits_for_nobody(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	int fd;

	scene_begin(&s);
	write_now(&s, "f", 5000, 1);
	fd = openat(s.r.root_fd, "f", O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n_sleeps = 0;
	for (int i = 0; i < 20; i++) {
		write_now(&s, "f", 5000, (uint64_t)i);
		tell_close(&s, "f", PID, SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	}
	assert_int_equal(n_sleeps, 0);
	close(fd);
	j = scene_journal(&s);
	assert_true(kit_find(j, "f")->access.made.flags & SHFS_CONTENT_INCOMPLETE);
	scene_end(&s);
}

/* fanotify tells names and closes by two queues. */
static void a_name_told_late_has_what_is_known(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	union event e;

	scene_begin(&s);
	late_scene(&s, "fanotify");
	write_now(&s, "new", 5000, 1);
	assert_ok(renameat(s.r.root_fd, "new", s.r.root_fd, "f"));
	fill(&s, &e, SHFS_EVENT_RENAME, PID, "new", "f");
	fill_file(&s, &e, "f");
	usleep(20000); /* another ctime */
	write_now(&s, "f", 6000, 2);
	tell_close(&s, "f", PID, SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	tell(&s, &e);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	assert_int_equal(rec->type, SHFS_REC_PATHOP);
	kit_assert_object(&s.kit, &rec->pathop.content, 6000, 2);
	scene_end(&s);
}

/* At its path lies another file by now. */
static void another_file_is_not_taken_for_it(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	union event e;

	scene_begin(&s);
	write_now(&s, "f", 5000, 1);
	fill_close(&s, &e, PID, "f", SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	write_now(&s, "g", 5000, 2);
	assert_ok(renameat(s.r.root_fd, "g", s.r.root_fd, "f"));
	tell(&s, &e);
	j = scene_journal(&s);
	assert_false(kit_find(j, "f")->access.made.flags & SHFS_CONTENT_OBJECT);
	scene_end(&s);
}

/* It has lost its name, but the driver holds it. */
static void pinned_is_read_without_a_name(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	_cleanup_close_ int pin = -1;
	union event e;

	scene_begin(&s);
	write_now(&s, "f", 5000, 1);
	fill_close(&s, &e, PID, "f",
	           SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN | SHFS_EVENT_PINNED);
	pin = openat(s.r.root_fd, "f", O_PATH | O_CLOEXEC);
	assert_ok(unlinkat(s.r.root_fd, "f", 0));
	shfs_recorder_event(&s.r, &e.event, pin);
	j = scene_journal(&s);
	kit_assert_object(&s.kit, &kit_find(j, "f")->access.made, 5000, 1);
	scene_end(&s);
}

static void readers_see_what_is_there(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *data, *script;

	scene_begin(&s);
	write_now(&s, "data.bin", 5000, 1);
	write_now(&s, "script.sh", 300, 2);
	tell_close(&s, "data.bin", PID, SHFS_EVENT_READABLE);
	tell_close(&s, "script.sh", PID, SHFS_EVENT_READABLE);
	j = scene_journal(&s);
	data = kit_find(j, "data.bin");
	script = kit_find(j, "script.sh");
	assert_int_equal(data->access.flags, SHFS_ACCESS_READ);
	assert_true(data->access.seen.flags & SHFS_CONTENT_PHASH);
	assert_false(data->access.seen.flags & SHFS_CONTENT_OBJECT);
	kit_assert_object(&s.kit, &script->access.seen, 300, 2);
	scene_end(&s);
}

static void opened_to_write_is_not_written(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;

	scene_begin(&s);
	write_now(&s, "f", 100, 1);
	tell_close(&s, "f", PID, SHFS_EVENT_WRITABLE);
	tell_close(&s, "f", PID, SHFS_EVENT_WRITABLE | SHFS_EVENT_READABLE);
	j = scene_journal(&s);
	assert_int_equal(kit_find(j, "f")->access.flags, SHFS_ACCESS_READ);
	scene_end(&s);
}

/* --- processes --- */

static void writer_and_not_closer(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	union event e;

	scene_begin(&s);
	tell_fork(&s, PID, PID + 1);
	write_now(&s, "f", 100, 1);
	fill(&s, &e, SHFS_EVENT_WRITE, PID + 1, "f", "");
	fill_file(&s, &e, "f");
	e.event.file.id = 7;
	tell(&s, &e);
	e.event.type = SHFS_EVENT_CLOSE;
	e.event.process.pid = PID;
	e.event.process.start_ns = PID * 10000000ULL;
	e.event.flags = SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN;
	tell(&s, &e);
	j = scene_journal(&s);
	rec = kit_find(j, "f");
	assert_int_equal(rec->access.process, record_of_pid(j, PID + 1)->seq);
	scene_end(&s);
}

static const struct shfs_record *nth_access(const struct kit_journal *j, unsigned n)
{
	for (unsigned i = 0; i < j->n; i++)
		if (j->recs[i].type == SHFS_REC_ACCESS && !n--)
			return &j->recs[i];
	fail();
	return NULL;
}

/* Of three commands that share an open file the first has ended before the next wrote,
 * and what the second left was overwritten before anybody looked. */
static void each_command_made_what_it_left(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	union event e;

	scene_begin(&s);
	write_now(&s, "f", 0, 1);
	tell_write(&s, "f", PID + 1);
	write_now(&s, "f", 100, 1);
	fill(&s, &e, SHFS_EVENT_EXIT, PID + 1, "", "");
	tell(&s, &e);
	tell_write(&s, "f", PID + 2);
	write_now(&s, "f", 200, 2);
	s.time_ns += SHFS_NSEC_PER_SEC;
	tell_write(&s, "f", PID + 3);
	write_now(&s, "f", 300, 3);
	fill(&s, &e, SHFS_EVENT_CLOSE, PID, "f", "");
	fill_file(&s, &e, "f");
	e.event.file.id = 7;
	e.event.flags = SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN | SHFS_EVENT_CREATED;
	tell(&s, &e);

	j = scene_journal(&s);
	for (unsigned n = 0; n < 3; n++) {
		const struct shfs_record *rec = nth_access(j, n);

		assert_int_equal(rec->access.process, record_of_pid(j, PID + 1 + n)->seq);
		assert_int_equal(rec->access.made.size, 100 * (n + 1));
		assert_int_equal(!(rec->access.made.flags & SHFS_CONTENT_INCOMPLETE),
		                 n != 1);
		assert_int_equal(rec->access.flags, SHFS_ACCESS_WRITTEN);
		if (n != 1)
			kit_assert_object(&s.kit, &rec->access.made, 100 * (n + 1),
			                  n + 1);
	}
	scene_end(&s);
}

/* As who writes to a temporary file does that has another name before it is closed. */
static void renamed_before_the_close(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	union event e;

	scene_begin(&s);
	write_now(&s, "f", 100, 1);
	fill(&s, &e, SHFS_EVENT_WRITE, PID + 1, "tmp", "");
	fill_file(&s, &e, "f");
	e.event.file.id = 7;
	tell(&s, &e);
	fill(&s, &e, SHFS_EVENT_RENAME, PID + 2, "tmp", "f");
	fill_file(&s, &e, "f");
	tell(&s, &e);
	j = scene_journal(&s);
	rec = kit_find(j, "tmp");
	assert_int_equal(rec->type, SHFS_REC_ACCESS);
	assert_int_equal(rec->access.process, record_of_pid(j, PID + 1)->seq);
	kit_assert_object(&s.kit, &rec->access.made, 100, 1);
	assert_int_equal(j->recs[j->n - 1].type, SHFS_REC_PATHOP);
	scene_end(&s);
}

static void parent_that_ended_is_known(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *child;
	union event e;

	scene_begin(&s);
	tell_fork(&s, PID, PID + 1);
	tell_exec(&s, PID + 1, "/usr/bin/tool");
	tell_fork(&s, PID + 1, PID + 2);
	fill(&s, &e, SHFS_EVENT_EXIT, PID + 1, "", "");
	tell(&s, &e);
	write_now(&s, "f", 100, 1);
	tell_close(&s, "f", PID + 2, SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	j = scene_journal(&s);
	child = record_of_pid(j, PID + 2);
	assert_int_equal(child->process.ppid, PID + 1);
	assert_int_equal(child->process.parent_start_ticks, PID + 1);
	assert_int_equal(child->process.start_ticks, PID + 2);
	assert_true(record_of_pid(j, PID + 1)->seq < child->seq);
	scene_end(&s);
}

static void tell_exit(struct scene *s, uint32_t pid, uint32_t flags)
{
	union event e;

	fill(s, &e, SHFS_EVENT_EXIT, pid, "", "");
	e.event.process.start_ns = pid * 10000000ULL;
	e.event.flags = flags;
	e.event.exit = (struct shfs_event_exit){ 0x300, 0, pid, 20, 30 };
	tell(s, &e);
}

/* Of what has a record, also if that comes later; where the driver knows it; once. */
static void what_a_process_has_used(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	unsigned n = 0;

	scene_begin(&s);
	for (uint32_t pid = PID + 1; pid < PID + 5; pid++)
		tell_fork(&s, PID, pid);
	write_now(&s, "f", 100, 1);
	tell_close(&s, "f", PID + 1, SHFS_EVENT_READABLE);
	tell_exec(&s, PID + 1, "/usr/bin/tool"); /* which uses no file */
	tell_close(&s, "f", PID + 4, SHFS_EVENT_READABLE);
	for (uint32_t pid = PID + 1; pid < PID + 5; pid++)
		tell_exit(&s, pid, pid == PID + 4 ? 0 : SHFS_EVENT_USAGE);
	tell_exit(&s, PID + 1, SHFS_EVENT_USAGE);
	tell_close(&s, "f", PID + 2, SHFS_EVENT_READABLE);
	j = scene_journal(&s);
	for (unsigned i = 0; i < j->n; i++) {
		const struct shfs_rec_exit *e = &j->recs[i].exit;

		if (j->recs[i].type != SHFS_REC_EXIT)
			continue;
		assert_int_equal(e->user_us, PID + 1 + n);
		assert_int_equal(e->process, record_of_pid(j, PID + 1 + n)->seq);
		assert_true(e->process < j->recs[i].seq);
		assert_int_equal(e->status, 0x300);
		assert_int_equal(e->system_us, 20);
		assert_int_equal(e->max_rss_kib, 30);
		n++;
	}
	assert_int_equal(n, 2);
	scene_end(&s);
}

/* One record for each program. */
static void another_program_is_another_record(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	unsigned n = 0;

	scene_begin(&s);
	tell_fork(&s, PID, PID + 1);
	write_now(&s, "f", 100, 1);
	tell_close(&s, "f", PID + 1, SHFS_EVENT_READABLE);
	tell_close(&s, "f", PID + 1, SHFS_EVENT_READABLE);
	tell_exec(&s, PID + 1, "/bin/other");
	tell_close(&s, "f", PID + 1, SHFS_EVENT_READABLE);
	j = scene_journal(&s);
	for (unsigned i = 0; i < j->n; i++)
		n += j->recs[i].type == SHFS_REC_PROCESS &&
		     j->recs[i].process.pid == PID + 1;
	assert_int_equal(n, 2);
	scene_end(&s);
}

/* --- the rest --- */

static void losses_are_told(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	union event e;

	scene_begin(&s);
	fill(&s, &e, SHFS_EVENT_LOST, 0, "", "");
	e.event.lost.count = 17;
	tell(&s, &e);
	j = scene_journal(&s);
	assert_int_equal(j->lost, 17);
	scene_end(&s);
}

static void the_store_is_not_recorded(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;

	scene_begin(&s);
	s.r.hidden = strdup("sub/store");
	assert_ok(mkdirat(s.r.root_fd, "sub", 0700));
	assert_ok(mkdirat(s.r.root_fd, "sub/store", 0700));
	write_now(&s, "sub/store/f", 10, 1);
	write_now(&s, "sub/store2", 10, 1);
	tell_close(&s, "sub/store/f", PID, SHFS_EVENT_READABLE);
	tell_close(&s, "sub/store2", PID, SHFS_EVENT_READABLE);
	j = scene_journal(&s);
	kit_find(j, "sub/store2");
	for (unsigned i = 0; i < j->n; i++)
		assert_string_not_equal(j->paths[i], "sub/store/f");
	scene_end(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_close_left),
		cmocka_unit_test(superseded_is_never_invented),
		cmocka_unit_test(superseded_is_not_what_was_before),
		cmocka_unit_test(a_close_that_is_not_done_is_waited_for),
		cmocka_unit_test(who_is_behind_waits_for_nobody),
		cmocka_unit_test(a_name_told_late_has_what_is_known),
		cmocka_unit_test(another_file_is_not_taken_for_it),
		cmocka_unit_test(pinned_is_read_without_a_name),
		cmocka_unit_test(readers_see_what_is_there),
		cmocka_unit_test(opened_to_write_is_not_written),
		cmocka_unit_test(writer_and_not_closer),
		cmocka_unit_test(each_command_made_what_it_left),
		cmocka_unit_test(renamed_before_the_close),
		cmocka_unit_test(parent_that_ended_is_known),
		cmocka_unit_test(what_a_process_has_used),
		cmocka_unit_test(another_program_is_another_record),
		cmocka_unit_test(losses_are_told),
		cmocka_unit_test(the_store_is_not_recorded),
	};

	return shfs_unit_main(tests, argc, argv);
}
