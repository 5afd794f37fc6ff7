/* SPDX-License-Identifier: MIT */
/*
 * index.h - the index (index.db): rows made from the journal, for queries.
 *
 * SQLite is hidden behind this header. Everything in the index is derived: deleting it
 * loses nothing, shfs_index_rebuild makes it again. Queries use the views v_* in
 * store/index/schema/views.sql (described in docs/index.md); tables are named only in
 * store/.
 *
 * A struct shfs_index belongs to one thread. Several processes may have the index open.
 */
#pragma once

#include "common/record.h"
#include "store/store.h"

#include <stdbool.h>

/* A flag of an access (not of records): the removed path was one of several names of a
 * file. */
#define SHFS_ACCESS_LINKED (1u << 30)

/* Bits of a phash that the index keeps of a version; they decide only together with
 * times. */
#define SHFS_PHASH_KEPT 24

static inline uint64_t shfs_phash_kept(uint64_t phash)
{
	return phash & ((1 << SHFS_PHASH_KEPT) - 1);
}

struct shfs_index;

enum shfs_index_flags {
	SHFS_INDEX_READ = 0,       /* -ENOENT if there is no index, -ESTALE if it is of an
	                              older version */
	SHFS_INDEX_WRITE = 1 << 0, /* make a missing one; migrate an older one */
};

/*
 * Opens the index. -EPROTONOSUPPORT: it has a newer schema. -EBADMSG: it is no index of
 * shfs, or damaged (advise shfs reindex). -EBUSY: locked for longer than 10 s.
 */
_must_check_ int shfs_index_open(struct shfs_store *store, enum shfs_index_flags flags,
                                 struct shfs_index **out);
/*
 * Makes a copy of the index in memory (from NULL: an empty one), which the caller can
 * ingest into if the disk is full or read-only. -EFBIG: it would be larger than
 * SHFS_INDEX_MEMORY_MAX; an ingest that would make it so ends with -ENOSPC.
 */
#define SHFS_INDEX_MEMORY_MAX (UINT64_C(512) << 20)
_must_check_ int shfs_index_open_in_memory(struct shfs_store *store,
                                           struct shfs_index *from,
                                           struct shfs_index **out);
/* Opens the index to write or, if the disk prevents that, to read: an ingest then fails
 * for the same reason. */
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
 * Ingests all that the journal has and the index has not. A transaction ends after
 * 200,000 records or 2 s, whichever comes first (but after one record at least), and also
 * commits how far it has read: so others see the rows early, and the next ingest goes on
 * after one that was killed. Waits for another writer as long as that one goes on.
 * Idempotent. stats may be NULL. hook_dir: shfs_runtime_hook_dir, from which logs are
 * copied into the journal first, or NULL; if that fails, the rest is ingested all the
 * same.
 */
_must_check_ int shfs_index_ingest(struct shfs_index *index, const char *hook_dir,
                                   struct shfs_ingest_stats *stats);

/*
 * Ingests for at most so many milliseconds (or one record), the time included that it
 * waits for another writer. 1: not all is in the index; *left_bytes: about so many bytes
 * of the journal are missing; 0: only accesses are left to attribute.
 */
_must_check_ int shfs_index_ingest_within(struct shfs_index *index, const char *hook_dir,
                                          unsigned ms, uint64_t *left_bytes);

/* Called while the journal is ingested, by the thread that does it: how many of the bytes
 * on the disk that were new have been read. NULL: it is not. */
extern void (*shfs_ingest_progress)(uint64_t done_bytes, uint64_t all_bytes);

/* Limits of a transaction: records, and milliseconds; tests set less. */
extern unsigned shfs_ingest_batch, shfs_ingest_batch_ms;
/* So many records are taken in before the beginnings of all objects are kept in memory.
 */
extern unsigned shfs_seen_after;

/* Makes a new index of the whole journal beside the old one, then copies it over that. */
_must_check_ int shfs_index_rebuild(struct shfs_store *store, const char *hook_dir,
                                    struct shfs_ingest_stats *stats);

/* Removes all old rows from the files of the index. -EBUSY. */
_must_check_ int shfs_index_clean(struct shfs_store *store);

/* Returns the flags of a record's content, with SHFS_CONTENT_PRUNED in place of _OBJECT
 * if the object was pruned. */
uint32_t shfs_index_content_flags(struct shfs_index *index,
                                  const struct shfs_content *content);

/* The name of an operation of an access, as v_access has it ("open" is 0, else enum
 * shfs_pathop); NULL: there is none. Static. */
const char *shfs_index_op_name(int64_t op);

/* As shfs_object_find, in the store of the index. */
_must_check_ int shfs_index_find_object(struct shfs_index *index, const void *data,
                                        size_t len, struct shfs_object_id *id);

struct shfs_index_state {
	int64_t changes; /* another number whenever other processes have changed rows */
	int64_t rebuilt; /* another number after a reindex, a forget: no *_id is valid */
};

/* Gets the state, to compare it with an earlier one of the same open index. */
_must_check_ int shfs_index_look(struct shfs_index *index, struct shfs_index_state *out);

/* Returns the last error in SQLite's words, for a message; borrowed. */
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

/* Bind a parameter; n counts from 1. The bytes are copied. -EINVAL: no such parameter. */
_must_check_ int shfs_rows_bind_int(struct shfs_rows *rows, int n, int64_t value);
_must_check_ int shfs_rows_bind_text(struct shfs_rows *rows, int n, const char *data,
                                     size_t len);
_must_check_ int shfs_rows_bind_str(struct shfs_rows *rows, int n, const char *s);

/* Moves to the next row: 1; 0: none left; or a negative errno. After 0 or reset the rows
 * can be bound and run again. */
_must_check_ int shfs_rows_next(struct shfs_rows *rows);
void shfs_rows_reset(struct shfs_rows *rows);

/* Get a column; columns count from 0. Text is borrowed until the next call on rows, ""
 * for NULL, NUL-terminated; shfs_rows_bytes is its length. */
int64_t shfs_rows_int(struct shfs_rows *rows, int col);
const char *shfs_rows_text(struct shfs_rows *rows, int col);
size_t shfs_rows_bytes(struct shfs_rows *rows, int col);
bool shfs_rows_is_null(struct shfs_rows *rows, int col);
bool shfs_rows_is_int(struct shfs_rows *rows, int col);
int shfs_rows_columns(struct shfs_rows *rows);

/* Gets how many bytes at the begin of a command's id another command's id shares. */
_must_check_ int shfs_command_id_shared(struct shfs_index *index, const char *id,
                                        size_t *out);
