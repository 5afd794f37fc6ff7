/* SPDX-License-Identifier: MIT */
#include "browse/nodes.h"

#include "common/fnv.h"
#include "store/objects/object.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define SIZE_MIN ((size_t)1 << 10)

static size_t slot_of(const struct shfs_nodes *nodes, const struct shfs_node *parent,
                      const char *name)
{
	uint64_t hash = shfs_fnv(SHFS_FNV_BEGIN, (const char *)&parent, sizeof(parent));

	hash = shfs_fnv(hash, name, strlen(name));
	return (size_t)(hash ^ hash >> 32) & (nodes->size - 1);
}

static struct shfs_node *new_node(struct shfs_node *parent, const char *name)
{
	size_t len = strlen(name) + 1;
	struct shfs_node *node = malloc(sizeof(*node) + len);

	if (!node)
		return NULL;
	*node = (struct shfs_node){ .parent = parent };
	memcpy(node->name, name, len);
	return node;
}

int shfs_nodes_init(struct shfs_nodes *nodes)
{
	*nodes = (struct shfs_nodes){
		.root = new_node(NULL, ""),
		.table = calloc(SIZE_MIN, sizeof(*nodes->table)),
		.size = SIZE_MIN,
	};
	return nodes->root && nodes->table ? 0 : -ENOMEM;
}

void shfs_nodes_free(struct shfs_nodes *nodes)
{
	for (size_t i = 0; nodes->table && i < nodes->size; i++) {
		struct shfs_node *node = nodes->table[i], *next;

		for (; node; node = next) {
			next = node->next;
			free(node);
		}
	}
	free(nodes->table);
	free(nodes->root);
	*nodes = (struct shfs_nodes){ 0 };
}

/* Without memory the slots only become longer. */
static void resize_table(struct shfs_nodes *nodes, size_t size)
{
	struct shfs_nodes grown = { .size = size };

	grown.table = calloc(size, sizeof(*grown.table));
	if (!grown.table)
		return;
	for (size_t i = 0; i < nodes->size; i++) {
		struct shfs_node *node = nodes->table[i], *next;

		for (; node; node = next) {
			size_t slot = slot_of(&grown, node->parent, node->name);

			next = node->next;
			node->next = grown.table[slot];
			grown.table[slot] = node;
		}
	}
	free(nodes->table);
	nodes->table = grown.table;
	nodes->size = size;
}

int shfs_nodes_look(struct shfs_nodes *nodes, struct shfs_node *parent, const char *name,
                    struct shfs_node **out)
{
	struct shfs_node *node = nodes->table[slot_of(nodes, parent, name)];
	size_t slot;

	while (node && (node->parent != parent || strcmp(node->name, name)))
		node = node->next;
	if (!node) {
		node = new_node(parent, name);
		if (!node)
			return -ENOMEM;
		if (++nodes->n > nodes->size)
			resize_table(nodes, nodes->size * 2);
		slot = slot_of(nodes, parent, name);
		node->next = nodes->table[slot];
		nodes->table[slot] = node;
		parent->children++;
	}
	node->lookups++;
	*out = node;
	return 0;
}

void shfs_nodes_forget(struct shfs_nodes *nodes, struct shfs_node *node, uint64_t n)
{
	node->lookups -= MIN(n, node->lookups);
	while (node->parent && !node->lookups && !node->children) {
		struct shfs_node *parent = node->parent;
		struct shfs_node **at = &nodes->table[slot_of(nodes, parent, node->name)];

		while (*at != node)
			at = &(*at)->next;
		*at = node->next;
		free(node);
		parent->children--;
		nodes->n--;
		node = parent;
	}
	if (nodes->size > SIZE_MIN && nodes->n < nodes->size / 8)
		resize_table(nodes, nodes->size / 4);
}

static void add_path(struct shfs_buf *out, const struct shfs_node *node)
{
	if (!node->parent)
		return;
	add_path(out, node->parent);
	if (out->len)
		shfs_buf_char(out, '/');
	shfs_buf_str(out, node->name);
}

char *shfs_node_path(const struct shfs_node *node, const char *name)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	add_path(&path, node);
	if (name && path.len)
		shfs_buf_char(&path, '/');
	shfs_buf_str(&path, name ?: "");
	return shfs_buf_take(&path);
}

uint64_t shfs_node_ino_in(uint64_t directory, const char *name)
{
	char key[sizeof(directory) + NAME_MAX + 1];
	size_t len = MIN(strlen(name), (size_t)NAME_MAX);
	uint64_t ino;

	memcpy(key, &directory, sizeof(directory));
	memcpy(key + sizeof(directory), name, len);
	ino = shfs_object_hash64(key, sizeof(directory) + len);
	return ino > SHFS_NODE_ROOT_INO ? ino : ino + 2;
}

uint64_t shfs_node_ino(const struct shfs_node *node)
{
	if (!node->parent)
		return SHFS_NODE_ROOT_INO;
	return shfs_node_ino_in(shfs_node_ino(node->parent), node->name);
}
