/* SPDX-License-Identifier: MIT */
/*
 * limit.h - asks the kernel to forget names: keeps the number of nodes, and the memory
 * for them, in bounds.
 *
 * The kernel remembers names for as long as it has memory, and each of them is a node
 * here. A thread of its own asks it to forget the longest unused ones where there are
 * more than wanted, and gives memory that has become free back to the system. The kernel
 * (6.18 and later; an older one is not asked again) only forgets what nobody uses: an
 * open file, a working directory, a watch or a mount below stays as it is.
 */
#pragma once

#include "common/util.h"

#include <stddef.h>

struct shfs_pruner;
struct shfs_transport;
struct shfs_tree;

/* tree and transport stay the caller's. */
_must_check_ int shfs_pruner_new(struct shfs_tree *tree, struct shfs_transport *transport,
                                 size_t max_nodes, struct shfs_pruner **out);
/* Ends the thread; before the transport ends. NULL is fine. */
void shfs_pruner_free(struct shfs_pruner *pruner);
