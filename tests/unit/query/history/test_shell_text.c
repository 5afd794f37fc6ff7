/* SPDX-License-Identifier: MIT */
/* Tests of query/history/shell-text.c. */
#include "tests/unit/unit.h"

#include "query/history/shell-text.h"

#include <string.h>

/* What the text takes from its shell; "" where nothing is seen. */
static const char *needed(const char *text)
{
	static char said[200];
	_cleanup_buf_ struct shfs_buf what = { 0 };

	said[0] = '\0';
	if (shfs_text_needs_shell(text, &what))
		snprintf(said, sizeof(said), "%s", what.data);
	else
		assert_int_equal(what.len, 0);
	return said;
}

#define FREE(text)          assert_string_equal(needed(text), "")
#define NEEDS(text, what)   assert_string_equal(needed(text), what)
#define UNKNOWN(text, name) NEEDS(text, "uses the variable " name)

static void test_variables(void **state)
{
	unsetenv("unset");
	setenv("exported", "1", 1);
	UNKNOWN("echo $unset", "unset");
	UNKNOWN("echo ${unset}x", "unset");
	UNKNOWN("echo \"a $unset\"", "unset");
	UNKNOWN("echo ${#unset} ${unset%.*}", "unset");
	UNKNOWN("echo $(sort $unset)", "unset");
	UNKNOWN("unset2=3; echo $unset", "unset");
	UNKNOWN("echo $unset; unset_=2", "unset");
	UNKNOWN("cd $OLDPWD", "OLDPWD");
	FREE("echo $exported $HOME $RANDOM $? $$ $! $1 $@ $# $-");
	FREE("unset=3; echo $unset");
	FREE("unset+=(a b); echo ${unset[@]}");
	FREE("unset[1]=3; echo $unset");
	FREE("echo ${unset:-x} ${unset-x} ${unset:=y} ${unset+z} ${unset:?no}");
	FREE("for unset in a b; do echo $unset; done");
	FREE("while read -r a unset; do echo $unset; done < in");
	FREE("printf -v unset %s x; echo $unset");
	FREE("set unset 3; echo $unset");
	FREE("");
	FREE("$");
	FREE("${");
	FREE("echo ${");
}

static void test_quotes(void **state)
{
	FREE("awk '{ print $unset }' in");
	FREE("echo \\$unset \"\\$unset\" $'\\'$unset'");
	FREE("echo \"$(awk '{ print $unset }' in)\"");
	FREE("sort in # $unset");
	FREE("cat <<'END'\n$unset\nEND");
	FREE("cat <<-\\END\n$unset\nEND");
	UNKNOWN("cat <<END\n$unset\nEND", "unset");
	UNKNOWN("cat <<< \"it's $unset\"", "unset");
	UNKNOWN("echo \"it's\" $unset '$other'", "unset");
	UNKNOWN("echo 'a' # b\necho $unset", "unset");
	UNKNOWN("echo a#b $unset", "unset");
	FREE("echo 'never closed $unset");
	FREE("echo \"never closed");
	FREE("echo ((((((((((((((((((((((((((((((((((((((((((((");
	FREE("))))))))))))))))))");
	FREE("echo \\");
	FREE("#");
}

static void test_state(void **state)
{
	const char *remembers = "uses what the shell remembers";
	const char *reads = "reads from the terminal";

	NEEDS("fg", remembers);
	NEEDS("sort in; popd", remembers);
	NEEDS("(dirs > out)", remembers);
	NEEDS("cd - && sort in", "goes to where the shell was before");
	NEEDS("read a", reads);
	NEEDS("python3", reads);
	NEEDS("cat > notes", reads);
	NEEDS("true && bash", reads);
	FREE("read a < in");
	FREE("echo 1 | cat > out");
	FREE("python3 script.py");
	FREE("bash run.sh");
	FREE("cat in > out");
	FREE("cd -P .");
	FREE("echo fg; ./fg; fgrep x in");
}

static void test_pipelines(void **state)
{
	static const char *const are[] = {
		"sort in > out",
		" cat in | head -c 5 >| out 2>&1",
		"python3 -c 'a; b && c' &> out",
		"sort \"$(echo a; echo b)\" > out # a; b",
		"LC_ALL=C sort <(tac in) >> out",
		"sort \\; a\\&b > out",
	};
	static const char *const are_not[] = {
		"",
		"sort in > out; false",
		"sort in > out && false",
		"sort in &",
		"sort in || true",
		"! sort in > out",
		"(sort in)",
		"{ sort in; }",
		"sort in\nfalse",
		"a # b\ndone",
		"for i in a; do b; done",
	};

	for (size_t i = 0; i < ARRAY_SIZE(are); i++)
		assert_true(shfs_text_is_pipeline(are[i]));
	for (size_t i = 0; i < ARRAY_SIZE(are_not); i++)
		assert_false(shfs_text_is_pipeline(are_not[i]));
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_pipelines),
	};

	return shfs_unit_main(tests, argc, argv);
}
