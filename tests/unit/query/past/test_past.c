/* SPDX-License-Identifier: MIT */
/* Tests of query/past: what each name was before a command, by the records alone. */
#include "tests/unit/indexkit.h"

#include "query/past/past.h"

static uint64_t start(struct kit *k)
{
	kit_open(k);
	kit_mount_at(k, "/p", 0);
	kit_shell(k, 500, 10, 20);
	kit_begin(k, 1, 1000, 500, "it");
	return kit_process(k, 501, 1020, 500, 10);
}

static void show_file(struct shfs_buf *out, const struct shfs_past_file *f)
{
	if (f->text)
		shfs_buf_printf(out, "-> %s", f->text);
	else if (S_ISDIR(f->mode))
		shfs_buf_str(out, "directory");
	else
		shfs_buf_printf(out, "%s@%d", f->left ? "there" : "gone", (int)f->n);
	if (f->known & SHFS_PAST_MODE)
		shfs_buf_printf(out, " %o", f->mode & 07777);
	if (f->known & SHFS_PAST_OWNER)
		shfs_buf_printf(out, " of %u", f->uid);
	if (f->changed & ~f->known & (SHFS_PAST_MODE | SHFS_PAST_OWNER))
		shfs_buf_str(out, " not known");
	for (size_t i = 0; i < f->n_xattrs; i++)
		shfs_buf_printf(out, " %s=%s", f->xattrs[i].name,
		                f->xattrs[i].value ? f->xattrs[i].value : "none");
}

/* Compares the names and files that are not as before: names that the command changed,
 * and files that it changed. */
static void check(struct kit *k, const char *expected)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	_cleanup_effects_ struct shfs_effects effects = { 0 }, since = { 0 };
	_cleanup_past_ struct shfs_past past = { 0 };
	_cleanup_buf_ struct shfs_buf got = { 0 };

	kit_end(k, 1, 9000, 600, 0);
	kit_umount(k);
	kit_ingest(k);
	assert_ok(shfs_index_open(k->store, SHFS_INDEX_READ, &index));
	assert_ok(shfs_effects_add_command(&effects, index, 1));
	shfs_effects_sort(&effects);
	assert_ok(shfs_effects_add_since(&since, index, "/p", 0));
	assert_int_equal(since.n, effects.n);
	assert_ok(shfs_past_walk(&past, &effects));
	for (const struct shfs_past_entry *e = past.entries; e; e = e->next) {
		if (e->left == e->then &&
		    !(e->then &&
		      e->then->changed & ~(uint32_t)(SHFS_PAST_ENTRIES | SHFS_PAST_TIME)))
			continue;
		shfs_buf_str(&got, got.len ? "\n" : "");
		assert_true(e->then ? shfs_past_path_then(e, &got)
		                    : shfs_past_path_left(e, &got));
		shfs_buf_printf(&got, "%s: ", e->doubt ? " (doubtful)" : "");
		if (e->then)
			show_file(&got, e->then);
		else
			shfs_buf_str(&got, "nothing");
	}
	shfs_buf_add(&got, "", 0);
	assert_string_equal(got.data, expected);
	index = (shfs_index_close(index), NULL);
	kit_close(k);
}

static struct shfs_rec_pathop former(uint32_t mode, uint32_t uid, uint64_t ino)
{
	return (struct shfs_rec_pathop){ .former = { .flags = SHFS_FORMER_STATUS,
		                                     .mode = mode,
		                                     .uid = uid,
		                                     .links = 1,
		                                     .ino = ino } };
}

static void write_new(struct kit *k, uint64_t p, const char *path, double begin,
                      double ms, const char *text)
{
	struct shfs_content c = kit_content(k, text, ms);

	kit_access(k, p, path, begin, ms, SHFS_ACCESS_WRITTEN | SHFS_ACCESS_CREATED, NULL,
	           &c);
}

static void test_names(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content old = kit_content(&k, "old", 5),
			    new = kit_content(&k, "n", 9);

	/* a chain, and a new file in its place */
	kit_pathop(&k, p, SHFS_OP_RENAME, "a", "b", 1100, &old, NULL, false);
	kit_pathop(&k, p, SHFS_OP_RENAME, "b", "c", 1110, &old, NULL, false);
	write_new(&k, p, "a", 1120, 1125, "2");
	/* a temporary file, and what it replaced */
	write_new(&k, p, "tmp", 1130, 1135, "n");
	kit_pathop_of(&k, p, SHFS_OP_RENAME, "tmp", "f", 1140, &new, &old,
	              former(0100640, 7, 0));
	/* a directory, with what is in it */
	kit_pathop(&k, p, SHFS_OP_RENAME, "d", "e", 1150, NULL, NULL, true);
	write_new(&k, p, "e/x", 1160, 1165, "x");
	kit_pathop(&k, p, SHFS_OP_EXCHANGE, "g", "h", 1170, &old, &new, false);
	check(&k, "/p/g: there@0\n/p/h: there@0\n/p/e: nothing\n/p/e/x: nothing\n/p/d: "
	          "directory\n"
	          "/p/f: gone@1 640 of 7\n/p/a: there@0\n/p/c: nothing");
}

/* A file that is still open when it is renamed is recorded afterwards. */
static void test_late_records(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "c", 5);

	kit_pathop(&k, p, SHFS_OP_RENAME, "tmp", "f", 1110, NULL, &c, false);
	write_new(&k, p, "f", 1100, 1120, "new");
	kit_pathop(&k, p, SHFS_OP_UNLINK, "lock", NULL, 1140, NULL, NULL, false);
	kit_access(&k, p, "lock", 1130, 1150,
	           SHFS_ACCESS_WRITTEN | SHFS_ACCESS_CREATED | SHFS_ACCESS_NAMELESS, NULL,
	           &c);
	check(&k, "/p/f: gone@1 644");
}

static void test_links(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "c", 5);

	/* both names of one file, and one of another that has the number later */
	kit_pathop_of(&k, p, SHFS_OP_UNLINK, "a", NULL, 1100, NULL, &c,
	              former(0100600, 1, 77));
	kit_pathop_of(&k, p, SHFS_OP_UNLINK, "b", NULL, 1110, NULL, &c,
	              former(0100600, 1, 77));
	write_new(&k, p, "new", 1120, 1125, "n");
	kit_pathop_of(&k, p, SHFS_OP_UNLINK, "new", NULL, 1130, NULL, NULL,
	              former(0100644, 1, 77));
	/* a name that the file keeps */
	kit_pathop_of(&k, p, SHFS_OP_LINK, "x", "y", 1140, &c, NULL,
	              (struct shfs_rec_pathop){ .dev = 0, .ino = 88 });
	kit_pathop_of(&k, p, SHFS_OP_UNLINK, "x", NULL, 1150, NULL, &c,
	              former(0100600, 1, 88));
	kit_pathop_of(&k, p, SHFS_OP_UNLINK, "s", "text", 1160, NULL, NULL,
	              former(0120777, 1, 99));
	check(&k, "/p/s: -> text 777 of 1\n/p/x: there@1 600 of 1\n/p/y: nothing\n"
	          "/p/b: gone@1 600 of 1\n/p/a: gone@1 600 of 1");
}

static void test_attributes(void **state)
{
	struct kit k;
	uint64_t p = start(&k);
	struct shfs_content c = kit_content(&k, "c", 5);
	struct shfs_rec_pathop xattr = former(0100600, 1, 5);
	_cleanup_buf_ struct shfs_buf list = { 0 };

	shfs_xattr_add(&list, shfs_bytes_str("user.a"), (struct shfs_bytes){ "1", 2 });
	xattr.former.flags |= SHFS_FORMER_XATTRS;
	kit_pathop_of(&k, p, SHFS_OP_CHMOD, "f", NULL, 1100, &c, &c,
	              former(0100600, 1, 5));
	kit_pathop_of(&k, p, SHFS_OP_CHMOD, "f", NULL, 1110, &c, &c,
	              former(0100700, 1, 5));
	kit_pathop_of(&k, p, SHFS_OP_XATTR, "f", "user.new", 1120, NULL, &c, xattr);
	xattr.former.xattrs = (struct shfs_bytes){ list.data, list.len };
	kit_pathop_of(&k, p, SHFS_OP_XATTR, "f", "user.a", 1130, NULL, &c, xattr);
	/* of an older version, or without FUSE */
	kit_pathop(&k, p, SHFS_OP_CHOWN, "g", NULL, 1140, &c, NULL, false);
	kit_pathop(&k, p, SHFS_OP_RMDIR, "d", "0750", 1150, NULL, NULL, true);
	check(&k, "/p/d: directory 750\n/p/g: there@0 not known\n"
	          "/p/f: there@0 600 of 1 user.a=1 user.new=none");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_late_records),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_attributes),
	};

	return shfs_unit_main(tests, argc, argv);
}
