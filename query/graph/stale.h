/* SPDX-License-Identifier: MIT */
/*
 * stale.h - finds results that no longer match their inputs, and the commands to run
 * again.
 *
 * A result is the latest version of an existing file, made by a command that had read
 * other files; each job of a build tool counts as a command. A result is stale if one of
 * these inputs has another content now than the command read, or is stale itself; or if
 * its command failed: left nothing, was killed, had ended well before with the same
 * command line, or is a program that ended with an error as it never had before.
 * Files that told a build tool what to do (a Makefile) count until the same command, run
 * again, has read them and ended well. A content that shfs restored belongs to its first
 * maker.
 *
 * A file outside of the recorded directories, and a link that was gone through, are
 * compared as they are now.
 *
 * Not results: files that were edited in place or appended to, or written by editors,
 * notebooks, version control or processes outside of any command; and copies or moves
 * that the user asked for.
 */
#pragma once

#include "query/history/entry.h"

struct shfs_stale_file {
	struct shfs_stale_run *run;          /* that made it; NULL: it is no result */
	struct shfs_stale_file *next_result; /* of the same run, among those asked
	                                      * about */
	char *path;
	int64_t n; /* its latest version */
	bool present;
	bool moved_on; /* a file outside, or a link: it has changed since that version */
};

struct shfs_stale_input {
	struct shfs_stale_file *file;
	struct shfs_stale_run *run; /* of the file, once all runs were looked at */
	uint32_t n;   /* the version that was read; 0: of a file outside that an earlier
	               * command had left, which is no version */
	bool changed; /* the file has another content now */
	bool reason;  /* it has, or is stale itself */
};

struct shfs_stale_run {
	const struct shfs_entry *entry; /* the command, without its uses and jobs */
	struct shfs_stale_file *results;
	size_t n_results;
	struct shfs_stale_input *inputs;
	size_t n_inputs;
	bool stale;                  /* an input changed or is stale; or the run failed */
	bool failed;                 /* it failed, though it ended with 0 before */
	bool needed;                 /* it made a removed input of a run in this list */
	struct shfs_stale_run *next; /* in an order in which they can be run */
	/* for runs to be run again: the next job of the same command in this order;
	 * again: an earlier job of the command is in the list */
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

/* All runs that were looked at, also those that need not be run again. */
struct shfs_stale_run *shfs_stale_runs(struct shfs_stale *stale);

/* Was the process a copy that the user asked for: is it cp, typed as a command or run by
 * the shell itself (an alias, a function)? Such a copy is kept as it is, or it would be
 * no copy. A copy by a script or a build tool is a step like others. 1, 0, or a negative
 * errno. */
_must_check_ int shfs_stale_is_copy(struct shfs_index *index, int64_t process_id,
                                    const struct shfs_command_row *command);
