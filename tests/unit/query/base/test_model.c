/* SPDX-License-Identifier: MIT */
/* Tests of query/base/model.c. */
#include "tests/unit/indexkit.h"

#include "query/base/model.h"

#include <errno.h>
#include <locale.h>

static struct shfs_buf out;

static const char *shown(void)
{
	assert_false(out.failed);
	out.len = 0;
	return out.data;
}

static const char *first_line(const char *text, size_t width)
{
	shfs_show_first_line(&out, text, strlen(text), width);
	return shown();
}

static void test_first_line(void **state)
{
	assert_string_equal(first_line("", 10), "");
	assert_string_equal(first_line("0123456789", 10), "0123456789");
	assert_string_equal(first_line("0123456789a", 10), "012345678…");
	assert_string_equal(first_line("one\ntwo", 10), "one …");
	assert_string_equal(first_line("one\n", 10), "one …");
	assert_string_equal(first_line("\033[31mred", 20), "\\e[31mred");
	assert_string_equal(first_line("äöüäöü", 5), "äöüä…");
	assert_string_equal(first_line("日本語日本語", 7), "日本語…");
	assert_string_equal(first_line("日本語", 6), "日本語");
	assert_string_equal(first_line("a\xff", 10), "a\\xff");
}

static const char *tail(const char *text, size_t width)
{
	shfs_show_tail(&out, text, width);
	return shown();
}

static void test_tail(void **state)
{
	assert_string_equal(tail("0123456789", 10), "0123456789");
	assert_string_equal(tail("0123456789a", 10), "…23456789a");
	assert_string_equal(tail("äöüäöü", 3), "…öü");
	assert_string_equal(tail("日本語", 5), "…本語");
	assert_string_equal(tail("日本語", 4), "…語");
	assert_string_equal(tail("abc", 1), "…");
}

static const char *size(uint64_t bytes)
{
	shfs_show_size(&out, bytes);
	return shown();
}

static void test_size(void **state)
{
	assert_string_equal(size(0), "0 B");
	assert_string_equal(size(1023), "1023 B");
	assert_string_equal(size(1024), "1.0 KiB");
	assert_string_equal(size(1536), "1.5 KiB");
	assert_string_equal(size(20 << 20), "20 MiB");
	assert_string_equal(size(UINT64_MAX), "16 EiB");
}

static const char *path(const char *p)
{
	shfs_show_path(&out, p);
	return shown();
}

static void test_path(void **state)
{
	const char *dir = shfs_unit_tmpdir();
	char text[512];

	assert_ok(chdir(dir)); /* the working directory is asked for once */
	assert_ok(setenv("HOME", "/home/u", 1));
	snprintf(text, sizeof(text), "%s/a/b\n", dir);
	assert_string_equal(path(text), "a/b\\n");
	assert_string_equal(path(dir), ".");
	snprintf(text, sizeof(text), "%sx", dir);
	assert_string_equal(path(text), text);
	assert_string_equal(path("/home/u"), "~");
	assert_string_equal(path("/home/u/f"), "~/f");
	assert_string_equal(path("/home/uu/f"), "/home/uu/f");
}

static void test_bookkeeping(void **state)
{
	assert_int_equal(shfs_path_bookkeeping("/p/.git/objects/ab"), strlen("/p/.git"));
	assert_int_equal(shfs_path_bookkeeping("/p/a/.git"), strlen("/p/a/.git"));
	assert_int_equal(shfs_path_bookkeeping("/p/__pycache__/x.pyc"),
	                 strlen("/p/__pycache__"));
	assert_int_equal(shfs_path_bookkeeping("/p/.gitignore"), 0);
	assert_int_equal(shfs_path_bookkeeping("/p/x.git/f"), 0);
	assert_int_equal(shfs_path_bookkeeping("/p/git/f"), 0);
	assert_int_equal(shfs_path_bookkeeping("/usr/lib/x/libc.so.6"), 8);
	assert_int_equal(shfs_path_bookkeeping("/etc/hostname"), 0);
	assert_int_equal(shfs_path_bookkeeping("/etc/ld.so.cache"), 16);
	assert_true(shfs_path_is_version_control("/p/.hg/store/f"));
	assert_false(shfs_path_is_version_control("/p/__pycache__/x.pyc"));
	assert_false(shfs_path_is_version_control("/"));
}

static void test_is_id(void **state)
{
	assert_true(shfs_command_is_id("0123"));
	assert_true(shfs_command_is_id("0123456789abcDEF"));
	assert_false(shfs_command_is_id("012"));
	assert_false(shfs_command_is_id("0123456789abcdef0"));
	assert_false(shfs_command_is_id("012g"));
	assert_false(shfs_command_is_id(""));
}

/* Shown ids are as short as they can be, from 7 digits on. */
static void test_ids(void **state)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct kit k;
	int64_t id;

	kit_open(&k);
	kit_mount(&k);
	kit_shell(&k, 500, 10, 20);
	for (unsigned i = 1; i <= 300; i++)
		kit_begin(&k, i, 1000 + i, 500, "true");
	kit_umount(&k);
	kit_ingest(&k);
	assert_ok(shfs_index_open(k.store, SHFS_INDEX_READ, &index));
	assert_ok(shfs_rows_open(index, "SELECT id, command_id FROM v_command", &rows));
	while (shfs_rows_next(rows) > 0) {
		assert_ok(shfs_show_id(index, &out, shfs_rows_text(rows, 0)));
		assert_true(out.len >= 7 && out.len <= 16);
		assert_int_equal(shfs_command_find(index, shown(), &id), 1);
		assert_int_equal(id, shfs_rows_int(rows, 1));
	}
	assert_int_equal(shfs_command_find(index, "zzzz", &id), 0);
	assert_int_equal(shfs_command_find(index, "", &id), 0);
	kit_close(&k);
}

/* A statement that is used again knows nothing of the one before. */
static void test_rows_again(void **state)
{
	static const char sql[] = "SELECT ?1";
	_cleanup_index_ struct shfs_index *index = NULL;
	struct shfs_rows *rows, *other;
	struct kit k;

	kit_open(&k);
	kit_ingest(&k);
	assert_ok(shfs_index_open(k.store, SHFS_INDEX_READ, &index));
	for (int i = 0; i < 40; i++) {
		assert_ok(shfs_rows_open(index, sql, &rows));
		assert_ok(shfs_rows_open(index, sql, &other));
		assert_ok(shfs_rows_bind_int(rows, 1, 7));
		assert_int_equal(shfs_rows_next(other), 1);
		assert_true(shfs_rows_is_null(other, 0));
		assert_int_equal(shfs_rows_next(rows), 1);
		assert_int_equal(shfs_rows_int(rows, 0), 7);
		shfs_rows_close(rows);
		shfs_rows_close(other);
		/* what may not be asked is not kept for the next one either */
		assert_int_equal(shfs_rows_open(index, "DELETE FROM access", &rows),
		                 -EINVAL);
	}
	kit_close(&k);
}

static int teardown(void **state)
{
	shfs_buf_free(&out);
	out = (struct shfs_buf){ 0 };
	return 0;
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_first_line, teardown),
		cmocka_unit_test_teardown(test_tail, teardown),
		cmocka_unit_test_teardown(test_size, teardown),
		cmocka_unit_test_teardown(test_path, teardown),
		cmocka_unit_test_teardown(test_bookkeeping, teardown),
		cmocka_unit_test_teardown(test_is_id, teardown),
		cmocka_unit_test_teardown(test_ids, teardown),
		cmocka_unit_test_teardown(test_rows_again, teardown),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return shfs_unit_main(tests, argc, argv);
}
