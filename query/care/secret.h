/* SPDX-License-Identifier: MIT */
/*
 * secret.h - finds recorded secrets: from before there was a pattern for them, or from an
 * older version.
 */
#pragma once

#include "common/config.h"
#include "store/index/index.h"

struct shfs_secret {
	const char *command; /* id of the command that has it, or whose process has; or
	                      * NULL */
	const char *path;    /* of a file whose content is archived; or NULL */
	const char *of;      /* a file that is secret by its name, and has or had the same
	                      * content; NULL: path is */
};

/* Reports each command and each file once; neither is set for a process of no command.
 * progress is called with how many bytes of text were looked at, and how many there are;
 * NULL: they are not counted. A negative errno. */
_must_check_ int
shfs_secrets_find(struct shfs_index *index, const struct shfs_config *config,
                  void (*found)(void *arg, const struct shfs_secret *secret), void *arg,
                  void (*progress)(uint64_t done, uint64_t all));
