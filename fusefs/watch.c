/* SPDX-License-Identifier: MIT */
#include "fusefs/watch-internal.h"

#include "fusefs/ops.h"
#include "fusefs/transport.h"
#include "store/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <utlist.h>

#define NO_STAMP  (-1)
#define TRIES     3
#define JOIN_NAPS 20
#define JOIN_NS   100000
#define ENDING_NS (SHFS_NSEC_PER_SEC / 10)
#define NAP_NS    500000

static void notice_blind(struct shfs_watch *watch);

static bool is_watched(const struct shfs_node *node)
{
	return S_ISREG(node->type) && !node->hidden;
}

/* The node's watch, locked. NULL: no memory, or not watched. */
static struct shfs_watch *watch_lock(struct shfs_node *node)
{
	struct shfs_watch *watch, *none = NULL;

	if (!is_watched(node))
		return NULL;
	watch = atomic_load(&node->watch);
	if (!watch) {
		watch = calloc(1, sizeof(*watch));
		if (!watch)
			return NULL;
		watch->asked = -1;
		watch->size = NO_STAMP;
		pthread_mutex_init(&watch->lock, NULL);
		if (!atomic_compare_exchange_strong(&node->watch, &none, watch)) {
			shfs_watch_free(watch);
			watch = none;
		}
	}
	pthread_mutex_lock(&watch->lock);
	if (watch->passing.blind && shfs_passing_is_changed(&watch->passing))
		notice_blind(watch);
	return watch;
}

static void watch_unlock(struct shfs_watch *watch)
{
	pthread_mutex_unlock(&watch->lock);
}

/*
 * All its descriptors are closed, and what was stored to a mapping has come a moment ago.
 * If that was at its end, RELEASE is on its way: nothing else tells that it was.
 */
static bool is_ending(const struct shfs_handle *handle, uint64_t now_ns)
{
	return handle->closed && !handle->flushed && handle->n_writers &&
	       now_ns - handle->writers[handle->last_writer].last.boot_ns < ENDING_NS;
}

/* One that may be mapped, and then changes the file unseen, was closed a moment ago. */
static bool is_mapping_ending(const struct shfs_watch *watch,
                              const struct shfs_handle *but, uint64_t now_ns)
{
	const struct shfs_handle *handle;

	DL_FOREACH2 (watch->passing.blind, handle, next_blind)
		if (handle != but && handle->is_mappable && handle->closed &&
		    now_ns - handle->closed_ns < ENDING_NS)
			return true;
	return false;
}

/* As watch_lock, once no mapping of another handle is about to end. */
static struct shfs_watch *watch_lock_ended(struct shfs_node *node,
                                           const struct shfs_handle *but)
{
	struct shfs_watch *watch = watch_lock(node);
	const struct shfs_handle *handle;
	uint64_t now_ns, until_ns = 0;

	while (watch && (watch->dirty || watch->passing.blind)) {
		now_ns = shfs_time_now().boot_ns;
		until_ns = until_ns ? until_ns : now_ns + ENDING_NS;
		if (now_ns >= until_ns)
			break;
		DL_FOREACH (watch->dirty, handle)
			if (handle != but && is_ending(handle, now_ns))
				break;
		if (!handle && !is_mapping_ending(watch, but, now_ns))
			break;
		watch_unlock(watch);
		nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
		watch = watch_lock(node);
	}
	return watch;
}

void shfs_watch_free(struct shfs_watch *watch)
{
	shfs_snapshot_unref(watch->current);
	shfs_snapshot_unref(watch->before);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
}

static void forget_current(struct shfs_watch *watch)
{
	if (watch->asked == SHFS_DEPTH_ARCHIVE) {
		shfs_snapshot_unref(watch->before);
		watch->before = watch->current;
	} else {
		shfs_snapshot_unref(watch->current);
	}
	watch->current = NULL;
	watch->asked = -1;
}

static void begin_current(struct shfs_fs *fs, struct shfs_watch *watch)
{
	watch->current = shfs_snapshot_new(fs->capture);
	if (!watch->current)
		shfs_capture_lose(fs->capture, -ENOMEM);
	else if (watch->before)
		shfs_snapshot_follow(watch->current, watch->before);
	shfs_snapshot_unref(watch->before);
	watch->before = NULL;
}

/* What it holds is not known from now on, until it is captured. */
static void note_changed(struct shfs_watch *watch)
{
	forget_current(watch);
	watch->size = NO_STAMP;
	watch->changed = true;
	watch->fresh = false;
}

/* Has something else than we changed the file (through the directory beneath)? */
static bool is_changed_beneath(const struct shfs_watch *watch, const struct stat *st)
{
	return watch->size != NO_STAMP &&
	       (watch->size != st->st_size || watch->mtime.tv_sec != st->st_mtim.tv_sec ||
	        watch->mtime.tv_nsec != st->st_mtim.tv_nsec);
}

/* The file is that of st: what was known of another content is of that one alone. */
static void stamp(struct shfs_watch *watch, const struct stat *st)
{
	if (is_changed_beneath(watch, st)) {
		forget_current(watch);
		watch->stale = true;
	}
	watch->mtime = st->st_mtim;
	watch->size = st->st_size;
}

/* --- contents; all with the watch locked --- */

static char *node_path(struct shfs_fs *fs, struct shfs_node *node)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	shfs_tree_lock_read(fs->tree);
	shfs_node_path(node, NULL, &path);
	shfs_tree_unlock(fs->tree);
	return shfs_buf_take(&path);
}

static enum shfs_rule node_rule(struct shfs_fs *fs, struct shfs_node *node)
{
	_cleanup_free_ char *path = node_path(fs, node);

	return path ? shfs_project_rules_match(&fs->rules, path) : SHFS_RULE_ARCHIVE;
}

/* A readable fd: the handle's, or a new one in *opened. -1: there is none. */
static int readable_fd(struct shfs_fs *fs, struct shfs_node *node,
                       const struct shfs_handle *handle, int *opened)
{
	if (handle && handle->readable)
		return handle->fd;
	*opened = shfs_node_open(fs->tree, node, O_RDONLY);
	return *opened < 0 ? -1 : *opened;
}

/*
 * Its owner may change a file that nobody may read, by chmod at the latest: to keep what
 * it held, the permission is lent for a moment. Permissions are set with the watch locked
 * (shfs_watch_begin_touch).
 */
static int open_forbidden(struct shfs_fs *fs, struct shfs_node *node)
{
	int fd = shfs_node_fd(fs->tree, node), opened = -EACCES;
	struct stat st;

	if (fd < 0)
		return fd;
	if (!fstat(fd, &st) && st.st_uid == geteuid() &&
	    !(st.st_mode & (S_IRUSR | S_ISUID | S_ISGID)) &&
	    !fchmodat(fs->proc_fd, shfs_fd_name(fd).name,
	              (st.st_mode & ALLPERMS) | S_IRUSR, 0)) {
		opened = shfs_node_open(fs->tree, node, O_RDONLY);
		if (fchmodat(fs->proc_fd, shfs_fd_name(fd).name, st.st_mode & ALLPERMS,
		             0))
			shfs_log("cannot take back the permission to read: %m");
	}
	shfs_node_fd_done(fs->tree, node);
	return opened;
}

static void take_unreadable(struct shfs_fs *fs, struct shfs_node *node,
                            struct shfs_snapshot *snapshot)
{
	int fd = shfs_node_fd(fs->tree, node);

	if (fd < 0)
		return;
	shfs_snapshot_take(snapshot, fd, SHFS_DEPTH_STAT, 0, SHFS_CONTENT_SKIP_ERROR);
	shfs_node_fd_done(fs->tree, node);
}

/* Makes current known to that depth, as far as the rules allow; max_bytes: to archive. */
static void take_current(struct shfs_fs *fs, struct shfs_node *node,
                         struct shfs_watch *watch, const struct shfs_handle *handle,
                         enum shfs_depth depth, uint64_t max_bytes)
{
	bool ignored = node_rule(fs, node) == SHFS_RULE_IGNORE;
	_cleanup_close_ int opened = -1;
	struct stat st;
	int fd;

	if (watch->asked > (int)depth ||
	    (watch->asked == (int)depth && watch->asked_bytes >= max_bytes))
		return;
	fd = readable_fd(fs, node, handle, &opened);
	if (opened == -EACCES && depth == SHFS_DEPTH_ARCHIVE && !ignored)
		fd = opened = open_forbidden(fs, node);
	if (fd >= 0 && !fstat(fd, &st))
		stamp(watch, &st);
	if (!watch->current)
		begin_current(fs, watch);
	if (!watch->current)
		return;
	watch->asked = depth;
	watch->asked_bytes = max_bytes;
	watch->losses = shfs_capture_losses(fs->capture);
	if (fd < 0) {
		take_unreadable(fs, node, watch->current);
		return;
	}
	shfs_snapshot_take(watch->current, fd, ignored ? SHFS_DEPTH_STAT : depth,
	                   max_bytes, ignored ? SHFS_CONTENT_SKIP_RULE : 0);
}

static void archive_current(struct shfs_fs *fs, struct shfs_node *node,
                            struct shfs_watch *watch, const struct shfs_handle *handle)
{
	take_current(fs, node, watch, handle, SHFS_DEPTH_ARCHIVE,
	             fs->config.archive_max_bytes);
}

/* What a reader has seen: scripts and configuration are kept, others recognised. */
static void identify_current(struct shfs_fs *fs, struct shfs_node *node,
                             struct shfs_watch *watch, const struct shfs_handle *handle)
{
	if (watch->asked >= SHFS_DEPTH_FINGERPRINT)
		return;
	if (node_rule(fs, node) == SHFS_RULE_ARCHIVE_READ)
		take_current(fs, node, watch, handle, SHFS_DEPTH_ARCHIVE,
		             fs->config.read_max_bytes);
	else
		take_current(fs, node, watch, handle, SHFS_DEPTH_FINGERPRINT, 0);
}

/* Notices a change beneath since the file was seen last. handle: of it, or NULL. */
static void check_beneath(struct shfs_fs *fs, struct shfs_node *node,
                          struct shfs_watch *watch, const struct shfs_handle *handle)
{
	int fd = handle ? handle->fd : -1;
	struct stat st;

	if (watch->changed)
		return;
	if (!handle)
		fd = shfs_node_fd(fs->tree, node);
	if (fd >= 0 && !fstat(fd, &st))
		stamp(watch, &st);
	if (!handle && fd >= 0)
		shfs_node_fd_done(fs->tree, node);
}

/*
 * What the kernel has cached is what the file holds: all changes but those beneath go
 * through it. Who may read and write has it dropped, so that it is seen whether they
 * really read; but only where nobody else has it open. What others are about to write is
 * in there: who read it again meanwhile would go on to see what was there before. And who
 * reads it may wait for us with what is to be dropped locked, and would wait for ever if
 * we were killed at it. For the first reason it is dropped at once, and not by the kernel
 * as it hears of the open: others may write by then. Beside others, they are taken to
 * read, as who opens a file to read it. What has become stale must go, whoever reads it.
 */
static bool keeps_cache(struct shfs_fs *fs, struct shfs_watch *watch,
                        struct shfs_handle *handle, int flags)
{
	bool stale = watch->stale, updates = (flags & O_ACCMODE) == O_RDWR,
	     alone = watch->passing.n_cached == 1;

	watch->stale = false;
	if (alone && (stale || updates))
		shfs_transport_invalidate(fs->transport, handle->node->id, true);
	else if (updates)
		handle->tells_read = true;
	return alone || !stale;
}

/* --- records; the watch is locked, so that they come in the order of the changes --- */

static void emit_access(struct shfs_fs *fs, struct shfs_handle *handle, uint64_t process,
                        uint32_t flags, struct shfs_time last, struct shfs_snapshot *made)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct shfs_snapshot *content[2] = {
		flags & SHFS_ACCESS_READ ? handle->seen : NULL,
		flags & SHFS_ACCESS_WRITTEN ? made : NULL,
	};
	struct shfs_record rec = {
		.type = SHFS_REC_ACCESS,
		.access = {
			.process = process,
			.flags = flags,
			.begin = handle->begin,
			.last = last,
			.dev = handle->node->dev,
			.ino = handle->node->ino,
		},
	};

	shfs_tree_lock_read(fs->tree);
	if (!shfs_node_path_by(handle->node, handle->name, &path))
		rec.access.flags |= SHFS_ACCESS_NAMELESS;
	if (!path.failed) {
		rec.access.path = (struct shfs_bytes){ path.data, path.len };
		shfs_capture_emit(fs->capture, &rec, content);
	} else {
		shfs_capture_lose(fs->capture, -ENOMEM);
	}
	shfs_tree_unlock(fs->tree);
}

/* handle: that is about to change it; or NULL. */
static void emit_preimage(struct shfs_fs *fs, struct shfs_node *node,
                          const struct shfs_handle *handle,
                          struct shfs_snapshot *snapshot, uint64_t process)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct shfs_snapshot *content[2] = { snapshot, NULL };
	struct shfs_record rec = {
		.type = SHFS_REC_PREIMAGE,
		.preimage = { .process = process, .dev = node->dev, .ino = node->ino },
	};

	shfs_tree_lock_read(fs->tree);
	if (handle)
		shfs_node_path_by(node, handle->name, &path);
	else
		shfs_node_path(node, NULL, &path);
	if (!path.failed) {
		rec.preimage.path = (struct shfs_bytes){ path.data, path.len };
		shfs_capture_emit(fs->capture, &rec, content);
	} else {
		shfs_capture_lose(fs->capture, -ENOMEM);
	}
	shfs_tree_unlock(fs->tree);
}

/* --- dirty handles --- */

static void mark_dirty(struct shfs_watch *watch, struct shfs_handle *handle)
{
	if (handle->is_dirty)
		return;
	handle->is_dirty = true;
	DL_APPEND(watch->dirty, handle);
}

static void mark_clean(struct shfs_watch *watch, struct shfs_handle *handle)
{
	handle->is_dirty = handle->wrote = false;
	handle->n_writers = handle->n_lines = 0;
	DL_DELETE(watch->dirty, handle);
}

/* One ACCESS for each writer, and one for the opener if it read and did not write. */
static void emit_writers(struct shfs_fs *fs, struct shfs_handle *handle,
                         struct shfs_snapshot *made)
{
	uint32_t anew = 0; /* nothing of what was there before is in it */
	bool reads = handle->tells_read;

	for (unsigned i = 0; i < handle->n_writers; i++)
		anew |= handle->writers[i].flags &
		        (SHFS_ACCESS_CREATED | SHFS_ACCESS_TRUNCATED);
	/* the one that wrote last made it, the others had a part in it */
	for (unsigned i = 0; i < handle->n_writers; i++) {
		unsigned turn = (handle->last_writer + i) % handle->n_writers;
		const struct shfs_writer *w = &handle->writers[turn];
		uint32_t flags = w->flags | SHFS_ACCESS_WRITTEN | (i ? 0 : anew);

		if (reads && w->process == handle->opener) {
			flags |= SHFS_ACCESS_READ;
			reads = false;
		}
		emit_access(fs, handle, w->process, handle->flags | flags, w->last, made);
	}
	for (unsigned i = 0; i < handle->n_lines; i++)
		emit_access(fs, handle, handle->lines[i].process,
		            handle->flags | SHFS_ACCESS_WRITTEN, handle->lines[i].last,
		            made);
	if (reads)
		emit_access(fs, handle, handle->opener, handle->flags | SHFS_ACCESS_READ,
		            handle->begin, NULL);
	handle->tells_read = false;
}

static bool is_mapped_blind(const struct shfs_watch *watch)
{
	const struct shfs_handle *handle;

	DL_FOREACH2 (watch->passing.blind, handle, next_blind)
		if (handle->is_mapped)
			return true;
	return false;
}

/* Of a file that may be written meanwhile, and told by its mtime: what it holds at some
 * moment from now on. */
static void archive_moving(struct shfs_fs *fs, struct shfs_node *node,
                           struct shfs_watch *watch, const struct shfs_handle *handle)
{
	bool whole = false;

	for (int i = 0; i < TRIES && !whole; i++) {
		forget_current(watch);
		watch->size = NO_STAMP;
		shfs_passing_stamp(&watch->passing);
		shfs_passing_finish_writes(&watch->passing);
		archive_current(fs, node, watch, handle);
		whole = watch->current &&
		        shfs_snapshot_wait(watch->current, fs->config.wait_ms) &&
		        !shfs_passing_is_other(&watch->passing);
	}
	if (watch->current && (!whole || is_mapped_blind(watch)))
		shfs_snapshot_spoil(watch->current);
}

/* Captures what the file holds. */
static void capture_change(struct shfs_fs *fs, struct shfs_node *node,
                           struct shfs_watch *watch, struct shfs_handle *handle)
{
	if (!watch->changed)
		return;
	watch->changed = watch->fresh = false;
	handle = handle ? handle : watch->dirty;
	if (watch->passing.blind)
		archive_moving(fs, node, watch, handle);
	else
		archive_current(fs, node, watch, handle);
}

/* And records those of its writers that are done with it: whose descriptor was closed,
 * and ending. */
static void settle(struct shfs_fs *fs, struct shfs_node *node, struct shfs_watch *watch,
                   struct shfs_handle *ending)
{
	struct shfs_handle *handle, *next;

	capture_change(fs, node, watch, ending);
	DL_FOREACH_SAFE (watch->dirty, handle, next) {
		if (handle != ending && !handle->flushed)
			continue;
		emit_writers(fs, handle, watch->current);
		mark_clean(watch, handle);
	}
}

/* And records all that have written, although they may go on. */
static void settle_open(struct shfs_fs *fs, struct shfs_node *node,
                        struct shfs_watch *watch)
{
	struct shfs_handle *handle, *next;

	capture_change(fs, node, watch, NULL);
	DL_FOREACH_SAFE (watch->dirty, handle, next) {
		emit_writers(fs, handle, watch->current);
		mark_clean(watch, handle);
	}
}

static bool is_some_written(const struct shfs_watch *watch)
{
	const struct shfs_handle *handle;

	DL_FOREACH (watch->dirty, handle)
		if (handle->wrote)
			return true;
	return false;
}

/* Has nobody written for a while, and not the one that comes now either? */
static bool is_silent(const struct shfs_watch *watch, const struct shfs_writer *now)
{
	const struct shfs_handle *handle;

	DL_FOREACH (watch->dirty, handle)
		for (unsigned i = 0; i < handle->n_writers; i++) {
			const struct shfs_writer *w = &handle->writers[i];

			if (w->process == now->process ||
			    now->last.boot_ns - w->last.boot_ns < SHFS_BUILTIN_NS)
				return false;
		}
	return is_some_written(watch);
}

static bool is_some_flushed(const struct shfs_watch *watch, const struct shfs_handle *but)
{
	const struct shfs_handle *handle;

	DL_FOREACH (watch->dirty, handle)
		if (handle != but && handle->flushed)
			return true;
	return false;
}

static bool is_all_flushed(const struct shfs_watch *watch)
{
	const struct shfs_handle *handle;

	DL_FOREACH (watch->dirty, handle)
		if (!handle->flushed)
			return false;
	return true;
}

static void settle_if_closed(struct shfs_fs *fs, struct shfs_node *node,
                             struct shfs_watch *watch)
{
	if (watch->dirty && is_all_flushed(watch))
		settle(fs, node, watch, NULL);
}

/* A log that grows is not archived each time that somebody looks at it. */
static bool is_small(const struct shfs_fs *fs, int fd)
{
	struct stat st;

	return !fstat(fd, &st) && (uint64_t)st.st_size <= fs->config.read_max_bytes;
}

/* It is about to change. True: what it holds is to be told. What was told of it before
 * may have been lost, if anything was since. */
static bool keep_current(struct shfs_fs *fs, struct shfs_node *node,
                         struct shfs_watch *watch, const struct shfs_handle *handle)
{
	if (watch->losses != shfs_capture_losses(fs->capture))
		forget_current(watch);
	if (watch->asked >= SHFS_DEPTH_ARCHIVE)
		return false;
	archive_current(fs, node, watch, handle);
	return watch->current;
}

/*
 * Nothing is overwritten unseen: before a change by tid, through handle, as writer, if
 * any.
 */
static void before_change(struct shfs_fs *fs, struct shfs_node *node,
                          struct shfs_watch *watch, struct shfs_handle *handle,
                          const struct shfs_writer *writer, uint32_t tid)
{
	if (watch->changed) {
		if (handle && shfs_handle_is_handed_on(handle, writer))
			settle(fs, node, watch, handle);
		else if (is_some_flushed(watch, handle))
			settle(fs, node, watch, NULL);
		else
			return;
	}
	check_beneath(fs, node, watch, handle);
	if (!watch->fresh && keep_current(fs, node, watch, handle))
		emit_preimage(fs, node, handle, watch->current,
		              shfs_caller_process(fs->callers, tid));
	if (watch->current)
		shfs_snapshot_wait(watch->current, fs->config.wait_ms);
	note_changed(watch);
}

/* --- open files --- */

/*
 * A blind one has changed the file since the watch was locked last. Where there are
 * several (one that writes, others that may map it), it is not known which.
 */
static void notice_blind(struct shfs_watch *watch)
{
	struct shfs_handle *blind = watch->passing.blind, *handle;

	DL_FOREACH2 (blind, handle, next_blind) {
		if (blind->next_blind)
			handle->flags |= SHFS_ACCESS_SHARED;
		handle->flushed = false;
		handle->closed = handle->closed && handle->is_mappable;
		handle->self.last = shfs_time_now();
		shfs_handle_note_writer(handle, &handle->self,
		                        handle->is_mappable ? SHFS_ACCESS_MAPPED : 0);
		handle->wrote = true;
		handle->is_mapped = handle->is_mappable;
		mark_dirty(watch, handle);
	}
	if (!watch->changed)
		note_changed(watch);
}

struct shfs_handle *shfs_handle_new(struct shfs_fs *fs, struct shfs_node *node, int fd,
                                    int flags, bool created, uint32_t tid)
{
	struct shfs_handle *handle = calloc(1, sizeof(*handle));
	int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
	struct shfs_watch *watch;

	if (!handle) {
		close(fd);
		return NULL;
	}
	handle->node = node;
	handle->fd = fd;
	handle->readable = mode == O_RDONLY || mode == O_RDWR;
	handle->begin = shfs_time_now();
	shfs_node_opened(fs->tree, node);
	handle->name = shfs_node_name(fs->tree, node, tid);
	pthread_mutex_lock(&fs->handles_lock);
	DL_APPEND2(fs->handles, handle, prev_open, next_open);
	fs->n_open++;
	pthread_mutex_unlock(&fs->handles_lock);
	watch = watch_lock_ended(node, NULL);
	if (!watch)
		return handle;
	handle->self = shfs_handle_writer_now(fs, handle, tid);
	handle->opener = handle->self.process;
	handle->flags = (flags & O_APPEND ? SHFS_ACCESS_APPEND : 0) |
	                (flags & SHFS_O_EXEC ? SHFS_ACCESS_EXEC : 0);
	handle->reads = (flags & O_ACCMODE) != O_WRONLY;
	handle->tells_read = (flags & O_ACCMODE) == O_RDONLY;
	if (created) {
		note_changed(watch);
		watch->fresh = true;
		shfs_handle_note_writer(handle, &handle->self, SHFS_ACCESS_CREATED);
		mark_dirty(watch, handle);
	} else {
		settle_if_closed(fs, node, watch);
		if (handle->reads && watch->changed && is_silent(watch, &handle->self) &&
		    is_small(fs, fd))
			settle_open(fs, node, watch);
		check_beneath(fs, node, watch, handle);
		if (handle->reads && !watch->changed) {
			if (!watch->current)
				begin_current(fs, watch);
			if (watch->current)
				handle->seen = shfs_snapshot_ref(watch->current);
		}
	}
	handle->writable = (flags & O_ACCMODE) != O_RDONLY;
	watch->n_writable += handle->writable;
	watch_unlock(watch);
	return handle;
}

/* It may store to a mapping unseen: so what the file holds is kept now. */
static void expect_mapping(struct shfs_fs *fs, struct shfs_watch *watch,
                           struct shfs_handle *handle)
{
	/* the kernel would believe the times that it was told before */
	atomic_store(&handle->node->moving, true);
	shfs_transport_invalidate(fs->transport, handle->node->id, false);
	if (watch->changed)
		return;
	if (keep_current(fs, handle->node, watch, handle))
		emit_preimage(fs, handle->node, handle, watch->current, handle->opener);
	if (watch->current)
		shfs_snapshot_wait(watch->current, fs->config.wait_ms);
}

/* As watch_lock. Those that the file is passed to may be at their end, so that who may
 * map it to write need not join them. */
static struct shfs_watch *watch_lock_to_join(struct shfs_node *node, int flags)
{
	struct shfs_watch *watch = watch_lock(node);

	for (int i = 0; i < JOIN_NAPS && watch && (flags & O_ACCMODE) == O_RDWR &&
	                watch->passing.n_passed;
	     i++) {
		watch_unlock(watch);
		nanosleep(&(struct timespec){ .tv_nsec = JOIN_NS }, NULL);
		watch = watch_lock(node);
	}
	return watch;
}

void shfs_handle_begin_io(struct shfs_fs *fs, struct shfs_handle *handle, int flags,
                          uint32_t uid, uint32_t gid)
{
	struct shfs_watch *watch = watch_lock_to_join(handle->node, flags);
	struct shfs_passing_wish wish = {
		.uid = uid,
		.gid = gid,
		.flags = flags,
		.emptied = shfs_handle_has_emptied(handle),
		.alone = handle->self.process && !handle->self.job.is_shell,
	};

	if (!watch)
		return;
	shfs_passing_enter(fs, &watch->passing, handle, &wish);
	if (handle->io == SHFS_IO_CACHED)
		handle->keeps_cache = keeps_cache(fs, watch, handle, flags);
	if (handle->is_mappable)
		expect_mapping(fs, watch, handle);
	watch_unlock(watch);
}

void shfs_handle_resume_io(struct shfs_fs *fs, struct shfs_handle *handle,
                           const struct shfs_open *open, uint32_t tid)
{
	struct shfs_watch *watch = watch_lock(handle->node);

	if (!watch)
		return;
	shfs_passing_resume(fs, &watch->passing, handle, open);
	if (open->wrote && !watch->changed)
		watch->fresh = true; /* it may hold a part of a write */
	watch_unlock(watch);
	if (open->wrote)
		shfs_watch_end_change(shfs_watch_begin_change(fs, handle, tid, 0));
}

struct shfs_watch *shfs_watch_begin_change(struct shfs_fs *fs, struct shfs_handle *handle,
                                           uint32_t tid, uint32_t access_flags)
{
	struct shfs_watch *watch = watch_lock_ended(handle->node, handle);
	struct shfs_writer writer;

	if (!watch)
		return NULL;
	writer = shfs_handle_writer_now(fs, handle, tid);
	before_change(fs, handle->node, watch, handle, &writer, tid);
	shfs_handle_note_writer(handle, &writer, access_flags);
	handle->flushed = false;
	handle->closed = handle->closed && !tid;
	handle->wrote = handle->wrote || !(access_flags & SHFS_ACCESS_TRUNCATED);
	mark_dirty(watch, handle);
	if (handle->fh)
		atomic_store(&shfs_heir_open_of(fs->heir, handle->fh)->wrote, true);
	return watch;
}

void shfs_watch_end_change(struct shfs_watch *watch)
{
	if (!watch)
		return;
	shfs_passing_stamp(&watch->passing);
	watch_unlock(watch);
}

void shfs_watch_read(struct shfs_handle *handle)
{
	if (handle->reads &&
	    !atomic_load_explicit(&handle->tells_read, memory_order_relaxed))
		atomic_store_explicit(&handle->tells_read, true, memory_order_relaxed);
}

/* Who closes what is written unseen may be one of its writers. */
static void note_sharer(struct shfs_fs *fs, struct shfs_watch *watch,
                        struct shfs_handle *handle, uint32_t tid)
{
	struct shfs_writer writer = { .tid = tid, .last = shfs_time_now() };
	struct shfs_closer closer;
	struct stat st;

	if (!handle->is_dirty || fstat(handle->fd, &st))
		return;
	if (shfs_caller_is_at_hand(fs->callers, tid))
		writer = shfs_handle_writer_now(fs, handle, tid);
	if (writer.process && writer.process == handle->opener)
		return;
	/* one that is about to execute another program has others write, as a rule */
	if (!shfs_caller_closes(fs->callers, tid, shfs_timespec_ns(st.st_ctim), &closer))
		return;
	writer.process = closer.process;
	writer.job = closer.job;
	writer.checked_ns = writer.last.boot_ns;
	if (writer.process &&
	    (writer.process == handle->opener || !closer.may_have_written))
		return;
	shfs_handle_note_writer(handle, &writer, 0);
	handle->flags |= SHFS_ACCESS_SHARED;
}

void shfs_watch_flush(struct shfs_fs *fs, struct shfs_handle *handle, uint32_t tid)
{
	struct shfs_watch *watch = watch_lock(handle->node);

	if (!watch)
		return;
	if (handle->is_blind)
		note_sharer(fs, watch, handle, tid);
	handle->flushed = handle->closed = true;
	handle->closed_ns = shfs_time_now().boot_ns;
	watch_unlock(watch);
}

/* It was captured while it was mapped: what was stored since then left no trace. */
static void end_mapping(struct shfs_watch *watch, struct shfs_handle *handle)
{
	handle->flags |= SHFS_ACCESS_SHARED;
	shfs_handle_note_writer(handle, &handle->self, SHFS_ACCESS_MAPPED);
	mark_dirty(watch, handle);
	if (!watch->changed)
		note_changed(watch);
}

/* What a reader saw, if it is still there, or was left by a writer meanwhile. */
static void release_reader(struct shfs_fs *fs, struct shfs_handle *handle,
                           struct shfs_watch *watch)
{
	if (!watch->changed && !handle->seen && watch->current)
		handle->seen = shfs_snapshot_ref(watch->current);
	if (handle->seen && handle->seen == watch->current && !watch->changed)
		identify_current(fs, handle->node, watch, handle);
}

void shfs_watch_release(struct shfs_fs *fs, struct shfs_handle *handle)
{
	struct shfs_watch *watch = watch_lock(handle->node);

	if (watch) {
		if (handle->is_mapped && !handle->is_dirty)
			end_mapping(watch, handle);
		shfs_passing_leave(fs, &watch->passing, handle);
		if (handle->is_mappable)
			atomic_store(&handle->node->moving, watch->passing.blind != NULL);
		if (handle->tells_read)
			release_reader(fs, handle, watch);
		if (handle->is_dirty)
			settle(fs, handle->node, watch, handle);
		else if (handle->tells_read)
			emit_writers(fs, handle, NULL);
		watch->n_writable -= handle->writable;
		watch_unlock(watch);
	}
	pthread_mutex_lock(&fs->handles_lock);
	DL_DELETE2(fs->handles, handle, prev_open, next_open);
	fs->n_open--;
	pthread_mutex_unlock(&fs->handles_lock);
	shfs_heir_open_done(fs->heir, handle->fh);
	shfs_snapshot_unref(handle->seen);
	close(handle->fd);
	shfs_name_unref(handle->name);
	shfs_node_closed(fs->tree, handle->node);
	free(handle->lines);
	free(handle);
}

/* --- files that are not open --- */

static struct shfs_snapshot *content_now(struct shfs_fs *fs, struct shfs_node *node,
                                         struct shfs_watch *watch, bool archive)
{
	if (watch->changed && is_all_flushed(watch))
		settle(fs, node, watch, NULL);
	if (watch->changed)
		return NULL;
	check_beneath(fs, node, watch, NULL);
	if (archive)
		archive_current(fs, node, watch, NULL);
	else
		take_current(fs, node, watch, NULL, SHFS_DEPTH_FINGERPRINT, 0);
	return watch->current ? shfs_snapshot_ref(watch->current) : NULL;
}

struct shfs_watch *shfs_watch_begin_truncate(struct shfs_fs *fs, struct shfs_node *node,
                                             uint32_t tid)
{
	struct shfs_watch *watch = watch_lock_ended(node, NULL);

	if (watch)
		before_change(fs, node, watch, NULL, NULL, tid);
	return watch;
}

struct shfs_snapshot *shfs_watch_truncated(struct shfs_fs *fs, struct shfs_node *node,
                                           struct shfs_watch *watch)
{
	return watch ? content_now(fs, node, watch, true) : NULL;
}

struct shfs_snapshot *shfs_watch_content(struct shfs_fs *fs, struct shfs_node *node,
                                         bool archive)
{
	struct shfs_watch *watch = watch_lock_ended(node, NULL);
	struct shfs_snapshot *content;

	if (!watch)
		return NULL;
	content = content_now(fs, node, watch, archive);
	watch_unlock(watch);
	return content;
}

struct shfs_snapshot *shfs_watch_last_content(struct shfs_fs *fs, struct shfs_node *node)
{
	struct shfs_watch *watch = watch_lock_ended(node, NULL);
	struct shfs_snapshot *content;

	if (!watch)
		return NULL;
	if (watch->changed && is_some_written(watch))
		settle_open(fs, node, watch);
	content = content_now(fs, node, watch, true);
	watch_unlock(watch);
	return content;
}

struct shfs_watch *shfs_watch_begin_touch(struct shfs_fs *fs, struct shfs_node *node,
                                          bool times, bool *changing)
{
	struct shfs_watch *watch = watch_lock_ended(node, NULL);

	*changing = false;
	if (!watch)
		return NULL;
	settle_if_closed(fs, node, watch);
	*changing = watch->changed;
	check_beneath(fs, node, watch, NULL);
	if (times && watch->current)
		shfs_snapshot_touch(watch->current);
	return watch;
}

void shfs_watch_end_touch(struct shfs_watch *watch, int fd)
{
	struct stat st;

	if (!watch)
		return;
	if (!fstat(fd, &st) && st.st_size == watch->size)
		watch->mtime = st.st_mtim;
	shfs_passing_stamp(&watch->passing);
	watch_unlock(watch);
}

void shfs_watch_settle(struct shfs_fs *fs, struct shfs_node *node)
{
	struct shfs_watch *watch = watch_lock_ended(node, NULL);

	if (!watch)
		return;
	settle_if_closed(fs, node, watch);
	watch_unlock(watch);
}
