/* SPDX-License-Identifier: MIT */
#include "query/history/shell-text.h"

#include "common/quote.h"

#include <string.h>

#define DEPTH_MAX  32
#define BLANKS     " \t"
#define SEPARATORS "\n;|&(){}`"

static bool is_name_char(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z');
}

static bool is_one_of_words(const char *word, size_t len, const char *const *words)
{
	for (; *words; words++)
		if (strlen(*words) == len && !memcmp(word, *words, len))
			return true;
	return false;
}

/* --- variables --- */

/* Is it a variable that each shell sets by itself? */
static bool is_shell_variable(const char *name, size_t len)
{
	static const char *const names[] = {
		"HOME",       "PWD",          "RANDOM",       "SECONDS",       "LINENO",
		"UID",        "EUID",         "PPID",         "HOSTNAME",      "HOSTTYPE",
		"OSTYPE",     "IFS",          "MACHTYPE",     "SHLVL",         "PATH",
		"REPLY",      "PIPESTATUS",   "COLUMNS",      "LINES",         "OPTARG",
		"OPTIND",     "MAPFILE",      "FUNCNAME",     "GROUPS",        "status",
		"pipestatus", "argv",         "match",        "MATCH",         "BASHPID",
		"BASH",       "BASH_VERSION", "EPOCHSECONDS", "EPOCHREALTIME", "USER",
		"CPUTYPE",    NULL,
	};

	return is_one_of_words(name, len, names);
}

/* Does the command of this word set the variables that follow it? */
static bool is_behind_setter(const char *text, const char *word)
{
	static const char *const setters[] = {
		"for",     "select",  "read",  "mapfile", "readarray",
		"getopts", "printf",  "set",   "let",     "declare",
		"local",   "typeset", "vared", "foreach", NULL,
	};
	const char *begin = word;

	while (begin > text && !strchr(SEPARATORS, begin[-1]))
		begin--;
	while (begin < word) {
		size_t len = strcspn(begin, BLANKS);

		if (is_one_of_words(begin, MIN(len, (size_t)(word - begin)), setters))
			return true;
		begin += len;
		begin += strspn(begin, BLANKS);
	}
	return false;
}

static bool is_assigned(const char *text, const char *name, size_t len)
{
	_cleanup_free_ char *word = strndup(name, len);

	for (const char *p = text; word && (p = strstr(p, word)); p++) {
		const char *behind = p + len;

		if ((p > text && (is_name_char(p[-1]) || strchr("${-", p[-1]))) ||
		    is_name_char(*behind))
			continue;
		if (*behind == '=' || *behind == '[' || !strncmp(behind, "+=", 2) ||
		    is_behind_setter(text, p))
			return true;
	}
	return false;
}

static bool is_known_variable(const char *text, const char *name, size_t len)
{
	_cleanup_free_ char *variable = strndup(name, len);

	if (len == strlen("OLDPWD") && !memcmp(name, "OLDPWD", len))
		return false;
	return is_shell_variable(name, len) || (variable && getenv(variable)) ||
	       is_assigned(text, name, len);
}

/* Skips what begins at p and has no special meaning; returns where the shell would go
 * on. */
static const char *skip_quoted(const char *p, bool in_double)
{
	bool escapes = p[0] == '$';
	const char *end;

	if (*p == '\\')
		return p + (p[1] ? 2 : 1);
	if (in_double)
		return p + 1;
	for (end = p + 1 + escapes; *end && *end != '\''; end++)
		if (escapes && *end == '\\' && end[1])
			end++;
	return end + (*end != 0);
}

/* The end of the name after the "$" or "${" at p, and *name; or NULL. */
static const char *variable_at(const char *p, const char **name)
{
	bool braces = p[1] == '{';
	const char *end;

	p += 1 + braces;
	if (braces)
		p += strspn(p, "#!");
	for (end = p; is_name_char(*end); end++)
		;
	if (end == p || (*p >= '0' && *p <= '9'))
		return NULL;
	/* "${name:-value}" and the like have a value without the variable */
	if (braces && (strchr("-=+?", *end) || (*end == ':' && strchr("-=+?", end[1]))))
		return NULL;
	*name = p;
	return end;
}

/* The state of quotes; within "$(…)" they begin anew. */
struct quotes {
	bool in_double, outer[DEPTH_MAX];
	size_t depth;
};

static void quotes_step(struct quotes *q, const char *p, const char *text)
{
	if (*p == '"') {
		q->in_double = !q->in_double;
	} else if (*p == '(' && q->depth < DEPTH_MAX &&
	           (!q->in_double || (p > text && p[-1] == '$'))) {
		q->outer[q->depth++] = q->in_double;
		q->in_double = false;
	} else if (*p == ')' && q->depth && !q->in_double) {
		q->in_double = q->outer[--q->depth];
	}
}

static bool is_literal_document(const char *p, const char *text)
{
	if (strncmp(p, "<<", 2) != 0 || p[2] == '<' || (p > text && p[-1] == '<'))
		return false;
	p += 2;
	p += strspn(p, "-" BLANKS);
	return *p && strchr("'\"\\", *p);
}

/* The first variable without a value here; or NULL. */
static const char *unknown_variable(const char *text, size_t *len)
{
	struct quotes q = { 0 };
	const char *name, *end;

	for (const char *p = text; *p; p++) {
		if (*p == '\\' || *p == '\'' || (*p == '$' && p[1] == '\'')) {
			p = skip_quoted(p, q.in_double) - 1;
			continue;
		}
		if (!q.in_double && is_literal_document(p, text))
			return NULL;
		if (!q.in_double && *p == '#' && (p == text || strchr(" \t\n;", p[-1]))) {
			p += strcspn(p, "\n");
			if (!*p)
				return NULL;
		}
		quotes_step(&q, p, text);
		if (*p != '$' || !(end = variable_at(p, &name)))
			continue;
		*len = end - name;
		if (!is_known_variable(text, name, *len))
			return name;
		p = end - 1;
	}
	return NULL;
}

/* --- jobs, and the terminal --- */

/* What the command at text needs of its shell. */
static const char *needs_here(const char *text, bool has_input)
{
	static const char *const state[] = { "fg",   "bg",     "popd",    "dirs", "fc",
		                             "jobs", "disown", "history", NULL };
	static const char *const prompts[] = { "python",  "python3", "R",    "julia",
		                               "octave",  "ghci",    "node", "irb",
		                               "ipython", "sqlite3", "psql", "mysql",
		                               "bash",    "zsh",     "fish", "sh",
		                               "bc",      "cat",     NULL };
	const char *word = text + strspn(text, BLANKS), *next;
	size_t len = strcspn(word, BLANKS SEPARATORS "<>");

	next = word + len + strspn(word + len, BLANKS);
	if (is_one_of_words(word, len, state))
		return "uses what the shell remembers";
	if (len == 2 && !memcmp(word, "cd", 2) && next[0] == '-' &&
	    (!next[1] || strchr(BLANKS SEPARATORS, next[1])))
		return "goes to where the shell was before";
	if (has_input)
		return NULL;
	if (len == 4 && !memcmp(word, "read", 4))
		return "reads from the terminal";
	if (is_one_of_words(word, len, prompts) &&
	    (!*next || strchr(SEPARATORS ">", *next)))
		return "reads from the terminal";
	return NULL;
}

bool shfs_text_needs_shell(const char *text, struct shfs_buf *what)
{
	bool has_input = strpbrk(text, "<|");
	const char *name, *found = NULL;
	size_t len;

	for (const char *p = text; p && !found;
	     p = strpbrk(p, SEPARATORS), p += p != NULL)
		found = needs_here(p, has_input);
	if (found) {
		shfs_buf_str(what, found);
		return true;
	}
	name = unknown_variable(text, &len);
	if (!name)
		return false;
	shfs_buf_str(what, "uses the variable ");
	shfs_quote_display(what, name, len);
	return true;
}

/* --- words --- */

struct words {
	const char *p;
	bool is_command; /* the next word is a command */
	bool ended;      /* the rest is not understood */
};

static const char *skip_part(const char *p, bool in_double, unsigned depth);

/* Skips a group, from its opening quote, parenthesis or brace to behind its end. */
static const char *skip_group(const char *p, char close, unsigned depth)
{
	for (p++; *p && *p != close; p = skip_part(p, close == '"', depth))
		;
	return p + (*p != 0);
}

/* Skips one character, or a unit in its place: a quoted text, "$(…)". */
static const char *skip_part(const char *p, bool in_double, unsigned depth)
{
	if (*p == '\\' || (!in_double && (*p == '\'' || !strncmp(p, "$'", 2))))
		return skip_quoted(p, in_double);
	if (depth >= DEPTH_MAX)
		return p + 1;
	if (*p == '$' && (p[1] == '(' || p[1] == '{'))
		return skip_group(p + 1, p[1] == '(' ? ')' : '}', depth + 1);
	if (*p == '(' && !in_double)
		return skip_group(p, ')', depth + 1);
	if (*p == '`' || (*p == '"' && !in_double))
		return skip_group(p, *p, depth + 1);
	return p + 1;
}

static bool is_plain_word(const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!is_name_char(word[i]) && !strchr("/._-+:@,%", word[i]))
			return false;
	return len && word[0] != '-' && word[0] != '%';
}

static bool is_shell_assignment(const char *word, size_t len)
{
	size_t n = 0;

	while (n < len && is_name_char(word[n]))
		n++;
	return n && n < len && strchr("=[+", word[n]) && memchr(word, '=', len);
}

static size_t redirection(const char *p)
{
	size_t digits = strspn(p, "0123456789"), n = digits;

	if (p[n] == '&' && p[n + 1] == '>')
		n++;
	if (p[n] != '<' && p[n] != '>')
		return 0;
	n += strspn(p + n, "<>|&");
	return p[n] == '(' ? 0 : n + strspn(p + n, BLANKS);
}

static bool is_document(const char *p)
{
	p += strspn(p, "0123456789");
	return !strncmp(p, "<<", 2) && p[2] != '<';
}

/* Handles shell keywords. False: it is an ordinary word. */
static bool take_keyword(struct words *w, const char *word, size_t len)
{
	static const char *const before[] = { "if",    "then",  "elif", "else", "do",
		                              "while", "until", "!",    "{",    "time",
		                              "begin", "and",   "or",   "not",  NULL };
	static const char *const after[] = {
		"}", "fi", "done", "esac", "end", "for", NULL
	};
	static const char *const others[] = { "case",   "select", "function", "foreach",
		                              "repeat", "switch", "coproc",   "alias",
		                              "[[",     NULL };

	if (is_one_of_words(word, len, before) || is_shell_assignment(word, len))
		return true;
	if (is_one_of_words(word, len, after)) {
		w->is_command = false;
		return true;
	}
	w->ended = is_one_of_words(word, len, others);
	return w->ended;
}

static int take_shell_word(struct words *w,
                           int (*fn)(const struct shfs_word *word, void *arg), void *arg)
{
	struct shfs_word word = { .text = w->p, .is_command = w->is_command };

	while (*w->p && !strchr(BLANKS "\n;|&<>)", *w->p))
		w->p = skip_part(w->p, false, 0);
	word.len = w->p - word.text;
	if (w->is_command && !is_shell_assignment(word.text, word.len) &&
	    (w->p[-1] == ')' || w->p[strspn(w->p, BLANKS)] == '('))
		w->ended = true; /* a function */
	if (w->ended || (w->is_command && take_keyword(w, word.text, word.len)))
		return 0;
	w->is_command = false;
	return is_plain_word(word.text, word.len) ? fn(&word, arg) : 0;
}

int shfs_text_words(const char *text, int (*fn)(const struct shfs_word *word, void *arg),
                    void *arg)
{
	struct words w = { .p = text, .is_command = true };
	int r = 0;

	while (*w.p && !r && !w.ended && strncmp(w.p, "((", 2) != 0) {
		size_t n = redirection(w.p);

		if (n) {
			if (is_document(w.p))
				return 0;
			for (w.p += n; *w.p && !strchr(BLANKS "\n;|&<>()", *w.p);)
				w.p = skip_part(w.p, false, 0);
		} else if (*w.p == '#') {
			w.p += strcspn(w.p, "\n");
		} else if (strchr("\n;|&(<>", *w.p)) {
			w.is_command = true;
			w.p++;
		} else if (strchr(BLANKS ")", *w.p)) {
			w.is_command &= *w.p != ')';
			w.p++;
		} else {
			r = take_shell_word(&w, fn, arg);
		}
	}
	return r;
}

struct shfs_bytes shfs_word_base(const char *word, size_t len)
{
	const char *slash = memrchr(word, '/', len), *base = slash ? slash + 1 : word;

	return (struct shfs_bytes){ base, (size_t)(word + len - base) };
}

bool shfs_text_is_pipeline(const char *text)
{
	const char *p = text + strspn(text, BLANKS);

	if (*p == '!' || *p == '{' || !*p)
		return false;
	while (*p) {
		size_t n = redirection(p);

		if (n)
			p += n;
		else if (strchr("<>", *p)) /* "<(…)" */
			p = skip_part(p + 1, false, 0);
		else if (*p == '#' && strchr(BLANKS, p[-1]))
			return !strchr(p, '\n');
		else if (strchr("\n;&(", *p) || !strncmp(p, "||", 2))
			return false;
		else
			p = skip_part(p, false, 0);
	}
	return true;
}

void shfs_text_show_unknown(struct shfs_buf *out, const char *word, size_t len)
{
	shfs_buf_str(out, "runs ");
	shfs_quote_display(out, word, len);
	shfs_buf_str(out, ", which is no program: an alias or a function of its shell is "
	                  "not recorded");
}
