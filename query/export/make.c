/* SPDX-License-Identifier: MIT */
/*
 * A Makefile for GNU make 4.3: one rule for each step. Its targets are all of its
 * results, in one grouped target, where make can know each file by its name; else a file
 * .shfs/STEP, and the steps come in their order.
 */
#include "query/export/export.h"

#include "common/quote.h"

#include <string.h>

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

static bool can_write_names(const struct shfs_workflow *wf)
{
	for (size_t i = 0; i < wf->files.n; i++) {
		const struct shfs_workflow_file *file = wf->files.list[i];

		if (file->needed &&
		    (file->removed_by || file->rival || !can_write(file->name)))
			return false;
	}
	return true;
}

static void add_make_name(struct shfs_buf *out, const char *name, bool is_target)
{
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

static void add_rule_targets(struct shfs_buf *out, const struct shfs_step *step)
{
	size_t n = 0, begin = out->len;

	for (size_t i = 0; i < step->outputs.n; i++)
		if (step->outputs.list[i]->needed) {
			add_make_name(out, step->outputs.list[i]->name, true);
			n++;
		}
	if (!out->failed) /* without the space before the first name */
		memmove(out->data + begin, out->data + begin + 1, out->len - begin);
	out->len -= !out->failed;
	shfs_buf_str(out, n > 1 ? " &:" : ":");
}

static void add_rule(struct shfs_buf *out, const struct shfs_step *step)
{
	add_rule_targets(out, step);
	for (size_t i = 0; i < step->inputs.n; i++)
		add_make_name(out, step->inputs.list[i]->name, false);
	if (step->n_after)
		shfs_buf_str(out, " |");
	for (size_t i = 0; i < step->n_after; i++)
		add_make_name(out, shfs_export_first_output(step->after[i]), false);
	shfs_buf_char(out, '\n');
}

static void add_ordered_rule(struct shfs_buf *out, const struct shfs_step *step)
{
	shfs_buf_printf(out, ".shfs/%zu:", step->id);
	for (size_t i = 0; i < step->n_before; i++)
		shfs_buf_printf(out, " .shfs/%zu", step->before[i]->id);
	shfs_buf_char(out, '\n');
}

static void add_make_rule(struct shfs_export *x, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	struct shfs_buf *out = &x->out;

	shfs_buf_str(out, "\n# ");
	if (step->source)
		shfs_export_left_by(out, step->source);
	else
		shfs_buf_printf(out, "%s", step->entry->command.id);
	shfs_buf_str(out, ".\n"); /* the full stop: a name may end in a backslash */
	if (x->by_order)
		add_ordered_rule(out, step);
	else
		add_rule(out, step);
	if (shfs_export_dirs(&line, step))
		add_recipe(out, &line);
	line.len = 0;
	if (shfs_export_gone(&line, step))
		add_recipe(out, &line);
	line.len = 0;
	shfs_export_step(&line, step);
	add_recipe(out, &line);
	if (x->by_order)
		shfs_buf_str(out, "\t@mkdir -p .shfs; sleep 0.01; touch $@\n");
}

static void add_makefile_head(struct shfs_export *x)
{
	struct shfs_buf *out = &x->out;

	shfs_buf_str(out, "# Made by shfs " SHFS_VERSION
	                  ", for GNU make 4.3: make -f FILE, in "
	                  "an empty directory.\n"
	                  "SHELL := /bin/bash\n"
	                  "equals := =\n"
	                  "export SHFS_STORE ?=");
	add_make_name(out, x->store, false);
	if (x->data) {
		shfs_buf_str(out, "\nexport SHFS_DATA ?=");
		add_make_name(out, x->data, false);
	}
	shfs_buf_str(out, "\n.DELETE_ON_ERROR:\n.PHONY: .all\n.DEFAULT_GOAL := .all\n\n"
	                  ".all:");
	for (size_t i = 0; i < x->wf->n_steps && x->by_order; i++)
		shfs_buf_printf(out, " .shfs/%zu", i);
	for (size_t i = 0; i < x->wf->targets.n && !x->by_order; i++)
		add_make_name(out, x->wf->targets.list[i]->name, false);
	shfs_buf_char(out, '\n');
}

static int write_make(struct shfs_export *x)
{
	if (!can_write(x->store) || (x->data && !can_write(x->data))) {
		shfs_error(
			"a Makefile cannot hold the name of the store or of the output");
		return SHFS_EXIT_REFUSED;
	}
	add_makefile_head(x);
	for (size_t i = 0; i < x->wf->n_steps; i++)
		add_make_rule(x, x->wf->steps[i]);
	return 0;
}

const struct shfs_export_format shfs_export_make = {
	.name = "make",
	.runs = true,
	.in_place = true,
	.by_name = can_write_names,
	.write = write_make,
};
