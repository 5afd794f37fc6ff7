/* SPDX-License-Identifier: MIT */
/* selection.h - whose changes are to be undone: those of commands, or of processes. */
#pragma once

#include "common/ids.h"
#include "query/past/effects.h"

struct shfs_undo_selection {
	struct shfs_index *index;
	bool by_process;     /* of commands only what the processes of ids did counts */
	bool git;            /* as in struct shfs_undo_options */
	struct shfs_ids ids; /* of commands, or with by_process of processes */
	struct shfs_effects effects;
};

/* Adds the changes of a command, once. 1 if there are any that count, 0, or -errno. */
_must_check_ int shfs_undo_select_alone(struct shfs_undo_selection *selection,
                                        int64_t command_id);
/* Adds those of the commands that programs gave which these have started. Returns as
 * shfs_undo_select_alone. */
_must_check_ int shfs_undo_select_given(struct shfs_undo_selection *selection,
                                        const struct shfs_ids *by);
/* Adds both of a command; with by_process only its own. Returns likewise. */
_must_check_ int shfs_undo_select_command(struct shfs_undo_selection *selection,
                                          int64_t command_id);
/* Removes the changes that do not count. */
void shfs_undo_selection_filter(struct shfs_undo_selection *selection);
/* Has all sorted, as shfs_undo_plan wants it. */
void shfs_undo_selection_sort(struct shfs_undo_selection *selection);
void shfs_undo_selection_clear(struct shfs_undo_selection *selection);
#define _cleanup_undo_selection_ _cleanup_(shfs_undo_selection_clear)
