/* SPDX-License-Identifier: MIT */
/* Large graphs; tests/cases/test_graph.py has the rules. */
#include "tests/unit/graphkit.h"

#include "query/graph/downstream.h"
#include "query/graph/stale.h"
#include "query/graph/upstream.h"

#define MANY 1200

static struct kit k;

static struct shfs_content text(const char *name, unsigned n)
{
	char t[32];

	snprintf(t, sizeof(t), "%s %u", name, n);
	return kit_content(&k, t, 5);
}

static uint64_t command(unsigned number)
{
	kit_begin(&k, number, number * 100, 500 + number, "step");
	return kit_process(&k, 501 + number, number * 100 + 20, 500, 10);
}

static void end(unsigned number)
{
	kit_end(&k, number, number * 100 + 90, 501 + number, 0);
}

static const char *name(const char *of, unsigned n)
{
	static char path[2][32];
	static int i;

	i = !i;
	snprintf(path[i], sizeof(path[i]), "%s%u", of, n);
	return path[i];
}

static void read_write(unsigned number, const char *from, struct shfs_content seen,
                       const char *to, uint32_t flags, struct shfs_content made)
{
	uint64_t p = command(number);

	if (from)
		kit_read(&k, p, from, number * 100 + 30, seen);
	kit_access(&k, p, to, number * 100 + 40, number * 100 + 40,
	           SHFS_ACCESS_WRITTEN | flags, NULL, &made);
	end(number);
}

static void start(void)
{
	kit_open(&k);
	kit_mount_at(&k, "/p", 0);
	kit_shell(&k, 500, 10, 20);
}

static int teardown(void **state)
{
	kit_close(&k);
	return 0;
}

static int64_t now_ms(void)
{
	return shfs_time_now().boot_ns / 1000000;
}

static void count(struct shfs_graph *graph, size_t versions, size_t makers)
{
	size_t n_versions = 0, n_makers = 0;

	for (struct shfs_graph_version *v = shfs_graph_versions(graph); v; v = v->next)
		n_versions++;
	for (struct shfs_graph_maker *m = shfs_graph_makers(graph); m; m = m->next)
		n_makers++;
	assert_int_equal(n_versions, versions);
	assert_int_equal(n_makers, makers);
}

static void check_down_as(const char *path, int64_t n, bool eager, size_t versions,
                          size_t makers)
{
	struct shfs_graph_limits limits = { .eager = eager };
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_graph_ struct shfs_graph *graph = NULL;
	_cleanup_version_ struct shfs_version target = { 0 };
	int64_t before;

	kit_ingest(&k);
	assert_ok(shfs_index_open(k.store, SHFS_INDEX_READ, &index));
	kit_find(index, path, n, &target);
	before = now_ms();
	assert_ok(shfs_downstream_new(index, &target, 1, &limits, &graph));
	print_message("downstream: %d ms\n", (int)(now_ms() - before));
	count(graph, versions, makers);
}

static void check_down(const char *path, int64_t n, size_t versions, size_t makers)
{
	check_down_as(path, n, false, versions, makers);
	check_down_as(path, n, true, versions, makers);
}

static void check_up(const char *path, int64_t n, size_t versions, size_t makers)
{
	static const struct shfs_graph_limits all;
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_graph_ struct shfs_graph *graph = NULL;
	_cleanup_version_ struct shfs_version target = { 0 };
	int64_t before;

	assert_ok(shfs_index_open(k.store, SHFS_INDEX_READ, &index));
	kit_find(index, path, n, &target);
	before = now_ms();
	assert_ok(shfs_upstream_new(index, &target, &all, &graph));
	print_message("upstream: %d ms\n", (int)(now_ms() - before));
	count(graph, versions, makers);
}

static void check_stale(const char *at, size_t stale)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_stale_ struct shfs_stale *found = NULL;
	char *path = (char *)at;
	size_t n = 0;
	int64_t before;

	kit_ingest(&k);
	assert_ok(shfs_index_open(k.store, SHFS_INDEX_READ, &index));
	before = now_ms();
	assert_ok(shfs_stale_new(index, &path, 1, &found));
	print_message("stale: %d ms\n", (int)(now_ms() - before));
	for (struct shfs_stale_run *r = shfs_stale_runs(found); r; r = r->next)
		n += r->stale;
	assert_int_equal(n, stale);
}

static void test_chain(void **state)
{
	start();
	for (unsigned i = 1; i <= MANY; i++)
		read_write(i, name("f", i - 1), text("f", i - 1), name("f", i),
		           SHFS_ACCESS_CREATED, text("f", i));
	check_down("/p/f0", 1, MANY + 1, MANY);
	check_up("/p/f1200", 1, MANY + 1, MANY);
	check_stale("/p", 0);
	read_write(MANY + 1, NULL, text("f", 0), "f0", SHFS_ACCESS_TRUNCATED,
	           text("f", MANY + 1));
	check_stale("/p", MANY);
	check_stale("/p/f1200", MANY);
}

static void test_hot_file(void **state)
{
	start();
	for (unsigned i = 1; i <= MANY; i++)
		read_write(i, "hot", text("hot", 0), name("f", i), SHFS_ACCESS_CREATED,
		           text("f", i));
	check_down("/p/hot", 1, MANY + 1, MANY);
	check_stale("/p", 0);
}

/* Each reads the version of the one before, and makes the next one. */
static void test_one_file_of_many_versions(void **state)
{
	start();
	for (unsigned i = 1; i <= MANY; i++)
		read_write(i, "f", text("f", i - 1), "f", SHFS_ACCESS_TRUNCATED,
		           text("f", i));
	check_down("/p/f", 1, MANY + 1, MANY);
	check_up("/p/f", MANY + 1, MANY + 1, MANY);
}

static void test_appended_to(void **state)
{
	start();
	for (unsigned i = 1; i <= MANY; i++)
		read_write(i, NULL, text("f", 0), "f", SHFS_ACCESS_APPEND, text("f", i));
	check_down("/p/f", 1, MANY, MANY - 1);
}

/* One command that reads and writes in turn: each result came of all that was read. */
static void test_one_command(void **state)
{
	uint64_t p;

	start();
	p = command(1);
	for (unsigned i = 0; i < MANY; i++) {
		struct shfs_content made = text("out", i);

		kit_read(&k, p, name("in", i), 130 + i * 0.001, text("in", i));
		kit_access(&k, p, name("out", i), 131 + i * 0.001, 131 + i * 0.001,
		           SHFS_ACCESS_WRITTEN | SHFS_ACCESS_CREATED, NULL, &made);
	}
	end(1);
	check_down("/p/in0", 1, MANY + 1, 1);
	check_up("/p/out1199", 1, MANY + 1, 1);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_chain),
		TEST(test_hot_file),
		TEST(test_one_file_of_many_versions),
		TEST(test_appended_to),
		TEST(test_one_command),
	};

	return shfs_unit_main(tests, argc, argv);
}
