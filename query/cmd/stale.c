/* SPDX-License-Identifier: MIT */
/*
 * `shfs stale`: show results that no longer match their inputs, and what to run again.
 */
#include "query/graph/stale.h"
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/graph/show.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>

static struct {
	bool json;
} opts;

struct counts {
	size_t results, stale;
};

static struct counts count_stale_results(struct shfs_stale *stale)
{
	struct counts n = { 0 };

	for (struct shfs_stale_run *run = shfs_stale_runs(stale); run; run = run->next) {
		n.results += run->n_results;
		n.stale += run->stale ? run->n_results : 0;
	}
	return n;
}

/* --- text --- */

struct listing {
	struct shfs_buf out, name; /* being shown */
	const struct shfs_style *style;
	size_t columns;
};

static void show_result_name(struct listing *l, const char *path, int64_t n, size_t width)
{
	l->name.len = 0;
	shfs_show_version(&l->name, path, n);
	shfs_show_tail(&l->out, l->name.data ? l->name.data : "?", width);
}

#define BRANCH_WIDTH 3
#define WORDS_WIDTH  37 /* "  is @1000000 now  removed, and stale" */

static void show_reason(struct listing *l, const struct shfs_stale_input *input)
{
	const struct shfs_stale_file *f = input->file;
	struct shfs_buf *out = &l->out;

	show_result_name(l, f->path, input->n, l->columns - BRANCH_WIDTH - WORDS_WIDTH);
	shfs_buf_str(out, l->style->dim);
	if (f->moved_on) {
		shfs_buf_str(out, "  has changed since");
	} else if (input->changed) {
		shfs_buf_str(out, "  is @");
		shfs_buf_int(out, f->n);
		shfs_buf_str(out, " now");
	}
	if (!f->present)
		shfs_buf_str(out, "  removed");
	if (f->run && f->run->stale)
		shfs_buf_str(out, input->changed ? ", and stale" : "  stale");
	shfs_buf_str(out, l->style->off);
	shfs_buf_char(out, '\n');
}

static void show_reasons(struct listing *l, const struct shfs_stale_run *run)
{
	size_t reasons = 0, shown = 0;

	if (run->failed)
		shfs_buf_printf(&l->out, "%s %sits command ended with %lld%s\n",
		                shfs_sign("└─"), l->style->dim,
		                (long long)run->entry->command.status, l->style->off);
	for (size_t i = 0; i < run->n_inputs; i++)
		reasons += run->inputs[i].reason;
	for (size_t i = 0; i < run->n_inputs && shown < SHFS_TREE_LISTED; i++) {
		if (!run->inputs[i].reason)
			continue;
		shown++;
		shfs_show_signs(&l->out, shown == reasons ? "└─ " : "├─ ");
		show_reason(l, &run->inputs[i]);
	}
	if (shown < reasons)
		shfs_buf_printf(&l->out, "%s %s%zu more%s\n", shfs_sign("└─"),
		                l->style->dim, reasons - shown, l->style->off);
}

static void show_results(struct listing *l, const struct shfs_stale_run *run)
{
	size_t n = 0;

	for (struct shfs_stale_file *f = run->results; f && n < SHFS_TREE_LISTED;
	     f = f->next_result, n++) {
		show_result_name(l, f->path, f->n, l->columns);
		shfs_buf_char(&l->out, '\n');
	}
	if (run->n_results > n)
		shfs_buf_printf(&l->out, "+ %zu more\n", run->n_results - n);
}

static int show_commands_to_run(struct listing *l, struct shfs_index *index,
                                struct shfs_stale *stale)
{
	struct shfs_buf *out = &l->out;
	int r = 0;

	shfs_buf_str(out, "To run again, in this order:\n");
	for (struct shfs_stale_run *run = shfs_stale_runs(stale); run && !r;
	     run = run->next) {
		if ((!run->stale && !run->needed) || run->again)
			continue;
		r = shfs_entry_show_head(index, l->style, run->entry, l->columns, out);
		shfs_buf_printf(out, "\n         %sin ", l->style->dim);
		shfs_show_directory(out, run->entry->command.cwd);
		if (run->needed)
			shfs_buf_str(out, ", because its result was removed");
		shfs_buf_printf(out, "%s\n", l->style->off);
	}
	shfs_buf_char(out, '\n');
	return r;
}

static int show_stale_results(struct listing *l, struct shfs_index *index,
                              struct shfs_stale *stale, struct counts n)
{
	int r = 0;

	for (struct shfs_stale_run *run = shfs_stale_runs(stale); run; run = run->next) {
		if (!run->stale || !run->results)
			continue;
		show_results(l, run);
		show_reasons(l, run);
		shfs_buf_char(&l->out, '\n');
		if (!shfs_show_flush(&l->out))
			return -EIO;
	}
	if (n.stale)
		r = show_commands_to_run(l, index, stale);
	shfs_buf_printf(&l->out, "%s%zu of %zu result%s stale%s\n", l->style->dim,
	                n.stale, n.results, shfs_plural(n.results), l->style->off);
	return r ? r : shfs_show_flush(&l->out) ? 0 : -EIO;
}

static int show_stale(struct shfs_context *ctx, struct shfs_index *index,
                      struct shfs_stale *stale, struct counts n)
{
	struct listing l = { 0 };
	int r;

	shfs_context_pager(ctx);
	l.style = shfs_style_of(ctx);
	l.columns = shfs_show_columns();
	r = show_stale_results(&l, index, stale, n);
	shfs_buf_free(&l.out);
	shfs_buf_free(&l.name);
	return r;
}

/* --- JSON --- */

static void json_run(struct shfs_json *json, const struct shfs_stale_run *run)
{
	shfs_json_object(json, NULL);
	shfs_entry_json_head(json, run->entry);
	shfs_json_bool(json, "needed", run->needed);
	shfs_json_bool(json, "failed", run->failed);
	shfs_json_array(json, "results");
	for (struct shfs_stale_file *f = run->results; f; f = f->next_result)
		shfs_json_version_name(json, NULL,
		                       &(struct shfs_version){ .path = f->path,
		                                               .n = f->n });
	shfs_json_array_end(json);
	shfs_json_array(json, "reasons");
	for (size_t i = 0; i < run->n_inputs; i++) {
		const struct shfs_stale_input *input = &run->inputs[i];

		if (!input->reason)
			continue;
		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", input->file->path);
		shfs_json_int(json, "read", input->n);
		shfs_json_int(json, "now", input->file->n);
		shfs_json_bool(json, "changed", input->changed);
		shfs_json_bool(json, "stale",
		               input->file->run && input->file->run->stale);
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
	shfs_json_object_end(json);
}

static int json_stale(struct shfs_stale *stale, struct counts n)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	bool ok = true;

	shfs_json_begin(&json, "stale");
	shfs_json_int(&json, "results", n.results);
	shfs_json_int(&json, "stale", n.stale);
	shfs_json_array(&json, "commands");
	for (struct shfs_stale_run *run = shfs_stale_runs(stale); run && n.stale && ok;
	     run = run->next) {
		if (run->stale || run->needed)
			json_run(&json, run);
		ok = shfs_json_flush(&json);
	}
	shfs_json_array_end(&json);
	return ok && shfs_json_end(&json) ? 0 : -EIO;
}

/* --- the command --- */

static int answer_stale(struct shfs_context *ctx, struct shfs_index *index,
                        char *const *paths, size_t n)
{
	_cleanup_stale_ struct shfs_stale *stale = NULL;
	int r = shfs_stale_new(index, paths, n, &stale);
	struct counts counts = { 0 };

	if (!r) {
		counts = count_stale_results(stale);
		r = opts.json ? json_stale(stale, counts)
		              : show_stale(ctx, index, stale, counts);
	}
	if (r)
		return r;
	return counts.stale ? SHFS_EXIT_FAILURE : SHFS_EXIT_OK;
}

static int run_stale(struct shfs_context *ctx, struct shfs_index *index, int argc,
                     char **argv)
{
	static char here[] = ".", *all[] = { here };
	size_t n = argc ? argc : 1;
	char **paths = calloc(n, sizeof(*paths));
	int r;

	if (!paths)
		return -ENOMEM;
	r = shfs_fail_if_empty(index)
	            ?: shfs_operand_paths(index, n, argc ? argv : all, paths)
	            ?: answer_stale(ctx, index, paths, n);
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
	free(paths);
	return r;
}

const struct shfs_command shfs_cmd_stale = {
	.name = "stale",
	.args = "[PATH…]",
	.summary =
		"Show which results no longer match their inputs, and what to run again",
	.description = "A result is stale if a file that its command read holds another "
		       "content now,\n"
		       "or is stale itself. Without PATH: everything below the working "
		       "directory.\n"
		       "The exit code is 0 if nothing is stale, 1 if something is.",
	.alone = true,
	.options = {
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 0, -1 },
	.run_on_index = run_stale,
};
