/* SPDX-License-Identifier: MIT */
/*
 * project-rules.h - the rules of a project that is recorded: the built-in ones, the
 * configuration's, and ROOT/.shfsignore, which is read again when it changes.
 * Thread-safe.
 */
#pragma once

#include "store/capture/rules.h"

#include <pthread.h>
#include <sys/stat.h>

struct shfs_project_rules {
	struct shfs_project_part *parts; /* projects below */
	size_t n_parts;
	bool is_no_project; /* outside of the parts nothing is archived, but for keep_all
	                     */
	bool keep_all;      /* all that is read is archived, but for what is ignored in a
	                     * part, and secrets */
	const struct shfs_config *config; /* borrowed */
	int root_fd;                      /* borrowed */
	const char *ignore_file;          /* path of .shfsignore below it; borrowed */
	pthread_rwlock_t lock;
	struct shfs_rules *rules;
	struct statx stamp; /* of the .shfsignore that the rules are made of */
	int64_t read_ns;    /* when it was read; CLOCK_REALTIME */
	int error;          /* why .shfsignore is not followed; 0 */
};

/* Initialises the rules, before anything is matched. */
void shfs_project_rules_init(struct shfs_project_rules *rules,
                             const struct shfs_config *config, int root_fd);
void shfs_project_rules_free(struct shfs_project_rules *rules);

/* Adds a project below the root, for whose files its own rules are. Before anything is
 * matched. -errno. */
_must_check_ int shfs_project_rules_add_part(struct shfs_project_rules *rules,
                                             const char *dir);

/* Decides what to do with the content of this path. If .shfsignore cannot be read, the
 * rules stay as they were. */
enum shfs_rule shfs_project_rules_match(struct shfs_project_rules *rules,
                                        const char *path);

/* Is this path secret by its name? Called often, so .shfsignore is looked at only if the
 * path may be secret. */
bool shfs_project_rules_is_secret(struct shfs_project_rules *rules, const char *path,
                                  bool directory);

/* Returns why .shfsignore is not followed now: a negative errno, or 0. */
int shfs_project_rules_error(struct shfs_project_rules *rules);
