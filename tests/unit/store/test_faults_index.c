/* SPDX-License-Identifier: MIT */
/* The index, check, repair and forget, when any call fails: nothing is lost, an error is
 * told, and done again it is done. */
#include "tests/unit/faultkit.h"

#include "store/care/check.h"
#include "store/care/forget.h"
#include "store/care/garbage.h"
#include "store/care/import.h"
#include "store/care/repair.h"
#include "store/index/facts.h"

static char *indexed; /* a store with its index */
static char *whole;   /* what the index says */

static char *dump_of(struct shfs_store *store)
{
	struct kit k = { .store = store };
	char *dump = kit_dump(&k);

	shfs_buf_free(&k.answer);
	return dump;
}

static void assert_says(struct shfs_store *store, const char *expected)
{
	_cleanup_free_ char *dump = dump_of(store);

	assert_string_equal(dump, expected);
}

/* --- ingest --- */

static int ingest(struct shfs_store *store)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	int r = shfs_index_open(store, SHFS_INDEX_WRITE, &index);

	return r ? r : shfs_index_ingest(index, NULL, NULL);
}

static void check_ingest(struct shfs_store *store, int r)
{
	if (r)
		assert_ok(ingest(store));
	assert_says(store, whole);
}

static void test_ingest(void **state)
{
	each_fault(&(struct operation){ scene.kit.store->path, ingest, check_ingest });
}

static int rebuild(struct shfs_store *store)
{
	return shfs_index_rebuild(store, NULL, NULL);
}

static void test_rebuild(void **state)
{
	each_fault(&(struct operation){ indexed, rebuild, check_ingest });
}

/* --- questions --- */

static int count_rows(struct shfs_index *index, uint64_t *n)
{
	static const char *const views[] = { "v_session", "v_command",  "v_process",
		                             "v_file",    "v_version",  "v_access",
		                             "v_gap",     "v_producer", "v_stats" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(views) && r >= 0; i++) {
		_cleanup_rows_ struct shfs_rows *rows = NULL;
		char sql[64];

		snprintf(sql, sizeof(sql), "SELECT * FROM %s", views[i]);
		r = shfs_rows_open(index, sql, &rows);
		while (!r && (r = shfs_rows_next(rows)) > 0) {
			++*n;
			r = 0;
		}
	}
	return r;
}

static int add_access(const struct shfs_access *access, void *arg)
{
	*(uint64_t *)arg += 1000;
	return 0;
}

static int add_id(int64_t id, void *arg)
{
	*(uint64_t *)arg += 100000;
	return 0;
}

static int add_process(const struct shfs_process_fact *process, void *arg)
{
	*(uint64_t *)arg += 10000000;
	return 0;
}

static int add_path(int64_t id, const char *path, void *arg)
{
	return add_id(id, arg);
}

/* Of each of a few ids; 1 and 0 are answers. */
static int ask_facts_of(struct shfs_facts *facts, int64_t id, uint64_t *n)
{
	_cleanup_free_ char *path = NULL, *exe = NULL;
	struct shfs_version_fact version = { 0 };
	struct shfs_file_fact file;
	struct shfs_access access = { 0 };
	int64_t got = 0;
	int r = shfs_facts_path(facts, id, &path);

	if (r >= 0)
		r = shfs_facts_file(facts, id, &file);
	if (r >= 0)
		r = shfs_facts_version(facts, id << 32 | 1, &version);
	if (r >= 0)
		r = shfs_facts_access(facts, id, &access);
	if (r >= 0)
		r = shfs_facts_owner(facts, id, &got);
	if (r >= 0)
		r = shfs_facts_program(facts, id, &got);
	if (r > 0)
		r = shfs_facts_exe(facts, got, &exe);
	if (r >= 0)
		r = shfs_facts_last_made(facts, id << 32 | 1, id % 2, &access);
	if (r >= 0)
		r = shfs_facts_of_command(facts, id, add_access, n);
	if (r >= 0)
		r = shfs_facts_of_nobody(facts, id, add_access, n);
	if (r >= 0)
		r = shfs_facts_opens_of_file(facts, id, add_access, n);
	if (r >= 0)
		r = shfs_facts_processes(facts, id, add_process, n);
	if (r >= 0)
		r = shfs_facts_of_process(facts, id, add_access, n);
	if (r >= 0)
		r = shfs_facts_same(facts, id << 32 | 1, add_id, n);
	if (r >= 0)
		r = shfs_facts_moved(facts, id << 32 | 1, add_id, n);
	*n += version.n + access.seq + (path ? strlen(path) : 0);
	return MIN(r, 0);
}

static int ask_facts(struct shfs_index *index, bool load, uint64_t *n)
{
	struct shfs_facts *facts;
	int r = shfs_facts_new(index, &facts);

	if (r)
		return r;
	if (load)
		r = shfs_facts_load(facts);
	if (!r)
		r = shfs_facts_hold(facts);
	for (int64_t id = 1; id < 6 && !r; id++)
		r = ask_facts_of(facts, id, n);
	if (r >= 0)
		r = shfs_facts_below(facts, KIT_ROOT, add_id, n);
	shfs_facts_release(facts);
	shfs_facts_free(facts);
	return r;
}

static int ask_rest(struct shfs_index *index, uint64_t *n)
{
	static const int64_t ids[] = { 1, 2, 3, 5 };
	struct shfs_version_fact look;
	int64_t uses = 0;
	size_t shared = 0;
	int r = shfs_accesses_of_command(index, 1, add_access, n);

	if (r >= 0)
		r = shfs_accesses_of_nobody(index, 1, add_access, n);
	if (r >= 0)
		r = shfs_uses_count(index, ids, ARRAY_SIZE(ids), &uses);
	if (r >= 0)
		r = shfs_paths_of(index, ids, ARRAY_SIZE(ids), add_path, n);
	if (r >= 0)
		r = shfs_version_look(index, (int64_t)1 << 32 | 1, &look);
	if (r >= 0)
		r = shfs_command_id_shared(index, "0123456789abcdef", &shared);
	*n += uses + shared;
	return MIN(r, 0);
}

static uint64_t answered;

static int ask(struct shfs_store *store)
{
	_cleanup_index_ struct shfs_index *index = NULL;
	int r = shfs_index_open(store, SHFS_INDEX_READ, &index);

	answered = 0;
	if (!r)
		r = count_rows(index, &answered);
	if (!r)
		r = ask_facts(index, false, &answered);
	if (!r)
		r = ask_facts(index, true, &answered);
	return r ? r : ask_rest(index, &answered);
}

/* All, or an error. */
static void check_ask(struct shfs_store *store, int r)
{
	static uint64_t all;

	if (!all)
		all = answered;
	if (!r)
		assert_int_equal(answered, all);
}

static void test_ask(void **state)
{
	each_fault(&(struct operation){ indexed, ask, check_ask });
}

/* --- check and repair --- */

static struct shfs_check found;

static int check(struct shfs_store *store)
{
	static const struct shfs_check_options all = { .read_data = true,
		                                       .restart = true };

	shfs_check_free(&found);
	found = (struct shfs_check){ 0 };
	return shfs_check_run(store, NULL, &all, &found);
}

/* What could not be looked at is not taken for right. */
static void check_check(struct shfs_store *store, int r)
{
	static struct {
		uint64_t flaws, records, objects, named;
	} good;

	if (!good.objects) {
		good.flaws = found.n_flaws;
		good.records = found.records;
		good.objects = found.objects;
		good.named = found.named;
	}
	if (r || found.failed || found.n_flaws > good.flaws)
		return;
	assert_int_equal(found.records, good.records);
	assert_int_equal(found.objects, good.objects);
	assert_int_equal(found.named, good.named);
}

static void test_check(void **state)
{
	each_fault(&(struct operation){ indexed, check, check_check });
}

static int repair(struct shfs_store *store)
{
	static const struct shfs_check_options none;
	_cleanup_repair_ struct shfs_repair rp = { 0 };

	return shfs_repair_run(store, NULL, &none, false, &rp);
}

/* What was right is there all the time, and in the end there is nothing wrong. */
static void check_repair(struct shfs_store *store, int r)
{
	static unsigned first;
	unsigned lost = 0;

	if (r)
		assert_ok(repair(store));
	for (unsigned n = 0; n < SCENE_CONTENTS; n++)
		lost += scene_has(store, n) != 0;
	if (!first)
		first = lost;
	/* what cannot be read is taken for damaged: it is kept apart */
	assert_in_range(lost, first, first + 3);
	assert_ok(check(store));
	assert_int_equal(found.n_flaws, found.n_harmless);
}

/* One byte in the middle of each file of a directory. */
static void damage(const char *store, const char *below, const char *suffix)
{
	_cleanup_free_ char *path = shfs_path_join(store, below);
	DIR *dir = opendir(path);
	struct dirent *e;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		_cleanup_close_ int fd = -1;
		struct stat st;
		char c;

		if (strlen(e->d_name) < 5 || !strstr(e->d_name, suffix))
			continue;
		fd = openat(dirfd(dir), e->d_name, O_RDWR);
		assert_ok(fstat(fd, &st));
		assert_int_equal(pread(fd, &c, 1, st.st_size / 2), 1);
		c ^= 0x55;
		assert_int_equal(pwrite(fd, &c, 1, st.st_size / 2), 1);
	}
	closedir(dir);
}

static void test_repair(void **state)
{
	_cleanup_free_ char *bad = shfs_path_join(shfs_unit_tmpdir(), "store");
	_cleanup_free_ char *journal = NULL;

	scene_copy(indexed, bad);
	journal = shfs_path_join("journal", scene.kit.store->host);
	damage(bad, "objects/packs", ".pack");
	damage(bad, journal, ".seg");
	each_fault(&(struct operation){ bad, repair, check_repair });
}

/* --- forget --- */

static int forget_secret(struct shfs_forget *forget)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	struct shfs_forget_stats stats;
	int r = shfs_rows_open(shfs_forget_index(forget),
	                       "SELECT command_id FROM v_command WHERE text LIKE 'curl%'",
	                       &rows);

	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		r = shfs_forget_add(forget, SHFS_FORGET_COMMAND, shfs_rows_int(rows, 0));
	shfs_rows_close(TAKE_PTR(rows));
	if (!r)
		r = shfs_forget_measure(forget, &stats);
	return r ? r : shfs_forget_run(forget);
}

static int seal_nobody(void *arg, struct shfs_buf *segments)
{
	return 0;
}

static const struct shfs_forget_beside nobody = { .seal = seal_nobody };

static int forget(struct shfs_store *store)
{
	struct shfs_forget *forgetting = NULL;
	int r = shfs_forget_open(store, NULL, &nobody, &forgetting);

	if (!r)
		r = forget_secret(forgetting);
	shfs_forget_close(forgetting);
	return r;
}

/* As before, or forgotten, and then all of it. What it did not make stays. */
static void check_forget(struct shfs_store *store, int r)
{
	_cleanup_free_ char *dump = NULL;

	if (shfs_forget_pending(store))
		assert_ok(shfs_forget_finish(store, NULL, &nobody));
	else if (r)
		assert_ok(forget(store));
	assert_ok(ingest(store));
	dump = dump_of(store);
	assert_null(strstr(dump, "curl"));
	assert_null(strstr(dump, "large"));
	assert_non_null(strstr(dump, "make again"));
	for (unsigned n = 0; n < SCENE_CONTENTS; n++)
		if (n != SCENE_LARGE)
			assert_ok(scene_has(store, n));
		else
			assert_int_equal(scene_has(store, n), -ENOENT);
}

static void test_forget(void **state)
{
	each_fault(&(struct operation){ indexed, forget, check_forget });
}

/* --- collecting --- */

static int collect(struct shfs_store *store)
{
	struct shfs_garbage garbage = { .store = store };
	uint64_t objects = 0, bytes = 0;
	struct shfs_collect how = { .pick = shfs_garbage_pick,
		                    .arg = &garbage,
		                    .alone = true,
		                    .objects = &objects,
		                    .bytes = &bytes };

	return shfs_collect(store, &how);
}

/* Nothing that is named goes, whatever cannot be read. */
static void check_collect(struct shfs_store *store, int r)
{
	struct shfs_object_id id;

	scene_has_all(store);
	if (r)
		assert_ok(collect(store));
	scene_has_all(store);
	assert_int_equal(shfs_object_find(store, "garbage", 7, &id), 0);
}

static void test_collect(void **state)
{
	_cleanup_free_ char *base = shfs_path_join(shfs_unit_tmpdir(), "store");
	struct shfs_store *store;
	struct shfs_put *put;

	scene_copy(indexed, base);
	assert_ok(shfs_store_open(base, 0, &store));
	assert_ok(shfs_object_put(store, "garbage", 7, 1, NULL, &put));
	assert_ok(shfs_object_commit(store, &put, 1));
	shfs_put_free(put);
	shfs_store_close(store);
	each_fault(&(struct operation){ base, collect, check_collect });
}

static int pick_some(void *arg, struct shfs_objects *out)
{
	static const unsigned some[] = { 2, 9, SCENE_LARGE };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(some) && !r; i++)
		r = shfs_objects_add(out, &scene.ids[some[i]]);
	shfs_objects_sort(out);
	return r;
}

static int prune(struct shfs_store *store)
{
	uint64_t objects = 0, bytes = 0;
	struct shfs_collect how = { .pick = pick_some,
		                    .named = true,
		                    .alone = true,
		                    .objects = &objects,
		                    .bytes = &bytes };

	return shfs_collect(store, &how);
}

/* Those and no others go, and what is gone is known as pruned. */
static void check_prune(struct shfs_store *store, int r)
{
	for (int again = 0; again < 2; again++) {
		for (unsigned n = 0; n < SCENE_CONTENTS; n++) {
			int has = scene_has(store, n);

			if (n != 2 && n != 9 && n != SCENE_LARGE)
				assert_ok(has);
			else if (has || (again && !r))
				assert_int_equal(has, -ENODATA);
		}
		if (!again && r)
			r = prune(store);
	}
	assert_ok(r);
}

static void test_prune(void **state)
{
	each_fault(&(struct operation){ indexed, prune, check_prune });
}

/* --- import --- */

struct giving {
	struct shfs_store *from;
	struct shfs_import *to;
};

static int give_file(const char *host, const char *name, const struct shfs_buf *bytes,
                     void *arg)
{
	struct giving *g = arg;

	return shfs_import_file(g->to, host, name, bytes->data, bytes->len);
}

static int give_object(const struct shfs_object_id *id, void *arg)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct giving *g = arg;
	char name[44];
	int r = shfs_object_read(g->from, id, 8 << 20, &b);

	shfs_object_name(id, name);
	return r ? r : shfs_import_object(g->to, name, b.data, b.len, NULL);
}

static int import(struct shfs_store *store)
{
	struct giving g = { NULL };
	struct shfs_import_stats stats;
	struct shfs_forget_stats forgotten;
	struct shfs_handed_out to = { .file = give_file,
		                      .object = give_object,
		                      .arg = &g };
	struct shfs_forget *all = NULL;
	int r = shfs_store_open(indexed, 0, &g.from);

	if (!r)
		r = shfs_import_new(store, false, &g.to);
	if (!r)
		r = shfs_forget_open(g.from, NULL, NULL, &all);
	if (!r)
		r = shfs_forget_measure(all, &forgotten);
	if (!r)
		r = shfs_forget_hand_out(all, &to);
	if (!r)
		r = shfs_import_finish(g.to, NULL, &stats);
	shfs_forget_close(all);
	shfs_import_free(g.to);
	shfs_store_close(g.from);
	return r;
}

static void check_import(struct shfs_store *store, int r)
{
	if (r)
		assert_ok(import(store));
	assert_ok(ingest(store));
	assert_says(store, whole);
	scene_has_all(store);
}

static void test_import(void **state)
{
	_cleanup_free_ char *base = shfs_path_join(shfs_unit_tmpdir(), "store");
	struct shfs_store *store;

	assert_ok(shfs_store_open(base, SHFS_STORE_CREATE, &store));
	shfs_store_close(store);
	each_fault(&(struct operation){ base, import, check_import });
}

/* --- */

static void begin(void)
{
	struct shfs_store *store;

	scene_begin();
	indexed = shfs_path_join(shfs_unit_tmpdir(), "store");
	scene_copy(scene.kit.store->path, indexed);
	assert_ok(shfs_store_open(indexed, 0, &store));
	assert_ok(ingest(store));
	whole = dump_of(store);
	shfs_store_close(store);
}

static void end(void)
{
	shfs_check_free(&found);
	free(whole);
	free(indexed);
	scene_end();
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_ingest, tell_trial),
		cmocka_unit_test_teardown(test_rebuild, tell_trial),
		cmocka_unit_test_teardown(test_ask, tell_trial),
		cmocka_unit_test_teardown(test_check, tell_trial),
		cmocka_unit_test_teardown(test_repair, tell_trial),
		cmocka_unit_test_teardown(test_forget, tell_trial),
		cmocka_unit_test_teardown(test_collect, tell_trial),
		cmocka_unit_test_teardown(test_prune, tell_trial),
		cmocka_unit_test_teardown(test_import, tell_trial),
	};
	return fault_main(tests, argc, argv);
}
