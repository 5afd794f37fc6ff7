/* SPDX-License-Identifier: MIT */
/*
 * spool.h - the spool: a producer's last records, in memory that outlives it.
 *
 * A record is only in memory from its emit until its batch is in the journal, for a fifth
 * of a second. The guardian, which the producer has forked before and which shares this
 * memory, writes these records if the producer is killed. Contents that were not archived
 * yet are lost (SKIP_ERROR).
 *
 * The spool is a ring; records that find no room in it are counted, and recorded as lost.
 */
#pragma once

#include "store/journal/journal.h"

#define SHFS_SPOOL_BYTES (8u << 20)

struct shfs_spool;

/* Makes a spool; NULL: no memory. Each process frees it. */
struct shfs_spool *shfs_spool_new(void);
void shfs_spool_free(struct shfs_spool *spool); /* NULL is fine */

/* Returns the identity, for shfs_journal_options.told. */
struct shfs_journal_identity *shfs_spool_identity(struct shfs_spool *spool);

/* --- the producer; one thread at a time --- */

/* Adds a record that will be in the journal. has: which of its two contents are being
 * archived. */
void shfs_spool_add(struct shfs_spool *spool, const struct shfs_record *rec,
                    const bool has[static 2]);

/* Says that all records up to this sequence number are in the journal, or counted as
 * lost.
 */
void shfs_spool_done(struct shfs_spool *spool, uint64_t seq);

/* --- the guardian, once the producer is dead --- */

/* Writes the records that are left into the journal. */
_must_check_ int shfs_spool_rescue(struct shfs_spool *spool, struct shfs_store *store,
                                   const char *root);
