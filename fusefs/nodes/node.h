/* SPDX-License-Identifier: MIT */
/*
 * node.h - the files that the kernel knows of, and how each is reached beneath the mount.
 *
 * A node stands for one file of the lower tree, named by (dev, ino). Its id is made from
 * these alone, so another process that serves the same tree gives the same ids: the inode
 * number on the root's device, a hash with the top bit set elsewhere; 1 is the root.
 * generation comes from the time of birth, so a reused inode number is another file.
 *
 * A node knows the names of its file (parent and text) that it was found by, the last
 * ones of many, and is reached by the one found last. O_PATH fds are kept in a bounded
 * cache; a file that loses its names while it is known keeps an fd for as long as it is
 * known (it is pinned). What is reached is checked by dev, ino and generation; another
 * file there is -ESTALE.
 *
 * Locks: the tree lock guards the names of all nodes. It is taken for writing
 * around an operation that changes names below, together with the change here; journal
 * records that name a path are emitted under it, so the order of records is the order of
 * changes. All functions are thread-safe; those that want the tree lock held say so.
 */
#pragma once

#include "common/buf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#define SHFS_NODE_ROOT 1

struct shfs_name;
struct shfs_tree;
struct shfs_watch;

struct shfs_node {
	uint64_t id;
	uint64_t dev, ino;
	mode_t type;               /* S_IFMT bits */
	uint32_t generation;       /* 0: the file system tells no time of birth */
	bool hidden;               /* below the store: not recorded */
	atomic_bool incapable;     /* we have made it, and nobody gave it capabilities */
	atomic_bool suspect;       /* its name beneath may lead elsewhere by now */
	atomic_bool lasting;       /* a change to it by others would be noticed */
	atomic_bool moving;        /* watch.c's: stored to, unseen by the kernel too */
	atomic_int watched;        /* beneath.c's, of a directory */
	_Atomic int64_t listed_ns; /* dir.c's: ctime when it was last opened */
	struct shfs_watch *_Atomic watch; /* watch.h's: NULL until it is wanted */
};

/*
 * root_fd (O_PATH) and proc_fd (of /proc/self/fd) stay the caller's. max_fds bounds the
 * cache. drop frees the watch of a node that ends.
 */
_must_check_ int shfs_tree_new(int root_fd, int proc_fd, size_t max_fds,
                               void (*drop)(struct shfs_watch *watch),
                               struct shfs_tree **out);
/* No other thread may use it any more. NULL is fine. */
void shfs_tree_free(struct shfs_tree *tree);

/* From now on what has to be known after our death is in heir (borrowed). Those of one
 * that died (is_taken) become nodes. */
struct shfs_heir;
_must_check_ int shfs_tree_inherit(struct shfs_tree *tree, struct shfs_heir *heir,
                                   bool is_taken);
/* fd is open of it, since before that death; it is reached by that where its name has
 * gone. False: it is another file. */
bool shfs_node_resume(struct shfs_tree *tree, struct shfs_node *node, int fd);
/* It is open once more, or no more: that is a reference, and it has to have a place. */
void shfs_node_opened(struct shfs_tree *tree, struct shfs_node *node);
void shfs_node_closed(struct shfs_tree *tree, struct shfs_node *node);
/* Around a rename, with the tree lock held for writing; node may be NULL. */
void shfs_node_moving(struct shfs_tree *tree, struct shfs_node *node,
                      const struct shfs_node *new_parent, const char *new_name);
void shfs_node_moving_done(struct shfs_tree *tree);

/* Nodes that are made below this directory from now on are hidden, as is itself. */
void shfs_tree_hide(struct shfs_tree *tree, uint64_t dev, uint64_t ino);

struct shfs_node *shfs_tree_root(struct shfs_tree *tree);

/* How many nodes there are, but for the root; and an eventfd that is written to each time
 * that passes a multiple of SHFS_TREE_STEP. */
#define SHFS_TREE_STEP 1024
size_t shfs_tree_size(struct shfs_tree *tree);
int shfs_tree_size_fd(const struct shfs_tree *tree);

/* The ids of nodes that only the kernel's lookups keep, and that were not looked up since
 * this was last asked; at most max. */
size_t shfs_tree_idle(struct shfs_tree *tree, uint64_t *ids, size_t max);

/* The node of this id, borrowed: the kernel knows it for as long as the request lasts. */
struct shfs_node *shfs_node_find(struct shfs_tree *tree, uint64_t id);

/*
 * Looks name up below parent for the kernel: the node with one more lookup, and what
 * statx(2) says. -ENOENT, -ENAMETOOLONG, ...
 */
_must_check_ int shfs_node_lookup(struct shfs_tree *tree, struct shfs_node *parent,
                                  const char *name, struct statx *stx,
                                  struct shfs_node **out);

/* Was a file, since this was asked last, found by another name than its only one that was
 * known? It was moved beneath, and the kernel may know the old name still. */
bool shfs_tree_has_moved(struct shfs_tree *tree);

/* The same of a name that the kernel has judged already, for thread tid. -ESTALE: it was
 * by another file, and this one came in its place beneath. */
_must_check_ int shfs_node_lookup_known(struct shfs_tree *tree, struct shfs_node *parent,
                                        const char *name, uint32_t tid, struct statx *stx,
                                        struct shfs_node **out);

/* The same where the file has been made or opened by now and stx is known. */
_must_check_ int shfs_node_enter(struct shfs_tree *tree, struct shfs_node *parent,
                                 const char *name, const struct statx *stx,
                                 struct shfs_node **out);

/* The same for a file without a name, made below parent: one of O_TMPFILE, open as fd
 * (which stays the caller's). Its path is that of parent, with '#' and its inode number.
 */
_must_check_ int shfs_node_enter_nameless(struct shfs_tree *tree,
                                          struct shfs_node *parent, int fd,
                                          const struct statx *stx,
                                          struct shfs_node **out);

/* A node lives as long as it has references or lookups. */
void shfs_node_ref(struct shfs_tree *tree, struct shfs_node *node);
void shfs_node_unref(struct shfs_tree *tree, struct shfs_node *node);
/* The kernel gives n lookups back. */
void shfs_node_forget(struct shfs_tree *tree, uint64_t id, uint64_t n);

/* --- reaching the file --- */

/* An O_PATH fd of it, kept open until shfs_node_fd_done. -ESTALE, -EMFILE, ... */
_must_check_ int shfs_node_fd(struct shfs_tree *tree, struct shfs_node *node);
/* The same from an fd of it (taken over), where its name is gone. */
_must_check_ int shfs_node_adopt_fd(struct shfs_tree *tree, struct shfs_node *node,
                                    int fd);
void shfs_node_fd_done(struct shfs_tree *tree, struct shfs_node *node);

/*
 * Of a suspect: is its name (the one that it is reached by) still its? If not, and nobody
 * has it open, -ESTALE: told that, the kernel looks the name up again. Else 0.
 */
_must_check_ int shfs_node_recheck(struct shfs_tree *tree, struct shfs_node *node);

/* Marks as suspect, and calls visit for, each node that a name of these is known to lead
 * to: is_changed says which (borrowed for the call). */
void shfs_tree_suspect(struct shfs_tree *tree,
                       bool (*is_changed)(uint64_t parent, const char *name, void *arg),
                       void (*visit)(const struct shfs_node *node, bool is_used,
                                     void *arg),
                       void *arg);

/* Calls visit for each node below the directory that has a watch; nothing is locked then.
 */
void shfs_tree_visit_below(struct shfs_tree *tree, const struct shfs_node *directory,
                           void (*visit)(struct shfs_node *node, void *arg), void *arg);

/* The name of an fd below /proc/self/fd, for calls that want a path. */
struct shfs_fd_name {
	char name[16];
};
struct shfs_fd_name shfs_fd_name(int fd);

/* A new fd of it, close-on-exec. flags without O_CREAT, O_TRUNC, O_NOFOLLOW. */
_must_check_ int shfs_node_open(struct shfs_tree *tree, struct shfs_node *node,
                                int flags);
_must_check_ int shfs_node_stat(struct shfs_tree *tree, struct shfs_node *node,
                                struct statx *out);

/* statx(2) with what nodes need; fd with name "" for the file itself. */
_must_check_ int shfs_node_statx(int fd, const char *name, struct statx *out);
uint64_t shfs_statx_dev(const struct statx *stx);

/* Closes cached fds that nobody uses just now; true if there were any. Then what failed
 * with -EMFILE may be tried again. */
bool shfs_tree_spare_fds(struct shfs_tree *tree);

/* --- names --- */

void shfs_tree_lock_read(struct shfs_tree *tree);
void shfs_tree_lock_write(struct shfs_tree *tree);
void shfs_tree_unlock(struct shfs_tree *tree);

/* With the tree lock held: appends the path relative to the root, with name (if not
 * NULL) below it. A file without a name has the path that it had last. */
void shfs_node_path(const struct shfs_node *node, const char *name, struct shfs_buf *out);

/* As shfs_node_path, by each name that the file is known to have, a NUL behind each. */
void shfs_node_paths(const struct shfs_node *node, struct shfs_buf *out);

/* Thread tid has looked the file up by this name of several. */
void shfs_node_found(struct shfs_tree *tree, struct shfs_node *node,
                     const struct shfs_node *parent, const char *name, uint32_t tid);

/*
 * The name that thread tid opens the file by, with a reference: it follows renames. Valid
 * as long as the node. The kernel has a file with several names looked up each time (a
 * timeout of 0); but the name that was its only one is believed for longer. So whoever
 * opens the file before that was looked up again is told -ESTALE first, for which the
 * kernel looks up the name in question: shfs_node_name_is_sure is false, once.
 */
bool shfs_node_name_is_sure(struct shfs_tree *tree, struct shfs_node *node, uint32_t tid);
/* It was told -ESTALE for another reason: the kernel tries again but once. */
void shfs_tree_told_stale(struct shfs_tree *tree, uint32_t tid);
struct shfs_name *shfs_node_name(struct shfs_tree *tree, struct shfs_node *node,
                                 uint32_t tid);
void shfs_name_unref(struct shfs_name *name);

/* With the tree lock held: appends the path of the node by this name of it, or, where
 * that is gone, by another; false: it has none any more. */
bool shfs_node_path_by(const struct shfs_node *node, const struct shfs_name *name,
                       struct shfs_buf *out);

/* Has the file no name, as far as is known? Tree lock held. */
bool shfs_node_is_nameless(const struct shfs_node *node);

/* Is this the name that the node is reached by? Tree lock held. */
bool shfs_node_is_at(const struct shfs_node *node, const struct shfs_node *parent,
                     const char *name);

/* The tree lock held for writing: this name of it has become that one; */
void shfs_node_moved(struct shfs_tree *tree, struct shfs_node *node,
                     struct shfs_node *parent, const char *name,
                     struct shfs_node *new_parent, const char *new_name);
/* it has got one more, and the kernel one more lookup; had_one: it had one name alone; */
void shfs_node_linked(struct shfs_tree *tree, struct shfs_node *node,
                      struct shfs_node *parent, const char *name, bool had_one);
/* this one is gone: another that is known takes its place. */
void shfs_node_gone(struct shfs_tree *tree, struct shfs_node *node,
                    struct shfs_node *parent, const char *name);
