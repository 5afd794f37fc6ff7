/* SPDX-License-Identifier: MIT */
/* `shfs log`: list the versions of a file, newest first, and the command behind each. */
#include "query/base/cmd.h"
#include "query/base/time.h"
#include "query/history/diff.h"
#include "query/history/entry-columns.h"
#include "query/history/fold.h"
#include "query/history/version-show.h"
#include "query/history/version-spec.h"
#include "query/screen/log-screen.h"
#include "query/table/table.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static struct {
	int64_t limit;
	bool patch, json, reverse, interactive, all;
} opts;

struct log {
	struct shfs_context *ctx;
	struct shfs_index *index;
	struct shfs_store *store;
	struct shfs_version_view view;
	struct shfs_buf out;
	struct shfs_json json;
	struct shfs_table *table; /* with --output */
	struct shfs_gone_list gone;
	int64_t n_entries;
};

static int json_doer(struct log *l, int64_t command_id, int64_t process_id)
{
	_cleanup_entry_ struct shfs_entry e = { 0 };
	int r = shfs_doer_load(l->index, command_id, process_id, &e);

	if (r <= 0) {
		shfs_json_null(&l->json, "command");
		return r;
	}
	shfs_json_object(&l->json, "command");
	shfs_entry_json_head(&l->json, &e);
	shfs_json_object_end(&l->json);
	return 0;
}

static int json_one_gone(struct log *l, const struct shfs_gone *one)
{
	int r;

	shfs_json_object(&l->json, NULL);
	shfs_json_str(&l->json, "what", one->path2 ? "rename" : "unlink");
	if (one->path2)
		shfs_json_str(&l->json, "to", one->path2);
	shfs_json_time(&l->json, "time", one->end_ns);
	r = json_doer(l, one->command_id, one->process_id);
	shfs_json_object_end(&l->json);
	return r;
}

static int put_gone(struct log *l, const struct shfs_version *v)
{
	const struct shfs_gone *one = shfs_gone_find(&l->gone, v->n), *next;
	bool newest_first = !opts.json && !opts.reverse;
	int r = 0;

	while (newest_first && one && (next = shfs_gone_next(&l->gone, one)))
		one = next;
	for (; one && !r; one = newest_first ? shfs_gone_before(&l->gone, one)
	                                     : shfs_gone_next(&l->gone, one))
		if (!opts.json)
			r = shfs_version_show_gone(&l->view, one, &l->out);
		else if (!one->back && !one->n_same)
			r = json_one_gone(l, one);
	return r;
}

/* --- the table --- */

#define NOTE_MAX 1000 /* columns of a note in a table */

enum {
	COLUMN_N = SHFS_ENTRY_COLUMNS,
	COLUMN_VERSIONS,
	COLUMN_PATH,
	COLUMN_TIME,
	COLUMN_SIZE,
	COLUMN_MODE,
	COLUMN_MTIME,
	COLUMN_SOURCE,
	COLUMN_ORIGIN,
	COLUMN_OBJECT,
	COLUMN_NOT_ARCHIVED,
	COLUMN_GONE,
	COLUMN_NOTE,
};

static const struct shfs_column columns[] = {
	SHFS_ENTRY_COLUMN_ROWS,
	[COLUMN_N] = { "n", "the number of the version", SHFS_COLUMN_NUMBER },
	[COLUMN_VERSIONS] = { "versions", "how many this entry stands for",
	                      SHFS_COLUMN_NUMBER },
	[COLUMN_PATH] = { "path", "of the file" },
	[COLUMN_TIME] = { "time", "when it came to be" },
	[COLUMN_SIZE] = { "size", "of its content", SHFS_COLUMN_NUMBER },
	[COLUMN_MODE] = { "mode", "its permissions" },
	[COLUMN_MTIME] = { "mtime", "its time of modification" },
	[COLUMN_SOURCE] = { "source", "written, renamed, linked or found" },
	[COLUMN_ORIGIN] = { "origin", "the version whose content it got" },
	[COLUMN_OBJECT] = { "object", "the name of its content in the store" },
	[COLUMN_NOT_ARCHIVED] = { "not_archived", "why there is no content" },
	[COLUMN_GONE] = { "gone", "how it left its path" },
	[COLUMN_NOTE] = { "note", "its tags and its note" },
	{ NULL },
};

struct log_row {
	struct log *log;
	const struct shfs_version *newest, *oldest;
	const struct shfs_entry *doer; /* NULL: not known */
};

static void show_leaving(const struct shfs_gone_list *gone, int64_t n,
                         struct shfs_buf *out)
{
	const struct shfs_gone *one = shfs_gone_find(gone, n);

	for (; one; one = shfs_gone_next(gone, one)) {
		if (one->back || one->n_same)
			continue;
		shfs_buf_str(out, out->len ? ", " : "");
		shfs_buf_str(out, one->path2 ? "renamed to " : "deleted");
		if (one->path2)
			shfs_show_path(out, one->path2);
	}
}

static int log_notes_cell(const struct log_row *row, struct shfs_buf *out)
{
	_cleanup_notes_ struct shfs_notes notes = { 0 };
	int r = shfs_notes_of_version(row->log->index, row->newest, &notes);

	shfs_notes_show(out, &shfs_style_none, &notes, NOTE_MAX);
	return r;
}

static int log_origin_cell(const struct log_row *row, struct shfs_buf *out)
{
	_cleanup_version_ struct shfs_version origin = { 0 };
	int64_t id = row->newest->origin_version_id;
	int r = id ? shfs_version_load(row->log->index, id, &origin) : 0;

	if (r > 0)
		shfs_show_version(out, origin.path, origin.n);
	return MIN(r, 0);
}

static void log_version_cell(const struct shfs_version *v, int column,
                             struct shfs_buf *out)
{
	char object[44];

	switch (column) {
	case COLUMN_N:
		shfs_buf_int(out, v->n);
		break;
	case COLUMN_PATH:
		shfs_quote_display(out, v->path, strlen(v->path));
		break;
	case COLUMN_TIME:
		shfs_time_show(out, v->time_ns);
		break;
	case COLUMN_SIZE:
		shfs_show_size(out, v->size);
		break;
	case COLUMN_MODE:
		shfs_buf_printf(out, "%04o", v->mode & 07777);
		break;
	case COLUMN_MTIME:
		shfs_time_show(out, v->mtime_ns);
		break;
	case COLUMN_SOURCE:
		shfs_buf_str(out, v->source);
		break;
	case COLUMN_OBJECT:
		if (v->flags & SHFS_CONTENT_OBJECT)
			shfs_object_name(&v->object, object);
		shfs_buf_str(out, v->flags & SHFS_CONTENT_OBJECT ? object : "");
		break;
	case COLUMN_NOT_ARCHIVED:
		shfs_buf_str(out, shfs_version_why_not_archived(v->flags) ?: "");
		break;
	default:
		break;
	}
}

static int log_cell(void *arg, int column, struct shfs_buf *out)
{
	const struct log_row *row = arg;

	switch (column) {
	case COLUMN_VERSIONS:
		shfs_buf_int(out, row->newest->n - row->oldest->n + 1);
		return 0;
	case COLUMN_ORIGIN:
		return log_origin_cell(row, out);
	case COLUMN_GONE:
		show_leaving(&row->log->gone, row->newest->n, out);
		return 0;
	case COLUMN_NOTE:
		return log_notes_cell(row, out);
	}
	if (column < SHFS_ENTRY_COLUMNS)
		return shfs_entry_cell(row->log->index, row->doer, column, out);
	log_version_cell(row->newest, column, out);
	return 0;
}

static int add_log_row(struct log *l, const struct shfs_version *newest,
                       const struct shfs_version *oldest)
{
	_cleanup_entry_ struct shfs_entry doer = { 0 };
	int r = shfs_doer_load(l->index, newest->command_id, newest->process_id, &doer);
	struct log_row row = { l, newest, oldest, r > 0 ? &doer : NULL };

	return r < 0 ? r : shfs_table_add(l->table, log_cell, &row);
}

/* --- the patch --- */

static int show_patch(struct log *l, const struct shfs_version *v)
{
	_cleanup_version_ struct shfs_version before = { 0 };
	struct shfs_diff_side side[2] = { { .fd = -1 }, { .fd = -1 } };
	struct shfs_diff_options options = { .color = shfs_context_color(l->ctx) };
	int r = shfs_version_before(l->index, v, &before);
	int code = 0;

	if (r < 0)
		return r;
	if (!(v->flags & SHFS_CONTENT_OBJECT))
		return 0;
	if (before.n && !(before.flags & SHFS_CONTENT_OBJECT)) {
		shfs_buf_str(&l->out, "    ");
		shfs_show_dim(&l->out, l->view.style,
		              "no patch: the version before it is not archived");
		shfs_buf_char(&l->out, '\n');
		return 0;
	}
	shfs_buf_char(&l->out, '\n');
	if (!shfs_show_flush(&l->out))
		return -EIO;
	code = before.n ? shfs_diff_version(l->store, &before, &side[0])
	                : shfs_diff_nothing(&side[0]);
	if (!code)
		code = shfs_diff_version(l->store, v, &side[1]);
	if (!code)
		code = shfs_diff_run(side, &options);
	shfs_diff_side_clear(&side[0]);
	shfs_diff_side_clear(&side[1]);
	return code > 1 ? -ECANCELED : 0;
}

/* --- all of them --- */

static int json_log_version(struct log *l, const struct shfs_version *v)
{
	_cleanup_version_ struct shfs_version origin = { 0 };
	_cleanup_notes_ struct shfs_notes notes = { 0 };
	int r = v->origin_version_id
	                ? shfs_version_load(l->index, v->origin_version_id, &origin)
	                : 0;

	if (r >= 0 && shfs_ids_has(&l->gone.noted, v->time_ns))
		r = shfs_notes_of_version(l->index, v, &notes) ?: r;
	if (r < 0)
		return r;
	shfs_json_object(&l->json, NULL);
	shfs_version_json(&l->json, v);
	shfs_notes_json(&l->json, &notes);
	if (r) {
		shfs_json_object(&l->json, "origin");
		shfs_json_str(&l->json, "path", origin.path);
		shfs_json_int(&l->json, "n", origin.n);
		shfs_json_object_end(&l->json);
	}
	r = json_doer(l, v->command_id, v->process_id);
	shfs_json_array(&l->json, "gone");
	if (!r)
		r = put_gone(l, v);
	shfs_json_array_end(&l->json);
	shfs_json_object_end(&l->json);
	return r;
}

static int show_log_entry(struct log *l, const struct shfs_version *v,
                          const struct shfs_version *oldest)
{
	int r = 0;

	if (opts.json)
		return json_log_version(l, v);
	if (l->table)
		return add_log_row(l, v, oldest);
	if (l->n_entries && opts.patch)
		shfs_buf_char(&l->out, '\n');
	if (!opts.reverse)
		r = put_gone(l, v);
	if (!r)
		r = shfs_version_show_fold(&l->view, v, oldest, &l->out);
	if (!r && opts.reverse)
		r = put_gone(l, v);
	if (!r && opts.patch)
		r = show_patch(l, v);
	return r ? r : shfs_show_flush(&l->out) ? 0 : -EIO;
}

enum { DONE = 1 };

static int take_log_entry(void *arg, const struct shfs_version *newest,
                          const struct shfs_version *oldest)
{
	struct log *l = arg;
	int r = show_log_entry(l, newest, oldest);

	return r ? r : ++l->n_entries == opts.limit ? DONE : 0;
}

#define VERSIONS                                                                         \
	"SELECT" SHFS_VERSION_COLUMNS                                                    \
	"FROM v_version WHERE file_id = ?1 AND n <= ?2 ORDER BY n %s"

static int show_log_versions(struct log *l, const struct shfs_version *last)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_printf(&sql, VERSIONS, opts.reverse ? "" : "DESC");
	r = sql.failed ? -ENOMEM : shfs_gone_load(l->index, last->file_id, &l->gone);
	if (!r)
		r = shfs_rows_open_ints(l->index, sql.data,
		                        SHFS_INTS(last->file_id, last->n), &rows);
	if (!r)
		r = shfs_fold_each(rows, !opts.all && !opts.patch && !opts.json, &l->gone,
		                   take_log_entry, l);
	return r == DONE ? 0 : r;
}

static int put_log(struct log *l, const struct shfs_version *last)
{
	int r;

	if (shfs_output_columns) {
		r = shfs_table_open(&shfs_cmd_log, &l->table);
		if (!r)
			r = show_log_versions(l, last);
		return r ? r : shfs_table_print(l->ctx, l->table, false);
	}
	if (!opts.json) {
		shfs_context_pager(l->ctx);
		l->view = (struct shfs_version_view){ l->index, shfs_style_of(l->ctx),
			                              shfs_show_columns() };
		return show_log_versions(l, last);
	}
	shfs_json_begin(&l->json, "log");
	shfs_json_str(&l->json, "path", last->path);
	shfs_json_array(&l->json, "versions");
	r = show_log_versions(l, last);
	shfs_json_array_end(&l->json);
	return r ? r : shfs_json_end(&l->json) ? 0 : -EIO;
}

static bool is_directory_operand(const char *operand)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct stat st;

	if (stat(operand, &st) || !S_ISDIR(st.st_mode))
		return false;
	shfs_quote_display(&shown, operand, strlen(operand));
	shfs_error("%s is a directory, which has no versions",
	           shown.data ? shown.data : "");
	shfs_hint("shfs history %s", shown.data ? shown.data : "");
	return true;
}

static int browse(struct log *l, const struct shfs_version *last)
{
	_cleanup_free_ char *path = shfs_path_operand(last->path);
	int64_t n;
	int code = path ? shfs_log_choose(l->ctx, l->index, l->store, last, &n)
	                : SHFS_EXIT_FAILURE;

	if (code)
		return code;
	if (isatty(STDOUT_FILENO))
		shfs_quote_display(&l->out, path, strlen(path));
	else
		shfs_buf_str(&l->out, path);
	shfs_buf_printf(&l->out, "@%lld\n", (long long)n);
	return shfs_show_flush(&l->out) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static int check_log_options(struct shfs_context *ctx, int argc)
{
	if (shfs_output_columns && (opts.patch || opts.interactive)) {
		shfs_error("--output goes with neither --patch nor --interactive");
		return SHFS_EXIT_USAGE;
	}
	if (!opts.patch && !opts.interactive) /* these run diff */
		shfs_context_alone(ctx);
	return 0;
}

static int run_log(struct shfs_context *ctx, struct shfs_index *index, int argc,
                   char **argv)
{
	_cleanup_version_ struct shfs_version last = { 0 };
	struct log l = { .ctx = ctx, .index = index, .store = shfs_context_opened(ctx) };
	int r, code;

	if (is_directory_operand(argv[0]))
		return SHFS_EXIT_NOT_FOUND;
	code = shfs_version_spec_find(index, argv[0], &last);
	if (!code && opts.interactive) {
		code = browse(&l, &last);
		shfs_buf_free(&l.out);
		return code;
	}
	if (code)
		return code;
	r = put_log(&l, &last);
	shfs_table_close(l.table);
	shfs_gone_clear(&l.gone);
	shfs_buf_free(&l.out);
	shfs_json_free(&l.json);
	return r == -ECANCELED ? SHFS_EXIT_FAILURE : r; /* it was said */
}

const struct shfs_command shfs_cmd_log = {
	.name = "log",
	.args = "FILE[@N]",
	.summary =
		"List the versions of a file, newest first, and the command behind each",
	.description =
		"With @N, that version and those before it.\n"
		"What one command made in a row, three versions or more, is one entry.\n"
		"The time of a version that was there before is its modification time.",
	.options = {
	{ "patch", 'p', NULL, "show what each version changed", .flag = &opts.patch },
	{ "all", 0, NULL, "each of the versions that one command made in a row",
	  .flag = &opts.all },
	{ "limit", 'n', "N", "at most N entries", .count = &opts.limit },
	{ "reverse", 'r', NULL, "oldest first", .flag = &opts.reverse },
	{ "interactive", 'i', NULL, "step through them on a screen, with the changes",
	  .flag = &opts.interactive },
	SHFS_OUTPUT_OPTION,
	SHFS_DB_OPTION,
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.columns = columns,
	.usual_columns = "n,time,size,id,text",
	.operands = { 1, 1 },
	.at_once = true,
	.check = check_log_options,
	.run_on_index = run_log,
};
