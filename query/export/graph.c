/* SPDX-License-Identifier: MIT */
/* The graph, for Graphviz and as a table. */
#include "query/export/export.h"

#include "common/quote.h"
#include "query/base/time.h"
#include "query/graph/show.h"

#include <string.h>

#define TEXT_WIDTH 60

/* --- dot --- */

static void add_dot_file(struct shfs_buf *out, const struct shfs_workflow_file *file)
{
	_cleanup_buf_ struct shfs_buf label = { 0 };

	shfs_quote_display(&label, file->name, strlen(file->name));
	shfs_buf_printf(&label, "@%lld", (long long)file->version.n);
	shfs_buf_printf(out, "\tf%zu [shape=note%s, label=", file->id,
	                file->target ? ", style=bold" : "");
	shfs_dot_string(out, &label);
	shfs_buf_str(out, "];\n");
}

static void add_dot_way(struct shfs_buf *out, const struct shfs_step *step,
                        const struct shfs_by_way *way)
{
	_cleanup_buf_ struct shfs_buf label = { 0 };

	shfs_show_path(&label, way->path);
	shfs_buf_printf(out, "\tc%zu -> c%zu [style=dashed, label=", way->left_by->id,
	                step->id);
	shfs_dot_string(out, &label);
	shfs_buf_str(out, "];\n");
}

static void add_dot_step(struct shfs_buf *out, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf label = { 0 };
	const struct shfs_command_row *command = &step->entry->command;

	shfs_show_first_line(&label, command->text, command->text_len, TEXT_WIDTH);
	shfs_buf_printf(out, "\tc%zu [shape=box, style=rounded, tooltip=\"%s\", label=",
	                step->id, command->id);
	shfs_dot_string(out, &label);
	shfs_buf_str(out, "];\n");
	for (size_t i = 0; i < step->inputs.n; i++)
		shfs_buf_printf(out, "\tf%zu -> c%zu;\n", step->inputs.list[i]->id,
		                step->id);
	for (size_t i = 0; i < step->outputs.n; i++)
		shfs_buf_printf(out, "\tc%zu -> f%zu;\n", step->id,
		                step->outputs.list[i]->id);
	for (size_t i = 0; i < step->n_by_way; i++)
		if (step->by_way[i].left_by)
			add_dot_way(out, step, &step->by_way[i]);
}

static int write_dot(struct shfs_export *x)
{
	shfs_buf_str(&x->out, "digraph shfs {\n");
	for (size_t i = 0; i < x->wf->files.n; i++) {
		add_dot_file(&x->out, x->wf->files.list[i]);
		shfs_export_flush(x, &x->out);
	}
	for (size_t i = 0; i < x->wf->n_steps; i++) {
		if (!x->wf->steps[i]->source)
			add_dot_step(&x->out, x->wf->steps[i]);
		shfs_export_flush(x, &x->out);
	}
	shfs_buf_str(&x->out, "}\n");
	return 0;
}

const struct shfs_export_format shfs_export_dot = {
	.name = "dot",
	.write = write_dot,
};

/* --- csv: RFC 4180 --- */

/* A spreadsheet takes a field that begins like this for a formula, even in quotes. A
 * leading ' is added; a field that begins with ' gets one more, so that the first can
 * always be removed. */
static bool is_formula(const char *text, size_t len)
{
	return len && memchr("=+-@\t\r\n'", text[0], 8);
}

static void add_csv_field(struct shfs_buf *out, const char *text, size_t len)
{
	shfs_buf_str(out, is_formula(text, len) ? ",\"'" : ",\"");
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '"')
			shfs_buf_char(out, '"');
		shfs_buf_char(out, text[i]);
	}
	shfs_buf_char(out, '"');
}

static void add_csv_row(struct shfs_buf *out, const struct shfs_step *step,
                        const char *use, const struct shfs_workflow_file *file)
{
	const struct shfs_version *v = &file->version;
	const struct shfs_command_row *c = step->source ? NULL : &step->entry->command;

	shfs_buf_printf(out, "%s,%s,", use, c ? c->id : "");
	if (c)
		shfs_time_show_utc(out, c->begin_ns);
	shfs_buf_char(out, ',');
	if (c && c->has_status)
		shfs_buf_printf(out, "%lld", (long long)c->status);
	add_csv_field(out, c ? c->cwd : "", c ? strlen(c->cwd) : 0);
	add_csv_field(out, c ? c->text : "", c ? c->text_len : 0);
	add_csv_field(out, v->path, strlen(v->path));
	shfs_buf_printf(out, ",%lld,%llu,", (long long)v->n, (unsigned long long)v->size);
	shfs_time_show_utc(out, v->mtime_ns);
	shfs_buf_str(out, "\r\n");
}

static int write_csv(struct shfs_export *x)
{
	shfs_buf_str(&x->out, "use,command,begin,status,cwd,text,path,n,size,mtime\r\n");
	for (size_t i = 0; i < x->wf->n_steps; i++) {
		const struct shfs_step *step = x->wf->steps[i];

		if (step->source)
			add_csv_row(&x->out, step, "source", step->source);
		for (size_t k = 0; k < step->inputs.n; k++)
			add_csv_row(&x->out, step, "input", step->inputs.list[k]);
		for (size_t k = 0; k < step->outputs.n && !step->source; k++)
			add_csv_row(&x->out, step, "output", step->outputs.list[k]);
		shfs_export_flush(x, &x->out);
	}
	return 0;
}

const struct shfs_export_format shfs_export_csv = {
	.name = "csv",
	.write = write_csv,
};
