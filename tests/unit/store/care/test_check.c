/* SPDX-License-Identifier: MIT */
/* store/care/check-pack.c and check-contents.c: each content is unpacked, whatever it is
 * a delta of and wherever that lies. */
#include "tests/unit/solidkit.h"

#include "store/care/check.h"

#include <sys/syscall.h>

#define KIB 1024u
#define MIB (1024u * KIB)

/* Reads of this inode fail between these offsets. 0: none. */
static ino_t bad_inode;
static off_t bad_from, bad_to;

ssize_t pread64(int fd, void *data, size_t len, off_t offset);

ssize_t pread64(int fd, void *data, size_t len, off_t offset)
{
	struct stat st;

	if (bad_inode && !fstat(fd, &st) && st.st_ino == bad_inode && offset < bad_to) {
		if (offset >= bad_from) {
			errno = EIO;
			return -1;
		}
		len = MIN(len, (size_t)(bad_from - offset));
	}
	return syscall(SYS_pread64, fd, data, len, offset);
}

static uint64_t full_before;

static int begin_test(void **state)
{
	full_before = packs_full_bytes;
	return 0;
}

static int end_test(void **state)
{
	packs_full_bytes = full_before;
	bad_inode = 0;
	return 0;
}

static struct shfs_check check(struct shfs_store *store)
{
	struct shfs_check_options options = { .read_data = true };
	struct shfs_check c;

	assert_ok(shfs_check_run(store, NULL, &options, &c));
	return c;
}

/* How many flaws of the kind there are. */
static unsigned count(const struct shfs_check *c, enum shfs_flaw_kind kind)
{
	unsigned n = 0;

	for (size_t i = 0; i < c->n_flaws; i++)
		n += c->flaws[i].kind == kind;
	return n;
}

/* Puts a changed copy of b, as a delta of before if it can be. */
static struct shfs_object_id put_change(struct shfs_store *store, struct shfs_buf *b,
                                        unsigned n, const struct shfs_object_id *before)
{
	struct shfs_put *put;
	struct shfs_object_id id;

	memcpy(b->data + n * 997 % (b->len - 8), &n, sizeof(n));
	assert_ok(shfs_object_put(store, b->data, b->len, 1, before, &put));
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	shfs_put_free(put);
	return id;
}

static int count_delta(void *arg, const struct frame *f, uint64_t offset)
{
	*(unsigned *)arg += f->kind == FRAME_DELTA;
	return 0;
}

static unsigned count_deltas(struct shfs_store *store)
{
	unsigned n = 0;

	kit_each_frame(store, count_delta, &n);
	return n;
}

/* Trees of versions, far apart from each other, in one pack and over many. */
static void trees(void **state)
{
	for (int many = 0; many < 2; many++) {
		struct shfs_store *store = kit_store();
		struct shfs_object_id ids[200];
		struct shfs_buf b[4] = { 0 };
		_cleanup_check_ struct shfs_check c = { 0 };

		packs_full_bytes = many ? 70 * KIB : full_before;
		for (unsigned i = 0; i < 4; i++)
			kit_noise(&b[i], 20 * KIB, i);
		for (unsigned i = 0; i < ARRAY_SIZE(ids); i++)
			ids[i] = put_change(store, &b[i % 4], i,
			                    i < 4 ? NULL : &ids[i % 4 + i / 8 * 4]);
		assert_true(count_deltas(store) > 150);
		c = check(store);
		assert_int_equal(c.n_flaws, 0);
		assert_int_equal(c.objects, ARRAY_SIZE(ids));
		assert_int_equal(c.content_bytes, ARRAY_SIZE(ids) * 20 * KIB);
		assert_true(many ? c.packs > 1 : c.packs == 1);
		for (unsigned i = 0; i < 4; i++)
			shfs_buf_free(&b[i]);
		shfs_store_close(store);
	}
}

/* More than is held in memory, of which some waits for the others; and one that is loose.
 */
static void large(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id ids[9];
	_cleanup_buf_ struct shfs_buf b = { 0 }, part = { 0 }, noise = { 0 };
	_cleanup_check_ struct shfs_check c = { 0 };

	kit_noise(&part, 64 * KIB, 1);
	for (unsigned i = 0; i < 160; i++)
		shfs_buf_add(&b, part.data, part.len);
	kit_noise(&noise, 3 * MIB, 2);
	for (unsigned i = 0; i < 6; i++) /* each of the first half has two */
		ids[i] = put_change(store, &b, i, i ? &ids[(i - 1) / 2] : NULL);
	for (unsigned i = 6; i < 9; i++)
		ids[i] = put_change(store, &noise, i, i > 6 ? &ids[6] : NULL);
	assert_int_equal(count_deltas(store), 7);
	c = check(store);
	assert_int_equal(c.n_flaws, 0);
	assert_int_equal(c.objects, ARRAY_SIZE(ids));
	assert_int_equal(c.loose, 1);
	assert_int_equal(c.content_bytes, 6 * b.len + 3 * noise.len);
	shfs_store_close(store);
}

/* --- frames that nobody writes --- */

struct made {
	struct frame f;
	char data[100];
};

static void append(struct shfs_store *store, const char *name, const struct made *list,
                   size_t n)
{
	_cleanup_close_ int fd = openat(store->objects_fd, name,
	                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	struct stat st;

	assert_ok(fstat(fd, &st));
	if (!st.st_size)
		assert_ok(shfs_write_all(fd, PACK_MAGIC, PACK_HEAD_BYTES));
	for (size_t i = 0; i < n; i++) {
		unsigned char bytes[FRAME_DELTA_BYTES + sizeof(list->data)];
		size_t head = frame_head_bytes(list[i].f.kind);

		memcpy(bytes + head, list[i].data, list[i].f.stored);
		frame_seal(&list[i].f, bytes);
		assert_ok(shfs_write_all(fd, bytes, head + list[i].f.stored));
	}
}

/* A content of another name; deltas of it, of each other, of themselves, of nothing. */
static void wrong_bases(void **state)
{
	struct shfs_store *store = kit_store();
	struct made list[7] = { 0 };
	_cleanup_check_ struct shfs_check c = { 0 };
	_cleanup_buf_ struct shfs_buf right = { 0 };
	const unsigned bases[] = { 0, 0, 1, 4, 3, 5, 99 };

	kit_noise(&right, 1000, 9);
	put_one(store, right.data, right.len, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(list); i++) {
		list[i].f = (struct frame){ .kind = i ? FRAME_DELTA : FRAME_RAW,
			                    .size = 100,
			                    .stored = 100 };
		list[i].f.id.hash[0] = (uint8_t)i;
		list[i].f.base.hash[0] = (uint8_t)bases[i];
	}
	append(store, "packs/other-0-000000.pack", list, ARRAY_SIZE(list));
	c = check(store);
	/* what cannot be read as its base is not there is told where it is named */
	assert_int_equal(c.n_flaws, 1);
	assert_int_equal(count(&c, SHFS_FLAW_CONTENT), 1);
	assert_int_equal(c.flaws[0].offset, PACK_HEAD_BYTES);
	assert_int_equal(c.flaws[0].bytes, FRAME_HEAD_BYTES + 100);
	assert_int_equal(c.objects, 1);
	assert_int_equal(c.content_bytes, 1000);
	shfs_store_close(store);
}

/* One of a solid frame's contents is another name's: that is told, and the others count.
 */
static void wrong_member(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_check_ struct shfs_check c = { 0 };
	struct wrong_solid solid;

	put_wrong_solid(store, &solid);
	c = check(store);
	assert_int_equal(c.n_flaws, 1);
	assert_int_equal(count(&c, SHFS_FLAW_CONTENT), 1);
	assert_int_equal(c.flaws[0].offset, PACK_HEAD_BYTES);
	assert_int_equal(c.flaws[0].bytes, solid.bytes);
	assert_memory_equal(c.flaws[0].object.hash, solid.ids[1].hash, 16);
	assert_int_equal(c.objects, 2);
	assert_int_equal(c.content_bytes, 2000);
	shfs_store_close(store);
}

/* One in the middle costs what lies there, and nothing around it. */
static void bad_sector(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_check_ struct shfs_check c = { 0 };
	_cleanup_free_ char *pack = NULL;
	struct stat st;

	for (unsigned i = 0; i < 8; i++) {
		_cleanup_buf_ struct shfs_buf b = { 0 };

		kit_noise(&b, 300 * KIB, i);
		put_one(store, b.data, b.len, 1);
	}
	pack = kit_pack(store);
	assert_ok(fstatat(store->objects_fd, pack, &st, 0));
	bad_from = 700 * KIB;
	bad_to = 704 * KIB;
	bad_inode = st.st_ino;
	c = check(store);
	bad_inode = 0;
	assert_int_equal(c.n_flaws, 1);
	assert_int_equal(count(&c, SHFS_FLAW_FRAME), 1);
	assert_true(c.flaws[0].offset <= 700 * KIB &&
	            c.flaws[0].offset + c.flaws[0].bytes >= 704 * KIB);
	assert_true(strstr(c.flaws[0].text, strerror(EIO)));
	assert_int_equal(c.objects, 7);
	shfs_store_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(trees),        TEST(large),      TEST(wrong_bases),
		TEST(wrong_member), TEST(bad_sector),
	};

	return shfs_unit_main(tests, argc, argv);
}
