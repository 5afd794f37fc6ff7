/* SPDX-License-Identifier: MIT */
/* Collections beside a producer, step by step. The tests of store/objects/collect.c and
 * lease.c.
 */
#include "tests/unit/storekit.h"

#include "store/objects/collect.h"
#include "store/objects/inventory.h"
#include "store/objects/lease.h"
#include "store/objects/object.h"
#include "store/objects/packs.h"
#include "store/objects/pruned.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>

#define TEXT "what is in no record yet"

static struct shfs_object_id put(struct shfs_store *store)
{
	struct shfs_object_id id;
	struct shfs_put *put;

	assert_ok(shfs_object_put(store, TEXT, strlen(TEXT), 1, NULL, &put));
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	shfs_put_free(put);
	return id;
}

static void assert_readable(struct shfs_store *store, const struct shfs_object_id *id)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	assert_ok(shfs_object_read(store, id, 1000, &b));
	assert_int_equal(b.len, strlen(TEXT));
	assert_memory_equal(b.data, TEXT, b.len);
}

struct collecting {
	struct shfs_store *store, *producer;
	struct shfs_object_id late; /* put while it is condemned */
	int picks, wait_ms;
	bool puts;
};

static int add(void *arg, const struct shfs_stored *object)
{
	return shfs_objects_add(arg, &object->id);
}

/* All: no record names any. */
static int pick(void *arg, struct shfs_objects *out)
{
	struct collecting *c = arg;

	if (c->picks++ && c->puts)
		c->late = put(c->producer);
	return shfs_inventory(c->store, add, out);
}

static int collect(struct collecting *c)
{
	uint64_t objects, bytes;
	struct shfs_collect how = { .pick = pick,
		                    .arg = c,
		                    .wait_ms = c->wait_ms,
		                    .objects = &objects,
		                    .bytes = &bytes };

	c->picks = 0;
	return shfs_collect(c->store, &how);
}

static struct shfs_store *open_again(struct shfs_store *store)
{
	struct shfs_store *other;

	assert_ok(shfs_store_open(store->path, 0, &other));
	return other;
}

struct renewing {
	struct shfs_store *producer;
	struct shfs_object_id id;
	atomic_bool done;
};

/* As who holds a lease for long does. */
static void *renew(void *arg)
{
	struct renewing *t = arg;

	for (; !t->done; usleep(1000))
		if (shfs_lease_is_stale(t->producer) &&
		    shfs_lease_renew(t->producer, &t->id, 1))
			abort();
	return NULL;
}

/* What is under way may still name what it put: nothing goes until that has ended, or but
 * for what it claims. */
static void put_before_its_record(void **state)
{
	struct collecting c = { .producer = kit_store(), .wait_ms = 50 };
	struct renewing t = { .producer = c.producer };
	struct shfs_object_id none;
	pthread_t thread;

	c.store = open_again(c.producer);
	assert_ok(shfs_lease_begin(c.producer));
	t.id = put(c.producer);
	assert_int_equal(collect(&c), -EBUSY);
	assert_readable(c.store, &t.id);

	assert_ok(pthread_create(&thread, NULL, renew, &t));
	c.wait_ms = 20000;
	assert_ok(collect(&c));
	t.done = true;
	pthread_join(thread, NULL);
	assert_readable(c.store, &t.id);

	shfs_lease_end(c.producer);
	assert_ok(collect(&c));
	assert_int_equal(shfs_object_find(c.store, TEXT, strlen(TEXT), &none), 0);
	shfs_store_close(c.store);
	shfs_store_close(c.producer);
}

/* Who puts it again while it goes gets another name for it, and what has that stays. */
static void put_while_it_goes(void **state)
{
	struct collecting c = { .producer = kit_store(), .puts = true };
	struct shfs_object_id id;

	c.store = open_again(c.producer);
	id = put(c.producer);
	assert_ok(collect(&c));
	assert_int_not_equal(shfs_object_compare(&id, &c.late), 0);
	assert_readable(c.store, &c.late);
	shfs_store_close(c.store);
	shfs_store_close(c.producer);
}

struct removing {
	struct shfs_store *store;
	struct shfs_object_id id;
	int result;
};

static void *remove_one(void *arg)
{
	struct removing *t = arg;

	t->result = shfs_objects_remove(t->store, &t->id, 1);
	return NULL;
}

static int open_the_pack(struct shfs_store *store)
{
	int dirfd = openat(store->objects_fd, "packs", O_RDONLY | O_DIRECTORY);
	DIR *dir = fdopendir(dirfd);
	int fd = -1;

	assert_non_null(dir);
	for (struct dirent *e; fd < 0 && (e = readdir(dir));)
		if (strlen(e->d_name) > 5 &&
		    !strcmp(e->d_name + strlen(e->d_name) - 5, ".pack"))
			fd = openat(dirfd, e->d_name, O_RDONLY);
	closedir(dir);
	assert_true(fd >= 0);
	return fd;
}

/*
 * 1. The collection has seen that nothing of a pack stays, and waits for its lock.
 * 2. Its producer, which has that, appends another content.
 * 3. The collection gets the lock.
 */
static void appended_to_what_goes(void **state)
{
	struct shfs_store *producer = kit_store();
	struct removing t = { .store = open_again(producer), .id = put(producer) };
	struct shfs_object_id id;
	struct shfs_put *later;
	_cleanup_buf_ struct shfs_buf out = { 0 };
	pthread_t thread;
	int fd = open_the_pack(producer);

	assert_ok(flock(fd, LOCK_SH));
	assert_ok(pthread_create(&thread, NULL, remove_one, &t));
	usleep(300000);
	assert_ok(shfs_object_put(producer, "later", 5, 1, NULL, &later));
	assert_ok(shfs_object_commit(producer, &later, 1));
	id = shfs_put_id(later);
	shfs_put_free(later);
	close(fd);
	pthread_join(thread, NULL);
	assert_ok(t.result);
	assert_int_equal(shfs_object_read(t.store, &t.id, 1000, &out), -ENOENT);
	assert_ok(shfs_object_read(t.store, &id, 1000, &out));
	shfs_store_close(t.store);
	shfs_store_close(producer);
}

/* --- what a collection leaves that is killed between two packs --- */

static void noise(struct shfs_buf *b, char first)
{
	kit_noise(b, 30000, 1);
	*b->data = first;
}

static struct shfs_object_id put_noise(struct shfs_store *store, char first,
                                       const struct shfs_object_id *before)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_object_id id;
	struct shfs_put *put;

	noise(&b, first);
	assert_ok(shfs_object_put(store, b.data, b.len, 1, before, &put));
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	shfs_put_free(put);
	return id;
}

static int read_noise(struct shfs_store *store, const struct shfs_object_id *id,
                      char first)
{
	_cleanup_buf_ struct shfs_buf b = { 0 }, out = { 0 };
	struct shfs_store *late = open_again(store);
	int r = shfs_object_read(late, id, 1 << 20, &out);

	noise(&b, first);
	if (!r)
		r = out.len != b.len || memcmp(out.data, b.data, b.len);
	shfs_store_close(late);
	return r;
}

/* ids[1] is a delta of ids[0], each in a pack of its own. */
static void put_two(struct shfs_store *store, struct shfs_object_id ids[static 2])
{
	uint64_t full = packs_full_bytes;

	packs_full_bytes = 20000;
	ids[0] = put_noise(store, 'a', NULL);
	ids[1] = put_noise(store, 'b', &ids[0]);
	packs_full_bytes = full;
}

static void remove_first_pack(struct shfs_store *store)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	shfs_buf_printf(&name, "packs/%s-0-000000.pack", store->host);
	assert_ok(unlinkat(store->objects_fd, name.data, 0));
	name.len -= strlen("pack");
	shfs_buf_str(&name, "idx");
	unlinkat(store->objects_fd, name.data, 0);
}

/* What it was to take away is pruned, be there some of it or not. */
static void pruned_though_some_is_there(void **state)
{
	struct shfs_store *store = kit_store(), *late;
	struct shfs_object_id ids[2];

	put_two(store, ids);
	assert_ok(pruned_add(store, ids, 2));
	remove_first_pack(store);
	late = open_again(store);
	for (int i = 0; i < 2; i++)
		assert_int_equal(shfs_object_was_pruned(late, &ids[i]), 1);
	assert_int_equal(read_noise(store, &ids[0], 'a'), -ENODATA);
	assert_int_equal(read_noise(store, &ids[1], 'b'), -ENODATA);
	/* also by the list of the next collection, whatever that takes away */
	assert_ok(pruned_add(late, &(struct shfs_object_id){ .hash = "other" }, 1));
	assert_int_equal(read_noise(store, &ids[1], 'b'), -ENODATA);
	put_noise(late, 'a', NULL);
	assert_int_equal(shfs_object_was_pruned(late, &ids[1]), 0);
	assert_ok(read_noise(store, &ids[1], 'b'));
	shfs_store_close(late);
	shfs_store_close(store);
}

/*
 * 1. A mount puts a content, as a delta.
 * 2. A collection condemns it and its base, takes the base away, and is killed.
 * 3. Another one, which is to take nothing away, condemns it no more.
 * 4. The mount puts the content again: it has not forgotten that it did before.
 */
static void put_again_after_a_kill(void **state)
{
	const struct lease_condemnation how = { .wait_ms = 1000 };
	struct shfs_store *producer = kit_store(), *store = open_again(producer);
	struct shfs_object_id ids[2], sorted[2], again;
	struct lease_gate gate;

	put_two(producer, ids);
	memcpy(sorted, ids, sizeof(ids));
	qsort(sorted, 2, sizeof(*sorted), shfs_object_compare);
	assert_ok(lease_gate_open(store, &gate));
	assert_ok(lease_gate_condemn(&gate, sorted, 2, &how));
	remove_first_pack(store);
	gate.condemned = false;
	lease_gate_close(&gate);

	assert_ok(lease_gate_open(store, &gate));
	assert_ok(lease_gate_condemn(&gate, sorted, 0, &how));
	lease_gate_close(&gate);

	again = put_noise(producer, 'b', NULL);
	assert_ok(read_noise(store, &again, 'b'));
	shfs_store_close(store);
	shfs_store_close(producer);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(put_before_its_record),
	cmocka_unit_test(put_while_it_goes),
	cmocka_unit_test(appended_to_what_goes),
	cmocka_unit_test(pruned_though_some_is_there),
	cmocka_unit_test(put_again_after_a_kill),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
