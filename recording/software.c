/* SPDX-License-Identifier: MIT */
#include "recording/software.h"

#include "common/clock.h"
#include "common/debug.h"
#include "common/hash.h"
#include "common/path.h"
#include "common/proc.h"
#include "common/program.h"
#include "common/script.h"
#include "recording/libraries.h"
#include "recording/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utlist.h>

#define PROGRAMS_MAX  4096
#define BATCH_MAX     64
#define USERS_MAX     1024 /* of a program that is pending; others are not recorded */
#define LOADERS_MAX   64
#define LIBRARIES_MAX 1024
#define LOADER_PAUSE  (16 * SHFS_NSEC_PER_SEC) /* the longest */
#define FAREWELL      SHFS_NSEC_PER_SEC
#define PAUSE         (SHFS_NSEC_PER_SEC / 2) /* for more programs, and for the users' work */
#define NICE          19

/* A process that executed a program. */
struct user {
	uint64_t process;
	struct shfs_time time; /* when it was seen */
};

/* A path that was executed, and what it held when it was looked at. */
struct program {
	bool pending; /* in the queue: to look at for process */
	bool in_batch;
	bool only_packaged; /* it is recorded if a package has it */
	bool is_script;
	bool may_be_own; /* by its path */
	bool is_own;     /* the user's, of no package, outside: as it was looked at */
	struct user first;
	struct user *users; /* all, if it may be an own one */
	size_t n_users, users_cap;
	struct stat st; /* st_nlink 0: it was not looked at */
	struct program *prev, *next;
	UT_hash_handle hh;
	char path[];
};

/* A process of R, which loads packages while it lives. */
struct loader {
	uint32_t pid;
	uint64_t start_ticks;
	struct user user;
	int64_t due_ns, pause_ns; /* CLOCK_MONOTONIC; until it is looked at again */
	struct shfs_buf known;    /* paths, each ended by a NUL */
};

/* A file that such a process has loaded. */
struct library {
	struct stat st;
	struct shfs_package package;
	UT_hash_handle hh;
	char path[];
};

struct shfs_software {
	struct shfs_capture *capture;
	struct shfs_reach reach;
	struct shfs_local local;
	char *shfs; /* the path of the program shfs itself */
	pthread_t thread;
	pthread_mutex_t lock; /* no other is taken with it */
	pthread_cond_t work, change;
	struct program *programs;
	struct program *queue;
	int64_t due_ns; /* CLOCK_MONOTONIC; when the queue is to be looked at */
	struct loader loaders[LOADERS_MAX];
	size_t n_loaders;
	struct library *libraries; /* of the thread */
	bool started, closing, busy, ended, joined;
};

/* A program that is looked at, without the lock. */
struct look {
	struct program *program;
	struct program now; /* a copy, when it was taken off the queue */
	struct shfs_package package;
	bool is_new;             /* it is not known as it is */
	struct shfs_named named; /* as it is; content.flags 0: not looked at */
};

/* --- looking --- */

/* Opens a program to read it, or if that is not allowed to look at it; a script, which is
 * only known by its process's words, to look at it. Sets its path without links. */
static int open_program(struct shfs_software *s, const char *path, bool is_script,
                        char **real)
{
	int fd;

	if (is_script)
		return shfs_local_open(&s->local, path, real);
	*real = strdup(path);
	if (!*real)
		return -ENOMEM;
	fd = shfs_reach_open(&s->reach, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	return fd == -EACCES ? shfs_reach_open(&s->reach, path, O_PATH) : fd;
}

static bool is_same_state(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size &&
	       shfs_timespec_ns(a->st_mtim) == shfs_timespec_ns(b->st_mtim) &&
	       shfs_timespec_ns(a->st_ctim) == shfs_timespec_ns(b->st_ctim);
}

/* Looks at a file. Its fingerprint is always of samples, as v_program has but one kind: a
 * program that was built anew has another time. */
static void look_at_program(struct shfs_software *s, struct look *l)
{
	struct program *p = &l->now;
	const char *path = l->program->path;
	_cleanup_close_ int fd = open_program(s, path, p->is_script, &l->package.path);
	struct stat st;
	bool is_same;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return;
	is_same = p->st.st_nlink && is_same_state(&st, &p->st);
	if (is_same && !p->is_own)
		return;
	if (!is_same && shfs_timespec_ns(st.st_ctim) > p->first.time.real_ns) {
		shfs_debug(RECORDING, "%s: changed since it was executed", path);
		p->is_own = false;
		return;
	}
	l->named = (struct shfs_named){ .dev = st.st_dev, .ino = st.st_ino };
	shfs_named_take(&l->named, fd, &st, p->only_packaged, 0);
	if (is_same)
		return;
	l->is_new = true;
	p->is_own = p->may_be_own && st.st_uid == geteuid();
	p->st = st;
	p->st.st_nlink = 1;
}

static void emit_package(struct shfs_software *s, const struct user *user,
                         const char *path, const struct shfs_content *content,
                         const struct shfs_package *p)
{
	struct shfs_record rec = {
		.type = SHFS_REC_PROGRAM,
		.time = user->time,
		.program = {
			.process = user->process,
			.path = shfs_bytes_str(path),
			.content = *content,
			.manager = shfs_bytes_str(p->manager),
			.package = shfs_bytes_str(p->manager ? p->name : NULL),
			.version = shfs_bytes_str(p->manager ? p->version : NULL),
		},
	};

	shfs_debug(RECORDING, "%s: %s %s (%s)", path, p->manager ? p->name : "no package",
	           p->manager ? p->version : "", p->manager ?: "");
	(void)!shfs_capture_emit(s->capture, &rec, NULL);
}

/* Records an own program for each process that executed it as it is. */
static void emit_named(struct shfs_software *s, struct look *l)
{
	l->named.path = l->program->path;
	for (size_t i = 0; i < l->now.n_users; i++) {
		const struct user *user = &l->now.users[i];

		if (l->named.content.ctime_ns <= user->time.real_ns)
			shfs_named_emit(&l->named, s->capture, user->process, user->time);
	}
}

/* Looks at the programs of a batch, and records what is new. */
static void look_at_batch(struct shfs_software *s, struct look *list, size_t n)
{
	struct shfs_package packages[BATCH_MAX];
	size_t where[BATCH_MAX], n_new = 0;

	for (size_t i = 0; i < n; i++) {
		look_at_program(s, &list[i]);
		if (!list[i].is_new)
			continue;
		where[n_new] = i;
		packages[n_new++] = list[i].package;
	}
	if (n_new)
		shfs_packages_find(&s->reach, packages, n_new);
	for (size_t i = 0; i < n_new; i++) {
		struct look *l = &list[where[i]];

		l->package = packages[i];
		l->now.is_own &= !l->package.manager;
		if (!l->now.only_packaged || l->package.manager)
			emit_package(s, &l->now.first, l->program->path,
			             &l->named.content, &l->package);
	}
	for (size_t i = 0; i < n; i++)
		if (list[i].now.is_own && list[i].named.content.flags)
			emit_named(s, &list[i]);
}

/* --- what processes of R have loaded --- */

static void library_free(struct library *library)
{
	shfs_package_clear(&library->package);
	free(library);
}

static void drop_libraries(struct shfs_software *s)
{
	struct library *library, *next;

	HASH_ITER (hh, s->libraries, library, next) {
		HASH_DEL(s->libraries, library);
		library_free(library);
	}
}

/* Looks at the file, unless it is known as it is. NULL: it cannot be. */
static struct library *find_library(struct shfs_software *s, const char *path,
                                    struct shfs_content *content)
{
	_cleanup_free_ char *real = NULL;
	_cleanup_close_ int fd = shfs_local_open(&s->local, path, &real);
	struct shfs_named named = { 0 };
	struct library *library;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return NULL;
	shfs_named_take(&named, fd, &st, true, 0);
	*content = named.content;
	HASH_FIND_STR(s->libraries, path, library);
	if (library && is_same_state(&library->st, &st))
		return library;
	if (library) {
		HASH_DEL(s->libraries, library);
		library_free(library);
	} else if (HASH_COUNT(s->libraries) >= LIBRARIES_MAX) {
		drop_libraries(s);
	}
	library = calloc(1, sizeof(*library) + strlen(path) + 1);
	if (!library)
		return NULL;
	strcpy(library->path, path);
	library->st = st;
	library->package.path = TAKE_PTR(real);
	if (library->package.path)
		shfs_packages_find(&s->reach, &library->package, 1);
	HASH_ADD_STR(s->libraries, path, library);
	if (library->hh.tbl)
		return library;
	library_free(library);
	return NULL;
}

/* Records a package for the process, also if it is recorded for others. */
static void look_at_library(struct shfs_software *s, const struct user *user,
                            const char *path)
{
	struct shfs_content content;
	const struct library *library = find_library(s, path, &content);

	if (library && library->package.manager)
		emit_package(s, user, path, &content, &library->package);
}

/* Looks at what a process has loaded since; false: it has ended. */
static bool look_at_loader(struct shfs_software *s, const struct loader *loader,
                           struct shfs_buf *out)
{
	_cleanup_close_ int procfd = shfs_proc_open(loader->pid);
	struct shfs_proc_stat stat;

	if (procfd < 0 || shfs_proc_read_stat(procfd, &stat) ||
	    stat.start_ticks != loader->start_ticks)
		return false;
	if (shfs_libraries_of(procfd, out))
		out->len = 0;
	for (size_t at = 0; at < out->len; at += strlen(out->data + at) + 1)
		if (!shfs_libraries_have(&loader->known, out->data + at))
			look_at_library(s, &loader->user, out->data + at);
	return true;
}

/* Lock held. The first loader that is due; NULL: none is. */
static struct loader *find_due_loader(struct shfs_software *s)
{
	int64_t now_ns = shfs_clock_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < s->n_loaders; i++)
		if (s->loaders[i].due_ns <= now_ns)
			return &s->loaders[i];
	return NULL;
}

/* Lock held; not while it looks. Others may be added meanwhile, and none is removed. */
static void look_at_due_loader(struct shfs_software *s)
{
	struct loader *due = find_due_loader(s), now;
	struct shfs_buf found = { 0 };
	bool lives;

	if (!due)
		return;
	now = *due;
	s->busy = true;
	pthread_mutex_unlock(&s->lock);
	lives = look_at_loader(s, &now, &found);
	pthread_mutex_lock(&s->lock);
	s->busy = false;
	shfs_buf_free(&due->known);
	if (lives) {
		due->known = found;
		due->pause_ns = MIN(2 * due->pause_ns, LOADER_PAUSE);
		due->due_ns = shfs_clock_ns(CLOCK_MONOTONIC) + due->pause_ns;
	} else {
		shfs_buf_free(&found);
		*due = s->loaders[--s->n_loaders];
	}
	pthread_cond_broadcast(&s->change);
}

/* Lock held. */
static void note_loader(struct shfs_software *s, const struct shfs_record *rec)
{
	const struct shfs_rec_process *process = &rec->process;

	for (size_t i = 0; i < s->n_loaders; i++)
		if (s->loaders[i].pid == process->pid &&
		    s->loaders[i].start_ticks == process->start_ticks)
			return;
	if (s->closing || s->n_loaders == LOADERS_MAX) /* of others nothing is known */
		return;
	s->loaders[s->n_loaders++] =
		(struct loader){ .pid = process->pid,
		                 .start_ticks = process->start_ticks,
		                 .user = { rec->seq, rec->time },
		                 .due_ns = shfs_clock_ns(CLOCK_MONOTONIC) + PAUSE,
		                 .pause_ns = PAUSE };
	pthread_cond_signal(&s->work);
}

/* --- the thread --- */

/* Lock held. Takes programs off the queue. */
static size_t take_batch(struct shfs_software *s, struct look list[static BATCH_MAX])
{
	size_t n = 0;

	while (s->queue && n < BATCH_MAX) {
		struct program *p = s->queue;

		DL_DELETE(s->queue, p);
		list[n++] = (struct look){ .program = p, .now = *p };
		p->pending = false; /* it may have changed by the next process */
		p->in_batch = true;
		p->users = NULL;
		p->n_users = p->users_cap = 0;
	}
	return n;
}

/* Lock held. */
static void put_batch_back(struct look *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		list[i].program->in_batch = false;
		list[i].program->st = list[i].now.st;
		list[i].program->is_own = list[i].now.is_own;
		free(list[i].now.users);
		shfs_package_clear(&list[i].package);
	}
}

/* Lock held. Waits for a change of the condition; false: until_ns has passed. */
static bool wait_until(struct shfs_software *s, pthread_cond_t *cond, int64_t until_ns)
{
	struct timespec ts = { .tv_sec = until_ns / SHFS_NSEC_PER_SEC,
		               .tv_nsec = until_ns % SHFS_NSEC_PER_SEC };

	return pthread_cond_timedwait(cond, &s->lock, &ts) != ETIMEDOUT;
}

/* Lock held. When the queue or a loader is due. */
static int64_t next_due(const struct shfs_software *s)
{
	int64_t due_ns = s->queue ? s->due_ns : INT64_MAX;

	for (size_t i = 0; i < s->n_loaders; i++)
		due_ns = MIN(due_ns, s->loaders[i].due_ns);
	return due_ns;
}

/* Lock held. Waits until something is due; false: there is no more to do. */
static bool wait_for_work(struct shfs_software *s)
{
	while (!s->closing && next_due(s) > shfs_clock_ns(CLOCK_MONOTONIC)) {
		if (next_due(s) < INT64_MAX)
			wait_until(s, &s->work, next_due(s));
		else
			pthread_cond_wait(&s->work, &s->lock);
	}
	return !s->closing || s->queue;
}

/* Lock held; not while it looks. */
static void look_at_queue(struct shfs_software *s)
{
	struct look list[BATCH_MAX];
	size_t n = take_batch(s, list);

	s->busy = true;
	pthread_mutex_unlock(&s->lock);
	look_at_batch(s, list, n);
	pthread_mutex_lock(&s->lock);
	put_batch_back(list, n);
	s->busy = false;
	pthread_cond_broadcast(&s->change);
}

static void *run_software(void *arg)
{
	struct shfs_software *s = arg;

	pthread_setname_np(pthread_self(), "software");
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	pthread_mutex_lock(&s->lock);
	s->started = true;
	pthread_cond_broadcast(&s->change);
	while (wait_for_work(s)) {
		if (s->queue &&
		    (s->closing || s->due_ns <= shfs_clock_ns(CLOCK_MONOTONIC)))
			look_at_queue(s);
		if (!s->closing)
			look_at_due_loader(s);
	}
	s->ended = true;
	pthread_cond_broadcast(&s->change);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int shfs_software_new(struct shfs_capture *capture, const struct shfs_reach *reach,
                      struct shfs_software **out)
{
	struct shfs_software *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;
	sigset_t all, before;
	int err;

	if (!s || pthread_condattr_init(&attr)) {
		free(s);
		return -ENOMEM;
	}
	s->capture = capture;
	s->reach = *reach;
	s->shfs = shfs_path_installed("bin", "shfs");
	shfs_local_init(&s->local, reach->root, reach->root_fd);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, &attr);
	pthread_cond_init(&s->change, &attr);
	pthread_condattr_destroy(&attr);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&s->thread, NULL, run_software, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		shfs_local_clear(&s->local);
		free(s->shfs);
		free(s);
		return -err;
	}
	/* as shfs_argv_readers_new: a starting thread holds locks of the libraries */
	pthread_mutex_lock(&s->lock);
	while (!s->started)
		pthread_cond_wait(&s->change, &s->lock);
	pthread_mutex_unlock(&s->lock);
	*out = s;
	return 0;
}

void shfs_software_settle(struct shfs_software *s, int64_t until_ns)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->due_ns = 0;
	for (size_t i = 0; i < s->n_loaders; i++)
		s->loaders[i].due_ns = 0;
	pthread_cond_signal(&s->work);
	while ((s->queue || s->busy || find_due_loader(s)) &&
	       wait_until(s, &s->change, until_ns))
		;
	pthread_mutex_unlock(&s->lock);
}

void shfs_software_end(struct shfs_software *s)
{
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + FAREWELL;

	if (!s || s->joined)
		return;
	pthread_mutex_lock(&s->lock);
	s->closing = true;
	pthread_cond_signal(&s->work);
	while (!s->ended && wait_until(s, &s->change, until))
		;
	shfs_debug(RECORDING, "software: %s", s->ended ? "all looked at" : "not all");
	s->queue = NULL; /* the rest is not recorded */
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	s->joined = true;
}

void shfs_software_free(struct shfs_software *s)
{
	struct program *p, *next;

	if (!s)
		return;
	shfs_software_end(s);
	HASH_ITER (hh, s->programs, p, next) {
		HASH_DEL(s->programs, p);
		free(p->users);
		free(p);
	}
	for (size_t i = 0; i < s->n_loaders; i++)
		shfs_buf_free(&s->loaders[i].known);
	drop_libraries(s);
	pthread_cond_destroy(&s->change);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
	shfs_local_clear(&s->local);
	free(s->shfs);
	free(s);
}

/* --- notes --- */

/* Lock held. Makes room: what is dropped is looked at again. */
static void drop_programs(struct shfs_software *s)
{
	struct program *p, *next;

	if (HASH_COUNT(s->programs) < PROGRAMS_MAX)
		return;
	HASH_ITER (hh, s->programs, p, next) {
		if (p->pending || p->in_batch)
			continue;
		HASH_DEL(s->programs, p);
		free(p);
	}
}

/* Lock held. Finds the program, or adds it; NULL: no memory, or too many are pending. */
static struct program *find_program(struct shfs_software *s, const char *path,
                                    bool is_script)
{
	size_t len = strlen(path);
	struct program *p;

	HASH_FIND_STR(s->programs, path, p);
	if (p)
		return p;
	drop_programs(s);
	p = HASH_COUNT(s->programs) < PROGRAMS_MAX ? calloc(1, sizeof(*p) + len + 1)
	                                           : NULL;
	if (!p)
		return NULL;
	memcpy(p->path, path, len);
	p->is_script = is_script;
	/* the versions of the project's own files are known */
	p->only_packaged = is_script || shfs_path_is_below(path, s->reach.root);
	p->may_be_own = !p->only_packaged && !shfs_path_is_system(path) &&
	                (!s->shfs || strcmp(path, s->shfs) != 0);
	HASH_ADD_STR(s->programs, path, p);
	if (p->hh.tbl)
		return p;
	free(p);
	return NULL;
}

/* Lock held. A program that is pending is looked at for the first process. */
static void note_program(struct shfs_software *s, const char *path, bool is_script,
                         const struct shfs_record *rec)
{
	struct program *p = find_program(s, path, is_script);
	const struct user user = { rec->seq, rec->time };

	if (!p || s->closing)
		return;
	if (p->may_be_own && p->n_users < USERS_MAX &&
	    MAKE_ROOM(p->users, p->n_users, p->users_cap))
		p->users[p->n_users++] = user;
	if (p->pending)
		return;
	p->pending = true;
	p->first = user;
	if (!s->queue)
		s->due_ns = shfs_clock_ns(CLOCK_MONOTONIC) + PAUSE;
	DL_APPEND(s->queue, p);
	pthread_cond_signal(&s->work);
}

void shfs_software_note(struct shfs_software *s, const struct shfs_record *rec)
{
	const struct shfs_rec_process *process = &rec->process;
	_cleanup_free_ char *exe = NULL, *script = NULL;

	if (!s || !process->exe.len || *process->exe.data != '/')
		return;
	exe = strndup(process->exe.data, process->exe.len);
	script = shfs_script_of(process->exe, process->argv, process->cwd);
	pthread_mutex_lock(&s->lock);
	if (exe)
		note_program(s, exe, false, rec);
	if (script)
		note_program(s, script, true, rec);
	if (shfs_program_is_r(process->exe.data, process->exe.len))
		note_loader(s, rec);
	pthread_mutex_unlock(&s->lock);
}
