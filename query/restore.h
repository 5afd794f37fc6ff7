/* SPDX-License-Identifier: MIT */
/*
 * restore.h - puts an archived content back, so that nothing is lost by it.
 *
 * The content is written to a new file beside the target, checked against its hash, given
 * its permission bits (never set-id bits) and its time, and the owner, the access ACL and
 * the extended attributes of the file that it replaces, synced, and renamed over the
 * target: at each moment the target is the old file or the new one, whole. Directories
 * below the base are entered without following links, missing ones are made.
 *
 * Refused is what would lose something: a target whose present content is not archived
 * (as some version of some path), or which has extended attributes that cannot be copied,
 * unless forced; one that changes meanwhile; and always one that is no regular file,
 * except that a symbolic link is itself replaced when forced.
 */
#pragma once

#include "common/config.h"
#include "query/model.h"

struct shfs_restorer;

struct shfs_restore_options {
	bool force;
	bool dry_run;     /* says what would be done */
	bool only_absent; /* refuse whatever is there */
};

_must_check_ int shfs_restorer_new(struct shfs_store *store, struct shfs_index *index,
                                   const struct shfs_config *config,
                                   struct shfs_restore_options options,
                                   struct shfs_restorer **out);
void shfs_restorer_free(struct shfs_restorer *restorer);

static inline void shfs_restorer_freep(struct shfs_restorer **r)
{
	shfs_restorer_free(*r);
}
#define _cleanup_restorer_ _cleanup_(shfs_restorer_freep)

struct shfs_restore_target {
	const char
		*base; /* an absolute path, links in it are followed; made if missing */
	const char *below; /* relative to it, normal: no part of it may be a link */
};

/*
 * Returns an exit code. What was done, or why nothing was, is appended to message: one
 * line without a newline, escaped.
 */
int shfs_restore(struct shfs_restorer *restorer, const struct shfs_version *version,
                 const struct shfs_restore_target *target, struct shfs_buf *message);
