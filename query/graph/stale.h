/* SPDX-License-Identifier: MIT */
/*
 * stale.h - which results no longer match their inputs, and which commands to run again.
 *
 * A result is the latest version of a file that is there, made by a command that read
 * other files before; each job of a build tool counts as a command of its own. It is
 * stale if one of these holds another content now than the command read, or if one of
 * these is stale itself; or if its command failed, while the same command line had made
 * it and ended well before. What told a build tool what to do (a Makefile) counts until
 * the same command, run again, has read it and ended well. What shfs put back is of who
 * made it first. No results, but as they are: what was edited in place or appended to,
 * what editors, notebooks and version control wrote, what was copied or moved by such a
 * program as was asked for, and what processes outside of any command made.
 */
#pragma once

#include "query/history/entry.h"

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
	bool stale;  /* for an input that changed, or is stale itself; or it failed */
	bool failed; /* what it left is no result: it ends with 0 else */
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

/* Did the process copy what was to be copied: is it cp, and stands so in the command, or
 * was run by its shell itself (an alias, a function)? A copy is kept as it is, or it
 * would be none. What a script or a build tool copies is a step like others. 1, 0, or a
 * negative errno. */
_must_check_ int shfs_stale_is_copy(struct shfs_index *index, int64_t process_id,
                                    const struct shfs_command_row *command);
