/* SPDX-License-Identifier: MIT */
#include "query/config/edit.h"

#include <errno.h>
#include <string.h>

/* A value in the text, as the parser reads it. */
struct place {
	char *section, *name, *value;
	size_t line, value_at; /* offsets: of its line, of the value */
	size_t end;            /* behind the line's newline */
	bool continues;        /* the line continues the key above */
};

struct places {
	const struct shfs_buf *text;
	struct place *list;
	size_t n, cap;
	int line; /* the number of the line at `at` */
	size_t at;
};

static void places_clear(struct places *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->list[i].section);
		free(p->list[i].name);
		free(p->list[i].value);
	}
	free(p->list);
}
#define _cleanup_places_ _cleanup_(places_clear)

/* Returns the offset behind the newline of the line at `at`. */
static size_t line_end(const struct shfs_buf *text, size_t at)
{
	const char *newline =
		at < text->len ? memchr(text->data + at, '\n', text->len - at) : NULL;

	return newline ? (size_t)(newline + 1 - text->data) : text->len;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

static size_t skip_blanks(const struct shfs_buf *text, size_t at, size_t end)
{
	while (at < end && is_blank(text->data[at]))
		at++;
	return at;
}

/* Finds the value in its line. A line that continues has nothing but the value, and a
 * comment. */
static void find_value(const struct shfs_buf *text, struct place *place)
{
	size_t begin = skip_blanks(text, place->line, place->end),
	       len = strlen(place->value);
	size_t behind = begin + len, rest;
	const char *p;

	if (begin > place->line && behind <= place->end && len &&
	    !memcmp(text->data + begin, place->value, len)) {
		rest = skip_blanks(text, behind, place->end);
		if (rest == place->end || (rest > behind && text->data[rest] == ';')) {
			place->continues = true;
			place->value_at = begin;
			return;
		}
	}
	p = text->data + begin;
	while (p < text->data + place->end && *p != '=' && *p != ':')
		p++;
	begin = MIN((size_t)(p + 1 - text->data), place->end);
	rest = skip_blanks(text, begin, place->end);
	/* an empty one stands right behind the sign */
	place->value_at = len ? rest : begin;
}

static int add_place(void *arg, const struct shfs_config_line *line)
{
	struct places *p = arg;
	struct place *place;

	if (!MAKE_ROOM(p->list, p->n, p->cap))
		return -ENOMEM;
	for (; p->line < line->line; p->line++)
		p->at = line_end(p->text, p->at);
	place = &p->list[p->n++];
	*place = (struct place){
		.section = strdup(line->section),
		.name = strdup(line->name),
		.value = strdup(line->value),
		.line = p->at,
		.end = line_end(p->text, p->at),
	};
	if (!place->section || !place->name || !place->value)
		return -ENOMEM;
	find_value(p->text, place);
	return 0;
}

static int find_places(const struct shfs_buf *text, struct places *p)
{
	*p = (struct places){ .text = text, .line = 1 };
	return text->len ? shfs_config_each(text->data, text->len, add_place, p) : 0;
}

static bool is_of(const struct place *place, const struct shfs_config_key *key)
{
	return !strcmp(place->section, key->section) && !strcmp(place->name, key->name);
}

/* --- the change --- */

struct edit {
	const struct shfs_buf *text;
	const struct shfs_config_key *key;
	const char *value;
	struct shfs_buf *out;
};

static void copy_text(const struct edit *e, size_t from, size_t to)
{
	shfs_buf_add(e->out, e->text->data + from, to - from);
}

static void put_line(const struct edit *e, const char *newline)
{
	shfs_buf_printf(e->out, "%s = %s%s", e->key->name, e->value, newline);
}

/* Puts another value into the place of one. */
static void replace_value(const struct edit *e, const struct place *place)
{
	size_t behind = place->value_at + strlen(place->value);

	copy_text(e, 0, place->value_at);
	if (!*place->value)
		shfs_buf_char(e->out, ' ');
	shfs_buf_str(e->out, e->value);
	copy_text(e, behind, e->text->len);
}

/* How the line that ends at `end` ends, for the line behind it. */
static const char *newline_of(const struct edit *e, size_t end)
{
	return end >= 2 && !memcmp(e->text->data + end - 2, "\r\n", 2) ? "\r\n" : "\n";
}

static void insert_line(const struct edit *e, size_t at)
{
	copy_text(e, 0, at);
	if (at && e->text->data[at - 1] != '\n')
		shfs_buf_char(e->out, '\n');
	put_line(e, newline_of(e, at));
	copy_text(e, at, e->text->len);
}

/* Returns the offset behind the header of the key's section; 0: there is none. */
static size_t find_header(const struct edit *e)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, as Windows writes it */
	size_t len = strlen(e->key->section), found = 0;

	for (size_t at = 0, end; at < e->text->len; at = end) {
		const char *line = e->text->data + at;

		end = line_end(e->text, at);
		if (!at && end > 3 && !memcmp(line, mark, 3))
			line += 3;
		if (e->text->data + end - line >= (ptrdiff_t)len + 2 && *line == '[' &&
		    !memcmp(line + 1, e->key->section, len) && line[len + 1] == ']')
			found = end;
	}
	return found;
}

static void append_section(const struct edit *e)
{
	copy_text(e, 0, e->text->len);
	if (e->text->len && e->text->data[e->text->len - 1] != '\n')
		shfs_buf_char(e->out, '\n');
	shfs_buf_printf(e->out, "%s[%s]\n", e->text->len ? "\n" : "", e->key->section);
	put_line(e, "\n");
}

/* A new line goes behind the last value of the key, else of its section. */
static void insert_value(const struct edit *e, const struct places *places)
{
	size_t at = 0, of_section = 0;

	for (size_t i = 0; i < places->n; i++) {
		if (is_of(&places->list[i], e->key))
			at = places->list[i].end;
		if (!strcmp(places->list[i].section, e->key->section))
			of_section = places->list[i].end;
	}
	if (!at)
		at = of_section ? of_section : find_header(e);
	if (at)
		insert_line(e, at);
	else
		append_section(e);
}

static bool is_meant(const struct edit *e, const struct place *place)
{
	return is_of(place, e->key) && (!e->value || !strcmp(place->value, e->value));
}

/* Leaves out the lines of the values that are meant. A line that continued one of them
 * becomes one with a name. Returns how many went. */
static size_t remove_values(const struct edit *e, const struct places *places)
{
	bool orphaned = false;
	size_t done = 0, n = 0;

	for (size_t i = 0; i < places->n; i++) {
		const struct place *place = &places->list[i];

		if (!place->continues)
			orphaned = false;
		if (is_meant(e, place)) {
			copy_text(e, done, place->line);
			done = place->end;
			orphaned = orphaned || !place->continues;
			n++;
		} else if (orphaned && place->continues) {
			copy_text(e, done, place->line);
			shfs_buf_printf(e->out, "%s = ", e->key->name);
			done = place->value_at;
			orphaned = false;
		}
	}
	copy_text(e, done, e->text->len);
	return n;
}

static size_t count_values(const struct places *places, const struct shfs_config_key *key,
                           const struct place **last)
{
	size_t n = 0;

	*last = NULL;
	for (size_t i = 0; i < places->n; i++)
		if (is_of(&places->list[i], key)) {
			*last = &places->list[i];
			n++;
		}
	return n;
}

static int change_text(const struct edit *e, enum config_change change,
                       const struct places *places)
{
	const struct place *last;
	size_t n = count_values(places, e->key, &last);

	if (change == CONFIG_UNSET)
		return remove_values(e, places) ? 0 : -ENOENT;
	if (change == CONFIG_ADD || !n)
		insert_value(e, places);
	else if (n > 1 && shfs_config_adds(e->key))
		return -EEXIST;
	else
		replace_value(e, last);
	return 0;
}

/* --- what came out --- */

static bool is_same(const struct place *a, const struct place *b)
{
	return !strcmp(a->section, b->section) && !strcmp(a->name, b->name) &&
	       !strcmp(a->value, b->value);
}

/* Returns the next place at or behind i that is of the key, or of others. */
static size_t next_place(const struct edit *e, const struct places *places, size_t i,
                         bool own)
{
	while (i < places->n && is_of(&places->list[i], e->key) != own)
		i++;
	return i;
}

/* Are the values of the other keys as before? */
static bool are_others_kept(const struct edit *e, const struct places *before,
                            const struct places *after)
{
	size_t i = next_place(e, before, 0, false), j = next_place(e, after, 0, false);

	while (i < before->n && j < after->n) {
		if (!is_same(&before->list[i], &after->list[j]))
			return false;
		i = next_place(e, before, i + 1, false);
		j = next_place(e, after, j + 1, false);
	}
	return i == before->n && j == after->n;
}

/* Are the values of the key those from before, without the one that was replaced or those
 * that were removed, and is the new one behind them? */
static bool is_own_as_wanted(const struct edit *e, enum config_change change,
                             const struct places *before, const struct places *after)
{
	const struct place *last;
	size_t n = count_values(before, e->key, &last);
	size_t j = next_place(e, after, 0, true);

	for (size_t i = 0; i < before->n; i++) {
		const struct place *place = &before->list[i];

		if (!is_of(place, e->key) || (change == CONFIG_SET && place == last) ||
		    (change == CONFIG_UNSET && is_meant(e, place)))
			continue;
		if (j == after->n || !is_same(place, &after->list[j]))
			return false;
		j = next_place(e, after, j + 1, true);
	}
	if (change == CONFIG_UNSET)
		return j == after->n && n;
	return j < after->n && !strcmp(after->list[j].value, e->value) &&
	       next_place(e, after, j + 1, true) == after->n;
}

int config_edit(const struct shfs_buf *text, const struct shfs_config_key *key,
                enum config_change change, const char *value, struct shfs_buf *out)
{
	_cleanup_places_ struct places before = { 0 }, after = { 0 };
	_cleanup_buf_ struct shfs_buf result = { 0 };
	struct edit e = { .text = text, .key = key, .value = value, .out = &result };
	int r = find_places(text, &before);

	if (!r)
		r = change_text(&e, change, &before);
	if (!r && result.failed)
		r = -ENOMEM;
	if (!r)
		r = find_places(&result, &after);
	if (r)
		return r;
	if (!are_others_kept(&e, &before, &after) ||
	    !is_own_as_wanted(&e, change, &before, &after))
		return -EILSEQ;
	shfs_buf_add(out, result.data, result.len);
	return out->failed ? -ENOMEM : 0;
}
