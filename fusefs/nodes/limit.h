/* SPDX-License-Identifier: MIT */
/*
 * limit.h - asks the kernel to forget names: keeps the number of nodes, and the memory
 * for them, in bounds.
 *
 * The kernel remembers names as long as it has memory, and each of them is a node here.
 * If there are too many, a thread asks the kernel to forget the longest unused ones, and
 * gives free memory back to the system. The kernel (6.18 and later; an older one is asked
 * once) forgets only unused files: not an open file, a working directory, a watched one
 * (inotify) or a mount point.
 */
#pragma once

#include "common/util.h"

#include <stddef.h>

struct shfs_pruner;
struct shfs_transport;
struct shfs_tree;

/* Starts the thread. tree and transport are borrowed. */
_must_check_ int shfs_pruner_new(struct shfs_tree *tree, struct shfs_transport *transport,
                                 size_t max_nodes, struct shfs_pruner **out);
/* Ends the thread; called before the transport ends. NULL is fine. */
void shfs_pruner_free(struct shfs_pruner *pruner);
