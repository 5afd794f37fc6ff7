/* SPDX-License-Identifier: MIT */
/* Tests of query/graph/compare.c, on long chains. */
#include "tests/unit/indexkit.h"

#include "query/graph/compare.h"

#define LENGTH 300 /* commands of a run */

static struct kit k;

static int teardown(void **state)
{
	kit_close(&k);
	return 0;
}

static void file_name(char out[static 16], unsigned i)
{
	snprintf(out, 16, "f%u", i);
}

/* One that reads file i and writes the next. */
static void step(unsigned number, unsigned i, const char *content)
{
	struct shfs_content c = kit_content(&k, content, strlen(content));
	double ms = number * 100;
	char from[16], to[16];
	uint64_t p;

	kit_begin(&k, number, ms, 500 + number, "step");
	p = kit_process(&k, 501 + number, ms + 20, 500, 10);
	file_name(from, i);
	file_name(to, i + 1);
	kit_read(&k, p, from, ms + 40, c);
	kit_access(&k, p, to, ms + 50, ms + 50,
	           SHFS_ACCESS_WRITTEN | (number > LENGTH ? SHFS_ACCESS_TRUNCATED
	                                                  : SHFS_ACCESS_CREATED),
	           NULL, &c);
	kit_end(&k, number, ms + 80, 501 + number, 0);
}

static int64_t last_command(struct shfs_index *index, int64_t number)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;

	assert_ok(shfs_rows_open(index,
	                         "SELECT command_id FROM v_command WHERE number = ?1",
	                         &rows));
	assert_ok(shfs_rows_bind_int(rows, 1, number));
	assert_int_equal(shfs_rows_next(rows), 1);
	return shfs_rows_int(rows, 0);
}

/* Two long runs, of which the first files differ: each command is a stage. */
static void test_long(void **state)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_comparison_ struct shfs_comparison *c = NULL;
	int64_t ids[2];
	size_t n = 0;

	kit_open(&k);
	kit_mount_at(&k, "/p", 0);
	kit_shell(&k, 500, 10, 20);
	for (unsigned run = 0; run < 2; run++)
		for (unsigned i = 0; i < LENGTH; i++)
			step(run * LENGTH + i + 1, i, run ? "two" : "one");
	kit_ingest(&k);
	assert_ok(shfs_index_open(k.store, SHFS_INDEX_READ, &index));
	ids[0] = last_command(index, LENGTH);
	ids[1] = last_command(index, 2 * LENGTH);
	assert_ok(shfs_compare(index, ids, &c));
	for (struct shfs_stage *s = shfs_comparison_stages(c); s; s = s->next) {
		const struct shfs_difference *d = s->differences;

		assert_int_equal(d->kind, SHFS_DIFFERENT_INPUT);
		assert_int_equal(d->explained, n > 0);
		assert_int_equal(d->next->kind, SHFS_DIFFERENT_RESULT);
		assert_null(d->next->next);
		n++;
	}
	assert_int_equal(n, LENGTH);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_long, teardown),
	};

	return shfs_unit_main(tests, argc, argv);
}
