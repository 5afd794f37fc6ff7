/* SPDX-License-Identifier: MIT */
/* search-screen.h - the full screen of search. */
#pragma once

#include "query/base/cmd.h"
#include "query/screen/targets.h"

struct shfs_search {
	struct shfs_context *ctx;
	struct shfs_haystack *haystack;
	struct shfs_index *index;
	struct shfs_store *store;
	const char *query;          /* the initial query */
	struct shfs_filter *filter; /* the keys for scopes add to it */
	bool all;                   /* of the haystack */
	enum shfs_hay_kinds kinds;
	/* query is a shell's command line: a search for files begins with its last word,
	 * and the program cannot be stopped */
	bool is_line;
};

/* Lets the user choose. 0 and *out is the choice; or an exit code: not found if there is
 * none. The haystack may be another one afterwards. */
_must_check_ int shfs_search_choose(struct shfs_search *search, struct shfs_targets *out);
