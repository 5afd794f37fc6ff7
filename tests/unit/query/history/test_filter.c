/* SPDX-License-Identifier: MIT */
/* Tests of query/history/filter.c and filter-query.c. */
#include "tests/unit/indexkit.h"

#include "query/base/model.h"
#include "query/history/filter.h"

static struct kit k;
static struct shfs_index *the_index;

static uint64_t command(unsigned number, const char *text)
{
	double ms = number * 1000;

	kit_begin(&k, number, ms, 500 + number, text);
	return kit_process(&k, 501 + number, ms + 20, 500, 10, .uid = number);
}

static void end(unsigned number, int status)
{
	kit_end(&k, number, number * 1000 + 500, 501 + number, status);
}

static struct shfs_content text(const char *t)
{
	return kit_content(&k, t, 5);
}

/* Commands 1 to 7 in one shell: what their names say; 8 is no command. */
static int setup(void **state)
{
	uint64_t p;

	kit_open(&k);
	kit_mount(&k);
	kit_shell(&k, 500, 10, 20);
	p = command(1, "make a/x");
	kit_write(&k, p, "a/x", 1100, text("x"));
	end(1, 0);
	p = command(2, "read a/x (50%)");
	kit_read(&k, p, "a/x", 2100, text("x"));
	end(2, 1);
	p = command(3, "write b.csv");
	kit_write(&k, p, "b.csv", 3100, text("b"));
	end(3, 2);
	p = command(4, "move b.csv to a/c.csv");
	kit_rename(&k, p, "b.csv", "a/c.csv", 4100);
	end(4, 0);
	command(5, "touch nothing");
	end(5, 0);
	p = command(6, "remove a/x");
	kit_pathop(&k, p, SHFS_OP_UNLINK, "a/x", NULL, 6100, NULL, NULL, false);
	end(6, 0);
	p = command(7, "killed; write ab/y");
	kit_write(&k, p, "ab/y", 7100, text("y"));
	p = kit_process(&k, 900, 8000, 1, 0, .exe = "/usr/bin/editor", .uid = 8);
	kit_write(&k, p, "a/x", 8100, text("z"));
	return kit_finish(&k, &the_index);
}

static int teardown(void **state)
{
	shfs_index_close(the_index);
	kit_close(&k);
	return 0;
}

/* The first digits of times, as commands are named here: "7 4 3"; p for a process. */
static void check(struct shfs_filter *filter, const char *expected)
{
	_cleanup_query_ struct shfs_query query = { 0 };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf got = { 0 };
	int r;

	assert_ok(shfs_filter_query(filter, &query));
	r = shfs_query_open(&query, the_index, &rows);
	if (r)
		fail_msg("%s\n%s", query.sql.data, shfs_index_error(the_index));
	while ((r = shfs_rows_next(rows)) > 0) {
		int64_t ns = shfs_rows_int(rows, 2) - k.offset_ns;

		shfs_buf_printf(&got, "%s%s%d", got.len ? " " : "",
		                shfs_rows_int(rows, 0) ? "p" : "",
		                (int)((ns + 1000000) / 1000000000));
	}
	assert_int_equal(r, 0);
	shfs_buf_add(&got, "", 0);
	assert_string_equal(got.data, expected);
	shfs_filter_free(filter);
}

static void check_one(enum shfs_filter_kind kind, const char *value, const char *expected)
{
	struct shfs_filter filter = { 0 };

	assert_ok(shfs_filter_add(&filter, kind, value));
	check(&filter, expected);
}

static void test_none(void **state)
{
	check(&(struct shfs_filter){ 0 }, "7 6 4 3 2 1");
	check(&(struct shfs_filter){ .all = true }, "p8 7 6 5 4 3 2 1");
	check(&(struct shfs_filter){ .reverse = true }, "1 2 3 4 6 7");
	check(&(struct shfs_filter){ .limit = 2 }, "7 6");
	check(&(struct shfs_filter){ .limit = 2, .reverse = true }, "1 2");
}

static void test_text(void **state)
{
	check_one(SHFS_FILTER_GREP, "write", "7 3");
	check_one(SHFS_FILTER_GREP, "50%", "2");
	check_one(SHFS_FILTER_GREP, "5_%", "");
	check_one(SHFS_FILTER_GREP, "' OR 1 --", "");
	check_one(SHFS_FILTER_REGEX, "^(make|move)", "4 1");
	check_one(SHFS_FILTER_REGEX, "y$", "7");
}

static void test_time(void **state)
{
	struct shfs_filter filter = { 0 };

	assert_ok(shfs_filter_add_int(&filter, SHFS_FILTER_SINCE,
	                              kit_time(&k, 2999).real_ns));
	assert_ok(shfs_filter_add_int(&filter, SHFS_FILTER_UNTIL,
	                              kit_time(&k, 5999).real_ns));
	check(&filter, "4 3");
}

static void check_status(const char *value, const char *expected)
{
	struct shfs_filter filter = { 0 };

	assert_ok(shfs_filter_add_status(&filter, value));
	check(&filter, expected);
}

static void test_status(void **state)
{
	static const char *const bad[] = {
		"", "x", "!", "-1", "256", "1x", "okay", "! 1"
	};
	struct shfs_filter filter = { 0 };

	check_status("ok", "6 4 1");
	check_status("fail", "3 2");
	check_status("2", "3");
	check_status("!2", "6 4 2 1"); /* one without an end has no status */
	check_status("!0", "3 2");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(shfs_filter_add_status(&filter, bad[i]), -EINVAL);
}

static void test_paths(void **state)
{
	check_one(SHFS_FILTER_READ, KIT_ROOT "/a/x", "2");
	check_one(SHFS_FILTER_WROTE, KIT_ROOT "/a/x", "p8 1");
	check_one(SHFS_FILTER_WROTE, KIT_ROOT "/a", "p8 4 3 1");
	check_one(SHFS_FILTER_WROTE, KIT_ROOT "/a/c.csv", "4 3"); /* its past too */
	check_one(SHFS_FILTER_WROTE, KIT_ROOT "/b.csv", "3");
	check_one(SHFS_FILTER_WROTE, "*.csv", "4 3");
	check_one(SHFS_FILTER_WROTE, KIT_ROOT "/*.csv", "4 3");
	check_one(SHFS_FILTER_WROTE, KIT_ROOT "/?.csv", "3");
	check_one(SHFS_FILTER_WROTE, "x", "");
	check_one(SHFS_FILTER_READ, "[wx]", "2");
}

static void test_places(void **state)
{
	struct shfs_filter filter = { 0 };

	check_one(SHFS_FILTER_PATH, KIT_ROOT "/a/x", "p8 6 2 1");
	check_one(SHFS_FILTER_PATH, KIT_ROOT "/b.csv", "4 3");
	check_one(SHFS_FILTER_PATH, KIT_ROOT "/ab", "7");
	check_one(SHFS_FILTER_PATH, KIT_ROOT, "p8 7 6 4 3 2 1");
	check_one(SHFS_FILTER_PATH, "/", "p8 7 6 4 3 2 1");
	check_one(SHFS_FILTER_PATH, KIT_ROOT "/never", "");
	check_one(SHFS_FILTER_CWD, KIT_ROOT, "7 6 4 3 2 1");
	check_one(SHFS_FILTER_CWD, KIT_ROOT "/a", "");
	/* any of several paths, and all of the other conditions */
	assert_ok(shfs_filter_add(&filter, SHFS_FILTER_PATH, KIT_ROOT "/b.csv"));
	assert_ok(shfs_filter_add(&filter, SHFS_FILTER_PATH, KIT_ROOT "/ab"));
	assert_ok(shfs_filter_add(&filter, SHFS_FILTER_GREP, "write"));
	check(&filter, "7 3");
}

static void test_who(void **state)
{
	struct shfs_filter filter = { 0 };

	check_one(SHFS_FILTER_HOST, k.store->host, "7 6 4 3 2 1");
	check_one(SHFS_FILTER_HOST, "another", "");
	check_one(SHFS_FILTER_SESSION, kit_ask(&k, 1, "SELECT id FROM v_session"),
	          "7 6 4 3 2 1");
	check_one(SHFS_FILTER_SESSION,
	          kit_ask(&k, 1, "SELECT upper(substr(id, 1, 5)) FROM v_session"),
	          "7 6 4 3 2 1");
	check_one(SHFS_FILTER_SESSION, "0000000000000000", "");
	assert_int_equal(shfs_filter_add(&filter, SHFS_FILTER_SESSION, "xyz1"), -EINVAL);
	assert_int_equal(shfs_filter_add(&filter, SHFS_FILTER_SESSION, "123"), -EINVAL);
}

/* One group has the first condition, the other one the second. */
static void check_or(enum shfs_filter_kind kind, const char *value,
                     enum shfs_filter_kind kind2, const char *value2,
                     const char *expected)
{
	struct shfs_filter filter = { 0 };

	assert_ok(shfs_filter_add(&filter, kind, value));
	assert_ok(shfs_filter_or(&filter));
	assert_ok(shfs_filter_add(&filter, kind2, value2));
	check(&filter, expected);
}

static void test_or(void **state)
{
	struct shfs_filter filter = { 0 };

	check_or(SHFS_FILTER_GREP, "write", SHFS_FILTER_GREP, "make", "7 3 1");
	check_or(SHFS_FILTER_GREP, "nothing", SHFS_FILTER_GREP, "make", "1");
	check_or(SHFS_FILTER_WROTE, "*.csv", SHFS_FILTER_READ, "[wx]", "4 3 2");
	/* a process of no command by the group that names files */
	check_or(SHFS_FILTER_WROTE, KIT_ROOT "/a/x", SHFS_FILTER_GREP, "killed",
	         "p8 7 1");
	check_or(SHFS_FILTER_SESSION, "0000", SHFS_FILTER_WROTE, KIT_ROOT "/a/x", "p8 1");
	/* all of a group; a path is for all groups, wherever it stands */
	assert_int_equal(shfs_filter_or(&filter), -EINVAL);
	assert_ok(shfs_filter_add(&filter, SHFS_FILTER_GREP, "write"));
	assert_ok(shfs_filter_add_status(&filter, "2"));
	assert_ok(shfs_filter_or(&filter));
	assert_int_equal(shfs_filter_or(&filter), -EINVAL);
	assert_ok(shfs_filter_add(&filter, SHFS_FILTER_REGEX, "^(move|remove)"));
	assert_ok(shfs_filter_add(&filter, SHFS_FILTER_PATH, KIT_ROOT "/b.csv"));
	check(&filter, "4 3");
}

static void test_or_of_failures(void **state)
{
	struct shfs_filter filter = { .reverse = true };

	/* those that failed may have touched no file, those of the other group not */
	assert_ok(shfs_filter_add_status(&filter, "fail"));
	assert_ok(shfs_filter_or(&filter));
	assert_ok(shfs_filter_add(&filter, SHFS_FILTER_REGEX, "touch|make"));
	check(&filter, "1 2 3");
}

static void test_user(void **state)
{
	struct shfs_filter filter = { .all = true };

	for (int i = 1; i <= 8; i++) {
		char expected[16];

		assert_ok(shfs_filter_add_int(&filter, SHFS_FILTER_USER, i));
		snprintf(expected, sizeof(expected), i == 8 ? "p%d" : "%d", i);
		check(&filter, expected);
		filter.all = true;
	}
	filter.all = false;
	assert_ok(shfs_filter_add_int(&filter, SHFS_FILTER_USER, 5));
	check(&filter, ""); /* it touched no file */
}

static void check_sort(enum shfs_filter_sort sort, const char *expected,
                       const char *reverse)
{
	check(&(struct shfs_filter){ .sort = sort, .all = true }, expected);
	check(&(struct shfs_filter){ .sort = sort, .all = true, .reverse = true },
	      reverse);
}

static void test_sort(void **state)
{
	check_sort(SHFS_SORT_TIME, "p8 7 6 5 4 3 2 1", "1 2 3 4 5 6 7 p8");
	check_sort(SHFS_SORT_STATUS, "3 2 6 5 4 1 p8 7", "1 4 5 6 2 3 7 p8");
	check_sort(SHFS_SORT_COMMAND, "p8 7 1 4 2 6 5 3", "3 5 6 2 4 1 7 p8");
	check_sort(SHFS_SORT_DURATION, "6 5 4 3 2 1 p8 7", "1 2 3 4 5 6 7 p8");
	check_sort(SHFS_SORT_CWD, "p8 7 6 5 4 3 2 1", "1 2 3 4 5 6 7 p8");
	check_sort(SHFS_SORT_HOST, "p8 7 6 5 4 3 2 1", "1 2 3 4 5 6 7 p8");
	check(&(struct shfs_filter){ .sort = SHFS_SORT_STATUS, .limit = 3 }, "3 2 6");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_none),   TEST(test_text),  TEST(test_time),
		TEST(test_status), TEST(test_paths), TEST(test_places),
		TEST(test_who),    TEST(test_or),    TEST(test_or_of_failures),
		TEST(test_user),   TEST(test_sort),
	};

	return shfs_unit_main(tests, argc, argv);
}
