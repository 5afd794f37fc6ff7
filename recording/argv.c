/* SPDX-License-Identifier: MIT */
#include "recording/argv.h"

#include "common/clock.h"
#include "common/proc.h"
#include "recording/environment.h"
#include "store/capture/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <utlist.h>

#define READERS  4
#define FAREWELL SHFS_NSEC_PER_SEC

/* A question. It belongs to the asking thread; once abandoned, to its reader. */
struct shfs_argv {
	int procfd;
	struct shfs_proc_stat stat;
	enum { QUEUED, READING, READ } state;
	bool abandoned;
	bool has_words; /* all of text is there but the files outside */
	struct shfs_argv_text text;
	struct shfs_argv *prev, *next;
};

struct reader {
	struct shfs_argv_readers *readers;
	pthread_t thread;
	bool ended;
};

struct shfs_argv_readers {
	struct shfs_outside_view *view;
	pthread_mutex_t lock; /* no other is taken with it */
	pthread_cond_t work, change;
	struct shfs_argv *queue;
	unsigned n, n_started,
		n_stuck; /* readers; stuck: reading for an abandoned question */
	bool closing;
	const char *environment; /* patterns; borrowed */
	struct reader list[READERS];
};

void shfs_argv_text_free(struct shfs_argv_text *text)
{
	shfs_buf_free(&text->argv);
	shfs_buf_free(&text->marker);
	shfs_buf_free(&text->environment);
	shfs_outside_clear(&text->outside);
}

static void argv_free(struct shfs_argv *argv)
{
	shfs_assert(argv->state != READING); /* its reader would use it */
	shfs_closep(&argv->procfd);
	shfs_argv_text_free(&argv->text);
	free(argv);
}

/* Lock held, and let go while it reads. */
static void read_next_argv(struct shfs_argv_readers *r)
{
	struct shfs_argv *argv = r->queue;
	_cleanup_buf_ struct shfs_buf words = { 0 };
	struct shfs_outside outside = { 0 };

	shfs_assert_held(&r->lock);
	shfs_assert(argv->state == QUEUED && !argv->abandoned);
	DL_DELETE(r->queue, argv);
	argv->state = READING;
	pthread_mutex_unlock(&r->lock);
	if (shfs_proc_cmdline(argv->procfd, SHFS_ARGV_READ, &argv->text.argv))
		argv->text.argv.len = 0;
	if (shfs_environment_read(argv->procfd, r->environment, &argv->text.marker,
	                          &argv->text.hidden, &argv->text.environment))
		argv->text.marker.len = argv->text.environment.len = 0;
	shfs_buf_add(&words, argv->text.argv.data, argv->text.argv.len);
	shfs_buf_u8(&words, 0); /* the last one may have no end */
	pthread_mutex_lock(&r->lock);
	argv->has_words = true;
	pthread_mutex_unlock(&r->lock);
	if (r->view && !words.failed)
		shfs_outside_look(r->view, argv->procfd, &argv->stat, &words, &outside);
	pthread_mutex_lock(&r->lock);
	argv->text.outside = outside;
	shfs_assert(argv->state == READING);
	argv->state = READ;
	if (argv->abandoned) {
		shfs_assert(r->n_stuck);
		r->n_stuck--;
		argv_free(argv);
	}
	pthread_cond_broadcast(&r->change);
}

static void *run_argv_reader(void *arg)
{
	struct reader *self = arg;
	struct shfs_argv_readers *r = self->readers;

	pthread_setname_np(pthread_self(), "argv");
	pthread_mutex_lock(&r->lock);
	r->n_started++;
	pthread_cond_broadcast(&r->change);
	while (!r->closing) {
		if (r->queue)
			read_next_argv(r);
		else
			pthread_cond_wait(&r->work, &r->lock);
	}
	self->ended = true;
	pthread_cond_broadcast(&r->change);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static bool wait_change(struct shfs_argv_readers *r, int64_t until_ns)
{
	struct timespec ts = { .tv_sec = until_ns / SHFS_NSEC_PER_SEC,
		               .tv_nsec = until_ns % SHFS_NSEC_PER_SEC };

	shfs_assert_held(&r->lock);
	return pthread_cond_timedwait(&r->change, &r->lock, &ts) != ETIMEDOUT;
}

static bool init_locks(struct shfs_argv_readers *r)
{
	pthread_condattr_t attr;

	if (pthread_condattr_init(&attr))
		return false;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->work, NULL);
	pthread_cond_init(&r->change, &attr);
	pthread_condattr_destroy(&attr);
	return true;
}

int shfs_argv_readers_new(struct shfs_outside_view *view, const char *environment,
                          struct shfs_argv_readers **out)
{
	struct shfs_argv_readers *r = calloc(1, sizeof(*r));
	sigset_t all, before;
	int err = 0;

	if (!r || !init_locks(r)) {
		free(r);
		return -ENOMEM;
	}
	r->environment = environment;
	r->view = view;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; r->n < READERS && !err; r->n += !err) {
		struct reader *reader = &r->list[r->n];

		reader->readers = r;
		err = pthread_create(&reader->thread, NULL, run_argv_reader, reader);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	/* The program may fork, or install a seccomp filter, once this returns. So all
	 * threads must have started: a starting thread holds locks of the libraries. */
	pthread_mutex_lock(&r->lock);
	while (r->n_started < r->n)
		pthread_cond_wait(&r->change, &r->lock);
	pthread_mutex_unlock(&r->lock);
	if (!r->n) {
		shfs_argv_readers_free(r);
		return -err;
	}
	*out = r;
	return 0;
}

static unsigned count_running(const struct shfs_argv_readers *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->n; i++)
		n += !r->list[i].ended;
	return n;
}

bool shfs_argv_readers_free(struct shfs_argv_readers *r)
{
	int64_t until = shfs_clock_ns(CLOCK_MONOTONIC) + FAREWELL;
	unsigned n_left;

	if (!r)
		return true;
	pthread_mutex_lock(&r->lock);
	r->closing = true;
	pthread_cond_broadcast(&r->work);
	while (count_running(r) && wait_change(r, until))
		;
	n_left = count_running(r);
	pthread_mutex_unlock(&r->lock);
	/* stuck threads use it if they go on before the process ends */
	if (n_left)
		return false;
	for (unsigned i = 0; i < r->n; i++)
		pthread_join(r->list[i].thread, NULL);
	shfs_assert(!r->n_stuck);
	pthread_cond_destroy(&r->work);
	pthread_cond_destroy(&r->change);
	pthread_mutex_destroy(&r->lock);
	free(r);
	return true;
}

struct shfs_argv *shfs_argv_ask(struct shfs_argv_readers *r, int procfd,
                                const struct shfs_proc_stat *stat)
{
	struct shfs_argv *argv = calloc(1, sizeof(*argv));
	bool stuck;

	if (!argv)
		return NULL;
	argv->procfd = fcntl(procfd, F_DUPFD_CLOEXEC, 0);
	argv->stat = *stat;
	pthread_mutex_lock(&r->lock);
	stuck = argv->procfd < 0 || r->n_stuck >= r->n;
	if (!stuck) {
		DL_APPEND(r->queue, argv);
		pthread_cond_signal(&r->work);
	}
	pthread_mutex_unlock(&r->lock);
	if (!stuck)
		return argv;
	argv_free(argv);
	return NULL;
}

void shfs_argv_take(struct shfs_argv_readers *r, struct shfs_argv *argv, int64_t until_ns,
                    struct shfs_argv_text *out)
{
	if (!argv)
		return;
	pthread_mutex_lock(&r->lock);
	shfs_assert(!argv->abandoned); /* it belongs to its reader */
	while (argv->state != READ && wait_change(r, until_ns))
		;
	if (argv->state == QUEUED)
		DL_DELETE(r->queue, argv);
	argv->abandoned = argv->state == READING;
	r->n_stuck += argv->abandoned;
	shfs_assert(r->n_stuck <= r->n);
	if (argv->state == READ || argv->has_words) {
		*out = argv->text;
		argv->text = (struct shfs_argv_text){ 0 };
	}
	if (!argv->abandoned)
		argv_free(argv);
	pthread_mutex_unlock(&r->lock);
}
