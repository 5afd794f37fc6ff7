/* SPDX-License-Identifier: MIT */
/* Tests of store/journal/origin.c. */
#include "tests/unit/unit.h"

#include "common/proc.h"
#include "store/journal/origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct shfs_bytes bytes_of(const char *text)
{
	return (struct shfs_bytes){ text, strlen(text) };
}

static int parse(const char *value, struct shfs_origin *out)
{
	return shfs_origin_parse(bytes_of(value), out);
}

static void values(void **state)
{
	static const char *const bad[] = {
		"",
		"hosta",
		"hosta:",
		"hosta:01234567-1-2",
		"hosta:01234567-1-2:",
		":01234567-1-2:3",
		".hosta:01234567-1-2:3",
		"ho/sta:01234567-1-2:3",
		"ho sta:01234567-1-2:3",
		"h\303\266st:01234567-1-2:3",
		"hosta:0123456-1-2:3",
		"hosta:012345678-1-2:3",
		"hosta:0123456A-1-2:3",
		"hosta:01234567-0-2:3",
		"hosta:01234567-1-2:0",
		"hosta:01234567-01-2:3",
		"hosta:01234567-1-02:3",
		"hosta:01234567-1-2:03",
		"hosta:01234567-4294967296-2:3",
		"hosta:01234567-1-9223372036854775808:3",
		"hosta:01234567-1-2:18446744073709551617",
		"hosta:01234567-1-2:-3",
		"hosta:01234567-1-2:+3",
		"hosta:01234567-1-2: 3",
		"hosta:01234567-1-2:3 ",
		"hosta:01234567-1-2:3@",
		"hosta:01234567-1-2-unit:3",
		"x0123456789012345678901234567890123456789012345678901234567890123"
		"4:01234567-1-2:3",
	};
	struct shfs_origin o = { .pid = 9 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse(bad[i], &o), -EBADMSG);
	assert_int_equal(o.pid, 9);
	assert_int_equal(parse("a-b.c_1:01234567-4294967295-9223372036854775807:"
	                       "9223372036854775807",
	                       &o),
	                 0);
	assert_string_equal(o.host, "a-b.c_1");
	assert_string_equal(o.boot, "01234567");
	assert_true(o.pid == UINT32_MAX && o.start_ticks == INT64_MAX &&
	            o.number == INT64_MAX);
	assert_int_equal(parse("x012345678901234567890123456789012345678901234567890"
	                       "123456789012:01234567-1-0:1",
	                       &o),
	                 0);
}

/* What is taken is written in one way only: so equal texts are equal origins. */
static void random_values(void **state)
{
	static const char letters[] = "ab09-.:_ f";
	unsigned taken = 0;

	srand(1);
	for (int n = 0; n < 300000; n++) {
		char text[48] = "h:0123abcd-1-2:3", again[200];
		struct shfs_origin o;

		for (int i = rand() % 3; i >= 0; i--)
			text[rand() % 16] = letters[rand() % (sizeof(letters) - 1)];
		if (parse(text, &o))
			continue;
		taken++;
		snprintf(again, sizeof(again), "%s:%s-%u-%llu:%llu", o.host, o.boot,
		         o.pid, (unsigned long long)o.start_ticks,
		         (unsigned long long)o.number);
		assert_string_equal(again, text);
	}
	assert_in_range(taken, 1000, 290000);
}

#define ADDED(environ, expected)                                                         \
	is_added((struct shfs_bytes){ environ, sizeof(environ) - 1 }, expected)

static void is_added(struct shfs_bytes environ, const char *expected)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_origin_add(environ, &out);
	shfs_buf_u8(&out, 0);
	assert_string_equal(out.data, expected);
}

#define ORIGIN "no-such-host:01234567-1-2:3"

static void environments(void **state)
{
	_cleanup_buf_ struct shfs_buf here = { 0 };
	char host[65];

	ADDED("", "");
	ADDED("LC_SHFS=" ORIGIN "\0", "@" ORIGIN);
	ADDED("LC_SHFS=\0", "");
	ADDED("LC_SHFS=" ORIGIN " agent x\0", "");
	ADDED("XLC_SHFS=" ORIGIN "\0", "");
	/* the hook of this host, which was renamed since */
	ADDED("LC_SHFS=" ORIGIN "\0SHFS_SESSION=01234567-1-2\0SHFS_COMMAND=3\0", "");
	ADDED("LC_SHFS=" ORIGIN "\0SHFS_SESSION=01234567-1-2-u\0SHFS_COMMAND=3\0", "");
	ADDED("LC_SHFS=" ORIGIN "\0SHFS_SESSION=01234567-1-22\0SHFS_COMMAND=3\0",
	      "@" ORIGIN);
	ADDED("LC_SHFS=" ORIGIN "\0SHFS_SESSION=01234567-1-2\0SHFS_COMMAND=4\0",
	      "@" ORIGIN);
	shfs_proc_host(host);
	shfs_buf_printf(&here, "LC_SHFS=%s:01234567-1-2:3", host);
	shfs_buf_u8(&here, 0);
	is_added((struct shfs_bytes){ here.data, here.len }, "");
}

static void of_markers(void **state)
{
	struct shfs_bytes origin = shfs_origin_of_marker(bytes_of("a-1-2-3@" ORIGIN));

	assert_int_equal(origin.len, strlen(ORIGIN));
	assert_null(shfs_origin_of_marker(bytes_of("a-1-2-3")).data);
	assert_null(shfs_origin_of_marker(bytes_of("")).data);
	assert_int_equal(shfs_origin_of_marker(bytes_of("@")).len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(random_values),
		cmocka_unit_test(environments),
		cmocka_unit_test(of_markers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
