/* SPDX-License-Identifier: MIT */
#include "query/cmd.h"
#include "query/graph-show.h"
#include "query/stale.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>

static struct {
	bool json;
} opts;

struct counts {
	size_t results, stale;
};

static struct counts count(struct shfs_stale *stale)
{
	struct counts n = { 0 };

	for (struct shfs_stale_run *run = shfs_stale_runs(stale); run; run = run->next)
		for (struct shfs_stale_file *f = run->results; f; f = f->next_result) {
			n.results++;
			n.stale += run->stale;
		}
	return n;
}

static bool is_reason(const struct shfs_stale_input *input)
{
	return input->changed || (input->file->run && input->file->run->stale);
}

/* --- text --- */

static void show_name(struct shfs_buf *out, const struct shfs_version *v, int64_t n,
                      size_t width)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	shfs_show_version(&name, v->path, n);
	shfs_show_tail(out, name.data ? name.data : "?", width);
}

#define BRANCH_WIDTH 3
#define WORDS_WIDTH  37 /* "  is @1000000 now  removed, and stale" */

static void show_reason(struct shfs_buf *out, const struct shfs_style *style,
                        size_t columns, const struct shfs_stale_input *input)
{
	const struct shfs_version *v = &input->file->version;

	show_name(out, v, input->n, columns - BRANCH_WIDTH - WORDS_WIDTH);
	shfs_buf_str(out, style->dim);
	if (input->changed) {
		shfs_buf_str(out, "  is @");
		shfs_buf_int(out, v->n);
		shfs_buf_str(out, " now");
	}
	if (!input->file->present)
		shfs_buf_str(out, "  removed");
	if (input->file->run && input->file->run->stale)
		shfs_buf_str(out, input->changed ? ", and stale" : "  stale");
	shfs_buf_str(out, style->off);
	shfs_buf_char(out, '\n');
}

static void show_reasons(struct shfs_buf *out, const struct shfs_style *style,
                         size_t columns, const struct shfs_stale_run *run)
{
	size_t reasons = 0, shown = 0;

	for (size_t i = 0; i < run->n_inputs; i++)
		reasons += is_reason(&run->inputs[i]);
	for (size_t i = 0; i < run->n_inputs && shown < SHFS_TREE_LISTED; i++) {
		if (!is_reason(&run->inputs[i]))
			continue;
		shown++;
		shfs_buf_str(out, shown == reasons ? "└─ " : "├─ ");
		show_reason(out, style, columns, &run->inputs[i]);
	}
	if (shown < reasons)
		shfs_buf_printf(out, "└─ %s%zu more%s\n", style->dim, reasons - shown,
		                style->off);
}

static void show_results(struct shfs_buf *out, size_t columns,
                         const struct shfs_stale_run *run)
{
	size_t n = 0;

	for (struct shfs_stale_file *f = run->results; f; f = f->next_result, n++) {
		if (n >= SHFS_TREE_LISTED)
			continue;
		show_name(out, &f->version, f->version.n, columns);
		shfs_buf_char(out, '\n');
	}
	if (n > SHFS_TREE_LISTED)
		shfs_buf_printf(out, "+ %zu more\n", n - SHFS_TREE_LISTED);
}

static int show_commands(struct shfs_index *index, const struct shfs_style *style,
                         size_t columns, struct shfs_stale *stale, struct shfs_buf *out)
{
	int r = 0;

	shfs_buf_str(out, "To run again, in this order:\n");
	for (struct shfs_stale_run *run = shfs_stale_runs(stale); run && !r;
	     run = run->next) {
		if ((!run->stale && !run->needed) || run->again)
			continue;
		r = shfs_entry_show_head(index, style, &run->entry, columns, out);
		shfs_buf_printf(out, "\n         %sin ", style->dim);
		shfs_show_directory(out, run->entry.command.cwd);
		if (run->needed)
			shfs_buf_str(out, ", for what it made was removed");
		shfs_buf_printf(out, "%s\n", style->off);
	}
	return r;
}

static int show_text(struct shfs_context *ctx, struct shfs_index *index,
                     struct shfs_stale *stale)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	struct counts n = count(stale);
	const struct shfs_style *style;
	size_t columns;
	int r = 0;

	shfs_context_pager(ctx);
	style = shfs_style_of(ctx);
	columns = shfs_show_columns();
	for (struct shfs_stale_run *run = shfs_stale_runs(stale); run; run = run->next) {
		if (!run->stale || !run->results)
			continue;
		show_results(&out, columns, run);
		show_reasons(&out, style, columns, run);
		shfs_buf_char(&out, '\n');
	}
	if (n.stale)
		r = show_commands(index, style, columns, stale, &out);
	if (n.stale)
		shfs_buf_char(&out, '\n');
	shfs_buf_printf(&out, "%s%zu of %zu result%s stale%s\n", style->dim, n.stale,
	                n.results, n.results == 1 ? "" : "s", style->off);
	return r ? r : shfs_show_flush(&out) ? 0 : -EIO;
}

/* --- JSON --- */

static void json_run(struct shfs_json *json, const struct shfs_stale_run *run)
{
	shfs_json_object(json, NULL);
	shfs_entry_json_head(json, &run->entry);
	shfs_json_bool(json, "needed", run->needed);
	shfs_json_array(json, "results");
	for (struct shfs_stale_file *f = run->results; f; f = f->next_result)
		shfs_json_version_name(json, NULL, &f->version);
	shfs_json_array_end(json);
	shfs_json_array(json, "reasons");
	for (size_t i = 0; i < run->n_inputs; i++) {
		const struct shfs_stale_input *input = &run->inputs[i];

		if (!is_reason(input))
			continue;
		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", input->file->version.path);
		shfs_json_int(json, "read", input->n);
		shfs_json_int(json, "now", input->file->version.n);
		shfs_json_bool(json, "changed", input->changed);
		shfs_json_bool(json, "stale",
		               input->file->run && input->file->run->stale);
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
	shfs_json_object_end(json);
}

static int show_json(struct shfs_stale *stale)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	struct counts n = count(stale);
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

static int answer(struct shfs_context *ctx, struct shfs_index *index, char *const *paths,
                  size_t n, int *code)
{
	_cleanup_stale_ struct shfs_stale *stale = NULL;
	int r = shfs_stale_new(index, paths, n, &stale);

	if (r)
		return r;
	*code = count(stale).stale ? SHFS_EXIT_FAILURE : SHFS_EXIT_OK;
	return opts.json ? show_json(stale) : show_text(ctx, index, stale);
}

static int run(struct shfs_context *ctx, int argc, char **argv)
{
	static char here[] = ".", *all[] = { here };
	size_t n = argc ? argc : 1;
	char **paths = calloc(n, sizeof(*paths));
	int r = 0, code = SHFS_EXIT_OK;
	struct shfs_index *index = paths ? shfs_context_index(ctx, &code) : NULL;

	if (!paths)
		return shfs_fail_index(NULL, -ENOMEM);
	if (index)
		code = shfs_fail_if_empty(index);
	if (index && !code)
		code = shfs_operand_paths(index, n, argc ? argv : all, paths);
	if (index && !code)
		r = answer(ctx, index, paths, n, &code);
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
	free(paths);
	if (r == -EIO)
		return SHFS_EXIT_FAILURE; /* main says that the output failed */
	return r ? shfs_fail_index(index, r) : code;
}

static int option(struct shfs_context *ctx, const struct shfs_option *opt,
                  const char *value)
{
	opts.json |= !strcmp(opt->name, "json");
	return 0;
}

static const struct shfs_option options[] = {
	{ "json", 0, NULL, "for programs: see docs/json.md" },
	{ 0 },
};

const struct shfs_command shfs_cmd_stale = {
	.name = "stale",
	.args = "[PATH…]",
	.summary =
		"Show which results no longer match their inputs, and what to run again",
	.description =
		"A result is stale if a file that its command read holds another content "
		"now,\n"
		"or is stale itself. Without PATH: all below the working directory.\n"
		"The exit code is 0 if nothing is stale, 1 if something is.",
	.options = options,
	.max_args = -1,
	.option = option,
	.run = run,
};
