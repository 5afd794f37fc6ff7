/* SPDX-License-Identifier: MIT */
/* Tests of query/screen/fuzzy.c. */
#include "tests/unit/unit.h"

#include "query/screen/fuzzy.h"

#include <locale.h>
#include <string.h>

#define assert_ok(r) assert_int_equal((r), 0)

static int match(const char *query, const char *text)
{
	_cleanup_fuzzy_ struct shfs_fuzzy *f = NULL;
	size_t len = strlen(text);

	assert_ok(shfs_fuzzy_parse(query, &f));
	return shfs_fuzzy_match(f, text, len, shfs_fuzzy_mask(text, len));
}

#define assert_fits(query, text) assert_true(match(query, text) >= 0)
#define assert_not(query, text)  assert_int_equal(match(query, text), -1)
#define assert_better(query, text, other)                                                \
	assert_true(match(query, text) > match(query, other))

static void test_terms(void **state)
{
	assert_fits("", "");
	assert_fits("", "anything");
	assert_fits("  ", "anything");
	assert_fits("gcm", "git commit");
	assert_not("gmc", "git commit");
	assert_fits("commit git", "git commit");
	assert_not("commit git x", "git commit");
	assert_not("'gcm", "git commit");
	assert_fits("'comm", "git commit");
	assert_fits("^git", "git commit");
	assert_fits("^git", "  git commit");
	assert_not("^commit", "git commit");
	assert_fits("mit$", "git commit ");
	assert_not("git$", "git commit");
	assert_fits("^git$", "git");
	assert_not("^git$", "git commit");
}

static void test_more_terms(void **state)
{
	assert_not("git !commit", "git commit");
	assert_fits("git !gc", "git commit");
	assert_not("!^git", "git commit");
	assert_not("!mit$", "git commit");
	assert_fits("push | commit", "git commit");
	assert_not("push | pull", "git commit");
	assert_not("push | commit x", "git commit");
	assert_fits("| commit", "git commit");
	assert_fits("commit |", "git commit");
	assert_fits("'t\\ c", "git commit");
	assert_not("'t\\ c", "gitcommit");
	for (const char *const *q = (const char *const[]){ "!", "'", "^", "^ ' !", NULL };
	     *q; q++)
		assert_fits(*q, "git commit");
	assert_fits("$", "echo $HOME");
	assert_not("$", "echo");
	assert_fits("'a|b", "xa|b");
}

static void test_case(void **state)
{
	assert_fits("readme", "README");
	assert_not("Readme", "README");
	assert_fits("README", "README");
	assert_fits("übung", "ÜBUNG");
	assert_not("Übung", "übung");
	assert_fits("ж", "Ж");
	assert_fits("\xff", "a\xff");
	assert_not("\xff", "a\xfe");
}

static void test_ranks(void **state)
{
	assert_better("test", "make test", "make latest");
	assert_better("abc", "abc", "a b c");
	assert_better("abc", "xabc", "xaxbxc");
	assert_better("ab", "a-b", "axxxb");
	assert_better("main", "src/main.c", "src/domain.c");
	assert_better("fb", "fooBar", "foobar");
	/* not the first place, but the best */
	assert_better("conf", "xconf conf", "xconf xconf");
}

static void test_marks(void **state)
{
	static const char text[] = "git commit";
	_cleanup_fuzzy_ struct shfs_fuzzy *f = NULL;
	bool marked[sizeof(text)] = { false };
	char shown[sizeof(text)] = "";

	assert_ok(shfs_fuzzy_parse("gcm !x 'mit", &f));
	shfs_fuzzy_mark(f, text, strlen(text), marked);
	for (size_t i = 0; i < strlen(text); i++)
		shown[i] = marked[i] ? '^' : '.';
	assert_string_equal(shown, "^...^.^^^^");
}

static void test_narrows(void **state)
{
	assert_true(shfs_fuzzy_narrows("abc", "ab"));
	assert_true(shfs_fuzzy_narrows("ab c", "ab"));
	assert_true(shfs_fuzzy_narrows("'ab", "'"));
	assert_true(shfs_fuzzy_narrows("a", ""));
	assert_true(shfs_fuzzy_narrows("!a ", "!a"));
	assert_true(shfs_fuzzy_narrows("!a b$ cd", "!a b$ c"));
	assert_false(shfs_fuzzy_narrows("!ab c", "!a"));
	assert_false(shfs_fuzzy_narrows("!a b$", "!a b"));
	assert_false(shfs_fuzzy_narrows("ab", "abc"));
	assert_false(shfs_fuzzy_narrows("!ab", "!a"));
	assert_false(shfs_fuzzy_narrows("a$b", "a$"));
	assert_false(shfs_fuzzy_narrows("a | b", "a |"));
	assert_false(shfs_fuzzy_narrows("a\\ b", "a\\"));
}

static void test_long(void **state)
{
	char query[5000], text[5000];

	memset(query, 'a', sizeof(query));
	memset(text, 'a', sizeof(text));
	query[sizeof(query) - 1] = text[sizeof(text) - 1] = '\0';
	assert_fits(query, text);
	memset(query, ' ', 1000);
	assert_fits(query, text);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_terms), cmocka_unit_test(test_more_terms),
		cmocka_unit_test(test_case),  cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_marks), cmocka_unit_test(test_narrows),
		cmocka_unit_test(test_long),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return shfs_unit_main(tests, argc, argv);
}
