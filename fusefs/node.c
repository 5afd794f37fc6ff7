/* SPDX-License-Identifier: MIT */
#include "fusefs/node.h"

#include "store/object.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <uthash.h>
#include <utlist.h>

#define N_SHARDS    64
#define FOREIGN_BIT (UINT64_C(1) << 63)
/* Ids that are tried for one file before the next free one is given. */
#define PROBES 8
/* Nodes that left the table, kept for requests that still use them. */
#define REPLACED_MAX 256

/*
 * lookups are the kernel's, refs those of children, open files and requests: both are
 * guarded by the shard. parent and name: by the tree lock. The rest below: by fds_lock.
 */
struct node {
	struct shfs_node pub;
	UT_hash_handle hh;
	uint64_t refs, lookups;
	bool unhashed; /* its inode number is another file's now */

	struct node *parent; /* referenced */
	char *name;
	bool gone; /* parent and name are what they were last */
	/* of a file with several names: the one that it was known by before; or NULL */
	struct node *alias_parent; /* referenced */
	char *alias;

	int fd;
	unsigned users; /* of fd */
	bool pinned;    /* in no list: stays open */
	struct node *prev, *next;
	struct node *prev_replaced, *next_replaced;
};

struct shard {
	pthread_mutex_t lock;
	struct node *nodes;
};

struct shfs_tree {
	int proc_fd;
	void (*drop)(struct shfs_watch *watch);
	struct node root;
	uint64_t hidden_dev, hidden_ino;
	pthread_rwlock_t lock;
	struct shard shards[N_SHARDS];

	pthread_mutex_t replaced_lock;
	struct node *replaced; /* each with a reference, the oldest first */
	size_t n_replaced;

	pthread_mutex_t fds_lock;
	struct node *fds; /* cached, the longest unused first */
	size_t n_fds, max_fds;
};

static struct node *node_private(struct shfs_node *node)
{
	return container_of(node, struct node, pub);
}

static const struct node *private_const(const struct shfs_node *node)
{
	return container_of(node, const struct node, pub);
}

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

/* The kernel keeps 32 bits of it. 0 stands for unknown. */
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

/* dev and ino alone tell the file as long as it is pinned by something. */
static bool is_same_file(const struct shfs_node *node, const struct statx *stx)
{
	return node->ino == stx->stx_ino && node->dev == shfs_statx_dev(stx) &&
	       node->type == (stx->stx_mode & S_IFMT);
}

static bool is_same_birth(const struct shfs_node *node, const struct statx *stx)
{
	uint32_t generation = generation_of(stx);

	return is_same_file(node, stx) &&
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
	return shfs_object_hash64(key, sizeof(key)) | FOREIGN_BIT;
}

/* --- the table --- */

/* The ids that are probed for one file share their shard: the low bits do not count. */
static struct shard *shard_of(struct shfs_tree *tree, uint64_t id)
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
 * The node of (dev, ino), or NULL and in *id one that is free for it. Only foreign ids
 * can be taken by another file; all of theirs are looked at, as those before may have
 * gone.
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
	struct shard *shard = shard_of(tree, id);
	struct node *node;

	if (id == SHFS_NODE_ROOT)
		return &tree->root.pub;
	pthread_mutex_lock(&shard->lock);
	node = shard_find(shard, id);
	pthread_mutex_unlock(&shard->lock);
	return node ? &node->pub : NULL;
}

struct shfs_node *shfs_node_get(struct shfs_tree *tree, const struct statx *stx)
{
	uint64_t dev = shfs_statx_dev(stx), id = id_of(tree, dev, stx->stx_ino);
	struct shard *shard = shard_of(tree, id);
	struct node *node;

	if (id == SHFS_NODE_ROOT)
		return &tree->root.pub;
	pthread_mutex_lock(&shard->lock);
	node = shard_find_file(shard, dev, stx->stx_ino, &id);
	if (node && !is_same_birth(&node->pub, stx))
		node = NULL;
	if (node)
		node->refs++;
	pthread_mutex_unlock(&shard->lock);
	return node ? &node->pub : NULL;
}

void shfs_node_ref(struct shfs_tree *tree, struct shfs_node *node)
{
	struct shard *shard = shard_of(tree, node->id);

	if (node == &tree->root.pub)
		return;
	pthread_mutex_lock(&shard->lock);
	node_private(node)->refs++;
	pthread_mutex_unlock(&shard->lock);
}

/* --- cached fds: with fds_lock --- */

static void fd_unlist(struct shfs_tree *tree, struct node *node)
{
	if (node->pinned)
		return;
	DL_DELETE(tree->fds, node);
	tree->n_fds--;
}

static void fd_list(struct shfs_tree *tree, struct node *node)
{
	DL_APPEND(tree->fds, node);
	tree->n_fds++;
}

static size_t fds_shrink(struct shfs_tree *tree, size_t keep)
{
	struct node *node, *next;
	size_t closed = 0;

	DL_FOREACH_SAFE2 (tree->fds, node, next, next) {
		if (tree->n_fds <= keep)
			break;
		if (node->users)
			continue;
		fd_unlist(tree, node);
		close(TAKE_FD(node->fd));
		closed++;
	}
	return closed;
}

bool shfs_tree_spare_fds(struct shfs_tree *tree)
{
	size_t closed;

	pthread_mutex_lock(&tree->fds_lock);
	closed = fds_shrink(tree, tree->n_fds / 2);
	pthread_mutex_unlock(&tree->fds_lock);
	return closed > 0;
}

/* The cached fd, with one user more, or -1. */
static int fd_take(struct shfs_tree *tree, struct node *node)
{
	int fd;

	pthread_mutex_lock(&tree->fds_lock);
	fd = node->fd;
	if (fd >= 0) {
		node->users++;
		if (node != &tree->root && !node->pinned && node->next) {
			DL_DELETE(tree->fds, node);
			DL_APPEND(tree->fds, node);
		}
	}
	pthread_mutex_unlock(&tree->fds_lock);
	return fd;
}

/*
 * Gives the node its fd (taken over; another thread may have been first), and takes it.
 */
static int fd_give(struct shfs_tree *tree, struct node *node, int fd)
{
	pthread_mutex_lock(&tree->fds_lock);
	if (node->fd < 0) {
		node->fd = fd;
		node->pinned = false;
		fd_list(tree, node);
	} else {
		close(fd);
	}
	node->users++;
	fd = node->fd;
	fds_shrink(tree, tree->max_fds);
	pthread_mutex_unlock(&tree->fds_lock);
	return fd;
}

void shfs_node_fd_done(struct shfs_tree *tree, struct shfs_node *node)
{
	pthread_mutex_lock(&tree->fds_lock);
	node_private(node)->users--;
	pthread_mutex_unlock(&tree->fds_lock);
}

static void fd_drop(struct shfs_tree *tree, struct node *node)
{
	int fd = -1;

	pthread_mutex_lock(&tree->fds_lock);
	if (node->fd >= 0) {
		fd_unlist(tree, node);
		fd = TAKE_FD(node->fd);
	}
	pthread_mutex_unlock(&tree->fds_lock);
	/* takes its time where that was all that was left of a large file */
	shfs_closep(&fd);
}

/* --- the life of a node --- */

/* With the tree lock, or when nobody else can reach it. An alias's parent is a directory,
 * which has no alias: this goes no deeper. */
static void alias_drop(struct shfs_tree *tree, struct node *node)
{
	struct node *parent = node->alias_parent;

	free(TAKE_PTR(node->alias));
	node->alias_parent = NULL;
	if (parent)
		shfs_node_unref(tree, &parent->pub);
}

/* Nobody else can reach it any more. Returns its parent, and its reference with it. */
static struct node *node_destroy(struct shfs_tree *tree, struct node *node)
{
	struct node *parent = node->parent;

	fd_drop(tree, node);
	if (node->pub.watch)
		tree->drop(node->pub.watch);
	alias_drop(tree, node);
	free(node->name);
	free(node);
	return parent;
}

/* Shard lock held. Takes the node out of the table if it is not needed; true if so. */
static bool node_reap(struct shard *shard, struct node *node)
{
	if (node->refs || node->lookups)
		return false;
	if (!node->unhashed)
		HASH_DEL(shard->nodes, node);
	return true;
}

/* Parents follow their last child; a loop, as trees may be deep. */
void shfs_node_unref(struct shfs_tree *tree, struct shfs_node *pub)
{
	struct node *node = node_private(pub);

	while (node && node != &tree->root) {
		struct shard *shard = shard_of(tree, node->pub.id);
		bool last;

		pthread_mutex_lock(&shard->lock);
		node->refs--;
		last = node_reap(shard, node);
		pthread_mutex_unlock(&shard->lock);
		if (!last)
			break;
		node = node_destroy(tree, node);
	}
}

void shfs_node_forget(struct shfs_tree *tree, uint64_t id, uint64_t n)
{
	struct shard *shard = shard_of(tree, id);
	struct node *node;

	pthread_mutex_lock(&shard->lock);
	node = shard_find(shard, id);
	if (node) {
		node->lookups -= MIN(n, node->lookups);
		if (!node_reap(shard, node))
			node = NULL;
	}
	pthread_mutex_unlock(&shard->lock);
	if (!node)
		return;
	node = node_destroy(tree, node);
	if (node)
		shfs_node_unref(tree, &node->pub);
}

static struct node *node_new(struct shfs_tree *tree, struct node *parent,
                             const char *name, const struct statx *stx)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->name = strdup(name);
	if (!node->name) {
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
	node->parent = parent;
	shfs_node_ref(tree, &parent->pub);
	return node;
}

/* A request may have found it by its id a moment ago. Takes a reference over. */
static void keep_replaced(struct shfs_tree *tree, struct node *node)
{
	struct node *oldest = NULL;

	pthread_mutex_lock(&tree->replaced_lock);
	DL_APPEND2(tree->replaced, node, prev_replaced, next_replaced);
	if (++tree->n_replaced > REPLACED_MAX) {
		oldest = tree->replaced;
		DL_DELETE2(tree->replaced, oldest, prev_replaced, next_replaced);
		tree->n_replaced--;
	}
	pthread_mutex_unlock(&tree->replaced_lock);
	if (oldest)
		shfs_node_unref(tree, &oldest->pub);
}

/*
 * Adds made to the table, unless the file is there: then that node is it. One that is of
 * an earlier file with this inode number leaves the table, and the kernel's lookups of it
 * go to the new one, as the kernel will give both back by one id.
 */
static int table_add(struct shfs_tree *tree, struct node *made, struct node **out)
{
	uint64_t id = id_of(tree, made->pub.dev, made->pub.ino);
	struct shard *shard = shard_of(tree, id);
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
		if (old) {
			id = old->pub.id;
			HASH_DEL(shard->nodes, old);
			old->unhashed = true;
			made->lookups += old->lookups;
			old->lookups = 0;
			old->refs++;
		}
		made->pub.id = id;
		HASH_ADD(hh, shard->nodes, pub.id, sizeof(id), made);
		*out = made;
	}
	pthread_mutex_unlock(&shard->lock);
	if (old && *out == made)
		keep_replaced(tree, old);
	return r;
}

/*
 * Tree lock held for writing. A file that was found by another name may have both: the
 * one before is kept for when this one goes.
 */
static void alias_keep(struct shfs_tree *tree, struct node *node)
{
	char *name;

	if (S_ISDIR(node->pub.type) || node->gone)
		return;
	name = strdup(node->name);
	if (!name)
		return;
	alias_drop(tree, node);
	node->alias = name;
	node->alias_parent = node->parent;
	shfs_node_ref(tree, &node->parent->pub);
}

/* A name that was just found is as good as any, and better than one that may be gone. */
static void node_is_at(struct shfs_tree *tree, struct node *node,
                       struct shfs_node *parent, const char *name)
{
	bool same;

	shfs_tree_lock_read(tree);
	same = shfs_node_is_at(&node->pub, parent, name);
	shfs_tree_unlock(tree);
	if (same)
		return;
	shfs_tree_lock_write(tree);
	if (!shfs_node_is_at(&node->pub, parent, name)) {
		alias_keep(tree, node);
		shfs_node_moved(tree, &node->pub, parent, name);
	}
	shfs_tree_unlock(tree);
}

/* What shard_find_file finds without making a node first. */
static struct node *table_look_up(struct shfs_tree *tree, const struct statx *stx)
{
	uint64_t dev = shfs_statx_dev(stx), id = id_of(tree, dev, stx->stx_ino);
	struct shard *shard = shard_of(tree, id);
	struct node *node;

	pthread_mutex_lock(&shard->lock);
	node = shard_find_file(shard, dev, stx->stx_ino, &id);
	if (node && !is_same_birth(&node->pub, stx))
		node = NULL;
	if (node)
		node->lookups++;
	pthread_mutex_unlock(&shard->lock);
	return node;
}

int shfs_node_enter(struct shfs_tree *tree, struct shfs_node *parent, const char *name,
                    const struct statx *stx, struct shfs_node **out)
{
	struct node *node, *made;
	int r;

	if (is_root(tree, shfs_statx_dev(stx), stx->stx_ino))
		return -ELOOP; /* a bind mount of the root below itself */
	node = table_look_up(tree, stx);
	if (!node) {
		made = node_new(tree, node_private(parent), name, stx);
		if (!made)
			return -ENOMEM;
		r = table_add(tree, made, &node);
		if (r || node != made) {
			node_destroy(tree, made);
			shfs_node_unref(tree, parent);
		}
		if (r)
			return r;
		if (node == made) {
			*out = &node->pub;
			return 0;
		}
	}
	node_is_at(tree, node, parent, name);
	*out = &node->pub;
	return 0;
}

int shfs_node_lookup(struct shfs_tree *tree, struct shfs_node *parent, const char *name,
                     struct statx *stx, struct shfs_node **out)
{
	int fd = shfs_node_fd(tree, parent), r;

	if (fd < 0)
		return fd;
	r = shfs_node_statx(fd, name, stx);
	shfs_node_fd_done(tree, parent);
	return r ? r : shfs_node_enter(tree, parent, name, stx, out);
}

/* --- reaching the file --- */

static int openat_spare(struct shfs_tree *tree, int dirfd, const char *name, int flags)
{
	int fd = openat(dirfd, name, flags | O_CLOEXEC);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE) && shfs_tree_spare_fds(tree))
		fd = openat(dirfd, name, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Opens name below dirfd if it is the node's file. */
static int open_checked(struct shfs_tree *tree, const struct node *node, int dirfd,
                        const char *name, int flags)
{
	_cleanup_close_ int fd =
		openat_spare(tree, dirfd, name, flags | O_NOFOLLOW | O_NONBLOCK);
	struct statx stx;
	int r;

	if (fd < 0)
		return fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR ? -ESTALE : fd;
	r = shfs_node_statx(fd, "", &stx);
	if (r)
		return r;
	return is_same_birth(&node->pub, &stx) ? TAKE_FD(fd) : -ESTALE;
}

/*
 * Tree lock held. The nodes from node up to the first whose fd is cached, which is last
 * in the array, with its fd taken. Trees may be deeper than any path or stack.
 */
static int chain_up(struct shfs_tree *tree, struct node *node, struct node ***out)
{
	_cleanup_free_ struct node **chain = NULL;
	size_t n = 0, cap = 0;

	for (;; node = node->parent) {
		if (n == cap) {
			struct node **grown;

			cap = cap ? 2 * cap : 32;
			grown = reallocarray(chain, cap, sizeof(*chain));
			if (!grown)
				return -ENOMEM;
			chain = grown;
		}
		chain[n++] = node;
		if (fd_take(tree, node) >= 0)
			break;
		if (node->gone)
			return -ESTALE;
	}
	*out = TAKE_PTR(chain);
	return (int)n;
}

/* Tree lock held. */
static int node_fd_locked(struct shfs_tree *tree, struct node *node)
{
	_cleanup_free_ struct node **chain = NULL;
	int n = chain_up(tree, node, &chain), fd;

	if (n < 0)
		return n;
	fd = chain[n - 1]->fd;
	for (int i = n - 2; i >= 0; i--) {
		fd = open_checked(tree, chain[i], fd, chain[i]->name, O_PATH);
		if (fd >= 0)
			fd = fd_give(tree, chain[i], fd);
		shfs_node_fd_done(tree, &chain[i + 1]->pub);
		if (fd < 0)
			return fd;
	}
	return fd;
}

int shfs_node_fd(struct shfs_tree *tree, struct shfs_node *node)
{
	int fd = fd_take(tree, node_private(node));

	if (fd >= 0)
		return fd;
	shfs_tree_lock_read(tree);
	fd = node_fd_locked(tree, node_private(node));
	shfs_tree_unlock(tree);
	return fd;
}

/* By its name, without an fd of its own: most files are opened once. */
static int open_by_name(struct shfs_tree *tree, struct node *node, int flags)
{
	int dirfd, fd = -ESTALE;

	shfs_tree_lock_read(tree);
	if (!node->gone) {
		dirfd = node_fd_locked(tree, node->parent);
		fd = dirfd;
		if (dirfd >= 0) {
			fd = open_checked(tree, node, dirfd, node->name, flags);
			shfs_node_fd_done(tree, &node->parent->pub);
		}
	}
	shfs_tree_unlock(tree);
	return fd;
}

static int open_by_fd(struct shfs_tree *tree, int path_fd, int flags)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", path_fd);
	return openat_spare(tree, tree->proc_fd, name, flags);
}

int shfs_node_open(struct shfs_tree *tree, struct shfs_node *pub, int flags)
{
	struct node *node = node_private(pub);
	int path_fd = fd_take(tree, node), fd;

	if (path_fd < 0) {
		fd = open_by_name(tree, node, flags);
		if (fd != -ESTALE)
			return fd;
		path_fd = shfs_node_fd(tree, pub);
		if (path_fd < 0)
			return path_fd;
	}
	fd = open_by_fd(tree, path_fd, flags);
	shfs_node_fd_done(tree, pub);
	return fd;
}

static int stat_by_name(struct shfs_tree *tree, struct node *node, struct statx *out)
{
	int r = -ESTALE, dirfd;

	shfs_tree_lock_read(tree);
	if (!node->gone) {
		dirfd = node_fd_locked(tree, node->parent);
		r = dirfd;
		if (dirfd >= 0) {
			r = shfs_node_statx(dirfd, node->name, out);
			shfs_node_fd_done(tree, &node->parent->pub);
		}
	}
	shfs_tree_unlock(tree);
	return r || is_same_birth(&node->pub, out) ? r : -ESTALE;
}

int shfs_node_stat(struct shfs_tree *tree, struct shfs_node *pub, struct statx *out)
{
	struct node *node = node_private(pub);
	int fd = fd_take(tree, node), r;

	if (fd < 0) {
		r = stat_by_name(tree, node, out);
		if (r != -ESTALE && r != -ENOENT)
			return r;
		fd = shfs_node_fd(tree, pub);
		if (fd < 0)
			return fd;
	}
	r = shfs_node_statx(fd, "", out);
	shfs_node_fd_done(tree, pub);
	return r;
}

/* --- names --- */

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

/* Written from the end, as the chain goes up. */
void shfs_node_path(const struct shfs_node *pub, const char *name, struct shfs_buf *out)
{
	const struct node *node = private_const(pub);
	size_t len = name ? strlen(name) + 1 : 0, start = out->len, at;

	for (const struct node *n = node; n->parent; n = n->parent)
		len += strlen(n->name) + 1;
	if (!len)
		return;
	len--; /* no slash before the first */
	for (size_t i = 0; i < len; i++)
		shfs_buf_char(out, '/');
	if (out->failed)
		return;
	at = start + len;
	if (name) {
		at -= strlen(name);
		memcpy(out->data + at, name, strlen(name));
		at -= at > start;
	}
	for (const struct node *n = node; n->parent; n = n->parent) {
		at -= strlen(n->name);
		memcpy(out->data + at, n->name, strlen(n->name));
		at -= at > start;
	}
}

bool shfs_node_is_at(const struct shfs_node *pub, const struct shfs_node *parent,
                     const char *name)
{
	const struct node *node = private_const(pub);

	return node->parent && !node->gone && &node->parent->pub == parent &&
	       !strcmp(node->name, name);
}

void shfs_node_pin(struct shfs_tree *tree, struct shfs_node *pub,
                   struct shfs_node *parent, const char *name)
{
	struct node *node = node_private(pub);
	int dirfd, fd = -1;

	if (fd_take(tree, node) < 0) {
		dirfd = shfs_node_fd(tree, parent);
		if (dirfd < 0)
			return;
		fd = open_checked(tree, node, dirfd, name, O_PATH);
		shfs_node_fd_done(tree, parent);
		if (fd < 0)
			return;
		fd_give(tree, node, fd);
	}
	pthread_mutex_lock(&tree->fds_lock);
	if (!node->pinned) {
		fd_unlist(tree, node);
		node->pinned = true;
	}
	node->users--;
	pthread_mutex_unlock(&tree->fds_lock);
}

static void unpin(struct shfs_tree *tree, struct node *node)
{
	pthread_mutex_lock(&tree->fds_lock);
	if (node->pinned) {
		node->pinned = false;
		fd_list(tree, node);
	}
	pthread_mutex_unlock(&tree->fds_lock);
}

/* Without memory for it the old name stays, which is looked at before it is believed. */
void shfs_node_moved(struct shfs_tree *tree, struct shfs_node *pub,
                     struct shfs_node *parent, const char *name)
{
	struct node *node = node_private(pub), *old = node->parent;
	char *copy = strdup(name);

	if (!copy || !old) {
		free(copy);
		return;
	}
	free(node->name);
	node->name = copy;
	node->gone = false;
	node->parent = node_private(parent);
	shfs_node_ref(tree, parent);
	shfs_node_unref(tree, &old->pub);
	unpin(tree, node);
}

/* Tree lock held. Is the file still there by its other name? */
static bool alias_is_there(struct shfs_tree *tree, struct node *node)
{
	struct statx stx;
	int dirfd, r;

	if (!node->alias)
		return false;
	dirfd = node_fd_locked(tree, node->alias_parent);
	if (dirfd < 0)
		return false;
	r = shfs_node_statx(dirfd, node->alias, &stx);
	shfs_node_fd_done(tree, &node->alias_parent->pub);
	return !r && is_same_birth(&node->pub, &stx);
}

void shfs_node_gone(struct shfs_tree *tree, struct shfs_node *pub,
                    struct shfs_node *parent, const char *name)
{
	struct node *node = node_private(pub);

	if (!shfs_node_is_at(pub, parent, name))
		return;
	node->gone = true;
	if (alias_is_there(tree, node))
		shfs_node_moved(tree, pub, &node->alias_parent->pub, node->alias);
	alias_drop(tree, node);
}

bool shfs_node_is_gone(const struct shfs_node *node)
{
	return private_const(node)->gone;
}

/* --- the tree --- */

int shfs_tree_new(int root_fd, int proc_fd, size_t max_fds,
                  void (*drop)(struct shfs_watch *watch), struct shfs_tree **out)
{
	struct shfs_tree *tree = calloc(1, sizeof(*tree));
	struct statx stx;
	int r;

	if (!tree)
		return -ENOMEM;
	r = shfs_node_statx(root_fd, "", &stx);
	if (r) {
		free(tree);
		return r;
	}
	tree->proc_fd = proc_fd;
	tree->drop = drop;
	tree->max_fds = max_fds;
	tree->root.fd = root_fd;
	tree->root.pinned = true;
	tree->root.pub.id = SHFS_NODE_ROOT;
	tree->root.pub.dev = shfs_statx_dev(&stx);
	tree->root.pub.ino = stx.stx_ino;
	tree->root.pub.type = stx.stx_mode & S_IFMT;
	pthread_rwlock_init(&tree->lock, NULL);
	pthread_mutex_init(&tree->fds_lock, NULL);
	pthread_mutex_init(&tree->replaced_lock, NULL);
	for (size_t i = 0; i < N_SHARDS; i++)
		pthread_mutex_init(&tree->shards[i].lock, NULL);
	*out = tree;
	return 0;
}

void shfs_tree_free(struct shfs_tree *tree)
{
	struct node *node, *next;

	if (!tree)
		return;
	for (size_t i = 0; i < N_SHARDS; i++) {
		HASH_ITER (hh, tree->shards[i].nodes, node, next) {
			HASH_DEL(tree->shards[i].nodes, node);
			node->alias_parent = NULL; /* all go, in any order */
			node_destroy(tree, node);
		}
		pthread_mutex_destroy(&tree->shards[i].lock);
	}
	DL_FOREACH_SAFE2 (tree->replaced, node, next, next_replaced) {
		node->alias_parent = NULL;
		node_destroy(tree, node);
	}
	if (tree->root.pub.watch)
		tree->drop(tree->root.pub.watch);
	pthread_mutex_destroy(&tree->fds_lock);
	pthread_mutex_destroy(&tree->replaced_lock);
	pthread_rwlock_destroy(&tree->lock);
	free(tree);
}

void shfs_tree_hide(struct shfs_tree *tree, uint64_t dev, uint64_t ino)
{
	tree->hidden_dev = dev;
	tree->hidden_ino = ino;
}

void shfs_tree_each(struct shfs_tree *tree,
                    void (*visit)(struct shfs_node *node, void *arg), void *arg)
{
	for (size_t i = 0; i < N_SHARDS; i++) {
		struct shard *shard = &tree->shards[i];
		struct node **nodes, *node;
		size_t n = 0, total;

		pthread_mutex_lock(&shard->lock);
		total = HASH_COUNT(shard->nodes);
		nodes = total ? malloc(total * sizeof(*nodes)) : NULL;
		if (nodes)
			for (node = shard->nodes; node; node = node->hh.next) {
				node->refs++;
				nodes[n++] = node;
			}
		pthread_mutex_unlock(&shard->lock);
		for (size_t k = 0; k < n; k++) {
			visit(&nodes[k]->pub, arg);
			shfs_node_unref(tree, &nodes[k]->pub);
		}
		free(nodes);
	}
}
