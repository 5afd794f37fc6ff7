/* SPDX-License-Identifier: MIT */
/*
 * stale.h - which results no longer match their inputs, and which commands to run again.
 *
 * A result is the latest version of a file that is there, made by a command that read
 * other files before; each job of a build tool counts as a command of its own. It is
 * stale if one of these holds another content now than the command read, or if one of
 * these is stale itself; the command's exit status does not matter. What told a build
 * tool what to do (a Makefile) counts until the same command, run again, has read it and
 * ended well. No results, but as they are: what was edited in place or appended to, what
 * editors, notebooks, version control and shfs wrote, what was copied or moved by a
 * command that does nothing else, and what processes outside of any command made.
 */
#pragma once

#include "query/entry.h"

struct shfs_stale_file {
	struct shfs_stale_run *run;          /* that made it; NULL: it is no result */
	struct shfs_stale_file *next_result; /* of the same run, that was asked about */
	char *path;
	int64_t n; /* its latest version */
	bool present;
};

struct shfs_stale_input {
	struct shfs_stale_file *file;
	uint32_t n;   /* the version that was read */
	bool changed; /* the file holds another content now */
};

struct shfs_stale_run {
	const struct shfs_entry *entry; /* the command; without its uses and jobs */
	struct shfs_stale_file *results;
	struct shfs_stale_input *inputs;
	size_t n_inputs;
	bool stale;  /* for an input that changed, or is stale itself */
	bool needed; /* for it made an input, now removed, of one that is to be run */
	struct shfs_stale_run *next; /* in an order in which they can be run */
	/* of those that are to be run: another job of the same command, later in the
	 * order; again: there is one before it */
	struct shfs_stale_run *next_job;
	bool again;
};

struct shfs_stale;

/* paths: files, or directories with all below them. */
_must_check_ int shfs_stale_new(struct shfs_index *index, char *const *paths, size_t n,
                                struct shfs_stale **out);
void shfs_stale_free(struct shfs_stale *stale);

static inline void shfs_stale_freep(struct shfs_stale **stale)
{
	shfs_stale_free(*stale);
}
#define _cleanup_stale_ _cleanup_(shfs_stale_freep)

/* All that were looked at, also those that need not be run. */
struct shfs_stale_run *shfs_stale_runs(struct shfs_stale *stale);
