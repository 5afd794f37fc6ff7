/* SPDX-License-Identifier: MIT */
/*
 * writers.h - who writes through open files, as the WRITE events tell it. Several
 * commands may share one: each is the maker of what it left when the next one came.
 *
 * One thread.
 */
#pragma once

#include "common/clock.h"
#include "common/event.h"

#include <stdbool.h>
#include <uthash.h>

/* What one program has written, or a shell for one of its lines. */
struct shfs_writer {
	uint64_t process; /* the sequence number of its record */
	struct shfs_event_process who;
	struct shfs_time begin, last;
	bool emptied; /* it has, perhaps for a program to execute then */
};

struct shfs_open_file {
	uint64_t id; /* as events give it */
	struct shfs_event_file file;
	char *path;
	struct shfs_writer *writers; /* in no order */
	unsigned n_writers, last;    /* last: who wrote last */
	bool ended;                  /* that has */
	bool handed_on;              /* others have written before them, and are done */
	UT_hash_handle hh;
};

/* All that are open; begins as NULL. */
struct shfs_open_file *shfs_open_file_find(struct shfs_open_file *all, uint64_t id);

/* The one of a WRITE, made if need be. NULL: no memory. */
struct shfs_open_file *shfs_open_file_get(struct shfs_open_file **all,
                                          const struct shfs_event *event,
                                          const char *path);
void shfs_open_file_free(struct shfs_open_file **all, struct shfs_open_file *file);

/* Is who writes now of another command than the last one? */
bool shfs_open_file_is_handed_on(const struct shfs_open_file *file,
                                 const struct shfs_event *event);

/* Those that have written are done. */
void shfs_open_file_hand_on(struct shfs_open_file *file);

/* Takes in a WRITE, by the process of that record. */
void shfs_open_file_note(struct shfs_open_file *file, const struct shfs_event *event,
                         uint64_t process, struct shfs_time time);

/* Takes in an EXIT. True: nobody has written since that process did. */
bool shfs_open_file_note_exit(struct shfs_open_file *file,
                              const struct shfs_event *event);
