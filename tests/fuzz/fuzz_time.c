/* SPDX-License-Identifier: MIT */
/*
 * FILE@{WHEN}, times and sizes, as a person types them: 8 bytes of now, a text. What can
 * be read can be shown; a version's operand falls apart into what it was made of.
 */
#include "tests/fuzz/fuzz.h"

#include "query/base/time.h"
#include "query/history/version-spec.h"

#include <errno.h>
#include <string.h>

static void check_printable(const struct shfs_buf *b)
{
	FUZZ_ASSERT(!b->failed && b->len);
	for (size_t i = 0; i < b->len; i++)
		FUZZ_ASSERT(b->data[i] >= ' ' && b->data[i] <= '~');
}

static void show(int64_t ns, int64_t now_ns)
{
	static void (*const shows[])(struct shfs_buf *,
	                             int64_t) = { shfs_time_show, shfs_time_show_utc,
		                                  shfs_time_show_duration };
	_cleanup_buf_ struct shfs_buf relative = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(shows); i++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		shows[i](&b, ns);
		check_printable(&b);
	}
	shfs_time_show_relative_at(&relative, ns, now_ns);
	check_printable(&relative);
}

static void check_time(const char *text, int64_t now_ns)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	int64_t ns, again;
	int r = shfs_time_parse_at(text, now_ns, &ns);

	FUZZ_ASSERT(r == 0 || r == -EINVAL);
	if (r)
		return;
	show(ns, now_ns);
	/* what programs are told is understood, from the year 0 on */
	shfs_time_show_utc(&b, ns);
	FUZZ_ASSERT(shfs_time_parse_at(b.data, now_ns, &again) == 0);
	FUZZ_ASSERT(again == ns);
}

static void check_spec(const char *operand)
{
	_cleanup_version_spec_ struct shfs_version_spec spec = { 0 };
	_cleanup_buf_ struct shfs_buf again = { 0 };
	int r = shfs_version_spec_parse(operand, &spec);

	FUZZ_ASSERT(r == 0 || r == -EINVAL);
	if (r)
		return;
	FUZZ_ASSERT(spec.path && *spec.path);
	FUZZ_ASSERT(!strncmp(operand, spec.path, strlen(spec.path)));
	FUZZ_ASSERT((spec.kind == SHFS_SPEC_BRACES) == !!spec.text);
	shfs_buf_str(&again, spec.path);
	if (spec.text) {
		FUZZ_ASSERT(*spec.text);
		shfs_buf_printf(&again, "@{%s}", spec.text);
	}
	if (spec.kind == SHFS_SPEC_NUMBER)
		FUZZ_ASSERT(operand[again.len] == '@');
	else
		FUZZ_ASSERT(!strcmp(again.data, operand));
}

void fuzz_time(const uint8_t *data, size_t size)
{
	struct shfs_cursor c = { data, data + size, false };
	int64_t now_ns = (int64_t)shfs_cursor_u64(&c);
	_cleanup_free_ char *text = NULL;

	if (c.failed)
		return;
	text = strndup((const char *)c.p, (size_t)(c.end - c.p));
	FUZZ_ASSERT(text);
	show(now_ns, INT64_MAX);
	show(now_ns, INT64_MIN);
	check_time(text, now_ns / 2); /* what is read ends 2 s before what fits */
	check_spec(text);
}
