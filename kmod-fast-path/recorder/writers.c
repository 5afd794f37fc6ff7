/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/writers.h"

#include "common/util.h"
#include "recording/turns.h"

#include <stdlib.h>
#include <string.h>

#define WRITERS_MAX 64 /* further writers share the last place */

struct shfs_open_file *shfs_open_file_find(struct shfs_open_file *all, uint64_t id)
{
	struct shfs_open_file *file = NULL;

	if (id)
		HASH_FIND(hh, all, &id, sizeof(id), file);
	return file;
}

struct shfs_open_file *shfs_open_file_get(struct shfs_open_file **all,
                                          const struct shfs_event *event,
                                          const char *path)
{
	struct shfs_open_file *file = shfs_open_file_find(*all, event->file.id);

	if (file)
		return file;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->id = event->file.id;
	file->file = event->file;
	file->path = strdup(path);
	HASH_ADD(hh, *all, id, sizeof(file->id), file);
	return file;
}

void shfs_open_file_free(struct shfs_open_file **all, struct shfs_open_file *file)
{
	HASH_DEL(*all, file);
	free(file->writers);
	free(file->path);
	free(file);
}

static bool are_same_process(const struct shfs_event_process *a,
                             const struct shfs_event_process *b)
{
	return a->pid == b->pid && a->start_ns == b->start_ns;
}

bool shfs_open_file_is_handed_on(const struct shfs_open_file *file,
                                 const struct shfs_event *event)
{
	const struct shfs_writer *last = &file->writers[file->last];

	return file->n_writers && event->process.pgid != last->who.pgid &&
	       (file->ended || event->time_ns - last->last.boot_ns > SHFS_TURN_TYPED_NS);
}

void shfs_open_file_hand_on(struct shfs_open_file *file)
{
	file->n_writers = 0;
	file->handed_on = true;
}

/* Adds a writer; with no room left, the last one is replaced. NULL: no memory. */
static struct shfs_writer *add_open_writer(struct shfs_open_file *file)
{
	struct shfs_writer *grown = file->writers;
	unsigned n = file->n_writers;

	if (n == WRITERS_MAX)
		return &file->writers[n - 1];
	if (!(n & (n - 1))) /* a power of two: it is full, or empty */
		grown = reallocarray(grown, n ? 2 * n : 1, sizeof(*grown));
	if (!grown)
		return NULL;
	file->writers = grown;
	file->n_writers++;
	return &grown[n];
}

/* Finds the writer that goes on. Another command line of a shell is a writer of its
 * own. */
static struct shfs_writer *find_open_writer(struct shfs_open_file *file, uint64_t process,
                                            const struct shfs_event_process *who)
{
	struct shfs_writer *last = &file->writers[file->last];

	if (!file->n_writers || last->process == process)
		return NULL;
	if (last->emptied && are_same_process(who, &last->who)) {
		last->process = process;
		return last;
	}
	for (unsigned i = 0; i < file->n_writers; i++)
		if (file->writers[i].process == process)
			return &file->writers[i];
	return NULL;
}

void shfs_open_file_note(struct shfs_open_file *file, const struct shfs_event *event,
                         uint64_t process, struct shfs_time time)
{
	struct shfs_writer *writer = find_open_writer(file, process, &event->process);

	if (!writer) {
		writer = add_open_writer(file);
		if (!writer)
			return;
		*writer = (struct shfs_writer){ .process = process, .begin = time };
	}
	writer->who = event->process;
	writer->last = time;
	writer->emptied = event->flags & SHFS_EVENT_TRUNCATED && !file->handed_on;
	file->last = (unsigned)(writer - file->writers);
	file->ended = false;
}

bool shfs_open_file_note_exit(struct shfs_open_file *file, const struct shfs_event *event)
{
	if (!file->n_writers ||
	    !are_same_process(&file->writers[file->last].who, &event->process))
		return false;
	file->ended = true;
	return true;
}
