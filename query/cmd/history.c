/* SPDX-License-Identifier: MIT */
/*
 * `shfs history`: list commands, newest first, with the files that each read and
 * wrote.
 */
#include "query/base/cmd.h"
#include "query/history/entry-columns.h"
#include "query/history/filter.h"
#include "query/history/gap.h"
#include "query/table/table.h"

#include "common/path.h"

#include <errno.h>
#include <string.h>

#define NOTE_MAX 1000  /* columns of a note in a table */
#define USES_MAX 20000 /* accesses of one command that are summed up in text output */

static struct shfs_filter filter;
static bool json;
static char **paths; /* that were asked for; ends with NULL */
static size_t n_paths;

static int add_highlighted_path(const char *operand)
{
	void *more = reallocarray(paths, n_paths + 2, sizeof(*paths));

	if (!more)
		return -ENOMEM;
	paths = more;
	paths[n_paths] = shfs_operand_path(operand);
	if (!paths[n_paths])
		return -ENOMEM;
	paths[++n_paths] = NULL;
	return 0;
}

/* Is something in .git asked for? Then its files are shown one by one. */
static bool is_bookkeeping_asked(void)
{
	for (size_t i = 0; i < n_paths; i++)
		if (shfs_path_bookkeeping(paths[i]))
			return true;
	return false;
}

/* --- options --- */

static int set_history_option(const struct shfs_option *opt, const char *value)
{
	int code = shfs_filter_option(&filter, opt, value);

	if (!code && (!strcmp(opt->name, "read") || !strcmp(opt->name, "wrote")) &&
	    add_highlighted_path(value))
		return shfs_no_memory(), SHFS_EXIT_FAILURE;
	return code;
}

/* --- what is shown --- */

struct output {
	struct shfs_context *ctx;
	struct shfs_index *index;
	struct shfs_entry_view view;
	size_t n;
	struct shfs_gaps gaps; /* in the time that was asked for, in the order of the
	                        * commands */
	size_t next_gap;
	struct shfs_json json;
	struct shfs_buf text;
	struct shfs_table *table; /* with --output */
};

/* --- the table --- */

enum {
	COLUMN_WROTE = SHFS_ENTRY_COLUMNS,
	COLUMN_READ,
	COLUMN_NOTE,
};

static const struct shfs_column columns[] = {
	SHFS_ENTRY_COLUMN_ROWS,
	[COLUMN_WROTE] = { "wrote", "versions that it made" },
	[COLUMN_READ] = { "read", "versions that it read" },
	[COLUMN_NOTE] = { "note", "its tags and its note" },
	{ NULL },
};

struct history_row {
	struct shfs_index *index;
	const struct shfs_entry *entry;
};

static void list_uses(const struct shfs_uses *uses, bool made, struct shfs_buf *out)
{
	for (size_t i = 0; i < uses->n; i++) {
		const struct shfs_use *use = &uses->list[i];

		if (!(made ? use->made_n : use->read_n))
			continue;
		shfs_buf_str(out, out->len ? ", " : "");
		shfs_show_version(out, use->path, made ? use->made_n : use->read_n);
	}
}

static int history_cell(void *arg, int column, struct shfs_buf *out)
{
	const struct history_row *row = arg;

	switch (column) {
	case COLUMN_WROTE:
	case COLUMN_READ:
		list_uses(&row->entry->uses, column == COLUMN_WROTE, out);
		return 0;
	case COLUMN_NOTE:
		shfs_notes_show(out, &shfs_style_none, &row->entry->notes, NOTE_MAX);
		return 0;
	default:
		return shfs_entry_cell(row->index, row->entry, column, out);
	}
}

/* Loads what the table has, and no uses of files where none are shown. */
static int load_row(struct output *o, bool is_process, int64_t id, struct shfs_entry *out)
{
	int r;

	if (shfs_table_has(o->table, COLUMN_WROTE) ||
	    shfs_table_has(o->table, COLUMN_READ))
		return shfs_entry_load(o->index, is_process, id, 0, out);
	out->is_process = is_process;
	if (is_process)
		return shfs_process_load(o->index, id, &out->process);
	r = shfs_command_load(o->index, id, &out->command);
	if (r > 0)
		r = shfs_notes_of_command(o->index, &out->command, &out->notes) ?: r;
	return r;
}

static int print_table(struct output *o)
{
	int r = shfs_table_print(o->ctx, o->table, false);

	if (!r && o->gaps.n)
		shfs_warn("the recording has gaps; shfs history --json lists those "
		          "between these commands");
	return r;
}

/* --- gaps --- */

static bool is_gap_wanted(const struct shfs_gap *gap)
{
	return shfs_filter_fits_gap(&filter, gap->root, gap->host, gap->begin_ns);
}

static int load_gaps(struct output *o)
{
	struct shfs_gaps *gaps = &o->gaps;
	int r = shfs_gaps_load(o->index, gaps);
	size_t n = 0;

	for (size_t i = 0; i < gaps->n; i++) {
		struct shfs_gap gap = gaps->list[i];

		if (!is_gap_wanted(&gap))
			continue;
		gaps->list[i] = gaps->list[n];
		gaps->list[n++] = gap;
	}
	while (gaps->n > n) {
		free(gaps->list[--gaps->n].host);
		free(gaps->list[gaps->n].root);
	}
	for (size_t i = 0; filter.reverse && i < n / 2; i++) {
		struct shfs_gap gap = gaps->list[i];

		gaps->list[i] = gaps->list[n - 1 - i];
		gaps->list[n - 1 - i] = gap;
	}
	return r;
}

/* Puts the gaps that come before this time, as lines between the commands. */
static void put_gaps(struct output *o, int64_t time_ns)
{
	const struct shfs_style *style = o->view.style;

	for (; o->next_gap < o->gaps.n; o->next_gap++) {
		const struct shfs_gap *gap = &o->gaps.list[o->next_gap];

		int64_t begin_ns =
			gap->begin_ns + shfs_clocks_add(&filter.clocks, gap->host);

		if (filter.reverse ? begin_ns >= time_ns : begin_ns < time_ns)
			return;
		if (o->n || o->next_gap)
			shfs_buf_char(&o->text, '\n');
		shfs_buf_printf(&o->text, "%s-------  ", style->bad);
		shfs_gap_show(&o->text, gap);
		shfs_buf_printf(&o->text, "%s\n         " SHFS_GAP_MEANS "\n",
		                style->off);
	}
}

static int put_entry(struct output *o, const struct shfs_entry *entry)
{
	if (o->table)
		return shfs_table_add(o->table, history_cell,
		                      &(struct history_row){ o->index, entry });
	if (json) {
		shfs_json_object(&o->json, NULL);
		shfs_entry_json(&o->json, entry);
		shfs_json_object_end(&o->json);
		return shfs_json_flush(&o->json) ? 0 : -EIO;
	}
	if (!filter.sort)
		put_gaps(o, entry->is_process ? entry->process.first_ns
		                              : entry->command.begin_ns);
	if (o->n || o->next_gap)
		shfs_buf_char(&o->text, '\n');
	return shfs_entry_show(o->index, &o->view, entry, &o->text)
	               ?: shfs_show_flush(&o->text) ? 0
	                                            : -EIO;
}

static void begin_output(struct output *o)
{
	if (o->table)
		return;
	shfs_context_pager(o->ctx);
	o->view = (struct shfs_entry_view){
		.style = shfs_style_of(o->ctx),
		.columns = shfs_show_columns(),
		.paths = paths,
		.all = filter.all || is_bookkeeping_asked(),
	};
	if (json) {
		shfs_json_begin(&o->json, "history");
		shfs_json_array(&o->json, "commands");
	}
}

static int end_output(struct output *o)
{
	bool all = !filter.limit || (int64_t)o->n < filter.limit;

	if (o->table)
		return print_table(o);
	if (!json) {
		if (o->n && all)
			put_gaps(o, filter.reverse ? INT64_MAX : INT64_MIN);
		return shfs_show_flush(&o->text) ? 0 : -EIO;
	}
	shfs_json_array_end(&o->json);
	shfs_json_array(&o->json, "gaps");
	for (size_t i = 0; i < o->gaps.n; i++)
		shfs_gap_json(&o->json, &o->gaps.list[i]);
	shfs_json_array_end(&o->json);
	return shfs_json_end(&o->json) ? 0 : -EIO;
}

static int show_history_rows(struct output *o, struct shfs_rows *rows)
{
	int r;

	while ((r = shfs_rows_next(rows)) > 0) {
		_cleanup_entry_ struct shfs_entry entry = { 0 };
		bool is_process = shfs_rows_int(rows, 0);
		int64_t id = shfs_rows_int(rows, 1);

		r = o->table ? load_row(o, is_process, id, &entry)
		             : shfs_entry_load(o->index, is_process, id,
		                               json ? 0 : USES_MAX, &entry);
		if (r > 0) {
			if (!o->n && !json)
				begin_output(o);
			r = put_entry(o, &entry);
			o->n++;
		}
		if (r)
			return r;
	}
	return r;
}

/* --- nothing --- */

/* Does --all list something that meets these conditions? */
static bool all_would_match(struct shfs_index *index)
{
	_cleanup_query_ struct shfs_query query = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;

	if (filter.all)
		return false;
	filter.all = true;
	filter.limit = 1;
	return !shfs_filter_query(&filter, &query) &&
	       !shfs_query_open(&query, index, &rows) && shfs_rows_next(rows) > 0;
}

/* Explains an empty answer: nothing was ever recorded, a path was never seen, or the
 * other conditions match nothing, which is no failure. */
static int explain_nothing(struct shfs_index *index, int argc, char **argv)
{
	int code = shfs_fail_if_unknown(index, argc, argv);

	/* paths in options, too, except patterns */
	for (size_t i = 0; i < n_paths && !code; i++)
		if (!strpbrk(paths[i], "*?["))
			code = shfs_fail_if_unknown(index, 1, &paths[i]);
	if (code)
		return code;
	if (json)
		return SHFS_EXIT_OK;
	shfs_error("no command matches");
	if (all_would_match(index))
		shfs_hint(
			"--all lists some: they touched no files, or no shell ran them");
	return SHFS_EXIT_NOT_FOUND;
}

static int run_history(struct shfs_context *ctx, struct shfs_index *index, int argc,
                       char **argv)
{
	_cleanup_query_ struct shfs_query query = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct output o = { .ctx = ctx, .index = index };
	int r = 0, code = shfs_filter_resolve(&filter, ctx, index);

	if (code)
		return code;
	for (int i = 0; i < argc && !r; i++)
		r = shfs_filter_add(&filter, SHFS_FILTER_PATH, argv[i])
		            ?: add_highlighted_path(argv[i]);
	if (!r)
		r = shfs_filter_measure(&filter, index);
	if (!r)
		r = shfs_filter_query(&filter, &query);
	if (!r)
		r = shfs_query_open(&query, index, &rows);
	if (!r)
		r = load_gaps(&o);
	if (!r && shfs_output_columns)
		r = shfs_table_open(&shfs_cmd_history, &o.table);
	if (!r && json)
		begin_output(&o);
	if (!r)
		r = show_history_rows(&o, rows);
	if (!r)
		r = end_output(&o);
	shfs_table_close(o.table);
	shfs_gaps_clear(&o.gaps);
	shfs_buf_free(&o.text);
	shfs_json_free(&o.json);
	if (!r && !o.n)
		r = explain_nothing(index, argc, argv);
	shfs_filter_free(&filter);
	while (n_paths)
		free(paths[--n_paths]);
	free(TAKE_PTR(paths));
	return r;
}

const struct shfs_command shfs_cmd_history = {
	.name = "history",
	.args = "[PATH…]",
	.summary = "List commands, newest first, with the files that each read and wrote",
	.description = "With PATH, lists those that ran in it or touched it or something "
		       "below it,\n"
		       "and also programs that no shell ran, such as editors.\n"
		       "All conditions must hold, but only one of several PATHs, and only "
		       "those before\n"
		       "or those after --or. --name, --content, --size and --modified-* "
		       "must all hold\n"
		       "for one file that was used: for a file of --read or --wrote, if "
		       "these are given.\n"
		       "Files in .git, __pycache__ and the like are summed up, unless PATH "
		       "names one of\n"
		       "them.",
	.alone = true,
	.options = {
	SHFS_FILTER_OPTIONS,
	SHFS_FILTER_OR,
	{ "limit", 'n', "N", "show at most N", .count = &filter.limit },
	SHFS_FILTER_SORT,
	{ "reverse", 'r', NULL, "oldest first, or the other way round than --sort says",
	  .flag = &filter.reverse },
	{ "all", 'a', NULL,
	  "also commands that touched no files, programs that no shell ran, files of "
	  ".git",
	  .flag = &filter.all },
	SHFS_OUTPUT_OPTION,
	SHFS_DB_OPTION,
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &json },
	},
	.columns = columns,
	.usual_columns = "id,begin,status,text",
	.operands = { 0, -1 },
	.option = set_history_option,
	.at_once = true,
	.run_on_index = run_history,
};
