/* SPDX-License-Identifier: MIT */
/*
 * rules.h - which files are archived.
 *
 * Patterns are those of gitignore(5), for paths relative to the project's root: "#"
 * comments, "!" takes back, a trailing slash for directories, "*", "?", "[...]", "**", an
 * anchored pattern where there is a slash before its end; the last that matches decides,
 * and nothing below an ignored directory can be taken back. Checked in CI against git
 * check-ignore.
 *
 * What a rule leaves out is recorded all the same (SHFS_CONTENT_SKIP_RULE), only not
 * archived. Immutable once built, so thread-safe.
 */
#pragma once

#include "common/config.h"

#include <stdbool.h>

enum shfs_rule {
	SHFS_RULE_ARCHIVE,      /* archive what is written; what is read: fingerprint */
	SHFS_RULE_ARCHIVE_READ, /* archive also what is read: scripts, configuration */
	SHFS_RULE_IGNORE, /* never archive: caches, secrets, what the user excluded */
};

/* Of a file with two names: it is archived if either is to be. */
static inline enum shfs_rule shfs_rule_of_both(enum shfs_rule a, enum shfs_rule b)
{
	return a == SHFS_RULE_IGNORE || (b != SHFS_RULE_IGNORE && b > a) ? b : a;
}

struct shfs_rules;

/*
 * Built-in patterns, then the config's, then shfsignore (the text of ROOT/.shfsignore, or
 * NULL). Borrowed for the call. -ENOMEM.
 */
_must_check_ int shfs_rules_new(const struct shfs_config *config, const char *shfsignore,
                                struct shfs_rules **out);
void shfs_rules_free(struct shfs_rules *rules);

/* path: relative to the root, not starting with a slash. */
enum shfs_rule shfs_rules_match(const struct shfs_rules *rules, const char *path,
                                bool directory);

/* Of what is to be ignored: is it secret by its name, by a built-in pattern that the user
 * has not taken back? So are copies: server.key.bak, .netrc~, .#id_rsa. */
bool shfs_rules_is_secret(const struct shfs_rules *rules, const char *path,
                          bool directory);
