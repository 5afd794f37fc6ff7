/* SPDX-License-Identifier: MIT */
/* Tests of fusefs/nodes. */
#include "fusefs/nodes/node.h"
#include "fusefs/takeover/heir.h"

#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct place {
	int root_fd, proc_fd;
	struct shfs_tree *tree;
	struct shfs_node *root;
};

static atomic_uint n_dropped;

static void count_drop(void *watch)
{
	atomic_fetch_add(&n_dropped, 1);
}

/* A tree over a new directory. */
static struct place open_place(size_t max_fds)
{
	static unsigned n;
	struct place p;
	char path[256];

	snprintf(path, sizeof(path), "%s/%u", shfs_unit_tmpdir(), n++);
	assert_int_equal(mkdir(path, 0700), 0);
	p.root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	p.proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(p.root_fd >= 0 && p.proc_fd >= 0);
	assert_int_equal(shfs_tree_new(p.root_fd, p.proc_fd, max_fds, count_drop,
	                               &p.tree),
	                 0);
	p.root = shfs_tree_root(p.tree);
	atomic_store(&n_dropped, 0);
	return p;
}

static void close_place(struct place *p)
{
	shfs_tree_free(p->tree);
	close(p->root_fd);
	close(p->proc_fd);
}

static void make_file(int dirfd, const char *name, const char *text)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static struct shfs_node *look_up(struct place *p, struct shfs_node *parent,
                                 const char *name)
{
	struct shfs_node *node = NULL;
	struct statx stx;

	assert_int_equal(shfs_node_lookup(p->tree, parent, name, &stx, &node), 0);
	assert_non_null(node);
	return node;
}

static void assert_path(struct place *p, const struct shfs_node *node, const char *name,
                        const char *expected)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	shfs_tree_lock_read(p->tree);
	shfs_node_path(node, name, &path);
	shfs_tree_unlock(p->tree);
	assert_int_equal(path.len, strlen(expected));
	assert_memory_equal(path.len ? path.data : "", expected, path.len);
}

static void assert_holds(struct place *p, struct shfs_node *node, const char *expected)
{
	char text[64] = "";
	int fd = shfs_node_open(p->tree, node, O_RDONLY);

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	assert_string_equal(text, expected);
	close(fd);
}

/* As the mount does: what the kernel is told, then the change, then ours. */
static void unlink_name(struct place *p, const char *name)
{
	struct shfs_node *node = look_up(p, p->root, name);

	assert_true(shfs_node_fd(p->tree, node) >= 0);
	shfs_tree_lock_write(p->tree);
	assert_int_equal(unlinkat(p->root_fd, name, 0), 0);
	shfs_node_gone(p->tree, node, p->root, name);
	shfs_tree_unlock(p->tree);
	shfs_node_fd_done(p->tree, node);
	shfs_node_forget(p->tree, node->id, 1);
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* --- who is who --- */

static void test_one_node_for_one_file(void **state)
{
	struct place p = open_place(100);
	struct shfs_node *a, *b, *found;
	struct statx stx;

	make_file(p.root_fd, "a", "A");
	assert_int_equal(linkat(p.root_fd, "a", p.root_fd, "b", 0), 0);
	a = look_up(&p, p.root, "a");
	b = look_up(&p, p.root, "b");
	assert_ptr_equal(a, b);
	assert_ptr_equal(shfs_node_find(p.tree, a->id), a);
	assert_int_equal(p.root->id, SHFS_NODE_ROOT);
	assert_ptr_equal(shfs_node_find(p.tree, SHFS_NODE_ROOT), p.root);
	assert_int_equal(shfs_node_statx(p.root_fd, "a", &stx), 0);
	assert_int_equal(stx.stx_ino, a->ino);
	assert_int_equal(shfs_node_lookup(p.tree, p.root, "none", &stx, &found), -ENOENT);
	shfs_node_forget(p.tree, a->id, 1);
	assert_ptr_equal(shfs_node_find(p.tree, b->id), b);
	shfs_node_forget(p.tree, b->id, 1);
	assert_null(shfs_node_find(p.tree, stx.stx_ino));
	close_place(&p);
}

/* The same file has the same id in a successor. */
static void test_ids_are_derived(void **state)
{
	struct place p = open_place(100);
	struct shfs_tree *other;
	struct shfs_node *a, *again;
	struct statx stx;

	make_file(p.root_fd, "a", "A");
	a = look_up(&p, p.root, "a");
	assert_int_equal(shfs_tree_new(p.root_fd, p.proc_fd, 9, count_drop, &other), 0);
	assert_int_equal(shfs_node_lookup(other, shfs_tree_root(other), "a", &stx,
	                                  &again),
	                 0);
	assert_true(again->id == a->id && again->generation == a->generation);
	shfs_tree_free(other);
	close_place(&p);
}

/* A parent stays known for as long as a child is. */
static void test_life(void **state)
{
	struct place p = open_place(100);
	struct shfs_node *dir, *sub, *f;
	uint64_t ids[3];

	assert_int_equal(mkdirat(p.root_fd, "dir", 0700), 0);
	assert_int_equal(mkdirat(p.root_fd, "dir/sub", 0700), 0);
	make_file(p.root_fd, "dir/sub/f", "F");
	dir = look_up(&p, p.root, "dir");
	sub = look_up(&p, dir, "sub");
	f = look_up(&p, sub, "f");
	ids[0] = dir->id, ids[1] = sub->id, ids[2] = f->id;
	atomic_store(&f->watch, (struct shfs_watch *)1);
	atomic_store(&dir->watch, (struct shfs_watch *)1);
	shfs_node_ref(p.tree, f);
	shfs_node_forget(p.tree, ids[0], 1);
	shfs_node_forget(p.tree, ids[1], 1);
	shfs_node_forget(p.tree, ids[2], 99); /* more than it was given */
	assert_path(&p, f, NULL, "dir/sub/f");
	assert_holds(&p, f, "F");
	assert_int_equal(n_dropped, 0);
	shfs_node_unref(p.tree, f);
	assert_int_equal(n_dropped, 2);
	for (int i = 0; i < 3; i++)
		assert_null(shfs_node_find(p.tree, ids[i]));
	close_place(&p);
}

/* Another file with this inode number: a new node, and the old one no longer found. */
static void test_reused_inode_number(void **state)
{
	struct place p = open_place(100);
	struct shfs_node *old, *young, *same;
	struct statx stx;

	make_file(p.root_fd, "f", "F");
	assert_int_equal(shfs_node_statx(p.root_fd, "f", &stx), 0);
	if (!(stx.stx_mask & STATX_BTIME)) {
		close_place(&p);
		shfs_unit_skip("the file system tells no time of birth");
	}
	assert_int_equal(shfs_node_enter(p.tree, p.root, "f", &stx, &old), 0);
	atomic_store(&old->watch, (struct shfs_watch *)1);
	shfs_node_ref(p.tree, old);
	stx.stx_btime.tv_nsec ^= 1;
	assert_int_equal(shfs_node_enter(p.tree, p.root, "f", &stx, &young), 0);
	assert_ptr_not_equal(young, old);
	assert_true(young->id == old->id && young->generation != old->generation);
	assert_ptr_equal(shfs_node_find(p.tree, young->id), young);
	assert_int_equal(shfs_node_enter(p.tree, p.root, "f", &stx, &same), 0);
	assert_ptr_equal(same, young);
	/* the kernel gives back all three by one id; the old one lives by its reference
	 */
	shfs_node_forget(p.tree, young->id, 3);
	assert_null(shfs_node_find(p.tree, stx.stx_ino));
	shfs_node_unref(p.tree, old);
	/* a request may have found it just before, without a reference of its own */
	assert_int_equal(n_dropped, 0);
	assert_path(&p, old, NULL, "f");
	close_place(&p);
	assert_int_equal(n_dropped, 1);
}

/* After a takeover a node that the kernel has given back stays for a while; also where
 * its inode number is another file's by then. */
static void test_given_back_and_reused(void **state)
{
	struct place p = open_place(4);
	struct shfs_heir *heir = shfs_heir_new();
	struct shfs_node *node;
	struct statx stx;
	size_t before;

	assert_non_null(heir);
	assert_int_equal(shfs_tree_inherit(p.tree, heir, true), 0);
	make_file(p.root_fd, "f", "one");
	node = look_up(&p, p.root, "f");
	assert_int_equal(shfs_node_stat(p.tree, node, &stx), 0);
	stx.stx_mask |= STATX_BTIME;
	before = shfs_tree_size(p.tree);
	for (uint32_t i = 1; i < 20000; i++) {
		shfs_node_forget(p.tree, node->id, 1);
		stx.stx_btime.tv_nsec = i;
		assert_int_equal(shfs_node_enter(p.tree, p.root, "f", &stx, &node), 0);
	}
	assert_true(shfs_tree_size(p.tree) - before <= 5000);
	shfs_node_forget(p.tree, node->id, 1);
	assert_ptr_equal(shfs_node_find(p.tree, stx.stx_ino), node);
	close_place(&p);
	shfs_heir_free(heir);
}

/* Ids of other devices are hashes; none is another's, or the root's. */
static void test_other_devices(void **state)
{
	enum { N = 5000 };
	struct place p = open_place(100);
	static struct shfs_node *nodes[N];
	struct statx stx;
	char name[16];

	assert_int_equal(shfs_node_statx(p.root_fd, "", &stx), 0);
	stx.stx_mode = S_IFREG;
	stx.stx_dev_major ^= 77;
	for (unsigned i = 0; i < N; i++) {
		stx.stx_ino = i;
		snprintf(name, sizeof(name), "%u", i);
		assert_int_equal(shfs_node_enter(p.tree, p.root, name, &stx, &nodes[i]),
		                 0);
		assert_true(nodes[i]->id >> 63);
	}
	for (unsigned i = 0; i < N; i++) {
		assert_ptr_equal(shfs_node_find(p.tree, nodes[i]->id), nodes[i]);
		assert_int_equal(nodes[i]->ino, i);
		shfs_node_forget(p.tree, nodes[i]->id, 1);
	}
	close_place(&p);
}

static void test_the_root_below_itself(void **state)
{
	struct place p = open_place(100);
	struct shfs_node *node;
	struct statx stx;

	assert_int_equal(shfs_node_statx(p.root_fd, "", &stx), 0);
	assert_int_equal(shfs_node_enter(p.tree, p.root, "bind", &stx, &node), -ELOOP);
	close_place(&p);
}

static void test_hidden(void **state)
{
	struct place p = open_place(100);
	struct shfs_node *store, *in;
	struct statx stx;

	assert_int_equal(mkdirat(p.root_fd, "store", 0700), 0);
	make_file(p.root_fd, "store/in", "");
	make_file(p.root_fd, "out", "");
	assert_int_equal(shfs_node_statx(p.root_fd, "store", &stx), 0);
	shfs_tree_hide(p.tree, shfs_statx_dev(&stx), stx.stx_ino);
	store = look_up(&p, p.root, "store");
	in = look_up(&p, store, "in");
	assert_true(store->hidden && in->hidden);
	assert_false(look_up(&p, p.root, "out")->hidden || p.root->hidden);
	close_place(&p);
}

/* --- names --- */

static void test_names_move(void **state)
{
	struct place p = open_place(100);
	struct shfs_node *a, *b, *f;

	assert_int_equal(mkdirat(p.root_fd, "a", 0700), 0);
	assert_int_equal(mkdirat(p.root_fd, "b", 0700), 0);
	make_file(p.root_fd, "a/f", "F");
	a = look_up(&p, p.root, "a");
	b = look_up(&p, p.root, "b");
	f = look_up(&p, a, "f");
	assert_path(&p, p.root, NULL, "");
	assert_path(&p, p.root, "x", "x");
	assert_path(&p, f, NULL, "a/f");
	assert_path(&p, a, "new", "a/new");

	shfs_tree_lock_write(p.tree);
	assert_int_equal(renameat(p.root_fd, "a", p.root_fd, "b/c"), 0);
	shfs_node_moved(p.tree, a, p.root, "a", b, "c");
	assert_true(shfs_node_is_at(a, b, "c") && !shfs_node_is_at(a, p.root, "a"));
	shfs_tree_unlock(p.tree);
	assert_path(&p, f, NULL, "b/c/f");
	assert_holds(&p, f, "F");
	close_place(&p);
}

/* What has lost its name is reached as long as it is known, by its pinned fd. */
static void test_unlinked(void **state)
{
	struct place p = open_place(2);
	struct shfs_node *f, *g;
	struct statx stx;
	char name[16];

	make_file(p.root_fd, "f", "F");
	make_file(p.root_fd, "g", "G");
	f = look_up(&p, p.root, "f");
	g = look_up(&p, p.root, "g");
	unlink_name(&p, "f");
	assert_int_equal(unlinkat(p.root_fd, "g", 0), 0); /* by somebody else */
	for (int i = 0; i < 9; i++) {
		snprintf(name, sizeof(name), "%d", i);
		make_file(p.root_fd, name, "x");
		assert_holds(&p, look_up(&p, p.root, name), "x");
	}
	assert_true(shfs_node_is_nameless(f));
	assert_path(&p, f, NULL, "f");
	assert_holds(&p, f, "F");
	assert_int_equal(shfs_node_stat(p.tree, f, &stx), 0);
	assert_int_equal(stx.stx_nlink, 0);
	assert_int_equal(shfs_node_open(p.tree, g, O_RDONLY), -ESTALE);
	assert_int_equal(shfs_node_stat(p.tree, g, &stx), -ESTALE);
	close_place(&p);
}

/* Another file at the name is not taken for it. */
static void test_replaced_beneath(void **state)
{
	struct place p = open_place(100);
	struct shfs_node *f;
	struct statx stx;

	make_file(p.root_fd, "f", "F");
	f = look_up(&p, p.root, "f");
	make_file(p.root_fd, "other", "other");
	assert_int_equal(renameat(p.root_fd, "other", p.root_fd, "f"), 0);
	assert_int_equal(shfs_node_open(p.tree, f, O_RDONLY), -ESTALE);
	assert_int_equal(shfs_node_fd(p.tree, f), -ESTALE);
	assert_int_equal(shfs_node_stat(p.tree, f, &stx), -ESTALE);
	assert_ptr_not_equal(look_up(&p, p.root, "f"), f);
	close_place(&p);
}

/* Of two names the one that stays is its path. */
static void test_one_of_two_names_goes(void **state)
{
	struct place p = open_place(100);
	unsigned before = count_fds();
	struct shfs_node *f;

	make_file(p.root_fd, "a", "A");
	assert_int_equal(linkat(p.root_fd, "a", p.root_fd, "b", 0), 0);
	f = look_up(&p, p.root, "a");
	assert_path(&p, f, NULL, "a");
	look_up(&p, p.root, "b");
	assert_path(&p, f, NULL, "b");
	unlink_name(&p, "a"); /* looks it up, so it is known as a */
	assert_path(&p, f, NULL, "b");
	assert_false(shfs_node_is_nameless(f));
	while (shfs_tree_spare_fds(p.tree))
		;
	assert_int_equal(count_fds(), before); /* it needs no fd of its own */
	assert_holds(&p, f, "A");

	/* the other one went without us: then none is left */
	assert_int_equal(linkat(p.root_fd, "b", p.root_fd, "c", 0), 0);
	look_up(&p, p.root, "c");
	assert_int_equal(unlinkat(p.root_fd, "b", 0), 0);
	unlink_name(&p, "c");
	assert_true(shfs_node_is_nameless(f));
	assert_path(&p, f, NULL, "c");
	assert_holds(&p, f, "A");
	close_place(&p);
}

static void assert_path_by(struct place *p, const struct shfs_node *node,
                           const struct shfs_name *name, const char *expected)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };

	shfs_tree_lock_read(p->tree);
	assert_true(shfs_node_path_by(node, name, &path));
	shfs_tree_unlock(p->tree);
	shfs_buf_char(&path, '\0');
	assert_string_equal(path.data, expected);
}

/* Who opened a file by one of its names goes on to know it by that one. */
static void test_names_in_use(void **state)
{
	struct place p = open_place(100);
	struct shfs_name *a, *b;
	struct shfs_node *f;
	char text[16];

	make_file(p.root_fd, "a", "A");
	assert_int_equal(linkat(p.root_fd, "a", p.root_fd, "b", 0), 0);
	f = look_up(&p, p.root, "a");
	a = shfs_node_name(p.tree, f, 1);
	look_up(&p, p.root, "b");
	b = shfs_node_name(p.tree, f, 1);
	for (int i = 0; i < 50; i++) { /* far more than are kept */
		snprintf(text, sizeof(text), "link%d", i);
		assert_int_equal(linkat(p.root_fd, "a", p.root_fd, text, 0), 0);
		look_up(&p, p.root, text);
	}
	assert_path_by(&p, f, a, "a");
	assert_path_by(&p, f, b, "b");
	assert_path(&p, f, NULL, "link49");

	shfs_tree_lock_write(p.tree);
	assert_int_equal(renameat(p.root_fd, "b", p.root_fd, "c"), 0);
	shfs_node_moved(p.tree, f, p.root, "b", p.root, "c");
	shfs_tree_unlock(p.tree);
	assert_path_by(&p, f, b, "c");
	assert_path_by(&p, f, a, "a");
	unlink_name(&p, "a");
	assert_path_by(&p, f, a, "link49"); /* another one that is there */
	shfs_name_unref(a);
	shfs_name_unref(b);
	close_place(&p);
}

/* It has a path to be told by, and no name until it gets one. */
static void test_nameless(void **state)
{
	struct place p = open_place(2);
	int fd = openat(p.root_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct shfs_node *f;
	struct statx stx;
	char text[32];

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "T", 1), 1);
	assert_int_equal(shfs_node_statx(fd, "", &stx), 0);
	assert_int_equal(shfs_node_enter_nameless(p.tree, p.root, fd, &stx, &f), 0);
	close(fd);
	snprintf(text, sizeof(text), "#%llu", (unsigned long long)stx.stx_ino);
	assert_path(&p, f, NULL, text);
	assert_true(shfs_node_is_nameless(f));
	for (int i = 0; i < 9; i++) { /* its fd stays open */
		snprintf(text, sizeof(text), "%d", i);
		make_file(p.root_fd, text, "x");
		assert_holds(&p, look_up(&p, p.root, text), "x");
	}
	assert_holds(&p, f, "T");

	fd = shfs_node_fd(p.tree, f);
	snprintf(text, sizeof(text), "%d", fd);
	shfs_tree_lock_write(p.tree);
	assert_int_equal(linkat(p.proc_fd, text, p.root_fd, "t", AT_SYMLINK_FOLLOW), 0);
	shfs_node_linked(p.tree, f, p.root, "t", false);
	shfs_tree_unlock(p.tree);
	shfs_node_fd_done(p.tree, f);
	assert_false(shfs_node_is_nameless(f));
	assert_path(&p, f, NULL, "t");
	assert_ptr_equal(look_up(&p, p.root, "t"), f);
	close_place(&p);
}

/* --- many --- */

static void test_few_descriptors(void **state)
{
	enum { N = 300 };
	struct place p = open_place(8);
	static struct shfs_node *nodes[N];
	unsigned before = count_fds();
	char name[16];

	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%d", i);
		make_file(p.root_fd, name, name);
		nodes[i] = look_up(&p, p.root, name);
		assert_true(shfs_node_fd(p.tree, nodes[i]) >= 0);
		shfs_node_fd_done(p.tree, nodes[i]);
		assert_true(count_fds() <= before + 8);
	}
	assert_true(count_fds() == before + 8);
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_holds(&p, nodes[i], name);
	}
	while (shfs_tree_spare_fds(p.tree))
		;
	assert_int_equal(count_fds(), before);
	assert_holds(&p, nodes[7], "7");
	close_place(&p);
}

/* One in use is not closed, even where there are more than should be. */
static void test_fds_in_use_stay(void **state)
{
	struct place p = open_place(2);
	struct shfs_node *nodes[10];
	char name[16];
	int fds[10];

	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "%d", i);
		make_file(p.root_fd, name, name);
		nodes[i] = look_up(&p, p.root, name);
		fds[i] = shfs_node_fd(p.tree, nodes[i]);
	}
	shfs_tree_spare_fds(p.tree);
	for (int i = 0; i < 10; i++) {
		assert_true(fcntl(fds[i], F_GETFL) >= 0);
		assert_int_equal(shfs_node_fd(p.tree, nodes[i]), fds[i]);
		shfs_node_fd_done(p.tree, nodes[i]);
		shfs_node_fd_done(p.tree, nodes[i]);
	}
	close_place(&p);
}

/* Each is reached from the root, with few fds; the path is whole. */
static void test_deep(void **state)
{
	enum { DEPTH = 1000 };
	struct place p = open_place(16);
	_cleanup_buf_ struct shfs_buf path = { 0 };
	struct shfs_node *node = p.root;
	int fd = p.root_fd, next;
	uint64_t id;

	for (int i = 0; i < DEPTH; i++) {
		assert_int_equal(mkdirat(fd, "dd", 0700), 0);
		next = openat(fd, "dd", O_PATH | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		if (fd != p.root_fd)
			close(fd);
		fd = next;
		node = look_up(&p, node, "dd");
	}
	while (shfs_tree_spare_fds(p.tree))
		;
	make_file(fd, "leaf", "deep");
	close(fd);
	node = look_up(&p, node, "leaf");
	assert_holds(&p, node, "deep");
	shfs_tree_lock_read(p.tree);
	shfs_node_path(node, NULL, &path);
	shfs_tree_unlock(p.tree);
	assert_int_equal(path.len, DEPTH * 3 + 4);
	assert_memory_equal(path.data, "dd/dd/", 6);
	assert_memory_equal(path.data + path.len - 7, "dd/leaf", 7);
	/* the kernel forgets them from the top: all end with the leaf */
	id = node->id;
	for (node = look_up(&p, p.root, "dd");; node = look_up(&p, node, "dd")) {
		struct statx stx;
		struct shfs_node *below;

		shfs_node_forget(p.tree, node->id, 2);
		if (shfs_node_lookup(p.tree, node, "dd", &stx, &below))
			break;
		shfs_node_forget(p.tree, below->id, 1);
	}
	shfs_node_forget(p.tree, id, 1);
	assert_null(shfs_node_find(p.tree, id));
	close_place(&p);
}

/* --- from several threads --- */

#define STRESS_NAMES 24

struct stress {
	struct place *place;
	unsigned seed;
	unsigned failed;
};

/* Gone, or another's name by now: anything else is wrong. */
static bool is_fine(int r)
{
	return r >= 0 || r == -ENOENT || r == -ESTALE;
}

static void stress_rename(struct place *p, struct shfs_node *node, const char *from,
                          const char *to)
{
	struct shfs_node *victim = NULL;
	struct statx stx;
	bool there = !shfs_node_lookup(p->tree, p->root, to, &stx, &victim);

	int fd = there ? shfs_node_fd(p->tree, victim) : -1;

	shfs_tree_lock_write(p->tree);
	if (!renameat(p->root_fd, from, p->root_fd, to)) {
		if (there)
			shfs_node_gone(p->tree, victim, p->root, to);
		shfs_node_moved(p->tree, node, p->root, from, p->root, to);
	}
	shfs_tree_unlock(p->tree);
	if (fd >= 0)
		shfs_node_fd_done(p->tree, victim);
	if (there)
		shfs_node_forget(p->tree, victim->id, 1);
}

static void *stress_thread(void *arg)
{
	struct stress *s = arg;
	struct place *p = s->place;
	char from[16], to[16];

	for (int i = 0; i < 1500; i++) {
		_cleanup_buf_ struct shfs_buf path = { 0 };
		struct shfs_node *node;
		struct statx stx;
		int fd;

		snprintf(from, sizeof(from), "%d", rand_r(&s->seed) % STRESS_NAMES);
		snprintf(to, sizeof(to), "%d", rand_r(&s->seed) % STRESS_NAMES);
		if (i % 5 == 0) {
			fd = openat(p->root_fd, from, O_CREAT | O_WRONLY | O_CLOEXEC,
			            0600);
			close(fd);
		}
		if (shfs_node_lookup(p->tree, p->root, from, &stx, &node))
			continue;
		fd = shfs_node_open(p->tree, node, O_RDONLY);
		s->failed += !is_fine(fd);
		if (fd >= 0)
			close(fd);
		s->failed += !is_fine(shfs_node_stat(p->tree, node, &stx));
		if (i % 3 == 0)
			stress_rename(p, node, from, to);
		if (i % 7 == 0)
			(void)!linkat(p->root_fd, from, p->root_fd, to, 0);
		if (i % 50 == 0)
			shfs_tree_spare_fds(p->tree);
		shfs_tree_lock_read(p->tree);
		shfs_node_path(node, NULL, &path);
		shfs_tree_unlock(p->tree);
		s->failed += path.failed || !path.len;
		shfs_node_forget(p->tree, node->id, 1);
	}
	return NULL;
}

static void test_threads(void **state)
{
	unsigned before = count_fds();
	struct place p = open_place(6);
	struct stress stress[4] = { 0 };
	pthread_t threads[4];
	uint64_t ids[STRESS_NAMES];

	for (unsigned i = 0; i < 4; i++) {
		stress[i] = (struct stress){ .place = &p, .seed = i + 1 };
		assert_int_equal(pthread_create(&threads[i], NULL, stress_thread,
		                                &stress[i]),
		                 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(stress[i].failed, 0);
	}
	/* all lookups were given back: nothing is known; but for what has lost its inode
	 * number to another file a moment ago */
	for (int i = 0; i < 2; i++) /* the first time they count as used */
		assert_int_equal(shfs_tree_idle(p.tree, ids, ARRAY_SIZE(ids)), 0);
	close_place(&p);
	assert_int_equal(count_fds(), before);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_one_node_for_one_file),
	cmocka_unit_test(test_ids_are_derived),
	cmocka_unit_test(test_life),
	cmocka_unit_test(test_reused_inode_number),
	cmocka_unit_test(test_given_back_and_reused),
	cmocka_unit_test(test_other_devices),
	cmocka_unit_test(test_the_root_below_itself),
	cmocka_unit_test(test_hidden),
	cmocka_unit_test(test_names_move),
	cmocka_unit_test(test_unlinked),
	cmocka_unit_test(test_replaced_beneath),
	cmocka_unit_test(test_one_of_two_names_goes),
	cmocka_unit_test(test_names_in_use),
	cmocka_unit_test(test_nameless),
	cmocka_unit_test(test_few_descriptors),
	cmocka_unit_test(test_fds_in_use_stay),
	cmocka_unit_test(test_deep),
	cmocka_unit_test(test_threads),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
