/* SPDX-License-Identifier: MIT */
/*
 * shfs complete WORD...: what the last word of a command line can become, for the
 * completions of all shells: one candidate a line, then a tab and what it means. A line
 * ":files" or ":directories" asks the shell for names of its own. It is silent whatever
 * happens, and fast: it reads the index as it is.
 */
#include "query/context.h"
#include "query/model.h"
#include "query/time.h"

#include "common/clock.h"
#include "common/quote.h"

#include <string.h>

static void candidate(const char *cur, const char *word, const char *meaning)
{
	if (!strncmp(word, cur, strlen(cur)))
		printf("%s\t%s\n", word, meaning);
}

static void complete_options(const char *cur, const struct shfs_option *options)
{
	for (; options && options->name; options++) {
		_cleanup_buf_ struct shfs_buf word = { 0 };

		shfs_buf_printf(&word, "--%s", options->name);
		if (!word.failed)
			candidate(cur, word.data, options->help);
	}
}

static void complete_commands(const char *cur)
{
	for (const struct shfs_command *const *c = shfs_commands; *c; c++)
		if (!(*c)->hidden)
			candidate(cur, (*c)->name, (*c)->summary);
}

static void complete_words(const char *cur, const char *const *words)
{
	for (; *words; words++)
		candidate(cur, *words, "");
}

static struct shfs_index *open_index(struct shfs_context *ctx)
{
	if (!ctx->store && shfs_store_open(shfs_context_store_path(ctx), 0, &ctx->store))
		return NULL;
	if (!ctx->index && shfs_index_open(ctx->store, SHFS_INDEX_READ, &ctx->index))
		return NULL;
	return ctx->index;
}

/* The newest commands, by id. */
static void complete_ids(struct shfs_context *ctx, const char *cur)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_index *index = open_index(ctx);

	if (!index ||
	    shfs_rows_open(index,
	                   "SELECT id, text FROM v_command"
	                   " WHERE substr(id, 1, length(?1)) = ?1"
	                   " ORDER BY begin_ns DESC LIMIT 20",
	                   &rows) ||
	    shfs_rows_bind_str(rows, 1, cur))
		return;
	while (shfs_rows_next(rows) > 0) {
		_cleanup_buf_ struct shfs_buf text = { 0 };
		_cleanup_free_ char *id = strndup(shfs_rows_text(rows, 0), 7);

		shfs_show_first_line(&text, shfs_rows_text(rows, 1),
		                     shfs_rows_bytes(rows, 1), 50);
		if (id && !text.failed)
			candidate(strlen(cur) > 7 ? "" : cur, id,
			          text.data ? text.data : "");
	}
}

/* FILE@: the versions of FILE. at points to the "@" in cur. */
static void complete_versions(struct shfs_context *ctx, const char *cur, const char *at)
{
	_cleanup_free_ char *name = strndup(cur, at - cur), *path = NULL;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_index *index = open_index(ctx);

	if (!index || !name || shfs_operand_file(index, name, &path) <= 0 ||
	    shfs_rows_open(index,
	                   "SELECT n, time_ns, c.text FROM v_version v"
	                   " LEFT JOIN v_command c USING (command_id)"
	                   " WHERE path = ?1 ORDER BY n DESC LIMIT 50",
	                   &rows) ||
	    shfs_rows_bind_str(rows, 1, path))
		return;
	while (shfs_rows_next(rows) > 0) {
		_cleanup_buf_ struct shfs_buf word = { 0 }, meaning = { 0 };

		shfs_buf_printf(&word, "%s@%lld", name,
		                (long long)shfs_rows_int(rows, 0));
		shfs_time_show_relative(&meaning, shfs_rows_int(rows, 1));
		shfs_buf_str(&meaning, "  ");
		shfs_show_first_line(&meaning, shfs_rows_text(rows, 2),
		                     shfs_rows_bytes(rows, 2), 40);
		if (!word.failed && !meaning.failed)
			candidate(cur, word.data, meaning.data);
	}
}

/* What stands where an option's value, or an operand, is called kind in the help. */
static void complete_kind(struct shfs_context *ctx, const char *cur, const char *kind)
{
	static const char *const when[] = { "auto", "always", "never", NULL };
	static const char *const shells[] = { "bash", "zsh", "fish", NULL };
	static const char *const status[] = { "ok", "fail", NULL };
	const char *at = strrchr(cur, '@');

	if (strstr(kind, "WHEN"))
		complete_words(cur, when);
	else if (strstr(kind, "SHELL"))
		complete_words(cur, shells);
	else if (strstr(kind, "STATUS"))
		complete_words(cur, status);
	else if (strstr(kind, "DIR"))
		puts(":directories");
	else if (at && at > cur && strstr(kind, "FILE"))
		complete_versions(ctx, cur, at);
	else if (strstr(kind, "FILE") || strstr(kind, "PATH"))
		puts(":files");
	if (strstr(kind, "COMMAND") || strstr(kind, "ID"))
		complete_ids(ctx, cur);
}

static const struct shfs_option *find_option(const struct shfs_option *options,
                                             const char *word)
{
	for (; options && options->name; options++)
		if ((word[1] == '-' && !strcmp(word + 2, options->name)) ||
		    (word[1] && word[1] == options->letter && !word[2]))
			return options;
	return NULL;
}

static int run(struct shfs_context *ctx, int argc, char **argv)
{
	const char *cur = argc ? argv[argc - 1] : "";
	const struct shfs_command *command = NULL;
	const struct shfs_option *waiting = NULL; /* for its value */

	for (int i = 0; i < argc - 1; i++) {
		const char *word = argv[i];

		if (waiting) {
			waiting = NULL;
		} else if (word[0] == '-') {
			waiting = command ? find_option(command->options, word) : NULL;
			if (!waiting)
				waiting = find_option(shfs_common_options, word);
			if (waiting && !waiting->arg)
				waiting = NULL;
		} else if (!command) {
			for (const struct shfs_command *const *c = shfs_commands; *c; c++)
				if (!strcmp((*c)->name, word))
					command = *c;
			if (!command)
				return SHFS_EXIT_OK;
		}
	}
	if (waiting) {
		complete_kind(ctx, cur, waiting->arg);
	} else if (cur[0] == '-') {
		if (command)
			complete_options(cur, command->options);
		complete_options(cur, shfs_common_options);
	} else if (!command || command == &shfs_cmd_help) {
		complete_commands(cur);
	} else {
		complete_kind(ctx, cur, command->args);
	}
	return SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_complete = {
	.name = "complete",
	.args = "[--] [WORD…]",
	.summary = "Tell what the last word of a command line can become",
	.max_args = -1,
	.hidden = true,
	.run = run,
};
