/* SPDX-License-Identifier: MIT */
#include "query/screen/fuzzy.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#define GLYPHS_MAX 1024 /* in one query */

/* The score of each character that matches. */
enum {
	FITS = 16,
	GAP = -3,       /* it does not follow at once, */
	GAP_MORE = -1,  /* for each further character between */
	RUN = 5,        /* it follows at once */
	AT_WORD = 8,    /* a word begins here, */
	AT_START = 10,  /* the text begins here, or follows a blank or a slash, */
	AT_HUMP = 7,    /* a part of a name: theFile, v2 */
	FIRST_TIMES = 2 /* factor for the first character of a term */
};

/* A character of the query as UTF-8, in both cases. */
struct glyph {
	char as[2][MB_LEN_MAX];
	uint8_t len[2];
};

enum { FUZZY, PIECE };

struct term {
	int kind;
	bool at_begin, at_end, negated;
	bool alternative; /* to the term before */
	size_t n;
	struct glyph *glyphs; /* in the array of all glyphs */
	uint64_t mask;
};

struct shfs_fuzzy {
	struct glyph *glyphs;
	struct term *terms;
	size_t n_glyphs, n_terms;
};

/* --- characters --- */

static uint64_t bit_of(unsigned char c)
{
	if (c >= 0x80)
		return 1ULL << 63;
	if (isalpha(c))
		return 1ULL << (tolower(c) - 'a');
	return 1ULL << (isdigit(c) ? 26 + c - '0' : 36 + c % 27);
}

uint64_t shfs_fuzzy_mask(const char *text, size_t len)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < len; i++)
		mask |= bit_of((unsigned char)text[i]);
	return mask;
}

/* The length of the glyph at text, or 0. */
static inline size_t glyph_at(const struct glyph *g, const char *text, size_t left)
{
	for (int i = 0; i < 2; i++) {
		if (*text != g->as[i][0])
			continue;
		if (g->len[i] == 1)
			return 1;
		if (g->len[i] <= left && !memcmp(text, g->as[i], g->len[i]))
			return g->len[i];
	}
	return 0;
}

static bool is_fuzzy_word_byte(unsigned char c)
{
	return isalnum(c) || c >= 0x80;
}

static int bonus_at(const char *text, size_t i)
{
	unsigned char c = (unsigned char)text[i], before;

	if (!i)
		return AT_START;
	before = (unsigned char)text[i - 1];
	if (!is_fuzzy_word_byte(c))
		return 0;
	if (before == '/' || isspace(before))
		return AT_START;
	if (!is_fuzzy_word_byte(before))
		return AT_WORD;
	return (islower(before) && isupper(c)) || (!isdigit(before) && isdigit(c))
	               ? AT_HUMP
	               : 0;
}

/* --- a term against a text --- */

/* The score of the match that begins at `begin`; all characters are there. */
static int weigh(const struct term *t, const char *text, size_t len, size_t begin,
                 bool *marked)
{
	int score = 0, run_bonus = 0, gap = 0;
	size_t i = begin, n = 0;

	while (n < t->n && i < len) {
		size_t bytes = glyph_at(&t->glyphs[n], text + i, len - i);
		int bonus;

		if (!bytes) {
			score += gap++ ? GAP_MORE : GAP;
			run_bonus = 0;
			i++;
			continue;
		}
		bonus = bonus_at(text, i);
		if (n && !gap)
			bonus = MAX(bonus, MAX(run_bonus, RUN));
		score += FITS + (n ? bonus : bonus * FIRST_TIMES);
		run_bonus = bonus;
		gap = 0;
		if (marked)
			memset(marked + i, true, bytes);
		i += bytes;
		n++;
	}
	return MAX(score, 0);
}

/* The end of a match in one piece at text + begin, or 0. */
static size_t piece_at(const struct term *t, const char *text, size_t len, size_t begin)
{
	size_t i = begin;

	for (size_t n = 0; n < t->n; n++) {
		size_t bytes = i < len ? glyph_at(&t->glyphs[n], text + i, len - i) : 0;

		if (!bytes)
			return 0;
		i += bytes;
	}
	return i;
}

/* Finds a match in one piece, at the beginning of a word if possible; false: there is
 * none. */
static bool find_piece(const struct term *t, const char *text, size_t len, size_t *begin)
{
	size_t first = 0, end = len;
	int best = -1;

	while (t->at_begin && first < len && isspace((unsigned char)text[first]))
		first++;
	while (t->at_end && end > first && isspace((unsigned char)text[end - 1]))
		end--;
	for (size_t i = first; i < end && (!t->at_begin || i == first); i++) {
		size_t stop = glyph_at(&t->glyphs[0], text + i, end - i)
		                      ? piece_at(t, text, end, i)
		                      : 0;
		int bonus = stop ? bonus_at(text, i) : -1;

		if (!stop || (t->at_end && stop != end) || bonus <= best)
			continue;
		best = bonus;
		*begin = i;
		if (best == AT_START)
			break;
	}
	return best >= 0;
}

/* Finds the characters in their order: of the matches that end first, the shortest. */
static bool find_scattered(const struct term *t, const char *text, size_t len,
                           size_t *begin)
{
	size_t n = 0, i = 0;

	while (n < t->n && i < len) {
		size_t bytes = glyph_at(&t->glyphs[n], text + i, len - i);

		n += bytes > 0;
		i += MAX(bytes, (size_t)1);
	}
	if (n < t->n)
		return false;
	while (n && i--)
		n -= glyph_at(&t->glyphs[n - 1], text + i, len - i) > 0;
	*begin = i;
	return true;
}

static int match_term(const struct term *t, const char *text, size_t len, uint64_t mask,
                      bool *marked)
{
	size_t begin = 0;
	bool found = (t->mask & ~mask) == 0;

	if (found && t->n)
		found = (t->kind == PIECE || find_scattered(t, text, len, &begin)) &&
		        (find_piece(t, text, len, &begin) || t->kind == FUZZY);
	if (t->negated && t->n)
		return found ? -1 : 0;
	return found ? weigh(t, text, len, begin, marked) : -1;
}

int shfs_fuzzy_match(const struct shfs_fuzzy *f, const char *text, size_t len,
                     uint64_t mask)
{
	int score = 0;

	for (size_t i = 0; i < f->n_terms;) {
		int best = -1;

		do {
			int one = match_term(&f->terms[i], text, len, mask, NULL);

			best = MAX(best, one);
		} while (++i < f->n_terms && f->terms[i].alternative);
		if (best < 0)
			return -1;
		score += best;
	}
	return score;
}

void shfs_fuzzy_mark(const struct shfs_fuzzy *f, const char *text, size_t len,
                     bool *marked)
{
	for (size_t i = 0; i < f->n_terms; i++)
		(void)match_term(&f->terms[i], text, len, UINT64_MAX, marked);
}

/* --- reading the query --- */

static bool add_glyph(struct shfs_fuzzy *f, struct term *t, const char **at)
{
	struct glyph *g = &f->glyphs[f->n_glyphs];
	size_t left = strlen(*at), bytes;
	mbstate_t state = { 0 };
	wchar_t c = 0;

	bytes = mbrtowc(&c, *at, left, &state);
	if (bytes == 0 || bytes > left) { /* not a character: take this byte as it is */
		bytes = 1;
		c = 0;
	}
	memcpy(g->as[0], *at, bytes);
	memcpy(g->as[1], *at, bytes);
	g->len[0] = g->len[1] = bytes;
	t->mask |= shfs_fuzzy_mask(*at, bytes);
	*at += bytes;
	f->n_glyphs++;
	t->n++;
	return c && iswupper(c);
}

static void add_other_case(struct glyph *g)
{
	mbstate_t state = { 0 };
	char other[MB_LEN_MAX];
	wchar_t c = 0;
	size_t bytes = mbrtowc(&c, g->as[0], g->len[0], &state);

	if (bytes != g->len[0] || !iswalpha(c))
		return;
	bytes = wcrtomb(other, towupper(c), &state);
	if (bytes > MB_LEN_MAX)
		return;
	memcpy(g->as[1], other, bytes);
	g->len[1] = bytes;
}

/* Reads one term, which begins at *at and is not empty; false: it is only "|". */
static bool add_term(struct shfs_fuzzy *f, const char **at)
{
	struct term *t = &f->terms[f->n_terms];
	const char *p = *at;
	bool exact = false;

	*t = (struct term){ .glyphs = f->glyphs + f->n_glyphs };
	if (*p == '|' && (!p[1] || p[1] == ' ')) {
		(*at)++;
		return false;
	}
	if (*p == '!') {
		t->negated = true;
		t->kind = PIECE;
		p++;
	}
	if (*p == '\'' || *p == '^') {
		t->kind = PIECE;
		t->at_begin = *p++ == '^';
	}
	while (*p && *p != ' ') {
		if (p[0] == '$' && (!p[1] || p[1] == ' ') && t->n) {
			t->kind = PIECE;
			t->at_end = true;
			p++;
			break;
		}
		p += p[0] == '\\' && p[1] == ' ';
		exact |= add_glyph(f, t, &p);
	}
	for (size_t i = 0; i < t->n && !exact; i++)
		add_other_case(&t->glyphs[i]);
	if (t->negated)
		t->mask = 0;
	*at = p;
	return true;
}

static void parse_fuzzy_query(struct shfs_fuzzy *f, const char *query)
{
	bool alternative = false;

	while (*(query += strspn(query, " "))) {
		if (!add_term(f, &query)) {
			alternative = f->n_terms > 0;
			continue;
		}
		if (!f->terms[f->n_terms].n)
			continue;
		f->terms[f->n_terms++].alternative = alternative;
		alternative = false;
	}
}

int shfs_fuzzy_parse(const char *query, struct shfs_fuzzy **out)
{
	_cleanup_fuzzy_ struct shfs_fuzzy *f = calloc(1, sizeof(*f));
	_cleanup_free_ char *cut = strndup(query, GLYPHS_MAX);

	if (!f || !cut)
		return -ENOMEM;
	f->glyphs = calloc(strlen(cut) + 1, sizeof(*f->glyphs));
	f->terms = calloc(strlen(cut) + 1, sizeof(*f->terms));
	if (!f->glyphs || !f->terms)
		return -ENOMEM;
	parse_fuzzy_query(f, cut);
	*out = TAKE_PTR(f);
	return 0;
}

void shfs_fuzzy_free(struct shfs_fuzzy *f)
{
	if (!f)
		return;
	free(f->glyphs);
	free(f->terms);
	free(f);
}

/* The part before the last term must be equal, and the last term one that matches less if
 * it is longer. */
bool shfs_fuzzy_narrows(const char *query, const char *before)
{
	const char *blank = strrchr(query, ' ');
	size_t common = blank ? blank - query : 0;

	if (strncmp(query, before, strlen(before)) != 0 || strpbrk(query, "|\\"))
		return false;
	return !strpbrk(strlen(before) < common ? query : query + common, "!$");
}
