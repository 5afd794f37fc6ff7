/* SPDX-License-Identifier: MIT */
/*
 * rerun.h - commands to be run again: what each needs and overwrites, whether that can be
 * done so that it is the same run and nothing is lost, and doing it.
 *
 * In place a command finds what is there now, but no file that it made itself: those are
 * taken away first, as they were not there then. All of them must be archived and the
 * work of a command that is run again, and their project be recorded, unless forced. What
 * a command read has to be there; what it changed in place, or took away, as it was then.
 *
 * In a scratch copy it finds the versions that it is given, and nothing else.
 */
#pragma once

#include "query/graph/stale.h"
#include "query/restore/restore.h"

enum shfs_rerun_outcome {
	SHFS_RERUN_UNKNOWN, /* it was not run */
	SHFS_RERUN_SAME,
	SHFS_RERUN_DIFFERENT,
	SHFS_RERUN_NEW, /* nothing was there to compare with */
	SHFS_RERUN_NOT_MADE,
	SHFS_RERUN_UNCOMPARED, /* what was there is not archived */
};

struct shfs_rerun_result {
	const struct shfs_use *use; /* of its step */
	/* What it is compared with: what is there now; in a scratch copy of a command
	 * that was named, what it made then. Without a path: nothing. */
	struct shfs_version before;
	enum shfs_rerun_outcome outcome;
};

enum shfs_rerun_state {
	SHFS_RERUN_WAITS,
	SHFS_RERUN_RAN,
	SHFS_RERUN_FAILED,
	SHFS_RERUN_UNNEEDED, /* what it reads came out the same */
	SHFS_RERUN_LEFT_OUT, /* what it reads was not made */
};

struct shfs_rerun_step {
	struct shfs_entry entry;
	char *shell;
	const struct shfs_stale_run *stale; /* NULL: it was named */
	struct shfs_rerun_result *results;
	size_t n_results;
	enum shfs_rerun_state state;
	int status; /* of RAN and FAILED */
};

struct shfs_rerun_options {
	const char *store_path;
	const char *top; /* of the scratch copy, to be; NULL: in place */
	bool force, keep_going;
	bool to_stderr; /* what the commands print */
};

struct shfs_rerun {
	struct shfs_index *index; /* borrowed, as all but the steps and their base */
	struct shfs_store *store;
	const struct shfs_config *config;
	struct shfs_rerun_options options;
	struct shfs_rerun_step *steps;
	size_t n, cap;
	char *base; /* what top stands for */
	struct shfs_rerun_maker *makers;
};

/* Starts as the borrowed members and 0. */
void shfs_rerun_clear(struct shfs_rerun *rerun);

/* In the order in which they are to be run. stale is borrowed; NULL: it was named. */
_must_check_ int shfs_rerun_add(struct shfs_rerun *rerun, int64_t command_id,
                                const struct shfs_stale_run *stale);

/* Of all that were added: 0; SHFS_EXIT_REFUSED after a message for each reason; or a
 * negative errno. Finds base, and what results are compared with. */
_must_check_ int shfs_rerun_check(struct shfs_rerun *rerun);

/* What is told while they are run. */
struct shfs_rerun_watcher {
	void (*begin)(void *arg, const struct shfs_rerun_step *step);
	void (*end)(void *arg, const struct shfs_rerun_step *step);
	void *arg;
};

/* 0: all that had to be run was, and ended well; 1: not; -EINTR: a signal came
 * (shfs_runner_signal); or a negative errno. */
_must_check_ int shfs_rerun_run(struct shfs_rerun *rerun,
                                const struct shfs_rerun_watcher *watcher);

/* --- between rerun.c and rerun-run.c --- */

/* A file that a step needs: which version; the path is borrowed. */
struct shfs_rerun_need {
	const struct shfs_use *use;
	const char *path;
	int64_t version_id; /* that it had then; 0: not known */
	bool as_then;       /* no other will do */
};
/* False: use needs none, or an earlier step makes it: that is *maker then. */
bool shfs_rerun_need(const struct shfs_rerun *rerun, const struct shfs_rerun_step *step,
                     const struct shfs_use *use, struct shfs_rerun_need *out,
                     struct shfs_rerun_step **maker);
/* The first step that makes path, if that is before step; or NULL. */
struct shfs_rerun_step *shfs_rerun_maker(const struct shfs_rerun *rerun, const char *path,
                                         const struct shfs_rerun_step *step);
struct shfs_rerun_result *shfs_rerun_result_of(struct shfs_rerun_step *step,
                                               const char *path);
/* Where path is in the run; malloc'ed. */
char *shfs_rerun_place(const struct shfs_rerun *rerun, const char *path);
/* Does the file hold exactly what the version does? 1, 0; -ENODATA: that has no object.
 */
_must_check_ int shfs_rerun_compare(const struct shfs_rerun *rerun, const char *file,
                                    const struct shfs_version *version);
/* Is it still at its path, by size and time? */
bool shfs_rerun_is_there(const struct shfs_version *version);
/* The version of a need that a scratch copy is given: 1, 0 for none. */
_must_check_ int shfs_rerun_load_need(const struct shfs_rerun *rerun,
                                      const struct shfs_rerun_step *step,
                                      const struct shfs_rerun_need *need,
                                      struct shfs_version *out);
