/* SPDX-License-Identifier: MIT */
/*
 * index.h - index.db: what the journal says, as rows that can be asked.
 *
 * SQLite lives behind this header. Everything in the index is derived: deleting it loses
 * nothing, shfs_index_rebuild makes the same answers again. The contract for queries are
 * the views v_* in store/schema/views.sql (described in docs/index.md); tables are named
 * only in store/.
 *
 * A struct shfs_index belongs to one thread. Several processes may have the index open.
 */
#pragma once

#include "store/store.h"

#include <stdbool.h>

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
 * Takes in all that the journal has and the index has not, in transactions of bounded
 * size, each of which also commits how far it read. Idempotent. stats may be NULL.
 * hook_dir: shfs_runtime_hook_dir, from which logs are copied into the journal first, or
 * NULL. Where that fails, the rest is taken in all the same.
 */
_must_check_ int shfs_index_ingest(struct shfs_index *index, const char *hook_dir,
                                   struct shfs_ingest_stats *stats);

/* Throws the index away (made anew beside the old one, then renamed over it) and ingests
 * all. */
_must_check_ int shfs_index_rebuild(struct shfs_store *store, const char *hook_dir,
                                    struct shfs_ingest_stats *stats);

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
