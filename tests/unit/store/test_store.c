/* SPDX-License-Identifier: MIT */
/* Tests of store/store.c. */
#include "tests/unit/storekit.h"

#include "common/proc.h"

static void assert_mode(int dirfd, const char *name, mode_t mode)
{
	struct stat st;

	assert_ok(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW));
	assert_int_equal(st.st_mode & 07777, mode);
}

/* What is made is the user's alone, whatever the umask. */
static void made_private(void **state)
{
	static const mode_t umasks[] = { 0, 022, 077 };

	for (size_t i = 0; i < ARRAY_SIZE(umasks); i++) {
		_cleanup_free_ char *path = shfs_path_join(shfs_unit_tmpdir(), "a/b/c");
		mode_t before = umask(umasks[i]);
		struct shfs_store *store;
		char name[80];

		assert_ok(shfs_store_open(path, SHFS_STORE_CREATE, &store));
		assert_string_equal(store->path, path);
		assert_mode(store->dirfd, ".", 0700);
		assert_mode(store->dirfd, "..", 0700);
		assert_mode(store->dirfd, "objects", 0700);
		assert_mode(store->dirfd, "state", 0700);
		assert_mode(store->dirfd, "log", 0700);
		assert_mode(store->dirfd, "format", 0600);
		snprintf(name, sizeof(name), "journal/%s", store->host);
		assert_mode(store->dirfd, name, 0700);
		shfs_store_close(store);
		umask(before);
		assert_ok(shfs_store_open(path, 0, &store));
		shfs_store_close(store);
	}
}

static void none_there(void **state)
{
	const char *dir = shfs_unit_tmpdir();
	_cleanup_free_ char *path = shfs_path_join(dir, "store");
	_cleanup_free_ char *file = shfs_path_join(dir, "file");
	_cleanup_free_ char *below = shfs_path_join(file, "store");
	struct shfs_store *store = NULL;

	assert_int_equal(shfs_store_open(path, 0, &store), -ENOENT);
	assert_int_not_equal(access(path, F_OK), 0); /* nothing was made */
	assert_int_equal(shfs_store_open(dir, 0, &store), -ENOENT);
	assert_ok(shfs_write_file_at(AT_FDCWD, file, 0600, "", 0));
	assert_int_equal(shfs_store_open(file, SHFS_STORE_CREATE, &store), -ENOTDIR);
	assert_int_equal(shfs_store_open(below, SHFS_STORE_CREATE, &store), -ENOTDIR);
	assert_null(store);
	shfs_store_close(NULL);
}

static void not_ours(void **state)
{
	const char *dir = shfs_unit_tmpdir();
	struct shfs_store *store = kit_store_at(dir);
	_cleanup_free_ char *path = strdup(store->path);

	shfs_store_close(store);
	assert_ok(chmod(path, 0720));
	assert_int_equal(shfs_store_open(path, 0, &store), -EACCES);
	assert_int_equal(shfs_store_open(path, SHFS_STORE_CREATE, &store), -EACCES);
	assert_ok(chmod(path, 0702));
	assert_int_equal(shfs_store_open(path, SHFS_STORE_CREATE, &store), -EACCES);
	assert_ok(chmod(path, 0700));
	assert_ok(shfs_store_open(path, 0, &store));
	shfs_store_close(store);
	if (geteuid() == 0) {
		assert_ok(chown(path, 12345, 12345));
		assert_int_equal(shfs_store_open(path, SHFS_STORE_CREATE, &store),
		                 -EPERM);
		assert_ok(chown(path, 0, 0));
	}
}

/* An empty directory that the user made for it is taken and closed to others. */
static void empty_directory_is_taken(void **state)
{
	const char *dir = shfs_unit_tmpdir();
	struct shfs_store *store;

	assert_ok(chmod(dir, 0755));
	assert_ok(shfs_store_open(dir, SHFS_STORE_CREATE, &store));
	assert_mode(store->dirfd, ".", 0700);
	shfs_store_close(store);
}

/* One with something in it is no place for a store that others can write to. */
static void full_directory_is_not(void **state)
{
	const char *dir = shfs_unit_tmpdir();
	_cleanup_free_ char *sub = shfs_path_join(dir, "photos");
	_cleanup_free_ char *made = shfs_path_join(dir, "objects");
	struct shfs_store *store;

	assert_ok(mkdir(sub, 0777));
	assert_ok(chmod(dir, 0777));
	assert_int_equal(shfs_store_open(dir, SHFS_STORE_CREATE, &store), -EACCES);
	assert_int_not_equal(access(made, F_OK), 0);
}

static void newer_format(void **state)
{
	static const struct {
		const char *text;
		int error;
	} formats[] = { { "3\n", -EPROTONOSUPPORT },
		        { "10\n", -EPROTONOSUPPORT },
		        { "", -EBADMSG },
		        { "1", -EBADMSG },
		        { "1\n\n", -EBADMSG },
		        { "one\n", -EBADMSG } };
	struct shfs_store *store = kit_store();
	_cleanup_free_ char *path = strdup(store->path);
	int dirfd = dup(store->dirfd);

	shfs_store_close(store);
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		assert_ok(shfs_write_file_at(dirfd, "format", 0600, formats[i].text,
		                             strlen(formats[i].text)));
		assert_int_equal(shfs_store_open(path, SHFS_STORE_CREATE, &store),
		                 formats[i].error);
		assert_int_equal(shfs_store_open(path, 0, &store), formats[i].error);
	}
	close(dirfd);
}

/* A query on a store that only other hosts wrote to makes nothing. */
static void of_another_host(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_free_ char *path = strdup(store->path);
	char name[80];
	struct stat st;

	snprintf(name, sizeof(name), "journal/%s", store->host);
	assert_ok(unlinkat(store->dirfd, name, AT_REMOVEDIR));
	shfs_store_close(store);
	assert_ok(shfs_store_open(path, 0, &store));
	assert_int_equal(fstatat(store->dirfd, name, &st, 0), -1);
	assert_true(store->journal_fd >= 0);
	shfs_store_close(store);
}

static void every_error_has_words(void **state)
{
	static const int errors[] = { ENOENT,          EPERM,  EACCES,
		                      EPROTONOSUPPORT, ENOSPC, EROFS,
		                      ENOTDIR,         EIO,    0 };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		assert_true(strlen(shfs_store_strerror(-errors[i])) > 5);
		assert_string_equal(shfs_store_strerror(-errors[i]),
		                    shfs_store_strerror(errors[i]));
		assert_null(strchr(shfs_store_strerror(errors[i]), '\n'));
	}
}

static void local_hooks(void **state)
{
	const char *dir = shfs_unit_tmpdir();
	_cleanup_free_ char *store = shfs_path_join(dir, "not/made/yet");
	_cleanup_free_ char *hooks = NULL, *journal = NULL, *expected = NULL;
	char host[65];

	assert_false(shfs_store_may_hang(dir));
	assert_false(shfs_store_may_hang(store));
	assert_false(shfs_store_may_hang("/proc/self/no/such/thing"));
	setenv("XDG_RUNTIME_DIR", dir, 1);
	shfs_proc_host(host);
	hooks = shfs_store_hook_dir(store);
	journal = shfs_path_join(store, "journal");
	expected = shfs_path_join(journal, host);
	assert_string_equal(hooks, expected);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_private),
		cmocka_unit_test(none_there),
		cmocka_unit_test(not_ours),
		cmocka_unit_test(empty_directory_is_taken),
		cmocka_unit_test(full_directory_is_not),
		cmocka_unit_test(newer_format),
		cmocka_unit_test(of_another_host),
		cmocka_unit_test(every_error_has_words),
		cmocka_unit_test(local_hooks),
	};

	return shfs_unit_main(tests, argc, argv);
}
