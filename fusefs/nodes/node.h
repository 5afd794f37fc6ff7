/* SPDX-License-Identifier: MIT */
/*
 * node.h - nodes: the files that the kernel knows, and how each lower file is reached.
 *
 * A node stands for one file of the lower tree, identified by (dev, ino). Its id is made
 * only from these, so another process that serves the same tree gives the same ids: on
 * the root's device the inode number, on others a hash with the top bit set and not the
 * next one; 1 is the root. generation comes from the time of birth, so a reused inode
 * number is another file.
 *
 * A node has the last names (parent and text) by which its file was found, and the file
 * is reached by the one found last. O_PATH fds are kept in a bounded cache; a file that
 * loses its names while it has a node keeps its fd as long as that (it is pinned). A file
 * that was reached is checked by dev, ino and generation; another file there gives
 * -ESTALE.
 *
 * Locks: the tree lock guards the names of all nodes. An operation that changes lower
 * names holds it for writing around the call and the change here. Journal records with a
 * path are emitted under it, so the order of records is the order of changes. All
 * functions are thread-safe; those that need the tree lock held say so.
 */
#pragma once

#include "common/buf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#define SHFS_NODE_ROOT 1
/* Ids with all of these bits are of no node: operations/invented.h. */
#define SHFS_NODE_INVENTED (UINT64_C(3) << 62)

struct shfs_name;
struct shfs_tree;

struct shfs_node {
	uint64_t id;
	uint64_t dev, ino;
	mode_t type;           /* S_IFMT bits */
	uint32_t generation;   /* 0: the file system has no time of birth */
	bool hidden;           /* in the store: not recorded */
	atomic_bool incapable; /* we have made it, and it was given no capabilities */
	atomic_bool suspect;   /* its lower name may lead to another file by now */
	atomic_bool lasting;   /* a change of it by others would be noticed */
	atomic_bool moving;    /* of watch.c: may be stored to, unseen by the kernel */
	atomic_uint lent;      /* of shfs_node_turn_lent; odd: its mode is not its own */
	atomic_int watched;    /* of beneath.c, for a directory */
	_Atomic int64_t listed_ns; /* of dir.c: ctime when it was last opened */
	void *_Atomic watch;       /* of watch.h; NULL until it is needed */
};

/*
 * Makes the tree. root_fd (O_PATH) and proc_fd (of /proc/self/fd) are borrowed. max_fds
 * bounds the cache. drop frees the watch of a node that is freed.
 */
_must_check_ int shfs_tree_new(int root_fd, int proc_fd, size_t max_fds,
                               void (*drop)(void *watch), struct shfs_tree **out);
/* Frees the tree, which no other thread may use any more. NULL is fine. */
void shfs_tree_free(struct shfs_tree *tree);

/* Keeps from now on in heir (borrowed) what a successor must know after our death.
 * is_taken: what the heir has of a dead server becomes nodes. */
struct shfs_heir;
_must_check_ int shfs_tree_inherit(struct shfs_tree *tree, struct shfs_heir *heir,
                                   bool is_taken);
/* Gives the node an fd that the dead server had opened; it is reached by that if its name
 * is gone. False: the fd is of another file. */
bool shfs_node_resume(struct shfs_tree *tree, struct shfs_node *node, int fd);
/* Count an open and a close. An open file has a reference, and a place. */
void shfs_node_opened(struct shfs_tree *tree, struct shfs_node *node);
void shfs_node_closed(struct shfs_tree *tree, struct shfs_node *node);
/* Called before and after a rename, with the tree lock held for writing; node may be
 * NULL.
 */
void shfs_node_moving(struct shfs_tree *tree, struct shfs_node *node,
                      const struct shfs_node *new_parent, const char *new_name);
void shfs_node_moving_done(struct shfs_tree *tree);

/* Hides this directory, and nodes that are made below it from now on. */
void shfs_tree_hide(struct shfs_tree *tree, uint64_t dev, uint64_t ino);

struct shfs_node *shfs_tree_root(struct shfs_tree *tree);

/* Return the number of nodes, without the root; and an eventfd that is written to each
 * time the number passes a multiple of SHFS_TREE_STEP. */
#define SHFS_TREE_STEP 1024
size_t shfs_tree_size(struct shfs_tree *tree);
int shfs_tree_size_fd(const struct shfs_tree *tree);

/* Gets up to max ids of nodes that only the kernel's lookups keep, and that were not
 * looked up since the last call. */
size_t shfs_tree_idle(struct shfs_tree *tree, uint64_t *ids, size_t max);

/* Finds the node of this id, borrowed: the kernel keeps it as long as the request lasts.
 */
struct shfs_node *shfs_node_find(struct shfs_tree *tree, uint64_t id);

/* Calls shfs_node_statx of a name in the directory. */
_must_check_ int shfs_node_stat_child(struct shfs_tree *tree, struct shfs_node *parent,
                                      const char *name, struct statx *stx);

/*
 * Looks name up below parent for the kernel: gets the node with one more lookup, and its
 * statx(2). -ENOENT, -ENAMETOOLONG, ...
 */
_must_check_ int shfs_node_lookup(struct shfs_tree *tree, struct shfs_node *parent,
                                  const char *name, struct statx *stx,
                                  struct shfs_node **out);

/* Was a file found, since the last call, by another name than its only recorded one? It
 * was moved in the lower file system, and the kernel may still have the old name. */
bool shfs_tree_has_moved(struct shfs_tree *tree);

/* Looks up a name whose file the kernel has checked already, for thread tid. -ESTALE: it
 * checked another file, which this one has replaced in the lower file system. */
_must_check_ int shfs_node_lookup_known(struct shfs_tree *tree, struct shfs_node *parent,
                                        const char *name, uint32_t tid, struct statx *stx,
                                        struct shfs_node **out);

/* Gets the node, with one more lookup, of a file that was made or opened; stx is given.
 */
_must_check_ int shfs_node_enter(struct shfs_tree *tree, struct shfs_node *parent,
                                 const char *name, const struct statx *stx,
                                 struct shfs_node **out);

/* Gets the node, with one more lookup, of a file without a name, made below parent by
 * O_TMPFILE, and open as fd (borrowed). Its path is that of parent, with '#' and its
 * inode number. */
_must_check_ int shfs_node_enter_nameless(struct shfs_tree *tree,
                                          struct shfs_node *parent, int fd,
                                          const struct statx *stx,
                                          struct shfs_node **out);

/* Add and drop a reference. A node lives as long as it has references or lookups. */
void shfs_node_ref(struct shfs_tree *tree, struct shfs_node *node);
void shfs_node_unref(struct shfs_tree *tree, struct shfs_node *node);
/* The kernel gives n lookups back. */
void shfs_node_forget(struct shfs_tree *tree, uint64_t id, uint64_t n);

/* --- reaching the file --- */

/* Gets an O_PATH fd of the node, open until shfs_node_fd_done. -ESTALE, -EMFILE, ... */
_must_check_ int shfs_node_fd(struct shfs_tree *tree, struct shfs_node *node);
/* Gets an O_PATH fd made from an fd of the node, whose name is gone. Takes ownership of
 * fd.
 */
_must_check_ int shfs_node_adopt_fd(struct shfs_tree *tree, struct shfs_node *node,
                                    int fd);
void shfs_node_fd_done(struct shfs_tree *tree, struct shfs_node *node);

/*
 * Checks whether the name by which a suspect node is reached still leads to it. -ESTALE:
 * it does not, and the file is not open: told that, the kernel looks the name up again.
 * Else 0.
 */
_must_check_ int shfs_node_recheck(struct shfs_tree *tree, struct shfs_node *node);

/* Marks each node as suspect, and calls visit for it, that has a name for which
 * is_changed returns true. is_left: the file can be reached without that name: it is
 * open, or may have another one. */
void shfs_tree_suspect(struct shfs_tree *tree,
                       bool (*is_changed)(uint64_t parent, const char *name, void *arg),
                       void (*visit)(const struct shfs_node *node, bool is_left,
                                     void *arg),
                       void *arg);

/* Calls visit, without locks, for each node below the directory that has a watch. */
void shfs_tree_visit_below(struct shfs_tree *tree, const struct shfs_node *directory,
                           void (*visit)(struct shfs_node *node, void *arg), void *arg);

/* The name of an fd below /proc/self/fd, for system calls that need a path. */
struct shfs_fd_name {
	char name[16];
};
struct shfs_fd_name shfs_fd_name(int fd);

/* Opens the node's file: a new fd, close-on-exec. flags without O_CREAT, O_TRUNC,
 * O_NOFOLLOW. */
_must_check_ int shfs_node_open(struct shfs_tree *tree, struct shfs_node *node,
                                int flags);
/* Waits a moment while the file has a lent mode. */
_must_check_ int shfs_node_stat(struct shfs_tree *tree, struct shfs_node *node,
                                struct statx *out);

/* Begins a moment in which the file has another mode than its own, which nobody is to
 * see; the next call ends it. One thread at a time for a file. */
void shfs_node_turn_lent(struct shfs_node *node);

/* Calls statx(2) with the fields that nodes need; name "": of fd itself. */
_must_check_ int shfs_node_statx(int fd, const char *name, struct statx *out);
uint64_t shfs_statx_dev(const struct statx *stx);

/* Closes cached fds that are not in use. True: there were some, so a call that failed
 * with -EMFILE may be tried again. */
bool shfs_tree_spare_fds(struct shfs_tree *tree);

/* --- names --- */

void shfs_tree_lock_read(struct shfs_tree *tree);
void shfs_tree_lock_write(struct shfs_tree *tree);
void shfs_tree_unlock(struct shfs_tree *tree);

/* Tree lock held. Appends the path relative to the root, with name (if not NULL) below
 * it. A file without a name has its last path. */
void shfs_node_path(const struct shfs_node *node, const char *name, struct shfs_buf *out);

/* Tree lock held. Appends the path of each remembered name of the file, each with a NUL.
 */
void shfs_node_paths(const struct shfs_node *node, struct shfs_buf *out);

/* Notes that thread tid has looked the file up by this one of its names. */
void shfs_node_found(struct shfs_tree *tree, struct shfs_node *node,
                     const struct shfs_node *parent, const char *name, uint32_t tid);

/*
 * shfs_node_name returns the name by which thread tid opens the file, with a reference;
 * it follows renames, and is valid as long as the node. For a file with several names:
 *
 * 1. While the file had one name, the kernel was allowed to cache that for long.
 * 2. The file gets a second name. The kernel looks up files with several names each time
 * (a timeout of 0), but still has the first name cached.
 * 3. A thread opens the file, by the first name or the second: we cannot know.
 * 4. shfs_node_name_is_sure is false, once: the thread is told -ESTALE, for which the
 *    kernel looks up the name that it uses.
 */
bool shfs_node_name_is_sure(struct shfs_tree *tree, struct shfs_node *node, uint32_t tid);
/* Notes that the thread was told -ESTALE for another reason: the kernel tries again only
 * once. */
void shfs_tree_told_stale(struct shfs_tree *tree, uint32_t tid);
struct shfs_name *shfs_node_name(struct shfs_tree *tree, struct shfs_node *node,
                                 uint32_t tid);
void shfs_name_unref(struct shfs_name *name);

/* Tree lock held. Appends the path of the node by this name, or if that is gone by
 * another one; false: it has none any more. */
bool shfs_node_path_by(const struct shfs_node *node, const struct shfs_name *name,
                       struct shfs_buf *out);

/* Tree lock held. Has the file no name, as far as is known? */
bool shfs_node_is_nameless(const struct shfs_node *node);

/* Tree lock held. Is this the name by which the node is reached? */
bool shfs_node_is_at(const struct shfs_node *node, const struct shfs_node *parent,
                     const char *name);

/* Tree lock held for writing. Notes that a name of the file was renamed. */
void shfs_node_moved(struct shfs_tree *tree, struct shfs_node *node,
                     struct shfs_node *parent, const char *name,
                     struct shfs_node *new_parent, const char *new_name);
/* Tree lock held for writing. Notes a further name of the file, with one more lookup.
 * had_one: the file had only one name. */
void shfs_node_linked(struct shfs_tree *tree, struct shfs_node *node,
                      struct shfs_node *parent, const char *name, bool had_one);
/* Tree lock held for writing. Notes that this name is gone: the file is then reached by
 * another remembered one. */
void shfs_node_gone(struct shfs_tree *tree, struct shfs_node *node,
                    struct shfs_node *parent, const char *name);
