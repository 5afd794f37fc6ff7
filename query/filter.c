/* SPDX-License-Identifier: MIT */
#include "query/filter.h"

#include "query/model.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* --- a SELECT in the making --- */

struct shfs_query_arg {
	char *text; /* NULL: value */
	size_t len;
	int64_t value;
};

static int add_arg(struct shfs_query *q, struct shfs_query_arg arg)
{
	if (q->n == q->cap) {
		size_t cap = MAX(q->cap * 2, (size_t)8);
		struct shfs_query_arg *args = reallocarray(q->args, cap, sizeof(*args));

		if (!args) {
			free(arg.text);
			q->failed = true;
			return 1;
		}
		q->args = args;
		q->cap = cap;
	}
	q->args[q->n++] = arg;
	return q->n;
}

int shfs_query_text(struct shfs_query *q, const char *text, size_t len)
{
	struct shfs_query_arg arg = { .text = malloc(len + 1), .len = len };

	if (!arg.text) {
		q->failed = true;
		return 1;
	}
	memcpy(arg.text, text, len);
	arg.text[len] = '\0';
	return add_arg(q, arg);
}

int shfs_query_str(struct shfs_query *q, const char *text)
{
	return shfs_query_text(q, text, strlen(text));
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

		r = arg->text ? shfs_rows_bind_text(rows, i + 1, arg->text, arg->len)
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

/* --- the options --- */

struct shfs_filter_item {
	enum shfs_filter_kind kind;
	bool pattern;
	char *text; /* NULL: value */
	int64_t value;
};

static int add_item(struct shfs_filter *f, struct shfs_filter_item item)
{
	if (f->n == f->cap) {
		size_t cap = MAX(f->cap * 2, (size_t)8);
		struct shfs_filter_item *items =
			reallocarray(f->items, cap, sizeof(*items));

		if (!items)
			return -ENOMEM;
		f->items = items;
		f->cap = cap;
	}
	f->items[f->n++] = item;
	return 0;
}

int shfs_filter_add_int(struct shfs_filter *f, enum shfs_filter_kind kind, int64_t value)
{
	return add_item(f, (struct shfs_filter_item){ .kind = kind, .value = value });
}

/* Has it a character that GLOB understands? */
static bool is_pattern(const char *text)
{
	return strpbrk(text, "*?[");
}

/* A pattern with a slash is below the working directory, whose own name is no pattern;
 * one without is for the last part of a path alone. */
static char *whole_pattern(const char *text)
{
	_cleanup_free_ char *here = NULL;
	struct shfs_buf out = { 0 };

	if (text[0] == '/' || !strchr(text, '/'))
		return strdup(text);
	here = shfs_operand_path(".");
	if (!here)
		return NULL;
	for (const char *p = strcmp(here, "/") ? here : ""; *p; p++) {
		if (strchr("*?[", *p))
			shfs_buf_printf(&out, "[%c]", *p);
		else
			shfs_buf_char(&out, *p);
	}
	while (!strncmp(text, "./", 2))
		text += 2;
	shfs_buf_char(&out, '/');
	shfs_buf_str(&out, text);
	return shfs_buf_take(&out);
}

static char *session_prefix(const char *text)
{
	char *low;

	if (!shfs_command_is_id(text))
		return errno = EINVAL, NULL;
	low = strdup(text);
	for (char *p = low; p && *p; p++)
		*p = tolower((unsigned char)*p);
	return low;
}

int shfs_filter_add(struct shfs_filter *f, enum shfs_filter_kind kind, const char *text)
{
	struct shfs_filter_item item = { .kind = kind };
	int r;

	errno = ENOMEM;
	switch (kind) {
	case SHFS_FILTER_CWD:
	case SHFS_FILTER_PATH:
		item.text = shfs_operand_path(text);
		break;
	case SHFS_FILTER_READ:
	case SHFS_FILTER_WROTE:
		item.pattern = is_pattern(text);
		item.text = item.pattern ? whole_pattern(text) : shfs_operand_path(text);
		break;
	case SHFS_FILTER_SESSION:
		item.text = session_prefix(text);
		break;
	default:
		item.text = strdup(text);
	}
	if (!item.text)
		return -errno;
	/* What is below "/" begins with "/", not with "//". */
	if (!strcmp(item.text, "/"))
		item.text[0] = '\0';
	r = add_item(f, item);
	if (r)
		free(item.text);
	return r;
}

int shfs_filter_add_status(struct shfs_filter *f, const char *text)
{
	enum shfs_filter_kind kind = SHFS_FILTER_STATUS;
	char *end;
	long value;

	if (!strcmp(text, "ok"))
		return shfs_filter_add_int(f, kind, 0);
	if (!strcmp(text, "fail"))
		return shfs_filter_add_int(f, SHFS_FILTER_NOT_STATUS, 0);
	if (*text == '!') {
		kind = SHFS_FILTER_NOT_STATUS;
		text++;
	}
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	value = strtol(text, &end, 10);
	if (*end || errno || value > 255)
		return -EINVAL;
	return shfs_filter_add_int(f, kind, value);
}

bool shfs_filter_has(const struct shfs_filter *f, enum shfs_filter_kind kind)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->items[i].kind == kind)
			return true;
	return false;
}

void shfs_filter_free(struct shfs_filter *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->items[i].text);
	free(f->items);
	memset(f, 0, sizeof(*f));
}

/* --- conditions --- */

/* What differs between the two halves of the answer: commands, and processes that belong
 * to none. */
struct half {
	const char *row; /* the column that names it in v_access and v_version */
	const char *id;  /* the same in its own view */
	const char *begin;
};

static const struct half commands = { "command_id", "c.command_id", "c.begin_ns" };
static const struct half processes = { "process_id", "c.process_id", "c.first_ns" };

/* expr is what the item names: the path, something below it, or one that matches. */
static void matches(struct shfs_buf *sql, const char *expr,
                    const struct shfs_filter_item *item, int n)
{
	if (!item->pattern)
		shfs_sql_below(sql, expr, n);
	else if (strchr(item->text, '/'))
		shfs_buf_printf(sql, "%s GLOB ?%d", expr, n);
	else /* what is left of the path when all up to its last slash is taken away */
		shfs_buf_printf(sql,
		                "substr(%s, length(rtrim(%s, replace(%s, '/', ''))) + 1)"
		                " GLOB ?%d",
		                expr, expr, expr, n);
}

static void used(struct shfs_buf *sql, const struct half *h, const char *how,
                 const struct shfs_filter_item *item, int n)
{
	shfs_buf_printf(sql, "%s IN (SELECT %s FROM v_access WHERE %s", h->id, h->row,
	                how);
	matches(sql, "path", item, n);
	shfs_buf_str(sql, ")");
}

/* A file that came to its path by a rename or a link was not opened there: whoever moved
 * it there counts, and those who wrote it at its old path. */
static void made(struct shfs_buf *sql, const struct half *h,
                 const struct shfs_filter_item *item, int n)
{
	shfs_buf_printf(sql, " OR %s IN (SELECT %s FROM v_version WHERE ", h->id, h->row);
	matches(sql, "path", item, n);
	shfs_buf_printf(sql,
	                ") OR %s IN (SELECT %s FROM v_access WHERE file2_id IS NOT NULL"
	                " AND ",
	                h->id, h->row);
	matches(sql, "path2", item, n);
	shfs_buf_str(sql, ")");
}

static void condition(struct shfs_query *q, const struct half *h,
                      const struct shfs_filter_item *item)
{
	struct shfs_buf *sql = &q->sql;
	int n = item->text ? shfs_query_str(q, item->text)
	                   : shfs_query_int(q, item->value);

	switch (item->kind) {
	case SHFS_FILTER_SINCE:
		shfs_buf_printf(sql, "%s >= ?%d", h->begin, n);
		break;
	case SHFS_FILTER_UNTIL:
		shfs_buf_printf(sql, "%s < ?%d", h->begin, n);
		break;
	case SHFS_FILTER_GREP:
		shfs_buf_printf(sql, "instr(c.text, ?%d) > 0", n);
		break;
	case SHFS_FILTER_REGEX:
		shfs_buf_printf(sql, "c.text REGEXP ?%d", n);
		break;
	case SHFS_FILTER_CWD:
		shfs_sql_below(sql, "c.cwd", n);
		break;
	case SHFS_FILTER_SESSION:
		shfs_buf_printf(sql, "c.session >= ?%d AND c.session < ?%d || 'g'", n, n);
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
	case SHFS_FILTER_READ:
		used(sql, h, "is_read AND ", item, n);
		break;
	case SHFS_FILTER_WROTE:
		used(sql, h, "is_written AND ", item, n);
		made(sql, h, item, n);
		break;
	case SHFS_FILTER_PATH:
		shfs_sql_below(sql, "c.cwd", n);
		shfs_buf_str(sql, " OR ");
		used(sql, h, "", item, n);
		made(sql, h, item, n);
		break;
	}
}

/* All items are to hold; of paths, any. */
static void conditions(const struct shfs_filter *f, struct shfs_query *q,
                       const struct half *h)
{
	bool paths = shfs_filter_has(f, SHFS_FILTER_PATH);

	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].kind == SHFS_FILTER_PATH)
			continue;
		shfs_buf_str(&q->sql, " AND (");
		condition(q, h, &f->items[i]);
		shfs_buf_str(&q->sql, ")");
	}
	if (!paths)
		return;
	shfs_buf_str(&q->sql, " AND (0");
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].kind != SHFS_FILTER_PATH)
			continue;
		shfs_buf_str(&q->sql, " OR ");
		condition(q, h, &f->items[i]);
	}
	shfs_buf_str(&q->sql, ")");
}

/* Processes have no text, no status and are in no session. */
static bool wants_processes(const struct shfs_filter *f)
{
	for (size_t i = 0; i < f->n; i++) {
		switch (f->items[i].kind) {
		case SHFS_FILTER_GREP:
		case SHFS_FILTER_REGEX:
		case SHFS_FILTER_SESSION:
		case SHFS_FILTER_STATUS:
		case SHFS_FILTER_NOT_STATUS:
			return false;
		default:
			break;
		}
	}
	return f->all || shfs_filter_has(f, SHFS_FILTER_PATH) ||
	       shfs_filter_has(f, SHFS_FILTER_READ) ||
	       shfs_filter_has(f, SHFS_FILTER_WROTE);
}

int shfs_filter_query(const struct shfs_filter *f, struct shfs_query *q)
{
	shfs_buf_str(&q->sql, "SELECT 0 AS kind, c.command_id AS id, c.begin_ns AS time"
	                      " FROM v_command c WHERE 1");
	if (!f->all)
		shfs_buf_str(&q->sql, " AND EXISTS (SELECT 1 FROM v_access a"
		                      " WHERE a.command_id = c.command_id)");
	conditions(f, q, &commands);
	if (wants_processes(f)) {
		/* A shell's process belongs to no command; what it did itself may. */
		shfs_buf_str(&q->sql,
		             " UNION ALL SELECT 1, c.process_id, c.first_ns"
		             " FROM v_process c WHERE c.command_id IS NULL AND EXISTS"
		             " (SELECT 1 FROM v_access a WHERE a.process_id ="
		             " c.process_id AND a.command_id IS NULL)");
		conditions(f, q, &processes);
	}
	shfs_buf_printf(&q->sql, " ORDER BY time %s, kind, id %s",
	                f->reverse ? "" : "DESC", f->reverse ? "" : "DESC");
	if (f->limit)
		shfs_buf_printf(&q->sql, " LIMIT ?%d", shfs_query_int(q, f->limit));
	return q->failed || q->sql.failed ? -ENOMEM : 0;
}
