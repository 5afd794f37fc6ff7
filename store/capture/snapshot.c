/* SPDX-License-Identifier: MIT */
/* Snapshots, and the archivers that read and store their contents. */
#include "store/capture/capture-internal.h"

#include "common/debug.h"
#include "common/io.h"
#include "store/objects/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <utlist.h>

#define CROWD     16 /* stores for each working archiver before another one is woken */
#define GATHER_NS 1000000 /* a woken archiver waits so long for more stores */

struct shfs_snapshot *shfs_snapshot_new(struct shfs_capture *capture)
{
	struct shfs_snapshot *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	atomic_init(&s->refs, 1);
	s->capture = capture;
	s->depth = s->told = -1;
	s->author = geteuid();
	return s;
}

void shfs_snapshot_author(struct shfs_snapshot *s, uid_t uid)
{
	s->author = uid;
}

struct shfs_snapshot *shfs_snapshot_ref(struct shfs_snapshot *s)
{
	unsigned refs = atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);

	shfs_assert(refs > 0);
	return s;
}

void shfs_snapshot_touch(struct shfs_snapshot *s)
{
	atomic_store(&s->touched, true);
}

/* A job under way holds a reference, so there is nothing to undo here. */
void shfs_snapshot_unref(struct shfs_snapshot *s)
{
	while (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) {
		struct shfs_snapshot *before = s->before;

		shfs_assert(!s->unsettled && !s->reading && !s->job);
		if (s->held)
			capture_let_go(s);
		free(s);
		s = before;
	}
}

void shfs_snapshot_follow(struct shfs_snapshot *s, struct shfs_snapshot *before)
{
	struct shfs_snapshot *after = NULL;

	pthread_mutex_lock(&s->capture->lock);
	if (s->depth < 0 && !s->before && s != before)
		s->before = after = shfs_snapshot_ref(before);
	/* only one step back is needed */
	after = after && !after->unsettled ? TAKE_PTR(after->before) : NULL;
	pthread_mutex_unlock(&s->capture->lock);
	shfs_snapshot_unref(after);
}

int shfs_snapshot_depth(const struct shfs_snapshot *s)
{
	int depth;

	pthread_mutex_lock(&s->capture->lock);
	depth = s->depth;
	pthread_mutex_unlock(&s->capture->lock);
	return depth;
}

void shfs_snapshot_linked(struct shfs_snapshot *s)
{
	pthread_mutex_lock(&s->capture->lock);
	s->content.flags |= SHFS_CONTENT_LINKED;
	pthread_mutex_unlock(&s->capture->lock);
}

static struct shfs_content content_of_stat(const struct stat *st)
{
	return (struct shfs_content){
		.flags = SHFS_CONTENT_KNOWN |
		         (S_ISREG(st->st_mode) && st->st_nlink > 1 ? SHFS_CONTENT_LINKED
		                                                   : 0),
		.mode = st->st_mode,
		.size = (uint64_t)st->st_size,
		.mtime_ns = shfs_timespec_ns(st->st_mtim),
		.ctime_ns = shfs_timespec_ns(st->st_ctim),
	};
}

/* --- waiting; with the lock held --- */

static void tell_waiters(struct shfs_capture *c)
{
	shfs_assert_held(&c->lock);
	if (c->n_waiters)
		pthread_cond_broadcast(&c->change);
}

static bool wait_for_change(struct shfs_capture *c, int64_t until_ns)
{
	bool in_time;

	c->n_waiters++;
	in_time = capture_wait(c, &c->change, until_ns);
	c->n_waiters--;
	return in_time;
}

static int64_t in_ms(unsigned ms)
{
	return capture_now() + ms * (SHFS_NSEC_PER_SEC / 1000);
}

/* Are these the same content, as far as both takes know? */
static bool snapshot_is_same(const struct shfs_snapshot *s, const struct shfs_content *a,
                             const struct shfs_content *b)
{
	uint32_t both = a->flags & b->flags;

	return (both & SHFS_CONTENT_KNOWN) && a->size == b->size &&
	       (a->mtime_ns == b->mtime_ns || atomic_load(&s->touched)) &&
	       (!shfs_content_hashed_alike(a->flags, b->flags) || a->phash == b->phash);
}

/*
 * Sets the result of one take, unless a later take has begun. The ctime of the first take
 * stays if the content is the same: a rename may have come between, whose record has this
 * content, too.
 */
static void snapshot_settle(struct shfs_snapshot *s, uint64_t claim,
                            enum shfs_depth depth, const struct shfs_content *content,
                            unsigned forgets)
{
	shfs_assert_held(&s->capture->lock);
	shfs_assert(s->unsettled && claim <= s->claim);
	if (s->claim == claim) {
		/* it may have got another name meanwhile */
		uint32_t linked = s->content.flags & SHFS_CONTENT_LINKED;
		int64_t first_ns = snapshot_is_same(s, &s->content, content)
		                           ? s->content.ctime_ns
		                           : content->ctime_ns;

		s->forgets = forgets;
		s->content = *content;
		s->content.flags |= linked;
		s->content.ctime_ns = first_ns;
		if (s->spoiled)
			s->content.flags |= SHFS_CONTENT_INCOMPLETE;
		s->depth = depth;
	}
	s->unsettled--;
	capture_wake_writer(s->capture);
}

static void snapshot_has_read(struct shfs_snapshot *s)
{
	shfs_assert(s->reading && s->reading <= s->unsettled);
	s->reading--;
	tell_waiters(s->capture);
}

bool capture_is_forgotten(const struct shfs_snapshot *s)
{
	const struct shfs_capture *c = s->capture;
	const struct capture_forgotten *found;

	if (s->forgets == c->forgets || !c->n_forgotten ||
	    !(s->content.flags & SHFS_CONTENT_OBJECT))
		return false;
	/* an id is the first member of a struct capture_forgotten */
	found = bsearch(&s->content.object, c->forgotten, c->n_forgotten,
	                sizeof(*c->forgotten), shfs_object_compare);
	return found && found->forget > s->forgets;
}

bool shfs_snapshot_is_forgotten(const struct shfs_snapshot *s)
{
	bool forgotten;

	if (!atomic_load_explicit(&s->capture->forgets, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&s->capture->lock);
	forgotten = capture_is_forgotten(s);
	pthread_mutex_unlock(&s->capture->lock);
	return forgotten;
}

/* --- a job --- */

static struct capture_job *job_new(struct shfs_snapshot *s, const struct stat *st,
                                   uint64_t max_bytes, uint64_t claim)
{
	struct capture_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->snapshot = shfs_snapshot_ref(s);
	job->claim = claim;
	job->fd = -1;
	job->before = *st;
	job->max_bytes = max_bytes;
	job->content = content_of_stat(st);
	return job;
}

static bool is_small(off_t size)
{
	return size <= CAPTURE_INLINE_MAX;
}

/* Lock held. Is there memory to read a file of this size? Large files leave some to the
 * small ones, which are often the more precious. */
static bool has_room(const struct shfs_capture *c, off_t size)
{
	return c->memory < CAPTURE_MEMORY_MAX ||
	       (is_small(size) && c->small_memory < CAPTURE_SMALL_MAX);
}

/* Lock held. Counts the memory that the job needs from now on. */
static void job_reserve(struct capture_job *job, size_t bytes)
{
	struct shfs_capture *c = job->snapshot->capture;

	shfs_assert(c->memory >= job->reserved);
	c->memory = c->memory - job->reserved + bytes;
	if (is_small(job->before.st_size)) {
		shfs_assert(c->small_memory >= job->reserved);
		c->small_memory = c->small_memory - job->reserved + bytes;
	}
	job->reserved = bytes;
}

static void job_free(struct capture_job *job)
{
	shfs_snapshot_unref(job->snapshot);
	free(job);
}

void capture_let_go(struct shfs_snapshot *s)
{
	struct shfs_capture *c = s->capture;
	bool held;

	pthread_mutex_lock(&c->held_lock);
	held = s->held;
	if (held) {
		shfs_assert(c->held && c->n_held);
		DL_DELETE2(c->held, s, held_prev, held_next);
		c->n_held--;
		s->held = false;
	}
	pthread_mutex_unlock(&c->held_lock);
	if (held)
		shfs_lease_end(c->store);
}

/* Hands the job's lease to the snapshot if that gets the job's object, else ends it. */
static void job_hand_over_lease(struct capture_job *job)
{
	struct shfs_snapshot *s = job->snapshot;

	struct shfs_capture *c = s->capture;
	bool held = false;

	pthread_mutex_lock(&c->held_lock);
	if (s->claim == job->claim && !s->held) {
		DL_APPEND2(c->held, s, held_prev, held_next);
		c->n_held++;
		s->held = held = true;
	}
	pthread_mutex_unlock(&c->held_lock);
	if (!held)
		shfs_lease_end(c->store);
}

void capture_finish_job(struct capture_job *job, const struct shfs_object_id *id)
{
	struct shfs_content content = job->content;
	struct shfs_capture *c = job->snapshot->capture;

	shfs_assert(job->fd < 0 && !job->data && !job->put);
	job_reserve(job, 0);
	tell_waiters(c);
	if (c->reads) /* they may wait for memory */
		pthread_cond_signal(&c->work);
	if (id) {
		content.flags |= SHFS_CONTENT_OBJECT;
		content.object = *id;
		if (job->leased)
			job_hand_over_lease(job);
	} else if (job->dropped) {
		capture_hide(&content);
	} else {
		content.flags |= SHFS_CONTENT_SKIP_ERROR;
	}
	snapshot_settle(job->snapshot, job->claim,
	                id || job->dropped                   ? SHFS_DEPTH_ARCHIVE
	                : content.flags & SHFS_CONTENT_PHASH ? SHFS_DEPTH_FINGERPRINT
	                                                     : SHFS_DEPTH_STAT,
	                &content, job->forgets);
	if (id)
		capture_note_object(job->snapshot, id, job->len);
	job_free(job);
}

static bool is_same_timespec(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static void job_give_bytes(struct capture_job *job)
{
	pool_give(job->snapshot->capture->pool, TAKE_PTR(job->data), job->room);
}

static int job_read_bytes(struct capture_job *job, int fd, size_t size)
{
	ssize_t n;

	job_give_bytes(job);
	job->data = pool_take(job->snapshot->capture->pool, size, &job->room);
	if (!job->data)
		return -ENOMEM;
	n = shfs_pread_full(fd, job->data, size, 0);
	if (n < 0)
		return (int)n;
	job->len = (size_t)n;
	return 0;
}

/*
 * Reads the file, and once more if it is no longer in the state that is to be archived. A
 * rename or chmod right after the close changes only the ctime, and utimes
 * (shfs_snapshot_touch) the mtime too; then the second reading shows whether the bytes
 * have stayed the same.
 */
static int job_read(struct capture_job *job, int fd)
{
	const struct stat *before = &job->before;
	struct stat now = *before;
	uint64_t first = 0;

	for (int attempt = 0; attempt < 2; attempt++) {
		size_t size = MIN((uint64_t)now.st_size, job->max_bytes);
		int err = job_read_bytes(job, fd, size);
		bool same;

		if (err < 0)
			return err;
		if (fstat(fd, &now) < 0)
			return -errno;
		same = now.st_size == before->st_size && (off_t)job->len == now.st_size &&
		       (is_same_timespec(now.st_mtim, before->st_mtim) ||
		        atomic_load(&job->snapshot->touched));
		job->changed = !same || !is_same_timespec(now.st_ctim, before->st_ctim);
		if (!job->changed)
			break;
		if (attempt == 0)
			first = shfs_object_hash64(job->data, job->len);
		else
			job->touched =
				same && shfs_object_hash64(job->data, job->len) == first;
	}
	now.st_nlink = before->st_nlink; /* a name may have been removed since */
	job->content = content_of_stat(&now);
	job->content.size = job->len;
	shfs_object_fingerprint_mem(job->data, job->snapshot->capture->whole_max,
	                            &job->content);
	return 0;
}

/*
 * Lock held. May the bytes that were read differ from those that a close left? A change
 * within one tick of the file system's clock leaves no trace in the times.
 */
static bool job_is_incomplete(const struct capture_job *job)
{
	int64_t late_ns = job->snapshot->late_ns;

	if (job->changed)
		return late_ns || !job->touched;
	return late_ns &&
	       late_ns - shfs_timespec_ns(job->before.st_ctim) < CAPTURE_TICK_NS;
}

/* Lock held. Takes the job off the list reads. */
static void job_leave_reads(struct capture_job *job)
{
	struct shfs_capture *c = job->snapshot->capture;

	if (job->snapshot->job != job)
		return;
	shfs_assert(c->reads && c->n_reads);
	DL_DELETE(c->reads, job);
	c->n_reads--;
	job->snapshot->job = NULL;
}

/*
 * Lock held, and let go meanwhile. Reads the job's file in this thread, through fd, and
 * hands the job on to stores. read: false if the store has failed, so that reading is in
 * vain.
 */
static void job_run_read(struct capture_job *job, int fd, bool read)
{
	struct shfs_snapshot *s = job->snapshot;
	struct shfs_capture *c = s->capture;
	int err = c->error;

	shfs_assert(s->reading && !job->reserved && !job->data);
	job_leave_reads(job);
	job_reserve(job, (size_t)job->before.st_size + CAPTURE_JOB_BYTES);
	pthread_mutex_unlock(&c->lock);

	if (read)
		err = job_read(job, fd);
	shfs_closep(&job->fd);
	job->fd = -1;
	job->dropped =
		!err && !c->private_keys && shfs_is_private_key(job->data, job->len);
	if (err < 0 || job->dropped)
		job_give_bytes(job);

	pthread_mutex_lock(&c->lock);
	if (job_is_incomplete(job)) {
		job->content.flags |= SHFS_CONTENT_INCOMPLETE;
		shfs_debug(CAPTURE, "file %" PRIu64 ":%" PRIu64 ": incomplete: %s",
		           (uint64_t)job->before.st_dev, (uint64_t)job->before.st_ino,
		           job->changed ? "it changed while it was read"
		                        : "it may have changed before it was read");
	}
	if (err < 0)
		shfs_debug(CAPTURE, "file %" PRIu64 ":%" PRIu64 ": not read: %s",
		           (uint64_t)job->before.st_dev, (uint64_t)job->before.st_ino,
		           strerrordesc_np(-err));
	snapshot_has_read(s);
	if (err < 0 || job->dropped) {
		capture_finish_job(job, NULL);
	} else {
		DL_APPEND(c->stores, job);
		c->n_stores++;
		/* working archivers look again by themselves */
		if (!c->n_up || c->n_stores > CROWD * c->n_up)
			pthread_cond_signal(&c->work);
	}
}

/* Lock held. Gets the object of the file's content before, or the one it is about to be.
 */
static bool job_before(const struct capture_job *job, struct shfs_object_id *out)
{
	const struct shfs_snapshot *before = job->snapshot->before;

	if (!before || !before->is_put)
		return false;
	*out = before->put;
	return true;
}

/* Lock held. Did the file itself bring the content to the store before? */
static bool brought_before(const struct shfs_snapshot *before,
                           const struct shfs_object_id *id)
{
	return before && before->is_put && !before->was_there &&
	       !shfs_object_compare(&before->put, id);
}

bool capture_drop_secret(struct capture_job *job)
{
	struct shfs_capture *c = job->snapshot->capture;
	const struct shfs_object_id id = shfs_put_id(job->put);

	if (!capture_must_drop(job->snapshot, &id, job->len,
	                       !shfs_put_stored_bytes(job->put)))
		return false;
	shfs_assert(c->n_puts);
	job->dropped = true;
	shfs_put_free(TAKE_PTR(job->put));
	c->n_puts--;
	pthread_cond_signal(&c->work);
	capture_finish_job(job, NULL);
	return true;
}

/* Lock held. Hands the job with its put on to puts; the put takes memory until it is
 * committed. */
static void job_has_put(struct capture_job *job, struct shfs_snapshot *before)
{
	struct shfs_snapshot *s = job->snapshot;
	struct shfs_capture *c = s->capture;
	size_t kept = (size_t)MIN(shfs_put_memory(job->put) + CAPTURE_JOB_BYTES,
	                          (uint64_t)job->reserved);

	shfs_assert(kept <= job->reserved);
	s->put = shfs_put_id(job->put);
	s->is_put = true;
	s->was_there =
		!shfs_put_stored_bytes(job->put) && !brought_before(before, &s->put);
	job->put_ns = capture_now();
	capture_note_holder(s, before);
	if (capture_drop_secret(job))
		return;
	job_reserve(job, kept);
	DL_APPEND(c->puts, job);
	capture_wake_writer(c);
}

/* Returns the memory to compress the job's bytes: for the result, and for the base. */
static size_t job_work_bytes(const struct capture_job *job)
{
	return 2 * job->len;
}

/* Lock held. May another job be stored? If memory is short, only one at a time. */
static bool may_store(const struct shfs_capture *c)
{
	if (!c->stores || c->error)
		return c->stores;
	return c->n_puts < c->puts_max && !c->renewing &&
	       (!c->n_storing ||
	        c->memory + job_work_bytes(c->stores) <= CAPTURE_MEMORY_MAX);
}

/* Lock held, and let go meanwhile. Hands the job on to puts. */
static void job_run_store(struct capture_job *job)
{
	struct shfs_capture *c = job->snapshot->capture;
	struct shfs_snapshot *was;
	struct shfs_object_id before;
	bool follows = job_before(job, &before);
	int err = c->error;

	shfs_assert(c->n_stores && job->data);
	DL_DELETE(c->stores, job);
	c->n_stores--;
	c->n_puts++;
	c->n_storing++;
	job_reserve(job, job->reserved + job_work_bytes(job));
	job->forgets = c->forgets;
	pthread_mutex_unlock(&c->lock);

	if (!err)
		err = shfs_object_put(c->store, job->data, job->len, c->compression,
		                      follows ? &before : NULL, &job->put);
	job_give_bytes(job);

	pthread_mutex_lock(&c->lock);
	shfs_assert(c->n_storing && c->n_puts);
	c->n_storing--;
	was = TAKE_PTR(job->snapshot->before);
	if (err < 0) {
		shfs_debug(CAPTURE, "%zu bytes are not put into the store: %s", job->len,
		           strerrordesc_np(-err));
		c->n_puts--;
		if (capture_is_store_error(err))
			capture_fail(c, err, job->len);
		capture_finish_job(job, NULL);
	} else {
		job_has_put(job, was);
	}
	shfs_snapshot_unref(was);
	/* memory has become free */
	tell_waiters(c);
	if (c->reads || c->stores)
		pthread_cond_signal(&c->work);
}

/* Lock held, and let go meanwhile. Reads are begun at once, as users wait for them;
 * stores wait a moment for more. */
static void await_work(struct shfs_capture *c)
{
	c->n_up--;
	pthread_cond_wait(&c->work, &c->lock);
	c->n_up++;
	if (c->reads || !c->stores || c->error || c->closing)
		return;
	pthread_mutex_unlock(&c->lock);
	nanosleep(&(struct timespec){ .tv_nsec = GATHER_NS }, NULL);
	pthread_mutex_lock(&c->lock);
}

/* Reads files first, as users wait for that, until the memory for them is full. */
void *capture_archiver(void *arg)
{
	struct shfs_capture *c = arg;

	capture_thread_begin(c, "shfs-archive");
	pthread_mutex_lock(&c->lock);
	c->n_up++;
	for (;;) {
		if (c->reads && (c->error || c->memory < CAPTURE_MEMORY_MAX))
			job_run_read(c->reads, c->reads->fd, !c->error);
		else if (may_store(c))
			job_run_store(c->stores);
		else if (c->closing && !c->reads && !c->stores)
			break;
		else
			await_work(c);
	}
	shfs_assert(c->n_up && c->n_archivers);
	c->n_up--;
	c->n_archivers--;
	pthread_cond_signal(&c->written);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* --- taking --- */

bool shfs_snapshot_is_told(const struct shfs_snapshot *s)
{
	bool told;

	pthread_mutex_lock(&s->capture->lock);
	told = s->told >= s->depth;
	pthread_mutex_unlock(&s->capture->lock);
	return told;
}

/* Lock held. Would a take give more than is known? */
static bool snapshot_wants(const struct shfs_snapshot *s, enum shfs_depth depth,
                           uint64_t max_bytes)
{
	if ((int)depth <= s->depth || (s->content.flags & SHFS_CONTENT_SKIP_TYPE))
		return false;
	return depth != SHFS_DEPTH_ARCHIVE ||
	       !(s->content.flags & SHFS_CONTENT_SKIP_SIZE) ||
	       s->content.size <= max_bytes;
}

bool shfs_snapshot_wants(const struct shfs_snapshot *s, enum shfs_depth depth,
                         uint64_t max_bytes)
{
	bool wants;

	pthread_mutex_lock(&s->capture->lock);
	wants = snapshot_wants(s, depth, max_bytes);
	pthread_mutex_unlock(&s->capture->lock);
	return wants;
}

/* Hands the job to the archivers; false: there are too many jobs, or no fd is left. */
static bool job_enqueue(struct capture_job *job, int fd)
{
	struct shfs_capture *c = job->snapshot->capture;
	bool room;

	job->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (job->fd < 0)
		return false;
	pthread_mutex_lock(&c->lock);
	room = c->n_reads < c->reads_max;
	if (room) {
		DL_APPEND(c->reads, job);
		c->n_reads++;
		job->snapshot->job = job;
		pthread_cond_signal(&c->work);
	}
	pthread_mutex_unlock(&c->lock);
	if (!room) {
		shfs_closep(&job->fd);
		job->fd = -1;
	}
	return room;
}

/* Has the content archived: 0; else returns the SKIP flag. */
static uint32_t snapshot_archive(struct shfs_snapshot *s, int fd, const struct stat *st,
                                 uint64_t max_bytes, uint64_t claim)
{
	struct shfs_capture *c = s->capture;
	struct capture_job *job;
	int64_t until;
	bool room;

	if (!shfs_allowance_is_left(c->allowance, s->author,
	                            shfs_clock_ns(CLOCK_BOOTTIME)))
		return SHFS_CONTENT_SKIP_USER;
	job = job_new(s, st, max_bytes, claim);
	if (!job)
		return SHFS_CONTENT_SKIP_ERROR;
	if (st->st_size > CAPTURE_INLINE_MAX && job_enqueue(job, fd))
		return 0;

	/* A small file is read faster than handed over. And if too much is in flight, the
	 * caller reads the file itself, which slows it down to the speed of the store. */
	until = in_ms(c->wait_ms);
	pthread_mutex_lock(&c->lock);
	while (!has_room(c, st->st_size) && wait_for_change(c, until))
		;
	room = has_room(c, st->st_size);
	if (room)
		job_run_read(job, fd, true);
	pthread_mutex_unlock(&c->lock);
	if (!room)
		job_free(job);
	return room ? 0 : SHFS_CONTENT_SKIP_BUDGET;
}

/* Takes STAT or FINGERPRINT, which needs no archiver. */
static struct shfs_content content_take(const struct shfs_capture *c, int fd,
                                        const struct stat *st, enum shfs_depth depth)
{
	struct shfs_content content = content_of_stat(st);

	if (depth >= SHFS_DEPTH_FINGERPRINT &&
	    shfs_object_fingerprint(fd, c->whole_max, &content))
		content.flags |= SHFS_CONTENT_SKIP_ERROR;
	return content;
}

static void debug_not_archived(const struct stat *st, uint32_t why, uint64_t max_bytes)
{
	shfs_debug(CAPTURE,
	           "file %" PRIu64 ":%" PRIu64
	           ", %lld bytes: not archived: %s (limit %" PRIu64 " bytes)",
	           (uint64_t)st->st_dev, (uint64_t)st->st_ino, (long long)st->st_size,
	           capture_why_not(why), max_bytes);
}

void shfs_snapshot_take(struct shfs_snapshot *s, int fd, enum shfs_depth depth,
                        uint64_t max_bytes, uint32_t skip)
{
	struct shfs_capture *c = s->capture;
	struct shfs_content content = { .flags = SHFS_CONTENT_SKIP_ERROR };
	struct stat st;
	uint64_t claim;
	int err;

	pthread_mutex_lock(&c->lock);
	if (!snapshot_wants(s, depth, max_bytes)) {
		pthread_mutex_unlock(&c->lock);
		return;
	}
	claim = ++s->claim;
	s->depth = depth;
	s->reading++;
	s->unsettled++;
	s->late_ns = 0;
	err = c->error;
	pthread_mutex_unlock(&c->lock);

	if (fstat(fd, &st) < 0) {
		depth = SHFS_DEPTH_STAT;
	} else {
		if (!S_ISREG(st.st_mode)) {
			depth = SHFS_DEPTH_STAT;
			skip |= SHFS_CONTENT_SKIP_TYPE;
		} else if (depth == SHFS_DEPTH_ARCHIVE) {
			uint32_t why =
				(uint64_t)st.st_size > max_bytes ? SHFS_CONTENT_SKIP_SIZE
				: err < 0
					? SHFS_CONTENT_SKIP_ERROR
					: snapshot_archive(s, fd, &st, max_bytes, claim);
			if (!why)
				return;
			debug_not_archived(&st, why, max_bytes);
			depth = SHFS_DEPTH_FINGERPRINT;
			skip |= why;
		}
		content = content_take(c, fd, &st, depth);
	}
	content.flags |= skip;

	pthread_mutex_lock(&c->lock);
	snapshot_has_read(s);
	snapshot_settle(s, claim, depth, &content, 0);
	pthread_mutex_unlock(&c->lock);
}

void shfs_snapshot_spoil(struct shfs_snapshot *s)
{
	pthread_mutex_lock(&s->capture->lock);
	s->spoiled = true;
	s->content.flags |= SHFS_CONTENT_INCOMPLETE;
	shfs_debug(CAPTURE,
	           "a version of %" PRIu64 " bytes is incomplete: the file "
	           "was changed meanwhile",
	           s->content.size);
	pthread_mutex_unlock(&s->capture->lock);
}

bool shfs_snapshot_wait(struct shfs_snapshot *s, unsigned timeout_ms)
{
	struct shfs_capture *c = s->capture;
	bool done;

	pthread_mutex_lock(&c->lock);
	if (s->reading) {
		int64_t until = in_ms(timeout_ms);

		/* If no archiver has begun, this thread reads the file itself. */
		while (s->reading) {
			if (s->job && c->memory < CAPTURE_MEMORY_MAX)
				job_run_read(s->job, s->job->fd, !c->error);
			else if (!wait_for_change(c, until))
				break;
		}
	}
	done = !s->reading;
	if (!done)
		s->late_ns = shfs_clock_ns(CLOCK_REALTIME);
	pthread_mutex_unlock(&c->lock);
	return done;
}
