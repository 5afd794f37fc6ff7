/* SPDX-License-Identifier: MIT */
/* Tests of query/past/tree.c: a directory on the disk, with changes recorded of it. */
#include "tests/unit/indexkit.h"

#include "query/past/tree.h"

#include "common/path.h"

#include <sys/xattr.h>
#include <unistd.h>

struct all {
	struct kit k;
	char *root;
	uint64_t process;
	struct shfs_index *index;
};

static void start(struct all *a)
{
	kit_open(&a->k);
	assert_true(asprintf(&a->root, "%s/p", shfs_unit_tmpdir()) > 0);
	assert_ok(mkdir(a->root, 0755));
	kit_mount_at(&a->k, a->root, 0);
	kit_shell(&a->k, 500, 10, 20);
	kit_begin(&a->k, 1, 1000, 500, "it");
	a->process = kit_process(&a->k, 501, 1020, 500, 10);
}

static void finish(struct all *a)
{
	kit_end(&a->k, 1, 9000, 600, 0);
	assert_ok(kit_finish(&a->k, &a->index));
}

static void stop(struct all *a)
{
	shfs_index_close(a->index);
	kit_close(&a->k);
	free(a->root);
}

/* A file as it is now, last changed at that time. */
static void put(struct all *a, const char *name, const char *text, double ms)
{
	_cleanup_free_ char *path = shfs_path_join(a->root, name);
	struct timespec t = { kit_time(&a->k, ms).real_ns / SHFS_NSEC_PER_SEC,
		              kit_time(&a->k, ms).real_ns % SHFS_NSEC_PER_SEC };

	if (!text)
		assert_ok(mkdir(path, 0755));
	else if (*text == '>')
		assert_ok(symlink(text + 1, path));
	else
		assert_ok(shfs_write_file_at(AT_FDCWD, path, 0644, text, strlen(text)));
	assert_ok(utimensat(AT_FDCWD, path, (struct timespec[]){ t, t },
	                    AT_SYMLINK_NOFOLLOW));
}

struct listing {
	const struct shfs_tree *tree;
	struct shfs_buf lines[64];
	size_t n;
};

static int add_value(const char *name, const void *value, size_t len, void *arg)
{
	shfs_buf_printf(arg, " %s=%.*s", name, (int)len, (const char *)value);
	return 0;
}

static int add_node(const char *name, struct shfs_tree_node *node, void *arg)
{
	static const char *const where[] = { "now", "object", "empty", "not kept",
		                             "not recorded" };
	struct listing *l = arg;
	_cleanup_tree_content_ struct shfs_tree_content content = { 0 };
	_cleanup_tree_status_ struct shfs_tree_status status = { 0 };
	struct shfs_buf *line = &l->lines[l->n++];

	assert_true(l->n <= ARRAY_SIZE(l->lines));
	assert_ok(shfs_tree_status(l->tree, node, &status));
	shfs_buf_str(line, shfs_path_relative(node->path, l->tree->root));
	shfs_buf_printf(line, " %03o", status.st.st_mode & 07777);
	if (S_ISREG(status.st.st_mode)) {
		assert_ok(shfs_tree_content(l->tree, node, &content));
		shfs_buf_printf(line, " %s %d", where[content.where],
		                (int)status.st.st_size);
		if (content.version.n)
			shfs_buf_printf(line, " @%d", (int)content.version.n);
	} else {
		shfs_buf_printf(line, " %s",
		                S_ISDIR(status.st.st_mode)   ? "directory"
		                : S_ISLNK(status.st.st_mode) ? status.text
		                                             : "?");
	}
	if (status.unknown & (SHFS_PAST_MODE | SHFS_PAST_TIME))
		shfs_buf_str(line, " not all known");
	assert_ok(shfs_tree_xattrs(l->tree, node, add_value, line));
	assert_false(line->failed);
	return S_ISDIR(status.st.st_mode) ? shfs_tree_list(l->tree, node, add_node, arg)
	                                  : 0;
}

static int compare_lines(const void *a, const void *b)
{
	const struct shfs_buf *x = a, *y = b;

	return strcmp(x->data, y->data);
}

/* Compares all that was there at a time with lines "NAME MODE WHAT". */
static void check(struct all *a, double ms, int now_fd, const char *expected)
{
	_cleanup_tree_ struct shfs_tree tree = { 0 };
	_cleanup_tree_node_ struct shfs_tree_node root = { 0 };
	_cleanup_buf_ struct shfs_buf got = { 0 };
	struct listing l = { .tree = &tree };

	assert_ok(shfs_tree_open(&tree, a->index, a->root, now_fd,
	                         kit_time(&a->k, ms).real_ns));
	assert_ok(shfs_tree_find(&tree, a->root, &root));
	assert_ok(shfs_tree_list(&tree, &root, add_node, &l));
	qsort(l.lines, l.n, sizeof(*l.lines), compare_lines);
	for (size_t i = 0; i < l.n; i++) {
		shfs_buf_printf(&got, "%s\n", l.lines[i].data);
		shfs_buf_free(&l.lines[i]);
	}
	shfs_buf_add(&got, "", 0);
	assert_string_equal(got.data, expected);
}

static struct shfs_rec_pathop former(uint32_t mode, uint64_t ino)
{
	return (struct shfs_rec_pathop){ .former = { .flags = SHFS_FORMER_STATUS |
		                                              SHFS_FORMER_XATTRS,
		                                     .mode = mode,
		                                     .links = 1,
		                                     .ino = ino } };
}

static void write_file(struct all *a, const char *path, double ms, uint32_t flags,
                       const char *before, const char *text)
{
	struct shfs_content c = kit_content(&a->k, text, ms),
			    old = kit_content(&a->k, before ?: "", 5);

	if (before)
		kit_preimage(&a->k, a->process, path, ms, old);
	kit_access(&a->k, a->process, path, ms, ms + 5, SHFS_ACCESS_WRITTEN | flags, NULL,
	           &c);
}

static void test_names_and_contents(void **state)
{
	struct all a = { 0 };
	struct shfs_content old;
	int fd;

	start(&a);
	old = kit_content(&a.k, "gone", 5);
	put(&a, "same", "same", 5);
	put(&a, "d", NULL, 5);
	put(&a, "d/deep", "deep", 5);
	put(&a, "link", ">same", 5);
	/* what is recorded of them, and of what is not there any more */
	write_file(&a, "f", 1100, 0, "before", "after, and longer");
	put(&a, "f", "after, and longer", 1105);
	kit_pathop_of(&a.k, a.process, SHFS_OP_UNLINK, "gone", NULL, 1200, NULL, &old,
	              former(0100640, 0));
	kit_pathop_of(&a.k, a.process, SHFS_OP_RENAME, "was", "d", 1300, NULL, NULL,
	              (struct shfs_rec_pathop){ .directory = true });
	write_file(&a, "new", 1400, SHFS_ACCESS_CREATED, NULL, "new");
	put(&a, "new", "new", 1405);
	kit_pathop(&a.k, a.process, SHFS_OP_MKDIR, "empty", NULL, 1500, NULL, NULL, true);
	put(&a, "empty", NULL, 1500);
	write_file(&a, "empty/x", 1600, SHFS_ACCESS_CREATED, NULL, "");
	put(&a, "empty/x", "", 1605);
	finish(&a);
	check(&a, 1050, -1,
	      "f 644 object 6 @1\ngone 640 object 4 @1\nlink 777 same\nsame 644 now 4\n"
	      "was 755 directory\nwas/deep 644 now 4\n");
	check(&a, 1150, -1,
	      "f 644 now 17 @2\ngone 640 object 4 @1\nlink 777 same\n"
	      "same 644 now 4\nwas 755 directory\nwas/deep 644 now 4\n");
	check(&a, 1350, -1,
	      "d 755 directory\nd/deep 644 now 4\nf 644 now 17 @2\nlink 777 same\n"
	      "same 644 now 4\n");
	/* by a descriptor of the directory, which is not at its path */
	fd = open(a.root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	{
		_cleanup_free_ char *away = shfs_path_join(shfs_unit_tmpdir(), "away");

		assert_ok(rename(a.root, away));
		assert_ok(mkdir(a.root, 0755));
	}
	check(&a, 8000, fd,
	      "d 755 directory\nd/deep 644 now 4\nempty 755 directory\n"
	      "empty/x 644 now 0 @1\nf 644 now 17 @2\nlink 777 same\nnew 644 now 3 @1\n"
	      "same 644 now 4\n");
	close(fd);
	stop(&a);
}

static void test_attributes(void **state)
{
	struct all a = { 0 };
	struct shfs_content c;
	_cleanup_buf_ struct shfs_buf list = { 0 };
	_cleanup_free_ char *path = NULL;
	struct shfs_rec_pathop xattr = former(0100640, 0);

	start(&a);
	c = kit_content(&a.k, "text", 5);
	put(&a, "f", "text", 5);
	put(&a, "link", ">now", 5);
	path = shfs_path_join(a.root, "f");
	assert_ok(chmod(path, 0600));
	if (setxattr(path, "user.a", "new", 3, 0))
		skip();
	shfs_xattr_add(&list, shfs_bytes_str("user.a"), shfs_bytes_str("old"));
	xattr.former.xattrs = (struct shfs_bytes){ list.data, list.len };
	kit_pathop_of(&a.k, a.process, SHFS_OP_XATTR, "f", "user.a", 1100, &c, &c, xattr);
	kit_pathop_of(&a.k, a.process, SHFS_OP_CHMOD, "f", NULL, 1200, &c, &c,
	              former(0100640, 0));
	kit_pathop_of(&a.k, a.process, SHFS_OP_UNLINK, "link", "then", 1300, NULL, NULL,
	              former(0120777, 0));
	kit_pathop(&a.k, a.process, SHFS_OP_SYMLINK, "link", "now", 1310, NULL, NULL,
	           false);
	/* of older versions: nothing of what it was */
	kit_pathop(&a.k, a.process, SHFS_OP_UNLINK, "old", NULL, 1400, NULL, NULL, false);
	finish(&a);
	check(&a, 1050, -1,
	      "f 640 now 4 user.a=old\nlink 777 then\nold 000 ? not all known\n");
	check(&a, 1150, -1,
	      "f 640 now 4 user.a=new\nlink 777 then\nold 000 ? not all known\n");
	check(&a, 1500, -1, "f 600 now 4 user.a=new\nlink 777 now\n");
	stop(&a);
}

/* Files that were being written, or changed while nothing was recorded. */
static void test_doubtful_contents(void **state)
{
	struct all a = { 0 };
	struct shfs_content c, small, seen;

	start(&a);
	c = kit_content(&a.k, "made", 1300);
	small = kit_print(&a.k, "not archived", 5);
	seen = kit_content(&a.k, "found there", 1500);
	kit_access(&a.k, a.process, "long", 1100, 1300,
	           SHFS_ACCESS_WRITTEN | SHFS_ACCESS_CREATED, NULL, &c);
	put(&a, "long", "made", 1300);
	kit_pathop_of(&a.k, a.process, SHFS_OP_UNLINK, "big", NULL, 1400, NULL, &small,
	              former(0100644, 0));
	write_file(&a, "unseen", 1010, SHFS_ACCESS_CREATED, NULL, "first");
	kit_read(&a.k, a.process, "unseen", 1600, seen);
	put(&a, "unseen", "found there", 1500);
	finish(&a);
	check(&a, 1200, -1,
	      "big 644 not kept 12 @1\nlong 644 not recorded 0 not all known\n"
	      "unseen 644 object 5 @1\n");
	check(&a, 1550, -1, "long 644 now 4 @1\nunseen 644 now 11 @2\n");
	stop(&a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_contents),
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_doubtful_contents),
	};

	return shfs_unit_main(tests, argc, argv);
}
