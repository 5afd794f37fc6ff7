/* SPDX-License-Identifier: MIT */
/* The built-in rules and the order of the lists; tests/cases/test_rules.py holds the
 * patterns against git's. */
#include "tests/unit/unit.h"

#include "store/capture/rules.h"

#include <string.h>

static struct shfs_rules *rules_of(const char *ignore, const char *archive_read,
                                   const char *shfsignore)
{
	_cleanup_free_ char *a = strdup(ignore), *b = strdup(archive_read);
	struct shfs_config config = { .ignore = a, .archive_read = b };
	struct shfs_rules *rules = NULL;

	assert_int_equal(shfs_rules_new(&config, shfsignore, &rules), 0);
	return rules;
}

/* path: a slash at its end says that it is a directory. */
static enum shfs_rule rule_of(const struct shfs_rules *rules, const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	size_t len = strlen(path);
	bool directory = len && path[len - 1] == '/';

	copy[len - directory] = '\0';
	return shfs_rules_match(rules, copy, directory);
}

static void expect(const struct shfs_rules *rules, enum shfs_rule rule,
                   const char *const *paths)
{
	for (; *paths; paths++)
		if (rule_of(rules, *paths) != rule)
			fail_msg("%s: %d", *paths, rule_of(rules, *paths));
}
#define EXPECT(rules, rule, ...)                                                         \
	expect((rules), (rule), (const char *const[]){ __VA_ARGS__, NULL })

static void built_in(void **state)
{
	struct shfs_rules *r = rules_of("", "", NULL);

	EXPECT(r, SHFS_RULE_ARCHIVE, "data.csv", "a/b/figure.png", "git/objects/x", "x.o",
	       "env", "a.env.txt", "credentials", "keyboard", "monkey", "a.keys", "");
	EXPECT(r, SHFS_RULE_ARCHIVE_READ, "run.sh", "a/b/model.py", "Makefile",
	       "sub/Snakefile", "config.yaml", "x.json", "DESCRIPTION", ".gitignore",
	       "go.mod", "requirements-dev.txt");
	EXPECT(r, SHFS_RULE_IGNORE, ".git/objects/", ".git/objects/ab/cd",
	       "a/.git/objects/ab", "__pycache__/x.pyc", "a/__pycache__/", "x.pyc",
	       ".cache/anything.py", "node_modules/a/package.json", ".run.sh.swp",
	       "notes~", ".#lock", "#auto#");
	EXPECT(r, SHFS_RULE_ARCHIVE, ".git/HEAD", "__pycache__"); /* a file */
	shfs_rules_free(r);
	shfs_rules_free(NULL);
}

/* Secrets are not archived, whatever their ending says. */
static void secrets(void **state)
{
	struct shfs_rules *r = rules_of("", "", NULL);

	EXPECT(r, SHFS_RULE_IGNORE, ".env", "sub/.env", ".env.local", ".envrc",
	       "server.key", "a/cert.pem", "id_rsa", "id_ed25519", ".ssh/config",
	       ".aws/credentials", "home/.aws/credentials", ".netrc", ".pgpass",
	       "credentials.json", "client_secret_123.json", "secrets.yaml", ".npmrc",
	       ".git-credentials", ".kube/config", ".docker/config.json", ".gnupg/",
	       ".vault-token");
	EXPECT(r, SHFS_RULE_ARCHIVE_READ, ".env.example", "sub/.env.template");
	shfs_rules_free(r);
}

#define EXPECT_SECRET(rules, is, ...)                                                    \
	expect_secret((rules), (is), (const char *const[]){ __VA_ARGS__, NULL })

static void expect_secret(const struct shfs_rules *rules, bool is,
                          const char *const *paths)
{
	for (; *paths; paths++)
		if (shfs_rules_is_secret(rules, *paths, false) != is)
			fail_msg("%s", *paths);
}

/* What editors, programs and people make of such a name is one. */
static void copies_of_secrets(void **state)
{
	struct shfs_rules *r = rules_of("", "", NULL);
	struct shfs_rules *own = rules_of("!*.key\n!.netrc~\n*.csv", "", NULL);

	EXPECT_SECRET(r, true, ".env", "sub/.env", ".ssh/config", "id_rsa.pub", ".env~",
	              "..env.swp", "#.env#", ".#.env", ".netrc~", ".netrc.swp",
	              ".netrc.~2~", ".netrc.old", "server.key.bak", "a/server.key.bak.1",
	              "server.key-2024-11-23", "server.key copy", "#server.key#",
	              ".#server.key", ".server.key.swp", ".server.key.aB12cd",
	              ".git-credentials.lock", ".git/config", "a/.git/config.lock",
	              ".aws/credentials.bak", ".ssh.old/x", "kaggle.json.tmp");
	EXPECT(r, SHFS_RULE_IGNORE, "server.key.bak", ".netrc.old", ".ssh.old/x",
	       "#server.key#", "kaggle.json.tmp");
	EXPECT_SECRET(r, false, "a.csv", "notes~", ".cache/x", ".env.example", "env",
	              "monkey.bak", "a.txt.1", "~", ".bak", "-", "1", "#", ".#", "",
	              ".git/x");
	EXPECT(r, SHFS_RULE_ARCHIVE, "monkey.bak", "a.txt.1", ".bak", "-", "1",
	       "server.key.md");
	EXPECT_SECRET(own, false, "server.key", "server.key.bak", ".netrc~", "a.csv",
	              "a.csv.bak");
	EXPECT(own, SHFS_RULE_ARCHIVE, "server.key.bak", "a.csv.bak", ".netrc~");
	shfs_rules_free(r);
	shfs_rules_free(own);
}

/* The built-in patterns, the config's, the project's: the last word counts. */
static void later_lists_decide(void **state)
{
	struct shfs_rules *r =
		rules_of("*.tmp\n!notes~\n", "*.tex\n", "!keep.tmp\ndata/\n");

	EXPECT(r, SHFS_RULE_IGNORE, "a.tmp", "data/x.csv", "data/run.sh", "other~");
	EXPECT(r, SHFS_RULE_ARCHIVE, "keep.tmp", "notes~", "data"); /* a file */
	EXPECT(r, SHFS_RULE_ARCHIVE_READ, "paper.tex", "run.sh");
	shfs_rules_free(r);
}

/* The user's list may take a built-in secret back, and a script out of the reading. */
static void built_in_can_be_taken_back(void **state)
{
	struct shfs_rules *r = rules_of("", "!*.json\n", "!server.key\n!.cache/\n");

	EXPECT(r, SHFS_RULE_ARCHIVE, "server.key", ".cache/x", "x.json");
	EXPECT(r, SHFS_RULE_IGNORE, "other.key");
	EXPECT(r, SHFS_RULE_ARCHIVE_READ, "x.yaml");
	shfs_rules_free(r);
}

static void nothing_below_an_ignored_directory(void **state)
{
	struct shfs_rules *r = rules_of("", "", "build/\n!build/keep\n!keep\n");

	EXPECT(r, SHFS_RULE_IGNORE, "build/", "build/keep", "build/a/b/keep",
	       "a/build/keep");
	EXPECT(r, SHFS_RULE_ARCHIVE, "keep", "a/keep", "build");
	shfs_rules_free(r);
}

static void odd_texts(void **state)
{
	struct shfs_rules *r =
		rules_of("", "",
	                 "\xef\xbb\xbf*.bom\r\n# comment\r\n\r\n\\#hash\r\n\\!bang\n"
	                 "trailing   \nkept\\ \n[unclosed\n/\n//\n!\n*.last");

	EXPECT(r, SHFS_RULE_IGNORE, "a.bom", "#hash", "!bang", "trailing", "kept ",
	       "x.last");
	EXPECT(r, SHFS_RULE_ARCHIVE, "comment", "trailing   ", "kept", "[unclosed",
	       "hash");
	shfs_rules_free(r);
}

static void long_paths(void **state)
{
	struct shfs_rules *r = rules_of("", "", "/deep/**/x\n");
	static const size_t lens[] = { 500, 509, 510, 511, 512, 513, 4095 };

	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		_cleanup_free_ char *path = malloc(lens[i] + 1);

		memcpy(path, "deep", 4);
		for (size_t k = 4; k < lens[i]; k++)
			path[k] = k % 2 ? 'a' : '/';
		path[lens[i]] = '\0';
		path[lens[i] - 2] = '/';
		path[lens[i] - 1] = 'x';
		path[lens[i] - 3] = 'y';
		assert_int_equal(shfs_rules_match(r, path, false), SHFS_RULE_IGNORE);
		path[lens[i] - 1] = 'z';
		assert_int_equal(shfs_rules_match(r, path, false), SHFS_RULE_ARCHIVE);
		assert_int_equal(strlen(path), lens[i]); /* it is as it was */
	}
	shfs_rules_free(r);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(built_in),
		cmocka_unit_test(secrets),
		cmocka_unit_test(copies_of_secrets),
		cmocka_unit_test(later_lists_decide),
		cmocka_unit_test(built_in_can_be_taken_back),
		cmocka_unit_test(nothing_below_an_ignored_directory),
		cmocka_unit_test(odd_texts),
		cmocka_unit_test(long_paths),
	};

	return shfs_unit_main(tests, argc, argv);
}
