/* SPDX-License-Identifier: MIT */
/* The statement of a filter: its items as conditions on the views, in the way that costs
 * least. */
#include "query/history/filter-item.h"

#include "query/base/model.h"
#include "store/index/facts.h"

#include <errno.h>
#include <string.h>

/* --- a SELECT in the making --- */

struct shfs_query_arg {
	char *text; /* NULL: value */
	int64_t value;
};

static int add_arg(struct shfs_query *q, struct shfs_query_arg arg)
{
	if (!MAKE_ROOM(q->args, q->n, q->cap)) {
		free(arg.text);
		q->failed = true;
		return 1;
	}
	q->args[q->n++] = arg;
	return q->n;
}

int shfs_query_str(struct shfs_query *q, const char *text)
{
	struct shfs_query_arg arg = { .text = strdup(text) };

	if (arg.text)
		return add_arg(q, arg);
	q->failed = true;
	return 1;
}

int shfs_query_int(struct shfs_query *q, int64_t value)
{
	return add_arg(q, (struct shfs_query_arg){ .value = value });
}

int shfs_query_open(const struct shfs_query *q, struct shfs_index *index,
                    struct shfs_rows **out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	if (q->failed || q->sql.failed)
		return -ENOMEM;
	r = shfs_rows_open(index, q->sql.data, &rows);
	for (size_t i = 0; i < q->n && !r; i++) {
		const struct shfs_query_arg *arg = &q->args[i];

		r = arg->text ? shfs_rows_bind_str(rows, i + 1, arg->text)
		              : shfs_rows_bind_int(rows, i + 1, arg->value);
	}
	if (!r)
		*out = TAKE_PTR(rows);
	return r;
}

void shfs_query_free(struct shfs_query *q)
{
	for (size_t i = 0; i < q->n; i++)
		free(q->args[i].text);
	free(q->args);
	shfs_buf_free(&q->sql);
	memset(q, 0, sizeof(*q));
}

/* --- conditions --- */

/* The differences between the two halves of the answer: commands, and processes that
 * belong to none. */
struct half {
	const char *row; /* the column of its id in v_access and v_version */
	const char *id;  /* the same in its own view */
	const char *begin;
	const char *text;
	const char *all;  /* begins one more list of them */
	const char *busy; /* it has accesses that are shown with it */
};

static const struct half commands = {
	"command_id",
	"c.command_id",
	"c.begin_ns",
	"c.text",
	" UNION ALL SELECT c.command_id FROM v_command c",
	" AND EXISTS (SELECT 1 FROM v_access a WHERE a.command_id = c.command_id)",
};
static const struct half processes = {
	"process_id",
	"c.process_id",
	"c.first_ns",
	"words(c.argv)",
	" UNION ALL SELECT c.process_id FROM v_loose_process c",
	/* a shell's process belongs to no command, but its own accesses may */
	" AND c.n_accesses > 0"
	" AND EXISTS (SELECT 1 FROM v_access a WHERE a.process_id = c.process_id"
	" AND a.command_id IS NULL)",
};

/* Adds a condition: column is the file_id of what the item names: the path, something
 * below it, or a path that matches; a pattern without a slash matches names. */
static void matches(struct shfs_buf *sql, const char *column,
                    const struct shfs_filter_item *item, int n)
{
	if (!item->pattern)
		shfs_sql_files_below(sql, column, n);
	else
		shfs_buf_printf(sql,
		                "%s IN (SELECT file_id FROM v_path WHERE %s GLOB ?%d)",
		                column, strchr(item->text, '/') ? "path" : "name", n);
}

/* Adds a condition on one use: is it of the files that a broad item names? */
static void add_below_condition(struct shfs_buf *sql, const struct shfs_filter_item *item,
                                const char *path, const char *file_id, int n)
{
	if (item->many)
		shfs_sql_below(sql, path, n);
	else
		shfs_sql_files_below(sql, file_id, n);
}

/* Returns "is_read AND ", as the item demands. */
static const char *how_used(const struct shfs_filter_item *item)
{
	return item->kind == SHFS_FILTER_READ    ? "is_read AND "
	       : item->kind == SHFS_FILTER_WROTE ? "is_written AND "
	                                         : "";
}

/* --- conditions on versions --- */

/* Adds " AND ..." for v_version v. */
static void version_condition(struct shfs_query *q, const struct shfs_filter_item *item)
{
	struct shfs_buf *sql = &q->sql;

	switch (item->kind) {
	case SHFS_FILTER_CONTENT:
		if (item->by_phash) {
			int size = shfs_query_int(q, (int64_t)item->size);

			/* the index has only 24 bits of it */
			shfs_buf_printf(sql,
			                " AND v.size = ?%d AND v.phash ="
			                " CASE v.flags & %d WHEN 0 THEN ?%d ELSE ?%d END"
			                " AND v.object IS NULL",
			                size, SHFS_CONTENT_WHOLE,
			                shfs_query_int(q, item->phash[0]),
			                shfs_query_int(q, item->phash[1]));
		} else {
			int n = shfs_query_str(q, item->text);

			shfs_buf_printf(sql,
			                " AND v.object_key = object_key(?%d)"
			                " AND v.object = ?%d",
			                n, n);
		}
		break;
	case SHFS_FILTER_SIZE_MIN:
		shfs_buf_printf(sql, " AND v.size >= ?%d",
		                shfs_query_int(q, item->value));
		break;
	case SHFS_FILTER_SIZE_MAX:
		shfs_buf_printf(sql, " AND v.size <= ?%d",
		                shfs_query_int(q, item->value));
		break;
	case SHFS_FILTER_MODIFIED_SINCE:
		shfs_buf_printf(sql, " AND v.mtime_ns >= ?%d",
		                shfs_query_int(q, item->value));
		break;
	case SHFS_FILTER_MODIFIED_UNTIL:
		shfs_buf_printf(sql, " AND v.mtime_ns < ?%d",
		                shfs_query_int(q, item->value));
		break;
	default:
		break;
	}
}

/* Adds all conditions of a group on one version: of those on its path only that of used,
 * and those on its name. */
static void version_conditions(const struct shfs_filter *f, struct shfs_query *q,
                               const struct shfs_filter_item *used)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct shfs_filter_item *item = &f->items[i];

		if (!item_is_in(item, used->group))
			continue;
		version_condition(q, item);
		if (item != used && item->kind != SHFS_FILTER_NAME)
			continue;
		if (item->kind == SHFS_FILTER_USED)
			continue;
		shfs_buf_str(&q->sql, " AND ");
		matches(&q->sql, "v.file_id", item, shfs_query_str(q, item->text));
	}
}

static bool wants_reads(const struct shfs_filter_item *item)
{
	return item->kind != SHFS_FILTER_WROTE;
}

static bool wants_writes(const struct shfs_filter_item *item)
{
	return item->kind != SHFS_FILTER_READ;
}

/* Lists the users of the versions, which are few. */
static void list_users_of_versions(struct shfs_query *q,
                                   const struct shfs_filter_item *item)
{
	shfs_buf_printf(&q->sql, "WITH hit(id) AS (VALUES (0)");
	for (size_t k = 0; k < item->n_hits; k++)
		shfs_buf_printf(&q->sql, ",(%lld)", (long long)item->hits[k]);
	shfs_buf_str(&q->sql, ") SELECT a.command_id, a.process_id FROM hit"
	                      " CROSS JOIN v_access a ON a.file_id = hit.id >> 32 AND ");
	if (wants_reads(item))
		shfs_buf_printf(&q->sql, "(a.seen_n = hit.id & 4294967295%s",
		                wants_writes(item) ? " OR " : " AND a.is_read)");
	if (!wants_writes(item))
		return;
	shfs_buf_printf(&q->sql,
	                "a.made_n = hit.id & 4294967295 AND a.file2_id IS NULL%s"
	                " UNION ALL SELECT v.command_id, v.process_id FROM hit"
	                " CROSS JOIN v_version v ON" SHFS_SQL_VERSION_OF("v", "hit.id"),
	                wants_reads(item) ? ")" : "");
}

/* Adds a condition: does the command or process use one of many versions? */
static void used_versions(const struct shfs_filter *f, struct shfs_query *q,
                          const struct half *h, const struct shfs_filter_item *item)
{
	static const char head[] =
		"EXISTS (SELECT 1 FROM v_access a CROSS JOIN v_version v"
		" ON v.file_id = a.%sfile_id AND v.n = a.%s_n"
		" WHERE a.%s = %s%s";

	if (wants_reads(item)) {
		shfs_buf_printf(&q->sql, head, "", "seen", h->row, h->id,
		                wants_writes(item) ? "" : " AND a.is_read");
		version_conditions(f, q, item);
		shfs_buf_str(&q->sql, wants_writes(item) ? ") OR " : ")");
	}
	if (!wants_writes(item))
		return;
	shfs_buf_printf(&q->sql, head, "made_", "made", h->row, h->id, "");
	version_conditions(f, q, item);
	shfs_buf_char(&q->sql, ')');
}

void shfs_filter_files(const struct shfs_filter *f, struct shfs_query *q,
                       const char *file_id)
{
	const char *before = " AND (";

	for (size_t i = 0; i < f->n; i++) {
		version_condition(q, &f->items[i]);
		if (f->items[i].kind != SHFS_FILTER_NAME)
			continue;
		shfs_buf_str(&q->sql, " AND ");
		matches(&q->sql, file_id, &f->items[i],
		        shfs_query_str(q, f->items[i].text));
	}
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].kind != SHFS_FILTER_PATH)
			continue;
		shfs_buf_str(&q->sql, before);
		shfs_sql_files_below(&q->sql, file_id,
		                     shfs_query_str(q, f->items[i].text));
		before = " OR ";
	}
	shfs_buf_str(&q->sql, strcmp(before, " OR ") ? "" : ")");
}

/* --- users of files --- */

/*
 * If the item names few files, their users are looked up once, for commands and
 * processes, and rows are found by that list. If it names many, each row is checked for
 * one of them, from the newest on: so the first rows come at once there, too.
 *
 * A file that came to its path by a rename or a link was not opened there: its users are
 * the command that moved it there, and those that wrote it at its old path.
 */
static void list_users(struct shfs_buf *sql, const struct shfs_filter_item *item, int n)
{
	shfs_buf_printf(sql, "SELECT command_id, process_id FROM v_access WHERE %s",
	                how_used(item));
	matches(sql, "file_id", item, n);
	if (item->kind == SHFS_FILTER_READ)
		return;
	shfs_buf_str(sql, " UNION ALL SELECT command_id, process_id FROM v_version"
	                  " WHERE origin_version_id IS NOT NULL AND ");
	matches(sql, "file_id", item, n);
	shfs_buf_str(sql,
	             " UNION ALL SELECT command_id, process_id FROM v_access WHERE ");
	matches(sql, "file2_id", item, n);
}

static void used_one(struct shfs_buf *sql, const struct half *h, const char *how,
                     const struct shfs_filter_item *item, int n)
{
	shfs_buf_printf(sql, "EXISTS (SELECT 1 FROM v_access a WHERE a.%s = %s AND %s",
	                h->row, h->id, how);
	add_below_condition(sql, item, "a.path", "+a.file_id", n);
	shfs_buf_str(sql, ")");
}

static void used_each(struct shfs_buf *sql, const struct half *h,
                      const struct shfs_filter_item *item, int n)
{
	used_one(sql, h, how_used(item), item, n);
	if (item->kind == SHFS_FILTER_READ)
		return;
	shfs_buf_printf(sql,
	                " OR EXISTS (SELECT 1 FROM v_access a WHERE a.%s = %s AND "
	                "a.file2_id IS NOT NULL AND ",
	                h->row, h->id);
	add_below_condition(sql, item, "a.path2", "+a.file2_id", n);
	shfs_buf_printf(sql,
	                ") OR %s IN (SELECT %s FROM v_version WHERE"
	                " origin_version_id IS NOT NULL AND ",
	                h->id, h->row);
	matches(sql, "file_id", item, n);
	shfs_buf_str(sql, ")");
}

/* Adds the condition on users. Commands that ran in the directory are in the list, too,
 * as a row cannot be found in two ways; the others in it are known to have accesses. i:
 * index of the item. */
static void used(const struct shfs_filter *f, struct shfs_query *q, const struct half *h,
                 const char *busy, size_t i)
{
	const struct shfs_filter_item *item = &f->items[i];
	bool by_cwd = item->kind == SHFS_FILTER_PATH;
	int n = (item->broad && !item_is_by_versions(f, item)) || by_cwd
	                ? shfs_query_str(q, item->text)
	                : 0;
	struct shfs_buf *sql = &q->sql;

	if (item->broad && item_is_by_versions(f, item)) {
		used_versions(f, q, h, item);
		return;
	}
	if (item->broad) {
		if (by_cwd) {
			shfs_sql_below(sql, "c.cwd", n);
			shfs_buf_str(sql, " OR ");
		}
		used_each(sql, h, item, n);
		return;
	}
	shfs_buf_printf(sql, "%s IN (SELECT %s FROM v_used%zu", h->id, h->row, i);
	if (by_cwd) {
		shfs_buf_str(sql, h->all);
		shfs_buf_str(sql, " WHERE ");
		shfs_sql_below(sql, "c.cwd", n);
		shfs_buf_str(sql, busy);
	}
	shfs_buf_str(sql, ")");
}

/* Adds the lists to which the conditions refer. */
static void lists(const struct shfs_filter *f, struct shfs_query *q)
{
	const char *before = "WITH ";

	for (size_t i = 0; i < f->n; i++) {
		const struct shfs_filter_item *item = &f->items[i];

		if (!item_names_files(item) || item->broad || !item_stands_alone(f, item))
			continue;
		shfs_buf_printf(&q->sql, "%sv_used%zu AS MATERIALIZED (", before, i);
		if (item_is_by_versions(f, item))
			list_users_of_versions(q, item);
		else
			list_users(&q->sql, item, shfs_query_str(q, item->text));
		shfs_buf_str(&q->sql, ") ");
		before = ", ";
	}
}

/* A shell belongs to no command. */
static void ran_as(struct shfs_buf *sql, const struct half *h, int n)
{
	if (h == &processes)
		shfs_buf_printf(sql, "c.uid = ?%d", n);
	else
		shfs_buf_printf(sql,
		                "(EXISTS (SELECT 1 FROM v_process p WHERE"
		                " p.command_id = c.command_id AND p.uid = ?%1$d)"
		                " OR c.session_id IN (SELECT p.session_id FROM"
		                " v_loose_process p WHERE p.shell AND p.uid = ?%1$d))",
		                n);
}

/* Commands of an invoker that has this word: "agent" or "claude" of "agent claude",
 * "slurm" of "job slurm 9_17"; and what `shfs run` names below them, in a session of its
 * own. */
static void given_by(struct shfs_buf *sql, int n)
{
	/* from each run upwards, as each of these steps has an index */
	shfs_buf_printf(
		sql,
		"c.session_id IN (WITH RECURSIVE given AS MATERIALIZED"
		" (SELECT session_id FROM v_session"
		"  WHERE instr(' ' || invoker || ' ', ' ' || ?%d || ' ')),"
		" up(run, at) AS (SELECT s.session_id, k.session_id"
		"  FROM v_session s CROSS JOIN v_command k ON k.command_id = s.caller_id"
		"  WHERE s.shell = 'run'"
		"  UNION SELECT up.run, k.session_id FROM up"
		"  CROSS JOIN v_session s ON s.session_id = up.at AND s.shell = 'run'"
		"  CROSS JOIN v_command k ON k.command_id = s.caller_id)"
		" SELECT session_id FROM given"
		" UNION SELECT run FROM up WHERE at IN (SELECT session_id FROM given))",
		n);
}

static void condition(const struct shfs_filter *f, struct shfs_query *q,
                      const struct half *h, const char *busy, size_t i)
{
	const struct shfs_filter_item *item = &f->items[i];
	struct shfs_buf *sql = &q->sql;
	int n = item_names_files(item) ? 0
	        : item->text           ? shfs_query_str(q, item->text)
	                               : shfs_query_int(q, item->value);

	switch (item->kind) {
	case SHFS_FILTER_SINCE:
		shfs_buf_printf(sql, "%s >= ?%d", h->begin, n);
		break;
	case SHFS_FILTER_UNTIL:
		shfs_buf_printf(sql, "%s < ?%d", h->begin, n);
		break;
	case SHFS_FILTER_GREP:
		shfs_buf_char(sql, '(');
		shfs_buf_printf(sql, "instr(%s, ?%d) > 0", h->text, n);
		if (f->in_definitions && h == &commands)
			shfs_buf_printf(sql,
			                " OR EXISTS (SELECT 1 FROM v_definition d WHERE"
			                " d.command_id = c.command_id AND "
			                "instr(d.definition, ?%d) > 0)",
			                n);
		shfs_buf_char(sql, ')');
		break;
	case SHFS_FILTER_REGEX:
		shfs_buf_printf(sql, "%s REGEXP ?%d", h->text, n);
		break;
	case SHFS_FILTER_CWD:
		shfs_sql_below(sql, "c.cwd", n);
		break;
	case SHFS_FILTER_SESSION:
		shfs_buf_printf(sql, "c.session >= ?%d AND c.session < ?%d || 'g'", n, n);
		break;
	case SHFS_FILTER_COMMAND:
		shfs_buf_printf(sql, "c.id >= ?%d AND c.id < ?%d || 'g'", n, n);
		break;
	case SHFS_FILTER_WITHIN:
		shfs_buf_printf(
			sql,
			"c.session_id IN (WITH RECURSIVE s AS MATERIALIZED (SELECT"
			" session_id, caller_id FROM v_session WHERE caller_id NOT NULL),"
			" w(id) AS (SELECT s.session_id FROM s JOIN v_command k"
			"  ON k.command_id = s.caller_id AND k.id >= ?%1$d"
			"  AND k.id < ?%1$d || 'g' UNION SELECT s.session_id FROM w"
			"  JOIN v_command k ON k.session_id = w.id"
			"  JOIN s ON s.caller_id = k.command_id) SELECT id FROM w)",
			n);
		break;
	case SHFS_FILTER_STATUS:
		shfs_buf_printf(sql, "c.status = ?%d", n);
		break;
	case SHFS_FILTER_NOT_STATUS:
		shfs_buf_printf(sql, "c.status <> ?%d", n);
		break;
	case SHFS_FILTER_HOST:
		shfs_buf_printf(sql, "c.host = ?%d", n);
		break;
	case SHFS_FILTER_USER:
		ran_as(sql, h, n);
		break;
	case SHFS_FILTER_BY:
		if (!strcmp(item->text, "shell"))
			shfs_buf_printf(sql, "(c.invoker = '' AND ?%d <> '')", n);
		else
			given_by(sql, n);
		break;
	default:
		used(f, q, h, busy, i);
		break;
	}
}

static bool names_files(const struct shfs_filter *f, int group)
{
	for (size_t i = 0; i < f->n; i++)
		if (item_is_in(&f->items[i], group) && item_names_files(&f->items[i]))
			return true;
	return false;
}

/* Is there a list of the users of named files? Then its commands need no check for
 * accesses. */
static bool lists_users(const struct shfs_filter *f, int group)
{
	for (size_t i = 0; i < f->n; i++)
		if (item_is_in(&f->items[i], group) && f->items[i].broad)
			return false;
	return names_files(f, group);
}

/* Adds the items of this kind: one of them must hold. */
static void any_of(const struct shfs_filter *f, struct shfs_query *q,
                   const struct half *h, const char *busy, enum shfs_filter_kind kind,
                   int group)
{
	const char *before = " AND (";

	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].kind != kind || !item_is_in(&f->items[i], group))
			continue;
		shfs_buf_str(&q->sql, before);
		condition(f, q, h, busy, i);
		before = " OR ";
	}
	if (group_last(f, kind, group))
		shfs_buf_char(&q->sql, ')');
}

/* Does it ask for failures? A failed command often touched no file. */
static bool asks_for_failures(const struct shfs_filter *f, int group)
{
	for (size_t i = 0; i < f->n; i++)
		if (item_is_in(&f->items[i], group) &&
		    f->items[i].kind == (f->items[i].value ? SHFS_FILTER_STATUS
		                                           : SHFS_FILTER_NOT_STATUS))
			return true;
	return false;
}

/* Adds the conditions of a group: each must hold; of paths and of commands, one must. */
static void group_conditions(const struct shfs_filter *f, struct shfs_query *q,
                             const struct half *h, int group)
{
	bool is_command = h == &commands;
	bool all = f->all || asks_for_failures(f, group);
	const char *busy = all && is_command ? ""
	                   : f->no_command   ? " AND NOT c.shell"
	                                     : h->busy;

	for (size_t i = 0; i < f->n; i++) {
		const struct shfs_filter_item *item = &f->items[i];

		if (!item_is_in(item, group) || item->kind == SHFS_FILTER_PATH ||
		    item->kind == SHFS_FILTER_COMMAND || !item_stands_alone(f, item))
			continue;
		shfs_buf_str(&q->sql, " AND (");
		condition(f, q, h, busy, i);
		shfs_buf_str(&q->sql, ")");
	}
	if (!is_command || !lists_users(f, group))
		shfs_buf_str(&q->sql, busy);
	any_of(f, q, h, busy, SHFS_FILTER_COMMAND, group);
	any_of(f, q, h, busy, SHFS_FILTER_PATH, group);
}

static bool wants_processes(const struct shfs_filter *f, int group)
{
	return (f->all || names_files(f, group)) && group_fits_processes(f, group) &&
	       !group_last(f, SHFS_FILTER_GREP, group) &&
	       !group_last(f, SHFS_FILTER_REGEX, group);
}

static bool are_processes_wanted(const struct shfs_filter *f)
{
	for (int group = 0; group <= f->n_or; group++)
		if (wants_processes(f, group))
			return true;
	return false;
}

/* Adds the conditions: one of the groups must hold. */
static void conditions(const struct shfs_filter *f, struct shfs_query *q,
                       const struct half *h)
{
	const char *before = " AND ((1";

	if (!f->n_or) {
		group_conditions(f, q, h, 0);
		return;
	}
	for (int group = 0; group <= f->n_or; group++) {
		if (h == &processes && !f->no_command && !wants_processes(f, group))
			continue;
		shfs_buf_str(&q->sql, before);
		group_conditions(f, q, h, group);
		before = ") OR (1";
	}
	shfs_buf_str(&q->sql, "))");
}

#define FEW_FILES  100
#define FEW_USES   3000
#define MANY_FILES 2000
/* Size of the sample of latest commands, and the thresholds of hits in it. */
#define SAMPLE    "50"
#define OFTEN     10
#define SOMETIMES 2

/* Some of the named files, sorted; all of them, unless they are MANY_FILES. */
struct files {
	int64_t ids[MANY_FILES];
	size_t n;
};

static int list_files_below(struct shfs_index *index, const char *path, struct files *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	out->n = 0;
	shfs_buf_str(&sql, "SELECT file_id FROM (");
	shfs_sql_list_files_below(&sql, 1);
	shfs_buf_printf(&sql, ") LIMIT %d", MANY_FILES);
	r = sql.failed ? -ENOMEM : shfs_rows_open_str(index, sql.data, path, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		out->ids[out->n++] = shfs_rows_int(rows, 0);
		r = 0;
	}
	qsort(out->ids, out->n, sizeof(*out->ids), shfs_compare_int64);
	return r;
}

static int is_of_files(const struct shfs_access *access, void *arg)
{
	const struct files *files = arg;

	return bsearch(&access->file_id, files->ids, files->n, sizeof(*files->ids),
	               shfs_compare_int64) != NULL;
}

#define LATEST                                                                           \
	"SELECT c.command_id FROM v_command c WHERE EXISTS (SELECT 1 FROM v_access a"    \
	" WHERE a.command_id = c.command_id) ORDER BY c.begin_ns DESC LIMIT " SAMPLE

static int count_users(struct shfs_index *index, struct files *files, int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open(index, LATEST, &rows);

	*out = 0;
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		r = shfs_accesses_of_command(index, shfs_rows_int(rows, 0), is_of_files,
		                             files);
		if (r < 0)
			return r;
		*out += r;
		r = 0;
	}
	return r;
}

/* Counts users by path: there are too many files to list them. */
static int count_users_by_path(struct shfs_index *index,
                               const struct shfs_filter_item *item, int64_t *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	int r;

	shfs_buf_str(&sql, "SELECT count(*) FROM (" LATEST ") c WHERE ");
	used_one(&sql, &commands, "", item, 1);
	r = sql.failed ? -ENOMEM : shfs_rows_open_str(index, sql.data, item->text, &rows);
	if (!r)
		r = shfs_rows_next(rows);
	*out = r > 0 ? shfs_rows_int(rows, 0) : 0;
	return MIN(r, 0);
}

/* Measures an item: do so many of the latest commands use it that the first rows are
 * found fast by looking at command after command? Also true if its files are many. */
static int measure_filter_item(struct shfs_index *index, struct shfs_filter_item *item)
{
	int64_t uses = FEW_USES, users = 0;
	struct files files;
	int r = list_files_below(index, item->text, &files);

	item->many = files.n == MANY_FILES;
	if (!r && files.n <= FEW_FILES)
		r = shfs_uses_count(index, files.ids, files.n, &uses);
	if (!r && uses >= FEW_USES)
		r = item->many ? count_users_by_path(index, item, &users)
		               : count_users(index, &files, &users);
	item->broad = users >= (item->many ? SOMETIMES : OFTEN);
	return r;
}

/* Looks up the versions in question; if they are many, commands are checked for one of
 * them. */
static int measure_versions(const struct shfs_filter *f, struct shfs_index *index,
                            struct shfs_filter_item *item)
{
	_cleanup_query_ struct shfs_query q = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	free(item->hits); /* of the measure before */
	item->n_hits = 0;
	item->hits = calloc(MANY_FILES, sizeof(*item->hits));
	if (!item->hits)
		return -ENOMEM;
	shfs_buf_str(&q.sql, "SELECT v.version_id FROM v_version v WHERE 1");
	version_conditions(f, &q, item);
	shfs_buf_printf(&q.sql, " LIMIT %d", MANY_FILES);
	r = shfs_query_open(&q, index, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		item->hits[item->n_hits++] = shfs_rows_int(rows, 0);
		r = 0;
	}
	item->broad = item->n_hits == MANY_FILES;
	return r;
}

int shfs_filter_measure(struct shfs_filter *f, struct shfs_index *index)
{
	int r;

	shfs_clocks_clear(&f->clocks);
	r = f->as_recorded ? 0 : shfs_clocks_load(index, &f->clocks);
	for (size_t i = 0; i < f->n && !r; i++) {
		struct shfs_filter_item *item = &f->items[i];

		if (item_is_by_versions(f, item))
			r = measure_versions(f, index, item);
		else if (!item->pattern && item_names_files(item))
			r = measure_filter_item(index, item);
	}
	return r;
}

/* The keys of an order, for commands and processes. */
static const struct {
	const char *key[2];
	bool descends;
} orders[] = {
	[SHFS_SORT_DURATION] = { { "c.end_ns - c.begin_ns", "NULL" }, true },
	[SHFS_SORT_STATUS] = { { "c.status", "NULL" }, true },
	[SHFS_SORT_CWD] = { { "c.cwd", "c.cwd" }, false },
	[SHFS_SORT_COMMAND] = { { "iif(c.hidden, NULL, c.text)", "words(c.argv)" },
	                        false },
	[SHFS_SORT_HOST] = { { "c.host", "c.host" }, false },
};

static void add_sort_key(const struct shfs_filter *f, struct shfs_query *q,
                         bool is_process)
{
	const char *expr = orders[f->sort].key[is_process];

	if (!f->sort)
		return;
	shfs_buf_str(&q->sql, ", ");
	shfs_buf_str(&q->sql, expr);
	shfs_buf_str(&q->sql, " AS key");
}

/* Commands alone come in the order of their index if that is the time, so that the first
 * come at once. */
static void add_order(const struct shfs_filter *f, struct shfs_query *q, bool both)
{
	const char *way = f->reverse ? "" : " DESC";

	shfs_buf_str(&q->sql, " ORDER BY ");
	if (f->sort)
		shfs_buf_printf(&q->sql, "key%s NULLS LAST, ",
		                orders[f->sort].descends != f->reverse ? " DESC" : "");
	shfs_buf_printf(&q->sql, "time%s%s, id%s", way, both ? ", kind" : "", way);
	if (f->limit)
		shfs_buf_printf(&q->sql, " LIMIT ?%d", shfs_query_int(q, f->limit));
}

int shfs_filter_query(const struct shfs_filter *f, struct shfs_query *q)
{
	bool both = !f->no_command && are_processes_wanted(f);

	lists(f, q);
	if (!f->no_command) {
		shfs_buf_str(&q->sql, "SELECT 0 AS kind, c.command_id AS id, ");
		shfs_clocks_query(&f->clocks, q, "c.begin_ns", "c.host");
		shfs_buf_str(&q->sql, " AS time");
		add_sort_key(f, q, false);
		shfs_buf_str(&q->sql, " FROM v_command c WHERE 1");
		conditions(f, q, &commands);
	}
	if (both)
		shfs_buf_str(&q->sql, " UNION ALL ");
	if (both || f->no_command) {
		shfs_buf_str(&q->sql, "SELECT 1 AS kind, c.process_id AS id, ");
		shfs_clocks_query(&f->clocks, q, "c.first_ns", "c.host");
		shfs_buf_str(&q->sql, " AS time");
		add_sort_key(f, q, true);
		shfs_buf_str(&q->sql, " FROM v_loose_process c WHERE 1");
		conditions(f, q, &processes);
	}
	add_order(f, q, both);
	return q->failed || q->sql.failed ? -ENOMEM : 0;
}
