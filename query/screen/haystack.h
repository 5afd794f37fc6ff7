/* SPDX-License-Identifier: MIT */
/*
 * haystack.h - the texts of all commands and the names of all files, held in memory to be
 * searched at each key that is typed.
 *
 * A text that was run several times is there once, as it was run last. It is loaded in
 * slices, so that who waits for keys need not wait for it.
 */
#pragma once

#include "query/screen/fuzzy.h"
#include "store/index/index.h"

enum shfs_hay_kinds {
	SHFS_HAY_COMMANDS = 1,
	SHFS_HAY_FILES = 2,
};

struct shfs_hay {
	int64_t id;      /* of the command (its last run), or of the file */
	int64_t time_ns; /* of its begin, or of its last change */
	uint64_t mask;
	size_t text;    /* where it begins among all texts */
	uint32_t times; /* that it was run; the number of its latest version */
	uint16_t len;
	bool is_file;
	bool is_bad;     /* it failed; the file is not there any more */
	bool below_home; /* text is what stands behind "~/" */
};

struct shfs_haystack;

/* all: also files that programs keep for themselves (.git), or had for a moment. -ENOMEM,
 * or of the index. */
_must_check_ int shfs_haystack_open(struct shfs_index *index, enum shfs_hay_kinds kinds,
                                    bool all, struct shfs_haystack **out);
void shfs_haystack_close(struct shfs_haystack *h);
static inline void shfs_haystack_closep(struct shfs_haystack **h)
{
	shfs_haystack_close(*h);
}
#define _cleanup_haystack_ _cleanup_(shfs_haystack_closep)

/* Loads for about so long; 0: all. 1: there is more; 0: that is all; or a negative errno.
 */
_must_check_ int shfs_haystack_load(struct shfs_haystack *h, int64_t budget_ns);

/* Looks through what is loaded: afterwards the best is at 0, and of what is equally good,
 * the newest. -ENOMEM. */
_must_check_ int shfs_haystack_search(struct shfs_haystack *h, const char *query,
                                      enum shfs_hay_kinds kinds);

size_t shfs_haystack_loaded(const struct shfs_haystack *h);
size_t shfs_haystack_found(const struct shfs_haystack *h);
/* Of what was found; valid until the next load. */
const struct shfs_hay *shfs_haystack_at(const struct shfs_haystack *h, size_t rank,
                                        int *score);
/* Its text, of hay->len bytes: cut where it is very long, a name relative to the working
 * directory or to the home. */
const char *shfs_haystack_text(const struct shfs_haystack *h, const struct shfs_hay *hay);
/* Which bytes of it were meant by the query; marked has hay->len. */
void shfs_haystack_mark(const struct shfs_haystack *h, const struct shfs_hay *hay,
                        bool *marked);
