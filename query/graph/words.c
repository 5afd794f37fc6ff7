/* SPDX-License-Identifier: MIT */
/*
 * The words of a command's text that may name files outside, for what no process tells
 * of: what a shell itself wrote or read, and programs that used no recorded file at all.
 * Variables have the values that they have here; of a word with another one, only what
 * follows the last slash is known.
 */
#include "query/graph/internal.h"

#include "common/path.h"
#include "common/program.h"
#include "query/history/shell-text.h"

#include <errno.h>
#include <string.h>

#define BLANKS     " \t"
#define SEPARATORS "\n;|&()`"
#define UNKNOWN    "$*?["

/* Copies a word without its quotes: what follows it. */
static const char *read_word(const char *p, struct shfs_buf *out)
{
	char quote = 0;

	for (; *p && (quote || !strchr(BLANKS SEPARATORS "<>", *p)); p++) {
		if (*p == '\\' && quote != '\'' && p[1])
			shfs_buf_char(out, *++p);
		else if (quote ? *p == quote : *p == '\'' || *p == '"')
			quote = quote ? 0 : *p;
		else
			shfs_buf_char(out, *p);
	}
	return p;
}

/* Returns the value of what the word begins with, a variable or "~"; NULL: not known.
 * *rest: what follows. */
static const char *value_of(const char *word, const char **rest)
{
	static const char of_names[] = "abcdefghijklmnopqrstuvwxyz"
				       "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	bool in_braces = *word == '$' && word[1] == '{';
	const char *begin = word + 1 + in_braces;
	size_t len = *word == '$' ? strspn(begin, of_names) : 0;
	_cleanup_free_ char *name = strndup(begin, len);

	*rest = begin + len + in_braces;
	if (*word == '~')
		return **rest == '/' ? getenv("HOME") : NULL;
	return name && (!in_braces || begin[len] == '}') ? getenv(name) : NULL;
}

/* A text that is read. */
struct reading {
	const char *text;
	char *cwd, *outer; /* outer: that before a subshell; NULL: not known */
	bool in_subshell;
	struct shfs_buf program, word;
	shfs_word_fn fn;
	void *arg;
};

/* Gets the path of a word: NULL: not known. */
static int resolve_word(const struct reading *t, const char *word, char **out)
{
	const char *rest = word,
		   *value = strchr("~$", *word) ? value_of(word, &rest) : "";
	_cleanup_buf_ struct shfs_buf whole = { 0 };
	_cleanup_free_ char *joined = NULL;

	*out = NULL;
	if (!value || (*value && *value != '/') || strpbrk(rest, UNKNOWN))
		return 0;
	shfs_buf_printf(&whole, "%s%s", value, rest);
	if (whole.failed)
		return -ENOMEM;
	if (*whole.data != '/' && !t->cwd)
		return 0;
	joined = shfs_path_join(t->cwd ?: "/", whole.data);
	*out = joined ? shfs_path_absolute(joined) : NULL;
	return *out ? 0 : -ENOMEM;
}

/* Calls fn for a word: with the path, or with what is known of its end. */
static int call_for_word(const struct reading *t, enum word_role role)
{
	const char *word = t->word.data, *equals = strchr(word, '='), *base;
	_cleanup_free_ char *path = NULL;
	int r;

	if (equals && equals[1] && strchr("/~$", equals[1]))
		word = equals + 1;
	r = resolve_word(t, word, &path);
	if (r || path)
		return r ? r : t->fn(path, role, t->arg);
	base = strrchr(word, '/');
	base = base ? base + 1 : strchr("~$", *word) ? word : "";
	return t->fn(strpbrk(base, UNKNOWN) ? "" : base, role, t->arg);
}

/* Does a command follow the word? */
static bool is_before_command(const struct shfs_buf *word)
{
	static const char *const words[] = { "do",   "then", "else",    "{",
		                             "!",    "time", "command", "exec",
		                             "sudo", "env",  "if",      "while" };

	return strchr(word->data, '=') ||
	       shfs_program_is_one_of(word->data, word->len, words, ARRAY_SIZE(words));
}

static bool is_word(const struct shfs_buf *buf, const char *word)
{
	return buf->len && !strcmp(buf->data, word);
}

/* The word after "cd". */
static int change_directory(struct reading *t)
{
	char *to;
	int r = resolve_word(t, t->word.data, &to);

	if (r)
		return r;
	if (t->cwd != t->outer)
		free(t->cwd);
	t->cwd = to;
	return 0;
}

static void read_separator(struct reading *t, char c)
{
	if (!strchr(BLANKS, c))
		t->program.len = 0;
	if (c == '(' && !t->in_subshell) {
		t->in_subshell = true;
		t->outer = t->cwd;
	} else if (c == ')' && t->in_subshell) {
		t->in_subshell = false;
		if (t->cwd != t->outer)
			free(t->cwd);
		t->cwd = TAKE_PTR(t->outer);
	}
}

/* Does the program change, move or remove files that it is given? */
static bool changes_arguments(const char *text, const char *name, size_t len)
{
	static const char *const change[] = { "mv", "rm", "unlink", "truncate", "shred" };
	static const char *const in_place[] = { "sed", "perl" };

	return shfs_program_is_one_of(name, len, change, ARRAY_SIZE(change)) ||
	       (shfs_program_is_one_of(name, len, in_place, ARRAY_SIZE(in_place)) &&
	        (strstr(text, " -i") || strstr(text, " --in-place")));
}

/* last: the program gets no further word. */
static int read_argument(struct reading *t, bool last)
{
	enum word_role role = WORD_OTHER;
	struct shfs_buf *word = &t->word;

	if (*word->data == '-' && !strchr(word->data, '='))
		return 0;
	if (t->program.len) {
		if (is_word(&t->program, "cd") || is_word(&t->program, "pushd"))
			return change_directory(t);
		if (last && shfs_program_is_copier(t->program.data, t->program.len))
			role = WORD_WRITTEN;
		else if (changes_arguments(t->text, t->program.data, t->program.len))
			role |= WORD_CHANGED;
	} else if (!is_before_command(word)) {
		shfs_buf_str(&t->program, word->data);
	}
	return call_for_word(t, role);
}

static int read_text(struct reading *t, const char *text)
{
	int r = 0;

	for (const char *p = text; *p && !r; t->word.len = 0) {
		enum word_role role = 0;
		const char *next;

		if (strchr(BLANKS SEPARATORS, *p)) {
			read_separator(t, *p++);
			continue;
		}
		if (*p == '>')
			role = p[1] == '>' ? WORD_APPENDED : WORD_WRITTEN;
		else if (*p == '<')
			role = WORD_OTHER;
		if (role) {
			p += strspn(p, "<>|!&");
			p += strspn(p, BLANKS);
		}
		p = read_word(p, &t->word);
		next = p + strspn(p, BLANKS);
		if (t->word.failed)
			r = -ENOMEM;
		else if (role && t->word.len)
			r = call_for_word(t, role);
		else if (t->word.len)
			r = read_argument(t, !*next || strchr(SEPARATORS "<>", *next));
	}
	return r;
}

int shfs_graph_words(const struct shfs_command_row *c, shfs_word_fn fn, void *arg)
{
	struct reading t = { .text = c->text, .fn = fn, .arg = arg };
	int r;

	if (c->hidden || !c->text || !shfs_path_is_here(c->cwd))
		return 0;
	t.cwd = strdup(c->cwd);
	r = t.cwd ? read_text(&t, c->text) : -ENOMEM;
	if (t.in_subshell && t.outer != t.cwd)
		free(t.outer);
	free(t.cwd);
	shfs_buf_free(&t.program);
	shfs_buf_free(&t.word);
	return r;
}

/* --- of one path --- */

struct sought {
	const char *path, *base;
	enum word_role roles; /* that were found */
};

static int compare_word(const char *path, enum word_role role, void *arg)
{
	struct sought *s = arg;

	if (*path == '/' ? !strcmp(path, s->path) : !strcmp(path, s->base))
		s->roles |= role;
	else if (!*path && role == WORD_APPENDED)
		s->roles |= WORD_MAY_APPEND;
	return 0;
}

/* The programs of a text: whether they do more than look at their files. */
struct doing {
	const char *text;
	bool more_than_look, change;
};

static int classify_program(const struct shfs_word *word, void *arg)
{
	static const char *const look[] = {
		"cat",  "head", "tail", "less",  "more",      "wc",     "ls", "stat",
		"file", "cmp",  "grep", "diff",  "md5sum",    "test",   "[",  "echo",
		"cd",   "du",   "bat",  "zless", "sha256sum", "column", "nl",
	};
	struct doing *d = arg;

	if (!word->is_command)
		return 0;
	d->more_than_look |=
		!shfs_program_is_one_of(word->text, word->len, look, ARRAY_SIZE(look));
	d->change |= changes_arguments(d->text, word->text, word->len);
	return 0;
}

int shfs_graph_text_names(const struct shfs_command_row *c, const char *path,
                          enum word_role *roles)
{
	struct sought s = { path, strrchr(path, '/') + 1, 0 };
	struct doing d = { .text = c->text };
	int r = 0;

	if (c->text && (strstr(c->text, s.base) || strstr(c->text, ">>")))
		r = shfs_graph_words(c, compare_word, &s);
	if (!r && s.roles & WORD_OTHER) {
		r = shfs_text_words(c->text, classify_program, &d);
		if (!d.more_than_look)
			s.roles ^= WORD_OTHER;
		if (d.change)
			s.roles |= WORD_CHANGED;
	}
	*roles = s.roles;
	return r;
}
