/* SPDX-License-Identifier: MIT */
#include "fusefs/caller.h"

#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>
#include <utlist.h>

#define THREADS_MAX 256
#define ARGV_MAX    (64u << 10)
#define DEPTH_MAX   64

/* A process in the journal. */
struct known {
	struct {
		uint64_t start_ticks;
		uint64_t pid;
	} key;
	uint64_t seq;
	UT_hash_handle hh;
};

/* A thread that called, and what its process ran then. */
struct thread {
	uint32_t tid;
	int procfd;
	uint64_t seq;
	bool forked; /* it runs what its parent runs: an exec may show in argv alone */
	struct shfs_buf exe, argv;
	UT_hash_handle hh;
};

struct shfs_callers {
	struct shfs_capture *capture;
	pthread_mutex_t lock;
	struct thread *threads; /* the longest unused first */
	struct known *known;
	size_t sweep_at; /* known entries */
};

int shfs_callers_new(struct shfs_capture *capture, struct shfs_callers **out)
{
	struct shfs_callers *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->capture = capture;
	c->sweep_at = 4096;
	pthread_mutex_init(&c->lock, NULL);
	*out = c;
	return 0;
}

static void drop_thread(struct shfs_callers *c, struct thread *t)
{
	HASH_DEL(c->threads, t);
	shfs_closep(&t->procfd);
	shfs_buf_free(&t->exe);
	shfs_buf_free(&t->argv);
	free(t);
}

void shfs_callers_free(struct shfs_callers *c)
{
	struct known *k, *next_known;
	struct thread *t, *next;

	if (!c)
		return;
	HASH_ITER (hh, c->threads, t, next)
		drop_thread(c, t);
	HASH_ITER (hh, c->known, k, next_known) {
		HASH_DEL(c->known, k);
		free(k);
	}
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* --- processes in the journal --- */

static struct known *find_known(struct shfs_callers *c, const struct shfs_proc_stat *stat)
{
	struct known *k, key = { .key = { stat->start_ticks, stat->pid } };

	HASH_FIND(hh, c->known, &key.key, sizeof(key.key), k);
	return k;
}

static bool is_alive(const struct known *k)
{
	_cleanup_close_ int procfd = shfs_proc_open((uint32_t)k->key.pid);
	struct shfs_proc_stat stat;

	return procfd >= 0 && !shfs_proc_read_stat(procfd, &stat) &&
	       stat.start_ticks == k->key.start_ticks;
}

/* Forgets those that have ended, whenever there are twice as many as lived last time. */
static void sweep(struct shfs_callers *c)
{
	struct known *k, *next;

	if (HASH_COUNT(c->known) < c->sweep_at)
		return;
	HASH_ITER (hh, c->known, k, next) {
		if (is_alive(k))
			continue;
		HASH_DEL(c->known, k);
		free(k);
	}
	c->sweep_at = MAX(4096, 2 * HASH_COUNT(c->known));
}

static void remember(struct shfs_callers *c, const struct shfs_proc_stat *stat,
                     uint64_t seq)
{
	struct known *k = find_known(c, stat);

	if (!k) {
		sweep(c);
		k = calloc(1, sizeof(*k));
		if (!k)
			return;
		k->key.start_ticks = stat->start_ticks;
		k->key.pid = stat->pid;
		HASH_ADD(hh, c->known, key, sizeof(k->key), k);
	}
	k->seq = seq;
}

static uint64_t emit(struct shfs_callers *c, int procfd, const struct shfs_proc_stat *s,
                     uint64_t parent_start, const struct shfs_buf *exe,
                     const struct shfs_buf *argv)
{
	_cleanup_buf_ struct shfs_buf cwd = { 0 };
	struct stat st = { 0 };
	struct shfs_record rec = {
		.type = SHFS_REC_PROCESS,
		.process = {
			.pid = s->pid,
			.ppid = s->ppid,
			.pgid = s->pgid,
			.sid = s->sid,
			.tty_nr = s->tty_nr,
			.start_ticks = s->start_ticks,
			.parent_start_ticks = parent_start,
			.exe = { exe->data, exe->len },
			.argv = { argv->data, argv->len },
		},
	};
	uint64_t seq;

	if (!fstat(procfd, &st))
		rec.process.uid = st.st_uid;
	if (!shfs_proc_link(procfd, "cwd", &cwd) && !cwd.failed)
		rec.process.cwd = (struct shfs_bytes){ cwd.data, cwd.len };
	seq = shfs_capture_emit(c->capture, &rec, NULL);
	if (seq)
		remember(c, s, seq);
	return seq;
}

static bool read_program(int procfd, struct shfs_buf *exe, struct shfs_buf *argv)
{
	exe->len = argv->len = 0;
	/* neither is there for a kernel thread, or where /proc hides it */
	(void)!shfs_proc_link(procfd, "exe", exe);
	(void)!shfs_proc_cmdline(procfd, ARGV_MAX, argv);
	return !exe->failed && !argv->failed;
}

/* Sees to it that the ancestors are in the journal: from the oldest on, as a loop, since
 * each names its parent. Returns the start of the nearest, 0 if that is gone. */
static uint64_t record_ancestors(struct shfs_callers *c, uint32_t pid)
{
	struct {
		int procfd;
		struct shfs_proc_stat stat;
	} chain[DEPTH_MAX];
	uint64_t start = 0, nearest = 0;
	int n = 0;

	while (pid && n < DEPTH_MAX) {
		int procfd = shfs_proc_open(pid);

		if (procfd < 0)
			break;
		if (shfs_proc_read_stat(procfd, &chain[n].stat)) {
			close(procfd);
			break;
		}
		if (!n)
			nearest = chain[n].stat.start_ticks;
		if (find_known(c, &chain[n].stat)) {
			start = chain[n].stat.start_ticks;
			close(procfd);
			break;
		}
		chain[n].procfd = procfd;
		pid = chain[n++].stat.ppid;
	}
	while (n--) {
		_cleanup_buf_ struct shfs_buf exe = { 0 }, argv = { 0 };

		if (read_program(chain[n].procfd, &exe, &argv))
			emit(c, chain[n].procfd, &chain[n].stat, start, &exe, &argv);
		start = chain[n].stat.start_ticks;
		close(chain[n].procfd);
	}
	return nearest;
}

/* --- threads --- */

static bool same(const struct shfs_buf *a, const struct shfs_buf *b)
{
	return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

/* The parent's program, to tell a fork that has not executed anything yet. */
static bool runs_what_parent_runs(uint32_t ppid, const struct shfs_buf *exe)
{
	_cleanup_buf_ struct shfs_buf parent = { 0 };
	_cleanup_close_ int procfd = ppid ? shfs_proc_open(ppid) : -1;

	return procfd >= 0 && !shfs_proc_link(procfd, "exe", &parent) &&
	       same(exe, &parent);
}

/* The thread's program is in t->exe and t->argv: records its process. 0 or -errno. */
static int record(struct shfs_callers *c, struct thread *t)
{
	_cleanup_close_ int leader = -1;
	struct shfs_proc_stat stat;
	uint64_t parent_start;
	uint32_t tgid = t->tid;
	int r = shfs_proc_thread_group(t->procfd, &tgid);

	if (!r && tgid != t->tid) {
		leader = shfs_proc_open(tgid);
		r = leader < 0 ? leader : 0;
	}
	if (!r)
		r = shfs_proc_read_stat(leader >= 0 ? leader : t->procfd, &stat);
	if (r)
		return r;
	parent_start = record_ancestors(c, stat.ppid);
	t->forked = runs_what_parent_runs(stat.ppid, &t->exe);
	t->seq = emit(c, leader >= 0 ? leader : t->procfd, &stat, parent_start, &t->exe,
	              &t->argv);
	return 0;
}

/* Another thread of a process that is known runs the same program. */
static uint64_t find_sibling(struct shfs_callers *c, const struct thread *t)
{
	_cleanup_buf_ struct shfs_buf exe = { 0 };
	_cleanup_close_ int leader = -1;
	struct thread *other;
	uint32_t tgid;

	if (shfs_proc_thread_group(t->procfd, &tgid) || tgid == t->tid)
		return 0;
	HASH_FIND(hh, c->threads, &tgid, sizeof(tgid), other);
	if (!other || shfs_proc_link(other->procfd, "exe", &exe) ||
	    !same(&exe, &other->exe) || !same(&exe, &t->exe))
		return 0;
	return other->seq;
}

static struct thread *add_thread(struct shfs_callers *c, uint32_t tid)
{
	struct thread *t;

	if (HASH_COUNT(c->threads) >= THREADS_MAX)
		drop_thread(c, c->threads);
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = tid;
	t->procfd = shfs_proc_open(tid);
	HASH_ADD(hh, c->threads, tid, sizeof(t->tid), t);
	if (t->procfd < 0 || !read_program(t->procfd, &t->exe, &t->argv))
		goto fail;
	t->seq = find_sibling(c, t);
	if (t->seq || !record(c, t))
		return t;
fail:
	drop_thread(c, t);
	return NULL;
}

/* Looks again at what the thread runs. False: it is gone. */
static bool refresh(struct shfs_callers *c, struct thread *t)
{
	_cleanup_buf_ struct shfs_buf exe = { 0 }, argv = { 0 };
	int r = shfs_proc_link(t->procfd, "exe", &exe);

	if (r == -ESRCH || (r == -ENOENT && t->exe.len))
		return false;
	if (same(&exe, &t->exe)) {
		if (!t->forked)
			return true;
		if (shfs_proc_cmdline(t->procfd, ARGV_MAX, &argv))
			return false;
		if (same(&argv, &t->argv))
			return true;
	}
	return read_program(t->procfd, &t->exe, &t->argv) && !record(c, t);
}

uint64_t shfs_caller_process(struct shfs_callers *c, uint32_t tid)
{
	struct thread *t;
	uint64_t seq;

	if (!tid)
		return 0;
	pthread_mutex_lock(&c->lock);
	HASH_FIND(hh, c->threads, &tid, sizeof(tid), t);
	if (t && !refresh(c, t)) {
		drop_thread(c, t);
		t = NULL;
	}
	if (t) {
		/* to the end of the list */
		HASH_DEL(c->threads, t);
		HASH_ADD(hh, c->threads, tid, sizeof(t->tid), t);
	} else {
		t = add_thread(c, tid);
	}
	seq = t ? t->seq : 0;
	pthread_mutex_unlock(&c->lock);
	return seq;
}
