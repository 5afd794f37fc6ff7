/* SPDX-License-Identifier: MIT */
/* run.h - shows a plan, or carries it out: what undo and restore have in common. */
#pragma once

#include "query/undo/plan.h"
#include "query/undo/steps.h"

/* The words of a command. */
struct shfs_undo_words {
	const char *command, *done; /* "undo", "undone" */
	const char *heads[2];       /* of what is to be done, of what was done */
	const char *question;       /* NULL: it does not ask */
	const char *all_as_it_was;  /* there is nothing to do */
};

struct shfs_undo_run {
	const struct shfs_undo_words *words;
	bool dry_run, patch, yes, json, partly;
	bool whole; /* also where others have changed something, nothing is done */
	struct shfs_context *ctx;
	struct shfs_index *index;
	/* from here on of the functions below */
	struct shfs_store *store;
	const struct shfs_config *config;
	struct shfs_steps_place place;
	struct shfs_undo_plan
		plan; /* the caller sets selected to all, and past.since_ns */
	struct shfs_steps steps;
	struct shfs_buf message;
	bool carried_out;
};

/* All return an exit code; if it is not 0, a message was printed. */

/* Begins: up to the words to index is set. Ends what a killed one has left. */
_must_check_ int shfs_undo_begin(struct shfs_undo_run *run);
/* Makes the plan for effects, which are sorted; shows it or carries it out. */
_must_check_ int shfs_undo_plan_and_run(struct shfs_undo_run *run,
                                        const struct shfs_undo_options *options,
                                        const struct shfs_effects *effects);
/* Takes all steps, or none. */
_must_check_ int shfs_undo_take(struct shfs_undo_run *run);
void shfs_undo_end(struct shfs_undo_run *run);
