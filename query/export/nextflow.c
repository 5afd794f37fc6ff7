/* SPDX-License-Identifier: MIT */
/*
 * A pipeline of Nextflow (its language since 22.03, DSL 2): one process for each step,
 * with the script that it has as a tool (tool.h), and a workflow that hands the files on.
 * Only words that the strict syntax of 25.04 knows, too. https://nextflow.io/docs/latest/
 */
#include "query/export/handed.h"
#include "query/export/tool.h"

#include "common/quote.h"

#include <string.h>

/* A class of Java has at most 65,535 bytes for a string, of which a character may take
 * half as many again as in UTF-8; as many for a method, so for the workflow, which was
 * tried with twice as many links; and 255 arguments for a call. */
#define PIECE_MAX     30000
#define LINKS_MAX     1000
#define ARGUMENTS_MAX 250

/* Adds a string in these quotes, each an apostrophe. Of backslashes and apostrophes only
 * the text's own are left. */
static void add_groovy_text(struct shfs_buf *out, const char *text, size_t len,
                            const char *quotes)
{
	size_t n = 0;

	shfs_buf_str(out, quotes);
	for (size_t i = 0; i < len; i++) {
		if (n++ >= PIECE_MAX && (text[i] & 0xc0) != 0x80) {
			shfs_buf_printf(out, "%s +\n%s", quotes, quotes);
			n = 0;
		}
		/* between three, one alone is the text's */
		if (text[i] == '\\' ||
		    (text[i] == '\'' && (!quotes[1] || i + 1 == len || n == PIECE_MAX ||
		                         text[i + 1] == '\'')))
			shfs_buf_char(out, '\\');
		if (text[i] == '\r')
			shfs_buf_str(out, "\\r");
		else
			shfs_buf_char(out, text[i]);
	}
	shfs_buf_str(out, quotes);
}

/* Adds what Nextflow shows beside the name of the process. */
static void add_tag(struct shfs_buf *out, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	if (step->source)
		shfs_export_label(&text, step->source);
	else
		shfs_quote_display(&text, step->entry->command.text,
		                   step->entry->command.text_len);
	shfs_buf_str(out, "    tag ");
	add_groovy_text(out, text.data ?: "", text.len, "'");
	shfs_buf_str(out, "\n\n");
	out->failed |= text.failed;
}

/* Adds a script. It begins at the margin, so that Nextflow takes no indentation away; it
 * begins with what takes back the options that Nextflow gives its shell. */
static void add_nextflow_script(struct shfs_buf *out, struct shfs_buf *arguments,
                                const struct shfs_buf *script)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	shfs_buf_printf(&text, "set +eu +o pipefail\nset --%s\n", arguments->data ?: "");
	shfs_buf_add(&text, script->data, script->len);
	shfs_buf_str(out, "    script:\n    ");
	add_groovy_text(out, text.data ?: "", text.len, "'''");
	shfs_buf_str(out, "\n}\n");
	out->failed |= text.failed || script->failed || arguments->failed;
}

/* --- processes --- */

static void add_input(struct shfs_buf *out, struct shfs_buf *arguments, const char *kind,
                      size_t id)
{
	shfs_buf_printf(out, "    path '%s%zu'\n", kind, id);
	shfs_buf_printf(arguments, " %s%zu", kind, id);
}

static void add_output(struct shfs_buf *out, const char *kind, size_t id)
{
	shfs_buf_printf(out, "    path '%s%zu', emit: %s%zu\n", kind, id, kind, id);
}

static void add_file_inputs(struct shfs_buf *out, struct shfs_buf *arguments,
                            const struct shfs_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		add_input(out, arguments, "f", files->list[i]->id);
}

static void add_inputs(struct shfs_buf *out, struct shfs_buf *arguments,
                       const struct shfs_handed *handed, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf inputs = { 0 };

	add_file_inputs(&inputs, arguments, &step->inputs);
	for (size_t i = 0; i < handed->n_uses; i++)
		if (handed->uses[i].to == step)
			add_input(&inputs, arguments, "o", handed->uses[i].file);
	for (size_t i = 0; i < handed->n_orders; i++)
		if (handed->orders[i].to == step)
			shfs_buf_printf(&inputs, "    val after%zu\n", i);
	if (inputs.len)
		shfs_buf_printf(out, "    input:\n%s\n", inputs.data);
	out->failed |= inputs.failed;
}

static void add_outputs(struct shfs_buf *out, const struct shfs_handed *handed,
                        const struct shfs_step *step)
{
	shfs_buf_str(out, "    output:\n");
	for (size_t i = 0; i < step->outputs.n; i++)
		if (step->outputs.list[i]->needed)
			add_output(out, "f", step->outputs.list[i]->id);
	for (size_t i = 0; i < handed->n_files; i++)
		if (handed->files[i].from == step)
			add_output(out, "o", i);
	shfs_buf_char(out, '\n');
}

static void add_process(struct shfs_export *x, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf arguments = { 0 }, script = { 0 };
	struct shfs_buf *out = &x->out;

	shfs_buf_str(out, "\nprocess ");
	shfs_tool_id(out, step);
	shfs_buf_str(out, " {\n");
	add_tag(out, step);
	add_inputs(out, &arguments, x->handed, step);
	add_outputs(out, x->handed, step);
	shfs_tool_script(&script, x, step);
	add_nextflow_script(out, &arguments, &script);
}

/* Adds the process that gives the results their original names. */
static void add_results(struct shfs_export *x)
{
	_cleanup_buf_ struct shfs_buf arguments = { 0 }, script = { 0 };
	struct shfs_buf *out = &x->out;

	shfs_buf_str(out,
	             "\nprocess results {\n    publishDir params.outdir, mode: 'copy'\n\n"
	             "    input:\n");
	add_file_inputs(out, &arguments, &x->wf->targets);
	shfs_buf_str(out, "\n    output:\n    path '" SHFS_TOOL_RESULTS
	                  "', emit: " SHFS_TOOL_RESULTS "\n\n");
	shfs_tool_placing(&script, &x->wf->targets, SHFS_TOOL_RESULTS);
	add_nextflow_script(out, &arguments, &script);
}

/* --- the workflow --- */

struct call {
	struct shfs_buf *out;
	size_t n; /* arguments */
};

static struct shfs_buf *next_argument(struct call *call)
{
	if (call->n++)
		shfs_buf_str(call->out, ", ");
	return call->out;
}

static void add_file_arguments(struct call *call, const struct shfs_files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		shfs_tool_id(next_argument(call), files->list[i]->step);
		shfs_buf_printf(call->out, ".out.f%zu", files->list[i]->id);
	}
}

/* Adds the call of a process: its arguments are as its inputs. Returns their number. */
static size_t add_call(struct shfs_buf *out, const struct shfs_handed *handed,
                       const struct shfs_step *step)
{
	struct call call = { .out = out };

	shfs_buf_str(out, "    ");
	shfs_tool_id(out, step);
	shfs_buf_char(out, '(');
	add_file_arguments(&call, &step->inputs);
	for (size_t i = 0; i < handed->n_uses; i++)
		if (handed->uses[i].to == step) {
			shfs_tool_id(next_argument(&call),
			             handed->files[handed->uses[i].file].from);
			shfs_buf_printf(out, ".out.o%zu", handed->uses[i].file);
		}
	for (size_t i = 0; i < handed->n_orders; i++)
		if (handed->orders[i].to == step)
			shfs_tool_any_output(next_argument(&call), handed,
			                     handed->orders[i].from, ".out.");
	shfs_buf_str(out, ")\n");
	return call.n;
}

static int add_workflow(struct shfs_export *x)
{
	struct call results = { .out = &x->out };
	size_t n = 0, most = 0;

	shfs_buf_str(&x->out, "\nworkflow {\n");
	for (size_t i = 0; i < x->wf->n_steps; i++) {
		size_t args = add_call(&x->out, x->handed, x->wf->steps[i]);

		n += 1 + args;
		most = MAX(most, args);
	}
	shfs_buf_str(&x->out, "    results(");
	add_file_arguments(&results, &x->wf->targets);
	shfs_buf_str(&x->out, ")\n}\n");
	n += 1 + results.n;
	most = MAX(most, results.n);
	if (n <= LINKS_MAX && most <= ARGUMENTS_MAX)
		return 0;
	if (most > ARGUMENTS_MAX)
		shfs_error("a process of Nextflow takes at most %d files: here %zu",
		           ARGUMENTS_MAX, most);
	else
		shfs_error("a workflow of Nextflow has at most %d steps and files: "
		           "here %zu",
		           LINKS_MAX, n);
	shfs_hint("shfs export cwl writes workflows of any size");
	return SHFS_EXIT_REFUSED;
}

static int write_nextflow(struct shfs_export *x)
{
	struct shfs_handed handed = { 0 };
	int r = shfs_tool_check_names(x, "Nextflow") ?: shfs_handed_find(x->wf, &handed);

	if (r)
		return r;
	x->handed = &handed;
	shfs_buf_str(&x->out, "#!/usr/bin/env nextflow\n"
	                      "// Made by shfs " SHFS_VERSION
	                      ". To run it: nextflow run FILE --outdir DIR\n"
	                      "\nparams.outdir = '.'\n");
	for (size_t i = 0; i < x->wf->n_steps; i++)
		add_process(x, x->wf->steps[i]);
	add_results(x);
	r = add_workflow(x);
	x->handed = NULL;
	shfs_handed_clear(&handed);
	return r;
}

const struct shfs_export_format shfs_export_nextflow = {
	.name = "nextflow",
	.runs = true,
	.write = write_nextflow,
};
