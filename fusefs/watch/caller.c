/* SPDX-License-Identifier: MIT */
#include "fusefs/watch/caller.h"

#include "common/config.h"
#include "common/hash.h"
#include "common/proc.h"
#include "fusefs/watch/stages.h"
#include "recording/argv.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#define THREADS_MAX   256
#define KNOWN_MAX     16384
#define DEPTH_MAX     64
#define ARGV_WAIT     (SHFS_NSEC_PER_SEC / 4)
#define SOFTWARE_WAIT (SHFS_NSEC_PER_SEC / 10)
#define TICK_NS       (SHFS_NSEC_PER_SEC / 100) /* of start_ticks */
#define CLOSER_WAIT   (SHFS_NSEC_PER_SEC / 200)
#define READERS_MAX   16 /* fewer than the spare threads of the transport */
#define READER_WAIT   SHFS_NSEC_PER_SEC

/* The kind of a program, by its name. */
struct program_kind {
	bool is_shell;
	bool scans; /* its reads are not recorded */
};

/* A process in the journal, with the program that it ran when it was last recorded. */
struct seen_process {
	struct {
		uint64_t start_ticks;
		uint64_t pid;
	} key;
	struct shfs_proc_stat stat;
	uint64_t seq;
	struct program_kind kind;
	bool hidden; /* its arguments are not recorded */
	UT_hash_handle hh;
};

/* A thread that has called, and the record of the program it ran then. Only refs changes.
 * It is recognised by its mark; or, if it can have none, by its stat (statfd). */
struct thread {
	atomic_uint refs;
	uint32_t tid;
	struct shfs_proc_mark mark;
	int statfd;
	struct shfs_proc_stat stat;
	uint64_t seq;
	struct program_kind kind;
	UT_hash_handle hh;
};

struct shfs_callers {
	struct shfs_capture *capture;
	const struct shfs_config *config;
	struct shfs_outside_view *view;
	struct shfs_argv_readers *readers;
	struct shfs_software *software; /* NULL: it is not recorded */
	struct shfs_stages *stages;
	bool blind; /* /proc is that of another pid namespace */
	pthread_mutex_t
		lock; /* guards both tables; the longest unused entries come first */
	struct thread *threads;
	size_t max_threads; /* each holds up to two fds */
	struct seen_process *known;
	sem_t turns;      /* requests that may read /proc now */
	unsigned n_looks; /* threads that look at closing processes */
	pthread_cond_t looked;
};

static shfs_stages_look look_at_stage;

int shfs_callers_new(struct shfs_capture *capture, const struct shfs_config *config,
                     const struct shfs_reach *reach, struct shfs_callers **out)
{
	struct shfs_callers *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;
	int r;

	if (!c)
		return -ENOMEM;
	r = shfs_outside_view_new(reach->root, reach->root_fd, config, &c->view);
	if (!r)
		r = shfs_argv_readers_new(c->view, config->environment, &c->readers);
	if (!r && config->software)
		r = shfs_software_new(capture, reach, &c->software);
	if (r) {
		shfs_argv_readers_free(c->readers);
		shfs_outside_view_free(c->view);
		free(c);
		return r;
	}
	c->capture = capture;
	c->config = config;
	c->max_threads = shfs_proc_share_of_fds(16, THREADS_MAX);
	c->blind = !shfs_proc_is_ours();
	pthread_mutex_init(&c->lock, NULL);
	sem_init(&c->turns, 0, READERS_MAX);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->looked, &attr);
	pthread_condattr_destroy(&attr);
	r = shfs_stages_new(look_at_stage, c, &c->stages);
	if (r)
		shfs_callers_free(c);
	else
		*out = c;
	return r;
}

void shfs_callers_end(struct shfs_callers *c)
{
	if (!c)
		return;
	shfs_stages_end(c->stages);
	shfs_software_end(c->software);
}

void shfs_callers_settle(struct shfs_callers *c)
{
	shfs_software_settle(c->software, shfs_clock_ns(CLOCK_MONOTONIC) + SOFTWARE_WAIT);
}

static void thread_unref(struct thread *t)
{
	if (!t || atomic_fetch_sub(&t->refs, 1) > 1)
		return;
	shfs_proc_unmark(&t->mark);
	shfs_closep(&t->statfd);
	free(t);
}

static void thread_unrefp(struct thread **t)
{
	thread_unref(*t);
}

void shfs_callers_free(struct shfs_callers *c)
{
	struct seen_process *k, *next_known;
	struct thread *t, *next;

	if (!c)
		return;
	shfs_stages_free(c->stages);
	pthread_mutex_lock(&c->lock);
	while (c->n_looks)
		pthread_cond_wait(&c->looked, &c->lock);
	pthread_mutex_unlock(&c->lock);
	shfs_software_free(c->software);
	/* a stuck reader uses the view if it goes on before the process ends */
	if (shfs_argv_readers_free(c->readers))
		shfs_outside_view_free(c->view);
	HASH_ITER (hh, c->threads, t, next) {
		HASH_DEL(c->threads, t);
		thread_unref(t);
	}
	HASH_ITER (hh, c->known, k, next_known) {
		HASH_DEL(c->known, k);
		free(k);
	}
	pthread_cond_destroy(&c->looked);
	sem_destroy(&c->turns);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* --- processes in the journal; with the lock held --- */

static struct seen_process *find_caller(struct shfs_callers *c,
                                        const struct shfs_proc_stat *stat)
{
	struct seen_process *k, key = { .key = { stat->start_ticks, stat->pid } };

	HASH_FIND(hh, c->known, &key.key, sizeof(key.key), k);
	if (k && k->hh.next) {
		SHFS_HASH_MOVE_LAST(c->known, key, sizeof(k->key), k);
	}
	return k;
}

static void remember_caller(struct shfs_callers *c, const struct shfs_proc_stat *stat,
                            uint64_t seq, struct program_kind kind, bool hidden)
{
	struct seen_process *k = find_caller(c, stat);

	if (!k) {
		if (HASH_COUNT(c->known) >= KNOWN_MAX) {
			struct seen_process *oldest = c->known;

			HASH_DEL(c->known, oldest);
			free(oldest);
		}
		k = calloc(1, sizeof(*k));
		if (!k)
			return;
		k->key.start_ticks = stat->start_ticks;
		k->key.pid = stat->pid;
		HASH_ADD(hh, c->known, key, sizeof(k->key), k);
		if (!k->hh.tbl) {
			free(k);
			return;
		}
	}
	k->stat = *stat;
	k->seq = seq;
	k->kind = kind;
	k->hidden = hidden;
}

/* Returns the record of the process with its present program; 0: there is none. */
static uint64_t find_caller_record(struct shfs_callers *c,
                                   const struct shfs_proc_stat *stat,
                                   struct program_kind *kind)
{
	struct seen_process *k = find_caller(c, stat);

	if (!k || !shfs_proc_same_program(&k->stat, stat))
		return 0;
	*kind = k->kind;
	return k->seq;
}

/* Is the program a shell, by its name: sh, bash, zsh-5.9, /usr/bin/fish, busybox, ...? */
static bool is_shell_program(const struct shfs_buf *exe)
{
	const char *slash = exe->len ? strrchr(exe->data, '/') : NULL;
	const char *name = slash ? slash + 1 : "";
	size_t len = strcspn(name, "-.0123456789 ");

	return (len >= 2 && !strncmp(name + len - 2, "sh", 2)) ||
	       !strncmp(name, "busybox", 7);
}

static struct program_kind kind_of_program(const struct shfs_callers *c,
                                           const struct shfs_buf *exe)
{
	return (struct program_kind){
		.is_shell = is_shell_program(exe),
		.scans = shfs_config_ignores_reads(c->config, exe->len ? exe->data : ""),
	};
}

/* --- looking at processes; without the lock --- */

/* The fields of a process's record. */
struct sight {
	int procfd;
	struct shfs_proc_stat stat;
	uint64_t parent_start;
	uint32_t uid;
	struct shfs_buf exe, cwd, streams;
	struct shfs_argv_text text;
	struct shfs_argv *asked;
	bool is_again; /* it is looked at again, if it has no arguments now */
};

static void sight_clear(struct sight *s)
{
	shfs_closep(&s->procfd);
	shfs_buf_free(&s->exe);
	shfs_buf_free(&s->cwd);
	shfs_buf_free(&s->streams);
	shfs_argv_text_free(&s->text);
}

/* Looks at a process; procfd and stat are set. */
static void look_at_caller(struct shfs_callers *c, struct sight *s)
{
	struct stat st;

	s->asked = shfs_argv_ask(c->readers, s->procfd, &s->stat);
	/* empty for a kernel thread, or if /proc hides them */
	(void)!shfs_proc_link(s->procfd, "exe", &s->exe);
	(void)!shfs_proc_link(s->procfd, "cwd", &s->cwd);
	(void)!shfs_proc_streams(s->procfd, &s->streams);
	s->uid = fstat(s->procfd, &st) ? 0 : st.st_uid;
}

/* Takes the arguments that were asked for; unless the process, if it is not the blocked
 * caller, has executed another program meanwhile. */
static void finish_look(struct shfs_callers *c, struct sight *s, int64_t until_ns,
                        bool is_blocked)
{
	struct shfs_proc_stat now;

	s->text.hidden = SHFS_HIDDEN_UNSAID; /* if it cannot be read */
	shfs_argv_take(c->readers, TAKE_PTR(s->asked), until_ns, &s->text);
	if (!is_blocked && (shfs_proc_read_stat(s->procfd, &now) ||
	                    !shfs_proc_same_program(&now, &s->stat))) {
		shfs_argv_text_free(&s->text);
		s->text = (struct shfs_argv_text){ .hidden = SHFS_HIDDEN_UNSAID };
	}
}

/*
 * Looks at the ancestors that are not recorded yet with their present programs, from the
 * parent in sights[0] up to the next one that is: a shell that was seen to open a file
 * may have executed a script since, which uses no file itself. Returns how many.
 */
static int look_at_ancestors(struct shfs_callers *c, struct sight *child,
                             struct sight sights[static DEPTH_MAX])
{
	int n = 0;

	while (n < DEPTH_MAX && child->stat.ppid) {
		struct sight s = { .procfd = shfs_proc_open(child->stat.ppid) };
		struct program_kind unused;
		bool known;

		if (s.procfd < 0 || shfs_proc_read_stat(s.procfd, &s.stat)) {
			sight_clear(&s);
			break;
		}
		child->parent_start = s.stat.start_ticks;
		pthread_mutex_lock(&c->lock);
		known = find_caller_record(c, &s.stat, &unused);
		pthread_mutex_unlock(&c->lock);
		if (known) {
			sight_clear(&s);
			break;
		}
		look_at_caller(c, &s);
		sights[n] = s;
		child = &sights[n++];
	}
	return n;
}

/* --- recording --- */

/* Lock held. Does the process belong to a hidden command? If its environment does not say
 * (as with env -i), it is as for its previous program, or its parent. */
static bool is_caller_hidden(struct shfs_callers *c, const struct sight *s)
{
	const struct shfs_proc_stat parent = { .pid = s->stat.ppid,
		                               .start_ticks = s->parent_start };
	const struct seen_process *before, *above;

	if (s->text.hidden != SHFS_HIDDEN_UNSAID)
		return s->text.hidden;
	before = find_caller(c, &s->stat);
	above = find_caller(c, &parent);
	return (before && before->hidden) || (above && above->hidden);
}

/* Lock held. Records the process. */
static uint64_t emit_caller(struct shfs_callers *c, const struct sight *s)
{
	bool hidden = is_caller_hidden(c, s);
	struct shfs_bytes marker = { s->text.marker.data, s->text.marker.len };
	struct shfs_record rec = {
		.type = SHFS_REC_PROCESS,
		.process = {
			.pid = s->stat.pid,
			.ppid = s->stat.ppid,
			.pgid = s->stat.pgid,
			.sid = s->stat.sid,
			.uid = s->uid,
			.tty_nr = s->stat.tty_nr,
			.start_ticks = s->stat.start_ticks,
			.parent_start_ticks = s->parent_start,
			.exe = { s->exe.data, s->exe.len },
			.cwd = { s->cwd.data, s->cwd.len },
			.argv = { s->text.argv.data, hidden ? 0 : s->text.argv.len },
			/* A shell's own environment does not name its commands, so a
			 * subshell's marker is wrong. A forked process on a terminal is
			 * taken for a subshell; other processes leave the terminal to
			 * become daemons. */
			.marker = s->stat.forked && s->stat.tty_nr
			                  ? shfs_marker_marks(marker)
			                  : marker,
			.streams = { s->streams.data, s->streams.len },
			.environment = { s->text.environment.data,
			                 hidden ? 0 : s->text.environment.len },
		},
	};
	uint64_t seq = shfs_capture_emit(c->capture, &rec, NULL);

	if (seq) {
		remember_caller(c, &s->stat, seq, kind_of_program(c, &s->exe), hidden);
		shfs_software_note(c->software, &rec);
	}
	if (s->streams.len && !strncmp(s->streams.data, "pipe:", strlen("pipe:")))
		shfs_stages_expect(c->stages, s->stat.ppid, s->stat.pgid);
	if (seq && !hidden)
		shfs_outside_emit(&s->text.outside, c->capture, seq, rec.time);
	return seq;
}

/* Lock held. Records a process after its n ancestors, of which the last is the oldest. */
static uint64_t emit_ancestry(struct shfs_callers *c, const struct sight *caller,
                              const struct sight *sights, int n,
                              struct program_kind *kind)
{
	struct program_kind unused;
	uint64_t seq;

	for (int i = n - 1; i >= 0; i--)
		if (!find_caller_record(c, &sights[i].stat, &unused))
			emit_caller(c, &sights[i]);
	seq = find_caller_record(c, &caller->stat, kind);
	if (!seq) {
		seq = emit_caller(c, caller);
		*kind = kind_of_program(c, &caller->exe);
	}
	return seq;
}

/*
 * Records a process, the calling one or not blocked, after its ancestors, the oldest
 * first, as each names its parent. If another thread has recorded one of them meanwhile,
 * that record is used.
 */
static uint64_t record_ancestry(struct shfs_callers *c, struct sight *caller,
                                bool is_blocked, struct program_kind *kind)
{
	struct sight sights[DEPTH_MAX];
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + ARGV_WAIT;
	uint64_t seq = 0;
	int n;

	look_at_caller(c, caller);
	n = look_at_ancestors(c, caller, sights);
	finish_look(c, caller, until, is_blocked);
	for (int i = 0; i < n; i++)
		finish_look(c, &sights[i], until, false);

	pthread_mutex_lock(&c->lock);
	if (!caller->is_again || caller->text.argv.len)
		seq = emit_ancestry(c, caller, sights, n, kind);
	pthread_mutex_unlock(&c->lock);
	for (int i = 0; i < n; i++)
		sight_clear(&sights[i]);
	return seq;
}

/* Goes on from a thread to its process, which has the same program. Its leader, which
 * gives it its pid, may have ended before the other threads. */
static int go_to_leader(struct sight *s)
{
	struct shfs_proc_stat thread = s->stat;
	uint32_t tgid;
	int r;

	if (thread.n_threads == 1)
		return 0;
	r = shfs_proc_thread_group(s->procfd, &tgid);
	if (r || tgid == thread.pid)
		return r;
	shfs_closep(&s->procfd);
	s->procfd = shfs_proc_open(tgid);
	r = s->procfd < 0 ? s->procfd : shfs_proc_read_stat(s->procfd, &s->stat);
	if (!r)
		memcpy(s->stat.image, thread.image, sizeof(thread.image));
	return r;
}

/* Returns the record of the thread's process. Takes ownership of procfd. */
static uint64_t record_thread(struct shfs_callers *c, int procfd, struct thread *t)
{
	_cleanup_(sight_clear) struct sight s = { .procfd = procfd, .stat = t->stat };
	uint64_t seq;

	if (go_to_leader(&s))
		return 0;
	if (!shfs_proc_mark(s.procfd, &t->stat, s.stat.pid == t->tid, &t->mark)) {
		shfs_closep(&t->statfd);
		t->statfd = -1;
	}
	pthread_mutex_lock(&c->lock);
	seq = find_caller_record(c, &s.stat, &t->kind);
	pthread_mutex_unlock(&c->lock);
	return seq ? seq : record_ancestry(c, &s, true, &t->kind);
}

/* Records another stage of a pipeline, unless it is known. One that is looked at in the
 * midst of its execve has no arguments yet: it is recorded by a later look. */
static void look_at_stage(void *arg, uint32_t pid, bool is_last)
{
	struct shfs_callers *c = arg;
	_cleanup_(sight_clear) struct sight s = { .procfd = shfs_proc_open(pid),
		                                  .is_again = !is_last };
	struct program_kind unused;
	uint64_t seq;

	if (s.procfd < 0 || shfs_proc_read_stat(s.procfd, &s.stat))
		return;
	pthread_mutex_lock(&c->lock);
	seq = find_caller_record(c, &s.stat, &unused);
	pthread_mutex_unlock(&c->lock);
	if (!seq)
		record_ancestry(c, &s, false, &unused);
}

/* --- threads --- */

/* Makes the entry of a thread; NULL: it is gone, or cannot be recorded. */
static struct thread *thread_new(struct shfs_callers *c, uint32_t tid)
{
	int procfd = shfs_proc_open(tid);
	struct thread *t = procfd < 0 ? NULL : calloc(1, sizeof(*t));

	if (!t) {
		shfs_closep(&procfd);
		return NULL;
	}
	t->refs = 1;
	t->tid = tid;
	t->mark = (struct shfs_proc_mark){ -1, -1 };
	t->statfd = shfs_proc_open_stat(procfd, tid);
	if (t->statfd < 0 || shfs_proc_reread_stat(t->statfd, &t->stat))
		shfs_closep(&procfd);
	else
		t->seq = record_thread(c, procfd, t);
	if (t->seq)
		return t;
	thread_unref(t);
	return NULL;
}

static struct thread *find_thread(struct shfs_callers *c, uint32_t tid)
{
	struct thread *t;

	pthread_mutex_lock(&c->lock);
	HASH_FIND(hh, c->threads, &tid, sizeof(tid), t);
	if (t && t->hh.next) {
		SHFS_HASH_MOVE_LAST(c->threads, tid, sizeof(t->tid), t);
	}
	if (t)
		atomic_fetch_add(&t->refs, 1);
	pthread_mutex_unlock(&c->lock);
	return t;
}

/* Lets go of the entry that was used longest ago, if its process has ended. One that
 * lives is looked at again when all others were. */
static void drop_ended(struct shfs_callers *c)
{
	struct thread *t, *found = NULL;
	bool lives;

	pthread_mutex_lock(&c->lock);
	t = c->threads;
	if (t)
		atomic_fetch_add(&t->refs, 1);
	pthread_mutex_unlock(&c->lock);
	if (!t)
		return;
	lives = t->statfd >= 0 || shfs_proc_is_marked(&t->mark);
	pthread_mutex_lock(&c->lock);
	HASH_FIND(hh, c->threads, &t->tid, sizeof(t->tid), found);
	if (found == t && !lives)
		HASH_DEL(c->threads, t);
	else if (found == t && t->hh.next)
		SHFS_HASH_MOVE_LAST(c->threads, tid, sizeof(t->tid), t);
	pthread_mutex_unlock(&c->lock);
	if (found == t && !lives)
		thread_unref(t);
	thread_unref(t);
}

/* Keeps t, in place of an older entry of the same thread. For each that comes two are
 * looked at, so few hold the descriptors of a process that has ended. */
static void keep_thread(struct shfs_callers *c, struct thread *t)
{
	struct thread *old;

	drop_ended(c);
	drop_ended(c);
	pthread_mutex_lock(&c->lock);
	HASH_FIND(hh, c->threads, &t->tid, sizeof(t->tid), old);
	if (!old && HASH_COUNT(c->threads) >= c->max_threads)
		old = c->threads;
	if (old)
		HASH_DEL(c->threads, old);
	HASH_ADD(hh, c->threads, tid, sizeof(t->tid), t);
	if (t->hh.tbl)
		atomic_fetch_add(&t->refs, 1);
	pthread_mutex_unlock(&c->lock);
	thread_unref(old);
}

/* Is it still the same thread, running the same program? */
static bool is_thread_unchanged(const struct thread *t)
{
	struct shfs_proc_stat now;

	if (t->statfd < 0)
		return shfs_proc_is_marked(&t->mark);
	return !shfs_proc_reread_stat(t->statfd, &now) &&
	       shfs_proc_same_program(&now, &t->stat);
}

/* Returns the entry of a thread if it is still that of the thread, with a reference. */
static struct thread *known_thread(struct shfs_callers *c, uint32_t tid)
{
	struct thread *t = tid && !c->blind ? find_thread(c, tid) : NULL;

	if (t && is_thread_unchanged(t))
		return t;
	thread_unref(t);
	return NULL;
}

/* Makes and keeps the entry of a thread that is not known. */
static struct thread *meet_thread(struct shfs_callers *c, uint32_t tid)
{
	struct thread *t = tid && !c->blind ? thread_new(c, tid) : NULL;

	if (t)
		keep_thread(c, t);
	return t;
}

/* Returns the entry of a thread that serves no request, with a reference; NULL: there is
 * none. */
static struct thread *thread_of(struct shfs_callers *c, uint32_t tid)
{
	return known_thread(c, tid) ?: meet_thread(c, tid);
}

/* Returns the entry of a thread that waits for a request, likewise: it is met in turn, so
 * that some threads are always left to answer. */
static struct thread *requester(struct shfs_callers *c, uint32_t tid)
{
	struct thread *t = known_thread(c, tid);
	struct timespec until;
	int r;

	if (t || !tid || c->blind)
		return t;
	until = shfs_ns_timespec(shfs_clock_ns(CLOCK_MONOTONIC) + READER_WAIT);
	do
		r = sem_clockwait(&c->turns, CLOCK_MONOTONIC, &until) ? -errno : 0;
	while (r == -EINTR);
	if (r) {
		shfs_capture_lose(c->capture, r);
		return NULL;
	}
	t = meet_thread(c, tid);
	sem_post(&c->turns);
	return t;
}

uint64_t shfs_caller_process(struct shfs_callers *c, uint32_t tid)
{
	_cleanup_(thread_unrefp) struct thread *t = requester(c, tid);

	return t ? t->seq : 0;
}

/* t may be NULL. */
static uint64_t job_of(const struct thread *t, struct shfs_job *job)
{
	pid_t pid = t ? (pid_t)t->tid : 0, group = t ? getpgid(pid) : -1;

	*job = (struct shfs_job){ 0 };
	if (group >= 0) {
		job->group = (uint32_t)group;
		job->leads_group = group == pid;
		job->leads_session = job->leads_group && getsid(pid) == pid;
		job->is_shell = t->kind.is_shell;
		job->scans = t->kind.scans;
		job->is_forked = t->stat.forked;
	}
	return t ? t->seq : 0;
}

uint64_t shfs_caller_job(struct shfs_callers *c, uint32_t tid, struct shfs_job *job)
{
	_cleanup_(thread_unrefp) struct thread *t = requester(c, tid);

	return job_of(t, job);
}

uint32_t shfs_caller_still(uint32_t tid, uint64_t boot_ns)
{
	_cleanup_close_ int procfd = tid ? shfs_proc_open(tid) : -ESRCH;
	struct shfs_proc_stat stat;

	if (procfd < 0 || shfs_proc_read_stat(procfd, &stat))
		return 0;
	return stat.start_ticks * TICK_NS <= boot_ns ? tid : 0;
}

bool shfs_caller_may_have_written(uint32_t tid, int64_t changed_ns)
{
	_cleanup_close_ int procfd = tid ? shfs_proc_open(tid) : -ESRCH;
	struct shfs_time now = shfs_time_now();
	struct shfs_proc_stat stat;

	if (procfd < 0 || shfs_proc_read_stat(procfd, &stat))
		return true;
	/* a thread may be younger than its process */
	if (stat.n_threads <= 1 && changed_ns - now.real_ns + (int64_t)now.boot_ns <
	                                   (int64_t)(stat.start_ticks * TICK_NS))
		return false;
	/* it may be in an exec, which would wait for us */
	if (!stat.ending && !stat.image[0])
		return true;
	return shfs_proc_bytes_written(tid) != 0;
}

/* --- closing processes --- */

uint64_t shfs_caller_at_hand(struct shfs_callers *c, uint32_t tid)
{
	_cleanup_(thread_unrefp) struct thread *t = tid ? find_thread(c, tid) : NULL;

	return t && t->statfd < 0 && shfs_proc_is_marked(&t->mark) ? t->seq : 0;
}

/* A look at a closing process; freed by the last of the waiting and the looking thread.
 */
struct look_at {
	struct shfs_callers *c;
	uint32_t tid;
	int64_t changed_ns;
	bool done, left; /* with the lock of the callers */
	struct shfs_closer closer;
};

static void *look_at_closer(void *arg)
{
	struct look_at *l = arg;
	struct shfs_callers *c = l->c;
	_cleanup_(thread_unrefp) struct thread *t = thread_of(c, l->tid);

	l->closer.process = job_of(t, &l->closer.job);
	l->closer.may_have_written = shfs_caller_may_have_written(l->tid, l->changed_ns);
	pthread_mutex_lock(&c->lock);
	l->done = true;
	c->n_looks--;
	pthread_cond_broadcast(&c->looked);
	if (l->left)
		free(l);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static bool start_look(struct look_at *l)
{
	pthread_attr_t attr;
	pthread_t thread;
	bool ok;

	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_mutex_lock(&l->c->lock);
	ok = !pthread_create(&thread, &attr, look_at_closer, l);
	l->c->n_looks += ok;
	pthread_mutex_unlock(&l->c->lock);
	pthread_attr_destroy(&attr);
	return ok;
}

bool shfs_caller_closes(struct shfs_callers *c, uint32_t tid, int64_t changed_ns,
                        struct shfs_closer *out)
{
	struct look_at *l = calloc(1, sizeof(*l));
	int64_t until_ns = shfs_clock_ns(CLOCK_MONOTONIC) + CLOSER_WAIT;
	struct timespec until = { .tv_sec = until_ns / SHFS_NSEC_PER_SEC,
		                  .tv_nsec = until_ns % SHFS_NSEC_PER_SEC };
	bool done;
	int r = 0;

	if (l)
		*l = (struct look_at){ .c = c, .tid = tid, .changed_ns = changed_ns };
	if (!l || !start_look(l)) {
		free(l);
		return false;
	}
	pthread_mutex_lock(&c->lock);
	while (!l->done && !r)
		r = pthread_cond_timedwait(&c->looked, &c->lock, &until);
	done = l->done;
	if (done)
		*out = l->closer;
	l->left = true;
	pthread_mutex_unlock(&c->lock);
	if (done)
		free(l);
	return done;
}
