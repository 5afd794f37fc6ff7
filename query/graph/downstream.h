/* SPDX-License-Identifier: MIT */
/*
 * downstream.h - what was made from versions: the commands that read them, what these
 * made from then on, the commands that read that, and so on.
 *
 * The reverse of upstream.h: a version is downstream of another if the other is upstream
 * of it. So results that a maker had finished before it began to read are not in the
 * graph. A maker's inputs are those in the graph. Temporary names within a command are
 * left out, as is the old name of a renamed file.
 */
#pragma once

#include "query/graph/graph.h"

/* targets: the caller keeps them. Without limits->all, versions in .git and the like are
 * counted and left out. A target that was renamed has its new name in the list carried,
 * without a maker. */
_must_check_ int shfs_downstream_new(struct shfs_index *index,
                                     const struct shfs_version *targets, size_t n,
                                     const struct shfs_graph_limits *limits,
                                     struct shfs_graph **out);
