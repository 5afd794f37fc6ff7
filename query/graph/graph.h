/* SPDX-License-Identifier: MIT */
/*
 * graph.h - versions of files, and who made one of the other: what upstream.h and
 * downstream.h find.
 *
 * A maker is a command, a job of a build tool that it ran (jobs.c), or a process
 * that belongs to no command. Versions cannot go round in
 * circles; makers can (one long session of an editor), so whoever walks the graph marks
 * them. The graph owns all of it.
 */
#pragma once

#include "query/history/entry.h"

struct shfs_graph_version {
	struct shfs_version version;
	struct shfs_graph_maker *maker;       /* NULL: nobody that we know of */
	struct shfs_graph_version *next;      /* in the order of discovery */
	struct shfs_graph_version *next_made; /* by the same maker */
	/* on a shortest way, the next one nearer to where the search began; NULL: here */
	struct shfs_graph_version *via;
	struct shfs_graph_maker **readers; /* downstream alone */
	size_t n_readers, cap_readers;
	size_t n_more; /* readers that were not looked at, for max_versions */
	struct shfs_graph_version *carried, *next_carried; /* the same, renamed */
	size_t number; /* 1, 2, … in the order of discovery */
	bool passing;  /* downstream: its maker moved it on, or removed it */
	bool cut;      /* downstream alone: too far, its readers were not looked for */
	bool mark;
};

struct shfs_graph_maker {
	struct shfs_entry entry; /* without its uses */
	bool again;              /* another job of a command that is in the graph */
	struct shfs_graph_version **inputs; /* in the order of first use */
	size_t n_inputs, cap_inputs;
	size_t n_left_out; /* versions in .git and the like that are not in the graph */
	size_t n_more;     /* those that would have been more than max_versions */
	struct shfs_graph_version *made;
	struct shfs_graph_maker *next;
	bool cut;  /* upstream alone: too far, its inputs were not looked for */
	bool mark; /* for whoever walks the graph */
	/* upstream alone: reads that began later than this are no inputs; when the last
	 * of what it made was done */
	int64_t until_ns;
	struct shfs_graph_version *into;
	size_t depth, number;
};

struct shfs_graph;

struct shfs_graph_limits {
	int64_t max_depth;   /* makers one behind the other; 0: all */
	size_t max_versions; /* that are looked at, about; 0: all */
	bool all;            /* also through .git and the like */
	bool eager; /* read all of the index first, however little is asked for */
	/* upstream alone: a version below this directory is all that is wanted (borrowed;
	 * NULL: all are) */
	const char *until;
	/* upstream alone; for who runs them again: all that a maker read, also when it
	 * was done; and what was renamed is made by whoever did that, of what it was
	 * before */
	bool whole;
};

void shfs_graph_free(struct shfs_graph *graph);

static inline void shfs_graph_freep(struct shfs_graph **graph)
{
	shfs_graph_free(*graph);
}
#define _cleanup_graph_ _cleanup_(shfs_graph_freep)

/* The first are those that the search began with. */
struct shfs_graph_version *shfs_graph_versions(struct shfs_graph *graph);
struct shfs_graph_maker *shfs_graph_makers(struct shfs_graph *graph);

/* Programs that the maker executed (before until_ns), of which there are no versions:
 * they lie outside of what is recorded. As shfs_access_fn. */
typedef int (*shfs_program_fn)(const char *path, void *arg);
_must_check_ int shfs_graph_programs(struct shfs_graph *graph,
                                     const struct shfs_graph_maker *maker,
                                     shfs_program_fn fn, void *arg);
