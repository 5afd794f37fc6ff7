/* SPDX-License-Identifier: MIT */
/*
 * `shfs stats`: count commands: by day, by program, the slowest; and busy and large
 * files.
 */
#include "query/base/cmd.h"
#include "query/base/model.h"
#include "query/base/time.h"
#include "query/care/stats-store.h"
#include "query/history/entry.h"
#include "query/history/filter.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define BAR_WIDTH 40

static struct {
	int64_t since_ns, until_ns; /* 0: any */
	int64_t limit;              /* of each list */
	bool json, store;
} opts = { .limit = 10 };

struct stats {
	struct shfs_context *ctx;
	struct shfs_index *index;
	const struct shfs_style *style;
	size_t columns;
	char **paths; /* of the operands; ends with NULL */
	bool bookkeeping;
	struct shfs_buf out;
	struct shfs_json json;
};

/* --- queries --- */

static void where_time(struct shfs_query *q, const char *column)
{
	if (opts.since_ns)
		shfs_buf_printf(&q->sql, " AND %s >= ?%d", column,
		                shfs_query_int(q, opts.since_ns));
	if (opts.until_ns)
		shfs_buf_printf(&q->sql, " AND %s < ?%d", column,
		                shfs_query_int(q, opts.until_ns));
}

static void where_paths(const struct stats *s, struct shfs_query *q, const char *column,
                        void (*below)(struct shfs_buf *, const char *, int))
{
	for (char **path = s->paths; *path; path++) {
		int n = shfs_query_str(q, strcmp(*path, "/") ? *path : "");

		shfs_buf_str(&q->sql, path == s->paths ? " AND (" : " OR ");
		below(&q->sql, column, n);
	}
	if (*s->paths)
		shfs_buf_char(&q->sql, ')');
}

/* Opens head, then the condition on commands, then tail. */
static int ask_commands(const struct stats *s, const char *head, const char *tail,
                        struct shfs_rows **out)
{
	_cleanup_query_ struct shfs_query q = { 0 };

	shfs_buf_printf(&q.sql, "%s FROM v_command WHERE 1", head);
	where_time(&q, "begin_ns");
	where_paths(s, &q, "cwd", shfs_sql_below);
	shfs_buf_str(&q.sql, tail);
	return shfs_query_open(&q, s->index, out);
}

/* As ask_commands, with a condition on versions. */
static int ask_versions(const struct stats *s, const char *head, const char *tail,
                        struct shfs_rows **out)
{
	_cleanup_query_ struct shfs_query q = { 0 };

	shfs_buf_str(&q.sql, head);
	where_time(&q, "time_ns");
	where_paths(s, &q, "v.file_id", shfs_sql_files_below);
	shfs_buf_str(&q.sql, tail);
	return shfs_query_open(&q, s->index, out);
}

/* --- lists --- */

static void begin_list(struct stats *s, const char *title, const char *key)
{
	if (opts.json)
		shfs_json_array(&s->json, key);
	else
		shfs_buf_printf(&s->out, "\n%s%s%s\n", s->style->bold, title,
		                s->style->off);
}

static void end_list(struct stats *s)
{
	if (opts.json)
		shfs_json_array_end(&s->json);
}

/* count: text before the name, for people. */
static void put_file(struct stats *s, const char *count, const char *path, int64_t n)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	shfs_show_version(&name, path, n);
	shfs_buf_printf(&s->out, "  %10s  ", count);
	if (!name.failed)
		shfs_show_tail(&s->out, name.data, s->columns - MIN(s->columns / 2, 14u));
	shfs_buf_char(&s->out, '\n');
}

/* --- totals --- */

static int put_totals(struct stats *s)
{
	static const char *const names[] = { "commands", "sessions", "hosts", "failed" };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = ask_commands(s,
	                     "SELECT count(*), count(DISTINCT session_id),"
	                     " count(DISTINCT host), coalesce(sum(status <> 0), 0),"
	                     " min(begin_ns), max(begin_ns)",
	                     "", &rows);

	r = r ? r : shfs_rows_next(rows);
	if (r <= 0)
		return r;
	if (opts.json) {
		for (int i = 0; i < (int)ARRAY_SIZE(names); i++)
			shfs_json_int(&s->json, names[i], shfs_rows_int(rows, i));
		return 0;
	}
	for (int i = 0; i < (int)ARRAY_SIZE(names); i++)
		shfs_buf_printf(&s->out, "%s%" PRId64 " %.*s", i ? ", " : "",
		                shfs_rows_int(rows, i),
		                (int)strlen(names[i]) -
		                        (i < 3 && shfs_rows_int(rows, i) == 1),
		                names[i]);
	if (shfs_rows_int(rows, 0)) {
		shfs_buf_char(&s->out, '\n');
		shfs_time_show(&s->out, shfs_rows_int(rows, 4));
		shfs_buf_str(&s->out, " to ");
		shfs_time_show(&s->out, shfs_rows_int(rows, 5));
	}
	shfs_buf_char(&s->out, '\n');
	return 0;
}

/* --- days, the latest first --- */

/* day: a row with the day, its commands, those that failed, and the maximum of all
 * days. */
static int put_day(struct stats *s, struct shfs_rows *day)
{
	int64_t commands = shfs_rows_int(day, 1), most = shfs_rows_int(day, 3);

	if (opts.json) {
		shfs_json_object(&s->json, NULL);
		shfs_json_str(&s->json, "day", shfs_rows_text(day, 0));
		shfs_json_int(&s->json, "commands", commands);
		shfs_json_int(&s->json, "failed", shfs_rows_int(day, 2));
		shfs_json_object_end(&s->json);
		return 0;
	}
	shfs_buf_printf(&s->out, "  %s  %6" PRId64 "  ", shfs_rows_text(day, 0),
	                commands);
	for (int64_t i = 0; i < (commands * BAR_WIDTH + most - 1) / most; i++)
		shfs_show_signs(&s->out, "▪");
	shfs_buf_char(&s->out, '\n');
	return 0;
}

static int put_days(struct stats *s)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	char tail[96];
	int r;

	snprintf(tail, sizeof(tail),
	         " GROUP BY day ORDER BY day DESC LIMIT %" PRId64 ") ORDER BY day DESC",
	         opts.limit);
	r = ask_commands(s,
	                 "SELECT day, n, failed, max(n) OVER () FROM"
	                 " (SELECT strftime('%Y-%m-%d', begin_ns / 1000000000,"
	                 " 'unixepoch', 'localtime') AS day, count(*) AS n,"
	                 " coalesce(sum(status <> 0), 0) AS failed",
	                 tail, &rows);
	begin_list(s, "Commands a day", "days");
	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = put_day(s, rows);
	end_list(s);
	return r;
}

/* --- most used --- */

struct word {
	int64_t n;
	UT_hash_handle hh;
	char text[];
};

static bool is_env_assignment(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len && (isalnum((unsigned char)text[i]) || text[i] == '_'))
		i++;
	return i && i < len && text[i] == '=';
}

/* The program of a command line: its first word that is no assignment and not sudo. */
static size_t first_word(const char **text)
{
	for (;;) {
		size_t len;

		*text += strspn(*text, " \t\n(");
		len = strcspn(*text, " \t\n;|&<>()");
		if (!len || !(is_env_assignment(*text, len) ||
		              (len == 4 && !strncmp(*text, "sudo", 4))))
			return len;
		*text += len;
	}
}

static int count_word(struct word **words, const char *text)
{
	size_t len = first_word(&text);
	struct word *word;

	if (!len)
		return 0;
	HASH_FIND(hh, *words, text, len, word);
	if (!word) {
		word = calloc(1, sizeof(*word) + len + 1);
		if (!word)
			return -ENOMEM;
		memcpy(word->text, text, len);
		HASH_ADD_KEYPTR(hh, *words, word->text, len, word);
		if (!word->hh.tbl) {
			free(word);
			return -ENOMEM;
		}
	}
	word->n++;
	return 0;
}

static int by_count(const struct word *a, const struct word *b)
{
	return a->n != b->n ? (a->n < b->n ? 1 : -1) : strcmp(a->text, b->text);
}

static void put_word(struct stats *s, const struct word *word)
{
	if (opts.json) {
		shfs_json_object(&s->json, NULL);
		shfs_json_str(&s->json, "name", word->text);
		shfs_json_int(&s->json, "commands", word->n);
		shfs_json_object_end(&s->json);
		return;
	}
	shfs_buf_printf(&s->out, "  %10" PRId64 "  ", word->n);
	shfs_show_first_line(&s->out, word->text, strlen(word->text),
	                     s->columns - MIN(s->columns / 2, 14u));
	shfs_buf_char(&s->out, '\n');
}

static int put_programs(struct stats *s)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct word *words = NULL, *word, *next;
	int64_t n = 0;
	int r = ask_commands(s, "SELECT text", " AND NOT hidden", &rows);

	while (!r && (r = shfs_rows_next(rows)) > 0)
		r = count_word(&words, shfs_rows_text(rows, 0));
	HASH_SORT(words, by_count);
	begin_list(s, "Used most", "programs");
	HASH_ITER (hh, words, word, next) {
		if (n++ < opts.limit)
			put_word(s, word);
		HASH_DEL(words, word);
		free(word);
	}
	end_list(s);
	return r;
}

/* --- slowest --- */

static int put_slow(struct stats *s, int64_t command_id, int64_t ns)
{
	_cleanup_entry_ struct shfs_entry entry = { 0 };
	_cleanup_buf_ struct shfs_buf took = { 0 };
	int r = shfs_command_load(s->index, command_id, &entry.command);

	if (r <= 0)
		return r;
	if (opts.json) {
		shfs_json_object(&s->json, NULL);
		shfs_entry_json_head(&s->json, &entry);
		shfs_json_int(&s->json, "duration_ns", ns);
		shfs_json_object_end(&s->json);
		return 0;
	}
	shfs_time_show_duration(&took, ns);
	shfs_buf_printf(&s->out, "  %10s  ", took.failed ? "" : took.data);
	r = shfs_entry_show_head(s->index, s->style, &entry,
	                         s->columns - MIN(s->columns / 2, 14u), &s->out);
	shfs_buf_char(&s->out, '\n');
	return r;
}

static int put_slowest(struct stats *s)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int64_t n = 0;
	int r = ask_commands(s, "SELECT command_id, end_ns - begin_ns AS took",
	                     " AND end_ns IS NOT NULL ORDER BY took DESC, begin_ns",
	                     &rows);

	begin_list(s, "Took longest", "slowest");
	while (!r && n++ < opts.limit && (r = shfs_rows_next(rows)) > 0)
		r = put_slow(s, shfs_rows_int(rows, 0), shfs_rows_int(rows, 1));
	end_list(s);
	return MIN(r, 0);
}

/* --- files --- */

/* Puts rows of a path, its latest version, a number. bytes: the number is a size. */
static int put_files(struct stats *s, struct shfs_rows *rows, const char *key, bool bytes)
{
	int64_t n = 0;
	int r = 0;

	while (n < opts.limit && (r = shfs_rows_next(rows)) > 0) {
		_cleanup_buf_ struct shfs_buf count = { 0 };
		const char *path = shfs_rows_text(rows, 0);
		int64_t value = shfs_rows_int(rows, 2);

		if (!s->bookkeeping && shfs_path_bookkeeping(path))
			continue;
		n++;
		if (opts.json) {
			shfs_json_object(&s->json, NULL);
			shfs_json_str(&s->json, "path", path);
			shfs_json_int(&s->json, key, value);
			shfs_json_object_end(&s->json);
			continue;
		}
		if (bytes)
			shfs_show_size(&count, (uint64_t)value);
		else
			shfs_buf_printf(&count, "%" PRId64, value);
		put_file(s, count.failed ? "" : count.data, path,
		         bytes ? shfs_rows_int(rows, 1) : 0);
	}
	return MIN(r, 0);
}

static int put_busiest(struct stats *s)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = ask_versions(s,
	                     "SELECT (SELECT path FROM v_path p WHERE p.file_id ="
	                     " t.file_id), 0, t.n FROM (SELECT v.file_id, count(*) AS n"
	                     " FROM v_version v WHERE NOT carried",
	                     " GROUP BY v.file_id HAVING count(*) > 1) t"
	                     " ORDER BY t.n DESC, t.file_id",
	                     &rows);

	begin_list(s, "Most versions", "busiest");
	r = r ? r : put_files(s, rows, "versions", false);
	end_list(s);
	return r;
}

static int put_largest(struct stats *s)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = ask_versions(
		s,
		"SELECT (SELECT path FROM v_path p WHERE p.file_id ="
		" t.file_id), t.n, t.size FROM (SELECT v.file_id, v.n, v.size"
		" FROM v_file f JOIN v_version v ON v.file_id = f.file_id"
		" AND v.n = f.versions WHERE f.present",
		" ) t ORDER BY t.size DESC, t.file_id", &rows);

	begin_list(s, "Largest files", "largest");
	r = r ? r : put_files(s, rows, "size", true);
	end_list(s);
	return r;
}

/* --- the command --- */

static int show_stats(struct stats *s)
{
	static int (*const parts[])(struct stats *) = {
		put_totals, put_days, put_programs, put_slowest, put_busiest, put_largest,
	};
	int r = 0;

	if (opts.json)
		shfs_json_begin(&s->json, "stats");
	for (size_t i = 0; i < ARRAY_SIZE(parts) && !r; i++)
		r = parts[i](s);
	if (r)
		return r;
	return (opts.json ? shfs_json_end(&s->json) : shfs_show_flush(&s->out)) ? 0
	                                                                        : -EIO;
}

static int take_paths(struct stats *s, int argc, char **argv)
{
	s->paths = calloc((size_t)argc + 1, sizeof(*s->paths));
	if (!s->paths)
		return -ENOMEM;
	for (int i = 0; i < argc; i++) {
		s->paths[i] = shfs_operand_path(argv[i]);
		if (!s->paths[i])
			return -ENOMEM;
		s->bookkeeping |= shfs_path_bookkeeping(s->paths[i]) != 0;
	}
	return 0;
}

static int run_stats(struct shfs_context *ctx, struct shfs_index *index, int argc,
                     char **argv)
{
	struct stats s = { .ctx = ctx, .index = index };
	int r;

	if (opts.store && shfs_db_url) {
		shfs_error("--store does not go with --db: contents are in no "
		           "database");
		return SHFS_EXIT_USAGE;
	}
	if (opts.store)
		return shfs_stats_store(ctx, index, shfs_context_opened(ctx), opts.limit,
		                        opts.json);
	r = take_paths(&s, argc, argv) ?: shfs_fail_if_unknown(index, argc, argv);
	if (!r) {
		shfs_context_pager(ctx);
		s.style = shfs_style_of(ctx);
		s.columns = shfs_show_columns();
		r = show_stats(&s);
	}
	for (char **path = s.paths; path && *path; path++)
		free(*path);
	free(s.paths);
	shfs_buf_free(&s.out);
	shfs_json_free(&s.json);
	return r;
}

const struct shfs_command shfs_cmd_stats = {
	.name = "stats",
	.args = "[PATH…]",
	.summary = "Count what was done: days, programs, slow commands, busy and large "
		   "files",
	.description =
		"With PATH, counts only commands that ran in it or below, and files "
		"there.\n"
		"Files in .git, __pycache__ and the like are left out, unless PATH\n"
		"names one of them.",
	.alone = true,
	.options = {
	{ "since", 0, "TIME", "from this time on (\"2 weeks ago\", yesterday)",
	  .time_ns = &opts.since_ns },
	{ "until", 0, "TIME", "before this time", .time_ns = &opts.until_ns },
	{ "limit", 'n', "N", "at most N in each list (10)", .count = &opts.limit },
	{ "store", 0, NULL,
	  "show the room that the store takes, and for which files, instead",
	  .flag = &opts.store },
	SHFS_DB_OPTION,
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 0, -1 },
	.at_once = true,
	.run_on_index = run_stats,
};
