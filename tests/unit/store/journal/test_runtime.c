/* SPDX-License-Identifier: MIT */
/* Tests of store/journal/runtime.c. */
#include "tests/unit/storekit.h"

#include "common/proc.h"
#include "store/journal/runtime.h"

#include <inttypes.h>
#include <pthread.h>
#include <sys/wait.h>

/* A store, and the directory in which hooks write for it. */
struct kit {
	struct shfs_store *store;
	char *dir;
	int from, to;
	char boot[9];
	uint64_t namespace;
};

static void setup(struct kit *k)
{
	char boot_id[37];

	k->store = kit_store();
	setenv("XDG_RUNTIME_DIR", shfs_unit_tmpdir(), 1);
	k->dir = shfs_runtime_hook_dir(k->store->path);
	assert_non_null(k->dir);
	assert_ok(shfs_mkdir_p_at(AT_FDCWD, k->dir, 0700));
	k->from = open(k->dir, O_RDONLY | O_DIRECTORY);
	k->to = k->store->journal_fd;
	assert_ok(shfs_proc_boot_id(boot_id));
	snprintf(k->boot, sizeof(k->boot), "%.8s", boot_id);
	assert_ok(shfs_proc_pid_namespace(&k->namespace));
}

static void teardown(struct kit *k)
{
	close(k->from);
	free(k->dir);
	shfs_store_close(k->store);
}

/* The log of a shell that has pid and start. */
static void log_name(const struct kit *k, pid_t pid, uint64_t ticks, char out[static 80])
{
	snprintf(out, 80, "shell-%s-%d-%" PRIu64 ".log", k->boot, (int)pid, ticks);
}

/* That of this process, which lives. */
static void live_name(const struct kit *k, char out[static 80])
{
	_cleanup_close_ int procfd = shfs_proc_open(getpid());
	struct shfs_proc_stat stat;

	assert_ok(shfs_proc_read_stat(procfd, &stat));
	log_name(k, getpid(), stat.start_ticks, out);
}

/* The pid of a process that was. */
static pid_t dead_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void append(int dirfd, const char *name, const void *data, size_t len)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_APPEND, 0600);

	assert_true(fd >= 0);
	assert_ok(shfs_write_all(fd, data, len));
}

static void append_session(const struct kit *k, const char *name, uint64_t namespace,
                           const char *real)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	char number[24];
	const char *fields[] = { "S1",   "1",    "1",    "1",    "boot", number, real,
		                 "1.00", "host", "bash", "/dev", "/",    "1" };

	snprintf(number, sizeof(number), "%" PRIu64, namespace);
	shfs_buf_char(&b, '\x1e');
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		shfs_buf_add(&b, fields[i], strlen(fields[i]) + 1);
	shfs_buf_char(&b, '\n');
	append(k->from, name, b.data, b.len);
}

static bool exists(int dirfd, const char *name)
{
	return !faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static void assert_same(const struct kit *k, const char *name)
{
	_cleanup_buf_ struct shfs_buf a = { 0 }, b = { 0 };

	kit_read(k->from, name, &a);
	kit_read(k->to, name, &b);
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.data, b.data, a.len);
}

static void collect(const struct kit *k)
{
	assert_ok(shfs_runtime_collect(k->store, k->dir));
}

/* With the log of a shell that runs. */
static void setup_live(struct kit *k, char *name)
{
	setup(k);
	live_name(k, name);
	append_session(k, name, k->namespace, "1700000000.5");
}

static void places(void **state)
{
	_cleanup_free_ char *a = NULL, *b = NULL, *again = NULL;
	struct kit k;

	setup(&k);
	a = shfs_runtime_dir("/a");
	b = shfs_runtime_dir("/b");
	again = shfs_runtime_dir("/a");
	assert_string_not_equal(a, b); /* of two stores, neither takes the other's logs */
	assert_string_equal(a, again);
	assert_ok(shfs_runtime_collect(k.store, "/nonexistent/journal/host"));
	teardown(&k);
}

/* What grows is copied bit by bit; the half of a record as well. */
static void grows(void **state)
{
	_cleanup_buf_ struct shfs_buf noise = { 0 };
	char name[80];
	struct kit k;

	setup_live(&k, name);
	collect(&k);
	assert_same(&k, name);
	kit_noise(&noise, 50001, 1);
	for (size_t at = 0, n = 1; at < noise.len; at += n, n = n * 3 + 1) {
		append(k.from, name, noise.data + at, MIN(n, noise.len - at));
		collect(&k);
		assert_same(&k, name);
		collect(&k);
		assert_same(&k, name);
	}
	assert_true(exists(k.from, name));
	teardown(&k);
}

/* A shell goes on where it began, whatever its host is called now. */
static void renamed_host(void **state)
{
	_cleanup_close_ int old = -1, copied = -1;
	char name[80];
	struct kit k;

	setup(&k);
	live_name(&k, name);
	assert_ok(mkdirat(k.from, "../was-another", 0700));
	old = openat(k.from, "../was-another", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(old >= 0);
	append_session(&(struct kit){ .from = old }, name, k.namespace, "1700000000.5");
	collect(&k);
	copied = openat(k.store->dirfd, "journal/was-another",
	                O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(copied >= 0 && exists(copied, name) && exists(old, name));
	assert_false(exists(k.to, name));
	teardown(&k);
}

/* A copier that was killed, or for which there was no room, has written a part. */
static void goes_on_after_a_crash(void **state)
{
	_cleanup_buf_ struct shfs_buf noise = { 0 };
	char name[80];
	struct kit k;

	setup_live(&k, name);
	kit_noise(&noise, 3000, 2);
	append(k.from, name, noise.data, noise.len);
	for (off_t cut = 0; cut < 3000; cut += 217) {
		collect(&k);
		assert_same(&k, name);
		assert_ok(ftruncate(openat(k.to, name, O_WRONLY | O_CLOEXEC), cut));
	}
	collect(&k);
	assert_same(&k, name);
	teardown(&k);
}

static void no_room(void **state)
{
	_cleanup_buf_ struct shfs_buf noise = { 0 };
	char name[80], small[80];
	struct rlimit before;
	struct kit k;

	setup(&k);
	live_name(&k, name);
	log_name(&k, dead_pid(), 1, small);
	append_session(&k, name, k.namespace, "1700000000.5");
	kit_noise(&noise, 100000, 3);
	append(k.from, name, noise.data, noise.len);
	append_session(&k, small, k.namespace, "1700000000.6");
	before = kit_limit_files(50000);
	assert_int_equal(shfs_runtime_collect(k.store, k.dir), -EFBIG);
	assert_false(exists(k.from, small)); /* the others do not suffer */
	assert_true(exists(k.to, small));
	assert_ok(setrlimit(RLIMIT_FSIZE, &before));
	collect(&k);
	assert_same(&k, name);
	teardown(&k);
}

/* Gone only when its shell is, and when all of it is copied: a torn end, too. */
static void removed_when_its_shell_has_ended(void **state)
{
	_cleanup_buf_ struct shfs_buf copy = { 0 };
	char ended[80], other_namespace[80], no_session[80], reused[80], old[80],
		live[80];
	struct kit k;

	setup(&k);
	live_name(&k, live);
	log_name(&k, dead_pid(), 7, ended);
	log_name(&k, dead_pid(), 8, other_namespace);
	log_name(&k, dead_pid(), 9, no_session);
	log_name(&k, getpid(), 1, reused);
	snprintf(old, sizeof(old), "shell-%s-%d-1.log",
	         strcmp(k.boot, "00000000") ? "00000000" : "11111111", getpid());
	append_session(&k, live, k.namespace, "1700000000.1");
	append_session(&k, ended, k.namespace, "1700000000.2");
	append(k.from, ended,
	       "\x1e"
	       "B1\0"
	       "2\0",
	       6);
	append_session(&k, other_namespace, k.namespace + 1, "1700000000.3");
	append(k.from, no_session, "\x1e", 1);
	append_session(&k, reused, k.namespace, "1700000000.4");
	append_session(&k, old, k.namespace, "1700000000.5");
	collect(&k);
	assert_true(exists(k.from, live));
	assert_same(&k, live);
	assert_true(exists(k.from, other_namespace));
	assert_same(&k, other_namespace);
	assert_true(exists(k.from, no_session));
	assert_same(&k, no_session);
	assert_false(exists(k.from, ended));
	assert_false(exists(k.from, reused));
	assert_false(exists(k.from, old));
	assert_true(exists(k.to, reused) && exists(k.to, old));
	kit_read(k.to, ended, &copy);
	assert_memory_equal(copy.data + copy.len - 6,
	                    "\x1e"
	                    "B1\0"
	                    "2\0",
	                    6);
	teardown(&k);
}

/* A shell whose log was taken away begins another one of that name: nothing is mixed. */
static void begun_anew(void **state)
{
	_cleanup_buf_ struct shfs_buf first = { 0 }, copy = { 0 };
	char name[80], second[90];
	struct kit k;

	setup(&k);
	live_name(&k, name);
	snprintf(second, sizeof(second), "%.*s.1.log", (int)strlen(name) - 4, name);
	append_session(&k, name, k.namespace, "1700000000.1");
	append(k.from, name, "first", 5);
	collect(&k);
	kit_read(k.to, name, &first);
	assert_ok(unlinkat(k.from, name, 0));
	append_session(&k, name, k.namespace, "1700000000.2");
	collect(&k);
	append(k.from, name, "second, which is longer", 23);
	collect(&k);
	collect(&k);
	kit_read(k.to, name, &copy);
	assert_int_equal(copy.len, first.len);
	assert_memory_equal(copy.data, first.data, first.len);
	kit_read(k.to, second, &copy);
	assert_memory_equal(copy.data + copy.len - 23, "second, which is longer", 23);
	assert_false(exists(k.to, "shell-.2.log"));
	teardown(&k);
}

/* Another host has forgotten what this one goes on to have: it does not come back. */
static void forgotten_in_the_copy(void **state)
{
	_cleanup_buf_ struct shfs_buf copy = { 0 };
	char name[80], second[90];
	struct stat head;
	struct kit k;

	setup(&k);
	live_name(&k, name);
	snprintf(second, sizeof(second), "%.*s.1.log", (int)strlen(name) - 4, name);
	append_session(&k, name, k.namespace, "1700000000.1");
	assert_ok(fstatat(k.from, name, &head, 0));
	append(k.from, name, "secret", 6);
	collect(&k);
	assert_int_equal(pwrite(openat(k.to, name, O_WRONLY | O_CLOEXEC), "      ", 6,
	                        head.st_size),
	                 6);
	append(k.from, name, "more", 4);
	collect(&k);
	assert_false(exists(k.to, second));
	kit_read(k.to, name, &copy);
	assert_memory_equal(copy.data + head.st_size, "      more", 10);
	teardown(&k);
}

static void only_logs(void **state)
{
	char name[80], link[80], fifo[80], directory[80];
	struct kit k;

	setup(&k);
	live_name(&k, name);
	log_name(&k, 1, 1, link);
	log_name(&k, 1, 2, fifo);
	log_name(&k, 1, 3, directory);
	append_session(&k, name, k.namespace, "1700000000.1");
	append(k.from, "other.log", "x", 1);
	append(k.from, "shell-x.txt", "x", 1);
	assert_ok(symlinkat("/etc/passwd", k.from, link));
	assert_ok(mkfifoat(k.from, fifo, 0600));
	assert_ok(mkdirat(k.from, directory, 0700));
	collect(&k);
	assert_true(exists(k.to, name));
	assert_false(exists(k.to, link) || exists(k.to, fifo) || exists(k.to, directory));
	assert_false(exists(k.to, "other.log") || exists(k.to, "shell-x.txt"));
	assert_true(exists(k.from, link));
	/* nor is a link followed where the copy should be */
	assert_ok(unlinkat(k.to, name, 0));
	assert_ok(symlinkat("/nonexistent/x", k.to, name));
	assert_int_equal(shfs_runtime_collect(k.store, k.dir), -ELOOP);
	teardown(&k);
}

/* A store of another host has no directory for this one. */
static void first_of_this_host(void **state)
{
	_cleanup_buf_ struct shfs_buf path = { 0 };
	char name[80];
	struct kit k;

	setup(&k);
	live_name(&k, name);
	append_session(&k, name, k.namespace, "1700000000.1");
	shfs_buf_printf(&path, "%s/journal/%s", k.store->path, k.store->host);
	assert_ok(rmdir(path.data));
	collect(&k);
	shfs_buf_printf(&path, "/%s", name);
	assert_ok(access(path.data, F_OK));
	teardown(&k);
}

#define COPIERS 4
#define BYTES   300000

struct race {
	struct kit *k;
	const char *name;
	bool done;
};

static void *copier(void *arg)
{
	struct race *race = arg;

	while (!__atomic_load_n(&race->done, __ATOMIC_ACQUIRE))
		if (shfs_runtime_collect(race->k->store, race->k->dir))
			return arg;
	return NULL;
}

static void many_copiers(void **state)
{
	_cleanup_buf_ struct shfs_buf noise = { 0 };
	pthread_t threads[COPIERS];
	char name[80];
	struct kit k;
	struct race race = { &k, name, false };

	setup(&k);
	live_name(&k, name);
	append_session(&k, name, k.namespace, "1700000000.1");
	kit_noise(&noise, BYTES, 4);
	for (int i = 0; i < COPIERS; i++)
		assert_ok(pthread_create(&threads[i], NULL, copier, &race));
	for (size_t at = 0; at < noise.len; at += 777)
		append(k.from, name, noise.data + at, MIN(777, noise.len - at));
	__atomic_store_n(&race.done, true, __ATOMIC_RELEASE);
	for (int i = 0; i < COPIERS; i++) {
		void *failed;

		assert_ok(pthread_join(threads[i], &failed));
		assert_null(failed);
	}
	collect(&k);
	assert_same(&k, name);
	teardown(&k);
}

static void alerts(void **state)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	_cleanup_free_ char *dir = NULL;
	int fd;
	struct kit k;

	setup(&k);
	dir = shfs_runtime_dir(k.store->path);
	shfs_runtime_alert(k.store->path, "alert-x", "one\n"); /* nobody looks there */
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	assert_false(exists(fd, "state"));
	assert_ok(mkdirat(fd, "state", 0700));
	shfs_runtime_alert(k.store->path, "alert-x", "two\n");
	kit_read(fd, "state/alert-x", &text);
	assert_string_equal(text.data, "two\n");
	shfs_runtime_alert(k.store->path, "alert-x", NULL);
	assert_false(exists(fd, "state/alert-x"));
	shfs_runtime_alert(k.store->path, "alert-x", NULL);
	close(fd);
	teardown(&k);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(places),
		cmocka_unit_test(grows),
		cmocka_unit_test(renamed_host),
		cmocka_unit_test(goes_on_after_a_crash),
		cmocka_unit_test(no_room),
		cmocka_unit_test(removed_when_its_shell_has_ended),
		cmocka_unit_test(begun_anew),
		cmocka_unit_test(forgotten_in_the_copy),
		cmocka_unit_test(only_logs),
		cmocka_unit_test(first_of_this_host),
		cmocka_unit_test(many_copiers),
		cmocka_unit_test(alerts),
	};

	return shfs_unit_main(tests, argc, argv);
}
