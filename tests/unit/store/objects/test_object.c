/* SPDX-License-Identifier: MIT */
/* Tests of store/objects/object.c. */
#include "tests/unit/storekit.h"

#include "store/objects/content.h"
#include "store/objects/object-internal.h"
#include "store/objects/object.h"
#include "tests/unit/packkit.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* --- openat as a file system without O_TMPFILE has it --- */

static bool no_tmpfile;

int openat64(int dirfd, const char *path, int flags, ...);

/* glibc's own name for it, so that this one can take its place. */
static int real_openat(int dirfd, const char *path, int flags, mode_t mode)
{
	return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

int openat64(int dirfd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	if (no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return real_openat(dirfd, path, flags, mode);
}

/* --- helpers --- */

static void path_of(const struct shfs_object_id *id, char out[48])
{
	char name[44];

	shfs_object_name(id, name);
	snprintf(out, 48, "%.2s/%s", name, name + 2);
}

/* --- a content comes back --- */

static void each_size_comes_back(void **state)
{
	static const size_t sizes[] = { 0,      1,      63,      64,      65,
		                        767,    768,    769,     131071,  131072,
		                        131073, 200000, 262144,  262145,  400000,
		                        524288, 999999, 1 << 20, 3 << 20, (3 << 20) + 1 };
	struct shfs_store *store = kit_store();

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };
		struct shfs_object_id id;

		kit_noise(&b, sizes[i], i);
		id = put_one(store, b.data, b.len, 3);
		assert_holds(store, &id, b.data, b.len);
		if (b.len < 200)
			continue;
		memset(b.data, 'a', b.len); /* compresses */
		id = put_one(store, b.data, b.len, 3);
		assert_holds(store, &id, b.data, b.len);
		for (size_t k = 0; k < b.len; k++) /* a little */
			b.data[k] = (char)('a' + (k * k / 7 + (k >> 9)) % 17);
		id = put_one(store, b.data, b.len, 3);
		assert_holds(store, &id, b.data, b.len);
	}
	shfs_store_close(store);
}

/* Text whose blocks differ, at each level: they are split and flushed in many ways. */
static void each_level_comes_back(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_buf_ struct shfs_buf b = { 0 };

	for (int level = 1; level <= 19; level += 3) {
		struct shfs_object_id id;

		b.len = 0;
		for (int i = 0; b.len < 900000; i++)
			shfs_buf_printf(&b, i % 900 < 500 ? "%d,%d\n" : "%d;%x\r\n",
			                i * level, (unsigned)i * 2654435761u >> (i % 13));
		id = put_one(store, b.data, b.len, level);
		assert_holds(store, &id, b.data, b.len);
	}
	shfs_store_close(store);
}

static void layout_of_a_pack(void **state)
{
	static const unsigned char head[40] =
		"shfspak\2\xd5shf????????????????????\0\0\0\0"
		"\5\0\0";
	struct shfs_store *store = kit_store();
	struct shfs_object_id id = put_one(store, "hello", 5, 3);
	_cleanup_buf_ struct shfs_buf file = { 0 };
	_cleanup_free_ char *path = kit_pack(store);
	struct stat st;

	kit_read(store->objects_fd, path, &file);
	assert_int_equal(file.len, 8 + 40 + 5);
	memcpy(file.data + 12, head + 12, 20); /* check and hash */
	assert_memory_equal(file.data, head, 40);
	assert_memory_equal(file.data + 40, "\5\0\0\0\0\0\0\0hello", 13);
	kit_read(store->objects_fd, path, &file);
	assert_memory_equal(file.data + 16, id.hash, 16);
	assert_ok(fstatat(store->objects_fd, path, &st, 0));
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_ok(fstatat(store->objects_fd, "packs", &st, 0));
	assert_int_equal(st.st_mode & 07777, 0700);
	shfs_store_close(store);
}

static void layout_of_a_loose_object(void **state)
{
	static const unsigned char head[24] = "shfsobj\1\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0";
	struct shfs_store *store = kit_store();
	_cleanup_buf_ struct shfs_buf file = { 0 }, big = { 0 };
	struct shfs_object_id id;
	char path[48], dir[3] = { 0 };
	struct stat st;

	kit_noise(&big, 2 << 20, 1);
	id = put_one(store, big.data, big.len, 3);
	path_of(&id, path);
	kit_read(store->objects_fd, path, &file);
	assert_int_equal(file.len, 40 + big.len);
	assert_memory_equal(file.data, head, 24);
	assert_memory_equal(file.data + 24, id.hash, 16);
	assert_memory_equal(file.data + 40, big.data, big.len);
	assert_ok(fstatat(store->objects_fd, path, &st, 0));
	assert_int_equal(st.st_mode & 07777, 0600);
	memcpy(dir, path, 2);
	assert_ok(fstatat(store->objects_fd, dir, &st, 0));
	assert_int_equal(st.st_mode & 07777, 0700);
	shfs_store_close(store);
}

/* What was written before there were packs is read, and not stored again. */
static void small_loose_objects_stay(void **state)
{
	static const unsigned char file[45] =
		"shfsobj\1\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0"
		"\xb5\xe9\xc1\xad\x07\x1b\x3e\x7f\xc7\x79\xcf\xaa\x5e\x52\x38\x18hello";
	struct shfs_store *store = kit_store();
	struct shfs_object_id id, again;

	/* XXH3-128 of "hello", as xxhsum -H128 prints it */
	assert_ok(shfs_object_parse("b5e9c1ad071b3e7fc779cfaa5e523818", &id));
	assert_ok(mkdirat(store->objects_fd, "b5", 0700));
	assert_ok(shfs_write_file_at(store->objects_fd,
	                             "b5/e9c1ad071b3e7fc779cfaa5e523818", 0600, file,
	                             45));
	assert_holds(store, &id, "hello", 5);
	again = put_one(store, "hello", 5, 3);
	assert_memory_equal(&id, &again, sizeof(id));
	assert_int_equal(count_objects(store), 1);
	shfs_store_close(store);
}

static void names(void **state)
{
	static const char *const bad[] = {
		"",
		"b5e9c1ad071b3e7fc779cfaa5e52381",
		"b5e9c1ad071b3e7fc779cfaa5e5238188",
		"B5E9C1AD071B3E7FC779CFAA5E523818",
		"b5e9c1ad071b3e7fc779cfaa5e523818-",
		"b5e9c1ad071b3e7fc779cfaa5e523818-0",
		"b5e9c1ad071b3e7fc779cfaa5e523818-01",
		"b5e9c1ad071b3e7fc779cfaa5e523818-1x",
		"b5e9c1ad071b3e7fc779cfaa5e523818--1",
		"b5e9c1ad071b3e7fc779cfaa5e523818-+1",
		"b5e9c1ad071b3e7fc779cfaa5e523818-4294967296",
		"b5e9c1ad071b3e7fc779cfaa5e523818-99999999999999999999",
		"b5e9c1ad071b3e7fc779cfaa5e523818+1",
		"../../../../../../../../etc/shadow",
	};
	static const uint32_t nths[] = { 0, 1, 9, 63, UINT32_MAX };
	struct shfs_object_id id = { .nth = 5 }, back;
	char name[44];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(shfs_object_parse(bad[i], &id), -EINVAL);
	assert_int_equal(id.nth, 5);
	for (size_t i = 0; i < ARRAY_SIZE(nths); i++) {
		memset(id.hash, 0x10 * (int)i + 7, 16);
		id.nth = nths[i];
		shfs_object_name(&id, name);
		assert_ok(shfs_object_parse(name, &back));
		assert_memory_equal(back.hash, id.hash, 16);
		assert_int_equal(back.nth, id.nth);
	}
	assert_string_equal(name, "47474747474747474747474747474747-4294967295");
}

static void the_same_is_stored_once(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_put *puts[3];
	struct shfs_object_id id, found;

	assert_ok(shfs_object_put(store, "same", 4, 3, NULL, &puts[0]));
	assert_ok(shfs_object_put(store, "same", 4, 3, NULL, &puts[1]));
	assert_ok(shfs_object_put(store, "other", 5, 3, NULL, &puts[2]));
	assert_int_equal(shfs_object_find(store, "same", 4, &id), 0);
	assert_int_equal(count_objects(store), 0); /* nothing is visible yet */
	assert_ok(shfs_object_commit(store, puts, 3));
	assert_int_equal(count_objects(store), 2);
	id = shfs_put_id(puts[0]);
	found = shfs_put_id(puts[1]);
	assert_memory_equal(&id, &found, sizeof(id));
	assert_int_equal(shfs_put_stored_bytes(puts[0]), 44);
	assert_int_equal(shfs_put_stored_bytes(puts[1]), 0);
	assert_int_equal(shfs_put_stored_bytes(puts[2]), 45);
	assert_int_equal(shfs_object_find(store, "same", 4, &found), 1);
	assert_memory_equal(&id, &found, sizeof(id));
	for (int i = 0; i < 3; i++)
		shfs_put_free(puts[i]);

	assert_ok(shfs_object_put(store, "same", 4, 3, NULL, &puts[0]));
	assert_int_equal(shfs_put_stored_bytes(puts[0]), 0);
	assert_ok(shfs_object_commit(store, puts, 1));
	shfs_put_free(puts[0]);
	assert_int_equal(count_objects(store), 2);
	shfs_store_close(store);
}

static void dropped_puts_leave_nothing(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_buf_ struct shfs_buf big = { 0 };
	struct shfs_put *put;

	kit_noise(&big, 2 << 20, 1);
	for (int i = 0; i < 2; i++) {
		no_tmpfile = i;
		assert_ok(shfs_object_put(store, "dropped", 7, 3, NULL, &put));
		shfs_put_free(put);
		assert_ok(shfs_object_put(store, big.data, big.len, 3, NULL, &put));
		shfs_put_free(put);
		no_tmpfile = false;
		assert_int_equal(count_objects(store), 0);
	}
	shfs_put_free(NULL);
	assert_ok(shfs_object_commit(store, NULL, 0));
	shfs_store_close(store);
}

static void without_unnamed_files(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id a, b, c;
	_cleanup_buf_ struct shfs_buf stale = { 0 }, one = { 0 }, two = { 0 };

	kit_noise(&one, 2 << 20, 1);
	kit_noise(&two, 2 << 20, 2);
	/* what a process of the same id left when it was killed */
	for (int i = 0; i < 4; i++) {
		stale.len = 0;
		shfs_buf_printf(&stale, "tmp-%d-%d", (int)getpid(), i);
		assert_ok(
			shfs_write_file_at(store->objects_fd, stale.data, 0600, "x", 1));
	}
	no_tmpfile = true;
	a = put_one(store, one.data, one.len, 3);
	b = put_one(store, two.data, two.len, 3);
	c = put_one(store, two.data, two.len, 3);
	no_tmpfile = false;
	assert_holds(store, &a, one.data, one.len);
	assert_holds(store, &b, two.data, two.len);
	assert_memory_equal(&b, &c, sizeof(b));
	assert_true(count_objects(store) <= 2 + 4);
	shfs_store_close(store);
}

/* --- collisions --- */

/* All that has one length has one hash. */
static void hash_of_length(const void *data, size_t len, uint8_t out[16])
{
	memset(out, 0x77, 16);
	out[15] = (uint8_t)len;
}

static void (*real_hash)(const void *data, size_t len, uint8_t out[16]);

static void collide_begin(void)
{
	real_hash = shfs_object_hash;
	shfs_object_hash = hash_of_length;
}

static int collide_end(void **state)
{
	shfs_object_hash = real_hash;
	return 0;
}

static void collisions_stay_apart(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id id[4];

	collide_begin();
	id[0] = put_one(store, "aaaa", 4, 3);
	id[1] = put_one(store, "bbbb", 4, 3);
	id[2] = put_one(store, "cccc", 4, 3);
	id[3] = put_one(store, "bbbb", 4, 3);
	assert_int_equal(id[0].nth, 0);
	assert_int_equal(id[1].nth, 1);
	assert_int_equal(id[2].nth, 2);
	assert_int_equal(id[3].nth, 1);
	assert_holds(store, &id[0], "aaaa", 4);
	assert_holds(store, &id[1], "bbbb", 4);
	assert_holds(store, &id[2], "cccc", 4);
	assert_int_equal(shfs_object_find(store, "dddd", 4, &id[3]), 0);
	assert_int_equal(shfs_object_find(store, "cccc", 4, &id[3]), 1);
	assert_int_equal(id[3].nth, 2);
	shfs_store_close(store);
}

/* The same hash within one batch, before any of them has a name. */
static void collisions_in_a_batch(void **state)
{
	static const char *const texts[] = { "aaaa", "bbbb", "aaaa", "cccc", "bbbb" };
	static const unsigned nths[] = { 0, 1, 0, 2, 1 };
	struct shfs_store *store = kit_store();
	struct shfs_put *puts[5];

	collide_begin();
	for (int i = 0; i < 5; i++)
		assert_ok(shfs_object_put(store, texts[i], 4, 3, NULL, &puts[i]));
	assert_ok(shfs_object_commit(store, puts, 5));
	assert_int_equal(count_objects(store), 3);
	for (int i = 0; i < 5; i++) {
		struct shfs_object_id id = shfs_put_id(puts[i]);

		assert_int_equal(id.nth, nths[i]);
		assert_holds(store, &id, texts[i], 4);
		shfs_put_free(puts[i]);
	}
	shfs_store_close(store);
}

/* So many of them are no accident: refused, not looped over for ever. */
static void collisions_without_end(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_put *put;
	int r = 0;

	collide_begin();
	for (uint32_t i = 0; i < 100 && !r; i++) {
		r = shfs_object_put(store, &i, 4, 3, NULL, &put);
		if (r)
			break;
		r = shfs_object_commit(store, &put, 1);
		shfs_put_free(put);
	}
	assert_int_equal(r, -EEXIST);
	shfs_store_close(store);
}

/* --- damage --- */

static void write_object(struct shfs_store *store, const char *path,
                         const struct shfs_buf *file)
{
	_cleanup_close_ int fd = openat(store->objects_fd, path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_ok(shfs_write_all(fd, file->data, file->len));
}

/* Never the wrong bytes: each call says that the object is damaged (or, to who has not
 * seen it before, not there), or is right. */
static bool is_noticed(struct shfs_store *store, const struct shfs_object_id *id,
                       const struct shfs_buf *content)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	_cleanup_close_ int null = open("/dev/null", O_WRONLY);
	int r = shfs_object_read(store, id, 4 << 20, &out);
	int copied = shfs_object_copy(store, id, null);
	_cleanup_object_reader_ struct shfs_object_reader *reader = NULL;
	int opened = shfs_object_reader_open(store, id, &reader);

	if (!opened)
		assert_parts(store, id, content->data, content->len);
	else
		assert_true(opened == -EBADMSG || opened == r);
	if (r == 0) {
		assert_ok(opened);
		assert_int_equal(out.len, content->len);
		assert_memory_equal(out.data, content->data, out.len);
		assert_ok(copied);
		return false;
	}
	assert_true(r == -EBADMSG || r == -EFBIG || r == -ENOENT);
	assert_int_equal(out.len, 0);
	assert_true(copied == -EBADMSG || copied == r);
	return true;
}

/* step: each so manieth byte; spare: that nobody needs. */
static void damage(const struct shfs_buf *content, size_t step, size_t spare)
{
	struct shfs_store *store = kit_store(), *other;
	struct shfs_object_id id = put_one(store, content->data, content->len, 3);
	_cleanup_buf_ struct shfs_buf file = { 0 };
	_cleanup_free_ char *pack = kit_pack(store);
	unsigned noticed = 0, seen = 0, tried = 0;
	char loose[48], *path = pack ? pack : loose;

	path_of(&id, loose);
	kit_read(store->objects_fd, path, &file);
	for (size_t i = 0; i < file.len; i += step) { /* each byte changed */
		file.data[i] ^= (char)(1 << i % 8);
		write_object(store, path, &file);
		noticed += is_noticed(store, &id, content);
		assert_ok(shfs_store_open(store->path, 0, &other));
		seen += is_noticed(other, &id, content);
		shfs_store_close(other);
		file.data[i] ^= (char)(1 << i % 8);
		tried++;
	}
	assert_true(noticed + spare >= tried && seen + spare >= tried);
	for (size_t len = file.len; len > 0; len -= MIN(len, step)) { /* each length */
		struct shfs_buf cut = { .data = file.data, .len = len - 1 };

		write_object(store, path, &cut);
		assert_true(is_noticed(store, &id, content));
		assert_ok(shfs_store_open(store->path, 0, &other));
		assert_true(is_noticed(other, &id, content));
		shfs_store_close(other);
	}
	shfs_buf_str(&file, "more");
	write_object(store, path, &file);
	is_noticed(store, &id, content);
	shfs_store_close(store);
}

/* Each byte by `./dev test --all`, else some. */
static size_t step_of_bytes(void)
{
	return getenv("SHFS_TEST_FAULTS") ? 1 : 5;
}

/* all but the magic of the pack */
static void damage_of_plain_content(void **state)
{
	_cleanup_buf_ struct shfs_buf content = { 0 };

	kit_noise(&content, 300, 1);
	damage(&content, step_of_bytes(), 8);
}

static void damage_of_compressed_content(void **state)
{
	_cleanup_buf_ struct shfs_buf content = { 0 };

	for (int i = 0; i < 300; i++)
		shfs_buf_printf(&content, "line %d\n", i * i);
	damage(&content, step_of_bytes(), 8);
}

/* It is unpacked piece by piece. */
static void damage_of_large_content(void **state)
{
	_cleanup_buf_ struct shfs_buf content = { 0 };

	for (int i = 0; content.len < 2 << 20; i++)
		shfs_buf_printf(&content, "%d zeros and one more line\n", i / 1000);
	damage(&content, 7, 2);
}

static void damage_of_loose_content(void **state)
{
	_cleanup_buf_ struct shfs_buf content = { 0 };

	kit_noise(&content, (1 << 20) + 5000, 1);
	damage(&content, 54321, 0);
}

/* A put of the content heals what was damaged. */
static void put_heals(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id id = put_one(store, "hello", 5, 3), again;
	_cleanup_buf_ struct shfs_buf file = { 0 };
	_cleanup_free_ char *path = kit_pack(store);

	for (int i = 0; i < 3; i++) {
		kit_read(store->objects_fd, path, &file);
		file.data[file.len - 1] ^= 1;
		write_object(store, path, &file);
		again = put_one(store, "hello", 5, 3);
		assert_memory_equal(&id, &again, sizeof(id));
		assert_holds(store, &id, "hello", 5);
	}
	shfs_store_close(store);
}

static void put_heals_loose(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_buf_ struct shfs_buf file = { 0 }, big = { 0 };
	struct shfs_object_id id, again;
	char path[48];

	kit_noise(&big, 2 << 20, 1);
	id = put_one(store, big.data, big.len, 3);
	path_of(&id, path);
	kit_read(store->objects_fd, path, &file);
	for (size_t len = 0; len < 60; len += 13) {
		struct shfs_buf cut = { .data = file.data, .len = len };

		write_object(store, path, &cut);
		again = put_one(store, big.data, big.len, 3);
		assert_memory_equal(&id, &again, sizeof(id));
		assert_holds(store, &id, big.data, big.len);
	}
	file.data[44] ^= 1; /* the right length, another content */
	write_object(store, path, &file);
	again = put_one(store, big.data, big.len, 3);
	assert_memory_equal(&id, &again, sizeof(id));
	assert_holds(store, &id, big.data, big.len);
	/* a link in its place is not followed */
	assert_ok(unlinkat(store->objects_fd, path, 0));
	assert_ok(symlinkat("/etc/passwd", store->objects_fd, path));
	again = put_one(store, big.data, big.len, 3);
	assert_memory_equal(&id, &again, sizeof(id));
	assert_holds(store, &id, big.data, big.len);
	shfs_store_close(store);
}

static void limits_of_reading(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id id = put_one(store, "hello", 5, 3), big_id;
	_cleanup_buf_ struct shfs_buf out = { 0 }, file = { 0 }, big = { 0 };
	char path[48];

	assert_int_equal(shfs_object_read(store, &id, 4, &out), -EFBIG);
	assert_null(out.data);
	shfs_buf_str(&out, "before ");
	assert_ok(shfs_object_read(store, &id, 5, &out));
	assert_string_equal(out.data, "before hello");

	kit_noise(&big, 2 << 20, 1);
	big_id = put_one(store, big.data, big.len, 3);
	assert_int_equal(shfs_object_read(store, &big_id, 2 << 20 >> 1, &out), -EFBIG);
	path_of(&big_id, path); /* a size that nobody should believe */
	kit_read(store->objects_fd, path, &file);
	memset(file.data + 16, 0xff, 8);
	write_object(store, path, &file);
	assert_int_equal(shfs_object_read(store, &big_id, UINT64_MAX, &out), -EBADMSG);
	assert_string_equal(out.data, "before hello");

	id.hash[3] ^= 1;
	assert_int_equal(shfs_object_read(store, &id, 5, &out), -ENOENT);
	assert_int_equal(shfs_object_copy(store, &id, 1), -ENOENT);
	shfs_store_close(store);
}

/* --- full disk --- */

static void full_disk(void **state)
{
	const char *dir = kit_small_begin(2 << 20);
	_cleanup_buf_ struct shfs_buf big = { 0 }, third = { 0 };
	struct shfs_store *store;
	struct shfs_object_id id;
	struct shfs_put *put, *puts[3];

	if (!dir)
		shfs_unit_skip("may not mount a small file system");
	store = kit_store_at(dir);
	kit_noise(&big, 3 << 20, 1);
	assert_int_equal(shfs_object_put(store, big.data, big.len, 1, NULL, &put),
	                 -ENOSPC);
	/* in the middle of a batch: none of it is visible, all of it can come again */
	for (unsigned i = 0; i < 3; i++) {
		kit_noise(&third, 800000, 2 + i);
		assert_ok(
			shfs_object_put(store, third.data, third.len, 1, NULL, &puts[i]));
	}
	assert_int_equal(shfs_object_commit(store, puts, 3), -ENOSPC);
	assert_int_equal(count_objects(store), 0);
	assert_ok(shfs_object_commit(store, puts, 1));
	assert_int_equal(shfs_object_commit(store, puts + 1, 2), -ENOSPC);
	kit_noise(&third, 800000, 2);
	id = shfs_put_id(puts[0]);
	assert_holds(store, &id, third.data, third.len);
	for (unsigned i = 0; i < 3; i++)
		shfs_put_free(puts[i]);
	id = put_one(store, "hello", 5, 3); /* what fits still does */
	assert_holds(store, &id, "hello", 5);
	assert_int_equal(count_objects(store), 2);
	shfs_store_close(store);
	kit_small_end();
}

static void file_too_large(void **state)
{
	_cleanup_buf_ struct shfs_buf big = { 0 }, small = { 0 };
	struct shfs_store *store = kit_store();
	struct rlimit before = kit_limit_files(100000);
	struct shfs_object_id id;
	struct shfs_put *put;

	kit_noise(&big, 2 << 20, 1);
	assert_int_equal(shfs_object_put(store, big.data, big.len, 1, NULL, &put),
	                 -EFBIG);
	no_tmpfile = true;
	assert_int_equal(shfs_object_put(store, big.data, big.len, 1, NULL, &put),
	                 -EFBIG);
	no_tmpfile = false;
	assert_ok(shfs_object_put(store, big.data, 200000, 1, NULL, &put));
	assert_int_equal(shfs_object_commit(store, &put, 1), -EFBIG);
	assert_int_equal(count_objects(store), 0);
	for (unsigned i = 0; i < 5;
	     i++) { /* a pack that has no room makes way for another */
		kit_noise(&small, 40000, i);
		id = put_one(store, small.data, small.len, 1);
		assert_holds(store, &id, small.data, small.len);
	}
	assert_ok(setrlimit(RLIMIT_FSIZE, &before));
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	shfs_put_free(put);
	assert_holds(store, &id, big.data, 200000);
	id = put_one(store, big.data, big.len, 1);
	assert_holds(store, &id, big.data, big.len);
	assert_int_equal(count_objects(store), 7);
	shfs_store_close(store);
}

/* --- many at once --- */

#define CONTENTS 40

/* Puts all contents, in batches and in an order of its own. 0 if all was well. */
static int put_all(struct shfs_store *store, unsigned seed)
{
	struct shfs_put *puts[4];

	for (unsigned i = 0; i < CONTENTS; i += 4) {
		for (unsigned k = 0; k < 4; k++) {
			uint32_t n = (i + k + seed * 4) % CONTENTS;
			char text[1000];

			memset(text, (char)n, sizeof(text));
			memcpy(text, &n, sizeof(n));
			if (shfs_object_put(store, text, sizeof(text), 1, NULL, &puts[k]))
				return 1;
		}
		if (shfs_object_commit(store, puts, 4))
			return 2;
		for (unsigned k = 0; k < 4; k++)
			shfs_put_free(puts[k]);
	}
	return 0;
}

struct worker {
	pthread_t thread;
	struct shfs_store *store;
	unsigned seed;
	int result;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 3 && !w->result; i++)
		w->result = put_all(w->store, w->seed + (unsigned)i);
	return NULL;
}

static void assert_all_there(struct shfs_store *store)
{
	struct shfs_object_id id;

	for (uint32_t n = 0; n < CONTENTS; n++) {
		char text[1000];

		memset(text, (char)n, sizeof(text));
		memcpy(text, &n, sizeof(n));
		assert_int_equal(shfs_object_find(store, text, sizeof(text), &id), 1);
	}
	assert_int_equal(count_objects(store), CONTENTS);
}

static void threads_put_the_same(struct shfs_store *store)
{
	struct worker w[6];

	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct worker){ .store = store, .seed = i / 2 };
		assert_ok(pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		assert_ok(pthread_join(w[i].thread, NULL));
		assert_int_equal(w[i].result, 0);
	}
	assert_all_there(store);
}

static void many_threads(void **state)
{
	struct shfs_store *store = kit_store();

	threads_put_the_same(store);
	shfs_store_close(store);
}

static void many_threads_without_unnamed_files(void **state)
{
	struct shfs_store *store = kit_store();

	no_tmpfile = true;
	threads_put_the_same(store);
	no_tmpfile = false;
	shfs_store_close(store);
}

/* All contents collide as well. */
static void many_threads_collide(void **state)
{
	struct shfs_store *store = kit_store();

	collide_begin();
	threads_put_the_same(store);
	shfs_store_close(store);
}

static void many_processes(void **state)
{
	struct shfs_store *store = kit_store();
	int status;

	for (unsigned i = 0; i < 6; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid)
			_exit(put_all(store, i / 2));
	}
	for (unsigned i = 0; i < 6; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_all_there(store);
	shfs_store_close(store);
}

/* Several see the same damage: in the end each object is right. */
static void many_heal(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_buf_ struct shfs_buf file = { 0 };
	_cleanup_free_ char *path = NULL;
	struct worker w[6];

	assert_ok(put_all(store, 0));
	path = kit_pack(store);
	kit_read(store->objects_fd, path, &file);
	for (size_t i = 8 + FRAME_HEAD_BYTES; i < file.len; i += 40)
		file.data[i] ^= 0x55;
	write_object(store, path, &file);
	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct worker){ .store = store, .seed = i / 3 };
		assert_ok(pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(w); i++) {
		assert_ok(pthread_join(w[i].thread, NULL));
		assert_int_equal(w[i].result, 0);
	}
	assert_all_there(store);
	shfs_store_close(store);
}

/* --- partial hash --- */

static void partial_hash_samples(void **state)
{
	static const size_t sizes[] = { 0, 1, 767, 768, 769, 1000, 5000, 100001 };
	const char *dir = shfs_unit_tmpdir();
	_cleanup_free_ char *path = shfs_path_join(dir, "file");

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };
		_cleanup_close_ int fd = -1;
		uint64_t hash = 0, other = 0;

		kit_noise(&b, sizes[i], 5);
		assert_ok(shfs_write_file_at(AT_FDCWD, path, 0600, b.data, b.len));
		fd = open(path, O_RDWR);
		assert_ok(shfs_object_partial_hash(fd, b.len, &hash));
		assert_true(hash == shfs_object_partial_hash_mem(b.data, b.len));
		if (!b.len)
			continue;
		b.data[b.len - 1] ^= 1; /* the last byte counts */
		assert_false(hash == shfs_object_partial_hash_mem(b.data, b.len));
		b.data[b.len - 1] ^= 1;
		b.data[b.len / 2] ^= 1; /* one in the middle too */
		assert_int_equal(pwrite(fd, b.data, b.len, 0), b.len);
		assert_ok(shfs_object_partial_hash(fd, b.len, &other));
		assert_false(hash == other);
	}
}

/* A fingerprint of the whole, by pieces as at once; of a small content both are the same.
 */
static void fingerprints(void **state)
{
	static const size_t sizes[] = { 0, 768, 769, 262144, 600001 };
	const char *dir = shfs_unit_tmpdir();
	_cleanup_free_ char *path = shfs_path_join(dir, "file");

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct shfs_content samples = { .size = sizes[i] }, whole = samples,
				    mem = samples, changed = samples;
		bool is_large = sizes[i] > SHFS_OBJECT_PARTIAL;
		_cleanup_buf_ struct shfs_buf b = { 0 };
		_cleanup_close_ int fd = -1;

		kit_noise(&b, sizes[i], 5);
		assert_ok(shfs_write_file_at(AT_FDCWD, path, 0600, b.data, b.len));
		fd = open(path, O_RDWR);
		assert_ok(shfs_object_fingerprint(fd, sizes[i] - 1, &samples));
		assert_ok(shfs_object_fingerprint(fd, sizes[i], &whole));
		shfs_object_fingerprint_mem(b.data, UINT64_MAX, &mem);
		assert_int_equal(samples.flags, SHFS_CONTENT_PHASH);
		assert_int_equal(whole.flags,
		                 SHFS_CONTENT_PHASH |
		                         (is_large ? SHFS_CONTENT_WHOLE : 0));
		assert_int_equal(mem.flags, whole.flags);
		assert_true(mem.phash == whole.phash);
		assert_int_equal(samples.phash == whole.phash, !is_large);
		assert_int_equal(shfs_content_hashed_alike(samples.flags, whole.flags),
		                 !is_large);
		if (!is_large)
			continue;
		b.data[b.len / 2 + 128] ^= 1; /* no sample has it */
		assert_int_equal(pwrite(fd, b.data, b.len, 0), b.len);
		assert_ok(shfs_object_fingerprint(fd, shfs_object_whole_max(whole.flags),
		                                  &changed));
		assert_true(changed.flags == whole.flags && changed.phash != whole.phash);
		changed = (struct shfs_content){ .size = sizes[i] };
		assert_ok(shfs_object_fingerprint(fd,
		                                  shfs_object_whole_max(samples.flags),
		                                  &changed));
		assert_true(changed.phash == samples.phash);
	}
}

#define ROUNDS 200

/* Several files get the same content at once, each with another history: however it is
 * encoded for one of them, no chain of deltas becomes longer than what is read. */
static void the_same_at_once_makes_no_long_chain(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_buf_ struct shfs_buf text = { 0 }, other = { 0 };
	struct shfs_object_id ids[ROUNDS], unlike;
	size_t lens[ROUNDS];
	struct shfs_put *puts[2];

	kit_noise(&text, 2000, 1);
	kit_noise(&other, 2000, 2);
	assert_ok(shfs_object_put(store, other.data, other.len, 3, NULL, &puts[0]));
	unlike = shfs_put_id(puts[0]);
	assert_ok(shfs_object_commit(store, puts, 1));
	shfs_put_free(puts[0]);
	for (size_t i = 0; i < ROUNDS; i++) {
		shfs_buf_printf(&text, "%zu\n", i * 7919);
		assert_ok(shfs_object_put(store, text.data, text.len, 3,
		                          i ? &ids[i - 1] : NULL, &puts[0]));
		assert_ok(shfs_object_put(store, text.data, text.len, 3, &unlike,
		                          &puts[1]));
		lens[i] = text.len;
		assert_ok(shfs_object_commit(store, puts, 2));
		ids[i] = shfs_put_id(puts[0]);
		for (int k = 0; k < 2; k++)
			shfs_put_free(puts[k]);
	}
	for (size_t i = 0; i < ROUNDS; i++) {
		struct content c;

		assert_ok(content_read(store, &ids[i], 1 << 20, &c));
		assert_int_equal(c.len, lens[i]);
		assert_memory_equal(c.data, text.data, c.len);
		assert_true(c.depth <= DELTA_DEPTH_MAX);
		content_free(&c);
	}
	shfs_store_close(store);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_size_comes_back),
		cmocka_unit_test(each_level_comes_back),
		cmocka_unit_test(layout_of_a_pack),
		cmocka_unit_test(layout_of_a_loose_object),
		cmocka_unit_test(small_loose_objects_stay),
		cmocka_unit_test(names),
		cmocka_unit_test(the_same_is_stored_once),
		cmocka_unit_test(the_same_at_once_makes_no_long_chain),
		cmocka_unit_test(dropped_puts_leave_nothing),
		cmocka_unit_test(without_unnamed_files),
		cmocka_unit_test_teardown(collisions_stay_apart, collide_end),
		cmocka_unit_test_teardown(collisions_in_a_batch, collide_end),
		cmocka_unit_test_teardown(collisions_without_end, collide_end),
		cmocka_unit_test(damage_of_plain_content),
		cmocka_unit_test(damage_of_compressed_content),
		cmocka_unit_test(damage_of_large_content),
		cmocka_unit_test(damage_of_loose_content),
		cmocka_unit_test(put_heals),
		cmocka_unit_test(put_heals_loose),
		cmocka_unit_test(limits_of_reading),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(file_too_large),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(many_threads_without_unnamed_files),
		cmocka_unit_test_teardown(many_threads_collide, collide_end),
		cmocka_unit_test(many_processes),
		cmocka_unit_test(many_heal),
		cmocka_unit_test(partial_hash_samples),
		cmocka_unit_test(fingerprints),
	};

	return shfs_unit_main(tests, argc, argv);
}
