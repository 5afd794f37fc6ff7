/* SPDX-License-Identifier: MIT */
/*
 * index.h - index.db: what the journal says, as rows that can be asked.
 *
 * SQLite lives behind this header. Everything in the index is derived: deleting it loses
 * nothing, shfs_index_rebuild makes the same answers again. The contract for queries are
 * the views v_* in store/index/schema/views.sql (described in docs/index.md); tables are
 * named only in store/.
 *
 * A struct shfs_index belongs to one thread. Several processes may have the index open.
 */
#pragma once

#include "common/record.h"
#include "store/store.h"

#include <stdbool.h>

/* Among the flags of an access, and in no record: what was removed is one of several
 * names of a file. */
#define SHFS_ACCESS_LINKED (1u << 30)

struct shfs_index;

enum shfs_index_flags {
	SHFS_INDEX_READ = 0,       /* fails with -ENOENT where there is none */
	SHFS_INDEX_WRITE = 1 << 0, /* made where missing; migrated where older */
};

/*
 * -EPROTONOSUPPORT: of a newer schema. -EBADMSG: not our database, or damaged (say:
 * reindex). -EBUSY: locked for longer than 10 s.
 */
_must_check_ int shfs_index_open(struct shfs_store *store, enum shfs_index_flags flags,
                                 struct shfs_index **out);
/*
 * A copy of it in memory (from NULL: an empty one), which the caller brings up to date
 * and asks where the disk takes nothing. -EFBIG: it would be larger than
 * SHFS_INDEX_MEMORY_MAX; an ingest that takes more ends with -ENOSPC, and leaves out the
 * rest.
 */
#define SHFS_INDEX_MEMORY_MAX (UINT64_C(512) << 20)
_must_check_ int shfs_index_open_in_memory(struct shfs_store *store,
                                           struct shfs_index *from,
                                           struct shfs_index **out);
/* To write, or, where the store's disk does not let that be, to read what it has: an
 * ingest fails by the reason then. */
_must_check_ int shfs_index_open_to_ask(struct shfs_store *store,
                                        struct shfs_index **out);
void shfs_index_close(struct shfs_index *index);

static inline void shfs_index_closep(struct shfs_index **i)
{
	shfs_index_close(*i);
}
#define _cleanup_index_ _cleanup_(shfs_index_closep)

struct shfs_ingest_stats {
	uint64_t records, commands, accesses, versions;
	uint64_t damaged_bytes; /* in segments and hook logs, skipped */
};

/*
 * Takes in all that the journal has and the index has not. A transaction ends after
 * 200,000 records or 2 s, whichever comes first (one record at least, however long that
 * takes), and also commits how far it read: so others see what there is, and what is
 * killed is gone on with by the next one. Waits for another who writes as long as that
 * one goes on. Idempotent. stats may be NULL. hook_dir:
 * shfs_runtime_hook_dir, from which logs are copied into the journal first, or NULL.
 * Where that fails, the rest is taken in all the same.
 */
_must_check_ int shfs_index_ingest(struct shfs_index *index, const char *hook_dir,
                                   struct shfs_ingest_stats *stats);

/*
 * The same, but for so many milliseconds at most, those included that it waits for
 * another who writes (one record that takes longer excepted). 1: not all is in;
 * left_bytes: about so many bytes of the journal are missing, or 0 where it is only not
 * known yet who did what they say.
 */
_must_check_ int shfs_index_ingest_within(struct shfs_index *index, const char *hook_dir,
                                          unsigned ms, uint64_t *left_bytes);

/* Records of a transaction, and how long it takes; tests set less. */
extern unsigned shfs_ingest_batch, shfs_ingest_batch_ms;

/* Throws the index away (made anew beside the old one, then copied over it) and ingests
 * all. */
_must_check_ int shfs_index_rebuild(struct shfs_store *store, const char *hook_dir,
                                    struct shfs_ingest_stats *stats);

/* Leaves nothing in the files of the index but what it says now. -EBUSY. */
_must_check_ int shfs_index_clean(struct shfs_store *store);

/* Of a content of a record: with SHFS_CONTENT_PRUNED for _OBJECT where that is so. */
uint32_t shfs_index_content_flags(struct shfs_index *index,
                                  const struct shfs_content *content);

/* The last error in SQLite's words, for a message; borrowed. */
const char *shfs_index_error(struct shfs_index *index);

/* --- reading rows --- */

struct shfs_rows;

/*
 * Prepares one SELECT over the views. Text of users goes into parameters (?1, ?2, ...),
 * never into sql. docs/index.md has the functions beside SQLite's own.
 */
_must_check_ int shfs_rows_open(struct shfs_index *index, const char *sql,
                                struct shfs_rows **out);
/* The same, with the values of ?1, ?2, …: SHFS_INTS(a, b); or a text as ?1. */
_must_check_ int shfs_rows_open_ints(struct shfs_index *index, const char *sql,
                                     const int64_t *values, int n,
                                     struct shfs_rows **out);
_must_check_ int shfs_rows_open_str(struct shfs_index *index, const char *sql,
                                    const char *value, struct shfs_rows **out);
#define SHFS_INTS(...)                                                                   \
	(const int64_t[]){ __VA_ARGS__ },                                                \
		(int)ARRAY_SIZE(((const int64_t[]){ __VA_ARGS__ }))
void shfs_rows_close(struct shfs_rows *rows);

static inline void shfs_rows_closep(struct shfs_rows **r)
{
	shfs_rows_close(*r);
}
#define _cleanup_rows_ _cleanup_(shfs_rows_closep)

/* n counts from 1. The bytes are copied. -EINVAL: no such parameter. */
_must_check_ int shfs_rows_bind_int(struct shfs_rows *rows, int n, int64_t value);
_must_check_ int shfs_rows_bind_text(struct shfs_rows *rows, int n, const char *data,
                                     size_t len);
_must_check_ int shfs_rows_bind_str(struct shfs_rows *rows, int n, const char *s);

/* 1: a row; 0: none left; or a negative errno. After 0 or reset it can be bound and run
 * again. */
_must_check_ int shfs_rows_next(struct shfs_rows *rows);
void shfs_rows_reset(struct shfs_rows *rows);

/* Columns count from 0. Text is borrowed until the next call on rows, "" for NULL,
 * NUL-terminated; its length in bytes by shfs_rows_bytes. */
int64_t shfs_rows_int(struct shfs_rows *rows, int col);
const char *shfs_rows_text(struct shfs_rows *rows, int col);
size_t shfs_rows_bytes(struct shfs_rows *rows, int col);
bool shfs_rows_is_null(struct shfs_rows *rows, int col);
bool shfs_rows_is_int(struct shfs_rows *rows, int col);
int shfs_rows_columns(struct shfs_rows *rows);

/* How many bytes at the begin of a command's id are those of another's too. */
_must_check_ int shfs_command_id_shared(struct shfs_index *index, const char *id,
                                        size_t *out);
