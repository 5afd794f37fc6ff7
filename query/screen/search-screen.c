/* SPDX-License-Identifier: MIT */
#include "query/screen/search-screen.h"

#include "common/clock.h"
#include "common/quote.h"
#include "query/base/model.h"
#include "query/screen/line.h"
#include "query/screen/preview.h"
#include "query/screen/scope.h"
#include "query/screen/split.h"

#include <errno.h>
#include <string.h>

#define SLICE_NS    (40 * SHFS_NSEC_PER_SEC / 1000) /* of loading, between keys */
#define REST_MS     60 /* a preview is made after so long without keys */
#define PREVIEW_MIN 40 /* a preview is made for at least so many columns */
#define HEAD_ROWS   2
#define AGE_COLUMNS 5 /* with the blanks after it */
#define ALL_KINDS   (SHFS_HAY_COMMANDS | SHFS_HAY_FILES)
#define HIT         "\033[1;32m"
#define OFF         "\033[m"

struct view {
	struct shfs_search *search;
	struct shfs_split split;
	struct shfs_line line;
	enum shfs_hay_kinds kinds;
	struct shfs_scope scope;
	struct shfs_targets marked;
	int64_t rebuilt;       /* of the index, before it was loaded */
	const char *note;      /* about the last key, until the next one; NULL */
	bool help;             /* the keys are shown */
	bool loading, changed; /* changed: a new search is needed */
	int64_t preview_id;    /* of the entry in the preview; 0: none */
	bool preview_is_file;
};

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

/* Notes of which state of the index the ids are that are loaded next. */
static int note_state(struct view *v)
{
	struct shfs_index_state state;
	int r = shfs_index_look(v->search->index, &state);

	if (!r)
		v->rebuilt = state.rebuilt;
	return r;
}

/* Begins to load anew, where other conditions hold or something was done. */
static int load_again(struct view *v)
{
	struct shfs_search *s = v->search;
	int r;

	shfs_haystack_close(TAKE_PTR(s->haystack));
	v->loading = v->changed = true;
	v->preview_id = 0;
	r = note_state(v);
	return r ? r
	         : shfs_haystack_open(s->index, ALL_KINDS, s->all, s->filter,
	                              &s->haystack);
}

/* Another terminal has forgotten something, or made the index anew: what the ids on the
 * screen mean now is not what is shown. */
static int load_changed(struct view *v)
{
	v->marked.n = 0;
	v->note = "the history has changed: choose again";
	return load_again(v);
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
	shfs_buf_str(out, at ? shfs_sign("…") : hay->below_home ? "~/" : "");
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
	shfs_buf_char(&line, rank == v->split.chosen ? '>' : ' ');
	shfs_buf_char(&line, shfs_targets_has(&v->marked, hay) ? '*' : ' ');
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
		[SHFS_HAY_COMMANDS] = "commands",
		[SHFS_HAY_FILES] = "files",
		[ALL_KINDS] = "commands and files",
	};
	const struct shfs_haystack *h = v->search->haystack;
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int columns = shfs_screen_columns(v->split.screen),
	    column = show_typed_line(v, &text);

	if (!text.failed)
		shfs_screen_put(v->split.screen, 0, 0, columns, text.data, text.len,
		                SHFS_LOOK_PLAIN);
	text.len = 0;
	shfs_buf_printf(&text, "  %zu/%zu%s  %s", shfs_haystack_found(h),
	                shfs_haystack_loaded(h), v->loading ? shfs_sign("…") : "",
	                kinds[v->kinds]);
	shfs_scope_show(&v->scope, &text);
	if (v->marked.n)
		shfs_buf_printf(&text, "  %zu marked", v->marked.n);
	shfs_buf_printf(&text, "  %s", v->note ?: "F1 keys  ^R where  ^T kind");
	if (!text.failed)
		shfs_screen_put(v->split.screen, 1, 0, columns, text.data, text.len,
		                SHFS_LOOK_DIM);
	return column;
}

static const char keys[] =
	"Enter choose         Esc leave            F1 (? on an empty line) these keys\n"
	"Up Down, wheel move  click choose a line  ^/ preview, wheel there: scroll it\n"
	"Tab mark, go down    Shift-Tab mark, up   (Enter and Alt keys take all marked)\n"
	"\n"
	"^R where: everywhere, this host, session, project, directory\n"
	"^S end: any, succeeded, failed            ^O time: any, hour, today, 7, 30 "
	"days\n"
	"^T commands and files, files, commands\n"
	"\n"
	"Alt-S show           Alt-C what it changed\n"
	"Alt-Y copy           (to the clipboard of the terminal, OSC 52)\n"
	"Alt-R restore        Alt-U undo           ^X forget   (shown first, then "
	"asked)\n";

static int draw_search_screen(struct view *v)
{
	struct shfs_split *split = &v->split;
	int r = 0;

	shfs_split_draw(split, shfs_haystack_found(v->search->haystack));
	if (v->help) {
		shfs_screen_clear(split->screen);
		shfs_screen_put_lines(split->screen, HEAD_ROWS, 0,
		                      shfs_screen_rows(split->screen) - HEAD_ROWS,
		                      shfs_screen_columns(split->screen), keys,
		                      strlen(keys), 0);
	}
	for (int i = 0; i < split->list.rows && !r && !v->help; i++)
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

/* Turns to the next kinds. A shell's line has the name of a file at its end. */
static int turn_kinds(struct view *v)
{
	const char *line = v->search->query;

	v->kinds = v->kinds == ALL_KINDS        ? SHFS_HAY_FILES
	           : v->kinds == SHFS_HAY_FILES ? SHFS_HAY_COMMANDS
	                                        : ALL_KINDS;
	v->changed = true;
	if (v->search->is_line && v->kinds == SHFS_HAY_FILES &&
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

/* Marks the chosen line, or takes the mark away, and goes on to the next one. */
static int mark(struct view *v, int key)
{
	const struct shfs_hay *hay = chosen(v, v->split.chosen);
	int r = hay ? shfs_targets_toggle(&v->marked, hay) : 0;

	shfs_split_key(&v->split, key == '\t' ? SHFS_KEY_DOWN : SHFS_KEY_UP,
	               shfs_haystack_found(v->search->haystack));
	return r;
}

/* What is not listed under other conditions cannot stay marked. */
static int turn_scope(struct view *v, enum shfs_scope_dial dial)
{
	int r;

	v->marked.n = 0;
	shfs_haystack_close(TAKE_PTR(v->search->haystack)); /* it reads by the filter */
	r = shfs_scope_turn(&v->scope, dial, v->search->index);
	return r ? r : load_again(v);
}

/* What keys apply to: what is marked, or else the chosen line. */
static int get_targets(const struct view *v, struct shfs_targets *out)
{
	const struct shfs_hay *hay = chosen(v, v->split.chosen);
	int r = 0;

	for (size_t i = 0; i < v->marked.n && !r; i++)
		r = shfs_targets_toggle(out, &v->marked.list[i]);
	return v->marked.n || !hay ? r : shfs_targets_toggle(out, hay);
}

static int copy_targets(struct view *v, const struct shfs_targets *targets)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_targets_text(v->search->index, targets, &text);

	v->note = "copied";
	return r ? r : shfs_screen_copy(v->split.screen, text.data, text.len);
}

/* Takes the keys of actions: 1, 0 if it is none, or a negative errno. */
static int take_action_key(struct view *v, int key)
{
	static const struct {
		int key;
		enum shfs_action action;
		bool changes;
	} actions[] = {
		{ SHFS_KEY_ALT | 's', SHFS_ACTION_SHOW, false },
		{ SHFS_KEY_ALT | 'c', SHFS_ACTION_DIFF, false },
		{ SHFS_KEY_ALT | 'r', SHFS_ACTION_RESTORE, true },
		{ SHFS_KEY_ALT | 'u', SHFS_ACTION_UNDO, true },
		{ SHFS_KEY_CTRL('X'), SHFS_ACTION_FORGET, true },
	};
	struct shfs_search *s = v->search;
	_cleanup_targets_ struct shfs_targets targets = { 0 };
	size_t i = 0;
	int r;

	while (i < ARRAY_SIZE(actions) && actions[i].key != key)
		i++;
	if (i == ARRAY_SIZE(actions) && key != (SHFS_KEY_ALT | 'y'))
		return 0;
	r = get_targets(v, &targets);
	if (r || !targets.n)
		return r ? r : 1;
	r = shfs_targets_check(s->index, v->rebuilt);
	if (!r && i == ARRAY_SIZE(actions))
		r = copy_targets(v, &targets);
	if (r || i == ARRAY_SIZE(actions))
		return r == -ESTALE ? load_changed(v) ?: 1 : r ?: 1;
	if (actions[i].changes) { /* nothing is read meanwhile, and ids may end */
		shfs_haystack_close(TAKE_PTR(s->haystack));
		v->marked.n = 0;
	}
	r = shfs_targets_act(s->ctx, s->index, v->rebuilt, v->split.screen,
	                     actions[i].action, &targets);
	v->preview_id = 0;
	if (r == -ESTALE)
		r = load_changed(v);
	else if (!r && actions[i].changes)
		r = load_again(v);
	return r ? r : 1;
}

enum { GO_ON, CHOSE, LEFT };

static int take_enter(struct view *v, int *end)
{
	int r = shfs_targets_check(v->search->index, v->rebuilt);

	if (r)
		return r == -ESTALE ? load_changed(v) : r;
	*end = v->marked.n || chosen(v, v->split.chosen) ? CHOSE : LEFT;
	return 0;
}

static int take_search_key(struct view *v, int key, int *end)
{
	int r;

	v->note = NULL;
	if (v->help && key != SHFS_KEY_RESIZED && key != SHFS_KEY_GONE) {
		v->help = false;
		return 0;
	}
	switch (key) {
	case '\r':
		return take_enter(v, end);
	case '\t':
	case SHFS_KEY_SHIFT_TAB:
		return mark(v, key);
	case '?':
		if (v->line.text.len)
			break;
		/* fallthrough */
	case SHFS_KEY_HELP:
		v->help = true;
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
		return turn_scope(v, SHFS_SCOPE_PLACE);
	case SHFS_KEY_CTRL('S'):
		return turn_scope(v, SHFS_SCOPE_END);
	case SHFS_KEY_CTRL('O'):
		return turn_scope(v, SHFS_SCOPE_AGE);
	case SHFS_KEY_CTRL('T'):
		return turn_kinds(v);
	case SHFS_KEY_RESIZED:
		v->preview_id = 0; /* it was made for other columns */
		return 0;
	}
	if (shfs_split_key(&v->split, key, shfs_haystack_found(v->search->haystack)))
		return 0;
	r = take_action_key(v, key);
	return r ? MIN(r, 0) : type(v, key);
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

int shfs_search_choose(struct shfs_search *s, struct shfs_targets *out)
{
	struct view v = { .search = s,
		          .kinds = s->kinds,
		          .loading = true,
		          .changed = true,
		          .split = { .head_rows = HEAD_ROWS, .part = 50 } };
	int r, code, end = GO_ON;

	r = shfs_line_set(&v.line, s->query);
	if (!r)
		r = note_state(&v);
	if (!r)
		r = shfs_scope_begin(&v.scope, s->filter, s->index);
	code = r ? SHFS_EXIT_FAILURE
	         : shfs_screen_open(shfs_context_screen_color(s->ctx), !s->is_line,
	                            &v.split.screen);
	if (!code) {
		r = run_search_screen(&v, &end);
		shfs_screen_close(v.split.screen);
	}
	if (!code && !r && end == CHOSE)
		r = get_targets(&v, out);
	if (!code && (r || end != CHOSE))
		code = r ? shfs_fail_index(s->index, r) : SHFS_EXIT_NOT_FOUND;
	shfs_targets_clear(&v.marked);
	shfs_scope_clear(&v.scope);
	shfs_line_clear(&v.line);
	shfs_split_clear(&v.split);
	return code;
}
