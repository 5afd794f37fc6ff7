/* SPDX-License-Identifier: MIT */
/* steps.sh: the steps of a bundle, for the shell inside. It is of POSIX, and each command
 * is executed with the arguments, directory, streams and environment that were
 * recorded. */
#include "query/bundle/bundle.h"

#include "common/path.h"
#include "common/quote.h"
#include "query/history/uses.h"

#include <errno.h>
#include <string.h>

void bundle_quote(struct shfs_buf *out, const char *word)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:@_";

	if (*word && !word[strspn(word, plain)]) {
		shfs_buf_str(out, word);
		return;
	}
	shfs_buf_char(out, '\'');
	for (; *word; word++)
		if (*word == '\'')
			shfs_buf_str(out, "'\\''");
		else
			shfs_buf_char(out, *word);
	shfs_buf_char(out, '\'');
}

void bundle_begin_steps(struct bundle *b)
{
	shfs_buf_str(&b->steps,
	             "#!/bin/sh\n"
	             "# Made by shfs " SHFS_VERSION
	             ": the commands of this bundle, one by "
	             "one.\n"
	             "failed=0\n"
	             "umask 022\n"
	             "\n"
	             "ended() # STATUS EXPECTED COMMAND\n"
	             "{\n"
	             "\tcase $2 in any | \"$1\") return ;; esac\n"
	             "\techo \"bundle: command $3 ended with $1, not $2\" >&2\n"
	             "\tfailed=1\n"
	             "}\n");
}

void bundle_end_steps(struct bundle *b)
{
	if (b->checks_inside)
		shfs_buf_str(&b->steps,
		             "\n[ ! -s /.bundle/SHA256SUMS ] || (cd / && sha256sum "
		             "-c .bundle/SHA256SUMS) || failed=1\n");
	shfs_buf_str(&b->steps, "exit $failed\n");
}

static char *path_below(const struct shfs_workflow *wf, const char *name)
{
	return *name ? shfs_path_join(wf->base, name) : strdup(wf->base);
}

int bundle_add_take(struct bundle *b, const struct shfs_step *step)
{
	const struct shfs_workflow_file *file = step->source;
	_cleanup_buf_ struct shfs_buf at = { 0 };
	_cleanup_free_ char *path = path_below(b->x->wf, file->name);
	int r;

	shfs_buf_printf(&at, "/.bundle/take/%zu", ++b->n_taken);
	if (at.failed || !path)
		return -ENOMEM;
	r = shfs_closure_add_version(b->closure, &file->version, at.data, file->lies_at);
	if (r || !shfs_closure_find(b->closure, at.data))
		return r;
	b->needs_cp = true;
	shfs_buf_printf(&b->steps, "\ncp -f%s -- %s ", step->late ? "" : "p", at.data);
	bundle_quote(&b->steps, path);
	shfs_buf_str(&b->steps, "\n");
	return 0;
}

/* --- the command as it was executed --- */

/* What the journal has of the processes of a command. */
struct execution {
	char **all,
		**words; /* words: those of the text in all; NULL: it is none of them */
	char *data;
	/* of that process, else of the first one */
	char *streams, *environment;
	size_t streams_len, environment_len;
	bool is_recorded; /* by shfs record or run: its streams are the caller's */
};

static void execution_clear(struct execution *e)
{
	free(e->all);
	free(e->data);
	free(e->streams);
	free(e->environment);
}

static char *copy_bytes(struct shfs_rows *rows, int column, size_t *len)
{
	char *copy = malloc(shfs_rows_bytes(rows, column) + 1);

	*len = shfs_rows_bytes(rows, column);
	if (copy)
		memcpy(copy, shfs_rows_text(rows, column), *len + 1);
	return copy;
}

/* Splits arguments, which NULs separate. */
static char **split_words(char *data, size_t len)
{
	size_t n = 1, k = 0;
	char **words;

	for (size_t i = 0; i < len; i++)
		n += !data[i];
	words = calloc(n + 1, sizeof(*words));
	for (size_t at = 0; words && k < n; at += strlen(data + at) + 1)
		words[k++] = data + at;
	return words;
}

/* Finds the arguments that are the text of the command: of a script, they come behind
 * those of its "#!". */
static char **words_of(char **all, const char *text)
{
	for (int i = 0; i < 3 && all[i]; i++) {
		_cleanup_buf_ struct shfs_buf line = { 0 };

		shfs_quote_command(&line, all + i);
		if (!line.failed && line.data && !strcmp(line.data, text))
			return all + i;
	}
	return NULL;
}

static int read_execution(struct shfs_rows *rows, const struct shfs_step *step,
                          struct execution *e)
{
	struct execution found = { 0 };
	size_t len;

	found.data = copy_bytes(rows, 0, &len);
	found.all = found.data ? split_words(found.data, len) : NULL;
	found.streams = copy_bytes(rows, 1, &found.streams_len);
	found.environment = copy_bytes(rows, 2, &found.environment_len);
	if (!found.all || !found.streams || !found.environment) {
		execution_clear(&found);
		return -ENOMEM;
	}
	found.words = words_of(found.all, step->entry->command.text);
	if (!found.words && e->all) {
		execution_clear(&found);
		return 0;
	}
	execution_clear(e);
	*e = found;
	return found.words != NULL;
}

/* Is it shfs, before it executes the command; or was it not seen? */
static bool is_own(const char *exe)
{
	return !*exe || shfs_ends_with(exe, "/shfs");
}

static int load_execution(struct bundle *b, const struct shfs_step *step,
                          struct execution *e)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_free_ char *shell = NULL;
	int r = shfs_rows_open_ints(
		b->x->wf->index,
		"SELECT argv, streams, environment, uid, exe FROM v_process"
		" WHERE command_id = ?1 ORDER BY process_id",
		SHFS_INTS(step->entry->command.command_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		r = 0;
		if (is_own(shfs_rows_text(rows, 4)))
			continue;
		b->uid = shfs_rows_int(rows, 3);
		r = read_execution(rows, step, e);
	}
	if (r >= 0)
		r = shfs_command_shell(b->x->wf->index, &step->entry->command, "bash",
		                       &shell);
	e->is_recorded = shell && !strcmp(shell, "run");
	return MIN(r, 0);
}

/* --- its environment --- */

static bool is_name(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (name[i] != '_' && !(name[i] >= 'A' && name[i] <= 'Z') &&
		    !(name[i] >= 'a' && name[i] <= 'z') &&
		    !(i && name[i] >= '0' && name[i] <= '9'))
			return false;
	return len;
}

static void add_variable(struct bundle *b, const char *variable)
{
	const char *value = strchr(variable, '=');

	if (!value || !is_name(variable, (size_t)(value - variable)) ||
	    strstr(value, "[redacted]") || !strcmp(value, "=[cut]"))
		return;
	shfs_buf_printf(&b->steps, "\texport %.*s=", (int)(value - variable), variable);
	bundle_quote(&b->steps, value + 1);
	shfs_buf_char(&b->steps, '\n');
}

/* The home has to exist: programs go there. */
static int add_home(struct bundle *b, const char *variable)
{
	_cleanup_free_ char *place = NULL;
	int r;

	if (strncmp(variable, "HOME=/", 6) != 0)
		return 0;
	r = closure_walk(b->closure, variable + 5, &place);
	return r ? r : shfs_closure_add_directory(b->closure, place);
}

static int add_environment(struct bundle *b, const struct shfs_step *step,
                           const struct execution *e)
{
	_cleanup_software_ struct shfs_software software = { 0 };
	int r = 0;

	for (size_t at = 0; at < e->environment_len && !r;
	     at += strlen(e->environment + at) + 1) {
		add_variable(b, e->environment + at);
		r = add_home(b, e->environment + at);
	}
	if (r || e->environment_len)
		return r;
	r = shfs_export_software(b->x, step->entry, &software);
	for (size_t i = 0; i < software.n_variables && !r; i++) {
		add_variable(b, software.variables[i]);
		r = add_home(b, software.variables[i]);
	}
	return r;
}

/* --- its streams --- */

static const struct shfs_use *find_use(const struct shfs_uses *uses, const char *path)
{
	for (size_t i = 0; i < uses->n; i++)
		if (!strcmp(uses->list[i].path, path))
			return &uses->list[i];
	return NULL;
}

/* Did it write behind what was there? The shell's ">" leaves nothing there. */
static int appends(struct bundle *b, const struct shfs_use *use, bool *out)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	int r = use->kind == SHFS_USE_CHANGED && use->read_id
	                ? shfs_version_load(b->x->wf->index, use->read_id, &v)
	                : 0;

	*out = r > 0 && v.size;
	return MIN(r, 0);
}

static int add_redirections(struct bundle *b, const struct shfs_step *step,
                            const struct execution *e)
{
	_cleanup_uses_ struct shfs_uses uses = { 0 };
	const char *before = NULL, *stream = e->streams;
	int r = shfs_uses_load(b->x->wf->index, step->entry->command.command_id, 0, 0,
	                       &uses);

	shfs_buf_str(&b->steps, "\texec");
	for (int fd = 0; fd < 3 && stream && stream <= e->streams + e->streams_len && !r;
	     fd++, stream += strlen(stream) + 1) {
		const struct shfs_use *use =
			*stream == '/' ? find_use(&uses, stream) : NULL;
		bool append = false;

		if (fd && before && !strcmp(before, stream)) {
			shfs_buf_printf(&b->steps, " %d>&%d", fd, fd - 1);
			continue;
		}
		if (!use) {
			shfs_buf_str(&b->steps, fd ? "" : " </dev/null");
			continue;
		}
		if (fd) {
			r = appends(b, use, &append);
			before = stream;
		}
		shfs_buf_printf(&b->steps, " %d%s", fd, !fd ? "<" : append ? ">>" : ">");
		bundle_quote(&b->steps, stream);
	}
	shfs_buf_char(&b->steps, '\n');
	return r;
}

/* The shell that the text was typed into. */
static int add_typed(struct bundle *b, const struct shfs_step *step)
{
	bool fish = !strcmp(step->script.shell, "fish"),
	     zsh = !strcmp(step->script.shell, "zsh");
	const char *shell = fish ? "fish" : zsh ? "zsh" : "bash";
	int r = shfs_closure_add_program(b->closure, shell);

	if (r == -ENOENT) {
		shfs_error("there is no %s here, which the bundle needs", shell);
		return SHFS_EXIT_UNAVAILABLE;
	}
	shfs_buf_printf(&b->steps, "\texec %s ", shell);
	if (fish)
		shfs_buf_str(
			&b->steps,
			"--no-config -c 'eval $argv[1]; set s $status; wait; exit $s' ");
	else
		shfs_buf_printf(&b->steps,
		                "%s 'eval \"$1\"; s=$?; wait; exit \"$s\"' %s ",
		                zsh ? "-fc" : "-c", shell);
	bundle_quote(&b->steps, step->script.text.data ?: "");
	shfs_buf_char(&b->steps, '\n');
	return r;
}

static void add_gone(struct bundle *b, const struct shfs_step *step)
{
	for (size_t i = 0; i < step->gone.n; i++) {
		_cleanup_free_ char *path = path_below(b->x->wf, step->gone.list[i]);

		b->needs_rm = true;
		shfs_buf_str(&b->steps, "rm -f -- ");
		bundle_quote(&b->steps, path ?: "");
		shfs_buf_char(&b->steps, '\n');
		b->steps.failed |= !path;
	}
}

int bundle_add_step(struct bundle *b, const struct shfs_step *step)
{
	const struct shfs_command_row *command = &step->entry->command;
	_cleanup_(execution_clear) struct execution e = { 0 };
	int r = load_execution(b, step, &e);

	if (r)
		return r;
	shfs_buf_str(&b->steps, "\n# ");
	shfs_export_when(&b->steps, step);
	shfs_buf_char(&b->steps, '\n');
	add_gone(b, step);
	shfs_buf_str(&b->steps, "(\n\tcd -- ");
	bundle_quote(&b->steps, command->cwd);
	shfs_buf_str(&b->steps, " || exit 125\n");
	r = add_environment(b, step, &e);
	if (!r && e.is_recorded)
		r = add_redirections(b, step, &e);
	else
		shfs_buf_str(&b->steps, "\texec </dev/null\n");
	if (!r && e.words) {
		shfs_buf_str(&b->steps, "\texec");
		for (char **word = e.words; *word; word++) {
			shfs_buf_char(&b->steps, ' ');
			bundle_quote(&b->steps, *word);
		}
		shfs_buf_char(&b->steps, '\n');
	} else if (!r) {
		r = add_typed(b, step);
	}
	shfs_buf_str(&b->steps, ")\nended $? ");
	if (command->has_status)
		shfs_buf_printf(&b->steps, "%lld %s\n", (long long)command->status,
		                command->id);
	else
		shfs_buf_printf(&b->steps, "any %s\n", command->id);
	return r ? r : b->steps.failed ? -ENOMEM : 0;
}
