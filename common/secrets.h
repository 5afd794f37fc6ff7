/* SPDX-License-Identifier: MIT */
/*
 * secrets.h - which patterns of secrets (redact.h) hold: those of secrets.txt, and what
 * the user adds.
 */
#pragma once

#include "common/config.h"
#include "common/redact.h"

/* One a line, malloc'ed; empty where nothing is to be redacted. NULL: no memory. */
char *shfs_secrets_patterns(const struct shfs_config *config);

/* NULL where nothing is to be redacted. -ENOMEM. */
_must_check_ int shfs_secrets_redactor(const struct shfs_config *config,
                                       struct shfs_redactor **out);

/* What is wrong with a pattern of the user's, or NULL. */
const char *shfs_secrets_fault(const char *pattern);
