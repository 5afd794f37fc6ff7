/* SPDX-License-Identifier: MIT */
/*
 * recorderkit.h - a recorder whose kernel is the test: it makes files, and tells their
 * events.
 */
#pragma once

#include "tests/unit/capturekit.h"

#include "kmod-fast-path/recorder/recorder.h"

#define PID 4000000 /* none is that high */

struct scene {
	struct shfs_recorder r;
	struct kit kit; /* of the same store and directory, to make files and read the
	                   journal */
	uint64_t time_ns;
};

static inline void scene_begin(struct scene *s)
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

/* Ends the recorder, and reads the journal. */
static inline struct kit_journal *scene_journal(struct scene *s)
{
	shfs_recorder_end(&s->r);
	return kit_read_journal(&s->kit);
}

static inline void scene_end(struct scene *s)
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

static inline void fill(struct scene *s, union event *e, enum shfs_event_type type,
                        uint32_t pid, const char *text, const char *text2)
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

static inline void fill_file(struct scene *s, union event *e, const char *path)
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

static inline void tell(struct scene *s, const union event *e)
{
	shfs_recorder_event(&s->r, &e->event, -1);
}

static inline void tell_fork(struct scene *s, uint32_t pid, uint32_t child)
{
	union event e;

	fill(s, &e, SHFS_EVENT_FORK, pid, "", "");
	e.event.child.pid = child;
	e.event.child.start_ns = child * 10000000ULL;
	tell(s, &e);
}

static inline void tell_exec(struct scene *s, uint32_t pid, const char *program)
{
	union event e;

	fill(s, &e, SHFS_EVENT_EXEC, pid, program, program);
	tell(s, &e);
}

static inline void write_now(struct scene *s, const char *path, size_t len, uint64_t seed)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	kit_noise(&b, len, seed);
	kit_write_file(&s->kit, path, &b);
}

static inline void fill_close(struct scene *s, union event *e, uint32_t pid,
                              const char *path, uint32_t flags)
{
	fill(s, e, SHFS_EVENT_CLOSE, pid, path, "");
	fill_file(s, e, path);
	e->event.flags = flags;
}

static inline void tell_close(struct scene *s, const char *path, uint32_t pid,
                              uint32_t flags)
{
	union event e;

	fill_close(s, &e, pid, path, flags);
	tell(s, &e);
}

static inline void happens_now(union event *e)
{
	e->event.time_ns = (uint64_t)shfs_clock_ns(CLOCK_BOOTTIME);
}

/* Begins anew, with this driver. */
static inline void late_scene(struct scene *s, const char *driver)
{
	shfs_recorder_end(&s->r);
	s->r.driver = driver;
	assert_ok(shfs_recorder_begin(&s->r));
}

static inline void set_mtime(struct scene *s, const char *path)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		                           { .tv_sec = 1577836800 } };

	assert_ok(utimensat(s->r.root_fd, path, times, 0));
}

static inline void tell_write(struct scene *s, const char *path, uint32_t pid)
{
	union event e;

	fill(s, &e, SHFS_EVENT_WRITE, pid, path, "");
	fill_file(s, &e, path);
	e.event.file.id = 7;
	e.event.process.pgid = pid;
	tell(s, &e);
}
