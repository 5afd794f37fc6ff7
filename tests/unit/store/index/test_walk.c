/* SPDX-License-Identifier: MIT */
/* What is read without SQL is what the views say. */
#include "tests/unit/indexkit.h"

#include "store/index/facts.h"

static struct kit k;
static struct shfs_index *the_index;

/* Two commands, what the shell did in one of them and before any, and an editor; enough
 * in one process for several chunks. */
static int setup(void **state)
{
	struct shfs_content cut = { .flags = SHFS_CONTENT_KNOWN | SHFS_CONTENT_SKIP_SIZE,
		                    .mode = 0100644,
		                    .size = 1 << 30 };
	uint64_t shell, p;
	char name[32];

	kit_open(&k);
	kit_mount(&k);
	kit_shell(&k, 500, 10, 20);
	shell = kit_process(&k, 500, 10, 1, 0);
	kit_write(&k, shell, "history", 500, kit_content(&k, "h", 500));
	kit_begin(&k, 1, 1000, 500, "one");
	kit_write(&k, shell, "redirected", 1005, kit_content(&k, "r", 1005));
	p = kit_process(&k, 501, 1020, 500, 10);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "d%d/f%d", i / 20, i);
		kit_read(&k, p, name, 1100 + i, kit_content(&k, name, 5));
	}
	kit_preimage(&k, p, "cut", 1500, cut);
	kit_write(&k, p, "out", 1510, kit_content(&k, "o", 1510));
	kit_rename(&k, p, "out", "d1/moved", 1520);
	kit_end(&k, 1, 2000, 501, 0);
	kit_begin(&k, 2, 3000, 501, "two");
	p = kit_process(&k, 502, 3020, 500, 10);
	kit_pathop(&k, p, SHFS_OP_SYMLINK, "link", "d1/moved", 3100, NULL, NULL, false);
	kit_pathop(&k, p, SHFS_OP_UNLINK, "d1/moved", NULL, 3110, NULL, NULL, false);
	kit_end(&k, 2, 4000, 502, 0);
	p = kit_process(&k, 900, 8000, 1, 0, .exe = "/usr/bin/editor");
	kit_write(&k, p, "d2/f40", 8100, kit_content(&k, "z", 8100));
	p = kit_process(&k, 901, 9000, 1, 0, .exe = "/usr/bin/other");
	for (int i = 0; i < 2; i++) {
		kit_write(&k, p, "again", 9100 + i, kit_content(&k, "z", 9100 + i));
		kit_write(&k, p, "t", 9200 + 20 * i, kit_content(&k, "t", 9200 + 20 * i));
		kit_rename(&k, p, "t", "moved", 9210 + 20 * i);
	}
	/* so long that the microseconds just fit in 32 bits; and longer */
	for (int i = 0; i < 4; i++) {
		/* a record is made 1 ms after its last access */
		static const double took_ms[] = { 4294966.294, 4294966.295, 4294966.297,
			                          86400000 };
		struct shfs_content seen = kit_content(&k, "l", 9300);

		snprintf(name, sizeof(name), "long%d", i);
		kit_access(&k, p, name, 9300, 9300 + took_ms[i], SHFS_ACCESS_READ, &seen,
		           NULL);
	}
	return kit_finish(&k, &the_index);
}

static int teardown(void **state)
{
	shfs_index_close(the_index);
	kit_close(&k);
	return 0;
}

static int add_access(const struct shfs_access *a, void *arg)
{
	shfs_buf_printf(arg, "%lld %lld %u %d %d %lld %lld %lld %lld\n",
	                (long long)a->access_id, (long long)a->seq, a->flags,
	                shfs_access_is_written(a), a->flawed, (long long)a->file_id,
	                (long long)a->file2_id, (long long)a->seen_n,
	                (long long)a->made_n);
	return 0;
}

#define AS_ADDED                                                                         \
	"SELECT printf('%d %d %d %d %d %d %d %d %d', access_id, seq_key, flags,"         \
	" is_written, seen_flawed, file_id, file2_id, seen_n, made_n) FROM v_access"

/* The rows of a SELECT with one parameter. */
static void ask(const char *sql, int64_t id, struct shfs_buf *out)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r;

	assert_ok(shfs_rows_open(the_index, sql, &rows));
	assert_ok(shfs_rows_bind_int(rows, 1, id));
	while ((r = shfs_rows_next(rows)) > 0)
		shfs_buf_printf(out, "%s\n", shfs_rows_text(rows, 0));
	assert_ok(r);
	shfs_buf_add(out, "", 0);
}

static void check(int64_t command_id, int64_t process_id, size_t at_least)
{
	_cleanup_buf_ struct shfs_buf got = { 0 }, expected = { 0 };

	if (command_id) {
		ask(AS_ADDED " WHERE command_id = ?1", command_id, &expected);
		assert_ok(shfs_accesses_of_command(the_index, command_id, add_access,
		                                   &got));
	} else {
		ask(AS_ADDED " WHERE process_id = ?1 AND command_id IS NULL", process_id,
		    &expected);
		assert_ok(
			shfs_accesses_of_nobody(the_index, process_id, add_access, &got));
	}
	shfs_buf_add(&got, "", 0);
	assert_string_equal(got.data, expected.data);
	for (const char *line = got.data; (line = strchr(line, '\n')); line++)
		at_least -= at_least > 0;
	assert_int_equal(at_least, 0);
}

static int64_t number(const char *sql)
{
	return strtoll(kit_ask(&k, 1, sql), NULL, 10);
}

static void test_accesses(void **state)
{
	check(1, 0, 303);
	check(2, 0, 2);
	check(99, 0, 0);
	check(0, number("SELECT process_id FROM v_process WHERE shell"), 1);
	check(0, number("SELECT process_id FROM v_process WHERE pid = 900"), 1);
	check(0, number("SELECT process_id FROM v_process WHERE pid = 501"), 0);
	check(0, 999, 0);
}

static int stop_at(const struct shfs_access *a, void *arg)
{
	return --*(int *)arg ? 0 : 7;
}

static void test_stopped(void **state)
{
	int left = 250;

	assert_int_equal(shfs_accesses_of_command(the_index, 1, stop_at, &left), 7);
	assert_int_equal(left, 0);
	check(1, 0, 303); /* again from the begin */
}

static int add_path(int64_t file_id, const char *path, void *arg)
{
	shfs_buf_printf(arg, "%lld %s\n", (long long)file_id, path);
	return 0;
}

static void test_paths(void **state)
{
	_cleanup_buf_ struct shfs_buf got = { 0 }, expected = { 0 };
	int64_t n = number("SELECT max(file_id) FROM v_path"), ids[400];
	size_t some = 0;

	for (int64_t id = 1; id <= n + 3; id += id % 50 == 7 ? 40 : 1)
		ids[some++] = id;
	assert_ok(shfs_paths_of(the_index, ids, some, add_path, &got));
	shfs_buf_add(&got, "", 0);
	for (size_t i = 0; i < some; i++)
		ask("SELECT file_id || ' ' || path FROM v_path WHERE file_id = ?1",
		    ids[i], &expected);
	assert_string_equal(got.data, expected.data);
	assert_ok(shfs_paths_of(the_index, ids, 0, add_path, &got));
}

static void test_uses_counted(void **state)
{
	int64_t ids[2] = {
		number("SELECT file_id FROM v_path WHERE name = 'moved'"),
		number("SELECT file_id FROM v_path WHERE name = 'f40'"),
	};
	int64_t n = 0;

	assert_true(ids[0] > ids[1]);
	assert_ok(shfs_uses_count(the_index, &ids[1], 1, &n));
	assert_int_equal(n, 2);
	assert_ok(shfs_uses_count(the_index, ids, 1, &n));
	assert_int_equal(n, 2); /* renamed, unlinked */
	assert_ok(shfs_uses_count(the_index, (int64_t[]){ ids[1], ids[0] }, 2, &n));
	assert_int_equal(n, 4);
	assert_ok(shfs_uses_count(the_index, ids, 0, &n));
	assert_int_equal(n, 0);
}

static void test_versions(void **state)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_version_fact v;
	int r, n = 0;

	assert_ok(shfs_rows_open(the_index,
	                         "SELECT file_id, n, flags, source, carried, access_id,"
	                         " time_ns FROM v_version",
	                         &rows));
	for (; (r = shfs_rows_next(rows)) > 0; n++) {
		int64_t id = shfs_rows_int(rows, 0) << 32 | shfs_rows_int(rows, 1);

		assert_int_equal(shfs_version_look(the_index, id, &v), 1);
		assert_int_equal(v.version_id, id);
		assert_int_equal(v.content.flags, shfs_rows_int(rows, 2));
		assert_string_equal(shfs_version_source_name(v.source),
		                    shfs_rows_text(rows, 3));
		assert_int_equal(v.carried, shfs_rows_int(rows, 4));
		assert_int_equal(v.access_id, shfs_rows_int(rows, 5));
		assert_int_equal(v.time_ns, shfs_rows_int(rows, 6));
	}
	assert_ok(r);
	assert_true(n > 300);
	assert_int_equal(shfs_version_look(the_index, (int64_t)1 << 32 | 77, &v), 0);
}

/* --- facts: one by one, and all at once --- */

#define FACTS_OF_VERSION                                                                 \
	"SELECT printf('%d %d %s %s %d %d %d %d %d', v.version_id,"                      \
	" coalesce(v.origin_version_id, 0), v.path, coalesce(v.object, '-'), v.size,"    \
	" coalesce(v.process_id, 0), coalesce(v.command_id, 0), v.carried, v.time_ns),"  \
	" (SELECT printf('%d %d %d', end_ns, seq_key, made_n) FROM v_access a"           \
	" WHERE a.access_id = v.access_id)"                                              \
	" FROM v_version v WHERE version_id = ?1"

static void show_version(struct shfs_facts *facts, int64_t id, struct shfs_buf *out)
{
	struct shfs_version_fact v;
	struct shfs_access a;
	char object[44] = "-";
	char *path;

	assert_int_equal(shfs_facts_version(facts, id, &v), 1);
	assert_int_equal(shfs_facts_path(facts, v.file_id, &path), 1);
	if (v.content.flags & SHFS_CONTENT_OBJECT)
		shfs_object_name(&v.content.object, object);
	shfs_buf_printf(out, "%lld %lld %s %s %lld %lld %lld %d %lld",
	                (long long)v.version_id, (long long)v.origin_version_id, path,
	                object, (long long)v.content.size, (long long)v.process_id,
	                (long long)v.command_id, v.carried, (long long)v.time_ns);
	free(path);
	if (shfs_facts_access(facts, v.access_id, &a))
		shfs_buf_printf(out, "%lld %lld %lld", (long long)shfs_access_end_ns(&a),
		                (long long)a.seq, (long long)a.made_n);
}

static void check_versions(struct shfs_facts *facts)
{
	_cleanup_rows_ struct shfs_rows *ids = NULL, *rows = NULL;

	assert_ok(shfs_rows_open(the_index, "SELECT version_id FROM v_version", &ids));
	assert_ok(shfs_rows_open(the_index, FACTS_OF_VERSION, &rows));
	while (shfs_rows_next(ids) > 0) {
		_cleanup_buf_ struct shfs_buf got = { 0 }, expected = { 0 };
		int64_t id = shfs_rows_int(ids, 0);

		assert_ok(shfs_rows_bind_int(rows, 1, id));
		assert_int_equal(shfs_rows_next(rows), 1);
		shfs_buf_printf(&expected, "%s%s", shfs_rows_text(rows, 0),
		                shfs_rows_text(rows, 1));
		show_version(facts, id, &got);
		assert_string_equal(got.data, expected.data);
	}
}

static void check_files(struct shfs_facts *facts)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_file_fact f;

	assert_ok(shfs_rows_open(the_index,
	                         "SELECT file_id, versions, last_ns, present, directory"
	                         " FROM v_file",
	                         &rows));
	while (shfs_rows_next(rows) > 0) {
		assert_int_equal(shfs_facts_file(facts, shfs_rows_int(rows, 0), &f), 1);
		assert_int_equal(f.versions, shfs_rows_int(rows, 1));
		if (f.last_ns != INT64_MIN)
			assert_int_equal(f.last_ns, shfs_rows_int(rows, 2));
		assert_int_equal(f.present, shfs_rows_int(rows, 3));
		assert_int_equal(f.directory, shfs_rows_int(rows, 4));
	}
}

#define LAST " AND made_n = v.n AND command_id IS NOT NULL ORDER BY seq_key DESC LIMIT 1)"

static void check_last_made(struct shfs_facts *facts)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	size_t found[2] = { 0 };

	assert_ok(shfs_rows_open(the_index,
	                         "SELECT version_id,"
	                         " (SELECT access_id FROM v_access WHERE file_id ="
	                         "  v.file_id AND file2_id IS NULL" LAST ","
	                         " (SELECT access_id FROM v_access WHERE file2_id ="
	                         "  v.file_id" LAST " FROM v_version v",
	                         &rows));
	while (shfs_rows_next(rows) > 0)
		for (int moved = 0; moved < 2; moved++) {
			struct shfs_access a = { 0 };
			int r = shfs_facts_last_made(facts, shfs_rows_int(rows, 0), moved,
			                             &a);

			assert_int_equal(a.access_id, shfs_rows_int(rows, 1 + moved));
			assert_int_equal(r, !!a.access_id);
			found[moved] += r;
		}
	assert_true(found[0] && found[1]);
}

/* The accesses of a file that have made a version are those of all accesses that do: they
 * are found without unpacking the others. */
static void test_by_made(void **state)
{
	static const char *const ways[] = {
		"file_id = f.file_id AND made_n IS NOT NULL",
		"file_id IN (f.file_id, f.file_id + 1) AND made_n IS NOT NULL",
		"file_id = f.file_id AND made_n = 1",
		"file_id = f.file_id AND file2_id IS NULL AND made_n > 0 AND made_n IS "
		"NOT NULL",
	};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		_cleanup_buf_ struct shfs_buf sql = { 0 };
		_cleanup_rows_ struct shfs_rows *rows = NULL;
		size_t found = 0;

		/* "+": by a scan of all */
		shfs_buf_printf(
			&sql,
			"SELECT coalesce((SELECT group_concat(access_id) FROM (SELECT"
			" access_id FROM v_access WHERE %s ORDER BY 1)), ''),"
			" coalesce((SELECT group_concat(access_id) FROM (SELECT"
			" access_id FROM v_access WHERE +%s ORDER BY 1)), '')"
			" FROM v_file f",
			ways[i], ways[i]);
		assert_ok(shfs_rows_open(the_index, sql.data, &rows));
		while (shfs_rows_next(rows) > 0) {
			assert_string_equal(shfs_rows_text(rows, 0),
			                    shfs_rows_text(rows, 1));
			found += *shfs_rows_text(rows, 0) != '\0';
		}
		assert_true(found > 1);
	}
}

/* A version that does not say that it was made again is of one access; what was moved or
 * linked there is of one more, by its name before. */
static void check_made_again(struct shfs_facts *facts)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	size_t n_again = 0, n_once = 0;

	assert_ok(shfs_rows_open(the_index,
	                         "SELECT version_id, (SELECT count(*) FROM v_access a"
	                         "  WHERE coalesce(file2_id, file_id) = v.file_id"
	                         "  AND made_n = v.n AND access_id IS NOT v.access_id)"
	                         " FROM v_version v",
	                         &rows));
	while (shfs_rows_next(rows) > 0) {
		struct shfs_version_fact v;
		int64_t others = shfs_rows_int(rows, 1);

		assert_int_equal(shfs_facts_version(facts, shfs_rows_int(rows, 0), &v),
		                 1);
		n_again += v.again;
		n_once += !v.again;
		if (!v.again)
			assert_true(others <=
			            (v.carried || v.source == SHFS_SOURCE_LINKED));
	}
	assert_true(n_again >= 2 && n_once);
}

static int add_fact(const struct shfs_access *a, void *arg)
{
	shfs_buf_printf(arg, "%lld %lld %u %lld %lld %lld %lld %lld %lld\n",
	                (long long)a->access_id, (long long)a->seq, a->flags,
	                (long long)a->file_id, (long long)a->file2_id,
	                (long long)a->seen_n, (long long)a->made_n,
	                (long long)shfs_access_begin_ns(a),
	                (long long)shfs_access_end_ns(a));
	return 0;
}

static int add_id(int64_t id, void *arg)
{
	shfs_buf_printf(arg, "%lld\n", (long long)id);
	return 0;
}

static int add_process(const struct shfs_process_fact *p, void *arg)
{
	shfs_buf_printf(arg, "%lld %lld %lld %lld %lld %lld\n", (long long)p->process_id,
	                (long long)p->program_id, (long long)p->pid, (long long)p->ppid,
	                (long long)p->start_ticks, (long long)p->first_ns);
	return 0;
}

/* What has an order of its own, as one text. */
static void show_lists(struct shfs_facts *facts, struct shfs_buf *out)
{
	int64_t moved =
		number("SELECT version_id FROM v_version WHERE path LIKE '%/out'");

	for (int64_t id = 0; id < 12; id++) {
		int64_t program, command = -1;

		assert_ok(shfs_facts_of_command(facts, id, add_fact, out));
		assert_ok(shfs_facts_of_nobody(facts, id, add_fact, out));
		assert_ok(shfs_facts_processes(facts, id, add_process, out));
		assert_ok(shfs_facts_of_process(facts, id, add_fact, out));
		assert_int_equal(shfs_facts_owner(facts, id << 32 | 1, &command), 1);
		add_id(command, out);
		if (shfs_facts_program(facts, id, &program))
			add_id(program, out);
	}
	assert_true(moved);
	assert_ok(shfs_facts_moved(facts, moved, add_id, out));
	assert_ok(shfs_facts_below(facts, "/", add_id, out));
	for (int64_t id = 1; id < 330; id++) {
		_cleanup_free_ char *path = NULL;

		assert_ok(shfs_facts_opens_of_file(facts, id, add_fact, out));
		assert_ok(shfs_facts_same(facts, id << 32 | 1, add_id, out));
		if (shfs_facts_path(facts, id, &path))
			assert_ok(shfs_facts_below(facts, path, add_id, out));
	}
}

static void test_facts(void **state)
{
	struct shfs_buf lists[2] = { 0 };

	for (int all = 0; all < 2; all++) {
		struct shfs_facts *facts;

		assert_ok(shfs_facts_new(the_index, &facts));
		if (all)
			assert_ok(shfs_facts_load(facts));
		show_lists(facts, &lists[all]);
		shfs_facts_free(facts);
		assert_ok(shfs_facts_new(the_index, &facts));
		if (all)
			assert_ok(shfs_facts_load(facts));
		check_versions(facts);
		check_files(facts);
		check_last_made(facts);
		check_made_again(facts);
		shfs_facts_free(facts);
	}
	assert_string_equal(lists[0].data, lists[1].data);
	shfs_buf_free(&lists[0]);
	shfs_buf_free(&lists[1]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_accesses),     TEST(test_stopped),  TEST(test_paths),
		TEST(test_uses_counted), TEST(test_versions), TEST(test_facts),
		TEST(test_by_made),
	};

	return shfs_unit_main(tests, argc, argv);
}
