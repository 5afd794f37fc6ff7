/* SPDX-License-Identifier: MIT */
/* Reads rows of views, for queries in SQL. */
#include "store/index/internal.h"

#include <errno.h>
#include <string.h>

struct shfs_rows {
	struct shfs_index *index;
	sqlite3_stmt *stmt;
	bool has_row, done;
};

/* Takes a closed statement again, as compiling takes longer than most queries. */
static sqlite3_stmt *take_kept(struct shfs_index *index, const char *sql)
{
	for (size_t i = 0; i < ARRAY_SIZE(index->kept); i++)
		if (index->kept[i] && !strcmp(sqlite3_sql(index->kept[i]), sql))
			return TAKE_PTR(index->kept[i]);
	return NULL;
}

void shfs_rows_drop_kept(struct shfs_index *index)
{
	for (size_t i = 0; i < ARRAY_SIZE(index->kept); i++)
		sqlite3_finalize(TAKE_PTR(index->kept[i]));
}

int shfs_rows_open(struct shfs_index *index, const char *sql, struct shfs_rows **out)
{
	_cleanup_rows_ struct shfs_rows *rows = calloc(1, sizeof(*rows));
	const char *tail;
	int rc;

	if (!rows)
		return -ENOMEM;
	rows->index = index;
	rows->stmt = take_kept(index, sql);
	if (!rows->stmt) {
		rc = sqlite3_prepare_v2(index->db, sql, -1, &rows->stmt, &tail);
		if (rc)
			return shfs_index_errno(index->db, rc);
		if (!rows->stmt || tail[strspn(tail, " \t\n;")] ||
		    !sqlite3_stmt_readonly(rows->stmt)) {
			sqlite3_finalize(TAKE_PTR(rows->stmt)); /* not to be kept */
			return -EINVAL;
		}
	}
	*out = TAKE_PTR(rows);
	return 0;
}

void shfs_rows_close(struct shfs_rows *rows)
{
	struct shfs_index *index;
	sqlite3_stmt **slot;

	if (!rows)
		return;
	index = rows->index;
	if (rows->stmt) {
		sqlite3_reset(rows->stmt);
		sqlite3_clear_bindings(rows->stmt);
		slot = &index->kept[index->next_kept++ % ARRAY_SIZE(index->kept)];
		sqlite3_finalize(*slot);
		*slot = rows->stmt;
	}
	free(rows);
}

/* SQLite refuses to bind while a statement is in the middle of its rows. */
static int bindable(struct shfs_rows *rows, int n)
{
	if (n < 1 || n > sqlite3_bind_parameter_count(rows->stmt))
		return -EINVAL;
	shfs_rows_reset(rows);
	return 0;
}

int shfs_rows_bind_int(struct shfs_rows *rows, int n, int64_t value)
{
	int r = bindable(rows, n);

	if (r)
		return r;
	return shfs_index_errno(rows->index->db,
	                        sqlite3_bind_int64(rows->stmt, n, value));
}

int shfs_rows_bind_text(struct shfs_rows *rows, int n, const char *data, size_t len)
{
	int r = bindable(rows, n);

	if (r)
		return r;
	return shfs_index_errno(rows->index->db,
	                        sqlite3_bind_text64(rows->stmt, n, len ? data : "", len,
	                                            SQLITE_TRANSIENT, SQLITE_UTF8));
}

int shfs_rows_bind_str(struct shfs_rows *rows, int n, const char *s)
{
	return shfs_rows_bind_text(rows, n, s, strlen(s));
}

int shfs_rows_open_ints(struct shfs_index *index, const char *sql, const int64_t *values,
                        int n, struct shfs_rows **out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index, sql, &rows);

	for (int i = 0; i < n && !r; i++)
		r = shfs_rows_bind_int(rows, i + 1, values[i]);
	if (!r)
		*out = TAKE_PTR(rows);
	return r;
}

int shfs_rows_open_str(struct shfs_index *index, const char *sql, const char *value,
                       struct shfs_rows **out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index, sql, &rows);

	if (!r)
		r = shfs_rows_bind_str(rows, 1, value);
	if (!r)
		*out = TAKE_PTR(rows);
	return r;
}

int shfs_rows_next(struct shfs_rows *rows)
{
	int rc;

	if (rows->done)
		return 0;
	rc = sqlite3_step(rows->stmt);
	rows->has_row = rc == SQLITE_ROW;
	if (rows->has_row)
		return 1;
	/* The first error stays in the database's message: a reset would repeat it. */
	rows->done = true;
	if (rc == SQLITE_DONE)
		sqlite3_reset(rows->stmt);
	return shfs_index_errno(rows->index->db, rc);
}

void shfs_rows_reset(struct shfs_rows *rows)
{
	sqlite3_reset(rows->stmt);
	rows->has_row = rows->done = false;
}

int64_t shfs_rows_int(struct shfs_rows *rows, int col)
{
	return rows->has_row ? sqlite3_column_int64(rows->stmt, col) : 0;
}

const char *shfs_rows_text(struct shfs_rows *rows, int col)
{
	const unsigned char *text =
		rows->has_row ? sqlite3_column_text(rows->stmt, col) : NULL;

	return text ? (const char *)text : "";
}

size_t shfs_rows_bytes(struct shfs_rows *rows, int col)
{
	if (!rows->has_row || !sqlite3_column_text(rows->stmt, col))
		return 0;
	return sqlite3_column_bytes(rows->stmt, col);
}

bool shfs_rows_is_null(struct shfs_rows *rows, int col)
{
	return !rows->has_row || sqlite3_column_type(rows->stmt, col) == SQLITE_NULL;
}

bool shfs_rows_is_int(struct shfs_rows *rows, int col)
{
	return rows->has_row && sqlite3_column_type(rows->stmt, col) == SQLITE_INTEGER;
}

int shfs_rows_columns(struct shfs_rows *rows)
{
	return sqlite3_column_count(rows->stmt);
}
