/* SPDX-License-Identifier: MIT */
/* What the user-space part of the BPF drivers makes of records, without a kernel. */
#include "tests/unit/unit.h"

#include "kmod-fast-path/drivers/bpf-compose.h"

#include <errno.h>
#include <string.h>

#define ROOT "/home/u/project"

static struct {
	unsigned count;
	_Alignas(8) char data[8][SHFS_EVENT_SIZE_MAX];
} told;

static void tell(void *arg, struct shfs_event *event)
{
	assert_true(told.count < 8);
	assert_int_equal(event->size % 8, 0);
	memcpy(told.data[told.count++], event, event->size);
}

static const struct shfs_event *event(unsigned i)
{
	assert_true(i < told.count);
	return (const void *)told.data[i];
}

static void assert_texts(const struct shfs_event *e, const char *text, const char *text2)
{
	assert_int_equal(e->text_len, strlen(text));
	assert_memory_equal(e->text, text, strlen(text));
	assert_int_equal(e->text2_len, strlen(text2));
	assert_memory_equal(e->text + e->text_len, text2, strlen(text2));
}

/* "dir" is a link to "real". */
static int real(void *arg, const char *path, struct shfs_buf *out)
{
	if (strcmp(path, "dir"))
		return -ENOENT;
	shfs_buf_str(out, "real");
	return 0;
}

static bool is_told(void *arg, uint64_t key)
{
	return key % 2;
}

static struct shfs_composer *new_composer(void)
{
	static const struct shfs_composer_ops ops = { tell, NULL, real, is_told };
	struct shfs_composer *c;

	told.count = 0;
	assert_int_equal(shfs_composer_new(ROOT, 7, false, &ops, NULL, &c), 0);
	return c;
}

struct room {
	struct shfs_bpf_record record;
	char text[1024];
};

static struct room make(unsigned type, uint32_t flags, uint64_t directory,
                        const char *name, const char *name2)
{
	struct room r = { .record = { .type = (uint16_t)type,
		                      .flags = flags,
		                      .directory = directory,
		                      .pid = 100,
		                      .tid = 101,
		                      .start_ns = 5,
		                      .dev = 7 } };

	r.record.name_len = (uint16_t)strlen(name);
	memcpy(r.text, name, strlen(name));
	r.record.name2_at = 512;
	r.record.name2_len = (uint16_t)strlen(name2);
	memcpy(r.text + 512, name2, strlen(name2));
	return r;
}

static int take(struct shfs_composer *c, const struct room *r)
{
	return shfs_compose(c, &r->record, sizeof(*r));
}

static void tell_directory(struct shfs_composer *c, uint64_t key, const char *names,
                           size_t len, uint32_t flags)
{
	struct room r = make(SHFS_EVENT_DIRECTORY, flags, key, "", "");

	memcpy(r.text, names, len);
	r.record.name_len = (uint16_t)len;
	r.record.ino = key * 10;
	assert_int_equal(take(c, &r), 0);
}

#define WHOLE (SHFS_BPF_FIRST | SHFS_BPF_LAST)

static void test_paths(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r;

	tell_directory(c, 1, "", 0, WHOLE);
	tell_directory(c, 2, "c\0b\0a", 6, WHOLE);
	r = make(SHFS_EVENT_CLOSE, SHFS_EVENT_READABLE, 1, "file", "");
	assert_int_equal(take(c, &r), 0);
	r = make(SHFS_EVENT_CLOSE, 0, 2, "file", "");
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(told.count, 2);
	assert_texts(event(0), "file", "");
	assert_texts(event(1), "a/b/c/file", "");
	assert_int_equal(event(1)->file.parent, 20);
	assert_int_equal(event(0)->file.dev, 0);
	assert_int_equal(event(0)->flags, SHFS_EVENT_READABLE);
	assert_int_equal(event(1)->sequence, event(0)->sequence + 1);

	/* one that was told anew, and one that never was */
	tell_directory(c, 2, "x", 2, WHOLE);
	r = make(SHFS_EVENT_CLOSE, 0, 2, "file", "");
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(2), "x/file", "");
	r = make(SHFS_EVENT_CLOSE, 0, 99, "file", "");
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(3), "file", "");
	assert_true(event(3)->flags & SHFS_EVENT_CUT);
	shfs_composer_free(c);
}

static void test_directory_in_pieces(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r;

	tell_directory(c, 3, "b", 2, SHFS_BPF_FIRST);
	tell_directory(c, 3, "a", 2, 0);
	tell_directory(c, 3, "", 0, SHFS_BPF_LAST);
	/* one whose beginning was lost is not believed */
	tell_directory(c, 4, "a", 2, SHFS_BPF_LAST);
	r = make(SHFS_EVENT_MAKE, 0, 3, "link", "to where");
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(0), "a/b/link", "to where");
	r = make(SHFS_EVENT_CLOSE, 0, 4, "file", "");
	assert_int_equal(take(c, &r), 0);
	assert_true(event(1)->flags & SHFS_EVENT_CUT);
	shfs_composer_free(c);
}

static void tell_level(struct shfs_composer *c, uint64_t thread, uint64_t key,
                       const char *name, uint32_t flags)
{
	struct room r = make(SHFS_EVENT_DIRECTORY, flags, key, name, "");

	r.record.id = thread;
	r.record.name_len += flags & SHFS_BPF_LAST ? 0 : 1; /* with its NUL */
	assert_int_equal(take(c, &r), 0);
}

static void test_directories_in_pieces_at_once(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r;

	tell_level(c, 1ull << 32 | 7, 5, "b", SHFS_BPF_FIRST);
	tell_level(c, 2ull << 32 | 7, 6, "d", SHFS_BPF_FIRST);
	tell_level(c, 1ull << 32 | 7, 5, "a", 0);
	tell_level(c, 2ull << 32 | 7, 6, "c", 0);
	tell_level(c, 1ull << 32 | 7, 5, "", SHFS_BPF_LAST);
	tell_level(c, 2ull << 32 | 7, 6, "", SHFS_BPF_LAST);
	r = make(SHFS_EVENT_MAKE, 0, 5, "link", "");
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(0), "a/b/link", "");
	r = make(SHFS_EVENT_MAKE, 0, 6, "link", "");
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(1), "c/d/link", "");
	shfs_composer_free(c);
}

static void test_renames(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r;

	tell_directory(c, 1, "", 0, WHOLE);
	tell_directory(c, 2, "d", 2, WHOLE);
	r = make(SHFS_EVENT_RENAME, 0, 1, "a", "b");
	r.record.directory2 = 2;
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(0), "a", "d/b");
	r = make(SHFS_EVENT_RENAME, 0, 0, "", "b");
	r.record.directory2 = 2;
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(1), "", "d/b");
	assert_int_equal(event(1)->file.parent, 20);
	shfs_composer_free(c);
}

static void test_given_paths(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r;

	tell_directory(c, 2, "d", 2, WHOLE);
	tell_directory(c, 3, "u\0home", 7, WHOLE | SHFS_BPF_TOP);
	tell_directory(c, 5, "", 0, WHOLE | SHFS_BPF_TOP);

	r = make(SHFS_EVENT_RENAME, SHFS_BPF_GIVEN, 2, "./x//y", "../z");
	r.record.directory2 = 2;
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(0), "d/x/y", "z");

	r = make(SHFS_EVENT_UNLINK, SHFS_BPF_GIVEN, 5, "/home/u/project/dir/f", "");
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(1), "real/f", ""); /* dir is a link */

	r = make(SHFS_EVENT_RENAME, SHFS_BPF_GIVEN, 3, "project/a", "../elsewhere");
	r.record.directory2 = 3;
	assert_int_equal(take(c, &r), 0);
	assert_texts(event(2), "a", "");

	/* what is beside, the root itself, and nothing */
	r = make(SHFS_EVENT_UNLINK, SHFS_BPF_GIVEN, 3, "projects/a", "");
	assert_int_equal(take(c, &r), 0);
	r = make(SHFS_EVENT_UNLINK, SHFS_BPF_GIVEN, 3, "project", "");
	assert_int_equal(take(c, &r), 0);
	r = make(SHFS_EVENT_UNLINK, SHFS_BPF_GIVEN, 3, "", "");
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(told.count, 3);
	shfs_composer_free(c);
}

static bool may_change(struct shfs_composer *c, struct room r, const char *path)
{
	r.record.directory2 = r.record.directory;
	return shfs_composer_may_change(c, &r.record, path);
}

/* A record of the same name elsewhere says nothing of this one. */
static void test_what_later_records_change(void **state)
{
	struct shfs_composer *c = new_composer();
	const uint32_t given = SHFS_BPF_GIVEN;

	tell_directory(c, 2, "d", 2, WHOLE);
	tell_directory(c, 3, "u\0home", 7, WHOLE | SHFS_BPF_TOP);
	assert_true(may_change(c, make(SHFS_EVENT_RENAME, given, 2, "x", "h"), "d/h"));
	assert_true(may_change(c, make(SHFS_EVENT_RENAME, given, 2, "h", "x"), "d/h"));
	assert_true(may_change(c, make(SHFS_EVENT_LINK, given, 2, "x", "e/../h"), "d/h"));
	assert_true(may_change(c, make(SHFS_EVENT_UNLINK, given, 3, "project/dir/h", ""),
	                       "real/h"));
	assert_false(may_change(c, make(SHFS_EVENT_LINK, given, 2, "h", "x"), "d/h"));
	assert_false(may_change(c, make(SHFS_EVENT_RENAME, given, 2, "x", "h"), "h"));
	assert_false(may_change(c, make(SHFS_EVENT_RENAME, given, 2, "x", "xh"), "d/h"));
	assert_false(may_change(c, make(SHFS_EVENT_UNLINK, given, 2, "e/h", ""), "d/h"));
	assert_false(
		may_change(c, make(SHFS_EVENT_UNLINK, given, 3, "other/d/h", ""), "d/h"));
	assert_false(may_change(c, make(SHFS_EVENT_CHANGE, given, 2, "h", ""), "d/h"));
	/* a directory that is told only later */
	assert_true(may_change(c, make(SHFS_EVENT_UNLINK, given, 99, "h", ""), "d/h"));
	shfs_composer_free(c);
}

/* Each name leads to file 5. */
static int look(void *arg, const char *path, struct stat *out)
{
	*out = (struct stat){ .st_ino = 5, .st_mode = S_IFREG };
	return 0;
}

static int confirms(struct shfs_composer *c, struct room r, uint64_t ino)
{
	r.record.directory2 = r.record.directory;
	r.record.ino = 5;
	return shfs_composer_confirms(c, &r.record, "d/h", ino);
}

/* Which file was d/h before these records? */
static void test_what_later_records_confirm(void **state)
{
	static const struct shfs_composer_ops ops = { tell, look, real, is_told };
	const uint32_t given = SHFS_BPF_GIVEN;
	struct shfs_composer *c;

	told.count = 0;
	assert_int_equal(shfs_composer_new(ROOT, 7, false, &ops, NULL, &c), 0);
	tell_directory(c, 2, "d", 2, WHOLE);
	assert_int_equal(confirms(c, make(SHFS_EVENT_WRITE, 0, 2, "h", ""), 5), 1);
	assert_int_equal(confirms(c, make(SHFS_EVENT_CLOSE, 0, 2, "h", ""), 6), -1);
	assert_int_equal(confirms(c, make(SHFS_EVENT_WRITE, 0, 2, "other", ""), 5), 0);
	assert_int_equal(confirms(c, make(SHFS_EVENT_WRITE, 0, 99, "h", ""), 5), 0);
	assert_int_equal(confirms(c, make(SHFS_EVENT_RENAME, given, 2, "h", "x"), 5), 1);
	assert_int_equal(confirms(c, make(SHFS_EVENT_RENAME, given, 2, "h", "x"), 6), -1);
	assert_int_equal(confirms(c, make(SHFS_EVENT_RENAME, given, 2, "x", "h"), 5), -1);
	assert_int_equal(confirms(c, make(SHFS_EVENT_LINK, given, 2, "h", "x"), 5), 1);
	assert_int_equal(confirms(c, make(SHFS_EVENT_LINK, given, 2, "h", "x"), 6), 0);
	assert_int_equal(confirms(c, make(SHFS_EVENT_LINK, given, 2, "x", "h"), 5), -1);
	assert_int_equal(confirms(c, make(SHFS_EVENT_UNLINK, given, 2, "h", ""), 5), -1);
	assert_int_equal(confirms(c, make(SHFS_EVENT_UNLINK, given, 2, "x", ""), 5), 0);
	shfs_composer_free(c);
}

static const char *changed_again; /* a path, by a record that follows */

static bool is_changed_again(void *arg, const char *path, uint64_t until_ns)
{
	return changed_again && !strcmp(path, changed_again);
}

/* Each name of an exchange is looked up, unless it may lead to a third file by now. */
static void test_which_files_were_exchanged(void **state)
{
	static const struct shfs_composer_ops ops = { tell, look, real, is_told,
		                                      is_changed_again };
	static const char *const again[] = { NULL, "d/a", "d/b" };
	struct room r = make(SHFS_EVENT_RENAME, SHFS_BPF_GIVEN | SHFS_EVENT_EXCHANGED, 2,
	                     "a", "b");
	struct shfs_composer *c;

	told.count = 0;
	assert_int_equal(shfs_composer_new(ROOT, 7, false, &ops, NULL, &c), 0);
	tell_directory(c, 2, "d", 2, WHOLE);
	r.record.directory2 = 2;
	for (unsigned i = 0; i < ARRAY_SIZE(again); i++) {
		changed_again = again[i];
		assert_int_equal(take(c, &r), 0);
		assert_int_equal(event(i)->file.ino, i == 2 ? 0 : 5);
		assert_int_equal(event(i)->file.id, i == 1 ? 0 : 5);
	}
	changed_again = NULL;
	r.record.flags = SHFS_BPF_GIVEN;
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(event(3)->file.id, 0);
	shfs_composer_free(c);
}

/* Nor is a third file looked up for what was truncated, or got another mode. */
static void test_which_file_was_changed(void **state)
{
	static const struct shfs_composer_ops ops = { tell, look, real, is_told,
		                                      is_changed_again };
	static const unsigned types[] = { SHFS_EVENT_TRUNCATE, SHFS_EVENT_CHANGE };
	struct shfs_composer *c;

	told.count = 0;
	assert_int_equal(shfs_composer_new(ROOT, 7, false, &ops, NULL, &c), 0);
	tell_directory(c, 2, "d", 2, WHOLE);
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		struct room r = make(types[i], SHFS_BPF_GIVEN, 2, "a", "");

		changed_again = NULL;
		assert_int_equal(take(c, &r), 0);
		assert_int_equal(event(2 * i)->file.ino, 5);
		changed_again = "d/a";
		assert_int_equal(take(c, &r), 0);
		assert_int_equal(event(2 * i + 1)->file.ino, 0);
	}
	changed_again = NULL;
	shfs_composer_free(c);
}

static void test_lost(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r = make(SHFS_EVENT_EXIT, 0, 0, "", "");

	assert_int_equal(take(c, &r), 0);
	r.record.lost = 3;
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(told.count, 4);
	assert_int_equal(event(1)->type, SHFS_EVENT_LOST);
	assert_int_equal(event(1)->lost.count, 3);
	assert_int_equal(event(1)->process.pid, 0);
	assert_int_equal(event(2)->sequence, event(0)->sequence + 5);
	shfs_compose_lost(c, 3);
	assert_int_equal(told.count, 4);
	shfs_compose_lost(c, 5);
	assert_int_equal(event(4)->lost.count, 2);
	shfs_composer_free(c);
}

/* How long it ran is shared out by what ticks have counted. */
static void test_usage(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r = make(SHFS_EVENT_EXIT, SHFS_EVENT_USAGE, 0, "", "");

	r.record.mode = 0x300;
	r.record.mtime_ns = 30000000;
	r.record.ctime_ns = 10000000;
	r.record.id = 20000000;
	r.record.bytes = 25;
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(event(0)->flags, SHFS_EVENT_USAGE);
	assert_int_equal(event(0)->exit.status, 0x300);
	assert_int_equal(event(0)->exit.user_us, 15000);
	assert_int_equal(event(0)->exit.system_us, 5000);
	assert_int_equal(event(0)->exit.max_rss_kib, 25 * sysconf(_SC_PAGESIZE) / 1024);
	r.record.mtime_ns = r.record.ctime_ns = 0; /* no tick came */
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(event(1)->exit.user_us, 20000);
	assert_int_equal(event(1)->exit.system_us, 0);
	shfs_composer_free(c);
}

static void test_processes(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r = make(SHFS_EVENT_FORK, SHFS_BPF_SESSION, 0, "", "");

	r.record.ppid = 1;
	r.record.pgid = 100;
	r.record.sid = 90;
	r.record.tty = 136u << 20 | 4;
	r.record.ino = 200;
	r.record.id = 77;
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(event(0)->child.pid, 200);
	assert_int_equal(event(0)->child.start_ns, 77);
	assert_int_equal(event(0)->process.tty, 0x8804);

	/* the child is as its parent is, and another with its number is not it */
	tell_directory(c, 1, "", 0, WHOLE);
	r = make(SHFS_EVENT_CLOSE, 0, 1, "f", "");
	r.record.pid = 200;
	r.record.start_ns = 77;
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(event(1)->process.ppid, 100);
	assert_int_equal(event(1)->process.sid, 90);
	r.record.start_ns = 78;
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(event(2)->process.ppid, 0);

	/* arguments are separated, not ended */
	r = make(SHFS_EVENT_EXEC, SHFS_BPF_SESSION, 0, "./x", "");
	memcpy(r.text + 512, "x\0-y", 5);
	r.record.name2_len = 5;
	assert_int_equal(take(c, &r), 0);
	assert_int_equal(event(3)->text2_len, 4);
	assert_memory_equal(event(3)->text + 3, "x\0-y", 4);
	shfs_composer_free(c);
}

static void test_bad_records(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r = make(SHFS_EVENT_CLOSE, 0, 1, "f", "");

	assert_int_equal(shfs_compose(c, &r.record, sizeof(r.record) - 1), -EBADMSG);
	r.record.name_len = sizeof(r.text) + 1;
	assert_int_equal(take(c, &r), -EBADMSG);
	r = make(SHFS_EVENT_RENAME, 0, 1, "f", "");
	r.record.name2_at = 1000;
	r.record.name2_len = 100;
	assert_int_equal(take(c, &r), -EBADMSG);
	r = make(SHFS_EVENT_DIRECTORY, WHOLE, 1, "no end", "");
	assert_int_equal(take(c, &r), -EBADMSG);
	assert_int_equal(told.count, 0);
	shfs_composer_free(c);
}

static void test_forgets(void **state)
{
	struct shfs_composer *c = new_composer();
	struct room r;

	for (uint64_t key = 1; key <= 70000; key++)
		tell_directory(c, key, "d", 2, WHOLE);
	/* at the second look, and those alone that the kernel has forgotten */
	shfs_composer_trim(c);
	for (int i = 0; i < 2; i++) {
		r = make(SHFS_EVENT_CLOSE, 0, 2, "f", "");
		assert_int_equal(take(c, &r), 0);
		r = make(SHFS_EVENT_CLOSE, 0, 3, "f", "");
		assert_int_equal(take(c, &r), 0);
		shfs_composer_trim(c);
	}
	assert_texts(event(0), "d/f", "");
	assert_texts(event(1), "d/f", "");
	assert_texts(event(2), "f", "");
	assert_texts(event(3), "d/f", "");
	shfs_composer_free(c);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_paths),
	cmocka_unit_test(test_directory_in_pieces),
	cmocka_unit_test(test_directories_in_pieces_at_once),
	cmocka_unit_test(test_renames),
	cmocka_unit_test(test_given_paths),
	cmocka_unit_test(test_what_later_records_change),
	cmocka_unit_test(test_what_later_records_confirm),
	cmocka_unit_test(test_which_files_were_exchanged),
	cmocka_unit_test(test_which_file_was_changed),
	cmocka_unit_test(test_lost),
	cmocka_unit_test(test_usage),
	cmocka_unit_test(test_processes),
	cmocka_unit_test(test_bad_records),
	cmocka_unit_test(test_forgets),
};

int main(int argc, char **argv)
{
	return shfs_unit_main(tests, argc, argv);
}
