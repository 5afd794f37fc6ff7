/* SPDX-License-Identifier: MIT */
/*
 * browse.h - what shfs-browse shows: which file lies at a path of its file system, and
 * what a directory holds. Nothing of this is kept from one request to the next but what
 * is dear to make (commands.c, at.c), and that only as long as the index is the same.
 *
 *     at/TIME/PATH                               the project as it was
 *     commands/ID/text
 *     commands/ID/{before,after,read,wrote}/PATH
 *     versions/PATH/N
 *
 * One thread at a time.
 */
#pragma once

#include "browse/contents.h"
#include "browse/nodes.h"
#include "query/base/model.h"
#include "query/care/refresh.h"

#include <sys/stat.h>

#define SHFS_BROWSE_SUBTYPE "shfs-browse" /* in the table of mounts */

struct shfs_browse {
	struct shfs_store *store;
	struct shfs_index *index;
	char *root; /* of the project: absolute, normal; it need not exist */
	int64_t since_ns;
	uid_t uid;
	gid_t gid;
	struct shfs_refresher refresher;
	struct shfs_nodes nodes;
	struct shfs_contents contents;
	struct shfs_index_state state; /* of the index, when it was last looked at */
	uint64_t generation;           /* raised when that changes */
	void (*on_rebuilt)(void);      /* what the kernel keeps may have been forgotten */
	struct shfs_file_set *sets;    /* of commands.c */
	struct shfs_at_tree *at_trees; /* of at.c */
};

/* Where the bytes of a regular file are. */
enum shfs_place_where {
	SHFS_PLACE_NOWHERE, /* they are not kept: error says how open fails, why the
	                     * reason */
	SHFS_PLACE_TEXT,
	SHFS_PLACE_OBJECT,
	SHFS_PLACE_NOW, /* in the project's file as it is now */
};

/* A file or directory that a path of the file system leads to. */
struct shfs_place {
	struct stat st;
	enum shfs_place_where where;
	char *text; /* of a link, or of a file that is made here */
	size_t text_len;
	struct shfs_object_id object;
	int error;
	const char *why;             /* static */
	struct shfs_version version; /* version_id 0: none */
	bool flawed;                 /* the version is incomplete */
};

void shfs_place_clear(struct shfs_place *place);
#define _cleanup_place_ _cleanup_(shfs_place_clear)

/* The names in a directory: for each a type (as of struct dirent), the name, a NUL. */
struct shfs_names {
	struct shfs_buf list;
};

void shfs_names_add(struct shfs_names *names, unsigned char type, const char *name);

typedef int (*shfs_xattr_fn)(const char *name, const void *value, size_t len, void *arg);

/*
 * One of the directories at the top. A rest is the path in it: "" for itself, no slash at
 * the ends. All return 0, -ENOENT or another negative errno; out-parameters are empty at
 * first, and cleared by the caller whatever is returned.
 */
struct shfs_view {
	const char *name;
	int (*find)(struct shfs_browse *browse, const char *rest, struct shfs_place *out);
	int (*list)(struct shfs_browse *browse, const char *rest, struct shfs_names *out);
	/* of a place that is NOW: opens it; its own extended attributes. NULL: there are
	 * none such */
	int (*open_now)(struct shfs_browse *browse, const char *rest, int *fd);
	int (*xattrs)(struct shfs_browse *browse, const char *rest, shfs_xattr_fn fn,
	              void *arg);
};

extern const struct shfs_view shfs_view_at, shfs_view_commands, shfs_view_versions;

/* Finds and lists by a path, "" for the root of the file system. */
_must_check_ int shfs_browse_find(struct shfs_browse *browse, const char *path,
                                  struct shfs_place *out);
_must_check_ int shfs_browse_list(struct shfs_browse *browse, const char *path,
                                  struct shfs_names *out);
_must_check_ int shfs_browse_open_now(struct shfs_browse *browse, const char *path,
                                      int *fd);
_must_check_ int shfs_browse_xattrs(struct shfs_browse *browse, const char *path,
                                    shfs_xattr_fn fn, void *arg);

/* Looks whether the index has changed: then what was made of it is not used again. */
_must_check_ int shfs_browse_look(struct shfs_browse *browse);
/* Has what is new taken into the index first, where that was not done a moment ago. */
_must_check_ int shfs_browse_freshen(struct shfs_browse *browse);

/* --- for the views --- */

/* Make the place of a directory that is not of the project, of a text (taken, maybe
 * NULL), and of a version (taken). */
void shfs_place_directory(const struct shfs_browse *browse, int64_t mtime_ns,
                          struct shfs_place *out);
_must_check_ int shfs_place_text(const struct shfs_browse *browse, mode_t type,
                                 char *text, size_t len, int64_t mtime_ns,
                                 struct shfs_place *out);
void shfs_place_version(const struct shfs_browse *browse, struct shfs_version *version,
                        struct shfs_place *out);
/* Says where the bytes of place->version are. */
void shfs_place_archived(struct shfs_place *place);

/* Each drops what its view keeps: call them when the index has changed. */
void shfs_commands_drop(struct shfs_browse *browse);
void shfs_at_drop(struct shfs_browse *browse);

/* The moment that a rest of shfs_view_at is of. */
_must_check_ int shfs_at_time(const char *rest, int64_t *ns);
