/* SPDX-License-Identifier: MIT */
/*
 * secret.h - what looks like a secret and was recorded: before there was a pattern for
 * it, or by an older version.
 */
#pragma once

#include "common/config.h"
#include "store/index/index.h"

struct shfs_secret {
	const char *
		command; /* id of the command with it, or whose process had it; or NULL */
	const char *path; /* of a file whose content is archived; or NULL */
	const char *of;   /* and of one that is secret by its name, which has or had it;
	                   * NULL:   path is */
};

/* Tells of each command and each file once; of neither: a process of no command. A
 * negative errno. */
_must_check_ int
shfs_secrets_find(struct shfs_index *index, const struct shfs_config *config,
                  void (*found)(void *arg, const struct shfs_secret *secret), void *arg);
