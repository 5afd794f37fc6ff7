/* SPDX-License-Identifier: MIT */
/* Tests of common/config.c. */
#include "tests/unit/unit.h"

#include "common/buf.h"
#include "common/config.h"
#include "common/io.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct reading {
	struct shfs_config cfg;
	char *path, *message;
	int r;
};

static void reading_end(struct reading *rd)
{
	shfs_config_free(&rd->cfg);
	free(rd->path);
	free(rd->message);
}
#define _cleanup_reading_ _cleanup_(reading_end)

static struct reading read_bytes(const char *text, size_t len)
{
	static const char *dir;
	struct reading rd = { 0 };

	if (!dir)
		dir = shfs_unit_tmpdir();
	rd.path = shfs_path_join(dir, "config.ini");
	assert_int_equal(shfs_config_init(&rd.cfg), 0);
	assert_int_equal(shfs_write_file_at(AT_FDCWD, rd.path, 0600, text, len), 0);
	rd.r = shfs_config_read(&rd.cfg, rd.path, &rd.message);
	return rd;
}

static struct reading read_text(const char *text)
{
	return read_bytes(text, strlen(text));
}

/* The text is refused for what is wrong in this line. */
static void refused(const char *text, int line, const char *what)
{
	_cleanup_reading_ struct reading rd = read_text(text);
	_cleanup_buf_ struct shfs_buf expected = { 0 };

	shfs_buf_printf(&expected, "%s:%d: %s", rd.path, line, what);
	assert_int_equal(rd.r, -EINVAL);
	assert_non_null(rd.message);
	assert_string_equal(rd.message, expected.data);
}

static void defaults(void **state)
{
	_cleanup_reading_ struct reading rd = { 0 };

	assert_int_equal(shfs_config_init(&rd.cfg), 0);
	assert_int_equal(rd.cfg.archive_max_bytes, 16 << 20);
	assert_int_equal(rd.cfg.fingerprint_bytes, 0);
	assert_int_equal(rd.cfg.read_max_bytes, 1 << 20);
	assert_int_equal(rd.cfg.wait_ms, 2000);
	assert_int_equal(rd.cfg.compression, 3);
	assert_string_equal(rd.cfg.ignore, "");
	assert_string_equal(rd.cfg.archive_read, "");
	assert_null(rd.cfg.pager);
	assert_string_equal(rd.cfg.color, "auto");
	assert_true(rd.cfg.redact);
	assert_string_equal(rd.cfg.secrets, "");
	assert_int_equal(shfs_config_read(&rd.cfg, "/nonexistent/config.ini",
	                                  &rd.message),
	                 0);
	assert_null(rd.message);
}

static void every_key(void **state)
{
	_cleanup_reading_ struct reading rd =
		read_text("# a comment\n"
	                  "\n"
	                  "[archive]\n"
	                  "max-size = 64M\n"
	                  "fingerprint = 2G\n"
	                  "max-read-size=512k\n"
	                  "other-users = 7M\n"
	                  "wait = 0\n"
	                  "compression = 19\n"
	                  "private-keys = yes\n"
	                  "ignore = *.tmp\n"
	                  "  scratch/\n"
	                  "ignore = a b ; not;this\n"
	                  "archive-read = *.tex\n"
	                  "[record]\n"
	                  "environment = LAB_* !HOME\n"
	                  "  X\n"
	                  "software = no\n"
	                  "ignore-reads = !restic my-index*\n"
	                  "[query]\n"
	                  "pager = less -R\n"
	                  "color = never\n"
	                  "[secrets]\n"
	                  "patterns = \\bacme-[0-9]\n"
	                  "patterns = lab=<word>\n"
	                  "redact = no"); /* no LF */

	assert_null(rd.message);
	assert_int_equal(rd.r, 0);
	assert_int_equal(rd.cfg.archive_max_bytes, 64 << 20);
	assert_int_equal(rd.cfg.fingerprint_bytes, 2ULL << 30);
	assert_int_equal(rd.cfg.read_max_bytes, 512 << 10);
	assert_int_equal(rd.cfg.other_users_bytes, 7 << 20);
	assert_int_equal(rd.cfg.wait_ms, 0);
	assert_int_equal(rd.cfg.compression, 19);
	assert_true(rd.cfg.private_keys);
	assert_string_equal(rd.cfg.ignore, "*.tmp\nscratch/\na b\n");
	assert_string_equal(rd.cfg.archive_read, "*.tex\n");
	assert_string_equal(rd.cfg.environment, "LAB_* !HOME\nX\n");
	assert_false(rd.cfg.software);
	assert_string_equal(rd.cfg.ignore_reads, "!restic my-index*\n");
	assert_string_equal(rd.cfg.pager, "less -R");
	assert_string_equal(rd.cfg.color, "never");
	assert_false(rd.cfg.redact);
	assert_string_equal(rd.cfg.secrets, "\\bacme-[0-9]\nlab=<word>\n");
}

static void errors_name_the_line(void **state)
{
	refused("[archive]\nmax-siez = 1\n", 2,
	        "there is no key \"max-siez\" in [archive]");
	refused("\n\n[archives]\nmax-size = 1\n", 4,
	        "there is no key \"max-size\" in [archives]");
	refused("max-size = 1", 1, "there is no key \"max-size\" in []");
	refused("[query]\ncolor = yes", 2, "bad value \"yes\" for color");
	refused("[query]\n\ncolor = \n", 3, "bad value \"\" for color");
	refused("[record]\nenvironment = A-B\n", 2, "bad value \"A-B\" for environment");
	refused("[record]\nignore-reads = /bin/x\n", 2,
	        "bad value \"/bin/x\" for ignore-reads");
	refused("[record]\nsoftware = 1\n", 2, "bad value \"1\" for software");
	refused("[record]\nenvironment = A !\n", 2, "bad value \"A !\" for environment");
	refused("[archive]\nwait = 600001\n", 2, "bad value \"600001\" for wait");
	refused("[archive]\nwait = -1\n", 2, "bad value \"-1\" for wait");
	refused("[archive]\nwait = 1s\n", 2, "bad value \"1s\" for wait");
	refused("[archive]\nprivate-keys = 1\n", 2, "bad value \"1\" for private-keys");
	refused("[archive]\ncompression = 0\n", 2, "bad value \"0\" for compression");
	refused("[archive]\ncompression = 20\n", 2, "bad value \"20\" for compression");
	refused("[archive]\nmax-size = 16 MiB\n", 2, "bad value \"16 MiB\" for max-size");
	refused("[archive]\nmax-size = 99999999999G\n", 2,
	        "bad value \"99999999999G\" for max-size");
	refused("[archive]\nnonsense\n", 2, "not \"key = value\" in a [section]");
	refused("[archive\nwait = 1\n", 1, "not \"key = value\" in a [section]");
}

static void the_first_error_counts(void **state)
{
	refused("[archive]\nbad = 1\nworse\nworst = 2\n", 2,
	        "there is no key \"bad\" in [archive]");
	refused("[archive]\nworse\nbad = 1\n", 2, "not \"key = value\" in a [section]");
}

/* What is right stays in force, also behind an error. */
static void keeps_what_is_right(void **state)
{
	_cleanup_reading_ struct reading rd =
		read_text("[archive]\nwait = 1\ncompression = x\nmax-size = 5\n");

	assert_int_equal(rd.r, -EINVAL);
	assert_int_equal(rd.cfg.wait_ms, 1);
	assert_int_equal(rd.cfg.compression, 3);
	assert_int_equal(rd.cfg.archive_max_bytes, 5);
}

/* A pattern must never be cut without a word. */
static void long_lines_come_through_or_are_refused(void **state)
{
	for (size_t len = 100; len < 1000; len++) {
		_cleanup_buf_ struct shfs_buf text = { 0 }, pattern = { 0 };
		_cleanup_reading_ struct reading rd = { 0 };

		while (pattern.len < len)
			shfs_buf_char(&pattern, 'x');
		shfs_buf_printf(&text, "[archive]\nignore = %s\nwait = 7\n",
		                pattern.data);
		rd = read_text(text.data);
		shfs_buf_char(&pattern, '\n');
		if (rd.r == 0) {
			assert_string_equal(rd.cfg.ignore, pattern.data);
		} else {
			assert_int_equal(rd.r, -EINVAL);
			assert_non_null(strstr(rd.message, ":2: the line is too long"));
			assert_true(len > 150);
		}
		assert_int_equal(rd.cfg.wait_ms, 7);
	}
}

static void nul_is_refused(void **state)
{
	static const char text[] = "[archive]\nwait = 1\n\0wait = 2\n";
	_cleanup_reading_ struct reading rd = read_bytes(text, sizeof(text) - 1);

	assert_int_equal(rd.r, -EINVAL);
	assert_non_null(strstr(rd.message, ":3: "));
}

static void what_windows_writes(void **state)
{
	_cleanup_reading_ struct reading rd =
		read_text("\xef\xbb\xbf[archive]\r\nwait = 5\r\nignore = a\r\n");

	assert_int_equal(rd.r, 0);
	assert_int_equal(rd.cfg.wait_ms, 5);
	assert_string_equal(rd.cfg.ignore, "a\n");
}

static void unreadable_is_told(void **state)
{
	_cleanup_reading_ struct reading rd = { 0 };
	_cleanup_buf_ struct shfs_buf expected = { 0 }, big = { 0 };
	const char *dir = shfs_unit_tmpdir();

	assert_int_equal(shfs_config_init(&rd.cfg), 0);
	assert_int_equal(shfs_config_read(&rd.cfg, dir, &rd.message), -EISDIR);
	shfs_buf_printf(&expected, "%s: Is a directory", dir);
	assert_string_equal(rd.message, expected.data);
	reading_end(&rd);

	while (big.len <= 1 << 20)
		shfs_buf_str(&big, "# nothing but comments\n");
	rd = read_bytes(big.data, big.len);
	assert_int_equal(rd.r, -EFBIG);
	assert_non_null(rd.message);
}

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
		int r;
	} cases[] = {
		{ "0", 0, 0 },
		{ "1", 1, 0 },
		{ "007", 7, 0 },
		{ "1k", 1024, 0 },
		{ "1K", 1024, 0 },
		{ "2m", 2 << 20, 0 },
		{ "3G", 3ULL << 30, 0 },
		{ "4T", 4ULL << 40, 0 },
		{ "18446744073709551615", UINT64_MAX, 0 },
		{ "16777215T", 16777215ULL << 40, 0 },
		{ "16777216T", 0, -ERANGE },
		{ "18446744073709551616", 0, -ERANGE },
		{ "", 0, -EINVAL },
		{ " 1", 0, -EINVAL },
		{ "-1", 0, -EINVAL },
		{ "+1", 0, -EINVAL },
		{ "1 K", 0, -EINVAL },
		{ "1KB", 0, -EINVAL },
		{ "1.5M", 0, -EINVAL },
		{ "0x10", 0, -EINVAL },
		{ "1P", 0, -EINVAL },
		{ "1{", 0, -EINVAL },
		{ "1\xff", 0, -EINVAL },
		{ "K", 0, -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t bytes = 77;

		assert_int_equal(shfs_config_parse_size(cases[i].text, &bytes),
		                 cases[i].r);
		assert_true(bytes == (cases[i].r ? 77 : cases[i].bytes));
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_key),
		cmocka_unit_test(errors_name_the_line),
		cmocka_unit_test(the_first_error_counts),
		cmocka_unit_test(keeps_what_is_right),
		cmocka_unit_test(long_lines_come_through_or_are_refused),
		cmocka_unit_test(nul_is_refused),
		cmocka_unit_test(what_windows_writes),
		cmocka_unit_test(unreadable_is_told),
		cmocka_unit_test(sizes),
	};

	return shfs_unit_main(tests, argc, argv);
}
