/* SPDX-License-Identifier: MIT */
/*
 * compare.h - compares two runs: in which of the commands behind them they began to
 * differ, and what followed from that.
 *
 * A stage is two commands, one of each run, that did the same work. The first stage is
 * the two commands that were asked about. Where both commands of a stage read a file with
 * different contents, the makers of these contents are a stage, too, if they begin with
 * the same word; of a file outside, the commands that left it so (passed.c). A difference
 * is explained if something earlier causes it: different inputs, if their makers are a
 * stage; different results, if anything else of their stage differs.
 */
#pragma once

#include "query/history/entry.h"

enum shfs_difference_kind {
	SHFS_DIFFERENT_TEXT,
	SHFS_DIFFERENT_CWD,
	SHFS_DIFFERENT_SHELL,
	SHFS_DIFFERENT_PROGRAM,  /* executed by one of them, outside of the project */
	SHFS_DIFFERENT_SOFTWARE, /* of a program that both executed: another version */
	SHFS_DIFFERENT_INPUT,
	SHFS_DIFFERENT_ENVIRONMENT, /* of their programs: a recorded variable */
	SHFS_DIFFERENT_ARGUMENTS,   /* of programs; compared only if nothing before
	                             * differs */
	SHFS_DIFFERENT_STATUS,
	SHFS_DIFFERENT_RESULT,
};

/* "text", "cwd", … in JSON. */
const char *shfs_difference_word(enum shfs_difference_kind kind);

struct shfs_difference {
	enum shfs_difference_kind kind;
	bool explained;
	/* INPUT, RESULT: the versions; without a path: the file is missing */
	struct shfs_version version[2];
	/* PROGRAM, ARGUMENTS: what only this side has; SHELL; SOFTWARE; ENVIRONMENT:
	 * NAME=VALUE, NULL: it is not set */
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

/* Compares two commands. */
_must_check_ int shfs_compare(struct shfs_index *index, const int64_t command_id[2],
                              struct shfs_comparison **out);
void shfs_comparison_free(struct shfs_comparison *comparison);

static inline void shfs_comparison_freep(struct shfs_comparison **comparison)
{
	shfs_comparison_free(*comparison);
}
#define _cleanup_comparison_ _cleanup_(shfs_comparison_freep)

/* The stages, the earliest first; the last one is the two commands that were asked
 * about. */
struct shfs_stage *shfs_comparison_stages(struct shfs_comparison *comparison);
