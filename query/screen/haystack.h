/* SPDX-License-Identifier: MIT */
/*
 * haystack.h - the texts of all commands and the names of all files, in memory, to be
 * searched at each key; with their notes behind a "#" (query/history/notes.h).
 *
 * A text that was run several times is there once, with its last run. Loading goes in
 * slices, so that keys need not wait for it.
 */
#pragma once

#include "query/history/filter.h"
#include "query/screen/fuzzy.h"
#include "store/index/index.h"

enum shfs_hay_kinds {
	SHFS_HAY_COMMANDS = 1,
	SHFS_HAY_FILES = 2,
};

struct shfs_hay {
	int64_t id;      /* of the command's last run, or of the file */
	int64_t time_ns; /* of its begin, or of its last change */
	uint64_t mask;
	size_t text;    /* offset in the buffer of texts */
	uint32_t times; /* number of runs; or of the latest version */
	uint16_t len;
	bool is_file;
	bool is_bad;     /* it failed; or the file does not exist any more */
	bool below_home; /* text is the part after "~/" */
};

struct shfs_haystack;

/* all: also bookkeeping of programs (.git), and temporary files. filter: only commands
 * that meet it, and files that those (and processes of no command) used; it is measured,
 * and borrowed until the haystack is loaded. -ENOMEM, or an error of the index. */
_must_check_ int shfs_haystack_open(struct shfs_index *index, enum shfs_hay_kinds kinds,
                                    bool all, const struct shfs_filter *filter,
                                    struct shfs_haystack **out);
void shfs_haystack_close(struct shfs_haystack *h);
static inline void shfs_haystack_closep(struct shfs_haystack **h)
{
	shfs_haystack_close(*h);
}
#define _cleanup_haystack_ _cleanup_(shfs_haystack_closep)

/* Loads for about budget_ns; 0: everything. 1: there is more; 0: done; or a negative
 * errno. */
_must_check_ int shfs_haystack_load(struct shfs_haystack *h, int64_t budget_ns);

/* Searches what is loaded: afterwards the best match is at 0, and the newest comes first
 * among equals. -ENOMEM. */
_must_check_ int shfs_haystack_search(struct shfs_haystack *h, const char *query,
                                      enum shfs_hay_kinds kinds);

size_t shfs_haystack_loaded(const struct shfs_haystack *h);
size_t shfs_haystack_found(const struct shfs_haystack *h);
/* A match; valid until the next load. */
const struct shfs_hay *shfs_haystack_at(const struct shfs_haystack *h, size_t rank,
                                        int *score);
/* Its text, of hay->len bytes: cut if it is very long; a name is relative to the working
 * directory or to the home. */
const char *shfs_haystack_text(const struct shfs_haystack *h, const struct shfs_hay *hay);
/* Marks the bytes that match the query; marked has hay->len. */
void shfs_haystack_mark(const struct shfs_haystack *h, const struct shfs_hay *hay,
                        bool *marked);
