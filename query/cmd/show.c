/* SPDX-License-Identifier: MIT */
/* `shfs show`: show everything recorded about a command: its processes, its files. */
#include "query/base/cmd.h"
#include "query/base/time.h"
#include "query/history/definitions.h"
#include "query/history/ended.h"
#include "query/history/entry.h"
#include "query/history/lookups.h"
#include "query/history/software.h"
#include "query/history/version-spec.h"

#include "common/quote.h"
#include "common/redact.h"

#include <errno.h>
#include <string.h>

#define INDENT           "    "
#define NAME_MAX_COLUMNS 44
#define READS_MAX        8 /* of bookkeeping and of the system, without --full */
#define CHILDREN_MAX     8 /* of a process, without --full */
#define LATE_NS          SHFS_NSEC_PER_SEC /* less is the same moment */

static bool json, full, lookups;

struct usage {
	bool known;
	int64_t user_us, system_us, max_rss_kib; /* the last 0: not known */
};

struct show {
	struct shfs_index *index;
	const struct shfs_style *style;
	size_t columns;
	struct shfs_entry entry;
	struct shfs_definitions definitions;
	struct shfs_process_row *processes; /* parents before their children */
	int64_t *
		until_ns; /* last use of a file by each; 0: not after the command's end */
	struct shfs_ended *ends; /* of each process, at its last program */
	size_t n_processes;
	struct shfs_process_row shell; /* all 0: unknown */
	struct shfs_software software;
	struct shfs_lookups_list lookups;
	struct usage usage;
	int64_t lost; /* records that mounts lost in that time */
	struct shfs_buf out;
};

static void show_clear(struct show *s)
{
	shfs_entry_clear(&s->entry);
	shfs_definitions_clear(&s->definitions);
	for (size_t i = 0; i < s->n_processes; i++)
		shfs_process_clear(&s->processes[i]);
	free(s->processes);
	free(s->until_ns);
	free(s->ends);
	shfs_process_clear(&s->shell);
	shfs_software_clear(&s->software);
	shfs_lookups_clear(&s->lookups);
	shfs_buf_free(&s->out);
}

/* --- loading --- */

/* The processes of the command, and the shell if it used files itself. */
#define PROCESSES                                                                        \
	"SELECT" SHFS_PROCESS_COLUMNS "FROM v_process WHERE process_id IN"               \
	" (SELECT process_id FROM v_process WHERE command_id = ?1"                       \
	" UNION SELECT process_id FROM v_access WHERE command_id = ?1)"                  \
	" ORDER BY start_ticks, pid, first_ns, process_id"

static int load_processes(struct show *s, int64_t command_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	size_t cap = 0;
	int r = shfs_rows_open_ints(s->index, PROCESSES, SHFS_INTS(command_id), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		if (!MAKE_ROOM(s->processes, s->n_processes, cap))
			return -ENOMEM;
		r = shfs_process_from_row(rows, &s->processes[s->n_processes]);
		if (r > 0) {
			s->n_processes++;
			r = 0;
		}
	}
	return r;
}

/* Loads uses by processes that went on after the command (a server, a background job). */
static int load_late(struct show *s, int64_t command_id)
{
	const struct shfs_command_row *c = &s->entry.command;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	s->until_ns = calloc(s->n_processes + 1, sizeof(*s->until_ns));
	if (!s->until_ns)
		return -ENOMEM;
	if (!c->ended)
		return 0;
	r = shfs_rows_open_ints(
		s->index,
		"SELECT process_id, max(end_ns) FROM v_access"
		" WHERE command_id = ?1 AND end_ns > ?2 GROUP BY process_id",
		SHFS_INTS(command_id, c->end_ns + LATE_NS), &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		for (size_t i = 0; i < s->n_processes; i++)
			if (s->processes[i].process_id == shfs_rows_int(rows, 0))
				s->until_ns[i] = shfs_rows_int(rows, 1);
		r = 0;
	}
	return r;
}

static bool is_same_process(const struct shfs_process_row *a,
                            const struct shfs_process_row *b)
{
	return a->pid == b->pid && a->start_ticks == b->start_ticks &&
	       !strcmp(a->host, b->host);
}

static int load_ends(struct show *s, int64_t command_id)
{
	int r;

	s->ends = calloc(s->n_processes + 1, sizeof(*s->ends));
	if (!s->ends)
		return -ENOMEM;
	r = shfs_ended_load_all(s->index, command_id, s->processes, s->n_processes,
	                        s->ends);
	/* said once, of the last program */
	for (size_t i = 1; i < s->n_processes; i++)
		if (is_same_process(&s->processes[i - 1], &s->processes[i]))
			s->ends[i - 1].known = false;
	return r;
}

/* The shell's process: one that execs into another shell keeps its pid. */
#define SHELL                                                                            \
	"SELECT" SHFS_PROCESS_COLUMNS "FROM v_loose_process p WHERE EXISTS"              \
	" (SELECT 1 FROM v_session s WHERE s.id = ?1 AND s.pid = p.pid"                  \
	" AND s.start_ticks = p.start_ticks AND s.host = p.host"                         \
	" AND p.exe GLOB '*/' || s.shell) ORDER BY first_ns DESC LIMIT 1"

static int load_shell(struct show *s)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(s->index, SHELL, s->entry.command.session, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		r = shfs_process_from_row(rows, &s->shell);
	return MIN(r, 0);
}

static int load_usage(struct show *s, int64_t command_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(
		s->index,
		"SELECT user_us, system_us, max_rss_kib FROM v_command"
		" WHERE command_id = ?1 AND user_us IS NOT NULL",
		SHFS_INTS(command_id), &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		s->usage =
			(struct usage){ true, shfs_rows_int(rows, 0),
			                shfs_rows_int(rows, 1), shfs_rows_int(rows, 2) };
	return MIN(r, 0);
}

static int load_shown_entry(struct show *s, bool is_process, int64_t id)
{
	int r = shfs_entry_load(s->index, is_process, id, 0, &s->entry);

	if (!r)
		return -ENOENT;
	if (r > 0)
		r = shfs_software_load(s->index, is_process, id, &s->software);
	if (r < 0 || is_process)
		return r;
	return shfs_definitions_load(s->index, id, &s->definitions)
	               ?: load_processes(s, id)
	               ?: load_late(s, id)
	               ?: load_ends(s, id)
	               ?: load_shell(s)
	               ?: load_usage(s, id)
	               ?: shfs_lookups_load(s->index, id, false, &s->lookups)
	               ?: shfs_command_lost(s->index, &s->entry.command, &s->lost);
}

/* --- the head --- */

static void show_field_name(struct show *s, const char *name)
{
	shfs_buf_printf(&s->out, "%s%-9s%s", s->style->dim, name, s->style->off);
}

/* Adds the name of a host that is not that of the command. */
static void show_other_host(struct show *s, const char *host)
{
	if (!strcmp(host, s->entry.command.host))
		return;
	shfs_buf_str(&s->out, " on ");
	shfs_quote_display(&s->out, host, strlen(host));
}

static int show_session(struct show *s)
{
	_cleanup_command_ struct shfs_command_row caller = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(s->index,
	                           "SELECT iif(invoker = '', shell, invoker), pid, tty,"
	                           " caller_id FROM v_session WHERE id = ?1",
	                           s->entry.command.session, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0)
		return r;
	show_field_name(s, "session");
	shfs_buf_printf(&s->out, "%s  ", s->entry.command.session);
	shfs_quote_display(&s->out, shfs_rows_text(rows, 0), shfs_rows_bytes(rows, 0));
	if (shfs_rows_int(rows, 1))
		shfs_buf_printf(&s->out, " %lld", (long long)shfs_rows_int(rows, 1));
	if (shfs_rows_bytes(rows, 2)) {
		shfs_buf_str(&s->out, " on ");
		shfs_quote_display(&s->out, shfs_rows_text(rows, 2),
		                   shfs_rows_bytes(rows, 2));
	}
	shfs_buf_char(&s->out, '\n');
	if (shfs_rows_int(rows, 3)) {
		r = shfs_command_load(s->index, shfs_rows_int(rows, 3), &caller);
		if (r > 0) {
			show_field_name(s, "in");
			shfs_command_show(&s->out, s->index, &caller);
			show_other_host(s, caller.host);
			shfs_buf_char(&s->out, '\n');
		}
	}
	return MIN(r, 0);
}

/* The sessions of agents and others that the command has started; and of shells, on other
 * hosts. */
static int show_given(struct show *s)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(s->index,
	                           "SELECT id, commands, iif(invoker = '', shell, "
	                           "invoker), host FROM v_session"
	                           " WHERE (invoker <> '' OR host <> ?1) AND caller_id = "
	                           "?2 ORDER BY begin_ns",
	                           s->entry.command.host, &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 2, s->entry.command.command_id);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		long long n = shfs_rows_int(rows, 1);

		show_field_name(s, "gave");
		shfs_buf_printf(&s->out, "%lld command%s as ", n, n == 1 ? "" : "s");
		shfs_quote_display(&s->out, shfs_rows_text(rows, 2),
		                   shfs_rows_bytes(rows, 2));
		show_other_host(s, shfs_rows_text(rows, 3));
		shfs_buf_printf(&s->out, ": shfs history --session %.8s\n",
		                shfs_rows_text(rows, 0));
		r = 0;
	}
	return MIN(r, 0);
}

static int json_caller(struct show *s, struct shfs_json *j)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(s->index,
	                           "SELECT c.id FROM v_session s JOIN v_command c"
	                           " ON c.command_id = s.caller_id WHERE s.id = ?1",
	                           s->entry.command.session, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		shfs_json_str(j, "caller", shfs_rows_text(rows, 0));
	else
		shfs_json_null(j, "caller");
	return MIN(r, 0);
}

static void show_place(struct show *s, const char *cwd, const char *host)
{
	show_field_name(s, "cwd");
	if (*cwd)
		shfs_show_directory(&s->out, cwd);
	else
		shfs_buf_str(&s->out, "not recorded");
	shfs_buf_char(&s->out, '\n');
	show_field_name(s, "host");
	shfs_quote_display(&s->out, host, strlen(host));
	shfs_buf_char(&s->out, '\n');
}

static void show_time(struct show *s, const char *name, int64_t ns)
{
	show_field_name(s, name);
	shfs_time_show(&s->out, ns);
}

static void show_times(struct show *s)
{
	const struct shfs_command_row *c = &s->entry.command;

	show_time(s, "begin", c->begin_ns);
	shfs_buf_str(&s->out, "  (");
	shfs_time_show_relative(&s->out, c->begin_ns);
	shfs_buf_str(&s->out, ")\n");
	if (c->ended) {
		show_time(s, "end", c->end_ns);
		shfs_buf_str(&s->out, "  (");
		shfs_time_show_duration(&s->out, c->end_ns - c->begin_ns);
		shfs_buf_str(&s->out, ")\n");
	} else {
		show_field_name(s, "end");
		shfs_buf_str(&s->out,
		             *c->cwd ? "not recorded: it is still running, or its shell "
		                       "was killed\n"
		                     : "not recorded: the text comes from a history that "
		                       "its shell kept\n");
	}
}

static void show_usage(struct show *s)
{
	const struct usage *usage = &s->usage;

	if (!usage->known)
		return;
	show_field_name(s, "usage");
	shfs_time_show_duration(&s->out, usage->user_us * 1000);
	shfs_buf_str(&s->out, " user, ");
	shfs_time_show_duration(&s->out, usage->system_us * 1000);
	shfs_buf_str(&s->out, " system");
	if (usage->max_rss_kib) {
		shfs_buf_str(&s->out, ", a process of ");
		shfs_show_size(&s->out, (uint64_t)usage->max_rss_kib << 10);
	} else {
		shfs_buf_str(&s->out, ", no process larger than an earlier one of its "
		                      "shell");
	}
	shfs_buf_char(&s->out, '\n');
}

static void show_status(struct show *s)
{
	const struct shfs_command_row *c = &s->entry.command;

	if (!c->has_status)
		return;
	show_field_name(s, "status");
	shfs_buf_printf(&s->out, "%s%lld%s", c->status ? s->style->bad : "",
	                (long long)c->status, s->style->off);
	if (c->status > 128 && c->status < 128 + 65 && sigdescr_np(c->status - 128))
		shfs_buf_printf(&s->out, "  (%s)", sigdescr_np(c->status - 128));
	shfs_buf_char(&s->out, '\n');
}

/* Shows the whole text, for copying: not cut, all lines with the same indentation. */
static void show_whole_text(struct show *s)
{
	const struct shfs_command_row *c = &s->entry.command;
	const char *line = c->text, *end = line + c->text_len;

	shfs_buf_char(&s->out, '\n');
	if (c->hidden)
		shfs_buf_printf(&s->out, INDENT "%s(text not recorded)%s\n",
		                s->style->dim, s->style->off);
	if (c->redacted)
		shfs_buf_printf(&s->out,
		                INDENT "%s(" SHFS_REDACTED
		                       ": a secret was taken out)%s\n",
		                s->style->dim, s->style->off);
	while (line < end) {
		const char *newline = memchr(line, '\n', end - line);
		const char *stop = newline ? newline : end;

		shfs_buf_printf(&s->out, INDENT "%s", s->style->bold);
		shfs_quote_text(&s->out, line, stop - line);
		shfs_buf_printf(&s->out, "%s\n", s->style->off);
		line = stop + 1;
	}
	shfs_buf_char(&s->out, '\n');
}

/* Shows the lines of a text, each with the same indentation. */
static void show_lines(struct show *s, const struct shfs_buf *text)
{
	const char *line = text->data ?: "", *end = line + text->len;

	while (line < end) {
		const char *newline = memchr(line, '\n', end - line);
		const char *stop = newline ? newline : end;

		shfs_buf_str(&s->out, INDENT);
		shfs_buf_add(&s->out, line, stop - line);
		shfs_buf_char(&s->out, '\n');
		line = stop + 1;
	}
}

/* Shows a text in one line, cut to the width. */
static void show_in_a_line(struct show *s, const struct shfs_buf *text)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };

	for (size_t i = 0; i < text->len; i++) {
		bool blank = strchr(" \t\n", text->data[i]);

		if (!blank || !i || !strchr(" \t\n", text->data[i - 1]))
			shfs_buf_char(&line, blank ? ' ' : text->data[i]);
	}
	shfs_buf_str(&s->out, INDENT);
	shfs_show_first_line(&s->out, line.data ?: "", line.len,
	                     s->columns - strlen(INDENT));
	shfs_buf_char(&s->out, '\n');
}

static void show_definitions(struct show *s)
{
	const struct shfs_definitions *all = &s->definitions;

	if (all->n || all->more)
		shfs_buf_printf(&s->out, "%sfrom its shell%s\n", s->style->dim,
		                s->style->off);
	for (size_t i = 0; i < all->n; i++) {
		_cleanup_buf_ struct shfs_buf text = { 0 };

		shfs_definition_show(&text, &all->list[i]);
		if (full)
			show_lines(s, &text);
		else
			show_in_a_line(s, &text);
	}
	if (all->more)
		shfs_buf_str(&s->out, INDENT "and more that is not recorded\n");
}

static int show_command_head(struct show *s)
{
	const struct shfs_command_row *c = &s->entry.command;
	int r;

	show_field_name(s, "command");
	shfs_buf_printf(&s->out, "%s%s%s\n", s->style->id, c->id, s->style->off);
	show_times(s);
	show_usage(s);
	show_status(s);
	show_place(s, c->cwd, c->host);
	r = show_session(s);
	if (!r)
		r = show_given(s);
	show_whole_text(s);
	if (shfs_notes_any(&s->entry.notes)) {
		shfs_notes_show_all(&s->out, s->style, &s->entry.notes, INDENT);
		shfs_buf_char(&s->out, '\n');
	}
	show_definitions(s);
	return r;
}

static void show_process_head(struct show *s)
{
	const struct shfs_process_row *p = &s->entry.process;

	show_field_name(s, "process");
	shfs_buf_printf(&s->out, "%lld, of no command that was recorded\n",
	                (long long)p->pid);
	show_time(s, "begin", p->first_ns);
	shfs_buf_char(&s->out, '\n');
	show_place(s, p->cwd, p->host);
	show_field_name(s, "program");
	shfs_quote_display(&s->out, p->exe, strlen(p->exe));
	shfs_buf_printf(&s->out, "\n\n" INDENT "%s", s->style->bold);
	shfs_show_process(&s->out, p, SIZE_MAX);
	shfs_buf_printf(&s->out, "%s\n\n", s->style->off);
}

/* --- the processes --- */

/* The index of its parent, earlier in the list, or -1. */
static ssize_t find_parent_process(const struct show *s, size_t child)
{
	const struct shfs_process_row *p = &s->processes[child];

	for (ssize_t i = (ssize_t)child - 1; i >= 0; i--)
		if (s->processes[i].pid == p->ppid && p->pid != p->ppid &&
		    !strcmp(s->processes[i].host, p->host))
			return i;
	return -1;
}

static bool is_exe_said(const struct shfs_process_row *p)
{
	const char *exe = strrchr(p->exe, '/');

	return !*p->exe || !strcmp(p->argv, p->exe) || (exe && !strcmp(p->argv, exe + 1));
}

/* Is it the shell, or a fork of it that executed no other program? */
static bool is_shell(const struct show *s, const struct shfs_process_row *p)
{
	return s->shell.argv_len && s->shell.argv_len == p->argv_len &&
	       !memcmp(s->shell.argv, p->argv, p->argv_len) &&
	       !strcmp(s->shell.exe, p->exe);
}

/* Was it forked to open redirections, before it executed the program? */
static bool is_redirection(const struct show *s, size_t i)
{
	return is_shell(s, &s->processes[i]) && i + 1 < s->n_processes &&
	       is_same_process(&s->processes[i], &s->processes[i + 1]);
}

static void show_argv(struct show *s, const struct shfs_process_row *p, size_t width,
                      struct shfs_buf *out)
{
	if (!is_shell(s, p))
		shfs_show_process(out, p, width);
	else if (is_same_process(p, &s->shell))
		shfs_buf_str(out, "(the shell itself)");
	else
		shfs_buf_str(out, "(the shell, forked)");
}

/* Appends what the process has used and how it ended, if it is known. */
static void show_end(struct show *s, const struct shfs_ended *end, size_t width,
                     size_t indent)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	if (!end->known)
		return;
	shfs_time_show_duration(&text, (end->user_us + end->system_us) * 1000);
	shfs_buf_str(&text, ", ");
	shfs_show_size(&text, (uint64_t)end->max_rss_kib << 10);
	if (shfs_quote_width(text.data ?: "", text.len) + 14 <= width)
		shfs_buf_str(&s->out, "  ");
	else
		shfs_buf_printf(&s->out, "\n%*s", (int)indent, "");
	shfs_buf_printf(&s->out, "%s%s%s", s->style->dim, text.data ?: "", s->style->off);
	if (end->status)
		shfs_buf_printf(&s->out, "%s, status %lld%s", s->style->bad,
		                (long long)end->status, s->style->off);
	s->out.failed |= text.failed;
}

static int process_indent(size_t depth)
{
	return (int)strlen(INDENT) + 2 * (int)MIN(depth, (size_t)12);
}

static void show_one_process(struct show *s, size_t i, size_t depth)
{
	const struct shfs_process_row *p = &s->processes[i];
	size_t indent = process_indent(depth);
	size_t width = s->columns - indent - 9, used;
	_cleanup_buf_ struct shfs_buf argv = { 0 };

	shfs_buf_printf(&s->out, "%*s%-7lld  ", (int)indent, "", (long long)p->pid);
	show_argv(s, p, width, &argv);
	used = argv.data ? shfs_quote_width(argv.data, argv.len) : 0;
	shfs_buf_add(&s->out, argv.data, argv.len);
	if (!is_exe_said(p) && !is_shell(s, p)) {
		size_t exe = shfs_quote_width(p->exe, strlen(p->exe));

		if (used + 2 + exe <= width) {
			shfs_buf_str(&s->out, "  ");
			used += 2 + exe;
		} else {
			shfs_buf_printf(&s->out, "\n%*s", (int)indent + 9, "");
			used = exe;
		}
		shfs_buf_str(&s->out, s->style->dim);
		shfs_quote_display(&s->out, p->exe, strlen(p->exe));
		shfs_buf_str(&s->out, s->style->off);
	}
	show_end(s, &s->ends[i], width - MIN(used, width), indent + 9);
	shfs_buf_char(&s->out, '\n');
}

/* Shows what a process has started; of very many only some, and those that failed. */
static void show_children(struct show *s, const ssize_t *parents, ssize_t parent,
                          size_t depth)
{
	size_t shown = 0, left_out = 0;

	for (size_t i = parent + 1; i < s->n_processes; i++) {
		bool is_last = i + 1 == s->n_processes ||
		               !is_same_process(&s->processes[i], &s->processes[i + 1]);

		if (parents[i] != parent)
			continue;
		if (!full && shown >= CHILDREN_MAX && !s->ends[i].status) {
			left_out += is_last;
			continue;
		}
		if (!is_redirection(s, i))
			show_one_process(s, i, depth);
		shown += is_last;
		show_children(s, parents, i, depth + 1);
	}
	if (left_out)
		shfs_buf_printf(&s->out,
		                "%*sand %zu more with what they started (--full)\n",
		                process_indent(depth), "", left_out);
}

/* Shows processes that went on after the end: their accesses belong to the command. */
static void show_left_running(struct show *s)
{
	bool any = false;

	for (size_t i = 0; i < s->n_processes; i++) {
		if (!s->until_ns[i])
			continue;
		if (!any)
			shfs_buf_printf(&s->out, "%sleft running, and at work after%s\n",
			                s->style->dim, s->style->off);
		any = true;
		shfs_buf_printf(&s->out, INDENT "%-7lld  last used a file ",
		                (long long)s->processes[i].pid);
		shfs_time_show_duration(&s->out,
		                        s->until_ns[i] - s->entry.command.end_ns);
		shfs_buf_str(&s->out, " after the command had ended\n");
	}
}

static int show_processes(struct show *s)
{
	_cleanup_free_ ssize_t *parents = calloc(s->n_processes + 1, sizeof(*parents));

	if (!parents)
		return -ENOMEM;
	if (!s->n_processes)
		return 0;
	for (size_t i = 0; i < s->n_processes; i++)
		parents[i] = find_parent_process(s, i);
	shfs_buf_printf(&s->out, "%sprocesses%s\n", s->style->dim, s->style->off);
	show_children(s, parents, -1, 0);
	show_left_running(s);
	return 0;
}

/* --- the software --- */

/* Shows what the programs were. Those of no package are listed in full only. */
static void show_software(struct show *s)
{
	const struct shfs_software *software = &s->software;
	bool any = false;

	for (size_t i = 0; i < software->n_programs; i++) {
		const struct shfs_used_program *p = &software->programs[i];
		size_t width = shfs_quote_width(p->path, strlen(p->path));

		if (!*p->manager && !full)
			continue;
		if (!any)
			shfs_buf_printf(&s->out, "%ssoftware%s\n", s->style->dim,
			                s->style->off);
		any = true;
		shfs_buf_str(&s->out, INDENT);
		shfs_quote_display(&s->out, p->path, strlen(p->path));
		shfs_buf_printf(&s->out, "%*s  ",
		                (int)(NAME_MAX_COLUMNS - MIN(width, NAME_MAX_COLUMNS)),
		                "");
		shfs_used_program_show(&s->out, p, full);
		shfs_buf_char(&s->out, '\n');
	}
}

static void show_environment(struct show *s)
{
	const struct shfs_software *software = &s->software;

	if (!full)
		return;
	shfs_buf_printf(&s->out, "%senvironment%s\n", s->style->dim, s->style->off);
	if (!software->has_environment)
		shfs_buf_str(&s->out, INDENT "not recorded\n");
	for (size_t i = 0; i < software->n_variables; i++) {
		const char *variable = software->variables[i];

		shfs_buf_str(&s->out, INDENT);
		shfs_quote_display(&s->out, variable, strlen(variable));
		shfs_buf_char(&s->out, '\n');
	}
}

/* --- what was looked up --- */

static void show_lookup(struct show *s, const struct shfs_looked_up *one)
{
	static const char *const words[] = {
		[SHFS_FOUND_NOTHING] = "not there",   [SHFS_FOUND_FILE] = "file",
		[SHFS_FOUND_DIRECTORY] = "directory", [SHFS_FOUND_NAMES] = "listed",
		[SHFS_FOUND_LINK] = "link",           [SHFS_FOUND_TEXT] = "link",
		[SHFS_FOUND_OTHER] = "special",
	};

	shfs_buf_printf(&s->out, INDENT "%-10s ", words[one->found]);
	shfs_show_path(&s->out, one->path);
	if (one->text) {
		shfs_buf_str(&s->out, " -> ");
		shfs_quote_display(&s->out, one->text, strlen(one->text));
	}
	shfs_buf_char(&s->out, '\n');
}

static void show_lookups(struct show *s)
{
	const struct shfs_lookups_list *l = &s->lookups;
	size_t not_there = 0;

	if (!l->n)
		return;
	for (size_t i = 0; i < l->n; i++)
		not_there += l->list[i].found == SHFS_FOUND_NOTHING;
	shfs_buf_printf(&s->out, "%slooked up%s\n", s->style->dim, s->style->off);
	for (size_t i = 0; i < l->n && lookups; i++)
		show_lookup(s, &l->list[i]);
	if (!lookups)
		shfs_buf_printf(&s->out,
		                INDENT "%zu names, %zu of them not there (--lookups "
		                       "lists them)\n",
		                l->n, not_there);
}

/* --- the files --- */

static int show_use(struct show *s, const struct shfs_use *use)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	_cleanup_buf_ struct shfs_buf name = { 0 };
	int64_t id = use->made_id ? use->made_id : use->read_id;
	int r = id && !use->directory ? shfs_version_load(s->index, id, &v) : 0;
	size_t width;

	if (r < 0)
		return r;
	shfs_use_show(&name, use);
	width = name.data ? shfs_quote_width(name.data, name.len) : 0;
	shfs_buf_str(&s->out, INDENT);
	shfs_buf_add(&s->out, name.data, name.len);
	if (r) {
		shfs_buf_printf(&s->out, "%*s  ",
		                (int)(NAME_MAX_COLUMNS - MIN(width, NAME_MAX_COLUMNS)),
		                "");
		shfs_show_size(&s->out, v.size);
		if (v.flags & (SHFS_CONTENT_SKIPPED | SHFS_CONTENT_PRUNED))
			shfs_buf_printf(&s->out, "  %s%s%s", s->style->dim,
			                shfs_version_why_not_archived(v.flags),
			                s->style->off);
	}
	shfs_buf_char(&s->out, '\n');
	return 0;
}

/* Are so many read that a user would not find his own files? They are programs' own, and
 * of the system. */
static size_t count_reads_to_sum_up(const struct show *s, bool bookkeeping)
{
	size_t n = 0;

	for (size_t i = 0; i < s->entry.uses.n && bookkeeping && !full; i++)
		n += s->entry.uses.list[i].bookkeeping &&
		     s->entry.uses.list[i].kind == SHFS_USE_READ;
	return n > READS_MAX ? n : 0;
}

static int show_uses_of_entry(struct show *s, bool bookkeeping)
{
	const struct shfs_uses *uses = &s->entry.uses;
	size_t summed_up = count_reads_to_sum_up(s, bookkeeping);
	enum shfs_use_kind last = SHFS_USE_KINDS;
	int r = 0;

	for (size_t i = 0; i < uses->n && !r; i++) {
		const struct shfs_use *use = &uses->list[i];

		if (!use->bookkeeping == bookkeeping)
			continue;
		if (use->kind != last)
			shfs_buf_printf(&s->out, "%s%s%s%s\n", s->style->dim,
			                bookkeeping ? "also " : "",
			                shfs_use_word(use->kind), s->style->off);
		if (!summed_up || use->kind != SHFS_USE_READ)
			r = show_use(s, use);
		else if (use->kind != last)
			shfs_buf_printf(&s->out, INDENT "%zu files (--full lists them)\n",
			                summed_up);
		last = use->kind;
	}
	return r;
}

static void show_temporary(struct show *s)
{
	const struct shfs_uses *uses = &s->entry.uses;

	if (uses->n_temporary)
		shfs_buf_printf(&s->out, "%stemporary, made and gone again%s\n",
		                s->style->dim, s->style->off);
	for (size_t i = 0; i < uses->n_temporary; i++) {
		shfs_buf_str(&s->out, INDENT);
		shfs_temporary_show(&s->out, &uses->temporary[i]);
		shfs_buf_char(&s->out, '\n');
	}
}

/* Shows the files; bookkeeping of programs (.git) comes after the user's own. */
static int show_files_of_entry(struct show *s)
{
	const struct shfs_uses *uses = &s->entry.uses;
	int r = show_uses_of_entry(s, false) ?: show_uses_of_entry(s, true);

	show_temporary(s);
	if (!uses->n && !uses->n_temporary)
		shfs_buf_printf(&s->out, "%sno files%s\n", s->style->dim, s->style->off);
	return r;
}

static void show_troubles(struct show *s)
{

	shfs_buf_str(&s->out, s->style->dim);
	shfs_uses_show_cuts(&s->out, &s->entry.uses, true, "");
	shfs_buf_str(&s->out, s->style->off);
	if (s->entry.uses.n_incomplete)
		shfs_buf_printf(&s->out, "%s%lld incomplete: changed while captured%s\n",
		                s->style->bad, (long long)s->entry.uses.n_incomplete,
		                s->style->off);
	if (s->lost)
		shfs_buf_printf(&s->out,
		                "%s%lld records were lost by the mounts of that time:"
		                " more may have been used%s\n",
		                s->style->bad, (long long)s->lost, s->style->off);
}

static int show_whole_entry(struct show *s)
{
	int r = 0;

	if (s->entry.is_process)
		show_process_head(s);
	else
		r = show_command_head(s);
	if (!r)
		r = show_processes(s);
	show_software(s);
	show_environment(s);
	if (!r)
		r = show_files_of_entry(s);
	show_lookups(s);
	show_troubles(s);
	if (r)
		return r;
	return s->out.failed ? -ENOMEM : shfs_show_flush(&s->out) ? 0 : -EIO;
}

/* --- JSON --- */

static void json_temporary(struct shfs_json *j, const struct shfs_uses *uses)
{
	shfs_json_array(j, "temporary");
	for (size_t i = 0; i < uses->n_temporary; i++) {
		const struct shfs_temporary *t = &uses->temporary[i];

		shfs_json_object(j, NULL);
		shfs_json_str(j, "path", t->path);
		if (t->to)
			shfs_json_str(j, "to", t->to);
		if (t->directory)
			shfs_json_bool(j, "directory", true);
		if (t->n)
			shfs_json_int(j, "n", t->n);
		shfs_json_object_end(j);
	}
	shfs_json_array_end(j);
}

static void json_usage(struct shfs_json *j, const struct usage *usage)
{
	if (!usage->known)
		return;
	shfs_json_object(j, "usage");
	shfs_json_int(j, "user_us", usage->user_us);
	shfs_json_int(j, "system_us", usage->system_us);
	if (usage->max_rss_kib)
		shfs_json_int(j, "max_rss_kib", usage->max_rss_kib);
	shfs_json_object_end(j);
}

/* How the process ended, and what it has used, if it is known. */
static void json_end(struct shfs_json *j, const struct shfs_ended *end)
{
	if (!end->known)
		return;
	shfs_json_object(j, "exit");
	shfs_json_int(j, "status", end->status);
	shfs_json_int(j, "user_us", end->user_us);
	shfs_json_int(j, "system_us", end->system_us);
	shfs_json_int(j, "max_rss_kib", end->max_rss_kib);
	shfs_json_object_end(j);
}

static int json_all(struct show *s)
{
	_cleanup_json_ struct shfs_json j = { 0 };
	int r = 0;

	shfs_json_begin(&j, "show");
	shfs_entry_json(&j, &s->entry);
	json_temporary(&j, &s->entry.uses);
	shfs_software_json(&j, &s->software);
	if (!s->entry.is_process) {
		shfs_definitions_json(&j, &s->definitions);
		shfs_json_array(&j, "processes");
		for (size_t i = 0; i < s->n_processes; i++) {
			shfs_json_object(&j, NULL);
			shfs_process_json(&j, &s->processes[i]);
			shfs_json_str(&j, "cwd", s->processes[i].cwd);
			shfs_json_time(&j, "begin", s->processes[i].first_ns);
			if (s->until_ns[i])
				shfs_json_time(&j, "worked_until", s->until_ns[i]);
			json_end(&j, &s->ends[i]);
			shfs_json_object_end(&j);
		}
		shfs_json_array_end(&j);
		if (lookups)
			shfs_lookups_json(&j, &s->lookups);
		json_usage(&j, &s->usage);
		r = json_caller(s, &j);
		shfs_json_int(&j, "lost", s->lost);
	}
	return r ? r : shfs_json_end(&j) ? 0 : -EIO;
}

static int run_show(struct shfs_context *ctx, struct shfs_index *index, int argc,
                    char **argv)
{
	struct show s = { .index = index };
	bool is_process;
	int64_t id;
	int r, code = shfs_command_spec_find(index, argv[0], &is_process, &id);

	if (code)
		return code;
	r = load_shown_entry(&s, is_process, id);
	if (!r && json) {
		r = json_all(&s);
	} else if (!r) {
		shfs_context_pager(ctx);
		s.style = shfs_style_of(ctx);
		s.columns = shfs_show_columns();
		r = show_whole_entry(&s);
	}
	show_clear(&s);
	return r;
}

const struct shfs_command shfs_cmd_show = {
	.name = "show",
	.args = "COMMAND|FILE[@N]",
	.summary = "Show everything known about a command: its processes, its files",
	.description = "COMMAND is the beginning of an id, 4 digits or more, as history "
		       "shows it.\n"
		       "FILE@N stands for the command that made this version.",
	.alone = true,
	.options = {
	{ "full", 'f', NULL,
	  "also the environment, programs of no package, all lines of functions, all "
	  "processes and files",
	  .flag = &full },
	{ "lookups", 0, NULL, "also each name that it looked up (after shfs record)",
	  .flag = &lookups },
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &json },
	},
	.on_demand = true,
	.operands = { 1, 1 },
	.at_once = true,
	.run_on_index = run_show,
};
