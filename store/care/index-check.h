/* SPDX-License-Identifier: MIT */
/*
 * index-check.h - shared by the files of the check.
 *
 *     check.c          the check as a whole; the journal and the objects that it names
 *     check-objects.c  packs and loose objects (check-objects.h)
 *     check-index.c    index.db, and which versions are lost
 *     check-state.c    state/check: how far the data was read; state/damage
 *     repair.c         mends
 */
#pragma once

#include "store/care/check.h"
#include "store/objects/objects.h"

/* Where a repair sets aside what is damaged, below the store. */
#define REPAIR_ASIDE "quarantine"

/* The contents of state/check. */
struct check_state {
	struct shfs_check_history history;
	unsigned part, parts;
	char *position; /* the last file that was read whole; NULL: none */
	char **bad;     /* files before it with a flaw */
	size_t n_bad;
};

/* The contents of state/damage: losses that a repair could not undo, and has reported. */
struct check_known {
	struct shfs_objects objects;
	char **logs; /* "FILE OFFSET BYTES" of hook logs, which a repair does not change
	              */
	size_t n_logs;
};

struct check_run {
	struct shfs_store *store;
	const char *hook_dir;
	const struct shfs_check_options *options;
	struct shfs_check *out;
	struct check_state state;
	struct check_known known;
	struct shfs_objects named; /* by the journal or the index */
	struct shfs_objects there;
	struct shfs_objects lost;
	struct shfs_objects pruned;
	bool damaged; /* the journal is damaged */
};

/* Adds a flaw; file is a printf format. */
struct shfs_flaw *check_flaw(struct check_run *run, enum shfs_flaw_kind kind,
                             uint64_t offset, uint64_t bytes, const char *file, ...)
	_printf_(5, 6);
/* Sets the text of a flaw, which may be NULL. */
void check_say(struct shfs_flaw *flaw, const char *text, ...) _printf_(2, 3);

_must_check_ int check_objects(struct check_run *run);

/* Opens and checks index.db; *out is NULL if it cannot be used. */
_must_check_ int check_index(struct check_run *run, struct shfs_index **out);
/* Checks whether the index agrees with the journal. */
_must_check_ int check_index_against_journal(struct check_run *run,
                                             struct shfs_index *index);
_must_check_ int check_named_by_index(struct check_run *run, struct shfs_index *index);
/* Finds the versions of lost objects. index NULL: one is made of the journal. */
_must_check_ int check_losses(struct check_run *run, struct shfs_index *index);

_must_check_ int check_state_load(struct shfs_store *store, struct check_state *out);
_must_check_ int check_state_save(struct shfs_store *store, const struct check_state *s);
void check_state_free(struct check_state *state);
_must_check_ int check_state_add_bad(struct check_state *state, const char *name);
bool check_state_is_bad(const struct check_state *state, const char *name);

_must_check_ int check_known_load(struct shfs_store *store, struct check_known *out);
_must_check_ int check_known_save(struct shfs_store *store,
                                  const struct check_known *known);
void check_known_free(struct check_known *known);
