/* SPDX-License-Identifier: MIT */
#include "query/screen/split.h"
#include "query/base/model.h"

#include <string.h>

#define BESIDE_MIN  100 /* columns of a screen with the text beside the list */
#define BELOW_MIN   14  /* rows of a screen with the text below the list */
#define WHEEL_LINES 3   /* of the text, for each turn of the wheel */

void shfs_split_clear(struct shfs_split *s)
{
	shfs_buf_free(&s->text);
}

static void lay_out(struct shfs_split *s)
{
	int rows = shfs_screen_rows(s->screen), columns = shfs_screen_columns(s->screen);
	struct shfs_area all = { s->head_rows, 0, rows - s->head_rows, columns };
	int width = columns * s->part / 100, height = all.rows / 2;

	s->list = all;
	s->side = (struct shfs_area){ 0 };
	if (s->alone)
		return;
	if (columns >= BESIDE_MIN) {
		s->list.columns = width - 1;
		s->side = (struct shfs_area){ all.row, width + 2, all.rows,
			                      columns - width - 2 };
	} else if (rows >= BELOW_MIN) {
		s->list.rows = height;
		s->side = (struct shfs_area){ all.row + height + 1, 0,
			                      all.rows - height - 1, columns };
	}
}

static void draw_border(const struct shfs_split *s)
{
	const char *line = s->side.column ? shfs_sign("│") : shfs_sign("─");
	int n = s->side.column ? s->side.rows : s->side.columns;

	for (int i = 0; i < n; i++)
		shfs_screen_put(s->screen, s->side.row + (s->side.column ? i : -1),
		                s->side.column ? s->side.column - 2 : i, 1, line,
		                strlen(line), SHFS_LOOK_DIM);
}

/* Scrolls until the chosen line is visible. */
static void scroll_to_chosen(struct shfs_split *s, size_t n)
{
	size_t rows = MAX(s->list.rows, 1);

	s->chosen = n ? MIN(s->chosen, n - 1) : 0;
	s->top = MIN(s->top, s->chosen);
	if (s->chosen >= s->top + rows)
		s->top = s->chosen - rows + 1;
}

void shfs_split_draw(struct shfs_split *s, size_t n)
{
	const struct shfs_area *a = &s->side;

	shfs_screen_clear(s->screen);
	lay_out(s);
	scroll_to_chosen(s, n);
	draw_border(s);
	s->lines = 0;
	if (s->text.len)
		s->lines = shfs_screen_put_lines(s->screen, a->row, a->column, a->rows,
		                                 a->columns, s->text.data, s->text.len,
		                                 s->scrolled);
}

static void move_by(struct shfs_split *s, int64_t by, size_t n)
{
	int64_t to = (int64_t)s->chosen + by;

	s->chosen = n ? MAX(MIN(to, (int64_t)n - 1), (int64_t)0) : 0;
}

static void scroll_by(struct shfs_split *s, int by)
{
	s->scrolled = MAX(MIN(s->scrolled + by, s->lines - 1), 0);
}

static bool is_in(const struct shfs_area *a, int row, int column)
{
	return row >= a->row && row < a->row + a->rows && column >= a->column &&
	       column < a->column + a->columns;
}

/* The wheel scrolls what lies under it; a click chooses a line. */
static void use_mouse(struct shfs_split *s, int key, size_t n)
{
	int row, column, by = key == SHFS_KEY_WHEEL_UP ? -1 : 1;

	shfs_screen_pointer(s->screen, &row, &column);
	if (is_in(&s->list, row, column)) {
		size_t line = s->top + (row - s->list.row);

		if (key != SHFS_KEY_CLICK)
			move_by(s, by, n);
		else if (line < n)
			s->chosen = line;
	} else if (key != SHFS_KEY_CLICK && is_in(&s->side, row, column)) {
		scroll_by(s, WHEEL_LINES * by);
	}
}

bool shfs_split_key(struct shfs_split *s, int key, size_t n)
{
	int page = MAX(s->list.rows - 1, 1);

	switch (key) {
	case SHFS_KEY_UP:
	case SHFS_KEY_CTRL('P'):
	case SHFS_KEY_CTRL('K'):
		move_by(s, -1, n);
		return true;
	case SHFS_KEY_DOWN:
	case SHFS_KEY_CTRL('N'):
	case SHFS_KEY_CTRL('J'):
		move_by(s, 1, n);
		return true;
	case SHFS_KEY_PAGE_UP:
		move_by(s, -page, n);
		return true;
	case SHFS_KEY_PAGE_DOWN:
		move_by(s, page, n);
		return true;
	case SHFS_KEY_SHIFT_UP:
		scroll_by(s, -1);
		return true;
	case SHFS_KEY_SHIFT_DOWN:
		scroll_by(s, 1);
		return true;
	case SHFS_KEY_CTRL('_'):
		s->alone = !s->alone;
		return true;
	case SHFS_KEY_CLICK:
	case SHFS_KEY_WHEEL_UP:
	case SHFS_KEY_WHEEL_DOWN:
		use_mouse(s, key, n);
		return true;
	case SHFS_KEY_CTRL('L'):
		shfs_screen_refresh(s->screen);
		return true;
	default:
		return false;
	}
}
