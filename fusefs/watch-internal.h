/* SPDX-License-Identifier: MIT */
/*
 * watch-internal.h - the writers of an open file (watch-writers.c), for watch.c. Its
 * watch is locked.
 */
#pragma once

#include "fusefs/watch.h"

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
