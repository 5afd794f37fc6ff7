/* SPDX-License-Identifier: MIT */
/*
 * context.h - the common options, which main.c gives to context.c. Commands see only
 * cmd.h.
 */
#pragma once

#include "query/base/cmd.h"

struct shfs_context {
	/* of the command line; borrowed */
	const char *store_option, *config_option, *color_option;
	bool no_pager;
	bool at_once; /* as of the command */
	/* made on first use */
	char *store_path;
	struct shfs_store *store;
	struct shfs_index *index;
	struct shfs_config config;
	bool config_read;
	struct shfs_trees *trees;
	bool trees_read;
	int color; /* -1: not decided yet */
};

/* Begins the context of this program; there is one at a time. */
void shfs_context_begin(struct shfs_context *ctx);
/* This process is for one question, by one thread: it may take memory as it needs. */
void shfs_context_one_question(void);
void shfs_context_clear(struct shfs_context *ctx);

/* Call before the program forbids itself to run others: it may need a pager later. */
void shfs_pager_prepare(void);
/* Runs the pager on standard output until this program ends. */
void shfs_pager_start(const char *command);

/* main.c's table, for help and completions; ends with NULL. */
extern const struct shfs_command *const shfs_commands[];
extern const struct shfs_option shfs_common_options[];
const struct shfs_command *shfs_command_by_name(const char *name);

/* help.c */
void shfs_help_overview(struct shfs_buf *out);
void shfs_help_command(const struct shfs_command *command, struct shfs_buf *out);

/* suggest.c: the name in names that the user probably meant by word, or NULL. */
const char *shfs_suggest(const char *word, const char *const *names, size_t n);

/* Becomes another shfs command, with the store and the configuration of this one: words,
 * a NULL at their end. Returns an exit code, after a message, if that fails. */
int shfs_context_exec(struct shfs_context *ctx, const char *const *words);
