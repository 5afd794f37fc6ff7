/* SPDX-License-Identifier: MIT */
/*
 * A Snakefile: one rule for each step. Like make, Snakemake knows a file only by its
 * name; it makes the directories of results itself, and wants all results to stay. Where
 * that will not do, the steps come in their order, each with .shfs/STEP for its result.
 */
#include "query/export/export.h"

#include "common/quote.h"

#include <string.h>

/* Adds a Python string with doubled braces: Snakemake takes single ones for wildcards. */
static void add_snakemake_string(struct shfs_buf *out, const char *text)
{
	_cleanup_buf_ struct shfs_buf json = { 0 };

	shfs_quote_json(&json, text, strlen(text));
	for (size_t i = 0; i < json.len; i++) {
		if (strchr("{}", json.data[i]))
			shfs_buf_char(out, json.data[i]);
		shfs_buf_char(out, json.data[i]);
	}
	out->failed |= json.failed;
}

/* Can a Snakefile hold the name without escapes, and without a complaint of Snakemake? */
static bool can_write(const char *name)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	size_t len = strlen(name);

	shfs_quote_display(&shown, name, len);
	return len && shown.data && !strcmp(shown.data, name) && *name != ' ' &&
	       name[len - 1] != ' ' && !strpbrk(name, "\\{}");
}

static void add_snakemake_name(struct shfs_buf *out, const char *name)
{
	shfs_buf_str(out, "        ");
	add_snakemake_string(out, name);
	shfs_buf_str(out, ",\n");
}

static void add_rule_inputs(struct shfs_buf *out, const struct shfs_step *step)
{
	if (step->inputs.n || step->n_after)
		shfs_buf_str(out, "    input:\n");
	for (size_t i = 0; i < step->inputs.n; i++)
		add_snakemake_name(out, step->inputs.list[i]->name);
	for (size_t i = 0; i < step->n_after; i++)
		add_snakemake_name(out, shfs_export_first_output(step->after[i]));
}

/* Does the directory of the name exist before the step, or does Snakemake make it? */
static bool has_dir(const struct shfs_step *step, const char *name)
{
	const char *slash = strrchr(name, '/');
	size_t len = slash ? slash - name : 0;

	for (size_t i = 0; i < step->dirs.n; i++)
		if (strlen(step->dirs.list[i]) == len &&
		    !memcmp(step->dirs.list[i], name, len))
			return true;
	return false;
}

static bool can_write_names(const struct shfs_workflow *wf)
{
	for (size_t i = 0; i < wf->files.n; i++) {
		const struct shfs_workflow_file *file = wf->files.list[i];

		if (file->needed &&
		    (file->removed_by || file->rival || !can_write(file->name) ||
		     !has_dir(file->step, file->name)))
			return false;
	}
	return true;
}

static void add_outputs(struct shfs_buf *out, const struct shfs_step *step)
{
	shfs_buf_str(out, "    output:\n");
	for (size_t i = 0; i < step->outputs.n; i++)
		if (step->outputs.list[i]->needed)
			add_snakemake_name(out, step->outputs.list[i]->name);
}

static void add_order(struct shfs_buf *out, const struct shfs_step *step)
{
	if (step->n_before)
		shfs_buf_str(out, "    input:\n");
	for (size_t i = 0; i < step->n_before; i++)
		shfs_buf_printf(out, "        \".shfs/%zu\",\n", step->before[i]->id);
	shfs_buf_printf(out, "    output:\n        touch(\".shfs/%zu\"),\n", step->id);
}

static void add_snakemake_rule(struct shfs_export *x, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	struct shfs_buf *out = &x->out;

	if (step->source)
		shfs_buf_printf(out, "\n\nrule source_%zu:\n", step->id);
	else
		shfs_buf_printf(out, "\n\nrule command_%s:\n", step->entry->command.id);
	if (x->by_order) {
		add_order(out, step);
	} else {
		add_rule_inputs(out, step);
		add_outputs(out, step);
	}
	shfs_buf_printf(out,
	                "    log:\n        \".shfs/%zu.log\",\n"
	                "    conda:\n        environment\n"
	                "    shell:\n        ",
	                step->id);
	shfs_buf_str(&line, "( ");
	if (shfs_export_dirs(&line, step))
		shfs_buf_str(&line, " && ");
	if (shfs_export_gone(&line, step))
		shfs_buf_str(&line, " && ");
	shfs_export_step(&line, step);
	shfs_buf_str(&line, " )");
	add_snakemake_string(out, line.data ?: "");
	shfs_buf_str(out, "\n        \" 2> {log}\"\n");
	out->failed |= line.failed;
}

static void add_snakefile_head(struct shfs_export *x)
{
	_cleanup_buf_ struct shfs_buf prefix = { 0 };

	shfs_buf_str(&prefix, "export SHFS_STORE=${SHFS_STORE:-");
	shfs_quote_shell(&prefix, x->store, strlen(x->store));
	shfs_buf_str(&prefix, "}; ");
	if (x->data) {
		shfs_buf_str(&prefix, "export SHFS_DATA=${SHFS_DATA:-");
		shfs_export_quote(&prefix, x->data);
		shfs_buf_str(&prefix, "}; ");
	}
	shfs_buf_str(&x->out, "# Made by shfs " SHFS_VERSION
	                      ": snakemake -c4 -s FILE, in an empty directory.\n"
	                      "shell.executable(\"bash\")\nshell.prefix(");
	add_snakemake_string(&x->out, prefix.data ?: "");
	shfs_buf_str(&x->out,
	             ")\n# Which software there was is not recorded: with --use-conda "
	             "--config conda=ENVIRONMENT, that of it.\n"
	             "environment = lambda wildcards: config.get(\"conda\")\n"
	             "\n\nrule all:\n    input:\n");
	x->out.failed |= prefix.failed;
}

static int write_snakemake(struct shfs_export *x)
{
	struct shfs_buf *out = &x->out;

	add_snakefile_head(x);
	for (size_t i = 0; i < x->wf->n_steps && x->by_order; i++)
		shfs_buf_printf(out, "        \".shfs/%zu\",\n", i);
	for (size_t i = 0; i < x->wf->targets.n && !x->by_order; i++)
		add_snakemake_name(out, x->wf->targets.list[i]->name);
	for (size_t i = 0; i < x->wf->n_steps; i++)
		add_snakemake_rule(x, x->wf->steps[i]);
	return 0;
}

const struct shfs_export_format shfs_export_snakemake = {
	.name = "snakemake",
	.runs = true,
	.in_place = true,
	.by_name = can_write_names,
	.write = write_snakemake,
};
