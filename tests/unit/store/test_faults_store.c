/* SPDX-License-Identifier: MIT */
/* Objects, journal, capture and what surrounds them, when any call fails: an error is
 * told, and what was acknowledged is there. */
#include "tests/unit/faultkit.h"

#include "common/config.h"
#include "common/recorders.h"
#include "recording/status.h"
#include "store/capture/alert.h"
#include "store/capture/capture.h"
#include "store/capture/project-rules.h"
#include "store/capture/spool.h"
#include "store/journal/runtime.h"
#include "store/objects/inventory.h"
#include "store/objects/usage.h"

#include <sys/file.h>

static char *base, *empty, *project;

/* --- objects --- */

static struct shfs_put *all_puts[SCENE_CONTENTS];
static bool committed;

static int put_all(struct shfs_store *store)
{
	int r = shfs_object_begin(store);

	committed = false;
	for (unsigned n = 0; n < SCENE_CONTENTS && !r; n++) {
		const struct shfs_buf *b = &scene.contents[n];

		r = shfs_object_put(store, b->data, b->len, 1,
		                    n == 9 ? &scene.ids[8] : NULL, &all_puts[n]);
	}
	if (!r)
		r = shfs_object_commit(store, all_puts, SCENE_CONTENTS);
	committed = !r;
	for (unsigned n = 0; n < SCENE_CONTENTS; n++)
		shfs_put_free(TAKE_PTR(all_puts[n]));
	return r;
}

/* What was committed is there for others; what was not can be put again. */
static void check_put(struct shfs_store *store, int r)
{
	assert_true(committed == !r);
	if (r)
		assert_ok(put_all(store));
	scene_has_all(store);
}

static void test_put(void **state)
{
	each_fault(&(struct operation){ empty, put_all, check_put });
}

/* Contents that are there already. */
static void test_put_again(void **state)
{
	each_fault(&(struct operation){ base, put_all, check_put });
}

static int read_all(struct shfs_store *store)
{
	_cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int r = 0;

	for (unsigned n = 0; n < SCENE_CONTENTS && !r; n++) {
		const struct shfs_buf *b = &scene.contents[n];
		struct shfs_object_id id;

		r = scene_has(store, n);
		if (!r)
			r = shfs_object_copy(store, &scene.ids[n], null);
		if (r)
			break;
		r = shfs_object_find(store, b->data, b->len, &id);
		r = r < 0 ? r : 0; /* or not found, where that costs only room */
	}
	return r;
}

static void check_read(struct shfs_store *store, int r)
{
	scene_has_all(store);
}

static void test_read(void **state)
{
	each_fault(&(struct operation){ base, read_all, check_read });
}

static int count_object(void *arg, const struct shfs_stored *object)
{
	++*(unsigned *)arg;
	return 0;
}

static unsigned counted;
static struct shfs_usage usage;

static int take_stock(struct shfs_store *store)
{
	int r = shfs_store_usage(store, &usage);

	counted = 0;
	return r ? r : shfs_inventory(store, count_object, &counted);
}

/* All of them, or an error. */
static void check_stock(struct shfs_store *store, int r)
{
	static struct shfs_usage all;

	if (!shfs_usage_total(&all))
		all = usage;
	if (r)
		return;
	assert_int_equal(counted, SCENE_CONTENTS);
	assert_int_equal(shfs_usage_total(&usage), shfs_usage_total(&all));
}

static void test_stock(void **state)
{
	each_fault(&(struct operation){ base, take_stock, check_stock });
}

/* --- the journal --- */

static unsigned appended;

static int append_some(struct shfs_journal *j)
{
	int r = 0;

	for (unsigned n = 1; n <= 6 && !r; n++) {
		struct shfs_record rec = { .type = SHFS_REC_PREIMAGE,
			                   .seq = n,
			                   .time = { 1000 + n, 2000 + n },
			                   .boot_resolution_ns = 1 };
		const struct shfs_record *one = &rec;

		rec.preimage.path = shfs_bytes_str("a file with a name of some length");
		r = shfs_journal_append(j, &one, 1, &(size_t){ 0 });
		if (!r)
			r = shfs_journal_sync(j);
		appended += !r;
	}
	return r;
}

static int write_journal(struct shfs_store *store)
{
	struct shfs_journal_identity told = { 0 };
	struct shfs_journal_options o = {
		.kind = "fuse", .root = "/project", .rotate_bytes = 300, .told = &told
	};
	struct shfs_journal *j;
	int r = shfs_journal_open(store, &o, &j), end;

	appended = 0;
	if (r)
		return r;
	r = append_some(j);
	end = shfs_journal_close(j);
	return r ? r : end;
}

/* NULL: one that could not be begun. */
static struct shfs_segment *open_begun(const struct shfs_journal_file *file)
{
	struct shfs_segment *s = NULL;
	int r = shfs_segment_open(file->dirfd, file->name, 0, &s);

	if (r == -EBADMSG)
		return NULL;
	assert_ok(r);
	return s;
}

static int count_records(const struct shfs_journal_file *file, void *arg)
{
	struct shfs_segment *s = open_begun(file);
	struct shfs_record rec;
	int r;

	if (!s)
		return 0;
	while ((r = shfs_segment_next(s, &rec)) == 1)
		*(unsigned *)arg += rec.type == SHFS_REC_PREIMAGE;
	assert_int_equal(shfs_segment_damaged(s), 0);
	shfs_segment_close(s);
	return r;
}

/* What was synced is there; of the rest nothing in part. */
static void check_journal(struct shfs_store *store, int r)
{
	unsigned n = 0;

	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_SEGMENTS, count_records, &n));
	assert_in_range(n, appended, appended + 1);
	if (!r)
		assert_int_equal(n, 6);
}

static void test_journal(void **state)
{
	each_fault(&(struct operation){ empty, write_journal, check_journal });
}

/* --- a capture --- */

static void note_sync(void *arg, int error)
{
	*(_Atomic int *)arg = error ? error : 1;
}

static void record_file(struct shfs_capture *c, const char *name, int dirfd)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	struct shfs_record rec = { .type = SHFS_REC_PREIMAGE };
	struct shfs_snapshot *s = shfs_snapshot_new(c), *content[2] = { s, NULL };

	rec.preimage.path = shfs_bytes_str(name);
	if (!s) {
		shfs_capture_lose(c, -ENOMEM);
		return;
	}
	shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, 4 << 20, 0);
	shfs_capture_emit(c, &rec, content);
	assert_true(shfs_snapshot_wait(s, 10000));
	shfs_snapshot_unref(s);
}

static int record_both(struct shfs_capture *c)
{
	_cleanup_close_ int dirfd = open(project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct shfs_record sh = { .type = SHFS_REC_PROCESS };
	_Atomic int synced = 0;
	int r;

	sh.process.pid = 7;
	sh.process.argv = (struct shfs_bytes){ "a\0--password=secret", 19 };
	shfs_capture_emit(c, &sh, NULL);
	record_file(c, "one", dirfd);
	record_file(c, "two", dirfd);
	r = shfs_capture_sync(c, note_sync, (void *)&synced);
	for (int ms = 0; !r && !synced && ms < 20000; ms++)
		usleep(1000);
	return r ? r : synced == 1 ? 0 : synced ? synced : -ETIME;
}

static int record(struct shfs_store *store)
{
	_cleanup_(shfs_config_free) struct shfs_config config = { 0 };
	struct shfs_capture_options o = {
		.config = &config, .kind = "fuse", .root = "/project", .threads = 1
	};
	struct shfs_capture *c = NULL;
	int r = shfs_config_init(&config);

	o.spool = shfs_spool_new();
	if (!r)
		r = shfs_capture_open(store, &o, &c);
	if (!r)
		r = record_both(c);
	shfs_capture_close(c);
	shfs_spool_free(o.spool);
	return r;
}

struct recorded {
	struct shfs_store *store;
	unsigned files, contents, lost;
};

static int note_segment(const struct shfs_journal_file *file, void *arg)
{
	struct recorded *all = arg;
	struct shfs_segment *s = open_begun(file);
	struct shfs_record rec;
	int r;

	if (!s)
		return 0;
	while ((r = shfs_segment_next(s, &rec)) == 1) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		if (rec.type == SHFS_REC_LOST)
			all->lost += rec.lost.count;
		if (rec.type != SHFS_REC_PREIMAGE)
			continue;
		all->files++;
		if (!(rec.preimage.content.flags & SHFS_CONTENT_OBJECT))
			continue;
		assert_ok(shfs_object_read(all->store, &rec.preimage.content.object,
		                           1 << 20, &b));
		all->contents++;
	}
	shfs_segment_close(s);
	return r;
}

/* What is recorded has its object. What was synced is recorded, or told as lost. */
static void check_record(struct shfs_store *store, int r)
{
	struct recorded all = { .store = store };

	assert_ok(shfs_journal_walk(store, SHFS_JOURNAL_SEGMENTS, note_segment, &all));
	if (!r)
		assert_in_range(all.files + all.lost, 2, 3);
}

static void test_record(void **state)
{
	each_fault(&(struct operation){ empty, record, check_record });
}

static void write_text(const char *dir, const char *name, const char *text)
{
	_cleanup_free_ char *path = shfs_path_join(dir, name);

	assert_ok(shfs_write_file_at(AT_FDCWD, path, 0600, text, strlen(text)));
}

/* --- what surrounds them --- */

static int open_and_close(struct shfs_store *store)
{
	struct shfs_store *again = NULL;
	_cleanup_free_ char *path = shfs_path_join(store->path, "new");
	int r = path ? shfs_store_open(path, SHFS_STORE_CREATE, &again) : -ENOMEM;

	shfs_store_close(again);
	return r;
}

static void check_open(struct shfs_store *store, int r)
{
	if (r)
		assert_ok(open_and_close(store));
}

static void test_open(void **state)
{
	each_fault(&(struct operation){ empty, open_and_close, check_open });
}

static const char config_text[] = "[archive]\nignore = a* b\nmax-size = 5M\n"
				  "[secrets]\npatterns = hush[a-z]+\n";
#define LOG "shell-00000000-7-9.log"
static char *config_path;

static char *hooks_of(const struct shfs_store *store)
{
	char *path;

	return asprintf(&path, "%s/hooks/%s", store->path, store->host) > 0 ? path : NULL;
}

static int read_config(struct shfs_store *store)
{
	_cleanup_(shfs_config_free) struct shfs_config config = { 0 };
	_cleanup_free_ char *message = NULL;
	_cleanup_free_ char *hooks = hooks_of(store);
	struct shfs_project_rules rules;
	int root = open(project, O_RDONLY | O_DIRECTORY | O_CLOEXEC), reserve;
	int r = shfs_config_init(&config);

	if (!r)
		r = shfs_config_read(&config, config_path, &message);
	shfs_project_rules_init(&rules, &config, root);
	shfs_project_rules_match(&rules, "a/file");
	if (!r)
		r = shfs_project_rules_error(&rules);
	shfs_project_rules_free(&rules);
	shfs_closep(&root);
	reserve = shfs_alert_reserve(store);
	shfs_alert_raise(store, "/project", "there is no room\n", &reserve);
	shfs_closep(&reserve);
	shfs_alert_clear(store, "/project");
	return r ? r : hooks ? shfs_runtime_collect(store, hooks) : -ENOMEM;
}

/* A log that hooks wrote is in the journal once, whole. */
static void check_config(struct shfs_store *store, int r)
{
	_cleanup_buf_ struct shfs_buf copy = { 0 };
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *hooks = hooks_of(store);

	assert_ok(shfs_runtime_collect(store, hooks));
	assert_true(asprintf(&path, "journal/%s/" LOG, store->host) > 0);
	assert_ok(shfs_read_file_at(store->dirfd, path, 4096, &copy));
	assert_string_equal(copy.data, "what a hook has written");
}

static void test_surroundings(void **state)
{
	_cleanup_free_ char *with_log = shfs_path_join(shfs_unit_tmpdir(), "store");
	_cleanup_free_ char *all = shfs_path_join(with_log, "hooks");
	_cleanup_free_ char *hooks = shfs_path_join(all, scene.kit.store->host);

	scene_copy(empty, with_log);
	assert_ok(mkdir(all, 0700));
	assert_ok(mkdir(hooks, 0700));
	write_text(hooks, LOG, "what a hook has written");
	each_fault(&(struct operation){ with_log, read_config, check_config });
}

static int ask_watches(struct shfs_store *store)
{
	_cleanup_close_ int root = open(project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int listening = shfs_recorders_listen(root);
	_cleanup_free_ struct shfs_recorder_name *names = NULL;
	_cleanup_close_ int asked = -1;
	size_t n = 0;
	int r = listening < 0 ? listening : shfs_recorders_list(&names, &n);
	bool found = false;
	struct stat st;

	if (r || stat(project, &st))
		return r ? r : -errno;
	for (size_t i = 0; i < n && !found; i++) {
		found = names[i].dev == st.st_dev && names[i].ino == st.st_ino;
		if (found)
			asked = shfs_recorders_ask(&names[i], "root");
	}
	if (asked >= 0) {
		char word[SHFS_RECORDER_WORD_MAX];
		_cleanup_close_ int fd = shfs_recorders_accept(listening, word);

		return fd < 0 ? fd : strcmp(word, "root") != 0;
	}
	return asked;
}

/* Its name is free again. */
static void check_watches(struct shfs_store *store, int r)
{
	assert_ok(ask_watches(store));
}

static void test_watches(void **state)
{
	each_fault(&(struct operation){ empty, ask_watches, check_watches });
}

/* --- */

static void begin(void)
{
	struct shfs_store *store;
	const char *dir;

	scene_begin();
	base = scene.kit.store->path;
	empty = shfs_path_join(shfs_unit_tmpdir(), "store");
	assert_ok(shfs_store_open(empty, SHFS_STORE_CREATE, &store));
	shfs_store_close(store);
	project = shfs_path_join(shfs_unit_tmpdir(), "");
	write_text(project, "one", "content of one");
	write_text(project, "two", "content of two, which is longer");
	write_text(project, ".shfsignore", "*.o\n!keep.o\nlarge/\n");
	dir = shfs_unit_tmpdir();
	write_text(dir, "config", config_text);
	config_path = shfs_path_join(dir, "config");
}

static void end(void)
{
	free(empty);
	free(project);
	free(config_path);
	scene_end();
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_put, tell_trial),
		cmocka_unit_test_teardown(test_put_again, tell_trial),
		cmocka_unit_test_teardown(test_read, tell_trial),
		cmocka_unit_test_teardown(test_stock, tell_trial),
		cmocka_unit_test_teardown(test_journal, tell_trial),
		cmocka_unit_test_teardown(test_record, tell_trial),
		cmocka_unit_test_teardown(test_open, tell_trial),
		cmocka_unit_test_teardown(test_surroundings, tell_trial),
		cmocka_unit_test_teardown(test_watches, tell_trial),
	};
	return fault_main(tests, argc, argv);
}
