/* SPDX-License-Identifier: MIT */
/*
 * scope.h - conditions on what a screen lists that keys switch on and off, as atuin has
 * them: where it ran, how it ended, when. They come behind those of the command line, in
 * the same filter.
 */
#pragma once

#include "query/history/filter.h"

enum shfs_scope_dial {
	SHFS_SCOPE_PLACE, /* everywhere; this host, session, project, directory */
	SHFS_SCOPE_END,   /* succeeded, failed */
	SHFS_SCOPE_AGE,   /* last hour, today, 7 days, 30 days */
	SHFS_SCOPE_DIALS,
};

struct shfs_scope {
	struct shfs_filter *filter; /* borrowed */
	size_t n_given;             /* conditions of the command line; the first ones */
	char *here, *project, *session; /* NULL: there is none */
	unsigned int
		at[SHFS_SCOPE_DIALS]; /* the position of each dial; 0: no condition */
};

/* Begins with the conditions that the filter has, which was resolved. -ENOMEM, or an
 * error of the index. */
_must_check_ int shfs_scope_begin(struct shfs_scope *scope, struct shfs_filter *filter,
                                  struct shfs_index *index);
void shfs_scope_clear(struct shfs_scope *scope);

/* Turns a dial on by one, and measures the filter: -ENOMEM, or an error of the index. */
_must_check_ int shfs_scope_turn(struct shfs_scope *scope, enum shfs_scope_dial dial,
                                 struct shfs_index *index);

/* Adds what is switched on: ", this project, failed"; and that there are other
 * conditions. */
void shfs_scope_show(const struct shfs_scope *scope, struct shfs_buf *out);
