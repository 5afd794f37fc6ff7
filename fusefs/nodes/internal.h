/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the parts of the table of nodes share.
 *
 *     node.c   which file is which node, and how long it lives
 *     fd.c     reaching the file beneath: cached fds, open, stat
 *     name.c   the names that a file was found by
 */
#pragma once

#include "fusefs/nodes/node.h"
#include "fusefs/takeover/heir.h"

#include "common/hash.h"

#include <pthread.h>

#define N_SHARDS 64

struct shfs_name {
	struct node *parent; /* referenced; NULL: of the root */
	char *text;
	struct shfs_name *next; /* of the same node; directories have one */
	atomic_uint refs;       /* without, it may be freed, but for the node's first */
	uint64_t serial;        /* tells it from all others */
	bool gone;              /* it is what the name was last */
};

/*
 * lookups are the kernel's, refs those of children, open files and requests: both and
 * used are guarded by the shard. names: by the tree lock. The rest below: by fds_lock.
 */
struct node {
	struct shfs_node pub;
	UT_hash_handle hh;
	uint64_t refs, lookups;
	bool used;     /* looked up since shfs_tree_idle was last at it */
	bool unhashed; /* its inode number is another file's now */
	bool replaced; /* it is in that list; replaced_lock */

	struct shfs_place *place; /* of heir, while it has to have one: tree lock, and */
	unsigned n_open;          /* for whom: places_lock */

	struct shfs_name *name;         /* the one that it is reached by */
	struct shfs_name *_Atomic lone; /* the one that was its only one, and that the
	                                   kernel may still believe */
	struct shfs_name first;         /* and the head of the list of all */

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

/* A thread that has looked a file of several names up, or was told to do so. */
struct seeker {
	uint32_t tid;
	bool asked;
	uint64_t node;   /* its id */
	uint64_t serial; /* of the name that it found; 0: none yet */
	uint64_t at_ns;  /* CLOCK_BOOTTIME */
	uint64_t where;  /* stands for that name, also if the node has forgotten it */
	uint64_t found_ns;
};

#define SEEKER_SETS 64
#define SEEKER_WAYS 4

struct shfs_tree {
	int proc_fd;
	struct shfs_heir *heir; /* NULL: there will be none */
	pthread_mutex_t places_lock;
	bool is_inherited; /* the kernel has lookups that we do not know of */
	atomic_bool has_moved;
	void (*drop)(struct shfs_watch *watch);
	struct node root;
	uint64_t hidden_dev, hidden_ino;
	pthread_rwlock_t lock;
	struct shard shards[N_SHARDS]; /* nodes of each: the longest unpicked first */
	atomic_size_t n_nodes;
	int size_fd;
	unsigned hand; /* the shard that shfs_tree_idle goes on with */

	atomic_ullong serial; /* of the name that was made last */
	pthread_mutex_t seekers_lock;
	struct seeker seekers[SEEKER_SETS][SEEKER_WAYS];

	pthread_mutex_t replaced_lock;
	struct node *replaced; /* each with a reference, the oldest first */
	size_t n_replaced;

	pthread_mutex_t fds_lock;
	struct node *fds; /* cached, the longest unused first */
	size_t n_fds, max_fds;
	atomic_size_t n_pinned; /* others, but for the root's */
};

static inline struct node *node_private(struct shfs_node *node)
{
	return container_of(node, struct node, pub);
}

static inline const struct node *node_private_const(const struct shfs_node *node)
{
	return container_of(node, const struct node, pub);
}

static inline uint64_t tree_next_serial(struct shfs_tree *tree)
{
	return atomic_fetch_add(&tree->serial, 1) + 1;
}

/* Is this, by its number and time of birth, the node's file? */
bool node_is_same_birth(const struct shfs_node *node, const struct statx *stx);
struct shard *tree_shard(struct shfs_tree *tree, uint64_t id);

/* Tree lock held for writing, or the node is new: its place is that of its name. */
void node_place_update(struct node *node);

/* --- fd.c --- */

/* The cached fd, with one user more, or -1; until shfs_node_fd_done. */
int node_fd_take(struct shfs_tree *tree, struct node *node);
/* Gives the node its fd (taken over; another thread may have been first), and takes it.
 */
int node_fd_give(struct shfs_tree *tree, struct node *node, int fd);
/* Keeps the fd that it has open for as long as it is known, or no longer. */
void node_set_pinned(struct shfs_tree *tree, struct node *node, bool pinned);
void node_fd_drop(struct shfs_tree *tree, struct node *node);
/* As shfs_node_fd, with the tree lock held. */
int node_fd_locked(struct shfs_tree *tree, struct node *node);
/* Opens name below dirfd if it is the node's file. */
int node_open_checked(struct shfs_tree *tree, const struct node *node, int dirfd,
                      const char *name, int flags);
/* Opens anew what an fd is of. */
int node_open_by_fd(struct shfs_tree *tree, int path_fd, int flags);

/* --- name.c --- */

/* A name that was just found is as good as any, and better than one that may be gone.
 * False: there was another one, that is not known to be gone. */
bool node_is_at(struct shfs_tree *tree, struct node *node, struct shfs_node *parent,
                const char *name);
/* Was the file ever found by this name? Tree lock held. */
bool node_has_name(struct node *node, const struct shfs_node *parent, const char *text);
/* Did thread tid find it by this name, a moment ago? Of many names, not all are kept. */
bool node_is_found(struct shfs_tree *tree, const struct node *node,
                   const struct shfs_node *parent, const char *text, uint32_t tid);
void node_name_free(struct shfs_tree *tree, struct shfs_name *name);
