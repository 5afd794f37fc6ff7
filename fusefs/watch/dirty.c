/* SPDX-License-Identifier: MIT */
/* Dirty handles: the open files that have changed a file since its last capture. */
#include "fusefs/watch/internal.h"

#include "recording/turns.h"

#include <utlist.h>

void shfs_dirty_mark(struct shfs_watch *watch, struct shfs_handle *handle)
{
	if (handle->is_dirty)
		return;
	handle->is_dirty = true;
	watch->author = handle->uid;
	DL_APPEND(watch->dirty, handle);
}

void shfs_dirty_unmark(struct shfs_watch *watch, struct shfs_handle *handle)
{
	handle->is_dirty = handle->wrote = false;
	handle->n_writers = handle->n_lines = 0;
	DL_DELETE(watch->dirty, handle);
}

/*
 * Is a mapping of the handle about to end, maybe? All its descriptors are closed, and
 * stores to the mapping were written back a moment ago. If that was at the unmapping,
 * RELEASE is on its way; nothing else would show it.
 */
static bool is_ending(const struct shfs_handle *handle, uint64_t now_ns)
{
	return handle->closed && !handle->flushed && handle->n_writers &&
	       now_ns - handle->writers[handle->last_writer].last.boot_ns <
	               SHFS_ENDING_NS;
}

bool shfs_dirty_is_ending(const struct shfs_watch *watch, const struct shfs_handle *but,
                          uint64_t now_ns)
{
	const struct shfs_handle *handle;

	DL_FOREACH (watch->dirty, handle)
		if (handle != but && is_ending(handle, now_ns))
			return true;
	DL_FOREACH2 (watch->passing.blind, handle, passed.next_blind)
		if (handle != but && handle->passed.is_mappable && handle->closed &&
		    now_ns - handle->closed_ns < SHFS_ENDING_NS)
			return true;
	return false;
}

static uint64_t last_write_ns(const struct shfs_handle *handle)
{
	uint64_t last = 0;

	for (unsigned i = 0; i < handle->n_writers; i++)
		last = MAX(last, handle->writers[i].last.boot_ns);
	return last;
}

static int by_last_write(const struct shfs_handle *a, const struct shfs_handle *b)
{
	uint64_t first = last_write_ns(a), second = last_write_ns(b);

	return (first < second) - (first > second);
}

void shfs_dirty_sort(struct shfs_watch *watch)
{
	DL_SORT(watch->dirty, by_last_write);
}

bool shfs_dirty_is_written(const struct shfs_watch *watch)
{
	const struct shfs_handle *handle;

	DL_FOREACH (watch->dirty, handle)
		if (handle->wrote)
			return true;
	return false;
}

bool shfs_dirty_is_silent(const struct shfs_watch *watch, const struct shfs_writer *now)
{
	const struct shfs_handle *handle;

	DL_FOREACH (watch->dirty, handle)
		for (unsigned i = 0; i < handle->n_writers; i++) {
			const struct shfs_writer *w = &handle->writers[i];

			if (w->process == now->process ||
			    now->last.boot_ns - w->last.boot_ns < SHFS_TURN_TYPED_NS)
				return false;
		}
	return shfs_dirty_is_written(watch);
}

bool shfs_dirty_is_some_closed(const struct shfs_watch *watch,
                               const struct shfs_handle *but)
{
	const struct shfs_handle *handle;

	DL_FOREACH (watch->dirty, handle)
		if (handle != but && handle->closed)
			return true;
	return false;
}

bool shfs_dirty_is_all_flushed(const struct shfs_watch *watch)
{
	const struct shfs_handle *handle;

	DL_FOREACH (watch->dirty, handle)
		if (!handle->flushed)
			return false;
	return true;
}
