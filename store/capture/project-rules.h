/* SPDX-License-Identifier: MIT */
/*
 * project-rules.h - the rules of a project that is recorded: the built-in ones, the
 * configuration's, and ROOT/.shfsignore as it is now: it is looked at with each question.
 * Thread-safe.
 */
#pragma once

#include "store/capture/rules.h"

#include <pthread.h>
#include <sys/stat.h>

struct shfs_project_rules {
	const struct shfs_config *config; /* borrowed */
	int root_fd;                      /* borrowed */
	pthread_rwlock_t lock;
	struct shfs_rules *rules;
	struct statx stamp; /* of the .shfsignore that they are from */
	int64_t read_ns;    /* when it was read; CLOCK_REALTIME */
	int error;          /* why that is not followed; 0 */
};

/* Before anything is matched. */
void shfs_project_rules_init(struct shfs_project_rules *rules,
                             const struct shfs_config *config, int root_fd);
void shfs_project_rules_free(struct shfs_project_rules *rules);

/* What to do with the content of this path. A .shfsignore that cannot be read leaves the
 * rules that were there before. */
enum shfs_rule shfs_project_rules_match(struct shfs_project_rules *rules,
                                        const char *path);

/* Is this path secret by its name? It is asked often: .shfsignore is looked at only where
 * it might be. */
bool shfs_project_rules_is_secret(struct shfs_project_rules *rules, const char *path,
                                  bool directory);

/* Why .shfsignore is not followed, as it is now: a negative errno, or 0. */
int shfs_project_rules_error(struct shfs_project_rules *rules);
