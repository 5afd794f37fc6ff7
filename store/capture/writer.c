/* SPDX-License-Identifier: MIT */
/* The writer's thread: commits objects, appends events, and sees the store through
 * failures. */
#include "store/capture/capture-internal.h"

#include "common/debug.h"
#include "common/io.h"
#include "common/quote.h"
#include "store/capture/alert.h"
#include "store/objects/objects.h"
#include "store/objects/packs.h"
#include "store/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

/* Room that a failed store must have again: more than a collection gives up of its
 * reserve.
 */
#define RECOVERY_BYTES (2 * SHFS_RESERVE_BYTES)

/* --- which events can be written, and when; with the lock held --- */

static bool event_is_settled(const struct capture_event *event)
{
	for (int i = 0; i < 2; i++)
		if (event->content[i] && event->content[i]->unsettled)
			return false;
	return true;
}

static bool writer_can(const struct shfs_capture *c)
{
	return c->puts || (c->head && event_is_settled(c->head));
}

static bool writer_is_due(const struct shfs_capture *c)
{
	return c->closing || c->syncs || c->n_events >= CAPTURE_BATCH || c->crowded ||
	       (c->puts && c->memory >= CAPTURE_MEMORY_MAX) ||
	       c->n_puts >= MIN(c->puts_max, (size_t)CAPTURE_COMMIT);
}

static int64_t writer_deadline(const struct shfs_capture *c)
{
	int64_t oldest = INT64_MAX - CAPTURE_BATCH_NS;

	if (c->head)
		oldest = c->head->queued_ns;
	if (c->puts)
		oldest = MIN(oldest, c->puts->put_ns);
	return oldest + CAPTURE_BATCH_NS;
}

/* Does not wake the writer for events that only add to a batch that is not due. */
void capture_wake_writer(struct shfs_capture *c)
{
	shfs_assert_held(&c->lock);
	if (writer_can(c) && (!c->writer_timed || writer_is_due(c)))
		pthread_cond_signal(&c->written);
}

/* --- failures --- */

bool capture_is_store_error(int error)
{
	switch (error) {
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
	case -EFBIG:
	case -EBADMSG: /* the base of the delta is damaged */
	case -EEXIST:  /* too many contents of one hash */
		return false;
	default:
		return error < 0;
	}
}

void capture_fail(struct shfs_capture *c, int error, uint64_t bytes)
{
	if (!c->error) {
		c->error = error;
		shfs_debug(CAPTURE, "the store fails: %s", strerrordesc_np(-error));
	}
	c->error_bytes = MAX(c->error_bytes, bytes);
	pthread_cond_signal(&c->written);
	pthread_cond_broadcast(&c->work);
	pthread_cond_broadcast(&c->change);
}

/* Frees an event that will not be in the journal, and counts it as lost. */
static void writer_lose(struct shfs_capture *c, struct capture_event *event, int error)
{
	if (event->rec.type == SHFS_REC_LOST) {
		if (!c->lost_pending)
			c->lost_error = -event->rec.lost.error;
		c->lost_pending += event->rec.lost.count;
	} else {
		shfs_assert(c->stats.queued);
		c->stats.queued--;
		capture_lose(c, 1, error);
	}
	capture_free_event(event);
}

/* Takes the first event off the queue. */
static struct capture_event *writer_pop(struct shfs_capture *c)
{
	struct capture_event *event = c->head;

	shfs_assert(c->n_events && c->event_bytes >= event->bytes);
	c->head = event->next;
	if (!c->head)
		c->tail = NULL;
	c->n_events--;
	shfs_assert(!c->head == !c->n_events);
	c->event_bytes -= event->bytes;
	capture_note_crowd(c);
	return event;
}

/* Puts an event back before all others. */
static void writer_unpop(struct shfs_capture *c, struct capture_event *event)
{
	shfs_assert(!c->head || event->rec.seq < c->head->rec.seq);
	event->next = c->head;
	c->head = event;
	if (!c->tail)
		c->tail = event;
	c->n_events++;
	c->event_bytes += event->bytes;
	capture_note_crowd(c);
}

/*
 * Drops the queued events. PROCESS records stay unless all is set: accesses after the
 * failure will name them by their sequence numbers.
 */
static void writer_drop(struct shfs_capture *c, bool all)
{
	struct capture_event *kept = NULL;

	while (c->head) {
		struct capture_event *event = writer_pop(c);

		if (all || event->rec.type != SHFS_REC_PROCESS)
			writer_lose(c, event, c->error);
		else
			LL_PREPEND(kept, event);
	}
	while (kept) { /* in reverse order */
		struct capture_event *event = kept;

		LL_DELETE(kept, event);
		writer_unpop(c, event);
	}
}

/* --- committing objects --- */

/*
 * Without the lock. done[i]: the object of puts[i] is durable. Returns the error of the
 * store.
 */
static int commit_puts(struct shfs_store *store, struct shfs_put **puts, size_t n,
                       bool *done)
{
	int err = shfs_object_commit(store, puts, n);

	for (size_t i = 0; i < n; i++)
		done[i] = err >= 0;
	if (err >= 0 || capture_is_store_error(err))
		return MIN(err, 0);
	for (size_t i = 0; i < n; i++) { /* only some of them fail */
		err = shfs_object_commit(store, &puts[i], 1);
		if (capture_is_store_error(err))
			return err;
		done[i] = err >= 0;
	}
	return 0;
}

static void count_stored_object(struct shfs_capture_stats *stats,
                                const struct capture_job *job, uint64_t stored_bytes)
{
	if (!stored_bytes) /* the object existed before */
		return;
	stats->objects++;
	stats->object_bytes += job->len;
	stats->stored_bytes += stored_bytes;
}

/* Lock held, and let go meanwhile. Commits up to a batch of the objects that are put. */
static void writer_commit(struct shfs_capture *c)
{
	struct capture_job *jobs[CAPTURE_COMMIT];
	struct shfs_put *puts[CAPTURE_COMMIT];
	struct shfs_object_id ids[CAPTURE_COMMIT];
	uint64_t stored[CAPTURE_COMMIT], bytes = 0;
	bool done[CAPTURE_COMMIT];
	size_t n = 0;
	int err = c->error;

	while (c->puts && n < CAPTURE_COMMIT) {
		struct capture_job *job = c->puts;

		DL_DELETE(c->puts, job);
		if (capture_drop_secret(job))
			continue;
		DL_APPEND(c->commits, job);
		jobs[n] = job;
		puts[n++] = TAKE_PTR(job->put);
		bytes = MAX(bytes, (uint64_t)job->len);
	}
	if (!n)
		return;
	pthread_mutex_unlock(&c->lock);
	memset(done, 0, sizeof(done));
	if (!err)
		err = commit_puts(c->store, puts, n, done);
	for (size_t i = 0; i < n; i++) {
		if (done[i]) {
			ids[i] = shfs_put_id(puts[i]);
			stored[i] = shfs_put_stored_bytes(puts[i]);
			jobs[i]->leased = true;
			shfs_lease_keep(c->store); /* replaces the put's lease */
		}
		shfs_put_free(puts[i]);
	}
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < n; i++) {
		DL_DELETE(c->commits, jobs[i]);
		if (done[i]) {
			count_stored_object(&c->stats, jobs[i], stored[i]);
			/* only now is it known what a content takes beside others */
			shfs_allowance_use(c->allowance, jobs[i]->snapshot->author,
			                   stored[i], shfs_clock_ns(CLOCK_BOOTTIME));
		}
		capture_finish_job(jobs[i], done[i] ? &ids[i] : NULL);
	}
	shfs_assert(c->n_puts >= n);
	c->n_puts -= n;
	if (err < 0 && !c->error)
		capture_fail(c, err, bytes);
	pthread_cond_broadcast(&c->work);
}

/* --- writing events --- */

static void fill_content(struct shfs_capture *c, struct shfs_content *out,
                         struct shfs_snapshot *s)
{
	if (!s)
		return;
	*out = s->content;
	if (capture_is_secret(s))
		capture_hide(out);
	if (capture_is_forgotten(s)) {
		out->flags &= ~SHFS_CONTENT_OBJECT;
		out->object = (struct shfs_object_id){ 0 };
	}
	if (!s->counted) {
		c->stats.skipped += !!(out->flags & SHFS_CONTENT_SKIPPED);
		c->stats.incomplete += !!(out->flags & SHFS_CONTENT_INCOMPLETE);
		s->counted = true;
	}
}

void capture_record_contents(struct shfs_record *rec, struct shfs_content *out[static 2])
{
	out[0] = out[1] = NULL;
	switch (rec->type) {
	case SHFS_REC_ACCESS:
		out[0] = &rec->access.seen;
		out[1] = &rec->access.made;
		break;
	case SHFS_REC_PATHOP:
		out[0] = &rec->pathop.content;
		out[1] = &rec->pathop.victim;
		break;
	case SHFS_REC_PREIMAGE:
		out[0] = &rec->preimage.content;
		break;
	case SHFS_REC_PROGRAM:
		out[0] = &rec->program.content;
		break;
	default:
		break;
	}
}

const char *capture_why_not(uint32_t flags)
{
	return flags & SHFS_CONTENT_SKIP_TYPE     ? "it is not a regular file"
	       : flags & SHFS_CONTENT_SKIP_RULE   ? "a rule"
	       : flags & SHFS_CONTENT_SKIP_SIZE   ? "its size"
	       : flags & SHFS_CONTENT_SKIP_USER   ? "another user's allowance is used up"
	       : flags & SHFS_CONTENT_SKIP_BUDGET ? "too much is in flight"
	       : flags & SHFS_CONTENT_SKIP_ERROR  ? "it could not be read or stored"
	       : flags & SHFS_CONTENT_CHANGING    ? "it is being changed"
	                                          : "nobody asked for it";
}

/* Reports for debugging what becomes of one content of a record. */
static void debug_content(const struct shfs_record *rec,
                          const struct shfs_content *content)
{
	struct shfs_bytes path = rec->type == SHFS_REC_ACCESS    ? rec->access.path
	                         : rec->type == SHFS_REC_PATHOP  ? rec->pathop.path
	                         : rec->type == SHFS_REC_PROGRAM ? rec->program.path
	                                                         : rec->preimage.path;
	char object[44];

	shfs_object_name(&content->object, object);
	shfs_debug(CAPTURE, "%.*s: record %" PRIu64 ", %" PRIu64 " bytes%s: %s%s",
	           (int)path.len, path.data, rec->seq, content->size,
	           content->flags & SHFS_CONTENT_INCOMPLETE ? ", incomplete" : "",
	           content->flags & SHFS_CONTENT_OBJECT ? "object " : "not archived: ",
	           content->flags & SHFS_CONTENT_OBJECT
	                   ? object
	                   : capture_why_not(content->flags));
}

static void fill_contents(struct shfs_capture *c, struct capture_event *event)
{
	struct shfs_content *contents[2];

	capture_record_contents(&event->rec, contents);
	for (int i = 0; i < 2; i++)
		if (contents[i])
			fill_content(c, contents[i], event->content[i]);
	if (shfs_debug_on(CAPTURE))
		for (int i = 0; i < 2; i++)
			if (contents[i] && event->content[i])
				debug_content(&event->rec, contents[i]);
}

static bool is_record_error(int error)
{
	return error == -EINVAL || error == -EMSGSIZE || error == -ENOMEM;
}

/*
 * Without the lock. each[i] becomes 0 or the error that kept record i out; a record that
 * cannot be written takes no other with it. Returns the error of the store.
 */
static int append_records(struct shfs_journal *journal,
                          const struct shfs_record *const *records, size_t n, int *each)
{
	size_t appended, one;
	int err = shfs_journal_append(journal, records, n, &appended);
	bool singly = n > 1 && is_record_error(err);

	memset(each, 0, appended * sizeof(*each));
	for (size_t i = appended; i < n; i++) {
		if (singly)
			err = shfs_journal_append(journal, &records[i], 1, &one);
		if (singly && err < 0 && !is_record_error(err))
			singly = false; /* the store fails, also for the rest */
		each[i] = err;
	}
	return is_record_error(err) ? 0 : err;
}

/* The events that are written together. */
struct batch {
	struct capture_event *events[CAPTURE_BATCH];
	const struct shfs_record *records[CAPTURE_BATCH];
	int each[CAPTURE_BATCH];
	size_t n;
};

/* Lock held, and let go meanwhile. Takes the longest prefix of the queue that is settled.
 */
static void batch_take(struct shfs_capture *c, struct batch *b)
{
	for (b->n = 0; b->n < CAPTURE_BATCH && c->head && event_is_settled(c->head);
	     b->n++) {
		if (b->n && b->n % CAPTURE_TAKE == 0) { /* lets other threads in */
			pthread_mutex_unlock(&c->lock);
			pthread_mutex_lock(&c->lock);
		}
		b->events[b->n] = writer_pop(c);
		shfs_assert(!b->n ||
		            b->events[b->n]->rec.seq > b->records[b->n - 1]->seq);
		fill_contents(c, b->events[b->n]);
		b->records[b->n] = &b->events[b->n]->rec;
	}
	if (!b->n)
		return;
	c->stalled = false;
	if (c->n_waiters)
		pthread_cond_broadcast(&c->change);
}

/* Ends the leases of objects that written records name. */
static void batch_let_go(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		for (int k = 0; k < 2 && !b->each[i]; k++)
			if (b->events[i]->content[k])
				capture_let_go(b->events[i]->content[k]);
}

/* Without the lock. Frees the events that are in the journal; returns how many of them
 * are no LOST records. */
static size_t batch_free_written(struct batch *b)
{
	size_t told = 0;

	for (size_t i = 0; i < b->n; i++) {
		if (b->each[i])
			continue;
		told += b->records[i]->type != SHFS_REC_LOST;
		capture_free_event(TAKE_PTR(b->events[i]));
	}
	return told;
}

/* Lock held. Puts the events that are not in the journal back, or counts them as lost. */
static void batch_give_up(struct shfs_capture *c, struct batch *b, bool synced)
{
	while (b->n-- > 0) { /* backwards, so that events put back keep their order */
		struct capture_event *event = b->events[b->n];
		int err = b->each[b->n];

		if (!event)
			continue;
		/* A PROCESS record is put back only if it is surely not in the file:
		 * after a failed sync it may be. */
		if (synced && !is_record_error(err) &&
		    event->rec.type == SHFS_REC_PROCESS)
			writer_unpop(c, event);
		else
			writer_lose(c, event, err);
	}
}

/* Lock held. Notes in the spool that records which are not queued are in the journal, or
 * counted as lost. */
static void note_done(struct shfs_capture *c)
{
	if (c->spool)
		shfs_spool_done(c->spool, c->head ? c->head->rec.seq - 1 : c->seq);
}

/* Lock held, and let go meanwhile. Writes a batch. */
static int writer_write(struct shfs_capture *c)
{
	struct batch batch, *b = &batch;
	int err, sync_err = 0;
	size_t told;

	batch_take(c, b);
	if (!b->n)
		return 0;
	pthread_mutex_unlock(&c->lock);
	err = append_records(c->journal, b->records, b->n, b->each);
	if (!err)
		sync_err = shfs_journal_sync(c->journal);
	for (size_t i = 0; sync_err && i < b->n; i++)
		if (!b->each[i])
			b->each[i] = sync_err;
	batch_let_go(b);
	told = batch_free_written(b);
	pthread_mutex_lock(&c->lock);
	shfs_assert(c->stats.queued >= told);
	c->stats.records += told;
	c->stats.queued -= told;
	batch_give_up(c, b, !sync_err);
	note_done(c);
	if (!err)
		err = sync_err;
	if (err < 0)
		capture_fail(c, err, 0);
	return err;
}

/* --- forgotten objects --- */

/* Orders by id; for equal ids, the later forget comes first. */
static int compare_forgotten(const void *a, const void *b)
{
	const struct capture_forgotten *x = a, *y = b;
	int c = shfs_object_compare(&x->id, &y->id);

	return c ? c : (x->forget < y->forget) - (x->forget > y->forget);
}

/* Lock held. */
static int note_forgotten(struct shfs_capture *c, const struct shfs_object_id *ids,
                          size_t n)
{
	struct capture_forgotten *all =
		reallocarray(c->forgotten, c->n_forgotten + n, sizeof(*all));
	size_t kept = 0;

	if (!all)
		return -ENOMEM;
	c->forgotten = all;
	for (size_t i = 0; i < n; i++)
		all[c->n_forgotten + i] =
			(struct capture_forgotten){ ids[i], c->forgets + 1 };
	n += c->n_forgotten;
	qsort(all, n, sizeof(*all), compare_forgotten);
	for (size_t i = 0; i < n; i++)
		if (!kept || shfs_object_compare(&all[i].id, &all[kept - 1].id) != 0)
			all[kept++] = all[i];
	c->n_forgotten = kept;
	shfs_debug(CAPTURE, "%zu objects are to be forgotten", kept);
	c->forgets++;
	return 0;
}

/* Lock held, and let go meanwhile. Reads which objects are being forgotten. */
static int writer_learn_forgotten(struct shfs_capture *c)
{
	struct shfs_object_id *ids = NULL;
	uint64_t generation = 0;
	size_t n = 0;
	int r;

	pthread_mutex_unlock(&c->lock);
	r = shfs_lease_begin(c->store);
	if (!r) {
		r = lease_forgotten(c->store, &ids, &n, &generation);
		shfs_lease_end(c->store);
	}
	pthread_mutex_lock(&c->lock);
	if (!r && n && generation != c->forgotten_in)
		r = note_forgotten(c, ids, n);
	if (!r)
		c->forgotten_in = generation;
	free(ids);
	return r;
}

/* --- syncs --- */

/* Lock held, and let go meanwhile. Begins a new segment for shfs_capture_seal. */
static void writer_seal(struct shfs_capture *c, const struct capture_sync *sync,
                        int error)
{
	char segment[SHFS_SEGMENT_NAME_MAX] = "";

	if (!error)
		error = writer_learn_forgotten(c);
	pthread_mutex_unlock(&c->lock);
	if (!error)
		error = shfs_journal_rotate(c->journal);
	shfs_journal_segment(c->journal, segment);
	sync->sealed(sync->arg, error, segment);
	pthread_mutex_lock(&c->lock);
}

/* Lock held. Completes the syncs whose events are all written or lost. True: there were
 * any, and the lock was let go meanwhile. */
static bool writer_tell_syncs(struct shfs_capture *c)
{
	int store_error = c->error, error = c->error ? c->error : c->unsynced_error;
	struct capture_sync *ready = NULL, *sync, *next;
	bool any;

	LL_FOREACH_SAFE (c->syncs, sync, next) {
		if (!c->error && c->head && c->head->rec.seq <= sync->seq)
			continue;
		LL_DELETE(c->syncs, sync);
		LL_APPEND(ready, sync);
		if (sync->done)
			c->unsynced_error = 0;
	}
	any = ready;
	if (any) {
		pthread_mutex_unlock(&c->lock);
		packs_let_go(
			c->store); /* the caller of a sync may have collected packs */
		pthread_mutex_lock(&c->lock);
	}
	LL_FOREACH_SAFE (ready, sync, next) {
		if (sync->sealed) {
			writer_seal(c, sync, store_error);
		} else {
			pthread_mutex_unlock(&c->lock);
			sync->done(sync->arg, error);
			pthread_mutex_lock(&c->lock);
		}
		free(sync);
	}
	return any;
}

/* --- the alert: a line in state/ that hooks show at the next prompt --- */

static void alert_text(const struct shfs_capture *c, int error, struct shfs_buf *out)
{
	shfs_buf_str(out, "shfs: not recording in ");
	shfs_quote_display(out, c->root, strlen(c->root));
	if (error == -ENOSPC || error == -EDQUOT)
		shfs_buf_str(out, ": no space left for the store (");
	else
		shfs_buf_str(out, ": cannot write to the store (");
	shfs_quote_display(out, c->store->path, strlen(c->store->path));
	shfs_buf_str(out, ")");
	if (error != -ENOSPC)
		shfs_buf_printf(out, ": %s", strerrordesc_np(-error));
	shfs_buf_str(out, "; see shfs status\n");
}

static void alert_raise(struct shfs_capture *c, int error)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	if (!c->alerts)
		return;
	alert_text(c, error, &text);
	if (!text.failed)
		shfs_alert_raise(c->store, c->root, text.data, &c->alert_fd);
}

void capture_clear_alert(struct shfs_capture *c)
{
	if (!c->alerts)
		return;
	shfs_alert_clear(c->store, c->root);
	if (c->alert_fd < 0)
		c->alert_fd = shfs_alert_reserve(c->store);
}

/* --- while the store fails --- */

/* Is there room again? 0 also if that cannot be asked: writing the journal will show it.
 */
static int writer_probe(struct shfs_store *store, uint64_t bytes)
{
	_cleanup_close_ int fd =
		openat(store->state_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno == EOPNOTSUPP || errno == EISDIR ? 0 : -errno;
	if (fallocate(fd, 0, 0, (off_t)bytes) == 0 || errno == EOPNOTSUPP ||
	    errno == EFBIG)
		return 0;
	return -errno;
}

/* Lock held, and let go meanwhile. Writes the events that wait, and the number of losses,
 * if the store has room again. */
static void writer_recover(struct shfs_capture *c)
{
	uint64_t bytes = MAX(c->error_bytes, (uint64_t)RECOVERY_BYTES);
	int err;

	pthread_mutex_unlock(&c->lock);
	packs_let_go(c->store); /* that may free the room that is needed */
	err = writer_probe(c->store, bytes);
	pthread_mutex_lock(&c->lock);
	if (err < 0 && !c->closing)
		return;
	capture_tell_lost(c);
	/* At the end the LOST record is tried even without room for more. */
	if (writer_write(c) < 0 || err < 0)
		return;
	c->error = 0;
	c->error_bytes = 0;
	shfs_debug(CAPTURE, "the store can be written again");
	pthread_mutex_unlock(&c->lock);
	capture_clear_alert(c);
	reserve_make(c->store);
	pthread_mutex_lock(&c->lock);
}

/* Lock held, and let go meanwhile. Does one round while the store cannot be written. */
static void writer_failed(struct shfs_capture *c)
{
	int64_t until = capture_now() + CAPTURE_RETRY_NS;
	int error = c->error;

	writer_commit(c); /* gives up the puts */
	writer_drop(c, false);
	pthread_mutex_unlock(&c->lock);
	alert_raise(c, error);
	pthread_mutex_lock(&c->lock);
	writer_tell_syncs(c);
	while (!c->closing && !c->syncs && capture_wait(c, &c->written, until))
		;
	while (c->closing && c->n_archivers)
		pthread_cond_wait(&c->written, &c->lock);
	writer_recover(c);
	if (c->error && c->closing)
		writer_drop(c, true);
}

/* --- while a collection waits --- */

/* Lock held, and let go meanwhile. Commits all puts, claims the objects that no record
 * names yet, and renews the lease. */
static void writer_renew(struct shfs_capture *c)
{
	struct shfs_snapshot *s;
	struct shfs_object_id *ids;
	size_t n = 0;

	(void)!writer_learn_forgotten(c); /* after an error forgotten ones are claimed */
	shfs_assert(!c->renewing);
	c->renewing = true;
	while (c->n_puts) {
		if (c->puts)
			writer_commit(c);
		else
			capture_wait(c, &c->written, capture_now() + CAPTURE_TICK_NS);
	}
	pthread_mutex_lock(&c->held_lock);
	ids = calloc(c->n_held + 1, sizeof(*ids));
	DL_FOREACH2 (c->held, s, held_next)
		if (ids && !capture_is_secret(s) && !capture_is_forgotten(s))
			ids[n++] = s->content.object;
	pthread_mutex_unlock(&c->held_lock);
	if (ids)
		(void)!shfs_lease_renew(c->store, ids,
		                        n); /* tried again after an error */
	free(ids);
	c->renewing = false;
	pthread_cond_broadcast(&c->work);
}

/* --- the thread --- */

/* Lock held, and let go meanwhile. Gives unused memory back to the system, which the heap
 * would keep. */
static void writer_tidy(struct shfs_capture *c)
{
	c->used_ns = 0;
	pthread_mutex_unlock(&c->lock);
	pool_trim(c->pool);
	malloc_trim(0);
	pthread_mutex_lock(&c->lock);
}

/* Lock held, and let go meanwhile. Waits until there may be something to do. */
static void writer_sleep(struct shfs_capture *c)
{
	int64_t now = capture_now(), until = INT64_MAX;

	if (c->used_ns && now - c->used_ns >= CAPTURE_QUIET_NS) {
		writer_tidy(c);
		return;
	}
	if (c->used_ns)
		until = c->used_ns + CAPTURE_QUIET_NS;
	if (c->n_held)
		until = MIN(until, now + CAPTURE_LEASE_NS);
	if (until == INT64_MAX)
		pthread_cond_wait(&c->written, &c->lock);
	else
		capture_wait(c, &c->written, until);
}

/* Lock held, and let go meanwhile. Sleeps, or writes. */
static void writer_step(struct shfs_capture *c)
{
	if (!writer_can(c)) {
		writer_sleep(c);
		return;
	}
	if (!writer_is_due(c)) {
		int64_t until = writer_deadline(c);

		if (capture_now() < until) {
			c->writer_timed = true;
			capture_wait(c, &c->written, until);
			c->writer_timed = false;
			return;
		}
	}
	writer_commit(c);
	if (!c->error)
		writer_write(c);
	c->used_ns = capture_now();
}

void *capture_writer(void *arg)
{
	struct shfs_capture *c = arg;

	capture_thread_begin(c, "shfs-journal");
	pthread_mutex_lock(&c->lock);
	for (;;) {
		if (!c->error && c->n_events < c->queue_max)
			capture_tell_lost(c);
		if (c->closing && !c->n_archivers && !c->head && !c->n_puts)
			break;
		if (shfs_lease_is_stale(c->store))
			writer_renew(c);
		if (c->error)
			writer_failed(c);
		else if (!writer_tell_syncs(c))
			writer_step(c);
	}
	writer_tell_syncs(c);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}
