/* SPDX-License-Identifier: MIT */
/*
 * steps.h - changes of a tree that are made all or not at all.
 *
 * 1. The steps are written into the store, durable, before the first is taken.
 * 2. Each step is noted before it is taken, and durably that the next few may be. All of
 *    them up to the commit can be taken back: no content is removed or overwritten by
 *    them but what the store has, or the step.
 * 3. What they did is made durable, then that they are committed.
 * 4. Steps behind the commit remove what is not needed any more, and set what that would
 *    change; each can be repeated.
 *
 * An error, a kill or a power cut that the next caller finds, before the commit: the
 * steps are taken back. Behind it: the rest is done. After a power cut nobody knows how
 * many of the last steps the file system has kept: a step is taken back only if the file
 * that it was about is where the step has left it. Directories are entered without
 * following links.
 */
#pragma once

#include "common/record.h"
#include "query/restore/attributes.h"

struct shfs_store;

#define SHFS_STEP_TMP ".shfs-undo-" /* names of temporary files begin with it */

enum shfs_step_kind {
	SHFS_STEP_MAKE,  /* a new file: of an object, a link that says text, or a node */
	SHFS_STEP_MKDIR, /* a new directory, only for its owner */
	SHFS_STEP_MOVE,  /* path to path2, where nothing is */
	SHFS_STEP_REPLACE,   /* path2 by the file at path; it is kept as path3 */
	SHFS_STEP_LINK,      /* path2 is a further name of path */
	SHFS_STEP_OVERWRITE, /* the content of path by object; it is old_object, or
	                      * old_value */
	SHFS_STEP_ATTRIBUTES,
	SHFS_STEP_XATTR,  /* text is its name */
	SHFS_STEP_REMOVE, /* only behind the commit, as the next */
	SHFS_STEP_RMDIR,
};

enum shfs_step_what {
	SHFS_STEP_MODE = SHFS_ATTRIBUTE_MODE,
	SHFS_STEP_OWNER = SHFS_ATTRIBUTE_OWNER,
	SHFS_STEP_TIME = SHFS_ATTRIBUTE_TIME,
	SHFS_STEP_VALUE = 1 << 3,     /* of XATTR: value is there */
	SHFS_STEP_OLD_VALUE = 1 << 4, /* likewise */
	SHFS_STEP_OBJECT = 1 << 5,    /* of MAKE, OVERWRITE; else the file is empty */
	SHFS_STEP_LIKE = 1 << 6,      /* of MAKE: attributes as those of path2 */
	SHFS_STEP_BYTES = 1 << 7,     /* likewise: the bytes are value */
	SHFS_STEP_OLD_OBJECT = 1 << 8,
	SHFS_STEP_COPY =
		1 << 9, /* of MAKE: bytes, attributes and time of the file text */
	SHFS_STEP_FROM = 1 << 10, /* likewise: the bytes of the file at path3 */
};

struct shfs_step {
	enum shfs_step_kind kind;
	uint32_t what; /* enum shfs_step_what */
	char *path, *path2, *path3, *text;
	struct shfs_object_id object, old_object;
	uint32_t mode, uid, gid, old_mode, old_uid, old_gid;
	uint64_t rdev;
	int64_t mtime_ns, old_mtime_ns;
	uint64_t ino; /* of the file that it moves, links or changes
	               * (shfs_steps_identify); 0: a step makes that */
	struct shfs_buf value, old_value;
};

struct shfs_steps {
	struct shfs_step *list;
	size_t n, cap;
	size_t commit; /* the first one behind it */
};

/* Adds a step; its strings are copied. NULL: no memory. */
struct shfs_step *shfs_steps_add(struct shfs_steps *steps, enum shfs_step_kind kind,
                                 const char *path, const char *path2, const char *path3,
                                 const char *text);
void shfs_steps_clear(struct shfs_steps *steps);
#define _cleanup_steps_ _cleanup_(shfs_steps_clear)

/* Fills in ino of the steps before the commit, none of which was taken. -ENOMEM. */
_must_check_ int shfs_steps_identify(struct shfs_steps *steps);

/* Where one process at a time notes its steps: in the store. */
struct shfs_steps_place {
	int dirfd, lock_fd;
};

/* -EADDRINUSE: another process is at work there. */
_must_check_ int shfs_steps_open(const struct shfs_store *store,
                                 struct shfs_steps_place *out);
void shfs_steps_close(struct shfs_steps_place *place);

struct shfs_steps_how {
	struct shfs_store *store;
	struct shfs_steps_place *place;
	struct shfs_buf *message; /* what went wrong */
};

/* Takes all steps, or takes back those that were taken: 0, or a negative errno. */
_must_check_ int shfs_steps_take(const struct shfs_steps_how *how,
                                 struct shfs_steps *steps);

/* Ends the work of a process that was killed: 1 it was taken back, 2 it was completed; 0:
 * there is none; or a negative errno. */
_must_check_ int shfs_steps_end_left(const struct shfs_steps_how *how);
