/* SPDX-License-Identifier: MIT */
#include "store/index/internal.h"

#include "common/debug.h"
#include "common/io.h"
#include "common/path.h"
#include "schema.h"
#include "store/index-dir.h"
#include "store/objects/codec.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define INDEX_NAME     "index.db"
#define DAMAGED_NAME   "index.db.damaged"
#define APPLICATION_ID 0x73686673 /* "shfs" */
#define SCHEMA_VERSION 35
#define REOPEN_MS      1000
#define LOOK_AGAIN_MS  100

int shfs_index_errno(sqlite3 *db, int rc)
{
	int system = db ? sqlite3_system_errno(db) : 0;

	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EBADMSG;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	case SQLITE_TOOBIG:
		return -EFBIG;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		return system > 0 ? -system : -EIO;
	default:
		return -EINVAL;
	}
}

int shfs_index_rc(int r)
{
	switch (r) {
	case 0:
		return SQLITE_OK;
	case -ENOMEM:
		return SQLITE_NOMEM;
	case -EBUSY:
		return SQLITE_BUSY;
	case -EBADMSG:
	case -EINVAL:
		return SQLITE_CORRUPT_VTAB;
	default:
		errno = -r; /* SQLite reads the system's error from errno */
		return SQLITE_IOERR;
	}
}

const char *shfs_index_error(struct shfs_index *index)
{
	return sqlite3_errmsg(index->db);
}

/* --- statements --- */

struct shfs_stmt {
	const char *sql;
	sqlite3_stmt *stmt;     /* of shfs_sql_get */
	sqlite3_stmt *spare[4]; /* given back by shfs_stmt_give */
	UT_hash_handle hh;
};

/* Returns the entry of a statement; NULL: no memory. */
static struct shfs_stmt *stmts_of(struct shfs_index *index, const char *sql)
{
	struct shfs_stmt *s;

	HASH_FIND_PTR(index->stmts, &sql, s);
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->sql = sql;
	HASH_ADD_PTR(index->stmts, sql, s);
	if (s->hh.tbl)
		return s;
	free(s);
	return NULL;
}

static int stmt_prepare(struct shfs_index *index, const char *sql, sqlite3_stmt **out)
{
	return shfs_index_errno(index->db,
	                        sqlite3_prepare_v3(index->db, sql, -1,
	                                           SQLITE_PREPARE_PERSISTENT, out, NULL));
}

int shfs_stmt_take(struct shfs_index *index, const char *sql, sqlite3_stmt **out)
{
	struct shfs_stmt *s = stmts_of(index, sql);

	for (size_t i = 0; s && i < ARRAY_SIZE(s->spare); i++)
		if (s->spare[i]) {
			*out = TAKE_PTR(s->spare[i]);
			return 0;
		}
	return s ? stmt_prepare(index, sql, out) : -ENOMEM;
}

void shfs_stmt_give(struct shfs_index *index, const char *sql, sqlite3_stmt *stmt)
{
	struct shfs_stmt *s = stmt ? stmts_of(index, sql) : NULL;

	sqlite3_reset(stmt);
	for (size_t i = 0; s && stmt && i < ARRAY_SIZE(s->spare); i++)
		if (!s->spare[i])
			s->spare[i] = TAKE_PTR(stmt);
	sqlite3_finalize(stmt);
}

static void stmts_free(struct shfs_index *index)
{
	struct shfs_stmt *s, *next;

	HASH_ITER (hh, index->stmts, s, next) {
		HASH_DEL(index->stmts, s);
		sqlite3_finalize(s->stmt);
		for (size_t i = 0; i < ARRAY_SIZE(s->spare); i++)
			sqlite3_finalize(s->spare[i]);
		free(s);
	}
}

/* Binds an argument. Bytes are borrowed: the statement is stepped or bound anew before
 * they are freed. */
static int bind_arg(sqlite3_stmt *stmt, int n, const struct shfs_arg *arg)
{
	const char *data = arg->bytes.len ? arg->bytes.data : "";

	switch (arg->type) {
	case SHFS_ARG_INT:
		return sqlite3_bind_int64(stmt, n, arg->value);
	case SHFS_ARG_TEXT:
		return sqlite3_bind_text64(stmt, n, data, arg->bytes.len, SQLITE_STATIC,
		                           SQLITE_UTF8);
	case SHFS_ARG_BLOB:
		return sqlite3_bind_blob64(stmt, n, data, arg->bytes.len, SQLITE_STATIC);
	default:
		return sqlite3_bind_null(stmt, n);
	}
}

int shfs_sql_get_args(struct shfs_index *index, sqlite3_stmt **out, const char *sql,
                      const struct shfs_arg *args, size_t n)
{
	struct shfs_stmt *s = stmts_of(index, sql);
	int r = !s ? -ENOMEM : s->stmt ? 0 : stmt_prepare(index, sql, &s->stmt);
	sqlite3_stmt *stmt;

	if (r)
		return r;
	stmt = s->stmt;
	sqlite3_reset(stmt);
	for (size_t i = 0; i < n; i++) {
		int rc = bind_arg(stmt, i + 1, &args[i]);

		if (rc)
			return shfs_index_errno(index->db, rc);
	}
	*out = stmt;
	return shfs_sql_next(index, stmt);
}

int shfs_sql_next(struct shfs_index *index, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);

	return rc == SQLITE_ROW ? 1 : shfs_index_errno(index->db, rc);
}

int shfs_sql_run_args(struct shfs_index *index, const char *sql,
                      const struct shfs_arg *args, size_t n)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(index, &stmt, sql, args, n);

	while (r > 0)
		r = shfs_sql_next(index, stmt);
	return r;
}

int shfs_sql_int_args(struct shfs_index *index, int64_t *out, const char *sql,
                      const struct shfs_arg *args, size_t n)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(index, &stmt, sql, args, n);

	if (r > 0)
		*out = sqlite3_column_int64(stmt, 0);
	return r;
}

static int exec(struct shfs_index *index, const char *sql)
{
	return shfs_index_errno(index->db,
	                        sqlite3_exec(index->db, sql, NULL, NULL, NULL));
}

/* Gets the value of a PRAGMA or a count; the statement is not cached, as it is run once.
 */
static int query_number(struct shfs_index *index, const char *sql, int64_t *out)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(index->db, sql, -1, &stmt, NULL);

	if (!rc)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		*out = sqlite3_column_int64(stmt, 0);
	else if (rc == SQLITE_DONE)
		rc = SQLITE_CORRUPT;
	sqlite3_finalize(stmt);
	return shfs_index_errno(index->db, rc);
}

/* --- opening --- */

/* Makes the file of the database, whose mode SQLite takes for its other files. */
static int make_file(struct shfs_store *store, const char *name)
{
	_cleanup_close_ int fd = openat(store->index_fd, name,
	                                O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	return fchmod(fd, 0600) ? -errno : 0;
}

static int check_file(struct shfs_store *store, const char *name)
{
	struct stat st;

	if (fstatat(store->index_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : -EBADMSG;
}

static int configure(struct shfs_index *index)
{
	sqlite3 *db = index->db;

	sqlite3_extended_result_codes(db, 1);
	sqlite3_busy_timeout(db, SHFS_BUSY_MS);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	/* this database has no triggers */
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
	return shfs_index_errno(db, shfs_functions_register(db, index)
	                                    ?: shfs_version_functions_register(db)
	                                    ?: shfs_access_table_register(db, index));
}

/* Makes a name that says to SQLite that nobody writes to the file, and that it has no
 * log.
 */
static int print_immutable(const char *path, struct shfs_buf *out)
{
	shfs_buf_str(out, "file:");
	for (; *path; path++)
		if (strchr("%?#", *path))
			shfs_buf_printf(out, "%%%02x", *path);
		else
			shfs_buf_char(out, *path);
	shfs_buf_str(out, "?immutable=1");
	return out->failed ? -ENOMEM : 0;
}

static int open_database(struct shfs_store *store, const char *name, bool writable,
                         bool immutable, struct shfs_index **out)
{
	_cleanup_index_ struct shfs_index *index = calloc(1, sizeof(*index));
	_cleanup_free_ char *path = NULL;
	_cleanup_buf_ struct shfs_buf uri = { 0 };
	int r, rc;

	if (store->index_fd < 0)
		return store->index_fd;
	path = shfs_path_join(store->index_path, name);
	if (!index || !path)
		return -ENOMEM;
	r = immutable ? print_immutable(path, &uri) : 0;
	if (!r && writable)
		r = make_file(store, name);
	if (!r)
		r = check_file(store, name);
	if (r)
		return r;
	index->store = store;
	index->read_only = writable ? 0 : -EROFS;
	index->codecs = codecs_new();
	if (!index->codecs)
		return -ENOMEM;
	/* SQLite need not count its memory, under a lock; later than at first it cannot
	 * be told so */
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	rc = sqlite3_open_v2(immutable ? uri.data : path, &index->db,
	                     (writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
	                             (immutable ? SQLITE_OPEN_URI : 0) |
	                             SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
	                     NULL);
	if (rc)
		return shfs_index_errno(index->db, rc);
	r = configure(index);
	if (r)
		return r;
	*out = TAKE_PTR(index);
	return 0;
}

enum state {
	STATE_EMPTY,
	STATE_CURRENT,
	STATE_OLDER,
};

/* Was the index made before records were told to be another machine's, or this one's? So
 * it is after an import that was interrupted. A list that cannot be read says nothing. */
static bool has_other_trees(struct shfs_index *index)
{
	_cleanup_trees_ struct shfs_trees *trees = NULL;
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	bool other = false;
	int r = shfs_trees_load(index->store, &trees);

	r = r ? r : shfs_sql_get(index, &stmt, "SELECT host, boot, tree FROM boot");
	for (; r > 0 && !other; r = shfs_sql_next(index, stmt)) {
		const char *host = (const char *)sqlite3_column_text(stmt, 0),
			   *boot = (const char *)sqlite3_column_text(stmt, 1),
			   *tree = (const char *)sqlite3_column_text(stmt, 2);

		if (host && boot && tree)
			other = strcmp(tree,
			               shfs_trees_of_boot(trees, shfs_bytes_str(host),
			                                  shfs_bytes_str(boot))
			                       ?: "") != 0;
	}
	return other;
}

/* Returns an enum state; or an error if the database must not be changed by us. */
static int examine(struct shfs_index *index)
{
	int64_t id = 0, version = 0, objects = 0;
	int r = query_number(index, "PRAGMA application_id", &id);

	if (!r)
		r = query_number(index, "PRAGMA user_version", &version);
	if (!r)
		r = query_number(index, "SELECT count(*) FROM sqlite_schema", &objects);
	if (r)
		return r;
	if (!id && !version && !objects)
		return STATE_EMPTY;
	if (id != APPLICATION_ID || version < 1)
		return -EBADMSG;
	if (version > SCHEMA_VERSION)
		return -EPROTONOSUPPORT;
	if (version < SCHEMA_VERSION)
		return STATE_OLDER;
	return has_other_trees(index) ? STATE_OLDER : STATE_CURRENT;
}

/* Drops everything of an older schema: the next ingest makes it again. */
int shfs_index_drop_all(struct shfs_index *index)
{
	int r;

	do {
		_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
		_cleanup_free_ char *drop = NULL;

		r = shfs_sql_get(index, &stmt,
		                 "SELECT printf('DROP %s \"%w\"', type, name)"
		                 " FROM sqlite_schema WHERE type IN ('table', 'view')"
		                 " AND substr(name, 1, 7) <> 'sqlite_' LIMIT 1");
		if (r <= 0)
			return r;
		drop = strdup((const char *)sqlite3_column_text(stmt, 0));
		shfs_stmt_resetp(&stmt);
		r = drop ? exec(index, drop) : -ENOMEM;
	} while (!r);
	return r;
}

/* Makes the schema in one transaction, so that a crash leaves the old state or the new
 * one, and only one of two processes makes it. */
static int make_schema(struct shfs_index *index, bool anew)
{
	char numbers[96];
	int r = exec(index, "BEGIN IMMEDIATE"), state;

	if (r)
		return r;
	state = examine(index);
	r = state < 0 ? state : 0;
	if (state == STATE_CURRENT && anew)
		state = STATE_OLDER;
	if (state == STATE_OLDER)
		r = shfs_index_drop_all(index);
	if (!r && state != STATE_CURRENT) {
		snprintf(numbers, sizeof(numbers),
		         "PRAGMA application_id = %d; PRAGMA user_version = %d",
		         APPLICATION_ID, SCHEMA_VERSION);
		r = exec(index, shfs_schema_tables);
		if (!r)
			r = exec(index, shfs_schema_views);
		if (!r)
			r = exec(index, numbers);
	}
	if (!r)
		r = exec(index, "COMMIT");
	if (r && !sqlite3_get_autocommit(index->db))
		sqlite3_exec(index->db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

/* Examines in one transaction, as another process may be making the schema just now. */
static int examine_at_once(struct shfs_index *index)
{
	int r = exec(index, "BEGIN"), state;

	if (r)
		return r;
	state = examine(index);
	r = exec(index, "ROLLBACK");
	return state >= 0 && r ? r : state;
}

/* Switches the database to a write-ahead log. 1: done; 0: not possible, which is no
 * error.
 */
static int switch_to_log(struct shfs_index *index)
{
	sqlite3_stmt *stmt;
	int rc = sqlite3_prepare_v2(index->db, "PRAGMA journal_mode = WAL", -1, &stmt,
	                            NULL);
	bool is_log = false;

	if (rc) /* a damaged schema is found here; there is no statement then */
		return shfs_index_errno(index->db, rc);
	if (sqlite3_step(stmt) == SQLITE_ROW)
		is_log = !strcmp((const char *)sqlite3_column_text(stmt, 0), "wal");
	rc = sqlite3_finalize(stmt);
	return rc ? shfs_index_errno(index->db, rc) : is_log;
}

/* Switches to the log, and waits if two processes do so at once: SQLite does not. */
static int use_log(struct shfs_index *index)
{
	for (int ms = 0;; ms += 10) {
		int r = switch_to_log(index);

		if (r == 1)
			return 0;
		if ((r && r != -EBUSY) || ms >= SHFS_BUSY_MS)
			return r ? r : -EBUSY;
		sqlite3_sleep(10);
	}
}

int shfs_index_open_file(struct shfs_store *store, const char *name,
                         struct shfs_index **out)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	int r = open_database(store, name, true, false, &index) ?: use_log(index);

	if (!r)
		*out = TAKE_PTR(index);
	return r;
}

/* Empties the index, so that nothing old stays in its files; does not wait for readers.
 */
static int begin_anew(struct shfs_index *index, uint64_t number)
{
	int r = exec(index, "PRAGMA secure_delete = ON");

	if (!r)
		r = make_schema(index, true);
	if (!r)
		r = exec(index, "PRAGMA wal_checkpoint(TRUNCATE);"
		                "PRAGMA secure_delete = OFF");
	return r ? r : index_dir_note(index->store, number);
}

static int prepare_writing(struct shfs_index *index)
{
	uint64_t number = 0;
	int state = examine_at_once(index);
	int r = state < 0 ? state : 0;

	if (!r)
		r = use_log(index);
	if (!r)
		r = exec(index, "PRAGMA synchronous = NORMAL;"
		                "PRAGMA journal_size_limit = 67108864;"
		                "PRAGMA cache_size = -4096; PRAGMA temp_store = MEMORY");
	if (!r && state != STATE_CURRENT)
		r = make_schema(index, false);
	if (!r)
		r = index_dir_is_stale(index->store, &number);
	return r > 0 ? begin_anew(index, number) : r;
}

static int prepare_reading(struct shfs_index *index)
{
	int state = examine_at_once(index);

	if (state < 0)
		return state;
	if (state != STATE_CURRENT)
		return state == STATE_EMPTY ? -ENOENT : -ESTALE;
	return exec(index, "PRAGMA temp_store = MEMORY");
}

/* Opens for writing, again if it fails: another process may be removing the log. */
static int open_writing(struct shfs_store *store, struct shfs_index **out)
{
	for (int ms = 0;; ms += 10) {
		_cleanup_index_ struct shfs_index *index = NULL;
		int r = open_database(store, INDEX_NAME, true, false, &index);

		if (r)
			return r;
		r = prepare_writing(index);
		if (!r)
			*out = TAKE_PTR(index);
		if (r != -ENOENT || ms >= REOPEN_MS)
			return r;
		sqlite3_sleep(10);
	}
}

/* Opens for reading if there is no room for the files of SQLite's log: as an immutable
 * file; or, if the log is not empty, locked for us alone (its shared memory is then in
 * our own memory, not a file). */
static int open_frozen(struct shfs_store *store, struct shfs_index **out)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	struct stat st;
	bool log =
		!fstatat(store->index_fd, INDEX_NAME "-wal", &st, AT_SYMLINK_NOFOLLOW) &&
		st.st_size;
	int r = open_database(store, INDEX_NAME, log, !log, &index);

	if (r)
		return r;
	index->read_only = -EROFS;
	sqlite3_busy_timeout(index->db, 0);
	sqlite3_db_config(index->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	r = exec(index, log ? "PRAGMA locking_mode = EXCLUSIVE; PRAGMA query_only = ON"
	                    : "PRAGMA query_only = ON");
	if (!r)
		r = prepare_reading(index);
	if (!r)
		*out = TAKE_PTR(index);
	return r;
}

static int open_frozen_patiently(struct shfs_store *store, struct shfs_index **out)
{
	for (int ms = 0;; ms += 10) {
		int r = open_frozen(store, out);

		if (r != -EBUSY || ms >= SHFS_BUSY_MS)
			return r;
		sqlite3_sleep(10);
	}
}

static int open_reading(struct shfs_store *store, struct shfs_index **out)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	int r = open_database(store, INDEX_NAME, false, false, &index);

	if (r)
		return r;
	r = prepare_reading(index);
	if (!r)
		*out = TAKE_PTR(index);
	if (!shfs_takes_nothing(r) && r != -ENOENT)
		return r;
	shfs_index_close(TAKE_PTR(index));
	return open_frozen_patiently(store, out);
}

int shfs_index_open(struct shfs_store *store, enum shfs_index_flags flags,
                    struct shfs_index **out)
{
	return flags & SHFS_INDEX_WRITE ? open_writing(store, out)
	                                : open_reading(store, out);
}

/* Finds out why the index cannot be written: SQLite says ENOENT of a log that it cannot
 * make. */
static int why_not(struct shfs_store *store, int error)
{
	if (error != -ENOENT)
		return error;
	return faccessat(store->index_fd, ".", W_OK, 0) ? -errno : -ENOSPC;
}

int shfs_index_open_to_ask(struct shfs_store *store, struct shfs_index **out)
{
	int r = shfs_index_open(store, SHFS_INDEX_WRITE, out), error = r;

	if (!shfs_takes_nothing(r) && r != -EACCES && r != -ENOENT)
		return r;
	r = shfs_index_open(store, SHFS_INDEX_READ, out);
	if (!r)
		(*out)->read_only = why_not(store, error);
	if (r == -ESTALE) /* it would have been made anew */
		return why_not(store, error);
	return r == -ENOENT && shfs_takes_nothing(error) ? error : r;
}

/*
 * Copies all pages in one transaction: other processes that have the index open go on
 * with the new rows. (A rename over the file would leave them with the old file, and one
 * of them would delete the new file's log when it closes.)
 */
static int copy_over(struct shfs_index *from, struct shfs_index *to)
{
	sqlite3_backup *backup = sqlite3_backup_init(to->db, "main", from->db, "main");
	int rc;

	if (!backup)
		return shfs_index_errno(to->db, sqlite3_errcode(to->db));
	rc = sqlite3_backup_step(backup, -1);
	sqlite3_backup_finish(backup);
	return rc == SQLITE_DONE ? 0 : shfs_index_errno(to->db, rc);
}

int shfs_index_look(struct shfs_index *index, struct shfs_index_state *out)
{
	int r = query_number(index, "PRAGMA data_version", &out->changes);

	return r ? r : query_number(index, "PRAGMA schema_version", &out->rebuilt);
}

/* --- in memory --- */

static int check_size(struct shfs_index *index)
{
	int64_t pages = 0, bytes = 0;
	int r = query_number(index, "PRAGMA page_count", &pages);

	if (!r)
		r = query_number(index, "PRAGMA page_size", &bytes);
	return !r && (uint64_t)(pages * bytes) > SHFS_INDEX_MEMORY_MAX ? -EFBIG : r;
}

static int open_empty(struct shfs_store *store, struct shfs_index **out)
{
	_cleanup_index_ struct shfs_index *index = calloc(1, sizeof(*index));
	int r, rc;

	if (!index || !(index->codecs = codecs_new()))
		return -ENOMEM;
	index->store = store;
	rc = sqlite3_open_v2(":memory:", &index->db,
	                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
	                             SQLITE_OPEN_EXRESCODE,
	                     NULL);
	r = rc ? shfs_index_errno(index->db, rc) : configure(index);
	if (!r)
		*out = TAKE_PTR(index);
	return r;
}

int shfs_index_open_in_memory(struct shfs_store *store, struct shfs_index *from,
                              struct shfs_index **out)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	char limit[64];
	uint64_t number;
	int64_t bytes = 0;
	int r = open_empty(store, &index);

	if (!r && from)
		r = index_dir_is_stale(store, &number);
	if (r > 0) /* stale: its records were forgotten on another host */
		r = 0, from = NULL;
	if (!r && from)
		r = check_size(from);
	if (!r)
		r = from ? copy_over(from, index) : make_schema(index, false);
	if (!r)
		r = query_number(index, "PRAGMA page_size", &bytes);
	if (r)
		return r;
	snprintf(limit, sizeof(limit),
	         "PRAGMA temp_store = MEMORY; PRAGMA max_page_count = %" PRIu64,
	         SHFS_INDEX_MEMORY_MAX / (uint64_t)MAX(bytes, 1));
	r = exec(index, limit);
	if (!r)
		*out = TAKE_PTR(index);
	return r;
}

void shfs_index_close(struct shfs_index *index)
{
	if (!index)
		return;
	stmts_free(index);
	shfs_rows_drop_kept(index);
	sqlite3_close(index->db);
	codecs_free(index->codecs);
	free(index);
}

/* --- rebuilding --- */

/*
 * The new index grows in a file of its own, which no other process reads: it need not be
 * durable, and is deleted after a crash. Hosts that share a store have one each.
 */
struct shfs_draft {
	struct shfs_store *store;
	int lock; /* only one draft at a time on this host */
	char name[sizeof("index.db.new-") + 64];
	struct shfs_index *index;
};

void shfs_draft_close(struct shfs_draft *d)
{
	if (!d)
		return;
	shfs_index_close(d->index);
	if (d->lock >= 0)
		unlinkat(d->store->index_fd, d->name, 0);
	shfs_closep(&d->lock);
	free(d);
}

static void draft_closep(struct shfs_draft **d)
{
	shfs_draft_close(*d);
}

struct shfs_index *shfs_draft_index(struct shfs_draft *d)
{
	return d->index;
}

static int draft_begin(struct shfs_draft *d)
{
	int r = d->lock = shfs_store_lock(d->store->path, "reindex", SHFS_BUSY_MS);

	if (r < 0)
		return r == -EADDRINUSE ? -EBUSY : r;
	unlinkat(d->store->index_fd, d->name, 0); /* a crash may have left one */
	r = open_database(d->store, d->name, true, false, &d->index);
	if (!r)
		r = exec(d->index,
		         "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF;"
		         "PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
		         "PRAGMA temp_store = MEMORY");
	return r ? r : make_schema(d->index, false);
}

int shfs_draft_open(struct shfs_store *store, const char *hook_dir,
                    struct shfs_trace *trace, struct shfs_ingest_stats *stats,
                    struct shfs_draft **out)
{
	_cleanup_(draft_closep) struct shfs_draft *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	*d = (struct shfs_draft){ .store = store, .lock = -1 };
	snprintf(d->name, sizeof(d->name), "index.db.new-%s", store->host);
	r = draft_begin(d);
	if (r)
		return r;
	d->index->trace = trace;
	r = shfs_index_ingest(d->index, hook_dir, stats);
	if (r)
		return r;
	*out = TAKE_PTR(d);
	return 0;
}

/* Makes the name of the nth index that was set aside. */
static void damaged_name(unsigned n, char out[static sizeof(DAMAGED_NAME) + 12])
{
	sprintf(out, n ? DAMAGED_NAME ".%u" : DAMAGED_NAME, n);
}

/* Sets aside a file that is in the index's place and cannot be read (of a newer shfs, or
 * of another program). Its log must not become that of its successor. */
static int move_index_aside(struct shfs_store *store)
{
	char name[sizeof(DAMAGED_NAME) + 12];
	unsigned n = 0;

	do
		damaged_name(n++, name);
	while (!faccessat(store->index_fd, name, F_OK, AT_SYMLINK_NOFOLLOW));
	if (renameat(store->index_fd, INDEX_NAME, store->index_fd, name))
		return -errno;
	unlinkat(store->index_fd, INDEX_NAME "-wal", 0);
	unlinkat(store->index_fd, INDEX_NAME "-shm", 0);
	return 0;
}

/* Opens the index that is to be replaced. No other process sets it aside now, as we hold
 * the lock of the draft. It is set aside only if two attempts to open it fail. */
static int open_target(struct shfs_store *store, struct shfs_index **out)
{
	int r = -EBADMSG;

	for (int looks = 0; looks < 2; looks++) {
		r = shfs_index_open(store, SHFS_INDEX_WRITE, out);
		if (r != -EBADMSG && r != -EPROTONOSUPPORT)
			return r;
		sqlite3_sleep(LOOK_AGAIN_MS);
	}
	shfs_debug(INGEST, "the index cannot be read (%s): moved aside",
	           strerrordesc_np(-r));
	r = move_index_aside(store);
	return r ? r : shfs_index_open(store, SHFS_INDEX_WRITE, out);
}

int shfs_index_rebuild(struct shfs_store *store, const char *hook_dir,
                       struct shfs_ingest_stats *stats)
{
	_cleanup_(draft_closep) struct shfs_draft *draft = NULL;
	_cleanup_index_ struct shfs_index *target = NULL;
	int r = shfs_draft_open(store, hook_dir, NULL, stats, &draft);

	if (!r)
		r = open_target(store, &target);
	if (!r)
		r = copy_over(draft->index, target);
	return r;
}

/* Removes the files set aside that once were an index: they may have forgotten rows. */
static int remove_damaged(struct shfs_store *store)
{
	char name[sizeof(DAMAGED_NAME) + 12];

	for (unsigned n = 0;; n++) {
		_cleanup_close_ int fd = -1;
		unsigned char head[100];
		struct shfs_cursor id = { head + 68, head + 72, false };

		damaged_name(n, name);
		if (faccessat(store->index_fd, name, F_OK, AT_SYMLINK_NOFOLLOW))
			return errno == ENOENT ? 0 : -errno;
		fd = openat(store->index_fd, name,
		            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0 ||
		    shfs_pread_full(fd, head, sizeof(head), 0) != sizeof(head) ||
		    be32toh(shfs_cursor_u32(&id)) != APPLICATION_ID)
			continue;
		if (unlinkat(store->index_fd, name, 0))
			return -errno;
	}
}

/* Empties the log, which may hold old pages; waits for readers that are at work. */
int shfs_index_clean(struct shfs_store *store)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	int64_t busy = 1;
	int r = shfs_index_open(store, SHFS_INDEX_WRITE, &index);

	if (!r)
		r = remove_damaged(store);
	if (!r)
		r = query_number(index, "PRAGMA wal_checkpoint(TRUNCATE)", &busy);
	return r ? r : busy ? -EBUSY : 0;
}
