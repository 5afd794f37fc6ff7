/* SPDX-License-Identifier: MIT */
/* Reaches the lower file of a node: cached fds, opening by name. */
#include "fusefs/nodes/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <utlist.h>

#define AWAIT_MS   200
#define LENT_NS    50000
#define LENT_TRIES 1000

/* --- cached fds: with fds_lock --- */

static void fd_unlist(struct shfs_tree *tree, struct node *node)
{
	shfs_assert_held(&tree->fds_lock);
	if (node->pinned)
		return;
	shfs_assert(tree->fds && tree->n_fds);
	DL_DELETE(tree->fds, node);
	tree->n_fds--;
}

static void fd_list(struct shfs_tree *tree, struct node *node)
{
	shfs_assert_held(&tree->fds_lock);
	shfs_assert(node->fd >= 0 && node != &tree->root);
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

/* Waits until fds of removed files are closed: the kernel forgets these files late. */
static bool await_unpinned(struct shfs_tree *tree, size_t n_pinned)
{
	for (int i = 0; i < AWAIT_MS; i++) {
		if (atomic_load(&tree->n_pinned) < n_pinned)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return false;
}

bool shfs_tree_spare_fds(struct shfs_tree *tree)
{
	size_t closed, n_pinned = atomic_load(&tree->n_pinned);

	pthread_mutex_lock(&tree->fds_lock);
	closed = fds_shrink(tree, tree->n_fds / 2);
	pthread_mutex_unlock(&tree->fds_lock);
	return closed || (n_pinned && await_unpinned(tree, n_pinned));
}

/* Takes the cached fd, with one more user, or returns -1. */
int node_fd_take(struct shfs_tree *tree, struct node *node)
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
 * Gives the node its fd, takes ownership of it, and takes the node's fd: that of another
 * thread, if that was first.
 */
int node_fd_give(struct shfs_tree *tree, struct node *node, int fd)
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
	shfs_assert(node_private(node)->users && node_private(node)->fd >= 0);
	node_private(node)->users--;
	pthread_mutex_unlock(&tree->fds_lock);
}

void node_set_pinned(struct shfs_tree *tree, struct node *node, bool pinned)
{
	pthread_mutex_lock(&tree->fds_lock);
	pinned = pinned && node->fd >= 0;
	if (pinned && !node->pinned) {
		fd_unlist(tree, node);
		atomic_fetch_add(&tree->n_pinned, 1);
	} else if (!pinned && node->pinned) {
		fd_list(tree, node);
		atomic_fetch_sub(&tree->n_pinned, 1);
	}
	node->pinned = pinned;
	pthread_mutex_unlock(&tree->fds_lock);
}

void node_fd_drop(struct shfs_tree *tree, struct node *node)
{
	int fd = -1;

	pthread_mutex_lock(&tree->fds_lock);
	shfs_assert(!node->users);
	if (node->fd >= 0) {
		fd_unlist(tree, node);
		atomic_fetch_sub(&tree->n_pinned, node->pinned);
		fd = TAKE_FD(node->fd);
	}
	pthread_mutex_unlock(&tree->fds_lock);
	/* slow if this frees a large file */
	shfs_closep(&fd);
}

/* --- reaching the file --- */

static int openat_spare(struct shfs_tree *tree, int dirfd, const char *name, int flags)
{
	int fd = openat(dirfd, name, flags | O_CLOEXEC);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE) && shfs_tree_spare_fds(tree))
		fd = openat(dirfd, name, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int node_open_by_fd(struct shfs_tree *tree, int path_fd, int flags)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", path_fd);
	return openat_spare(tree, tree->proc_fd, name, flags);
}

/* Opens name below dirfd, if it is the node's file. */
int node_open_checked(struct shfs_tree *tree, const struct node *node, int dirfd,
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
	return node_is_same_birth(&node->pub, &stx) ? TAKE_FD(fd) : -ESTALE;
}

/*
 * Tree lock held. Lists the nodes from node up to the first with a cached fd, which is
 * last in the array, with its fd taken. Without recursion: trees may be deeper than the
 * stack.
 */
static int chain_up(struct shfs_tree *tree, struct node *node, struct node ***out)
{
	_cleanup_free_ struct node **chain = NULL;
	size_t n = 0, cap = 0;

	for (;; node = node->name->parent) {
		if (n == cap) {
			struct node **grown;

			cap = cap ? 2 * cap : 32;
			grown = reallocarray(chain, cap, sizeof(*chain));
			if (!grown)
				return -ENOMEM;
			chain = grown;
		}
		chain[n++] = node;
		if (node_fd_take(tree, node) >= 0)
			break;
		if (node->name->gone)
			return -ESTALE;
	}
	shfs_assert(n && chain[n - 1]->fd >= 0);
	*out = TAKE_PTR(chain);
	return (int)n;
}

/* Tree lock held. */
int node_fd_locked(struct shfs_tree *tree, struct node *node)
{
	_cleanup_free_ struct node **chain = NULL;
	int n = chain_up(tree, node, &chain), fd;

	if (n < 0)
		return n;
	fd = chain[n - 1]->fd;
	for (int i = n - 2; i >= 0; i--) {
		fd = node_open_checked(tree, chain[i], fd, chain[i]->name->text, O_PATH);
		if (fd >= 0)
			fd = node_fd_give(tree, chain[i], fd);
		shfs_node_fd_done(tree, &chain[i + 1]->pub);
		if (fd < 0)
			return fd;
	}
	return fd;
}

int shfs_node_fd(struct shfs_tree *tree, struct shfs_node *node)
{
	int fd = node_fd_take(tree, node_private(node));

	if (fd >= 0)
		return fd;
	shfs_tree_lock_read(tree);
	fd = node_fd_locked(tree, node_private(node));
	shfs_tree_unlock(tree);
	return fd;
}

int shfs_node_adopt_fd(struct shfs_tree *tree, struct shfs_node *node, int fd)
{
	int path_fd = node_open_by_fd(tree, fd, O_PATH);

	close(fd);
	return path_fd < 0 ? path_fd : node_fd_give(tree, node_private(node), path_fd);
}

/* Opens a file by its name, without caching an fd: most files are opened once. */
static int open_by_name(struct shfs_tree *tree, struct node *node, int flags)
{
	int dirfd, fd = -ESTALE;

	shfs_tree_lock_read(tree);
	if (!node->name->gone) {
		dirfd = node_fd_locked(tree, node->name->parent);
		fd = dirfd;
		if (dirfd >= 0) {
			fd = node_open_checked(tree, node, dirfd, node->name->text,
			                       flags);
			shfs_node_fd_done(tree, &node->name->parent->pub);
		}
	}
	shfs_tree_unlock(tree);
	return fd;
}

int shfs_node_open(struct shfs_tree *tree, struct shfs_node *pub, int flags)
{
	struct node *node = node_private(pub);
	int path_fd = node_fd_take(tree, node), fd;

	if (path_fd < 0) {
		/* O_NONBLOCK: must not wait for a lease (fcntl) with the tree locked */
		fd = open_by_name(tree, node, flags | O_NONBLOCK);
		if (fd != -ESTALE && fd != -EWOULDBLOCK)
			return fd;
		path_fd = shfs_node_fd(tree, pub);
		if (path_fd < 0)
			return path_fd;
	}
	fd = node_open_by_fd(tree, path_fd, flags);
	shfs_node_fd_done(tree, pub);
	return fd;
}

static int stat_by_name(struct shfs_tree *tree, struct node *node, struct statx *out)
{
	int r = -ESTALE, dirfd;

	shfs_tree_lock_read(tree);
	if (!node->name->gone) {
		dirfd = node_fd_locked(tree, node->name->parent);
		r = dirfd;
		if (dirfd >= 0) {
			r = shfs_node_statx(dirfd, node->name->text, out);
			shfs_node_fd_done(tree, &node->name->parent->pub);
		}
	}
	shfs_tree_unlock(tree);
	return r || node_is_same_birth(&node->pub, out) ? r : -ESTALE;
}

bool shfs_node_resume(struct shfs_tree *tree, struct shfs_node *pub, int fd)
{
	struct node *node = node_private(pub);
	struct statx stx;
	bool is_gone;
	int path_fd;

	if (fd < 0 || shfs_node_statx(fd, "", &stx) || stx.stx_ino != pub->ino ||
	    shfs_statx_dev(&stx) != pub->dev)
		return false;
	if (node == &tree->root)
		return true;
	path_fd = node_open_by_fd(tree, fd, O_PATH);
	if (path_fd < 0)
		return false;
	node_fd_give(tree, node, path_fd);
	is_gone = stat_by_name(tree, node, &stx) != 0;
	shfs_tree_lock_write(tree);
	node->name->gone |= is_gone;
	node_set_pinned(tree, node, node->name->gone);
	node_update_heir(node);
	shfs_tree_unlock(tree);
	shfs_node_fd_done(tree, pub);
	return true;
}

int shfs_node_recheck(struct shfs_tree *tree, struct shfs_node *pub)
{
	struct shard *shard = tree_shard(tree, pub->id);
	struct statx stx;
	bool is_open;
	int r = stat_by_name(tree, node_private(pub), &stx);

	if (!r) {
		atomic_store(&pub->suspect, false);
		return 0;
	}
	pthread_mutex_lock(&shard->lock);
	is_open = node_private(pub)->refs && !S_ISDIR(pub->type);
	pthread_mutex_unlock(&shard->lock);
	return is_open ? 0 : -ESTALE;
}

static int stat_once(struct shfs_tree *tree, struct shfs_node *pub, struct statx *out)
{
	struct node *node = node_private(pub);
	int fd = node_fd_take(tree, node), r;

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

int shfs_node_stat(struct shfs_tree *tree, struct shfs_node *pub, struct statx *out)
{
	for (unsigned tries = 0;; tries++) {
		unsigned turn = atomic_load(&pub->lent);
		int r = stat_once(tree, pub, out);

		if ((!(turn & 1) && turn == atomic_load(&pub->lent)) ||
		    tries == LENT_TRIES)
			return r;
		nanosleep(&(struct timespec){ .tv_nsec = LENT_NS }, NULL);
	}
}

void shfs_node_turn_lent(struct shfs_node *node)
{
	atomic_fetch_add(&node->lent, 1);
}

struct shfs_fd_name shfs_fd_name(int fd)
{
	struct shfs_fd_name out;

	snprintf(out.name, sizeof(out.name), "%d", fd);
	return out;
}
