/* SPDX-License-Identifier: MIT */
/*
 * shfs-zsh.c - the hook of zsh as a module: the functions of shfs.zsh, compiled.
 *
 *   _shfs_hook start DIR ALERT HOST BOOT PIDNS TTY … (HOOK_START_WORDS)
 *   _shfs_hook begin TEXT
 *   _shfs_hook end
 *
 * The functions of preexec and precmd only call begin and end (shfs.zsh). But calling a
 * function takes zsh longer than writing a record. So this module watches zsh look up its
 * hook functions: the look-up itself begins or ends the command, and finds no function.
 *
 * The records are described in store/journal/hooklog.h.
 *
 * zsh loads any module that has the right names. This one is built with the headers of
 * one zsh, whose structures it uses, and refuses all others.
 */
#include "shellhook/hook.h"
#include "shellhook/uses.h"

/* As in zsh's own modules, but without libcap, which one of them needs. */
#define MODULE
#define mod_import_function
#define mod_import_variable
#define mod_export
#include <zsh/config.h>
#undef HAVE_SYS_CAPABILITY_H
#include <zsh/zsh_system.h>

#include <zsh/zsh.h>

#include <zsh/hashtable.h>
#include <zsh/prototypes.h>
#include <zsh/sigcount.h>
#include <zsh/signals.h>
#include <zsh/version.h>
#include <zsh/ztype.h>
#ifndef CUSTOM_PATCHLEVEL
#include <zsh/patchlevel.h>
#define CUSTOM_PATCHLEVEL ZSH_PATCHLEVEL
#endif

#include <zsh/builtin.epro>
#include <zsh/exec.epro>
#include <zsh/glob.epro>
#include <zsh/hashtable.epro>
#include <zsh/hist.epro>
#include <zsh/init.epro>
#include <zsh/mem.epro>
#include <zsh/module.epro>
#include <zsh/options.epro>
#include <zsh/params.epro>
#include <zsh/pattern.epro>
#include <zsh/signals.epro>
#include <zsh/string.epro>
#include <zsh/text.epro>
#include <zsh/utils.epro>

#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* --- functions for hook.c --- */

const char shell_kind[] = "zsh";

/* The text without zsh's own escapes, on its heap. */
static char *plain(const char *s)
{
	return strchr(s, Meta) ? unmetafy(dupstring(s), NULL) : (char *)s;
}

const char *shell_get(const char *name)
{
	const char *value = getsparam((char *)name);

	return value ? plain(value) : NULL;
}

void shell_export(const char *name, const char *value)
{
	Param p = (Param)paramtab->getnode(paramtab, name);

	if (!p || (p->node.flags & PM_UNSET))
		p = assignsparam((char *)name, ztrdup(""), 0);
	if (!p || (p->node.flags & PM_READONLY))
		return;
	p->node.flags |= PM_EXPORTED;
	assignsparam((char *)name, ztrdup(value), 0);
}

/* The entries of these variables in the environment, changed in place: glibc's setenv
 * keeps every value that it ever got, and searches them. */
static struct mark {
	const char *name;
	char entry[sizeof("SHFS_COMMAND=") +
	           SHELL_MARK_MAX]; /* NAME=VALUE; at first empty */
	bool is_in_environment;
} marks[] = {
	[MARK_COMMAND] = { .name = "SHFS_COMMAND" },
	[MARK_ORIGIN] = { .name = "LC_SHFS" },
};

static void look_for_marks(void)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		char **e = environ;

		while (*e && *e != marks[i].entry)
			e++;
		marks[i].is_in_environment = *e;
	}
}

void shell_mark(enum shell_mark which, const char *value)
{
	struct mark *mark = &marks[which];
	Param p = (Param)paramtab->getnode(paramtab, mark->name);
	bool usual =
		p && PM_TYPE(p->node.flags) == PM_SCALAR &&
		(p->node.flags & (PM_EXPORTED | PM_READONLY | PM_UNSET)) == PM_EXPORTED;

	if (strlen(value) > SHELL_MARK_MAX)
		return;
	strcpy(mark->entry, mark->name);
	strcat(mark->entry, "=");
	strcat(mark->entry, value);
	if (usual && mark->is_in_environment) {
		p->gsu.s->setfn(p, ztrdup(value));
		return;
	}
	shell_export(mark->name, value);
	if (usual)
		mark->is_in_environment = !putenv(mark->entry);
}

/* False: a shell loads only one module, so no other hook begins commands. */
bool shell_is_executing(void)
{
	return false;
}

/* --- what words are: functions for uses.c --- */

/* zsh's own look-up of functions, which this module has put its own in the place of. */
static GetNodeFunc find_function;

/* The word with zsh's own escapes, on its heap. */
static char *escaped(const char *word)
{
	for (const char *p = word; *p; p++)
		if (*p & 0x80)
			return metafy((char *)word, -1, META_HEAPDUP);
	return (char *)word;
}

static Alias find_alias(HashTable aliases, const char *word)
{
	return (Alias)aliases->getnode(aliases, escaped(word));
}

static bool set_alias(Alias found, char kind, struct definition *out)
{
	const char *name = plain(found->node.nam);
	char *body = found->text;
	int len = strlen(body);

	if (strchr(body, Meta))
		body = unmetafy(dupstring(body), &len);
	*out = (struct definition){ kind, name, body, len, NULL };
	return true;
}

bool shell_find_alias(const char *word, bool is_command, struct definition *out)
{
	const char *dot = strrchr(word, '.');
	Alias found;

	if (!isset(ALIASESOPT))
		return false;
	found = find_alias(aliastab, word);
	if (found && (found->node.flags & ALIAS_GLOBAL))
		return set_alias(found, 'g', out);
	if (found && is_command)
		return set_alias(found, 'a', out);
	found = dot && dot > word && is_command ? find_alias(sufaliastab, dot + 1) : NULL;
	return found && set_alias(found, 's', out);
}

/* zsh exports no functions. */
bool shell_find_function(const char *word, bool only_exported, struct definition *out)
{
	Shfunc found =
		only_exported ? NULL : (Shfunc)find_function(shfunctab, escaped(word));

	if (!found)
		return false;
	*out = (struct definition){ .kind = 'f',
		                    .name = plain(found->node.nam),
		                    .shell = found };
	return true;
}

/* Adds a text of zsh without its escapes. */
static void add_zsh_text(struct text *t, char *s)
{
	int len;

	s = unmetafy(dupstring(s), &len);
	text_add(t, s, len);
}

/* zsh's code of a function is at most so many times as long as its text. */
#define CODE_FACTOR 16

/* A function that is not loaded yet has no body, and one with options of its own (emulate
 * -c) would not have them when it is defined again. */
void shell_load_function(struct definition *d, size_t max)
{
	static struct text body;
	Shfunc function = (Shfunc)d->shell;
	char *printed;

	if (!function->funcdef || (function->node.flags & PM_UNDEFINED) ||
	    function->sticky || (size_t)function->funcdef->len > CODE_FACTOR * max)
		return;
	text_clear(&body);
	add_zsh_text(&body, quotestring(function->node.nam, QT_BACKSLASH));
	text_add(&body, " () {\n\t", 7);
	printed = getpermtext(function->funcdef, NULL, 1);
	add_zsh_text(&body, printed);
	zsfree(printed);
	text_add(&body, "\n}", 2);
	if (function->redir) {
		printed = getpermtext(function->redir, NULL, 1);
		add_zsh_text(&body, printed);
		zsfree(printed);
	}
	if (body.failed || body.len > max)
		return;
	d->body = body.data;
	d->len = body.len;
}

bool shell_has_comments(void)
{
	return isset(INTERACTIVECOMMENTS);
}

const struct shell_option *shell_option(size_t i, bool *usual)
{
	static const struct {
		int number;
		bool usual;
		struct shell_option option;
	} options[] = {
		{ EXTENDEDGLOB, false, { "setopt extendedglob", "#^~(" } },
		{ KSHGLOB, false, { "setopt kshglob", "(" } },
		{ BAREGLOBQUAL, true, { "unsetopt bareglobqual", "(" } },
		{ GLOBDOTS, false, { "setopt globdots", "*?[" } },
		{ GLOBSTARSHORT, false, { "setopt globstarshort", "*" } },
		{ GLOBSUBST, false, { "setopt globsubst", "$" } },
		{ CASEGLOB, true, { "unsetopt caseglob", "*?[" } },
		{ NULLGLOB, false, { "setopt nullglob", "*?[" } },
		{ CSHNULLGLOB, false, { "setopt cshnullglob", "*?[" } },
		{ NOMATCH, true, { "unsetopt nomatch", "*?[" } },
		{ GLOBOPT, true, { "unsetopt glob", "*?[" } },
		{ NUMERICGLOBSORT, false, { "setopt numericglobsort", "*?[" } },
		{ MARKDIRS, false, { "setopt markdirs", "*?[" } },
		{ RCEXPANDPARAM, false, { "setopt rcexpandparam", "$" } },
		{ SHWORDSPLIT, false, { "setopt shwordsplit", "$" } },
		{ KSHARRAYS, false, { "setopt ksharrays", "$" } },
		{ BRACECCL, false, { "setopt braceccl", "{" } },
		{ IGNOREBRACES, false, { "setopt ignorebraces", "{" } },
		{ MAGICEQUALSUBST, false, { "setopt magicequalsubst", "=" } },
		{ RCQUOTES, false, { "setopt rcquotes", "'" } },
		{ MULTIOS, true, { "unsetopt multios", "<>" } },
		{ CLOBBER, true, { "unsetopt clobber", ">" } },
		{ PIPEFAIL, false, { "setopt pipefail", "|" } },
	};

	if (i == sizeof(options) / sizeof(*options))
		return NULL;
	*usual = isset(options[i].number) == options[i].usual;
	return &options[i].option;
}

/* --- the commands --- */

static int start_zsh_hook(char **args)
{
	const char *plain_args[HOOK_START_ARGS];

	for (int i = 0; i < HOOK_START_ARGS; i++)
		plain_args[i] = plain(args[i]);
	return !hook_start(plain_args);
}

static bool begins_with_blank(const char *text)
{
	mbstate_t state = { 0 };
	wchar_t first;
	size_t n;

	if (!(*text & 0x80)) /* the usual case */
		return *text == ' ' || *text == '\t';
	n = mbrtowc(&first, text, strlen(text), &state);
	return n && n < (size_t)-2 && iswblank(first);
}

/* Does HISTORY_IGNORE match? An invalid pattern matches nothing, as in zsh itself. */
static bool is_ignored(char *text)
{
	char *ignore = getsparam("HISTORY_IGNORE");
	Patprog pattern;

	if (!ignore || !*ignore)
		return false;
	ignore = dupstring(ignore);
	tokenize(ignore);
	remnulargs(ignore);
	pattern = patcompile(ignore, 0, NULL);
	return pattern && pattry(pattern, text);
}

/* text is empty if zsh was told to keep the line out of its history. */
static void begin_zsh_command(char *text)
{
	if (hook_is_disabled())
		return;
	hook_begin(plain(text),
	           !*text || begins_with_blank(plain(text)) || is_ignored(text));
}

/* Zsh calls this when it waits for the first key. */
static void at_prompt(void)
{
	deltimedfn(at_prompt);
	if (!hook_is_ours())
		return;
	look_for_marks();
	hook_at_prompt();
}

static void end_zsh_command(void)
{
	if (hook_is_running())
		hook_end((int)lastval);
	hook_show_alert();
	if (interact && isset(SHINSTDIN) && SHTTY != -1 && isset(USEZLE))
		addtimedfn(at_prompt, 0);
}

static void find_uses_and_begin(char *text)
{
	hook_find_uses(plain(text));
	begin_zsh_command(text);
}

static int run_subcommand(char *name, char **args)
{
	int n = arrlen(args);

	if (n == 1 + HOOK_START_ARGS && !strcmp(*args, "start"))
		return start_zsh_hook(args + 1);
	if (!hook_is_ours())
		return 0;
	if (n == 1 && !strcmp(*args, "end"))
		end_zsh_command();
	else if (n == 2 && !strcmp(*args, "begin"))
		find_uses_and_begin(args[1]);
	else
		zwarnnam(name, "start " HOOK_START_WORDS " | begin TEXT | end");
	return 0;
}

/* zsh's signal handlers call malloc, which must not interrupt a malloc of the hook. */
static int run_shfs_builtin(char *name, char **args, Options ops, int func)
{
	int r;

	queue_signals();
	r = run_subcommand(name, args);
	unqueue_signals();
	return r;
}

/* --- look-ups of functions by zsh --- */

/* The future $1 of preexec; other functions of preexec may change the history, and the
 * aliases that the line was read with. */
static struct text typed;

static void keep_typed(void)
{
	const char *line = "";

	if (hist_ring && curline.histnum == curhist)
		line = hist_ring->node.nam;
	text_clear(&typed);
	text_add(&typed, line, strlen(line) + 1);
	hook_find_uses(plain(line));
}

/* Does what the function of that name would do; true: it need not be called. */
static bool replace_hook_function(const char *name)
{
	if (!strcmp(name, "_shfs_preexec") && typed.len && hook_is_ours())
		begin_zsh_command(typed.data);
	else if (!strcmp(name, "_shfs_precmd") && hook_is_ours())
		end_zsh_command();
	else
		return false;
	return true;
}

/* In a hook, outside of functions that it called, only zsh itself looks up functions. */
static HashNode look_up_hook_function(HashTable functions, const char *name)
{
	HashNode found = find_function(functions, name);

	if (sfcontext != SFC_HOOK || locallevel)
		return found;
	queue_signals();
	if (!strcmp(name, "preexec") && hook_is_ours())
		keep_typed();
	else if (found && replace_hook_function(name))
		found = NULL;
	unqueue_signals();
	return found;
}

/* --- called by zsh --- */

static struct builtin builtins[] = {
	BUILTIN("_shfs_hook", 0, run_shfs_builtin, 1, 1 + HOOK_START_ARGS, 0, NULL, NULL),
};
static struct features features = { builtins, 1, NULL, 0, NULL, 0, NULL, 0, 0 };

static bool is(char *name, const char *value)
{
	const char *found = getsparam(name);

	return found && !strcmp(found, value);
}

int setup_(Module m)
{
	return !is("ZSH_VERSION", ZSH_VERSION) ||
	       !is("ZSH_PATCHLEVEL", CUSTOM_PATCHLEVEL);
}

int features_(Module m, char ***found)
{
	*found = featuresarray(m, &features);
	return 0;
}

int enables_(Module m, int **enables)
{
	return handlefeatures(m, &features, enables);
}

int boot_(Module m)
{
	if (shfunctab->getnode != look_up_hook_function)
		find_function = shfunctab->getnode;
	shfunctab->getnode = look_up_hook_function;
	return 0;
}

/* The module stays: the functions of the hook call it. */
int cleanup_(Module m)
{
	return 1;
}

int finish_(Module m)
{
	return 0;
}
