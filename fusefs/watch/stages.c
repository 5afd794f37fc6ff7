/* SPDX-License-Identifier: MIT */
#include "fusefs/watch/stages.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define PIPELINES_MAX 64          /* at a time; of more, some are not looked at */
#define CHILDREN_MAX  (64u << 10) /* bytes */
#define DEPTH_MAX     3           /* of subshells */

/* When a pipeline is looked at, after it came into sight. On a busy machine a stage may
 * not have executed its program for long. */
static const int64_t looks_ms[] = { 2, 20, 100, 500, 2000 };

struct pipeline {
	uint32_t parent, group;
	size_t looks; /* so far */
	int64_t seen_ns;
};

struct shfs_stages {
	shfs_stages_look *look;
	void *arg;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct pipeline list[PIPELINES_MAX];
	size_t n;
	bool closing;
};

static void look_at_children(struct shfs_stages *s, const struct pipeline *p,
                             uint32_t parent, int depth);

/* A subshell that has executed nothing is looked into. */
static void look_at_child(struct shfs_stages *s, const struct pipeline *p, uint32_t pid,
                          int depth)
{
	_cleanup_close_ int procfd = shfs_proc_open(pid);
	struct shfs_proc_stat stat;

	if (procfd < 0 || shfs_proc_read_stat(procfd, &stat) || stat.pgid != p->group ||
	    stat.ending)
		return;
	if (!stat.forked)
		s->look(s->arg, pid, p->looks == ARRAY_SIZE(looks_ms));
	else if (depth < DEPTH_MAX)
		look_at_children(s, p, pid, depth + 1);
}

static void look_at_children(struct shfs_stages *s, const struct pipeline *p,
                             uint32_t parent, int depth)
{
	_cleanup_buf_ struct shfs_buf children = { 0 };
	char path[64], *next;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/children", parent, parent);
	if (shfs_read_file_at(AT_FDCWD, path, CHILDREN_MAX, &children))
		return;
	shfs_buf_u8(&children, 0);
	for (char *at = children.failed ? NULL : children.data; at; at = next) {
		unsigned long pid = strtoul(at, &next, 10);

		if (next == at)
			return;
		look_at_child(s, p, (uint32_t)pid, depth);
	}
}

static int64_t due_ns(const struct pipeline *p)
{
	return p->seen_ns + looks_ms[p->looks] * (SHFS_NSEC_PER_SEC / 1000);
}

/* Lock held. The pipeline to look at first; NULL: there is none. */
static struct pipeline *first_due(struct shfs_stages *s)
{
	struct pipeline *first = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (!first || due_ns(&s->list[i]) < due_ns(first))
			first = &s->list[i];
	return first;
}

/* Lock held, and let go while it waits or looks. */
static void look_once(struct shfs_stages *s)
{
	struct pipeline *first = first_due(s), copy;
	struct timespec until;

	if (!first) {
		pthread_cond_wait(&s->change, &s->lock);
		return;
	}
	if (due_ns(first) > shfs_clock_ns(CLOCK_MONOTONIC)) {
		until = (struct timespec){ .tv_sec = due_ns(first) / SHFS_NSEC_PER_SEC,
			                   .tv_nsec = due_ns(first) % SHFS_NSEC_PER_SEC };
		pthread_cond_timedwait(&s->change, &s->lock, &until);
		return;
	}
	first->looks++;
	copy = *first;
	if (copy.looks == ARRAY_SIZE(looks_ms))
		*first = s->list[--s->n];
	pthread_mutex_unlock(&s->lock);
	look_at_children(s, &copy, copy.parent, 0);
	pthread_mutex_lock(&s->lock);
}

static void *run_stages(void *arg)
{
	struct shfs_stages *s = arg;

	pthread_setname_np(pthread_self(), "stages");
	pthread_mutex_lock(&s->lock);
	while (!s->closing)
		look_once(s);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int shfs_stages_new(shfs_stages_look *look, void *arg, struct shfs_stages **out)
{
	struct shfs_stages *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;
	sigset_t all, before;
	int r;

	if (!s)
		return -ENOMEM;
	s->look = look;
	s->arg = arg;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->change, &attr);
	pthread_condattr_destroy(&attr);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&s->thread, NULL, run_stages, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!r) {
		*out = s;
		return 0;
	}
	pthread_cond_destroy(&s->change);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return r;
}

void shfs_stages_end(struct shfs_stages *s)
{
	if (!s || s->closing)
		return;
	pthread_mutex_lock(&s->lock);
	s->closing = true;
	pthread_cond_broadcast(&s->change);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
}

void shfs_stages_free(struct shfs_stages *s)
{
	if (!s)
		return;
	shfs_stages_end(s);
	pthread_cond_destroy(&s->change);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void shfs_stages_expect(struct shfs_stages *s, uint32_t parent, uint32_t group)
{
	size_t at = 0;

	pthread_mutex_lock(&s->lock);
	while (at < s->n && (s->list[at].parent != parent || s->list[at].group != group))
		at++;
	if (at == s->n && s->n < PIPELINES_MAX) {
		s->list[s->n++] =
			(struct pipeline){ parent, group,
			                   .seen_ns = shfs_clock_ns(CLOCK_MONOTONIC) };
		pthread_cond_signal(&s->change);
	}
	pthread_mutex_unlock(&s->lock);
}
