/* SPDX-License-Identifier: MIT */
#include "query/history/entry.h"

#include "common/clock.h"
#include "common/path.h"
#include "common/proc.h"
#include "common/quote.h"
#include "query/base/model.h"
#include "query/base/time.h"

#include <errno.h>
#include <string.h>

/* Columns of the id and its blanks; all further lines are indented so. */
#define INDENT 9
/* Columns of a word for a use ("changed") and its blanks. */
#define LABEL         9
#define TEXT_MAX      4 /* lines of a command */
#define USES_MAX      2 /* lines of one kind of use */
#define MORE          "  + %zu more"
#define LONG_TIME     SHFS_NSEC_PER_SEC
#define DIRECTORY_MIN 8 /* columns of a working directory, however much else there is */

/* Puts the files below the directory that were read before others that were, which are
 * mostly of the program: these may be many. */
static int put_nearest_first(struct shfs_uses *uses, const char *directory)
{
	_cleanup_free_ struct shfs_use *sorted = calloc(uses->n + 1, sizeof(*sorted));
	size_t at = 0;

	if (!sorted)
		return -ENOMEM;
	for (int far = 0; far < 2; far++)
		for (size_t i = 0; i < uses->n; i++)
			if (uses->list[i].kind == SHFS_USE_READ &&
			    far == !shfs_path_is_below(uses->list[i].path, directory))
				sorted[at++] = uses->list[i];
	for (size_t i = uses->n; i-- > 0;)
		if (uses->list[i].kind == SHFS_USE_READ)
			uses->list[i] = sorted[--at];
	return 0;
}

int shfs_entry_load(struct shfs_index *index, bool is_process, int64_t id, int64_t max,
                    struct shfs_entry *out)
{
	_cleanup_entry_ struct shfs_entry e = { .is_process = is_process };
	int r = is_process ? shfs_process_load(index, id, &e.process)
	                   : shfs_command_load(index, id, &e.command);

	if (r <= 0)
		return r;
	r = shfs_uses_load(index, is_process ? 0 : id, is_process ? id : 0, max, &e.uses);
	if (!r)
		r = put_nearest_first(&e.uses,
		                      is_process ? e.process.cwd : e.command.cwd);
	if (!r && !is_process)
		r = shfs_notes_of_command(index, &e.command, &e.notes);
	if (r)
		return r;
	*out = e;
	e = (struct shfs_entry){ 0 };
	return 1;
}

void shfs_entry_clear(struct shfs_entry *e)
{
	shfs_command_clear(&e->command);
	shfs_process_clear(&e->process);
	shfs_uses_clear(&e->uses);
	shfs_notes_clear(&e->notes);
}

/* --- the command --- */

static int show_id(struct shfs_index *index, const struct shfs_style *style,
                   const struct shfs_entry *e, struct shfs_buf *out)
{
	int r = 0;

	shfs_buf_str(out, e->is_process ? style->dim : style->id);
	if (e->is_process)
		shfs_buf_str(out, "-------");
	else
		r = shfs_show_id(index, out, e->command.id);
	shfs_buf_str(out, style->off);
	return r;
}

/* Shows the first lines of a command's text, each cut to the columns. */
static void show_command_text(struct shfs_index *index, const struct shfs_style *style,
                              const struct shfs_command_row *command, size_t max_lines,
                              size_t columns, struct shfs_buf *out)
{
	const char *line = command->text, *end = line + command->text_len;
	_cleanup_buf_ struct shfs_buf given = { 0 };

	if (command->hidden) {
		shfs_buf_printf(out, "%s(text not recorded)%s", style->dim, style->off);
		return;
	}
	shfs_show_invoker(index, &given, command);
	columns -= MIN(columns, given.len ? shfs_quote_width(given.data, given.len) : 0);
	shfs_buf_printf(out, "%s%s%s%s", style->dim, given.data ?: "", style->off,
	                style->bold);
	for (size_t n = 1; line < end; n++) {
		const char *newline = memchr(line, '\n', end - line);
		const char *stop = newline ? newline : end;

		/* the last line shows that more follow */
		if (n == max_lines)
			stop = end;
		if (n > 1)
			shfs_buf_printf(out, "\n%*s", INDENT, "");
		shfs_show_first_line(out, line, stop - line, columns - INDENT);
		line = stop + 1;
	}
	shfs_buf_str(out, style->off);
}

/* Shows "cc -c a.c of make -j8". */
static int show_job(struct shfs_index *index, const struct shfs_style *style,
                    const struct shfs_entry *e, size_t columns, struct shfs_buf *out)
{
	_cleanup_process_ struct shfs_process_row job = { 0 };
	_cleanup_buf_ struct shfs_buf of = { 0 };
	size_t width;
	int r = shfs_process_load(index, e->job, &job);

	if (r <= 0)
		return r;
	shfs_buf_str(&of, "  of ");
	shfs_show_invoker(index, &of, &e->command);
	shfs_show_first_line(&of, e->command.text, e->command.text_len, columns / 3);
	out->failed |= of.failed;
	width = of.failed ? 0 : shfs_quote_width(of.data, of.len);
	shfs_buf_str(out, style->bold);
	shfs_show_process(out, &job, columns - MIN(width, columns));
	shfs_buf_printf(out, "%s%s", style->off, style->dim);
	shfs_buf_add(out, of.data, of.len);
	shfs_buf_str(out, style->off);
	return 0;
}

static int show_what(struct shfs_index *index, const struct shfs_style *style,
                     const struct shfs_entry *e, size_t max_lines, size_t columns,
                     struct shfs_buf *out)
{
	int r = show_id(index, style, e, out);

	if (columns <= INDENT)
		return r;
	shfs_buf_str(out, "  ");
	if (e->is_process) {
		shfs_buf_str(out, style->bold);
		shfs_show_process(out, &e->process, columns - INDENT);
		shfs_buf_str(out, style->off);
	} else if (e->job && !e->command.hidden && !r) {
		r = show_job(index, style, e, columns - INDENT, out);
	} else {
		show_command_text(index, style, &e->command, max_lines, columns, out);
	}
	return r;
}

int shfs_entry_show_head(struct shfs_index *index, const struct shfs_style *style,
                         const struct shfs_entry *e, size_t columns, struct shfs_buf *out)
{
	return show_what(index, style, e, 1, columns, out);
}

/* --- when, where, how it ended --- */

static void comma(struct shfs_buf *out, size_t start)
{
	if (out->len > start)
		shfs_buf_str(out, ", ");
}

/* Shows "exit 1, 12 s, no end recorded", as far as it is of interest; maybe nothing. */
static void show_command_end(const struct shfs_style *style,
                             const struct shfs_command_row *c, struct shfs_buf *out)
{
	size_t start = out->len;

	if (!c->ended) {
		/* no directory: from a history that a shell kept */
		shfs_buf_str(out, *c->cwd ? "no end recorded" : "from before shfs");
		return;
	}
	if (c->has_status && c->status)
		shfs_buf_printf(out, "%sexit %lld%s%s", style->bad, (long long)c->status,
		                style->off, style->dim);
	if (c->end_ns - c->begin_ns >= LONG_TIME) {
		comma(out, start);
		shfs_time_show_duration(out, c->end_ns - c->begin_ns);
	}
	if (c->redacted) {
		comma(out, start);
		shfs_buf_str(out, "a secret was taken out");
	}
}

static void show_end(const struct shfs_style *style, const struct shfs_entry *e,
                     struct shfs_buf *out)
{
	size_t start = out->len;

	if (e->is_process)
		shfs_buf_printf(out, "process %lld, no command",
		                (long long)e->process.pid);
	else
		show_command_end(style, &e->command, out);
	if (out->len > start)
		shfs_buf_str(out, "  ");
}

static void show_circumstances(const struct shfs_entry_view *view,
                               const struct shfs_entry *e, struct shfs_buf *out)
{
	static const struct shfs_style plain = { "", "", "", "", "" };
	const char *host = e->is_process ? e->process.host : e->command.host;
	const char *cwd = e->is_process ? e->process.cwd : e->command.cwd;
	_cleanup_buf_ struct shfs_buf before = { 0 }, where = { 0 }, after = { 0 };
	size_t used;
	char here[65];

	shfs_proc_host(here);
	if (strcmp(host, here) != 0) {
		shfs_buf_str(&after, "  on ");
		shfs_quote_display(&after, host, strlen(host));
	}
	shfs_time_show(&before,
	               e->is_process ? e->process.first_ns : e->command.begin_ns);
	shfs_buf_printf(out, "%*s%s%s  ", INDENT, "", view->style->dim,
	                before.data ? before.data : "");
	show_end(view->style, e, out);
	show_end(&plain, e, &before);
	used = INDENT + 2 + before.len + shfs_quote_width(after.data, after.len);
	shfs_show_directory(&where, cwd);
	shfs_show_tail(out, where.data ? where.data : "",
	               MAX(view->columns, used + DIRECTORY_MIN) - used);
	shfs_buf_add(out, after.data, after.len);
	shfs_buf_printf(out, "%s\n", view->style->off);
	out->failed |= before.failed || where.failed || after.failed;
}

/* --- its uses --- */

/* A flow of items in full lines, in which no item crosses the edge. */
struct flow {
	struct shfs_buf *out;
	size_t columns, used; /* used: of the current line */
	int lines;
};

/* more: columns to keep free in the last line, for the number of the other items. */
static bool flow_item(struct flow *f, const char *text, size_t more)
{
	size_t width = shfs_quote_width(text, strlen(text));
	size_t room = f->columns - INDENT - LABEL;
	size_t kept = f->lines == USES_MAX ? more : 0;

	if (f->used && f->used + 2 + width + kept > room) {
		if (f->lines == USES_MAX)
			return false;
		shfs_buf_printf(f->out, "\n%*s", INDENT + LABEL, "");
		f->lines++;
		f->used = 0;
		kept = f->lines == USES_MAX ? more : 0;
	}
	if (f->used)
		shfs_buf_str(f->out, "  ");
	f->used += f->used ? 2 : 0;
	width = MIN(width, room - f->used - kept);
	shfs_show_tail(f->out, text, width);
	f->used += width;
	return true;
}

static void show_entry_label(const struct shfs_style *style, const char *label,
                             struct shfs_buf *out)
{
	shfs_buf_printf(out, "%*s%s%-*s%s", INDENT, "", style->dim, LABEL, label,
	                style->off);
}

/* A use that is shown, and the number of files that it stands for. */
struct item {
	const struct shfs_use *use;
	size_t with;
};

static void show_use_items(const struct shfs_entry_view *view, const struct item *items,
                           size_t n, struct shfs_buf *out)
{
	struct flow flow = { .out = out, .columns = view->columns, .lines = 1 };
	size_t i;

	show_entry_label(view->style, shfs_use_word(items[0].use->kind), out);
	for (i = 0; i < n; i++) {
		_cleanup_buf_ struct shfs_buf words = { 0 };
		size_t left = n - i - 1;

		shfs_use_show(&words, items[i].use);
		if (items[i].with)
			shfs_buf_printf(&words, " (with %zu file%s)", items[i].with,
			                shfs_plural(items[i].with));
		out->failed |= words.failed;
		if (words.failed || !flow_item(&flow, words.data,
		                               left ? snprintf(NULL, 0, MORE, left) : 0))
			break;
	}
	if (i < n) {
		shfs_buf_str(out, view->style->dim);
		shfs_buf_printf(out, MORE, n - i);
		shfs_buf_str(out, view->style->off);
	}
	shfs_buf_char(out, '\n');
}

static bool is_summed_up(const struct shfs_entry_view *view, const struct shfs_use *use)
{
	return use->bookkeeping && !view->all;
}

static bool is_asked(const struct shfs_entry_view *view, const struct shfs_use *use)
{
	for (char **path = view->paths; path && *path; path++)
		if (shfs_path_is_below(use->path, *path) ||
		    (use->from && shfs_path_is_below(use->from, *path)))
			return true;
	return false;
}

/* The directory among the removed items[0..n) that contained the use. */
static struct item *removed_with(struct item *items, size_t n, const struct shfs_use *use)
{
	for (size_t i = 0; i < n; i++)
		if (items[i].use != use &&
		    shfs_path_is_below(use->path, items[i].use->path))
			return &items[i];
	return NULL;
}

/* Makes items of removed directories, only the topmost of each tree. Returns how many
 * there are. In the list files come before their directory, and it before the one above
 * it. */
static size_t add_removed_directories(const struct shfs_entry_view *view,
                                      const struct shfs_use *uses, size_t n,
                                      struct item *items)
{
	size_t found = 0;

	for (size_t i = n; i-- > 0;)
		if (uses[i].directory && !is_summed_up(view, &uses[i]) &&
		    !removed_with(items, found, &uses[i]))
			items[found++].use = &uses[i];
	for (size_t i = 0; i < n; i++) {
		struct item *item = removed_with(items, found, &uses[i]);

		if (item && !uses[i].directory && !is_summed_up(view, &uses[i]))
			item->with++;
	}
	return found;
}

/* Shows the uses of one kind; the paths that were asked for come first. */
static int show_kind(const struct shfs_entry_view *view, const struct shfs_use *uses,
                     size_t n, struct shfs_buf *out)
{
	_cleanup_free_ struct item *items = calloc(n + 1, sizeof(*items));
	size_t found = 0, dirs = 0;

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!is_summed_up(view, &uses[i]) && is_asked(view, &uses[i]))
			items[found++].use = &uses[i];
	if (!found && uses[0].kind == SHFS_USE_REMOVED)
		dirs = found = add_removed_directories(view, uses, n, items);
	for (size_t i = 0; i < n; i++)
		if (!is_summed_up(view, &uses[i]) &&
		    (dirs || !is_asked(view, &uses[i])) &&
		    !removed_with(items, dirs, &uses[i]) && !(dirs && uses[i].directory))
			items[found++].use = &uses[i];
	if (found)
		show_use_items(view, items, found, out);
	return 0;
}

/* Counts the files in the bookkeeping directories of this use's kind; 0 if an earlier use
 * has counted them. */
static bool count_bookkeeping(const struct shfs_uses *uses, size_t first, size_t *files)
{
	const struct shfs_use *use = &uses->list[first];

	*files = 0;
	for (size_t i = 0; i < uses->n; i++) {
		const struct shfs_use *other = &uses->list[i];

		if (other->bookkeeping != use->bookkeeping ||
		    memcmp(other->path, use->path, use->bookkeeping) != 0)
			continue;
		if (i < first)
			return false;
		*files += !other->directory;
	}
	return true;
}

/* Shows ".git (12 files) __pycache__ (1 file)". */
static void show_bookkeeping(const struct shfs_entry_view *view,
                             const struct shfs_uses *uses, struct shfs_buf *out)
{
	struct flow flow = { .out = out, .columns = view->columns };
	size_t files;

	for (size_t i = 0; i < uses->n; i++) {
		const struct shfs_use *use = &uses->list[i];
		_cleanup_free_ char *path = NULL;
		_cleanup_buf_ struct shfs_buf words = { 0 };

		if (!is_summed_up(view, use) || !count_bookkeeping(uses, i, &files))
			continue;
		path = strndup(use->path, use->bookkeeping);
		if (path)
			shfs_show_path(&words, path);
		shfs_buf_printf(&words, " (%zu file%s)", files, shfs_plural(files));
		if (!flow.lines) {
			show_entry_label(view->style, "also", out);
			flow.lines = 1;
		}
		out->failed |= !path || words.failed;
		if (!flow_item(&flow, words.data ? words.data : "", 3)) {
			shfs_show_signs(out, "  …");
			break;
		}
	}
	if (flow.lines)
		shfs_buf_char(out, '\n');
}

static int show_uses_by_kind(const struct shfs_entry_view *view,
                             const struct shfs_uses *uses, struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf notes = { 0 };
	char indent[INDENT + 1];
	size_t first = 0;
	int r = 0;

	for (int kind = 0; kind < SHFS_USE_KINDS && !r; kind++) {
		if (uses->count[kind])
			r = show_kind(view, uses->list + first, uses->count[kind], out);
		first += uses->count[kind];
	}
	show_bookkeeping(view, uses, out);
	snprintf(indent, sizeof(indent), "%*s", INDENT, "");
	if (!uses->n && uses->n_temporary)
		shfs_buf_printf(&notes, "%s%zu temporary file%s, made and gone again\n",
		                indent, uses->n_temporary,
		                shfs_plural(uses->n_temporary));
	shfs_uses_show_cuts(&notes, uses, view->all, indent);
	if (uses->left_out)
		shfs_buf_printf(&notes, "%sand %lld more uses of files\n", indent,
		                (long long)uses->left_out);
	out->failed |= notes.failed;
	shfs_show_dim(out, view->style, notes.data ? notes.data : "");
	return r;
}

int shfs_entry_show(struct shfs_index *index, const struct shfs_entry_view *view,
                    const struct shfs_entry *e, struct shfs_buf *out)
{
	int r = show_what(index, view->style, e, TEXT_MAX, view->columns, out);

	shfs_buf_char(out, '\n');
	show_circumstances(view, e, out);
	if (shfs_notes_any(&e->notes)) {
		show_entry_label(view->style, "note", out);
		shfs_notes_show(out, view->style, &e->notes,
		                view->columns - INDENT - LABEL);
		shfs_buf_char(out, '\n');
	}
	if (!r)
		r = show_uses_by_kind(view, &e->uses, out);
	return out->failed ? -ENOMEM : r;
}

/* --- JSON --- */

static void json_use(struct shfs_json *json, const struct shfs_use *use)
{
	uint32_t flags = use->read_flags | use->made_flags;

	shfs_json_object(json, NULL);
	shfs_json_str(json, "use", shfs_use_word(use->kind));
	shfs_json_str(json, "path", use->path);
	if (use->from)
		shfs_json_str(json, "from", use->from);
	if (use->directory)
		shfs_json_bool(json, "directory", true);
	if (use->read_n)
		shfs_json_int(json, "read", use->read_n);
	if (use->made_n)
		shfs_json_int(json, "made", use->made_n);
	if (use->again)
		shfs_json_bool(json, "again", true);
	if (flags & SHFS_CONTENT_INCOMPLETE)
		shfs_json_bool(json, "incomplete", true);
	if (flags & (SHFS_CONTENT_SKIPPED | SHFS_CONTENT_PRUNED))
		shfs_json_str(json, "not_archived",
		              shfs_version_why_not_archived(flags &
		                                            ~SHFS_CONTENT_OBJECT));
	shfs_json_object_end(json);
}

static void json_command_members(struct shfs_json *json, const struct shfs_command_row *c)
{
	shfs_json_str(json, "id", c->id);
	shfs_json_str(json, "session", c->session);
	shfs_json_str(json, "host", c->host);
	shfs_json_str(json, "cwd", c->cwd);
	if (c->hidden)
		shfs_json_null(json, "text");
	else
		shfs_json_text(json, "text", c->text, c->text_len);
	if (*c->invoker)
		shfs_json_str(json, "invoker", c->invoker);
	else
		shfs_json_null(json, "invoker");
	shfs_json_bool(json, "redacted", c->redacted);
	shfs_json_time(json, "begin", c->begin_ns);
	if (c->ended)
		shfs_json_time(json, "end", c->end_ns);
	else
		shfs_json_null(json, "end");
	if (c->has_status)
		shfs_json_int(json, "status", c->status);
	else
		shfs_json_null(json, "status");
}

/* Adds the same members, and those of a process. */
static void json_process(struct shfs_json *json, const struct shfs_process_row *p)
{
	shfs_json_null(json, "id");
	shfs_json_null(json, "session");
	shfs_json_str(json, "host", p->host);
	shfs_json_str(json, "cwd", p->cwd);
	shfs_json_null(json, "text");
	shfs_json_null(json, "invoker");
	shfs_json_time(json, "begin", p->first_ns);
	shfs_json_null(json, "end");
	shfs_json_null(json, "status");
	shfs_process_json(json, p);
}

void shfs_entry_json_head(struct shfs_json *json, const struct shfs_entry *e)
{
	if (e->is_process)
		json_process(json, &e->process);
	else
		json_command_members(json, &e->command);
}

void shfs_entry_json(struct shfs_json *json, const struct shfs_entry *e)
{
	shfs_entry_json_head(json, e);
	if (!e->is_process) {
		shfs_notes_json(json, &e->notes);
		shfs_json_int(json, "skipped", e->uses.n_skipped);
		shfs_json_int(json, "incomplete", e->uses.n_incomplete);
	}
	shfs_json_int(json, "temporary_files", e->uses.n_temporary);
	shfs_json_array(json, "files");
	for (size_t i = 0; i < e->uses.n; i++)
		json_use(json, &e->uses.list[i]);
	shfs_json_array_end(json);
}
