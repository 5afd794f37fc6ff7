/* SPDX-License-Identifier: MIT */
/*
 * shfs-bash.c - the hook of bash as a loadable builtin: no fork, no trap, no history.
 *
 *   PS0='${SHFS_PRE-}'
 *
 * SHFS_PRE is a dynamic variable. bash expands PS0 once before each line that it
 * executes; computing the value of SHFS_PRE, always empty, writes the B1 record.
 *
 * PROMPT_COMMAND is made dynamic, too, and keeps the user's value. bash reads it before
 * each prompt; that writes the F2 record if a command ran, before prompt commands take
 * time, and shows the alert. If the user replaces the variable, the record is written
 * after them.
 *
 *   _shfs_hook start DIR ALERT HOST BOOT PIDNS TTY … (HOOK_START_WORDS)
 *
 * begins the session in DIR (when called again: only if DIR is another one).
 *
 * PS0 and PROMPT_COMMAND are set when a prompt has been shown, after all prompt commands:
 * so programs that install themselves at the first prompt find what they expect.
 *
 * The records are described in store/journal/hooklog.h. The typed text is taken where
 * bash reads it: its history has other newlines, and not every line.
 *
 * It is built with the headers of one bash, and loaded only into versions that are known
 * to agree with them (shfs.bash).
 *
 * A shell may load it from several installs, of any versions and in any order; the last
 * one records. So this code never calls that of another install: both could call each
 * other forever. Code of another install is recognised by the name of its file. When this
 * code is no longer the last, it steps aside: the builtin belongs to the other.
 */
#include "shellhook/hook.h"
#include "shellhook/uses.h"

#include <config.h>

#include <builtins.h>
#include <shell.h>

#include <alias.h>
#include <arrayfunc.h>
#include <common.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Symbols that bash exports, but its installed headers lack: input.h, bashhist.h,
 * parser.h and readline. */
enum stream_type { STREAM_NONE, STREAM_READLINE, STREAM_FILE };
struct input {
	enum stream_type type;
	char *name;
	void *location;
	int (*getter)(void);
	int (*ungetter)(int);
};
extern struct input bash_input;
extern int (*rl_startup_hook)(void), (*rl_pre_input_hook)(void);
extern char *rl_line_buffer;
extern int current_command_line_count, current_command_number;
extern int current_command_first_line_saved;
extern volatile int last_command_exit_value;
extern int remember_on_history, command_oriented_history, history_control;
extern int history_expansion, promptvars;
extern char *ps0_prompt; /* the value of PS0 at the last prompt */
extern char history_expansion_char, history_subst_char;
char *last_history_line(void);
void with_input_from_stdin(void);
void with_input_from_stream(FILE *stream, const char *name);
#define HISTORY_IGNORES_DUPS 2 /* a bit of history_control */
extern int expand_aliases, interactive_comments;
extern int extended_glob, glob_star, glob_dot_filenames, glob_ignore_case;
extern int allow_null_glob_expansion, fail_glob_expansion, match_ignore_case;
extern int disallow_filename_globbing, pipefail_opt, noclobber, posixly_correct;
extern int unbound_vars_is_error;

#define PS0_WORD "${SHFS_PRE-}"

static struct {
	int last_command; /* its number in bash */
	bool told_promptvars, told_ps0;
	bool is_others; /* reads of PROMPT_COMMAND now are not for a prompt */
} places;

/* The lines of the command that is being read, as typed. */
static struct {
	struct text typed;
	bool inside; /* a line has begun and not ended */
	bool late;   /* attached while bash was reading the first character of a line */
	int (*getter)(void);
	int (*ungetter)(int);
	int (*startup)(void);
	int (*pre_input)(void);
} reader;

/* --- functions for hook.c --- */

const char shell_kind[] = "bash";

const char *shell_get(const char *name)
{
	return get_string_value(name);
}

void shell_export(const char *name, const char *value)
{
	SHELL_VAR *v = find_variable(name);

	if (v && readonly_p(v))
		return;
	v = v ? bind_variable_value(v, (char *)value, 0)
	      : bind_global_variable(name, (char *)value, 0);
	if (!v)
		return;
	VSETATTR(v, att_exported);
	array_needs_making = 1;
}

void shell_mark(enum shell_mark mark, const char *value)
{
	shell_export(mark == MARK_COMMAND ? "SHFS_COMMAND" : "LC_SHFS", value);
}

bool shell_is_executing(void)
{
	return executing;
}

/* --- what words are: functions for uses.c --- */

bool shell_find_alias(const char *word, bool is_command, struct definition *out)
{
	alias_t *found = expand_aliases && is_command ? find_alias((char *)word) : NULL;

	if (!found)
		return false;
	*out = (struct definition){ 'a', found->name, found->value, strlen(found->value),
		                    NULL };
	return true;
}

bool shell_find_function(const char *word, bool only_exported, struct definition *out)
{
	SHELL_VAR *found = find_function(word);

	if (!found || (only_exported && !exported_p(found)))
		return false;
	*out = (struct definition){ .kind = 'f', .name = found->name, .shell = found };
	return true;
}

/* Takes from what is left, down to 0. */
static void spend(size_t *left, size_t n)
{
	*left -= n < *left ? n : *left;
}

static void measure_words(const WORD_LIST *words, size_t *left)
{
	for (; words && *left; words = words->next)
		spend(left, strlen(words->word->word) + 1);
}

static void measure_redirects(const REDIRECT *r, size_t *left)
{
	for (; r && *left; r = r->next) {
		spend(left, 2);
		if (r->instruction == r_reading_until ||
		    r->instruction == r_deblank_reading_until ||
		    r->instruction == r_reading_string)
			spend(left, strlen(r->redirectee.filename->word));
	}
}

static void measure_condition(const COND_COM *c, size_t *left)
{
	if (!c || !*left)
		return;
	spend(left, 2 + (c->op ? strlen(c->op->word) : 0));
	measure_condition(c->left, left);
	measure_condition(c->right, left);
}

static void measure_command(const COMMAND *c, size_t *left);

static void measure_case(const CASE_COM *c, size_t *left)
{
	for (const PATTERN_LIST *p = c->clauses; p && *left; p = p->next) {
		measure_words(p->patterns, left);
		measure_command(p->action, left);
	}
}

/* Takes the length of the command's text, or a little less, from what is left. */
static void measure_command(const COMMAND *c, size_t *left)
{
	if (!c || !*left)
		return;
	spend(left, 2);
	measure_redirects(c->redirects, left);
	switch (c->type) {
	case cm_simple:
		measure_words(c->value.Simple->words, left);
		measure_redirects(c->value.Simple->redirects, left);
		break;
	case cm_connection:
		measure_command(c->value.Connection->first, left);
		measure_command(c->value.Connection->second, left);
		break;
	case cm_for:
	case cm_select: /* of the same form */
		measure_words(c->value.For->map_list, left);
		measure_command(c->value.For->action, left);
		break;
	case cm_case:
		measure_case(c->value.Case, left);
		break;
	case cm_while:
	case cm_until:
		measure_command(c->value.While->test, left);
		measure_command(c->value.While->action, left);
		break;
	case cm_if:
		measure_command(c->value.If->test, left);
		measure_command(c->value.If->true_case, left);
		measure_command(c->value.If->false_case, left);
		break;
	case cm_function_def:
		measure_command(c->value.Function_def->command, left);
		break;
	case cm_group:
		measure_command(c->value.Group->command, left);
		break;
	case cm_subshell:
		measure_command(c->value.Subshell->command, left);
		break;
	case cm_arith:
		measure_words(c->value.Arith->exp, left);
		break;
	case cm_cond:
		measure_condition(c->value.Cond, left);
		break;
	case cm_arith_for:
		measure_command(c->value.ArithFor->action, left);
		break;
	case cm_coproc:
		measure_command(c->value.Coproc->command, left);
		break;
	}
}

/* bash writes a function as text by recursion, which takes milliseconds and all of the
 * stack if it is long. So it is measured first, up to the length that is of use. */
void shell_load_function(struct definition *d, size_t max)
{
	static struct text body;
	SHELL_VAR *function = (SHELL_VAR *)d->shell;
	COMMAND *command = function_cell(function);
	size_t left = max;
	const char *printed;

	measure_command(command, &left);
	if (!left)
		return;
	printed = named_function_string(function->name, command,
	                                FUNC_MULTILINE | FUNC_EXTERNAL);
	text_clear(&body);
	text_add(&body, printed, strlen(printed));
	if (exported_p(function) && legal_identifier(function->name)) {
		text_add(&body, "\nexport -f ", 11);
		text_add(&body, function->name, strlen(function->name));
	}
	if (body.failed || body.len > max)
		return;
	d->body = body.data;
	d->len = body.len;
}

bool shell_has_comments(void)
{
	return interactive_comments;
}

const struct shell_option *shell_option(size_t i, bool *usual)
{
	static const struct {
		int *on;
		struct shell_option option;
	} options[] = {
		{ &extended_glob, { "shopt -s extglob", "(" } },
		{ &glob_star, { "shopt -s globstar", "*" } },
		{ &glob_dot_filenames, { "shopt -s dotglob", "*?[" } },
		{ &glob_ignore_case, { "shopt -s nocaseglob", "*?[" } },
		{ &allow_null_glob_expansion, { "shopt -s nullglob", "*?[" } },
		{ &fail_glob_expansion, { "shopt -s failglob", "*?[" } },
		{ &match_ignore_case, { "shopt -s nocasematch", "[(" } },
		{ &disallow_filename_globbing, { "set -f", "*?[" } },
		{ &pipefail_opt, { "set -o pipefail", "|" } },
		{ &noclobber, { "set -C", ">" } },
		{ &unbound_vars_is_error, { "set -u", "$" } },
		{ &posixly_correct, { "set -o posix", NULL } },
	};

	if (i == sizeof(options) / sizeof(*options))
		return NULL;
	*usual = !*options[i].on;
	return &options[i].option;
}

/* --- hooks of other installs --- */

#define BUILTIN   "_shfs_hook"
#define FILE_NAME "/shfs-bash.so"

int _shfs_hook_builtin(WORD_LIST *list);

/* Does this code belong to the hook of another install? */
static bool is_of_another(const void *code)
{
	Dl_info info, own;
	const char *slash;

	if (!code || !dladdr(code, &info) || !info.dli_fname)
		return false;
	slash = strrchr(info.dli_fname, '/');
	return slash && !strcmp(slash, FILE_NAME) && dladdr(shell_kind, &own) &&
	       info.dli_fbase != own.dli_fbase;
}

/* Is this the recorded shell, with no other hook loaded later? */
static bool is_recording(void)
{
	char name[] = BUILTIN;
	struct builtin *builtin;

	if (!hook_is_ours())
		return false;
	builtin = builtin_address_internal(name, true);
	if (builtin && builtin->function == _shfs_hook_builtin)
		return true;
	hook_stop();
	return false;
}

/* --- typed text --- */

static void reader_detach(void);

static int read_char(void)
{
	int c;

	if (!reader.inside && !current_command_line_count) {
		text_clear(&reader.typed);
		if (!is_recording())
			reader_detach();
		/* lines were pasted at once */
		else if (hook_is_running() && !executing)
			hook_end(last_command_exit_value);
	}
	c = reader.getter();
	places.is_others = false;
	if (reader.late && rl_line_buffer && *rl_line_buffer)
		text_add(&reader.typed, rl_line_buffer, 1);
	reader.late = false;
	if (c > 0) {
		char byte = (char)c;

		text_add(&reader.typed, &byte, 1);
	}
	reader.inside = c > 0 && c != '\n';
	return c;
}

/* Bash looks one character ahead after a backslash in a here-document. */
static int unread_char(int c)
{
	if (c > 0 && reader.typed.len)
		reader.typed.len--;
	return reader.ungetter(c);
}

/* Is there line editing? Then on_readline and on_prompt run before each line; else only
 * the end of the last command and the begin of this one are noticed. */
static bool bash_edits_lines(void)
{
	return bash_input.type == STREAM_READLINE;
}

/* Restores bash's own functions: other ones may call this code. */
static bool input_reset(void)
{
	enum stream_type type = bash_input.type;
	char *name = bash_input.name ? strdup(bash_input.name) : NULL;

	bash_input.type = STREAM_NONE;
	if (type == STREAM_READLINE)
		with_input_from_stdin();
	else
		with_input_from_stream(bash_input.location, name);
	free(name);
	if (bash_input.type == type)
		return true;
	bash_input.type = type; /* nothing was changed */
	return false;
}

/* Attaches to the input if bash reads from the terminal. While it reads a file or a
 * string, the terminal's input is on a stack, out of reach. */
static bool reader_attach(void)
{
	if (bash_input.getter == read_char ||
	    (bash_input.type != STREAM_READLINE && bash_input.type != STREAM_FILE))
		return false;
	if (is_of_another((void *)bash_input.getter) && !input_reset())
		return false;
	reader.getter = bash_input.getter;
	reader.ungetter = bash_input.ungetter;
	bash_input.getter = read_char;
	bash_input.ungetter = unread_char;
	return true;
}

static void reader_detach(void)
{
	if (bash_input.getter != read_char)
		return;
	bash_input.getter = reader.getter;
	bash_input.ungetter = reader.ungetter;
}

/* --- PS0 and PROMPT_COMMAND --- */

static void say_once(bool *told, const char *what)
{
	if (!*told)
		fprintf(stderr, "shfs: nothing is recorded%s\n", what);
	*told = true;
}

/* Puts the hook's word at the end of PS0, so that no other part of it belongs to the
 * command; removes the word if it would be printed. */
static void arm_ps0(void)
{
	const char *old = get_string_value("PS0"), *hit;
	struct text t = { 0 };
	SHELL_VAR *var;

	old = old ? old : "";
	hit = promptvars ? strstr(old, PS0_WORD) : NULL;
	if (hit && !hit[strlen(PS0_WORD)])
		return; /* the usual case */
	var = find_variable("PS0");
	for (const char *p = old; (hit = strstr(p, PS0_WORD)); p = old) {
		text_add(&t, old, hit - old);
		old = hit + strlen(PS0_WORD);
	}
	text_add(&t, old, strlen(old));
	if (promptvars)
		text_add(&t, PS0_WORD, strlen(PS0_WORD));
	else
		say_once(&places.told_promptvars,
		         " while the shell option promptvars is off");
	text_add(&t, "", 1);
	old = get_string_value("PS0");
	if (t.failed || !strcmp(old ? old : "", t.data))
		;
	else if (var && readonly_p(var))
		say_once(&places.told_ps0, ": PS0 is read-only");
	else if (bind_variable("PS0", t.data, 0))
		ps0_prompt = get_string_value("PS0");
	free(t.data);
}

/* Runs before each prompt, also after an empty line. Reads while a line is edited
 * (completion) or a command runs are not for a prompt. */
static SHELL_VAR *value_of_prompt_command(SHELL_VAR *self)
{
	int error = errno;

	if (executing || places.is_others)
		return self;
	if (!is_recording()) {
		self->dynamic_value = NULL; /* make room for the hook that records */
		reader_detach();
		return self;
	}
	if (hook_is_running())
		hook_end(last_command_exit_value);
	hook_show_alert();
	if (!bash_edits_lines())
		arm_ps0();
	errno = error;
	return self;
}

/* Makes the variable dynamic, as an array: bash drops dynamic values when it makes
 * one. */
static void watch_prompt_command(void)
{
	char name[] = "PROMPT_COMMAND";
	bool before = places.is_others;
	SHELL_VAR *var;

	places.is_others = true;
	var = find_variable(name);
	places.is_others = before;
	if (var && var->dynamic_value && !is_of_another((void *)var->dynamic_value))
		return;
	if (!var) {
		var = make_new_array_variable(name);
		VSETATTR(var, att_invisible); /* like a variable that is not set */
	} else if (!array_p(var) && !assoc_p(var) && !readonly_p(var)) {
		var = convert_var_to_array(var);
	}
	var->dynamic_value = value_of_prompt_command;
}

/* Readline calls this when it begins to read a line. */
static int on_readline(void)
{
	if (!executing && is_recording()) {
		if (hook_is_running())
			hook_end(last_command_exit_value);
		places.is_others = true;
		reader.inside = false;
		reader.late = reader_attach();
	}
	return reader.startup ? reader.startup() : 0;
}

/* Readline calls this when it has shown the prompt: nobody waits now. An install without
 * a builtin may have loaded its hook later. */
static int on_prompt(void)
{
	if (get_string_value("_shfs_begun"))
		hook_stop();
	if (!executing && is_recording()) {
		arm_ps0();
		watch_prompt_command();
		hook_at_prompt();
	}
	return reader.pre_input ? reader.pre_input() : 0;
}

/* May bash have expanded "!!" or the like in the line? Then the history has what was
 * run. */
static bool may_be_expanded(const char *typed)
{
	char chars[] = { history_expansion_char, history_subst_char, '\0' };

	return remember_on_history && history_expansion && *chars &&
	       strpbrk(typed, chars);
}

/* Is the last entry of the history this command? With ignoredups a repeated command is
 * not saved again. */
static bool is_in_history(void)
{
	if (!remember_on_history)
		return false;
	return current_command_first_line_saved ||
	       ((history_control & HISTORY_IGNORES_DUPS) &&
	        !get_string_value("HISTIGNORE"));
}

/* The text of the command, borrowed until the next line is read. Empty only if it is
 * unknown. */
static const char *command_text(void)
{
	char *typed = reader.typed.data;
	const char *saved = is_in_history() ? last_history_line() : NULL;

	if (!reader.typed.len || reader.typed.failed)
		return saved ? saved : "";
	if (typed[reader.typed.len - 1] == '\n')
		reader.typed.len--;
	text_add(&reader.typed, "", 1);
	reader.typed.len--;
	if (reader.typed.failed)
		return "";
	typed = reader.typed.data;
	if (*typed == ' ' || *typed == '\t' || !saved || !may_be_expanded(typed) ||
	    (!command_oriented_history && strchr(typed, '\n')))
		return typed;
	return saved;
}

/* Does the user keep it out of the history, by a leading blank or by HISTIGNORE? The
 * latter applies if bash did not save the line, and it is not the last entry. */
static bool is_kept_out(const char *text)
{
	const char *ignore, *last;

	if (*text == ' ' || *text == '\t')
		return true;
	if (!remember_on_history || current_command_first_line_saved)
		return false; /* the usual case */
	ignore = get_string_value("HISTIGNORE");
	if (!ignore || !*ignore)
		return false;
	last = last_history_line();
	return !last || strcmp(last, text) != 0;
}

/* --- called by bash --- */

/* The value of SHFS_PRE. Only its first read before a command comes from PS0. */
static SHELL_VAR *value_of_pre(SHELL_VAR *self)
{
	int error = errno;

	if (executing || current_command_number == places.last_command || !is_recording())
		return self;
	places.last_command = current_command_number;
	if (hook_is_disabled()) {
		hook_forget();
	} else {
		const char *text = command_text();

		hook_find_uses(text);
		hook_begin(text, is_kept_out(text));
	}
	text_clear(&reader.typed);
	reader_attach();
	if (!bash_edits_lines())
		watch_prompt_command();
	errno = error;
	return self;
}

static SHELL_VAR *assign_pre(SHELL_VAR *self, char *value, arrayind_t index, char *key)
{
	return self;
}

static bool bind_pre(void)
{
	char none[] = "";
	SHELL_VAR *pre = bind_global_variable("SHFS_PRE", none, 0);

	if (!pre)
		return false;
	pre->dynamic_value = value_of_pre;
	pre->assign_func = assign_pre;
	VUNSETATTR(pre, att_exported);
	return true;
}

static int start_bash_hook(const char *const *args)
{
	if (!hook_start(args) || !bind_pre())
		return EXECUTION_FAILURE;
	arm_ps0();
	hook_show_alert();
	return EXECUTION_SUCCESS;
}

int _shfs_hook_builtin(WORD_LIST *list)
{
	const char *args[1 + HOOK_START_ARGS];
	int n = 0;

	for (; list && n < 1 + HOOK_START_ARGS; list = list->next)
		args[n++] = list->word->word;
	if (n == 1 + HOOK_START_ARGS && !list && !strcmp(args[0], "start"))
		return start_bash_hook(args + 1);
	builtin_usage();
	return EX_USAGE;
}

int _shfs_hook_builtin_load(char *name);
int _shfs_hook_builtin_load(char *name)
{
	if (rl_startup_hook != on_readline) {
		if (!is_of_another((void *)rl_startup_hook))
			reader.startup = rl_startup_hook;
		rl_startup_hook = on_readline;
	}
	if (rl_pre_input_hook != on_prompt) {
		if (!is_of_another((void *)rl_pre_input_hook))
			reader.pre_input = rl_pre_input_hook;
		rl_pre_input_hook = on_prompt;
	}
	return 1;
}

/* Ends the recording. Bash may still hold pointers to this code, so it is linked to stay
 * in memory (-z nodelete). */
void _shfs_hook_builtin_unload(char *name);
void _shfs_hook_builtin_unload(char *name)
{
	hook_stop();
	reader_detach();
	if (rl_startup_hook == on_readline)
		rl_startup_hook = reader.startup;
	if (rl_pre_input_hook == on_prompt)
		rl_pre_input_hook = reader.pre_input;
}

static char doc[] = "The hook of shfs; see shfs-init(1).";
static char *const long_doc[] = { doc, NULL };

struct builtin _shfs_hook_struct = {
	.name = (char[]){ "_shfs_hook" },
	.function = _shfs_hook_builtin,
	.flags = BUILTIN_ENABLED,
	.long_doc = long_doc,
	.short_doc = "_shfs_hook start " HOOK_START_WORDS,
};
