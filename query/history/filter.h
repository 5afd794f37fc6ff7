/* SPDX-License-Identifier: MIT */
/*
 * filter.h - selects commands, and versions of files: the options that queries share, as
 * conditions on the views.
 *
 * Text from the user only ever becomes a bound parameter.
 */
#pragma once

#include "common/buf.h"
#include "query/base/cmd.h"
#include "query/history/clocks.h"

/* --- a SELECT under construction: text, and its parameters --- */

struct shfs_query {
	struct shfs_buf sql;
	struct shfs_query_arg *args;
	size_t n, cap;
	bool failed;
};

/* Each returns the number of the new parameter (?1, ?2, ...). */
int shfs_query_str(struct shfs_query *query, const char *text);
int shfs_query_int(struct shfs_query *query, int64_t value);

_must_check_ int shfs_query_open(const struct shfs_query *query, struct shfs_index *index,
                                 struct shfs_rows **out);
void shfs_query_free(struct shfs_query *query);
#define _cleanup_query_ _cleanup_(shfs_query_free)

/* --- the options --- */

enum shfs_filter_kind {
	SHFS_FILTER_SINCE,   /* ns */
	SHFS_FILTER_UNTIL,   /* ns; not including */
	SHFS_FILTER_GREP,    /* text */
	SHFS_FILTER_REGEX,   /* text */
	SHFS_FILTER_CWD,     /* a directory: ran there or below */
	SHFS_FILTER_COMMAND, /* the beginning of a command id; one of these */
	SHFS_FILTER_WITHIN,  /* the beginning of a command id; ran in it; one of these */
	SHFS_FILTER_SESSION, /* the beginning of a session id; one of these */
	SHFS_FILTER_STATUS,  /* ns: the exit status */
	SHFS_FILTER_NOT_STATUS,
	SHFS_FILTER_HOST,
	SHFS_FILTER_USER, /* uid: its shell or one of its programs ran as this user */
	SHFS_FILTER_BY,   /* an invoker: "agent claude", "agent" or "claude"; "shell" */
	SHFS_FILTER_READ, /* a path or a pattern */
	SHFS_FILTER_WROTE,
	SHFS_FILTER_PATH, /* ran in, or touched something at or below; one of these, in
	                   * each group */
	SHFS_FILTER_NAME, /* a pattern: used a file with such a name */
	/* conditions on the versions that it read or wrote */
	SHFS_FILTER_CONTENT,  /* a file, or FILE@N: they have the same content */
	SHFS_FILTER_SIZE_MIN, /* bytes */
	SHFS_FILTER_SIZE_MAX,
	SHFS_FILTER_MODIFIED_SINCE, /* ns: their mtime */
	SHFS_FILTER_MODIFIED_UNTIL, /* not including */
	SHFS_FILTER_USED,           /* used one of them; if there is no READ or WROTE */
};

enum shfs_filter_sort {
	SHFS_SORT_TIME,     /* the latest first */
	SHFS_SORT_DURATION, /* the longest first */
	SHFS_SORT_STATUS,   /* the highest first */
	SHFS_SORT_CWD,      /* these by their bytes */
	SHFS_SORT_COMMAND,
	SHFS_SORT_HOST,
};

struct shfs_filter {
	struct shfs_filter_item *items;
	size_t n, cap;
	bool all;        /* also commands that touched no files and did not fail, and
	                  * processes without a command */
	bool no_command; /* only processes without a command, with or without accesses;
	                  * a text is searched in their arguments */
	bool in_definitions; /* a text is also searched in what the command used of its
	                      * shell (definitions.h) */
	int n_or; /* how many --or there are: one less than groups, of which one must
	           * hold */
	enum shfs_filter_sort sort; /* then by time, the latest first */
	bool reverse; /* the other way round; but what has no such key still comes last */
	int64_t limit;    /* 0: none */
	bool as_recorded; /* clocks count as right */
	struct shfs_clocks clocks;
};

/* -ENOMEM; -EINVAL: no value of that kind. */
_must_check_ int shfs_filter_add_int(struct shfs_filter *filter,
                                     enum shfs_filter_kind kind, int64_t value);
_must_check_ int shfs_filter_add(struct shfs_filter *filter, enum shfs_filter_kind kind,
                                 const char *text);
/* "ok", "fail", "2", "!0". -EINVAL. */
_must_check_ int shfs_filter_add_status(struct shfs_filter *filter, const char *text);
/* "10K", "+10M" (that or more), "-1K", "10K..2M". -EINVAL. */
_must_check_ int shfs_filter_add_size(struct shfs_filter *filter, const char *text);
/* Items that are added from now on are another group. -EINVAL: this one is empty. */
_must_check_ int shfs_filter_or(struct shfs_filter *filter);
/* The items behind the first n count in each group. None of them is about versions. */
void shfs_filter_put_in_all(struct shfs_filter *filter, size_t n);
/* Keeps only the first n items. */
void shfs_filter_cut(struct shfs_filter *filter, size_t n);
void shfs_filter_free(struct shfs_filter *filter);

/* Does one of its groups select only by time, host and use of paths, so that it could be
 * met by what was lost after begin_ns, in a recording of root on host? */
bool shfs_filter_fits_gap(const struct shfs_filter *filter, const char *root,
                          const char *host, int64_t begin_ns);

/* Can a process without a command meet all conditions? */
bool shfs_filter_fits_processes(const struct shfs_filter *filter);

/* The text of the last such item; NULL: there is none. */
const char *shfs_filter_text(const struct shfs_filter *filter,
                             enum shfs_filter_kind kind);

/* Rows for the table of a command's options; shfs_filter_resolve reads the bytes of
 * FILE. */
#define SHFS_FILTER_OPTIONS                                                              \
	{ "since", 0, "TIME",                                                            \
	  "begun at this time or later (\"2 hours ago\", yesterday)" },                  \
		{ "until", 0, "TIME", "begun before this time" },                        \
		{ "grep", 'g', "TEXT", "the text of the command contains this" },        \
		{ "regex", 0, "RE",                                                      \
		  "the text matches this extended regular expression" },                 \
		{ "cwd", 0, "DIR", "ran in this directory or below" },                   \
		{ "command", 0, "ID", "the command with this id (may be repeated)" },    \
		{ "within", 0, "ID", "ran in this command, also on other hosts" },       \
		{ "session", 0, "ID", "typed in this session" },                         \
		{ "status", 0, "STATUS",                                                 \
		  "ended with this: ok, fail, a number, or !number" },                   \
		{ "failed", 0, NULL, "the same as --status fail" },                      \
		{ "host", 0, "HOST", "ran on this host" },                               \
		{ "here", 0, NULL, "ran on the host that this is" },                     \
		{ "user", 0, "USER", "ran as this user: a name here, or a number" },     \
		{ "by", 0, "NAME",                                                       \
		  "given by this program: claude, agent, cron; or typed: shell" },       \
		{ "read", 0, "PATH",                                                     \
		  "read this file, something below it, or a pattern's files" },          \
		{ "wrote", 0, "PATH",                                                    \
		  "wrote this file, something below it, or a pattern's files" },         \
		{ "name", 0, "PATTERN", "used a file of this name, such as '*.csv'" },   \
		{ "content", 0, "FILE",                                                  \
		  "used the content of this file, under any name" },                     \
		{ "size", 0, "SIZE",                                                     \
		  "used a file of this size: 10K, +10M, -1K, 10K..2M" },                 \
		{ "modified-since", 0, "TIME",                                           \
		  "used a file last modified at this time or later" },                   \
	{                                                                                \
		"modified-until", 0, "TIME",                                             \
			"used a file last modified before this time"                     \
	}

/* For commands that list: conditions before it, or those after it. */
#define SHFS_FILTER_OR                                                                   \
	{                                                                                \
		"or", 0, NULL, "the conditions before this, or those after it"           \
	}

/* For commands that show what they list in its order. */
#define SHFS_FILTER_SORT                                                                 \
	{                                                                                \
		"sort", 0, "ORDER", "by time, duration, status, cwd, command or host"    \
	}

/* Takes one of these options. An exit code, after it has said what is wrong. */
_must_check_ int shfs_filter_option(struct shfs_filter *filter,
                                    const struct shfs_option *opt, const char *value);

/* Looks up files and ids in the options. An exit code, after a message. */
_must_check_ int shfs_filter_resolve(struct shfs_filter *filter, struct shfs_context *ctx,
                                     struct shfs_index *index);

/* The content of FILE or FILE@N: its object, if flags have one; else its size and its
 * fingerprints: of samples, and of the whole (WHOLE); flags 0: not known. */
_must_check_ int shfs_filter_content(struct shfs_context *ctx, struct shfs_index *index,
                                     const char *operand,
                                     struct shfs_content out[static 2]);

/* Moves the conditions on files to files: paths, names, contents, sizes, mtimes. */
_must_check_ int shfs_filter_split(struct shfs_filter *filter, struct shfs_filter *files);

/* Do they need v_version v, or only v_path p? Adds them as a condition. */
bool shfs_filter_is_of_versions(const struct shfs_filter *files);
void shfs_filter_files(const struct shfs_filter *files, struct shfs_query *query,
                       const char *file_id);

/* Counts the files that the paths name, which changes how the query runs and not its
 * answer; and finds how clocks differ, by which it is ordered. */
_must_check_ int shfs_filter_measure(struct shfs_filter *f, struct shfs_index *index);

/*
 * Makes the statement: rows of (0, command_id, begin_ns), and of (1, process_id,
 * first_ns) for processes without a command if they are wanted; in the order of sort.
 * These times are as the clock of this host would say them.
 */
_must_check_ int shfs_filter_query(const struct shfs_filter *filter,
                                   struct shfs_query *query);
