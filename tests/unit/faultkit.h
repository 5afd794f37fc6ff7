/* SPDX-License-Identifier: MIT */
/*
 * faultkit.h - a store with some of everything, and work on copies of it in which each
 * call fails once. What holds then, the tests say; here: no descriptor stays open.
 */
#pragma once

#include "tests/unit/faults.h"
#include "tests/unit/indexkit.h"

#include "common/path.h"

#include <ftw.h>
#include <sys/stat.h>

/* Contents of the base, by number: some alike (of which deltas are made), a large one. */
#define SCENE_CONTENTS 12
#define SCENE_LARGE    11
#define SCENE_SECRET   "curl -H secret-of-a-command example.org"

struct scene {
	struct kit kit;
	struct shfs_object_id ids[SCENE_CONTENTS];
	struct shfs_buf contents[SCENE_CONTENTS];
	char *trial; /* the path of the copy that is worked on */
};

static struct scene scene;

/* --- contents --- */

static void make_content(unsigned n, struct shfs_buf *out)
{
	uint64_t x = 88172645463325252u;

	for (size_t i = 0; i < (n == SCENE_LARGE ? 200000 : 300 + n); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (n == SCENE_LARGE || (n > 7 && i == 40))
			x += n;
		shfs_buf_u64(out, x);
	}
	assert_false(out->failed);
}

static _unused_ struct shfs_object_id scene_put(struct shfs_store *store, unsigned n,
                                                const struct shfs_object_id *before)
{
	const struct shfs_buf *b = &scene.contents[n];
	struct shfs_put *put;
	struct shfs_object_id id;

	assert_ok(shfs_object_put(store, b->data, b->len, 1, before, &put));
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	shfs_put_free(put);
	return id;
}

/* 0: it is there as it was put. */
static _unused_ int scene_has(struct shfs_store *store, unsigned n)
{
	const struct shfs_buf *b = &scene.contents[n];
	_cleanup_buf_ struct shfs_buf out = { 0 };
	int r = shfs_object_read(store, &scene.ids[n], 4 << 20, &out);

	if (r)
		return r;
	assert_int_equal(out.len, b->len);
	assert_memory_equal(out.data, b->data, b->len);
	return 0;
}

static _unused_ void scene_has_all(struct shfs_store *store)
{
	for (unsigned n = 0; n < SCENE_CONTENTS; n++)
		assert_ok(scene_has(store, n));
}

/* --- the base --- */

static struct shfs_content scene_object(unsigned n, double ms)
{
	struct shfs_content c = kit_content(&scene.kit, "", ms);

	c.size = scene.contents[n].len;
	c.object = scene.ids[n];
	c.phash = n + 1;
	return c;
}

static void scene_work(struct kit *k)
{
	uint64_t shell, child, other;
	struct shfs_content gone = scene_object(3, 3000);

	kit_shell(k, 500, 1000, 1050);
	kit_begin(k, 1, 2000, 600, "make all");
	kit_mount_at(k, KIT_ROOT, 2500);
	shell = kit_process(k, 500, 1000, 1, 10, .sid = 500);
	child = kit_process(k, 601, 2100, 500, 1000, .sid = 500, .exe = "/bin/cp");
	kit_preimage(k, child, "a", 2150, scene_object(8, 1990));
	for (unsigned n = 0; n < 8; n++) {
		char name[16];

		snprintf(name, sizeof(name), "d/f%u", n);
		kit_write(k, child, name, 2200 + n, scene_object(n, 2200 + n));
		kit_read(k, shell, name, 2300 + n, scene_object(n, 2200 + n));
	}
	kit_write(k, child, "a", 2400, scene_object(9, 2400));
	kit_write(k, child, "a", 2500, scene_object(10, 2500));
	kit_read(k, child, "print", 2550, kit_print(k, "not archived", 1500));
	kit_end(k, 1, 2600, 700, 0);
	kit_begin(k, 2, 3000, 700, SCENE_SECRET);
	other = kit_process(k, 701, 3100, 500, 1000, .sid = 500, .exe = "/bin/curl");
	kit_write(k, other, "large", 3200, scene_object(SCENE_LARGE, 3200));
	kit_write(k, other, "d/f7", 3250, scene_object(6, 3250));
	kit_rename(k, other, "d", "e", 3300);
	kit_pathop(k, other, SHFS_OP_UNLINK, "e/f3", NULL, 3400, NULL, &gone, false);
	kit_pathop(k, other, SHFS_OP_LINK, "a", "b", 3450, NULL, NULL, false);
	kit_end(k, 2, 3500, 800, 1);
	kit_umount(k);
	kit_begin(k, 3, 4000, 800, "make again");
	kit_mount(k);
	child = kit_process(k, 801, 4100, 500, 1000, .sid = 500);
	kit_read(k, child, "a", 4200, scene_object(10, 2500));
	kit_write(k, child, "e/f0", 4300, scene_object(9, 4300));
	kit_end(k, 3, 4500, 900, 0);
	shfs_journal_free(TAKE_PTR(k->journal)); /* killed */
}

static _unused_ void scene_open(struct scene *s)
{
	struct shfs_store *store;

	kit_open(&s->kit);
	store = s->kit.store;
	for (unsigned n = 0; n < SCENE_CONTENTS; n++)
		make_content(n, &s->contents[n]);
	for (unsigned n = 0; n < SCENE_CONTENTS; n++)
		s->ids[n] = scene_put(store, n,
		                      n > 8 && n < SCENE_LARGE ? &s->ids[n - 1] : NULL);
	scene_work(&s->kit);
}

/* --- copies --- */

static const char *copy_to;
static size_t copy_from_len;

static int copy_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	_cleanup_free_ char *to = NULL;
	_cleanup_buf_ struct shfs_buf b = { 0 };

	assert_true(asprintf(&to, "%s%s", copy_to, path + copy_from_len) > 0);
	if (type == FTW_D)
		return mkdir(to, st->st_mode & 0777);
	assert_ok(shfs_read_file_at(AT_FDCWD, path, 64 << 20, &b));
	return shfs_write_file_at(AT_FDCWD, to, 0600, b.data, b.len);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void scene_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void scene_copy(const char *from, const char *to)
{
	copy_to = to;
	copy_from_len = strlen(from);
	assert_ok(nftw(from, copy_one, 16, FTW_PHYS));
}

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 200; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* --- trials --- */

struct operation {
	const char *base; /* a store */
	/* On a copy: may fail. */
	int (*run)(struct shfs_store *store);
	/* What is then there; r: what it returned. */
	void (*check)(struct shfs_store *store, int r);
};

static struct shfs_store *trial_open(void)
{
	struct shfs_store *store;

	assert_ok(shfs_store_open(scene.trial, 0, &store));
	return store;
}

static int trial_run(const struct operation *op, const struct fault *fault,
                     const struct fault **sites, size_t *n)
{
	struct shfs_store *store;
	unsigned fds;
	int r;

	scene_remove(scene.trial);
	scene_copy(op->base, scene.trial);
	fds = open_fds();
	store = trial_open();
	if (fault)
		faults_begin(fault);
	else
		faults_count_begin();
	r = op->run(store);
	if (fault)
		faults_end();
	else
		*sites = faults_count_end(n);
	shfs_store_close(store);
	assert_int_equal(open_fds(), fds);
	return r;
}

static bool trial_fails; /* a test is at it */

static void trial_check(const struct operation *op, int r)
{
	struct shfs_store *store = trial_open();

	op->check(store, r);
	shfs_store_close(store);
}

/* Each call fails. */
static _unused_ void each_fault(const struct operation *op)
{
	/* a sample, or (SHFS_TEST_FAULTS, `./dev test --all`, `./dev coverage`) all */
	size_t n, every = getenv("SHFS_TEST_FAULTS") ? 1 : 61;
	const struct fault *sites;

	assert_ok(trial_run(op, NULL, &sites, &n));
	trial_check(op, 0);
	assert_true(n > 0);
	trial_fails = true;
	for (size_t i = 0; i < n; i += every)
		trial_check(op, trial_run(op, &sites[i], NULL, NULL));
	trial_fails = false;
	print_message("%zu sites\n", n);
}

static int tell_trial(void **state)
{
	if (trial_fails)
		faults_tell();
	trial_fails = false;
	return 0;
}

static _unused_ void scene_begin(void)
{
	faults_init();
	if (!access("/dev/shm", W_OK))
		setenv("TMPDIR", "/dev/shm", 1);
	scene.trial = shfs_path_join(shfs_unit_tmpdir(), "store");
	scene_open(&scene);
}

static _unused_ void scene_end(void)
{
	kit_close(&scene.kit);
	for (unsigned n = 0; n < SCENE_CONTENTS; n++)
		shfs_buf_free(&scene.contents[n]);
	free(scene.trial);
}

/* The tests between begin() and end() of the file; to list them needs neither. */
#define fault_main(tests, argc, argv)                                                    \
	({                                                                               \
		bool names_only = (argc) == 2 && !strcmp((argv)[1], "--list");           \
		int result;                                                              \
                                                                                         \
		umask(077);                                                              \
		if (!names_only)                                                         \
			begin();                                                         \
		result = shfs_unit_main(tests, argc, argv);                              \
		if (!names_only)                                                         \
			end();                                                           \
		result;                                                                  \
	})
