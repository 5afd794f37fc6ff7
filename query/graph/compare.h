/* SPDX-License-Identifier: MIT */
/*
 * compare.h - two runs side by side: in which of the commands behind them they began to
 * differ, and what followed from that.
 *
 * A stage is two commands, one of each run, that did the same work: the two that were
 * asked about; then, where both read a file with another content, the two that had made
 * these contents, if they begin with the same word. A difference is explained if an
 * earlier stage has it: another content that was read is, if its makers are a stage; a
 * result is, if anything else of its stage differs.
 */
#pragma once

#include "query/history/entry.h"

enum shfs_difference_kind {
	SHFS_DIFFERENT_TEXT,
	SHFS_DIFFERENT_CWD,
	SHFS_DIFFERENT_SHELL,
	SHFS_DIFFERENT_PROGRAM, /* that one of them executed, outside of what is recorded
	                         */
	SHFS_DIFFERENT_INPUT,
	SHFS_DIFFERENT_ARGUMENTS, /* of programs; looked at where nothing before differs
	                           */
	SHFS_DIFFERENT_STATUS,
	SHFS_DIFFERENT_RESULT,
};

/* "text", "cwd", … in JSON. */
const char *shfs_difference_word(enum shfs_difference_kind kind);

struct shfs_difference {
	enum shfs_difference_kind kind;
	bool explained;
	/* INPUT, RESULT: the versions; one without a path: there is none */
	struct shfs_version version[2];
	/* PROGRAM, ARGUMENTS: of the one side alone; SHELL */
	char *name[2];
	struct shfs_difference *next;
};

struct shfs_stage {
	struct shfs_entry entry[2];
	struct shfs_difference *differences; /* by kind */
	size_t n_unexplained;
	struct shfs_stage *next; /* in the order of time */
};

struct shfs_comparison;

/* Of two commands. */
_must_check_ int shfs_compare(struct shfs_index *index, const int64_t command_id[2],
                              struct shfs_comparison **out);
void shfs_comparison_free(struct shfs_comparison *comparison);

static inline void shfs_comparison_freep(struct shfs_comparison **comparison)
{
	shfs_comparison_free(*comparison);
}
#define _cleanup_comparison_ _cleanup_(shfs_comparison_freep)

/* The earliest first. The last are the two that were asked about. */
struct shfs_stage *shfs_comparison_stages(struct shfs_comparison *comparison);
