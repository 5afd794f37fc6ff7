/* SPDX-License-Identifier: MIT */
/* From events to records: this test plays the kernel. With processes.c and contents.c. */
#include "tests/unit/capturekit.h"

#include "kmod-fast-path/recorder/recorder.h"

#include <time.h>

#define PID 4000000 /* none is that high */

struct scene {
	struct shfs_recorder r;
	struct kit kit; /* of the same store and directory, to make files and read the
	                   journal */
	uint64_t time_ns;
};

static void scene_begin(struct scene *s)
{
	*s = (struct scene){ .time_ns = 1000000000 };
	s->r.store = kit_store();
	s->r.driver = "module";
	s->r.root = strdup(shfs_unit_tmpdir());
	s->r.root_fd = open(s->r.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_ok(shfs_config_init(&s->r.config));
	assert_ok(shfs_recorder_begin(&s->r));
	s->kit = (struct kit){ .store = s->r.store, .dirfd = s->r.root_fd };
}

/* What was recorded. */
static struct kit_journal *scene_journal(struct scene *s)
{
	shfs_recorder_end(&s->r);
	return kit_read_journal(&s->kit);
}

static void scene_end(struct scene *s)
{
	close(s->r.root_fd);
	free(s->r.root);
	shfs_config_free(&s->r.config);
	shfs_store_close(s->r.store);
}

/* --- events --- */

union event {
	struct shfs_event event;
	char room[sizeof(struct shfs_event) + 512];
};

static void fill(struct scene *s, union event *e, enum shfs_event_type type, uint32_t pid,
                 const char *text, const char *text2)
{
	*e = (union event){ 0 };
	e->event.type = type;
	e->event.time_ns = s->time_ns += 1000;
	e->event.process.pid = e->event.process.tid = pid;
	e->event.process.start_ns = pid * 10000000ULL;
	e->event.process.uid = 1000;
	e->event.text_len = (uint16_t)strlen(text);
	e->event.text2_len = (uint16_t)strlen(text2);
	memcpy(e->event.text, text, strlen(text));
	memcpy(e->event.text + strlen(text), text2, strlen(text2));
}

static void fill_file(struct scene *s, union event *e, const char *path)
{
	struct stat st;

	assert_ok(fstatat(s->r.root_fd, path, &st, AT_SYMLINK_NOFOLLOW));
	e->event.file.ino = st.st_ino;
	e->event.file.bytes = (uint64_t)st.st_size;
	e->event.file.mtime_ns = shfs_timespec_ns(st.st_mtim);
	e->event.file.ctime_ns = shfs_timespec_ns(st.st_ctim);
	e->event.file.mode = st.st_mode;
	e->event.file.nlink = (uint32_t)st.st_nlink;
}

static void tell(struct scene *s, const union event *e)
{
	shfs_recorder_event(&s->r, &e->event, -1);
}

static void tell_fork(struct scene *s, uint32_t pid, uint32_t child)
{
	union event e;

	fill(s, &e, SHFS_EVENT_FORK, pid, "", "");
	e.event.child.pid = child;
	e.event.child.start_ns = child * 10000000ULL;
	tell(s, &e);
}

static void tell_exec(struct scene *s, uint32_t pid, const char *program)
{
	union event e;

	fill(s, &e, SHFS_EVENT_EXEC, pid, program, program);
	tell(s, &e);
}

static void write_now(struct scene *s, const char *path, size_t len, uint64_t seed)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	kit_noise(&b, len, seed);
	kit_write_file(&s->kit, path, &b);
}

static void fill_close(struct scene *s, union event *e, uint32_t pid, const char *path,
                       uint32_t flags)
{
	fill(s, e, SHFS_EVENT_CLOSE, pid, path, "");
	fill_file(s, e, path);
	e->event.flags = flags;
}

static void tell_close(struct scene *s, const char *path, uint32_t pid, uint32_t flags)
{
	union event e;

	fill_close(s, &e, pid, path, flags);
	tell(s, &e);
}

static void happens_now(union event *e)
{
	e->event.time_ns = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME);
}

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

static void late_scene(struct scene *s, const char *driver)
{
	shfs_recorder_end(&s->r);
	s->r.driver = driver;
	assert_ok(shfs_recorder_begin(&s->r));
}

static void set_mtime(struct scene *s, const char *path)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		                           { .tv_sec = 1577836800 } };

	assert_ok(utimensat(s->r.root_fd, path, times, 0));
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

static void tell_write(struct scene *s, const char *path, uint32_t pid)
{
	union event e;

	fill(s, &e, SHFS_EVENT_WRITE, pid, path, "");
	fill_file(s, &e, path);
	e.event.file.id = 7;
	e.event.process.pgid = pid;
	tell(s, &e);
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

/* --- names --- */

static void tell_names(struct scene *s, enum shfs_event_type type, const char *from,
                       const char *to, const char *looked_up, uint32_t flags)
{
	union event e;

	fill(s, &e, type, PID, from, to);
	if (looked_up)
		fill_file(s, &e, looked_up);
	e.event.flags = flags;
	tell(s, &e);
}

static ino_t make_known(struct scene *s, const char *path, uint64_t seed)
{
	struct stat st;

	write_now(s, path, 5000, seed);
	tell_close(s, path, PID, SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	assert_ok(fstatat(s->r.root_fd, path, &st, 0));
	return st.st_ino;
}

static void rename_now(struct scene *s, const char *from, const char *to)
{
	assert_ok(renameat(s->r.root_fd, from, s->r.root_fd, to));
}

/* Who saves so closes what was opened by a name that is gone. */
static void a_close_goes_to_the_name_that_is_left(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	union event e;

	scene_begin(&s);
	write_now(&s, "tmp", 5000, 1);
	tell_write(&s, "tmp", PID);
	assert_ok(linkat(s.r.root_fd, "tmp", s.r.root_fd, "dest", 0));
	tell_names(&s, SHFS_EVENT_LINK, "tmp", "dest", "dest", 0);
	fill_close(&s, &e, PID, "tmp", SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
	assert_ok(unlinkat(s.r.root_fd, "tmp", 0));
	tell_names(&s, SHFS_EVENT_UNLINK, "tmp", "", NULL, 0);
	tell(&s, &e);
	j = scene_journal(&s);
	kit_assert_object(&s.kit, &kit_find(j, "dest")->access.made, 5000, 1);
	scene_end(&s);
}

/* A file has the inode of one that was removed, and has lost its own name untold. */
static void a_reused_inode_is_another_file(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	union event e;

	scene_begin(&s);
	write_now(&s, "f", 5000, 1);
	for (uint32_t generation = 1; generation <= 2; generation++) {
		fill_close(&s, &e, PID, "f", SHFS_EVENT_WRITABLE | SHFS_EVENT_WRITTEN);
		e.event.file.generation = generation;
		if (generation == 1) {
			tell(&s, &e);
			tell_names(&s, SHFS_EVENT_UNLINK, "f", "", "f", 0);
			continue;
		}
		e.event.file.nlink = 0;
		e.event.text[0] = 'g';
		tell(&s, &e);
	}
	j = scene_journal(&s);
	assert_non_null(kit_find(j, "f"));
	assert_non_null(kit_find(j, "g"));
	scene_end(&s);
}

/* By the time that somebody looks, the name may lead to another file. */
static void what_has_moved_on_is_not_what_is_there(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	ino_t first;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	first = make_known(&s, "a", 1);
	make_known(&s, "b", 2);
	rename_now(&s, "a", "c");
	rename_now(&s, "b", "c");
	tell_names(&s, SHFS_EVENT_RENAME, "a", "c", "c", SHFS_EVENT_INEXACT);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	assert_int_equal(rec->type, SHFS_REC_PATHOP);
	assert_int_equal(rec->pathop.ino, first);
	assert_false(rec->pathop.content.flags & SHFS_CONTENT_KNOWN);
	scene_end(&s);
}

/* A file with another name by now, and written to since: which one was linked is known
 * only if a later event shows it. */
static void a_link_that_a_later_event_confirms(void **state)
{
	for (int confirmed = 0; confirmed < 2; confirmed++) {
		struct scene s;
		_cleanup_free_ struct kit_journal *j = NULL;
		const struct shfs_record *rec;
		union event e;
		struct stat st;

		scene_begin(&s);
		late_scene(&s, "bpf-tracepoints");
		write_now(&s, "a", 5000, 1);
		assert_ok(linkat(s.r.root_fd, "a", s.r.root_fd, "b", 0));
		rename_now(&s, "a", "c");
		assert_ok(fstatat(s.r.root_fd, "b", &st, 0));
		fill(&s, &e, SHFS_EVENT_LINK, PID, "a", "b");
		fill_file(&s, &e, "b");
		e.event.time_ns -= 1000000000;
		e.event.flags =
			SHFS_EVENT_INEXACT | (confirmed ? SHFS_EVENT_CONFIRMED : 0);
		tell(&s, &e);
		j = scene_journal(&s);
		rec = &j->recs[j->n - 1];
		assert_int_equal(rec->type, SHFS_REC_PATHOP);
		assert_int_equal(rec->pathop.ino, confirmed ? st.st_ino : 0);
		scene_end(&s);
	}
}

static bool is_stored(struct scene *s, uint64_t seed)
{
	_cleanup_buf_ struct shfs_buf data = { 0 };
	struct shfs_object_id id;

	kit_noise(&data, 5000, seed);
	return shfs_object_find(s->kit.store, data.data, data.len, &id) == 1;
}

/* A file has got a secret name, but it was not seen which file that was: what was
 * archived of it goes. */
static void a_secret_name_that_was_not_seen(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct scene s;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	make_known(&s, "t", 1);
	kit_until(is_stored(&s, 1));
	rename_now(&s, "t", ".env");
	rename_now(&s, ".env", "gone");
	tell_names(&s, SHFS_EVENT_RENAME, "t", ".env", NULL, SHFS_EVENT_INEXACT);
	kit_until(!is_stored(&s, 1));
	j = scene_journal(&s);
	scene_end(&s);
}

/* A truncated file has another name, and has lost the one that is told before anybody
 * looks: what the other name leads to has changed, too. */
static void what_has_moved_on_may_have_another_name(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	make_known(&s, "a", 1);
	assert_ok(linkat(s.r.root_fd, "a", s.r.root_fd, "b", 0));
	tell_names(&s, SHFS_EVENT_LINK, "a", "b", "b", 0);
	rename_now(&s, "a", "c");
	make_known(&s, "other", 2);
	rename_now(&s, "other", "a");
	tell_names(&s, SHFS_EVENT_TRUNCATE, "a", "", "a", SHFS_EVENT_INEXACT);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	assert_int_equal(rec->pathop.op, SHFS_OP_TRUNCATE);
	assert_int_equal(rec->pathop.content.flags &
	                         (SHFS_CONTENT_LINKED | SHFS_CONTENT_INCOMPLETE |
	                          SHFS_CONTENT_OBJECT),
	                 SHFS_CONTENT_LINKED | SHFS_CONTENT_INCOMPLETE);
	scene_end(&s);
}

/* A file of which nothing was recorded: it may be the one that was renamed, unless it has
 * changed since. */
static void changed_since_it_may_be_another(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	union event e;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	write_now(&s, "b", 5000, 1);
	tell_names(&s, SHFS_EVENT_RENAME, "a", "b", "b", SHFS_EVENT_INEXACT);
	fill(&s, &e, SHFS_EVENT_RENAME, PID, "c", "b");
	fill_file(&s, &e, "b");
	e.event.flags = SHFS_EVENT_INEXACT;
	happens_now(&e);
	tell(&s, &e);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 2];
	assert_int_equal(rec[0].pathop.op, SHFS_OP_RENAME);
	assert_false(rec[0].pathop.content.flags & SHFS_CONTENT_KNOWN);
	kit_assert_object(&s.kit, &rec[1].pathop.content, 5000, 1);
	scene_end(&s);
}

/* A linked file has changed since: its content is unknown, and both names tell which. */
static void a_link_is_known_by_both_names(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	struct stat st;

	scene_begin(&s);
	late_scene(&s, "bpf-tracepoints");
	write_now(&s, "a", 5000, 1);
	assert_ok(linkat(s.r.root_fd, "a", s.r.root_fd, "b", 0));
	assert_ok(fstatat(s.r.root_fd, "a", &st, 0));
	tell_names(&s, SHFS_EVENT_LINK, "a", "b", "a", SHFS_EVENT_INEXACT);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	assert_int_equal(rec->pathop.op, SHFS_OP_LINK);
	assert_int_equal(rec->pathop.ino, st.st_ino);
	assert_false(rec->pathop.content.flags & SHFS_CONTENT_KNOWN);
	scene_end(&s);
}

static void a_link_has_not_written_an_old_file(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	unsigned n_made = 0;

	scene_begin(&s);
	s.r.since_ns = shfs_clock_ns(CLOCK_REALTIME) - 3600 * 1000000000LL;
	write_now(&s, "old", 5000, 1);
	set_mtime(&s, "old");
	write_now(&s, "new", 5000, 2);
	tell_names(&s, SHFS_EVENT_LINK, "", "old", "old", 0);
	tell_names(&s, SHFS_EVENT_LINK, "", "new", "new", 0);
	j = scene_journal(&s);
	for (unsigned i = 0; i < j->n; i++)
		n_made += j->recs[i].type == SHFS_REC_PATHOP &&
		          j->recs[i].pathop.op == SHFS_OP_MKNOD;
	assert_int_equal(n_made, 1);
	assert_int_equal(kit_find(j, "old")->type, SHFS_REC_PREIMAGE);
	kit_assert_object(&s.kit, &kit_find(j, "old")->preimage.content, 5000, 1);
	assert_int_equal(kit_find(j, "new")->type, SHFS_REC_ACCESS);
	kit_assert_object(&s.kit, &kit_find(j, "new")->access.made, 5000, 2);
	scene_end(&s);
}

static void an_exchange_tells_of_both(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;

	scene_begin(&s);
	make_known(&s, "a", 1);
	make_known(&s, "b", 2);
	assert_ok(renameat2(s.r.root_fd, "a", s.r.root_fd, "b", RENAME_EXCHANGE));
	tell_names(&s, SHFS_EVENT_RENAME, "a", "b", "b", SHFS_EVENT_EXCHANGED);
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	assert_int_equal(rec->pathop.op, SHFS_OP_EXCHANGE);
	kit_assert_object(&s.kit, &rec->pathop.content, 5000, 1);
	kit_assert_object(&s.kit, &rec->pathop.victim, 5000, 2);
	scene_end(&s);
}

/* Its other file was never recorded, and what has its name now has changed since. */
static void an_exchange_tells_of_no_later_file(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	union event e;

	scene_begin(&s);
	make_known(&s, "a", 1);
	write_now(&s, "b", 5000, 2);
	assert_ok(renameat2(s.r.root_fd, "a", s.r.root_fd, "b", RENAME_EXCHANGE));
	tell_names(&s, SHFS_EVENT_RENAME, "a", "b", "b", SHFS_EVENT_EXCHANGED);
	assert_ok(renameat2(s.r.root_fd, "a", s.r.root_fd, "c", RENAME_NOREPLACE));
	make_known(&s, "d", 3);
	assert_ok(renameat2(s.r.root_fd, "d", s.r.root_fd, "c", RENAME_EXCHANGE));
	fill(&s, &e, SHFS_EVENT_RENAME, PID, "d", "c");
	fill_file(&s, &e, "c");
	e.event.flags = SHFS_EVENT_EXCHANGED;
	happens_now(&e);
	tell(&s, &e);
	j = scene_journal(&s);
	for (unsigned i = 0; i < j->n; i++) {
		rec = &j->recs[i];
		if (rec->type != SHFS_REC_PATHOP)
			continue;
		kit_assert_object(&s.kit, &rec->pathop.content, 5000,
		                  i + 1 < j->n ? 1 : 3);
		if (i + 1 < j->n)
			assert_false(rec->pathop.victim.flags & SHFS_CONTENT_KNOWN);
		else
			kit_assert_object(&s.kit, &rec->pathop.victim, 5000, 2);
	}
	scene_end(&s);
}

/* The other file of an exchange was never recorded: the event says which one it was. */
static void an_exchange_names_the_other_file(void **state)
{
	struct scene s;
	_cleanup_free_ struct kit_journal *j = NULL;
	const struct shfs_record *rec;
	struct stat st;
	union event e;

	scene_begin(&s);
	late_scene(&s, "fanotify");
	for (int later = 0; later < 2; later++) {
		const char *from = later ? "c" : "a", *to = later ? "d" : "b";

		write_now(&s, from, 5000, 1);
		write_now(&s, to, 5000, 2);
		assert_ok(fstatat(s.r.root_fd, to, &st, 0));
		assert_ok(renameat2(s.r.root_fd, from, s.r.root_fd, to, RENAME_EXCHANGE));
		if (later)
			rename_now(&s, from, "gone");
		if (later)
			write_now(&s, from, 5000, 3);
		fill(&s, &e, SHFS_EVENT_RENAME, PID, from, to);
		fill_file(&s, &e, to);
		e.event.flags = SHFS_EVENT_EXCHANGED;
		e.event.file.id = st.st_ino;
		happens_now(&e);
		tell(&s, &e);
	}
	j = scene_journal(&s);
	rec = &j->recs[j->n - 1];
	kit_assert_object(&s.kit, &rec[-1].pathop.victim, 5000, 2);
	assert_false(rec->pathop.victim.flags & SHFS_CONTENT_KNOWN);
	scene_end(&s);
}

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
		cmocka_unit_test(another_program_is_another_record),
		cmocka_unit_test(a_close_goes_to_the_name_that_is_left),
		cmocka_unit_test(a_reused_inode_is_another_file),
		cmocka_unit_test(what_has_moved_on_is_not_what_is_there),
		cmocka_unit_test(a_link_that_a_later_event_confirms),
		cmocka_unit_test(what_has_moved_on_may_have_another_name),
		cmocka_unit_test(a_secret_name_that_was_not_seen),
		cmocka_unit_test(changed_since_it_may_be_another),
		cmocka_unit_test(a_link_is_known_by_both_names),
		cmocka_unit_test(a_link_has_not_written_an_old_file),
		cmocka_unit_test(an_exchange_tells_of_both),
		cmocka_unit_test(an_exchange_tells_of_no_later_file),
		cmocka_unit_test(an_exchange_names_the_other_file),
		cmocka_unit_test(losses_are_told),
		cmocka_unit_test(the_store_is_not_recorded),
	};

	return shfs_unit_main(tests, argc, argv);
}
