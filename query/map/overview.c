/* SPDX-License-Identifier: MIT */
#include "query/map/overview.h"

#include "query/history/filter.h"

#include <errno.h>

#define SPANS_MAX 8192 /* few enough for the page, many enough for a screen */

/* Commands near to each other: when the first and the last of them began. */
struct span {
	int64_t first_us, last_us, n, failed;
};

struct overview {
	struct span spans[SPANS_MAX]; /* the earliest first */
	size_t n;
	int64_t width_us; /* what begins in the same part of time is one span */
};

static bool are_one(const struct overview *o, const struct span *a, const struct span *b)
{
	return a->first_us / o->width_us == b->first_us / o->width_us;
}

static void add_span(struct overview *o, const struct span *span)
{
	struct span *last = o->n ? &o->spans[o->n - 1] : NULL;

	if (!last || !are_one(o, last, span)) {
		o->spans[o->n++] = *span;
		return;
	}
	last->last_us = span->last_us;
	last->n += span->n;
	last->failed += span->failed;
}

/* Has neighbours become one, until there is room for one more. */
static void coarsen(struct overview *o)
{
	while (o->n == SPANS_MAX) {
		o->width_us *= 2;
		o->n = 0;
		for (size_t i = 0; i < SPANS_MAX; i++)
			add_span(o, &o->spans[i]);
	}
}

static int read_spans(struct shfs_index *index, const char *project, struct overview *o)
{
	struct shfs_filter filter = { .as_recorded = true };
	_cleanup_query_ struct shfs_query query = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = project ? shfs_filter_add(&filter, SHFS_FILTER_PATH, project) : 0;

	shfs_buf_str(&query.sql,
	             "SELECT q.time / 1000, (SELECT c.status <> 0 FROM v_command c"
	             " WHERE c.command_id = q.id AND q.kind = 0) FROM (");
	r = r ?: shfs_filter_measure(&filter, index);
	r = r ?: shfs_filter_query(&filter, &query);
	shfs_buf_str(&query.sql, ") q ORDER BY q.time");
	r = r ?: shfs_query_open(&query, index, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		int64_t us = shfs_rows_int(rows, 0);

		coarsen(o);
		add_span(o, &(struct span){ us, us, 1, shfs_rows_int(rows, 1) });
		r = 0;
	}
	shfs_filter_free(&filter);
	return r;
}

int shfs_map_overview(struct shfs_index *index, const char *project,
                      struct shfs_json *json)
{
	_cleanup_free_ struct overview *o = calloc(1, sizeof(*o));
	int r = -ENOMEM;

	if (o) {
		o->width_us = 1000000;
		r = read_spans(index, project, o);
	}
	if (r)
		return r;
	shfs_json_array(json, "spans");
	for (size_t i = 0; i < o->n; i++) {
		shfs_json_int(json, NULL, o->spans[i].first_us);
		shfs_json_int(json, NULL, o->spans[i].last_us);
		shfs_json_int(json, NULL, o->spans[i].n);
		shfs_json_int(json, NULL, o->spans[i].failed);
	}
	shfs_json_array_end(json);
	return 0;
}
