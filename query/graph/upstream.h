/* SPDX-License-Identifier: MIT */
/*
 * upstream.h - where a version comes from: the commands behind it, and the versions that
 * each of them had read by then, back to what nobody made.
 *
 * A maker's inputs are what it read before the last of its versions in the graph was
 * done, but for what it made itself; also the past of a file that it appended to or
 * changed in place, and what it moved or linked. What was found there, and written again
 * with the same content before others read it, is made by who wrote that. What shfs or a
 * program of version control wrote again comes from the version that it equals; what lies
 * in .git and the like is counted and left out unless it is asked for, or all history
 * would lead to all other.
 */
#pragma once

#include "query/graph/graph.h"

/* limits->all is also meant if target lies in .git or the like. A version without a maker
 * is a source; via leads to the target through what was read in time for it. */
_must_check_ int shfs_upstream_new(struct shfs_index *index,
                                   const struct shfs_version *target,
                                   const struct shfs_graph_limits *limits,
                                   struct shfs_graph **out);
/* What is behind another version, too; *out is that one. */
_must_check_ int shfs_upstream_add(struct shfs_graph *graph,
                                   const struct shfs_version *target,
                                   struct shfs_graph_version **out);
/* Puts the maker that limits->whole means into a version that was loaded. */
_must_check_ int shfs_upstream_attribute(struct shfs_graph *graph,
                                         struct shfs_version *version);
