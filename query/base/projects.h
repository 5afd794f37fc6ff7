/* SPDX-License-Identifier: MIT */
/*
 * projects.h - the directories that are recorded into a store, or were once, and which of
 * them are to be recorded always: the file "projects" of the store.
 *
 * Each line is a state, a blank, and an absolute path without links. A path with a
 * newline is not kept. Lines that are not understood stay as they are.
 */
#pragma once

#include "common/util.h"

#include <stdbool.h>
#include <stddef.h>

enum shfs_project_state {
	SHFS_PROJECT_KNOWN,   /* it was mounted once */
	SHFS_PROJECT_ENABLED, /* it is mounted at each login, and when a shell enters it
	                       */
	SHFS_PROJECT_QUIET,   /* known, and the user wants to hear nothing of it */
};

struct shfs_project {
	enum shfs_project_state state;
	char *dir;
};

struct shfs_projects {
	struct shfs_project *list; /* in the order in which they came */
	size_t n;
};

/* "known", "enabled", "quiet". Static. */
const char *shfs_project_state_name(enum shfs_project_state state);

/* Reads those of the store at this path; none if there is no such store or file. The
 * caller clears *out. -ENOMEM, or an error of reading. */
_must_check_ int shfs_projects_read(const char *store_path, struct shfs_projects *out);
void shfs_projects_clear(struct shfs_projects *projects);
#define _cleanup_projects_ _cleanup_(shfs_projects_clear)

/* The project that is dir, or the innermost one that holds it; NULL. */
const struct shfs_project *shfs_projects_at(const struct shfs_projects *projects,
                                            const char *dir);
const struct shfs_project *shfs_projects_around(const struct shfs_projects *projects,
                                                const char *dir);

/*
 * Sets the state of a project, and adds it if it is new; note: adds it as KNOWN, if it is
 * new. Two processes of one host do so one after the other; durable on return. The store
 * exists. -EINVAL: the path cannot be kept.
 */
_must_check_ int shfs_projects_set(const char *store_path, const char *dir,
                                   enum shfs_project_state state);
_must_check_ int shfs_projects_note(const char *store_path, const char *dir);
