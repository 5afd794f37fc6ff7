/* SPDX-License-Identifier: MIT */
/*
 * restore-journal.h - restore's own entry in the journal, where no mount makes it.
 *
 * A write below an active mount is seen by that mount like any other. Below a project
 * that is not mounted now, restore is itself a producer, of kind "restore".
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
 * Gets ready for files in the directory dirfd: 1 if changes in it are to be told here, 0
 * if a mount sees them or it is in no project, or a negative errno.
 */
_must_check_ int shfs_restore_journal_enter(struct shfs_restore_journal *journal,
                                            int dirfd);

/* What the file name held before, durable in the journal and (where rules and limits let
 * it) in the store when this returns. Only after an enter that returned 1, as below. */
_must_check_ int shfs_restore_journal_before(struct shfs_restore_journal *journal,
                                             const char *name, int fd);

/* name is new: another name of the file other (absolute) behind fd. */
_must_check_ int shfs_restore_journal_linked(struct shfs_restore_journal *journal,
                                             const char *name, const char *other, int fd);

/* name was replaced by the file behind fd, or is new. */
_must_check_ int shfs_restore_journal_made(struct shfs_restore_journal *journal,
                                           const char *name, int fd, bool created);
