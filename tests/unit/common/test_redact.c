/* SPDX-License-Identifier: MIT */
/* The examples of tests/secrets, and what is not a line of them. */
#include "tests/unit/unit.h"

#include "common/buf.h"
#include "common/io.h"
#include "common/secrets.h"

#include <fcntl.h>
#include <string.h>

static struct shfs_redactor *redactor(const char *patterns)
{
	char none[] = "";
	struct shfs_config config = { .redact = true, .secrets = none };
	struct shfs_redactor *r;

	if (patterns)
		r = shfs_redactor_new(patterns);
	else
		assert_int_equal(shfs_secrets_redactor(&config, &r), 0);
	assert_non_null(r);
	return r;
}

static void assert_redacted(struct shfs_redactor *r, const char *text, size_t len,
                            bool separated, const char *wanted, size_t wanted_len)
{
	_cleanup_free_ char *out = NULL;
	size_t out_len = 0;
	int n = shfs_redact(r, text, len, separated, &out, &out_len);

	if (!n && wanted_len == len && !memcmp(text, wanted, len))
		return;
	if (n != 1 || out_len != wanted_len || memcmp(out, wanted, out_len) != 0)
		fail_msg("%s\n   became %d %s\ninstead of %s", text, n,
		         out ?: "(nothing)", wanted);
	/* and again is nothing new */
	assert_int_equal(shfs_redact(r, wanted, wanted_len, separated, &out, &out_len),
	                 0);
}

/* Of a line of the examples: what is typed, and what is to be kept of it. */
static void read_example(const char *line, struct shfs_buf *typed, struct shfs_buf *kept)
{
	bool secret = false;

	for (const char *p = line; *p; p++) {
		char c = *p;

		if (!strncmp(p, "{}", 2)) {
			p++;
			continue;
		} else if (!strncmp(p, "{{", 2)) {
			shfs_buf_str(kept, SHFS_REDACTED);
			secret = true;
			p++;
			continue;
		} else if (!strncmp(p, "}}", 2)) {
			secret = false;
			p++;
			continue;
		} else if (!strncmp(p, "\\n", 2)) {
			c = '\n';
			p++;
		}
		shfs_buf_char(typed, c);
		if (!secret)
			shfs_buf_char(kept, c);
	}
	assert_false(typed->failed || kept->failed);
}

static void check_examples(const char *name, bool plain)
{
	struct shfs_redactor *r = redactor(NULL);
	_cleanup_buf_ struct shfs_buf text = { 0 };
	_cleanup_free_ char *path = NULL;
	unsigned n = 0;
	char *rest;

	assert_true(asprintf(&path, "%s/%s", SECRETS, name) > 0);
	assert_int_equal(shfs_read_file_at(AT_FDCWD, path, 1 << 20, &text), 0);
	rest = text.data;
	for (char *line; (line = strsep(&rest, "\n"));) {
		_cleanup_buf_ struct shfs_buf typed = { 0 }, kept = { 0 };

		if (!*line || *line == '#')
			continue;
		read_example(line, &typed, &kept);
		assert_true(plain == (typed.len == kept.len &&
		                      !memcmp(typed.data, kept.data, kept.len)));
		assert_redacted(r, typed.data, typed.len, false, kept.data, kept.len);
		n++;
	}
	assert_true(n > 50);
	shfs_redactor_free(r);
}

static void test_secrets(void **state)
{
	check_examples("secret.txt", false);
}

static void test_plain(void **state)
{
	check_examples("plain.txt", true);
}

/* Every pattern of the list holds: none is left out as one that is wrong. */
static void test_list(void **state)
{
	char none[] = "";
	struct shfs_config config = { .redact = true, .secrets = none };
	_cleanup_free_ char *patterns = shfs_secrets_patterns(&config);
	char *rest = patterns;

	assert_non_null(patterns);
	for (char *line; (line = strsep(&rest, "\n"));)
		if (*line && shfs_redact_fault(line))
			fail_msg("%s: %s", line, shfs_redact_fault(line));
	config.redact = false;
	free(patterns);
	patterns = shfs_secrets_patterns(&config);
	assert_string_equal(patterns, "");
}

#define ARGS(r, text, wanted)                                                            \
	assert_redacted(r, text, sizeof(text) - 1, true, wanted, sizeof(wanted) - 1)

static void test_arguments(void **state)
{
	struct shfs_redactor *r = redactor(NULL);

	ARGS(r, "mysql\0-u\0root\0-phunter2\0study",
	     "mysql\0-u\0root\0-p[redacted]\0study");
	ARGS(r, "tool\0--password\0hun ter\0in", "tool\0--password\0[redacted]\0in");
	ARGS(r, "tool\0--password=a \"b' c\0in", "tool\0--password=[redacted]\0in");
	ARGS(r, "env\0PGPASSWORD=a;b\0psql", "env\0PGPASSWORD=[redacted]\0psql");
	ARGS(r, "curl\0-H\0Authorization: Bearer abc\0http://a",
	     "curl\0-H\0Authorization: Bearer [redacted]\0http://a");
	ARGS(r, "curl\0-u\0me:abc\0http://a", "curl\0-u\0me:[redacted]\0http://a");
	ARGS(r, "git\0clone\0https://me:abc@host/a.git\0d",
	     "git\0clone\0https://me:[redacted]@host/a.git\0d");
	ARGS(r, "sh\0-c\0cd x && T_TOKEN=abc ./run\0y",
	     "sh\0-c\0cd x && T_TOKEN=[redacted] ./run\0y");
	ARGS(r, "git\0\0checkout\0main\0", "git\0\0checkout\0main\0");
	shfs_redactor_free(r);
}

/* Behind long text, within it, and longer than what is looked at. */
static void test_long(void **state)
{
	static const char secret[] = " --password=hunter2 ",
			  kept[] = " --password=[redacted] ";
	struct shfs_redactor *r = redactor(NULL);
	_cleanup_buf_ struct shfs_buf text = { 0 }, wanted = { 0 };

	shfs_buf_reserve(&text, 3 << 20);
	while (text.len < 2 << 20)
		shfs_buf_str(&text, text.len % 20000 ? "abcdef/_-=" : "a://bcdefg");
	shfs_buf_add(&wanted, text.data, text.len);
	shfs_buf_str(&text, secret);
	shfs_buf_str(&wanted, kept);
	assert_redacted(r, text.data, text.len, false, wanted.data, wanted.len);

	text.len = wanted.len = 0;
	shfs_buf_str(&text, "--password=");
	shfs_buf_str(&wanted, "--password=[redacted] end");
	while (text.len < 1 << 20)
		shfs_buf_char(&text, 'x');
	shfs_buf_str(&text, " end");
	assert_redacted(r, text.data, text.len, false, wanted.data, wanted.len);
	shfs_redactor_free(r);
}

/* So many beginnings that all behind them goes: no secret is let through. */
static void test_many(void **state)
{
	struct shfs_redactor *r = redactor(NULL);
	_cleanup_buf_ struct shfs_buf text = { 0 };
	_cleanup_free_ char *out = NULL;
	size_t len = 0;

	while (text.len < 1 << 20)
		shfs_buf_str(&text, "curl ");
	shfs_buf_str(&text, "--password=hunter2");
	assert_int_equal(shfs_redact(r, text.data, text.len, false, &out, &len), 1);
	assert_null(strstr(out, "hunter2"));
	assert_true(len < text.len);
	shfs_redactor_free(r);
}

static void test_bytes(void **state)
{
	struct shfs_redactor *r = redactor(NULL);

	assert_redacted(r, "", 0, false, "", 0);
	assert_redacted(r, "ab", 2, false, "ab", 2);
	assert_redacted(r, "\xff\xfe --password=\xff\x80\xc3 \xff", 20, false,
	                "\xff\xfe --password=[redacted] \xff", 27);
	assert_int_equal(shfs_redact(NULL, "--password=x", 12, false, NULL, NULL), 0);
	shfs_redactor_free(r);
}

static void test_own_patterns(void **state)
{
	struct shfs_redactor *r = redactor(
		"abc[\n\\bACME-[0-9]{4}\n(?i)lab-?key <word>\nlab\\.code=([0-9]+);");

	assert_null(shfs_redact_fault("\\bACME-[0-9]{4}"));
	assert_null(shfs_secrets_fault("(?i)\\blab=<word>"));
	assert_null(shfs_redact_fault("abc(d|e)[|]\\|"));
	assert_non_null(shfs_redact_fault(""));
	assert_non_null(shfs_redact_fault("[A-Z]{10}"));
	assert_non_null(shfs_redact_fault("abcd|efgh"));
	assert_non_null(shfs_redact_fault("abcd("));
	assert_non_null(shfs_redact_fault("abc?d"));
	/* what libc compiles or matches for hours */
	assert_non_null(shfs_redact_fault("abcd**"));
	assert_non_null(shfs_redact_fault("abcd{2}+"));
	assert_non_null(shfs_redact_fault("abc(.*)\\1"));
	assert_non_null(shfs_redact_fault("abc((d{100}){100}){100}"));
	assert_non_null(shfs_redact_fault("abc((((((((((((((((((d)*)*)*)*)*)*)*)*)*)*)*)*"
	                                  ")*)*)*)*)*)*"));
	assert_null(shfs_redact_fault("abc[*+]*(d{3,40})+\\**"));
	assert_redacted(r, "x ACME-1234 xACME-1234 ACME-12", 30, false,
	                "x [redacted] xACME-1234 ACME-12", 31);
	assert_redacted(r, "lab.code=17;", 12, false, "lab.code=[redacted];", 20);
	shfs_redactor_free(r);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_secrets), cmocka_unit_test(test_plain),
		cmocka_unit_test(test_list),    cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_long),    cmocka_unit_test(test_many),
		cmocka_unit_test(test_bytes),   cmocka_unit_test(test_own_patterns),
	};

	return shfs_unit_main(tests, argc, argv);
}
