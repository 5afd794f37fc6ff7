/* SPDX-License-Identifier: MIT */
/*
 * A workflow of the Common Workflow Language 1.2: one tool for each step. Steps pass
 * files on under the names f0, f1, …, each version by itself. The script of a tool puts
 * them below w, where its command finds them, and takes the results from there. So only
 * scripts have the original names, and one path may have several contents. What a command
 * leaves outside of the project for others is handed on as o0, o1, …: directories that
 * hold the file, or nothing where it was removed again.
 */
#include "query/export/export.h"
#include "query/export/handed.h"

#include "common/path.h"
#include "common/quote.h"

#include <string.h>

#define RESULTS "results"

/* --- scripts: each line ends the tool if it fails --- */

static void add_cwl_path(struct shfs_buf *out, const char *top,
                         const struct shfs_workflow_file *file)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	shfs_buf_printf(&path, "%s/%s", top, file->name);
	shfs_quote_shell(out, path.data ?: "", path.len);
	out->failed |= path.failed;
}

/* Adds commands that put the files, given as arguments, into their places. */
static void add_placing(struct shfs_buf *out, const struct shfs_files *files,
                        const char *top)
{
	for (size_t i = 0; i < files->n; i++) {
		const struct shfs_workflow_file *file = files->list[i];

		shfs_buf_printf(out, "install -pD -m %o -- \"${%zu}\" ",
		                file->version.mode & 0777, i + 1);
		add_cwl_path(out, top, file);
		shfs_buf_str(out, " || exit\n");
	}
}

static void add_directory_of(struct shfs_buf *out, const char *path)
{
	shfs_quote_shell(out, path, MAX(strrchr(path, '/') - path, 1));
}

/* Adds commands that make the directory of a file outside. */
static void add_outside_directory(struct shfs_buf *out, const char *path)
{
	shfs_buf_str(out, "mkdir -p -- ");
	add_directory_of(out, path);
	shfs_buf_str(out, " || exit\n");
	/* runners give each tool another home */
	if (shfs_path_is_below(path, getenv("HOME") ?: "/nonexistent")) {
		shfs_buf_str(out, "export HOME=");
		shfs_export_quote(out, getenv("HOME"));
		shfs_buf_char(out, '\n');
	}
}

/* Adds commands that put files outside where the command finds them, at the paths that
 * they had. */
static void add_placing_outside(struct shfs_buf *out, const struct shfs_handed *handed,
                                const struct shfs_step *step)
{
	size_t n = step->inputs.n;

	if (!shfs_handed_has(handed, step))
		return;
	if (getenv("TMPDIR")) {
		shfs_buf_str(out, "export TMPDIR=");
		shfs_export_quote(out, getenv("TMPDIR"));
		shfs_buf_char(out, '\n');
	} else {
		shfs_buf_str(out, "unset TMPDIR\n");
	}
	for (size_t i = 0; i < handed->n_files; i++)
		if (handed->files[i].from == step)
			add_outside_directory(out, handed->files[i].path);
	for (size_t i = 0; i < handed->n_uses; i++) {
		const char *path = handed->files[handed->uses[i].file].path;

		if (handed->uses[i].to != step)
			continue;
		add_outside_directory(out, path);
		shfs_buf_printf(out, "cp -rLp -- \"${%zu}\"/. ", ++n);
		add_directory_of(out, path);
		shfs_buf_str(out, " || exit\n");
	}
}

/* Adds commands that take what the command has left outside for others. */
static void add_taking_outside(struct shfs_buf *out, const struct shfs_handed *handed,
                               const struct shfs_step *step)
{
	for (size_t i = 0; i < handed->n_files; i++) {
		if (handed->files[i].from != step)
			continue;
		shfs_buf_printf(out, "mkdir o%zu || exit\n[ ! -e ", i);
		shfs_export_quote(out, handed->files[i].path);
		shfs_buf_str(out, " ] || cp -rLp -- ");
		shfs_export_quote(out, handed->files[i].path);
		shfs_buf_printf(out, " o%zu || exit\n", i);
	}
}

static void add_script(struct shfs_buf *out, const struct shfs_export *x,
                       const struct shfs_step *step)
{
	shfs_buf_str(out, "mkdir w || exit\n");
	add_placing(out, &step->inputs, "w");
	add_placing_outside(out, x->handed, step);
	if (step->source) {
		shfs_buf_str(out, "export SHFS_STORE=${SHFS_STORE:-");
		shfs_quote_shell(out, x->store, strlen(x->store));
		shfs_buf_str(out, "}\n");
	}
	if (step->source && x->data) {
		shfs_buf_str(out, "export SHFS_DATA=${SHFS_DATA:-");
		shfs_export_quote(out, x->data);
		shfs_buf_str(out, "}\n");
	}
	shfs_buf_str(out, "(\ncd w || exit\n");
	if (shfs_export_dirs(out, step))
		shfs_buf_str(out, " || exit\n");
	shfs_export_step(out, step);
	shfs_buf_str(out, "\n) || exit\n");
	for (size_t i = 0; i < step->outputs.n; i++) {
		const struct shfs_workflow_file *file = step->outputs.list[i];

		if (!file->needed)
			continue;
		shfs_buf_str(out, "cp -p -- ");
		add_cwl_path(out, "w", file);
		shfs_buf_printf(out, " f%zu || exit\n", file->id);
	}
	add_taking_outside(out, x->handed, step);
}

/* --- names of the document --- */

static void add_cwl_step_id(struct shfs_buf *out, const struct shfs_step *step)
{
	if (step->source)
		shfs_buf_printf(out, "source_%zu", step->id);
	else
		shfs_buf_printf(out, "command_%s", step->entry->command.id);
}

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

	add_cwl_step_id(&id, step);
	begin_tool(json, &id);
	if (!step->source)
		shfs_export_utf8(json, "doc", step->entry->command.text,
		                 step->entry->command.text_len);
	add_script(&script, x, step);
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
	add_placing(&script, targets, RESULTS);
	add_cwl_inputs(json, &script, targets, NULL, NULL);
	shfs_json_object(json, "outputs");
	shfs_json_object(json, "directory");
	add_glob(json, "Directory", RESULTS);
	shfs_json_object_end(json);
	shfs_json_object_end(json);
	shfs_json_object_end(json);
}

/* --- the workflow --- */

static bool is_in_crate(const struct shfs_export *x, const struct shfs_step *step)
{
	return x->workflow && step && step->source;
}

static void begin_step(struct shfs_json *json, const struct shfs_step *step)
{
	struct shfs_buf id = { 0 }, run = { 0 };

	if (step) {
		add_cwl_step_id(&id, step);
		shfs_buf_char(&run, '#');
		add_cwl_step_id(&run, step);
	} else {
		shfs_buf_str(&id, "collect");
		shfs_buf_str(&run, "#collect");
	}
	shfs_json_object(json, id.data ?: "");
	json->out.failed |= id.failed;
	shfs_buf_free(&id);
	shfs_export_member(json, "run", &run);
}

/* Adds the name of something that the step makes, for a step that has to come after it.
 */
static void add_any_output(struct shfs_buf *out, const struct shfs_handed *handed,
                           const struct shfs_step *step)
{
	add_cwl_step_id(out, step);
	for (size_t i = 0; i < step->outputs.n; i++)
		if (step->outputs.list[i]->needed) {
			shfs_buf_printf(out, "/f%zu", step->outputs.list[i]->id);
			return;
		}
	/* a step without them is there because of a file outside */
	for (size_t i = 0; i < handed->n_files; i++)
		if (handed->files[i].from == step) {
			shfs_buf_printf(out, "/o%zu", i);
			return;
		}
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
		add_cwl_step_id(&from, handed->files[use->file].from);
		shfs_buf_printf(&from, "/%s", key);
		shfs_export_member(json, key, &from);
	}
	for (size_t i = 0; i < handed->n_orders; i++) {
		struct shfs_buf from = { 0 };

		if (handed->orders[i].to != step)
			continue;
		snprintf(key, sizeof(key), "after%zu", i);
		add_any_output(&from, handed, handed->orders[i].from);
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

		if (!is_in_crate(x, file->step)) {
			add_cwl_step_id(&from, file->step);
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

		if (!is_in_crate(x, step))
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
	shfs_json_object(json, RESULTS);
	shfs_json_str(json, "type", "Directory");
	shfs_json_str(json, "outputSource", "collect/directory");
	shfs_json_object_end(json);
	shfs_json_object_end(json);
	shfs_json_object(json, "steps");
	for (size_t i = 0; i < x->wf->n_steps; i++)
		if (!is_in_crate(x, x->wf->steps[i]))
			add_cwl_step(json, x, x->wf->steps[i]);
	begin_step(json, NULL);
	add_links(json, x, &x->wf->targets, NULL);
	shfs_json_str(json, NULL, "directory");
	end_step(json);
	shfs_json_object_end(json);
	shfs_json_object_end(json);
}

/* Checks the names that a runner would see. */
static int check_cwl_names(const struct shfs_export *x)
{
	for (size_t i = 0; i < x->wf->files.n; i++) {
		const struct shfs_workflow_file *file = x->wf->files.list[i];
		_cleanup_buf_ struct shfs_buf shown = { 0 };

		if (shfs_is_utf8(file->name, strlen(file->name)) ||
		    (!file->target && !is_in_crate(x, file->step)))
			continue;
		shfs_quote_display(&shown, file->name, strlen(file->name));
		shfs_error("%s: CWL knows files by names in UTF-8", shown.data ?: "");
		return SHFS_EXIT_REFUSED;
	}
	return 0;
}

static int write_cwl(struct shfs_export *x)
{
	struct shfs_handed handed = { 0 };
	struct shfs_json json = { 0 };
	int r = check_cwl_names(x) ?: shfs_handed_find(x->wf, &handed);

	if (r)
		return r;
	x->handed = &handed;
	shfs_json_object(&json, NULL);
	shfs_json_str(&json, "cwlVersion", "v1.2");
	shfs_json_array(&json, "$graph");
	add_workflow(&json, x);
	for (size_t i = 0; i < x->wf->n_steps; i++)
		if (!is_in_crate(x, x->wf->steps[i]))
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
