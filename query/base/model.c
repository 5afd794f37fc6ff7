/* SPDX-License-Identifier: MIT */
#include "query/base/model.h"

#include "common/clock.h"
#include "common/path.h"
#include "common/quote.h"
#include "query/base/context.h"
#include "store/index/mirror.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define TEXT_WIDTH 50 /* of a command, in a message */
#define NO_PROGRAM "(a program that ended before shfs could look at it)"

int shfs_fail_index(struct shfs_index *index, int error)
{
	const char *what = shfs_index_error(index);

	if (error == -ENOMEM)
		shfs_no_memory();
	else if (error == -EBADMSG && shfs_mirror_remove_damaged(index))
		shfs_error("what was kept of the database was damaged, and is removed: "
		           "ask again");
	else if (error == -EBADMSG)
		shfs_error("the index is damaged; rebuild it: shfs reindex");
	else
		shfs_error("cannot read the index: %s",
		           what && *what ? what : strerror(-error));
	return SHFS_EXIT_FAILURE;
}

int shfs_fail_pruned(void)
{
	shfs_error("the list of pruned objects is damaged");
	shfs_hint("run shfs repair");
	return SHFS_EXIT_FAILURE;
}

static char *column_dup(struct shfs_rows *rows, int col)
{
	size_t len = shfs_rows_bytes(rows, col);
	char *copy = malloc(len + 1);

	if (copy) {
		memcpy(copy, shfs_rows_text(rows, col), len);
		copy[len] = '\0';
	}
	return copy;
}

/* Runs a statement with one integer parameter. 1: *rows is at its one row; 0: there is
 * none. */
static int row_by_int(struct shfs_index *index, const char *sql, int64_t value,
                      struct shfs_rows **rows)
{
	int r = shfs_rows_open_ints(index, sql, SHFS_INTS(value), rows);

	return r ? r : shfs_rows_next(*rows);
}

/* --- versions --- */

int shfs_version_from_row(struct shfs_rows *rows, struct shfs_version *out)
{
	struct shfs_version v = {
		.version_id = shfs_rows_int(rows, 0),
		.file_id = shfs_rows_int(rows, 1),
		.n = shfs_rows_int(rows, 2),
		.origin_version_id = shfs_rows_int(rows, 3),
		.access_id = shfs_rows_int(rows, 4),
		.process_id = shfs_rows_int(rows, 5),
		.command_id = shfs_rows_int(rows, 6),
		.flags = (uint32_t)shfs_rows_int(rows, 9),
		.mode = shfs_rows_int(rows, 10),
		.size = shfs_rows_int(rows, 11),
		.phash = shfs_rows_int(rows, 12),
		.mtime_ns = shfs_rows_int(rows, 13),
		.time_ns = shfs_rows_int(rows, 14),
		.carried = shfs_rows_int(rows, 16),
	};

	v.flags &= ~SHFS_CONTENT_OBJECT;
	if (!shfs_rows_is_null(rows, 8)) {
		if (shfs_object_parse(shfs_rows_text(rows, 8), &v.object))
			return -EBADMSG;
		if (!(v.flags & SHFS_CONTENT_PRUNED))
			v.flags |= SHFS_CONTENT_OBJECT;
	}
	snprintf(v.source, sizeof(v.source), "%s", shfs_rows_text(rows, 15));
	v.path = column_dup(rows, 7);
	if (!v.path)
		return -ENOMEM;
	*out = v;
	return 1;
}

int shfs_version_load(struct shfs_index *index, int64_t version_id,
                      struct shfs_version *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = row_by_int(index,
	                   "SELECT" SHFS_VERSION_COLUMNS
	                   "FROM v_version WHERE" SHFS_SQL_VERSION("?1"),
	                   version_id, &rows);

	return r > 0 ? shfs_version_from_row(rows, out) : r;
}

int shfs_version_latest(struct shfs_index *index, const char *path,
                        struct shfs_version *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index,
	                           "SELECT" SHFS_VERSION_COLUMNS
	                           "FROM v_version WHERE " SHFS_SQL_FILE(
					   "?1") "ORDER BY n DESC LIMIT 1",
	                           path, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	return r > 0 ? shfs_version_from_row(rows, out) : r;
}

void shfs_version_json(struct shfs_json *json, const struct shfs_version *v)
{
	char object[44], mode[8];

	shfs_json_str(json, "path", v->path);
	shfs_json_int(json, "n", v->n);
	shfs_json_time(json, "time", v->time_ns);
	shfs_json_int(json, "size", v->size);
	snprintf(mode, sizeof(mode), "%04o", v->mode & 07777);
	shfs_json_str(json, "mode", mode);
	shfs_json_time(json, "mtime", v->mtime_ns);
	shfs_json_str(json, "source", v->source);
	shfs_json_bool(json, "carried", v->carried);
	if (v->flags & SHFS_CONTENT_OBJECT)
		shfs_object_name(&v->object, object);
	shfs_json_str(json, "object", v->flags & SHFS_CONTENT_OBJECT ? object : NULL);
	shfs_json_str(json, "not_archived", shfs_version_why_not_archived(v->flags));
	shfs_json_bool(json, "incomplete", v->flags & SHFS_CONTENT_INCOMPLETE);
}

int shfs_version_root(struct shfs_index *index, const struct shfs_version *version,
                      char **root)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = row_by_int(index, "SELECT root FROM v_file WHERE file_id = ?1",
	                   version->file_id, &rows);

	if (r <= 0)
		return r;
	if (!shfs_path_is_below(version->path, shfs_rows_text(rows, 0)))
		return 0;
	*root = strdup(shfs_rows_text(rows, 0));
	return *root ? 1 : -ENOMEM;
}

void shfs_version_clear(struct shfs_version *version)
{
	free(version->path);
	version->path = NULL;
}

bool shfs_version_lies_at(const struct shfs_version *v, const char *path)
{
	struct stat st;

	return shfs_path_is_here(path) && !lstat(path, &st) && S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size == v->size &&
	       shfs_timespec_ns(st.st_mtim) == v->mtime_ns;
}

const char *shfs_version_why_not_archived(uint32_t flags)
{
	if (flags & SHFS_CONTENT_OBJECT)
		return NULL;
	if (flags & SHFS_CONTENT_PRUNED)
		return "pruned";
	if (flags & SHFS_CONTENT_SKIP_SIZE)
		return "larger than the limit";
	if (flags & SHFS_CONTENT_SKIP_RULE)
		return "excluded by a rule";
	if (flags & SHFS_CONTENT_SKIP_BUDGET)
		return "more was written at once than could be archived";
	if (flags & SHFS_CONTENT_SKIP_USER)
		return "its user had used up what is archived for other users that day";
	if (flags & SHFS_CONTENT_SKIP_ERROR)
		return "it could not be read or stored";
	if (flags & SHFS_CONTENT_SKIP_TYPE)
		return "not a regular file";
	if (flags & SHFS_CONTENT_INCOMPLETE)
		return "it was changed again before it could be read";
	return "it was read and never written, so only its fingerprint is recorded";
}

/* --- commands --- */

int shfs_command_from_row(struct shfs_rows *rows, struct shfs_command_row *out)
{
	struct shfs_command_row c = {
		.command_id = shfs_rows_int(rows, 0),
		.id = column_dup(rows, 1),
		.session = column_dup(rows, 2),
		.host = column_dup(rows, 3),
		.cwd = column_dup(rows, 4),
		.text = column_dup(rows, 5),
		.text_len = shfs_rows_bytes(rows, 5),
		.begin_ns = shfs_rows_int(rows, 6),
		.end_ns = shfs_rows_int(rows, 7),
		.ended = !shfs_rows_is_null(rows, 7),
		.status = shfs_rows_int(rows, 8),
		.has_status = !shfs_rows_is_null(rows, 8),
		.hidden = shfs_rows_int(rows, 9),
		.redacted = shfs_rows_int(rows, 10),
		.invoker = column_dup(rows, 11),
		.noted = shfs_rows_int(rows, 12),
	};

	if (!c.id || !c.session || !c.host || !c.cwd || !c.text || !c.invoker) {
		shfs_command_clear(&c);
		return -ENOMEM;
	}
	*out = c;
	return 1;
}

int shfs_command_load(struct shfs_index *index, int64_t command_id,
                      struct shfs_command_row *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = row_by_int(index,
	                   "SELECT" SHFS_COMMAND_COLUMNS
	                   "FROM v_command WHERE command_id = ?1",
	                   command_id, &rows);

	return r > 0 ? shfs_command_from_row(rows, out) : r;
}

static int add_all(const struct shfs_ids *from, struct shfs_ids *to)
{
	int r = 0;

	for (size_t i = 0; i < from->n && !r; i++)
		r = shfs_ids_add(to, from->ids[i]);
	return r;
}

int shfs_commands_given(struct shfs_index *index, const struct shfs_ids *by,
                        bool elsewhere, struct shfs_ids *out)
{
	_cleanup_ids_ struct shfs_ids callers = { 0 }, given = { 0 }, reached = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	size_t before;
	int r = shfs_rows_open_ints(
		index,
		"WITH s AS MATERIALIZED (SELECT session_id, caller_id, host"
		" FROM v_session WHERE invoker <> '') SELECT s.caller_id,"
		" c.command_id FROM s JOIN v_command c USING (session_id)"
		" WHERE s.caller_id IS NOT NULL AND (?1 OR s.host = (SELECT k.host"
		"  FROM v_command k WHERE k.command_id = s.caller_id))"
		" ORDER BY c.begin_ns",
		SHFS_INTS(elsewhere), &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0) {
		r = shfs_ids_add(&callers, shfs_rows_int(rows, 0));
		if (!r)
			r = shfs_ids_add(&given, shfs_rows_int(rows, 1));
	}
	if (!r)
		r = add_all(by, &reached);
	do {
		shfs_ids_sort(&reached);
		before = out->n;
		for (size_t i = 0; i < given.n && !r; i++)
			if (shfs_ids_has(&reached, callers.ids[i]) &&
			    !shfs_ids_has(&reached, given.ids[i]))
				r = shfs_ids_add(out, given.ids[i]);
		for (size_t i = before; i < out->n && !r; i++)
			r = shfs_ids_add(&reached, out->ids[i]);
	} while (!r && out->n > before);
	return r;
}

/* Adds where the session of an invoker was started from, if that is another host. */
static void show_origin(struct shfs_index *index, struct shfs_buf *out,
                        const char *session)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index,
	                           "SELECT c.id, c.host FROM v_session s JOIN v_command c"
	                           " ON c.command_id = s.caller_id"
	                           " WHERE s.id = ?1 AND c.host <> s.host",
	                           session, &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0) /* it is shown without */
		return;
	shfs_buf_str(out, " of ");
	if (shfs_show_id(index, out, shfs_rows_text(rows, 0)))
		shfs_buf_str(out, shfs_rows_text(rows, 0));
	shfs_buf_str(out, " on ");
	shfs_quote_display(out, shfs_rows_text(rows, 1), shfs_rows_bytes(rows, 1));
}

void shfs_show_invoker(struct shfs_index *index, struct shfs_buf *out,
                       const struct shfs_command_row *command)
{
	if (!*command->invoker)
		return;
	shfs_quote_display(out, command->invoker, strlen(command->invoker));
	show_origin(index, out, command->session);
	shfs_show_signs(out, " › ");
}

int shfs_session_own(struct shfs_index *index, int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	const char *session = getenv("SHFS_SESSION");
	uint64_t pid, start;
	char boot[9];
	int r;

	*out = 0;
	if (!session ||
	    sscanf(session, "%8[0-9a-f]-%" SCNu64 "-%" SCNu64, boot, &pid, &start) != 3)
		return 0;
	r = shfs_rows_open_ints(index,
	                        "SELECT session_id FROM v_session WHERE pid = ?1"
	                        " AND start_ticks = ?2 AND invoker = ''"
	                        " ORDER BY begin_ns DESC LIMIT 1",
	                        SHFS_INTS((int64_t)pid, (int64_t)start), &rows);
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		*out = shfs_rows_int(rows, 0);
	return MIN(r, 0);
}

bool shfs_command_ran_at(const struct shfs_command_row *c, int64_t ns)
{
	return ns >= c->begin_ns && c->ended && ns <= c->end_ns;
}

void shfs_command_clear(struct shfs_command_row *c)
{
	free(c->id);
	free(c->session);
	free(c->host);
	free(c->cwd);
	free(c->text);
	free(c->invoker);
	memset(c, 0, sizeof(*c));
}

int shfs_command_executed(struct shfs_index *index, int64_t command_id, const char *name,
                          size_t len)
{
	_cleanup_free_ char *end = NULL;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index,
	                       "SELECT 1 FROM v_process WHERE command_id = ?1"
	                       " AND substr(exe, -length(?2)) = ?2 LIMIT 1",
	                       &rows);

	if (!r && asprintf(&end, "/%.*s", (int)len, name) < 0) {
		end = NULL;
		r = -ENOMEM;
	}
	if (!r)
		r = shfs_rows_bind_int(rows, 1, command_id);
	if (!r)
		r = shfs_rows_bind_str(rows, 2, end);
	return r ? r : shfs_rows_next(rows);
}

int shfs_command_lost(struct shfs_index *index, const struct shfs_command_row *c,
                      int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index,
	                           "SELECT sum(lost) FROM v_producer WHERE host = ?1"
	                           " AND begin_ns <= ?3 AND coalesce(end_ns, ?2) >= ?2",
	                           c->host, &rows);

	if (!r)
		r = shfs_rows_bind_int(rows, 2, c->begin_ns);
	if (!r)
		r = shfs_rows_bind_int(rows, 3, c->ended ? c->end_ns : INT64_MAX);
	if (!r)
		r = shfs_rows_next(rows);
	if (r >= 0)
		*out = r ? shfs_rows_int(rows, 0) : 0;
	return MIN(r, 0);
}

bool shfs_command_is_id(const char *text)
{
	size_t len = strspn(text, "0123456789abcdefABCDEF");

	return !text[len] && len >= 4 && len <= 16;
}

static int list_candidates(struct shfs_index *index, const char *prefix,
                           struct shfs_rows *rows)
{
	int r, shown = 0;

	shfs_error(strlen(prefix) == 16 ? "several commands say that their id is %s:"
	                                : "%s is the beginning of several commands:",
	           prefix);
	shfs_rows_reset(rows);
	while ((r = shfs_rows_next(rows)) > 0 && shown++ < 10) {
		_cleanup_buf_ struct shfs_buf line = { 0 };

		shfs_show_first_line(&line, shfs_rows_text(rows, 2),
		                     shfs_rows_bytes(rows, 2), 56);
		if (*shfs_rows_text(rows, 3)) {
			shfs_buf_str(&line, "  in ");
			shfs_quote_display(&line, shfs_rows_text(rows, 3),
			                   (size_t)shfs_rows_bytes(rows, 3));
		}
		shfs_hint("%s  %s", shfs_rows_text(rows, 1), line.data ? line.data : "");
	}
	if (r > 0)
		shfs_hint("and more");
	return r < 0 ? r : -ENOTUNIQ;
}

int shfs_command_shell(struct shfs_index *index, const struct shfs_command_row *command,
                       const char *unknown, char **shell)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index, "SELECT shell FROM v_command WHERE id = ?1",
	                           command->id ?: "", &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r < 0)
		return r;
	*shell =
		strdup(r && *shfs_rows_text(rows, 0) ? shfs_rows_text(rows, 0) : unknown);
	return *shell ? 0 : -ENOMEM;
}

int shfs_command_find(struct shfs_index *index, const char *prefix, int64_t *command_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	char low[17];
	int64_t id;
	int r;

	if (!shfs_command_is_id(prefix))
		return 0;
	for (size_t i = 0; i <= strlen(prefix); i++)
		low[i] = tolower((unsigned char)prefix[i]);
	/* 'g' is behind every digit. In a team's database a publisher may give a command
	 * the id of another's: paths tell whose each is. */
	r = shfs_rows_open_str(index,
	                       "SELECT command_id, id, text,"
	                       " iif(count(*) OVER (PARTITION BY id) > 1, cwd, '')"
	                       " FROM v_command"
	                       " WHERE id >= ?1 AND id < ?1 || 'g' ORDER BY id",
	                       low, &rows);
	if (!r)
		r = shfs_rows_next(rows);
	if (r <= 0)
		return r;
	id = shfs_rows_int(rows, 0);
	r = shfs_rows_next(rows);
	if (r)
		return r < 0 ? r : list_candidates(index, low, rows);
	*command_id = id;
	return 1;
}

/* --- processes --- */

int shfs_process_from_row(struct shfs_rows *rows, struct shfs_process_row *out)
{
	struct shfs_process_row p = {
		.process_id = shfs_rows_int(rows, 0),
		.command_id = shfs_rows_int(rows, 1),
		.host = column_dup(rows, 2),
		.exe = column_dup(rows, 3),
		.cwd = column_dup(rows, 4),
		.argv = column_dup(rows, 5),
		.argv_len = shfs_rows_bytes(rows, 5),
		.pid = shfs_rows_int(rows, 6),
		.ppid = shfs_rows_int(rows, 7),
		.start_ticks = shfs_rows_int(rows, 8),
		.first_ns = shfs_rows_int(rows, 9),
	};

	if (!p.host || !p.exe || !p.cwd || !p.argv) {
		shfs_process_clear(&p);
		return -ENOMEM;
	}
	*out = p;
	return 1;
}

int shfs_process_load(struct shfs_index *index, int64_t process_id,
                      struct shfs_process_row *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = row_by_int(index,
	                   "SELECT" SHFS_PROCESS_COLUMNS
	                   "FROM v_process WHERE process_id = ?1",
	                   process_id, &rows);

	return r > 0 ? shfs_process_from_row(rows, out) : r;
}

void shfs_process_json(struct shfs_json *json, const struct shfs_process_row *p)
{
	shfs_json_int(json, "pid", p->pid);
	shfs_json_int(json, "parent", p->ppid);
	shfs_json_array(json, "argv");
	for (size_t i = 0; i < p->argv_len;) {
		size_t len = strnlen(p->argv + i, p->argv_len - i);

		shfs_json_text(json, NULL, p->argv + i, len);
		i += len + 1;
	}
	shfs_json_array_end(json);
	shfs_json_str(json, "exe", p->exe);
}

void shfs_process_clear(struct shfs_process_row *p)
{
	free(p->host);
	free(p->exe);
	free(p->cwd);
	free(p->argv);
	memset(p, 0, sizeof(*p));
}

/* --- SQL conditions --- */

void shfs_sql_below(struct shfs_buf *sql, const char *expr, int n)
{
	/* '0' is the byte after '/'. */
	shfs_buf_printf(sql, "(%s = ?%d OR (%s > ?%d || '/' AND %s < ?%d || '0'))", expr,
	                n, expr, n, expr, n);
}

void shfs_sql_list_files_below(struct shfs_buf *sql, int n)
{
	shfs_buf_printf(sql,
	                "SELECT file_id FROM v_path WHERE dir = path_dir(?%d)"
	                " AND name_key = name_key(path_name(?%d))"
	                " AND +name = path_name(?%d)"
	                " UNION ALL SELECT file_id FROM v_path WHERE dir = ?%d"
	                " UNION ALL SELECT file_id FROM v_path WHERE dir > ?%d || '/'"
	                " AND dir < ?%d || '0'",
	                n, n, n, n, n, n);
}

void shfs_sql_files_below(struct shfs_buf *sql, const char *column, int n)
{
	shfs_buf_printf(sql, "%s IN (", column);
	shfs_sql_list_files_below(sql, n);
	shfs_buf_str(sql, ")");
}

/* --- showing --- */

void shfs_show_version(struct shfs_buf *out, const char *path, int64_t n)
{
	shfs_show_path(out, path);
	if (n) {
		shfs_buf_char(out, '@');
		shfs_buf_int(out, n);
	}
}

/* Takes one column. */
static bool is_ascii(char c)
{
	return c >= ' ' && c < 0x7f;
}

/* Appends the mark of a text that was cut to width columns. */
static void show_mark(struct shfs_buf *out, size_t width)
{
	const char *mark = shfs_sign("…");

	shfs_buf_add(out, mark,
	             shfs_signs_width(mark) > MAX(width, (size_t)1) ? width
	                                                            : strlen(mark));
}

/* Appends text that is escaped already, cut to width columns. */
static void show_cut(struct shfs_buf *out, const char *text, size_t len, size_t width)
{
	size_t end = 0, columns = 0, fits = 0, mark = shfs_signs_width("…");

	while (end < len) {
		size_t n = 1;

		while (end + n < len && (text[end + n] & 0xc0) == 0x80)
			n++;
		columns += is_ascii(text[end]) ? 1 : shfs_quote_width(text + end, n);
		if (columns > width)
			break;
		end += n;
		if (columns + mark <= width)
			fits = end;
	}
	if (end == len) {
		shfs_buf_add(out, text, len);
		return;
	}
	shfs_buf_add(out, text, fits);
	show_mark(out, width);
}

void shfs_show_tail(struct shfs_buf *out, const char *text, size_t width)
{
	size_t len = strlen(text), left = shfs_quote_width(text, len), n;
	size_t mark = shfs_signs_width("…"), room = width > mark ? width - mark : 0;

	if (left > width) {
		n = width && shfs_quote_plain(text, len) == len ? len - room : 0;
		text += n;
		left -= n;
		for (; *text && left > room; text += n) {
			for (n = 1; (text[n] & 0xc0) == 0x80; n++)
				;
			left -= is_ascii(*text) ? 1
			                        : MIN(shfs_quote_width(text, n), left);
		}
		show_mark(out, width);
	}
	shfs_buf_str(out, text);
}

void shfs_show_first_line(struct shfs_buf *out, const char *text, size_t len,
                          size_t width)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };
	const char *newline = memchr(text, '\n', len);

	shfs_quote_display(&line, text, newline ? (size_t)(newline - text) : len);
	if (newline)
		shfs_show_signs(&line, " …");
	if (line.failed)
		out->failed = true;
	else
		show_cut(out, line.data, line.len, width);
}

void shfs_show_process(struct shfs_buf *out, const struct shfs_process_row *process,
                       size_t width)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };

	for (size_t i = 0; i < process->argv_len;) {
		size_t len = strnlen(process->argv + i, process->argv_len - i);

		if (i)
			shfs_buf_char(&line, ' ');
		shfs_quote_shell(&line, process->argv + i, len);
		i += len + 1;
	}
	if (!process->argv_len)
		shfs_buf_str(&line, *process->exe ? process->exe : NO_PROGRAM);
	shfs_show_first_line(out, line.data ? line.data : "", line.len, width);
}

void shfs_show_size(struct shfs_buf *out, uint64_t bytes)
{
	static const char units[] = "KMGTPE";
	double value = bytes;
	int unit = -1;

	while (value >= 1024 && unit + 1 < (int)strlen(units)) {
		value /= 1024;
		unit++;
	}
	if (unit < 0)
		shfs_buf_printf(out, "%llu B", (unsigned long long)bytes);
	else
		shfs_buf_printf(out, "%.*f %ciB", value < 10, value, units[unit]);
}

void shfs_command_show(struct shfs_buf *out, struct shfs_index *index,
                       const struct shfs_command_row *command)
{
	if (shfs_show_id(index, out, command->id))
		shfs_buf_str(out, command->id);
	shfs_buf_str(out, " (");
	shfs_show_invoker(index, out, command);
	shfs_show_first_line(out, command->text, command->text_len, TEXT_WIDTH);
	shfs_buf_char(out, ')');
}

int shfs_show_id(struct shfs_index *index, struct shfs_buf *out, const char *id)
{
	size_t shared;
	int r = shfs_command_id_shared(index, id, &shared);

	if (!r)
		shfs_buf_add(out, id, MIN(MAX(shared, (size_t)6) + 1, strlen(id)));
	return r;
}

void shfs_show_content_error(struct shfs_buf *out, const struct shfs_version *version,
                             int error)
{
	shfs_show_version(out, version->path, version->n);
	if (error == -ENODATA)
		shfs_buf_str(out, " is not archived: pruned");
	else if (error == -EBADMSG)
		shfs_buf_str(out, ": the archived content is damaged");
	else if (error == -ENOENT)
		shfs_buf_str(out, ": its content is missing in the store");
	else if (error == -EREMOTE)
		shfs_buf_str(out, ": its content is only on a remote (shfs pull, or "
		                  "fetch, brings it)");
	else
		shfs_buf_printf(out, ": cannot copy its content: %s", strerror(-error));
}

size_t shfs_show_columns(void)
{
	const char *text = getenv("COLUMNS");
	struct winsize size;
	int columns = text ? atoi(text) : 0;

	for (int fd = 1; columns <= 0 && fd <= 2; fd++)
		if (!ioctl(fd, TIOCGWINSZ, &size))
			columns = size.ws_col;
	return columns >= 40 ? columns : columns > 0 ? 40 : 80;
}

const struct shfs_style shfs_style_colors = { "\033[33m", "\033[31m", "\033[2m",
	                                      "\033[1m", "\033[m" };

const struct shfs_style shfs_style_none = { "", "", "", "", "" };

const struct shfs_style *shfs_style_of(struct shfs_context *ctx)
{
	return shfs_context_color(ctx) ? &shfs_style_colors : &shfs_style_none;
}

void shfs_show_dim(struct shfs_buf *out, const struct shfs_style *style, const char *text)
{
	if (*text)
		shfs_buf_printf(out, "%s%s%s", style->dim, text, style->off);
}

bool shfs_show_flush(struct shfs_buf *out)
{
	bool ok = !out->failed &&
	          (!out->len || fwrite(out->data, 1, out->len, stdout) == out->len);

	out->len = 0;
	return ok;
}
