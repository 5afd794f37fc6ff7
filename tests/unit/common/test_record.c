/* SPDX-License-Identifier: MIT */
/* Tests of common/record.c. */
#include "tests/unit/records.h"

#include <errno.h>

/* Each in a batch of its own. */
static void pack_one(const struct shfs_record *rec, struct shfs_buf *out)
{
	struct shfs_record_context context = { 0 };

	shfs_record_context_reset(&context);
	assert_int_equal(shfs_record_pack(&context, rec, out), 0);
	shfs_record_context_free(&context);
}

static int unpack_next(struct shfs_record_context *context, struct shfs_cursor *c,
                       struct shfs_record *rec)
{
	*rec = (struct shfs_record){ .seq = 99 };
	return shfs_record_unpack(context, c, rec);
}

/* Of bytes that are cut out, so that a sanitizer sees a read behind them. */
static int unpack_one(const char *data, size_t len, struct shfs_record *rec)
{
	struct shfs_record_context context = { 0 };
	unsigned char *exact = malloc(len ? len : 1);
	struct shfs_cursor c = { exact, exact + len, false };
	int r;

	assert_non_null(exact);
	if (len)
		memcpy(exact, data, len);
	r = unpack_next(&context, &c, rec);
	if (!r)
		assert_ptr_equal(c.p, c.end);
	shfs_record_context_free(&context);
	free(exact);
	return r;
}

static void each_type_comes_back(void **state)
{
	struct shfs_record_context context = { 0 };
	struct shfs_record rec, back;

	for (unsigned n = 0; records_get(n, &rec); n++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };
		struct shfs_cursor c;

		pack_one(&rec, &b);
		c = (struct shfs_cursor){ (unsigned char *)b.data,
			                  (unsigned char *)b.data + b.len, false };
		shfs_record_context_reset(&context);
		assert_int_equal(unpack_next(&context, &c, &back), 0);
		assert_ptr_equal(c.p, c.end);
		records_same(&rec, &back);
	}
	shfs_record_context_free(&context);
}

static void each_truncation_is_refused(void **state)
{
	struct shfs_record rec, back;

	for (unsigned n = 0; records_get(n, &rec); n++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		pack_one(&rec, &b);
		for (size_t len = 0; len < b.len; len++)
			if (unpack_one(b.data, len, &back) != -EBADMSG)
				fail_msg("record %u cut at %zu of %zu", n, len, b.len);
	}
}

/* Every byte of every record set to each of some values: an error or a record, no crash.
 */
static void damage_is_harmless(void **state)
{
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };
	struct shfs_record_context context = { 0 };
	struct shfs_record rec, back;

	for (unsigned n = 0; records_get(n, &rec); n++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		pack_one(&rec, &b);
		for (size_t i = 0; i < b.len; i++) {
			for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
				unsigned char *data = (unsigned char *)b.data;
				struct shfs_cursor c = { data, data + b.len, false };
				unsigned char was = data[i];
				int r;

				data[i] = values[v];
				shfs_record_context_reset(&context);
				r = unpack_next(&context, &c, &back);
				data[i] = was;
				assert_true(r == 0 || r == -EBADMSG || r == -ENOTSUP);
			}
		}
	}
	shfs_record_context_free(&context);
}

/* --- batches at random --- */

static uint64_t draw(uint64_t below)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % below;
}

static uint64_t draw_number(void)
{
	static const uint64_t odd[] = {
		0, 1, 127, 128, INT64_MAX, 1ULL << 63, UINT64_MAX
	};
	uint64_t n = draw(1ULL << draw(63));

	return draw(8) ? n : odd[draw(ARRAY_SIZE(odd))];
}

static struct shfs_time draw_time(struct shfs_time near)
{
	switch (draw(8)) {
	case 0:
		return (struct shfs_time){ (int64_t)draw_number(), draw_number() };
	case 1:
		return (struct shfs_time){ near.real_ns ^ 1, near.boot_ns };
	case 2:
		return near;
	default:
		near.boot_ns += draw(9) * 1000;
		near.real_ns += draw(9) * 1000;
		return near;
	}
}

static struct shfs_bytes draw_path(void)
{
	static char texts[40][300];
	char *text = texts[draw(ARRAY_SIZE(texts))];
	size_t len = draw(20) ? draw(16) : draw(300);

	if (draw(3))
		return (struct shfs_bytes){ text, strnlen(text, 300) };
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(draw(10) ? 'a' + draw(3) : draw(255) + 1);
	if (len < 300)
		text[len] = '\0';
	return (struct shfs_bytes){ text, len };
}

static struct shfs_content draw_content(void)
{
	struct shfs_content c = records_content(draw(5));

	switch (draw(6)) {
	case 0:
		return (struct shfs_content){ 0 };
	case 1:
		return (struct shfs_content){ .flags = SHFS_CONTENT_SKIP_ERROR };
	case 2:
		c.flags &= ~SHFS_CONTENT_OBJECT;
		c.object = (struct shfs_object_id){ 0 };
		return c;
	case 3:
		c.size = draw_number();
		c.mtime_ns = (int64_t)draw_number();
		c.ctime_ns = (int64_t)draw_number();
		c.mode = draw_number();
		return c;
	default:
		return c;
	}
}

static void draw_record(struct shfs_record *rec, uint64_t seq, struct shfs_time near)
{
	assert_true(records_get(draw(4) ? 2 : draw(13), rec));
	rec->seq = draw(9) ? seq : draw_number();
	rec->time = draw_time(near);
	if (rec->type == SHFS_REC_ACCESS) {
		struct shfs_rec_access *a = &rec->access;

		a->process = draw(4) ? 7 : draw_number();
		a->flags = draw_number();
		a->begin = draw_time(rec->time);
		a->last = draw(2) ? a->begin : draw_time(a->begin);
		a->path = draw_path();
		a->dev = draw(9) ? 5 : draw_number();
		a->ino = draw(3) ? draw(20) : draw_number();
		a->seen = draw_content();
		a->made = draw_content();
		a->directory_mtime_ns = draw(9) ? 0 : (int64_t)draw_number();
	} else if (rec->type == SHFS_REC_PATHOP) {
		rec->pathop.path = draw_path();
		rec->pathop.path2 = draw_path();
		if (draw(2)) {
			rec->pathop.former = (struct shfs_former){ 0 };
		} else {
			rec->pathop.former.xattrs = draw_path();
			rec->pathop.former.ino = draw_number();
			rec->pathop.former.mtime_ns = (int64_t)draw_number();
		}
	} else if (rec->type == SHFS_REC_PROCESS) {
		rec->process.exe = draw_path();
		rec->process.argv = draw_path();
		rec->process.environment = draw_path();
		if (draw(2))
			rec->process.streams = (struct shfs_bytes){ "", 0 };
		rec->process.start_ticks = draw_number();
	}
}

static struct shfs_bytes keep(struct shfs_bytes v, char **at)
{
	struct shfs_bytes out = { *at, v.len };

	if (v.len)
		memcpy(*at, v.data, v.len);
	*at += v.len;
	return out;
}

/* Strings of what is drawn next overwrite those of before. */
static void keep_strings(struct shfs_record *rec, char **at)
{
	if (rec->type == SHFS_REC_ACCESS) {
		rec->access.path = keep(rec->access.path, at);
	} else if (rec->type == SHFS_REC_PATHOP) {
		rec->pathop.path = keep(rec->pathop.path, at);
		rec->pathop.path2 = keep(rec->pathop.path2, at);
		rec->pathop.former.xattrs = keep(rec->pathop.former.xattrs, at);
		rec->pathop.former.text = keep(rec->pathop.former.text, at);
	} else if (rec->type == SHFS_REC_PROCESS) {
		rec->process.exe = keep(rec->process.exe, at);
		rec->process.argv = keep(rec->process.argv, at);
		rec->process.environment = keep(rec->process.environment, at);
	}
}

/* More than the files that are told by their number. */
#define BATCH_MAX 2500

static void batches_come_back(void **state)
{
	struct shfs_record *recs = calloc(BATCH_MAX, sizeof(*recs)), back;
	char *strings = malloc(BATCH_MAX * 1200);
	struct shfs_record_context writing = { 0 }, reading = { 0 };
	_cleanup_buf_ struct shfs_buf b = { 0 };

	for (unsigned round = 0; round < 60; round++) {
		struct shfs_time near = { 1700000000000000000, 77000000 };
		size_t n = round ? draw(round % 10 ? 50 : 600) + 1 : BATCH_MAX;
		char *at = strings;
		struct shfs_cursor c;

		b.len = 0;
		shfs_record_context_reset(&writing);
		shfs_record_context_reset(&reading);
		for (size_t i = 0; i < n; i++) {
			char name[16];

			draw_record(&recs[i], i + 1, near);
			if (!round && recs[i].type == SHFS_REC_ACCESS) {
				snprintf(name, sizeof(name), "%llu",
				         (unsigned long long)draw(1500));
				recs[i].access.path = shfs_bytes_str(name);
			}
			keep_strings(&recs[i], &at);
			near = recs[i].time;
			assert_int_equal(shfs_record_pack(&writing, &recs[i], &b), 0);
		}
		c = (struct shfs_cursor){ (unsigned char *)b.data,
			                  (unsigned char *)b.data + b.len, false };
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(unpack_next(&reading, &c, &back), 0);
			records_same(&recs[i], &back);
		}
		assert_ptr_equal(c.p, c.end);
	}
	shfs_record_context_free(&writing);
	shfs_record_context_free(&reading);
	free(strings);
	free(recs);
}

/* A file that is read again and was not changed, a microsecond later. */
static void what_is_known_is_short(void **state)
{
	struct shfs_record_context context = { 0 };
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_record rec;
	size_t first;

	assert_true(records_get(2, &rec));
	rec.time = (struct shfs_time){ 1700000000000000000, 1000000 };
	rec.access.begin = rec.access.last = rec.time;
	rec.access.made = (struct shfs_content){ 0 };
	rec.access.directory_mtime_ns = 0;
	shfs_record_context_reset(&context);
	assert_int_equal(shfs_record_pack(&context, &rec, &b), 0);
	first = b.len;
	rec.seq++;
	assert_int_equal(shfs_record_pack(&context, &rec, &b), 0);
	assert_int_equal(b.len - first, 6);
	shfs_record_context_free(&context);
}

/* --- the clocks --- */

/* Of whole microseconds, never early, and late by some of them at most. */
static void times_of_records(void **state)
{
	for (int i = 0; i < 1000; i++) {
		int64_t real = shfs_clock_ns(CLOCK_REALTIME);
		int64_t boot = shfs_clock_ns(CLOCK_BOOTTIME);
		struct shfs_time t = shfs_time_now();

		assert_int_equal(t.real_ns % 1000, 0);
		assert_int_equal(t.boot_ns % 1000, 0);
		assert_true(t.real_ns >= real && (int64_t)t.boot_ns >= boot);
		assert_true(t.real_ns <= shfs_clock_ns(CLOCK_REALTIME) + 5000);
		assert_true((int64_t)t.boot_ns <= shfs_clock_ns(CLOCK_BOOTTIME) + 1000);
	}
}

/* --- other versions --- */

/* With its length in front, a record may have more than is known. */
static void longer_records_are_of_a_newer_version(void **state)
{
	struct shfs_record_context context = { 0 };
	_cleanup_buf_ struct shfs_buf b = { 0 };
	unsigned char lost[] = { 6 | 8, 0, 5, 7, 55, 'a', 'b', 'c' };
	unsigned char future[] = { 8, 99, 0, 3, 'x', 'y', 'z' };
	unsigned char short_one[] = { 6 | 8, 0, 1, 7, 55 };
	unsigned char nameless[] = { 0, 99, 0 };
	struct shfs_record rec;
	struct shfs_cursor c = { lost, lost + sizeof(lost), false };

	assert_int_equal(unpack_next(&context, &c, &rec), 0);
	assert_ptr_equal(c.p, c.end);
	assert_int_equal(rec.type, SHFS_REC_LOST);
	assert_int_equal(rec.seq, 1);
	assert_int_equal(rec.lost.count, 7);
	assert_int_equal(rec.lost.error, -28);
	c = (struct shfs_cursor){ future, future + sizeof(future), false };
	assert_int_equal(unpack_next(&context, &c, &rec), -ENOTSUP);
	assert_ptr_equal(c.p, c.end);
	c = (struct shfs_cursor){ short_one, short_one + sizeof(short_one), false };
	assert_int_equal(unpack_next(&context, &c, &rec), -EBADMSG);
	/* an unknown type that does not tell its length */
	c = (struct shfs_cursor){ nameless, nameless + sizeof(nameless), false };
	assert_int_equal(unpack_next(&context, &c, &rec), -EBADMSG);
	shfs_record_context_free(&context);
}

static void hooks_records_are_refused(void **state)
{
	static const enum shfs_record_type hooks[] = { SHFS_REC_SESSION,
		                                       SHFS_REC_BEGIN,
		                                       SHFS_REC_FINISH,
		                                       SHFS_REC_DEFINITION,
		                                       SHFS_REC_USES,
		                                       0,
		                                       999 };
	struct shfs_record_context context = { 0 };
	_cleanup_buf_ struct shfs_buf b = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		struct shfs_record rec = { .type = hooks[i] };

		assert_int_equal(shfs_record_pack(&context, &rec, &b), -EINVAL);
	}
	assert_int_equal(b.len, 0);
	shfs_record_context_free(&context);
}

/* A file that could not even be looked at: why there is no content must come through. */
static void reasons_without_a_content(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE }, back;

	rec.preimage.content.flags = SHFS_CONTENT_SKIP_ERROR;
	rec.preimage.content.size = 5; /* not known, so not told */
	pack_one(&rec, &b);
	assert_int_equal(unpack_one(b.data, b.len, &back), 0);
	assert_int_equal(back.preimage.content.flags, SHFS_CONTENT_SKIP_ERROR);
	assert_int_equal(back.preimage.content.size, 0);
}

static void unknown_content_claims_nothing(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE }, back;

	rec.preimage.content.flags = SHFS_CONTENT_OBJECT | SHFS_CONTENT_PHASH;
	pack_one(&rec, &b);
	assert_int_equal(unpack_one(b.data, b.len, &back), 0);
	assert_int_equal(back.preimage.content.flags, 0);
}

static void huge_strings(void **state)
{
	struct shfs_record_context context = { 0 };
	_cleanup_buf_ struct shfs_buf b = { 0 }, path = { 0 };
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE }, back;
	struct shfs_cursor c;

	for (int i = 0; i < 1 << 20; i++)
		shfs_buf_char(&path, (char)(i % 255 + 1));
	rec.preimage.path = (struct shfs_bytes){ path.data, path.len };
	pack_one(&rec, &b);
	c = (struct shfs_cursor){ (unsigned char *)b.data,
		                  (unsigned char *)b.data + b.len, false };
	assert_int_equal(unpack_next(&context, &c, &back), 0);
	records_same_payload(&rec, &back);
	shfs_record_context_free(&context);
}

/* A reader keeps the path of each file of a batch, which tells one that is like the last
 * in a few bytes: short batches must not become gigabytes. */
static void paths_of_files_are_bounded(void **state)
{
	static const struct {
		size_t len;
		int r;
	} cases[] = { { 65536, 0 }, { 65537, -EBADMSG }, { 2 << 20, -EBADMSG } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct shfs_record rec = { .type = SHFS_REC_ACCESS }, back;
		_cleanup_free_ char *path = malloc(cases[i].len);
		_cleanup_buf_ struct shfs_buf b = { 0 };

		assert_non_null(path);
		memset(path, 'a', cases[i].len);
		rec.access.path = (struct shfs_bytes){ path, cases[i].len };
		pack_one(&rec, &b);
		assert_int_equal(unpack_one(b.data, b.len, &back), cases[i].r);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_type_comes_back),
		cmocka_unit_test(each_truncation_is_refused),
		cmocka_unit_test(damage_is_harmless),
		cmocka_unit_test(batches_come_back),
		cmocka_unit_test(what_is_known_is_short),
		cmocka_unit_test(times_of_records),
		cmocka_unit_test(longer_records_are_of_a_newer_version),
		cmocka_unit_test(hooks_records_are_refused),
		cmocka_unit_test(reasons_without_a_content),
		cmocka_unit_test(unknown_content_claims_nothing),
		cmocka_unit_test(huge_strings),
		cmocka_unit_test(paths_of_files_are_bounded),
	};

	return shfs_unit_main(tests, argc, argv);
}
