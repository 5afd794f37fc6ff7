/* SPDX-License-Identifier: MIT */
/*
 * version-spec.h - the names of versions on the command line.
 *
 *     FILE                the latest
 *     FILE@3              the third content of the path
 *     FILE@{2 hours ago}  its content at that time (any time that time.h understands)
 *     FILE@{4f2a91c}      what that command left there; what it read, if it left nothing
 *
 * A file whose own name ends like that is meant if the index has the whole name;
 * FILE@{now} is its latest version. Zeros before the number make another name of it:
 * FILE@03 is a version if there is a file FILE@3.
 */
#pragma once

#include "query/base/model.h"

enum shfs_version_spec_kind {
	SHFS_SPEC_LATEST,
	SHFS_SPEC_NUMBER,
	SHFS_SPEC_BRACES,
};

struct shfs_version_spec {
	enum shfs_version_spec_kind kind;
	char *path; /* as it was given */
	uint64_t n; /* NUMBER; UINT64_MAX if it does not fit */
	char *text; /* BRACES: the text between them */
};

/* Parses the operand. -EINVAL: no file, or nothing in the braces; -ENOMEM. */
_must_check_ int shfs_version_spec_parse(const char *operand,
                                         struct shfs_version_spec *out);
/* Is it the first part of a name that the shell has split at a blank ("FILE@{2")? */
bool shfs_version_spec_is_cut(const char *operand);
#define SHFS_SPEC_QUOTED "what has a blank in it is quoted: 'FILE@{2 hours ago}'"

void shfs_version_spec_clear(struct shfs_version_spec *spec);
#define _cleanup_version_spec_ _cleanup_(shfs_version_spec_clear)

/* Finds the version; the caller clears out. Returns an exit code; if it is not 0, a
 * message was printed. */
_must_check_ int shfs_version_spec_find(struct shfs_index *index, const char *operand,
                                        struct shfs_version *out);

/* Is it DIRECTORY@{WHEN}? 1: *path (absolute) and *when are set, malloc'ed; 0: it names a
 * file; or a negative errno. */
_must_check_ int shfs_directory_spec_read(struct shfs_index *index, const char *operand,
                                          char **path, char **when);

/* What the text in braces says of all files: a time, or the id of a command: when it had
 * ended (before: when it began). Returns an exit code, as above. */
_must_check_ int shfs_moment_find(struct shfs_index *index, const char *text, bool before,
                                  int64_t *time_ns);

/* Finds the command with this id, or the maker of this version: a command, or a process
 * that belongs to none. Returns an exit code, as above. */
_must_check_ int shfs_command_spec_find(struct shfs_index *index, const char *operand,
                                        bool *is_process, int64_t *id);
