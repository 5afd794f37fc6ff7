/* SPDX-License-Identifier: MIT */
#include "query/history/version-show.h"

#include "common/quote.h"
#include "query/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define INDENT      "    "
#define TIME_WIDTH  21 /* with its blanks */
#define SIZES_WIDTH 21 /* "  1023 KiB  +1023 KiB" */

/* Shows a version's name in the room that others leave: at least half of the line. */
static int show_fitted_name(const struct shfs_version_view *view, const char *path,
                            int64_t n, size_t others, struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	shfs_show_version(&name, path, n);
	if (name.failed)
		return -ENOMEM;
	shfs_show_tail(out, name.data, view->columns - MIN(others, view->columns / 2));
	return 0;
}

/* --- the command --- */

int shfs_doer_load(struct shfs_index *index, int64_t command_id, int64_t process_id,
                   struct shfs_entry *out)
{
	out->is_process = !command_id;
	if (command_id)
		return shfs_command_load(index, command_id, &out->command);
	return process_id ? shfs_process_load(index, process_id, &out->process) : 0;
}

/* Shows one line, or none if the command is unknown. lead: "renamed from a.csv", or
 * "". */
static int show_doer(const struct shfs_version_view *view, struct shfs_buf *out,
                     const char *lead, int64_t command_id, int64_t process_id)
{
	_cleanup_entry_ struct shfs_entry e = { 0 };
	const char *colon = *lead ? ": " : "";
	size_t width =
		shfs_quote_width(lead, strlen(lead)) + strlen(INDENT) + strlen(colon);
	int r = shfs_doer_load(view->index, command_id, process_id, &e);

	if (r < 0 || (!r && !*lead))
		return r;
	shfs_buf_str(out, INDENT);
	shfs_show_dim(out, view->style, lead);
	if (r) {
		shfs_show_dim(out, view->style, colon);
		r = shfs_entry_show_head(view->index, view->style, &e,
		                         view->columns - MIN(width, view->columns), out);
	}
	shfs_buf_char(out, '\n');
	return r;
}

/* --- removal and return of the file --- */

/*
 * Uses that took a version from its path. If the same command then made the next version,
 * that is how it saves, and is not shown, unless the old version still exists under
 * another name. And uses that made the version again, with the same bytes.
 */
#define SAME_DOER(x, y)                                                                  \
	x ".command_id IS " y ".command_id AND (" x ".command_id IS NOT NULL OR " x      \
	  ".process_id IS " y ".process_id)"
#define GONE                                                                             \
	"SELECT seen_n AS n, op, path2, end_ns, command_id, process_id, seq_key, 0"      \
	" FROM v_access a WHERE file_id = ?1 AND is_open = 0 AND seen_n IS NOT NULL"     \
	" AND op IN ('unlink', 'rename')"                                                \
	" AND NOT (EXISTS (SELECT 1 FROM v_version v WHERE v.file_id = ?1"               \
	"  AND v.n = a.seen_n + 1 AND " SAME_DOER(                                       \
		"v", "a") ") AND (op = 'unlink' OR EXISTS"                               \
			  "  (SELECT 1 FROM v_access b WHERE b.file_id = a.file2_id"     \
			  "  AND b.is_open = 0 AND b.op IN ('unlink', 'rename') AND "    \
			  "b.seq_key > a.seq_key"                                        \
			  "  AND " SAME_DOER("b", "a") ")))"
#define AGAIN                                                                            \
	"SELECT made_n, 'again', NULL, end_ns, command_id, process_id, seq_key,"         \
	" EXISTS (SELECT 1 FROM v_version v LEFT JOIN v_access b USING (access_id)"      \
	"  WHERE v.file_id = ?1 AND v.n = a.made_n AND (" SAME_DOER(                     \
		"v", "a") "  OR b.begin_ns = a.begin_ns"                                 \
			  "  OR (v.carried AND v.origin_version_id = (a.file_id << 32 "  \
			  "| a.seen_n))))"                                               \
			  " FROM v_access a WHERE %s = ?1 AND made_n IS NOT "            \
			  "NULL AND access_id IS NOT"                                    \
			  " (SELECT access_id FROM v_version v WHERE "                   \
			  "v.file_id = ?1 AND v.n = a.made_n)"

static bool is_same_doer(const struct shfs_gone *a, const struct shfs_gone *b)
{
	return a->command_id == b->command_id &&
	       (a->command_id || a->process_id == b->process_id);
}

/* Adds an access that wrote the bytes which were there. own: it is of the maker of the
 * version, or through the same open file, or it is the move that brought the version. */
static int add_same(struct shfs_gone_list *gone, struct shfs_gone *last,
                    struct shfs_gone one, bool own)
{
	if (last ? is_same_doer(last, &one) : own)
		return 0;
	one.back = false;
	one.n_same = 1;
	if (last && last->n_same) {
		one.n_same += last->n_same;
		*last = one;
		return 0;
	}
	if (!MAKE_ROOM(gone->list, gone->n, gone->cap))
		return -ENOMEM;
	gone->list[gone->n++] = one;
	return 0;
}

static int add_gone(struct shfs_gone_list *gone, struct shfs_rows *rows)
{
	struct shfs_gone *last = gone->n ? &gone->list[gone->n - 1] : NULL;
	bool renamed = !strcmp(shfs_rows_text(rows, 1), "rename");
	struct shfs_gone one = {
		.back = !strcmp(shfs_rows_text(rows, 1), "again"),
		.n = shfs_rows_int(rows, 0),
		.end_ns = shfs_rows_int(rows, 3),
		.command_id = shfs_rows_int(rows, 4),
		.process_id = shfs_rows_int(rows, 5),
	};

	if (last && last->n != one.n)
		last = NULL;
	if (one.back && (!last || last->back || last->n_same))
		return add_same(gone, last, one, shfs_rows_int(rows, 7));
	if (!MAKE_ROOM(gone->list, gone->n, gone->cap))
		return -ENOMEM;
	if (renamed && !(one.path2 = strdup(shfs_rows_text(rows, 2))))
		return -ENOMEM;
	gone->list[gone->n++] = one;
	return 0;
}

static int load_noted(struct shfs_index *index, int64_t file_id, struct shfs_ids *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		index,
		"SELECT version_ns FROM v_note WHERE command = '' AND"
		" path = (SELECT path FROM v_path WHERE file_id = ?1)",
		SHFS_INTS(file_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = shfs_ids_add(out, shfs_rows_int(rows, 0));
	shfs_ids_sort(out);
	return r;
}

int shfs_gone_load(struct shfs_index *index, int64_t file_id, struct shfs_gone_list *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_printf(&sql,
	                GONE " UNION ALL " AGAIN " UNION ALL " AGAIN " ORDER BY 1, 7",
	                "file2_id IS NULL AND file_id", "file2_id");
	r = sql.failed ? -ENOMEM
	               : shfs_rows_open_ints(index, sql.data, SHFS_INTS(file_id), &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = add_gone(out, rows);
	return r ? r : load_noted(index, file_id, &out->noted);
}

void shfs_gone_clear(struct shfs_gone_list *gone)
{
	for (size_t i = 0; i < gone->n; i++)
		free(gone->list[i].path2);
	free(gone->list);
	shfs_ids_free(&gone->noted);
	*gone = (struct shfs_gone_list){ 0 };
}

const struct shfs_gone *shfs_gone_find(const struct shfs_gone_list *gone, int64_t n)
{
	size_t low = 0, high = gone->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (gone->list[middle].n < n)
			low = middle + 1;
		else
			high = middle;
	}
	return low < gone->n && gone->list[low].n == n ? &gone->list[low] : NULL;
}

const struct shfs_gone *shfs_gone_next(const struct shfs_gone_list *gone,
                                       const struct shfs_gone *one)
{
	const struct shfs_gone *next = one + 1;

	return next < gone->list + gone->n && next->n == one->n ? next : NULL;
}

const struct shfs_gone *shfs_gone_before(const struct shfs_gone_list *gone,
                                         const struct shfs_gone *one)
{
	return one > gone->list && one[-1].n == one->n ? one - 1 : NULL;
}

int shfs_version_show_gone(const struct shfs_version_view *view,
                           const struct shfs_gone *one, struct shfs_buf *out)
{
	bool there = one->back || one->n_same;
	int r = 0;

	shfs_buf_printf(out, "%s%s", there ? view->style->bold : view->style->bad,
	                one->n_same  ? "written again, the same"
	                : one->back  ? "there again"
	                : one->path2 ? "renamed to "
	                             : "deleted");
	if (one->n_same > 1)
		shfs_buf_printf(out, " (%" PRId64 " times)", one->n_same);
	if (one->path2)
		r = show_fitted_name(view, one->path2, 0,
		                     strlen("renamed to ") + TIME_WIDTH, out);
	if (r)
		return r;
	shfs_buf_printf(out, "%s  ", view->style->off);
	shfs_time_show(out, one->end_ns);
	shfs_buf_char(out, '\n');
	return show_doer(view, out, "", one->command_id, one->process_id);
}

/* --- one version --- */

int shfs_version_before(struct shfs_index *index, const struct shfs_version *v,
                        struct shfs_version *before)
{
	return v->n > 1 ? shfs_version_load(index, v->version_id - 1, before) : 0;
}

/* The first earlier version of this file with the same content; 0: there is none. */
static int same_before(const struct shfs_version_view *view, const struct shfs_version *v,
                       int64_t *n)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	char object[44];
	int r;

	*n = 0;
	if (!(v->flags & SHFS_CONTENT_OBJECT) || (v->flags & SHFS_CONTENT_INCOMPLETE))
		return 0;
	shfs_object_name(&v->object, object);
	/* "+": by the object, of which there are fewer rows than of the file. */
	r = shfs_rows_open_str(
		view->index,
		"SELECT min(n) FROM v_version WHERE object_key = object_key(?1)"
		" AND object = ?1 AND +file_id = ?2 AND +n < ?3",
		object, &rows);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, v->file_id);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, v->n);
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		*n = shfs_rows_int(rows, 0);
	return MIN(r, 0);
}

/* Shows by how much it is larger than the version before oldest. Only the size of that is
 * asked for: whose it is costs as much as all else of a line. */
static int show_delta(const struct shfs_version_view *view, struct shfs_buf *out,
                      const struct shfs_version *v, const struct shfs_version *oldest)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int64_t delta;
	int r = 0;

	if (oldest->n <= 1)
		return 0;
	r = shfs_rows_open_ints(view->index,
	                        "SELECT size FROM v_version WHERE" SHFS_SQL_VERSION("?1"),
	                        SHFS_INTS(oldest->version_id - 1), &rows);
	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0)
		return r;
	delta = (int64_t)v->size - shfs_rows_int(rows, 0);
	shfs_buf_printf(out, "  %s%c", view->style->dim, delta < 0 ? '-' : '+');
	shfs_show_size(out, llabs(delta));
	shfs_buf_str(out, view->style->off);
	return 0;
}

static void show_note(const struct shfs_version_view *view, struct shfs_buf *out,
                      const char *style, const char *fmt, const char *arg)
{
	shfs_buf_printf(out, INDENT "%s", style);
	shfs_buf_printf(out, fmt, arg);
	shfs_buf_printf(out, "%s\n", view->style->off);
}

static int show_notes(const struct shfs_version_view *view, struct shfs_buf *out,
                      const struct shfs_version *v)
{
	const char *why = shfs_version_why_not_archived(v->flags);
	_cleanup_notes_ struct shfs_notes notes = { 0 };
	int64_t same;
	int r = same_before(view, v, &same)
	                ?: shfs_notes_of_version(view->index, v, &notes);

	if (same)
		shfs_buf_printf(out, INDENT "%sthe content of @%lld again%s\n",
		                view->style->dim, (long long)same, view->style->off);
	if (why)
		show_note(view, out, view->style->dim, "not archived: %s", why);
	if (v->flags & SHFS_CONTENT_INCOMPLETE)
		show_note(view, out, view->style->bad, "incomplete: %s",
		          "it changed while it was captured");
	if (shfs_notes_any(&notes)) {
		shfs_buf_str(out, INDENT);
		shfs_notes_show(out, view->style, &notes,
		                view->columns - MIN(view->columns, strlen(INDENT)));
		shfs_buf_char(out, '\n');
	}
	return r;
}

/* Adds the earlier name of the version, to precede the command. A file that its own maker
 * renamed into place is how programs save: nothing is added. */
static int origin_words(const struct shfs_version_view *view,
                        const struct shfs_version *v, const struct shfs_version *origin,
                        struct shfs_buf *out)
{
	bool own = v->command_id
	                   ? origin->command_id == v->command_id
	                   : !origin->command_id && origin->process_id == v->process_id;

	if (own && !v->carried)
		return 0;
	if (v->carried)
		shfs_buf_str(out, "as ");
	else
		shfs_buf_printf(out, "%s from ", v->source);
	return show_fitted_name(view, origin->path, origin->n, view->columns, out);
}

static int show_version_maker(const struct shfs_version_view *view, struct shfs_buf *out,
                              const struct shfs_version *v)
{
	_cleanup_version_ struct shfs_version origin = { 0 };
	_cleanup_buf_ struct shfs_buf words = { 0 };
	int r = 0;

	if (v->origin_version_id)
		r = shfs_version_load(view->index, v->origin_version_id, &origin);
	if (r < 0)
		return r;
	if (r)
		r = origin_words(view, v, &origin, &words);
	if (r || words.failed)
		return r ?: -ENOMEM;
	return show_doer(view, out, words.data ? words.data : "", v->command_id,
	                 v->process_id);
}

/* Has a command written the same bytes? */
#define WRITTEN_AGAIN                                                                    \
	"SELECT EXISTS (SELECT 1 FROM v_access WHERE file_id = ?1 AND made_n = ?2"       \
	" AND is_open)"

/* Is it an earlier version of the file, with its time? Then it may never have been
 * another: what came between may have been on a layer (`shfs try`). */
static int is_earlier(const struct shfs_version_view *view, const struct shfs_version *v,
                      int64_t *same)
{
	_cleanup_version_ struct shfs_version w = { 0 };
	int r = same_before(view, v, same);

	if (!r && *same)
		r = shfs_version_load(view->index, v->file_id << 32 | *same, &w);
	return r < 0 ? r : *same && w.mtime_ns == v->mtime_ns;
}

/* Shows a version that no command made. */
static int show_found(const struct shfs_version_view *view, struct shfs_buf *out,
                      const struct shfs_version *v)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int64_t same;
	int r = shfs_rows_open_ints(view->index, WRITTEN_AGAIN,
	                            SHFS_INTS(v->file_id, v->n), &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r < 0)
		return r;
	r = is_earlier(view, v, &same);
	if (r < 0)
		return r;
	show_note(view, out, view->style->dim, "%s",
	          r                        ? "as it was, with its time"
	          : v->n > 1               ? "changed while nothing watched"
	          : shfs_rows_int(rows, 0) ? "found there"
	                                   : "found there: no recorded command made it");
	return 0;
}

static void show_range(const struct shfs_version_view *view,
                       const struct shfs_version *newest,
                       const struct shfs_version *oldest, struct shfs_buf *out)
{
	shfs_buf_printf(out, INDENT "%s%" PRId64 " versions, from @%" PRId64 "  ",
	                view->style->dim, newest->n - oldest->n + 1, oldest->n);
	shfs_time_show(out, oldest->time_ns);
	shfs_buf_printf(out, "%s\n", view->style->off);
}

int shfs_version_show(const struct shfs_version_view *view, const struct shfs_version *v,
                      struct shfs_buf *out)
{
	return shfs_version_show_fold(view, v, v, out);
}

int shfs_version_show_fold(const struct shfs_version_view *view,
                           const struct shfs_version *v,
                           const struct shfs_version *oldest, struct shfs_buf *out)
{
	bool found = !strcmp(v->source, "found") && !v->carried;
	int r;

	shfs_buf_str(out, view->style->bold);
	r = show_fitted_name(view, v->path, v->n, TIME_WIDTH + SIZES_WIDTH, out);
	if (r)
		return r;
	shfs_buf_printf(out, "%s  ", view->style->off);
	shfs_time_show(out, v->time_ns);
	shfs_buf_str(out, "  ");
	shfs_show_size(out, v->size);
	r = show_delta(view, out, v, oldest);
	if (r)
		return r;
	shfs_buf_char(out, '\n');
	if (oldest->n != v->n)
		show_range(view, v, oldest, out);
	r = found ? show_found(view, out, v) : show_version_maker(view, out, v);
	return r ? r : show_notes(view, out, v);
}
