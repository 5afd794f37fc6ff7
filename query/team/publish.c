/* SPDX-License-Identifier: MIT */
#include "query/team/publish.h"

#include "common/exit.h"
#include "common/quote.h"
#include "query/base/cmd.h"
#include "query/base/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * What is published. A letter of kinds for each column of sql:
 *   i  a number            t  a text            b  bytes
 *   p  the path that the row is about: its tree is that of the path
 *   h  the host of the row
 *   f  the file that the row is about           g  its other file, or NULL
 *   c  a command: the row is published if that one is; or NULL
 *   q  a process: the same                      a  an access: that of its process
 * The key is the first column, and rows come in its order.
 */
struct table {
	const char *name, *key, *kinds;
	enum {
		IS_ROW,
		IS_FILE,
		IS_COMMAND,
		IS_PROCESS,
	} is;
	bool in_tree; /* has a column tree_id */
	const char *sql;
};

static const struct table tables[] = {
	{ "producer", "producer_id", "ihtpitiiiii", IS_ROW, true,
	  "SELECT producer_id, host, kind, root, pid, boot_id, begin_ns, end_ns, dead,"
	  " records, lost FROM v_producer ORDER BY producer_id" },
	{ "session", "session_id", "ithtiittpiiitit", IS_ROW, true,
	  "SELECT session_id, id, host, boot_id, pid, start_ticks, shell, tty, cwd,"
	  " begin_ns, end_ns, commands, invoker, caller_id, origin FROM v_session"
	  " ORDER BY session_id" },
	{ "command", "command_id", "itithitiipiiittiiiiiiiii", IS_COMMAND, true,
	  "SELECT command_id, id, session_id, session, host, number, text, hidden,"
	  " redacted, cwd, begin_ns, end_ns, status, invoker, shell, process_id, user_us,"
	  " system_us, max_rss_kib, n_accesses, n_read, n_written, n_skipped,"
	  " n_incomplete FROM v_command ORDER BY command_id" },
	{ "definition", "command_id", "cib", IS_ROW, false,
	  "SELECT command_id, position, definition FROM v_definition"
	  " ORDER BY command_id, position" },
	{ "process", "process_id", "ihiiiiiitpbbbiiiiiii", IS_PROCESS, true,
	  "SELECT process_id, host, pid, start_ticks, ppid, pgid, sid, uid, exe, cwd,"
	  " argv, streams, environment, program_id, command_id, session_id, first_ns,"
	  " shell, n_accesses, outside FROM v_process ORDER BY process_id" },
	{ "exit", "process_id", "qiiiii", IS_ROW, false,
	  "SELECT process_id, command_id, status, user_us, system_us, max_rss_kib"
	  " FROM v_exit ORDER BY process_id" },
	{ "program", "program_id", "ihtpiiiiittt", IS_ROW, false,
	  "SELECT program_id, host, boot_id, path, since_ns, process_id, size, mtime_ns,"
	  " phash, manager, package, version FROM v_program ORDER BY program_id" },
	{ "lookup", "lookup_id", "iipiiiiib", IS_ROW, true,
	  "SELECT lookup_id, producer_id, root, begin_ns, last_ns, process_id, "
	  "command_id,"
	  " session_id, list FROM v_lookup ORDER BY lookup_id" },
	{ "file", "file_id", "ipttitiiii", IS_FILE, true,
	  "SELECT p.file_id, p.path, p.dir, p.name, p.name_key, f.root, f.versions,"
	  " f.present, f.last_ns, f.directory FROM v_path p LEFT JOIN v_file f"
	  " USING (file_id) ORDER BY p.file_id" },
	{ "version", "version_id", "ifitiiiiitiiiiiii", IS_ROW, true,
	  "SELECT version_id, file_id, n, object, flags, size, mode, mtime_ns, phash,"
	  " source, origin_version_id, access_id, process_id, command_id, time_ns, "
	  "carried, again"
	  " FROM v_version ORDER BY file_id, n" },
	{ "access", "access_id", "itiiiiiiifgbiiiiiii", IS_ROW, true,
	  "SELECT access_id, op, is_open, flags, is_read, is_written, process_id,"
	  " command_id, session_id, file_id, file2_id,"
	  " CASE WHEN file2_id IS NULL THEN path2 END, directory, begin_ns, end_ns,"
	  " seen_n, seen_flawed, made_n, seq_key FROM v_access ORDER BY access_id" },
	{ "former", "access_id", "aiib", IS_ROW, false,
	  "SELECT access_id, n, file_id, data FROM v_former ORDER BY access_id" },
	/* those that count, of what this store publishes, whoever gave them */
	{ "note", "note_id", "itpittitc", IS_ROW, true,
	  "SELECT n.note_id, n.command, n.path, n.version_ns, n.tag, n.text, n.time_ns,"
	  " n.host, c.command_id FROM v_note n LEFT JOIN v_command c ON c.id = n.command"
	  " WHERE n.command = '' OR c.command_id IS NOT NULL ORDER BY n.note_id" },
	{ "gap", "producer_id", "ihpii", IS_ROW, true,
	  "SELECT producer_id, host, root, begin_ns, end_ns FROM v_gap"
	  " ORDER BY producer_id" },
	{ "stats", "one", "iiiiiiiiii", IS_ROW, false,
	  "SELECT 1, commands, sessions, accesses, files, versions, objects, lost,"
	  " damaged_bytes, unattributed FROM v_stats" },
	{ "left_out", "flags", "ii", IS_ROW, false,
	  "SELECT flags, versions FROM v_left_out ORDER BY flags" },
};

#define NOT_OURS (-1) /* of another tree (store/trees.h), or unknown */

/* The tree of each row of some kind, by its number. */
struct trees {
	int32_t *of;
	size_t n;
};

struct root {
	char *path;
	int32_t tree_id;
};

struct publish {
	struct database *db;
	struct shfs_index *index;
	int64_t store_id;
	bool dry_run;
	struct pieces_stats *stats;
	struct root *roots;
	size_t n_roots, cap_roots;
	char **hosts; /* that recorded what is this tree's */
	size_t n_hosts, cap_hosts;
	struct trees files, commands, processes;
	struct shfs_buf line;
};

static void publish_clear(struct publish *p)
{
	for (size_t i = 0; i < p->n_roots; i++)
		free(p->roots[i].path);
	free(p->roots);
	for (size_t i = 0; i < p->n_hosts; i++)
		free(p->hosts[i]);
	free(p->hosts);
	free(p->files.of);
	free(p->commands.of);
	free(p->processes.of);
	shfs_buf_free(&p->line);
}

/* --- trees --- */

static bool trees_note(struct trees *trees, int64_t id, int32_t tree)
{
	if (id < 0 || id > UINT32_MAX)
		return false; /* of a damaged index */
	if ((size_t)id >= trees->n) {
		size_t n = MAX((size_t)id + 1, trees->n * 2);
		int32_t *of = reallocarray(trees->of, n, sizeof(*of));

		if (!of)
			return false;
		for (size_t i = trees->n; i < n; i++)
			of[i] = NOT_OURS;
		trees->of = of;
		trees->n = n;
	}
	trees->of[id] = tree;
	return true;
}

static int32_t trees_get(const struct trees *trees, int64_t id)
{
	return (uint64_t)id < trees->n ? trees->of[id] : NOT_OURS;
}

static bool is_below(const char *path, size_t len, const char *root)
{
	size_t n = strcmp(root, "/") ? strlen(root) : 0;

	return len >= n && !memcmp(path, root, n) && (len == n || path[n] == '/');
}

/* The project that a path is in, the innermost one; 0: none. */
static int32_t tree_of(const struct publish *p, const char *path, size_t len)
{
	size_t best = 0;
	int32_t tree = 0;

	if (len && *path != '/')
		return NOT_OURS;
	for (size_t i = 0; i < p->n_roots; i++) {
		size_t n = strlen(p->roots[i].path);

		if (n > best && is_below(path, len, p->roots[i].path)) {
			best = n;
			tree = p->roots[i].tree_id;
		}
	}
	return tree;
}

/* The path of a process may be unknown, its host never is. */
static bool is_our_host(const struct publish *p, const char *host)
{
	for (size_t i = 0; i < p->n_hosts; i++)
		if (!strcmp(p->hosts[i], host))
			return true;
	return false;
}

static int find_hosts(struct publish *p)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(p->index,
	                       "SELECT host FROM v_producer WHERE root GLOB '/*'"
	                       " UNION SELECT host FROM v_session WHERE cwd GLOB '/*'",
	                       &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		if (!MAKE_ROOM(p->hosts, p->n_hosts, p->cap_hosts))
			return -ENOMEM;
		p->hosts[p->n_hosts] = strdup(shfs_rows_text(rows, 0));
		if (!p->hosts[p->n_hosts])
			return -ENOMEM;
		p->n_hosts++;
		r = 0;
	}
	return r;
}

/* --- a row as a line of COPY's text format --- */

/* PostgreSQL's text is UTF-8 without NUL. Of one that is not, each byte that is not ASCII
 * becomes \xHH, and a backslash two: true. */
static bool put_text(struct shfs_buf *out, const char *text, size_t len)
{
	bool escaped = !shfs_is_utf8(text, len) || memchr(text, 0, len);

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (escaped && (!c || c >= 0x80))
			shfs_buf_printf(out, "\\\\x%02x", c);
		else if (c == '\\')
			shfs_buf_str(out, escaped ? "\\\\\\\\" : "\\\\");
		else if (c == '\n')
			shfs_buf_str(out, "\\n");
		else if (c == '\r')
			shfs_buf_str(out, "\\r");
		else if (c == '\t')
			shfs_buf_str(out, "\\t");
		else
			shfs_buf_char(out, (char)c);
	}
	return escaped;
}

static void put_bytes(struct shfs_buf *out, const char *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";

	shfs_buf_str(out, "\\\\x");
	for (size_t i = 0; i < len; i++) {
		shfs_buf_char(out, digits[(unsigned char)data[i] >> 4]);
		shfs_buf_char(out, digits[data[i] & 15]);
	}
}

/* Was it a text that had to be escaped? */
static bool put_column(struct shfs_buf *out, char kind, struct shfs_rows *rows, int col)
{
	bool escaped = false;

	shfs_buf_char(out, '\t');
	if (shfs_rows_is_null(rows, col))
		shfs_buf_str(out, "\\N");
	else if (kind == 't' || kind == 'p' || kind == 'h')
		escaped = put_text(out, shfs_rows_text(rows, col),
		                   shfs_rows_bytes(rows, col));
	else if (kind == 'b')
		put_bytes(out, shfs_rows_text(rows, col), shfs_rows_bytes(rows, col));
	else
		shfs_buf_int(out, shfs_rows_int(rows, col));
	return escaped;
}

/* The tree of a row by what one of its columns names; 0 if that names none. */
static int32_t tree_by(const struct publish *p, char kind, struct shfs_rows *rows,
                       int col)
{
	switch (kind) {
	case 'p':
		return tree_of(p, shfs_rows_text(rows, col), shfs_rows_bytes(rows, col));
	case 'h':
		return is_our_host(p, shfs_rows_text(rows, col)) ? 0 : NOT_OURS;
	case 'f':
	case 'g':
		return trees_get(&p->files, shfs_rows_int(rows, col));
	case 'c':
		return trees_get(&p->commands, shfs_rows_int(rows, col));
	case 'q':
		return trees_get(&p->processes, shfs_rows_int(rows, col));
	case 'a':
		return trees_get(&p->processes, shfs_rows_int(rows, col) >> 32);
	default:
		return 0;
	}
}

/* Adds the columns behind those of the view: the trees, and what is escaped. */
static void end_line(struct shfs_buf *line, const struct table *table, int32_t tree,
                     int32_t other, uint32_t escaped)
{
	if (table->in_tree)
		shfs_buf_printf(line, "\t%" PRId32, tree);
	if (strchr(table->kinds, 'g') && other != tree)
		shfs_buf_printf(line, "\t%" PRId32, MAX(other, 0));
	else if (strchr(table->kinds, 'g'))
		shfs_buf_str(line, "\t\\N");
	if (escaped)
		shfs_buf_printf(line, "\t%" PRIu32, escaped);
	else
		shfs_buf_str(line, "\t\\N");
}

/* Makes p->line of a row. Returns its tree; NOT_OURS: it is not published. */
static int32_t make_line(struct publish *p, const struct table *table,
                         struct shfs_rows *rows)
{
	int32_t tree = 0, other = 0;
	bool has_other = false;
	uint32_t escaped = 0;

	p->line.len = 0;
	for (int col = 0; table->kinds[col]; col++) {
		char kind = table->kinds[col];
		int32_t found =
			shfs_rows_is_null(rows, col) ? 0 : tree_by(p, kind, rows, col);

		if (kind == 'g') {
			has_other = !shfs_rows_is_null(rows, col);
			other = found;
		} else if (found) {
			tree = found;
		}
		if (tree == NOT_OURS)
			return tree;
		escaped |= (uint32_t)put_column(&p->line, kind, rows, col) << col;
	}
	end_line(&p->line, table, tree, has_other ? other : tree, escaped);
	return tree;
}

/* Notes the tree of what other rows name. */
static bool note_tree(struct publish *p, const struct table *table, int64_t id,
                      int32_t tree)
{
	struct trees *trees = table->is == IS_FILE      ? &p->files
	                      : table->is == IS_COMMAND ? &p->commands
	                      : table->is == IS_PROCESS ? &p->processes
	                                                : NULL;

	return !trees || trees_note(trees, id, tree);
}

/* Returns -EIO after a message. */
static int publish_row(struct publish *p, const struct table *table,
                       struct shfs_rows *rows, struct pieces *pieces)
{
	int64_t key = shfs_rows_int(rows, 0);
	int32_t tree = make_line(p, table, rows);

	if (tree == NOT_OURS)
		return 0;
	if (p->line.failed)
		return -ENOMEM;
	if (!note_tree(p, table, key, tree))
		return key < 0 || key > UINT32_MAX ? -EBADMSG : -ENOMEM;
	return pieces_add(pieces, key, p->line.data, p->line.len) ? 0 : -EIO;
}

static int publish_table(struct publish *p, const struct table *table)
{
	_cleanup_(pieces_clear) struct pieces pieces = { .db = p->db,
		                                         .store_id = p->store_id,
		                                         .table = table->name,
		                                         .key = table->key,
		                                         .dry_run = p->dry_run,
		                                         .stats = p->stats };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	if (!pieces_begin(&pieces))
		return -EIO;
	r = shfs_rows_open(p->index, table->sql, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = publish_row(p, table, rows, &pieces);
	if (r)
		return r;
	return pieces_finish(&pieces) ? 0 : -EIO;
}

/* --- the store --- */

static bool find_store(struct publish *p, const struct publish_options *o)
{
	const char *const values[] = { o->store, o->host, NULL };
	const char *const all[] = { o->store, o->host, o->machine, o->home, NULL };
	int64_t locked;

	if (!o->dry_run &&
	    !database_ask(p->db,
	                  "INSERT INTO shfs.store (store, host, machine, home)"
	                  " VALUES ($1, $2, $3, $4)"
	                  " ON CONFLICT (owner, store) DO NOTHING",
	                  all, NULL, NULL))
		return false;
	if (!database_ask_int(p->db,
	                      "SELECT store_id FROM shfs.store WHERE owner = current_user"
	                      " AND store = $1 AND $2::text IS NOT NULL",
	                      values, &p->store_id))
		return false;
	if (!p->store_id || o->dry_run)
		return true;
	if (!database_ask_int(p->db,
	                      "SELECT pg_try_advisory_lock(1936221811, store_id)::int"
	                      " FROM shfs.store WHERE owner = current_user"
	                      " AND store = $1 AND $2::text IS NOT NULL",
	                      values, &locked))
		return false;
	if (!locked)
		shfs_error("another publish of this store is at work");
	return locked;
}

/* Finds the number of a root in the database, which may get a new one. */
static bool find_tree(struct publish *p, struct root *root)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	char store[24];
	const char *const values[] = { store, root->path, NULL };
	int64_t id = 0;

	snprintf(store, sizeof(store), "%" PRId64, p->store_id);
	if (!p->dry_run &&
	    !database_ask(p->db,
	                  "INSERT INTO shfs.tree (store_id, root) VALUES ($1::int, $2)"
	                  " ON CONFLICT (store_id, root) DO NOTHING",
	                  values, NULL, NULL))
		return false;
	if (!database_ask_int(p->db,
	                      "SELECT tree_id FROM shfs.tree WHERE store_id = $1::int"
	                      " AND root = $2",
	                      values, &id))
		return false;
	root->tree_id = (int32_t)id;
	return true;
}

static int find_roots(struct publish *p)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(
		p->index, "SELECT DISTINCT root FROM v_producer WHERE root GLOB '/*'",
		&rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		struct root *root;

		if (!MAKE_ROOM(p->roots, p->n_roots, p->cap_roots))
			return -ENOMEM;
		root = &p->roots[p->n_roots];
		*root = (struct root){ .path = strdup(shfs_rows_text(rows, 0)) };
		if (!root->path)
			return -ENOMEM;
		p->n_roots++;
		r = p->store_id && !find_tree(p, root) ? -EIO : 0;
	}
	return r;
}

static int publish_all(struct publish *p)
{
	int r = find_roots(p);

	if (!r)
		r = find_hosts(p);
	/* process 0 is that of accesses whose process is unknown */
	if (!r && !trees_note(&p->processes, 0, 0))
		r = -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(tables) && !r; i++)
		r = publish_table(p, &tables[i]);
	return r;
}

/* Notes that all is there. */
static bool end_publish(struct database *db, const struct publish_options *o)
{
	return database_ask(
		db,
		"UPDATE shfs.store SET host = $2, machine = $3, home = $4,"
		" published_ns ="
		" (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint"
		" WHERE owner = current_user AND store = $1",
		(const char *const[]){ o->store, o->host, o->machine, o->home, NULL },
		NULL, NULL);
}

int publish_index(struct database *db, struct shfs_index *index, bool is_there,
                  const struct publish_options *options, struct pieces_stats *stats)
{
	_cleanup_(publish_clear) struct publish p = {
		.db = db, .index = index, .dry_run = options->dry_run, .stats = stats
	};
	int r;

	if (is_there && !find_store(&p, options))
		return SHFS_EXIT_FAILURE;
	r = publish_all(&p);
	if (r == -EIO)
		return SHFS_EXIT_FAILURE;
	if (r || options->dry_run)
		return r;
	return end_publish(db, options) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

/* Is the table there? An older schema may lack it. */
static bool has_table(struct database *db, const char *name, bool *out)
{
	char full[32];
	int64_t there;
	bool ok;

	snprintf(full, sizeof(full), "shfs.%s", name);
	ok = database_ask_int(db, "SELECT (to_regclass($1) IS NOT NULL)::int",
	                      (const char *const[]){ full, NULL }, &there);
	*out = there;
	return ok;
}

int publish_remove(struct database *db, const char *store, bool *was_there)
{
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	bool has;
	int64_t id;

	if (!database_ask_int(db,
	                      "SELECT store_id FROM shfs.store WHERE owner = current_user"
	                      " AND store = $1",
	                      (const char *const[]){ store, NULL }, &id))
		return SHFS_EXIT_FAILURE;
	*was_there = id;
	if (!id)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		if (!has_table(db, tables[i].name, &has))
			return SHFS_EXIT_FAILURE;
		if (has)
			shfs_buf_printf(&sql,
			                "DELETE FROM shfs.%s WHERE store_id = %" PRId64
			                ";",
			                tables[i].name, id);
	}
	shfs_buf_printf(&sql,
	                "DELETE FROM shfs.piece WHERE store_id = %" PRId64
	                ";DELETE FROM shfs.tree WHERE store_id = %" PRId64
	                ";DELETE FROM shfs.store WHERE store_id = %" PRId64,
	                id, id, id);
	if (sql.failed) {
		shfs_no_memory();
		return SHFS_EXIT_FAILURE;
	}
	/* one string of statements is one transaction */
	return database_run(db, sql.data) ? 0 : SHFS_EXIT_FAILURE;
}
