/* SPDX-License-Identifier: MIT */
/* `shfs search`: search commands and files as you type. */
#include "query/screen/search-screen.h"

#include "common/path.h"
#include "common/quote.h"
#include "query/base/time.h"
#include "query/history/entry-columns.h"
#include "query/history/filter.h"
#include "query/table/table.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX 1000 /* columns of notes in a list */
#define NO_ID    "-------"

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
	struct shfs_table *table;
	struct shfs_json json;
};

enum {
	COLUMN_TIME = SHFS_ENTRY_COLUMNS,
	COLUMN_FOUND,
	COLUMN_KIND,
	COLUMN_SCORE,
	COLUMN_TIMES,
	COLUMN_PATH,
	COLUMN_N,
	COLUMN_PRESENT,
	COLUMN_NOTE,
};

static const struct shfs_column columns[] = {
	SHFS_ENTRY_COLUMN_ROWS,
	[COLUMN_TIME] = { "time", "when it last began, or was last changed" },
	[COLUMN_FOUND] = { "found", "the text or the file, and its notes" },
	[COLUMN_KIND] = { "kind", "command or file" },
	[COLUMN_SCORE] = { "score", "how well it matches", SHFS_COLUMN_NUMBER },
	[COLUMN_TIMES] = { "times", "how often it was run", SHFS_COLUMN_NUMBER },
	[COLUMN_PATH] = { "path", "of the file" },
	[COLUMN_N] = { "n", "the number of its latest version", SHFS_COLUMN_NUMBER },
	[COLUMN_PRESENT] = { "present", "does it still exist: yes or no" },
	[COLUMN_NOTE] = { "note", "tags and notes; of a file's versions behind @N" },
	{ NULL },
};

/* The notes of a version of a file. */
struct version_notes {
	int64_t n; /* 0: that version is not there any more */
	struct shfs_notes notes;
};

/* A match, with all that is shown of it. */
struct found {
	const struct shfs_hay *hay;
	struct shfs_index *index;
	int score;
	struct shfs_entry entry; /* of a command */
	char *path;              /* of a file; owned */
	struct version_notes *noted;
	size_t n_noted, cap;
};

static void found_clear(struct found *f)
{
	for (size_t i = 0; i < f->n_noted; i++)
		shfs_notes_clear(&f->noted[i].notes);
	free(f->noted);
	free(f->path);
	shfs_entry_clear(&f->entry);
}

/* Notes are of versions, which each rebuild of the index may number anew: they are known
 * by their times. */
#define FILE_NOTES                                                                       \
	"SELECT version_ns, tag, text, time_ns,"                                         \
	" (SELECT max(n) FROM v_version v WHERE v.file_id = ?2"                          \
	"  AND v.time_ns = version_ns) FROM v_note WHERE command = '' AND path = ?1"     \
	" ORDER BY version_ns, tag"

static int load_file_notes(struct found *f)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int64_t last_ns = 0;
	int r = shfs_rows_open_str(f->index, FILE_NOTES, f->path, &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 2, f->hay->id);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		if (!f->n_noted || shfs_rows_int(rows, 0) != last_ns) {
			if (!MAKE_ROOM(f->noted, f->n_noted, f->cap))
				return -ENOMEM;
			f->noted[f->n_noted++] =
				(struct version_notes){ .n = shfs_rows_int(rows, 4) };
		}
		last_ns = shfs_rows_int(rows, 0);
		r = shfs_notes_add(&f->noted[f->n_noted - 1].notes,
		                   shfs_rows_text(rows, 1), shfs_rows_text(rows, 2),
		                   shfs_rows_int(rows, 3));
	}
	return r;
}

/* 1; 0: it is not in the index any more; or a negative errno. */
static int load_found(struct found *f)
{
	int r;

	if (f->hay->is_file) {
		r = shfs_targets_path(f->index, f->hay->id, &f->path);
		return r ? r : load_file_notes(f) ?: 1;
	}
	r = shfs_command_load(f->index, f->hay->id, &f->entry.command);
	if (r > 0)
		r = shfs_notes_of_command(f->index, &f->entry.command, &f->entry.notes)
		            ?: 1;
	return r;
}

static void show_found_notes(const struct found *f, struct shfs_buf *out)
{
	shfs_notes_show(out, &shfs_style_none, &f->entry.notes, LINE_MAX);
	for (size_t i = 0; i < f->n_noted; i++) {
		shfs_buf_str(out, i ? "  " : "");
		if (f->noted[i].n)
			shfs_buf_printf(out, "@%lld ", (long long)f->noted[i].n);
		shfs_notes_show(out, &shfs_style_none, &f->noted[i].notes, LINE_MAX);
	}
}

static void show_found(const struct found *f, struct shfs_buf *out)
{
	const struct shfs_command_row *c = &f->entry.command;

	if (f->hay->is_file)
		shfs_show_version(out, f->path, f->hay->times);
	else
		shfs_quote_display(out, c->text, c->text_len);
	if (f->n_noted || shfs_notes_any(&f->entry.notes)) {
		shfs_buf_str(out, "  # ");
		show_found_notes(f, out);
	}
}

static void file_cell(const struct found *f, int column, struct shfs_buf *out)
{
	switch (column) {
	case SHFS_ENTRY_ID:
		shfs_buf_str(out, NO_ID);
		break;
	case COLUMN_PATH:
		shfs_quote_display(out, f->path, strlen(f->path));
		break;
	case COLUMN_N:
		shfs_buf_int(out, f->hay->times);
		break;
	case COLUMN_PRESENT:
		shfs_buf_str(out, f->hay->is_bad ? "no" : "yes");
		break;
	default:
		break;
	}
}

static int found_cell(void *arg, int column, struct shfs_buf *out)
{
	const struct found *f = arg;

	switch (column) {
	case COLUMN_TIME:
		shfs_time_show(out, f->hay->time_ns);
		return 0;
	case COLUMN_FOUND:
		show_found(f, out);
		return 0;
	case COLUMN_KIND:
		shfs_buf_str(out, f->hay->is_file ? "file" : "command");
		return 0;
	case COLUMN_SCORE:
		shfs_buf_int(out, f->score);
		return 0;
	case COLUMN_NOTE:
		show_found_notes(f, out);
		return 0;
	}
	if (f->hay->is_file) {
		file_cell(f, column, out);
		return 0;
	}
	if (column == COLUMN_TIMES)
		shfs_buf_int(out, f->hay->times);
	return column < SHFS_ENTRY_COLUMNS
	               ? shfs_entry_cell(f->index, &f->entry, column, out)
	               : 0;
}

static void json_file(struct shfs_json *json, const struct found *f)
{
	shfs_json_str(json, "path", f->path);
	shfs_json_int(json, "n", f->hay->times);
	shfs_json_time(json, "time", f->hay->time_ns);
	shfs_json_bool(json, "present", !f->hay->is_bad);
	shfs_json_array(json, "notes");
	for (size_t i = 0; i < f->n_noted; i++) {
		shfs_json_object(json, NULL);
		if (f->noted[i].n)
			shfs_json_int(json, "n", f->noted[i].n);
		else
			shfs_json_null(json, "n");
		shfs_notes_json(json, &f->noted[i].notes);
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
}

static int json_found(struct shfs_json *json, const struct found *f)
{
	shfs_json_object(json, NULL);
	shfs_json_str(json, "kind", f->hay->is_file ? "file" : "command");
	shfs_json_int(json, "score", f->score);
	if (f->hay->is_file) {
		json_file(json, f);
	} else {
		shfs_json_int(json, "times", f->hay->times);
		shfs_entry_json_head(json, &f->entry);
		shfs_notes_json(json, &f->entry.notes);
	}
	shfs_json_object_end(json);
	return shfs_json_flush(json) ? 0 : -EIO;
}

static int show_search_result(struct list *l, size_t rank)
{
	_cleanup_(found_clear) struct found f = { .index = l->index };
	int r;

	f.hay = shfs_haystack_at(l->haystack, rank, &f.score);
	r = load_found(&f);
	if (r <= 0)
		return r;
	return opts.json ? json_found(&l->json, &f)
	                 : shfs_table_add(l->table, found_cell, &f);
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
	_cleanup_table_ struct shfs_table *table = NULL;
	struct list l = { .index = s->index, .haystack = s->haystack };
	int r = shfs_haystack_load(s->haystack, 0);

	if (!r)
		r = shfs_haystack_search(s->haystack, s->query, s->kinds);
	if (!r)
		r = shfs_table_open(&shfs_cmd_search, &table);
	l.table = table;
	if (!r)
		r = show_search_results(&l, s->query);
	if (!r && !opts.json)
		r = shfs_table_print(s->ctx, table, true);
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
	                   (!opts.list && !opts.json && !shfs_output_columns &&
	                    isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
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

static int check_search_options(struct shfs_context *ctx, int argc)
{
	if (!shfs_output_columns || !(opts.interactive || opts.shell))
		return 0;
	shfs_error("--output makes a list, and goes with no screen");
	return SHFS_EXIT_USAGE;
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
	SHFS_OUTPUT_OPTION,
	{ "limit", 'n', "N", "list at most N", .count = &opts.limit },
	{ "json", 0, NULL, "print the list for programs: see docs/json.md",
	  .flag = &opts.json },
	{ "shell", 0, "SHELL", "take the line from $SHFS_LINE, and write its new text" },
	SHFS_FILTER_OPTIONS,
	SHFS_FILTER_OR,
	},
	.columns = columns,
	.usual_columns = "id,time,found",
	.operands = { 0, -1 },
	.option = set_search_option,
	.check = check_search_options,
	.at_once = true,
	.run_on_index = run_search,
};
