/* SPDX-License-Identifier: MIT */
/*
 * A workflow of the Common Workflow Language 1.2: one tool (tool.h) for each step.
 */
#include "query/export/handed.h"
#include "query/export/tool.h"

#include <string.h>

/* --- names of the document --- */

static void begin_port(struct shfs_json *json, const struct shfs_workflow_file *file)
{
	char id[32];

	snprintf(id, sizeof(id), "f%zu", file->id);
	shfs_json_object(json, id);
}

static void add_cwl_label(struct shfs_json *json, const struct shfs_workflow_file *file)
{
	struct shfs_buf label = { 0 };

	shfs_export_label(&label, file);
	shfs_export_member(json, "label", &label);
}

/* --- tools --- */

static void add_position(struct shfs_json *json, size_t position)
{
	shfs_json_object(json, "inputBinding");
	shfs_json_int(json, "position", position);
	shfs_json_object_end(json);
}

static void begin_outside_port(struct shfs_json *json, const struct shfs_handed *handed,
                               size_t file)
{
	struct shfs_buf label = { 0 };
	char id[32];

	snprintf(id, sizeof(id), "o%zu", file);
	shfs_json_object(json, id);
	shfs_show_path(&label, handed->files[file].path);
	shfs_export_member(json, "label", &label);
}

/* Adds what a tool gets from outside, behind n other files; and what only has to be there
 * before it. */
static void add_outside_inputs(struct shfs_json *json, const struct shfs_handed *handed,
                               const struct shfs_step *step, size_t n)
{
	for (size_t i = 0; i < handed->n_uses; i++) {
		if (handed->uses[i].to != step)
			continue;
		begin_outside_port(json, handed, handed->uses[i].file);
		shfs_json_str(json, "type", "Directory");
		add_position(json, ++n);
		shfs_json_object_end(json);
	}
	for (size_t i = 0; i < handed->n_orders; i++) {
		char id[32];

		if (handed->orders[i].to != step)
			continue;
		snprintf(id, sizeof(id), "after%zu", i);
		shfs_json_object(json, id);
		shfs_json_str(json, "type", "Any");
		shfs_json_object_end(json);
	}
}

/* step: NULL: it is none of the workflow. */
static void add_cwl_inputs(struct shfs_json *json, struct shfs_buf *script,
                           const struct shfs_files *files,
                           const struct shfs_handed *handed, const struct shfs_step *step)
{
	shfs_json_object(json, "inputs");
	shfs_json_object(json, "script");
	shfs_json_str(json, "type", "File");
	shfs_json_object(json, "default");
	shfs_json_str(json, "class", "File");
	shfs_json_str(json, "basename", "script");
	shfs_export_member(json, "contents", script);
	shfs_json_object_end(json);
	add_position(json, 0);
	shfs_json_object_end(json);
	for (size_t i = 0; i < files->n; i++) {
		begin_port(json, files->list[i]);
		shfs_json_str(json, "type", "File");
		add_cwl_label(json, files->list[i]);
		add_position(json, i + 1);
		shfs_json_object_end(json);
	}
	if (step)
		add_outside_inputs(json, handed, step, files->n);
	shfs_json_object_end(json);
}

static void add_glob(struct shfs_json *json, const char *type, const char *glob)
{
	shfs_json_str(json, "type", type);
	shfs_json_object(json, "outputBinding");
	shfs_json_str(json, "glob", glob);
	shfs_json_object_end(json);
}

static void begin_tool(struct shfs_json *json, struct shfs_buf *id)
{
	shfs_json_object(json, NULL);
	shfs_export_member(json, "id", id);
	shfs_json_str(json, "class", "CommandLineTool");
	shfs_json_str(json, "baseCommand", "bash");
}

static void add_tool(struct shfs_json *json, const struct shfs_export *x,
                     const struct shfs_step *step)
{
	struct shfs_buf id = { 0 }, script = { 0 };
	char glob[32];

	shfs_tool_id(&id, step);
	begin_tool(json, &id);
	if (!step->source)
		shfs_export_utf8(json, "doc", step->entry->command.text,
		                 step->entry->command.text_len);
	shfs_tool_script(&script, x, step);
	add_cwl_inputs(json, &script, &step->inputs, x->handed, step);
	shfs_json_object(json, "outputs");
	for (size_t i = 0; i < step->outputs.n; i++) {
		const struct shfs_workflow_file *file = step->outputs.list[i];

		if (!file->needed)
			continue;
		snprintf(glob, sizeof(glob), "f%zu", file->id);
		begin_port(json, file);
		add_cwl_label(json, file);
		add_glob(json, "File", glob);
		shfs_json_object_end(json);
	}
	for (size_t i = 0; i < x->handed->n_files; i++) {
		if (x->handed->files[i].from != step)
			continue;
		snprintf(glob, sizeof(glob), "o%zu", i);
		begin_outside_port(json, x->handed, i);
		add_glob(json, "Directory", glob);
		shfs_json_object_end(json);
	}
	shfs_json_object_end(json);
	shfs_json_object_end(json);
}

/* Adds the tool that gives the results their original names. */
static void add_collect(struct shfs_json *json, const struct shfs_files *targets)
{
	struct shfs_buf id = { 0 }, script = { 0 };

	shfs_buf_str(&id, "collect");
	begin_tool(json, &id);
	shfs_tool_placing(&script, targets, SHFS_TOOL_RESULTS);
	add_cwl_inputs(json, &script, targets, NULL, NULL);
	shfs_json_object(json, "outputs");
	shfs_json_object(json, "directory");
	add_glob(json, "Directory", SHFS_TOOL_RESULTS);
	shfs_json_object_end(json);
	shfs_json_object_end(json);
	shfs_json_object_end(json);
}

/* --- the workflow --- */

static void begin_step(struct shfs_json *json, const struct shfs_step *step)
{
	struct shfs_buf id = { 0 }, run = { 0 };

	if (step) {
		shfs_tool_id(&id, step);
		shfs_buf_char(&run, '#');
		shfs_tool_id(&run, step);
	} else {
		shfs_buf_str(&id, "collect");
		shfs_buf_str(&run, "#collect");
	}
	shfs_json_object(json, id.data ?: "");
	json->out.failed |= id.failed;
	shfs_buf_free(&id);
	shfs_export_member(json, "run", &run);
}

static void add_outside_links(struct shfs_json *json, const struct shfs_handed *handed,
                              const struct shfs_step *step)
{
	char key[32];

	for (size_t i = 0; i < handed->n_uses; i++) {
		const struct shfs_handed_use *use = &handed->uses[i];
		struct shfs_buf from = { 0 };

		if (use->to != step)
			continue;
		snprintf(key, sizeof(key), "o%zu", use->file);
		shfs_tool_id(&from, handed->files[use->file].from);
		shfs_buf_printf(&from, "/%s", key);
		shfs_export_member(json, key, &from);
	}
	for (size_t i = 0; i < handed->n_orders; i++) {
		struct shfs_buf from = { 0 };

		if (handed->orders[i].to != step)
			continue;
		snprintf(key, sizeof(key), "after%zu", i);
		shfs_tool_any_output(&from, handed, handed->orders[i].from, "/");
		shfs_export_member(json, key, &from);
	}
}

/* step: as in add_cwl_inputs. */
static void add_links(struct shfs_json *json, const struct shfs_export *x,
                      const struct shfs_files *files, const struct shfs_step *step)
{
	char key[32];

	shfs_json_object(json, "in");
	for (size_t i = 0; i < files->n; i++) {
		const struct shfs_workflow_file *file = files->list[i];
		struct shfs_buf from = { 0 };

		if (!shfs_tool_is_in_crate(x, file->step)) {
			shfs_tool_id(&from, file->step);
			shfs_buf_char(&from, '/');
		}
		shfs_buf_printf(&from, "f%zu", file->id);
		snprintf(key, sizeof(key), "f%zu", file->id);
		shfs_export_member(json, key, &from);
	}
	if (step)
		add_outside_links(json, x->handed, step);
	shfs_json_object_end(json);
	shfs_json_array(json, "out");
}

static void end_step(struct shfs_json *json)
{
	shfs_json_array_end(json);
	shfs_json_object_end(json);
}

static void add_cwl_step(struct shfs_json *json, const struct shfs_export *x,
                         const struct shfs_step *step)
{
	char id[32];

	begin_step(json, step);
	add_links(json, x, &step->inputs, step);
	for (size_t i = 0; i < step->outputs.n; i++) {
		snprintf(id, sizeof(id), "f%zu", step->outputs.list[i]->id);
		if (step->outputs.list[i]->needed)
			shfs_json_str(json, NULL, id);
	}
	for (size_t i = 0; i < x->handed->n_files; i++) {
		snprintf(id, sizeof(id), "o%zu", i);
		if (x->handed->files[i].from == step)
			shfs_json_str(json, NULL, id);
	}
	end_step(json);
}

/* Adds the sources that the crate contains. */
static void add_sources(struct shfs_json *json, const struct shfs_export *x)
{
	shfs_json_object(json, "inputs");
	for (size_t i = 0; i < x->wf->n_steps; i++) {
		const struct shfs_step *step = x->wf->steps[i];
		struct shfs_buf place = { 0 }, name = { 0 };

		if (!shfs_tool_is_in_crate(x, step))
			continue;
		begin_port(json, step->source);
		shfs_json_str(json, "type", "File");
		add_cwl_label(json, step->source);
		shfs_json_object(json, "default");
		shfs_json_str(json, "class", "File");
		shfs_crate_uri(&place, x, step->source);
		shfs_export_member(json, "location", &place);
		shfs_buf_printf(&name, "f%zu", step->source->id);
		shfs_export_member(json, "basename", &name);
		shfs_json_object_end(json);
		shfs_json_object_end(json);
	}
	shfs_json_object_end(json);
}

static void add_workflow(struct shfs_json *json, const struct shfs_export *x)
{
	shfs_json_object(json, NULL);
	shfs_json_str(json, "id", "main");
	shfs_json_str(json, "class", "Workflow");
	shfs_json_str(json, "doc",
	              "Made by shfs " SHFS_VERSION ". To run it: cwltool "
	              "--preserve-entire-environment --outdir DIR FILE");
	add_sources(json, x);
	shfs_json_object(json, "outputs");
	shfs_json_object(json, SHFS_TOOL_RESULTS);
	shfs_json_str(json, "type", "Directory");
	shfs_json_str(json, "outputSource", "collect/directory");
	shfs_json_object_end(json);
	shfs_json_object_end(json);
	shfs_json_object(json, "steps");
	for (size_t i = 0; i < x->wf->n_steps; i++)
		if (!shfs_tool_is_in_crate(x, x->wf->steps[i]))
			add_cwl_step(json, x, x->wf->steps[i]);
	begin_step(json, NULL);
	add_links(json, x, &x->wf->targets, NULL);
	shfs_json_str(json, NULL, "directory");
	end_step(json);
	shfs_json_object_end(json);
	shfs_json_object_end(json);
}

static int write_cwl(struct shfs_export *x)
{
	struct shfs_handed handed = { 0 };
	struct shfs_json json = { 0 };
	int r = shfs_tool_check_names(x, "CWL") ?: shfs_handed_find(x->wf, &handed);

	if (r)
		return r;
	x->handed = &handed;
	shfs_json_object(&json, NULL);
	shfs_json_str(&json, "cwlVersion", "v1.2");
	shfs_json_array(&json, "$graph");
	add_workflow(&json, x);
	for (size_t i = 0; i < x->wf->n_steps; i++)
		if (!shfs_tool_is_in_crate(x, x->wf->steps[i]))
			add_tool(&json, x, x->wf->steps[i]);
	add_collect(&json, &x->wf->targets);
	shfs_json_array_end(&json);
	shfs_json_close(&json);
	x->out = json.out;
	x->handed = NULL;
	shfs_handed_clear(&handed);
	return 0;
}

const struct shfs_export_format shfs_export_cwl = {
	.name = "cwl",
	.runs = true,
	.write = write_cwl,
};
