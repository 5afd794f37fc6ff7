/* SPDX-License-Identifier: MIT */
/* Tests of common/quote.c. */
#include "tests/unit/unit.h"

#include "common/io.h"
#include "common/quote.h"

#include <jansson.h>
#include <locale.h>
#include <string.h>
#include <sys/wait.h>

typedef void (*quote_fn)(struct shfs_buf *out, const char *s, size_t len);

/* The bytes are cut out, so that a sanitizer sees a read behind them. */
static void check(quote_fn quote, const char *s, size_t len, const char *expected)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	_cleanup_free_ char *exact = malloc(len ? len : 1);

	memcpy(exact, s, len);
	shfs_buf_str(&out, ">"); /* it appends */
	quote(&out, exact, len);
	assert_string_equal(out.data, expected);
}
#define CHECK(quote, s, expected) check(quote, s, sizeof(s) - 1, ">" expected)

static void display_controls(void **state)
{
	CHECK(shfs_quote_display, "", "");
	CHECK(shfs_quote_display, "plain name.txt", "plain name.txt");
	CHECK(shfs_quote_display, "a\nb\tc\rd", "a\\nb\\tc\\rd");
	CHECK(shfs_quote_display, "\a\b\v\f", "\\a\\b\\v\\f");
	CHECK(shfs_quote_display, "\033[31mred\033[0m", "\\e[31mred\\e[0m");
	CHECK(shfs_quote_display, "\001\037\177", "\\x01\\x1f\\x7f");
	CHECK(shfs_quote_display, "a\0b", "a\\x00b");
	CHECK(shfs_quote_display, "back\\slash", "back\\slash");
	CHECK(shfs_quote_display, "\xc2\x85|\xc2\x9b", "\\u{85}|\\u{9b}"); /* C1 */
}

static void display_unicode(void **state)
{
	CHECK(shfs_quote_display, "größe €", "größe €");
	CHECK(shfs_quote_display, "🐙", "🐙");
	CHECK(shfs_quote_display, "e\u0301", "e\u0301"); /* combining */
	CHECK(shfs_quote_display, "x\u202etxt.exe", "x\\u{202e}txt.exe");
	CHECK(shfs_quote_display, "\u2066\u2069\u200e\u200f\u061c",
	      "\\u{2066}\\u{2069}\\u{200e}\\u{200f}\\u{61c}");
	CHECK(shfs_quote_display, "\u2028\u2029", "\\u{2028}\\u{2029}");
	CHECK(shfs_quote_display, "a\u200bb\ufeffc\u00add",
	      "a\\u{200b}b\\u{feff}c\\u{ad}d");
	CHECK(shfs_quote_display, "\U000e0041", "\\u{e0041}"); /* tag letters */
}

static void display_invalid(void **state)
{
	CHECK(shfs_quote_display, "\xff\xfe", "\\xff\\xfe");
	CHECK(shfs_quote_display, "a\x80z", "a\\x80z");
	CHECK(shfs_quote_display, "\xc3", "\\xc3"); /* cut */
	CHECK(shfs_quote_display, "\xe2\x82", "\\xe2\\x82");
	CHECK(shfs_quote_display, "\xf0\x9f\x90", "\\xf0\\x9f\\x90");
	CHECK(shfs_quote_display, "\xc3(", "\\xc3(");
	CHECK(shfs_quote_display, "\xe2\x82\xc3\xa4", "\\xe2\\x82ä");
	CHECK(shfs_quote_display, "\xc0\x8a", "\\xc0\\x8a"); /* overlong newline */
	CHECK(shfs_quote_display, "\xe0\x80\x8a", "\\xe0\\x80\\x8a");
	CHECK(shfs_quote_display, "\xf0\x80\x80\x8a", "\\xf0\\x80\\x80\\x8a");
	CHECK(shfs_quote_display, "\xed\xa0\x80", "\\xed\\xa0\\x80"); /* surrogate */
	CHECK(shfs_quote_display, "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
	CHECK(shfs_quote_display, "\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80");
}

static void text_keeps_lines(void **state)
{
	CHECK(shfs_quote_text, "for x\ndo\n\techo\ndone", "for x\ndo\n\techo\ndone");
	CHECK(shfs_quote_text, "a\r\033\0b", "a\\r\\e\\x00b");
}

static void shell(void **state)
{
	CHECK(shfs_quote_shell, "", "''");
	CHECK(shfs_quote_shell, "a-b_c.d/e:f,g@h%i+j", "a-b_c.d/e:f,g@h%i+j");
	CHECK(shfs_quote_shell, "--opt=value", "--opt=value");
	CHECK(shfs_quote_shell, "a b", "'a b'");
	CHECK(shfs_quote_shell, "it's", "'it'\\''s'");
	CHECK(shfs_quote_shell, "~", "'~'");
	CHECK(shfs_quote_shell, "a~", "'a~'");
	CHECK(shfs_quote_shell, "$(x)`y`\\", "'$(x)`y`\\'");
	CHECK(shfs_quote_shell, "größe", "'größe'");
	CHECK(shfs_quote_shell, "=ls", "'=ls'"); /* zsh: the path of ls */
	CHECK(shfs_quote_shell, "a\nb", "$'a\\nb'");
	CHECK(shfs_quote_shell, "it's\t\\", "$'it\\'s\\t\\\\'");
	CHECK(shfs_quote_shell,
	      "\xff"
	      "7",
	      "$'\\3777'");
	CHECK(shfs_quote_shell, "\033\x7f", "$'\\033\\177'");
}

/* Names that each shell must give back as they were. */
static const char *const words[] = {
	"",
	" ",
	"a b",
	"-n",
	"=ls",
	"~root",
	"a=b",
	"'",
	"''\"\"",
	"\\",
	"\\n",
	"$HOME",
	"`id`",
	"$(id)",
	"!!",
	"#",
	"*",
	"[a]",
	"{a,b}",
	"a\nb",
	"\n",
	"\t\r",
	"\033[0m",
	"\x7f"
	"1",
	"\x01"
	"234",
	"\xff",
	"\xff"
	"123",
	"ä\xff'\\\n",
	"\u202e",
	"e\u0301",
	"a;b&c|d<e>f",
	"^a",
	"%1",
};

static void run_shell(const char *shell, const char *script, struct shfs_buf *out)
{
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execlp(shell, shell, "-c", script, NULL);
		_exit(127);
	}
	close(fds[1]);
	assert_int_equal(shfs_read_fd(fds[0], 1 << 20, out), 0);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void shell_gives_it_back(const char *shell)
{
	_cleanup_buf_ struct shfs_buf script = { 0 }, expected = { 0 }, out = { 0 };

	shfs_buf_str(&script, "printf '%s\\0'");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		shfs_buf_char(&script, ' ');
		shfs_quote_shell(&script, words[i], strlen(words[i]));
		shfs_buf_add(&expected, words[i], strlen(words[i]) + 1);
	}
	run_shell(shell, script.data, &out);
	assert_int_equal(out.len, expected.len);
	assert_memory_equal(out.data, expected.data, out.len);
}

static void bash_gives_it_back(void **state)
{
	shell_gives_it_back("bash");
}

static void zsh_gives_it_back(void **state)
{
	if (access("/usr/bin/zsh", X_OK))
		shfs_unit_skip("there is no zsh");
	shell_gives_it_back("zsh");
}

static void json(void **state)
{
	CHECK(shfs_quote_json, "", "\"\"");
	CHECK(shfs_quote_json, "a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
	CHECK(shfs_quote_json, "\n\t\r\b\x01\x7f",
	      "\"\\n\\t\\u000d\\u0008\\u0001\\u007f\"");
	CHECK(shfs_quote_json, "ä🐙", "\"ä🐙\"");
	CHECK(shfs_quote_json, "a\xff\xc3", "\"a\\udcff\\udcc3\"");
	CHECK(shfs_quote_json, "\xed\xa0\x80", "\"\\udced\\udca0\\udc80\"");
	CHECK(shfs_quote_json, "\u202e\U000e0041", "\"\\u202e\\udb40\\udc41\"");
	CHECK(shfs_quote_json, "a\0b", "\"a\\u0000b\"");
}

/* All bytes that are UTF-8 come back from a JSON reader. */
static void json_is_json(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		_cleanup_buf_ struct shfs_buf out = { 0 };
		json_t *value;

		if (strchr(words[i], '\xff'))
			continue;
		shfs_quote_json(&out, words[i], strlen(words[i]));
		value = json_loads(out.data, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		assert_non_null(value);
		assert_string_equal(json_string_value(value), words[i]);
		json_decref(value);
	}
}

/* Whatever the bytes are: one line, printable, and no two of them alike. */
static void every_pair_of_bytes(void **state)
{
	for (unsigned pair = 0; pair < 65536; pair++) {
		const char s[2] = { (char)(pair >> 8), (char)pair };
		_cleanup_buf_ struct shfs_buf out = { 0 };

		shfs_quote_display(&out, s, 2);
		for (size_t i = 0; i < out.len; i++) {
			unsigned char c = (unsigned char)out.data[i];

			if (c < 0x20 || c == 0x7f)
				fail_msg("%04x shows as a control", pair);
		}
		assert_true(mbstowcs(NULL, out.data, 0) != (size_t)-1);
	}
}

static void turtle(void **state)
{
	CHECK(shfs_quote_turtle, "a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
	CHECK(shfs_quote_turtle, "\n\t\r\x7f", "\"\\n\\t\\u000D\\u007F\"");
	CHECK(shfs_quote_turtle, "ä🐙\u202e\U000e0041", "\"ä🐙\\u202E\\U000E0041\"");
	CHECK(shfs_quote_turtle, "a\xff\xc3", "\"a\\\\xff\\\\xc3\"");
}

static void uri(void **state)
{
	CHECK(shfs_quote_uri, "/a/B-1._~", "/a/B-1._~");
	CHECK(shfs_quote_uri, " %?#:@\n\xff", "%20%25%3F%23%3A%40%0A%FF");
	CHECK(shfs_quote_uri, "ä", "%C3%A4");
	assert_true(shfs_is_utf8("ä\n", 3) && shfs_is_utf8("", 0));
	assert_false(shfs_is_utf8("a\xff", 2) || shfs_is_utf8("\xc3", 1));
}

static void width(void **state)
{
	assert_int_equal(shfs_quote_width("", 0), 0);
	assert_int_equal(shfs_quote_width("abc", 3), 3);
	assert_int_equal(shfs_quote_width("größe", 7), 5);
	assert_int_equal(shfs_quote_width("e\u0301", 3), 1);
	assert_int_equal(shfs_quote_width("\u6f22\u5b57", 6), 4); /* wide */
	assert_int_equal(shfs_quote_width("a\nb", 3), 4);
	assert_int_equal(shfs_quote_width("\xff", 1), 4);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(display_controls),
		cmocka_unit_test(display_unicode),
		cmocka_unit_test(display_invalid),
		cmocka_unit_test(text_keeps_lines),
		cmocka_unit_test(shell),
		cmocka_unit_test(bash_gives_it_back),
		cmocka_unit_test(zsh_gives_it_back),
		cmocka_unit_test(json),
		cmocka_unit_test(json_is_json),
		cmocka_unit_test(every_pair_of_bytes),
		cmocka_unit_test(turtle),
		cmocka_unit_test(uri),
		cmocka_unit_test(width),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return shfs_unit_main(tests, argc, argv);
}
