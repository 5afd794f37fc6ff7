/* SPDX-License-Identifier: MIT */
/* targets.h - the entries of a search that a key applies to, and what is done with them.
 */
#pragma once

#include "query/base/cmd.h"
#include "query/screen/haystack.h"
#include "query/screen/screen.h"

struct shfs_targets {
	struct shfs_hay *list; /* in the order in which they were marked */
	size_t n, cap;
};

void shfs_targets_clear(struct shfs_targets *targets);
#define _cleanup_targets_ _cleanup_(shfs_targets_clear)

bool shfs_targets_has(const struct shfs_targets *targets, const struct shfs_hay *hay);
/* Adds an entry, or removes it if it is there. -ENOMEM. */
_must_check_ int shfs_targets_toggle(struct shfs_targets *targets,
                                     const struct shfs_hay *hay);

/* The path of a file of the index, which the caller frees. -ENOENT: it was forgotten. */
_must_check_ int shfs_targets_path(struct shfs_index *index, int64_t file_id,
                                   char **path);

/* Adds the text of each command and the path of each file, one in a line. -ENOMEM, or an
 * error of the index. */
_must_check_ int shfs_targets_text(struct shfs_index *index,
                                   const struct shfs_targets *targets,
                                   struct shfs_buf *out);

/*
 * Makes a line of a shell ("bash", "zsh", "fish") anew: of commands, one below the other;
 * of files, which come behind these, or in place of the line's last word. Likewise.
 */
_must_check_ int shfs_targets_line(struct shfs_index *index,
                                   const struct shfs_targets *targets, const char *line,
                                   const char *shell, struct shfs_buf *out);

/* The last word of a shell's command line, split at blanks. */
const char *shfs_last_word(const char *line);

enum shfs_action {
	SHFS_ACTION_SHOW,
	SHFS_ACTION_DIFF,    /* what a command changed; what the last version did */
	SHFS_ACTION_RESTORE, /* shows what it does, and asks; so do the others */
	SHFS_ACTION_UNDO,    /* of a file: what made its last version, in it alone */
	SHFS_ACTION_FORGET,
};

/* Were the entries loaded from the history as it is? rebuilt: of shfs_index_look, before
 * they were loaded. -ESTALE: no; or an error of the index. */
_must_check_ int shfs_targets_check(struct shfs_index *index, int64_t rebuilt);

/* Does it with other commands of shfs, on the terminal, and returns to the screen at a
 * key. -ESTALE, as above, and nothing is done; -ENOMEM, or an error of the index. */
_must_check_ int shfs_targets_act(struct shfs_context *ctx, struct shfs_index *index,
                                  int64_t rebuilt, struct shfs_screen *screen,
                                  enum shfs_action action,
                                  const struct shfs_targets *targets);
