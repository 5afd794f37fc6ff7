/* SPDX-License-Identifier: MIT */
#include "common/redact.h"

#include <errno.h>
#include <locale.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEAD       3           /* first bytes of a pattern, by which it is looked up */
#define BUCKETS    1024        /* a power of two */
#define WINDOW     (16u << 10) /* bytes behind a head in which a secret is searched */
#define TRIES_MAX  4096        /* matches of regular expressions tried in one text */
#define NEEDLE_MAX 64

/* Limits with which libc compiles a regular expression in milliseconds. */
#define NESTED_MAX   16
#define REPEATED_MAX 65536 /* the numbers in braces, multiplied */

struct pattern {
	char needle[NEEDLE_MAX]; /* a match begins with it */
	size_t needle_len;
	bool folded, at_word; /* in either case; only at the begin of a word */
	char *rest;           /* the regular expression behind the needle */
	regex_t regex;        /* of rest */
	enum { UNUSED, COMPILED, BAD } state;
	uint16_t next; /* in its bucket; 0: none */
};

struct span {
	size_t begin, end;
};

struct shfs_redactor {
	struct pattern *patterns;
	size_t n;
	uint16_t buckets[BUCKETS]; /* 1 + the number of a pattern */
};

struct find_secret_spans {
	struct shfs_redactor *r;
	const char *text; /* without the NULs of separated */
	const char *separated;
	size_t len;
	unsigned tries;
	struct span *found;
	size_t n_found, cap;
};

/* --- patterns --- */

static unsigned char fold(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

/* Returns the bucket, whatever the case. Other characters that differ in this bit share a
 * bucket, too, which only costs time. */
static size_t bucket_of_head(const char *p)
{
	size_t hash = (unsigned char)p[0] | 0x20;

	hash = hash * 31 + ((unsigned char)p[1] | 0x20);
	hash = hash * 31 + ((unsigned char)p[2] | 0x20);
	return hash % BUCKETS;
}

static bool is_regex_special(char c)
{
	return c && strchr("\\.[]()*+?{}|^$", c);
}

/* Takes the plain characters at *p as the needle. */
static void take_needle(struct pattern *pattern, const char **p)
{
	while (**p && pattern->needle_len < NEEDLE_MAX) {
		const char *c = *p;

		if (*c == '\\' && is_regex_special(c[1]))
			c++;
		else if (is_regex_special(*c))
			break;
		if (c[1] && strchr("*+?{", c[1]))
			break;
		pattern->needle[pattern->needle_len++] = *c;
		*p = c + 1;
	}
}

/* Returns the end of the [...] at p. */
static const char *behind_bracket(const char *p)
{
	p += p[1] == '^' ? 2 : 1;
	if (*p == ']')
		p++;
	for (; *p && *p != ']'; p++) {
		const char *end = *p == '[' && p[1] == ':' ? strstr(p, ":]") : NULL;

		p = end ? end + 1 : p;
	}
	return *p ? p + 1 : p;
}

/* Returns the end of the character, or of the element for one, at p. */
static const char *behind_one(const char *p)
{
	return *p == '[' ? behind_bracket(p) : p + (*p == '\\' && p[1] ? 2 : 1);
}

static bool has_branches(const char *p)
{
	int depth = 0;

	for (; *p; p = behind_one(p)) {
		if (*p == '|' && !depth)
			return true;
		depth += *p == '(';
		depth -= *p == ')';
	}
	return false;
}

const char *shfs_redact_group(const char *p, const char **end)
{
	const char *group;
	int depth = 0;

	p += strncmp(p, "(?i)", 4) ? 0 : 4;
	while (*p && *p != '(')
		p = behind_one(p);
	if (!*p)
		return NULL;
	group = p;
	do {
		depth += *p == '(';
		depth -= *p == ')';
		p = behind_one(p);
	} while (*p && depth);
	*end = p;
	return group;
}

/* Returns the larger number of the braces at p. */
static unsigned long repeats(const char *p)
{
	char *end;
	unsigned long from = strtoul(p + 1, &end, 10);
	unsigned long to = *end == ',' ? strtoul(end + 1, NULL, 10) : 0;

	return from > to ? from : to ? to : 1;
}

/* Returns what is wrong with an expression that could take unbounded time, or that PCRE
 * reads differently; NULL: nothing. */
static const char *unbounded(const char *p)
{
	bool repetition = false;
	unsigned long n = 1;
	int depth = 0;

	for (; *p; p = behind_one(p)) {
		bool another = strchr("*+?{", *p);

		if (another && repetition)
			return "a repetition cannot be repeated";
		repetition = another;
		if (*p == '\\' && p[1] >= '1' && p[1] <= '9')
			return "it cannot refer back to a match";
		depth += *p == '(';
		depth -= *p == ')';
		if (depth > NESTED_MAX)
			return "parentheses are nested too deeply";
		if (*p == '{' &&
		    (__builtin_mul_overflow(n, repeats(p), &n) || n > REPEATED_MAX))
			return "the numbers in braces are too large";
		if (*p == '{')
			p = strchr(p, '}') ? strchr(p, '}') : p;
	}
	return NULL;
}

/* Parses a pattern; returns what is wrong with it, or NULL. */
static const char *parse_secret_pattern(struct pattern *pattern, const char *text,
                                        size_t len)
{
	char *copy = strndup(text, len);
	const char *p = copy, *fault;

	*pattern = (struct pattern){ 0 };
	if (!copy)
		return "no memory";
	pattern->folded = !strncmp(p, "(?i)", 4);
	p += pattern->folded ? 4 : 0;
	pattern->at_word = !strncmp(p, "\\b", 2);
	p += pattern->at_word ? 2 : 0;
	take_needle(pattern, &p);
	fault = pattern->needle_len < HEAD ? "it must begin with three plain characters"
	        : has_branches(p)          ? "\"|\" must stand in parentheses"
	                                   : unbounded(p);
	if (!fault && !(pattern->rest = strdup(p)))
		fault = "no memory";
	free(copy);
	return fault;
}

/* Compiles in the locale C, in which each byte is a character, so that invalid text is
 * matched, too. */
static int compile_secret_pattern(struct pattern *pattern)
{
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before;
	size_t size = strlen(pattern->rest) + 4;
	char *text = malloc(size);
	int r = REG_ESPACE;

	if (text && c) {
		strcpy(text, "^(");
		strcat(text, pattern->rest);
		strcat(text, ")");
		before = uselocale(c);
		r = regcomp(&pattern->regex, text,
		            REG_EXTENDED | (pattern->folded ? REG_ICASE : 0));
		uselocale(before);
	}
	free(text);
	if (c)
		freelocale(c);
	if (r == REG_ESPACE)
		return -ENOMEM;
	pattern->state = r ? BAD : COMPILED;
	return 0;
}

static void pattern_clear(struct pattern *pattern)
{
	if (pattern->state == COMPILED)
		regfree(&pattern->regex);
	free(pattern->rest);
}

const char *shfs_redact_fault(const char *text)
{
	struct pattern pattern;
	const char *fault = parse_secret_pattern(&pattern, text, strlen(text));

	if (!fault && compile_secret_pattern(&pattern))
		fault = "no memory";
	if (!fault && pattern.state == BAD)
		fault = "it is no extended regular expression";
	pattern_clear(&pattern);
	return fault;
}

char *shfs_redact_needle(const char *text)
{
	struct pattern pattern;
	bool wrong = parse_secret_pattern(&pattern, text, strlen(text));
	char *needle = wrong ? NULL : strndup(pattern.needle, pattern.needle_len);

	pattern_clear(&pattern);
	return needle;
}

static void add_pattern(struct shfs_redactor *r, const char *text, size_t len)
{
	struct pattern *pattern = &r->patterns[r->n];
	uint16_t *bucket;

	if (r->n == UINT16_MAX || parse_secret_pattern(pattern, text, len)) {
		pattern_clear(pattern);
		return;
	}
	bucket = &r->buckets[bucket_of_head(pattern->needle)];
	pattern->next = *bucket;
	*bucket = (uint16_t)++r->n;
}

struct shfs_redactor *shfs_redactor_new(const char *patterns)
{
	struct shfs_redactor *r = calloc(1, sizeof(*r));
	size_t n = 1;

	for (const char *p = patterns; *p; p++)
		n += *p == '\n';
	if (r)
		r->patterns = calloc(n, sizeof(*r->patterns));
	if (!r || !r->patterns) {
		free(r);
		return NULL;
	}
	for (const char *p = patterns; *p; p += *p == '\n') {
		size_t len = strcspn(p, "\n");

		if (len)
			add_pattern(r, p, len);
		p += len;
	}
	return r;
}

void shfs_redactor_free(struct shfs_redactor *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		pattern_clear(&r->patterns[i]);
	free(r->patterns);
	free(r);
}

/* --- matching --- */

static bool is_word_byte(char c)
{
	return (c >= '0' && c <= '9') || (fold(c) >= 'a' && fold(c) <= 'z') || c == '_';
}

static bool begins_here(const struct pattern *pattern, const struct find_secret_spans *s,
                        size_t at)
{
	const char *p = s->text + at;

	if (s->len - at < pattern->needle_len)
		return false;
	if (pattern->at_word && at && is_word_byte(p[-1]))
		return false;
	if (!pattern->folded)
		return !memcmp(p, pattern->needle, pattern->needle_len);
	for (size_t i = 0; i < pattern->needle_len; i++)
		if (fold(p[i]) != fold(pattern->needle[i]))
			return false;
	return true;
}

static int add_span(struct find_secret_spans *s, size_t begin, size_t end)
{
	size_t mark = strlen(SHFS_REDACTED);

	if (end - begin >= mark && !memcmp(s->text + begin, SHFS_REDACTED, mark))
		return 0;
	if (s->n_found == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 8;
		struct span *larger = realloc(s->found, cap * sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		s->found = larger;
		s->cap = cap;
	}
	s->found[s->n_found++] = (struct span){ begin, end };
	return 0;
}

static bool is_blank_byte(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns the end of a secret that goes on to the end of an argument, as a shell ends it.
 */
static size_t end_of_argument(const struct find_secret_spans *s, struct span secret)
{
	size_t i = secret.begin;

	if (secret.end == s->len ||
	    !strchr(" \t\n\v\f\r\"'`\\;|&()<>", s->text[secret.end]))
		return secret.end;
	while (i && s->separated[i - 1] && !is_blank_byte(s->separated[i - 1]))
		i--;
	if (i && s->separated[i - 1])
		return secret.end;
	return secret.end + strnlen(s->separated + secret.end, s->len - secret.end);
}

static int try_pattern(struct find_secret_spans *s, struct pattern *pattern, size_t at)
{
	size_t behind = at + pattern->needle_len, left = s->len - behind;
	size_t room = left < WINDOW ? left : WINDOW;
	regmatch_t m[3] = { { 0, (regoff_t)room } };
	struct span secret;

	if (pattern->state == UNUSED && compile_secret_pattern(pattern))
		return -ENOMEM;
	if (pattern->state == BAD)
		return 0;
	s->tries++;
	if (regexec(&pattern->regex, s->text + behind, 3, m, REG_STARTEND))
		return 0;
	secret = m[2].rm_so < 0
	                 ? (struct span){ at, behind + m[0].rm_eo }
	                 : (struct span){ behind + m[2].rm_so, behind + m[2].rm_eo };
	if (secret.end == behind + room)
		while (secret.end < s->len && !is_blank_byte(s->text[secret.end]))
			secret.end++;
	if (s->separated)
		secret.end = end_of_argument(s, secret);
	return secret.end > secret.begin ? add_span(s, secret.begin, secret.end) : 0;
}

static int try_patterns_at(struct find_secret_spans *s, size_t at)
{
	uint16_t n = s->r->buckets[bucket_of_head(s->text + at)];
	int r = 0;

	for (; n && !r; n = s->r->patterns[n - 1].next)
		if (begins_here(&s->r->patterns[n - 1], s, at))
			r = try_pattern(s, &s->r->patterns[n - 1], at);
	return r;
}

static int find_secret_spans(struct find_secret_spans *s)
{
	int r = 0;

	for (size_t at = 0; at + HEAD <= s->len && !r; at++) {
		/* A malicious text: its rest is redacted. */
		if (s->tries > TRIES_MAX)
			return add_span(s, at, s->len);
		r = try_patterns_at(s, at);
	}
	return r;
}

/* --- replacing --- */

static int by_begin(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Sorts the spans, and merges those that overlap. */
static void merge_spans(struct find_secret_spans *s)
{
	size_t n = 1;

	qsort(s->found, s->n_found, sizeof(*s->found), by_begin);
	for (size_t i = 1; i < s->n_found; i++) {
		struct span *last = &s->found[n - 1];

		if (s->found[i].begin > last->end)
			s->found[n++] = s->found[i];
		else if (s->found[i].end > last->end)
			last->end = s->found[i].end;
	}
	s->n_found = n;
}

static int replace_spans(struct find_secret_spans *s, const char *text, char **out,
                         size_t *out_len)
{
	char *p = malloc(s->len + s->n_found * strlen(SHFS_REDACTED) + 1);
	size_t from = 0;

	if (!p)
		return -ENOMEM;
	*out = p;
	for (size_t i = 0; i < s->n_found; i++) {
		p = mempcpy(p, text + from, s->found[i].begin - from);
		p = mempcpy(p, SHFS_REDACTED, strlen(SHFS_REDACTED));
		from = s->found[i].end;
	}
	p = mempcpy(p, text + from, s->len - from);
	*p = '\0';
	*out_len = (size_t)(p - *out);
	return 1;
}

/* Joins arguments by blanks, for patterns, which match in one line. */
static char *join_by_blanks(const char *text, size_t len)
{
	char *joined = malloc(len + 1);

	if (!joined)
		return NULL;
	for (size_t i = 0; i < len; i++)
		joined[i] = text[i] ? text[i] : ' ';
	joined[len] = '\0';
	return joined;
}

int shfs_redact(struct shfs_redactor *r, const char *text, size_t len, bool separated,
                char **out, size_t *out_len)
{
	struct find_secret_spans s = { .r = r, .text = text, .len = len };
	char *joined = NULL;
	int result;

	if (!r)
		return 0;
	if (separated) {
		s.text = joined = join_by_blanks(text, len);
		s.separated = text;
		if (!joined)
			return -ENOMEM;
	}
	result = find_secret_spans(&s);
	if (!result && s.n_found) {
		merge_spans(&s);
		result = replace_spans(&s, text, out, out_len);
	}
	free(s.found);
	free(joined);
	return result;
}
