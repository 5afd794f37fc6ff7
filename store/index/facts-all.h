/* SPDX-License-Identifier: MIT */
/* facts-all.h - the facts of the whole index in memory, for facts.c only. */
#pragma once

#include "store/index/internal.h"

struct facts_all;

/* A shfs_access_fn that copies the access to *arg, and ends the walk. */
static inline int facts_copy_access(const struct shfs_access *a, void *arg)
{
	*(struct shfs_access *)arg = *a;
	return 1;
}

/* An aggregate function of SQL, which reads the tables. */
void facts_take_row(sqlite3_context *ctx, int n, sqlite3_value **values);
void facts_end_rows(sqlite3_context *ctx);

/* Loads the whole index. -ERANGE: numbers of rows have large holes, unlike those of
 * ingest.
 */
_must_check_ int facts_all_load(struct shfs_index *index, struct facts_all **out);
void facts_all_free(struct facts_all *all);

/* As in facts.h. */
int facts_all_version(struct facts_all *all, int64_t version_id,
                      struct shfs_version_fact *out);
int facts_all_add_path(struct facts_all *all, int64_t file_id, struct shfs_buf *out);
int facts_all_file(struct facts_all *all, int64_t file_id, struct shfs_file_fact *out);
int facts_all_below(struct facts_all *all, const char *path, shfs_id_fn fn, void *arg);
int facts_all_access(struct facts_all *all, int64_t access_id, struct shfs_access *out);
int facts_all_owner(struct facts_all *all, int64_t access_id, int64_t *command_id);
int facts_all_last_made(struct facts_all *all, int64_t version_id, bool moved,
                        struct shfs_access *out);
int facts_all_program(struct facts_all *all, int64_t process_id, int64_t *program_id);
int facts_all_of_command(struct facts_all *all, int64_t command_id, shfs_access_fn fn,
                         void *arg);
int facts_all_of_process(struct facts_all *all, int64_t process_id, shfs_access_fn fn,
                         void *arg);
int facts_all_of_nobody(struct facts_all *all, int64_t process_id, shfs_access_fn fn,
                        void *arg);
int facts_all_opens_of_file(struct facts_all *all, int64_t file_id, shfs_access_fn fn,
                            void *arg);
int facts_all_processes(struct facts_all *all, int64_t command_id, shfs_process_fn fn,
                        void *arg);
int facts_all_same(struct facts_all *all, int64_t version_id, shfs_id_fn fn, void *arg);
int facts_all_moved(struct facts_all *all, int64_t version_id, shfs_id_fn fn, void *arg);
