/* SPDX-License-Identifier: MIT */
/*
 * filter.h - which commands history shows: the options as conditions on the views.
 *
 * Text of the user only ever becomes a bound parameter.
 */
#pragma once

#include "common/buf.h"
#include "query/cmd.h"

/* --- a SELECT in the making: text, and the parameters it refers to --- */

struct shfs_query {
	struct shfs_buf sql;
	struct shfs_query_arg *args;
	size_t n, cap;
	bool failed;
};

/* Each returns the number of the new parameter (?1, ?2, ...). */
int shfs_query_text(struct shfs_query *query, const char *text, size_t len);
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
	SHFS_FILTER_SESSION, /* the beginning of its id */
	SHFS_FILTER_STATUS,  /* ns: the exit status */
	SHFS_FILTER_NOT_STATUS,
	SHFS_FILTER_HOST,
	SHFS_FILTER_READ, /* a path or a pattern */
	SHFS_FILTER_WROTE,
	SHFS_FILTER_PATH, /* ran in, or touched something at or below; any of these */
};

struct shfs_filter {
	struct shfs_filter_item *items;
	size_t n, cap;
	bool all; /* also commands that touched no files, and processes without a command
	           */
	bool reverse;  /* oldest first */
	int64_t limit; /* 0: none */
};

/* -ENOMEM; -EINVAL for what cannot be a value of that kind. */
_must_check_ int shfs_filter_add_int(struct shfs_filter *filter,
                                     enum shfs_filter_kind kind, int64_t value);
_must_check_ int shfs_filter_add(struct shfs_filter *filter, enum shfs_filter_kind kind,
                                 const char *text);
/* "ok", "fail", "2", "!0". -EINVAL. */
_must_check_ int shfs_filter_add_status(struct shfs_filter *filter, const char *text);
bool shfs_filter_has(const struct shfs_filter *filter, enum shfs_filter_kind kind);
void shfs_filter_free(struct shfs_filter *filter);

/* The last one's value; 0: there is none. */
int64_t shfs_filter_int(const struct shfs_filter *filter, enum shfs_filter_kind kind);

/* For the table of a command's options. */
#define SHFS_FILTER_OPTIONS                                                              \
	{ "since", 0, "TIME",                                                            \
	  "begun at this time or later (\"2 hours ago\", yesterday)" },                  \
		{ "until", 0, "TIME", "begun before this time" },                        \
		{ "grep", 'g', "TEXT", "the text of the command holds this" },           \
		{ "regex", 0, "RE",                                                      \
		  "the text matches this extended regular expression" },                 \
		{ "cwd", 0, "DIR", "ran in this directory or below" },                   \
		{ "session", 0, "ID", "of this shell session" },                         \
		{ "status", 0, "STATUS", "ended so: ok, fail, a number, or !number" },   \
		{ "failed", 0, NULL, "the same as --status fail" },                      \
		{ "host", 0, "HOST", "ran on this host" },                               \
		{ "read", 0, "PATH",                                                     \
		  "read this file, something below it, or a pattern's files" },          \
	{                                                                                \
		"wrote", 0, "PATH",                                                      \
			"wrote this file, something below it, or a pattern's files"      \
	}

/* Takes one of these options. 0; an exit code, after it has said what is wrong; or
 * SHFS_FILTER_OTHER: it is none of them. */
#define SHFS_FILTER_OTHER (-1)
_must_check_ int shfs_filter_option(struct shfs_filter *filter,
                                    const struct shfs_option *opt, const char *value);

/* Looks how many files the paths name: that decides how the query goes about it, and not
 * what it answers. */
_must_check_ int shfs_filter_measure(struct shfs_filter *f, struct shfs_index *index);

/*
 * The statement: rows of (0, command_id, begin_ns), and of (1, process_id, first_ns) for
 * processes without a command where they are wanted, newest first unless reverse.
 */
_must_check_ int shfs_filter_query(const struct shfs_filter *filter,
                                   struct shfs_query *query);
