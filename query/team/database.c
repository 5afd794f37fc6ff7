/* SPDX-License-Identifier: MIT */
#include "query/team/database.h"

#include "common/exit.h"
#include "common/quote.h"
#include "query/base/cmd.h"
#include "query/base/progress.h"
#include "query/team-schema.h"
#include "query/team/libpq.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEAM_VERSION 3
#define REMOVABLE    2 /* from this version on, rows can be removed */
#define APPLICATION  "shfs"
#define VALUES_MAX   8
#define COLUMNS_MAX  16
#define COPY_BYTES   (1u << 20)

/* Guards the making of the schema; any number that others are unlikely to take. */
#define SCHEMA_LOCK "SELECT pg_advisory_xact_lock(1936221811)"

struct database {
	PGconn *conn;
};

void database_close(struct database *db)
{
	if (!db)
		return;
	libpq.PQfinish(db->conn);
	free(db);
}

/* --- messages --- */

/* Says what the server, or libpq, says: its first line. */
static void say(const char *what, const char *why)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	size_t len = strcspn(why, "\n");

	shfs_progress_end();
	shfs_quote_display(&shown, why, len);
	shfs_error("%s: %s", what, shown.len ? shown.data : "no memory");
}

static bool fail(struct database *db)
{
	bool lost = libpq.PQstatus(db->conn) != CONNECTION_OK;

	say(lost ? "the connection to the database was lost" : "the database",
	    libpq.PQerrorMessage(db->conn));
	if (lost)
		shfs_hint("what was not complete is not there; run it again");
	return false;
}

/* --- the URL --- */

bool database_is_url(const char *url)
{
	return !strncmp(url, "postgresql://", 13) || !strncmp(url, "postgres://", 11);
}

/* A password in the URL would be in the history, and in the list of processes. */
static int check_url(const char *url)
{
	char *why = NULL;
	PQconninfoOption *options = libpq.PQconninfoParse(url, &why);
	bool has_password = false;

	if (!options) {
		say("not the URL of a database", why ?: "no memory");
		libpq.PQfreemem(why);
		return SHFS_EXIT_USAGE;
	}
	for (PQconninfoOption *o = options; o->keyword; o++)
		has_password |= o->val && *o->val &&
		                (!strcmp(o->keyword, "password") ||
		                 !strcmp(o->keyword, "sslpassword"));
	libpq.PQconninfoFree(options);
	if (!has_password)
		return 0;
	shfs_error("a password does not belong into the URL: others can see it there");
	shfs_hint("libpq finds it in ~/.pgpass, or where PGPASSFILE or PGSERVICE say");
	return SHFS_EXIT_USAGE;
}

static void ignore_notice(void *arg, const PGresult *result)
{
}

static int check_encoding(struct database *db)
{
	const char *encoding = libpq.PQparameterStatus(db->conn, "server_encoding");

	if (encoding && !strcmp(encoding, "UTF8"))
		return 0;
	shfs_error("the database's encoding is not UTF8");
	shfs_hint("CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0 makes one");
	return SHFS_EXIT_FAILURE;
}

int database_open(const char *url, struct database **out)
{
	const char *const names[] = { "dbname", "application_name", "client_encoding",
		                      NULL };
	const char *const values[] = { url, "shfs", "UTF8", NULL };
	_cleanup_database_ struct database *db = NULL;
	int code;

	if (!database_is_url(url) || strchr(url, '\n')) {
		shfs_error("not the URL of a database; it begins with postgresql://");
		return SHFS_EXIT_USAGE;
	}
	code = libpq_load();
	if (!code)
		code = check_url(url);
	if (code)
		return code;
	db = calloc(1, sizeof(*db));
	if (db)
		db->conn = libpq.PQconnectdbParams(names, values, 1);
	if (!db || !db->conn) {
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
	if (libpq.PQstatus(db->conn) != CONNECTION_OK) {
		say("cannot connect to the database", libpq.PQerrorMessage(db->conn));
		return SHFS_EXIT_FAILURE;
	}
	libpq.PQsetNoticeReceiver(db->conn, ignore_notice, NULL);
	code = check_encoding(db);
	if (!code)
		*out = TAKE_PTR(db);
	return code;
}

/* --- statements --- */

bool database_run(struct database *db, const char *sql)
{
	PGresult *result = libpq.PQexec(db->conn, sql);
	ExecStatusType status = libpq.PQresultStatus(result);

	libpq.PQclear(result);
	return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || fail(db);
}

static bool each_row(PGresult *result, database_fn fn, void *arg)
{
	const char *row[COLUMNS_MAX];

	for (int i = 0; i < libpq.PQntuples(result); i++) {
		for (int j = 0; j < MIN(libpq.PQnfields(result), COLUMNS_MAX); j++)
			row[j] = libpq.PQgetisnull(result, i, j)
			                 ? NULL
			                 : libpq.PQgetvalue(result, i, j);
		if (fn(arg, row))
			return false;
	}
	return true;
}

bool database_ask(struct database *db, const char *sql, const char *const *values,
                  database_fn fn, void *arg)
{
	PGresult *result;
	int n = 0;
	bool ok;

	while (values && values[n] && n < VALUES_MAX)
		n++;
	result = libpq.PQexecParams(db->conn, sql, n, NULL, values, NULL, NULL, 0);
	if (libpq.PQresultStatus(result) == PGRES_TUPLES_OK)
		ok = !fn || each_row(result, fn, arg);
	else
		ok = libpq.PQresultStatus(result) == PGRES_COMMAND_OK || fail(db);
	libpq.PQclear(result);
	return ok;
}

static int take_int(void *arg, const char *const *row)
{
	*(int64_t *)arg = row[0] ? strtoll(row[0], NULL, 10) : 0;
	return 0;
}

bool database_ask_int(struct database *db, const char *sql, const char *const *values,
                      int64_t *out)
{
	*out = 0;
	return database_ask(db, sql, values, take_int, out);
}

bool database_copy(struct database *db, const char *sql, const char *lines, size_t len)
{
	PGresult *result = libpq.PQexec(db->conn, sql);
	ExecStatusType status = libpq.PQresultStatus(result);
	bool ok = true;

	libpq.PQclear(result);
	if (status != PGRES_COPY_IN)
		return fail(db);
	for (size_t at = 0; at < len && ok; at += COPY_BYTES)
		ok = libpq.PQputCopyData(db->conn, lines + at,
		                         (int)MIN(len - at, (size_t)COPY_BYTES)) == 1;
	if (!ok || libpq.PQputCopyEnd(db->conn, NULL) != 1)
		return fail(db);
	while ((result = libpq.PQgetResult(db->conn))) {
		ok &= libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
		libpq.PQclear(result);
	}
	return ok || fail(db);
}

bool database_copy_out(struct database *db, const char *sql, database_line_fn fn,
                       void *arg)
{
	PGresult *result = libpq.PQexec(db->conn, sql);
	ExecStatusType status = libpq.PQresultStatus(result);
	char *line;
	int len, stopped = 0;
	bool ok = true;

	libpq.PQclear(result);
	if (status != PGRES_COPY_OUT)
		return fail(db);
	while ((len = libpq.PQgetCopyData(db->conn, &line, 0)) > 0) {
		stopped = stopped ? stopped : fn(arg, line, (size_t)len);
		libpq.PQfreemem(line);
		if (stopped)
			return false; /* the connection is of no more use */
	}
	while ((result = libpq.PQgetResult(db->conn))) {
		ok &= libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
		libpq.PQclear(result);
	}
	return (ok && len == -1) || fail(db);
}

/* --- the schema --- */

static int fail_schema(const char *why)
{
	shfs_error("the schema \"shfs\" of the database is not of shfs%s", why);
	shfs_hint("choose another database");
	return SHFS_EXIT_FAILURE;
}

static void hint_at_upgrade(int64_t version)
{
	if (version > TEAM_VERSION)
		shfs_hint("upgrade shfs");
	else if (version >= REMOVABLE)
		shfs_hint("shfs publish --remove removes what this store has there; "
		          "DROP SCHEMA shfs CASCADE removes all: then publish and "
		          "share again");
	else
		shfs_hint("DROP SCHEMA shfs CASCADE, then publish and share again");
}

static int check_version(struct database *db, enum database_use use)
{
	const int64_t oldest = use == DATABASE_REMOVE ? REMOVABLE : TEAM_VERSION;
	int64_t version, ours;

	if (!database_ask_int(db,
	                      "SELECT count(*) FROM information_schema.columns WHERE"
	                      " table_schema = 'shfs' AND table_name = 'schema'"
	                      " AND column_name IN ('application', 'version')",
	                      NULL, &ours))
		return SHFS_EXIT_FAILURE;
	if (ours != 2)
		return fail_schema(", or this role may not use it");
	if (!database_ask_int(db,
	                      "SELECT version FROM shfs.schema"
	                      " WHERE application = '" APPLICATION "'",
	                      NULL, &version))
		return SHFS_EXIT_FAILURE;
	if (version >= oldest && version <= TEAM_VERSION)
		return 0;
	if (version <= 0)
		return fail_schema("");
	shfs_error("the database has version %" PRId64
	           " of the tables, this shfs knows %d",
	           version, TEAM_VERSION);
	hint_at_upgrade(version);
	return SHFS_EXIT_FAILURE;
}

static int make_schema(struct database *db)
{
	char note[96];

	snprintf(note, sizeof(note),
	         "INSERT INTO shfs.schema VALUES ('" APPLICATION "', %d)", TEAM_VERSION);
	return database_run(db, shfs_schema_tables) &&
	                       database_run(db, shfs_schema_rights) &&
	                       database_run(db, shfs_schema_views) &&
	                       database_run(db, note)
	               ? 0
	               : SHFS_EXIT_FAILURE;
}

int database_prepare(struct database *db, enum database_use use, bool *is_there)
{
	const bool make = use == DATABASE_MAKE;
	int64_t there;
	int code = 0;

	if (!database_run(db, "BEGIN") || !database_run(db, SCHEMA_LOCK) ||
	    !database_ask_int(db,
	                      "SELECT count(*) FROM pg_namespace WHERE nspname = 'shfs'",
	                      NULL, &there))
		return SHFS_EXIT_FAILURE;
	*is_there = there || make;
	if (there)
		code = check_version(db, use);
	else if (make)
		code = make_schema(db);
	if (code)
		return code;
	return database_run(db, "COMMIT") ? 0 : SHFS_EXIT_FAILURE;
}
