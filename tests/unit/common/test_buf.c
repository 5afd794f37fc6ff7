/* SPDX-License-Identifier: MIT */
/* Tests of common/buf.c. */
#include "tests/unit/unit.h"

#include "common/buf.h"

#include <string.h>

static void strings_are_terminated(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	shfs_buf_add(&b, "", 0);
	assert_non_null(b.data);
	assert_string_equal(b.data, "");
	shfs_buf_str(&b, "one");
	shfs_buf_char(&b, '-');
	shfs_buf_printf(&b, "%d %s", -7, "two");
	assert_string_equal(b.data, "one--7 two");
	assert_int_equal(b.len, strlen(b.data));
	assert_false(b.failed);
}

static void ints_are_decimal(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	shfs_buf_int(&b, 0);
	shfs_buf_int(&b, -7);
	shfs_buf_int(&b, INT64_MAX);
	shfs_buf_int(&b, INT64_MIN);
	assert_string_equal(b.data, "0-79223372036854775807-9223372036854775808");
}

/* A printf that needs just as much as there is, a byte more and a byte less. */
static void printf_fits_at_each_length(void **state)
{
	for (int n = 0; n < 300; n++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		shfs_buf_printf(&b, "%0*d", n + 1, 1);
		shfs_buf_printf(&b, "%*s", n, "");
		assert_int_equal(b.len, 2 * n + 1);
		assert_int_equal(strlen(b.data), b.len);
		assert_true(b.cap > b.len);
		assert_int_equal(b.data[n], '1');
	}
}

static void grows_byte_by_byte(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	for (int i = 0; i < 100000; i++)
		shfs_buf_char(&b, (char)i);
	assert_int_equal(b.len, 100000);
	for (int i = 0; i < 100000; i++)
		if (b.data[i] != (char)i)
			fail_msg("byte %d", i);
}

static void no_memory_is_kept_and_harmless(void **state)
{
	struct shfs_buf b = { 0 };

	shfs_buf_str(&b, "before");
	shfs_buf_add(&b, "x", SIZE_MAX / 2);
	assert_true(b.failed);
	shfs_buf_str(&b, "after");
	shfs_buf_u64(&b, 1);
	shfs_buf_printf(&b, "%d", 1);
	assert_true(b.failed);
	assert_int_equal(b.len, 6);
	assert_null(shfs_buf_take(&b));
	assert_null(b.data);
	assert_false(b.failed);
}

static void take_empties_it(void **state)
{
	struct shfs_buf b = { 0 };
	char *s = shfs_buf_take(&b);

	assert_string_equal(s, "");
	free(s);
	shfs_buf_str(&b, "text");
	s = shfs_buf_take(&b);
	assert_string_equal(s, "text");
	free(s);
	assert_null(b.data);
	assert_int_equal(b.len, 0);
}

static void numbers_are_little_endian(void **state)
{
	static const unsigned char expected[] = { 0x01, 0x03, 0x02, 0x07, 0x06,
		                                  0x05, 0x04, 0x0f, 0x0e, 0x0d,
		                                  0x0c, 0x0b, 0x0a, 0x09, 0x08 };
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_cursor c;

	shfs_buf_u8(&b, 0x01);
	shfs_buf_u8(&b, 0x03);
	shfs_buf_u8(&b, 0x02);
	shfs_buf_u32(&b, 0x04050607);
	shfs_buf_u64(&b, 0x08090a0b0c0d0e0f);
	assert_int_equal(b.len, sizeof(expected));
	assert_memory_equal(b.data, expected, sizeof(expected));

	c = (struct shfs_cursor){ expected, expected + sizeof(expected), false };
	assert_int_equal(shfs_cursor_u8(&c), 0x01);
	assert_int_equal(shfs_cursor_u16(&c), 0x0203);
	assert_int_equal(shfs_cursor_u32(&c), 0x04050607);
	assert_true(shfs_cursor_u64(&c) == 0x08090a0b0c0d0e0f);
	assert_false(c.failed);
	assert_ptr_equal(c.p, c.end);
}

static void cursor_ends_and_stays_ended(void **state)
{
	static const unsigned char bytes[] = { 1, 2, 3, 4, 5 };
	struct shfs_cursor c = { bytes, bytes + 5, false };
	unsigned char out[4] = { 9, 9, 9, 9 };

	assert_int_equal(shfs_cursor_u32(&c), 0x04030201);
	assert_int_equal(shfs_cursor_u16(&c), 0);
	assert_true(c.failed);
	assert_int_equal(shfs_cursor_u8(&c), 0); /* there is one, but after a failure */
	shfs_cursor_copy(&c, out, sizeof(out));
	assert_memory_equal(out, "\0\0\0\0", 4);
}

static void bytes_tell_their_length(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	shfs_buf_bytes(&b, "a\0b", 3);
	shfs_buf_bytes(&b, NULL, 0);
	assert_int_equal(b.len, 11);
	assert_memory_equal(b.data, "\3\0\0\0a\0b\0\0\0\0", 11);
	if (SIZE_MAX > UINT32_MAX) {
		shfs_buf_bytes(&b, "x", (size_t)UINT32_MAX + 1);
		assert_true(b.failed);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_are_terminated),
		cmocka_unit_test(ints_are_decimal),
		cmocka_unit_test(printf_fits_at_each_length),
		cmocka_unit_test(grows_byte_by_byte),
		cmocka_unit_test(no_memory_is_kept_and_harmless),
		cmocka_unit_test(take_empties_it),
		cmocka_unit_test(numbers_are_little_endian),
		cmocka_unit_test(cursor_ends_and_stays_ended),
		cmocka_unit_test(bytes_tell_their_length),
	};

	return shfs_unit_main(tests, argc, argv);
}
