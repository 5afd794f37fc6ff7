/* SPDX-License-Identifier: MIT */
/*
 * restore-journal.h - records what restore does where no mount records it.
 *
 * A write below an active mount is recorded by that mount. Below a project that is not
 * mounted now, restore is itself a producer, of kind "restore".
 */
#pragma once

#include "common/config.h"
#include "store/index/index.h"

#include <sys/stat.h>

struct shfs_restore_journal;

_must_check_ int shfs_restore_journal_new(struct shfs_store *store,
                                          struct shfs_index *index,
                                          const struct shfs_config *config,
                                          struct shfs_restore_journal **out);
/* Ends the producer that was begun, if any. NULL is fine. */
void shfs_restore_journal_free(struct shfs_restore_journal *journal);

/*
 * Prepares for files in the directory dirfd: 1 if changes in it must be recorded here; 0
 * if a mount records them or it is in no project; or a negative errno.
 */
_must_check_ int shfs_restore_journal_enter(struct shfs_restore_journal *journal,
                                            int dirfd);

/* Records the content that the file name has before the change. When this returns it is
 * durable in the journal and, as far as rules and limits allow, in the store. Call this
 * and the functions below only after an enter that returned 1. */
_must_check_ int shfs_restore_journal_before(struct shfs_restore_journal *journal,
                                             const char *name, int fd);

/* Records that name is new: another name of the file other (absolute) behind fd. */
_must_check_ int shfs_restore_journal_linked(struct shfs_restore_journal *journal,
                                             const char *name, const char *other, int fd);

/* Records that name was replaced by the file behind fd, or is new. */
_must_check_ int shfs_restore_journal_made(struct shfs_restore_journal *journal,
                                           const char *name, int fd, bool created);
