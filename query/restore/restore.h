/* SPDX-License-Identifier: MIT */
/*
 * restore.h - puts an archived content back, so that nothing is lost by it.
 *
 * The content is written to a new file beside the target, checked against its hash, given
 * its permission bits (never set-id bits) and its time, and the owner, the access ACL and
 * the extended attributes of the file that it replaces, synced, and renamed over the
 * target: at each moment the target is the old file or the new one, whole. Directories
 * below the base are entered without following links, missing ones are made,
 * with the mode that they had when they were removed; 0700 where that is not known.
 *
 * Refused is what would lose something: a target whose present content is not archived
 * (as some version of some path), or which has extended attributes that cannot be copied,
 * unless forced; one that changes meanwhile; and always one that is no regular file,
 * except that a symbolic link is itself replaced when forced.
 */
#pragma once

#include "common/config.h"
#include "query/base/model.h"

struct shfs_restorer;

struct shfs_restore_options {
	bool force;
	bool dry_run;     /* says what would be done */
	bool only_absent; /* refuse whatever is there */
	bool *partly;     /* is set where something is not as it was; or NULL */
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
	const char *base;  /* an absolute path, links in it: trusted.h; made if missing */
	const char *below; /* relative to it, normal: no part of it may be a link */
	bool no_links;     /* nor may one's own in base be followed */
};

/*
 * Returns an exit code. What was done, or why nothing was, is appended to message: one
 * line without a newline, escaped.
 */
int shfs_restore(struct shfs_restorer *restorer, const struct shfs_version *version,
                 const struct shfs_restore_target *target, struct shfs_buf *message);

/* The same for what is no file, where nothing is now: a symbolic link with this text; a
 * directory. */
int shfs_restore_link(struct shfs_restorer *restorer, const char *path, const char *text,
                      struct shfs_buf *message);
int shfs_restore_directory(struct shfs_restorer *restorer, const char *path,
                           struct shfs_buf *message);

/* The same for a file that becomes another name of the file other, which holds this
 * version; SHFS_EXIT_FAILURE, and message says why, where it cannot be that. */
int shfs_restore_name(struct shfs_restorer *restorer, const struct shfs_version *version,
                      const char *other, struct shfs_buf *message);
