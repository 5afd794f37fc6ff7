/* SPDX-License-Identifier: MIT */
/* Tests of query/history/uses.c. */
#include "tests/unit/indexkit.h"

#include "query/history/uses.h"

/* What one command did, as it is shown, and what came and went; without the project's
 * path. */
static void check(struct kit *k, const char *temporary, const char *expected)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_uses_ struct shfs_uses uses = { 0 };
	_cleanup_buf_ struct shfs_buf got = { 0 }, gone = { 0 };
	size_t sum = 0;

	kit_end(k, 1, 9000, 600, 0);
	kit_umount(k);
	kit_ingest(k);
	assert_ok(shfs_index_open(k->store, SHFS_INDEX_READ, &index));
	assert_ok(shfs_uses_load(index, 1, 0, 0, &uses));
	for (size_t i = 0; i < uses.n; i++) {
		shfs_buf_printf(&got, "%s%s ", i ? "\n" : "",
		                shfs_use_word(uses.list[i].kind));
		shfs_use_show(&got, &uses.list[i]);
	}
	for (int kind = 0; kind < SHFS_USE_KINDS; kind++)
		sum += uses.count[kind];
	shfs_buf_add(&got, "", 0);
	assert_string_equal(got.data, expected);
	for (size_t i = 0; i < uses.n_temporary; i++) {
		shfs_buf_str(&gone, i ? "\n" : "");
		shfs_temporary_show(&gone, &uses.temporary[i]);
	}
	shfs_buf_add(&gone, "", 0);
	assert_string_equal(gone.data, temporary);
	assert_int_equal(sum, uses.n);
	kit_close(k);
}

static uint64_t start(struct kit *k)
{
	assert_ok(setenv("HOME", "/nowhere", 1));
	kit_open(k);
	kit_mount_at(k, "/p", 0);
	kit_shell(k, 500, 10, 20);
	kit_begin(k, 1, 1000, 500, "it");
	return kit_process(k, 501, 1020, 500, 10);
}

static void write_new(struct kit *k, uint64_t p, const char *path, double ms,
                      const char *text, uint32_t flags)
{
	struct shfs_content c = kit_content(k, text, ms);

	kit_access(k, p, path, ms, ms, SHFS_ACCESS_WRITTEN | flags, NULL, &c);
}

static void test_read_and_write(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_read(&k, p, "in", 1100, kit_content(&k, "in", 5));
	kit_read(&k, p, "both", 1110, kit_content(&k, "before", 5));
	kit_read(&k, p, "in", 1120, kit_content(&k, "in", 5));
	kit_write(&k, p, "both", 1130, kit_content(&k, "after", 1130));
	write_new(&k, p, "out", 1140, "1", SHFS_ACCESS_CREATED);
	kit_read(&k, p, "out", 1150, kit_content(&k, "1", 1140)); /* its own */
	write_new(&k, p, "out", 1160, "2", SHFS_ACCESS_TRUNCATED);
	check(&k, "", "wrote /p/out@2\nchanged /p/both@2 (from @1)\nread /p/in@1");
}

static void test_changed_in_part(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_preimage(&k, p, "appended", 1100, kit_content(&k, "a", 5));
	write_new(&k, p, "appended", 1110, "ab", SHFS_ACCESS_APPEND);
	write_new(&k, p, "appended", 1120, "abc", SHFS_ACCESS_APPEND);
	kit_preimage(&k, p, "emptied", 1130, kit_content(&k, "a", 5));
	write_new(&k, p, "emptied", 1140, "x", SHFS_ACCESS_TRUNCATED);
	write_new(&k, p, "emptied", 1150, "xy", SHFS_ACCESS_APPEND);
	write_new(&k, p, "new", 1160, "x", SHFS_ACCESS_CREATED);
	write_new(&k, p, "new", 1170, "xy", SHFS_ACCESS_APPEND);
	check(&k, "",
	      "wrote /p/emptied@3\nwrote /p/new@2\nchanged /p/appended@3 (from @1)");
}

/* sed -i, and what editors do. */
static void test_renamed_into_place(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content old = kit_content(&k, "old", 5),
			    new = kit_content(&k, "new", 9);

	kit_read(&k, p, "f", 1100, old);
	kit_access(&k, p, "sedXYZ", 1110, 1110, SHFS_ACCESS_WRITTEN | SHFS_ACCESS_CREATED,
	           NULL, &new);
	kit_pathop(&k, p, SHFS_OP_RENAME, "sedXYZ", "f", 1120, &new, &old, false);
	write_new(&k, p, "tmp", 1130, "t", SHFS_ACCESS_CREATED);
	kit_pathop(&k, p, SHFS_OP_UNLINK, "tmp", NULL, 1140, NULL, NULL, false);
	check(&k, "/p/sedXYZ@1 -> /p/f\n/p/tmp@1", "changed /p/f@2 (from @1)");
}

/* A name that vanished is told, also where what it became was written or replaced since.
 */
static void test_renamed_and_written(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "c", 5), new = kit_content(&k, "new", 9);

	kit_pathop(&k, p, SHFS_OP_RENAME, "a", "b", 1100, &c, NULL, false);
	kit_read(&k, p, "b", 1105, c);
	write_new(&k, p, "sedXYZ", 1110, "new", SHFS_ACCESS_CREATED);
	kit_pathop(&k, p, SHFS_OP_RENAME, "sedXYZ", "b", 1120, &new, &c, false);
	kit_pathop(&k, p, SHFS_OP_RENAME, "c", "d", 1130, &c, NULL, false);
	write_new(&k, p, "d", 1140, "c and more", SHFS_ACCESS_APPEND);
	kit_pathop(&k, p, SHFS_OP_RENAME, "e", "g", 1150, &c, NULL, false);
	kit_pathop(&k, p, SHFS_OP_RENAME, "f", "g", 1160, &new, &c, false);
	kit_pathop(&k, p, SHFS_OP_RENAME, "h", "i", 1170, &c, NULL, false);
	kit_pathop(&k, p, SHFS_OP_RENAME, "i", "g", 1180, &c, &new, false);
	write_new(&k, p, "g", 1190, "last", SHFS_ACCESS_CREATED);
	check(&k, "/p/sedXYZ@1 -> /p/b\n/p/i@1 -> /p/g",
	      "wrote /p/b@2\nwrote /p/d@2\nwrote /p/g@4\nrenamed /p/a -> /p/b@1\n"
	      "renamed /p/c -> /p/d@1\nrenamed /p/e -> /p/g@1\n"
	      "renamed /p/f -> /p/g@2\nrenamed /p/h -> /p/g@3");
}

/* git: the new file is linked to its name, and the temporary one unlinked. */
static void test_linked_into_place(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content new = kit_content(&k, "new", 9);

	write_new(&k, p, "tmp", 1100, "new", SHFS_ACCESS_CREATED);
	kit_pathop(&k, p, SHFS_OP_LINK, "tmp", "f", 1110, &new, NULL, false);
	kit_pathop(&k, p, SHFS_OP_UNLINK, "tmp", NULL, 1120, NULL, NULL, false);
	write_new(&k, p, "kept", 1130, "k", SHFS_ACCESS_CREATED);
	new = kit_content(&k, "k", 9);
	kit_pathop(&k, p, SHFS_OP_LINK, "kept", "too", 1140, &new, NULL, false);
	check(&k, "/p/tmp@1",
	      "wrote /p/f@1\nwrote /p/kept@1\nlinked /p/too@1 -> /p/kept");
}

/* vim: the old file becomes the backup, and goes when the new one is there. */
static void test_backup_renamed(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content old = kit_content(&k, "old", 5);

	kit_read(&k, p, "f", 1100, old);
	kit_pathop(&k, p, SHFS_OP_RENAME, "f", "f~", 1110, &old, NULL, false);
	write_new(&k, p, "f", 1120, "new", SHFS_ACCESS_CREATED);
	kit_pathop(&k, p, SHFS_OP_UNLINK, "f~", NULL, 1130, NULL, &old, false);
	check(&k, "/p/f~@1", "changed /p/f@2 (from @1)");
}

/* What is made in a temporary directory is where that goes. */
static void test_directory_renamed(void **state)
{
	struct kit k;
	uint64_t p = start(&k);

	kit_pathop(&k, p, SHFS_OP_MKDIR, "tmp", NULL, 1100, NULL, NULL, true);
	kit_pathop(&k, p, SHFS_OP_MKDIR, "tmp/sub", NULL, 1110, NULL, NULL, true);
	write_new(&k, p, "tmp/sub/f", 1120, "f", SHFS_ACCESS_CREATED);
	write_new(&k, p, "tmpf", 1130, "f", SHFS_ACCESS_CREATED);
	kit_pathop(&k, p, SHFS_OP_RENAME, "tmp", "out", 1140, NULL, NULL, true);
	kit_pathop(&k, p, SHFS_OP_RENAME, "old", "new", 1150, NULL, NULL, true);
	check(&k,
	      "/p/tmp/ -> /p/out/\n/p/tmp/sub/ -> /p/out/sub/\n/p/tmp/sub/f@1 -> "
	      "/p/out/sub/f",
	      "wrote /p/tmpf@1\nwrote /p/out/sub/f@1\nrenamed /p/old/ -> /p/new/\n"
	      "made /p/out/\nmade /p/out/sub/");
}

/* A program that makes the same again has changed nothing. */
static void test_the_same_again(void **state)
{
	struct kit k;
	uint64_t p, first;

	p = start(&k);
	first = kit_process(&k, 400, 900, 1, 0);
	write_new(&k, first, "out", 950, "1", SHFS_ACCESS_CREATED);
	write_new(&k, first, "conf", 955, "c", SHFS_ACCESS_CREATED);
	write_new(&k, first, "gone", 960, "g", SHFS_ACCESS_CREATED);
	write_new(&k, p, "out", 1100, "1", SHFS_ACCESS_TRUNCATED);
	kit_read(&k, p, "conf", 1110, kit_content(&k, "c", 955));
	write_new(&k, p, "conf", 1120, "c", SHFS_ACCESS_TRUNCATED);
	kit_pathop(&k, p, SHFS_OP_UNLINK, "gone", NULL, 1130, NULL, NULL, false);
	/* a linker reads what it has just made */
	write_new(&k, p, "gone", 1140, "g2", SHFS_ACCESS_CREATED | SHFS_ACCESS_READ);
	check(&k, "", "wrote /p/out@1 (again)\nwrote /p/conf@1 (again)\nwrote /p/gone@2");
}

static void test_names(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "c", 5);

	kit_pathop(&k, p, SHFS_OP_RENAME, "a", "b", 1100, &c, NULL, false);
	kit_pathop(&k, p, SHFS_OP_RENAME, "b", "c", 1110, &c, NULL, false);
	kit_pathop(&k, p, SHFS_OP_LINK, "c", "hard", 1120, &c, NULL, false);
	kit_pathop(&k, p, SHFS_OP_SYMLINK, "soft", "../else\nwhere", 1130, NULL, NULL,
	           false);
	kit_pathop(&k, p, SHFS_OP_MKDIR, "dir", NULL, 1140, NULL, NULL, true);
	kit_pathop(&k, p, SHFS_OP_UNLINK, "gone", NULL, 1150, NULL, &c, false);
	kit_pathop(&k, p, SHFS_OP_RMDIR, "old", NULL, 1160, NULL, NULL, true);
	kit_pathop(&k, p, SHFS_OP_CHMOD, "mode", NULL, 1170, NULL, NULL, false);
	check(&k, "/p/b@1 -> /p/c",
	      "renamed /p/a -> /p/c@1\nlinked /p/hard@1 -> /p/c\n"
	      "linked /p/soft -> ../else\\nwhere\nmade /p/dir/\nremoved /p/gone@1\n"
	      "removed /p/old/\ntouched /p/mode");
}

static void test_incomplete(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "c", 1100);

	c.flags |= SHFS_CONTENT_INCOMPLETE;
	kit_write(&k, p, "f", 1100, c);
	check(&k, "", "wrote /p/f@1  (incomplete: changed while it was captured)");
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_and_write),
		cmocka_unit_test(test_changed_in_part),
		cmocka_unit_test(test_renamed_into_place),
		cmocka_unit_test(test_renamed_and_written),
		cmocka_unit_test(test_linked_into_place),
		cmocka_unit_test(test_backup_renamed),
		cmocka_unit_test(test_directory_renamed),
		cmocka_unit_test(test_the_same_again),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_incomplete),
	};

	return shfs_unit_main(tests, argc, argv);
}
