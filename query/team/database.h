/* SPDX-License-Identifier: MIT */
/*
 * database.h - a PostgreSQL database with a team's index: the schema "shfs".
 *
 * libpq finds passwords and all else that the URL does not say at its usual places. A
 * function that fails has said why on standard error. One thread.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>

struct database;

/* Could it be the URL of a database: "postgresql://…" or "postgres://…"? */
bool database_is_url(const char *url);
/* Connects. Returns an exit code. */
_must_check_ int database_open(const char *url, struct database **out);
void database_close(struct database *db);
static inline void database_closep(struct database **db)
{
	database_close(*db);
}
#define _cleanup_database_ _cleanup_(database_closep)

/* Why database_prepare looks for the schema. */
enum database_use {
	DATABASE_ASK,
	DATABASE_MAKE,   /* it is made if there is none */
	DATABASE_REMOVE, /* rows are only removed: some older versions will do */
};
/* Makes the schema, or looks at its version. *is_there says whether there is one. An exit
 * code. */
_must_check_ int database_prepare(struct database *db, enum database_use use,
                                  bool *is_there);

/* Runs statements without results. False after a message. */
_must_check_ bool database_run(struct database *db, const char *sql);

/* A row of a result: texts, NULL where the value is NULL; borrowed. Non-zero ends it. */
typedef int (*database_fn)(void *arg, const char *const *row);
/* Runs one statement with texts for $1, $2, …, which end with a NULL, and calls fn for
 * each row. False after a message, or where fn has returned another value than 0. */
_must_check_ bool database_ask(struct database *db, const char *sql,
                               const char *const *values, database_fn fn, void *arg);
/* Asks for one number. */
_must_check_ bool database_ask_int(struct database *db, const char *sql,
                                   const char *const *values, int64_t *out);

/* Sends lines of COPY's text format; sql is the COPY. False after a message. */
_must_check_ bool database_copy(struct database *db, const char *sql, const char *lines,
                                size_t len);

/* A line of COPY's text format with its newline, borrowed. Non-zero ends it. */
typedef int (*database_line_fn)(void *arg, const char *line, size_t len);
/* Runs a COPY to here and calls fn for each line. False after a message, or where fn has
 * returned another value than 0: then the connection can only be closed. */
_must_check_ bool database_copy_out(struct database *db, const char *sql,
                                    database_line_fn fn, void *arg);
