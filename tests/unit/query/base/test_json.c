/* SPDX-License-Identifier: MIT */
/* Tests of query/base/json.c. */
#include "tests/unit/unit.h"

#include "query/base/json.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

/* A document with everything in it that the writer can write. */
static void fill(struct shfs_json *j)
{
	shfs_json_begin(j, "test");
	shfs_json_str(j, "none", NULL);
	shfs_json_array(j, "empty");
	shfs_json_array_end(j);
	shfs_json_array(j, "list");
	for (int i = 0; i < 2; i++) {
		shfs_json_object(j, NULL);
		shfs_json_int(j, "i", i);
		shfs_json_array(j, "deep");
		shfs_json_object(j, NULL);
		shfs_json_object_end(j);
		shfs_json_array(j, NULL);
		shfs_json_int(j, NULL, INT64_MIN);
		shfs_json_null(j, NULL);
		shfs_json_array_end(j);
		shfs_json_array_end(j);
		shfs_json_object_end(j);
	}
	shfs_json_array_end(j);
	shfs_json_bool(j, "yes", true);
	shfs_json_text(j, "a \"key\"\n", "a\0b\"\\", 5);
	shfs_json_time(j, "time", 1500000000);
}

static const char expected[] =
	"{\n"
	"  \"shfs\": \"test\",\n"
	"  \"version\": 1,\n"
	"  \"none\": null,\n"
	"  \"empty\": [],\n"
	"  \"list\": [\n"
	"    {\"i\": 0, \"deep\": [{}, [-9223372036854775808, null]]},\n"
	"    {\"i\": 1, \"deep\": [{}, [-9223372036854775808, null]]}\n"
	"  ],\n"
	"  \"yes\": true,\n"
	"  \"a \\\"key\\\"\\n\": \"a\\u0000b\\\"\\\\\",\n"
	"  \"time\": \"1970-01-01T00:00:01.500000000Z\"\n"
	"}\n";

/* What the calls write to standard output. */
static void capture(void (*write)(void), char *out, size_t size)
{
	int saved = dup(STDOUT_FILENO), fd = memfd_create("stdout", MFD_CLOEXEC);
	ssize_t n;

	assert_true(saved >= 0 && fd >= 0);
	fflush(stdout);
	assert_true(dup2(fd, STDOUT_FILENO) >= 0);
	write();
	fflush(stdout);
	assert_true(dup2(saved, STDOUT_FILENO) >= 0);
	n = pread(fd, out, size - 1, 0);
	assert_true(n >= 0);
	out[n] = '\0';
	close(saved);
	close(fd);
}

static void write_whole(void)
{
	struct shfs_json j = { 0 };

	fill(&j);
	assert_true(shfs_json_end(&j));
}

static void write_in_pieces(void)
{
	struct shfs_json j = { 0 };

	assert_true(shfs_json_flush(&j));
	fill(&j);
	assert_true(shfs_json_flush(&j));
	shfs_json_int(&j, "more", 1);
	assert_true(shfs_json_end(&j));
}

static void test_layout(void **state)
{
	char got[2048];

	capture(write_whole, got, sizeof(got));
	assert_string_equal(got, expected);
}

static void test_valid(void **state)
{
	char got[2048];
	json_error_t error;
	json_t *root;

	capture(write_in_pieces, got, sizeof(got));
	root = json_loads(got, JSON_ALLOW_NUL, &error);
	if (!root)
		fail_msg("%d: %s\n%s", error.line, error.text, got);
	assert_int_equal(json_array_size(json_object_get(root, "list")), 2);
	assert_int_equal(json_integer_value(json_object_get(root, "more")), 1);
	assert_int_equal(json_integer_value(json_object_get(root, "version")),
	                 SHFS_JSON_VERSION);
	json_decref(root);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_valid),
	};

	return shfs_unit_main(tests, argc, argv);
}
