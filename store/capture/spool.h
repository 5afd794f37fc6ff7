/* SPDX-License-Identifier: MIT */
/*
 * spool.h - a producer's last records, in memory that outlives it.
 *
 * From when it is emitted until its batch is in the journal, for a fifth of a second, a
 * record is in the producer's memory alone. A guardian, which the producer has forked
 * before and which shares this memory, writes those of a producer that was killed. What
 * was being archived for them is lost: their contents are unknown (SKIP_ERROR).
 *
 * A ring; what finds no room in it is counted, and told as lost.
 */
#pragma once

#include "store/journal/journal.h"

#define SHFS_SPOOL_BYTES (8u << 20)

struct shfs_spool;

/* NULL: no memory. To be freed in each process. */
struct shfs_spool *shfs_spool_new(void);
void shfs_spool_free(struct shfs_spool *spool); /* NULL is fine */

/* For shfs_journal_options.told. */
struct shfs_journal_identity *shfs_spool_identity(struct shfs_spool *spool);

/* --- the producer; one thread at a time --- */

/* A record that will be in the journal. has: which of its two contents are on their way.
 */
void shfs_spool_add(struct shfs_spool *spool, const struct shfs_record *rec,
                    const bool has[static 2]);

/* All up to this sequence number are in the journal, or counted as lost. */
void shfs_spool_done(struct shfs_spool *spool, uint64_t seq);

/* --- its guardian, once it is dead --- */

/* Writes the rest into the journal. */
_must_check_ int shfs_spool_rescue(struct shfs_spool *spool, struct shfs_store *store,
                                   const char *root);
