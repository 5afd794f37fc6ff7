/* SPDX-License-Identifier: MIT */
/*
 * internal.h - shared by the parts of the table of nodes.
 *
 *     node.c   the nodes, and how long they live
 *     fd.c     reaching the lower file: cached fds, open, stat
 *     name.c   the names by which a file was found
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
	atomic_uint refs;       /* 0: it may be freed, unless it is the node's first */
	uint64_t serial;        /* unique among all names */
	bool gone;              /* the name does not exist any more */
};

/*
 * lookups are counted by the kernel, refs by children, open files and requests; both, and
 * used, are guarded by the shard's lock. Names are guarded by the tree lock, the rest by
 * fds_lock.
 */
struct node {
	struct shfs_node pub;
	UT_hash_handle hh;
	uint64_t refs, lookups;
	bool used;     /* looked up since shfs_tree_idle passed it last */
	bool unhashed; /* another file has its inode number now */
	bool replaced; /* it is in the list `replaced`; replaced_lock */

	struct shfs_heir_node
		*heir_node; /* in the heir, if it needs one; tree lock and */
	unsigned n_open;    /* heir_lock, which also guards n_open */

	struct shfs_name *name;         /* by which the file is reached */
	struct shfs_name *_Atomic lone; /* a former only name, which the kernel
	                                   may still have cached */
	struct shfs_name first;         /* head of the list of all names */

	int fd;
	unsigned users; /* of fd */
	bool pinned;    /* fd is in no list, and stays open */
	struct node *prev, *next;
	struct node *prev_replaced, *next_replaced;
};

struct shard {
	pthread_mutex_t lock;
	struct node *nodes;
};

/* A thread that has looked up a file with several names, or was told to do so. */
struct seeker {
	uint32_t tid;
	bool asked;
	uint64_t node;   /* id of the node */
	uint64_t serial; /* of the name that it found; 0: none yet */
	uint64_t at_ns;  /* CLOCK_BOOTTIME */
	uint64_t where;  /* hash of that name, also if the node has forgotten it */
	uint64_t found_ns;
};

#define SEEKER_SETS 64
#define SEEKER_WAYS 4

struct shfs_tree {
	int proc_fd;
	struct shfs_heir *heir; /* NULL: no other server can take over */
	pthread_mutex_t heir_lock;
	bool is_inherited; /* taken over: the kernel has lookups that we have not counted
	                    */
	atomic_bool has_moved;
	void (*drop)(void *watch);
	struct node root;
	uint64_t hidden_dev, hidden_ino;
	pthread_rwlock_t lock;
	struct shard shards[N_SHARDS]; /* nodes of each: the longest not picked first */
	atomic_size_t n_nodes;
	int size_fd;
	unsigned hand; /* the next shard of shfs_tree_idle */

	atomic_ullong serial; /* of the last name that was made */
	pthread_mutex_t seekers_lock;
	struct seeker seekers[SEEKER_SETS][SEEKER_WAYS];

	pthread_mutex_t replaced_lock;
	struct node *replaced; /* each with a reference, the oldest first */
	size_t n_replaced;

	pthread_mutex_t fds_lock;
	struct node *fds; /* cached, the longest unused first */
	size_t n_fds, max_fds;
	atomic_size_t n_pinned; /* pinned fds, without that of the root */
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

/* Is this the node's file, by inode number and time of birth? */
bool node_is_same_birth(const struct shfs_node *node, const struct statx *stx);
struct shard *tree_shard(struct shfs_tree *tree, uint64_t id);

/* Updates the node's place to its name. Tree lock held for writing, or the node is new.
 */
void node_update_heir(struct node *node);

/* --- fd.c --- */

/* Takes the cached fd, with one more user, until shfs_node_fd_done; or returns -1. */
int node_fd_take(struct shfs_tree *tree, struct node *node);
/* Gives the node its fd, takes ownership of it, and takes the node's fd: that of another
 * thread, if that was first. */
int node_fd_give(struct shfs_tree *tree, struct node *node, int fd);
/* Keeps the node's fd open as long as the node lives, or returns it to the cache. */
void node_set_pinned(struct shfs_tree *tree, struct node *node, bool pinned);
void node_fd_drop(struct shfs_tree *tree, struct node *node);
/* As shfs_node_fd, with the tree lock held. */
int node_fd_locked(struct shfs_tree *tree, struct node *node);
/* Opens name below dirfd, if it is the node's file. */
int node_open_checked(struct shfs_tree *tree, const struct node *node, int dirfd,
                      const char *name, int flags);
/* Opens the file of an fd again, with other flags. */
int node_open_by_fd(struct shfs_tree *tree, int path_fd, int flags);

/* --- name.c --- */

/* Notes a name by which the file was just found, and reaches it by that, as other names
 * may be gone. False: there was another name, which is not known to be gone. */
bool node_is_at(struct shfs_tree *tree, struct node *node, struct shfs_node *parent,
                const char *name);
/* Was the file ever found by this name? Tree lock held. */
bool node_has_name(struct node *node, const struct shfs_node *parent, const char *text);
/* Did thread tid find the file by this name a moment ago? If it has many names, not all
 * are remembered. */
bool node_is_found(struct shfs_tree *tree, const struct node *node,
                   const struct shfs_node *parent, const char *text, uint32_t tid);
void node_name_free(struct shfs_tree *tree, struct shfs_name *name);
