/* SPDX-License-Identifier: MIT */
/* Notes which processes write through an open file. */
#include "fusefs/watch/internal.h"

#include "fusefs/transport/transport.h"
#include "recording/turns.h"

#include <string.h>
#include <sys/stat.h>

#define CHECKED_NS SHFS_NSEC_PER_SEC
#define PAGE       4096
/* Longest time between two requests of one write(2), on a busy machine: if more requests
 * surely follow; if it only looks so, maybe by chance. */
#define PART_NS        (2 * SHFS_NSEC_PER_SEC)
#define PART_UNSURE_NS (SHFS_NSEC_PER_SEC / 10)

/* The same process writes again: may it be a shell that executes its next line itself? */
static bool is_next_command_line(const struct shfs_handle *handle,
                                 const struct shfs_writer *last,
                                 const struct shfs_writer *next)
{
	return next->process == last->process && next->job.leads_group && handle->wrote &&
	       handle->flushed &&
	       next->last.boot_ns - last->last.boot_ns > SHFS_TURN_PASTED_NS;
}

bool shfs_handle_is_handed_on(const struct shfs_handle *handle,
                              const struct shfs_writer *next)
{
	const struct shfs_writer *last = &handle->writers[handle->last_writer];

	if (!handle->n_writers)
		return false;
	if (next->job.group != last->job.group)
		return (handle->wrote && handle->flushed) ||
		       handle->n_writers == SHFS_WRITERS_MAX;
	return is_next_command_line(handle, last, next) && next->job.leads_session &&
	       next->last.boot_ns - last->last.boot_ns > SHFS_TURN_TYPED_NS;
}

bool shfs_handle_knows_writer(const struct shfs_handle *handle, uint32_t tid,
                              struct shfs_writer *out)
{
	struct shfs_writer w = { .tid = tid, .last = shfs_time_now() };

	for (unsigned i = 0; i < handle->n_writers; i++) {
		const struct shfs_writer *known = &handle->writers[i];

		if (known->tid != tid || known->job.is_forked ||
		    w.last.boot_ns - known->checked_ns > CHECKED_NS)
			continue;
		w.process = known->process;
		w.job = known->job;
		w.checked_ns = known->checked_ns;
		*out = w;
		return true;
	}
	return false;
}

struct shfs_writer shfs_handle_meet_writer(struct shfs_fs *fs,
                                           const struct shfs_handle *handle, uint32_t tid)
{
	struct shfs_writer w = { .tid = tid, .last = shfs_time_now() };

	w.process = tid ? shfs_caller_job(fs->callers, tid, &w.job) : handle->opener;
	w.checked_ns = w.last.boot_ns;
	return w;
}

/* Notes a line of a shell. Only the hook log shows where lines begin and end, so each
 * gets a record of its own. If there are too many, the two that are closest become one.
 */
static void note_line(struct shfs_handle *handle, const struct shfs_writer *w)
{
	struct shfs_line *line = handle->lines;
	unsigned closest = 0;

	if (!line)
		line = handle->lines = calloc(SHFS_LINES_MAX, sizeof(*line));
	if (!line)
		return;
	if (handle->n_lines == SHFS_LINES_MAX) {
		for (unsigned i = 1; i + 1 < SHFS_LINES_MAX; i++)
			if (line[i + 1].last.boot_ns - line[i].last.boot_ns <
			    line[closest + 1].last.boot_ns - line[closest].last.boot_ns)
				closest = i;
		memmove(line + closest, line + closest + 1,
		        (SHFS_LINES_MAX - closest - 1) * sizeof(*line));
		handle->n_lines--;
	}
	line[handle->n_lines++] = (struct shfs_line){ w->process, w->last };
}

/* Has the writer made or emptied the file for a program that it has executed since, as a
 * shell does (command > file)? Then that counts as the program's. */
static bool is_made_for(const struct shfs_handle *handle, const struct shfs_writer *w,
                        const struct shfs_writer *now)
{
	return w->tid == now->tid && w->job.group == now->job.group && w->job.is_forked &&
	       !now->job.is_forked && !handle->wrote;
}

void shfs_handle_note_writer(struct shfs_handle *handle, const struct shfs_writer *now,
                             uint32_t flags)
{
	unsigned i = 0;

	while (i < handle->n_writers && handle->writers[i].process != now->process &&
	       !is_made_for(handle, &handle->writers[i], now))
		i++;
	if (i < handle->n_writers) {
		if (is_next_command_line(handle, &handle->writers[i], now))
			note_line(handle, &handle->writers[i]);
		flags |= handle->writers[i].flags;
	} else {
		i = MIN(handle->n_writers, SHFS_WRITERS_MAX - 1u);
		handle->n_writers = i + 1;
	}
	handle->writers[i] = *now;
	handle->writers[i].flags = flags;
	handle->last_writer = i;
}

bool shfs_handle_has_emptied(const struct shfs_handle *handle)
{
	return handle->n_writers && (handle->writers[handle->last_writer].flags &
	                             (SHFS_ACCESS_CREATED | SHFS_ACCESS_TRUNCATED));
}

void shfs_handle_note_sharer(struct shfs_fs *fs, struct shfs_handle *handle, uint32_t tid)
{
	struct shfs_writer writer = { .tid = tid, .last = shfs_time_now() };
	struct shfs_closer closer;
	struct stat st;

	if (!handle->is_dirty || fstat(handle->fd, &st))
		return;
	if (!shfs_handle_knows_writer(handle, tid, &writer))
		writer.process = shfs_caller_at_hand(fs->callers, tid);
	if (writer.process && writer.process == handle->opener)
		return;
	/* a process in an exec mostly leaves the writing to other processes */
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

/* --- parts of a write --- */

/*
 * Notes a write request. A write(2) becomes several requests if it is larger than one may
 * be, or if it begins in a page that the kernel has not cached, which is a request of its
 * own. So more may follow a request of the largest size, or one that ends with a page.
 */
void shfs_part_note(struct shfs_part *part, const struct shfs_handle *handle,
                    uint32_t tid, off_t offset, size_t len)
{
	off_t end = offset + (off_t)len;
	bool sure = offset % PAGE, largest = len + PAGE > SHFS_MAX_WRITE;

	*part = (struct shfs_part){
		.handle = !(end % PAGE) || largest ? handle : NULL,
		.tid = tid,
		.process = handle->writers[handle->last_writer].process,
		.until_ns = shfs_time_now().boot_ns +
		            (sure || largest ? PART_NS : PART_UNSURE_NS),
		.end = end,
		.sure = sure,
	};
}

bool shfs_part_may_go_on(const struct shfs_part *part)
{
	return part->handle && shfs_time_now().boot_ns < part->until_ns;
}

bool shfs_part_goes_on(const struct shfs_part *part, const struct shfs_handle *handle,
                       uint32_t tid, off_t offset)
{
	return part->handle == handle && part->tid == tid && part->end == offset &&
	       shfs_part_may_go_on(part);
}

bool shfs_part_is_by(struct shfs_fs *fs, const struct shfs_part *part, uint32_t tid)
{
	uint64_t process;

	if (tid == part->tid)
		return true;
	process = shfs_caller_at_hand(fs->callers, tid);
	return process && process == part->process;
}
