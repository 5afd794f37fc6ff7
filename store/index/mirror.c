/* SPDX-License-Identifier: MIT */
#include "store/index/mirror.h"

#include "store/index/internal.h"
#include "store/mirror-schema.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define MIRROR_NAME    "mirror.db"
#define MIRROR_VERSION 4
#define WAIT_ROUNDS    60 /* of SHFS_BUSY_MS, for another that reads the database */
#define COLUMNS_MAX    32
#define WORD_MAX       43 /* the id of a content */
#define KEY            1  /* the parameter of a key: the first column's */

const struct shfs_mirror_table shfs_mirror_tables[] = {
	{ "producer", "producer_id",
	  "producer_id, host, kind, root, pid, boot_id, begin_ns, end_ns, dead, records,"
	  " lost",
	  "Ittpitiiiii" },
	{ "session", "session_id",
	  "session_id, id, host, boot_id, pid, start_ticks, shell, tty, cwd, begin_ns,"
	  " end_ns, commands, invoker, caller_id, origin",
	  "IhttiittpiiitIt" },
	{ "command", "command_id",
	  "command_id, id, session_id, session, host, number, text, hidden, redacted, "
	  "cwd,"
	  " begin_ns, end_ns, status, invoker, shell, process_id, user_us, system_us,"
	  " max_rss_kib, n_accesses, n_read, n_written, n_skipped, n_incomplete",
	  "IhIhtitiipiiittIiiiiiiii" },
	{ "definition", "command_id", "command_id, position, definition", "Iib" },
	{ "process", "process_id",
	  "process_id, host, pid, start_ticks, ppid, pgid, sid, uid, exe, cwd, argv,"
	  " streams, environment, program_id, command_id, session_id, first_ns, shell,"
	  " n_accesses, outside",
	  "ItiiiiiixpbsbIIIiiii" },
	{ "exit", "process_id",
	  "process_id, command_id, status, user_us, system_us, max_rss_kib", "IIiiii" },
	{ "program", "program_id",
	  "program_id, host, boot_id, path, since_ns, process_id, size, mtime_ns, phash,"
	  " manager, package, version",
	  "IttpiIiiittt" },
	{ "lookup", "lookup_id",
	  "lookup_id, producer_id, root, begin_ns, last_ns, process_id, command_id,"
	  " session_id, list",
	  "IIpiiIIIB" },
	{ "file", "file_id",
	  "file_id, path, dir, name, name_key, root, versions, present, last_ns,"
	  " directory",
	  "I-dtipiiii" },
	{ "version", "version_id",
	  "version_id, file_id, n, object, flags, size, mode, mtime_ns, phash, source,"
	  " origin_version_id, access_id, process_id, command_id, time_ns, carried, "
	  "again",
	  "VIiciiiiiwVAIIiii" },
	{ "access", "access_id",
	  "access_id, op, is_open, flags, is_read, is_written, process_id, command_id,"
	  " session_id, file_id, file2_id, text, directory, begin_ns, end_ns, seen_n,"
	  " seen_flawed, made_n, seq_key",
	  "AoiiiiIIIIIbiiiiiii" },
	{ "former", "access_id", "access_id, n, file_id, data", "AiIB" },
	{ "note", "note_id",
	  "note_id, command, path, version_ns, tag, text, time_ns, host, command_id",
	  "IHPittitI" },
	{ "gap", "producer_id", "producer_id, host, root, begin_ns, end_ns", "Itpii" },
	{ NULL },
};

/* --- opening --- */

static int exec_all(struct shfs_index *mirror, const char *sql)
{
	return shfs_index_errno(mirror->db,
	                        sqlite3_exec(mirror->db, sql, NULL, NULL, NULL));
}

/* Makes the tables, or those of another version anew, in one transaction. */
static int make_tables(struct shfs_index *mirror)
{
	char number[48];
	int64_t version = 0;
	int r = shfs_mirror_begin(mirror);

	if (!r)
		r = MIN(shfs_sql_int(mirror, &version, "PRAGMA user_version"), 0);
	if (!r && version != MIRROR_VERSION) {
		snprintf(number, sizeof(number), "PRAGMA user_version = %d",
		         MIRROR_VERSION);
		r = shfs_index_drop_all(mirror) ?: exec_all(mirror, shfs_schema_mirror)
		                                ?: exec_all(mirror, number);
	}
	if (!r)
		return shfs_mirror_commit(mirror);
	shfs_mirror_rollback(mirror);
	return r;
}

int shfs_mirror_open(struct shfs_store *at, struct shfs_store *store,
                     struct shfs_index **out)
{
	_cleanup_index_ struct shfs_index *mirror = NULL;
	int64_t version = 0;
	int r = shfs_index_open_file(at, MIRROR_NAME, &mirror);

	if (!r)
		r = exec_all(mirror, "PRAGMA synchronous = NORMAL;"
		                     "PRAGMA secure_delete = ON;"
		                     "PRAGMA cache_size = -16384;"
		                     "PRAGMA temp_store = MEMORY");
	if (!r)
		r = MIN(shfs_sql_int(mirror, &version, "PRAGMA user_version"), 0);
	if (!r && version != MIRROR_VERSION)
		r = make_tables(mirror);
	if (r)
		return r;
	mirror->store = store;
	mirror->is_mirror = true;
	*out = TAKE_PTR(mirror);
	return 0;
}

int shfs_mirror_remove(struct shfs_store *at)
{
	static const char *const names[] = { MIRROR_NAME, MIRROR_NAME "-wal",
		                             MIRROR_NAME "-shm" };
	int r = at->index_fd < 0 ? at->index_fd : 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && !r; i++)
		if (unlinkat(at->index_fd, names[i], 0) && errno != ENOENT)
			r = -errno;
	return r;
}

bool shfs_mirror_remove_damaged(struct shfs_index *index)
{
	static const char *const ends[] = { "", "-wal", "-shm" };
	const char *file =
		index && index->is_mirror ? sqlite3_db_filename(index->db, "main") : NULL;

	for (size_t i = 0; i < ARRAY_SIZE(ends) && file; i++) {
		_cleanup_buf_ struct shfs_buf path = { 0 };

		shfs_buf_printf(&path, "%s%s", file, ends[i]);
		if (path.failed || (unlink(path.data) && errno != ENOENT))
			return false;
	}
	return file;
}

/* --- transactions --- */

int shfs_mirror_begin(struct shfs_index *mirror)
{
	int r;

	for (int i = 0; i < WAIT_ROUNDS; i++) {
		r = exec_all(mirror, "BEGIN IMMEDIATE");
		if (r != -EBUSY)
			break;
	}
	return r;
}

/* Rows that were removed are still in the log until it is emptied. */
int shfs_mirror_commit(struct shfs_index *mirror)
{
	bool changed = sqlite3_total_changes(mirror->db);
	int r = exec_all(mirror, "COMMIT");

	if (!r && changed)
		r = exec_all(mirror, "PRAGMA wal_checkpoint(TRUNCATE)");
	return r == -EBUSY ? 0 : r;
}

void shfs_mirror_rollback(struct shfs_index *mirror)
{
	if (!sqlite3_get_autocommit(mirror->db))
		sqlite3_exec(mirror->db, "ROLLBACK", NULL, NULL, NULL);
}

int shfs_mirror_begin_store(struct shfs_index *mirror)
{
	return exec_all(mirror, "SAVEPOINT one_store");
}

int shfs_mirror_end_store(struct shfs_index *mirror, bool keep)
{
	return exec_all(mirror, keep ? "RELEASE one_store"
	                             : "ROLLBACK TO one_store; RELEASE one_store");
}

/* --- stores and pieces --- */

void shfs_mirror_store_clear(struct shfs_mirror_store *store)
{
	free(store->tree);
	free(store->mark);
	*store = (struct shfs_mirror_store){ 0 };
}

static char *column_copy(sqlite3_stmt *stmt, int col)
{
	return strdup((const char *)sqlite3_column_text(stmt, col) ?: "");
}

int shfs_mirror_stores(struct shfs_index *mirror, struct shfs_mirror_store **out,
                       size_t *n)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	struct shfs_mirror_store *list = NULL, *s;
	size_t used = 0, cap = 0;
	int r = shfs_sql_get(mirror, &stmt,
	                     "SELECT store_id, base, room, tree, mark FROM m_store"
	                     " ORDER BY base");

	for (; r > 0; r = shfs_sql_next(mirror, stmt)) {
		if (!MAKE_ROOM(list, used, cap)) {
			r = -ENOMEM;
			break;
		}
		s = &list[used++];
		*s = (struct shfs_mirror_store){
			.store_id = sqlite3_column_int64(stmt, 0),
			.base = sqlite3_column_int64(stmt, 1),
			.room = sqlite3_column_int64(stmt, 2),
			.tree = column_copy(stmt, 3),
			.mark = column_copy(stmt, 4),
		};
		if (!s->tree || !s->mark) {
			r = -ENOMEM;
			break;
		}
	}
	*out = list;
	*n = used;
	return r;
}

int shfs_mirror_has_pieces(struct shfs_index *mirror, int64_t store_id)
{
	int64_t any = 0;
	int r = shfs_sql_int(mirror, &any,
	                     "SELECT EXISTS (SELECT 1 FROM m_piece WHERE store_id = ?)",
	                     shfs_arg_int(store_id));

	return r < 0 ? r : any != 0;
}

int shfs_mirror_put_store(struct shfs_index *mirror, const struct shfs_mirror_store *s)
{
	return shfs_sql_run(mirror,
	                    "INSERT INTO m_store (store_id, base, room, tree, mark)"
	                    " VALUES (?, ?, ?, ?, ?)"
	                    " ON CONFLICT DO UPDATE SET mark = excluded.mark",
	                    shfs_arg_int(s->store_id), shfs_arg_int(s->base),
	                    shfs_arg_int(s->room), shfs_arg_text(shfs_bytes_str(s->tree)),
	                    shfs_arg_text(shfs_bytes_str(s->mark)));
}

/* --- numbers --- */

/* Is it the number of an access or a version, whose upper half is that of a row? */
static bool is_pair(char kind)
{
	return kind == 'A' || kind == 'V';
}

static int64_t shift(const struct shfs_mirror_store *store, char kind)
{
	return is_pair(kind) ? store->base << 32 : store->base;
}

/* The last key (of the database) that a store's table may have. */
static int64_t last_key(const struct shfs_mirror_store *store,
                        const struct shfs_mirror_table *table)
{
	return (is_pair(table->kinds[0]) ? store->room << 32 : store->room) - 1;
}

/* --- removing rows --- */

/* Removes the rows with keys (of the database) from first to last. */
static int remove_rows(struct shfs_index *mirror, const struct shfs_mirror_store *store,
                       const struct shfs_mirror_table *table, int64_t first, int64_t last)
{
	int64_t by = shift(store, table->kinds[0]);
	_cleanup_buf_ struct shfs_buf sql = { 0 };

	shfs_buf_printf(&sql,
	                "DELETE FROM m_%s WHERE %s BETWEEN %" PRId64 " AND %" PRId64,
	                table->name, table->key, by + first, by + last);
	return sql.failed ? -ENOMEM : exec_all(mirror, sql.data);
}

int shfs_mirror_remove_store(struct shfs_index *mirror,
                             const struct shfs_mirror_store *store)
{
	int r = 0;

	for (const struct shfs_mirror_table *t = shfs_mirror_tables; t->name && !r; t++)
		r = remove_rows(mirror, store, t, 0, last_key(store, t));
	if (!r)
		r = shfs_sql_run(mirror, "DELETE FROM m_piece WHERE store_id = ?",
		                 shfs_arg_int(store->store_id));
	if (!r)
		r = shfs_sql_run(mirror, "DELETE FROM m_store WHERE store_id = ?",
		                 shfs_arg_int(store->store_id));
	return r;
}

/* --- pieces --- */

static const struct shfs_mirror_table *find_table(const char *name)
{
	const struct shfs_mirror_table *t = shfs_mirror_tables;

	while (t->name && strcmp(t->name, name) != 0)
		t++;
	return t->name ? t : NULL;
}

int shfs_mirror_list(struct shfs_index *mirror)
{
	return exec_all(mirror, "CREATE TEMP TABLE IF NOT EXISTS listed ("
	                        " name TEXT NOT NULL, first INTEGER NOT NULL,"
	                        " last INTEGER NOT NULL, hash INTEGER NOT NULL,"
	                        " rows INTEGER NOT NULL, PRIMARY KEY (name, first)"
	                        ") STRICT, WITHOUT ROWID; DELETE FROM listed");
}

int shfs_mirror_list_piece(struct shfs_index *mirror,
                           const struct shfs_mirror_store *store,
                           const struct shfs_mirror_piece *p)
{
	const struct shfs_mirror_table *table = find_table(p->name);
	int r;

	if (!table)
		return 0;
	if (p->first < 0 || p->last < p->first || p->last > last_key(store, table))
		return -EPROTO; /* to remove it would remove rows of others */
	r = shfs_sql_run(mirror, "INSERT INTO listed VALUES (?, ?, ?, ?, ?)",
	                 shfs_arg_text(shfs_bytes_str(p->name)), shfs_arg_int(p->first),
	                 shfs_arg_int(p->last), shfs_arg_int(p->hash),
	                 shfs_arg_int(p->rows));
	return r == -EINVAL ? -EPROTO : r; /* there are two of one key */
}

/* A range of keys, of some table. */
struct range {
	char name[16];
	int64_t first, last;
};

struct ranges {
	struct range *list;
	size_t n, cap;
};

/* Reads rows of a name, a first and a last key, before any of these is changed. */
static int read_ranges(struct shfs_index *mirror, struct ranges *out, const char *sql,
                       const struct shfs_arg *args, size_t n)
{
	_cleanup_stmt_ sqlite3_stmt *stmt = NULL;
	int r = shfs_sql_get_args(mirror, &stmt, sql, args, n);

	for (; r > 0; r = shfs_sql_next(mirror, stmt)) {
		struct range *range;

		if (!MAKE_ROOM(out->list, out->n, out->cap))
			return -ENOMEM;
		range = &out->list[out->n++];
		*range = (struct range){ .first = sqlite3_column_int64(stmt, 1),
			                 .last = sqlite3_column_int64(stmt, 2) };
		snprintf(range->name, sizeof(range->name), "%s",
		         (const char *)sqlite3_column_text(stmt, 0) ?: "");
	}
	return r;
}

int shfs_mirror_remove_unlisted(struct shfs_index *mirror,
                                const struct shfs_mirror_store *store)
{
	struct ranges ranges = { 0 };
	const struct shfs_arg id = shfs_arg_int(store->store_id);
	int r = read_ranges(mirror, &ranges,
	                    "SELECT name, first, last, hash, rows FROM m_piece"
	                    " WHERE store_id = ?1 EXCEPT"
	                    " SELECT name, first, last, hash, rows FROM listed",
	                    &id, 1);

	for (size_t i = 0; i < ranges.n && !r; i++) {
		const struct range *range = &ranges.list[i];
		const struct shfs_mirror_table *table = find_table(range->name);

		if (table)
			r = remove_rows(mirror, store, table, range->first, range->last);
		if (!r)
			r = shfs_sql_run(mirror,
			                 "DELETE FROM m_piece WHERE store_id = ?"
			                 " AND name = ? AND first = ?",
			                 shfs_arg_int(store->store_id),
			                 shfs_arg_text(shfs_bytes_str(range->name)),
			                 shfs_arg_int(range->first));
	}
	free(ranges.list);
	return r;
}

/* Pieces that are not here and have as many that are here before them are in a row. */
#define LACKING                                                                          \
	"SELECT '', min(first), max(last) FROM (SELECT first, last, here,"               \
	" sum(here) OVER (ORDER BY first) AS before FROM (SELECT first, last,"           \
	"  EXISTS (SELECT 1 FROM m_piece p WHERE p.store_id = ?1 AND p.name = l.name"    \
	"   AND p.first = l.first) AS here FROM listed l WHERE name = ?2))"              \
	" WHERE NOT here GROUP BY before ORDER BY min(first)"

int shfs_mirror_take_listed(struct shfs_index *mirror,
                            const struct shfs_mirror_store *store,
                            const struct shfs_mirror_table *table,
                            int (*fn)(void *arg, int64_t first, int64_t last), void *arg)
{
	const struct shfs_arg args[] = { shfs_arg_int(store->store_id),
		                         shfs_arg_text(shfs_bytes_str(table->name)) };
	struct ranges ranges = { 0 };
	int r = read_ranges(mirror, &ranges, LACKING, args, ARRAY_SIZE(args));

	if (!r)
		r = shfs_sql_run(mirror,
		                 "INSERT OR IGNORE INTO m_piece SELECT ?, name, first,"
		                 " last, hash, rows FROM listed WHERE name = ?",
		                 args[0], args[1]);
	for (size_t i = 0; i < ranges.n && !r; i++)
		r = fn(arg, ranges.list[i].first, ranges.list[i].last);
	free(ranges.list);
	return r;
}

/* --- adding rows --- */

struct shfs_mirror_load {
	struct shfs_index *mirror;
	const struct shfs_mirror_store *store;
	const struct shfs_mirror_table *table;
	sqlite3_stmt *stmt;
	struct shfs_buf paths[COLUMNS_MAX]; /* of its columns, with their tree */
};

void shfs_mirror_load_free(struct shfs_mirror_load *load)
{
	if (!load)
		return;
	sqlite3_finalize(load->stmt);
	for (size_t i = 0; i < COLUMNS_MAX; i++)
		shfs_buf_free(&load->paths[i]);
	free(load);
}

/* Makes the INSERT of the columns that are kept. */
static int print_insert(const struct shfs_mirror_table *table, struct shfs_buf *out)
{
	const char *at = table->columns;
	size_t n = 0;

	shfs_buf_printf(out, "INSERT INTO m_%s (", table->name);
	for (const char *kind = table->kinds; *kind; kind++) {
		size_t len = strcspn(at, ",");

		if (*kind != '-')
			shfs_buf_printf(out, "%s%.*s", n++ ? ", " : "", (int)len, at);
		at += len + strspn(at + len, ", ");
	}
	shfs_buf_str(out, ") VALUES (");
	while (n--)
		shfs_buf_str(out, n ? "?, " : "?)");
	return out->failed ? -ENOMEM : 0;
}

int shfs_mirror_load(struct shfs_index *mirror, const struct shfs_mirror_store *store,
                     const struct shfs_mirror_table *table, struct shfs_mirror_load **out)
{
	_cleanup_mirror_load_ struct shfs_mirror_load *load = calloc(1, sizeof(*load));
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r = load ? print_insert(table, &sql) : -ENOMEM;

	shfs_assert(strlen(table->kinds) < COLUMNS_MAX);
	if (!r)
		r = shfs_index_errno(mirror->db,
		                     sqlite3_prepare_v3(mirror->db, sql.data, -1,
		                                        SQLITE_PREPARE_PERSISTENT,
		                                        &load->stmt, NULL));
	if (r)
		return r;
	load->mirror = mirror;
	load->store = store;
	load->table = table;
	*out = TAKE_PTR(load);
	return 0;
}

/* Sets *n to the number of a row here: SQLITE_OK, SQLITE_RANGE, or SQLITE_MISMATCH if it
 * is none. 0 stands for an unknown row, but not in the upper half of an access; as a key
 * it would be no store's own. */
static int number_here(const struct shfs_mirror_store *store, char kind, bool is_key,
                       int64_t *n)
{
	int64_t row = is_pair(kind) ? *n >> 32 : *n;

	if (row < 0 || (is_key && !*n && !is_pair(kind)))
		return SQLITE_MISMATCH;
	if (row >= store->room)
		return SQLITE_RANGE;
	if (*n || is_key)
		*n += shift(store, kind);
	return SQLITE_OK;
}

static int op_number(struct shfs_bytes name, int64_t *out)
{
	const char *one;

	for (int64_t op = 0; (one = shfs_index_op_name(op)); op++)
		if (strlen(one) == name.len && !memcmp(one, name.data, name.len)) {
			*out = op;
			return SQLITE_OK;
		}
	return SQLITE_MISMATCH;
}

/* Is it a word that shfs makes: an id, the id of a content, where a version is from? Such
 * words are shown as they are, so no other bytes may come in. */
static bool is_word(char kind, struct shfs_bytes text)
{
	char word[WORD_MAX + 1];
	struct shfs_object_id id;

	if (text.len > WORD_MAX || memchr(text.data, 0, text.len))
		return false;
	memcpy(word, text.data, text.len);
	word[text.len] = '\0';
	if (kind == 'c')
		return !shfs_object_parse(word, &id);
	if (kind == 'H' && !text.len)
		return true;
	if (kind == 'h' || kind == 'H')
		return text.len == 16 && strspn(word, "0123456789abcdef") == 16;
	for (enum shfs_version_source s = SHFS_SOURCE_WRITTEN; s <= SHFS_SOURCE_LINKED;
	     s++)
		if (!strcmp(shfs_version_source_name(s), word))
			return true;
	return false;
}

static bool is_below_root(const struct shfs_mirror_store *store, struct shfs_bytes path)
{
	for (char **root = store->roots; root && *root; root++) {
		size_t len = strlen(*root);

		if (path.len > len && !memcmp(path.data, *root, len) &&
		    path.data[len] == '/')
			return true;
	}
	return false;
}

/* Puts the tree before each path of a list, with a NUL between two. */
static void put_streams(struct shfs_buf *out, const char *tree, struct shfs_bytes list)
{
	for (size_t at = 0; at < list.len;) {
		size_t len = strnlen(list.data + at, list.len - at);

		if (list.data[at] == '/')
			shfs_buf_printf(out, "%s:", tree);
		shfs_buf_add(out, list.data + at, len);
		at += len + 1;
		if (at <= list.len)
			shfs_buf_char(out, '\0');
	}
}

/* Does the path get the name of its tree? A directory is "" at the top; a program of the
 * system is the same everywhere. What is no path is not to pass for one of another tree.
 */
static bool is_of_tree(const struct shfs_mirror_load *load, char kind,
                       struct shfs_bytes path)
{
	if (kind == 'd' || (kind == 'p' && path.len))
		return true;
	return path.len && *path.data == '/' &&
	       (kind != 'x' || is_below_root(load->store, path));
}

static int bind_path(struct shfs_mirror_load *load, int at, char kind,
                     struct shfs_bytes path)
{
	struct shfs_buf *buf = &load->paths[at];
	const char *tree = load->store->tree;

	if (!*tree || (kind != 's' && !is_of_tree(load, kind, path)))
		return sqlite3_bind_text64(load->stmt, at, path.data, path.len,
		                           SQLITE_STATIC, SQLITE_UTF8);
	buf->len = 0;
	if (kind == 's')
		put_streams(buf, tree, path);
	else
		shfs_tree_path(buf, tree, path);
	return buf->failed ? SQLITE_NOMEM
	                   : sqlite3_bind_text64(load->stmt, at, buf->data ?: "",
	                                         buf->len, SQLITE_STATIC, SQLITE_UTF8);
}

/* Binds a value as parameter at. SQLITE_MISMATCH: shfs publishes no such value. */
static int bind_value(struct shfs_mirror_load *load, int at, char kind,
                      const struct shfs_mirror_value *v)
{
	struct shfs_bytes text = { v->len ? v->text : "", v->len };
	int64_t n = v->n;
	int rc = SQLITE_OK;

	if (v->is_null)
		return at == KEY || kind == 'h' || kind == 'H'
		               ? SQLITE_MISMATCH
		               : sqlite3_bind_null(load->stmt, at);
	switch (kind) {
	case 'I':
	case 'A':
	case 'V':
		rc = number_here(load->store, kind, at == KEY, &n);
		break;
	case 'o':
		rc = op_number(text, &n);
		break;
	case 'P':
		if (text.len && *text.data != '/')
			return SQLITE_MISMATCH; /* it would be of another's tree */
						/* fallthrough */
	case 'd':
	case 'p':
	case 's':
	case 'x':
		return bind_path(load, at, kind, text);
	case 'c':
	case 'h':
	case 'H':
	case 'w':
		if (!is_word(kind, text))
			return SQLITE_MISMATCH;
		return sqlite3_bind_text64(load->stmt, at, text.data, text.len,
		                           SQLITE_STATIC, SQLITE_UTF8);
	case 'B':
		return sqlite3_bind_blob64(load->stmt, at, text.data, text.len,
		                           SQLITE_STATIC);
	case 't':
	case 'b':
		return sqlite3_bind_text64(load->stmt, at, text.data, text.len,
		                           SQLITE_STATIC, SQLITE_UTF8);
	}
	return rc ? rc : sqlite3_bind_int64(load->stmt, at, n);
}

/* Two rows of one key, a number where a text belongs: shfs publishes none of these. */
static bool is_bad_row(int rc)
{
	return (rc & 0xff) == SQLITE_CONSTRAINT || (rc & 0xff) == SQLITE_MISMATCH ||
	       (rc & 0xff) == SQLITE_TOOBIG;
}

int shfs_mirror_add(struct shfs_mirror_load *load, const struct shfs_mirror_value *values)
{
	const char *kinds = load->table->kinds;
	int at = 0, rc = SQLITE_OK;

	sqlite3_reset(load->stmt); /* says once more why the last row was refused */
	for (size_t i = 0; kinds[i] && !rc; i++)
		if (kinds[i] != '-')
			rc = bind_value(load, ++at, kinds[i], &values[i]);
	if (!rc)
		rc = sqlite3_step(load->stmt);
	if (rc == SQLITE_RANGE)
		return -ERANGE;
	return is_bad_row(rc) ? -EPROTO : shfs_index_errno(load->mirror->db, rc);
}
