/* SPDX-License-Identifier: MIT */
/*
 * leaving.h - how files left their paths, and who would not want them back.
 *
 * The lives of a name are between its leavings (it was removed, or renamed); those that
 * one command ended one after the other count as one. What counts is the last one: a lock
 * file is made and removed again and again, often with the same content, so that the
 * maker of its version says nothing about that.
 */
#pragma once

#include "query/base/model.h"

#include <sys/types.h>

/* Who did something: a command or, where it was of none, a process. */
struct shfs_doer {
	int64_t command_id, process_id;
};

struct shfs_leaving {
	bool removed, moved; /* neither: unseen */
	bool linked;         /* the file had other names then */
	bool directory;
	char *text; /* what a link said, the mode of a directory; NULL: not known */
	struct shfs_doer by;
	int64_t time_ns, seq, n; /* n: of its version then */
	/* the last one before by somebody else, when the life began that ended by this
	 * one; 0: none */
	int64_t earlier_seq, earlier_ns, earlier_n;
};

/* The last one; *out is to be cleared. 1, 0 where none was seen, or a negative errno. */
_must_check_ int shfs_leaving_load(struct shfs_index *index, int64_t file_id,
                                   struct shfs_leaving *out);
void shfs_leaving_clear(struct shfs_leaving *leaving);
#define _cleanup_leaving_ _cleanup_(shfs_leaving_clear)

enum shfs_leaving_kind {
	SHFS_LEFT_FILE,
	SHFS_LEFT_DIRECTORY,
	SHFS_LEFT_LINK,
	SHFS_LEFT_OTHER, /* a FIFO, a device */
	SHFS_LEFT_UNKNOWN,
};

/* What it was when it was removed; completes leaving->text. */
_must_check_ int shfs_leaving_kind(struct shfs_index *index, int64_t file_id,
                                   struct shfs_leaving *leaving,
                                   enum shfs_leaving_kind *out);

/* The mode of a directory when it was removed last: 1, 0 where it is not known. */
_must_check_ int shfs_leaving_mode(struct shfs_index *index, const char *path,
                                   mode_t *out);

/* Is all that the path held in its last life of who ended it: a temporary file? 1 or 0.
 */
_must_check_ int shfs_leaving_of_one(struct shfs_index *index, int64_t file_id,
                                     const struct shfs_leaving *leaving);

/* Was it removed by git on its way to another branch: does git have it? 1 or 0. */
_must_check_ int shfs_leaving_by_git(struct shfs_index *index,
                                     const struct shfs_leaving *leaving);

/* Were extended attributes set, or an access control list, in its last life? 1 or 0. */
_must_check_ int shfs_leaving_attributes(struct shfs_index *index, int64_t file_id,
                                         const struct shfs_leaving *leaving);

/* With a directory above it, it moved without an access of its own, since it was seen
 * last: 1 or 0. n: of its latest version, or 0. */
_must_check_ int shfs_leaving_moved_along(struct shfs_index *index, int64_t file_id,
                                          const char *path, int64_t n,
                                          const struct shfs_leaving *leaving);
