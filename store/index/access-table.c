/* SPDX-License-Identifier: MIT */
/*
 * The table access of SQL: a row for each access, unpacked from the chunks. A query is
 * fast if it gives access_id, process_id, command_id, file_id or file2_id.
 */
#include "store/index/internal.h"

#include <errno.h>
#include <string.h>

enum column {
	COL_ACCESS_ID,
	COL_SEQ,
	COL_OP,
	COL_IS_SHOWN,
	COL_IS_OPEN,
	COL_FLAGS,
	COL_IS_READ,
	COL_IS_WRITTEN,
	COL_DIRECTORY,
	COL_PROCESS_ID,
	COL_SESSION_ID,
	COL_COMMAND_ID,
	COL_FILE_ID,
	COL_FILE2_ID,
	COL_TEXT_ID,
	COL_BEGIN_NS,
	COL_END_NS,
	COL_MOMENT_NS,
	COL_SEEN_N,
	COL_MADE_N,
	COL_CUT,
	COL_TORN,
	COL_FLAWED,
};
#define COLUMNS                                                                          \
	"CREATE TABLE access (access_id, seq, op, is_shown, is_open, flags, is_read, "   \
	"is_written,"                                                                    \
	" directory, process_id, session_id, command_id, file_id, file2_id, text_id,"    \
	" begin_ns, end_ns, moment_ns, seen_n, made_n, cut, torn, flawed)"

struct table {
	sqlite3_vtab base;
	struct shfs_index *index;
};

struct cursor {
	sqlite3_vtab_cursor base;
	/* to be read in this order: ranges of accesses; opens of files, which are not
	 * unpacked for all columns; single accesses */
	struct shfs_ids processes, accesses;
	struct shfs_file_uses opens;
	size_t next_process, next_open, next_access;
	struct shfs_file_use open; /* an open that was not unpacked; access_id 0: the
	                            * reader is at the row */
	bool end;
	struct shfs_reader reader;
	struct shfs_last_owner owner;
};

static struct cursor *to_cursor(sqlite3_vtab_cursor *base)
{
	return container_of(base, struct cursor, base);
}

static int table_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **error)
{
	struct table *t;
	int rc = sqlite3_declare_vtab(db, COLUMNS);

	if (rc)
		return rc;
	sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
	t = sqlite3_malloc(sizeof(*t));
	if (!t)
		return SQLITE_NOMEM;
	*t = (struct table){ .index = aux };
	*out = &t->base;
	return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *base)
{
	sqlite3_free(container_of(base, struct table, base));
	return SQLITE_OK;
}

/* --- choosing a way --- */

enum way {
	ALL,
	BY_ACCESS,
	BY_CHANGE2, /* changes of names or attributes, by one of the paths */
	BY_CHANGE,
	BY_PROCESS,
	BY_MADE, /* by a path; opens that have made no version are left out */
	BY_FILE,
	BY_COMMAND,
};

static const struct {
	int column;
	double cost;
	int64_t rows;
} ways[] = {
	[ALL] = { -1, 1e9, 10000000 },
	[BY_ACCESS] = { COL_ACCESS_ID, 5, 1 },
	[BY_CHANGE2] = { COL_FILE2_ID, 20, 3 },
	[BY_CHANGE] = { COL_FILE_ID, 21, 3 }, /* needs is_open = 0, too */
	[BY_PROCESS] = { COL_PROCESS_ID, 40, 30 },
	[BY_MADE] = { COL_FILE_ID, 50, 10 }, /* needs made_n, too */
	[BY_FILE] = { COL_FILE_ID, 60, 30 },
	[BY_COMMAND] = { COL_COMMAND_ID, 80, 200 },
};

#define MANY 64 /* added to the way: takes all values of an IN at once */

/* The files of a directory lie next to each other in each run. */
static bool takes_many(enum way way)
{
	return way == BY_FILE || way == BY_MADE || way == BY_CHANGE || way == BY_CHANGE2;
}

/* Does the query ask for accesses with a made_n only? */
static bool wants_made(const sqlite3_index_info *info)
{
	for (int i = 0; i < info->nConstraint; i++)
		if (info->aConstraint[i].usable &&
		    info->aConstraint[i].iColumn == COL_MADE_N &&
		    (info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ ||
		     info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_ISNOTNULL))
			return true;
	return false;
}

static int find_equal(const sqlite3_index_info *info, int column)
{
	for (int i = 0; i < info->nConstraint; i++)
		if (info->aConstraint[i].usable &&
		    info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ &&
		    info->aConstraint[i].iColumn == column)
			return i;
	return -1;
}

/* Does the query ask for is_open = 0? */
static bool wants_changes(sqlite3_index_info *info)
{
	int i = find_equal(info, COL_IS_OPEN);
	sqlite3_value *value = NULL;

	return i >= 0 && sqlite3_vtab_rhs_value(info, i, &value) == SQLITE_OK &&
	       sqlite3_value_int(value) == 0;
}

static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	enum way best = ALL;
	bool many = false;

	for (enum way way = BY_ACCESS; way <= BY_COMMAND && best == ALL; way++) {
		int i = find_equal(info, ways[way].column);

		if (i < 0 || (way == BY_CHANGE && !wants_changes(info)) ||
		    (way == BY_MADE && !wants_made(info)))
			continue;
		best = way;
		info->aConstraintUsage[i].argvIndex = 1;
		/* SQLite checks the others again: a path may be either of the two, and a
		 * packed row may be damaged */
		info->aConstraintUsage[i].omit = way == BY_PROCESS || way == BY_ACCESS;
		many = takes_many(way) && sqlite3_vtab_in(info, i, 1);
	}
	info->idxNum = best | (many ? MANY : 0);
	info->estimatedCost = ways[best].cost;
	info->estimatedRows = ways[best].rows;
	if (best == BY_ACCESS)
		info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
	return SQLITE_OK;
}

/* --- a cursor --- */

static int cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
	struct cursor *c = calloc(1, sizeof(*c));

	if (!c)
		return SQLITE_NOMEM;
	c->reader.index = container_of(base, struct table, base)->index;
	*out = &c->base;
	return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
	struct cursor *c = to_cursor(base);

	shfs_reader_end(&c->reader);
	shfs_ids_free(&c->processes);
	free(c->opens.list);
	shfs_ids_free(&c->accesses);
	free(c);
	return SQLITE_OK;
}

/* --- from one to the next --- */

/* Moves to the next access of the ranges: 1; 0: no more; or a negative errno. */
static int next_of_ranges(struct cursor *c)
{
	int r;

	while (!(r = shfs_reader_next(&c->reader)) && c->next_process < c->processes.n) {
		int64_t process_id = c->processes.ids[c->next_process++];

		r = shfs_reader_range(&c->reader, shfs_access_id(process_id, 0),
		                      shfs_access_id(process_id, UINT32_MAX));
		if (r)
			return r;
	}
	return r;
}

/* Moves to the next single access. An access_id that does not exist gives no row. */
static int next_single(struct cursor *c)
{
	int r = 0;

	while (!r && c->next_access < c->accesses.n)
		r = shfs_reader_find(&c->reader, c->accesses.ids[c->next_access++]);
	return r;
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
	struct cursor *c = to_cursor(base);
	int r = next_of_ranges(c);

	c->open.access_id = 0;
	if (!r && c->next_open < c->opens.n) {
		c->open = c->opens.list[c->next_open++];
		return SQLITE_OK;
	}
	if (!r)
		r = next_single(c);
	c->end = !r;
	return shfs_index_rc(MIN(r, 0));
}

/* Sorts, and drops duplicates: a rename is a use of both its paths. */
static void sort_ids(struct shfs_ids *list)
{
	size_t n = 0;

	if (list->n)
		qsort(list->ids, list->n, sizeof(*list->ids), shfs_compare_int64);
	for (size_t i = 0; i < list->n; i++)
		if (!n || list->ids[n - 1] != list->ids[i])
			list->ids[n++] = list->ids[i];
	list->n = n;
}

static int compare_opens(const void *a, const void *b)
{
	const struct shfs_file_use *x = a, *y = b;

	return (x->access_id > y->access_id) - (x->access_id < y->access_id);
}

/* Adds a value of the query; numbers that no file can have are left out. */
static int collect_value(struct shfs_ids *files, sqlite3_value *value)
{
	int64_t id = sqlite3_value_int64(value);

	return id > 0 && id < UINT32_MAX ? shfs_index_rc(shfs_ids_add(files, id))
	                                 : SQLITE_OK;
}

static int collect_values(struct shfs_ids *files, sqlite3_value *list)
{
	sqlite3_value *value;
	int rc = sqlite3_vtab_in_first(list, &value);

	for (; rc == SQLITE_OK; rc = sqlite3_vtab_in_next(list, &value)) {
		rc = collect_value(files, value);
		if (rc)
			return rc;
	}
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int collect_file_uses(struct cursor *c, sqlite3_value *value, bool many,
                             enum way way)
{
	bool opens = way == BY_FILE || way == BY_MADE;
	_cleanup_ids_ struct shfs_ids files = { 0 };
	int rc = many ? collect_values(&files, value) : collect_value(&files, value);

	if (rc)
		return rc;
	sort_ids(&files);
	rc = shfs_index_rc(shfs_file_uses_find(c->reader.index, &files, way == BY_MADE,
	                                       opens ? &c->opens : NULL, &c->accesses));
	if (c->opens.n)
		qsort(c->opens.list, c->opens.n, sizeof(*c->opens.list), compare_opens);
	sort_ids(&c->accesses);
	return rc;
}

static int cursor_filter(sqlite3_vtab_cursor *base, int way, const char *text, int argc,
                         sqlite3_value **argv)
{
	struct cursor *c = to_cursor(base);
	bool many = way & MANY;
	int64_t value = argc && !many ? sqlite3_value_int64(argv[0]) : 0;
	int rc = SQLITE_OK;

	way &= ~MANY;
	c->processes.n = c->opens.n = c->accesses.n = 0;
	c->next_process = c->next_open = c->next_access = 0;
	c->end = false;
	c->reader.in_range = false;
	c->reader.process_id = -1;
	c->owner = (struct shfs_last_owner){ 0 };
	if (argc && !many && sqlite3_value_type(argv[0]) == SQLITE_NULL)
		way = -1;
	switch (way) {
	case ALL:
		rc = shfs_index_rc(shfs_reader_range(&c->reader, 0, INT64_MAX));
		break;
	case BY_ACCESS:
		rc = shfs_index_rc(shfs_ids_add(&c->accesses, value));
		break;
	case BY_PROCESS:
		rc = shfs_index_rc(shfs_ids_add(&c->processes, value));
		break;
	case BY_FILE:
	case BY_MADE:
	case BY_CHANGE:
	case BY_CHANGE2:
		rc = collect_file_uses(c, argv[0], many, way);
		break;
	case BY_COMMAND:
		rc = shfs_index_rc(
			shfs_owner_processes(c->reader.index, value, &c->processes));
		if (!rc)
			rc = shfs_index_rc(shfs_owner_shell_accesses(c->reader.index,
			                                             value,
			                                             &c->accesses));
		break;
	default:
		break;
	}
	return rc ? rc : cursor_next(base);
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
	return to_cursor(base)->end;
}

static int64_t row_id(const struct cursor *c)
{
	return c->open.access_id ?: c->reader.chunk.access.access_id;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
	*out = row_id(to_cursor(base));
	return SQLITE_OK;
}

/* --- columns --- */

/* Returns an id; 0 becomes NULL. */
static void result_id(sqlite3_context *ctx, int64_t id)
{
	if (id)
		sqlite3_result_int64(ctx, id);
}

static int result_owner(sqlite3_context *ctx, struct cursor *c, bool command)
{
	struct shfs_owner owner = { 0 };
	int r = shfs_owner_of_access(c->reader.index, row_id(c), &c->owner, &owner);

	result_id(ctx, command ? owner.command_id : owner.session_id);
	return shfs_index_rc(r);
}

/* Returns a column of an open that is known without unpacking it: 1; 0: it is not. */
static int column_of_open(struct cursor *c, sqlite3_context *ctx, int column)
{
	switch (column) {
	case COL_OP:
	case COL_IS_SHOWN:
	case COL_IS_OPEN:
		sqlite3_result_int(ctx, column != COL_OP);
		return 1;
	case COL_FILE_ID:
		sqlite3_result_int64(ctx, c->open.file_id);
		return 1;
	default:
		return column == COL_FILE2_ID;
	}
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
	struct cursor *c = to_cursor(base);
	const struct shfs_access *a = &c->reader.chunk.access;
	int r;

	if (column == COL_ACCESS_ID) {
		sqlite3_result_int64(ctx, row_id(c));
		return SQLITE_OK;
	}
	if (column == COL_PROCESS_ID) {
		result_id(ctx, row_id(c) >> 32);
		return SQLITE_OK;
	}
	if (column == COL_SESSION_ID || column == COL_COMMAND_ID)
		return result_owner(ctx, c, column == COL_COMMAND_ID);
	if (c->open.access_id) {
		if (column_of_open(c, ctx, column))
			return SQLITE_OK;
		r = shfs_reader_find(&c->reader, c->open.access_id);
		if (r <= 0)
			return r ? shfs_index_rc(r) : SQLITE_CORRUPT_VTAB;
		c->open.access_id = 0;
	}
	switch (column) {
	case COL_SEQ:
		sqlite3_result_int64(ctx, a->seq);
		break;
	case COL_OP:
		sqlite3_result_int64(ctx, a->op);
		break;
	case COL_IS_SHOWN:
		sqlite3_result_int(ctx, a->op < SHFS_OP_PREIMAGE);
		break;
	case COL_IS_OPEN:
		sqlite3_result_int(ctx, !a->op);
		break;
	case COL_FLAGS:
		sqlite3_result_int64(ctx, a->flags);
		break;
	case COL_IS_READ:
		sqlite3_result_int(ctx, !!(a->flags & SHFS_ACCESS_READ));
		break;
	case COL_IS_WRITTEN:
		sqlite3_result_int(ctx, shfs_access_is_written(a));
		break;
	case COL_DIRECTORY:
		sqlite3_result_int(ctx, a->directory);
		break;
	case COL_FILE_ID:
		sqlite3_result_int64(ctx, a->file_id);
		break;
	case COL_FILE2_ID:
		result_id(ctx, a->file2_id);
		break;
	case COL_TEXT_ID:
		result_id(ctx, a->text_id);
		break;
	case COL_BEGIN_NS:
		sqlite3_result_int64(ctx, shfs_us_to_ns(a->begin_us));
		break;
	case COL_END_NS:
		sqlite3_result_int64(ctx, shfs_us_to_ns(a->end_us));
		break;
	case COL_MOMENT_NS:
		sqlite3_result_int64(ctx, shfs_us_to_ns(a->moment_us));
		break;
	case COL_SEEN_N:
		result_id(ctx, a->seen_n);
		break;
	case COL_MADE_N:
		result_id(ctx, a->made_n);
		break;
	case COL_CUT:
		sqlite3_result_int64(ctx, a->cut);
		break;
	case COL_TORN:
		sqlite3_result_int64(ctx, a->torn);
		break;
	case COL_FLAWED:
		sqlite3_result_int(ctx, a->flawed);
		break;
	default:
		break;
	}
	return SQLITE_OK;
}

int shfs_access_table_register(sqlite3 *db, struct shfs_index *index)
{
	/* Without xCreate the table exists under its own name only. */
	static const sqlite3_module module = {
		.xConnect = table_connect,
		.xDisconnect = table_disconnect,
		.xBestIndex = table_best_index,
		.xOpen = cursor_open,
		.xClose = cursor_close,
		.xFilter = cursor_filter,
		.xNext = cursor_next,
		.xEof = cursor_eof,
		.xColumn = cursor_column,
		.xRowid = cursor_rowid,
	};

	return sqlite3_create_module(db, "access", &module, index);
}
