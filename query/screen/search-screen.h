/* SPDX-License-Identifier: MIT */
/* search-screen.h - the full screen of search. */
#pragma once

#include "query/base/cmd.h"
#include "query/screen/haystack.h"

struct shfs_search {
	struct shfs_context *ctx;
	struct shfs_haystack *haystack;
	struct shfs_index *index;
	struct shfs_store *store;
	const char *query; /* the initial query */
	enum shfs_hay_kinds kinds;
	/* query is a shell's command line: a search for files begins with its last word,
	 * and the program cannot be stopped */
	bool is_line;
	bool forget; /* set if the chosen entry is to be forgotten; not with is_line */
};

/* Lets the user choose. 0 and *out is the choice; or an exit code: not found if there is
 * none. */
_must_check_ int shfs_search_choose(struct shfs_search *search, struct shfs_hay *out);

/* The last word of a shell's command line, split at blanks. */
const char *shfs_last_word(const char *line);
