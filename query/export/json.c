/* SPDX-License-Identifier: MIT */
/* JSON: one document, or one line for each file and step (docs/json.md). */
#include "query/export/export.h"

#include "query/graph/show.h"

static void add_json_names(struct shfs_json *json, const char *key,
                           const struct shfs_files *files)
{
	shfs_json_array(json, key);
	for (size_t i = 0; i < files->n; i++)
		shfs_json_version_name(json, NULL, &files->list[i]->version);
	shfs_json_array_end(json);
}

static void add_json_file(struct shfs_json *json, const struct shfs_workflow_file *file)
{
	bool is_source = file->step && file->step->source;

	shfs_version_json(json, &file->version);
	shfs_json_str(json, "name", file->name);
	shfs_json_bool(json, "is_target", file->target);
	shfs_json_bool(json, "is_source", is_source);
	if (is_source && file->left_by) {
		shfs_json_object(json, "left_by");
		shfs_entry_json_head(json, &file->left_by->entry);
		shfs_json_object_end(json);
	} else {
		shfs_json_null(json, "left_by");
	}
}

static void add_json_ways(struct shfs_json *json, const struct shfs_step *step)
{
	shfs_json_array(json, "outside");
	for (size_t i = 0; i < step->n_by_way; i++) {
		const struct shfs_step *left_by = step->by_way[i].left_by;

		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", step->by_way[i].path);
		if (left_by)
			shfs_json_str(json, "left_by", left_by->entry->command.id);
		else
			shfs_json_null(json, "left_by");
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
}

static int add_json_step(struct shfs_export *x, struct shfs_json *json,
                         const struct shfs_step *step)
{
	_cleanup_software_ struct shfs_software software = { 0 };
	int r = shfs_export_software(x, step->entry, &software);

	shfs_entry_json_head(json, step->entry);
	shfs_json_str(json, "shell", step->script.shell);
	shfs_json_str(json, "directory", step->cwd);
	shfs_json_int(json, "left_out", step->n_left_out);
	add_json_names(json, "inputs", &step->inputs);
	add_json_names(json, "outputs", &step->outputs);
	add_json_ways(json, step);
	shfs_software_json(json, &software);
	return r;
}

static int write_json(struct shfs_export *x)
{
	struct shfs_json json = { 0 };
	int r = 0;

	shfs_json_begin(&json, "export");
	shfs_json_str(&json, "base", x->wf->base);
	add_json_names(&json, "targets", &x->wf->targets);
	shfs_json_array(&json, "files");
	for (size_t i = 0; i < x->wf->files.n; i++) {
		shfs_json_object(&json, NULL);
		add_json_file(&json, x->wf->files.list[i]);
		shfs_json_object_end(&json);
		shfs_export_flush(x, &json.out);
	}
	shfs_json_array_end(&json);
	shfs_json_array(&json, "steps");
	for (size_t i = 0; i < x->wf->n_steps && !r; i++) {
		if (x->wf->steps[i]->source)
			continue;
		shfs_json_object(&json, NULL);
		r = add_json_step(x, &json, x->wf->steps[i]);
		shfs_json_object_end(&json);
		shfs_export_flush(x, &json.out);
	}
	shfs_json_array_end(&json);
	shfs_json_close(&json);
	x->out = json.out;
	return r;
}

static void begin_json_line(struct shfs_json *json, const char *type)
{
	shfs_json_line(json);
	shfs_json_str(json, "type", type);
}

static int write_jsonl(struct shfs_export *x)
{
	struct shfs_json json = { 0 };
	int r = 0;

	begin_json_line(&json, "export");
	shfs_json_int(&json, "version", SHFS_JSON_VERSION);
	shfs_json_str(&json, "base", x->wf->base);
	add_json_names(&json, "targets", &x->wf->targets);
	shfs_json_line_end(&json);
	for (size_t i = 0; i < x->wf->files.n; i++) {
		begin_json_line(&json, "file");
		add_json_file(&json, x->wf->files.list[i]);
		shfs_json_line_end(&json);
		shfs_export_flush(x, &json.out);
	}
	for (size_t i = 0; i < x->wf->n_steps && !r; i++) {
		if (x->wf->steps[i]->source)
			continue;
		begin_json_line(&json, "step");
		r = add_json_step(x, &json, x->wf->steps[i]);
		shfs_json_line_end(&json);
		shfs_export_flush(x, &json.out);
	}
	x->out = json.out;
	return r;
}

const struct shfs_export_format shfs_export_json = {
	.name = "json",
	.write = write_json,
};
const struct shfs_export_format shfs_export_jsonl = {
	.name = "jsonl",
	.write = write_jsonl,
};
