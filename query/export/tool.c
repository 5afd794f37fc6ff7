/* SPDX-License-Identifier: MIT */
#include "query/export/tool.h"
#include "query/export/handed.h"

#include "common/path.h"
#include "common/quote.h"

#include <string.h>

/* --- names --- */

void shfs_tool_id(struct shfs_buf *out, const struct shfs_step *step)
{
	if (step->source)
		shfs_buf_printf(out, "source_%zu", step->id);
	else
		shfs_buf_printf(out, "command_%s", step->entry->command.id);
}

bool shfs_tool_is_in_crate(const struct shfs_export *x, const struct shfs_step *step)
{
	return x->workflow && step && step->source;
}

int shfs_tool_check_names(const struct shfs_export *x, const char *runner)
{
	for (size_t i = 0; i < x->wf->files.n; i++) {
		const struct shfs_workflow_file *file = x->wf->files.list[i];
		_cleanup_buf_ struct shfs_buf shown = { 0 };

		if (shfs_is_utf8(file->name, strlen(file->name)) ||
		    (!file->target && !shfs_tool_is_in_crate(x, file->step)))
			continue;
		shfs_quote_display(&shown, file->name, strlen(file->name));
		shfs_error("%s: %s knows files by names in UTF-8", shown.data ?: "",
		           runner);
		return SHFS_EXIT_REFUSED;
	}
	return 0;
}

/* --- scripts: each line ends the tool if it fails --- */

static void add_path(struct shfs_buf *out, const char *top,
                     const struct shfs_workflow_file *file)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	shfs_buf_printf(&path, "%s/%s", top, file->name);
	shfs_quote_shell(out, path.data ?: "", path.len);
	out->failed |= path.failed;
}

void shfs_tool_placing(struct shfs_buf *out, const struct shfs_files *files,
                       const char *top)
{
	for (size_t i = 0; i < files->n; i++) {
		const struct shfs_workflow_file *file = files->list[i];

		shfs_buf_printf(out, "install -pD -m %o -- \"${%zu}\" ",
		                file->version.mode & 0777, i + 1);
		add_path(out, top, file);
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

void shfs_tool_script(struct shfs_buf *out, const struct shfs_export *x,
                      const struct shfs_step *step)
{
	shfs_buf_str(out, "mkdir w || exit\n");
	shfs_tool_placing(out, &step->inputs, "w");
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
		add_path(out, "w", file);
		shfs_buf_printf(out, " f%zu || exit\n", file->id);
	}
	add_taking_outside(out, x->handed, step);
}

void shfs_tool_any_output(struct shfs_buf *out, const struct shfs_handed *handed,
                          const struct shfs_step *step, const char *separator)
{
	shfs_tool_id(out, step);
	for (size_t i = 0; i < step->outputs.n; i++)
		if (step->outputs.list[i]->needed) {
			shfs_buf_printf(out, "%sf%zu", separator,
			                step->outputs.list[i]->id);
			return;
		}
	/* a step without them is there because of a file outside */
	for (size_t i = 0; i < handed->n_files; i++)
		if (handed->files[i].from == step) {
			shfs_buf_printf(out, "%so%zu", separator, i);
			return;
		}
}
