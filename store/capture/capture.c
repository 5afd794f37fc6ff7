/* SPDX-License-Identifier: MIT */
#include "store/capture/capture-internal.h"

#include "common/debug.h"
#include "common/proc.h"
#include "common/secrets.h"
#include "store/capture/log.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <utlist.h>

int64_t capture_now(void)
{
	return shfs_clock_ns(CLOCK_MONOTONIC);
}

bool capture_wait(struct shfs_capture *c, pthread_cond_t *cond, int64_t until_ns)
{
	struct timespec ts = { .tv_sec = until_ns / SHFS_NSEC_PER_SEC,
		               .tv_nsec = until_ns % SHFS_NSEC_PER_SEC };

	shfs_assert_held(&c->lock);
	return pthread_cond_timedwait(cond, &c->lock, &ts) != ETIMEDOUT;
}

/* --- opening and closing --- */

void capture_thread_begin(struct shfs_capture *c, const char *name)
{
	pid_t tid = gettid();

	pthread_setname_np(pthread_self(), name);
	/* Users wait for some of this work, so its priority is only a little lower. */
	setpriority(PRIO_PROCESS, tid, getpriority(PRIO_PROCESS, tid) + CAPTURE_NICE);
	pthread_mutex_lock(&c->lock);
	c->n_started++;
	pthread_cond_broadcast(&c->change);
	pthread_mutex_unlock(&c->lock);
}

static int capture_init_locks(struct shfs_capture *c)
{
	pthread_cond_t *conds[] = { &c->work, &c->written, &c->change, &c->purging };
	pthread_mutex_t *locks[] = { &c->lock, &c->held_lock, &c->redactor_lock };
	pthread_condattr_t attr;
	int err = pthread_condattr_init(&attr);

	if (!err)
		err = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	for (size_t i = 0; !err && i < ARRAY_SIZE(conds); i++)
		err = pthread_cond_init(conds[i], &attr);
	for (size_t i = 0; !err && i < ARRAY_SIZE(locks); i++)
		err = pthread_mutex_init(locks[i], NULL);
	pthread_condattr_destroy(&attr);
	return -err;
}

static void capture_free(struct shfs_capture *c)
{
	shfs_assert(!c->reads && !c->stores && !c->puts && !c->commits);
	shfs_assert(!c->n_reads && !c->n_stores && !c->n_puts && !c->n_held);
	shfs_assert(!c->head && !c->n_events && !c->event_bytes);
	shfs_assert(!c->memory && !c->small_memory);
	pthread_cond_destroy(&c->work);
	pthread_cond_destroy(&c->written);
	pthread_cond_destroy(&c->change);
	pthread_cond_destroy(&c->purging);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->held_lock);
	pthread_mutex_destroy(&c->redactor_lock);
	shfs_closep(&c->alert_fd);
	shfs_redactor_free(c->redactor);
	shfs_allowance_free(c->allowance);
	pool_free(c->pool);
	free(c->forgotten);
	free(c->root);
	free(c);
}

static int capture_new(struct shfs_store *store,
                       const struct shfs_capture_options *options,
                       struct shfs_capture **out)
{
	struct shfs_capture *c = calloc(1, sizeof(*c));
	int err = c ? capture_init_locks(c) : -ENOMEM;

	if (err < 0) {
		free(c);
		return err;
	}
	c->store = store;
	c->compression = options->config->compression;
	c->private_keys = options->config->private_keys;
	c->wait_ms = options->config->wait_ms;
	c->whole_max = options->config->fingerprint_bytes;
	c->queue_max = options->queue_max ? options->queue_max : CAPTURE_QUEUE_MAX;
	c->reads_max = shfs_proc_share_of_fds(8, CAPTURE_READS_MAX);
	c->puts_max = shfs_proc_share_of_fds(4, CAPTURE_PUTS_MAX);
	c->alert_fd = -1;
	c->alerts = strcmp(options->kind, "restore") != 0;
	c->spool = options->spool;
	c->root = strdup(options->root);
	c->pool = pool_new();
	err = c->root && c->pool ? shfs_secrets_redactor(options->config, &c->redactor)
	                         : -ENOMEM;
	if (!err)
		err = shfs_allowance_new(options->config->other_users_bytes,
		                         &c->allowance);
	if (err < 0) {
		capture_free(c);
		return err;
	}
	*out = c;
	return 0;
}

/* Ends the threads that have begun, in the order in which work flows. */
static void capture_end_threads(struct shfs_capture *c, bool writer)
{
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	pthread_cond_broadcast(&c->work);
	pthread_cond_broadcast(&c->written);
	pthread_cond_broadcast(&c->purging);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_threads; i++)
		pthread_join(c->archivers[i], NULL);
	if (writer)
		pthread_join(c->writer, NULL);
	while (c->held) /* snapshots may outlive the capture */
		capture_let_go(c->held);
	if (c->has_purger)
		pthread_join(c->purger, NULL);
	capture_purge_end(c);
}

static int capture_start_threads(struct shfs_capture *c, unsigned n)
{
	sigset_t all, before;
	bool writer;
	int err;

	/*
	 * Signals are left to the program's own threads. SIGXFSZ is blocked, so that a
	 * write beyond a limit fails with EFBIG.
	 */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	c->n_archivers = n;
	err = pthread_create(&c->writer, NULL, capture_writer, c);
	writer = !err;
	if (!err)
		err = pthread_create(&c->purger, NULL, capture_purger, c);
	c->has_purger = writer && !err;
	while (!err && c->n_threads < n) {
		err = pthread_create(&c->archivers[c->n_threads], NULL, capture_archiver,
		                     c);
		c->n_threads += !err;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	pthread_mutex_lock(&c->lock);
	c->n_archivers -= n - c->n_threads;
	/* The caller may install a seccomp filter once this returns, so the threads must
	 * have made the system calls of their start. */
	while (c->n_started < writer + c->has_purger + c->n_threads)
		pthread_cond_wait(&c->change, &c->lock);
	pthread_mutex_unlock(&c->lock);
	if (err)
		capture_end_threads(c, writer);
	return -err;
}

int shfs_capture_open(struct shfs_store *store,
                      const struct shfs_capture_options *options,
                      struct shfs_capture **out)
{
	const struct shfs_journal_options journal = {
		.kind = options->kind,
		.root = options->root,
		.told = options->spool ? shfs_spool_identity(options->spool) : NULL,
	};
	unsigned threads = options->threads ? options->threads : 2;
	struct shfs_capture *c;
	int err = capture_new(store, options, &c);

	if (err < 0)
		return err;
	err = shfs_journal_open(store, &journal, &c->journal);
	if (!err)
		err = shfs_object_begin(store);
	/* The journal could be begun, so an earlier alert of this project is obsolete. */
	if (!err)
		capture_clear_alert(c);
	if (!err && capture_purge_resume(c))
		shfs_log("cannot read which secrets are to be removed from the store");
	if (!err)
		err = capture_start_threads(c, MIN(threads, CAPTURE_THREADS_MAX));
	if (err < 0) {
		shfs_journal_close(c->journal);
		capture_free(c);
		return err;
	}
	*out = c;
	return 0;
}

void shfs_capture_close(struct shfs_capture *c)
{
	if (!c)
		return;
	capture_end_threads(c, true);
	shfs_journal_close(c->journal);
	capture_free(c);
}

/* --- events --- */

int capture_record_strings(struct shfs_record *rec,
                           struct shfs_bytes *out[static CAPTURE_STRINGS_MAX])
{
	switch (rec->type) {
	case SHFS_REC_PROCESS:
		out[0] = &rec->process.exe;
		out[1] = &rec->process.cwd;
		out[2] = &rec->process.argv;
		out[3] = &rec->process.marker;
		out[4] = &rec->process.streams;
		out[5] = &rec->process.environment;
		return 6;
	case SHFS_REC_PROGRAM:
		out[0] = &rec->program.path;
		out[1] = &rec->program.manager;
		out[2] = &rec->program.package;
		out[3] = &rec->program.version;
		return 4;
	case SHFS_REC_LOOKUP:
		out[0] = &rec->lookup.list;
		return 1;
	case SHFS_REC_ACCESS:
		out[0] = &rec->access.path;
		return 1;
	case SHFS_REC_PATHOP:
		out[0] = &rec->pathop.path;
		out[1] = &rec->pathop.path2;
		out[2] = &rec->pathop.former.xattrs;
		out[3] = &rec->pathop.former.text;
		return 4;
	case SHFS_REC_PREIMAGE:
		out[0] = &rec->preimage.path;
		return 1;
	case SHFS_REC_EXIT:
	case SHFS_REC_LOST:
		return 0;
	default:
		return -1;
	}
}

void capture_move_strings(struct shfs_bytes *const strings[static CAPTURE_STRINGS_MAX],
                          int n, char *to)
{
	for (int i = 0; i < n; i++) {
		if (strings[i]->len)
			memcpy(to, strings[i]->data, strings[i]->len);
		strings[i]->data = to;
		to += strings[i]->len;
	}
}

static struct capture_event *event_new(const struct shfs_record *rec,
                                       struct shfs_snapshot *const content[2])
{
	struct shfs_record copy = *rec;
	struct shfs_bytes *strings[CAPTURE_STRINGS_MAX];
	size_t bytes = sizeof(struct capture_event);
	int n = capture_record_strings(&copy, strings);
	struct capture_event *event;

	for (int i = 0; i < n; i++)
		bytes += strings[i]->len;
	event = n < 0 ? NULL : malloc(bytes);
	if (!event)
		return NULL;
	capture_move_strings(strings, n, event->text);
	if (!copy.boot_resolution_ns)
		copy.boot_resolution_ns = 1;
	event->next = NULL;
	event->rec = copy;
	event->bytes = bytes;
	for (int i = 0; i < 2; i++)
		event->content[i] =
			content && content[i] ? shfs_snapshot_ref(content[i]) : NULL;
	return event;
}

void capture_free_event(struct capture_event *event)
{
	if (!event)
		return;
	for (int i = 0; i < 2; i++)
		shfs_snapshot_unref(event->content[i]);
	free(event);
}

void capture_note_crowd(struct shfs_capture *c)
{
	bool crowded = c->n_events > c->queue_max / 2 ||
	               c->event_bytes > CAPTURE_EVENT_BYTES_MAX / 2;

	if (crowded != atomic_load_explicit(&c->crowded, memory_order_relaxed))
		atomic_store_explicit(&c->crowded, crowded, memory_order_relaxed);
}

/* Queues an event; its sequence number is given under the same lock. */
static void capture_push(struct shfs_capture *c, struct capture_event *event)
{
	shfs_assert_held(&c->lock);
	shfs_assert(!event->next && !c->head == !c->tail && !c->head == !c->n_events);
	event->rec.seq = ++c->seq;
	if (event->rec.time.real_ns == 0)
		event->rec.time = shfs_time_now();
	for (int i = 0; i < 2; i++)
		if (event->content[i])
			event->content[i]->told = event->content[i]->depth;
	if (c->spool)
		shfs_spool_add(c->spool, &event->rec,
		               (bool[]){ event->content[0], event->content[1] });
	event->queued_ns = shfs_clock_ns(CLOCK_MONOTONIC_COARSE);
	if (c->tail)
		c->tail->next = event;
	else
		c->head = event;
	c->tail = event;
	c->n_events++;
	c->event_bytes += event->bytes;
	if (event->rec.type != SHFS_REC_LOST)
		c->stats.queued++;
	capture_note_crowd(c);
	capture_wake_writer(c);
}

void capture_lose(struct shfs_capture *c, uint64_t n, int error)
{
	shfs_assert_held(&c->lock);
	shfs_assert(n && error < 0);
	shfs_debug(CAPTURE, "%" PRIu64 " records lost: %s", n, strerrordesc_np(-error));
	if (!c->lost_pending)
		c->lost_error = error;
	if (!c->unsynced_error)
		c->unsynced_error = error;
	c->lost_pending += n;
	c->stats.lost += n;
	atomic_fetch_add(&c->losses, 1);
}

uint64_t shfs_capture_losses(struct shfs_capture *capture)
{
	return atomic_load(&capture->losses);
}

void capture_tell_lost(struct shfs_capture *c)
{
	struct shfs_record rec = {
		.type = SHFS_REC_LOST,
		.lost = { .count = c->lost_pending, .error = -c->lost_error },
	};
	struct capture_event *event;

	if (!c->lost_pending)
		return;
	event = event_new(&rec, NULL);
	if (!event)
		return;
	c->lost_pending = 0;
	capture_push(c, event);
}

/* Returns the error for which the event cannot be queued, or 0. */
static int capture_refuses(const struct shfs_capture *c,
                           const struct capture_event *event)
{
	shfs_assert(!event || event->bytes >= sizeof(*event));
	if (!event)
		return -ENOMEM;
	if (c->closing)
		return -ESHUTDOWN;
	if (c->error && event->rec.type != SHFS_REC_PROCESS)
		return c->error;
	if (c->n_events >= c->queue_max ||
	    c->event_bytes + event->bytes > CAPTURE_EVENT_BYTES_MAX)
		return -ENOBUFS;
	return 0;
}

/*
 * Lock held, and let go meanwhile. Waits for room in the queue, so that users are no
 * faster than the store. A store that took nothing for wait_ms is not waited for again
 * until it does.
 */
static int capture_await_room(struct shfs_capture *c, const struct capture_event *event)
{
	int64_t until = capture_now() + c->wait_ms * (SHFS_NSEC_PER_SEC / 1000);
	int err;

	while ((err = capture_refuses(c, event)) == -ENOBUFS && !c->stalled) {
		c->n_waiters++;
		if (!capture_wait(c, &c->change, until)) {
			c->stalled = true;
			shfs_debug(CAPTURE,
			           "%zu events are queued: nobody waits for the "
			           "store any more",
			           c->n_events);
		}
		c->n_waiters--;
	}
	return err;
}

void shfs_capture_throttle(struct shfs_capture *c)
{
	int64_t until;

	if (!atomic_load_explicit(&c->crowded, memory_order_relaxed))
		return;
	until = capture_now() + c->wait_ms * (SHFS_NSEC_PER_SEC / 1000);
	pthread_mutex_lock(&c->lock);
	while (c->crowded && !c->error && !c->stalled && !c->closing) {
		c->n_waiters++;
		if (!capture_wait(c, &c->change, until))
			c->stalled = true;
		c->n_waiters--;
	}
	pthread_mutex_unlock(&c->lock);
}

/* Redacts words with a NUL between them. Without memory to do so, they are left out.
 * buffer: NULL, or what is to be freed. */
static void redact_words(struct shfs_capture *c, struct shfs_bytes *words, char **buffer)
{
	int r;

	pthread_mutex_lock(&c->redactor_lock);
	r = shfs_redact(c->redactor, words->data, words->len, true, buffer, &words->len);
	pthread_mutex_unlock(&c->redactor_lock);
	if (r > 0)
		words->data = *buffer;
	else if (r < 0)
		words->len = 0;
}

/* Makes the event of a process, with redacted and cut arguments and a redacted
 * environment. */
static struct capture_event *process_event_new(struct shfs_capture *c,
                                               const struct shfs_record *rec)
{
	struct shfs_record copy = *rec;
	struct shfs_bytes *argv = &copy.process.argv;
	_cleanup_free_ char *redacted = NULL, *redacted_environment = NULL;
	_cleanup_buf_ struct shfs_buf cut = { 0 };

	redact_words(c, argv, &redacted);
	redact_words(c, &copy.process.environment, &redacted_environment);
	if (argv->len > SHFS_ARGV_MAX) {
		shfs_buf_add(&cut, argv->data, SHFS_ARGV_MAX);
		shfs_buf_add(&cut, SHFS_ARGV_CUT, sizeof(SHFS_ARGV_CUT) - 1);
		*argv = (struct shfs_bytes){ cut.data, cut.len };
	}
	return event_new(&copy, NULL);
}

uint64_t shfs_capture_emit(struct shfs_capture *c, struct shfs_record *rec,
                           struct shfs_snapshot *const content[2])
{
	struct capture_event *event = rec->type == SHFS_REC_PROCESS
	                                      ? process_event_new(c, rec)
	                                      : event_new(rec, content);
	int err;

	pthread_mutex_lock(&c->lock);
	err = capture_await_room(c, event);
	if (err < 0) {
		capture_lose(c, 1, err);
		rec->seq = 0;
	} else {
		if (!c->error)
			capture_tell_lost(c);
		capture_push(c, event);
		rec->seq = event->rec.seq;
		rec->time = event->rec.time;
	}
	pthread_mutex_unlock(&c->lock);
	if (err < 0)
		capture_free_event(event);
	return rec->seq;
}

void shfs_capture_lose(struct shfs_capture *c, int error)
{
	pthread_mutex_lock(&c->lock);
	capture_lose(c, 1, error);
	pthread_mutex_unlock(&c->lock);
}

static int queue_sync(struct shfs_capture *c, const struct capture_sync *how)
{
	struct capture_sync *sync = malloc(sizeof(*sync));

	if (!sync)
		return -ENOMEM;
	*sync = *how;
	pthread_mutex_lock(&c->lock);
	if (!c->error)
		capture_tell_lost(c);
	sync->seq = c->seq;
	LL_APPEND(c->syncs, sync);
	pthread_cond_signal(&c->written);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

int shfs_capture_sync(struct shfs_capture *c, void (*done)(void *arg, int error),
                      void *arg)
{
	return queue_sync(c, &(struct capture_sync){ .done = done, .arg = arg });
}

int shfs_capture_seal(struct shfs_capture *c,
                      void (*done)(void *arg, int error, const char *segment), void *arg)
{
	return queue_sync(c, &(struct capture_sync){ .sealed = done, .arg = arg });
}

void shfs_capture_get_stats(struct shfs_capture *c, struct shfs_capture_stats *out)
{
	pthread_mutex_lock(&c->lock);
	*out = c->stats;
	out->error = c->error;
	out->memory_bytes = c->memory + c->event_bytes;
	pthread_mutex_unlock(&c->lock);
	out->memory_bytes += shfs_object_memory(c->store);
}
