/* SPDX-License-Identifier: MIT */
/*
 * downstream.h - what came of versions: the commands that read them, what these made from
 * then on, the commands that read that, and so on.
 *
 * The other way round as upstream.h: a version is downstream of one here where that is
 * upstream of it there. So what a maker had done before it began to read is not in the
 * graph. A maker's inputs are those in the graph. Names that came and went within a
 * command are left out, as is the old name of what was renamed.
 */
#pragma once

#include "query/graph/graph.h"

/* targets: the caller keeps them. Without limits->all, what lies in .git and the like is
 * counted and left out. A target that was renamed has its new name in the list carried,
 * without a maker. */
_must_check_ int shfs_downstream_new(struct shfs_index *index,
                                     const struct shfs_version *targets, size_t n,
                                     const struct shfs_graph_limits *limits,
                                     struct shfs_graph **out);
