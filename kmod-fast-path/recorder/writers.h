/* SPDX-License-Identifier: MIT */
/*
 * writers.h - the processes that write through open files, from their WRITE events.
 * Several commands may share one file: each is the author of what it left when the next
 * one came.
 *
 * One thread.
 */
#pragma once

#include "common/clock.h"
#include "common/event.h"

#include <stdbool.h>
#include <uthash.h>

/* The writes of one program, or of a shell for one command line. */
struct shfs_writer {
	uint64_t process; /* the sequence number of its record */
	struct shfs_event_process who;
	struct shfs_time begin, last;
	bool emptied; /* it truncated the file, perhaps for a program that it executes
	               * then */
};

struct shfs_open_file {
	uint64_t id; /* as in the events */
	struct shfs_event_file file;
	char *path;
	struct shfs_writer *writers; /* in no order */
	unsigned n_writers, last;    /* last: index of the last writer */
	bool ended;                  /* the last writer has ended */
	bool handed_on;              /* earlier writers were recorded already */
	UT_hash_handle hh;
};

/* Finds an open file by its id; the table begins as NULL. */
struct shfs_open_file *shfs_open_file_find(struct shfs_open_file *all, uint64_t id);

/* The open file of a WRITE; added if it is new. NULL: no memory. */
struct shfs_open_file *shfs_open_file_get(struct shfs_open_file **all,
                                          const struct shfs_event *event,
                                          const char *path);
void shfs_open_file_free(struct shfs_open_file **all, struct shfs_open_file *file);

/* Does the writer of the event belong to another command than the last one? */
bool shfs_open_file_is_handed_on(const struct shfs_open_file *file,
                                 const struct shfs_event *event);

/* The writers so far are recorded: forgets them. */
void shfs_open_file_hand_on(struct shfs_open_file *file);

/* Takes in a WRITE by the process that has this record. */
void shfs_open_file_note(struct shfs_open_file *file, const struct shfs_event *event,
                         uint64_t process, struct shfs_time time);

/* Takes in an EXIT. true: that process was the last writer. */
bool shfs_open_file_note_exit(struct shfs_open_file *file,
                              const struct shfs_event *event);
