/* SPDX-License-Identifier: MIT */
/*
 * closure.h - all that the steps of a workflow need to run where nothing else is: the
 * files that they accessed, with the directories and symbolic links that lead to them.
 *
 * A content is taken from the store; or from the disk, if what lies there is still what
 * was recorded. What can be had from neither, and what must never leave the machine
 * (secrets, dot-directories of the home), is in a list of its own.
 */
#pragma once

#include "query/history/lookups.h"
#include "query/history/uses.h"
#include "query/rerun/workflow.h"

struct shfs_config;

enum shfs_closure_kind {
	SHFS_CLOSURE_DIRECTORY,
	SHFS_CLOSURE_LINK,
	SHFS_CLOSURE_FILE,
};

struct shfs_closure_file {
	char *path; /* absolute; no directory of it is a link */
	enum shfs_closure_kind kind;
	bool system;   /* of the machine: a program, a library, configuration */
	char *target;  /* of a link */
	bool guessed;  /* a link that may not have been gone through */
	char *lies_at; /* of a file: where its bytes are on the disk; NULL: in the store,
	                * or it is empty */
	struct shfs_object_id object; /* if flags have SHFS_CONTENT_OBJECT */
	uint32_t flags, mode;
	uint64_t size, phash;
	int64_t mtime_ns;
	UT_hash_handle hh;
};

struct shfs_missing {
	char *path;
	const char *why; /* to follow its name; static */
};

struct shfs_closure {
	struct shfs_workflow *wf; /* borrowed, as the store */
	struct shfs_store *store;
	struct shfs_closure_file *files; /* sorted by path when it is complete */
	struct shfs_missing *missing;    /* in the order in which they were found */
	size_t n_missing, cap_missing;
	/* Commands of which only the files of their projects were recorded: programs and
	 * their libraries are there, and what else they used is not known. */
	struct shfs_names in_part;
	struct shfs_rules *rules;
	struct shfs_names homes;
	struct shfs_closure_path *written; /* by the steps so far */
	struct shfs_closure_path *known_missing;
	bool guesses;  /* of some commands it is not known what they looked up */
	bool guessing; /* what is added now is a guess */
};

_must_check_ int shfs_closure_new(struct shfs_workflow *wf, struct shfs_store *store,
                                  const struct shfs_config *config,
                                  struct shfs_closure **out);
void shfs_closure_free(struct shfs_closure *c);

/* Adds what the step accessed. Steps come in their order: what one has made is no input
 * of a later one. */
_must_check_ int shfs_closure_add_step(struct shfs_closure *c,
                                       const struct shfs_step *step);
/* Adds the content of a version at the path: what it had, or another one. lies_at: where
 * it lies, if it is not archived; NULL: at its own path. */
_must_check_ int shfs_closure_add_version(struct shfs_closure *c,
                                          const struct shfs_version *version,
                                          const char *at, const char *lies_at);
_must_check_ int shfs_closure_add_directory(struct shfs_closure *c, const char *path);
/* Adds a program as it is on the disk now, with its interpreter and its libraries. name:
 * a path, or a name that is looked for in the usual directories. -ENOENT. */
_must_check_ int shfs_closure_add_program(struct shfs_closure *c, const char *name);
/* Adds the links that lead to what is there, and sorts the files. The last call. */
_must_check_ int shfs_closure_finish(struct shfs_closure *c);

/* Has a step so far made the path, or a directory above it? */
bool shfs_closure_is_made(const struct shfs_closure *c, const char *path);

struct shfs_closure_file *shfs_closure_find(const struct shfs_closure *c,
                                            const char *path);

/* Opens the content of a version: from the store, or where it lies. -ESTALE: it is in
 * neither. -EPERM: it must not be taken. */
_must_check_ int shfs_closure_open_version(const struct shfs_closure *c,
                                           const struct shfs_version *version,
                                           const char *lies_at, int *fd);
/* Opens the content of a file, for reading from its begin. -ESTALE: it was changed
 * meanwhile; -EBADMSG, -ENOENT: it is damaged in the store, or gone. */
_must_check_ int shfs_closure_open(const struct shfs_closure *c,
                                   const struct shfs_closure_file *file, int *fd);
/* Checks, after the file was read, that it was not changed meanwhile. -ESTALE. */
_must_check_ int shfs_closure_check(const struct shfs_closure_file *file, int fd);

/* --- between the files of the closure --- */

/* Adds what lies on the disk at a path, with the links on the way: 1; 0: it is there
 * already, or nothing is. must: what cannot be had is missing. */
_must_check_ int closure_add_disk(struct shfs_closure *c, const char *path, bool must);
/* Adds the links on the way to a path, and the directories; the last component, too, if
 * it is a link. *out: where they lead. */
_must_check_ int closure_walk(struct shfs_closure *c, const char *path, char **out);
/* Adds the interpreter and the libraries of a program that lies on the disk. */
_must_check_ int closure_add_needs(struct shfs_closure *c, const char *path);
/* What a command looked up, and all commands of its recording: a mount tells a name
 * once. */
struct closure_lookups {
	struct shfs_lookups_list own, all;
};
/* Loads them, and adds the links as they were: before all paths of the step. */
_must_check_ int closure_begin_lookups(struct shfs_closure *c,
                                       const struct shfs_step *step,
                                       struct closure_lookups *out);
/* Adds what was looked up and not opened: files that have to be there, directories. */
_must_check_ int closure_add_lookups(struct shfs_closure *c,
                                     const struct closure_lookups *lookups,
                                     const struct shfs_uses *uses);
void closure_clear_lookups(struct closure_lookups *lookups);
/* Adds the links in directories of the closure that lead to what is in it: for commands
 * of which no lookups are recorded. */
_must_check_ int closure_add_links(struct shfs_closure *c);
_must_check_ int closure_add_link(struct shfs_closure *c, const char *path,
                                  const char *target);
_must_check_ int closure_add_missing(struct shfs_closure *c, const char *path,
                                     const char *why);
/* The path in the closure: with the links of its directories followed, and added. */
_must_check_ int closure_place(struct shfs_closure *c, const char *path, char **out);
/* Is it in /proc and the like? */
bool closure_is_of_kernel(const char *path);

/* Sets of paths; an empty one is NULL. Notes a path: 1; 0: it is there. */
_must_check_ int closure_note_path(struct shfs_closure_path **set, const char *path);
bool closure_has_path(struct shfs_closure_path *set, const char *path);
void closure_free_paths(struct shfs_closure_path **set);
