/* SPDX-License-Identifier: MIT */
/*
 * rules.h - decides which files are archived.
 *
 * Patterns are those of gitignore(5), for paths relative to the project's root: "#"
 * comments, "!" for exceptions, a trailing slash for directories, "*", "?", "[...]",
 * "**", anchored patterns (with a slash before the end). The last pattern that matches
 * decides, and there are no exceptions below an ignored directory. Checked in CI against
 * git check-ignore.
 *
 * A file that a rule leaves out is recorded all the same (SHFS_CONTENT_SKIP_RULE), only
 * not archived. Immutable once built, so thread-safe.
 */
#pragma once

#include "common/config.h"

#include <stdbool.h>

/* The more is kept, the greater. */
enum shfs_rule {
	SHFS_RULE_IGNORE,       /* never archive: caches, secrets, the user's patterns */
	SHFS_RULE_FINGERPRINT,  /* never archive: what is in no project (shfs record) */
	SHFS_RULE_ARCHIVE,      /* archive if written; fingerprint if only read */
	SHFS_RULE_ARCHIVE_READ, /* archive also if only read: scripts, configuration */
};

/* Returns the rule of a file with two names: it is archived if either name is. */
static inline enum shfs_rule shfs_rule_of_both(enum shfs_rule a, enum shfs_rule b)
{
	return MAX(a, b);
}

struct shfs_rules;

/*
 * Builds the rules of the built-in patterns, then those of config, then those of
 * shfsignore (the text of ROOT/.shfsignore, or NULL). Both are borrowed for the call.
 * -ENOMEM.
 */
_must_check_ int shfs_rules_new(const struct shfs_config *config, const char *shfsignore,
                                struct shfs_rules **out);
void shfs_rules_free(struct shfs_rules *rules);

/* path: relative to the root, not starting with a slash. */
enum shfs_rule shfs_rules_match(const struct shfs_rules *rules, const char *path,
                                bool directory);

/* Is this ignored file secret by its name, that is by a built-in pattern without an
 * exception of the user? So are copies: server.key.bak, .netrc~, .#id_rsa. */
bool shfs_rules_is_secret(const struct shfs_rules *rules, const char *path,
                          bool directory);
