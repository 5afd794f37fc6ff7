/* SPDX-License-Identifier: MIT */
/*
 * nodes.h - the names that the kernel knows: one node for each, below its directory's.
 *
 * A node is its name alone. What lies there is found anew with each request, so a node
 * costs some 50 bytes, and holds nothing that may become old. It lives as long as the
 * kernel refers to it, or to one below it. One thread at a time.
 */
#pragma once

#include "common/buf.h"

struct shfs_node {
	struct shfs_node *parent, *next; /* next: of the same slot */
	uint64_t lookups;                /* references of the kernel */
	uint32_t children;
	char name[];
};

struct shfs_nodes {
	struct shfs_node *root;
	struct shfs_node **table;
	size_t n, size;
};

_must_check_ int shfs_nodes_init(struct shfs_nodes *nodes);
void shfs_nodes_free(struct shfs_nodes *nodes);

/* Takes a reference to the node of a name. -ENOMEM. */
_must_check_ int shfs_nodes_look(struct shfs_nodes *nodes, struct shfs_node *parent,
                                 const char *name, struct shfs_node **out);
/* Returns n references; the node may be gone then. */
void shfs_nodes_forget(struct shfs_nodes *nodes, struct shfs_node *node, uint64_t n);

/* Makes the path of a node, relative to the root: "" for that itself. With name: of that
 * name in it. malloc'ed; NULL: no memory. */
char *shfs_node_path(const struct shfs_node *node, const char *name);

/* Returns the number of a file, the same at any time: of the directory with this number,
 * or its name in it. */
#define SHFS_NODE_ROOT_INO UINT64_C(1)
uint64_t shfs_node_ino(const struct shfs_node *node);
uint64_t shfs_node_ino_in(uint64_t directory, const char *name);
