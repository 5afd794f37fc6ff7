/* SPDX-License-Identifier: MIT */
#include "fusefs/watch/internal.h"

#include "fusefs/takeover/heir.h"
#include "fusefs/transport/transport.h"
#include "fusefs/watch/links.h"
#include "store/objects/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <utlist.h>

#define NO_STAMP  (-1)
#define TRIES     3
#define JOIN_NAPS 20
#define JOIN_NS   100000
#define NAP_NS    500000

static void notice_blind(struct shfs_watch *watch);
static void forget_current(struct shfs_watch *watch);

static bool is_node_watched(const struct shfs_node *node)
{
	return S_ISREG(node->type) && !node->hidden;
}

/* Locks and returns the node's watch. NULL: no memory, or not watched. */
static struct shfs_watch *watch_lock(struct shfs_node *node)
{
	struct shfs_watch *watch, *none = NULL;

	if (!is_node_watched(node))
		return NULL;
	watch = atomic_load(&node->watch);
	if (!watch) {
		watch = calloc(1, sizeof(*watch));
		if (!watch)
			return NULL;
		watch->asked = -1;
		watch->author = -1;
		watch->coming = SHFS_RULE_IGNORE;
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
	if (watch->current && shfs_snapshot_is_forgotten(watch->current))
		forget_current(watch);
	return watch;
}

/* Counts a loss if the node should have a watch, for which there was no memory. */
static void lose_unwatched(struct shfs_fs *fs, const struct shfs_node *node)
{
	if (is_node_watched(node))
		shfs_capture_lose(fs->capture, -ENOMEM);
}

static void watch_unlock(struct shfs_watch *watch)
{
	pthread_mutex_unlock(&watch->lock);
}

/* As watch_lock, but first waits while a mapping of another handle may be about to end.
 */
static struct shfs_watch *watch_lock_ended(struct shfs_node *node,
                                           const struct shfs_handle *but)
{
	struct shfs_watch *watch = watch_lock(node);
	uint64_t now_ns, until_ns = 0;

	while (watch && (watch->dirty || watch->passing.blind)) {
		now_ns = shfs_time_now().boot_ns;
		until_ns = until_ns ? until_ns : now_ns + SHFS_ENDING_NS;
		if (now_ns >= until_ns)
			break;
		if (!shfs_dirty_is_ending(watch, but, now_ns))
			break;
		watch_unlock(watch);
		nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
		watch = watch_lock(node);
	}
	return watch;
}

void shfs_watch_free(void *arg)
{
	struct shfs_watch *watch = arg;

	shfs_snapshot_unref(watch->current);
	shfs_snapshot_unref(watch->before);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
}

static void forget_current(struct shfs_watch *watch)
{
	if (watch->asked == SHFS_DEPTH_ARCHIVE) {
		shfs_snapshot_unref(watch->before);
		watch->before = TAKE_PTR(watch->current);
	}
	shfs_snapshot_unref(watch->current);
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
	watch->losses = shfs_capture_losses(fs->capture);
	shfs_snapshot_unref(watch->before);
	watch->before = NULL;
}

/* Notes that the content changed: it is unknown until it is captured. */
static void note_content_changed(struct shfs_watch *watch)
{
	forget_current(watch);
	watch->size = NO_STAMP;
	watch->changed = true;
	watch->fresh = false;
}

/* Notes that the last write is over: its writer does something else now. If its parts
 * were captured meanwhile, the file counts as changed again. */
static void end_part(struct shfs_watch *watch)
{
	if (watch->part.is_marked && watch->part.handle->is_dirty && !watch->changed)
		note_content_changed(watch);
	watch->part.handle = NULL;
}

/* As watch_lock_ended, for a request during which the kernel holds its lock of the file,
 * as for each write: so no other write is under way. */
static struct shfs_watch *watch_lock_whole(struct shfs_node *node,
                                           const struct shfs_handle *but)
{
	struct shfs_watch *watch = watch_lock_ended(node, but);

	if (watch && watch->part.handle)
		end_part(watch);
	return watch;
}

/* Has another process changed the lower file? */
static bool is_changed_beneath(const struct shfs_watch *watch, const struct stat *st)
{
	return watch->size != NO_STAMP &&
	       (watch->size != st->st_size || watch->mtime.tv_sec != st->st_mtim.tv_sec ||
	        watch->mtime.tv_nsec != st->st_mtim.tv_nsec);
}

/* Notes size and mtime of the file, and forgets the content if another process has
 * changed the lower file. */
static void note_stamp(struct shfs_watch *watch, const struct stat *st)
{
	if (is_changed_beneath(watch, st)) {
		forget_current(watch);
		watch->stale = true;
		watch->secret = false;
	}
	watch->mtime = st->st_mtim;
	watch->size = st->st_size;
}

/* --- contents; the watch is locked in all of these --- */

static void take_unreadable(struct shfs_fs *fs, struct shfs_node *node,
                            struct shfs_snapshot *snapshot)
{
	int fd = shfs_node_fd(fs->tree, node);

	if (fd < 0)
		return;
	shfs_snapshot_take(snapshot, fd, SHFS_DEPTH_STAT, 0, SHFS_CONTENT_SKIP_ERROR);
	shfs_node_fd_done(fs->tree, node);
}

/* Forgets current if, since it was taken, its record may have been lost or its object
 * removed. */
static void doubt_current(struct shfs_watch *watch, uint64_t losses, uint64_t generation)
{
	if (watch->current &&
	    (watch->losses != losses ||
	     (watch->generation != generation &&
	      shfs_snapshot_depth(watch->current) == SHFS_DEPTH_ARCHIVE)))
		forget_current(watch);
	watch->generation = generation;
}

/* Is current taken to this depth, or about to be? A content that could not be archived is
 * tried again. */
static bool is_taken(const struct shfs_watch *watch, enum shfs_depth depth,
                     uint64_t max_bytes)
{
	if (depth != SHFS_DEPTH_ARCHIVE)
		return watch->asked >= (int)depth;
	return watch->current && !shfs_snapshot_wants(watch->current, depth, max_bytes);
}

/* Takes current to this depth, as far as the rules allow. max_bytes: the largest content
 * to archive. */
static void take_current(struct shfs_fs *fs, struct shfs_node *node,
                         struct shfs_watch *watch, const struct shfs_handle *handle,
                         enum shfs_depth depth, uint64_t max_bytes)
{
	uint64_t losses = shfs_capture_losses(fs->capture);
	_cleanup_close_ int opened = -1;
	struct stat st;
	enum shfs_rule rule;
	bool ignored, keep;
	int fd;

	if (depth == SHFS_DEPTH_ARCHIVE)
		doubt_current(watch, losses, shfs_lease_generation(fs->store));
	if (is_taken(watch, depth, max_bytes))
		return;
	rule = shfs_watch_rule(fs, node, watch);
	ignored = rule == SHFS_RULE_IGNORE;
	keep = depth == SHFS_DEPTH_ARCHIVE && rule > SHFS_RULE_FINGERPRINT;
	if (ignored && !watch->secret && watch->current &&
	    !shfs_snapshot_wants(watch->current, SHFS_DEPTH_STAT, 0))
		return;
	fd = shfs_watch_fd(fs, node, handle, keep, &opened);
	if (fd >= 0 && !fstat(fd, &st))
		note_stamp(watch, &st);
	if (!watch->current)
		begin_current(fs, watch);
	if (!watch->current)
		return;
	watch->asked = depth;
	watch->losses = losses;
	if (fd < 0) {
		take_unreadable(fs, node, watch->current);
		return;
	}
	/* what an unknown process wrote to the lower file is taken for its owner's */
	if (!fs->at && !fstat(fd, &st))
		shfs_snapshot_author(watch->current, watch->author < 0
		                                             ? st.st_uid
		                                             : (uid_t)watch->author);
	if (ignored && watch->secret)
		shfs_snapshot_take_secret(watch->current, fd,
		                          fs->config.archive_max_bytes);
	else
		shfs_snapshot_take(watch->current, fd,
		                   ignored ? SHFS_DEPTH_STAT
		                   : keep  ? SHFS_DEPTH_ARCHIVE
		                           : MIN(depth, SHFS_DEPTH_FINGERPRINT),
		                   max_bytes,
		                   ignored || (depth == SHFS_DEPTH_ARCHIVE && !keep)
		                           ? SHFS_CONTENT_SKIP_RULE
		                           : 0);
}

static void archive_current(struct shfs_fs *fs, struct shfs_node *node,
                            struct shfs_watch *watch, const struct shfs_handle *handle)
{
	take_current(fs, node, watch, handle, SHFS_DEPTH_ARCHIVE,
	             fs->config.archive_max_bytes);
}

/* Takes the content that a reader has seen. Scripts and configuration are archived, other
 * files only fingerprinted. */
static void identify_current(struct shfs_fs *fs, struct shfs_node *node,
                             struct shfs_watch *watch, const struct shfs_handle *handle)
{
	if (watch->asked >= SHFS_DEPTH_FINGERPRINT)
		return;
	if (shfs_watch_rule(fs, node, watch) == SHFS_RULE_ARCHIVE_READ)
		take_current(fs, node, watch, handle, SHFS_DEPTH_ARCHIVE,
		             fs->config.read_max_bytes);
	else
		take_current(fs, node, watch, handle, SHFS_DEPTH_FINGERPRINT, 0);
}

/* Takes the content of a secret before a reader sees it, as the reader may write it to
 * another file. */
static void know_secret(struct shfs_fs *fs, struct shfs_node *node,
                        struct shfs_watch *watch, const struct shfs_handle *handle)
{
	if (watch->asked < SHFS_DEPTH_STAT && shfs_watch_is_secret(fs, node))
		take_current(fs, node, watch, handle, SHFS_DEPTH_FINGERPRINT, 0);
}

/* Notices a change of the lower file by another process. handle: of the file, or NULL. */
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
		note_stamp(watch, &st);
	if (!handle && fd >= 0)
		shfs_node_fd_done(fs->tree, node);
}

/*
 * Decides whether an open may use what the kernel has cached of the file, and drops the
 * cache if need be. The cache is valid unless the lower file was changed by another
 * process (it is stale).
 *
 * For an open for reading and writing the cache is dropped, so that its reads become
 * requests; but only if the file is not open otherwise, for two reasons:
 *
 * - The cache may hold data of another writer that is not written back yet. If it were
 *   read again before, the reader would keep the old content.
 *
 * - A reader may hold a page that is to be dropped, and wait for this process. If the
 *   process were killed meanwhile, the reader would wait forever.
 *
 * For the first reason, too, the cache is dropped here, not by the kernel after the
 * reply: another process may write by then. If the file is open otherwise, this open
 * counts as a reader.
 */
static bool keeps_cache(struct shfs_fs *fs, struct shfs_watch *watch,
                        struct shfs_handle *handle, int flags)
{
	bool stale = watch->stale, updates = (flags & O_ACCMODE) == O_RDWR,
	     alone = watch->passing.n_cached == 1;

	watch->stale = false;
	if (alone && (stale || updates))
		shfs_transport_invalidate(fs->transport, handle->node->id, true);
	else if (updates && !handle->scans)
		handle->tells_read = true;
	return alone || !stale;
}

/* --- dirty handles --- */

static bool is_mapped_blind(const struct shfs_watch *watch)
{
	const struct shfs_handle *handle;

	DL_FOREACH2 (watch->passing.blind, handle, passed.next_blind)
		if (handle->is_mapped)
			return true;
	return false;
}

/* Archives a file that may be written meanwhile: its content at some moment from now on.
 * The mtime shows whether it was written. */
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

/* Captures the content of the file, if it has changed. */
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
	if (watch->current && shfs_part_may_go_on(&watch->part)) {
		shfs_snapshot_spoil(watch->current);
		watch->part.is_marked = true;
	}
}

/* May the captured content have only a part of a write by this handle? Another request of
 * the writer, or end_part, ends that; a close of the handle by another process does not.
 */
static bool is_half_written(const struct shfs_watch *watch,
                            const struct shfs_handle *handle)
{
	return watch->part.handle == handle && watch->part.is_marked &&
	       shfs_part_may_go_on(&watch->part);
}

/* Captures the content of the file, and records the writers of its handles that are
 * closed, or `ending`; all: also of those through which writes may go on. */
static void settle_handles(struct shfs_fs *fs, struct shfs_node *node,
                           struct shfs_watch *watch, struct shfs_handle *ending, bool all)
{
	struct shfs_handle *handle, *next;

	capture_change(fs, node, watch, ending);
	shfs_dirty_sort(watch);
	DL_FOREACH_SAFE (watch->dirty, handle, next) {
		if (!all && handle != ending &&
		    (!handle->closed || is_half_written(watch, handle)))
			continue;
		shfs_watch_emit_writers(fs, handle, watch->current);
		shfs_dirty_unmark(watch, handle);
	}
}

static void settle_closed(struct shfs_fs *fs, struct shfs_node *node,
                          struct shfs_watch *watch, struct shfs_handle *ending)
{
	settle_handles(fs, node, watch, ending, false);
}

static void settle_open(struct shfs_fs *fs, struct shfs_node *node,
                        struct shfs_watch *watch)
{
	settle_handles(fs, node, watch, NULL, true);
}

static void settle_if_closed(struct shfs_fs *fs, struct shfs_node *node,
                             struct shfs_watch *watch)
{
	if (watch->dirty && shfs_dirty_is_all_flushed(watch))
		settle_closed(fs, node, watch, NULL);
}

/* Is the file small? A large log that grows is not archived each time that it is read. */
static bool is_small(const struct shfs_fs *fs, int fd)
{
	struct stat st;

	return !fstat(fd, &st) && (uint64_t)st.st_size <= fs->config.read_max_bytes;
}

/* Archives the content of a file that is about to change. True: no record has it yet. */
static bool keep_current(struct shfs_fs *fs, struct shfs_node *node,
                         struct shfs_watch *watch, const struct shfs_handle *handle)
{
	archive_current(fs, node, watch, handle);
	return watch->current && !shfs_snapshot_is_told(watch->current);
}

/*
 * Archives and records the content before writer changes the file, so that nothing is
 * overwritten unseen. handle: that of the change; NULL: the file is not open.
 */
static void before_change(struct shfs_fs *fs, struct shfs_node *node,
                          struct shfs_watch *watch, struct shfs_handle *handle,
                          const struct shfs_writer *writer)
{
	if (watch->changed) {
		if (handle && shfs_handle_is_handed_on(handle, writer))
			settle_closed(fs, node, watch, handle);
		else if (shfs_dirty_is_some_closed(watch, handle))
			settle_closed(fs, node, watch, NULL);
		else
			return;
	}
	check_beneath(fs, node, watch, handle);
	if (!watch->fresh && keep_current(fs, node, watch, handle))
		shfs_watch_emit_preimage(fs, node, handle, watch->current,
		                         writer->process);
	if (watch->current)
		shfs_snapshot_wait(watch->current, fs->config.wait_ms);
}

/* Captures before a truncation what was written through other handles that are still
 * open, as no version would have it otherwise. */
static void before_cut(struct shfs_fs *fs, struct shfs_node *node,
                       struct shfs_watch *watch, const struct shfs_handle *handle)
{
	bool is_captured = watch->dirty && watch->current;

	if ((watch->changed || is_captured) && !(handle && handle->is_dirty))
		settle_open(fs, node, watch);
}

/* --- open files --- */

/*
 * Notes that a blind handle has changed the file since the watch was last locked. If
 * there are several (one that writes, others that may map the file), any may have done
 * so.
 */
static void notice_blind(struct shfs_watch *watch)
{
	struct shfs_handle *blind = watch->passing.blind, *handle;

	DL_FOREACH2 (blind, handle, passed.next_blind) {
		if (blind->passed.next_blind)
			handle->flags |= SHFS_ACCESS_SHARED;
		handle->flushed = false;
		handle->closed = handle->closed && handle->passed.is_mappable;
		handle->self.last = shfs_time_now();
		shfs_handle_note_writer(handle, &handle->self,
		                        handle->passed.is_mappable ? SHFS_ACCESS_MAPPED
		                                                   : 0);
		handle->wrote = true;
		handle->is_mapped = handle->passed.is_mappable;
		shfs_dirty_mark(watch, handle);
	}
	if (!watch->changed)
		note_content_changed(watch);
}

struct shfs_handle *shfs_handle_new(struct shfs_fs *fs, struct shfs_node *node, int fd,
                                    int flags, bool created, uint32_t tid, uint32_t uid)
{
	struct shfs_handle *handle = calloc(1, sizeof(*handle));
	int lower = fcntl(fd, F_GETFL);
	struct shfs_watch *watch;

	if (!handle) {
		close(fd);
		return NULL;
	}
	handle->node = node;
	handle->fd = fd;
	handle->uid = uid;
	handle->readable = (lower & O_ACCMODE) != O_WRONLY;
	handle->is_quiet = lower & O_NOATIME;
	handle->begin = shfs_time_now();
	shfs_node_opened(fs->tree, node);
	handle->name = shfs_node_name(fs->tree, node, tid);
	pthread_mutex_lock(&fs->handles_lock);
	DL_APPEND2(fs->handles, handle, prev_open, next_open);
	fs->n_open++;
	pthread_mutex_unlock(&fs->handles_lock);
	handle->self = shfs_handle_meet_writer(fs, handle, tid);
	watch = watch_lock_ended(node, NULL);
	if (!watch) {
		lose_unwatched(fs, node);
		return handle;
	}
	handle->self.last = shfs_time_now(); /* others may have written meanwhile */
	handle->opener = handle->self.process;
	handle->flags = (flags & O_APPEND ? SHFS_ACCESS_APPEND : 0) |
	                (flags & SHFS_O_EXEC ? SHFS_ACCESS_EXEC : 0);
	handle->reads = (flags & O_ACCMODE) != O_WRONLY;
	handle->scans = handle->self.job.scans;
	handle->tells_read = (flags & O_ACCMODE) == O_RDONLY && !handle->scans;
	if (created) {
		note_content_changed(watch);
		watch->fresh = true;
		shfs_handle_note_writer(handle, &handle->self, SHFS_ACCESS_CREATED);
		shfs_dirty_mark(watch, handle);
	} else {
		settle_if_closed(fs, node, watch);
		if (handle->reads && watch->changed &&
		    shfs_dirty_is_silent(watch, &handle->self) && is_small(fs, fd))
			settle_open(fs, node, watch);
		check_beneath(fs, node, watch, handle);
		if (handle->reads && !watch->changed) {
			know_secret(fs, node, watch, handle);
			if (!watch->current)
				begin_current(fs, watch);
			if (watch->current)
				handle->seen = shfs_snapshot_ref(watch->current);
		}
	}
	handle->writable = (flags & O_ACCMODE) != O_RDONLY;
	watch->n_writable += handle->writable;
	watch_unlock(watch);
	if (handle->reads && !handle->scans)
		shfs_links_emit_way(fs, handle, tid);
	return handle;
}

/* Archives the content of a file now that handle may change unseen, by a mapping. */
static void expect_mapping(struct shfs_fs *fs, struct shfs_watch *watch,
                           struct shfs_handle *handle)
{
	/* so that the kernel does not use cached times */
	atomic_store(&handle->node->moving, true);
	shfs_transport_invalidate(fs->transport, handle->node->id, false);
	if (watch->changed)
		return;
	if (keep_current(fs, handle->node, watch, handle))
		shfs_watch_emit_preimage(fs, handle->node, handle, watch->current,
		                         handle->opener);
	if (watch->current)
		shfs_snapshot_wait(watch->current, fs->config.wait_ms);
}

/* As watch_lock, but for an open for reading and writing waits a moment while the file is
 * passed: the passed opens may end, and need not be joined. */
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
	if (handle->passed.io == SHFS_IO_CACHED)
		handle->keeps_cache = keeps_cache(fs, watch, handle, flags);
	if (handle->passed.is_mappable)
		expect_mapping(fs, watch, handle);
	watch_unlock(watch);
}

void shfs_handle_resume_io(struct shfs_fs *fs, struct shfs_handle *handle,
                           const struct shfs_open *open, uint32_t tid)
{
	struct shfs_watch *watch = watch_lock(handle->node);
	struct shfs_change change;

	if (!watch)
		return;
	shfs_passing_resume(fs, &watch->passing, handle, open);
	if (open->wrote && !watch->changed)
		watch->fresh = true; /* the file may have only a part of a write */
	watch_unlock(watch);
	if (!open->wrote)
		return;
	change = shfs_watch_begin_change(fs, handle, tid, SHFS_CHANGE_COPY);
	shfs_watch_end_change(fs, &change, 1);
}

/*
 * Returns the process that writes now. The watch is not locked while /proc is read:
 *
 * 1. A process closes the file in an exec, and its FLUSH waits for the watch.
 * 2. A child of it writes to the file. Who it is depends on its ancestors, but to read
 *    what /proc tells of the first process waits until its exec has gone on.
 */
static struct shfs_writer writer_now(struct shfs_fs *fs, struct shfs_handle *handle,
                                     uint32_t tid)
{
	struct shfs_watch *watch = watch_lock(handle->node);
	struct shfs_writer writer;
	bool is_known = false;

	if (watch) {
		is_known = shfs_handle_knows_writer(handle, tid, &writer);
		watch_unlock(watch);
	}
	return is_known ? writer : shfs_handle_meet_writer(fs, handle, tid);
}

/* Begins a change. goes_on: the request continues a write(2). */
static struct shfs_change begin_change(struct shfs_fs *fs, struct shfs_handle *handle,
                                       struct shfs_watch *watch,
                                       const struct shfs_writer *writer,
                                       enum shfs_change_kind kind, bool goes_on)
{
	struct shfs_change change = {
		.kind = kind,
		.handle = handle,
		.fd = handle->fd,
		.writer = *writer,
	};

	if (!watch) {
		lose_unwatched(fs, handle->node);
		return change;
	}
	change.watch = watch;
	change.writer.last = shfs_time_now(); /* others may have written meanwhile */
	if (kind == SHFS_CHANGE_TRUNCATE)
		before_cut(fs, handle->node, watch, handle);
	if (!goes_on || !watch->part.sure || !watch->changed)
		before_change(fs, handle->node, watch, handle, &change.writer);
	if (handle->fh)
		change.is_first =
			!atomic_exchange(&shfs_heir_open_of(fs->heir, handle->fh)->wrote,
		                         true);
	shfs_change_note_size(&change);
	return change;
}

struct shfs_change shfs_watch_begin_change(struct shfs_fs *fs, struct shfs_handle *handle,
                                           uint32_t tid, enum shfs_change_kind kind)
{
	struct shfs_writer writer = writer_now(fs, handle, tid);
	/* the kernel does not hold its lock when it writes back data of a mapping */
	struct shfs_watch *watch = tid ? watch_lock_whole(handle->node, handle)
	                               : watch_lock_ended(handle->node, handle);

	return begin_change(fs, handle, watch, &writer, kind, false);
}

struct shfs_change shfs_watch_begin_write(struct shfs_fs *fs, struct shfs_handle *handle,
                                          uint32_t tid, off_t offset)
{
	struct shfs_writer writer = writer_now(fs, handle, tid);
	struct shfs_watch *watch = watch_lock_ended(handle->node, handle);
	bool goes_on = watch && shfs_part_goes_on(&watch->part, handle, tid, offset);
	struct shfs_change change;

	if (watch && watch->part.handle && !goes_on)
		end_part(watch);
	change = begin_change(fs, handle, watch, &writer, SHFS_CHANGE_WRITE, goes_on);
	change.offset = offset;
	return change;
}

/* Notes that the call has changed the watched file, wholly or in part. */
static void change_is_done(struct shfs_change *change, ssize_t result)
{
	static const uint32_t flags[] = {
		[SHFS_CHANGE_MAPPED] = SHFS_ACCESS_MAPPED,
		[SHFS_CHANGE_TRUNCATE] = SHFS_ACCESS_TRUNCATED,
		[SHFS_CHANGE_EMPTY] = 0,
	};
	struct shfs_handle *handle = change->handle;
	struct shfs_watch *watch = change->watch;
	struct stat st;

	change->done = true;
	if (!watch->changed)
		note_content_changed(watch);
	if (!handle)
		return;
	/* what was cut to some length still has older content */
	shfs_handle_note_writer(handle, &change->writer,
	                        change->kind == SHFS_CHANGE_TRUNCATE &&
	                                        !fstat(change->fd, &st) && st.st_size
	                                ? 0
	                                : flags[change->kind]);
	handle->flushed = false;
	handle->closed = handle->closed && !change->writer.tid;
	handle->wrote = handle->wrote || change->kind != SHFS_CHANGE_TRUNCATE;
	shfs_dirty_mark(watch, handle);
	if (change->kind == SHFS_CHANGE_WRITE && result > 0)
		shfs_part_note(&watch->part, handle, change->writer.tid, change->offset,
		               (size_t)result);
}

void shfs_watch_end_change(struct shfs_fs *fs, struct shfs_change *change, ssize_t result)
{
	const struct shfs_handle *handle = change->handle;
	struct shfs_watch *watch = change->watch;
	struct stat st;

	if (!watch)
		return;
	if (!change->done && shfs_change_is_done(change, result))
		change_is_done(change, result);
	if (change->is_first && !change->done)
		atomic_store(&shfs_heir_open_of(fs->heir, handle->fh)->wrote, false);
	/* a call that failed may have set the mtime */
	if (handle && watch->size != NO_STAMP && !fstat(handle->fd, &st) &&
	    st.st_size == watch->size)
		watch->mtime = st.st_mtim;
	shfs_passing_stamp(&watch->passing);
	watch_unlock(watch);
}

void shfs_watch_read(struct shfs_handle *handle)
{
	if (handle->reads && !handle->scans &&
	    !atomic_load_explicit(&handle->tells_read, memory_order_relaxed))
		atomic_store_explicit(&handle->tells_read, true, memory_order_relaxed);
}

void shfs_watch_flush(struct shfs_fs *fs, struct shfs_handle *handle, uint32_t tid)
{
	struct shfs_watch *watch = watch_lock(handle->node);

	if (!watch)
		return;
	if (handle->passed.is_blind)
		shfs_handle_note_sharer(fs, handle, tid);
	if (watch->part.handle && shfs_part_is_by(fs, &watch->part, tid))
		end_part(watch);
	handle->flushed = handle->closed = true;
	handle->closed_ns = shfs_time_now().boot_ns;
	if (handle->is_dirty && shfs_passing_beside(&watch->passing, handle))
		settle_closed(fs, handle->node, watch, NULL);
	watch_unlock(watch);
}

/* Marks a file as changed again that was captured while it was mapped: later stores to
 * the mapping leave no trace. */
static void end_mapping(struct shfs_watch *watch, struct shfs_handle *handle)
{
	handle->flags |= SHFS_ACCESS_SHARED;
	shfs_handle_note_writer(handle, &handle->self, SHFS_ACCESS_MAPPED);
	shfs_dirty_mark(watch, handle);
	if (!watch->changed)
		note_content_changed(watch);
}

/* Takes the content that the reader saw, if the file still has it. If the reader began
 * while the file was being changed, that is the present content. */
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
		if (watch->part.handle == handle)
			watch->part.handle = NULL;
		shfs_passing_leave(fs, &watch->passing, handle);
		if (handle->passed.is_mappable)
			atomic_store(&handle->node->moving, watch->passing.blind != NULL);
		if (handle->tells_read)
			release_reader(fs, handle, watch);
		if (handle->is_dirty)
			settle_closed(fs, handle->node, watch, handle);
		else if (handle->tells_read)
			shfs_watch_emit_writers(fs, handle, NULL);
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
	if (watch->changed &&
	    (shfs_dirty_is_all_flushed(watch) || shfs_dirty_is_some_closed(watch, NULL)))
		settle_closed(fs, node, watch, NULL);
	if (watch->changed)
		return NULL;
	check_beneath(fs, node, watch, NULL);
	if (archive)
		archive_current(fs, node, watch, NULL);
	else
		take_current(fs, node, watch, NULL, SHFS_DEPTH_FINGERPRINT, 0);
	return watch->current ? shfs_snapshot_ref(watch->current) : NULL;
}

struct shfs_change shfs_watch_begin_truncate(struct shfs_fs *fs, struct shfs_node *node,
                                             int fd, uint64_t process)
{
	struct shfs_change change = {
		.kind = SHFS_CHANGE_TRUNCATE,
		.fd = fd,
		.watch = watch_lock_whole(node, NULL),
		.writer = { .process = process },
	};

	shfs_change_note_size(&change);
	if (!change.watch) {
		lose_unwatched(fs, node);
		return change;
	}
	before_cut(fs, node, change.watch, NULL);
	before_change(fs, node, change.watch, NULL, &change.writer);
	return change;
}

bool shfs_watch_has_truncated(struct shfs_fs *fs, struct shfs_node *node,
                              struct shfs_change *change, int result,
                              struct shfs_snapshot **content)
{
	if (!shfs_change_is_done(change, result))
		return false;
	if (change->watch) {
		change_is_done(change, result);
		*content = content_now(fs, node, change->watch, true);
	}
	return true;
}

struct shfs_snapshot *shfs_watch_content(struct shfs_fs *fs, struct shfs_node *node,
                                         bool archive, enum shfs_rule coming)
{
	struct shfs_watch *watch = watch_lock_whole(node, NULL);
	struct shfs_snapshot *content;

	if (!watch)
		return NULL;
	/* unless by such a rule, the content was archived when it was written */
	archive |= coming > SHFS_RULE_FINGERPRINT &&
	           shfs_watch_rule(fs, node, watch) <= SHFS_RULE_FINGERPRINT;
	watch->coming = coming;
	content = content_now(fs, node, watch, archive);
	watch->coming = SHFS_RULE_IGNORE;
	watch_unlock(watch);
	return content;
}

struct shfs_snapshot *shfs_watch_last_content(struct shfs_fs *fs, struct shfs_node *node)
{
	struct shfs_watch *watch = watch_lock_whole(node, NULL);
	struct shfs_snapshot *content;

	if (!watch)
		return NULL;
	if (watch->changed && shfs_dirty_is_written(watch))
		settle_open(fs, node, watch);
	content = content_now(fs, node, watch, true);
	watch_unlock(watch);
	return content;
}

struct shfs_watch *shfs_watch_begin_touch(struct shfs_fs *fs, struct shfs_node *node,
                                          bool times, bool *changing)
{
	struct shfs_watch *watch = watch_lock_whole(node, NULL);

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
