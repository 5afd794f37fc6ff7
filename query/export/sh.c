/* SPDX-License-Identifier: MIT */
/* A script for bash. The texts of commands are here-documents, so that nothing in them
 * can change the script around them. */
#include "query/export/export.h"

#include "common/clock.h"
#include "common/quote.h"

#include <string.h>

static const char head[] =
	"set -euo pipefail\n"
	"\n"
	"die()\n"
	"{\n"
	"\tprintf '%s: %s\\n' \"$0\" \"$*\" >&2\n"
	"\texit 1\n"
	"}\n"
	"\n"
	"take() # FILE@N NAME [late]: from the store of shfs; late: it is newer than "
	"what is "
	"there\n"
	"{\n"
	"\trm -f -- \"$top/$2\"\n"
	"\tshfs restore --to \"$top/$2\" -- \"$1\" >/dev/null || die \"cannot have $1\"\n"
	"}\n"
	"\n"
	"run() # STATUS SHELL DIR: the command on standard input, which must end so\n"
	"{\n"
	"\tlocal status=0 text\n"
	"\n"
	"\ttext=$(cat)\n"
	"\tsleep 0.01 # what comes is newer than what is there\n"
	"\tcd -- \"$top/$3\"\n"
	"\t# and all that it leaves in the background\n"
	"\tcase $2 in\n"
	"\tfish) fish --no-config -c 'eval $argv[1]; set s $status; wait; exit $s' "
	"\"$text\" ;;\n"
	"\tzsh) zsh -fc 'eval \"$1\"; s=$?; wait; exit \"$s\"' zsh \"$text\" ;;\n"
	"\t*) bash -c 'eval \"$1\"; s=$?; wait; exit \"$s\"' bash \"$text\" ;;\n"
	"\tesac </dev/null || status=$?\n"
	"\t[[ $1 == any || $status == \"$1\" ]] || die \"ended with $status, not $1: "
	"$text\"\n"
	"\tcd -- \"$top\"\n"
	"}\n"
	"\n";

static const char copy[] = "copy() # FILE NAME SIZE MTIME: not archived, so what is "
			   "there if it is still that\n"
			   "{\n"
			   "\t[[ $(stat -c '%s %.9Y' -- \"$1\") == \"$3 $4\" ]] || die "
			   "\"$1 is not archived, and not the same any more\"\n"
			   "\tmkdir -p -- \"$(dirname -- \"$top/$2\")\"\n"
			   "\tcp -p -- \"$1\" \"$top/$2\"\n"
			   "}\n"
			   "\n";

static const char begin[] = "top=${1:-$(mktemp -d)}\n"
			    "mkdir -p -- \"$top\"\n"
			    "[[ -z $(ls -A -- \"$top\") ]] || die \"$top is not empty\"\n"
			    "cd -- \"$top\"\n"
			    "top=$(pwd -P)\n"
			    "unset BASH_ENV CDPATH ENV\n";

static bool has_copies(const struct shfs_workflow *wf)
{
	for (size_t i = 0; i < wf->n_steps; i++)
		if (wf->steps[i]->source &&
		    !shfs_export_is_archived(wf->steps[i]->source))
			return true;
	return false;
}

static int add_script_head(struct shfs_export *x)
{
	int r;

	shfs_buf_str(&x->out,
	             "#!/usr/bin/env bash\n"
	             "# shellcheck disable=SC2016 # names are taken as they are\n"
	             "# Made by shfs " SHFS_VERSION ": the commands behind\n#\t");
	shfs_export_names(&x->out, &x->wf->targets);
	shfs_buf_str(&x->out, "\n# usage: bash SCRIPT [DIR]\n"
	                      "# DIR, empty or missing (default: a new one), becomes ");
	shfs_show_directory(&x->out, x->wf->base);
	shfs_buf_char(&x->out, '\n');
	r = shfs_export_software_comment(x);
	shfs_buf_str(&x->out, head);
	if (has_copies(x->wf))
		shfs_buf_str(&x->out, copy);
	shfs_buf_str(&x->out, "export SHFS_STORE=${SHFS_STORE:-");
	shfs_export_quote(&x->out, x->store);
	shfs_buf_str(&x->out, "}\n");
	if (x->data) {
		shfs_buf_str(&x->out, "export SHFS_DATA=${SHFS_DATA:-");
		shfs_export_quote(&x->out, x->data);
		shfs_buf_str(&x->out, "}\n");
	}
	shfs_buf_str(&x->out, begin);
	return r;
}

static void add_script_source(struct shfs_export *x, const struct shfs_step *step)
{
	const struct shfs_workflow_file *source = step->source;
	const struct shfs_version *v = &source->version;
	_cleanup_buf_ struct shfs_buf note = { 0 };

	shfs_export_left_by(&note, source);
	if (note.len)
		shfs_buf_printf(&x->out, "# %s\n", note.data);
	if (shfs_export_is_archived(source)) {
		shfs_buf_str(&x->out, "take ");
		shfs_export_spec(&x->out, v);
		shfs_buf_char(&x->out, ' ');
		shfs_export_quote(&x->out, source->name);
	} else {
		shfs_buf_str(&x->out, "copy ");
		shfs_export_place(&x->out, source);
		shfs_buf_char(&x->out, ' ');
		shfs_export_quote(&x->out, source->name);
		shfs_buf_printf(&x->out, " %llu ", (unsigned long long)v->size);
		shfs_export_seconds(&x->out, v->mtime_ns);
	}
	if (step->late) { /* newer than what is there, for make and the like */
		shfs_buf_str(&x->out, "\ntouch -- ");
		shfs_export_quote(&x->out, source->name);
	}
	shfs_buf_char(&x->out, '\n');
}

/* Adds a line that does not occur in the text. */
static void add_delimiter(struct shfs_buf *out, const char *text)
{
	_cleanup_buf_ struct shfs_buf end = { 0 };

	shfs_buf_str(&end, "END");
	for (const char *line = text; line && !end.failed;) {
		size_t len = strcspn(line, "\n");

		if (len == end.len && !memcmp(line, end.data, len)) {
			shfs_buf_char(&end, '_');
			line = text;
			continue;
		}
		line = line[len] ? line + len + 1 : NULL;
	}
	shfs_buf_str(out, end.data ?: "");
}

static void add_text(struct shfs_buf *out, const struct shfs_buf *script)
{
	const char *text = script->data ?: "";
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_text(&shown, text, script->len);
	if (!shown.data || strcmp(shown.data, text) != 0) {
		shfs_buf_str(out, " <<<");
		shfs_quote_shell(out, text, script->len);
		shfs_buf_char(out, '\n');
		return;
	}
	shfs_buf_str(out, " <<'");
	add_delimiter(out, text);
	shfs_buf_printf(out, "'\n%s\n", text);
	add_delimiter(out, text);
	shfs_buf_char(out, '\n');
}

static void add_outside(struct shfs_buf *out, const char *lead, const char *path)
{
	shfs_buf_str(out, lead);
	shfs_quote_display(out, path, strlen(path));
}

static void add_script_command(struct shfs_export *x, const struct shfs_step *step)
{
	const struct shfs_command_row *command = &step->entry->command;
	struct shfs_buf *out = &x->out;

	shfs_buf_str(out, "\n# ");
	shfs_export_when(out, step);
	shfs_export_list(out, "\n# reads: ", &step->inputs);
	if (step->n_left_out)
		shfs_buf_printf(
			out, "\n# and %zu files of version control, which are left out",
			step->n_left_out);
	shfs_export_list(out, "\n# writes: ", &step->outputs);
	for (size_t i = 0; i < step->n_by_way; i++)
		add_outside(out, "\n# uses outside: ", step->by_way[i].path);
	for (size_t i = 0; i < step->leaves.n; i++)
		add_outside(out, "\n# writes outside: ", step->leaves.list[i]);
	shfs_buf_char(out, '\n');
	if (shfs_export_dirs(out, step))
		shfs_buf_char(out, '\n');
	if (shfs_export_gone(out, step))
		shfs_buf_char(out, '\n');
	if (command->has_status)
		shfs_buf_printf(out, "run %lld %s ", (long long)command->status,
		                step->script.shell);
	else
		shfs_buf_printf(out, "run any %s ", step->script.shell);
	shfs_export_quote(out, step->cwd);
	add_text(out, &step->script.text);
}

static int write_sh(struct shfs_export *x)
{
	bool sources = false;
	int r = add_script_head(x);

	for (size_t i = 0; i < x->wf->n_steps; i++) {
		const struct shfs_step *step = x->wf->steps[i];

		if (!step->source) {
			add_script_command(x, step);
		} else {
			if (!sources)
				shfs_buf_str(&x->out, "\n# what no command made that can "
				                      "be run again\n");
			add_script_source(x, step);
		}
		sources = step->source;
	}
	shfs_buf_str(&x->out, "\nprintf '%s\\n'");
	for (size_t i = 0; i < x->wf->targets.n; i++) {
		shfs_buf_str(&x->out, " \"$top\"/");
		shfs_export_quote(&x->out, x->wf->targets.list[i]->name);
	}
	shfs_buf_char(&x->out, '\n');
	return r;
}

const struct shfs_export_format shfs_export_sh = {
	.name = "sh",
	.runs = true,
	.in_place = true,
	.write = write_sh,
};
