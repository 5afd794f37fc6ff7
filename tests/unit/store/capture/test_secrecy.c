/* SPDX-License-Identifier: MIT */
/* Contents that are secret by the name of a file: which are in the store afterwards. */
#include "tests/unit/capturekit.h"

#include <stdatomic.h>

#define LEN    5000
#define SEED   1
#define ROUNDS 300
#define FILES  3

static void on_sync(void *arg, int error)
{
	assert_ok(error);
	*(atomic_bool *)arg = true;
}

static void sync_all(struct kit *k)
{
	atomic_bool done = false;

	assert_ok(shfs_capture_sync(k->capture, on_sync, &done));
	kit_until(done);
}

static struct shfs_snapshot *archive(struct kit *k, const char *name, size_t len)
{
	struct shfs_snapshot *s = shfs_snapshot_new(k->capture);
	_cleanup_close_ int fd = kit_file(k, name, len, SEED);

	shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
	assert_true(shfs_snapshot_wait(s, 10000));
	assert_true(kit_emit_preimage(k, name, s));
	sync_all(k);
	return s;
}

/* before: an earlier snapshot of the file, or NULL; its reference is taken. */
static struct shfs_snapshot *take_file(struct kit *k, const char *name, size_t len,
                                       unsigned seed, bool secret,
                                       struct shfs_snapshot *before)
{
	struct shfs_snapshot *s = shfs_snapshot_new(k->capture);
	_cleanup_close_ int fd = kit_file(k, name, len, seed);

	if (before)
		shfs_snapshot_follow(s, before);
	shfs_snapshot_unref(before);
	if (secret)
		shfs_snapshot_take_secret(s, fd, MANY);
	else
		shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
	assert_true(kit_emit_preimage(k, name, s));
	return s;
}

static struct shfs_snapshot *take_secret(struct kit *k, size_t len)
{
	struct shfs_snapshot *s = take_file(k, ".env", len, SEED, true, NULL);

	sync_all(k);
	return s;
}

static bool is_noise_stored(struct kit *k, size_t len, unsigned seed)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_object_id id;

	kit_noise(&b, len, seed);
	return shfs_object_find(k->store, b.data, b.len, &id) == 1;
}

static bool is_stored(struct kit *k, size_t len)
{
	return is_noise_stored(k, len, SEED);
}

static uint32_t flags_of(struct kit *k, const char *path)
{
	_cleanup_free_ struct kit_journal *j = kit_read_journal(k);

	return kit_find(j, path)->preimage.content.flags;
}

static void copy_of_a_secret(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *secret, *copy;

	kit_begin(&k, kit_store(), 0, 1);
	secret = take_secret(&k, LEN);
	copy = archive(&k, "copy", LEN);
	shfs_snapshot_unref(secret);
	shfs_snapshot_unref(copy);
	kit_close(&k);
	assert_false(is_stored(&k, LEN));
	assert_int_equal(flags_of(&k, ".env"),
	                 SHFS_CONTENT_KNOWN | SHFS_CONTENT_SKIP_RULE);
	assert_int_equal(flags_of(&k, "copy"),
	                 SHFS_CONTENT_KNOWN | SHFS_CONTENT_SKIP_RULE);
	kit_end(&k);
}

static void template_that_was_there(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *template, *secret;

	kit_begin(&k, kit_store(), 0, 1);
	template = archive(&k, "template", LEN);
	secret = take_secret(&k, LEN);
	shfs_snapshot_unref(template);
	shfs_snapshot_unref(secret);
	kit_close(&k);
	assert_true(is_stored(&k, LEN));
	assert_true(flags_of(&k, "template") & SHFS_CONTENT_OBJECT);
	kit_end(&k);
}

static void renamed_to_a_secret(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *s;

	kit_begin(&k, kit_store(), 0, 1);
	s = archive(&k, "tmp", LEN);
	assert_true(is_stored(&k, LEN));
	shfs_snapshot_conceal(s);
	assert_true(kit_emit_preimage(&k, ".env", s));
	kit_until(!is_stored(&k, LEN));
	shfs_snapshot_unref(s);
	kit_close(&k);
	assert_int_equal(flags_of(&k, ".env"),
	                 SHFS_CONTENT_KNOWN | SHFS_CONTENT_SKIP_RULE);
	kit_end(&k);
}

/* A content that never was in the store leaves nothing there, not even its hash. */
static void concealed_before_its_put(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	struct stat st;
	int fd;

	kit_begin(&k, kit_store(), 0, 1);
	fd = kit_file(&k, "tmp", 20000, SEED);
	kit_gate = kit_inode(fd);
	s = kit_archive(&k, fd);
	kit_until(kit_waiting == 1);
	shfs_snapshot_conceal(s);
	kit_gate = 0;
	assert_true(kit_emit_preimage(&k, ".env", s));
	sync_all(&k);
	shfs_snapshot_unref(s);
	close(fd);
	kit_close(&k);
	assert_false(is_stored(&k, 20000));
	assert_int_equal(fstatat(k.store->dirfd, "pruned", &st, 0), -1);
	assert_int_equal(fstatat(k.store->state_fd, "purge", &st, 0), -1);
	kit_end(&k);
}

/* What is left of a secret after a program wrote another file, and copied that. */
static void temporary_file_is_gone(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *tmp, *secret;

	kit_begin(&k, kit_store(), 0, 1);
	tmp = archive(&k, "tmp", LEN);
	secret = take_secret(&k, LEN);
	assert_true(is_stored(&k, LEN));
	shfs_snapshot_gone(tmp);
	kit_until(!is_stored(&k, LEN));
	shfs_snapshot_unref(tmp);
	shfs_snapshot_unref(secret);
	kit_end(&k);
}

/* Who reads the secret comes late. */
static void temporary_file_was_gone(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *tmp, *secret;

	kit_begin(&k, kit_store(), 0, 1);
	tmp = archive(&k, "tmp", LEN);
	shfs_snapshot_gone(tmp);
	assert_true(is_stored(&k, LEN));
	secret = take_secret(&k, LEN);
	kit_until(!is_stored(&k, LEN));
	shfs_snapshot_unref(tmp);
	shfs_snapshot_unref(secret);
	kit_end(&k);
}

static void too_short_to_be_one(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *secret, *copy;

	kit_begin(&k, kit_store(), 0, 1);
	secret = take_secret(&k, 4);
	copy = archive(&k, "copy", 4);
	shfs_snapshot_unref(secret);
	shfs_snapshot_unref(copy);
	kit_close(&k);
	assert_true(is_stored(&k, 4));
	kit_end(&k);
}

static void on_nothing(void *arg, int error)
{
	assert_ok(error);
}

/* Files with ordinary names come and go, and one with a secret name comes, in any order;
 * all have the content of this round. The writer commits now and then. */
static void come_and_go(struct kit *k, unsigned round)
{
	struct shfs_snapshot *files[FILES + 1] = { NULL };
	bool gone[FILES + 1] = { [FILES] = true }; /* the secret stays */
	unsigned seed = round, left = 2 * FILES + 1;

	while (left) {
		int i = rand_r(&seed) % (FILES + 1);
		char name[16];

		snprintf(name, sizeof(name), i == FILES ? ".env" : "%d", i);
		if (rand_r(&seed) % 4 == 0)
			assert_ok(shfs_capture_sync(k->capture, on_nothing, NULL));
		if (rand_r(&seed) % 2)
			usleep(rand_r(&seed) % 2000);
		if (files[i] && gone[i])
			continue;
		if (!files[i]) {
			files[i] = take_file(k, name, LEN, round, i == FILES, NULL);
			while (i < FILES && rand_r(&seed) % 2) /* it changed, maybe */
				files[i] =
					take_file(k, name, LEN, round, false, files[i]);
		} else {
			shfs_snapshot_gone(files[i]);
			gone[i] = true;
		}
		left--;
	}
	for (int i = 0; i <= FILES; i++)
		shfs_snapshot_unref(files[i]);
}

static void temporary_files_in_any_order(void **state)
{
	struct kit k = { 0 };
	unsigned n_left = 0;

	kit_begin(&k, kit_store(), 0, 2);
	for (unsigned round = 1; round <= ROUNDS; round++)
		come_and_go(&k, round);
	sync_all(&k);
	kit_close(&k);
	for (unsigned round = 1; round <= ROUNDS; round++)
		if (is_noise_stored(&k, LEN, round)) {
			print_error("round %u\n", round);
			n_left++;
		}
	assert_int_equal(n_left, 0);
	kit_end(&k);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy_of_a_secret),
		cmocka_unit_test(template_that_was_there),
		cmocka_unit_test(renamed_to_a_secret),
		cmocka_unit_test(concealed_before_its_put),
		cmocka_unit_test(temporary_file_is_gone),
		cmocka_unit_test(temporary_file_was_gone),
		cmocka_unit_test(too_short_to_be_one),
		cmocka_unit_test(temporary_files_in_any_order),
	};

	return shfs_unit_main(tests, argc, argv);
}
