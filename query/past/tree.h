/* SPDX-License-Identifier: MIT */
/*
 * tree.h - a directory as it was at a time: what is there now, with the changes walked
 * back that are recorded since.
 *
 * Memory grows with these changes, not with the tree. What nothing is recorded of since
 * is as it is now; also before the first record, and while nothing recorded: a file that
 * was removed then is not there. Nothing is written. One thread at a time.
 *
 * Functions return 0, -ENOENT (there was nothing), -ENOTDIR, or another negative errno.
 */
#pragma once

#include "query/base/model.h"
#include "query/past/past.h"

#include <sys/stat.h>

struct shfs_tree {
	struct shfs_index *index;
	int64_t time_ns;
	char *root;
	int now_fd; /* or -1 */
	/* asked for each directory on the way to what is there now, by an O_PATH fd: 0,
	 * or the error that is returned; NULL: all are entered */
	int (*enter)(int fd);
	int64_t first_ns;                 /* since when root is recorded; 0: never */
	struct shfs_past past;            /* since time_ns */
	struct shfs_past_entry **entries; /* sorted by directory and name */
	size_t n;
	/* files with several names, some of them changed; gone from some, by number alone
	 */
	struct shfs_tree_link *links, *kept;
};

/*
 * Opens the directory at path (absolute, normal) as it was at that time. now_fd: that
 * directory as it is now (O_PATH is enough; borrowed), for one that a mount covers; -1:
 * it is found at its path. *out is {0} at first, but for enter.
 */
_must_check_ int shfs_tree_open(struct shfs_tree *out, struct shfs_index *index,
                                const char *path, int now_fd, int64_t time_ns);
void shfs_tree_close(struct shfs_tree *tree);
#define _cleanup_tree_ _cleanup_(shfs_tree_close)

/* A file, directory or link as it was then. */
struct shfs_tree_node {
	struct shfs_past_file
		*file; /* NULL: no change of it is recorded since; the same
	                * for all names of a file, as far as that is known */
	char *path;    /* then; absolute, malloc'ed */
	char *now;     /* where it is now, likewise; NULL: it is not there any more */
};

void shfs_tree_node_clear(struct shfs_tree_node *node);
#define _cleanup_tree_node_ _cleanup_(shfs_tree_node_clear)

/* Finds a path (root or below it), a name in a directory. */
_must_check_ int shfs_tree_find(const struct shfs_tree *tree, const char *path,
                                struct shfs_tree_node *out);
_must_check_ int shfs_tree_lookup(const struct shfs_tree *tree,
                                  const struct shfs_tree_node *dir, const char *name,
                                  struct shfs_tree_node *out);

/* Calls fn for each name in a directory, in no order, until it returns what is not 0,
 * which is returned. node is cleared by the caller of fn; fn may take it. */
typedef int (*shfs_tree_fn)(const char *name, struct shfs_tree_node *node, void *arg);
_must_check_ int shfs_tree_list(const struct shfs_tree *tree,
                                const struct shfs_tree_node *dir, shfs_tree_fn fn,
                                void *arg);

/* Calls fn for each name in a directory that a change is recorded of, or of something
 * below it; also where nothing was then. */
typedef int (*shfs_tree_name_fn)(const char *name, void *arg);
_must_check_ int shfs_tree_list_changed(const struct shfs_tree *tree,
                                        const struct shfs_tree_node *dir,
                                        shfs_tree_name_fn fn, void *arg);

/* Opens what is there now of a node; flags as of open(2), links are not followed.
 * -ENOENT: it is not there any more. */
_must_check_ int shfs_tree_open_now(const struct shfs_tree *tree,
                                    const struct shfs_tree_node *node, int flags,
                                    int *fd);

struct shfs_tree_status {
	/* type (0: not recorded), mode, owner, size, mtime, rdev, as they were; number,
	 * links and other times as far as it is there now */
	struct stat st;
	char *text;       /* of a link, malloc'ed; NULL: not recorded */
	uint32_t unknown; /* enum shfs_past_change: what is not recorded of it */
};

_must_check_ int shfs_tree_status(const struct shfs_tree *tree,
                                  const struct shfs_tree_node *node,
                                  struct shfs_tree_status *out);
void shfs_tree_status_clear(struct shfs_tree_status *status);
#define _cleanup_tree_status_ _cleanup_(shfs_tree_status_clear)

/* Calls fn for each extended attribute that it had. Whether all are known is in the
 * status. */
typedef int (*shfs_tree_xattr_fn)(const char *name, const void *value, size_t len,
                                  void *arg);
_must_check_ int shfs_tree_xattrs(const struct shfs_tree *tree,
                                  const struct shfs_tree_node *node,
                                  shfs_tree_xattr_fn fn, void *arg);

/* Where the bytes are that a regular file held. */
enum shfs_tree_where {
	SHFS_TREE_NOW,         /* in the file as it is now */
	SHFS_TREE_OBJECT,      /* in the store: the object of the version */
	SHFS_TREE_EMPTY,       /* there were none */
	SHFS_TREE_NOT_KEPT,    /* its version has no object */
	SHFS_TREE_NOT_RECORDED /* nothing tells which it held */
};

struct shfs_tree_content {
	enum shfs_tree_where where;
	struct shfs_version version; /* version_id 0: none is known */
	const char *why;             /* of the last two; static */
};

_must_check_ int shfs_tree_content(const struct shfs_tree *tree,
                                   const struct shfs_tree_node *node,
                                   struct shfs_tree_content *out);
static inline void shfs_tree_content_clear(struct shfs_tree_content *content)
{
	shfs_version_clear(&content->version);
}
#define _cleanup_tree_content_ _cleanup_(shfs_tree_content_clear)
