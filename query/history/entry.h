/* SPDX-License-Identifier: MIT */
/*
 * entry.h - one entry of history: a command, or a process that belongs to none, with its
 * uses of files; as text and as JSON.
 */
#pragma once

#include "query/base/json.h"
#include "query/history/notes.h"
#include "query/history/uses.h"

struct shfs_entry {
	bool is_process;
	struct shfs_command_row command;
	struct shfs_process_row process;
	int64_t job; /* only this job of the command: the process_id of its program; 0:
	              * all */
	struct shfs_uses uses;
	struct shfs_notes notes; /* of the command */
};

/* Loads an entry: 1; 0 if there is no such command or process; or a negative errno. max:
 * number of accesses to sum up; 0: all. */
_must_check_ int shfs_entry_load(struct shfs_index *index, bool is_process, int64_t id,
                                 int64_t max, struct shfs_entry *out);
void shfs_entry_clear(struct shfs_entry *entry);
#define _cleanup_entry_ _cleanup_(shfs_entry_clear)

/* How entries are shown. */
struct shfs_entry_view {
	const struct shfs_style *style;
	size_t columns;
	char **paths; /* that were asked for, shown first; ends with NULL; may be NULL */
	bool all;     /* show files in .git and the like one by one */
};

/* Shows some lines of at most view->columns: the command, when and how it ended, and its
 * uses, shortened if there are many. */
_must_check_ int shfs_entry_show(struct shfs_index *index,
                                 const struct shfs_entry_view *view,
                                 const struct shfs_entry *entry, struct shfs_buf *out);

/* Shows one line: the id and the text of a command, or how a job or a process was called.
 * If columns is too few for any of the text, only the id. */
_must_check_ int shfs_entry_show_head(struct shfs_index *index,
                                      const struct shfs_style *style,
                                      const struct shfs_entry *entry, size_t columns,
                                      struct shfs_buf *out);

/* The members of an object that the caller has begun (docs/json.md). */
void shfs_entry_json(struct shfs_json *json, const struct shfs_entry *entry);
/* The same without the uses. */
void shfs_entry_json_head(struct shfs_json *json, const struct shfs_entry *entry);
