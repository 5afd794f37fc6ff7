/* SPDX-License-Identifier: MIT */
#include "query/base/json.h"

#include "common/quote.h"
#include "query/base/time.h"

#include <string.h>

/* Adds what precedes a member or an element: the comma, the line break, the key. */
static void lead(struct shfs_json *j, const char *key)
{
	if (j->more)
		shfs_buf_char(&j->out, ',');
	if (j->depth <= 2 && j->depth)
		shfs_buf_printf(&j->out, "\n%*s", 2 * j->depth, "");
	else if (j->more)
		shfs_buf_char(&j->out, ' ');
	if (key) {
		shfs_quote_json(&j->out, key, strlen(key));
		shfs_buf_str(&j->out, ": ");
	}
	j->more = true;
}

static void open_level(struct shfs_json *j, const char *key, char bracket)
{
	lead(j, key);
	shfs_buf_char(&j->out, bracket);
	j->depth++;
	j->more = false;
}

static void close_level(struct shfs_json *j, char bracket)
{
	j->depth--;
	if (j->more && j->depth < 2)
		shfs_buf_printf(&j->out, "\n%*s", 2 * j->depth, "");
	shfs_buf_char(&j->out, bracket);
	j->more = true;
}

static bool incomplete;

void shfs_json_say_incomplete(void)
{
	incomplete = true;
}

void shfs_json_begin(struct shfs_json *j, const char *kind)
{
	open_level(j, NULL, '{');
	shfs_json_str(j, "shfs", kind);
	shfs_json_int(j, "version", SHFS_JSON_VERSION);
	if (incomplete)
		shfs_json_bool(j, "incomplete", true);
}

bool shfs_json_flush(struct shfs_json *j)
{
	bool ok = !j->out.failed &&
	          (!j->out.len || fwrite(j->out.data, j->out.len, 1, stdout));

	j->out.len = 0;
	return ok;
}

void shfs_json_close(struct shfs_json *j)
{
	close_level(j, '}');
	shfs_buf_char(&j->out, '\n');
}

#define DEPTH_OF_LINES 3 /* deeper than this, so that nothing is on a line of its own */

void shfs_json_line(struct shfs_json *j)
{
	j->depth = DEPTH_OF_LINES;
	j->more = false;
	open_level(j, NULL, '{');
}

void shfs_json_line_end(struct shfs_json *j)
{
	shfs_json_close(j);
}

bool shfs_json_end(struct shfs_json *j)
{
	bool ok;

	shfs_json_close(j);
	ok = shfs_json_flush(j);
	shfs_json_free(j);
	return ok;
}

void shfs_json_free(struct shfs_json *j)
{
	shfs_buf_free(&j->out);
	*j = (struct shfs_json){ 0 };
}

void shfs_json_object(struct shfs_json *j, const char *key)
{
	open_level(j, key, '{');
}

void shfs_json_object_end(struct shfs_json *j)
{
	close_level(j, '}');
}

void shfs_json_array(struct shfs_json *j, const char *key)
{
	open_level(j, key, '[');
}

void shfs_json_array_end(struct shfs_json *j)
{
	close_level(j, ']');
}

void shfs_json_text(struct shfs_json *j, const char *key, const char *text, size_t len)
{
	lead(j, key);
	shfs_quote_json(&j->out, text, len);
}

void shfs_json_str(struct shfs_json *j, const char *key, const char *text)
{
	if (text)
		shfs_json_text(j, key, text, strlen(text));
	else
		shfs_json_null(j, key);
}

/* Like printf, which would take much of the time where there are millions of numbers. */
static void add_int(struct shfs_buf *out, int64_t value)
{
	char digits[24], *p = digits + sizeof(digits);
	uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;

	do
		*--p = '0' + rest % 10;
	while (rest /= 10);
	if (value < 0)
		*--p = '-';
	shfs_buf_add(out, p, digits + sizeof(digits) - p);
}

void shfs_json_int(struct shfs_json *j, const char *key, int64_t value)
{
	lead(j, key);
	add_int(&j->out, value);
}

void shfs_json_bool(struct shfs_json *j, const char *key, bool value)
{
	lead(j, key);
	shfs_buf_str(&j->out, value ? "true" : "false");
}

void shfs_json_null(struct shfs_json *j, const char *key)
{
	lead(j, key);
	shfs_buf_str(&j->out, "null");
}

void shfs_json_time(struct shfs_json *j, const char *key, int64_t ns)
{
	lead(j, key);
	shfs_buf_char(&j->out, '"');
	shfs_time_show_utc(&j->out, ns);
	shfs_buf_char(&j->out, '"');
}
