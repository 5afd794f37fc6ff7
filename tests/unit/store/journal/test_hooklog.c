/* SPDX-License-Identifier: MIT */
/* Tests of store/journal/hooklog.c. */
#include "tests/unit/unit.h"

#include "common/io.h"
#include "common/path.h"
#include "store/journal/hooklog.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define BOOT_ID "01234567-89ab-cdef-0123-456789abcdef"
#define REAL    "1700000000.123456"

/* --- writing records as a shell does --- */

static void add_fields(struct shfs_buf *b, const char *const *fields)
{
	shfs_buf_char(b, '\x1e');
	for (; *fields; fields++)
		shfs_buf_add(b, *fields, strlen(*fields) + 1);
	shfs_buf_char(b, '\n');
}
#define ADD(b, ...) add_fields((b), (const char *const[]){ __VA_ARGS__, NULL })

static void add_session(struct shfs_buf *b)
{
	ADD(b, "S1", "1", "4321", "1234567", BOOT_ID, "4026531836", REAL, "99.25", "host",
	    "bash", "/dev/pts/3", "/home/u", "1");
}

static void add_begin(struct shfs_buf *b, const char *seq, const char *text)
{
	ADD(b, "B1", seq, "7", REAL, "100.000000001", "4330", "0", "/home/u", text, seq);
}

static void add_finish(struct shfs_buf *b, const char *seq, const char *status)
{
	ADD(b, "F1", seq, "7", "1700000001,5", "101.5", "4331", status, seq);
}

/* --- reading --- */

static void assert_bytes(struct shfs_bytes v, const char *expected)
{
	assert_int_equal(v.len, strlen(expected));
	assert_memory_equal(v.data, expected, v.len);
}

static char letter_of(const struct shfs_record *rec)
{
	if (rec->type != SHFS_REC_BEGIN)
		return rec->type == SHFS_REC_SESSION ? 'S' : 'F';
	return rec->begin.text.len >= 4 && !memcmp(rec->begin.text.data, "text", 4) ? 'B'
	                                                                            : '?';
}

/* The types of the records that the bytes hold, as "SBF"; "?": a text nobody wrote. */
static void read_types(const char *data, size_t len, char out[static 64],
                       uint64_t *damaged)
{
	char *exact = malloc(len ? len : 1);
	struct shfs_hooklog *log;
	struct shfs_record rec;
	unsigned n = 0;
	int r;

	memcpy(exact, data, len);
	assert_int_equal(shfs_hooklog_from_memory(exact, len, &log), 0);
	free(exact);
	while ((r = shfs_hooklog_next(log, &rec)) == 1) {
		assert_true(n < 63);
		out[n++] = letter_of(&rec);
	}
	assert_int_equal(r, 0);
	out[n] = '\0';
	*damaged = shfs_hooklog_damaged(log);
	shfs_hooklog_close(log);
}

static void expect_types(const struct shfs_buf *b, const char *types, uint64_t damaged)
{
	char came[64];
	uint64_t was;

	read_types(b->data, b->len, came, &was);
	assert_string_equal(came, types);
	assert_int_equal(was, damaged);
}

static struct shfs_record only_record(const struct shfs_buf *b, struct shfs_hooklog **log)
{
	struct shfs_record rec;

	assert_int_equal(shfs_hooklog_from_memory(b->data, b->len, log), 0);
	assert_int_equal(shfs_hooklog_next(*log, &rec), 1);
	return rec;
}

/* --- tests --- */

static void session_comes_back(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_hooklog *log;
	struct shfs_record rec;

	add_session(&b);
	rec = only_record(&b, &log);
	assert_int_equal(rec.type, SHFS_REC_SESSION);
	assert_int_equal(rec.seq, 1);
	assert_true(rec.time.real_ns == 1700000000123456000);
	assert_true(rec.time.boot_ns == 99250000000);
	assert_int_equal(rec.boot_resolution_ns, 10000000);
	assert_int_equal(rec.session.pid, 4321);
	assert_int_equal(rec.session.start_ticks, 1234567);
	assert_true(rec.session.pid_namespace == 4026531836);
	assert_bytes(rec.session.boot_id, BOOT_ID);
	assert_bytes(rec.session.host, "host");
	assert_bytes(rec.session.shell, "bash");
	assert_bytes(rec.session.tty, "/dev/pts/3");
	assert_bytes(rec.session.cwd, "/home/u");
	assert_int_equal(shfs_hooklog_next(log, &rec), 0);
	assert_int_equal(shfs_hooklog_offset(log), b.len);
	shfs_hooklog_close(log);
}

static void begin_comes_back(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_hooklog *log;
	struct shfs_record rec;

	add_begin(&b, "12",
	          "text \x1e"
	          "B1\n\033\xff of\nlines");
	rec = only_record(&b, &log);
	assert_int_equal(rec.type, SHFS_REC_BEGIN);
	assert_int_equal(rec.seq, 12);
	assert_int_equal(rec.boot_resolution_ns, 1);
	assert_true(rec.time.boot_ns == 100000000001);
	assert_int_equal(rec.begin.number, 7);
	assert_int_equal(rec.begin.last_pid, 4330);
	assert_int_equal(rec.begin.hidden, 0);
	assert_false(rec.begin.redacted);
	assert_bytes(rec.begin.cwd, "/home/u");
	assert_bytes(rec.begin.text, "text \x1e"
	                             "B1\n\033\xff of\nlines");
	shfs_hooklog_close(log);
}

static void redacted_begin_comes_back(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_hooklog *log;
	struct shfs_record rec;

	ADD(&b, "B2", "3", "7", REAL, "1.00", "4", "0", "/", "--password=[redacted]",
	    "3");
	rec = only_record(&b, &log);
	assert_int_equal(rec.type, SHFS_REC_BEGIN);
	assert_true(rec.begin.redacted);
	assert_bytes(rec.begin.text, "--password=[redacted]");
	shfs_hooklog_close(log);
}

static void definition_comes_back(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_hooklog *log;
	struct shfs_record rec;

	ADD(&b, "D1", "5", "f", "1", "f\xff",
	    "f\xff () { x; \x1e"
	    "B1\n}",
	    "5");
	rec = only_record(&b, &log);
	assert_int_equal(rec.type, SHFS_REC_DEFINITION);
	assert_int_equal(rec.seq, 5);
	assert_int_equal(rec.definition.kind, SHFS_DEFINITION_FUNCTION);
	assert_int_equal(rec.definition.kept, SHFS_DEFINITION_REDACTED);
	assert_bytes(rec.definition.name, "f\xff");
	assert_bytes(rec.definition.body, "f\xff () { x; \x1e"
	                                  "B1\n}");
	shfs_hooklog_close(log);
}

static void uses_come_back(void **state)
{
	static const struct {
		const char *list, *numbers;
	} cases[] = { { "", "" },
		      { "7", "7 " },
		      { "5 18446744073709551615", "5 18446744073709551615 " } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct shfs_buf b = { 0 }, numbers = { 0 };
		struct shfs_hooklog *log;
		struct shfs_record rec;
		uint64_t seq;

		ADD(&b, "U1", "9", "4", "1", cases[i].list, "9");
		rec = only_record(&b, &log);
		assert_int_equal(rec.type, SHFS_REC_USES);
		assert_int_equal(rec.uses.number, 4);
		assert_int_equal(rec.uses.more, 1);
		while (shfs_hooklog_next_use(&rec.uses.list, &seq))
			shfs_buf_printf(&numbers, "%llu ", (unsigned long long)seq);
		assert_string_equal(numbers.data ?: "", cases[i].numbers);
		shfs_hooklog_close(log);
	}
}

static void invalid_definitions(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t invalid;

	ADD(&b, "D1", "5", "", "0", "a", "b", "5");
	ADD(&b, "D1", "5", "aa", "0", "a", "b", "5");
	ADD(&b, "D1", "5", "a", "3", "a", "b", "5");
	ADD(&b, "D1", "5", "a", "0", "a", "b", "6");
	ADD(&b, "U1", "5", "x", "0", "1", "5");
	ADD(&b, "U1", "5", "1", "2", "1", "5");
	ADD(&b, "U1", "5", "1", "0", "1  2", "5");
	ADD(&b, "U1", "5", "1", "0", " 1", "5");
	ADD(&b, "U1", "5", "1", "0", "1,2", "5");
	expect_types(&b, "", 0);
	invalid = b.len;
	add_begin(&b, "6", "text");
	expect_types(&b, "B", invalid);
}

static void finish_comes_back(void **state)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = { { "0", 0 },
		      { "130", 130 },
		      { "-1", -1 },
		      { "2147483647", INT32_MAX },
		      { "-2147483647", -INT32_MAX } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };
		struct shfs_hooklog *log;
		struct shfs_record rec;

		add_finish(&b, "13", cases[i].text);
		rec = only_record(&b, &log);
		assert_int_equal(rec.type, SHFS_REC_FINISH);
		assert_true(rec.time.real_ns == 1700000001500000000); /* a comma */
		assert_int_equal(rec.finish.number, 7);
		assert_int_equal(rec.finish.last_pid, 4331);
		assert_int_equal(rec.finish.status, cases[i].status);
		shfs_hooklog_close(log);
	}
}

static void empty(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	shfs_buf_str(&b, "");
	expect_types(&b, "", 0);
	shfs_buf_str(&b, "\x1e");
	expect_types(&b, "", 0);
	shfs_buf_str(&b, "\x1e\x1e\n\n");
	expect_types(&b, "", 0);
	shfs_hooklog_close(NULL);
}

/* A log of S, B, F, B, cut at every byte: what is whole comes, the rest is waited for. */
static void each_cut(void **state)
{
	static const char types[] = "SBFB";
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t ends[4];

	add_session(&b);
	ends[0] = b.len;
	add_begin(&b, "2", "text a");
	ends[1] = b.len;
	add_finish(&b, "3", "0");
	ends[2] = b.len;
	add_begin(&b, "4", "text b");
	ends[3] = b.len;
	for (size_t len = 0; len <= b.len; len++) {
		char came[64], expected[5] = "";
		uint64_t damaged;

		for (int n = 0; n < 4 && ends[n] <= len; n++)
			expected[n] = types[n];
		read_types(b.data, len, came, &damaged);
		assert_string_equal(came, expected);
		assert_int_equal(damaged, 0);
	}
}

/* A write that was cut off at any byte (a full disk), and the shell went on. */
static void each_half_record(void **state)
{
	_cleanup_buf_ struct shfs_buf whole = { 0 };

	add_begin(&whole, "2", "text that is cut");
	for (size_t len = 0; len < whole.len; len++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		add_session(&b);
		shfs_buf_add(&b, whole.data, len);
		add_finish(&b, "3", "0");
		add_begin(&b, "4", "text b");
		expect_types(&b, "SFB", len);
	}
}

/* Two half records in a row; and the same number given again. */
static void half_records_in_a_row(void **state)
{
	_cleanup_buf_ struct shfs_buf whole = { 0 };

	add_begin(&whole, "2", "text that is cut");
	for (size_t len = 0; len < whole.len; len++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		shfs_buf_add(&b, whole.data, len);
		shfs_buf_add(&b, whole.data, len);
		add_begin(&b, "2", "text b");
		expect_types(&b, "B", 2 * len);
	}
}

/* What looks like a blank in a record that is not all there yet is fields of it. */
static void blank_in_half_record(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	char came[64];
	uint64_t damaged;

	ADD(&b, "B1", "2", "7", REAL, "1.00", "4", "0", "/dir\x1eX1", "  \ntext", "2");
	for (size_t len = 0; len <= b.len; len++) {
		read_types(b.data, len, came, &damaged);
		assert_string_equal(came, len < b.len ? "" : "?");
		assert_int_equal(damaged, 0);
	}
}

/* A write that was cut off, then what was forgotten: only the one is damage. */
static void blank_behind_half_record(void **state)
{
	_cleanup_buf_ struct shfs_buf whole = { 0 };
	char came[64];
	uint64_t damaged;

	add_begin(&whole, "2", "text that is cut");
	for (size_t len = 0; len < whole.len; len++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		shfs_buf_add(&b, whole.data, len);
		shfs_buf_add(&b, whole.data, whole.len);
		shfs_hooklog_blank(b.data + len, whole.len);
		shfs_buf_add(&b, whole.data, whole.len);
		shfs_hooklog_blank(b.data + len + whole.len, whole.len);
		read_types(b.data, b.len, came, &damaged);
		assert_string_equal(came, "");
		add_begin(&b, "3", "text b");
		expect_types(&b, "B", len);
	}
}

/* Each byte of a record changed: never a record that was not written. */
static void each_byte_damaged(void **state)
{
	static const char values[] = { 0, '\n', '\x1e', '0', 'X', '\xff' };
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t end;

	add_begin(&b, "2", "text a");
	end = b.len;
	add_finish(&b, "3", "0");
	for (size_t i = 0; i < end; i++) {
		for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
			char came[64], was = b.data[i];
			uint64_t damaged;

			b.data[i] = values[v];
			read_types(b.data, b.len, came, &damaged);
			b.data[i] = was;
			/* text and digits carry no checksum, but records end where they
			 * end */
			assert_true(!strcmp(came, "BF") || !strcmp(came, "?F") ||
			            !strcmp(came, "F"));
			assert_int_equal(damaged, came[0] == 'F' ? end : 0);
		}
	}
}

static void rejected(const char *const *fields)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	size_t len;

	add_fields(&b, fields);
	len = b.len;
	add_finish(&b, "9", "0");
	expect_types(&b, "F", len);
}
#define REJECTED(...) rejected((const char *const[]){ __VA_ARGS__, NULL })

static void invalid_numbers(void **state)
{
	static const char *const bad[] = { "",
		                           " 1",
		                           "1 ",
		                           "-1",
		                           "+1",
		                           "1x",
		                           "0x1",
		                           "18446744073709551616",
		                           "99999999999999999999",
		                           "000000000000000000001",
		                           "1.5" };
	static const char *const bad_times[] = {
		"",    ".", ".5",           "-1.0", "1.0000000001",        "1.2.3",
		"1.x", "x", "9223372036.0", "1e9",  "99999999999999999999"
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		REJECTED("B1", bad[i], "7", REAL, "1.00", "4", "0", "/", "t", bad[i]);
		REJECTED("B1", "2", bad[i], REAL, "1.00", "4", "0", "/", "t", "2");
		REJECTED("B1", "2", "7", REAL, "1.00", bad[i], "0", "/", "t", "2");
		REJECTED("B1", "2", "7", REAL, "1.00", "4", bad[i], "/", "t", "2");
		REJECTED("S1", "1", bad[i], "1", BOOT_ID, "1", REAL, "1.00", "h", "sh",
		         "t", "/", "1");
		if (strcmp(bad[i], "-1"))
			REJECTED("F1", "2", "7", REAL, "1.00", "4", bad[i], "2");
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad_times); i++) {
		REJECTED("B1", "2", "7", bad_times[i], "1.00", "4", "0", "/", "t", "2");
		REJECTED("B1", "2", "7", REAL, bad_times[i], "4", "0", "/", "t", "2");
	}
	REJECTED("B1", "2", "7", REAL, "1.00", "4294967296", "0", "/", "t", "2");
	REJECTED("B1", "2", "7", REAL, "1.00", "4", "2", "/", "t", "2"); /* hidden */
	REJECTED("F1", "2", "7", REAL, "1.00", "4", "2147483648", "2");
	REJECTED("F1", "2", "7", REAL, "1.00", "4", "--1", "2");
	REJECTED("F1", "2", "7", REAL, "1.00", "4", "-", "2");
}

static void usage_comes_back(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_hooklog *log;
	struct shfs_record rec;

	ADD(&b, "F2", "2", "7", REAL, "101.5", "4331", "-3", "1500000", "250", "65536",
	    "2");
	rec = only_record(&b, &log);
	assert_int_equal(rec.type, SHFS_REC_FINISH);
	assert_int_equal(rec.finish.status, -3);
	assert_true(rec.finish.has_usage);
	assert_int_equal(rec.finish.user_us, 1500000);
	assert_int_equal(rec.finish.system_us, 250);
	assert_int_equal(rec.finish.max_rss_kib, 65536);
	shfs_hooklog_close(log);
	REJECTED("F2", "2", "7", REAL, "1.00", "4", "0", "-1", "0", "0", "2");
	REJECTED("F2", "2", "7", REAL, "1.00", "4", "0", "0", "0", "x", "2");
	REJECTED("F2", "2", "7", REAL, "1.00", "4", "0", "2");
}

static void wrong_shapes(void **state)
{
	REJECTED("B1", "2", "7", REAL, "1.00", "4", "0", "/", "t", "3");
	REJECTED("B1", "2", "7", REAL, "1.00", "4", "0", "/", "2");
	REJECTED("B1", "2", "7", REAL, "1.00", "4", "0", "/", "t", "more", "2");
	REJECTED("B3", "2", "7", REAL, "1.00", "4", "0", "/", "t", "2");
	REJECTED("b1", "2", "7", REAL, "1.00", "4", "0", "/", "t", "2");
	REJECTED("B1 ", "2", "7", REAL, "1.00", "4", "0", "/", "t", "2");
	REJECTED("", "2");
	REJECTED("F1", "2");
}

static void huge_fields(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 }, text = { 0 };
	struct shfs_hooklog *log;
	struct shfs_record rec;

	shfs_buf_str(&text, "text ");
	while (text.len < 8 << 20)
		shfs_buf_str(&text, "\x1e words\n");
	add_begin(&b, "2", text.data);
	rec = only_record(&b, &log);
	assert_int_equal(rec.begin.text.len, text.len);
	assert_memory_equal(rec.begin.text.data, text.data, text.len);
	shfs_hooklog_close(log);
}

/* From a file, and on from each offset, also while it grows. */
static void offsets(void **state)
{
	_cleanup_free_ char *path = shfs_path_join(shfs_unit_tmpdir(), "shell.log");
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_hooklog *log;
	struct shfs_record rec;
	uint64_t offset = 0;

	for (unsigned n = 0; n < 20; n++) {
		b.len = 0;
		n % 2 ? add_finish(&b, "5", "0") : add_begin(&b, "5", "text");
		assert_int_equal(shfs_write_all(fd, b.data, b.len), 0);
		assert_int_equal(shfs_write_all(fd, "\036B1", 3), 0); /* half of one */
		assert_int_equal(shfs_hooklog_open(AT_FDCWD, path, offset, &log), 0);
		assert_int_equal(shfs_hooklog_next(log, &rec), 1);
		assert_int_equal(rec.type, n % 2 ? SHFS_REC_FINISH : SHFS_REC_BEGIN);
		assert_int_equal(shfs_hooklog_next(log, &rec), 0);
		assert_int_equal(shfs_hooklog_damaged(log), n ? 3 : 0);
		offset = shfs_hooklog_offset(log);
		assert_int_equal(offset, (uint64_t)lseek(fd, 0, SEEK_CUR) - 3);
		shfs_hooklog_close(log);
	}
	assert_int_equal(shfs_hooklog_open(AT_FDCWD, "/nonexistent", 0, &log), -ENOENT);
	assert_int_equal(shfs_hooklog_open(AT_FDCWD, path, 1 << 20, &log), 0);
	assert_int_equal(shfs_hooklog_next(log, &rec), 0);
	assert_int_equal(shfs_hooklog_offset(log), 1 << 20);
	shfs_hooklog_close(log);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(session_comes_back),
		cmocka_unit_test(begin_comes_back),
		cmocka_unit_test(redacted_begin_comes_back),
		cmocka_unit_test(definition_comes_back),
		cmocka_unit_test(uses_come_back),
		cmocka_unit_test(invalid_definitions),
		cmocka_unit_test(finish_comes_back),
		cmocka_unit_test(usage_comes_back),
		cmocka_unit_test(empty),
		cmocka_unit_test(each_cut),
		cmocka_unit_test(each_half_record),
		cmocka_unit_test(half_records_in_a_row),
		cmocka_unit_test(blank_in_half_record),
		cmocka_unit_test(blank_behind_half_record),
		cmocka_unit_test(each_byte_damaged),
		cmocka_unit_test(invalid_numbers),
		cmocka_unit_test(wrong_shapes),
		cmocka_unit_test(huge_fields),
		cmocka_unit_test(offsets),
	};

	return shfs_unit_main(tests, argc, argv);
}
