/* SPDX-License-Identifier: MIT */
/*
 * shfs complete -- WORD...: completes the last word of a command line, for the
 * completions of all shells. The words are those after "shfs", up to the cursor, without
 * quotes. Each candidate is one line, followed by a tab and its meaning. Other lines
 * begin with ":":
 *
 *     :files          also names of files, which the shell knows best
 *     :files @        the same, followed by "@"
 *     :file NAME      also this file, which does not exist any more
 *     :directories    also names of directories
 *     :behind =       candidates replace only what follows the first "="
 *     :behind @       ... what follows the last "@"
 *
 * It prints no errors, and is fast: it reads the index as it is.
 */
#include "query/base/context.h"
#include "query/base/model.h"
#include "query/base/time.h"
#include "query/history/fold.h"
#include "query/remote/place.h"

#include "common/path.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define IDS_MAX       20
#define VERSIONS_MAX  50
#define VERSIONS_READ 1000 /* for these */
#define FILES_MAX     50

/* A number in SQL text. */
#define TEXT(n)  #n
#define LIMIT(n) " LIMIT " TEXT(n)

static void candidate(const char *cur, const char *word, const char *meaning)
{
	if (!strncmp(word, cur, strlen(cur)) && !strpbrk(word, "\t\n"))
		printf("%s\t%s\n", word, meaning ? meaning : "");
}

static void complete_options(const char *cur, const struct shfs_option *options)
{
	for (; options->name; options++) {
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

/* --- candidates from the index --- */

static struct shfs_index *open_index(struct shfs_context *ctx)
{
	if (!ctx->store && shfs_store_open(shfs_context_store_path(ctx), 0, &ctx->store))
		return NULL;
	if (!ctx->index && shfs_index_open(ctx->store, SHFS_INDEX_READ, &ctx->index))
		return NULL;
	return ctx->index;
}

/* Rows of a statement with two parameters: a prefix, and the end of its range. */
static struct shfs_rows *open_range(struct shfs_context *ctx, const char *sql,
                                    const char *prefix)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf end = { 0 };
	struct shfs_index *index = open_index(ctx);

	shfs_buf_printf(&end, "%s\xff", prefix);
	if (end.failed || !index || shfs_rows_open(index, sql, &rows) ||
	    shfs_rows_bind_str(rows, 1, prefix) || shfs_rows_bind_str(rows, 2, end.data))
		return NULL;
	return TAKE_PTR(rows);
}

/* Completes ids from rows of (id, time, text), the newest first. */
static void complete_ids(struct shfs_context *ctx, const char *cur, const char *sql)
{
	_cleanup_rows_ struct shfs_rows *rows = open_range(ctx, sql, cur);

	while (rows && shfs_rows_next(rows) > 0) {
		_cleanup_buf_ struct shfs_buf id = { 0 }, meaning = { 0 };

		if (shfs_show_id(ctx->index, &id, shfs_rows_text(rows, 0)))
			return;
		if (strlen(cur) >= id.len) {
			id.len = 0;
			shfs_buf_str(&id, shfs_rows_text(rows, 0));
		}
		shfs_time_show_relative(&meaning, shfs_rows_int(rows, 1));
		shfs_buf_str(&meaning, "  ");
		shfs_show_first_line(&meaning, shfs_rows_text(rows, 2),
		                     shfs_rows_bytes(rows, 2), 40);
		if (!id.failed && !meaning.failed)
			candidate(cur, id.data, meaning.data);
	}
}

static void complete_commands_run(struct shfs_context *ctx, const char *cur)
{
	complete_ids(ctx, cur,
	             "SELECT id, begin_ns, text FROM v_command"
	             " WHERE id >= ?1 AND id < ?2"
	             " ORDER BY begin_ns DESC" LIMIT(IDS_MAX));
}

static void complete_sessions(struct shfs_context *ctx, const char *cur)
{
	complete_ids(ctx, cur,
	             "SELECT id, begin_ns,"
	             " iif(invoker = '', shell || ' in ' || cwd, invoker) FROM v_session"
	             " WHERE id >= ?1 AND id < ?2"
	             " ORDER BY begin_ns DESC" LIMIT(IDS_MAX));
}

static void complete_hosts(struct shfs_context *ctx, const char *cur)
{
	_cleanup_rows_ struct shfs_rows *rows =
		open_range(ctx,
	                   "SELECT DISTINCT host FROM v_producer"
	                   " WHERE host >= ?1 AND host < ?2 ORDER BY host",
	                   cur);

	while (rows && shfs_rows_next(rows) > 0)
		candidate(cur, shfs_rows_text(rows, 0), "");
}

/* The names and kinds of programs that gave commands, and that of typed ones. */
static void complete_invokers(struct shfs_context *ctx, const char *cur)
{
	_cleanup_rows_ struct shfs_rows *rows = open_range(
		ctx,
		"SELECT name FROM (SELECT 'shell' AS name"
		" UNION SELECT substr(invoker, 1, instr(invoker, ' ') - 1) FROM v_session"
		" WHERE invoker <> '' UNION SELECT substr(invoker, instr(invoker, ' ') + "
		"1)"
		" FROM v_session WHERE invoker <> '')"
		" WHERE name >= ?1 AND name < ?2 ORDER BY name",
		cur);

	while (rows && shfs_rows_next(rows) > 0)
		candidate(cur, shfs_rows_text(rows, 0), "");
}

struct versions {
	struct shfs_index *index;
	const char *cur; /* of the number */
	int n;
};

static int offer_version(struct versions *o, const struct shfs_version *v, int64_t n_made)
{
	_cleanup_buf_ struct shfs_buf meaning = { 0 };
	_cleanup_entry_ struct shfs_entry e = { 0 };
	char number[24];

	snprintf(number, sizeof(number), "%" PRId64, v->n);
	if (strncmp(number, o->cur, strlen(o->cur)) != 0)
		return 0;
	if (v->command_id && shfs_doer_load(o->index, v->command_id, 0, &e) < 0)
		return -EIO;
	if (!o->n++)
		puts(":behind @");
	shfs_time_show_relative(&meaning, v->time_ns);
	shfs_buf_str(&meaning, "  ");
	if (n_made > 1)
		shfs_buf_printf(&meaning, "(%" PRId64 " versions) ", n_made);
	if (e.command.text)
		shfs_show_first_line(&meaning, e.command.text, e.command.text_len, 40);
	candidate(o->cur, number, meaning.data);
	return o->n >= VERSIONS_MAX;
}

static int offer_entry(void *arg, const struct shfs_version *newest,
                       const struct shfs_version *oldest)
{
	int64_t n_made = newest->n - oldest->n + 1;
	int r = offer_version(arg, newest, n_made);

	return r || n_made == 1 ? r : offer_version(arg, oldest, n_made);
}

/* cur is FILE@ and the beginning of a number; returns the number of candidates. With
 * nothing behind the "@", versions that one command made in a row are two: the ends. */
static int complete_versions(struct shfs_context *ctx, const char *cur)
{
	const char *at = strrchr(cur, '@');
	_cleanup_free_ char *name = strndup(cur, at - cur), *path = NULL;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct versions o = { .index = open_index(ctx), .cur = at + 1 };

	if (!o.index || !name || shfs_operand_file(o.index, name, &path) <= 0 ||
	    shfs_rows_open(o.index,
	                   "SELECT" SHFS_VERSION_COLUMNS
	                   "FROM v_version v WHERE v." SHFS_SQL_FILE(
				   "?1") "ORDER BY n DESC" LIMIT(VERSIONS_READ),
	                   &rows) ||
	    shfs_rows_bind_str(rows, 1, path))
		return 0;
	(void)!shfs_fold_each(rows, !*o.cur, NULL, offer_entry, &o);
	return o.n;
}

/* Completes removed files, except those that a command made and removed itself. */
static void complete_removed(struct shfs_context *ctx, const char *cur)
{
	static const char sql[] =
		"SELECT f.path FROM v_file f"
		" JOIN v_version v ON v.file_id = f.file_id AND v.n = f.versions"
		" JOIN v_access a ON a.access_id ="
		" (SELECT g.access_id FROM v_access g WHERE g.file_id = f.file_id"
		" AND g.is_open = 0 AND g.op IN ('unlink', 'rename') ORDER BY g.seq_key "
		"DESC LIMIT 1)"
		" WHERE f.path >= ?1 AND f.path < ?2 AND NOT f.present"
		" AND NOT f.directory AND a.op = 'unlink'"
		" AND (a.command_id IS NULL OR a.command_id IS NOT v.command_id)"
		" ORDER BY f.path" LIMIT(FILES_MAX);
	const char *name = basename(cur);
	_cleanup_free_ char *typed = strndup(cur, name - cur);
	_cleanup_free_ char *dir = typed ? shfs_operand_path(*typed ? typed : ".") : NULL;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf prefix = { 0 };
	struct stat st;

	if (!dir)
		return;
	shfs_buf_printf(&prefix, "%s/%s", strcmp(dir, "/") != 0 ? dir : "", name);
	rows = prefix.failed ? NULL : open_range(ctx, sql, prefix.data);
	while (rows && shfs_rows_next(rows) > 0) {
		_cleanup_buf_ struct shfs_buf word = { 0 };
		const char *path = shfs_rows_text(rows, 0);

		shfs_buf_printf(&word, "%s%s", typed, path + prefix.len - strlen(name));
		if (!word.failed && lstat(path, &st))
			candidate(cur, word.data, "removed");
	}
}

/* Completes files that are gone from the directory in cur: those of one directory are
 * found fast. */
static void complete_gone(struct shfs_context *ctx, const char *cur)
{
	static const char sql[] =
		"SELECT name FROM v_file WHERE dir = ?3 AND name >= ?1 AND name < ?2"
		" AND NOT present AND NOT directory ORDER BY name" LIMIT(FILES_MAX);
	const char *name = basename(cur);
	_cleanup_free_ char *typed = strndup(cur, name - cur);
	_cleanup_free_ char *dir = typed ? shfs_operand_path(*typed ? typed : ".") : NULL;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct stat st;

	rows = dir && *name ? open_range(ctx, sql, name) : NULL;
	if (!rows || shfs_rows_bind_str(rows, 3, dir))
		return;
	while (shfs_rows_next(rows) > 0) {
		_cleanup_buf_ struct shfs_buf word = { 0 };

		shfs_buf_printf(&word, "%s%s", typed, shfs_rows_text(rows, 0));
		if (!word.failed && !strpbrk(word.data, "\t\n") && lstat(word.data, &st))
			printf(":file %s\n", word.data);
	}
}

/* --- the command line --- */

static void complete_words(const char *cur, const char *kind)
{
	static const struct {
		const char *kind; /* its kind in the help */
		const char *words[17];
	} kinds[] = {
		{ "WHEN", { "auto", "always", "never" } },
		{ "SHELL", { "bash", "zsh", "fish" } },
		{ "STATUS", { "ok", "fail" } },
		{ "RECORDER", { "helper" } },
		{ "NAME", { "auto", "fuse" } },
		{ "TIME", { "today", "yesterday" } },
		{ "ORDER", { "time", "duration", "status", "cwd", "command", "host" } },
		{ "SIZE", { "+1M", "+10M", "+100M" } },
		{ "FORMAT",
		  { "sh", "make", "snakemake", "cwl", "nextflow", "dot", "json", "jsonl",
		    "csv", "prov", "prov-o", "ro-crate", "workflow-crate", "bundle",
		    "oci", "dockerfile", "tar" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (size_t j = 0; j < ARRAY_SIZE(kinds[i].words) && kinds[i].words[j] &&
		                   !strcmp(kinds[i].kind, kind);
		     j++)
			candidate(cur, kinds[i].words[j], "");
}

static void complete_file(struct shfs_context *ctx, const char *cur, bool needs_version)
{
	const char *at = strrchr(cur, '@');

	if (at && at > cur && complete_versions(ctx, cur))
		return;
	complete_gone(ctx, cur);
	puts(needs_version ? ":files @" : ":files");
}

static int complete_remote(void *arg, const char *name)
{
	candidate(arg, name, NULL);
	return 0;
}

/* Names of remotes. */
static void complete_remotes(struct shfs_context *ctx, const char *cur)
{
	_cleanup_store_ struct shfs_store *store = NULL;

	if (!shfs_store_open(shfs_context_store_path(ctx), 0, &store))
		(void)!place_each(store, complete_remote, (void *)cur);
}

/* Keys of the configuration. */
static void complete_keys(const char *cur)
{
	for (const struct shfs_config_key *key = shfs_config_keys; key->name; key++) {
		_cleanup_buf_ struct shfs_buf word = { 0 };

		shfs_buf_printf(&word, "%s.%s", key->section, key->name);
		if (!word.failed)
			candidate(cur, word.data, key->summary);
	}
}

/* The words that the value of a key can be. */
static void complete_key_value(const char *cur, const char *name)
{
	const char *dot = strchr(name, '.');
	_cleanup_free_ char *section = dot ? strndup(name, dot - name) : NULL;
	const struct shfs_config_key *key =
		section ? shfs_config_find(section, dot + 1) : NULL;

	for (const char *p = key ? key->values : ""; *p;) {
		size_t len = strcspn(p, "|");
		_cleanup_free_ char *word = strndup(p, len);

		if (word && *word >= 'a') /* others say only what it is */
			candidate(cur, word, NULL);
		p += len + (p[len] == '|');
	}
}

/* Is this one of the names in the list of len bytes? */
static bool is_listed(const char *list, size_t len, const char *name)
{
	for (const char *end = list + len; list < end; list += strcspn(list, ",") + 1)
		if (!strncasecmp(list, name, strlen(name)) && list[strlen(name)] == ',')
			return true;
	return false;
}

/* The names of columns that a list of them does not have yet. */
static void complete_columns(const char *cur, const struct shfs_column *columns)
{
	const char *comma = strrchr(cur, ',');
	int plus = *cur == '+', begin = comma ? (int)(comma - cur) + 1 : plus;

	for (const struct shfs_column *c = columns; c && c->name; c++) {
		_cleanup_buf_ struct shfs_buf word = { 0 };

		if (is_listed(cur + plus, begin - plus, c->name))
			continue;
		shfs_buf_printf(&word, "%.*s%s", begin, cur, c->name);
		if (!word.failed)
			candidate(cur, word.data, c->help);
	}
}

static void complete_value(struct shfs_context *ctx, const char *cur,
                           const struct shfs_command *command,
                           const struct shfs_option *opt)
{
	complete_words(cur, opt->arg);
	if (!strcmp(opt->arg, "COLUMNS"))
		complete_columns(cur, command->columns);
	else if (!strcmp(opt->arg, "DIR") || !strcmp(opt->arg, "[=DIR]"))
		puts(":directories");
	else if (!strcmp(opt->arg, "FILE") || !strcmp(opt->arg, "PATH"))
		puts(":files");
	else if (!strcmp(opt->arg, "HOST"))
		complete_hosts(ctx, cur);
	else if (!strcmp(opt->name, "by") && strcmp(opt->arg, "RECORDER") != 0)
		complete_invokers(ctx, cur);
	else if (!strcmp(opt->name, "session"))
		complete_sessions(ctx, cur);
	else if (!strcmp(opt->arg, "ID"))
		complete_commands_run(ctx, cur);
}

struct line {
	const struct shfs_command *command;
	const struct shfs_option *waiting; /* the option that needs a value */
	int n_operands;
	const char *last;   /* the last operand before */
	bool only_operands; /* after "--" */
};

static void complete_operand(struct shfs_context *ctx, const char *cur,
                             const struct line *line)
{
	const struct shfs_command *command = line->command;
	int n_before = line->n_operands;
	const char *args = command->args;

	if (command->verbs && !n_before)
		for (const char *const *verb = command->verbs; *verb; verb++)
			candidate(cur, *verb, NULL);
	if (command == &shfs_cmd_help) {
		complete_commands(cur);
	} else if (command->rest) {
		puts(":files");
	} else if (command == &shfs_cmd_undelete) {
		complete_removed(ctx, cur);
		puts(":directories");
	} else if (!strcmp(args, "[REMOTE]") || command == &shfs_cmd_remote) {
		if (command != &shfs_cmd_remote || n_before == 1)
			complete_remotes(ctx, cur);
		if (command == &shfs_cmd_remote && n_before == 2)
			puts(":directories");
	} else if (command == &shfs_cmd_config) {
		if (n_before == 1)
			complete_keys(cur);
		if (n_before == 2)
			complete_key_value(cur, line->last);
	} else if (command == &shfs_cmd_fetch) {
		complete_hosts(ctx, cur);
	} else if (!strcmp(args, "URL")) {
		puts(":directories");
	} else if (!strcmp(args, "SHELL")) {
		complete_words(cur, args);
	} else if (!strncmp(args, "FORMAT ", 7) && !n_before) {
		complete_words(cur, "FORMAT");
	} else if (strstr(args, "DIR")) {
		puts(":directories");
	} else {
		if (strstr(args, "COMMAND"))
			complete_commands_run(ctx, cur);
		if (strstr(args, "COMMAND") && !*cur) /* not all commands at once */
			return;
		if (strstr(args, "FILE"))
			complete_file(ctx, cur, strstr(args, "FILE@N"));
		else if (strstr(args, "PATH"))
			puts(":files");
	}
}

static const struct shfs_option *find_option(const struct shfs_option *options,
                                             const char *word, size_t len)
{
	for (; options->name; options++) {
		size_t n = strlen(options->name);

		if (!strncmp(word, "--", 2) && len == n + 2 &&
		    !memcmp(word + 2, options->name, n))
			return options;
		if (len == 2 && word[1] == options->letter)
			return options;
	}
	return NULL;
}

static const struct shfs_option *line_option(const struct line *line, const char *word,
                                             size_t len)
{
	const struct shfs_option *opt = NULL;

	if (line->command)
		opt = find_option(line->command->options, word, len);
	return opt ? opt : find_option(shfs_common_options, word, len);
}

/* Takes a word before the last. */
static void line_add(struct line *line, struct shfs_context *ctx, const char *word)
{
	if (line->waiting) {
		if (!strcmp(line->waiting->name, "store"))
			ctx->store_option = word;
		line->waiting = NULL;
	} else if (!line->only_operands && !strcmp(word, "--")) {
		line->only_operands = true;
	} else if (!line->only_operands && word[0] == '-') {
		line->waiting = line_option(line, word, strlen(word));
		if (line->waiting && (!line->waiting->arg || *line->waiting->arg == '['))
			line->waiting = NULL;
		if (!strncmp(word, "--store=", 8))
			ctx->store_option = word + 8;
	} else if (line->command) {
		line->n_operands++;
		line->last = word;
	} else {
		for (const struct shfs_command *const *c = shfs_commands; *c; c++)
			if (!strcmp((*c)->name, word))
				line->command = *c;
		line->n_operands = !line->command;
	}
}

static void complete_option(struct shfs_context *ctx, const struct line *line,
                            const char *cur)
{
	const char *equals = strncmp(cur, "--", 2) ? NULL : strchr(cur, '=');
	const struct shfs_option *opt;

	if (equals) {
		opt = line_option(line, cur, equals - cur);
		if (!opt || !opt->arg)
			return;
		puts(":behind =");
		complete_value(ctx, equals + 1, line->command, opt);
		return;
	}
	if (line->command)
		complete_options(cur, line->command->options);
	complete_options(cur, shfs_common_options);
}

static int run_complete(struct shfs_context *ctx, int argc, char **argv)
{
	const char *cur = argc ? argv[argc - 1] : "";
	struct line line = { 0 };

	for (int i = 0; i < argc - 1; i++)
		line_add(&line, ctx, argv[i]);
	if (!line.command && line.n_operands) /* there is no such command */
		return SHFS_EXIT_OK;
	if (line.waiting)
		complete_value(ctx, cur, line.command, line.waiting);
	else if (cur[0] == '-' && !line.only_operands)
		complete_option(ctx, &line, cur);
	else if (!line.command)
		complete_commands(cur);
	else if (line.command->operands.max < 0 ||
	         line.n_operands <
	                 line.command->operands.max + (line.command->verbs != NULL))
		complete_operand(ctx, cur, &line);
	return SHFS_EXIT_OK;
}

const struct shfs_command shfs_cmd_complete = {
	.name = "complete",
	.args = "[--] [WORD…]",
	.summary = "Tell what the last word of a command line can become",
	.operands = { 0, -1 },
	.hidden = true,
	.alone = true,
	.at_once = true,
	.run = run_complete,
};
