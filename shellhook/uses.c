/* SPDX-License-Identifier: MIT */
#include "shellhook/uses.h"

#include <string.h>

#define BLANKS        " \t"
#define SEPARATORS    "\n;|&()"
#define WORD_ENDS     BLANKS SEPARATORS "<>"
#define NAME_BYTES    256
#define DEPTH_MAX     16 /* of texts in texts, and of definitions in definitions */
#define QUOTES_MAX    4  /* of quoted texts that may be commands */
#define DOCS_MAX      8  /* of one line */
#define OPTIONS_BYTES 1024
#define DIGITS        "0123456789"
#define NAME_CHARS                                                                       \
	"_" DIGITS "abcdefghijklmnopqrstuvwxyz"                                          \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Words are looked up as this. */
enum mode {
	EXPORTED,  /* a quoted text: bash -c 'f x' */
	FUNCTIONS, /* the body of a function: aliases are replaced when it is defined */
	ALL,
};

/* A text that is looked through. */
struct scan {
	struct uses *uses;
	const char *p, *end;
	enum mode mode;
	unsigned depth;
	bool is_command; /* the next word is a command */
	bool is_target;  /* the next word is that of a redirection */
	bool evaluates;  /* the words up to the next separator are a text of commands */
	struct document {
		char end[64]; /* its last line */
		bool quoted, tabs;
	} docs[DOCS_MAX]; /* that begin with the next line */
	size_t n_docs;
	bool is_doc; /* the next word is the last line of a document */
	bool doc_tabs;
	/* the word that is being read */
	char name[NAME_BYTES];
	size_t len;
	bool plain;  /* name is all of it */
	bool quoted; /* it has quotes: no alias */
};

static void scan_text(const struct scan *outer, const char *p, const char *end,
                      enum mode mode);

/* --- definitions --- */

static bool is_noted(const struct uses *uses, char kind, const char *name)
{
	for (size_t i = 0; i < uses->n; i++) {
		const char *raw = uses->raw + uses->list[i].at;

		if (*raw == kind && !strcmp(raw + 1, name))
			return true;
	}
	return false;
}

static void add_raw(struct uses *uses, const char *data, size_t len)
{
	memcpy(uses->raw + uses->len, data, len);
	uses->len += len;
}

/* Notes a definition. Returns its body; NULL: it was noted before, or there is none. */
static const char *note(struct uses *uses, const struct definition *d)
{
	size_t len = strlen(d->name) + 1, left = USES_BYTES - uses->len;
	struct use *use = &uses->list[uses->n];
	const char *body;

	if (is_noted(uses, d->kind, d->name))
		return NULL;
	if (uses->n == USES_MAX || left < 1 + len + 1) {
		uses->more = true;
		return NULL;
	}
	use->at = uses->len;
	use->whole =
		d->body && !memchr(d->body, '\0', d->len) && d->len <= left - 1 - len - 1;
	add_raw(uses, &d->kind, 1);
	add_raw(uses, d->name, len);
	body = uses->raw + uses->len;
	if (use->whole)
		add_raw(uses, d->body, d->len);
	add_raw(uses, "", 1);
	use->len = uses->len - use->at;
	uses->n++;
	return use->whole ? body : NULL;
}

/* True: it is an alias that ends in a blank, so the next word may be one, too. */
static bool look_up_alias(struct scan *s, const char *word, bool is_command)
{
	struct definition d;
	bool ends_in_blank;
	const char *body;

	if (s->mode != ALL || s->quoted || !shell_find_alias(word, is_command, &d))
		return false;
	ends_in_blank = d.len && strchr(BLANKS, d.body[d.len - 1]);
	body = note(s->uses, &d);
	if (body)
		scan_text(s, body, body + d.len, ALL);
	return ends_in_blank;
}

static void look_up_function(struct scan *s, const char *word, bool is_command)
{
	struct definition d;
	const char *body;

	if (!shell_find_function(word, !is_command || s->mode == EXPORTED, &d) ||
	    is_noted(s->uses, d.kind, d.name))
		return;
	shell_load_function(&d, USES_BYTES - s->uses->len);
	body = note(s->uses, &d);
	if (body)
		scan_text(s, body, body + d.len, FUNCTIONS);
}

/* --- words --- */

static bool is_one_of(const char *word, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(*words, word))
			return true;
	return false;
}

static const char *skip_part(const char *p, const char *end, bool in_double);

/* Skips a group from its opening sign to behind the closing one. */
static const char *skip_group(const char *p, const char *end, char close)
{
	for (p++; p < end && *p != close; p = skip_part(p, end, close == '"'))
		;
	return p < end ? p + 1 : end;
}

static const char *skip_single(const char *p, const char *end)
{
	bool escapes = *p == '$';

	for (p += 1 + escapes; p < end && *p != '\''; p++)
		if (escapes && *p == '\\' && p + 1 < end)
			p++;
	return p < end ? p + 1 : end;
}

static bool is_at(const char *p, const char *end, const char *sign)
{
	size_t len = strlen(sign);

	return (size_t)(end - p) >= len && !memcmp(p, sign, len);
}

/* Skips one character, or what stands in its place: a quoted text, "$(…)". In a group of
 * groups that never ends, this takes no longer than its length times DEPTH_MAX. */
static const char *skip_part(const char *p, const char *end, bool in_double)
{
	static unsigned depth;
	const char *behind = p + 1;

	if (*p == '\\')
		return p + 1 < end ? p + 2 : end;
	if (!in_double && (*p == '\'' || is_at(p, end, "$'")))
		return skip_single(p, end);
	if (depth >= DEPTH_MAX)
		return behind;
	depth++;
	if (is_at(p, end, "$(") || is_at(p, end, "${"))
		behind = skip_group(p + 1, end, p[1] == '(' ? ')' : '}');
	else if (*p == '`' || (*p == '"' && !in_double))
		behind = skip_group(p, end, *p);
	else if (*p == '(' && !in_double)
		behind = skip_group(p, end, ')');
	depth--;
	return behind;
}

/* Is it "((…))", and no groups? *inner_end: where the inner "(…)" ends. */
static bool is_arithmetic(const char *p, const char *end, const char **inner_end)
{
	if (!is_at(p, end, "(("))
		return false;
	*inner_end = skip_group(p + 1, end, ')');
	return *inner_end < end && **inner_end == ')';
}

/* Looks through what is quoted: commands, if their command is given a text of them. */
static void scan_quoted(struct scan *s, const char *p, const char *end)
{
	if (s->evaluates && s->depth < DEPTH_MAX / 2)
		scan_text(s, p, end, s->mode);
	else if (s->depth < QUOTES_MAX)
		scan_text(s, p, end, EXPORTED);
}

static void add_char(struct scan *s, char c)
{
	if (s->len + 1 < NAME_BYTES)
		s->name[s->len++] = c;
	else
		s->plain = false;
}

static void take_part(struct scan *s, bool in_double);

/* Looks through an expression, in which only substitutions are commands. */
static void scan_arithmetic(const struct scan *outer, const char *p, const char *end)
{
	struct scan s = *outer;

	s.p = p;
	s.end = end;
	if (++s.depth > DEPTH_MAX)
		s.uses->more = true;
	else
		while (s.p < end)
			take_part(&s, true);
}

static void take_double(struct scan *s)
{
	const char *begin = ++s->p;

	while (s->p < s->end && *s->p != '"')
		take_part(s, true);
	scan_quoted(s, begin, s->p);
	s->p += s->p < s->end;
}

static void take_single(struct scan *s)
{
	const char *behind = skip_single(s->p, s->end);

	for (const char *p = s->p + 1; p + 1 < behind; p++)
		add_char(s, *p);
	if (behind - s->p > 2)
		scan_quoted(s, s->p + 1, behind - 1);
	s->plain &= *s->p != '$';
	s->p = behind;
}

/* Takes one character of a word, or what stands in its place. */
static void take_part(struct scan *s, bool in_double)
{
	const char *p = s->p, *behind = skip_part(p, s->end, in_double), *inner_end;

	s->quoted |= strchr("\\'\"", *p) != NULL;
	if (*p == '\\' && p + 1 < s->end) {
		add_char(s, p[1]);
	} else if (!in_double && (*p == '\'' || is_at(p, s->end, "$'"))) {
		take_single(s);
		return;
	} else if (!in_double && *p == '"') {
		take_double(s);
		return;
	} else if (*p == '$' || *p == '`') {
		s->plain = false;
		if (*p == '$' && is_arithmetic(p + 1, behind, &inner_end))
			scan_arithmetic(s, p + 3, inner_end - 1);
		else if (behind - p > 2)
			scan_text(s, p + 1 + (*p == '$'), behind - 1, s->mode);
	} else {
		add_char(s, *p);
	}
	s->p = behind;
}

static bool is_assignment(const char *word, const char *end)
{
	const char *p = word;

	while (p < end && strchr(NAME_CHARS, *p))
		p++;
	return p > word && p < end && strchr("=[+", *p) && memchr(p, '=', end - p);
}

/* "{ls}" is a group of zsh. */
static void trim_braces(struct scan *s)
{
	if (s->len > 1 && s->name[s->len - 1] == '}')
		s->len--;
	s->name[s->len] = '\0';
	if (s->len > 1 && s->name[0] == '{')
		memmove(s->name, s->name + 1, s->len--);
}

/* Looks a word up that is read, and decides whether the next one is a command. */
static void end_word(struct scan *s, const char *begin)
{
	static const char *const goes_on[] = {
		"if",     "then",    "elif",    "else", "do",   "while",  "until",
		"!",      "{",       "}",       "time", "-p",   "coproc", "fi",
		"done",   "esac",    "repeat",  "-",    "exec", "noglob", "nocorrect",
		"always", "command", "builtin", "[[",   NULL,
	};
	static const char *const names[] = { "for", "select", "foreach", "case", NULL };
	static const char *const evals[] = { "eval", "trap", NULL };
	bool is_command = s->is_command || s->evaluates, next = false;

	trim_braces(s);
	if (s->is_command && is_assignment(begin, s->p))
		return;
	if (!s->plain || !s->len) {
		s->is_command = false;
		return;
	}
	if (is_one_of(s->name, goes_on)) {
		next = is_command || s->len == 1 || !strcmp(s->name, "do");
	} else if (s->is_command && is_one_of(s->name, names)) {
		s->is_command = false;
		return;
	}
	next |= look_up_alias(s, s->name, is_command);
	look_up_function(s, s->name, is_command);
	s->evaluates |= s->is_command && is_one_of(s->name, evals);
	s->is_command = next;
}

static void note_document(struct scan *s)
{
	struct document *doc = &s->docs[s->n_docs];

	s->is_doc = false;
	if (s->n_docs == DOCS_MAX || !s->plain || s->len >= sizeof(doc->end)) {
		s->uses->more |= s->mode != EXPORTED; /* which may be no commands */
		return;
	}
	s->name[s->len] = '\0';
	strcpy(doc->end, s->name);
	doc->quoted = s->quoted;
	doc->tabs = s->doc_tabs;
	s->n_docs++;
}

/* Takes the lines of a document, in which only substitutions are commands. */
static void take_document(struct scan *s, const struct document *doc)
{
	size_t len = strlen(doc->end);

	while (s->p < s->end) {
		const char *newline = memchr(s->p, '\n', s->end - s->p);
		const char *next = newline ? newline + 1 : s->end, *line = s->p;

		for (; doc->tabs && line < next && *line == '\t'; line++)
			;
		if ((size_t)((newline ?: next) - line) == len &&
		    !memcmp(line, doc->end, len)) {
			s->p = next;
			return;
		}
		while (!doc->quoted && s->p < next)
			take_part(s, true);
		if (doc->quoted)
			s->p = next;
	}
}

static void take_documents(struct scan *s)
{
	for (size_t i = 0; i < s->n_docs; i++)
		take_document(s, &s->docs[i]);
	s->n_docs = 0;
}

static void take_word(struct scan *s)
{
	const char *begin = s->p;

	s->len = 0;
	s->plain = true;
	s->quoted = false;
	while (s->p < s->end && !strchr(WORD_ENDS, *s->p))
		take_part(s, false);
	if (s->is_doc)
		note_document(s);
	else if (!s->is_target && (s->p == s->end || !strchr("<>", *s->p) || !s->len ||
	                           strspn(begin, DIGITS) < (size_t)(s->p - begin)))
		end_word(s, begin);
	s->is_target = false;
}

static void take_redirection(struct scan *s)
{
	const char *begin = s->p++;

	while (s->p < s->end && s->p[-1] != '-' && strchr("<>&|!-", *s->p))
		s->p++;
	s->is_target = (s->p == s->end || *s->p != '(') &&
	               (s->p - begin < 2 || !is_at(s->p - 2, s->p, "&-"));
	s->is_doc = is_at(begin, s->p, "<<") && !is_at(begin, s->p, "<<<");
	s->doc_tabs = s->p[-1] == '-';
}

static void scan_text(const struct scan *outer, const char *p, const char *end,
                      enum mode mode)
{
	struct scan s = { .uses = outer->uses,
		          .p = p,
		          .end = end,
		          .mode = mode,
		          .depth = outer->depth + 1,
		          .is_command = true };
	bool comments = mode == ALL && shell_has_comments();
	const char *inner_end = p; /* of the last "((": there is no other one before */

	if (s.depth > DEPTH_MAX) {
		s.uses->more = true;
		return;
	}
	while (s.p < end) {
		if (strchr("<>", *s.p) || is_at(s.p, end, "&>")) {
			take_redirection(&s);
		} else if (s.p >= inner_end && is_arithmetic(s.p, end, &inner_end)) {
			scan_arithmetic(&s, s.p + 2, inner_end - 1);
			s.p = inner_end + 1;
			s.is_command = false;
		} else if (strchr(SEPARATORS, *s.p)) {
			s.is_command = true;
			s.is_target = s.is_doc = s.evaluates = false;
			if (*s.p++ == '\n')
				take_documents(&s);
		} else if (*s.p == '#' && comments) {
			s.p = memchr(s.p, '\n', end - s.p) ?: end;
		} else if (strchr(BLANKS, *s.p)) {
			s.p++;
		} else {
			take_word(&s);
		}
	}
}

void uses_clear(struct uses *uses)
{
	uses->len = uses->n = 0;
	uses->more = false;
}

/* Notes the commands that set what the line may depend on, or any line, if NULL. */
static void note_options(struct uses *uses, const char *line)
{
	char commands[OPTIONS_BYTES];
	struct definition d = { .kind = 'o', .name = "", .body = commands };
	const struct shell_option *option;
	bool usual;

	for (size_t i = 0; (option = shell_option(i, &usual)); i++) {
		size_t len = strlen(option->command);

		if (usual || (line && option->signs && !strpbrk(line, option->signs)))
			continue;
		if (d.len + 1 + len > sizeof(commands)) {
			uses->more = true;
			break;
		}
		if (d.len)
			commands[d.len++] = '\n';
		memcpy(commands + d.len, option->command, len);
		d.len += len;
	}
	if (d.len)
		note(uses, &d);
}

void uses_find(struct uses *uses, const char *line)
{
	struct scan outer = { .uses = uses };

	uses_clear(uses);
	scan_text(&outer, line, line + strlen(line), ALL);
	note_options(uses, uses->n ? NULL : line);
}
