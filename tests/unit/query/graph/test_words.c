/* SPDX-License-Identifier: MIT */
/* Tests of query/graph/words.c. */
#include "tests/unit/unit.h"

#include "query/graph/internal.h"

#include <string.h>

static const char cwd[] = "/home/me/p";

static int add_word(const char *path, enum word_role role, void *arg)
{
	struct shfs_buf *out = arg;

	shfs_buf_printf(out, "%s%s%s", out->len ? " " : "",
	                role == WORD_APPENDED  ? ">>"
	                : role == WORD_WRITTEN ? ">"
	                                       : "",
	                *path ? path : "?");
	return 0;
}

/* The words of a text, with their roles. */
static void check_words(const char *text, const char *wanted)
{
	const struct shfs_command_row c = { .text = (char *)text, .cwd = (char *)cwd };
	_cleanup_buf_ struct shfs_buf out = { 0 };

	assert_int_equal(shfs_graph_words(&c, add_word, &out), 0);
	assert_string_equal(out.data ?: "", wanted);
}

static void test_words(void **state)
{
	setenv("T", "/tmp/t", 1);
	setenv("HOME", "/home/me", 1);
	setenv("relative", "x", 1);
	unsetenv("unset");
	check_words("", "");
	check_words("sort in > /tmp/x", "/home/me/p/sort /home/me/p/in >/tmp/x");
	check_words("sort<in>>$T/x", "/home/me/p/sort /home/me/p/in >>/tmp/t/x");
	check_words("/s \"$T/a b\" ${T}/c '/d e' /f\\ g",
	            "/s /tmp/t/a b /tmp/t/c /d e /f g");
	check_words("/s ~/x $unset/x $unset /tmp/*.x /t$n", "/s /home/me/x x ? ? ?");
	check_words("/s $relative/x ${T", "/s x ?");
	check_words("/s -o /x --out=/y of=$T/z -v >| /q 2> /r &> /t >& /u",
	            "/s /x /y /tmp/t/z >/q /home/me/p/2 >/r >/t >/u");
	check_words("A=/b /s; T=/c", "/b /s /c");
	check_words("/s <<< /a; /s 'open", "/s /a /s /home/me/p/open");
}

static void test_outputs(void **state)
{
	check_words("/bin/x /a /b", "/bin/x /a /b");
	check_words("cp /a /b && mv /c /d; /e",
	            "/home/me/p/cp /a >/b /home/me/p/mv /c >/d /e");
	check_words("do cp /a /b < /c", "/home/me/p/do /home/me/p/cp /a >/b /c");
}

static void test_directories(void **state)
{
	check_words("cd /tmp; /s x > y", "/home/me/p/cd /s /tmp/x >/tmp/y");
	check_words("(cd /tmp && /s x) > y", "/home/me/p/cd /s /tmp/x >/home/me/p/y");
	check_words("(cd /tmp; cd a; /s x", "/home/me/p/cd /tmp/cd /s /tmp/a/x");
	check_words("cd $unset; /s x /y; (cd /z; /s x)",
	            "/home/me/p/cd /s ? /y ? /s /z/x");
	check_words("(cd /a; (cd /b); /s x)) x",
	            "/home/me/p/cd /a/cd /s /home/me/p/x /home/me/p/x");
}

static enum word_role roles_of(const char *text, const char *path)
{
	const struct shfs_command_row c = { .text = (char *)text, .cwd = (char *)cwd };
	enum word_role roles;

	assert_int_equal(shfs_graph_text_names(&c, path, &roles), 0);
	return roles;
}

static void test_roles(void **state)
{
	assert_int_equal(roles_of("sort in > /tmp/x", "/tmp/x"), WORD_WRITTEN);
	assert_int_equal(roles_of("sort in > $unset/x", "/tmp/x"), WORD_WRITTEN);
	assert_int_equal(roles_of("sort in > x", "/tmp/x"), 0);
	assert_int_equal(roles_of("echo 1 >> $unset", "/tmp/x"), WORD_MAY_APPEND);
	assert_int_equal(roles_of("sort /tmp/x >> /tmp/x", "/tmp/x"),
	                 WORD_OTHER | WORD_APPENDED);
	assert_int_equal(roles_of("cat /tmp/x | less", "/tmp/x"), 0);
	assert_int_equal(roles_of("cat /tmp/x | sort", "/tmp/x"), WORD_OTHER);
	assert_int_equal(roles_of("sed s/a/b/ /tmp/x", "/tmp/x"), WORD_OTHER);
	assert_int_equal(roles_of("sed -i s/a/b/ /tmp/x", "/tmp/x"),
	                 WORD_OTHER | WORD_CHANGED);
	assert_int_equal(roles_of("rm /tmp/y /tmp/x", "/tmp/x"),
	                 WORD_OTHER | WORD_CHANGED);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_outputs),
		cmocka_unit_test(test_directories),
		cmocka_unit_test(test_roles),
	};

	return shfs_unit_main(tests, argc, argv);
}
