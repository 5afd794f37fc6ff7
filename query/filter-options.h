/* SPDX-License-Identifier: MIT */
/*
 * filter-options.h - the options of history that say which commands, for all who have
 * them.
 */
#pragma once

#include "query/cmd.h"
#include "query/filter.h"

/* A part of a table of options. */
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

/* One of these, or "limit" or "all". Returns 0, or an exit code after it has said what is
 * wrong. */
int shfs_filter_option(struct shfs_filter *filter, const struct shfs_option *opt,
                       const char *value);
