/* SPDX-License-Identifier: MIT */
/*
 * entry.h - one entry of history: a command, or a process that belongs to none, with what
 * it did to files; as text and as JSON.
 */
#pragma once

#include "query/base/json.h"
#include "query/history/uses.h"

struct shfs_entry {
	bool is_process;
	struct shfs_command_row command;
	struct shfs_process_row process;
	int64_t job; /* what a job of the command executed, a process_id; 0: all of it */
	struct shfs_uses uses;
};

/* 1, 0 where there is no such command or process, or a negative errno. max: of its
 * accesses that are summed up; 0: all. */
_must_check_ int shfs_entry_load(struct shfs_index *index, bool is_process, int64_t id,
                                 int64_t max, struct shfs_entry *out);
void shfs_entry_clear(struct shfs_entry *entry);
#define _cleanup_entry_ _cleanup_(shfs_entry_clear)

/* How entries are shown. */
struct shfs_entry_view {
	const struct shfs_style *style;
	size_t columns;
	char **paths; /* that were asked for, shown first; ends with NULL; may be NULL */
	bool all;     /* what lies in .git and the like is not summed up */
};

/* Some lines of at most view->columns: what was run, when and how it ended, and what it
 * used, cut where it is much. */
_must_check_ int shfs_entry_show(struct shfs_index *index,
                                 const struct shfs_entry_view *view,
                                 const struct shfs_entry *entry, struct shfs_buf *out);

/* One line: the id and the text of a command, what a job or a process was called by.
 * Where columns is not enough for any of the text, the id alone. */
_must_check_ int shfs_entry_show_head(struct shfs_index *index,
                                      const struct shfs_style *style,
                                      const struct shfs_entry *entry, size_t columns,
                                      struct shfs_buf *out);

/* The members of an object that the caller has begun (docs/json.md). */
void shfs_entry_json(struct shfs_json *json, const struct shfs_entry *entry);
/* The same without what it used. */
void shfs_entry_json_head(struct shfs_json *json, const struct shfs_entry *entry);
