/* SPDX-License-Identifier: MIT */
#include "tests/unit/records.h"

#include <errno.h>

static void each_type_comes_back(void **state)
{
	struct shfs_record rec;

	for (unsigned n = 0; records_get(n, &rec); n++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };
		struct shfs_record back = { .type = rec.type, .seq = 99 };

		assert_int_equal(shfs_record_encode(&rec, &b), 0);
		assert_int_equal(shfs_record_decode(b.data, b.len, &back), 0);
		records_same_payload(&rec, &back);
		assert_int_equal(back.seq, 99); /* the union alone is set */
	}
}

/* The bytes are cut out, so that a sanitizer sees a read behind them. */
static int decode_copy(const struct shfs_buf *b, size_t len, struct shfs_record *rec)
{
	char *exact = malloc(len ? len : 1);
	int r;

	assert_non_null(exact);
	if (len)
		memcpy(exact, b->data, len);
	r = shfs_record_decode(exact, len, rec);
	free(exact);
	return r;
}

/* Bytes at the end of a payload that records of shfs 0.1 do not have. */
static size_t newer_bytes(const struct shfs_record *rec)
{
	switch (rec->type) {
	case SHFS_REC_PROCESS:
		return 4 + rec->process.marker.len;
	case SHFS_REC_PATHOP:
		return 20;
	default:
		return 0;
	}
}

static void each_truncation_is_refused(void **state)
{
	struct shfs_record rec;

	for (unsigned n = 0; records_get(n, &rec); n++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		assert_int_equal(shfs_record_encode(&rec, &b), 0);
		for (size_t len = 0; len < b.len; len++) {
			struct shfs_record back = { .type = rec.type };
			bool is_whole = len + newer_bytes(&rec) == b.len;

			if (decode_copy(&b, len, &back) != (is_whole ? 0 : -EBADMSG))
				fail_msg("record %u cut at %zu of %zu", n, len, b.len);
		}
	}
}

/*
 * Every byte of every payload set to each of some values: an error or a record, no crash.
 */
static void damage_is_harmless(void **state)
{
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };
	struct shfs_record rec;

	for (unsigned n = 0; records_get(n, &rec); n++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		assert_int_equal(shfs_record_encode(&rec, &b), 0);
		for (size_t i = 0; i < b.len; i++) {
			for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
				struct shfs_record back = { .type = rec.type };
				char was = b.data[i];
				int r;

				b.data[i] = (char)values[v];
				r = decode_copy(&b, b.len, &back);
				b.data[i] = was;
				assert_true(r == 0 || r == -EBADMSG);
			}
		}
	}
}

static void longer_payloads_are_of_a_newer_version(void **state)
{
	struct shfs_record rec;

	for (unsigned n = 0; records_get(n, &rec); n++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };
		struct shfs_record back = { .type = rec.type };

		assert_int_equal(shfs_record_encode(&rec, &b), 0);
		shfs_buf_str(&b, "a field of the future");
		assert_int_equal(shfs_record_decode(b.data, b.len, &back), 0);
		records_same_payload(&rec, &back);
	}
}

static void unknown_types(void **state)
{
	static const enum shfs_record_type hooks[] = { SHFS_REC_SESSION, SHFS_REC_BEGIN,
		                                       SHFS_REC_FINISH, 0, 999 };
	_cleanup_buf_ struct shfs_buf b = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		struct shfs_record rec = { .type = hooks[i] };

		assert_int_equal(shfs_record_encode(&rec, &b), -EINVAL);
		assert_int_equal(shfs_record_decode("abc", 3, &rec), -ENOTSUP);
	}
	assert_int_equal(b.len, 0);
}

/* A file that could not even be looked at: why there is no content must come through. */
static void reasons_without_a_content(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE }, back = rec;

	rec.preimage.content.flags = SHFS_CONTENT_SKIP_ERROR;
	rec.preimage.content.size = 5; /* not known, so not told */
	assert_int_equal(shfs_record_encode(&rec, &b), 0);
	assert_int_equal(shfs_record_decode(b.data, b.len, &back), 0);
	assert_int_equal(back.preimage.content.flags, SHFS_CONTENT_SKIP_ERROR);
	assert_int_equal(back.preimage.content.size, 0);
}

static void unknown_content_claims_nothing(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE }, back = rec;

	rec.preimage.content.flags = SHFS_CONTENT_OBJECT | SHFS_CONTENT_PHASH;
	assert_int_equal(shfs_record_encode(&rec, &b), 0);
	assert_int_equal(shfs_record_decode(b.data, b.len, &back), 0);
	assert_int_equal(back.preimage.content.flags, 0);
}

static void huge_strings(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 }, path = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE }, back = rec;

	for (int i = 0; i < 1 << 20; i++)
		shfs_buf_char(&path, (char)(i % 255 + 1));
	rec.preimage.path = (struct shfs_bytes){ path.data, path.len };
	assert_int_equal(shfs_record_encode(&rec, &b), 0);
	assert_int_equal(shfs_record_decode(b.data, b.len, &back), 0);
	records_same_payload(&rec, &back);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_type_comes_back),
		cmocka_unit_test(each_truncation_is_refused),
		cmocka_unit_test(damage_is_harmless),
		cmocka_unit_test(longer_payloads_are_of_a_newer_version),
		cmocka_unit_test(unknown_types),
		cmocka_unit_test(reasons_without_a_content),
		cmocka_unit_test(unknown_content_claims_nothing),
		cmocka_unit_test(huge_strings),
	};

	return shfs_unit_main(tests, argc, argv);
}
