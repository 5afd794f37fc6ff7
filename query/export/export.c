/* SPDX-License-Identifier: MIT */
/* Helpers that several export formats share. */
#include "query/export/export.h"

#include "common/clock.h"
#include "common/quote.h"
#include "query/base/time.h"

#include <string.h>

#define TEXT_WIDTH 60
#define FLUSH_SIZE 65536

void shfs_export_flush(struct shfs_export *x, struct shfs_buf *text)
{
	if (text->failed || text->len < FLUSH_SIZE)
		return;
	fwrite(text->data, 1, text->len, x->file); /* errors show at fclose */
	text->len = 0;
}

void shfs_export_when(struct shfs_buf *out, const struct shfs_step *step)
{
	shfs_buf_printf(out, "%s, ", step->entry->command.id);
	shfs_time_show_utc(out, step->entry->command.begin_ns);
	shfs_buf_str(out, ", in ");
	shfs_show_directory(out, step->entry->command.cwd);
}

void shfs_export_file_uri(struct shfs_buf *out, const char *path)
{
	size_t tree = shfs_path_is_here(path) ? 0 : strcspn(path, ":");

	shfs_buf_str(out, "file://");
	shfs_quote_uri(out, path, tree);
	path += tree + (tree != 0);
	shfs_quote_uri(out, path, strlen(path));
}

void shfs_export_left_by(struct shfs_buf *out, const struct shfs_workflow_file *source)
{
	const struct shfs_entry *entry = source->left_by ? &source->left_by->entry : NULL;

	if (!entry)
		return;
	shfs_buf_str(out, "left by ");
	if (entry->is_process) {
		shfs_show_process(out, &entry->process, TEXT_WIDTH);
		return;
	}
	shfs_buf_printf(out, "%s (", entry->command.id);
	if (entry->command.hidden)
		shfs_buf_str(out, "text not kept");
	else
		shfs_show_first_line(out, entry->command.text, entry->command.text_len,
		                     TEXT_WIDTH);
	shfs_buf_char(out, ')');
}

void shfs_export_names(struct shfs_buf *out, const struct shfs_files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		const struct shfs_workflow_file *file = files->list[i];

		shfs_buf_str(out, i ? "  " : "");
		shfs_quote_display(out, file->name, strlen(file->name));
		shfs_buf_printf(out, "@%lld", (long long)file->version.n);
	}
}

void shfs_export_list(struct shfs_buf *out, const char *lead,
                      const struct shfs_files *files)
{
	if (!files->n)
		return;
	shfs_buf_str(out, lead);
	shfs_export_names(out, files);
}

bool shfs_export_is_archived(const struct shfs_workflow_file *file)
{
	return file->version.flags & SHFS_CONTENT_OBJECT;
}

void shfs_export_spec(struct shfs_buf *out, const struct shfs_version *version)
{
	_cleanup_buf_ struct shfs_buf spec = { 0 };

	shfs_buf_printf(&spec, "%s@%lld", version->path, (long long)version->n);
	shfs_quote_shell(out, spec.data ?: "", spec.len);
	out->failed |= spec.failed;
}

void shfs_export_seconds(struct shfs_buf *out, int64_t ns)
{
	struct timespec time = shfs_ns_timespec(ns);

	shfs_buf_printf(out, "%lld.%09ld", (long long)time.tv_sec, time.tv_nsec);
}

/* Is there a "&" that is neither part of "&&" nor of a redirection? */
static bool has_job(const char *text)
{
	for (const char *p = text; (p = strchr(p, '&')); p++) {
		if (p[1] == '&')
			p++;
		else if (p[1] != '>' && (p == text || !strchr("<>|", p[-1])))
			return true;
	}
	return false;
}

static void add_shell_command(struct shfs_buf *out, const struct shfs_step *step)
{
	const struct shfs_command_row *command = &step->entry->command;
	bool fish = !strcmp(step->script.shell, "fish"),
	     job = has_job(step->script.text.data ?: "");

	if (fish)
		shfs_buf_str(out, "fish --no-config -c ");
	else
		shfs_buf_str(out,
		             strcmp(step->script.shell, "zsh") ? "bash -c " : "zsh -fc ");
	if (job && fish)
		shfs_buf_str(out, "'eval $argv[1]; set s $status; wait; exit $s' ");
	else if (job)
		shfs_buf_printf(out, "'eval \"$1\"; s=$?; wait; exit \"$s\"' %s ",
		                step->script.shell);
	shfs_quote_shell(out, step->script.text.data ?: "", step->script.text.len);
	shfs_buf_str(out, " </dev/null");
	if (!command->has_status)
		shfs_buf_str(out, " || :");
	else if (command->status)
		shfs_buf_printf(out, "; test $? -eq %lld", (long long)command->status);
}

void shfs_export_quote(struct shfs_buf *out, const char *word)
{
	shfs_quote_shell(out, word, strlen(word));
}

bool shfs_export_has_content(const struct shfs_workflow_file *file)
{
	return file->along || shfs_export_is_archived(file);
}

void shfs_export_place(struct shfs_buf *out, const struct shfs_workflow_file *source)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	if (source->along) {
		shfs_buf_str(out, "\"$SHFS_DATA\"/");
		shfs_export_data_name(&name, source);
	}
	shfs_export_quote(out, name.len ? name.data : source->lies_at ?: source->version.path);
	out->failed |= name.failed;
}

static void add_copy(struct shfs_buf *out, const struct shfs_workflow_file *source)
{
	shfs_buf_str(out, "test \"$(stat -c '%s %.9Y' -- ");
	shfs_export_place(out, source);
	shfs_buf_printf(out, ")\" = '%llu ", (unsigned long long)source->version.size);
	shfs_export_seconds(out, source->version.mtime_ns);
	shfs_buf_str(out, "' && cp -p -- ");
	shfs_export_place(out, source);
	shfs_buf_char(out, ' ');
	shfs_export_quote(out, source->name);
}

void shfs_export_step(struct shfs_buf *out, const struct shfs_step *step)
{
	_cleanup_buf_ struct shfs_buf to = { 0 };

	if (step->source && shfs_export_is_archived(step->source)) {
		shfs_buf_printf(&to, "./%s", step->source->name);
		shfs_buf_str(out, "shfs restore --to ");
		shfs_quote_shell(out, to.data ?: "", to.len);
		shfs_buf_str(out, " -- ");
		shfs_export_spec(out, &step->source->version);
		out->failed |= to.failed;
	} else if (step->source) {
		add_copy(out, step->source);
	} else if (*step->cwd) {
		shfs_buf_str(out, "cd -- ");
		shfs_export_quote(out, step->cwd);
		shfs_buf_str(out, " && { ");
		add_shell_command(out, step);
		shfs_buf_str(out, "; }");
	} else {
		add_shell_command(out, step);
	}
	if (step->late) {
		shfs_buf_str(out, " && touch -- ");
		shfs_export_quote(out, step->source->name);
	}
}

static bool add_names_of_command(struct shfs_buf *out, const char *command,
                                 const struct shfs_names *names)
{
	bool any = false;

	for (size_t i = 0; i < names->n; i++) {
		if (!*names->list[i])
			continue;
		shfs_buf_str(out, any ? " " : command);
		shfs_export_quote(out, names->list[i]);
		any = true;
	}
	return any;
}

bool shfs_export_dirs(struct shfs_buf *out, const struct shfs_step *step)
{
	return add_names_of_command(out, "mkdir -p -- ", &step->dirs);
}

bool shfs_export_gone(struct shfs_buf *out, const struct shfs_step *step)
{
	return add_names_of_command(out, "rm -f -- ", &step->gone);
}

void shfs_export_utf8(struct shfs_json *json, const char *key, const char *text,
                      size_t len)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (shfs_is_utf8(text, len)) {
		shfs_json_text(json, key, text, len);
		return;
	}
	shfs_quote_text(&shown, text, len);
	shfs_json_text(json, key, shown.data ?: "", shown.len);
	json->out.failed |= shown.failed;
}

void shfs_export_member(struct shfs_json *json, const char *key, struct shfs_buf *text)
{
	json->out.failed |= text->failed;
	shfs_export_utf8(json, key, text->data ?: "", text->len);
	shfs_buf_free(text);
}

const struct shfs_entry *shfs_export_maker(const struct shfs_workflow_file *file)
{
	if (!file->step)
		return NULL;
	if (!file->step->source)
		return file->step->entry;
	return file->left_by ? &file->left_by->entry : NULL;
}

void shfs_export_label(struct shfs_buf *out, const struct shfs_workflow_file *file)
{
	shfs_buf_printf(out, "%s@%lld", file->name, (long long)file->version.n);
}

const char *shfs_export_first_output(const struct shfs_step *step)
{
	for (size_t i = 0; i < step->outputs.n; i++)
		if (step->outputs.list[i]->needed)
			return step->outputs.list[i]->name;
	return NULL;
}
