/* SPDX-License-Identifier: MIT */
/*
 * A Snakefile: one rule for each step. Like make, Snakemake knows a file only by its
 * name; it makes the directories of results itself, and wants all results to stay.
 */
#include "query/export/export.h"

#include "common/quote.h"

#include <errno.h>
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

static int refuse_snakemake_name(const char *name, const char *why)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, name, strlen(name));
	shfs_error("%s: %s", shown.data ?: "", why);
	return SHFS_EXIT_REFUSED;
}

/* Adds a name that needs no escapes, and about which Snakemake does not complain. */
static int add_snakemake_name(struct shfs_buf *out, const char *name)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	size_t len = strlen(name);

	shfs_quote_display(&shown, name, len);
	if (shown.failed)
		return -ENOMEM;
	if (strcmp(shown.data, name) != 0 || *name == ' ' || name[len - 1] == ' ' ||
	    strpbrk(name, "\\{}"))
		return refuse_snakemake_name(name, "a Snakefile cannot hold this name");
	shfs_buf_str(out, "        ");
	add_snakemake_string(out, name);
	shfs_buf_str(out, ",\n");
	return 0;
}

static int add_rule_inputs(struct shfs_buf *out, const struct shfs_step *step)
{
	int r = 0;

	if (step->inputs.n || step->n_after)
		shfs_buf_str(out, "    input:\n");
	for (size_t i = 0; i < step->inputs.n && !r; i++)
		r = add_snakemake_name(out, step->inputs.list[i]->name);
	for (size_t i = 0; i < step->n_after && !r; i++)
		r = add_snakemake_name(out, shfs_export_first_output(step->after[i]));
	return r;
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

static int add_outputs(struct shfs_buf *out, const struct shfs_step *step)
{
	int r = 0;

	shfs_buf_str(out, "    output:\n");
	for (size_t i = 0; i < step->outputs.n && !r; i++) {
		const struct shfs_workflow_file *file = step->outputs.list[i];

		if (!file->needed)
			continue;
		if (file->removed_by)
			r = refuse_snakemake_name(
				file->name, "a later command removes it, and Snakemake "
					    "wants results to stay");
		else if (!has_dir(step, file->name))
			r = refuse_snakemake_name(file->name,
			                          "its command makes the directory, and "
			                          "Snakemake does that before");
		else
			r = add_snakemake_name(out, file->name);
	}
	return r;
}

static int add_snakemake_rule(struct shfs_buf *out, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	int r;

	if (step->source)
		shfs_buf_printf(out, "\n\nrule source_%zu:\n", step->id);
	else
		shfs_buf_printf(out, "\n\nrule command_%s:\n", step->entry->command.id);
	r = add_rule_inputs(out, step);
	if (!r)
		r = add_outputs(out, step);
	shfs_buf_printf(out,
	                "    log:\n        \".shfs/%zu.log\",\n"
	                "    conda:\n        environment\n"
	                "    shell:\n        ",
	                step->id);
	shfs_buf_str(&line, "( ");
	if (shfs_export_dirs(&line, step))
		shfs_buf_str(&line, " && ");
	shfs_export_step(&line, step);
	shfs_buf_str(&line, " )");
	add_snakemake_string(out, line.data ?: "");
	shfs_buf_str(out, "\n        \" 2> {log}\"\n");
	out->failed |= line.failed;
	return r;
}

static void add_snakefile_head(struct shfs_export *x)
{
	_cleanup_buf_ struct shfs_buf prefix = { 0 };

	shfs_buf_str(&prefix, "export SHFS_STORE=${SHFS_STORE:-");
	shfs_quote_shell(&prefix, x->store, strlen(x->store));
	shfs_buf_str(&prefix, "}; ");
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
	int r = shfs_export_check_contents(x->wf, "Snakemake");

	add_snakefile_head(x);
	for (size_t i = 0; i < x->wf->targets.n && !r; i++)
		r = add_snakemake_name(out, x->wf->targets.list[i]->name);
	for (size_t i = 0; i < x->wf->n_steps && !r; i++)
		r = add_snakemake_rule(out, x->wf->steps[i]);
	return r;
}

const struct shfs_export_format shfs_export_snakemake = {
	.name = "snakemake",
	.runs = true,
	.by_name = true,
	.write = write_snakemake,
};
