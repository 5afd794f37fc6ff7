/* SPDX-License-Identifier: MIT */
/* Tests of shellhook/uses.c, with a shell of a few words; what a line uses in real shells
 * is in cases/test_definitions.py. */
#include "tests/unit/unit.h"

#include "shellhook/uses.h"

#include <stdlib.h>
#include <string.h>

/* --- the shell --- */

static const struct word {
	char kind;
	const char *name, *body;
	bool exported;
} words[] = {
	{ 'a', "a", "b -x", false },        { 'a', "b", "f", false },
	{ 'a', "e", "env ", false },        { 'a', "loop", "loop loop", false },
	{ 'f', "f", "f () { g; }", false }, { 'f', "g", "g () { f; a; }", false },
	{ 'f', "x", "x () { :; }", true },  { 'f', "huge", NULL, false },
};

static const struct word *find_word(char kind, const char *name)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (words[i].kind == kind && !strcmp(words[i].name, name))
			return &words[i];
	return NULL;
}

static bool set_definition(const struct word *word, struct definition *out)
{
	if (word)
		*out = (struct definition){ word->kind, word->name, word->body,
			                    word->body ? strlen(word->body) : 0, word };
	return word;
}

bool shell_find_alias(const char *word, bool is_command, struct definition *out)
{
	return is_command && set_definition(find_word('a', word), out);
}

bool shell_find_function(const char *word, bool only_exported, struct definition *out)
{
	const struct word *found = find_word('f', word);

	return (!only_exported || (found && found->exported)) &&
	       set_definition(found, out);
}

void shell_load_function(struct definition *d, size_t max)
{
}

bool shell_has_comments(void)
{
	return true;
}

const struct shell_option *shell_option(size_t i, bool *usual)
{
	static const struct shell_option options[] = { { "set -f", "*" },
		                                       { "set -u", NULL },
		                                       { "set -e", "?" } };

	*usual = i == 1;
	return i < 3 ? &options[i] : NULL;
}

/* --- tests --- */

/* The names that a line uses, in the order of the table; and "+" if there are more. */
static void names_of(const char *line, size_t len, char out[64])
{
	static struct uses uses;
	char *exact = malloc(len + 1);
	size_t n = 0;

	memcpy(exact, line, len);
	exact[len] = '\0';
	uses_find(&uses, exact);
	free(exact);
	assert_true(uses.n <= USES_MAX && uses.len <= USES_BYTES);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		for (size_t k = 0; k < uses.n; k++) {
			const char *raw = uses.raw + uses.list[k].at;

			assert_true(uses.list[k].at + uses.list[k].len <= uses.len);
			if (*raw != words[i].kind || strcmp(raw + 1, words[i].name))
				continue;
			assert_int_equal(uses.list[k].whole, words[i].body != NULL);
			out[n++] = words[i].name[0];
		}
	if (uses.more)
		out[n++] = '+';
	out[n] = '\0';
}

static void lines(void **state)
{
	static const struct {
		const char *line, *names;
	} cases[] = {
		{ "", "" },
		{ "a", "abfg" },
		{ "b y", "bfg" },
		{ "cat a b f", "" },
		{ "cat x", "x" },
		{ "bash -c 'x; g'", "x" },
		{ "\\a; 'b'; \"f\"", "fg" },
		{ "\"g\" y", "fg" },
		{ "A='1 2' B=\"$(f)\" a", "abfg" },
		{ "A=1 e b", "bef"
		             "g" },
		{ "e cat b", "e" },
		{ "loop", "l" },
		{ "huge", "h" },
		{ "cat <a >b 2>f", "" },
		{ "<f 2>&1 >x b", "bfg" },
		{ "2>&- b", "bfg" },
		{ "cat | b", "bfg" },
		{ "for a in b f; do g; done", "fg" },
		{ "case b in f) g;; esac", "fg" },
		{ "if ! time g; then :; fi", "fg" },
		{ "echo `g`", "fg" },
		{ "echo \"${y:-$(g)}\"", "fg" },
		{ "diff <(b) <(cat)", "bfg" },
		{ "cat # a\n", "" },
		{ "cat # don't\nb", "bfg" },
		{ "cat <<E\ndon't b\n$(g)\nE\n", "fg" },
		{ "cat <<'E' <<-F\n$(g)\nE\n\ta\n\tF\nb", "bfg" },
		{ "cat <<'E'\n$(g)\nE", "" },
		{ "eval 'b y'", "bfg" },
		{ "trap g EXIT", "fg" },
		{ "cat 'b; g'", "" },
		{ "{b}", "bfg" },
		{ "cat <<<b", "" },
		{ "cat <<$y\n:", "+" },
		{ "echo $((1<<y)) \"$((1<<$y))\"\nb", "bfg" },
		{ "((y<<=$y)); b", "bfg" },
		{ "((y<<=$(g)))\nb", "bfg" },
		{ "for ((y = 1; y << $y; )); do b; done", "bfg" },
		{ "((cat <<E); (g))\na\nE\n", "fg" },
		{ "$((cat <<$y); g)\n", "fg+" },
		{ "echo 'y << $y' \"y << $y\"; g", "fg" },
		{ "cat 2>&-|b", "bfg" },
		{ "cat 2>&-&b", "bfg" },
		{ "cat <&->x; b", "bfg" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char names[64];

		names_of(cases[i].line, strlen(cases[i].line), names);
		if (strcmp(names, cases[i].names))
			fail_msg("%s: %s", cases[i].line, names);
	}
}

/* Options that are not as in a new shell, and that the line may depend on. */
static void options(void **state)
{
	static const struct {
		const char *line, *commands;
	} cases[] = { { "ls", NULL },
		      { "ls *", "set -f" },
		      { "ls ? *", "set -f\nset -e" },
		      { "x", "set -f\nset -e" } };
	static struct uses uses;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *raw;

		uses_find(&uses, cases[i].line);
		raw = uses.n ? uses.raw + uses.list[uses.n - 1].at : "";
		assert_int_equal(*raw == 'o', cases[i].commands != NULL);
		if (cases[i].commands)
			assert_string_equal(raw + 2, cases[i].commands);
	}
}

/* Whatever is typed: within bounds, and it ends. */
static void any_line(void **state)
{
	static const char *const parts[] = {
		"a",   "b ",   "f",   "eval ", "'",    "\"",  "`",     "$(", "(",
		")",   "${",   "}",   "{",     ";",    "|",   "&",     "<",  ">",
		"<<E", "E\n",  "\n",  "\\",    "#",    " ",   "\t",    "=",  "$",
		"-",   "\xff", "<<-", "loop",  "for ", "do ", "case ", "2",  "$'",
	};
	unsigned seed = 1;

	for (unsigned round = 0; round < 3000; round++) {
		char line[2048], names[64];
		size_t len = 0;

		for (unsigned n = 0; n < 1 + round / 10; n++) {
			const char *part;

			seed = seed * 1103515245 + 12345;
			part = parts[(seed >> 16) % (sizeof(parts) / sizeof(*parts))];
			if (len + strlen(part) < sizeof(line))
				len = (size_t)(stpcpy(line + len, part) - line);
		}
		names_of(line, len, names);
	}
}

/* Many openings without an end take no longer than their length allows. */
static void deep_lines(void **state)
{
	static const char *const openings[] = {
		"$(", "${", "\"$(", "eval \"$(", "`", "(", "\"", "eval '", "((y ", "$(("
	};

	for (size_t i = 0; i < sizeof(openings) / sizeof(*openings); i++) {
		size_t len = strlen(openings[i]), n = 20000 / len;
		char *line = malloc(n * len + 1), names[64];

		for (size_t k = 0; k < n; k++)
			memcpy(line + k * len, openings[i], len + 1);
		names_of(line, n * len, names);
		free(line);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines),
		cmocka_unit_test(options),
		cmocka_unit_test(any_line),
		cmocka_unit_test(deep_lines),
	};

	return shfs_unit_main(tests, argc, argv);
}
