/* SPDX-License-Identifier: MIT */
#include "query/screen/search-screen.h"

#include "common/clock.h"
#include "common/quote.h"
#include "query/screen/line.h"
#include "query/screen/preview.h"
#include "query/screen/split.h"

#include <errno.h>
#include <string.h>

#define SLICE_NS    (40 * SHFS_NSEC_PER_SEC / 1000) /* of loading, between keys */
#define REST_MS     60 /* a preview is made after so long without keys */
#define PREVIEW_MIN 40 /* a preview is made for at least so many columns */
#define HEAD_ROWS   2
#define AGE_COLUMNS 5 /* with the blanks after it */
#define HIT         "\033[1;32m"
#define OFF         "\033[m"

struct view {
	struct shfs_search *search;
	struct shfs_split split;
	struct shfs_line line;
	enum shfs_hay_kinds kinds;
	bool loading, changed; /* changed: a new search is needed */
	int64_t preview_id;    /* of the entry in the preview; 0: none */
	bool preview_is_file;
};

const char *shfs_last_word(const char *line)
{
	const char *blank = strrchr(line, ' ');

	return blank ? blank + 1 : line;
}

/* --- searching --- */

static const struct shfs_hay *chosen(const struct view *v, size_t rank)
{
	return rank < shfs_haystack_found(v->search->haystack)
	               ? shfs_haystack_at(v->search->haystack, rank, NULL)
	               : NULL;
}

/* Searches again; the chosen entry stays chosen while more is loaded. */
static void find_again(struct view *v, const struct shfs_hay *before)
{
	const struct shfs_haystack *h = v->search->haystack;

	for (size_t i = 0; v->split.chosen && i < shfs_haystack_found(h); i++) {
		const struct shfs_hay *hay = shfs_haystack_at(h, i, NULL);

		if (hay->id == before->id && hay->is_file == before->is_file) {
			v->split.chosen = i;
			return;
		}
	}
	v->split.chosen = 0;
}

static int search_typed_line(struct view *v)
{
	int r = shfs_haystack_search(v->search->haystack, v->line.text.data, v->kinds);

	v->changed = false;
	v->split.chosen = v->split.top = 0;
	return r;
}

static int load_haystack_slice(struct view *v)
{
	const struct shfs_hay *now = chosen(v, v->split.chosen);
	struct shfs_hay before = now ? *now : (struct shfs_hay){ 0 };
	size_t rank = v->split.chosen;
	int r = shfs_haystack_load(v->search->haystack, SLICE_NS);

	if (r < 0)
		return r;
	v->loading = r > 0;
	r = search_typed_line(v);
	v->split.chosen = rank;
	if (!r)
		find_again(v, &before);
	return r;
}

/* --- the list --- */

/* Adds "3h", "2d": in three columns. */
static void show_age(struct shfs_buf *out, int64_t ns)
{
	static const struct {
		int64_t seconds;
		char unit;
	} units[] = { { 31556952, 'y' }, { 604800, 'w' }, { 86400, 'd' },
		      { 3600, 'h' },     { 60, 'm' },     { 1, 's' } };
	int64_t seconds = (shfs_clock_ns(CLOCK_REALTIME) - ns) / SHFS_NSEC_PER_SEC;
	size_t i = 0;

	seconds = MAX(seconds, (int64_t)0);
	while (i + 1 < ARRAY_SIZE(units) && seconds < 2 * units[i].seconds)
		i++;
	shfs_buf_printf(out, "%2lld%c  ",
	                (long long)MIN(seconds / units[i].seconds, 99LL), units[i].unit);
}

static size_t char_before(const char *text, size_t at)
{
	at--;
	while (at && ((unsigned char)text[at] & 0xc0) == 0x80)
		at--;
	return at;
}

/* Where to begin so that the last match is visible; without a match, so that the end of a
 * name is. */
static size_t first_seen(const struct shfs_hay *hay, const char *text, const bool *marked,
                         int width)
{
	size_t last = hay->len, at;
	int used = 1; /* the ellipsis */

	while (last && !marked[last - 1])
		last--;
	if (!last && hay->is_file)
		last = hay->len;
	if (!last || shfs_quote_width(text, last) <= (size_t)MAX(width, 0))
		return 0;
	for (at = last; at; at = char_before(text, at)) {
		size_t from = char_before(text, at);

		used += shfs_quote_width(text + from, at - from);
		if (used > width)
			break;
	}
	return at;
}

static int show_marked_text(const struct view *v, const struct shfs_hay *hay, int width,
                            struct shfs_buf *out)
{
	const char *text = shfs_haystack_text(v->search->haystack, hay);
	_cleanup_free_ bool *marked = calloc(hay->len + 1, sizeof(*marked));
	size_t at, end;

	if (!marked)
		return -ENOMEM;
	shfs_haystack_mark(v->search->haystack, hay, marked);
	at = first_seen(hay, text, marked, width - (hay->is_file ? 4 : 0));
	shfs_buf_str(out, at ? "…" : hay->below_home ? "~/" : "");
	for (; at < hay->len; at = end) {
		for (end = at; end < hay->len && marked[end] == marked[at];)
			end++;
		shfs_buf_str(out, marked[at] ? HIT : "");
		shfs_quote_display(out, text + at, end - at);
		shfs_buf_str(out, marked[at] ? OFF : "");
		if (hay->is_file)
			shfs_buf_str(out, "\033[36m");
	}
	if (hay->is_file)
		shfs_buf_printf(out, OFF "\033[2m@%u" OFF, hay->times);
	return 0;
}

static int draw_item(const struct view *v, size_t rank, int row)
{
	const struct shfs_hay *hay = chosen(v, rank);
	_cleanup_buf_ struct shfs_buf line = { 0 };
	int r;

	if (!hay)
		return 0;
	shfs_buf_str(&line, rank == v->split.chosen ? "> " : "  ");
	shfs_buf_str(&line, hay->is_bad ? "\033[31m" : "\033[2m");
	show_age(&line, hay->time_ns);
	shfs_buf_str(&line, OFF);
	if (hay->is_file)
		shfs_buf_str(&line, "\033[36m");
	r = show_marked_text(v, hay, v->split.list.columns - 2 - AGE_COLUMNS, &line);
	if (r || line.failed)
		return -ENOMEM;
	shfs_screen_put(v->split.screen, row, v->split.list.column, v->split.list.columns,
	                line.data, line.len,
	                rank == v->split.chosen ? SHFS_LOOK_CHOSEN : SHFS_LOOK_PLAIN);
	return 0;
}

/* --- the rest of the screen --- */

/* Adds the typed line; if it does not fit, the part before the cursor. Returns its
 * column. */
static int show_typed_line(const struct view *v, struct shfs_buf *out)
{
	const struct shfs_line *line = &v->line;
	int room = MAX(shfs_screen_columns(v->split.screen) - 3, 1);
	_cleanup_buf_ struct shfs_buf before = { 0 };
	int column;

	shfs_buf_str(out, "> ");
	shfs_quote_display(&before, line->text.data, line->cursor);
	if (!before.failed)
		shfs_show_tail(out, before.data, room);
	column = out->failed ? 0 : shfs_quote_width(out->data, out->len);
	shfs_quote_display(out, line->text.data + line->cursor,
	                   line->text.len - line->cursor);
	return column;
}

/* Draws the head; returns the column of the cursor. */
static int draw_head(struct view *v)
{
	static const char *const kinds[] = {
		[SHFS_HAY_COMMANDS] = "commands  ^R all  ^T files",
		[SHFS_HAY_FILES] = "files  ^T all  ^R commands",
		[SHFS_HAY_COMMANDS | SHFS_HAY_FILES] =
			"commands and files  ^R commands  ^T files",
	};
	const struct shfs_haystack *h = v->search->haystack;
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int columns = shfs_screen_columns(v->split.screen),
	    column = show_typed_line(v, &text);

	if (!text.failed)
		shfs_screen_put(v->split.screen, 0, 0, columns, text.data, text.len,
		                SHFS_LOOK_PLAIN);
	text.len = 0;
	shfs_buf_printf(&text, "  %zu/%zu%s  %s  ^/ preview", shfs_haystack_found(h),
	                shfs_haystack_loaded(h), v->loading ? "…" : "", kinds[v->kinds]);
	if (!text.failed)
		shfs_screen_put(v->split.screen, 1, 0, columns, text.data, text.len,
		                SHFS_LOOK_DIM);
	return column;
}

static int draw_search_screen(struct view *v)
{
	struct shfs_split *split = &v->split;
	int r = 0;

	shfs_split_draw(split, shfs_haystack_found(v->search->haystack));
	for (int i = 0; i < split->list.rows && !r; i++)
		r = draw_item(v, split->top + i, split->list.row + i);
	shfs_screen_show(split->screen, 0, draw_head(v));
	return r;
}

/* --- the preview --- */

static bool is_preview_due(const struct view *v)
{
	const struct shfs_hay *hay = chosen(v, v->split.chosen);

	if (!v->split.side.rows || v->loading)
		return false;
	return hay ? v->preview_id != hay->id || v->preview_is_file != hay->is_file
	           : v->split.text.len > 0;
}

static int make_preview(struct view *v)
{
	const struct shfs_hay *hay = chosen(v, v->split.chosen);
	struct shfs_preview p = {
		.store = v->search->store,
		.screen = v->split.screen,
		.view = { v->search->index, &shfs_style_colors,
		          MAX(v->split.side.columns, PREVIEW_MIN) },
	};
	int r = 0;

	v->split.text.len = 0;
	v->preview_id = 0;
	v->split.scrolled = 0;
	if (hay)
		r = hay->is_file ? shfs_preview_file(&p, hay->id, &v->split.text)
		                 : shfs_preview_command(&p, hay->id, hay->times,
		                                        &v->split.text);
	if (r == -EINTR) /* interrupted: make it again */
		return 0;
	if (hay) {
		v->preview_id = hay->id;
		v->preview_is_file = hay->is_file;
	}
	return r ?: v->split.text.failed ? -ENOMEM : 0;
}

/* --- keys --- */

/* Shows only these kinds, or all again. A shell's line has the name of a file at its
 * end. */
static int turn_to(struct view *v, enum shfs_hay_kinds kinds)
{
	const char *line = v->search->query;

	v->kinds = v->kinds == kinds ? SHFS_HAY_COMMANDS | SHFS_HAY_FILES : kinds;
	v->changed = true;
	if (v->search->is_line && kinds == SHFS_HAY_FILES &&
	    !strcmp(v->line.text.data, line))
		return shfs_line_set(&v->line, shfs_last_word(line));
	return 0;
}

static int type(struct view *v, int key)
{
	_cleanup_free_ char *before = strdup(v->line.text.data);

	if (!before)
		return -ENOMEM;
	if (shfs_line_key(&v->line, key) && strcmp(before, v->line.text.data) != 0)
		v->changed = true;
	return v->line.text.failed ? -ENOMEM : 0;
}

enum { GO_ON, CHOSE, LEFT };

static int take_search_key(struct view *v, int key, int *end)
{
	switch (key) {
	case '\r':
		*end = chosen(v, v->split.chosen) ? CHOSE : LEFT;
		return 0;
	case SHFS_KEY_CTRL('X'):
		if (v->search->is_line || !chosen(v, v->split.chosen))
			return 0;
		v->search->forget = true;
		*end = CHOSE;
		return 0;
	case SHFS_KEY_CTRL('D'):
		if (v->line.text.len)
			break;
		/* fallthrough */
	case 27:
	case SHFS_KEY_CTRL('C'):
	case SHFS_KEY_CTRL('G'):
	case SHFS_KEY_CTRL('Q'):
	case SHFS_KEY_GONE:
		*end = LEFT;
		return 0;
	case SHFS_KEY_CTRL('R'):
		return turn_to(v, SHFS_HAY_COMMANDS);
	case SHFS_KEY_CTRL('T'):
		return turn_to(v, SHFS_HAY_FILES);
	case SHFS_KEY_RESIZED:
		v->preview_id = 0; /* it was made for other columns */
		return 0;
	}
	if (shfs_split_key(&v->split, key, shfs_haystack_found(v->search->haystack)))
		return 0;
	return type(v, key);
}

/* Runs until something is chosen, or the user leaves. */
static int run_search_screen(struct view *v, int *end)
{
	int r = 0;

	while (!r && *end == GO_ON) {
		int key;

		if (v->changed)
			r = search_typed_line(v);
		if (!r)
			r = draw_search_screen(v);
		if (r)
			break;
		key = shfs_screen_key(v->split.screen, v->loading          ? 0
		                                       : is_preview_due(v) ? REST_MS
		                                                           : -1);
		if (key)
			r = take_search_key(v, key, end);
		else
			r = v->loading ? load_haystack_slice(v) : make_preview(v);
	}
	return r;
}

int shfs_search_choose(struct shfs_search *s, struct shfs_hay *out)
{
	struct view v = { .search = s,
		          .kinds = s->kinds,
		          .loading = true,
		          .changed = true,
		          .split = { .head_rows = HEAD_ROWS, .part = 50 } };
	int r, code, end = GO_ON;

	r = shfs_line_set(&v.line, s->query);
	code = r ? SHFS_EXIT_FAILURE
	         : shfs_screen_open(shfs_context_screen_color(s->ctx), !s->is_line,
	                            &v.split.screen);
	if (!code) {
		r = run_search_screen(&v, &end);
		shfs_screen_close(v.split.screen);
	}
	if (!code && !r && end == CHOSE)
		*out = *chosen(&v, v.split.chosen);
	else if (!code)
		code = r ? shfs_fail_index(s->index, r) : SHFS_EXIT_NOT_FOUND;
	shfs_line_clear(&v.line);
	shfs_split_clear(&v.split);
	return code;
}
