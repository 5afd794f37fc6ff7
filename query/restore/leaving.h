/* SPDX-License-Identifier: MIT */
/*
 * leaving.h - how files left their paths, and whether the user may want them back.
 *
 * A life of a name ends when it is removed or renamed; consecutive lives that one command
 * ended count as one. Only the last life counts: a lock file is made and removed again
 * and again, often with the same content, so the maker of its version proves nothing
 * about its last removal.
 */
#pragma once

#include "query/base/model.h"

#include <sys/types.h>

/* A command or, if it belongs to none, a process. */
struct shfs_doer {
	int64_t command_id, process_id;
};

struct shfs_leaving {
	bool removed, moved; /* neither: not seen */
	bool linked;         /* the file had other names then */
	bool directory;
	char *text; /* target of a link, mode of a directory; NULL: unknown */
	struct shfs_former former; /* what it was, as far as that is recorded */
	char *data;                /* owns the texts of former */
	struct shfs_doer by;
	int64_t time_ns, seq, n; /* n: its version at that time */
	/* the last leaving before it by another doer, where this life began; 0: none */
	int64_t earlier_seq, earlier_ns, earlier_n;
};

/* Loads the last leaving; the caller clears *out. 1; 0: none was seen, or it came back
 * since; or a negative errno. */
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

/* Finds the kind of the removed file; completes leaving->text. */
_must_check_ int shfs_leaving_kind(struct shfs_index *index, int64_t file_id,
                                   struct shfs_leaving *leaving,
                                   enum shfs_leaving_kind *out);

/* The mode of a directory at its last removal: 1; 0: unknown. */
_must_check_ int shfs_leaving_mode(struct shfs_index *index, const char *path,
                                   mode_t *out);

/* Did the doer that ended the path's last life also make all its contents: is it a
 * temporary file? 1 or 0. */
_must_check_ int shfs_leaving_of_one(struct shfs_index *index, int64_t file_id,
                                     const struct shfs_leaving *leaving);

/* Did git remove it when it changed to another branch, so that git has it? 1 or 0. */
_must_check_ int shfs_leaving_by_git(struct shfs_index *index,
                                     const struct shfs_leaving *leaving);

/* Were extended attributes or an access control list set in its last life? 1 or 0. */
_must_check_ int shfs_leaving_attributes(struct shfs_index *index, int64_t file_id,
                                         const struct shfs_leaving *leaving);

/* Did it move with a directory above it, without an access of its own, since it was last
 * seen? 1 or 0. n: its latest version, or 0. */
_must_check_ int shfs_leaving_moved_along(struct shfs_index *index, int64_t file_id,
                                          const char *path, int64_t n,
                                          const struct shfs_leaving *leaving);
