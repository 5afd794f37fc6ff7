/* SPDX-License-Identifier: MIT */
#include "query/table/table.h"

#include "common/quote.h"
#include "query/base/context.h"
#include "query/base/model.h"

#include <ctype.h>
#include <errno.h>
#include <libsmartcols.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

#define SHOWN_MAX 64 /* columns of a table; one may be named more than once */
#define SEPARATOR "  "

const char *shfs_output_columns;

struct shfs_table {
	struct libscols_table *table;
	int shown[SHOWN_MAX]; /* indexes of the command's columns */
	int n;
	size_t rows;
};

/* --- names --- */

static int find_column(const struct shfs_column *columns, const char *name, size_t len)
{
	for (int i = 0; columns[i].name; i++)
		if (strlen(columns[i].name) == len &&
		    !strncasecmp(columns[i].name, name, len))
			return i;
	return -1;
}

static int refuse_name(const struct shfs_command *command, const char *name, size_t len)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 }, known = { 0 };

	shfs_quote_display(&shown, name, len);
	for (const struct shfs_column *c = command->columns; c->name; c++)
		shfs_buf_printf(&known, "%s%s", known.len ? ", " : "", c->name);
	shfs_error("--output: there is no column \"%s\"", shown.data ?: "");
	shfs_hint("columns: %s", known.data ?: "");
	return SHFS_EXIT_USAGE;
}

/* Adds the columns that a list names. An exit code. */
static int add_columns(struct shfs_table *t, const struct shfs_command *command,
                       const char *list)
{
	for (;; list++) {
		size_t len = strcspn(list, ",");
		int column = find_column(command->columns, list, len);

		if (column < 0)
			return refuse_name(command, list, len);
		if (t->n == SHOWN_MAX) {
			shfs_error("--output: at most %d columns", SHOWN_MAX);
			return SHFS_EXIT_USAGE;
		}
		t->shown[t->n++] = column;
		list += len;
		if (!*list)
			return 0;
	}
}

/* Chooses the columns; "+size" adds to the usual ones. An exit code. */
static int choose_columns(struct shfs_table *t, const struct shfs_command *command)
{
	const char *list = shfs_output_columns;
	int code = 0;

	if (!list || *list == '+')
		code = add_columns(t, command, command->usual_columns);
	if (!code && list)
		code = add_columns(t, command, list + (*list == '+'));
	return code;
}

int shfs_table_check(const struct shfs_command *command)
{
	struct shfs_table t = { 0 };

	for (const struct shfs_option *opt = command->options; opt->name; opt++)
		if (!strcmp(opt->name, "json") && opt->flag && *opt->flag) {
			shfs_error("--output does not go with --json, which has all");
			return SHFS_EXIT_USAGE;
		}
	return choose_columns(&t, command);
}

/* --- the table --- */

static int add_scols_column(struct shfs_table *t, const struct shfs_column *column)
{
	char heading[32];
	size_t n = 0;
	int flags = column->kind == SHFS_COLUMN_NUMBER ? SCOLS_FL_RIGHT : 0;

	for (; column->name[n] && n + 1 < sizeof(heading); n++)
		heading[n] = (char)toupper((unsigned char)column->name[n]);
	heading[n] = '\0';
	return scols_table_new_column(t->table, heading, 0, flags) ? 0 : -ENOMEM;
}

int shfs_table_open(const struct shfs_command *command, struct shfs_table **out)
{
	_cleanup_table_ struct shfs_table *t = calloc(1, sizeof(*t));
	int r = 0;

	if (!t)
		return -ENOMEM;
	t->table = scols_new_table();
	if (!t->table || scols_table_set_column_separator(t->table, SEPARATOR))
		return -ENOMEM;
	if (choose_columns(t, command))
		return -EINVAL;
	for (int i = 0; i < t->n && !r; i++)
		r = add_scols_column(t, &command->columns[t->shown[i]]);
	if (r)
		return r;
	*out = TAKE_PTR(t);
	return 0;
}

void shfs_table_close(struct shfs_table *t)
{
	if (!t)
		return;
	scols_unref_table(t->table);
	free(t);
}

bool shfs_table_has(const struct shfs_table *t, int column)
{
	for (int i = 0; i < t->n; i++)
		if (t->shown[i] == column)
			return true;
	return false;
}

int shfs_table_add(struct shfs_table *t, shfs_table_cell *cell, void *arg)
{
	struct libscols_line *line = scols_table_new_line(t->table, NULL);

	if (!line)
		return -ENOMEM;
	t->rows++;
	for (int i = 0; i < t->n; i++) {
		_cleanup_buf_ struct shfs_buf text = { 0 };
		int r = cell(arg, t->shown[i], &text);

		if (r)
			return r;
		if (text.failed)
			return -ENOMEM;
		if (text.len && scols_line_set_data(line, i, text.data))
			return -ENOMEM;
	}
	return 0;
}

/*
 * Prints it with the widths of UTF-8 in any locale, as names are UTF-8 in any. Cells are
 * escaped already; but in a locale without UTF-8 the library never ends on a cell that it
 * does not escape itself (2.38), so it does where there is no such locale.
 */
static int print_in_utf8(struct shfs_table *t)
{
	locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
	int r = scols_table_enable_noencoding(t->table, utf8 != (locale_t)0)
	                ?: scols_print_table(t->table);

	if (utf8) {
		uselocale(before);
		freelocale(utf8);
	}
	return r;
}

int shfs_table_print(struct shfs_context *ctx, struct shfs_table *t, bool bare)
{
	if (!t->rows)
		return 0;
	shfs_context_pager(ctx);
	scols_table_enable_noheadings(t->table, bare && !shfs_output_columns);
	/* a terminal or not: a name that is cut is another name */
	scols_table_set_termforce(t->table, SCOLS_TERMFORCE_NEVER);
	if (print_in_utf8(t))
		return -ENOMEM;
	return ferror(stdout) ? -EIO : 0;
}
