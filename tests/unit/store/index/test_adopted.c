/* SPDX-License-Identifier: MIT */
/* Tests of store/index: processes without a shell above them. */
#include "tests/unit/indexkit.h"

/* --- processes that no shell is above of --- */

/* Two commands: pids 1001 to 1010, from 2000 to 2050 ms, and 1011 to 1020, from 2100 to
 * end_ms. */
static void two_commands(struct kit *k, double end_ms)
{
	kit_open(k);
	kit_shell(k, 900, 1000, 1100);
	kit_begin(k, 1, 2000, 1000, "first");
	kit_end(k, 1, 2050, 1010, 0);
	kit_begin(k, 2, 2100, 1010, "second");
	kit_end(k, 2, end_ms, 1020, 0);
	kit_mount(k);
}

/* The command of an orphan of that group, forked much later. */
static const char *owner_of(struct kit *k, uint32_t pgid, const char *marker)
{
	double ms = 1e6;
	uint64_t p = kit_process(k, 3000, ms, 1, 0, .pgid = pgid, .sid = 900,
	                         .marker = marker);

	kit_write(k, p, "file", ms + 10, kit_content(k, marker ? marker : "", ms));
	kit_ingest(k);
	return kit_ask(k, 1,
	               "SELECT coalesce((SELECT c.text FROM v_access a JOIN v_command c"
	               " USING (command_id)), 'none')");
}

static const char *marker_of(struct kit *k, unsigned number)
{
	static char text[128];

	snprintf(text, sizeof(text), "%.8s-900-%" PRIu64 "-%u", k->boot_id,
	         kit_ticks(1000), number);
	return text;
}

static void test_adopted_by_group(void **state)
{
	struct kit k;

	two_commands(&k, 2150);
	assert_string_equal(owner_of(&k, 1015, NULL), "second");
	kit_close(&k);
}

static void test_adopted_by_marker(void **state)
{
	struct kit k;

	two_commands(&k, 2150);
	assert_string_equal(owner_of(&k, 5000, marker_of(&k, 1)), "first");
	kit_close(&k);
}

/* What it did before is written by then; what it does after gets further numbers. */
static void test_marked_later(void **state)
{
	struct kit k;
	uint64_t p, q;

	two_commands(&k, 2150);
	p = kit_process(&k, 3000, 1e6, 1, 0);
	kit_write(&k, p, "a", 1000010, kit_content(&k, "a", 1000010));
	q = kit_process(&k, 3000, 1e6, 1, 0, .exe = "/bin/later",
	                .marker = marker_of(&k, 1), .seen_ms = 1000020);
	kit_write(&k, p, "b", 1000030, kit_content(&k, "b", 1000030));
	kit_write(&k, q, "c", 1000040, kit_content(&k, "c", 1000040));
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 2,
	                            "SELECT count(DISTINCT access_id),"
	                            " group_concat(text) FROM v_access"
	                            " LEFT JOIN v_command USING (command_id)"),
	                    "3|first,first,first");
	kit_close(&k);
}

/* Two mounts tell of a process, and the segment of who saw it first is read last. */
static void test_told_of_in_another_order(void **state)
{
	static const char *const cwds[] = { "/later", "/first" };
	static const double seen_ms[] = { 2500, 2200 };
	char first[2][64];
	struct kit k;

	kit_open(&k);
	kit_mount(&k);
	for (int i = 0; i < 2; i++) {
		kit_process(&k, 501, 2000, 500, 1000, .seen_ms = seen_ms[i],
		            .cwd = cwds[i]);
		kit_ingest(&k);
		snprintf(first[i], sizeof(first[i]), "%s",
		         kit_ask(&k, 1,
		                 "SELECT first_ns FROM v_process WHERE pid = 501"));
	}
	assert_int_equal(atoll(first[0]) - atoll(first[1]), 300000000);
	assert_string_equal(kit_ask(&k, 1, "SELECT cwd FROM v_process WHERE pid = 501"),
	                    "/first");
	kit_close(&k);
}

static void test_adopted_with_two_opinions(void **state)
{
	struct kit k;

	two_commands(&k, 2150);
	assert_string_equal(owner_of(&k, 1015, marker_of(&k, 1)), "none");
	kit_close(&k);
	two_commands(&k, 2150);
	assert_string_equal(owner_of(&k, 1015, marker_of(&k, 2)), "second");
	kit_close(&k);
	two_commands(&k, 2150);
	assert_string_equal(owner_of(&k, 1015, marker_of(&k, 0)), "none");
	kit_close(&k);
}

/* Pids may have gone round while it ran: it may have handed out any, or none of these. */
static void test_group_of_a_long_command(void **state)
{
	struct kit k;

	two_commands(&k, 2150);
	kit_close(&k);
	two_commands(&k, 2200 + k.pid_max / 100.0);
	assert_string_equal(owner_of(&k, 1005, NULL), "none");
	kit_close(&k);
	two_commands(&k, 2200 + k.pid_max / 100.0);
	assert_string_equal(owner_of(&k, 1005, marker_of(&k, 1)), "first");
	kit_close(&k);
}

/* Pids may have gone round in the first; the orphan was forked in the second, or after
 * it. */
static const char *forked_in_second(struct kit *k, double ms, uint32_t pid, bool before)
{
	double long_ms = k->pid_max / 100.0;
	uint64_t p;

	kit_open(k);
	kit_shell(k, 900, 1000, 1100);
	kit_begin(k, 1, 2000, 1000, "long");
	kit_end(k, 1, 2000 + long_ms, 1010, 0);
	kit_begin(k, 2, 2100 + long_ms, 1010, "short");
	kit_end(k, 2, 2200 + long_ms, 1020, 0);
	kit_mount(k);
	if (before) {
		p = kit_process(k, 1015, 1900, 1, 0, .sid = 900);
		kit_write(k, p, "before", 1910, kit_content(k, "before", 1910));
	}
	p = kit_process(k, pid, ms + long_ms, 1, 0, .pgid = 1015, .sid = 900);
	kit_write(k, p, "file", ms + long_ms + 10, kit_content(k, "x", ms + long_ms));
	kit_ingest(k);
	return kit_ask(k, 1,
	               "SELECT coalesce((SELECT c.text FROM v_access a JOIN v_command c"
	               " USING (command_id) WHERE path GLOB '*/file'), 'none')");
}

static void test_group_behind_a_long_command(void **state)
{
	static const struct {
		double ms;
		uint32_t pid;
		bool before;
		const char *owner;
	} cases[] = {
		{ 2150, 1016, false, "short" }, { 2150, 1021, false, "none" },
		{ 2150, 1016, true, "none" },   { 2400, 1016, false, "none" },
		{ 2050, 1016, false, "none" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kit k;

		kit_open(&k); /* for how many pids there are */
		kit_close(&k);
		assert_string_equal(forked_in_second(&k, cases[i].ms, cases[i].pid,
		                                     cases[i].before),
		                    cases[i].owner);
		kit_close(&k);
	}
}

static void test_marker_that_names_nothing(void **state)
{
	static const char *const markers[] = {
		"",         "x", "01234567-900-100-1", "-900-100-1", "01234567-900-100-",
		"\xff-\xff"
	};
	struct kit k;

	for (size_t i = 0; i < ARRAY_SIZE(markers); i++) {
		two_commands(&k, 2150);
		assert_string_equal(owner_of(&k, 5000, markers[i]), "none");
		kit_close(&k);
	}
	two_commands(&k, 2150);
	assert_string_equal(owner_of(&k, 5000, marker_of(&k, 3)), "none");
	kit_close(&k);
	/* a number that came twice */
	two_commands(&k, 2150);
	kit_begin(&k, 1, 2200, 1020, "again");
	assert_string_equal(owner_of(&k, 5000, marker_of(&k, 1)), "none");
	kit_close(&k);
}

/* --- origins --- */

/* The command of another host that a process's marker names as its origin. */
static const char *origin_of(struct kit *k, uint32_t pid, unsigned number)
{
	static char text[160];

	snprintf(text, sizeof(text), "%s:%.8s-%u-%" PRIu64 ":%u", k->store->host,
	         k->boot_id, pid, kit_ticks(1000 + pid), number);
	return text;
}

static void kit_origin(struct kit *k, const char *value)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	kit_tag(k, &b, "O1");
	kit_field(&b, value);
	kit_record(k, &b);
}

/* Session n, with a command of its own, began in a command of session `of`. */
static void kit_session_of(struct kit *k, uint32_t n, uint32_t of)
{
	char text[16];

	snprintf(text, sizeof(text), "in %u", n);
	kit_shell(k, n, 1000 + n, 1100 + n);
	kit_origin(k, origin_of(k, of, 1));
	kit_origin(k, origin_of(k, n, 1)); /* only the first one counts */
	kit_begin(k, 1, 2000 + n, 0, text);
}

#define CALLERS                                                                          \
	"SELECT group_concat(pid || coalesce('<' || (SELECT text FROM v_command c"       \
	" WHERE c.command_id = caller_id), ''))"                                         \
	" FROM (SELECT * FROM v_session ORDER BY pid)"

/* Sessions that lead in a circle began nowhere; those that lead into it did. */
static void test_origins_in_a_circle(void **state)
{
	struct kit k;

	kit_open(&k);
	kit_session_of(&k, 10, 10);
	for (uint32_t n = 20; n < 60; n++)
		kit_session_of(&k, n, n == 59 ? 20 : n + 1);
	kit_session_of(&k, 70, 30);
	kit_session_of(&k, 71, 70);
	kit_session_of(&k, 80, 99); /* which is nowhere */
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 1, CALLERS),
	                    "10,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,"
	                    "39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,"
	                    "59,70<in 30,71<in 70,80");
	kit_close(&k);
}

/* A process that nothing else is known of is a command within the origin; one that a
 * shell here has started is not. */
static void test_origin_of_a_process(void **state)
{
	char marker[200];
	struct kit k;
	uint64_t p;

	kit_open(&k);
	kit_session_of(&k, 10, 99);
	kit_mount(&k);
	snprintf(marker, sizeof(marker), "@%s agent claude", origin_of(&k, 10, 1));
	p = kit_process(&k, 3000, 5e5, 1, 0, .marker = marker);
	kit_write(&k, p, "a", 5e5 + 10, kit_content(&k, "a", 5e5 + 10));
	snprintf(marker, sizeof(marker), "@%sx", origin_of(&k, 10, 1)); /* is none */
	p = kit_process(&k, 3001, 6e5, 1, 0, .marker = marker);
	kit_write(&k, p, "b", 6e5 + 10, kit_content(&k, "b", 6e5 + 10));
	snprintf(marker, sizeof(marker), "@%s", origin_of(&k, 10, 1));
	p = kit_process(&k, 3002, 7e5, 2, 0, .marker = marker);
	kit_write(&k, p, "c", 7e5 + 10, kit_content(&k, "c", 7e5 + 10));
	kit_ingest(&k);
	assert_string_equal(
		kit_ask(&k, 1,
	                "SELECT group_concat(coalesce(substr(s.invoker, 1, 7) || '<' || "
	                "k.text, 'none'))"
	                " FROM (SELECT * FROM v_access ORDER BY path) a"
	                " LEFT JOIN v_command c USING (command_id)"
	                " LEFT JOIN v_session s ON s.session_id = c.session_id"
	                " LEFT JOIN v_command k ON k.command_id = s.caller_id"),
		"agent c<in 10,none,remote <in 10");
	kit_close(&k);
}

/* The process above is recorded after it, and the ingest that reads that ends before it
 * looks again: the next one does, though it reads nothing. */
static void test_looked_at_again_by_the_next(void **state)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	uint64_t left_bytes = 1;
	struct kit k;

	two_commands(&k, 2150);
	kit_write(&k, kit_process(&k, 1005, 2020, 1004, 2010), "file", 2030,
	          kit_content(&k, "1", 2030));
	kit_write(&k, kit_process(&k, 1004, 2010, 900, 1000), "other", 2040,
	          kit_content(&k, "2", 2040));
	assert_ok(shfs_index_open(k.store, SHFS_INDEX_WRITE, &index));
	while (left_bytes)
		assert_int_equal(shfs_index_ingest_within(index, NULL, 0, &left_bytes),
		                 1);
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT count(*) FROM v_access"
	                            " WHERE command_id IS NOT NULL"),
	                    "1");
	kit_ingest(&k);
	assert_string_equal(kit_ask(&k, 1,
	                            "SELECT count(*) FROM v_access"
	                            " WHERE command_id IS NOT NULL"),
	                    "2");
	kit_close(&k);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_adopted_by_group),
	cmocka_unit_test(test_adopted_by_marker),
	cmocka_unit_test(test_marked_later),
	cmocka_unit_test(test_looked_at_again_by_the_next),
	cmocka_unit_test(test_told_of_in_another_order),
	cmocka_unit_test(test_adopted_with_two_opinions),
	cmocka_unit_test(test_group_of_a_long_command),
	cmocka_unit_test(test_group_behind_a_long_command),
	cmocka_unit_test(test_marker_that_names_nothing),
	cmocka_unit_test(test_origins_in_a_circle),
	cmocka_unit_test(test_origin_of_a_process),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
