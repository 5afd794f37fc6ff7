/* SPDX-License-Identifier: MIT */
#include "query/cmd.h"
#include "query/diff.h"
#include "query/entry.h"
#include "query/time.h"
#include "query/version-spec.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define INDENT      "    "
#define TIME_WIDTH  21 /* with the blanks before it */
#define SIZES_WIDTH 21 /* "  1023 KiB  +1023 KiB" */

static struct {
	int64_t limit;
	bool patch, json, reverse;
} opts;

struct log {
	struct shfs_context *ctx;
	struct shfs_index *index;
	struct shfs_store *store;
	const struct shfs_style *style;
	size_t columns;
	struct shfs_buf out;
	struct shfs_json json;
	bool any;
};

/* A version's name in what room there is: at least half of the line. */
static int show_name(struct log *l, const char *path, int64_t n, size_t others,
                     struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	shfs_show_version(&name, path, n);
	if (name.failed)
		return -ENOMEM;
	shfs_show_tail(out, name.data, l->columns - MIN(others, l->columns / 2));
	return 0;
}

/* --- who did it --- */

static int load_doer(struct log *l, int64_t command_id, int64_t process_id,
                     struct shfs_entry *out)
{
	out->is_process = !command_id;
	if (command_id)
		return shfs_command_load(l->index, command_id, &out->command);
	return process_id ? shfs_process_load(l->index, process_id, &out->process) : 0;
}

/* One line, or none where it is not known. lead: "renamed from a.csv by ", or "". */
static int show_doer(struct log *l, const char *lead, int64_t command_id,
                     int64_t process_id)
{
	_cleanup_entry_ struct shfs_entry e = { 0 };
	size_t width = shfs_quote_width(lead, strlen(lead)) + strlen(INDENT);
	int r = load_doer(l, command_id, process_id, &e);

	if (r < 0 || (!r && !*lead))
		return r;
	shfs_buf_str(&l->out, INDENT);
	shfs_show_dim(&l->out, l->style, lead);
	if (r)
		r = shfs_entry_show_head(l->index, l->style, &e,
		                         l->columns - MIN(width, l->columns), &l->out);
	shfs_buf_char(&l->out, '\n');
	return r;
}

static int json_doer(struct log *l, int64_t command_id, int64_t process_id)
{
	_cleanup_entry_ struct shfs_entry e = { 0 };
	int r = load_doer(l, command_id, process_id, &e);

	if (r <= 0) {
		shfs_json_null(&l->json, "command");
		return r;
	}
	shfs_json_object(&l->json, "command");
	shfs_entry_json_head(&l->json, &e);
	shfs_json_object_end(&l->json);
	return 0;
}

/* --- when the file went away --- */

/*
 * Of the uses of a version those that took it from its path: the last of a kind is the
 * one that did. Where the same doer then made the next version that is how it saves, and
 * not worth a word, unless the old one is still there under another name.
 */
#define SAME_DOER(x, y)                                                                  \
	x ".command_id IS " y ".command_id AND (" x ".command_id IS NOT NULL OR " x      \
	  ".process_id IS " y ".process_id)"
#define GONE                                                                             \
	"SELECT op, path2, end_ns, command_id, process_id FROM v_access a"               \
	" WHERE file_id = ?1 AND is_open = 0 AND seen_version_id = ?2"                   \
	" AND op IN ('unlink', 'rename')"                                                \
	" AND NOT (EXISTS (SELECT 1 FROM v_version v WHERE v.file_id = ?1"               \
	"  AND v.n = ?3 + 1 AND " SAME_DOER(                                             \
		"v", "a") ") AND (op = 'unlink' OR EXISTS"                               \
			  "  (SELECT 1 FROM v_access b WHERE b.file_id = a.file2_id"     \
			  "  AND b.is_open = 0 AND b.op IN ('unlink', 'rename') AND "    \
			  "b.seq_key > a.seq_key"                                        \
			  "  AND " SAME_DOER("b", "a") ")))"                             \
						       " ORDER BY seq_key"

static int show_one_gone(struct log *l, struct shfs_rows *rows)
{
	bool renamed = !strcmp(shfs_rows_text(rows, 0), "rename");
	int r = 0;

	shfs_buf_printf(&l->out, "%s%s", l->style->bad,
	                renamed ? "renamed to " : "deleted");
	if (renamed)
		r = show_name(l, shfs_rows_text(rows, 1), 0,
		              strlen("renamed to ") + TIME_WIDTH, &l->out);
	if (r)
		return r;
	shfs_buf_printf(&l->out, "%s  ", l->style->off);
	shfs_time_show(&l->out, shfs_rows_int(rows, 2));
	shfs_buf_char(&l->out, '\n');
	return show_doer(l, "", shfs_rows_int(rows, 3), shfs_rows_int(rows, 4));
}

static int json_one_gone(struct log *l, struct shfs_rows *rows)
{
	int r;

	shfs_json_object(&l->json, NULL);
	shfs_json_str(&l->json, "what", shfs_rows_text(rows, 0));
	if (!shfs_rows_is_null(rows, 1))
		shfs_json_str(&l->json, "to", shfs_rows_text(rows, 1));
	shfs_json_time(&l->json, "time", shfs_rows_int(rows, 2));
	r = json_doer(l, shfs_rows_int(rows, 3), shfs_rows_int(rows, 4));
	shfs_json_object_end(&l->json);
	return r;
}

static int put_gone(struct log *l, const struct shfs_version *v)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(l->index, GONE, &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 1, v->file_id);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, v->version_id);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, v->n);
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = opts.json ? json_one_gone(l, rows) : show_one_gone(l, rows);
	return r;
}

/* --- one version --- */

/* The version before it; *before is cleared where there is none. */
static int load_before(struct log *l, const struct shfs_version *v,
                       struct shfs_version *before)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(l->index,
	                       "SELECT" SHFS_VERSION_COLUMNS
	                       "FROM v_version WHERE file_id = ?1 AND n = ?2",
	                       &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 1, v->file_id);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, v->n - 1);
	if (!r)
		r = shfs_rows_next(rows);
	return r > 0 ? shfs_version_from_row(rows, before) : r;
}

/* The number of the first version of this file with the same content; 0: there is none
 * before it. */
static int same_before(struct log *l, const struct shfs_version *v, int64_t *n)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	char object[44];
	int r;

	*n = 0;
	if (!(v->flags & SHFS_CONTENT_OBJECT) || (v->flags & SHFS_CONTENT_INCOMPLETE))
		return 0;
	shfs_object_name(&v->object, object);
	/* "+": by the object, of which there are fewer rows than of the file. */
	r = shfs_rows_open(
		l->index,
		"SELECT min(n) FROM v_version WHERE object_key = object_key(?1)"
		" AND object = ?1 AND +file_id = ?2 AND +n < ?3",
		&rows);
	if (!r)
		r = shfs_rows_bind_str(rows, 1, object);
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

static void show_delta(struct log *l, const struct shfs_version *v,
                       const struct shfs_version *before)
{
	int64_t delta = (int64_t)(v->size - before->size);

	if (!before->n)
		return;
	shfs_buf_printf(&l->out, "  %s%c", l->style->dim, delta < 0 ? '-' : '+');
	shfs_show_size(&l->out, llabs(delta));
	shfs_buf_str(&l->out, l->style->off);
}

static void show_note(struct log *l, const char *style, const char *fmt, const char *arg)
{
	shfs_buf_printf(&l->out, INDENT "%s", style);
	shfs_buf_printf(&l->out, fmt, arg);
	shfs_buf_printf(&l->out, "%s\n", l->style->off);
}

static int show_notes(struct log *l, const struct shfs_version *v)
{
	const char *why = shfs_version_why_not_archived(v->flags);
	int64_t same;
	int r = same_before(l, v, &same);

	if (same)
		shfs_buf_printf(&l->out, INDENT "%sthe content of @%lld again%s\n",
		                l->style->dim, (long long)same, l->style->off);
	if (why)
		show_note(l, l->style->dim, "not archived: %s", why);
	if (v->flags & SHFS_CONTENT_INCOMPLETE)
		show_note(l, l->style->bad, "incomplete: %s",
		          "it changed while it was captured");
	return r;
}

/* Another name that it had, as the words before the command. A file that its own maker
 * renamed into place is how programs save: not worth a word. */
static int origin_words(struct log *l, const struct shfs_version *v,
                        const struct shfs_version *origin, struct shfs_buf *out)
{
	int r;

	bool own = v->command_id
	                   ? origin->command_id == v->command_id
	                   : !origin->command_id && origin->process_id == v->process_id;

	if (own && !v->carried)
		return 0;
	if (v->carried)
		shfs_buf_str(out, "as ");
	else
		shfs_buf_printf(out, "%s from ", v->source);
	r = show_name(l, origin->path, origin->n, l->columns, out);
	shfs_buf_str(out, ": ");
	return r;
}

static int show_maker(struct log *l, const struct shfs_version *v)
{
	_cleanup_version_ struct shfs_version origin = { 0 };
	_cleanup_buf_ struct shfs_buf words = { 0 };
	int r = 0;

	if (v->origin_version_id)
		r = shfs_version_load(l->index, v->origin_version_id, &origin);
	if (r < 0)
		return r;
	if (r)
		r = origin_words(l, v, &origin, &words);
	if (r || words.failed)
		return r ?: -ENOMEM;
	return show_doer(l, words.data ? words.data : "", v->command_id, v->process_id);
}

static int show_version(struct log *l, const struct shfs_version *v)
{
	_cleanup_version_ struct shfs_version before = { 0 };
	int r = load_before(l, v, &before);

	if (r < 0)
		return r;
	shfs_buf_str(&l->out, l->style->bold);
	r = show_name(l, v->path, v->n, TIME_WIDTH + SIZES_WIDTH, &l->out);
	if (r)
		return r;
	shfs_buf_printf(&l->out, "%s  ", l->style->off);
	shfs_time_show(&l->out, v->time_ns);
	shfs_buf_str(&l->out, "  ");
	shfs_show_size(&l->out, v->size);
	show_delta(l, v, &before);
	shfs_buf_char(&l->out, '\n');
	if (!strcmp(v->source, "found") && !v->carried)
		show_note(l, l->style->dim, "%s",
		          v->n == 1 ? "found there: no recorded command made it"
		                    : "changed while nothing watched");
	r = show_maker(l, v);
	return r ? r : show_notes(l, v);
}

/* --- the patch --- */

static int show_patch(struct log *l, const struct shfs_version *v)
{
	_cleanup_version_ struct shfs_version before = { 0 };
	struct shfs_diff_side side[2] = { { .fd = -1 }, { .fd = -1 } };
	struct shfs_diff_options options = { .color = shfs_context_color(l->ctx) };
	int r = load_before(l, v, &before);
	int code = 0;

	if (r < 0)
		return r;
	if (!(v->flags & SHFS_CONTENT_OBJECT))
		return 0;
	if (before.n && !(before.flags & SHFS_CONTENT_OBJECT)) {
		show_note(l, l->style->dim, "%s",
		          "no patch: the version before it is not archived");
		return 0;
	}
	shfs_buf_char(&l->out, '\n');
	if (!shfs_show_flush(&l->out))
		return -EIO;
	code = before.n ? shfs_diff_version(l->store, &before, &side[0])
	                : shfs_diff_nothing(&side[0]);
	if (!code)
		code = shfs_diff_version(l->store, v, &side[1]);
	if (!code)
		code = shfs_diff_run(side, &options);
	shfs_diff_side_clear(&side[0]);
	shfs_diff_side_clear(&side[1]);
	return code > 1 ? -ECANCELED : 0;
}

/* --- all of them --- */

static int json_version(struct log *l, const struct shfs_version *v)
{
	_cleanup_version_ struct shfs_version origin = { 0 };
	int r = v->origin_version_id
	                ? shfs_version_load(l->index, v->origin_version_id, &origin)
	                : 0;

	if (r < 0)
		return r;
	shfs_json_object(&l->json, NULL);
	shfs_version_json(&l->json, v);
	if (r) {
		shfs_json_object(&l->json, "origin");
		shfs_json_str(&l->json, "path", origin.path);
		shfs_json_int(&l->json, "n", origin.n);
		shfs_json_object_end(&l->json);
	}
	r = json_doer(l, v->command_id, v->process_id);
	shfs_json_array(&l->json, "gone");
	if (!r)
		r = put_gone(l, v);
	shfs_json_array_end(&l->json);
	shfs_json_object_end(&l->json);
	return r;
}

static int put_version(struct log *l, const struct shfs_version *v)
{
	int r = 0;

	if (opts.json)
		return json_version(l, v);
	if (l->any && opts.patch)
		shfs_buf_char(&l->out, '\n');
	l->any = true;
	if (!opts.reverse)
		r = put_gone(l, v);
	if (!r)
		r = show_version(l, v);
	if (!r && opts.reverse)
		r = put_gone(l, v);
	if (!r && opts.patch)
		r = show_patch(l, v);
	return r ? r : shfs_show_flush(&l->out) ? 0 : -EIO;
}

#define VERSIONS                                                                         \
	"SELECT" SHFS_VERSION_COLUMNS                                                    \
	"FROM v_version WHERE file_id = ?1 AND n <= ?2 ORDER BY n %s LIMIT ?3"

static int put_all(struct log *l, const struct shfs_version *last)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_printf(&sql, VERSIONS, opts.reverse ? "" : "DESC");
	r = sql.failed ? -ENOMEM : shfs_rows_open(l->index, sql.data, &rows);
	if (!r)
		r = shfs_rows_bind_int(rows, 1, last->file_id);
	if (!r)
		r = shfs_rows_bind_int(rows, 2, last->n);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, opts.limit ? opts.limit : -1);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		_cleanup_version_ struct shfs_version v = { 0 };

		r = shfs_version_from_row(rows, &v);
		if (r > 0)
			r = put_version(l, &v);
	}
	return r;
}

static int put_log(struct log *l, const struct shfs_version *last)
{
	int r;

	if (!opts.json) {
		shfs_context_pager(l->ctx);
		l->style = shfs_style_of(l->ctx);
		l->columns = shfs_show_columns();
		return put_all(l, last);
	}
	shfs_json_begin(&l->json, "log");
	shfs_json_str(&l->json, "path", last->path);
	shfs_json_array(&l->json, "versions");
	r = put_all(l, last);
	shfs_json_array_end(&l->json);
	return r ? r : shfs_json_end(&l->json) ? 0 : -EIO;
}

static bool is_directory(const char *operand)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct stat st;

	if (stat(operand, &st) || !S_ISDIR(st.st_mode))
		return false;
	shfs_quote_display(&shown, operand, strlen(operand));
	shfs_error("%s is a directory, which has no versions",
	           shown.data ? shown.data : "");
	shfs_hint("shfs history %s", shown.data ? shown.data : "");
	return true;
}

static int run(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_version_ struct shfs_version last = { 0 };
	struct log l = { .ctx = ctx };
	int r, code = SHFS_EXIT_OK;

	l.index = shfs_context_index(ctx, &code);
	l.store = l.index ? shfs_context_store(ctx, false, &code) : NULL;
	if (!l.store)
		return code;
	if (is_directory(argv[0]))
		return SHFS_EXIT_NOT_FOUND;
	code = shfs_version_spec_find(l.index, argv[0], &last);
	if (code)
		return code;
	r = put_log(&l, &last);
	shfs_buf_free(&l.out);
	shfs_json_free(&l.json);
	if (r == -EIO || r == -ECANCELED) /* it was said, or main says it */
		return SHFS_EXIT_FAILURE;
	return r ? shfs_fail_index(l.index, r) : SHFS_EXIT_OK;
}

static int option(struct shfs_context *ctx, const struct shfs_option *opt,
                  const char *value)
{
	char *end;

	if (!strcmp(opt->name, "patch")) {
		opts.patch = true;
	} else if (!strcmp(opt->name, "json")) {
		opts.json = true;
	} else if (!strcmp(opt->name, "reverse")) {
		opts.reverse = true;
	} else {
		errno = 0;
		opts.limit = strtoll(value, &end, 10);
		if (errno || *end || *value < '0' || *value > '9' || opts.limit < 1) {
			shfs_error("--limit wants a number above 0");
			return SHFS_EXIT_USAGE;
		}
	}
	return 0;
}

static const struct shfs_option options[] = {
	{ "patch", 'p', NULL, "show what each version changed" },
	{ "limit", 'n', "N", "at most N versions" },
	{ "reverse", 0, NULL, "oldest first" },
	{ "json", 0, NULL, "for programs: see docs/json.md" },
	{ 0 },
};

const struct shfs_command shfs_cmd_log = {
	.name = "log",
	.args = "FILE[@N]",
	.summary =
		"List the versions of a file, newest first, and the command behind each",
	.description = "With @N, that version and those before it.\n"
		       "The time of a version that was found there is when it was last "
		       "modified.",
	.options = options,
	.min_args = 1,
	.max_args = 1,
	.option = option,
	.run = run,
};
