/* SPDX-License-Identifier: MIT */
/* Tests of query/graph/upstream.c. */
#include "tests/unit/graphkit.h"

#include "query/graph/upstream.h"

static struct kit k;
static bool everything;

static uint64_t command(unsigned number, const char *text)
{
	kit_begin(&k, number, number * 1000, 500 + number, text);
	return kit_process(&k, 501 + number, number * 1000 + 20, 500, 10);
}

static void end(unsigned number)
{
	kit_end(&k, number, number * 1000 + 500, 501 + number, 0);
}

static struct shfs_content text(const char *t)
{
	return kit_content(&k, t, 5);
}

static void write_as(uint64_t p, const char *path, double ms, const char *t,
                     uint32_t flags)
{
	struct shfs_content c = text(t);

	kit_access(&k, p, path, ms, ms, SHFS_ACCESS_WRITTEN | flags, NULL, &c);
}

static void start(void)
{
	kit_open(&k);
	kit_mount_at(&k, "/p", 0);
	kit_shell(&k, 500, 10, 20);
}

/* All makers in the order of discovery: "what it made <- its text: its inputs". */
static void check_way(const char *path, int64_t n, size_t depth, bool eager,
                      const char *expected)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_graph_ struct shfs_graph *up = NULL;
	_cleanup_version_ struct shfs_version target = { 0 };
	_cleanup_buf_ struct shfs_buf got = { 0 };

	kit_ingest(&k);
	assert_ok(shfs_index_open(k.store, SHFS_INDEX_READ, &index));
	kit_find(index, path, n, &target);
	assert_ok(shfs_upstream_new(index, &target,
	                            &(struct shfs_graph_limits){ .max_depth = depth,
	                                                         .all = everything,
	                                                         .eager = eager },
	                            &up));
	assert_string_equal(shfs_graph_versions(up)->version.path, path);
	for (struct shfs_graph_maker *m = shfs_graph_makers(up); m; m = m->next) {
		if (got.len)
			shfs_buf_char(&got, '\n');
		for (struct shfs_graph_version *v = m->made; v; v = v->next_made)
			shfs_buf_printf(&got, "%s@%d ", v->version.path + 3,
			                (int)v->version.n);
		shfs_buf_printf(&got, "<- %s:",
		                m->entry.is_process ? m->entry.process.exe
		                                    : m->entry.command.text);
		for (size_t i = 0; i < m->n_inputs; i++)
			shfs_buf_printf(&got, " %s@%d%s", m->inputs[i]->version.path + 3,
			                (int)m->inputs[i]->version.n,
			                m->inputs[i]->maker ? "" : "*");
		if (m->n_left_out)
			shfs_buf_printf(&got, " and %zu", m->n_left_out);
		if (m->cut)
			shfs_buf_str(&got, " …");
	}
	shfs_buf_add(&got, "", 0);
	assert_string_equal(got.data, expected);
}

static void check_depth(const char *path, int64_t n, size_t depth, const char *expected)
{
	check_way(path, n, depth, false, expected);
	check_way(path, n, depth, true, expected);
}

static void check(const char *path, int64_t n, const char *expected)
{
	check_depth(path, n, 0, expected);
}

static int teardown(void **state)
{
	kit_close(&k);
	return 0;
}

static void pipeline(void)
{
	uint64_t p;

	start();
	p = command(1, "one");
	kit_read(&k, p, "in", 1100, text("in"));
	kit_read(&k, p, "conf", 1110, text("c1"));
	write_as(p, "mid", 1120, "m1", SHFS_ACCESS_CREATED);
	end(1);
	p = command(2, "edit");
	kit_read(&k, p, "conf", 2100, text("c1"));
	write_as(p, "conf", 2120, "c2", SHFS_ACCESS_TRUNCATED);
	end(2);
	p = command(3, "two");
	kit_read(&k, p, "mid", 3100, text("m1"));
	kit_read(&k, p, "conf", 3110, text("c2"));
	write_as(p, "tmp", 3120, "t", SHFS_ACCESS_CREATED);
	kit_read(&k, p, "tmp", 3130, text("t"));
	write_as(p, "out", 3140, "o", SHFS_ACCESS_CREATED);
	kit_read(&k, p, "late", 3150, text("l")); /* when out was done */
	end(3);
}

static void test_pipeline(void **state)
{
	pipeline();
	check("/p/out", 1,
	      "out@1 <- two: mid@1 conf@2\nmid@1 <- one: in@1* conf@1*\n"
	      "conf@2 <- edit: conf@1*");
	check("/p/in", 1, "");
}

static void test_depth(void **state)
{
	pipeline();
	check_depth("/p/out", 1, 1,
	            "out@1 <- two: mid@1 conf@2\nmid@1 <- one: …\nconf@2 <- edit: …");
	check_depth("/p/out", 1, 2,
	            "out@1 <- two: mid@1 conf@2\nmid@1 <- one: in@1* conf@1*\n"
	            "conf@2 <- edit: conf@1*");
}

/* One long program makes a, another makes b of it, and the first c of that. */
static void test_round(void **state)
{
	uint64_t p, q;

	start();
	p = command(1, "notebook &");
	write_as(p, "a", 1120, "a", SHFS_ACCESS_CREATED);
	end(1);
	q = command(2, "job");
	kit_read(&k, q, "a", 2100, text("a"));
	write_as(q, "b", 2120, "b", SHFS_ACCESS_CREATED);
	end(2);
	kit_read(&k, p, "b", 2800, text("b"));
	write_as(p, "c", 2900, "c", SHFS_ACCESS_CREATED);
	check("/p/c", 1, "a@1 c@1 <- notebook &: b@1\nb@1 <- job: a@1");
	/* what it read later went not into a */
	check("/p/b", 1, "b@1 <- job: a@1\na@1 <- notebook &:");
}

static void test_append(void **state)
{
	uint64_t p;

	start();
	p = command(1, "first");
	write_as(p, "log", 1100, "1", SHFS_ACCESS_CREATED);
	end(1);
	p = command(2, "loop");
	write_as(p, "log", 2100, "12", SHFS_ACCESS_APPEND);
	write_as(p, "log", 2110, "123", SHFS_ACCESS_APPEND);
	write_as(p, "log", 2120, "1234", SHFS_ACCESS_APPEND);
	end(2);
	p = command(3, "anew");
	write_as(p, "log", 3100, "x", SHFS_ACCESS_TRUNCATED);
	end(3);
	check("/p/log", 4, "log@4 <- loop: log@1\nlog@1 <- first:");
	check("/p/log", 5, "log@5 <- anew:");
}

static void test_moved(void **state)
{
	struct shfs_content c;
	uint64_t p;

	start();
	p = command(1, "make");
	kit_read(&k, p, "in", 1090, text("in"));
	write_as(p, "a", 1100, "a", SHFS_ACCESS_CREATED);
	write_as(p, "over", 1110, "o", SHFS_ACCESS_CREATED);
	end(1);
	p = command(2, "mv a b");
	kit_rename(&k, p, "a", "b", 2100);
	end(2);
	p = command(3, "mv b over");
	c = text("a");
	kit_pathop(&k, p, SHFS_OP_RENAME, "b", "over", 3100, &c, NULL, false);
	end(3);
	/* b has a's past; over has one of its own, and mv made its next version */
	check("/p/b", 1, "b@1 <- make: in@1*");
	check("/p/over", 2, "over@2 <- mv b over: b@1\nb@1 <- make: in@1*");
}

/* sed -i: the new file is its own, what went into it is what it read. */
static void test_renamed_into_place(void **state)
{
	struct shfs_content c;
	uint64_t p;

	start();
	p = command(1, "sed -i");
	kit_read(&k, p, "f", 1100, text("old"));
	write_as(p, "sedX", 1110, "new", SHFS_ACCESS_CREATED);
	c = text("new");
	kit_pathop(&k, p, SHFS_OP_RENAME, "sedX", "f", 1120, &c, NULL, false);
	end(1);
	check("/p/f", 2, "f@2 <- sed -i: f@1*");
}

/* What was restored comes from the version it was, not from what it replaced. */
static void test_restored(void **state)
{
	struct shfs_content c;
	uint64_t p;

	start();
	p = command(1, "make");
	write_as(p, "f", 1100, "1", SHFS_ACCESS_CREATED);
	end(1);
	p = command(2, "break");
	write_as(p, "f", 2100, "2", SHFS_ACCESS_TRUNCATED);
	end(2);
	kit_begin(&k, 3, 3000, 503, "shfs restore f@1; use f");
	p = kit_process(&k, 504, 3020, 500, 10, .exe = "/usr/bin/shfs");
	kit_read(&k, p, "f", 3100, text("2"));
	write_as(p, "tmp", 3110, "1", SHFS_ACCESS_CREATED);
	c = text("1");
	kit_pathop(&k, p, SHFS_OP_RENAME, "tmp", "f", 3120, &c, NULL, false);
	p = kit_process(&k, 505, 3130, 500, 10);
	kit_read(&k, p, "f", 3140, text("1"));
	write_as(p, "out", 3150, "o", SHFS_ACCESS_CREATED);
	kit_end(&k, 3, 3500, 505, 0);
	check("/p/f", 3, "f@3 <- shfs restore f@1; use f: f@1\nf@1 <- make:");
	check("/p/f", 2, "f@2 <- break:");
}

/* What git checks out was there before; its own files, and those that it looks at, would
 * join all history to all other. */
static void test_version_control(void **state)
{
	uint64_t p;

	start();
	p = command(1, "edit");
	write_as(p, "f", 1100, "1", SHFS_ACCESS_CREATED);
	write_as(p, "other", 1110, "o", SHFS_ACCESS_CREATED);
	end(1);
	p = command(2, "break");
	write_as(p, "f", 2100, "2", SHFS_ACCESS_TRUNCATED);
	end(2);
	kit_begin(&k, 3, 3000, 503, "git checkout f");
	p = kit_process(&k, 504, 3020, 500, 10, .exe = "/usr/bin/git");
	kit_read(&k, p, ".git/index", 3100, text("i"));
	kit_read(&k, p, "other", 3110, text("o"));
	write_as(p, "f", 3120, "1", SHFS_ACCESS_CREATED);
	kit_end(&k, 3, 3500, 504, 0);
	kit_begin(&k, 4, 4000, 504, "git apply other");
	p = kit_process(&k, 505, 4020, 500, 10, .exe = "/usr/bin/git");
	kit_read(&k, p, ".git/index", 4100, text("i"));
	kit_read(&k, p, "other", 4110, text("o"));
	write_as(p, "f", 4120, "new", SHFS_ACCESS_CREATED);
	kit_end(&k, 4, 4500, 505, 0);
	check("/p/f", 3, "f@3 <- git checkout f: f@1\nf@1 <- edit:");
	check("/p/f", 4, "f@4 <- git apply other: other@1 and 1\nother@1 <- edit:");
	check("/p/.git/index", 1, "");
	everything = true;
	check("/p/f", 4,
	      "f@4 <- git apply other: .git/index@1* other@1\nother@1 <- edit:");
	everything = false;
}

static void test_process(void **state)
{
	uint64_t p;

	start();
	p = kit_process(&k, 900, 1000, 1, 0, .exe = "/usr/bin/editor");
	kit_read(&k, p, "f", 1100, text("old"));
	write_as(p, "f", 1110, "new", SHFS_ACCESS_TRUNCATED);
	check("/p/f", 2, "f@2 <- /usr/bin/editor: f@1*");
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_pipeline), TEST(test_depth),    TEST(test_round),
		TEST(test_append),   TEST(test_moved),    TEST(test_renamed_into_place),
		TEST(test_process),  TEST(test_restored), TEST(test_version_control),
	};

	return shfs_unit_main(tests, argc, argv);
}
