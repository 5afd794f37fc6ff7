/* SPDX-License-Identifier: MIT */
/*
 * A Makefile for GNU make 4.3: one rule for each step, with all its results in one
 * grouped target. make knows a file only by its name, so each path can have only one
 * content, and some names cannot be written.
 */
#include "query/export/export.h"

#include "common/quote.h"

#include <string.h>

static int refuse_name(const char *name)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, name, strlen(name));
	shfs_error("%s: a Makefile cannot hold this name", shown.data ?: "");
	return SHFS_EXIT_REFUSED;
}

/* Can make express this name, also next to others? */
static bool can_write(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (strchr("\\;|&*?[]()", name[i]) || (unsigned char)name[i] < ' ' ||
		    name[i] == 0x7f)
			return false;
	return len && *name != '~' && *name != ' ' && name[len - 1] != ' ' &&
	       !(name[0] == '.' && name[1] >= 'A' && name[1] <= 'Z') &&
	       strcmp(name, ".all") != 0;
}

static int add_make_name(struct shfs_buf *out, const char *name, bool is_target)
{
	if (!can_write(name))
		return refuse_name(name);
	shfs_buf_char(out, ' ');
	for (const char *p = name; *p; p++) {
		if (*p == '=')
			shfs_buf_str(out, "$(equals)");
		else if (*p == '$')
			shfs_buf_str(out, "$$");
		else if (strchr(" #:", *p) || (*p == '%' && is_target))
			shfs_buf_printf(out, "\\%c", *p);
		else
			shfs_buf_char(out, *p);
	}
	return 0;
}

/* Adds a line of a recipe. */
static void add_recipe(struct shfs_buf *out, const struct shfs_buf *line)
{
	shfs_buf_char(out, '\t');
	for (size_t i = 0; i < line->len; i++)
		shfs_buf_str(out,
		             line->data[i] == '$' ? "$$" : (char[]){ line->data[i], 0 });
	shfs_buf_char(out, '\n');
	out->failed |= line->failed;
}

static int refuse_removed(struct shfs_workflow *wf, const struct shfs_workflow_file *file)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, file->name, strlen(file->name));
	shfs_buf_str(&shown, " is used by others than ");
	shfs_step_show(&shown, wf, file->removed_by);
	shfs_error("%s, which removes it: make cannot order these steps",
	           shown.data ?: "");
	shfs_hint("shfs export sh can express it");
	return SHFS_EXIT_REFUSED;
}

static int check_inputs(struct shfs_workflow *wf, const struct shfs_step *step)
{
	for (size_t i = 0; i < step->inputs.n; i++) {
		const struct shfs_workflow_file *file = step->inputs.list[i];

		if (file->removed_by && file->removed_by != step)
			return refuse_removed(wf, file);
	}
	return 0;
}

static int add_rule_targets(struct shfs_buf *out, const struct shfs_step *step)
{
	size_t n = 0, begin = out->len;
	int r = 0;

	for (size_t i = 0; i < step->outputs.n && !r; i++)
		if (step->outputs.list[i]->needed) {
			r = add_make_name(out, step->outputs.list[i]->name, true);
			n++;
		}
	if (!r && !out->failed) /* without the space before the first name */
		memmove(out->data + begin, out->data + begin + 1, out->len - begin);
	out->len -= !r && !out->failed;
	shfs_buf_str(out, n > 1 ? " &:" : ":");
	return r;
}

static int add_rule(struct shfs_buf *out, const struct shfs_step *step)
{
	int r = add_rule_targets(out, step);

	for (size_t i = 0; i < step->inputs.n && !r; i++)
		r = add_make_name(out, step->inputs.list[i]->name, false);
	if (step->n_after && !r)
		shfs_buf_str(out, " |");
	for (size_t i = 0; i < step->n_after && !r; i++)
		r = add_make_name(out, shfs_export_first_output(step->after[i]), false);
	shfs_buf_char(out, '\n');
	return r;
}

static int add_make_rule(struct shfs_export *x, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	int r;

	shfs_buf_str(&x->out, "\n# ");
	if (step->source)
		shfs_export_left_by(&x->out, step->source);
	else
		shfs_buf_printf(&x->out, "%s", step->entry->command.id);
	shfs_buf_str(&x->out, ".\n"); /* the full stop: a name may end in a backslash */
	r = add_rule(&x->out, step);
	if (shfs_export_dirs(&line, step))
		add_recipe(&x->out, &line);
	line.len = 0;
	shfs_export_step(&line, step);
	add_recipe(&x->out, &line);
	return r;
}

static int add_makefile_head(struct shfs_export *x)
{
	struct shfs_buf *out = &x->out;
	int r = 0;

	shfs_buf_str(out, "# Made by shfs " SHFS_VERSION
	                  ", for GNU make 4.3: make -f FILE, in "
	                  "an empty directory.\n"
	                  "SHELL := /bin/bash\n"
	                  "equals := =\n"
	                  "export SHFS_STORE ?=");
	r = add_make_name(out, x->store, false);
	shfs_buf_str(out, "\n.DELETE_ON_ERROR:\n.PHONY: .all\n.DEFAULT_GOAL := .all\n\n"
	                  ".all:");
	for (size_t i = 0; i < x->wf->targets.n && !r; i++)
		r = add_make_name(out, x->wf->targets.list[i]->name, false);
	shfs_buf_char(out, '\n');
	return r;
}

/* Adds rules for files that a step removes: they may be missing. */
static int add_removed(struct shfs_export *x)
{
	int r = 0;

	for (size_t i = 0; i < x->wf->files.n && !r; i++) {
		const struct shfs_workflow_file *file = x->wf->files.list[i];

		if (!file->needed || !file->removed_by)
			continue;
		shfs_buf_str(&x->out, "\n.SECONDARY:");
		r = add_make_name(&x->out, file->name, false);
		shfs_buf_char(&x->out, '\n');
	}
	return r;
}

static int write_make(struct shfs_export *x)
{
	int r = shfs_export_check_contents(x->wf, "make");

	for (size_t i = 0; i < x->wf->n_steps && !r; i++)
		r = check_inputs(x->wf, x->wf->steps[i]);
	if (!r)
		r = add_makefile_head(x);
	for (size_t i = 0; i < x->wf->n_steps && !r; i++)
		r = add_make_rule(x, x->wf->steps[i]);
	return r ? r : add_removed(x);
}

const struct shfs_export_format shfs_export_make = {
	.name = "make",
	.runs = true,
	.by_name = true,
	.write = write_make,
};
