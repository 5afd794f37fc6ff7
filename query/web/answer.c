/* SPDX-License-Identifier: MIT */
/*
 * What the server of `shfs web` answers: the page, its data in parts, contents of
 * versions, and whether there are news. Files are named by the index, and their contents
 * are those of the store: no path of a request is opened.
 */
#include "query/web/web.h"

#include "query/base/model.h"
#include "query/map/data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifdef SHFS_HAVE_MAP
#include "map-page.h"
#endif

#define REFRESH_MS     300
#define COMMANDS_MAX   5000                 /* of one answer */
#define COMMANDS_FIRST 1000                 /* where nothing is said */
#define CONTENT_MAX    (UINT64_C(32) << 20) /* bytes */

/* Of contents: nothing in them is run, nothing is loaded by them, and they are in no
 * frame. */
#define CONTENT_CSP                                                                      \
	"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "        \
	"frame-ancestors 'none'"

void shfs_web_say(struct shfs_web_answer *a, unsigned status, const char *text)
{
	a->status = status;
	a->type = "text/plain; charset=utf-8";
	a->csp = "default-src 'none'";
	a->body.len = 0;
	shfs_buf_str(&a->body, text);
}

static int say_web(struct shfs_web_answer *a, unsigned status, const char *text)
{
	shfs_web_say(a, status, text);
	return 0;
}

static int give_json(struct shfs_web_answer *a, const char *data, size_t len)
{
	a->status = 200;
	a->type = "application/json";
	a->csp = "default-src 'none'";
	shfs_buf_add(&a->body, data, len);
	return a->body.failed ? -ENOMEM : 0;
}

/* What the reading of the index or store has failed with becomes an answer. */
static int say_error(struct shfs_web_answer *a, int error)
{
	if (error == -ENOMEM)
		return error;
	return say_web(a,
	               error == -ENOENT || error == -ENODATA || error == -EREMOTE ? 404
	                                                                          : 500,
	               error == -ENODATA ? "The content was pruned.\n"
	               : error == -EREMOTE
	                       ? "The content is only on a remote: shfs cat or shfs "
	                         "restore fetches it, shfs pull all.\n"
	               : error == -EFBIG ? "The content is too large to be shown.\n"
	                                 : "It could not be read.\n");
}

/* Reads a number above 0 of the URL, or leaves *out. */
static bool read_number(shfs_web_parameter *parameter, void *request, const char *name,
                        int64_t *out)
{
	const char *text = parameter(request, name);
	int64_t n;
	char *end;

	if (!text)
		return true;
	errno = 0;
	n = strtoll(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9' || n <= 0)
		return false;
	*out = n;
	return true;
}

/* --- data --- */

void shfs_web_mark(struct shfs_web *web, char out[SHFS_WEB_MARK])
{
	struct shfs_index_state state = { 0 };

	if (shfs_index_look(web->index, &state))
		state = (struct shfs_index_state){ 0 };
	snprintf(out, SHFS_WEB_MARK, "%x.%" PRIx64 ".%" PRIx64, web->number,
	         (uint64_t)state.rebuilt, (uint64_t)state.changes);
}

static int write_data(struct shfs_web *web, struct shfs_filter *filter, FILE *file)
{
	char mark[SHFS_WEB_MARK];
	_cleanup_map_ struct shfs_map m = { .index = web->index,
		                            .store = web->store,
		                            .filter = filter,
		                            .file = file,
		                            .project = web->project,
		                            .live = true,
		                            .mark = mark };
	_cleanup_query_ struct shfs_query query = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	shfs_web_mark(web, mark); /* what comes meanwhile is news */
	r = shfs_filter_measure(filter, web->index);
	/* the limit is not the query's: all commands of one moment are in one answer */
	if (!r) {
		int64_t limit = filter->limit;

		filter->limit = 0;
		r = shfs_filter_query(filter, &query);
		filter->limit = limit;
	}
	r = r ?: shfs_query_open(&query, web->index, &rows);
	r = r ?: shfs_map_add(&m, rows);
	return r ?: shfs_map_put_json(&m, &m.json);
}

static int answer_data(struct shfs_web *web, shfs_web_parameter *parameter, void *request,
                       struct shfs_web_answer *a)
{
	int64_t limit = COMMANDS_FIRST, until = 0, since = 0;
	struct shfs_filter filter = { .as_recorded = true }; /* as `until` is */
	char *data = NULL;
	size_t len = 0;
	FILE *file;
	int r = 0;

	if (!read_number(parameter, request, "limit", &limit) || limit > COMMANDS_MAX ||
	    !read_number(parameter, request, "until", &until) ||
	    !read_number(parameter, request, "since", &since))
		return say_web(a, 400, "limit, until and since are numbers.\n");
	if (!until && !since) /* else it goes on with an answer */
		(void)!shfs_refresher_ask(&web->refresh, true, REFRESH_MS);
	filter.limit = limit + 1;
	if (web->project)
		r = shfs_filter_add(&filter, SHFS_FILTER_PATH, web->project);
	if (!r && until)
		r = shfs_filter_add_int(&filter, SHFS_FILTER_UNTIL, until);
	if (!r && since)
		r = shfs_filter_add_int(&filter, SHFS_FILTER_SINCE, since);
	file = r ? NULL : open_memstream(&data, &len);
	if (!r)
		r = file ? write_data(web, &filter, file) : -ENOMEM;
	if (file && fclose(file) && !r)
		r = -ENOMEM;
	if (!r)
		r = give_json(a, data, len);
	free(data);
	shfs_filter_free(&filter);
	return r ? say_error(a, r) : 0;
}

/* --- contents --- */

static const struct {
	const char *ending, *type;
} types[] = {
	{ ".png", "image/png" }, { ".jpg", "image/jpeg" },  { ".jpeg", "image/jpeg" },
	{ ".gif", "image/gif" }, { ".webp", "image/webp" }, { ".svg", "image/svg+xml" },
	{ ".bmp", "image/bmp" },
};

/* Text is what is no image: HTML, too. */
static const char *type_of(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		size_t end = strlen(types[i].ending);

		if (len > end && !strcasecmp(path + len - end, types[i].ending))
			return types[i].type;
	}
	return "text/plain; charset=utf-8";
}

static int read_version(struct shfs_web *web, const char *path, int64_t n,
                        struct shfs_buf *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_object_id id;
	int r = shfs_rows_open_str(
		web->index,
		"SELECT object, flags FROM v_version WHERE " SHFS_SQL_FILE(
			"?1") " AND n = ?2",
		path, &rows);

	r = r ?: shfs_rows_bind_int(rows, 2, n);
	r = r ?: shfs_rows_next(rows);
	if (r <= 0)
		return r ?: -ENOENT;
	if (shfs_rows_int(rows, 1) & SHFS_CONTENT_PRUNED)
		return -ENODATA;
	if (shfs_rows_is_null(rows, 0) || !*shfs_rows_text(rows, 0))
		return -ENOENT;
	r = shfs_object_parse(shfs_rows_text(rows, 0), &id);
	return r ? -EBADMSG : shfs_object_read(web->store, &id, CONTENT_MAX, out);
}

static int answer_content(struct shfs_web *web, shfs_web_parameter *parameter,
                          void *request, struct shfs_web_answer *a)
{
	const char *path = parameter(request, "path");
	int64_t n = 0;
	int r;

	if (!path || !read_number(parameter, request, "n", &n) || !n)
		return say_web(a, 400, "It takes a path and the number of a version.\n");
	r = read_version(web, path, n, &a->body);
	if (r)
		return say_error(a, r);
	a->status = 200;
	a->type = type_of(path);
	a->csp = CONTENT_CSP;
	return 0;
}

/* --- what comes later --- */

/* For news: at once if there are some since what was seen. */
static int answer_news(struct shfs_web *web, shfs_web_parameter *parameter, void *request,
                       struct shfs_web_answer *a, struct shfs_web_later *later)
{
	const char *seen = parameter(request, "seen");
	char mark[SHFS_WEB_MARK];

	shfs_web_mark(web, mark);
	if (!seen || strcmp(seen, mark) != 0)
		return shfs_web_answer_news(web, a);
	later->when = SHFS_WEB_NEWS;
	return 0;
}

/* command: of an undo; else "". */
static int answer_slow(enum shfs_web_kind kind, const char *command,
                       struct shfs_web_later *later)
{
	*later = (struct shfs_web_later){ SHFS_WEB_SLOW, { .kind = kind } };
	snprintf(later->question.command, SHFS_WEB_ID, "%s", command);
	return 0;
}

/* The worker answers what an undo of a command would do. */
static int answer_undo(shfs_web_parameter *parameter, void *request,
                       struct shfs_web_answer *a, struct shfs_web_later *later)
{
	const char *id = parameter(request, "command");

	if (!id || !shfs_command_is_id(id))
		return say_web(a, 400, "It takes the id of a command.\n");
	return answer_slow(SHFS_WEB_UNDO, id, later);
}

int shfs_web_answer_news(struct shfs_web *web, struct shfs_web_answer *a)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	char mark[SHFS_WEB_MARK];

	shfs_web_mark(web, mark);
	shfs_json_object(&json, NULL);
	shfs_json_str(&json, "mark", mark);
	shfs_json_close(&json);
	return json.out.failed ? -ENOMEM : give_json(a, json.out.data, json.out.len);
}

int shfs_web_answer_slow(const struct shfs_web_worker *worker, struct shfs_web_answer *a)
{
	if (worker->error)
		return say_error(a, worker->error);
	return give_json(a, worker->body.data, worker->body.len);
}

/* --- the page --- */

#ifdef SHFS_HAVE_MAP
static int answer_page(struct shfs_web_answer *a)
{
	static const char data[] = "{\"live\":true}";

	a->status = 200;
	a->type = "text/html; charset=utf-8";
	a->csp = (const char *)shfs_map_live_csp;
	shfs_buf_add(&a->body, shfs_map_live_head, sizeof(shfs_map_live_head) - 1);
	shfs_buf_str(&a->body, data);
	shfs_buf_add(&a->body, shfs_map_middle, sizeof(shfs_map_middle) - 1);
	shfs_buf_str(&a->body, "[]");
	shfs_buf_add(&a->body, shfs_map_tail, sizeof(shfs_map_tail) - 1);
	return 0;
}
#else
static int answer_page(struct shfs_web_answer *a)
{
	return say_web(a, 500, "This shfs was built without the page.\n");
}
#endif

int shfs_web_answer(struct shfs_web *web, const char *url, shfs_web_parameter *parameter,
                    void *request, struct shfs_web_answer *out,
                    struct shfs_web_later *later)
{
	*later = (struct shfs_web_later){ SHFS_WEB_NOW };
	if (!strcmp(url, "/"))
		return answer_page(out);
	if (!strcmp(url, "/data"))
		return answer_data(web, parameter, request, out);
	if (!strcmp(url, "/content"))
		return answer_content(web, parameter, request, out);
	if (!strcmp(url, "/news"))
		return answer_news(web, parameter, request, out, later);
	if (!strcmp(url, "/stale"))
		return answer_slow(SHFS_WEB_STALE, "", later);
	if (!strcmp(url, "/overview"))
		return answer_slow(SHFS_WEB_OVERVIEW, "", later);
	if (!strcmp(url, "/undo"))
		return answer_undo(parameter, request, out, later);
	return say_web(out, 404, "There is no such page.\n");
}
