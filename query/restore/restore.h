/* SPDX-License-Identifier: MIT */
/*
 * restore.h - restores an archived content so that nothing is lost by it.
 *
 * 1. The content is written to a new file beside the target, and checked against its
 *    hash.
 * 2. The new file gets its permission bits (never set-id bits) and its time, and the
 *    owner, the access ACL and the extended attributes of the file that it replaces.
 * 3. It is synced, and renamed over the target: at each moment the target is the whole
 *    old file or the whole new one.
 *
 * Directories below the base are entered without following links. Missing ones are made,
 * with the mode that they had when they were removed. If that is unknown, the umask
 * decides, but nobody is let in who is not let into the directory above.
 *
 * A restore that would lose something is refused unless forced: if the present content of
 * the target is not archived (as some version of some path), or has extended attributes
 * that cannot be copied. A target that changes meanwhile is always refused, and so is one
 * that is no regular file; but force replaces a symbolic link itself.
 */
#pragma once

#include "common/config.h"
#include "query/base/model.h"

struct shfs_restorer;

struct shfs_restore_options {
	bool force;
	bool dry_run;     /* only print what would be done */
	bool only_absent; /* refuse any existing target */
	bool *partly;     /* set if something is not as it was; or NULL */
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
	const char *base;  /* an absolute path, with links as in trusted.h; made if
	                    * missing */
	const char *below; /* relative to it, normal, without links in it */
	bool no_links;     /* do not follow the user's own links in base either */
};

/*
 * Restores the version. Returns an exit code. message gets what was done, or why nothing
 * was: one line without a newline, escaped.
 */
int shfs_restore(struct shfs_restorer *restorer, const struct shfs_version *version,
                 const struct shfs_restore_target *target, struct shfs_buf *message);

/* Restores what is no regular file, if nothing is there now: a symbolic link with this
 * target; a directory. */
int shfs_restore_link(struct shfs_restorer *restorer, const char *path, const char *text,
                      struct shfs_buf *message);
int shfs_restore_directory(struct shfs_restorer *restorer, const char *path,
                           struct shfs_buf *message);

/* A FIFO, a socket, a device. */
int shfs_restore_node(struct shfs_restorer *restorer, const char *path, mode_t mode,
                      dev_t rdev, struct shfs_buf *message);

/* Makes path another name of the file other, which has the content of this version.
 * If it cannot be, SHFS_EXIT_FAILURE, and message says why. */
int shfs_restore_name(struct shfs_restorer *restorer, const struct shfs_version *version,
                      const char *path, const char *other, struct shfs_buf *message);
