/* SPDX-License-Identifier: MIT */
#include "fusefs/nodes/internal.h"

#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/sysmacros.h>
#include <utlist.h>

#define FOREIGN_BIT  (UINT64_C(1) << 63)
#define INVENTED_BIT (SHFS_NODE_INVENTED & ~FOREIGN_BIT)
/* Ids that are tried for one file before it gets the next free one. */
#define PROBES 8
/* Most nodes that left the table and are kept for requests that still use them. */
#define REPLACED_MAX 256
#define RETIRED_MAX  4096 /* nodes that shfs_node_forget keeps for a while */

/* --- identity --- */

int shfs_node_statx(int fd, const char *name, struct statx *out)
{
	int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH);

	return statx(fd, name, flags, STATX_BASIC_STATS | STATX_BTIME, out) ? -errno : 0;
}

uint64_t shfs_statx_dev(const struct statx *stx)
{
	return makedev(stx->stx_dev_major, stx->stx_dev_minor);
}

/* Returns 32 bits of the time of birth, as many as the kernel keeps. 0: unknown. */
static uint32_t generation_of(const struct statx *stx)
{
	uint32_t h;

	if (!(stx->stx_mask & STATX_BTIME) ||
	    (!stx->stx_btime.tv_sec && !stx->stx_btime.tv_nsec))
		return 0;
	h = (uint32_t)shfs_object_hash64(&stx->stx_btime.tv_sec, 8) ^
	    stx->stx_btime.tv_nsec;
	return h ? h : 1;
}

bool node_is_same_birth(const struct shfs_node *node, const struct statx *stx)
{
	uint32_t generation = generation_of(stx);

	/* dev and ino are enough while the file is kept by an fd */
	return node->ino == stx->stx_ino && node->dev == shfs_statx_dev(stx) &&
	       node->type == (stx->stx_mode & S_IFMT) &&
	       (!generation || !node->generation || generation == node->generation);
}

static bool is_root(const struct shfs_tree *tree, uint64_t dev, uint64_t ino)
{
	return ino == tree->root.pub.ino && dev == tree->root.pub.dev;
}

static uint64_t id_of(const struct shfs_tree *tree, uint64_t dev, uint64_t ino)
{
	uint64_t key[2] = { dev, ino };

	if (is_root(tree, dev, ino))
		return SHFS_NODE_ROOT;
	if (dev == tree->root.pub.dev && ino > SHFS_NODE_ROOT && !(ino & FOREIGN_BIT))
		return ino;
	return (shfs_object_hash64(key, sizeof(key)) & ~INVENTED_BIT) | FOREIGN_BIT;
}

/* --- the table --- */

/* Returns the shard of an id. The low bits do not count, so that all ids that are tried
 * for one file share a shard. */
struct shard *tree_shard(struct shfs_tree *tree, uint64_t id)
{
	return &tree->shards[(id / PROBES) % N_SHARDS];
}

static struct node *shard_find(struct shard *shard, uint64_t id)
{
	struct node *node;

	HASH_FIND(hh, shard->nodes, &id, sizeof(id), node);
	return node;
}

/*
 * Finds the node of (dev, ino); or NULL, and *id is a free id for it. Only ids of other
 * devices can be taken by another file; all ids to try are looked at, as the earlier ones
 * may have become free.
 */
static struct node *shard_find_file(struct shard *shard, uint64_t dev, uint64_t ino,
                                    uint64_t *id)
{
	uint64_t first = *id & ~(uint64_t)(PROBES - 1), free_id = 0;
	struct node *node = shard_find(shard, *id);

	if (node && node->pub.ino == ino && node->pub.dev == dev)
		return node;
	if (!(*id & FOREIGN_BIT))
		return NULL;
	for (unsigned i = 0; i < PROBES; i++) {
		uint64_t probe = first + (*id + i) % PROBES;

		node = shard_find(shard, probe);
		if (node && node->pub.ino == ino && node->pub.dev == dev)
			return node;
		if (!node && !free_id)
			free_id = probe;
	}
	*id = free_id;
	return NULL;
}

struct shfs_node *shfs_tree_root(struct shfs_tree *tree)
{
	return &tree->root.pub;
}

struct shfs_node *shfs_node_find(struct shfs_tree *tree, uint64_t id)
{
	struct shard *shard = tree_shard(tree, id);
	struct node *node;

	if (id == SHFS_NODE_ROOT)
		return &tree->root.pub;
	pthread_mutex_lock(&shard->lock);
	node = shard_find(shard, id);
	pthread_mutex_unlock(&shard->lock);
	return node ? &node->pub : NULL;
}

void shfs_node_ref(struct shfs_tree *tree, struct shfs_node *node)
{
	struct shard *shard = tree_shard(tree, node->id);

	if (node == &tree->root.pub)
		return;
	pthread_mutex_lock(&shard->lock);
	node_private(node)->refs++;
	pthread_mutex_unlock(&shard->lock);
}

/* --- nodes in the heir, for a successor --- */

void node_update_heir(struct node *node)
{
	struct shfs_heir_node *heir_node = node->heir_node;

	if (!heir_node)
		return;
	shfs_assert(heir_node->id == node->pub.id);
	heir_node->gone = node->name->gone;
	heir_node->parent = node->name->parent->pub.id;
	snprintf(heir_node->name, sizeof(heir_node->name), "%s", node->name->text);
}

/* Tree lock and heir_lock held. Enters a node into the heir. */
static void heir_node_make(struct shfs_tree *tree, struct node *node)
{
	struct shfs_heir_node *heir_node =
		tree->heir && !node->heir_node ? shfs_heir_node_new(tree->heir) : NULL;

	if (!heir_node)
		return;
	heir_node->id = node->pub.id;
	heir_node->dev = node->pub.dev;
	heir_node->ino = node->pub.ino;
	heir_node->type = node->pub.type;
	heir_node->generation = node->pub.generation;
	heir_node->hidden = node->pub.hidden;
	node->heir_node = heir_node;
	node_update_heir(node);
	atomic_store(&heir_node->is_used, true);
}

static void heir_node_want(struct shfs_tree *tree, struct node *node)
{
	if (node == &tree->root || !tree->heir)
		return;
	shfs_tree_lock_read(tree);
	pthread_mutex_lock(&tree->heir_lock);
	node->n_open++;
	heir_node_make(tree, node);
	pthread_mutex_unlock(&tree->heir_lock);
	shfs_tree_unlock(tree);
}

static void heir_node_leave(struct shfs_tree *tree, struct node *node)
{
	struct shfs_heir_node *heir_node = NULL;

	if (node == &tree->root || !tree->heir)
		return;
	shfs_tree_lock_read(tree);
	pthread_mutex_lock(&tree->heir_lock);
	shfs_assert(node->n_open);
	if (!--node->n_open && !S_ISDIR(node->pub.type))
		heir_node = TAKE_PTR(node->heir_node);
	pthread_mutex_unlock(&tree->heir_lock);
	shfs_tree_unlock(tree);
	if (heir_node)
		shfs_heir_node_done(tree->heir, heir_node);
}

void shfs_node_opened(struct shfs_tree *tree, struct shfs_node *node)
{
	shfs_node_ref(tree, node);
	heir_node_want(tree, node_private(node));
}

void shfs_node_closed(struct shfs_tree *tree, struct shfs_node *node)
{
	heir_node_leave(tree, node_private(node));
	shfs_node_unref(tree, node);
}

/* Takes a node out of the heir whose id another file has now: an id must be there once.
 */
static void heir_node_drop(struct shfs_tree *tree, struct node *node)
{
	struct shfs_heir_node *heir_node;

	shfs_tree_lock_read(tree);
	pthread_mutex_lock(&tree->heir_lock);
	heir_node = TAKE_PTR(node->heir_node);
	pthread_mutex_unlock(&tree->heir_lock);
	shfs_tree_unlock(tree);
	if (heir_node)
		shfs_heir_node_done(tree->heir, heir_node);
}

void shfs_node_moving(struct shfs_tree *tree, struct shfs_node *node,
                      const struct shfs_node *new_parent, const char *new_name)
{
	if (node && tree->heir)
		shfs_heir_move(tree->heir, node_private(node)->heir_node, new_parent->id,
		               new_name);
}

void shfs_node_moving_done(struct shfs_tree *tree)
{
	if (tree->heir)
		shfs_heir_moved(tree->heir);
}

/* --- the life of a node --- */

static void count_node(struct shfs_tree *tree, int change)
{
	size_t n = atomic_fetch_add(&tree->n_nodes, (size_t)change) + (size_t)change;

	if (n % SHFS_TREE_STEP == 0)
		eventfd_write(tree->size_fd, 1);
}

/* Frees a node that no thread can reach any more. Returns the parent of its first name,
 * with the reference. Parents of other names are released here; as directories have only
 * one name, this recursion ends at once. */
static struct node *node_destroy(struct shfs_tree *tree, struct node *node)
{
	struct node *parent = node->first.parent;
	struct shfs_name *name, *next;

	node_fd_drop(tree, node);
	if (node->heir_node && tree->heir)
		shfs_heir_node_done(tree->heir, node->heir_node);
	if (node->pub.watch)
		tree->drop(node->pub.watch);
	LL_FOREACH_SAFE (node->first.next, name, next)
		node_name_free(tree, name);
	free(node->first.text);
	free(node);
	count_node(tree, -1);
	return parent;
}

/* Shard lock held. Takes the node out of the table if it is not needed any more: true. */
static bool node_reap(struct shard *shard, struct node *node)
{
	shfs_assert_held(&shard->lock);
	if (node->refs || node->lookups)
		return false;
	if (!node->unhashed)
		HASH_DEL(shard->nodes, node);
	return true;
}

/* Also releases parents after their last child; in a loop, as trees may be deep. */
void shfs_node_unref(struct shfs_tree *tree, struct shfs_node *pub)
{
	struct node *node = node_private(pub);

	while (node && node != &tree->root) {
		struct shard *shard = tree_shard(tree, node->pub.id);
		bool last;

		pthread_mutex_lock(&shard->lock);
		shfs_assert(node->refs);
		node->refs--;
		last = node_reap(shard, node);
		pthread_mutex_unlock(&shard->lock);
		if (!last)
			break;
		shfs_assert(!node->replaced);
		node = node_destroy(tree, node);
	}
}

static struct node *node_new(struct shfs_tree *tree, struct node *parent,
                             const char *name, const struct statx *stx)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->name = &node->first;
	node->first.text = strdup(name);
	if (!node->first.text) {
		free(node);
		return NULL;
	}
	node->fd = -1;
	node->pub.dev = shfs_statx_dev(stx);
	node->pub.ino = stx->stx_ino;
	node->pub.type = stx->stx_mode & S_IFMT;
	node->pub.generation = generation_of(stx);
	node->pub.hidden = parent->pub.hidden || (node->pub.ino == tree->hidden_ino &&
	                                          node->pub.dev == tree->hidden_dev);
	node->first.parent = parent;
	node->first.serial = tree_next_serial(tree);
	shfs_node_ref(tree, &parent->pub);
	count_node(tree, 1);
	return node;
}

/* Keeps a node that left the table, as a request may have found it by its id a moment
 * ago. Takes ownership of a reference. A node that is kept already is kept anew. */
static void keep_replaced(struct shfs_tree *tree, struct node *node)
{
	struct node *spare = NULL;

	pthread_mutex_lock(&tree->replaced_lock);
	shfs_assert(!node->replaced || (tree->replaced && tree->n_replaced));
	if (node->replaced) {
		DL_DELETE2(tree->replaced, node, prev_replaced, next_replaced);
		tree->n_replaced--;
		spare = node;
	}
	node->replaced = true;
	DL_APPEND2(tree->replaced, node, prev_replaced, next_replaced);
	if (++tree->n_replaced > (tree->is_inherited ? RETIRED_MAX : REPLACED_MAX)) {
		spare = tree->replaced;
		DL_DELETE2(tree->replaced, spare, prev_replaced, next_replaced);
		spare->replaced = false;
		tree->n_replaced--;
	}
	pthread_mutex_unlock(&tree->replaced_lock);
	if (spare)
		shfs_node_unref(tree, &spare->pub);
}

/*
 * Gives back n lookups. Of an inherited tree we do not know all lookups: while the kernel
 * looks a file up anew, it gives back its old ones. So such a node is kept for a while.
 */
void shfs_node_forget(struct shfs_tree *tree, uint64_t id, uint64_t n)
{
	struct shard *shard = tree_shard(tree, id);
	struct node *node;
	bool is_kept = false;

	pthread_mutex_lock(&shard->lock);
	node = shard_find(shard, id);
	if (node) {
		node->lookups -= MIN(n, node->lookups);
		is_kept = tree->is_inherited && !node->refs && !node->lookups;
		node->refs += is_kept;
		if (!is_kept && !node_reap(shard, node))
			node = NULL;
	}
	pthread_mutex_unlock(&shard->lock);
	if (!node)
		return;
	if (is_kept) {
		keep_replaced(tree, node);
		return;
	}
	node = node_destroy(tree, node);
	if (node)
		shfs_node_unref(tree, &node->pub);
}

/*
 * Adds the node `made` to the table, unless the file has a node: *out is that. A node of
 * an earlier file with this inode number leaves the table, and its lookups are moved to
 * the new node, as the kernel gives back both by the same id.
 */
static int add_to_table(struct shfs_tree *tree, struct node *made, struct node **out)
{
	uint64_t id = id_of(tree, made->pub.dev, made->pub.ino);
	struct shard *shard = tree_shard(tree, id);
	struct node *old;
	int r = 0;

	pthread_mutex_lock(&shard->lock);
	old = shard_find_file(shard, made->pub.dev, made->pub.ino, &id);
	if (old && old->pub.type == made->pub.type &&
	    (!made->pub.generation || !old->pub.generation ||
	     old->pub.generation == made->pub.generation)) {
		old->lookups++;
		*out = old;
	} else if (!id) {
		r = -ENFILE;
	} else {
		made->lookups = 1;
		made->pub.id = old ? old->pub.id : id;
		HASH_ADD(hh, shard->nodes, pub.id, sizeof(id), made);
		if (!made->hh.tbl) {
			r = -ENOMEM;
			old = NULL;
		}
		if (old) {
			HASH_DEL(shard->nodes, old);
			old->unhashed = true;
			made->lookups += old->lookups;
			old->lookups = 0;
			old->refs++;
		}
		*out = made;
	}
	pthread_mutex_unlock(&shard->lock);
	if (old && *out == made) {
		heir_node_drop(tree, old);
		keep_replaced(tree, old);
	}
	return r;
}

/* Finds the node of a file, before a new one is made. */
static struct node *table_look_up(struct shfs_tree *tree, const struct statx *stx)
{
	uint64_t dev = shfs_statx_dev(stx), id = id_of(tree, dev, stx->stx_ino);
	struct shard *shard = tree_shard(tree, id);
	struct node *node;

	pthread_mutex_lock(&shard->lock);
	node = shard_find_file(shard, dev, stx->stx_ino, &id);
	if (node && !node_is_same_birth(&node->pub, stx))
		node = NULL;
	if (node) {
		node->lookups++;
		node->used = true;
	}
	pthread_mutex_unlock(&shard->lock);
	return node;
}

/* Gets the node of this file, with one more lookup; is_new: it was made, with this name.
 */
static int table_enter(struct shfs_tree *tree, struct shfs_node *parent, const char *name,
                       const struct statx *stx, struct node **out, bool *is_new)
{
	struct node *made;
	int r;

	*is_new = false;
	if (is_root(tree, shfs_statx_dev(stx), stx->stx_ino))
		return -ELOOP; /* the root is bind-mounted below itself */
	*out = table_look_up(tree, stx);
	if (*out)
		return 0;
	made = node_new(tree, node_private(parent), name, stx);
	if (!made)
		return -ENOMEM;
	r = add_to_table(tree, made, out);
	*is_new = !r && *out == made;
	if (*is_new && S_ISDIR(made->pub.type))
		heir_node_want(tree, made);
	if (!*is_new) {
		node_destroy(tree, made);
		shfs_node_unref(tree, parent);
	}
	return r;
}

int shfs_node_enter(struct shfs_tree *tree, struct shfs_node *parent, const char *name,
                    const struct statx *stx, struct shfs_node **out)
{
	struct node *node;
	bool is_new;
	int r = table_enter(tree, parent, name, stx, &node, &is_new);

	if (r)
		return r;
	if (!is_new && !node_is_at(tree, node, parent, name) && stx->stx_nlink == 1 &&
	    !S_ISDIR(stx->stx_mode))
		atomic_store(&tree->has_moved, true);
	*out = &node->pub;
	return 0;
}

bool shfs_tree_has_moved(struct shfs_tree *tree)
{
	return atomic_load_explicit(&tree->has_moved, memory_order_relaxed) &&
	       atomic_exchange(&tree->has_moved, false);
}

int shfs_node_enter_nameless(struct shfs_tree *tree, struct shfs_node *parent, int fd,
                             const struct statx *stx, struct shfs_node **out)
{
	struct shfs_name *name;
	struct node *node;
	char text[24];
	bool is_new;
	int path_fd, r;

	path_fd = node_open_by_fd(tree, fd, O_PATH);
	if (path_fd < 0)
		return path_fd;
	snprintf(text, sizeof(text), "#%" PRIu64, (uint64_t)stx->stx_ino);
	r = table_enter(tree, parent, text, stx, &node, &is_new);
	if (r) {
		close(path_fd);
		return r;
	}
	shfs_tree_lock_write(tree);
	LL_FOREACH (&node->first, name)
		name->gone = true;
	node_fd_give(tree, node, path_fd);
	node_set_pinned(tree, node, true);
	shfs_node_fd_done(tree, &node->pub);
	shfs_tree_unlock(tree);
	*out = &node->pub;
	return 0;
}

int shfs_node_stat_child(struct shfs_tree *tree, struct shfs_node *parent,
                         const char *name, struct statx *stx)
{
	int fd = shfs_node_fd(tree, parent), r;

	if (fd < 0)
		return fd;
	r = shfs_node_statx(fd, name, stx);
	shfs_node_fd_done(tree, parent);
	return r;
}

int shfs_node_lookup(struct shfs_tree *tree, struct shfs_node *parent, const char *name,
                     struct statx *stx, struct shfs_node **out)
{
	int r = shfs_node_stat_child(tree, parent, name, stx);

	if (!r)
		r = shfs_node_enter(tree, parent, name, stx, out);
	/* that may have been a lent mode */
	if (!r && atomic_load(&(*out)->lent) && shfs_node_stat(tree, *out, stx)) {
		shfs_node_forget(tree, (*out)->id, 1);
		r = -ENOENT;
	}
	return r;
}

/* Does the kernel know this file by this name? */
static bool is_known_at(struct shfs_tree *tree, const struct shfs_node *parent,
                        const char *name, uint32_t tid, const struct statx *stx)
{
	uint64_t dev = shfs_statx_dev(stx), id = id_of(tree, dev, stx->stx_ino);
	struct shard *shard = tree_shard(tree, id);
	struct node *node;
	bool is_known;

	shfs_tree_lock_read(tree);
	pthread_mutex_lock(&shard->lock);
	node = shard_find_file(shard, dev, stx->stx_ino, &id);
	is_known = node && (node->lookups || tree->is_inherited) &&
	           node_is_same_birth(&node->pub, stx) &&
	           (node_has_name(node, parent, name) ||
	            node_is_found(tree, node, parent, name, tid));
	pthread_mutex_unlock(&shard->lock);
	shfs_tree_unlock(tree);
	return is_known;
}

int shfs_node_lookup_known(struct shfs_tree *tree, struct shfs_node *parent,
                           const char *name, uint32_t tid, struct statx *stx,
                           struct shfs_node **out)
{
	int r = shfs_node_stat_child(tree, parent, name, stx);

	if (!r && !is_known_at(tree, parent, name, tid, stx))
		r = -ESTALE;
	return r ? r : shfs_node_enter(tree, parent, name, stx, out);
}

/* --- the tree --- */

int shfs_tree_new(int root_fd, int proc_fd, size_t max_fds, void (*drop)(void *watch),
                  struct shfs_tree **out)
{
	struct shfs_tree *tree = calloc(1, sizeof(*tree));
	struct statx stx;
	int r;

	if (!tree)
		return -ENOMEM;
	tree->size_fd = eventfd(0, EFD_CLOEXEC);
	r = tree->size_fd < 0 ? -errno : shfs_node_statx(root_fd, "", &stx);
	if (r) {
		shfs_closep(&tree->size_fd);
		free(tree);
		return r;
	}
	tree->proc_fd = proc_fd;
	tree->drop = drop;
	tree->max_fds = max_fds;
	tree->root.fd = root_fd;
	tree->root.pinned = true;
	tree->root.name = &tree->root.first;
	tree->root.pub.id = SHFS_NODE_ROOT;
	tree->root.pub.dev = shfs_statx_dev(&stx);
	tree->root.pub.ino = stx.stx_ino;
	tree->root.pub.type = stx.stx_mode & S_IFMT;
	pthread_rwlock_init(&tree->lock, NULL);
	pthread_mutex_init(&tree->fds_lock, NULL);
	pthread_mutex_init(&tree->replaced_lock, NULL);
	pthread_mutex_init(&tree->seekers_lock, NULL);
	pthread_mutex_init(&tree->heir_lock, NULL);
	for (size_t i = 0; i < N_SHARDS; i++)
		pthread_mutex_init(&tree->shards[i].lock, NULL);
	*out = tree;
	return 0;
}

/* --- inheriting from another server --- */

/* Number of lookups of an inherited node: the real one is not known, so it is kept. */
#define LOOKUPS_INHERITED (1ull << 40)

static struct node *node_of_heir(struct shfs_tree *tree, struct node *parent,
                                 struct shfs_heir_node *heir_node)
{
	struct shard *shard = tree_shard(tree, heir_node->id);
	struct statx stx = {
		.stx_ino = heir_node->ino,
		.stx_dev_major = major(heir_node->dev),
		.stx_dev_minor = minor(heir_node->dev),
		.stx_mode = (uint16_t)heir_node->type,
	};
	struct node *node = node_new(tree, parent, heir_node->name, &stx);

	if (!node)
		return NULL;
	node->pub.id = heir_node->id;
	node->pub.generation = heir_node->generation;
	node->pub.hidden = heir_node->hidden;
	node->first.gone = heir_node->gone;
	node->lookups = LOOKUPS_INHERITED;
	node->heir_node = heir_node;
	pthread_mutex_lock(&shard->lock);
	HASH_ADD(hh, shard->nodes, pub.id, sizeof(node->pub.id), node);
	pthread_mutex_unlock(&shard->lock);
	return node;
}

struct inheritance {
	struct shfs_tree *tree;
	struct shfs_heir_node **by_id;
	size_t n;
};

static int by_id(const void *a, const void *b)
{
	const struct shfs_heir_node *const *one = a, *const *two = b;

	return (*one)->id < (*two)->id ? -1 : (*one)->id > (*two)->id;
}

static struct shfs_heir_node *heir_node_find(const struct inheritance *in, uint64_t id)
{
	struct shfs_heir_node key = { .id = id }, *wanted = &key, **found;

	found = bsearch(&wanted, in->by_id, in->n, sizeof(wanted), by_id);
	return found ? *found : NULL;
}

/* Makes the node of a place, and first those above it; in a loop, as trees may be deep.
 * NULL: one of them is missing. */
static struct node *inherit_one(const struct inheritance *in,
                                struct shfs_heir_node *heir_node)
{
	struct shfs_tree *tree = in->tree;

	for (;;) {
		struct shfs_heir_node *top = heir_node;
		struct shfs_node *node = shfs_node_find(tree, heir_node->id), *parent;

		if (node)
			return node_private(node);
		for (size_t depth = 0;; depth++) {
			parent = shfs_node_find(tree, top->parent);
			if (parent)
				break;
			top = heir_node_find(in, top->parent);
			if (!top || depth > in->n)
				return NULL;
		}
		if (!node_of_heir(tree, node_private(parent), top))
			return NULL;
	}
}

static bool is_moved(const struct shfs_heir_node *heir_node, void *arg)
{
	const struct inheritance *in = arg;
	struct shfs_heir_node *above = heir_node_find(in, heir_node->parent);
	struct node *parent = heir_node->parent == SHFS_NODE_ROOT ? &in->tree->root
	                      : above                             ? inherit_one(in, above)
	                                                          : NULL;
	struct statx stx;
	int fd = parent ? shfs_node_fd(in->tree, &parent->pub) : -1, r;

	if (fd < 0)
		return false;
	r = shfs_node_statx(fd, heir_node->name, &stx);
	shfs_node_fd_done(in->tree, &parent->pub);
	return !r && stx.stx_ino == heir_node->ino &&
	       shfs_statx_dev(&stx) == heir_node->dev;
}

static int list_heir_nodes(struct inheritance *in, struct shfs_heir *heir)
{
	struct shfs_heir_node *heir_node = NULL;
	size_t n = 0;

	while ((heir_node = shfs_heir_next_node(heir, heir_node)))
		n++;
	in->by_id = calloc(n + 1, sizeof(struct shfs_heir_node *));
	if (!in->by_id)
		return -ENOMEM;
	while (in->n < n && (heir_node = shfs_heir_next_node(heir, heir_node)))
		in->by_id[in->n++] = heir_node;
	qsort(in->by_id, in->n, sizeof(struct shfs_heir_node *), by_id);
	return 0;
}

int shfs_tree_inherit(struct shfs_tree *tree, struct shfs_heir *heir, bool is_taken)
{
	struct inheritance in = { .tree = tree };
	int r = list_heir_nodes(&in, heir);

	if (r)
		return r;
	shfs_heir_settle_moves(heir, is_moved, &in);
	for (size_t i = 0; i < in.n; i++)
		if (!inherit_one(&in, in.by_id[i]))
			shfs_heir_node_done(heir, in.by_id[i]);
	free(in.by_id);
	tree->heir = heir;
	tree->is_inherited = is_taken;
	return 0;
}

/* Detaches names from their parents, as all nodes are freed in any order. */
static void names_orphan(struct node *node)
{
	struct shfs_name *name;

	LL_FOREACH (&node->first, name)
		name->parent = NULL;
}

void shfs_tree_free(struct shfs_tree *tree)
{
	struct node *node, *next;

	if (!tree)
		return;
	DL_FOREACH_SAFE2 (tree->replaced, node, next, next_replaced)
		if (!node->unhashed)
			DL_DELETE2(tree->replaced, node, prev_replaced, next_replaced);
	for (size_t i = 0; i < N_SHARDS; i++) {
		HASH_ITER (hh, tree->shards[i].nodes, node, next) {
			HASH_DEL(tree->shards[i].nodes, node);
			names_orphan(node);
			node_destroy(tree, node);
		}
		pthread_mutex_destroy(&tree->shards[i].lock);
	}
	DL_FOREACH_SAFE2 (tree->replaced, node, next, next_replaced) {
		names_orphan(node);
		node_destroy(tree, node);
	}
	if (tree->root.pub.watch)
		tree->drop(tree->root.pub.watch);
	pthread_mutex_destroy(&tree->seekers_lock);
	pthread_mutex_destroy(&tree->heir_lock);
	pthread_mutex_destroy(&tree->fds_lock);
	pthread_mutex_destroy(&tree->replaced_lock);
	pthread_rwlock_destroy(&tree->lock);
	shfs_closep(&tree->size_fd);
	free(tree);
}

size_t shfs_tree_size(struct shfs_tree *tree)
{
	return atomic_load(&tree->n_nodes);
}

int shfs_tree_size_fd(const struct shfs_tree *tree)
{
	return tree->size_fd;
}

/*
 * Picks idle nodes, like the clock algorithm: a node that was looked up since the hand
 * passed it last is skipped once more. All examined nodes go behind the rest.
 */
static size_t shard_idle(struct shard *shard, uint64_t *ids, size_t max)
{
	struct node *node;
	size_t n = 0;

	pthread_mutex_lock(&shard->lock);
	for (size_t left = HASH_COUNT(shard->nodes); left && n < max; left--) {
		node = shard->nodes;
		if (!node->refs && !node->used)
			ids[n++] = node->pub.id;
		node->used = false;
		if (!node->hh.next)
			break;
		SHFS_HASH_MOVE_LAST(shard->nodes, pub.id, sizeof(node->pub.id), node);
	}
	pthread_mutex_unlock(&shard->lock);
	return n;
}

size_t shfs_tree_idle(struct shfs_tree *tree, uint64_t *ids, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < N_SHARDS && n < max; i++) {
		struct shard *shard = &tree->shards[tree->hand++ % N_SHARDS];

		n += shard_idle(shard, ids + n, MIN(max - n, max / N_SHARDS + 1));
	}
	return n;
}

static bool is_some_changed(const struct node *node,
                            bool (*is_changed)(uint64_t, const char *, void *), void *arg)
{
	const struct shfs_name *name;

	LL_FOREACH (&node->first, name)
		if (name->parent && !name->gone &&
		    is_changed(name->parent->pub.id, name->text, arg))
			return true;
	return false;
}

void shfs_tree_suspect(struct shfs_tree *tree,
                       bool (*is_changed)(uint64_t parent, const char *name, void *arg),
                       void (*visit)(const struct shfs_node *node, bool is_left,
                                     void *arg),
                       void *arg)
{
	struct node *node, *next;

	shfs_tree_lock_read(tree);
	for (size_t i = 0; i < N_SHARDS; i++) {
		pthread_mutex_lock(&tree->shards[i].lock);
		HASH_ITER (hh, tree->shards[i].nodes, node, next) {
			if (!is_some_changed(node, is_changed, arg))
				continue;
			atomic_store(&node->pub.suspect, true);
			visit(&node->pub, node->refs || node->first.next, arg);
		}
		pthread_mutex_unlock(&tree->shards[i].lock);
	}
	shfs_tree_unlock(tree);
}

static bool is_node_below(const struct node *node, const struct shfs_node *directory)
{
	for (const struct shfs_name *n = node->name; n->parent; n = n->parent->name)
		if (&n->parent->pub == directory)
			return true;
	return false;
}

struct list {
	struct node **nodes;
	size_t n, cap;
};

/* Tree lock held. Lists the nodes of the shard below the directory, with a reference. */
static void list_nodes_below(struct shard *shard, const struct shfs_node *directory,
                             struct list *list)
{
	struct node *node, *next;

	pthread_mutex_lock(&shard->lock);
	HASH_ITER (hh, shard->nodes, node, next) {
		if (!atomic_load(&node->pub.watch) || !is_node_below(node, directory) ||
		    !MAKE_ROOM(list->nodes, list->n, list->cap))
			continue;
		node->refs++;
		list->nodes[list->n++] = node;
	}
	pthread_mutex_unlock(&shard->lock);
}

void shfs_tree_visit_below(struct shfs_tree *tree, const struct shfs_node *directory,
                           void (*visit)(struct shfs_node *node, void *arg), void *arg)
{
	struct list list = { 0 };

	shfs_tree_lock_read(tree);
	for (size_t i = 0; i < N_SHARDS; i++)
		list_nodes_below(&tree->shards[i], directory, &list);
	shfs_tree_unlock(tree);
	for (size_t i = 0; i < list.n; i++) {
		visit(&list.nodes[i]->pub, arg);
		shfs_node_unref(tree, &list.nodes[i]->pub);
	}
	free(list.nodes);
}

void shfs_tree_hide(struct shfs_tree *tree, uint64_t dev, uint64_t ino)
{
	tree->hidden_dev = dev;
	tree->hidden_ino = ino;
}

void shfs_tree_lock_read(struct shfs_tree *tree)
{
	pthread_rwlock_rdlock(&tree->lock);
}

void shfs_tree_lock_write(struct shfs_tree *tree)
{
	pthread_rwlock_wrlock(&tree->lock);
}

void shfs_tree_unlock(struct shfs_tree *tree)
{
	pthread_rwlock_unlock(&tree->lock);
}
