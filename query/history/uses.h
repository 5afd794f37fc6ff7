/* SPDX-License-Identifier: MIT */
/*
 * uses.h - what one command did to each path, summed up from its accesses.
 *
 * Temporary names, which the command made and removed or renamed (of an editor, of sed
 * -i), are in a list of their own. A file that was renamed or linked from such a name
 * counts as written; so does a file in such a directory, at the place where that went.
 */
#pragma once

#include "query/base/model.h"

enum shfs_use_kind {
	SHFS_USE_WROTE,   /* left made_n */
	SHFS_USE_CHANGED, /* read read_n, or changed parts of it; left made_n */
	SHFS_USE_RENAMED, /* from */
	SHFS_USE_LINKED,  /* from, or the text of a symbolic link */
	SHFS_USE_MADE,    /* a directory, a device */
	SHFS_USE_REMOVED, /* had read_n */
	SHFS_USE_TOUCHED, /* mode, owner, times */
	SHFS_USE_READ,    /* saw read_n */
	SHFS_USE_KINDS
};

struct shfs_use {
	enum shfs_use_kind kind;
	char *path, *from;
	bool directory;
	bool born;  /* did not exist before */
	bool named; /* outside of the recorded directory, or a link (SHFS_ACCESS_NAMED) */
	bool again; /* it wrote the same content again: made_n is no version of its own */
	size_t bookkeeping;       /* shfs_path_bookkeeping of path */
	int64_t read_n, made_n;   /* numbers of versions; 0: unknown */
	int64_t read_id, made_id; /* their version_id */
	int64_t read_ns, left_ns; /* when it first read it; last wrote or removed it */
	uint32_t read_flags, made_flags; /* enum shfs_content_flags */
};

/* A temporary name: the command made it, and removed or renamed it. */
struct shfs_temporary {
	char *path, *to; /* to: the new name; NULL: it was removed */
	bool directory;
	int64_t n; /* its last version; 0: none, or unknown */
};

struct shfs_uses {
	/* By kind, then in the order of first use; of an entry (entry.h), what was read
	 * below its directory comes first. */
	struct shfs_use *list;
	size_t n, count[SHFS_USE_KINDS];
	struct shfs_temporary *temporary; /* in the order of first use */
	size_t n_temporary;
	/* contents that limits or rules left out, and incomplete ones; for a command, if
	 * all accesses were read */
	int64_t n_skipped, n_incomplete;
	int64_t left_out; /* accesses that were not read */
};

/* Sums up a command, or (command_id 0) the accesses of a process outside of any command.
 * max: number of accesses to read; 0: all. */
_must_check_ int shfs_uses_load(struct shfs_index *index, int64_t command_id,
                                int64_t process_id, int64_t max, struct shfs_uses *out);
void shfs_uses_clear(struct shfs_uses *uses);

/* Did they make this directory, or one above it? */
bool shfs_uses_make_dir(const struct shfs_uses *uses, const char *dir);
#define _cleanup_uses_ _cleanup_(shfs_uses_clear)

/* "wrote", ... as shown, and in JSON. */
const char *shfs_use_word(enum shfs_use_kind kind);

/* Adds "results.csv@3", "old.csv -> new.csv@2", ... without the word. */
void shfs_use_show(struct shfs_buf *out, const struct shfs_use *use);
/* "sedXYZ@1 -> config.yaml" */
void shfs_temporary_show(struct shfs_buf *out, const struct shfs_temporary *temporary);

/* Adds "2 not archived: larger than the limit", one line each, indented. Unless all,
 * contents that rules leave out in bookkeeping directories are not counted. */
void shfs_uses_show_cuts(struct shfs_buf *out, const struct shfs_uses *uses, bool all,
                         const char *indent);
