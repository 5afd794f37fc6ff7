/* SPDX-License-Identifier: MIT */
/*
 * entry-columns.h - the columns that a command (or a process of none) has in tables:
 * those of history, and of other lists that say by which command something was done.
 */
#pragma once

#include "query/history/entry.h"

enum shfs_entry_column {
	SHFS_ENTRY_ID,
	SHFS_ENTRY_BEGIN,
	SHFS_ENTRY_END,
	SHFS_ENTRY_DURATION,
	SHFS_ENTRY_STATUS,
	SHFS_ENTRY_SESSION,
	SHFS_ENTRY_HOST,
	SHFS_ENTRY_CWD,
	SHFS_ENTRY_INVOKER,
	SHFS_ENTRY_TEXT,
	SHFS_ENTRY_COLUMNS
};

/* The first rows of a command's table of columns. */
#define SHFS_ENTRY_COLUMN_ROWS                                                           \
	[SHFS_ENTRY_ID] = { "id", "of the command, as short as it can be" },             \
	[SHFS_ENTRY_BEGIN] = { "begin", "when it began" },                               \
	[SHFS_ENTRY_END] = { "end", "when it ended" },                                   \
	[SHFS_ENTRY_DURATION] = { "duration", "how long it took", SHFS_COLUMN_NUMBER },  \
	[SHFS_ENTRY_STATUS] = { "status", "its exit status", SHFS_COLUMN_NUMBER },       \
	[SHFS_ENTRY_SESSION] = { "session", "the id of its session" },                   \
	[SHFS_ENTRY_HOST] = { "host", "where it ran" },                                  \
	[SHFS_ENTRY_CWD] = { "cwd", "its working directory" },                           \
	[SHFS_ENTRY_INVOKER] = { "invoker", "the program that gave it: agent claude" },  \
	[SHFS_ENTRY_TEXT] = { "text", "as it was typed" }

/* Appends a cell: nothing where there is no such value. entry NULL: nothing at all. */
_must_check_ int shfs_entry_cell(struct shfs_index *index, const struct shfs_entry *entry,
                                 enum shfs_entry_column column, struct shfs_buf *out);
