/* SPDX-License-Identifier: MIT */
/*
 * version-spec.h - how a person names a version.
 *
 *     FILE                the latest
 *     FILE@3              the third content that the path held
 *     FILE@{2 hours ago}  what it held then (any time that time.h understands)
 *     FILE@{4f2a91c}      what that command left there; what it read, if it left nothing
 *
 * A file whose own name ends like that is meant where the index knows the whole name and
 * not the part before the "@"; FILE@{now} is certain.
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
	uint64_t n; /* NUMBER; one too large to hold is UINT64_MAX */
	char *text; /* BRACES: what was between them */
};

/* Takes the text apart. -EINVAL: no file, or nothing in the braces; -ENOMEM. */
_must_check_ int shfs_version_spec_parse(const char *operand,
                                         struct shfs_version_spec *out);
/* Is it the beginning of one that the shell has cut at a blank ("FILE@{2")? */
bool shfs_version_spec_is_cut(const char *operand);
#define SHFS_SPEC_QUOTED "what has a blank in it is quoted: 'FILE@{2 hours ago}'"

void shfs_version_spec_clear(struct shfs_version_spec *spec);
#define _cleanup_version_spec_ _cleanup_(shfs_version_spec_clear)

/* Finds the version; out is to be cleared. Returns an exit code: where it is not 0, the
 * reason has been said. */
_must_check_ int shfs_version_spec_find(struct shfs_index *index, const char *operand,
                                        struct shfs_version *out);

/* The command with this id, or that made this version; or the process, if that was of no
 * command. Returns an exit code, as above. */
_must_check_ int shfs_command_spec_find(struct shfs_index *index, const char *operand,
                                        bool *is_process, int64_t *id);
