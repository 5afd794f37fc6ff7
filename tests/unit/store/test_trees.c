/* SPDX-License-Identifier: MIT */
/* Tests of store/trees.c. */
#include "tests/unit/storekit.h"

#include "common/proc.h"
#include "common/record.h"
#include "store/trees.h"

#define B(text) shfs_bytes_str(text)
#define ONE     "0000000000000001"
#define TWO     "0000000000000002"

static struct shfs_tree_identity identity(const char *machine, const char *host,
                                          const char *home)
{
	struct shfs_tree_identity id = { .store = "-", .home = (char *)home };

	strcpy(id.machine, machine);
	strcpy(id.host, host);
	return id;
}

static const char *add(struct shfs_trees *t, struct shfs_tree_identity id)
{
	const char *name = "?";

	assert_ok(shfs_trees_add(t, &id, &name));
	return name;
}

static struct shfs_trees *load(struct shfs_store *store)
{
	struct shfs_trees *t = NULL;

	assert_ok(shfs_trees_load(store, &t));
	return t;
}

static void assert_tree(const struct shfs_trees *t, const char *host, const char *boot,
                        const char *expected)
{
	const char *name = shfs_trees_of_boot(t, B(host), B(boot));

	assert_string_equal(name ? name : "here", expected);
}

/* Names stay apart, and what was written is read again. */
static void names(void **state)
{
	struct shfs_store *store = kit_store_at(shfs_unit_tmpdir());
	struct shfs_trees *t = load(store);

	assert_string_equal(add(t, identity("1", "hostb", "/home/a b%")), "hostb");
	assert_string_equal(add(t, identity("2", "hostb", "/")), "hostb.2");
	assert_string_equal(add(t, identity("3", "h:o@t", "")), "h_o_t");
	assert_string_equal(add(t, identity("1", "hostb", "/other")), "hostb");
	/* an archive of an earlier version proves nothing; a later one tells more of it
	 */
	assert_string_equal(add(t, identity("-", "hostb", "")), "hostb.3");
	assert_string_equal(add(t, identity("-", "hostb", "")), "hostb.3");
	assert_string_equal(add(t, identity("4", "hostb", "/home/late")), "hostb.3");
	assert_string_equal(shfs_trees_home(t, "hostb.3", 7), "/home/late");
	assert_string_equal(add(t, identity("-", "hostb", "")), "hostb.4");
	assert_string_equal(add(t, identity("5", ".", "")), "_");
	assert_ok(shfs_trees_add_boot(t, "hostb", "b1", "hostb"));
	assert_ok(shfs_trees_add_boot(t, "hostb", "b2", "hostb.2"));
	assert_ok(shfs_trees_save(store, t));
	shfs_trees_free(t);
	t = load(store);
	assert_tree(t, "hostb", "b1", "hostb");
	assert_tree(t, "hostb", "b2", "hostb.2");
	assert_tree(t, "hostb", "b3", "here");
	assert_tree(t, "hostc", "b1", "here");
	assert_string_equal(shfs_trees_home(t, "hostb:", 5), "/home/a b%");
	assert_null(shfs_trees_home(t, "host", 4));
	shfs_trees_free(t);
	shfs_store_close(store);
}

/* An archive brings back records of this tree if this machine made them, or this store on
 * another one. A host of the same name is not enough. */
static void this_machine(void **state)
{
	struct shfs_store *store = kit_store_at(shfs_unit_tmpdir());
	struct shfs_trees *t = load(store);
	struct shfs_tree_identity here, other = { .store = "0123456789abcdef",
		                                  .machine = "-",
		                                  .host = "first",
		                                  .home = (char *)"" };

	assert_ok(shfs_trees_here(t, &here));
	assert_int_equal(strlen(here.store), 16);
	assert_null(add(t, here));
	strcpy(here.host, "elsewhere");
	assert_null(add(t, here));
	strcpy(here.store, "-");
	assert_non_null(add(t, here));
	strcpy(here.machine, "-");
	strcpy(here.host, store->host);
	assert_non_null(add(t, here));
	/* one store on two machines is one tree */
	assert_string_equal(add(t, other), "first");
	strcpy(other.machine, "0000000000000001");
	strcpy(other.host, "second");
	assert_string_equal(add(t, other), "first");
	shfs_tree_identity_clear(&here);
	shfs_trees_free(t);
	shfs_store_close(store);
}

static void assert_mapped(const struct shfs_trees *t, const char *path, size_t i,
                          const char *expected)
{
	char *mapped = shfs_trees_mapped(t, path, i);

	assert_string_equal(mapped ? mapped : "none", expected);
	free(mapped);
}

static void maps(void **state)
{
	struct shfs_store *store = kit_store_at(shfs_unit_tmpdir());
	struct shfs_trees *t = load(store);

	add(t, identity(ONE, "hostb", "/home/b"));
	add(t, identity(TWO, "hostc", "/home/c"));
	assert_ok(shfs_trees_add_boot(t, "hostb", "b1", "hostb"));
	assert_int_equal(shfs_trees_map(t, "hostd", "/a", "/b"), -ENOENT);
	for (int again = 0; again < 2; again++) {
		assert_ok(shfs_trees_map(t, "hostb", "/home/b/p", "/home/me/q"));
		assert_ok(shfs_trees_map(t, "hostc", "/", "/home/me"));
	}
	assert_mapped(t, "/home/me/q/x", 0, "hostb:/home/b/p/x");
	assert_mapped(t, "/home/me/q/x", 1, "hostc:/q/x");
	assert_mapped(t, "/home/me/q/x", 2, "none");
	assert_mapped(t, "/home/me/q", 0, "hostb:/home/b/p");
	assert_mapped(t, "/home/me/qq", 0, "hostc:/qq");
	assert_mapped(t, "/home", 0, "none");
	/* the machine has taken the place of that one: for now, and for later archives */
	assert_ok(shfs_trees_map(t, "hostb", "/", "/"));
	assert_tree(t, "hostb", "b1", "here");
	assert_null(add(t, identity(ONE, "hostb", "/home/b")));
	/* and back */
	assert_ok(shfs_trees_unmap(t, "hostb", "/", "/"));
	assert_int_equal(shfs_trees_unmap(t, "hostb", "/", "/"), -ENOENT);
	assert_tree(t, "hostb", "b1", "hostb");
	assert_ok(shfs_trees_unmap(t, "hostb", "/home/b/p", "/home/me/q"));
	assert_mapped(t, "/home/me/q/x", 0, "hostc:/q/x");
	shfs_trees_free(t);
	shfs_store_close(store);
}

static bool all(const char *host, const char *boot, void *arg)
{
	return true;
}

static bool none(const char *host, const char *boot, void *arg)
{
	return false;
}

/* An archive says whose its records are, and names nobody else. */
static void archives(void **state)
{
	struct shfs_store *store = kit_store_at(shfs_unit_tmpdir());
	struct shfs_trees *t = load(store), *there = NULL;
	_cleanup_buf_ struct shfs_buf text = { 0 }, empty = { 0 };
	char host[65];

	shfs_proc_host(host);
	add(t, identity(ONE, "hostb", "/home/b"));
	add(t, identity(TWO, "hostc", "/home/c"));
	assert_ok(shfs_trees_add_boot(t, "hostb", "b1", "hostb"));
	assert_ok(shfs_trees_map(t, "hostb", "/home/b", "/secret/place"));
	assert_ok(shfs_trees_print(t, all, NULL, &text));
	assert_null(strstr(text.data, "secret"));
	assert_null(strstr(text.data, "hostc"));
	assert_ok(shfs_trees_parse(text.data, text.len, &there));
	assert_string_equal(shfs_trees_identity(there, B("hostb"), B("b1"))->host,
	                    "hostb");
	assert_string_equal(shfs_trees_identity(there, B("hostb"), B("b2"))->host, host);
	shfs_trees_free(there);
	assert_ok(shfs_trees_print(t, none, NULL, &empty));
	assert_null(strstr(empty.data, "hostb"));
	shfs_trees_free(t);
	shfs_store_close(store);
}

/* A store of an earlier version gets a tree for each other host. The file says so from
 * then on, whatever name this host has later. */
static void earlier_version(void **state)
{
	struct shfs_store *store = kit_store_at(shfs_unit_tmpdir());
	struct shfs_trees *t;

	assert_ok(shfs_mkdir_p_at(store->dirfd, "journal/hostb", 0700));
	assert_ok(shfs_write_file_at(store->dirfd, "journal/hostb/shell-01234567-1-1.log",
	                             0600, "", 0));
	t = load(store);
	assert_tree(t, "hostb", "01234567-8", "here"); /* the host has another name now */
	shfs_trees_free(t);
	assert_ok(unlinkat(store->dirfd, "trees", 0));
	t = load(store);
	assert_tree(t, "hostb", "01234567-8", "hostb");
	assert_tree(t, "hostb", "11234567-8", "here");
	assert_tree(t, store->host, "01234567-8", "here");
	assert_ok(shfs_trees_settle(store, t));
	shfs_trees_free(t);
	strcpy(store->host, "hostb"); /* the store moved there */
	t = load(store);
	assert_tree(t, "hostb", "01234567-8", "hostb");
	assert_tree(t, "hostb", "11234567-8", "here");
	shfs_trees_free(t);
	shfs_store_close(store);
}

static void damage(void **state)
{
	static const char *const bad[] = {
		"tree a b c\n",    "tree a b c d e f\n", "boot a b\n", "what 1\n",
		"map a /%zz /b\n", "map a /%00 /b\n",    "x",          "tree\n",
		"here a%\n",       "boot a b c d e f\n", "host h n\n"
	};
	static const char *const strangers[] = { "from - - . /\n",
		                                 "from - - a/b /\n",
		                                 "from - - a%20b /\n",
		                                 "from - xyz h /\n",
		                                 "from 1 - h /\n",
		                                 "from - - h home\n",
		                                 "from - - h /\ntree n - - .. /\n" };
	struct shfs_store *store = kit_store_at(shfs_unit_tmpdir());
	struct shfs_trees *t = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct shfs_buf text = { 0 };

		shfs_buf_printf(&text, "tree n - - h /\n%sboot h b n\n", bad[i]);
		assert_ok(shfs_write_file_at(store->dirfd, "trees", 0600, text.data,
		                             text.len));
		assert_int_equal(shfs_trees_load(store, &t), -EBADMSG);
		assert_int_equal(shfs_trees_parse(text.data, text.len, &t), -EBADMSG);
		assert_ok(shfs_trees_mend(store));
		t = load(store);
		assert_tree(t, "h", strcmp(bad[i], "x") ? "b" : "c",
		            strcmp(bad[i], "x") ? "n" : "here");
		shfs_trees_free(t);
	}
	assert_int_equal(shfs_trees_parse("", 0, &t), -EBADMSG); /* whose is it? */
	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++)
		assert_int_equal(shfs_trees_parse(strangers[i], strlen(strangers[i]), &t),
		                 -EBADMSG);
	shfs_store_close(store);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(this_machine),
		cmocka_unit_test(maps),
		cmocka_unit_test(archives),
		cmocka_unit_test(earlier_version),
		cmocka_unit_test(damage),
	};

	return shfs_unit_main(tests, argc, argv);
}
