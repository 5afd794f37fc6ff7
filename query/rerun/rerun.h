/* SPDX-License-Identifier: MIT */
/*
 * rerun.h - runs commands again: what each needs and overwrites, whether it can be run so
 * that it is the same run and nothing is lost, and running it.
 *
 * In place, a command finds the files as they are now, except those that it made itself:
 * these are removed first, as they were not there then. Unless forced, each of these must
 * be archived, be made by a command that is run again, and lie in a project that is
 * recorded. Files that the command read have to exist; files that it changed in place or
 * removed have to be as they were then. If it fails, or is interrupted or killed, the
 * project is put back as it was before (put-back.h).
 *
 * In a scratch copy it finds the versions that it is given, and nothing else.
 */
#pragma once

#include "query/graph/stale.h"
#include "query/rerun/deviations.h"
#include "query/rerun/workflow.h"
#include "query/restore/restore.h"

enum shfs_rerun_outcome {
	SHFS_RERUN_UNKNOWN, /* it was not run */
	SHFS_RERUN_SAME,
	SHFS_RERUN_DIFFERENT,
	SHFS_RERUN_NEW, /* there was nothing to compare with */
	SHFS_RERUN_NOT_MADE,
	SHFS_RERUN_UNCOMPARED, /* the earlier content is not archived */
};

struct shfs_rerun_result {
	const struct shfs_use *use; /* of the step's uses */
	/* The version to compare with: the current one; in a scratch copy of a named
	 * command, the version that it made then. Without a path: none. */
	struct shfs_version before;
	enum shfs_rerun_outcome outcome;
};

enum shfs_rerun_state {
	SHFS_RERUN_WAITS,
	SHFS_RERUN_RAN,
	SHFS_RERUN_FAILED,
	SHFS_RERUN_UNNEEDED, /* its inputs came out the same */
	SHFS_RERUN_LEFT_OUT, /* its inputs were not made */
	SHFS_RERUN_REFUSED,
};

struct shfs_rerun_step {
	struct shfs_entry entry;
	struct shfs_command_script script;
	const struct shfs_stale_run *stale; /* NULL: the user named it */
	struct shfs_rerun_result *results;
	size_t n_results;
	struct shfs_names leaves; /* files outside that it writes, or may write; only if
	                           * it waits when all is checked */
	enum shfs_rerun_state state;
	int status;    /* with RAN and FAILED */
	bool edited;   /* script is not what the command was */
	char *session; /* of the runner, and the command's number there: once it was run;
	                * NULL: the run is in no hook log */
	uint64_t number;
};

struct shfs_rerun_options {
	const char *store_path;
	const char *top; /* path of the scratch copy; NULL: in place */
	const struct shfs_deviations *deviations; /* in a scratch copy; NULL: none */
	bool force, keep_going;
	bool recorded;  /* also in a scratch copy, a run is a command of the history */
	bool to_stderr; /* where output of the commands goes */
};

struct shfs_rerun {
	struct shfs_index *index; /* borrowed, as all but steps and base */
	struct shfs_store *store;
	const struct shfs_config *config;
	struct shfs_rerun_options options;
	struct shfs_rerun_step *steps;
	size_t n, cap;
	char *base; /* the directory that top is a copy of */
	struct shfs_rerun_maker *makers;
};

/* Frees its steps and base. A rerun begins with the borrowed members set, and all else
 * 0. */
void shfs_rerun_clear(struct shfs_rerun *rerun);

/* Adds a step, in the order in which they are run. stale is borrowed; NULL: the user
 * named the command. */
_must_check_ int shfs_rerun_add(struct shfs_rerun *rerun, int64_t command_id,
                                const struct shfs_stale_run *stale);

/* Checks all steps, with a message for each reason to refuse one. 0: some can be run; the
 * others are refused, or left out because they need a result of these. SHFS_EXIT_REFUSED:
 * none can be; or a negative errno. Finds base, and the versions to compare results
 * with. */
_must_check_ int shfs_rerun_check(struct shfs_rerun *rerun);

/* Callbacks during the run. */
struct shfs_rerun_watcher {
	void (*begin)(void *arg, const struct shfs_rerun_step *step);
	void (*end)(void *arg, const struct shfs_rerun_step *step);
	void *arg;
};

/* Runs the steps that are not refused. 0: all of them that had to be run ended well; 1:
 * not all; -EINTR: a signal came (shfs_runner_signal); or a negative errno. */
_must_check_ int shfs_rerun_run(struct shfs_rerun *rerun,
                                const struct shfs_rerun_watcher *watcher);

/* Puts back what commands left that ran in place when an earlier rerun was killed; only
 * looks for that if dry. 1; 0: there was nothing to put back; or a negative errno, and
 * *place is where it is noted (malloc'ed), or NULL. */
_must_check_ int shfs_rerun_put_back_left(struct shfs_rerun *rerun, bool dry,
                                          char **place);

/* --- between rerun.c and run.c --- */

/* A file that a step needs, and its version; the path is borrowed. */
struct shfs_rerun_need {
	const struct shfs_use *use;
	const char *path;
	int64_t version_id; /* the version then; 0: unknown */
	bool as_then;       /* only this version will do */
};
/* The need of a use. False: there is none, or an earlier step makes the file: *maker. */
bool shfs_rerun_need(const struct shfs_rerun *rerun, const struct shfs_rerun_step *step,
                     const struct shfs_use *use, struct shfs_rerun_need *out,
                     struct shfs_rerun_step **maker);
/* Does the step need a result of a step that was not run, or failed? */
bool shfs_rerun_lacks_input(const struct shfs_rerun *rerun,
                            const struct shfs_rerun_step *step);
/* The first step that makes path, if it comes before step; or NULL. */
struct shfs_rerun_step *shfs_rerun_maker(const struct shfs_rerun *rerun, const char *path,
                                         const struct shfs_rerun_step *step);
struct shfs_rerun_result *shfs_rerun_result_of(struct shfs_rerun_step *step,
                                               const char *path);
/* Where the file of that path is in this run: the path itself, or below top; malloc'ed.
 */
char *shfs_rerun_place(const struct shfs_rerun *rerun, const char *path);
/* Does the file have exactly the content of the version? 1, 0; -ENODATA: that has no
 * object. */
_must_check_ int shfs_rerun_compare(const struct shfs_rerun *rerun, const char *file,
                                    const struct shfs_version *version);
/* Loads the version that a scratch copy gets for a need: 1; 0: none. */
_must_check_ int shfs_rerun_load_need(const struct shfs_rerun *rerun,
                                      const struct shfs_rerun_step *step,
                                      const struct shfs_rerun_need *need,
                                      struct shfs_version *out);
