/* SPDX-License-Identifier: MIT */
/* What hostile packs, segments and patterns may cost: the bytes that are hashed and read
 * are counted here, never a time. */
#include "tests/unit/journalkit.h"
#include "tests/unit/packkit.h"

#include "store/journal/frame.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <xxhash.h>

#define KIB 1024u
#define MIB (1024u * KIB)

static uint64_t hashed, hashed_max, read_bytes, read_max, reads, reads_max;

XXH64_hash_t XXH3_64bits(const void *data, size_t len)
{
	hashed += len;
	if (hashed > hashed_max)
		fail_msg("more than %zu bytes were hashed", (size_t)hashed_max);
	return XXH3_64bits_withSeed(data, len, 0);
}

ssize_t pread64(int fd, void *data, size_t len, off_t offset);

ssize_t pread64(int fd, void *data, size_t len, off_t offset)
{
	ssize_t n = syscall(SYS_pread64, fd, data, len, offset);

	read_bytes += n > 0 ? (uint64_t)n : 0;
	reads++;
	if (read_bytes > read_max || reads > reads_max)
		fail_msg("%zu bytes were read, %zu times", (size_t)read_bytes,
		         (size_t)reads);
	return n;
}

static void allow(uint64_t hash_bytes, uint64_t bytes, uint64_t times)
{
	hashed = read_bytes = reads = 0;
	hashed_max = hash_bytes;
	read_max = bytes;
	reads_max = times;
}

static int begin_test(void **state)
{
	allow(UINT64_MAX, UINT64_MAX, UINT64_MAX);
	return 0;
}

/* --- packs --- */

static int file_of(const struct shfs_buf *b)
{
	int fd = memfd_create("pack", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_ok(shfs_write_all(fd, b->data, b->len));
	return fd;
}

/* A frame with so many bytes; of a delta, base is its base. */
static void add_frame(struct shfs_buf *b, uint8_t name, size_t stored,
                      const struct shfs_object_id *base)
{
	static unsigned char bytes[FRAME_DELTA_BYTES + 64];
	struct frame f = { .kind = base ? FRAME_DELTA : FRAME_RAW,
		           .size = stored,
		           .stored = (uint32_t)stored };

	assert_true(stored <= 64);
	memset(f.id.hash, name, sizeof(f.id.hash));
	if (base)
		f.base = *base;
	frame_seal(&f, bytes);
	shfs_buf_add(b, bytes, frame_head_bytes(f.kind) + stored);
}

/* The head of a frame of so many bytes that it is not of. */
static void add_head(struct shfs_buf *b, uint32_t stored)
{
	unsigned char *p;

	add_frame(b, 1, 0, NULL);
	p = (unsigned char *)b->data + b->len - FRAME_HEAD_BYTES;
	for (int i = 0; i < 4; i++)
		p[28 + i] = p[32 + i] = (unsigned char)(stored >> 8 * i);
}

static unsigned count_frames(const struct shfs_buf *b)
{
	_cleanup_close_ int fd = file_of(b);
	unsigned n = 0;
	uint64_t end;

	assert_ok(pack_scan(fd, 0, kit_count_frame, &n, &end));
	return n;
}

/* Each head may be a frame of all that follows it. */
static void pack_of_heads(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	shfs_buf_add(&b, PACK_MAGIC, PACK_HEAD_BYTES);
	while (b.len < 4 * MIB)
		add_head(&b, MIB / 2);
	add_frame(&b, 2, 5, NULL);
	allow(8 * b.len, 4 * b.len, 100);
	assert_int_equal(count_frames(&b), 1);
}

/* What was read is not read again for each frame behind damage. */
static void pack_of_gaps(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	unsigned n;

	shfs_buf_add(&b, PACK_MAGIC, PACK_HEAD_BYTES);
	for (n = 0; b.len < MIB / 2; n++) {
		add_frame(&b, (uint8_t)n, 5, NULL);
		shfs_buf_str(&b, "gap");
	}
	allow(2 * b.len, 4 * b.len, 100);
	assert_int_equal(count_frames(&b), n);
}

/* Deltas of themselves, and of one another. */
static void pack_of_rings(void **state)
{
	_cleanup_buf_ struct shfs_buf b = { 0 }, out = { 0 };
	struct shfs_store *store = kit_store();
	struct shfs_object_id id = { 0 };

	assert_ok(mkdirat(store->objects_fd, "packs", 0700));
	shfs_buf_add(&b, PACK_MAGIC, PACK_HEAD_BYTES);
	memset(id.hash, 3, sizeof(id.hash));
	add_frame(&b, 3, 5, &id);
	assert_ok(shfs_write_file_at(store->objects_fd, "packs/a.pack", 0600, b.data,
	                             b.len));
	allow(UINT64_MAX, MIB, 100);
	assert_int_equal(shfs_object_read(store, &id, MIB, &out), -EBADMSG);
	for (int i = 0; i < 30; i++)
		add_frame(&b, 3, 5, &id);
	assert_ok(shfs_write_file_at(store->objects_fd, "packs/b.pack", 0600, b.data,
	                             b.len));
	allow(UINT64_MAX, 16 * MIB, 200000);
	assert_int_equal(shfs_object_read(store, &id, MIB, &out), -EBADMSG);
	shfs_store_close(store);
}

#define MANY 400

/* A solid frame is not read again for each of its contents, in whatever order they are
 * read (but once a second). */
static void contents_of_frames(void **state)
{
	struct shfs_store *store = kit_store(), *again;
	struct shfs_object_id ids[MANY];
	struct shfs_put *puts[MANY];
	char text[4000];
	struct kit_packs p;
	struct stat st;

	for (unsigned i = 0; i < MANY; i++) {
		for (unsigned k = 0, x = i; k < sizeof(text);
		     k++, x = x * 1103515245 + 12345)
			text[k] = (char)('a' + (x >> 16) % 16);
		assert_ok(shfs_object_put(store, text, sizeof(text), 3, NULL, &puts[i]));
	}
	assert_ok(shfs_object_commit(store, puts, MANY));
	for (unsigned i = 0; i < MANY; i++) {
		ids[i] = shfs_put_id(puts[i]);
		shfs_put_free(puts[i]);
	}
	p = kit_packs(store);
	assert_int_equal(p.n, 1);
	assert_ok(fstatat(store->objects_fd, p.names[0], &st, 0));
	kit_packs_free(&p);
	again = open_again(store);
	/* one for each content would be 50 times the pack */
	allow(UINT64_MAX, 8 * (uint64_t)st.st_size, UINT64_MAX);
	for (unsigned i = 0; i < MANY; i++) {
		_cleanup_buf_ struct shfs_buf out = { 0 };

		assert_ok(shfs_object_read(again, &ids[i * 139 % MANY], MIB, &out));
		assert_int_equal(out.len, sizeof(text));
	}
	shfs_store_close(again);
	shfs_store_close(store);
}

/* --- segments --- */

/* Each head may be a frame of all that follows it; behind them comes one that is. */
static void segment_of_heads(void **state)
{
	static const char name[] = "00000000-1-1.seg";
	struct shfs_store *store = kit_store();
	struct shfs_journal *j = journal_at(store, 0);
	_cleanup_buf_ struct shfs_buf b = { 0 }, frames = { 0 };
	struct shfs_segment *s;
	struct shfs_record rec;
	unsigned n = 0;
	size_t first;

	segment_bytes(store, &b);
	first = b.len;
	append_numbered(j, 1, 3);
	segment_bytes(store, &frames);
	while (b.len < 4 * MIB) {
		shfs_buf_u32(&b, SHFS_FRAME_MAGIC);
		shfs_buf_u32(&b, MIB);
	}
	shfs_buf_add(&b, frames.data + first, frames.len - first);
	assert_ok(shfs_write_file_at(store->dirfd, name, 0600, b.data, b.len));
	for (int from_file = 0; from_file < 2; from_file++) {
		allow(512 * MIB, 512 * MIB, 100000);
		assert_ok(from_file ? shfs_segment_open(store->dirfd, name, 0, &s)
		                    : shfs_segment_from_memory(b.data, b.len, &s));
		for (n = 0; shfs_segment_next(s, &rec) == 1; n++)
			;
		assert_int_equal(n, 3);
		shfs_segment_close(s);
	}
	assert_ok(shfs_journal_close(j));
	shfs_store_close(store);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pack_of_heads, begin_test),
		cmocka_unit_test_setup(pack_of_gaps, begin_test),
		cmocka_unit_test_setup(pack_of_rings, begin_test),
		cmocka_unit_test_setup(contents_of_frames, begin_test),
		cmocka_unit_test_setup(segment_of_heads, begin_test),
	};

	return shfs_unit_main(tests, argc, argv);
}
