/* SPDX-License-Identifier: MIT */
/*
 * table.h - rows in the columns that --output names, printed when all are there: widths
 * are those of the widest cells. Nothing is cut: a name that is cut is another name.
 *
 * Cells are text that is escaped already, in UTF-8 whatever the locale is.
 */
#pragma once

#include "query/base/cmd.h"

struct shfs_table;

/* Do the names that --output has go with this command, and with its other options?
 * Returns an exit code, after it has said what is wrong and what there is. */
_must_check_ int shfs_table_check(const struct shfs_command *command);

/* Makes an empty table with the columns of --output, or else the usual ones of the
 * command; shfs_table_check has been called. -ENOMEM. */
_must_check_ int shfs_table_open(const struct shfs_command *command,
                                 struct shfs_table **out);
void shfs_table_close(struct shfs_table *table);
static inline void shfs_table_closep(struct shfs_table **table)
{
	shfs_table_close(*table);
}
#define _cleanup_table_ _cleanup_(shfs_table_closep)

/* Is this one of its columns (an index of the command's)? What only a column that is not
 * shown needs can be left out. */
bool shfs_table_has(const struct shfs_table *table, int column);

/* Appends the text of a cell to out, which is empty; nothing where there is no value.
 * Returns 0 or a negative errno. */
typedef int shfs_table_cell(void *arg, int column, struct shfs_buf *out);

/* Adds a row: calls cell for each of its columns. -ENOMEM, or what cell returned. */
_must_check_ int shfs_table_add(struct shfs_table *table, shfs_table_cell *cell,
                                void *arg);

/* Prints the table, through the pager if that is wanted; without a heading if it has no
 * row, or if it is bare: then the usual columns speak for themselves. -ENOMEM, or -EIO
 * where the output failed. */
_must_check_ int shfs_table_print(struct shfs_context *ctx, struct shfs_table *table,
                                  bool bare);
