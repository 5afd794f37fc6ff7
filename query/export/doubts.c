/* SPDX-License-Identifier: MIT */
/* Finds reasons why commands may not do elsewhere what they did: words that only their
 * shell knew, files that are not recorded. */
#include "query/export/export.h"

#include "common/path.h"
#include "query/history/shell-text.h"
#include "query/rerun/runner.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct doubt {
	struct shfs_workflow *wf;
	bool in_place;
	const struct shfs_step *step;
	struct shfs_buf why; /* the first reason, for a comment behind the command */
};

/* Builtins of bash, zsh and fish: export runs no program that could list them. */
static const char *const builtins[] = {
	".",        ":",          "[",        "abbr",     "alias",     "argparse",
	"autoload", "bg",         "bind",     "bindkey",  "break",     "builtin",
	"caller",   "cd",         "chdir",    "command",  "compgen",   "complete",
	"compopt",  "contains",   "continue", "count",    "declare",   "dirs",
	"disown",   "echo",       "emit",     "emulate",  "enable",    "eval",
	"exec",     "exit",       "export",   "false",    "fc",        "fg",
	"float",    "functions",  "getopts",  "hash",     "help",      "history",
	"integer",  "jobs",       "kill",     "let",      "local",     "logout",
	"mapfile",  "math",       "noglob",   "path",     "popd",      "print",
	"printf",   "pushd",      "pwd",      "read",     "readarray", "readonly",
	"rehash",   "return",     "set",      "setopt",   "shift",     "shopt",
	"source",   "status",     "string",   "suspend",  "test",      "times",
	"trap",     "true",       "type",     "typeset",  "ulimit",    "umask",
	"unalias",  "unfunction", "unset",    "unsetopt", "wait",      "whence",
	"where",    "which",      "zmodload",
};

static bool is_builtin(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(builtins); i++)
		if (!strcmp(builtins[i], name))
			return true;
	return false;
}

static int doubt_program(struct doubt *d, const char *name)
{
	int r;

	if (strchr(name, '/') || is_builtin(name) || shfs_runner_has_program(name) ||
	    shfs_definitions_has(&d->step->script.definitions, name, strlen(name)))
		return 0;
	r = shfs_command_executed(d->wf->index, d->step->entry->command.command_id, name,
	                          strlen(name));
	if (!r)
		shfs_text_show_unknown(&d->why, name, strlen(name));
	return MIN(r, 0);
}

/* Finds the first link on the way to path, below the base. */
static bool find_link(const char *base, char *path)
{
	for (char *p = path + strlen(base) + 1;; *p++ = '/') {
		struct stat st;

		p += strcspn(p, "/");
		if (*p) {
			*p = '\0';
			if (!lstat(path, &st) && S_ISLNK(st.st_mode))
				return true;
			continue;
		}
		return !lstat(path, &st) && S_ISLNK(st.st_mode);
	}
}

static int doubt_file(struct doubt *d, const char *name)
{
	_cleanup_free_ char *joined = shfs_path_join(d->step->entry->command.cwd, name);
	_cleanup_free_ char *path = joined ? shfs_path_absolute(joined) : NULL;
	const char *base = d->wf->base;
	struct stat st;

	if (!path)
		return -ENOMEM;
	if (!shfs_path_is_here(d->step->entry->command.cwd))
		return 0; /* nothing can be looked at there */
	if (*name == '/' || shfs_path_is_below(base, path))
		return 0; /* a directory above the base is only gone to */
	if (!shfs_path_is_below(path, base)) {
		if (lstat(path, &st))
			return 0;
		shfs_buf_str(&d->why, "uses ");
		shfs_show_path(&d->why, path);
		shfs_buf_str(&d->why, ", which is not recorded");
	} else if (strlen(base) > 1 && find_link(base, path)) {
		shfs_buf_str(&d->why, "uses ");
		shfs_show_path(&d->why, path);
		shfs_buf_str(&d->why, ", a symbolic link: it is not taken along");
	}
	return 0;
}

static int doubt_word(const struct shfs_word *word, void *arg)
{
	_cleanup_free_ char *name = strndup(word->text, word->len);
	struct doubt *d = arg;
	int r = 0;

	if (!name)
		return -ENOMEM;
	if (word->is_command)
		r = doubt_program(d, name);
	if (!r && !d->why.len)
		r = doubt_file(d, name);
	return r ?: d->why.len != 0;
}

/* Checks files of "< FILE", which is no word of a command. */
static int doubt_inputs(struct doubt *d, const char *text)
{
	int r = 0;

	for (const char *p = text; !r && !d->why.len && (p = strchr(p, '<'));) {
		_cleanup_free_ char *name = NULL;
		size_t len;

		p++;
		if (*p == '<' || *p == '(' || *p == '&') {
			p += strspn(p, "<");
			continue;
		}
		p += strspn(p, " \t");
		len = strcspn(p, " \t\n;|&<>()'\"$`\\");
		name = strndup(p, len);
		r = !name ? -ENOMEM : len ? doubt_file(d, name) : 0;
	}
	return r;
}

/* Checks for what other commands left outside. */
static void doubt_by_way(struct doubt *d)
{
	for (size_t i = 0; i < d->step->n_by_way && !d->why.len; i++) {
		if (d->step->by_way[i].left_by)
			continue;
		shfs_buf_str(&d->why, "uses ");
		shfs_show_path(&d->why, d->step->by_way[i].path);
		shfs_buf_str(&d->why,
		             ", which another command left, and which is not recorded");
	}
}

/* Does the word lead out of the base, as "../kept"? 1, 0, or a negative errno. */
static int leads_out(const struct doubt *d, const char *cwd, const char *word, size_t len)
{
	_cleanup_free_ char *name = strndup(word, len), *joined = NULL, *path = NULL;

	if (!name)
		return -ENOMEM;
	if (*name == '/' || !strstr(name, ".."))
		return 0;
	joined = shfs_path_join(cwd, name);
	path = joined ? shfs_path_absolute(joined) : NULL;
	return path ? !shfs_path_is_below(path, d->wf->base) : -ENOMEM;
}

/* May the command of the step mean another file by the name of this one outside, where it
 * runs apart? 1, 0, or a negative errno. */
static int may_mean_another(const struct doubt *d, const struct shfs_step *step,
                            const char *path)
{
	static const char ends[] = " \t\n'\"=<>();&|";
	const char *text = step->script.text.data ?: "", *own = getenv("TMPDIR");
	int r = strstr(text, "TMPDIR") &&
	        !shfs_path_is_below(path, own && *own ? own : "/tmp");

	for (const char *p = text; *p && !r;) {
		size_t len = strcspn(p, ends);

		r = leads_out(d, step->entry->command.cwd, p, len);
		p += len + (p[len] != 0);
	}
	return r;
}

/* Checks for what others left by a name that means another file where each step runs
 * apart. */
static int doubt_names_apart(struct doubt *d)
{
	int r = 0;

	for (size_t i = 0; i < d->step->n_by_way && !d->why.len && r >= 0; i++) {
		const struct shfs_by_way *way = &d->step->by_way[i];

		if (!way->left_by)
			continue;
		r = may_mean_another(d, d->step, way->path)
		            ?: may_mean_another(d, way->left_by, way->path);
		if (r <= 0)
			continue;
		shfs_buf_str(&d->why, "uses ");
		shfs_show_path(&d->why, way->path);
		shfs_buf_str(&d->why, ", which another command left, and one of them "
		                      "may find another file of that name");
	}
	return MIN(r, 0);
}

/* 1: there are doubts, and they were printed. */
static int doubt_step(struct doubt *d)
{
	const char *text = d->step->entry->command.text;
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int r = 0;

	if (!shfs_text_needs_shell(text, &d->why) &&
	    !shfs_definitions_lack(&d->step->script.definitions, text, &d->why))
		r = shfs_text_words(text, doubt_word, d);
	if (r >= 0 && !d->why.len)
		r = doubt_inputs(d, text);
	if (r >= 0 && !d->why.len)
		doubt_by_way(d);
	if (r >= 0 && !d->why.len && !d->in_place)
		r = doubt_names_apart(d);
	if (r < 0 || !d->why.len)
		return MIN(r, 0);
	shfs_step_show(&shown, d->wf, d->step);
	shfs_warn("%s %s", shown.data ?: "", d->why.data ?: "");
	return 1;
}

int shfs_export_doubts(struct shfs_workflow *wf, bool in_place)
{
	bool any = false;

	for (size_t i = 0; i < wf->n_steps; i++) {
		struct doubt d = { .wf = wf, .in_place = in_place, .step = wf->steps[i] };
		int r = d.step->entry ? doubt_step(&d) : 0;

		shfs_buf_free(&d.why);
		if (r < 0)
			return r;
		any |= r > 0;
	}
	return any;
}

/* --- what is written outside --- */

#define SHOWN_MAX 3

static bool is_temporary(const char *path)
{
	const char *own = getenv("TMPDIR");
	const char *const dirs[] = { "/tmp", "/var/tmp", "/dev/shm",
		                     own && *own == '/' ? own : "/tmp" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (shfs_path_is_below(path, dirs[i]))
			return true;
	return false;
}

static int list_leaves(const struct shfs_workflow *wf, struct shfs_names *all)
{
	int r = 0;

	for (size_t i = 0; i < wf->n_steps && !r; i++)
		for (size_t k = 0; k < wf->steps[i]->leaves.n && !r; k++)
			r = shfs_workflow_add_name(all, wf->steps[i]->leaves.list[k]);
	return r;
}

int shfs_export_say_outside(struct shfs_workflow *wf, bool verify, bool *elsewhere)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct shfs_names all = { 0 };
	int r = list_leaves(wf, &all);

	for (size_t i = 0; i < all.n; i++) {
		*elsewhere |= !is_temporary(all.list[i]);
		if (i >= SHOWN_MAX)
			continue;
		shfs_buf_str(&shown, !i ? "" : i + 1 < all.n ? ", " : " and ");
		shfs_show_path(&shown, all.list[i]);
	}
	if (all.n > SHOWN_MAX)
		shfs_buf_printf(&shown, " and %zu more", all.n - SHOWN_MAX);
	if (!r && all.n && verify) {
		shfs_error("cannot verify: it would write %s, outside of the directory "
		           "in which it runs",
		           shown.data ?: "");
		shfs_hint("without --verify it is written; run it where %s may be "
		          "overwritten",
		          all.n == 1 ? "this file" : "these files");
		r = SHFS_EXIT_REFUSED;
	} else if (!r && all.n) {
		shfs_warn("it writes %s, outside of the directory in which it runs",
		          shown.data ?: "");
	}
	shfs_names_clear(&all);
	return r;
}
