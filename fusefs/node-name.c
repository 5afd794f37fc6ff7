/* SPDX-License-Identifier: MIT */
/* The names of files. */
#include "fusefs/node-internal.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>
#include <utlist.h>

/* Names of one file that are kept, as long as nobody uses them. */
#define NAMES_MAX 8

void node_name_free(struct shfs_tree *tree, struct shfs_name *name)
{
	if (name->parent)
		shfs_node_unref(tree, &name->parent->pub);
	free(name->text);
	free(name);
}

/* Tree lock held. */
static struct shfs_name *name_find(struct node *node, const struct shfs_node *parent,
                                   const char *text)
{
	struct shfs_name *name;

	LL_FOREACH (&node->first, name)
		if (!name->gone && name->parent && &name->parent->pub == parent &&
		    !strcmp(name->text, text))
			return name;
	return NULL;
}

static bool is_spare(const struct node *node, const struct shfs_name *name)
{
	return name != &node->first && name != node->name && name != node->lone &&
	       !atomic_load(&name->refs);
}

/* Tree lock held for writing. Frees what is gone, and the oldest of too many. */
static void names_shrink(struct shfs_tree *tree, struct node *node)
{
	struct shfs_name **at = &node->first.next, *name;

	for (unsigned n = 1; (name = *at); n++) {
		if (is_spare(node, name) && (name->gone || n >= NAMES_MAX)) {
			*at = name->next;
			node_name_free(tree, name);
		} else {
			at = &name->next;
		}
	}
}

/* Tree lock held for writing. One more name of it, in front of the older ones. */
static struct shfs_name *name_add(struct shfs_tree *tree, struct node *node,
                                  struct shfs_node *parent, const char *text)
{
	struct shfs_name *name = calloc(1, sizeof(*name));

	if (name)
		name->text = strdup(text);
	if (!name || !name->text) {
		free(name);
		return NULL;
	}
	name->parent = node_private(parent);
	shfs_node_ref(tree, parent);
	name->next = node->first.next;
	node->first.next = name;
	return name;
}

/* The same, in place of one that is gone. */
static struct shfs_name *name_set(struct shfs_tree *tree, struct shfs_name *name,
                                  struct shfs_node *parent, const char *text)
{
	struct node *old = name->parent;
	char *copy = strdup(text);

	if (!copy)
		return NULL;
	free(name->text);
	name->text = copy;
	name->gone = false;
	name->parent = node_private(parent);
	shfs_node_ref(tree, parent);
	shfs_node_unref(tree, &old->pub);
	return name;
}

/*
 * Tree lock held for writing. Without memory for it the old name stays, which is looked
 * at before it is believed.
 */
static void node_named(struct shfs_tree *tree, struct node *node,
                       struct shfs_node *parent, const char *text, bool use)
{
	struct shfs_name *name = name_find(node, parent, text);

	if (!name && (node->name->gone || S_ISDIR(node->pub.type)))
		name = name_set(tree, node->name, parent, text);
	else if (!name)
		name = name_add(tree, node, parent, text);
	if (name && (use || node->name->gone))
		node->name = name;
	names_shrink(tree, node);
	node_set_pinned(tree, node, false);
}

/* A name that was just found is as good as any, and better than one that may be gone. */
void node_is_at(struct shfs_tree *tree, struct node *node, struct shfs_node *parent,
                const char *name)
{
	bool same;

	shfs_tree_lock_read(tree);
	same = shfs_node_is_at(&node->pub, parent, name);
	shfs_tree_unlock(tree);
	if (same)
		return;
	shfs_tree_lock_write(tree);
	node_named(tree, node, parent, name, true);
	shfs_tree_unlock(tree);
}

void shfs_node_found(struct shfs_tree *tree, struct shfs_node *pub,
                     const struct shfs_node *parent, const char *text, uint32_t tid)
{
	struct node *node = node_private(pub);
	struct shfs_name *name, *found;

	shfs_tree_lock_read(tree);
	found = name_find(node, parent, text);
	LL_FOREACH (&node->first, name)
		if (name == found)
			atomic_store(&name->finder, tid);
		else if (atomic_load(&name->finder) == tid)
			atomic_store(&name->finder, 0);
	shfs_tree_unlock(tree);
}

/* Written from the end, as the chain goes up. */
static void path_of(const struct shfs_name *last, const char *below, struct shfs_buf *out)
{
	size_t len = below ? strlen(below) + 1 : 0, start = out->len, at;

	for (const struct shfs_name *n = last; n->parent; n = n->parent->name)
		len += strlen(n->text) + 1;
	if (!len)
		return;
	len--; /* no slash before the first */
	for (size_t i = 0; i < len; i++)
		shfs_buf_char(out, '/');
	if (out->failed)
		return;
	at = start + len;
	if (below) {
		at -= strlen(below);
		memcpy(out->data + at, below, strlen(below));
		at -= at > start;
	}
	for (const struct shfs_name *n = last; n->parent; n = n->parent->name) {
		at -= strlen(n->text);
		memcpy(out->data + at, n->text, strlen(n->text));
		at -= at > start;
	}
}

void shfs_node_path(const struct shfs_node *pub, const char *name, struct shfs_buf *out)
{
	path_of(node_private_const(pub)->name, name, out);
}

bool shfs_node_is_nameless(const struct shfs_node *node)
{
	return node_private_const(node)->name->gone;
}

struct shfs_name *shfs_node_name(struct shfs_tree *tree, struct shfs_node *pub,
                                 uint32_t tid)
{
	struct node *node = node_private(pub);
	struct shfs_name *name;

	shfs_tree_lock_read(tree);
	LL_FOREACH (&node->first, name)
		if (!name->gone && atomic_load(&name->finder) == tid)
			break;
	if (!name && node->lone && !node->lone->gone &&
	    shfs_time_now().boot_ns < node->lone_until_ns)
		name = node->lone;
	if (!name)
		name = node->name;
	atomic_fetch_add(&name->refs, 1);
	shfs_tree_unlock(tree);
	return name;
}

void shfs_name_unref(struct shfs_name *name)
{
	atomic_fetch_sub(&name->refs, 1);
}

bool shfs_node_path_by(const struct shfs_node *pub, const struct shfs_name *name,
                       struct shfs_buf *out)
{
	if (name->gone)
		name = node_private_const(pub)->name;
	path_of(name, NULL, out);
	return !name->gone;
}

bool shfs_node_is_at(const struct shfs_node *pub, const struct shfs_node *parent,
                     const char *text)
{
	const struct shfs_name *name = node_private_const(pub)->name;

	return name->parent && !name->gone && &name->parent->pub == parent &&
	       !strcmp(name->text, text);
}

void shfs_node_moved(struct shfs_tree *tree, struct shfs_node *pub,
                     struct shfs_node *parent, const char *text,
                     struct shfs_node *new_parent, const char *new_text)
{
	struct node *node = node_private(pub);
	struct shfs_name *name = name_find(node, parent, text),
			 *there = name_find(node, new_parent, new_text);

	if (there && there != name)
		there->gone = true; /* long since */
	if (name)
		name_set(tree, name, new_parent, new_text);
	node_named(tree, node, new_parent, new_text, true);
}

void shfs_node_linked(struct shfs_tree *tree, struct shfs_node *pub,
                      struct shfs_node *parent, const char *text, uint64_t until_ns)
{
	struct node *node = node_private(pub);
	struct shard *shard = tree_shard(tree, pub->id);

	if (until_ns) {
		node->lone = node->name;
		node->lone_until_ns = until_ns;
	}
	node_named(tree, node, parent, text, false);
	pthread_mutex_lock(&shard->lock);
	node->lookups++;
	pthread_mutex_unlock(&shard->lock);
}

/* Tree lock held. Is the file still there by this name? */
static bool name_is_there(struct shfs_tree *tree, const struct node *node,
                          const struct shfs_name *name)
{
	struct statx stx;
	int dirfd, r;

	if (name->gone)
		return false;
	dirfd = node_fd_locked(tree, name->parent);
	if (dirfd < 0)
		return false;
	r = shfs_node_statx(dirfd, name->text, &stx);
	shfs_node_fd_done(tree, &name->parent->pub);
	return !r && node_is_same_birth(&node->pub, &stx);
}

void shfs_node_gone(struct shfs_tree *tree, struct shfs_node *pub,
                    struct shfs_node *parent, const char *text)
{
	struct node *node = node_private(pub);
	struct shfs_name *name = name_find(node, parent, text);

	if (name)
		name->gone = true;
	if (node->name->gone) {
		LL_FOREACH (&node->first, name) {
			if (!name_is_there(tree, node, name)) {
				name->gone = true;
				continue;
			}
			node->name = name;
			break;
		}
	}
	node_set_pinned(tree, node, node->name->gone);
	names_shrink(tree, node);
}
