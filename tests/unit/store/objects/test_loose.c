/* SPDX-License-Identifier: MIT */
/* Where loose objects are looked for, and the pid by which a child knows that it is one.
 */
#include "tests/unit/packkit.h"

#include "common/proc.h"
#include "store/objects/loose.h"
#include "store/objects/object-internal.h"

#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LARGE (3u << 20)

/* All contents collide. */
static void hash_alike(const void *data, size_t len, uint8_t out[16])
{
	memset(out, 0x5a, 16);
}

static int end_alike(void **state)
{
	shfs_object_hash = shfs_object_hash_xxh3;
	return 0;
}

/* Another producer made a loose object, and its directory, since this one listed them:
 * the name is taken. */
static void name_taken_by_another(void **state)
{
	struct shfs_store *store = kit_store(), *other = open_again(store);
	_cleanup_buf_ struct shfs_buf large = { 0 };
	struct shfs_object_id id, loose;
	struct shfs_put *put;

	kit_noise(&large, LARGE, 1);
	shfs_object_hash = hash_alike;
	assert_ok(shfs_object_put(store, "small", 5, 3, NULL, &put));
	loose = put_one(other, large.data, large.len, 3);
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	shfs_put_free(put);
	assert_int_equal(loose.nth, 0);
	assert_int_equal(id.nth, 1);
	assert_holds(other, &loose, large.data, large.len);
	assert_holds(store, &id, "small", 5);
	id = put_one(store, large.data, large.len, 3);
	assert_int_equal(id.nth, 0);
	shfs_store_close(other);
	shfs_store_close(store);
}

/* Directories that are there, and those that are not. */
static void directories(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id id = { .hash = { 0xab } }, there;
	_cleanup_buf_ struct shfs_buf large = { 0 };

	assert_false(loose_may_have(store, &id));
	assert_int_equal(mkdirat(store->objects_fd, "ab", 0700), 0);
	loose_refresh(store);
	assert_true(loose_may_have(store, &id));
	kit_noise(&large, LARGE, 2);
	there = put_one(store, large.data, large.len, 3);
	assert_true(loose_may_have(store, &there));
	id.hash[0] = there.hash[0] == 7 ? 8 : 7;
	assert_false(loose_may_have(store, &id));
	shfs_store_close(store);
}

/* In a child of fork(2), and in one that libc knows nothing of. */
static void own_pid(void **state)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	pid_t child;
	int status;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(shfs_pid(), getpid());
		child = i ? (pid_t)syscall(SYS_clone3, &args, sizeof(args)) : fork();
		assert_true(child >= 0);
		if (!child)
			_exit(shfs_pid() != (pid_t)syscall(SYS_getpid));
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	assert_int_equal(shfs_pid(), getpid());
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_teardown(name_taken_by_another, end_alike),
	cmocka_unit_test(directories),
	cmocka_unit_test(own_pid),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
