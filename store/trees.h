/* SPDX-License-Identifier: MIT */
/*
 * trees.h - which records came from another machine.
 *
 * A tree is what one machine sees as its files. What a store recorded itself is of one
 * tree, wherever the store was moved to since, and on whichever hosts its home is
 * mounted. An import brings the records of other trees: in the index, each absolute path
 * of theirs begins with the name of the tree, "hostb:/home/ben/p/x", so that nothing of
 * another machine is taken for a file of this one.
 *
 * The file "trees" in the store has it, in lines of words:
 *
 *     store STORE                   the id of the store, 16 hex digits, made at random
 *     tree NAME STORE MACHINE HOST HOME
 *                                   a tree: what it is called here, its identity, and the
 *                                   home directory of its user
 *     boot HOST BOOT NAME           what that boot of that host (maybe only its first 8
 *                                   digits) recorded is of the tree
 *     here NAME                     this machine has taken the place of that one
 *     map NAME FROM TO              the tree's directory FROM is the project TO here
 *
 * Bytes that are no part of a word are written as %20. A store of an earlier version has
 * no such file: what another host recorded is of a tree with its name, and the first
 * ingest writes that down.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>

struct shfs_store;
struct shfs_trees;

#define SHFS_TREE_NAME_MAX 80

/* The identity of a tree. Two are the same if the stores are: a store may have been
 * moved, or hosts may share it. They are also the same if both the machines and the hosts
 * are: the host is asked too, as containers share a machine. "-": unknown. */
struct shfs_tree_identity {
	char store[17],
		machine[17]; /* 16 hex digits; the latter made of the machine-id */
	char host[65];
	char *home; /* absolute; "": unknown */
};
void shfs_tree_identity_clear(struct shfs_tree_identity *id);

/* Reads the trees of a store. -EBADMSG: the file is damaged. */
_must_check_ int shfs_trees_load(struct shfs_store *store, struct shfs_trees **out);
void shfs_trees_free(struct shfs_trees *trees);
static inline void shfs_trees_freep(struct shfs_trees **trees)
{
	shfs_trees_free(*trees);
}
#define _cleanup_trees_ _cleanup_(shfs_trees_freep)

/* Writes them, durably. One process at a time (shfs_import_new), but for settle, which
 * writes them only if the store has no such file yet. -EFBIG: there are too many. */
_must_check_ int shfs_trees_save(struct shfs_store *store, struct shfs_trees *trees);
_must_check_ int shfs_trees_settle(struct shfs_store *store, struct shfs_trees *trees);
/* Gets the identity of this machine's tree. The caller clears it. -ENOMEM. */
_must_check_ int shfs_trees_here(const struct shfs_trees *trees,
                                 struct shfs_tree_identity *out);
/* Writes a damaged file anew, without the lines that cannot be read. */
_must_check_ int shfs_trees_mend(struct shfs_store *store);
/* Makes the file of a new store. */
_must_check_ int shfs_trees_init(int store_dirfd);

/* The name of the tree that a boot of a host (a directory of the journal) recorded;
 * NULL: this one. */
const char *shfs_trees_of_boot(const struct shfs_trees *trees, struct shfs_bytes host,
                               struct shfs_bytes boot);
/* The same for a file of the journal, whose name has the first digits of the boot. */
const char *shfs_trees_of_file(const struct shfs_trees *trees, const char *host,
                               const char *name);
/* Sets out to the index's path for an absolute path in the tree of that name (NULL or "":
 * this one). */
void shfs_tree_path(struct shfs_buf *out, const char *tree, struct shfs_bytes path);
/* The home directory in the tree of that name; "": unknown; NULL: there is no such tree.
 */
const char *shfs_trees_home(const struct shfs_trees *trees, const char *name, size_t len);
/* Finds the tree with that identity, or adds it with a name of its own. *name is
 * borrowed; NULL: it is this one. -ENOMEM. */
_must_check_ int shfs_trees_add(struct shfs_trees *trees,
                                const struct shfs_tree_identity *id, const char **name);
/* Notes that a boot is of the tree. -ENOMEM. */
_must_check_ int shfs_trees_add_boot(struct shfs_trees *trees, const char *host,
                                     const char *boot, const char *name);
/* Notes that the tree's directory `from` is the project `to` here, or not any more; both
 * are absolute. "/" and "/": that this machine has taken the place of the tree's.
 * -ENOENT: there is no such tree, or no such map. */
_must_check_ int shfs_trees_map(struct shfs_trees *trees, const char *name,
                                const char *from, const char *to);
_must_check_ int shfs_trees_unmap(struct shfs_trees *trees, const char *name,
                                  const char *from, const char *to);

/* The path of another tree that a path here stands for by the i-th map that has one,
 * malloc'ed; NULL: there is none (errno 0), or no memory. */
char *shfs_trees_mapped(const struct shfs_trees *trees, const char *path, size_t i);

/* --- in an archive --- */

/* Prints the trees of the boots for which wanted returns true, for another store: without
 * maps, and with a line "from STORE MACHINE HOST HOME", which says whose archive it is.
 */
_must_check_ int shfs_trees_print(const struct shfs_trees *trees,
                                  bool (*wanted)(const char *host, const char *boot,
                                                 void *arg),
                                  void *arg, struct shfs_buf *out);
/* Reads what shfs_trees_print wrote. -EBADMSG: damaged. */
_must_check_ int shfs_trees_parse(const char *text, size_t len, struct shfs_trees **out);
/* Which tree a boot of a host is of, in an archive; borrowed. NULL: the list has no such
 * tree. */
const struct shfs_tree_identity *shfs_trees_identity(const struct shfs_trees *trees,
                                                     struct shfs_bytes host,
                                                     struct shfs_bytes boot);
