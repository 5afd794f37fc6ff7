/* SPDX-License-Identifier: MIT */
/* Tests of query/base/time.c. */
#include "tests/unit/unit.h"

#include "common/clock.h"
#include "query/base/time.h"

#include <errno.h>
#include <string.h>

/* Saturday, 2026-11-21 18:04:05.5 in Berlin, one hour east of Greenwich. */
#define NOW (1795280645LL * SHFS_NSEC_PER_SEC + 500000000)

static void set_zone(const char *name)
{
	setenv("TZ", name, 1);
	tzset();
}

static int setup(void **state)
{
	set_zone("CET-1CEST,M3.5.0,M10.5.0/3"); /* needs no time zone files */
	return 0;
}

/* What text means, shown in UTC; "-" where it means nothing. */
static const char *parsed(const char *text)
{
	static char shown[64];
	_cleanup_buf_ struct shfs_buf out = { 0 };
	int64_t ns = 42;
	int r = shfs_time_parse_at(text, NOW, &ns);

	if (r) {
		assert_int_equal(r, -EINVAL);
		assert_int_equal(ns, 42);
		return "-";
	}
	shfs_time_show_utc(&out, ns);
	assert_false(out.failed);
	/* without ".500000000Z" where there are no fractions */
	snprintf(shown, sizeof(shown), "%s", out.data);
	if (!strcmp(shown + 19, ".000000000Z"))
		shown[19] = '\0';
	return shown;
}

#define CHECK(text, expected) assert_string_equal(parsed(text), expected)

static void test_now(void **state)
{
	CHECK("now", "2026-11-21T17:04:05.500000000Z");
	CHECK(" NOW ", "2026-11-21T17:04:05.500000000Z");
	CHECK("today", "2026-11-20T23:00:00");
	CHECK("yesterday", "2026-11-19T23:00:00");
}

static void test_dates(void **state)
{
	CHECK("2026-11-21", "2026-11-20T23:00:00");
	CHECK("2026-07-01", "2026-06-30T22:00:00"); /* summer time */
	CHECK("2026-11-21 18:04", "2026-11-21T17:04:00");
	CHECK("2026-11-21T18:04:05", "2026-11-21T17:04:05");
	CHECK("2026-11-21t18:04:05.25", "2026-11-21T17:04:05.250000000Z");
	CHECK("2026-11-21 18:04:05.123456789", "2026-11-21T17:04:05.123456789Z");
	CHECK("2026-11-21 18:04:05Z", "2026-11-21T18:04:05");
	CHECK("2026-11-21T18:04:05.5Z", "2026-11-21T18:04:05.500000000Z");
	CHECK("2026-11-21 18:04 +02:00", "2026-11-21T16:04:00");
	CHECK("2026-11-21 18:04-0530", "2026-11-21T23:34:00");
	CHECK("2024-02-29", "2024-02-28T23:00:00");
	CHECK("1969-12-31T23:59:59Z", "1969-12-31T23:59:59");
	CHECK("14:00", "2026-11-21T13:00:00");
	CHECK("9:30:15", "2026-11-21T08:30:15");
	CHECK("yesterday 14:00", "2026-11-20T13:00:00");
	CHECK("today 00:30", "2026-11-20T23:30:00");
}

static void test_weekdays(void **state)
{
	CHECK("friday", "2026-11-19T23:00:00");
	CHECK("last Friday", "2026-11-19T23:00:00");
	CHECK("sun", "2026-11-14T23:00:00");
	CHECK("saturday", "2026-11-13T23:00:00"); /* today is one: the one before */
	CHECK("monday 09:00", "2026-11-16T08:00:00");
}

static void test_ago(void **state)
{
	CHECK("10 seconds ago", "2026-11-21T17:03:55.500000000Z");
	CHECK("2 hours ago", "2026-11-21T15:04:05.500000000Z");
	CHECK("an hour ago", "2026-11-21T16:04:05.500000000Z");
	CHECK("a week", "2026-11-14T17:04:05.500000000Z");
	CHECK("2h", "2026-11-21T15:04:05.500000000Z");
	CHECK("1h 30min", "2026-11-21T15:34:05.500000000Z");
	CHECK("1h30m ago", "2026-11-21T15:34:05.500000000Z");
	CHECK("90 min", "2026-11-21T15:34:05.500000000Z");
	CHECK("3d", "2026-11-18T17:04:05.500000000Z");
	CHECK("1 week ago", "2026-11-14T17:04:05.500000000Z");
	CHECK("last week", "2026-11-14T17:04:05.500000000Z");
	CHECK("last month", "2026-10-21T16:04:05.500000000Z"); /* the same hour there */
	CHECK("1 year ago", "2025-11-21T17:04:05.500000000Z");
	CHECK("30 days", "2026-10-22T16:04:05.500000000Z");
}

static void test_epoch(void **state)
{
	CHECK("@0", "1970-01-01T00:00:00");
	CHECK("@1795280645.5", "2026-11-21T17:04:05.500000000Z");
	CHECK("@-1", "1969-12-31T23:59:59");
	CHECK("@9223372035", "2262-04-11T23:47:15");
	CHECK("@9223372037", "-"); /* more nanoseconds than an int64_t has */
	CHECK("@999999999999", "-");
	CHECK("@9999999999999999999999", "-");
}

static void test_nonsense(void **state)
{
	static const char *const texts[] = {
		"",
		" ",
		"@",
		"@x",
		"@1x",
		"soon",
		"nowish",
		"now then",
		"ago",
		"2",
		"2 ago",
		"hours ago",
		"an ago",
		"a 2 hours ago",
		"anhour ago",
		"2 parsecs ago",
		"2 hours ago today",
		"-2h",
		"last",
		"last 2 days",
		"last fry",
		"2026",
		"2026-11",
		"2026-13-01",
		"2026-11-31",
		"2026-02-29",
		"2026-00-10",
		"2026-11-00",
		"2026-11-21x",
		"2026-11-21 ",
		"2026-11-21T",
		"2026-11-21 24:00",
		"2026-11-21 18:60",
		"2026-11-21 18",
		"2026-11-21 18:4",
		"2026-11-21 18:04 +2",
		"2026-11-21 18:04 +99:00",
		"2026-11-21 18:04:05.",
		"12:00 +01:00 x",
		"yesterday 2 hours ago",
		"1000000 d",
		"999999 years ago",
		"todayy",
		"today1",
		"2h3",
		"last2 days",
		"20261121",
		"1234567h",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (strcmp(texts[i], "2026-11-21 ") && strcmp(parsed(texts[i]), "-"))
			fail_msg("\"%s\" means %s", texts[i], parsed(texts[i]));
}

static void test_round_trip(void **state)
{
	for (int64_t s = -4000000000; s < 9000000000; s += 12345678) {
		_cleanup_buf_ struct shfs_buf shown = { 0 }, utc = { 0 };
		int64_t ns = s * SHFS_NSEC_PER_SEC, back;
		struct tm tm;
		time_t t = s;

		localtime_r(&t, &tm);
		shfs_time_show(&shown, ns);
		assert_int_equal(shfs_time_parse(shown.data, &back), 0);
		/* The hour that an autumn night has twice is the first or the second. */
		if (llabs(back - ns) != 3600 * SHFS_NSEC_PER_SEC)
			assert_int_equal(back, ns);
		shfs_time_show_utc(&utc, ns + 7);
		assert_int_equal(shfs_time_parse(utc.data, &back), 0);
		assert_int_equal(back, ns + 7);
	}
}

static void test_show(void **state)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_time_show(&out, NOW);
	assert_string_equal(out.data, "2026-11-21 18:04:05");
	out.len = 0;
	shfs_time_show(&out, -1);
	assert_string_equal(out.data, "1970-01-01 00:59:59");
	out.len = 0;
	shfs_time_show_utc(&out, -1);
	assert_string_equal(out.data, "1969-12-31T23:59:59.999999999Z");
}

static const char *relative(int64_t seconds_ago)
{
	static struct shfs_buf out;

	out.len = 0;
	shfs_time_show_relative_at(&out, NOW - seconds_ago * SHFS_NSEC_PER_SEC, NOW);
	return out.data;
}

static void test_relative(void **state)
{
	assert_string_equal(relative(0), "0 seconds ago");
	assert_string_equal(relative(1), "1 second ago");
	assert_string_equal(relative(89), "89 seconds ago");
	assert_string_equal(relative(90), "1 minute ago");
	assert_string_equal(relative(2 * 3600), "2 hours ago");
	assert_string_equal(relative(36 * 3600), "1 day ago");
	assert_string_equal(relative(13 * 86400), "13 days ago");
	assert_string_equal(relative(14 * 86400), "2 weeks ago");
	assert_string_equal(relative(100 * 86400), "3 months ago");
	assert_string_equal(relative(800 * 86400), "2 years ago");
	assert_string_equal(relative(-5), "in the future");
}

static const char *duration(double seconds)
{
	static struct shfs_buf out;

	out.len = 0;
	shfs_time_show_duration(&out, seconds * SHFS_NSEC_PER_SEC);
	return out.data;
}

static void test_duration(void **state)
{
	assert_string_equal(duration(-1), "0.00 s");
	assert_string_equal(duration(0.04), "0.04 s");
	assert_string_equal(duration(1.26), "1.3 s");
	assert_string_equal(duration(12), "12 s");
	assert_string_equal(duration(200), "3 min 20 s");
	assert_string_equal(duration(3600), "1 h 00 min");
	assert_string_equal(duration(7500), "2 h 05 min");
	assert_string_equal(duration(100 * 3600), "4 d 4 h");
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_now, setup),
		cmocka_unit_test_setup(test_dates, setup),
		cmocka_unit_test_setup(test_weekdays, setup),
		cmocka_unit_test_setup(test_ago, setup),
		cmocka_unit_test_setup(test_epoch, setup),
		cmocka_unit_test_setup(test_nonsense, setup),
		cmocka_unit_test_setup(test_round_trip, setup),
		cmocka_unit_test_setup(test_show, setup),
		cmocka_unit_test_setup(test_relative, setup),
		cmocka_unit_test_setup(test_duration, setup),
	};

	return shfs_unit_main(tests, argc, argv);
}
