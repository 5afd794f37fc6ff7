/* SPDX-License-Identifier: MIT */
/* The names of files, and which thread uses which. */
#include "fusefs/nodes/internal.h"

#include "common/clock.h"
#include "store/objects/object.h"

#include <errno.h>
#include <string.h>
#include <utlist.h>

/* Most unused names that are remembered of one file. */
#define NAMES_MAX 8
/* Time in which a thread that was told ESTALE looks the name up again. */
#define ASKED_NS SHFS_NSEC_PER_SEC
/* Time in which a thread uses a name that it has looked up. */
#define FOUND_NS SHFS_NSEC_PER_SEC

void node_name_free(struct shfs_tree *tree, struct shfs_name *name)
{
	if (name->parent)
		shfs_node_unref(tree, &name->parent->pub);
	free(name->text);
	free(name);
}

/* Tree lock held. Finds a name of the node. */
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

bool node_has_name(struct node *node, const struct shfs_node *parent, const char *text)
{
	return name_find(node, parent, text);
}

static bool is_spare(const struct node *node, const struct shfs_name *name)
{
	return name != &node->first && name != node->name && name != node->lone &&
	       !atomic_load(&name->refs);
}

/* Tree lock held for writing. Frees names that are gone, and the oldest if there are too
 * many. */
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

/* Tree lock held for writing. Adds a name, in front of the older ones. */
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
	name->serial = tree_next_serial(tree);
	name->parent = node_private(parent);
	shfs_node_ref(tree, parent);
	name->next = node->first.next;
	node->first.next = name;
	return name;
}

/* Tree lock held for writing. Sets a name in place of one that is gone. */
static struct shfs_name *name_set(struct shfs_tree *tree, struct shfs_name *name,
                                  struct shfs_node *parent, const char *text)
{
	struct node *old = name->parent;
	char *copy = strdup(text);

	if (!copy)
		return NULL;
	free(name->text);
	name->text = copy;
	name->serial = tree_next_serial(tree);
	name->gone = false;
	name->parent = node_private(parent);
	shfs_node_ref(tree, parent);
	shfs_node_unref(tree, &old->pub);
	return name;
}

/*
 * Tree lock held for writing. Notes a name of the node. Without memory the old name
 * stays; names are checked at each use.
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
	node_update_heir(node);
}

bool node_is_at(struct shfs_tree *tree, struct node *node, struct shfs_node *parent,
                const char *name)
{
	bool same, gone;

	shfs_tree_lock_read(tree);
	same = shfs_node_is_at(&node->pub, parent, name);
	shfs_tree_unlock(tree);
	if (same)
		return true;
	shfs_tree_lock_write(tree);
	gone = node->name->gone;
	node_named(tree, node, parent, name, true);
	shfs_tree_unlock(tree);
	return gone;
}

/* --- seekers --- */

/* seekers_lock held. Finds the entry of this thread and node; NULL: none. */
static struct seeker *seeker_find(struct shfs_tree *tree, uint64_t node, uint32_t tid)
{
	struct seeker *set = tree->seekers[tid % SEEKER_SETS];

	for (unsigned i = 0; i < SEEKER_WAYS; i++)
		if (set[i].tid == tid && set[i].node == node)
			return &set[i];
	return NULL;
}

/* seekers_lock held. Finds the entry, or makes one in place of the oldest; NULL: all were
 * told to look again just now. */
static struct seeker *seeker_add(struct shfs_tree *tree, uint64_t node, uint32_t tid)
{
	struct seeker *set = tree->seekers[tid % SEEKER_SETS];
	struct seeker *found = seeker_find(tree, node, tid);
	uint64_t now_ns = shfs_time_now().boot_ns;

	if (found)
		return found;
	for (unsigned i = 0; i < SEEKER_WAYS; i++)
		if ((!set[i].asked || now_ns - set[i].at_ns > ASKED_NS) &&
		    (!found || set[i].at_ns < found->at_ns))
			found = &set[i];
	if (found)
		*found = (struct seeker){
			.tid = tid,
			.node = node,
			.at_ns = now_ns,
		};
	return found;
}

static uint64_t where_of(const struct shfs_node *parent, const char *text)
{
	return shfs_object_hash64(text, strlen(text)) ^
	       shfs_object_hash64(&parent->id, sizeof(parent->id));
}

bool node_is_found(struct shfs_tree *tree, const struct node *node,
                   const struct shfs_node *parent, const char *text, uint32_t tid)
{
	const struct seeker *seeker;
	bool is_found;

	pthread_mutex_lock(&tree->seekers_lock);
	seeker = seeker_find(tree, node->pub.id, tid);
	is_found = seeker && seeker->where == where_of(parent, text) &&
	           shfs_time_now().boot_ns - seeker->found_ns <= FOUND_NS;
	pthread_mutex_unlock(&tree->seekers_lock);
	return is_found;
}

void shfs_node_found(struct shfs_tree *tree, struct shfs_node *pub,
                     const struct shfs_node *parent, const char *text, uint32_t tid)
{
	struct node *node = node_private(pub);
	struct shfs_name *name;
	struct seeker *seeker;

	shfs_tree_lock_read(tree);
	name = name_find(node, parent, text);
	if (name && name == atomic_load(&node->lone))
		atomic_store(&node->lone, NULL);
	pthread_mutex_lock(&tree->seekers_lock);
	seeker = seeker_add(tree, pub->id, tid);
	if (seeker) {
		seeker->serial = name ? name->serial : 0;
		seeker->where = where_of(parent, text);
		seeker->found_ns = shfs_time_now().boot_ns;
	}
	pthread_mutex_unlock(&tree->seekers_lock);
	shfs_tree_unlock(tree);
}

/* seekers_lock held. Was the thread told to look again a moment ago? Then it has done so.
 */
static bool seeker_asked(struct shfs_tree *tree, uint32_t tid)
{
	struct seeker *set = tree->seekers[tid % SEEKER_SETS];
	uint64_t now_ns = shfs_time_now().boot_ns;
	bool asked = false;

	for (unsigned i = 0; i < SEEKER_WAYS; i++) {
		if (set[i].tid != tid || !set[i].asked)
			continue;
		asked |= now_ns - set[i].at_ns <= ASKED_NS;
		set[i].asked = false;
	}
	return asked;
}

/* seekers_lock held. Notes that the thread is told to look again. False: too many are. */
static bool seeker_ask(struct shfs_tree *tree, uint64_t node, uint32_t tid)
{
	struct seeker *seeker = seeker_add(tree, node, tid);

	if (!seeker)
		return false;
	seeker->asked = true;
	seeker->serial = 0;
	seeker->at_ns = shfs_time_now().boot_ns;
	return true;
}

/*
 * A thread that is told ESTALE once looks the name up again and comes back, maybe to
 * another file that has the name by now. One that uses no name (/proc/PID/fd) just comes
 * back. Told ESTALE twice, the open would fail.
 */
bool shfs_node_name_is_sure(struct shfs_tree *tree, struct shfs_node *pub, uint32_t tid)
{
	bool sure;

	if (!atomic_load(&node_private(pub)->lone))
		return true;
	pthread_mutex_lock(&tree->seekers_lock);
	sure = seeker_asked(tree, tid) || !seeker_ask(tree, pub->id, tid);
	pthread_mutex_unlock(&tree->seekers_lock);
	return sure;
}

void shfs_tree_told_stale(struct shfs_tree *tree, uint32_t tid)
{
	pthread_mutex_lock(&tree->seekers_lock);
	seeker_ask(tree, 0, tid);
	pthread_mutex_unlock(&tree->seekers_lock);
}

/* Tree lock held. Returns the name by which thread tid found the file. */
static struct shfs_name *name_found_by(struct shfs_tree *tree, struct node *node,
                                       uint32_t tid)
{
	struct shfs_name *name = NULL;
	struct seeker *seeker;

	if (!node->first.next)
		return NULL;
	pthread_mutex_lock(&tree->seekers_lock);
	seeker = seeker_find(tree, node->pub.id, tid);
	if (seeker && seeker->serial)
		LL_FOREACH (&node->first, name)
			if (!name->gone && name->serial == seeker->serial)
				break;
	pthread_mutex_unlock(&tree->seekers_lock);
	return name;
}

struct shfs_name *shfs_node_name(struct shfs_tree *tree, struct shfs_node *pub,
                                 uint32_t tid)
{
	struct node *node = node_private(pub);
	struct shfs_name *name;

	shfs_tree_lock_read(tree);
	name = name_found_by(tree, node, tid);
	if (!name)
		name = atomic_load(&node->lone);
	if (!name || name->gone)
		name = node->name;
	atomic_fetch_add(&name->refs, 1);
	shfs_tree_unlock(tree);
	return name;
}

void shfs_name_unref(struct shfs_name *name)
{
	atomic_fetch_sub(&name->refs, 1);
}

/* --- paths --- */

/* Appends a path; written from its end, as the chain leads upwards. */
static void append_name_path(const struct shfs_name *last, const char *below,
                             struct shfs_buf *out)
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
	append_name_path(node_private_const(pub)->name, name, out);
}

void shfs_node_paths(const struct shfs_node *pub, struct shfs_buf *out)
{
	const struct node *node = node_private_const(pub);
	const struct shfs_name *name;

	LL_FOREACH (&node->first, name) {
		if (name->gone && name != node->name)
			continue;
		append_name_path(name, NULL, out);
		shfs_buf_char(out, 0);
	}
}

bool shfs_node_is_nameless(const struct shfs_node *node)
{
	return node_private_const(node)->name->gone;
}

bool shfs_node_path_by(const struct shfs_node *pub, const struct shfs_name *name,
                       struct shfs_buf *out)
{
	if (name->gone)
		name = node_private_const(pub)->name;
	append_name_path(name, NULL, out);
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
		there->gone = true; /* unnoticed so far */
	if (name)
		name_set(tree, name, new_parent, new_text);
	node_named(tree, node, new_parent, new_text, true);
}

void shfs_node_linked(struct shfs_tree *tree, struct shfs_node *pub,
                      struct shfs_node *parent, const char *text, bool had_one)
{
	struct node *node = node_private(pub);
	struct shard *shard = tree_shard(tree, pub->id);

	if (had_one)
		atomic_store(&node->lone, node->name);
	node_named(tree, node, parent, text, false);
	pthread_mutex_lock(&shard->lock);
	node->lookups++;
	pthread_mutex_unlock(&shard->lock);
}

/* Tree lock held. Does the file still have this name? */
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
	node_update_heir(node);
}
