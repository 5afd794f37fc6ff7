/* SPDX-License-Identifier: MIT */
#include "query/screen/log-screen.h"

#include "common/quote.h"
#include "query/base/time.h"
#include "query/screen/preview.h"
#include "query/screen/split.h"

#include <errno.h>
#include <string.h>

#define HEAD_ROWS   2
#define REST_MS     30 /* a text is made after so long without keys */
#define TEXT_MIN    40 /* a text is made for at least so many columns */
#define SIZE_DIGITS 9  /* columns of a size */

enum about { PATCH, SINCE, CONTENT, ABOUTS };

struct view {
	struct shfs_store *store;
	struct shfs_index *index;
	const struct shfs_version *last;
	struct shfs_split split;
	enum about about;
	int64_t shown_n; /* of the version in the text; 0: none */
};

/* --- the list --- */

static int show_maker_line(const struct view *v, const struct shfs_version *version,
                           int width, struct shfs_buf *out)
{
	_cleanup_entry_ struct shfs_entry e = { 0 };
	int r = shfs_doer_load(v->index, version->command_id, version->process_id, &e);

	if (r <= 0 || width <= 0)
		return MIN(r, 0);
	if (e.is_process)
		shfs_show_process(out, &e.process, width);
	else if (!e.command.hidden)
		shfs_show_first_line(out, e.command.text, e.command.text_len, width);
	return 0;
}

static int draw_version(const struct view *v, const struct shfs_version *version, int row,
                        bool chosen)
{
	const struct shfs_area *list = &v->split.list;
	_cleanup_buf_ struct shfs_buf line = { 0 }, size = { 0 };
	int r;

	shfs_show_size(&size, version->size);
	shfs_buf_printf(&line, "%s\033[1m@%-4lld\033[m", chosen ? "> " : "  ",
	                (long long)version->n);
	shfs_time_show(&line, version->time_ns);
	shfs_buf_printf(&line, " %*s  ", SIZE_DIGITS, size.failed ? "" : size.data);
	r = show_maker_line(v, version, list->columns - (int)line.len + 7, &line);
	if (r || line.failed)
		return r ?: -ENOMEM;
	shfs_screen_put(v->split.screen, row, list->column, list->columns, line.data,
	                line.len, chosen ? SHFS_LOOK_CHOSEN : SHFS_LOOK_PLAIN);
	return 0;
}

/* Numbers go down from the last one without gaps. */
static int draw_list(const struct view *v)
{
	const struct shfs_split *split = &v->split;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		v->index,
		"SELECT" SHFS_VERSION_COLUMNS "FROM v_version"
		" WHERE file_id = ?1 AND n <= ?2 ORDER BY n DESC LIMIT ?3",
		SHFS_INTS(v->last->file_id, v->last->n - (int64_t)split->top,
	                  split->list.rows),
		&rows);

	for (int i = 0; !r && (r = shfs_rows_next(rows)) > 0; i++) {
		_cleanup_version_ struct shfs_version version = { 0 };

		r = shfs_version_from_row(rows, &version);
		if (r > 0)
			r = draw_version(v, &version, split->list.row + i,
			                 split->top + i == split->chosen);
	}
	return r;
}

static int64_t chosen_n(const struct view *v)
{
	return v->last->n - (int64_t)v->split.chosen;
}

static int draw_log_screen(struct view *v)
{
	static const char *const about[] = {
		[PATCH] = "what it changed",
		[SINCE] = "what has changed since",
		[CONTENT] = "what it holds",
	};
	_cleanup_buf_ struct shfs_buf head = { 0 };
	int columns = shfs_screen_columns(v->split.screen), r;

	shfs_split_draw(&v->split, v->last->n);
	r = draw_list(v);
	shfs_show_version(&head, v->last->path, chosen_n(v));
	shfs_buf_printf(&head, ": %s", about[v->about]);
	if (!head.failed)
		shfs_screen_put(v->split.screen, 0, 0, columns, head.data, head.len,
		                SHFS_LOOK_PLAIN);
	head.len = 0;
	shfs_buf_str(&head, "  Tab what it changed, since, holds  Space scroll  Enter "
	                    "choose  q leave");
	if (!head.failed)
		shfs_screen_put(v->split.screen, 1, 0, columns, head.data, head.len,
		                SHFS_LOOK_DIM);
	shfs_screen_show(v->split.screen, -1, 0);
	return r;
}

/* --- the text beside the list --- */

static int make_text(struct view *v)
{
	static int (*const makers[])(const struct shfs_preview *,
	                             const struct shfs_version *, struct shfs_buf *) = {
		[PATCH] = shfs_preview_patch,
		[SINCE] = shfs_preview_since,
		[CONTENT] = shfs_preview_content,
	};
	struct shfs_split *split = &v->split;
	struct shfs_preview p = {
		.store = v->store,
		.screen = split->screen,
		.view = { v->index, &shfs_style_colors,
		          MAX(split->side.columns, TEXT_MIN) },
	};
	_cleanup_version_ struct shfs_version version = { 0 };
	int r;

	split->text.len = 0;
	split->scrolled = 0;
	v->shown_n = 0;
	r = shfs_version_load(v->index, v->last->file_id << 32 | chosen_n(v), &version);
	if (r > 0) {
		r = shfs_version_show(&p.view, &version, &split->text);
		shfs_buf_char(&split->text, '\n');
	}
	if (!r)
		r = makers[v->about](&p, &version, &split->text);
	if (r == -EINTR) /* interrupted: make it again */
		return 0;
	v->shown_n = chosen_n(v);
	return r ?: split->text.failed ? -ENOMEM : 0;
}

/* --- keys --- */

enum { GO_ON, CHOSE, LEFT };

/* Letters do not edit here: they mean what they mean in less. */
static int meant(int key)
{
	static const struct {
		int key, means;
	} letters[] = {
		{ 'j', SHFS_KEY_DOWN },
		{ 'k', SHFS_KEY_UP },
		{ 'J', SHFS_KEY_SHIFT_DOWN },
		{ 'K', SHFS_KEY_SHIFT_UP },
		{ 'q', 27 },
		{ SHFS_KEY_CTRL('C'), 27 },
		{ SHFS_KEY_CTRL('G'), 27 },
		{ SHFS_KEY_CTRL('Q'), 27 },
		{ SHFS_KEY_GONE, 27 },
		{ 'g', SHFS_KEY_HOME },
		{ 'G', SHFS_KEY_END },
	};

	for (size_t i = 0; i < ARRAY_SIZE(letters); i++)
		if (letters[i].key == key)
			return letters[i].means;
	return key;
}

static void scroll_page(struct shfs_split *s, int by)
{
	int page = MAX(s->side.rows - 2, 1);

	s->scrolled = MAX(MIN(s->scrolled + by * page, s->lines - 1), 0);
}

static int take_log_key(struct view *v, int key)
{
	struct shfs_split *split = &v->split;

	key = meant(key);
	switch (key) {
	case '\r':
		return CHOSE;
	case 27:
		return LEFT;
	case '\t':
		v->about = (v->about + 1) % ABOUTS;
		v->shown_n = 0;
		return GO_ON;
	case ' ':
	case 'b':
		scroll_page(split, key == ' ' ? 1 : -1);
		return GO_ON;
	case SHFS_KEY_HOME:
		split->chosen = 0;
		return GO_ON;
	case SHFS_KEY_END:
		split->chosen = v->last->n - 1;
		return GO_ON;
	case SHFS_KEY_RESIZED:
		v->shown_n = 0;
		return GO_ON;
	}
	shfs_split_key(split, key, v->last->n);
	return GO_ON;
}

static int run_log_screen(struct view *v, int *end)
{
	int r = 0;

	while (!r && *end == GO_ON) {
		int key;
		bool due;

		r = draw_log_screen(v);
		if (r)
			break;
		due = v->split.side.rows && v->shown_n != chosen_n(v);
		key = shfs_screen_key(v->split.screen, due ? REST_MS : -1);
		if (key)
			*end = take_log_key(v, key);
		else
			r = make_text(v);
	}
	return r;
}

int shfs_log_choose(struct shfs_context *ctx, struct shfs_index *index,
                    struct shfs_store *store, const struct shfs_version *last, int64_t *n)
{
	struct view v = { .store = store,
		          .index = index,
		          .last = last,
		          .split = { .head_rows = HEAD_ROWS, .part = 45 } };
	int r, end = GO_ON;
	int code =
		shfs_screen_open(shfs_context_screen_color(ctx), true, &v.split.screen);

	if (code)
		return code;
	r = run_log_screen(&v, &end);
	shfs_screen_close(v.split.screen);
	*n = chosen_n(&v);
	shfs_split_clear(&v.split);
	if (r)
		return shfs_fail_index(index, r);
	return end == CHOSE ? SHFS_EXIT_OK : SHFS_EXIT_NOT_FOUND;
}
