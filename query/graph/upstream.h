/* SPDX-License-Identifier: MIT */
/*
 * upstream.h - where a version comes from: the commands behind it, and the versions that
 * each of them had read by then, back to versions without a maker.
 *
 * A maker's inputs are what it read before it had finished the last of its versions in
 * the graph, except its own results; also the earlier version of a file that it appended
 * to or changed in place, and what it moved or linked. What it read is of who had made
 * the version last by then (makings.c), and the target of who has made it last. A
 * version that shfs or version control restored comes from the version that it equals.
 * Files in .git and the like are counted and left out unless limits->all is set: else all
 * of the history would depend on all of it.
 */
#pragma once

#include "query/graph/graph.h"

/* limits->all also applies if target is in .git or the like. A version without a maker is
 * a source; via leads to the target through reads that were in time for it. */
_must_check_ int shfs_upstream_new(struct shfs_index *index,
                                   const struct shfs_version *target,
                                   const struct shfs_graph_limits *limits,
                                   struct shfs_graph **out);
/* Adds another version and everything upstream of it; *out is that version. */
_must_check_ int shfs_upstream_add(struct shfs_graph *graph,
                                   const struct shfs_version *target,
                                   struct shfs_graph_version **out);
/* Adds a command and everything upstream of all that it read: 1; 0: there is no such
 * command. */
_must_check_ int shfs_upstream_add_command(struct shfs_graph *graph, int64_t command_id,
                                           struct shfs_graph_maker **out);
/* Sets the maker of a loaded version as limits->whole demands. */
_must_check_ int shfs_upstream_attribute(struct shfs_graph *graph,
                                         struct shfs_version *version);
