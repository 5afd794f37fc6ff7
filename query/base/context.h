/* SPDX-License-Identifier: MIT */
/*
 * context.h - what main.c tells context.c: the common options. Commands see cmd.h alone.
 */
#pragma once

#include "query/base/cmd.h"

struct shfs_context {
	/* of the command line; borrowed */
	const char *store_option, *config_option, *color_option;
	bool no_pager;
	bool at_once; /* of the command */
	/* made when first asked for */
	char *store_path;
	struct shfs_store *store;
	struct shfs_index *index;
	struct shfs_config config;
	bool config_read;
	int color; /* -1: not decided yet */
};

void shfs_context_clear(struct shfs_context *ctx);

/* Before this program is forbidden to run others: as one may be asked for. */
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

/* suggest.c: the name in names that word was probably meant to be, or NULL. */
const char *shfs_suggest(const char *word, const char *const *names, size_t n);
