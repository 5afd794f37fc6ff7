/* SPDX-License-Identifier: MIT */
/* `shfs search`: search commands and files as you type. */
#include "query/screen/search-screen.h"

#include "common/path.h"
#include "common/quote.h"
#include "query/base/time.h"
#include "query/history/entry.h"
#include "query/history/filter.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX 1000 /* columns of notes in a list */

static struct {
	bool interactive, list, json, all;
	enum shfs_hay_kinds kinds; /* 0: both */
	int64_t limit;
	const char *shell;
} opts;
static struct shfs_filter filter;

static enum shfs_hay_kinds kinds_wanted(void)
{
	return opts.kinds ? opts.kinds : SHFS_HAY_COMMANDS | SHFS_HAY_FILES;
}

/* --- the list --- */

struct list {
	struct shfs_index *index;
	const struct shfs_haystack *haystack;
	struct shfs_buf out;
	struct shfs_json json;
};

static int list_command(struct list *l, const struct shfs_hay *hay)
{
	_cleanup_command_ struct shfs_command_row c = { 0 };
	_cleanup_notes_ struct shfs_notes notes = { 0 };
	int r = shfs_command_load(l->index, hay->id, &c);

	if (r > 0)
		r = shfs_notes_of_command(l->index, &c, &notes) ?: r;
	if (r <= 0)
		return r;
	r = shfs_show_id(l->index, &l->out, c.id);
	shfs_buf_str(&l->out, "  ");
	shfs_time_show(&l->out, c.begin_ns);
	shfs_buf_str(&l->out, "  ");
	shfs_quote_display(&l->out, c.text, c.text_len);
	if (shfs_notes_any(&notes)) {
		shfs_buf_str(&l->out, "  # ");
		shfs_notes_show(&l->out, &shfs_style_none, &notes, LINE_MAX);
	}
	shfs_buf_char(&l->out, '\n');
	return r;
}

static int list_file(struct list *l, const struct shfs_hay *hay)
{
	_cleanup_free_ char *path = NULL;
	int r = shfs_targets_path(l->index, hay->id, &path);

	if (r)
		return r;
	shfs_buf_str(&l->out, "-------  ");
	shfs_time_show(&l->out, hay->time_ns);
	shfs_buf_str(&l->out, "  ");
	shfs_show_version(&l->out, path, hay->times);
	shfs_buf_char(&l->out, '\n');
	return 0;
}

static int json_found_command(struct list *l, const struct shfs_hay *hay)
{
	_cleanup_entry_ struct shfs_entry e = { 0 };
	int r = shfs_command_load(l->index, hay->id, &e.command);

	if (r > 0)
		r = shfs_notes_of_command(l->index, &e.command, &e.notes) ?: r;
	if (r <= 0)
		return r;
	shfs_json_int(&l->json, "times", hay->times);
	shfs_entry_json_head(&l->json, &e);
	shfs_notes_json(&l->json, &e.notes);
	return 0;
}

static int json_file(struct list *l, const struct shfs_hay *hay)
{
	_cleanup_free_ char *path = NULL;
	int r = shfs_targets_path(l->index, hay->id, &path);

	if (r)
		return r;
	shfs_json_str(&l->json, "path", path);
	shfs_json_int(&l->json, "n", hay->times);
	shfs_json_time(&l->json, "time", hay->time_ns);
	shfs_json_bool(&l->json, "present", !hay->is_bad);
	return 0;
}

static int show_search_result(struct list *l, size_t rank)
{
	int score, r;
	const struct shfs_hay *hay = shfs_haystack_at(l->haystack, rank, &score);

	if (!opts.json) {
		r = hay->is_file ? list_file(l, hay) : list_command(l, hay);
		return r ? r : shfs_show_flush(&l->out) ? 0 : -EIO;
	}
	shfs_json_object(&l->json, NULL);
	shfs_json_str(&l->json, "kind", hay->is_file ? "file" : "command");
	shfs_json_int(&l->json, "score", score);
	r = hay->is_file ? json_file(l, hay) : json_found_command(l, hay);
	shfs_json_object_end(&l->json);
	return r ? r : shfs_json_flush(&l->json) ? 0 : -EIO;
}

static int show_search_results(struct list *l, const char *query)
{
	size_t n = shfs_haystack_found(l->haystack);
	int r = 0;

	if (opts.limit && n > (size_t)opts.limit)
		n = opts.limit;
	if (opts.json) {
		shfs_json_begin(&l->json, "search");
		shfs_json_str(&l->json, "query", query);
		shfs_json_array(&l->json, "found");
	}
	for (size_t i = 0; i < n && !r; i++)
		r = show_search_result(l, i);
	if (!opts.json || r)
		return r;
	shfs_json_array_end(&l->json);
	return shfs_json_end(&l->json) ? 0 : -EIO;
}

static int list_search_results(const struct shfs_search *s)
{
	struct list l = { .index = s->index, .haystack = s->haystack };
	int r = shfs_haystack_load(s->haystack, 0);

	if (!r)
		r = shfs_haystack_search(s->haystack, s->query, s->kinds);
	if (!r)
		r = show_search_results(&l, s->query);
	shfs_buf_free(&l.out);
	shfs_json_free(&l.json);
	if (r == -EIO) /* main says so */
		return SHFS_EXIT_FAILURE;
	if (r)
		return shfs_fail_index(s->index, r);
	if (opts.json || shfs_haystack_found(s->haystack))
		return SHFS_EXIT_OK;
	shfs_error("nothing matches");
	return SHFS_EXIT_NOT_FOUND;
}

/* --- the choice --- */

/* Prints the choice: unchanged for programs, escaped on a terminal. */
static int put_choice(const struct shfs_buf *text)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	if (text->failed)
		return -ENOMEM;
	if (isatty(STDOUT_FILENO))
		shfs_quote_text(&out, text->data, text->len);
	else
		shfs_buf_add(&out, text->data, text->len);
	shfs_buf_char(&out, '\n');
	return shfs_show_flush(&out) ? 0 : -EIO;
}

static int choose_search_result(struct shfs_search *s)
{
	_cleanup_targets_ struct shfs_targets targets = { 0 };
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r, code = shfs_search_choose(s, &targets);

	if (code)
		return code;
	r = s->is_line
	            ? shfs_targets_line(s->index, &targets, s->query, opts.shell, &text)
	            : shfs_targets_text(s->index, &targets, &text);
	if (!r)
		r = put_choice(&text);
	return r ? shfs_fail_index(s->index, r) : SHFS_EXIT_OK;
}

/* --- the command --- */

static int run_search(struct shfs_context *ctx, struct shfs_index *index, int argc,
                      char **argv)
{
	_cleanup_buf_ struct shfs_buf query = { 0 };
	struct shfs_search s = { .ctx = ctx,
		                 .index = index,
		                 .store = shfs_context_opened(ctx),
		                 .filter = &filter,
		                 .all = opts.all,
		                 .is_line = opts.shell };
	bool interactive = opts.interactive || opts.shell ||
	                   (!opts.list && !opts.json && isatty(STDIN_FILENO) &&
	                    isatty(STDOUT_FILENO));
	int r, code = shfs_fail_if_empty(index)
	                      ?: shfs_filter_resolve(&filter, ctx, index);

	if (code)
		return code;
	filter.all = true;
	shfs_buf_str(&query, opts.shell ? getenv("SHFS_LINE") ?: "" : "");
	for (int i = 0; i < argc; i++)
		shfs_buf_printf(&query, "%s%s", query.len ? " " : "", argv[i]);
	/* on a screen the user can turn to the other kinds */
	r = query.failed ? -ENOMEM : shfs_filter_measure(&filter, index);
	if (!r)
		r = shfs_haystack_open(index,
		                       interactive ? SHFS_HAY_COMMANDS | SHFS_HAY_FILES
		                                   : kinds_wanted(),
		                       opts.all, &filter, &s.haystack);
	s.query = query.data;
	s.kinds = kinds_wanted();
	if (r)
		code = shfs_fail_index(index, r);
	else
		code = interactive ? choose_search_result(&s) : list_search_results(&s);
	shfs_haystack_close(s.haystack);
	shfs_filter_free(&filter);
	return code;
}

static int set_search_option(const struct shfs_option *opt, const char *value)
{
	if (!strcmp(opt->name, "files") || !strcmp(opt->name, "commands")) {
		opts.kinds |= *opt->name == 'f' ? SHFS_HAY_FILES : SHFS_HAY_COMMANDS;
		return 0;
	}
	if (strcmp(opt->name, "shell") != 0)
		return shfs_filter_option(&filter, opt, value);
	if (strcmp(value, "bash") && strcmp(value, "zsh") && strcmp(value, "fish"))
		return shfs_bad_value(opt, value, "bash, zsh or fish");
	opts.shell = value;
	return 0;
}

const struct shfs_command shfs_cmd_search = {
	.name = "search",
	.args = "[QUERY…]",
	.summary = "Search commands and files as you type",
	.description =
		"Terms are those of fzf: word, 'exact, ^begin, end$, !not, a | b.\n"
		"Enter writes the command or the path, and runs nothing.\n"
		"On the screen, F1 shows the keys: what is listed, marks, actions.\n"
		"shfs init SHELL --search-key KEY binds this to a key of the shell.\n"
		"If the input or the output is no terminal, a list is printed.",
	.options = {
	{ "commands", 'c', NULL, "search only commands" },
	{ "files", 'f', NULL, "search only files" },
	{ "all", 'a', NULL, "also files of .git and the like, and temporary ones",
	  .flag = &opts.all },
	{ "interactive", 'i', NULL, "use the screen even if the output is no terminal",
	  .flag = &opts.interactive },
	{ "list", 'l', NULL, "print a list of the matches, the best first",
	  .flag = &opts.list },
	{ "limit", 'n', "N", "list at most N", .count = &opts.limit },
	{ "json", 0, NULL, "print the list for programs: see docs/json.md",
	  .flag = &opts.json },
	{ "shell", 0, "SHELL", "take the line from $SHFS_LINE, and write its new text" },
	SHFS_FILTER_OPTIONS,
	SHFS_FILTER_OR,
	},
	.operands = { 0, -1 },
	.option = set_search_option,
	.at_once = true,
	.run_on_index = run_search,
};
