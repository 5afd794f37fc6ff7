/* SPDX-License-Identifier: MIT */
/*
 * deviations.h - what commands that are run again in a scratch copy shall have otherwise
 * than then: another file, variable, or word. What would the result be?
 */
#pragma once

#include "query/base/model.h"

#include <regex.h>

struct shfs_deviations {
	struct shfs_replaced {
		char *path, *other; /* absolute: the file, and the one in its place */
	} * files;
	size_t n_files;
	struct shfs_edit {
		regex_t pattern;
		char *text; /* in the place of what matches */
		bool all;   /* not only of the first match of a command */
	} * edits;
	size_t n_edits;
	bool environment; /* a variable: each command may come out otherwise */
};
void shfs_deviations_clear(struct shfs_deviations *deviations);

static inline bool shfs_deviations_any(const struct shfs_deviations *d)
{
	return d->n_files || d->n_edits || d->environment;
}

/* Add one: "FILE=OTHER"; "NAME=VALUE", which is set in this process; "s/PATTERN/TEXT/g",
 * an extended regular expression between any delimiter, and a plain text. 0, or an exit
 * code after a message. */
_must_check_ int shfs_deviations_add_file(struct shfs_deviations *deviations,
                                          const char *word);
_must_check_ int shfs_deviations_add_variable(struct shfs_deviations *deviations,
                                              const char *word);
_must_check_ int shfs_deviations_add_edit(struct shfs_deviations *deviations,
                                          const char *word);

/* The file in the place of the one at this absolute path; NULL: it is as it was. */
const char *shfs_deviations_other(const struct shfs_deviations *deviations,
                                  const char *path);

/* Edits the text of a command: 1; 0: it stays as it is; -ENOMEM. */
_must_check_ int shfs_deviations_edit(const struct shfs_deviations *deviations,
                                      struct shfs_buf *text);

/*
 * Finds the commands behind these versions that would come out otherwise, directly or by
 * what they read of one another, and calls fn for each once, in the order in which they
 * were run. What fn returns other than 0 ends it.
 */
typedef int (*shfs_deviations_fn)(int64_t command_id, void *arg);
_must_check_ int shfs_deviations_choose(const struct shfs_deviations *deviations,
                                        struct shfs_index *index,
                                        const struct shfs_version *targets, size_t n,
                                        shfs_deviations_fn fn, void *arg);
