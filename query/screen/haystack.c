/* SPDX-License-Identifier: MIT */
#include "query/screen/haystack.h"

#include "common/clock.h"
#include "common/fnv.h"
#include "common/path.h"
#include "query/base/model.h"

#include <errno.h>
#include <string.h>

#define TEXT_MAX  4096 /* bytes of a text that is searched */
#define ROWS_MORE 256  /* between two looks at the clock */

/* Adds notes and tags behind the text: "make  # the good one #fig2". */
#define WITH_NOTES(text, condition)                                                      \
	" " text " || coalesce((SELECT '  # ' || group_concat(iif(n.tag = '', n.text,"   \
	" '#' || n.tag), ' ') FROM v_note n WHERE " condition "), '') "

#define NOTED_COMMAND                                                                    \
	WITH_NOTES("text", "n.command = c.id AND n.command_id = c.command_id")
#define NOTED_FILE WITH_NOTES("path", "n.command = '' AND n.path = f.path")

#define COMMANDS                                                                         \
	"SELECT command_id, begin_ns, iif(noted, " NOTED_COMMAND ", text), status"       \
	" FROM v_command c WHERE NOT hidden"
/* Newest first: a later row with the same text is an earlier run. */
#define NEWEST_FIRST " ORDER BY begin_ns DESC"
#define FILES                                                                            \
	"SELECT file_id, last_ns, " NOTED_FILE ", versions, present FROM v_file f"       \
	" WHERE NOT directory"
/* Before and behind the statement of a filter. */
#define CHOSEN          "(WITH chosen(kind, id, time) AS MATERIALIZED ("
#define OF_COMMANDS     " AND command_id IN " CHOSEN
#define CHOSEN_COMMANDS ") SELECT id FROM chosen WHERE kind = 0)"
#define OF_FILES        " AND file_id IN " CHOSEN
#define USED(column)                                                                     \
	"SELECT " column " FROM chosen CROSS JOIN v_access a ON a.command_id = id"       \
	" WHERE kind = 0 UNION SELECT " column " FROM chosen CROSS JOIN v_access a"      \
	" ON a.process_id = id AND a.command_id IS NULL WHERE kind = 1"
#define USED_FILES ") " USED("a.file_id") " UNION " USED("a.made_file_id") ")"
/* Excludes files that a command made and removed itself. */
#define NO_TEMPORARY                                                                     \
	" AND (present OR versions > 1 OR NOT EXISTS (SELECT 1 FROM v_access a"          \
	"  JOIN v_version v ON v.file_id = a.file_id AND v.n = 1"                        \
	"  WHERE a.file_id = f.file_id AND a.is_open = 0"                                \
	"  AND a.op IN ('unlink', 'rename') AND a.command_id IS v.command_id"            \
	"  AND (a.command_id IS NOT NULL OR a.process_id IS v.process_id)))"

struct match {
	uint32_t hay;
	int32_t score;
};

struct shfs_haystack {
	struct shfs_index *index;
	enum shfs_hay_kinds kinds;
	bool all;
	const struct shfs_filter *filter; /* may be without conditions */
	struct shfs_rows *rows;
	bool rows_are_files;
	char *cwd, *home; /* with a trailing slash; may be NULL */
	struct shfs_buf texts;
	struct shfs_hay *list;
	size_t n, cap;
	uint32_t *table; /* of commands, by text: index in list plus 1; 0: none */
	size_t table_size, n_commands;

	/* the last search: in the order of list, then by rank */
	struct shfs_fuzzy *fuzzy;
	char *query;
	enum shfs_hay_kinds searched;
	size_t n_searched; /* entries of list that were searched; 0: none */
	struct match *matches;
	size_t n_matches, matches_cap;
	uint32_t *ranked; /* indexes in matches */
};

/* --- loading --- */

static char *directory_prefix(char *path)
{
	_cleanup_buf_ struct shfs_buf prefix = { 0 };
	_cleanup_free_ char *owned = path;

	if (!path || *path != '/')
		return NULL;
	shfs_buf_printf(&prefix, "%s%s", path, path[1] ? "/" : "");
	return shfs_buf_take(&prefix);
}

static int open_hay_rows(struct shfs_haystack *h)
{
	_cleanup_query_ struct shfs_query q = { 0 };
	bool files = h->rows_are_files;
	int r = 0;

	shfs_buf_str(&q.sql, files ? FILES : COMMANDS);
	if (files && !h->all)
		shfs_buf_str(&q.sql, NO_TEMPORARY);
	if (h->filter->n) {
		shfs_buf_str(&q.sql, files ? OF_FILES : OF_COMMANDS);
		r = shfs_filter_query(h->filter, &q);
		shfs_buf_str(&q.sql, files ? USED_FILES : CHOSEN_COMMANDS);
	}
	shfs_buf_str(&q.sql, files ? "" : NEWEST_FIRST);
	return r ? r : shfs_query_open(&q, h->index, &h->rows);
}

int shfs_haystack_open(struct shfs_index *index, enum shfs_hay_kinds kinds, bool all,
                       const struct shfs_filter *filter, struct shfs_haystack **out)
{
	_cleanup_haystack_ struct shfs_haystack *h = calloc(1, sizeof(*h));
	const char *home = getenv("HOME");
	int r;

	if (!h)
		return -ENOMEM;
	h->index = index;
	h->kinds = kinds;
	h->all = all;
	h->filter = filter;
	h->cwd = directory_prefix(shfs_operand_path("."));
	h->home = home ? directory_prefix(shfs_operand_path(home)) : NULL;
	h->rows_are_files = !(kinds & SHFS_HAY_COMMANDS);
	r = open_hay_rows(h);
	if (r)
		return r;
	*out = TAKE_PTR(h);
	return 0;
}

void shfs_haystack_close(struct shfs_haystack *h)
{
	if (!h)
		return;
	shfs_rows_close(h->rows);
	shfs_buf_free(&h->texts);
	shfs_fuzzy_free(h->fuzzy);
	free(h->cwd);
	free(h->home);
	free(h->list);
	free(h->table);
	free(h->query);
	free(h->matches);
	free(h->ranked);
	free(h);
}

static uint64_t hash_of(const char *text, size_t len)
{
	uint64_t hash = shfs_fnv(SHFS_FNV_BEGIN, text, len);

	return hash ^ hash >> 32;
}

/* The slot of the command with this text, or a free one. */
static uint32_t *slot_of_text(struct shfs_haystack *h, const char *text, size_t len)
{
	size_t i = hash_of(text, len) & (h->table_size - 1);

	for (; h->table[i]; i = (i + 1) & (h->table_size - 1)) {
		const struct shfs_hay *hay = &h->list[h->table[i] - 1];

		if (hay->len == len && !memcmp(h->texts.data + hay->text, text, len))
			break;
	}
	return &h->table[i];
}

static int grow_table(struct shfs_haystack *h)
{
	size_t size = MAX(h->table_size * 2, (size_t)4096);
	uint32_t *old = h->table;

	if (h->n_commands * 2 < h->table_size)
		return 0;
	h->table = calloc(size, sizeof(*h->table));
	if (!h->table) {
		h->table = old;
		return -ENOMEM;
	}
	free(old);
	h->table_size = size;
	for (size_t i = 0; i < h->n; i++)
		if (!h->list[i].is_file)
			*slot_of_text(h, h->texts.data + h->list[i].text,
			              h->list[i].len) = i + 1;
	return 0;
}

static int add_hay(struct shfs_haystack *h, struct shfs_hay hay, const char *text)
{
	if (h->n >= INT32_MAX || !MAKE_ROOM(h->list, h->n, h->cap))
		return -ENOMEM;
	hay.mask = shfs_fuzzy_mask(text, hay.len);
	hay.text = h->texts.len;
	shfs_buf_add(&h->texts, text, hay.len);
	if (h->texts.failed)
		return -ENOMEM;
	h->list[h->n++] = hay;
	return 0;
}

static int add_command_hay(struct shfs_haystack *h)
{
	const char *text = shfs_rows_text(h->rows, 2);
	struct shfs_hay hay = {
		.id = shfs_rows_int(h->rows, 0),
		.time_ns = shfs_rows_int(h->rows, 1),
		.times = 1,
		.len = MIN(shfs_rows_bytes(h->rows, 2), (size_t)TEXT_MAX),
		.is_bad = shfs_rows_int(h->rows, 3) != 0,
	};
	uint32_t *slot;
	int r = grow_table(h);

	if (r || !hay.len)
		return r;
	if (shfs_rows_bytes(h->rows, 2) > TEXT_MAX) /* it may go on with anything */
		return add_hay(h, hay, text);
	slot = slot_of_text(h, text, hay.len);
	if (*slot) {
		h->list[*slot - 1].times++;
		return 0;
	}
	r = add_hay(h, hay, text);
	if (!r) {
		*slot = h->n;
		h->n_commands++;
	}
	return r;
}

static int add_file_hay(struct shfs_haystack *h)
{
	const char *path = shfs_rows_text(h->rows, 2);
	struct shfs_hay hay = {
		.id = shfs_rows_int(h->rows, 0),
		.time_ns = shfs_rows_int(h->rows, 1),
		.times = MIN(shfs_rows_int(h->rows, 3), (int64_t)UINT32_MAX),
		.is_file = true,
		.is_bad = !shfs_rows_int(h->rows, 4),
	};

	if (!h->all && shfs_path_bookkeeping(path))
		return 0;
	if (h->cwd && !strncmp(path, h->cwd, strlen(h->cwd)) && path[strlen(h->cwd)]) {
		path += strlen(h->cwd);
	} else if (h->home && h->home[1] && !strncmp(path, h->home, strlen(h->home))) {
		path += strlen(h->home);
		hay.below_home = true;
	}
	hay.len = MIN(strlen(path), (size_t)TEXT_MAX);
	return add_hay(h, hay, path);
}

static int newer_first(const void *a, const void *b)
{
	const struct shfs_hay *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? 1 : -1;
	return (x->text > y->text) - (x->text < y->text);
}

/* The rows are exhausted: opens the next ones, or sorts everything. */
static int next_rows(struct shfs_haystack *h)
{
	shfs_rows_close(TAKE_PTR(h->rows));
	if (!h->rows_are_files && h->kinds & SHFS_HAY_FILES) {
		h->rows_are_files = true;
		return open_hay_rows(h) ?: 1;
	}
	free(TAKE_PTR(h->table));
	if (h->n)
		qsort(h->list, h->n, sizeof(*h->list), newer_first);
	h->n_searched = 0;
	return 0;
}

int shfs_haystack_load(struct shfs_haystack *h, int64_t budget_ns)
{
	int64_t begin_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	int r = 0;

	if (!h->rows)
		return 0;
	for (size_t i = 1; !r && (r = shfs_rows_next(h->rows)) > 0; i++) {
		r = h->rows_are_files ? add_file_hay(h) : add_command_hay(h);
		if (!r && budget_ns && i % ROWS_MORE == 0 &&
		    shfs_clock_ns(CLOCK_MONOTONIC) - begin_ns > budget_ns)
			return 1;
	}
	if (r)
		return r;
	r = next_rows(h);
	return r > 0 && !budget_ns ? shfs_haystack_load(h, 0) : r;
}

/* --- searching --- */

static int reserve_matches(struct shfs_haystack *h)
{
	void *matches, *ranked;

	if (h->matches_cap >= h->n)
		return 0;
	matches = reallocarray(h->matches, h->cap, sizeof(*h->matches));
	if (!matches)
		return -ENOMEM;
	h->matches = matches;
	ranked = reallocarray(h->ranked, h->cap, sizeof(*h->ranked));
	if (!ranked)
		return -ENOMEM;
	h->ranked = ranked;
	h->matches_cap = h->cap;
	return 0;
}

static void try(struct shfs_haystack *h, uint32_t i, enum shfs_hay_kinds kinds)
{
	const struct shfs_hay *hay = &h->list[i];
	int score = -1;

	if (kinds & (hay->is_file ? SHFS_HAY_FILES : SHFS_HAY_COMMANDS))
		score = shfs_fuzzy_match(h->fuzzy, h->texts.data + hay->text, hay->len,
		                         hay->mask);
	if (score >= 0)
		h->matches[h->n_matches++] = (struct match){ i, score };
}

/* Ranks by counting: matches are in the order of time, and equal ones stay so. */
static int rank(struct shfs_haystack *h)
{
	_cleanup_free_ uint32_t *before = NULL;
	uint32_t sum = 0;
	int most = 0;

	for (size_t i = 0; i < h->n_matches; i++)
		most = MAX(most, h->matches[i].score);
	before = calloc(most + 1, sizeof(*before));
	if (!before)
		return -ENOMEM;
	for (size_t i = 0; i < h->n_matches; i++)
		before[h->matches[i].score]++;
	for (int i = most; i >= 0; i--) {
		uint32_t n = before[i];

		before[i] = sum;
		sum += n;
	}
	for (size_t i = 0; i < h->n_matches; i++)
		h->ranked[before[h->matches[i].score]++] = i;
	return 0;
}

int shfs_haystack_search(struct shfs_haystack *h, const char *query,
                         enum shfs_hay_kinds kinds)
{
	/* only matches of the last search can match now */
	bool narrow = h->n_searched && h->query && h->searched == kinds &&
	              shfs_fuzzy_narrows(query, h->query);
	struct shfs_fuzzy *fuzzy;
	char *copy = strdup(query);
	size_t n = 0;
	int r = copy ? reserve_matches(h) ?: shfs_fuzzy_parse(query, &fuzzy) : -ENOMEM;

	if (r) {
		free(copy);
		return r;
	}
	shfs_fuzzy_free(h->fuzzy);
	free(h->query);
	h->fuzzy = fuzzy;
	h->query = copy;
	h->searched = kinds;
	if (narrow) {
		n = h->n_matches;
		h->n_matches = 0;
		for (size_t i = 0; i < n; i++)
			try(h, h->matches[i].hay, kinds);
	} else {
		h->n_matches = h->n_searched = 0;
	}
	for (; h->n_searched < h->n; h->n_searched++)
		try(h, h->n_searched, kinds);
	return rank(h);
}

size_t shfs_haystack_loaded(const struct shfs_haystack *h)
{
	return h->n;
}

size_t shfs_haystack_found(const struct shfs_haystack *h)
{
	return h->n_matches;
}

const struct shfs_hay *shfs_haystack_at(const struct shfs_haystack *h, size_t place,
                                        int *score)
{
	const struct match *match = &h->matches[h->ranked[place]];

	if (score)
		*score = match->score;
	return &h->list[match->hay];
}

const char *shfs_haystack_text(const struct shfs_haystack *h, const struct shfs_hay *hay)
{
	return h->texts.data + hay->text;
}

void shfs_haystack_mark(const struct shfs_haystack *h, const struct shfs_hay *hay,
                        bool *marked)
{
	memset(marked, false, hay->len);
	if (h->fuzzy)
		shfs_fuzzy_mark(h->fuzzy, shfs_haystack_text(h, hay), hay->len, marked);
}
