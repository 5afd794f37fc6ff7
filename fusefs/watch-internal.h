/* SPDX-License-Identifier: MIT */
/*
 * watch-internal.h - the writers of an open file (watch-writers.c), for watch.c. Its
 * watch is locked.
 */
#pragma once

#include "fusefs/watch.h"

struct shfs_watch {
	pthread_mutex_t lock;
	struct shfs_snapshot *current; /* what the file holds; NULL: not known yet */
	struct shfs_snapshot *before;  /* what it held before, until current is known */
	int asked;                     /* the depth that was asked of current; -1 */
	uint64_t asked_bytes;          /* and the limit */
	uint64_t losses;               /* of the capture, then */
	bool changed; /* by us, since current was known (which is NULL then) */
	bool fresh;   /* made by us and never written: nothing was there before */
	struct timespec mtime;     /* as we saw it last: another tells a change beneath */
	off_t size;                /* too; or NO_STAMP, while we change it ourselves */
	bool stale;                /* it was changed beneath since the kernel cached it */
	struct shfs_handle *dirty; /* that changed it since it was last captured */
	unsigned n_writable;       /* open handles that may change it */
	struct shfs_passing passing;
};

#define SHFS_BUILTIN_NS                                                                  \
	(SHFS_NSEC_PER_SEC / 5) /* between two commands that are typed                   \
	                         */

/* Who writes now. A thread that wrote a moment ago is still the same process. */
struct shfs_writer shfs_handle_writer_now(struct shfs_fs *fs,
                                          const struct shfs_handle *handle, uint32_t tid);

/* Has another command than the one that wrote through handle last come to write? */
bool shfs_handle_is_handed_on(const struct shfs_handle *handle,
                              const struct shfs_writer *next);

/* It has written. One entry for each process; those of one job that have no room share
 * the last. flags: enum shfs_access_flags, to add. */
void shfs_handle_note_writer(struct shfs_handle *handle, const struct shfs_writer *now,
                             uint32_t flags);

/* Was the file made or emptied by this open? */
bool shfs_handle_has_emptied(const struct shfs_handle *handle);
