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
	const char *query; /* to begin with */
	enum shfs_hay_kinds kinds;
	/* query is the line of a shell: looking for files begins with its last word, and
	 * nothing stops the program */
	bool is_line;
	bool forget; /* set where what was chosen is to be forgotten; not of a line */
};

/* What was chosen, in *out: 0; or an exit code: not found, where nothing was. */
_must_check_ int shfs_search_choose(struct shfs_search *search, struct shfs_hay *out);

/* The last word of a line of a shell, as far as blanks tell. */
const char *shfs_last_word(const char *line);
