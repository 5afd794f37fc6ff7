/* SPDX-License-Identifier: MIT */
/*
 * secrets.h - the patterns of secrets (redact.h): those of secrets.txt, and those of the
 * user.
 */
#pragma once

#include "common/config.h"
#include "common/redact.h"

/* Returns the patterns, one a line, malloc'ed; empty: nothing is to be redacted. NULL: no
 * memory. */
char *shfs_secrets_patterns(const struct shfs_config *config);

/* Makes a redactor with them; *out is NULL if nothing is to be redacted. -ENOMEM. */
_must_check_ int shfs_secrets_redactor(const struct shfs_config *config,
                                       struct shfs_redactor **out);

/* Returns what is wrong with a pattern of the user, or NULL. */
const char *shfs_secrets_fault(const char *pattern);
