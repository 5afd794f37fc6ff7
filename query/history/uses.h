/* SPDX-License-Identifier: MIT */
/*
 * uses.h - what one command did to each path, summed up from its accesses.
 *
 * A name that came into being and was gone again within the command (the temporary file
 * of an editor, of sed -i) is in a list of its own; what was renamed or linked from it
 * counts as written, what lay in a directory of that kind as written where that went.
 */
#pragma once

#include "query/base/model.h"

enum shfs_use_kind {
	SHFS_USE_WROTE,   /* made_n is what it left */
	SHFS_USE_CHANGED, /* read read_n, or changed some of it; left made_n */
	SHFS_USE_RENAMED, /* from */
	SHFS_USE_LINKED,  /* from, or the text of a symbolic link */
	SHFS_USE_MADE,    /* a directory, a device */
	SHFS_USE_REMOVED, /* read_n is what it held */
	SHFS_USE_TOUCHED, /* mode, owner, times */
	SHFS_USE_READ,    /* read_n is what it saw */
	SHFS_USE_KINDS
};

struct shfs_use {
	enum shfs_use_kind kind;
	char *path, *from;
	bool directory;
	bool born;  /* was not there before */
	bool again; /* what it wrote was there before: made_n is no version of its own */
	size_t bookkeeping;              /* shfs_path_bookkeeping of path */
	int64_t read_n, made_n;          /* numbers of versions; 0: unknown */
	int64_t read_id, made_id;        /* their version_id */
	uint32_t read_flags, made_flags; /* enum shfs_content_flags */
};

/* A name that came into being and was gone again. */
struct shfs_temporary {
	char *path, *to; /* to: where it was renamed; NULL: it was removed */
	bool directory;
	int64_t n; /* the last version that it held; 0: none, or unknown */
};

struct shfs_uses {
	struct shfs_use *list; /* by kind, then in the order of first use */
	size_t n, count[SHFS_USE_KINDS];
	struct shfs_temporary *temporary; /* names left out, in the order of first use */
	size_t n_temporary;
	/* contents that limits or rules cut, and incomplete ones; of a command, where all
	 * accesses were asked for */
	int64_t n_skipped, n_incomplete;
	int64_t left_out; /* accesses that were not looked at */
};

/* Of a command, or (command_id 0) of what a process did outside of any command. max: of
 * so many accesses alone; 0: of all. */
_must_check_ int shfs_uses_load(struct shfs_index *index, int64_t command_id,
                                int64_t process_id, int64_t max, struct shfs_uses *out);
void shfs_uses_clear(struct shfs_uses *uses);

/* Is it a directory that came into being with them, or in one? */
bool shfs_uses_make_dir(const struct shfs_uses *uses, const char *dir);
#define _cleanup_uses_ _cleanup_(shfs_uses_clear)

/* "wrote", ... as shown, and in JSON. */
const char *shfs_use_word(enum shfs_use_kind kind);

/* "results.csv@3", "old.csv -> new.csv@2", ... without the letter. */
void shfs_use_show(struct shfs_buf *out, const struct shfs_use *use);
/* "sedXYZ@1 -> config.yaml" */
void shfs_temporary_show(struct shfs_buf *out, const struct shfs_temporary *temporary);

/* "2 not archived: larger than the limit", one line each, indented; unless all, without
 * what rules keep out of the directories that programs keep for themselves. */
void shfs_uses_show_cuts(struct shfs_buf *out, const struct shfs_uses *uses, bool all,
                         const char *indent);
