/* SPDX-License-Identifier: MIT */
/* Tests of query/history/version-spec.c. */
#include "tests/unit/indexkit.h"

#include "query/history/version-spec.h"

/* --- taking it apart --- */

static void check_parse(const char *operand, enum shfs_version_spec_kind kind,
                        const char *path, uint64_t n, const char *text)
{
	_cleanup_version_spec_ struct shfs_version_spec spec = { 0 };

	assert_ok(shfs_version_spec_parse(operand, &spec));
	assert_int_equal(spec.kind, kind);
	assert_string_equal(spec.path, path);
	assert_int_equal(spec.n, n);
	if (text)
		assert_string_equal(spec.text, text);
	else
		assert_null(spec.text);
}

static void test_parse(void **state)
{
	check_parse("f", SHFS_SPEC_LATEST, "f", 0, NULL);
	check_parse("f@3", SHFS_SPEC_NUMBER, "f", 3, NULL);
	check_parse("f@0", SHFS_SPEC_NUMBER, "f", 0, NULL);
	check_parse("f@007", SHFS_SPEC_NUMBER, "f", 7, NULL);
	check_parse("f@99999999999999999999999", SHFS_SPEC_NUMBER, "f", UINT64_MAX, NULL);
	check_parse("a@b@2", SHFS_SPEC_NUMBER, "a@b", 2, NULL);
	check_parse("f@", SHFS_SPEC_LATEST, "f@", 0, NULL);
	check_parse("f@x", SHFS_SPEC_LATEST, "f@x", 0, NULL);
	check_parse("f@-1", SHFS_SPEC_LATEST, "f@-1", 0, NULL);
	check_parse("12", SHFS_SPEC_LATEST, "12", 0, NULL);
	check_parse("f@{2 hours ago}", SHFS_SPEC_BRACES, "f", 0, "2 hours ago");
	check_parse("f@{1}@{now}", SHFS_SPEC_BRACES, "f@{1}", 0, "now");
	check_parse("f@{x", SHFS_SPEC_LATEST, "f@{x", 0, NULL);
	check_parse("f}", SHFS_SPEC_LATEST, "f}", 0, NULL);
	check_parse("d/f@{}@2", SHFS_SPEC_NUMBER, "d/f@{}", 2, NULL);
}

static void test_parse_nothing(void **state)
{
	static const char *const operands[] = { "", "@3", "@{now}", "f@{}" };

	for (size_t i = 0; i < ARRAY_SIZE(operands); i++) {
		struct shfs_version_spec spec;

		assert_int_equal(shfs_version_spec_parse(operands[i], &spec), -EINVAL);
	}
}

/* --- finding it --- */

static struct kit k;
static struct shfs_index *the_index;
static char id[2][17];

static int setup(void **state)
{
	uint64_t p;

	kit_open(&k);
	kit_mount(&k);
	kit_shell(&k, 500, 1000, 2000);
	kit_begin(&k, 1, 3000, 500, "first");
	p = kit_process(&k, 501, 3020, 500, 1000);
	kit_read(&k, p, "f", 3030, kit_content(&k, "old", 100));
	kit_write(&k, p, "f", 3040, kit_content(&k, "one", 3040));
	kit_write(&k, p, "f", 3050, kit_content(&k, "two", 3050));
	kit_write(&k, p, "odd@2", 3060, kit_content(&k, "odd", 3060));
	kit_write(&k, p, "both@1", 3070, kit_content(&k, "with", 3070));
	kit_write(&k, p, "both", 3080, kit_content(&k, "without", 3080));
	kit_end(&k, 1, 3500, 501, 0);
	kit_begin(&k, 2, 9000, 501, "second");
	p = kit_process(&k, 502, 9020, 500, 1000);
	kit_read(&k, p, "f", 9030, kit_content(&k, "two", 3050));
	kit_write(&k, p, "g", 9040, kit_content(&k, "g", 9040));
	kit_end(&k, 2, 9500, 502, 0);
	kit_umount(&k);
	kit_ingest(&k);
	snprintf(id[0], sizeof(id[0]), "%s",
	         kit_ask(&k, 1, "SELECT id FROM v_command WHERE text = 'first'"));
	snprintf(id[1], sizeof(id[1]), "%s",
	         kit_ask(&k, 1, "SELECT id FROM v_command WHERE text = 'second'"));
	return shfs_index_open(k.store, SHFS_INDEX_READ, &the_index);
}

static int teardown(void **state)
{
	shfs_index_close(the_index);
	kit_close(&k);
	return 0;
}

/* "f@3", or the exit code as a number. */
static const char *found(const char *fmt, ...)
{
	_cleanup_version_ struct shfs_version v = { 0 };
	_cleanup_free_ char *operand = NULL;
	static char text[128];
	va_list ap;
	int code;

	va_start(ap, fmt);
	assert_true(vasprintf(&operand, fmt, ap) >= 0);
	va_end(ap);
	code = shfs_version_spec_find(the_index, operand, &v);
	if (code)
		snprintf(text, sizeof(text), "%d", code);
	else
		snprintf(text, sizeof(text), "%s@%d", strrchr(v.path, '/') + 1, (int)v.n);
	return text;
}

#define F KIT_ROOT "/f"

static void test_find_number(void **state)
{
	assert_string_equal(found(F), "f@3");
	assert_string_equal(found(F "@1"), "f@1");
	assert_string_equal(found(F "@3"), "f@3");
	assert_string_equal(found(F "@0"), "3");
	assert_string_equal(found(F "@4"), "3");
	assert_string_equal(found(F "@99999999999999999999999"), "3");
	assert_string_equal(found(KIT_ROOT "/never"), "3");
	assert_string_equal(found(KIT_ROOT "/never@1"), "3");
	assert_string_equal(found("@1"), "2");
}

static void test_find_odd_names(void **state)
{
	/* the file of that whole name, for there is no odd */
	assert_string_equal(found(KIT_ROOT "/odd@2"), "odd@2@1");
	assert_string_equal(found(KIT_ROOT "/odd@2@1"), "odd@2@1");
	assert_string_equal(found(KIT_ROOT "/both@1"), "both@1");
	assert_string_equal(found(KIT_ROOT "/both@1@{now}"), "both@1@1");
}

static void test_find_time(void **state)
{
	long long at = kit_time(&k, 3045).real_ns;

	assert_string_equal(found(F "@{now}"), "f@3");
	assert_string_equal(found(F "@{@%lld.%09lld}", at / 1000000000, at % 1000000000),
	                    "f@2");
	assert_string_equal(found(F "@{1970-01-02}"), "3");
	assert_string_equal(found(F "@{sometime}"), "2");
}

static void test_find_command(void **state)
{
	assert_string_equal(found(F "@{%s}", id[0]), "f@3");
	assert_string_equal(found(F "@{%.7s}", id[0]), "f@3");
	/* it wrote nothing there: what it read */
	assert_string_equal(found(F "@{%s}", id[1]), "f@3");
	assert_string_equal(found(KIT_ROOT "/g@{%s}", id[1]), "g@1");
	assert_string_equal(found(KIT_ROOT "/g@{%s}", id[0]), "3");
	assert_string_equal(found(F "@{0000000000000000}"), "3");
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parse_nothing),
		cmocka_unit_test_setup_teardown(test_find_number, setup, teardown),
		cmocka_unit_test_setup_teardown(test_find_odd_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_find_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_find_command, setup, teardown),
	};

	return shfs_unit_main(tests, argc, argv);
}
