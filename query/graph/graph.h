/* SPDX-License-Identifier: MIT */
/*
 * graph.h - versions of files, and the makers that made one from the other: the result of
 * upstream.h and downstream.h.
 *
 * A maker is a command, a job of a build tool that it ran (jobs.c), or a process that
 * belongs to no command. Versions cannot form circles; makers can (one long session of an
 * editor), so a function that walks the graph marks them. The graph owns everything in
 * it.
 */
#pragma once

#include "query/history/entry.h"

struct shfs_graph_version {
	struct shfs_version version;
	struct shfs_graph_maker *maker;       /* NULL: no maker is recorded */
	struct shfs_graph_version *next;      /* in the order of discovery */
	struct shfs_graph_version *next_made; /* by the same maker */
	/* the next version on a shortest way to where the search began; NULL: here */
	struct shfs_graph_version *via;
	struct shfs_graph_maker **readers; /* downstream only */
	size_t n_readers, cap_readers;
	size_t n_more; /* readers that were left out because of max_versions */
	struct shfs_graph_version *carried, *next_carried; /* the same content, renamed */
	size_t number; /* 1, 2, … in the order of discovery */
	bool passing;  /* downstream: its maker renamed or removed it */
	bool cut;      /* downstream only: too deep, its readers were not looked up */
	/* upstream only: the version elsewhere whose content this is; nobody made this
	 * one */
	struct shfs_graph_version *origin;
	bool joined; /* downstream only: a copy, as only its content tells */
	bool mark;
};

struct shfs_graph_maker {
	struct shfs_entry entry; /* without its uses */
	bool again;              /* another job of a command that is in the graph */
	struct shfs_graph_version **inputs; /* in the order of first use */
	size_t n_inputs, cap_inputs;
	/* upstream only: how an input went in that it has not read */
	struct shfs_graph_note {
		const struct shfs_graph_version *input;
		char *by_way; /* of this file outside; NULL: it made a copy, by its
		                 content */
	} * notes;
	size_t n_notes, cap_notes;
	size_t n_left_out; /* versions in .git and the like that are not in the graph */
	size_t n_more;     /* left out because of max_versions */
	struct shfs_graph_version *made;
	struct shfs_graph_maker *next;
	bool cut;  /* upstream only: too deep, its inputs were not looked up */
	bool mark; /* for functions that walk the graph */
	/* upstream only: reads that began later are no inputs; the end of its last result
	 * in the graph */
	int64_t until_ns;
	struct shfs_graph_version *into;
	size_t depth, number;
};

struct shfs_graph;

struct shfs_graph_limits {
	int64_t max_depth;   /* makers in a row; 0: no limit */
	size_t max_versions; /* about so many are looked at; 0: no limit */
	bool all;            /* also through .git and the like */
	bool eager;          /* read the whole index first, even for a small question */
	/* upstream only: stop at a version below this directory (borrowed; NULL: no
	 * limit) */
	const char *until;
	/* upstream only, for running commands again: inputs are all reads of a maker,
	 * also those after its results; and a renamed version is made by the renaming
	 * maker, from its earlier name */
	bool whole;
};

/* A graph without versions: to ask about commands, or to begin one. */
_must_check_ int shfs_graph_new(struct shfs_index *index,
                                const struct shfs_graph_limits *limits,
                                struct shfs_graph **out);
void shfs_graph_free(struct shfs_graph *graph);

static inline void shfs_graph_freep(struct shfs_graph **graph)
{
	shfs_graph_free(*graph);
}
#define _cleanup_graph_ _cleanup_(shfs_graph_freep)

/* The first versions are those that the search began with. */
struct shfs_graph_version *shfs_graph_versions(struct shfs_graph *graph);
struct shfs_graph_maker *shfs_graph_makers(struct shfs_graph *graph);

/* Calls fn for programs that the maker executed (before until_ns) of which there are no
 * versions: they lie outside of the project. As shfs_access_fn. */
typedef int (*shfs_program_fn)(const char *path, void *arg);
_must_check_ int shfs_graph_programs(struct shfs_graph *graph,
                                     const struct shfs_graph_maker *maker,
                                     shfs_program_fn fn, void *arg);

/* Is the path outside of all directories that were ever recorded? 1, 0, or a negative
 * errno. */
_must_check_ int shfs_graph_is_outside(struct shfs_graph *graph, const char *path);

/* Calls fn for the files outside of all recorded directories that the maker's programs
 * (before until_ns) name in their arguments, or have as their standard input, in the
 * order of their names: as far as words tell, and perhaps written rather than read. */
_must_check_ int shfs_graph_outside(struct shfs_graph *graph,
                                    const struct shfs_graph_maker *maker,
                                    shfs_program_fn fn, void *arg);

/* Calls used for those that the maker uses as it finds them, which may be not at all; and
 * after that, left for each command that has left the file so: the last one, and those
 * whose work that may have kept; 0: what left it is not known. */
typedef int (*shfs_left_fn)(const char *path, int64_t command_id, void *arg);
_must_check_ int shfs_graph_left_before(struct shfs_graph *graph,
                                        const struct shfs_graph_maker *maker,
                                        shfs_program_fn used, shfs_left_fn left,
                                        void *arg);
/* Calls left for the commands that may have made the directories above a file outside
 * that the command writes, as their texts name them; where its own does not. */
_must_check_ int shfs_graph_directories_left(struct shfs_graph *graph,
                                             const struct shfs_command_row *command,
                                             const char *path, shfs_left_fn left,
                                             void *arg);
/* Calls fn for those that the command has as its outputs, some more than once. */
_must_check_ int shfs_graph_leaves(struct shfs_graph *graph,
                                   const struct shfs_command_row *command,
                                   shfs_program_fn fn, void *arg);
