/* SPDX-License-Identifier: MIT */
#include "query/entry.h"

#include "common/clock.h"
#include "common/proc.h"
#include "common/quote.h"
#include "query/time.h"

#include <errno.h>
#include <string.h>

/* Columns of the id and the blanks behind it; everything below stands behind them. */
#define INDENT 9
/* Of the words for uses ("changed"), and the blanks behind them. */
#define LABEL     9
#define TEXT_MAX  4 /* lines of a command */
#define USES_MAX  2 /* lines of one kind of use */
#define LONG_TIME SHFS_NSEC_PER_SEC

int shfs_entry_load(struct shfs_index *index, bool is_process, int64_t id,
                    struct shfs_entry *out)
{
	_cleanup_entry_ struct shfs_entry e = { .is_process = is_process };
	int r = is_process ? shfs_process_load(index, id, &e.process)
	                   : shfs_command_load(index, id, &e.command);

	if (r <= 0)
		return r;
	r = shfs_uses_load(index, is_process ? 0 : id, is_process ? id : 0, &e.uses);
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
}

/* --- what was run --- */

static int show_id(struct shfs_index *index, const struct shfs_style *style,
                   const char *id, struct shfs_buf *out)
{
	int r;

	shfs_buf_str(out, style->id);
	r = shfs_show_id(index, out, id);
	shfs_buf_str(out, style->off);
	shfs_buf_str(out, "  ");
	return r;
}

/* The first lines of a command's text, all of which are cut. */
static void show_text(const struct shfs_style *style,
                      const struct shfs_command_row *command, size_t max_lines,
                      size_t columns, struct shfs_buf *out)
{
	const char *line = command->text, *end = line + command->text_len;

	if (command->hidden) {
		shfs_buf_printf(out, "%s(text not recorded)%s", style->dim, style->off);
		return;
	}
	shfs_buf_str(out, style->bold);
	for (size_t n = 1; line < end; n++) {
		const char *newline = memchr(line, '\n', end - line);
		const char *stop = newline ? newline : end;

		/* The last line that is shown says that more follow. */
		if (n == max_lines)
			stop = end;
		if (n > 1)
			shfs_buf_printf(out, "\n%*s", INDENT, "");
		shfs_show_first_line(out, line, stop - line, columns - INDENT);
		line = stop + 1;
	}
	shfs_buf_str(out, style->off);
}

static int show_what(struct shfs_index *index, const struct shfs_style *style,
                     const struct shfs_entry *e, size_t max_lines, size_t columns,
                     struct shfs_buf *out)
{
	int r = 0;

	if (e->is_process) {
		shfs_buf_printf(out, "%s-------%s  %s", style->dim, style->off,
		                style->bold);
		shfs_show_process(out, &e->process, columns - INDENT);
		shfs_buf_str(out, style->off);
	} else {
		r = show_id(index, style, e->command.id, out);
		show_text(style, &e->command, max_lines, columns, out);
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

void shfs_entry_show_end(const struct shfs_style *style, const struct shfs_command_row *c,
                         struct shfs_buf *out)
{
	size_t start = out->len;

	if (!c->ended) {
		shfs_buf_str(out, "no end recorded");
		return;
	}
	if (c->has_status && c->status)
		shfs_buf_printf(out, "%sexit %lld%s%s", style->bad, (long long)c->status,
		                style->off, style->dim);
	if (c->end_ns - c->begin_ns >= LONG_TIME) {
		comma(out, start);
		shfs_time_show_duration(out, c->end_ns - c->begin_ns);
	}
}

static void show_circumstances(const struct shfs_style *style, const struct shfs_entry *e,
                               size_t columns, struct shfs_buf *out)
{
	const char *host = e->is_process ? e->process.host : e->command.host;
	const char *cwd = e->is_process ? e->process.cwd : e->command.cwd;
	_cleanup_buf_ struct shfs_buf end = { 0 }, where = { 0 };
	char here[65];

	shfs_buf_printf(out, "%*s%s", INDENT, "", style->dim);
	shfs_time_show(out, e->is_process ? e->process.first_ns : e->command.begin_ns);
	shfs_buf_str(out, "  ");
	if (e->is_process)
		shfs_buf_printf(&end, "process %lld, no command",
		                (long long)e->process.pid);
	else
		shfs_entry_show_end(style, &e->command, &end);
	if (end.len)
		shfs_buf_printf(out, "%s  ", end.data);
	shfs_show_directory(&where, cwd);
	shfs_show_tail(out, where.data ? where.data : "", columns - INDENT - 40);
	shfs_proc_host(here);
	if (strcmp(host, here) != 0) {
		shfs_buf_str(out, "  on ");
		shfs_quote_display(out, host, strlen(host));
	}
	shfs_buf_printf(out, "%s\n", style->off);
}

/* --- what it used --- */

/* Items in lines that are full; none stands alone over the edge. */
struct flow {
	struct shfs_buf *out;
	const struct shfs_style *style;
	size_t columns, used; /* used: of the present line */
	int lines, max_lines;
};

static bool flow_item(struct flow *f, const char *text, size_t room)
{
	size_t width = shfs_quote_width(text, strlen(text));
	size_t avail = f->columns - INDENT - LABEL;

	if (f->used && f->used + 2 + width + room > avail) {
		if (f->lines == f->max_lines)
			return false;
		shfs_buf_printf(f->out, "\n%*s", INDENT + LABEL, "");
		f->lines++;
		f->used = 0;
	}
	if (f->used)
		shfs_buf_str(f->out, "  ");
	f->used += (f->used ? 2 : 0) + MIN(width, avail);
	shfs_show_tail(f->out, text, avail);
	return true;
}

static void show_kind(const struct shfs_style *style, const struct shfs_uses *uses,
                      size_t first, size_t n, size_t columns, struct shfs_buf *out)
{
	struct flow flow = { .out = out,
		             .style = style,
		             .columns = columns,
		             .lines = 1,
		             .max_lines = USES_MAX };
	size_t i;

	shfs_buf_printf(out, "%*s%s%-*s%s", INDENT, "", style->dim, LABEL,
	                shfs_use_word(uses->list[first].kind), style->off);
	for (i = 0; i < n; i++) {
		_cleanup_buf_ struct shfs_buf item = { 0 };
		/* The last line keeps room for the count of those that do not fit. */
		bool last_line = flow.lines == flow.max_lines && i + 1 < n;

		shfs_use_show(&item, &uses->list[first + i]);
		if (!flow_item(&flow, item.data ? item.data : "", last_line ? 12 : 0))
			break;
	}
	if (i < n)
		shfs_buf_printf(out, "  %s+ %zu more%s", style->dim, n - i, style->off);
	shfs_buf_char(out, '\n');
}

static void show_uses(const struct shfs_style *style, const struct shfs_uses *uses,
                      size_t columns, struct shfs_buf *out)
{
	_cleanup_buf_ struct shfs_buf notes = { 0 };
	char indent[INDENT + 1];
	size_t first = 0;

	for (int kind = 0; kind < SHFS_USE_KINDS; kind++) {
		if (uses->count[kind])
			show_kind(style, uses, first, uses->count[kind], columns, out);
		first += uses->count[kind];
	}
	snprintf(indent, sizeof(indent), "%*s", INDENT, "");
	if (!uses->n && uses->temporary)
		shfs_buf_printf(&notes, "%s%zu temporary file%s, made and gone again\n",
		                indent, uses->temporary, uses->temporary == 1 ? "" : "s");
	shfs_uses_show_cuts(&notes, uses, indent);
	out->failed |= notes.failed;
	shfs_show_dim(out, style, notes.data ? notes.data : "");
}

int shfs_entry_show(struct shfs_index *index, const struct shfs_style *style,
                    const struct shfs_entry *e, size_t columns, struct shfs_buf *out)
{
	int r = show_what(index, style, e, TEXT_MAX, columns, out);

	shfs_buf_char(out, '\n');
	show_circumstances(style, e, columns, out);
	show_uses(style, &e->uses, columns, out);
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
	if (flags & SHFS_CONTENT_INCOMPLETE)
		shfs_json_bool(json, "incomplete", true);
	if (flags & SHFS_CONTENT_SKIPPED)
		shfs_json_str(json, "not_archived",
		              shfs_version_why_not_archived(flags &
		                                            ~SHFS_CONTENT_OBJECT));
	shfs_json_object_end(json);
}

static void json_command(struct shfs_json *json, const struct shfs_command_row *c)
{
	shfs_json_str(json, "id", c->id);
	shfs_json_str(json, "session", c->session);
	shfs_json_str(json, "host", c->host);
	shfs_json_str(json, "cwd", c->cwd);
	if (c->hidden)
		shfs_json_null(json, "text");
	else
		shfs_json_text(json, "text", c->text, c->text_len);
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

/* The same members, and its own. */
static void json_process(struct shfs_json *json, const struct shfs_process_row *p)
{
	shfs_json_null(json, "id");
	shfs_json_null(json, "session");
	shfs_json_str(json, "host", p->host);
	shfs_json_str(json, "cwd", p->cwd);
	shfs_json_null(json, "text");
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
		json_command(json, &e->command);
}

void shfs_entry_json(struct shfs_json *json, const struct shfs_entry *e)
{
	shfs_entry_json_head(json, e);
	if (!e->is_process) {
		shfs_json_int(json, "skipped", e->command.n_skipped);
		shfs_json_int(json, "incomplete", e->command.n_incomplete);
	}
	shfs_json_int(json, "temporary_files", e->uses.temporary);
	shfs_json_array(json, "files");
	for (size_t i = 0; i < e->uses.n; i++)
		json_use(json, &e->uses.list[i]);
	shfs_json_array_end(json);
}
