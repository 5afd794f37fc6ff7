/* SPDX-License-Identifier: MIT */
/* Packs: what is in them after accidents, with and without indexes, from several
 * producers; and deltas. The tests of store/objects/pack.c, pack-index.c, packs.c,
 * recent.c and content.c. */
#include "tests/unit/packkit.h"

#include "store/objects/content.h"
#include "store/objects/object-internal.h"

#include <sys/syscall.h>
#include <sys/wait.h>

/* --- fdatasync as a disk has it that fails --- */

static bool no_sync;
static struct shfs_store *begins_at_sync; /* another producer */

int fdatasync(int fd)
{
	struct shfs_store *other = begins_at_sync;

	begins_at_sync = NULL;
	if (other)
		assert_ok(shfs_object_begin(other));
	if (no_sync) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

/* --- helpers --- */

static uint64_t full_before;

static int begin_test(void **state)
{
	full_before = packs_full_bytes;
	return 0;
}

static void (*real_hash)(const void *data, size_t len, uint8_t out[16]);

static int end_test(void **state)
{
	packs_full_bytes = full_before;
	no_sync = false;
	if (real_hash)
		shfs_object_hash = real_hash;
	return 0;
}

/* A text of its own for each n. */
static size_t text_of(unsigned n, char out[static 2000])
{
	struct shfs_buf b = { 0 };

	kit_noise(&b, 100 + n % 7 * 50, n + 1);
	for (size_t i = 0; i < b.len; i++)
		out[i] = (char)('a' + (unsigned char)b.data[i] % 26);
	n = (unsigned)b.len;
	shfs_buf_free(&b);
	return n;
}

static struct shfs_object_id put_text(struct shfs_store *store, unsigned n)
{
	char text[2000];
	size_t len = text_of(n, text);

	return put_one(store, text, len, 1);
}

/* Is text n there, and as it was? As a query sees it, and as a producer. */
static bool has_text(struct shfs_store *store, const struct shfs_object_id *id,
                     unsigned n)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	char text[2000];
	size_t len = text_of(n, text);
	int r = shfs_object_read(store, id, sizeof(text), &out);

	if (r) {
		assert_true(r == -ENOENT || r == -EBADMSG);
		return false;
	}
	assert_int_equal(out.len, len);
	assert_memory_equal(out.data, text, len);
	return true;
}

static void write_pack(struct shfs_store *store, const char *path, const void *data,
                       size_t len)
{
	_cleanup_close_ int fd =
		openat(store->objects_fd, path, O_WRONLY | O_TRUNC | O_CREAT, 0600);

	assert_true(fd >= 0);
	assert_ok(shfs_write_all(fd, data, len));
}

/* --- accidents --- */

#define TEXTS 4

/* A crash leaves any part of the last write: what came before is there, and what comes
 * after is found, by those who saw it grow and by those who come later. */
static void torn_at_each_byte(void **state)
{
	struct shfs_store *store = kit_store(), *late;
	struct shfs_object_id id[TEXTS + 1];
	_cleanup_buf_ struct shfs_buf file = { 0 };
	_cleanup_free_ char *path = NULL;
	size_t ends[TEXTS];

	for (unsigned i = 0; i < TEXTS; i++) {
		id[i] = put_text(store, i);
		free(path);
		path = kit_pack(store);
		kit_read(store->objects_fd, path, &file);
		ends[i] = file.len;
	}
	shfs_store_close(TAKE_PTR(store));
	store = kit_store();
	assert_ok(mkdirat(store->objects_fd, "packs", 0700));
	for (size_t len = ends[0] - 3; len <= file.len; len++) {
		struct shfs_store *live = open_again(store);

		write_pack(store, path, file.data, len);
		for (unsigned i = 0; i < TEXTS; i++)
			assert_int_equal(has_text(live, &id[i], i), len >= ends[i]);
		id[TEXTS] = put_text(live, TEXTS); /* behind what is torn */
		assert_true(has_text(live, &id[TEXTS], TEXTS));
		late = open_again(store);
		for (unsigned i = 0; i < TEXTS; i++)
			assert_int_equal(has_text(late, &id[i], i), len >= ends[i]);
		assert_true(has_text(late, &id[TEXTS], TEXTS));
		shfs_store_close(late);
		shfs_store_close(live);
		free(kit_pack(store)); /* it was continued */
	}
	shfs_store_close(store);
}

static unsigned count_texts(struct shfs_store *store, const struct shfs_object_id *id,
                            unsigned n)
{
	unsigned there = 0;

	for (unsigned i = 0; i < n; i++)
		there += has_text(store, &id[i], i);
	return there;
}

/* Damage costs the frame that it is in, whoever looks. */
static void one_damaged_frame(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id id[20];
	_cleanup_buf_ struct shfs_buf file = { 0 };
	_cleanup_free_ char *path = NULL;

	for (unsigned i = 0; i < 20; i++)
		id[i] = put_text(store, i);
	path = kit_pack(store);
	kit_read(store->objects_fd, path, &file);
	for (size_t i = PACK_HEAD_BYTES; i < file.len; i += 23) {
		struct shfs_store *late;

		file.data[i] ^= 0x11;
		write_pack(store, path, file.data, file.len);
		assert_int_equal(count_texts(store, id, 20), 19);
		late = open_again(store);
		assert_int_equal(count_texts(late, id, 20), 19);
		shfs_store_close(late);
		file.data[i] ^= 0x11;
	}
	/* zeros in the middle, as after a power cut; and all that was there before */
	write_pack(store, path, file.data, file.len);
	memset(file.data + 2000, 0, 700);
	write_pack(store, path, file.data, file.len);
	assert_true(count_texts(store, id, 20) >= 15);
	shfs_store_close(store);
}

/* A sync that failed: what may not be on the disk is not there for anybody. */
static void failed_sync(void **state)
{
	struct shfs_store *store = kit_store(), *late;
	struct shfs_object_id id = put_text(store, 0), lost;
	struct shfs_put *put;
	char text[2000];
	size_t len = text_of(1, text);

	assert_ok(shfs_object_put(store, text, len, 1, NULL, &put));
	no_sync = true;
	assert_int_equal(shfs_object_commit(store, &put, 1), -EIO);
	lost = shfs_put_id(put);
	assert_false(has_text(store, &lost, 1));
	late = open_again(store);
	assert_false(has_text(late, &lost, 1));
	assert_true(has_text(late, &id, 0));
	shfs_store_close(late);
	no_sync = false;
	assert_ok(shfs_object_commit(store, &put, 1));
	lost = shfs_put_id(put);
	assert_true(has_text(store, &lost, 1));
	assert_true(has_text(store, &id, 0));
	shfs_put_free(put);
	shfs_store_close(store);
}

/* --- producers --- */

static void die(struct shfs_store *store, unsigned begin, unsigned end)
{
	for (unsigned i = begin; i < end; i++)
		put_text(store, i);
	kill(getpid(), SIGKILL);
}

/* Who comes after a producer that was killed continues its pack. */
static void adoption(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id id[60];
	int status;

	for (unsigned round = 0; round < 6; round++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid)
			die(store, round * 10, round * 10 + 10);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
	}
	free(kit_pack(store)); /* there is one */
	assert_int_equal(count_objects(store), 60);
	for (unsigned i = 0; i < 60; i++)
		id[i] = put_text(store, i);
	assert_int_equal(count_objects(store), 60);
	assert_int_equal(count_texts(store, id, 60), 60);
	shfs_store_close(store);
}

static void many_openings_one_pack(void **state)
{
	struct shfs_store *store = kit_store(), *again;
	struct shfs_object_id id[100];

	for (unsigned i = 0; i < 100; i++) {
		again = open_again(store);
		id[i] = put_text(again, i);
		shfs_store_close(again);
	}
	free(kit_pack(store));
	assert_int_equal(count_texts(store, id, 100), 100);
	shfs_store_close(store);
}

/* Two at once write to two packs, see what the other has, and store it once. */
static void two_producers(void **state)
{
	struct shfs_store *a = kit_store(), *b = open_again(a);
	struct shfs_object_id id[40], again;
	struct kit_packs packs;

	for (unsigned i = 0; i < 40; i++)
		id[i] = put_text(i % 2 ? a : b, i);
	packs = kit_packs(a);
	assert_int_equal(packs.n, 2);
	kit_packs_free(&packs);
	for (unsigned i = 0; i < 40; i++) {
		again = put_text(i % 2 ? b : a, i);
		assert_memory_equal(&again, &id[i], sizeof(again));
	}
	assert_int_equal(count_objects(a), 40);
	assert_int_equal(count_texts(a, id, 40), 40);
	assert_int_equal(count_texts(b, id, 40), 40);
	shfs_store_close(b);
	b = open_again(a); /* takes the place that is free again */
	put_text(b, 100);
	packs = kit_packs(a);
	assert_int_equal(packs.n, 2);
	kit_packs_free(&packs);
	shfs_store_close(b);
	shfs_store_close(a);
}

static void hash_of_length(const void *data, size_t len, uint8_t out[16])
{
	memset(out, 0x77, 16);
	out[15] = (uint8_t)len;
}

/* Two producers give one hash to different contents, put before either was committed. */
static void two_producers_collide(void **state)
{
	struct shfs_store *a = kit_store(), *b = open_again(a);
	struct shfs_put *put[3];
	struct shfs_object_id id[3];

	real_hash = shfs_object_hash;
	shfs_object_hash = hash_of_length;
	assert_ok(shfs_object_put(a, "aaaa", 4, 1, NULL, &put[0]));
	assert_ok(shfs_object_put(b, "bbbb", 4, 1, NULL, &put[1]));
	assert_ok(shfs_object_put(b, "aaaa", 4, 1, NULL, &put[2]));
	assert_ok(shfs_object_commit(a, &put[0], 1));
	assert_ok(shfs_object_commit(b, &put[1], 2));
	for (int i = 0; i < 3; i++) {
		id[i] = shfs_put_id(put[i]);
		shfs_put_free(put[i]);
	}
	assert_int_equal(id[0].nth, 0);
	assert_int_equal(id[1].nth, 1);
	assert_int_equal(id[2].nth, 0);
	assert_holds(b, &id[0], "aaaa", 4);
	assert_holds(a, &id[1], "bbbb", 4);
	assert_int_equal(count_objects(a), 2);
	shfs_store_close(b);
	shfs_store_close(a);
}

/* --- indexes --- */

#define MANY 600

static void put_many(struct shfs_store *store, struct shfs_object_id id[static MANY])
{
	struct shfs_put *puts[20];
	char text[2000];

	for (unsigned i = 0; i < MANY; i += 20) {
		for (unsigned k = 0; k < 20; k++) {
			size_t len = text_of(i + k, text);

			assert_ok(shfs_object_put(store, text, len, 1, NULL, &puts[k]));
		}
		assert_ok(shfs_object_commit(store, puts, 20));
		for (unsigned k = 0; k < 20; k++) {
			id[i + k] = shfs_put_id(puts[k]);
			shfs_put_free(puts[k]);
		}
	}
}

static void assert_all_there(struct shfs_store *store,
                             const struct shfs_object_id id[static MANY])
{
	struct shfs_object_id absent;
	char text[2000];
	size_t len;

	assert_int_equal(count_texts(store, id, MANY), MANY);
	for (unsigned i = 0; i < 100; i++) {
		len = text_of(5000 + i, text);
		assert_int_equal(shfs_object_find(store, text, len, &absent), 0);
	}
	len = text_of(7, text);
	assert_int_equal(shfs_object_find(store, text, len, &absent), 1);
}

/* Many packs, each with an index or too small for one; and who opens them later. */
static void many_packs(void **state)
{
	struct shfs_store *store = kit_store(), *late;
	struct shfs_object_id id[MANY];
	struct kit_packs packs;

	packs_full_bytes = 4000;
	put_many(store, id);
	packs = kit_packs(store);
	assert_true(packs.n > 20);
	kit_packs_free(&packs);
	assert_all_there(store, id);
	late = open_again(store);
	assert_all_there(late, id);
	put_text(late, 0); /* now as a producer */
	assert_all_there(late, id);
	shfs_store_close(late);
	shfs_store_close(store);
}

/* Enough for another producer to make an index of them. */
static void put_large(struct shfs_store *store, unsigned first)
{
	_cleanup_buf_ struct shfs_buf noise = { 0 };

	for (unsigned i = 0; i < 24; i++) {
		kit_noise(&noise, 50000, first + i);
		put_one(store, noise.data, noise.len, 1);
	}
}

static int check_covered(void *arg, const struct frame *f, uint64_t offset)
{
	uint32_t *covered = arg;

	assert_true(offset < *covered);
	return 0;
}

/* The index of the only pack has each of its frames once. */
static void assert_index_is_right(struct shfs_store *store)
{
	_cleanup_free_ char *pack = kit_pack(store), *path = index_path(pack);
	struct pack_index index;
	_cleanup_close_ int fd = pack_index_open(store->objects_fd, path, &index);
	uint32_t covered = (uint32_t)index.covered;
	unsigned frames = 0;

	assert_true(fd >= 0);
	kit_each_frame(store, check_covered, &covered);
	kit_each_frame(store, kit_count_frame, &frames);
	assert_int_equal(index.n, frames);
}

/* Another producer makes the index of a pack that is still appended to, at any moment:
 * none of the two adds what it has already. */
static void two_producers_one_index(void **state)
{
	struct shfs_store *store = kit_store(), *late;

	put_large(store, 100);
	late = open_again(store);
	shfs_store_close(store);
	for (unsigned i = 0; i < 2; i++) {
		store = late;
		put_large(store, 200 + 100 * i); /* behind the index */
		late = open_again(store);
		if (i)
			begins_at_sync = late;
		else
			assert_ok(shfs_object_begin(late));
		put_text(store, i);
		shfs_store_close(store);
		store = open_again(late);
		shfs_store_close(late);
		assert_index_is_right(store);
		late = store;
	}
	shfs_store_close(late);
}

/* An index that is lost, cut, changed in any place, or of an earlier time is no harm. */
static void bad_indexes(void **state)
{
	struct shfs_store *store = kit_store(), *late;
	struct shfs_object_id id[MANY], more;
	_cleanup_free_ char *pack = NULL, *path = NULL;
	_cleanup_buf_ struct shfs_buf index = { 0 }, bad = { 0 };

	put_many(store, id);
	late = open_again(store);
	shfs_store_close(store); /* writes the index */
	store = late;
	pack = kit_pack(store);
	path = index_path(pack);
	kit_read(store->objects_fd, path, &index);
	assert_true(index.len > 4096);
	for (size_t i = 0; i < index.len; i += i < 40 ? 1 : 97) {
		bad.len = 0;
		shfs_buf_add(&bad, index.data, index.len);
		bad.data[i] ^= 0x42;
		write_pack(store, path, bad.data, bad.len);
		late = open_again(store);
		assert_int_equal(count_texts(late, id, 20), 20);
		shfs_store_close(late);
	}
	for (size_t len = 0; len < index.len; len += 1000) {
		write_pack(store, path, index.data, len);
		late = open_again(store);
		assert_int_equal(count_texts(late, id, 20), 20);
		shfs_store_close(late);
	}
	/* it goes bad while it is in use */
	write_pack(store, path, index.data, index.len);
	late = open_again(store);
	assert_int_equal(count_texts(late, id, 3), 3);
	memset(bad.data, 0x42, bad.len);
	write_pack(store, path, bad.data, bad.len);
	assert_all_there(late, id);
	shfs_store_close(late);
	/* an old one, and one of a pack that was longer */
	write_pack(store, path, index.data, index.len);
	more = put_text(store, 1000);
	late = open_again(store);
	assert_true(has_text(late, &more, 1000));
	assert_all_there(late, id);
	shfs_store_close(late);
	kit_read(store->objects_fd, pack, &bad);
	write_pack(store, pack, bad.data, bad.len / 2);
	late = open_again(store);
	assert_true(count_texts(late, id, MANY) > MANY / 3);
	shfs_store_close(late);
	write_pack(store, pack, bad.data, bad.len);
	/* none: the next producer makes it again, once it is worth it */
	assert_ok(unlinkat(store->objects_fd, path, 0));
	late = open_again(store);
	assert_all_there(late, id);
	shfs_store_close(late);
	shfs_store_close(store);
}

struct lookup {
	struct pack_entry entries[4000];
	size_t n;
};

static int check_order(void *arg, const struct pack_entry *entries, size_t n)
{
	struct lookup *l = arg;

	for (size_t i = 0; i < n; i++)
		assert_true(entries[i].offset == l->entries[l->n + i].offset);
	l->n += n;
	return 0;
}

/* Each prefix is found, and as often as it is there; those between are not. spread: how
 * the prefixes lie. */
static void lookups(const char *dir, size_t n, unsigned spread)
{
	_cleanup_close_ int dirfd = open(dir, O_RDONLY | O_DIRECTORY), fd = -1;
	static struct lookup all, seen;
	struct pack_index index;
	uint32_t offsets[64];
	uint64_t x = 88172645463325252;

	for (size_t i = 0; i < n; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		all.entries[i].prefix = (spread == 0   ? x
		                         : spread == 1 ? i * 2
		                         : spread == 2 ? UINT64_MAX - i
		                         : spread == 3 ? x % 100
		                                       : (uint64_t)1 << (i % 63)) |
		                        1;
		all.entries[i].offset = (uint32_t)i;
	}
	assert_ok(pack_index_write(dirfd, "x.idx", 12345, all.entries, n));
	fd = pack_index_open(dirfd, "x.idx", &index);
	assert_true(fd >= 0);
	assert_int_equal(index.covered, 12345);
	assert_int_equal(index.n, n);
	seen = all;
	seen.n = 0;
	assert_ok(pack_index_each(fd, &index, check_order, &seen));
	assert_int_equal(seen.n, n);
	for (size_t i = 0; i < n; i += 1 + i / 50) {
		uint64_t prefix = all.entries[i].prefix;
		size_t want = 0;

		for (size_t k = 0; k < n; k++)
			want += all.entries[k].prefix == prefix;
		assert_int_equal(pack_index_find(fd, &index, prefix, offsets, 64),
		                 MIN(want, (size_t)64));
		for (size_t k = 0; k < MIN(want, (size_t)64); k++)
			assert_true(all.entries[i].prefix == prefix);
		assert_int_equal(pack_index_find(fd, &index, prefix ^ 1, offsets, 64), 0);
	}
	assert_int_equal(pack_index_find(fd, &index, 0, offsets, 64), 0);
	assert_int_equal(pack_index_find(fd, &index, UINT64_MAX - 1, offsets, 64), 0);
}

static void index_lookups(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 339, 340, 341, 680, 681, 3777 };
	const char *dir = shfs_unit_tmpdir();

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (unsigned spread = 0; spread < 5; spread++)
			lookups(dir, sizes[i], spread);
}

/* Contents number from to below to. */
static void put_noises(struct shfs_store *store, struct shfs_object_id id[static 5],
                       unsigned from, unsigned to)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	for (unsigned i = from; i < to; i++) {
		kit_noise(&b, 600000, i + 1);
		id[i] = put_one(store, b.data, b.len, 1);
	}
}

static void assert_noises(struct shfs_store *store, const struct shfs_object_id *id,
                          unsigned from, unsigned to)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	for (unsigned i = from; i < to; i++) {
		kit_noise(&b, 600000, i + 1);
		assert_holds(store, &id[i], b.data, b.len);
	}
}

/*
 * 1. A process reads contents in a pack. It is collected.
 * 2. A mount begins another one of that name.
 * 3. The process begins to produce: of the pack that is gone it writes no index.
 * 4. The mount appends to its pack as much as the first one had.
 */
static void name_again(void **state)
{
	struct shfs_store *store = kit_store(), *reader = open_again(store), *late;
	_cleanup_free_ char *path = NULL, *index = NULL;
	struct shfs_object_id id[5];

	put_noises(store, id, 0, 2);
	assert_noises(reader, id, 0, 2);
	path = kit_pack(store);
	index = index_path(path);
	shfs_store_close(store);
	assert_ok(unlinkat(reader->objects_fd, index, 0));
	assert_ok(unlinkat(reader->objects_fd, path, 0));

	store = open_again(reader);
	put_noises(store, id, 2, 3);
	put_text(reader, 1);
	put_noises(store, id, 3, 5);
	late = open_again(reader);
	assert_noises(late, id, 2, 5);
	shfs_store_close(late);
	shfs_store_close(reader);
	shfs_store_close(store);
}

/* --- deltas --- */

struct depths {
	unsigned deltas, deepest;
	uint64_t stored;
};

static int note_depth(void *arg, const struct frame *f, uint64_t offset)
{
	struct depths *d = arg;

	d->deltas += f->kind == FRAME_DELTA;
	d->deepest = MAX(d->deepest, (unsigned)f->depth);
	d->stored += f->stored;
	return 0;
}

/* A text of len bytes, of which version n changes one place. */
static void version_of(struct shfs_buf *b, size_t len, unsigned n)
{
	kit_noise(b, len, 4711);
	for (unsigned i = 0; i <= n; i++)
		memcpy(b->data + i * 7919 % (len - 8), &i, sizeof(i));
}

static struct shfs_object_id put_version(struct shfs_store *store, size_t len, unsigned n,
                                         const struct shfs_object_id *before)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_object_id id;
	struct shfs_put *put;

	version_of(&b, len, n);
	assert_ok(shfs_object_put(store, b.data, b.len, 3, before, &put));
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	shfs_put_free(put);
	return id;
}

static void assert_version(struct shfs_store *store, const struct shfs_object_id *id,
                           size_t len, unsigned n)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	version_of(&b, len, n);
	assert_holds(store, id, b.data, b.len);
}

/* Chains end, by their length and by what must be read for them. */
static void chains_are_bounded(void **state)
{
	static const struct {
		size_t len;
		unsigned versions, deepest;
	} cases[] = { { 20000, 120, 50 }, { 600000, 40, 26 }, { 3 << 20, 12, 7 } };

	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		struct shfs_store *store = kit_store_at(shfs_unit_tmpdir()), *late;
		struct shfs_object_id id[120], *before = NULL;
		struct depths d = { 0 };
		size_t len = cases[c].len;

		for (unsigned i = 0; i < cases[c].versions; i++) {
			id[i] = put_version(store, len, i, before);
			before = &id[i];
		}
		kit_each_frame(store, note_depth, &d);
		assert_int_equal(d.deepest, cases[c].deepest);
		assert_true(d.deltas >= cases[c].versions - 4);
		late = open_again(store);
		for (unsigned i = 0; i < cases[c].versions; i += 1 + i / 5)
			assert_version(late, &id[i], len, i);
		shfs_store_close(late);
		shfs_store_close(store);
	}
}

/* The content before need not be in memory, nor in a pack. */
static void bases_from_the_store(void **state)
{
	struct shfs_store *store = kit_store(), *again;
	struct shfs_object_id id[3], other;
	struct depths d = { 0 };

	id[0] = put_version(store, 2 << 20, 0, NULL); /* loose */
	for (unsigned i = 1; i < 3; i++) {
		again = open_again(store);
		id[i] = put_version(again, 2 << 20, i, &id[i - 1]);
		shfs_store_close(again);
	}
	again = open_again(store);
	other = put_text(again, 1);
	assert_true(has_text(again, &other, 1));
	kit_each_frame(store, note_depth, &d);
	assert_int_equal(d.deltas, 2);
	assert_int_equal(d.deepest, 2);
	assert_true(d.stored < 2000);
	for (unsigned i = 0; i < 3; i++)
		assert_version(again, &id[i], 2 << 20, i);
	shfs_store_close(again);
	shfs_store_close(store);
}

/* A delta whose base is put and not committed: with it, before it, without it. */
static void bases_that_wait(void **state)
{
	for (int order = 0; order < 4; order++) {
		struct shfs_store *store = kit_store_at(shfs_unit_tmpdir()), *late;
		_cleanup_buf_ struct shfs_buf b = { 0 };
		struct shfs_object_id id[2];
		struct shfs_put *puts[2], *swapped[2];

		for (unsigned i = 0; i < 2; i++) {
			version_of(&b, 30000, i);
			assert_ok(
				shfs_object_put(store, b.data, b.len, 3, NULL, &puts[i]));
		}
		assert_true(shfs_put_stored_bytes(puts[1]) < 300);
		swapped[0] = puts[1];
		swapped[1] = puts[0];
		if (order == 0)
			assert_ok(shfs_object_commit(store, puts, 2));
		if (order == 1)
			assert_ok(shfs_object_commit(store, swapped, 2));
		if (order == 2) {
			assert_ok(shfs_object_commit(store, &puts[1], 1));
			assert_ok(shfs_object_commit(store, &puts[0], 1));
		}
		if (order == 3) {
			shfs_put_free(puts[0]);
			puts[0] = NULL;
			assert_ok(shfs_object_commit(store, &puts[1], 1));
		}
		late = open_again(store);
		for (unsigned i = order == 3; i < 2; i++) {
			id[i] = shfs_put_id(puts[i]);
			assert_version(late, &id[i], 30000, i);
			shfs_put_free(puts[i]);
		}
		shfs_store_close(late);
		shfs_store_close(store);
	}
}

/* A base that is damaged takes its deltas with it, until it is put again. */
static void damaged_base(void **state)
{
	struct shfs_store *store = kit_store(), *late;
	struct shfs_object_id id[5];
	_cleanup_buf_ struct shfs_buf file = { 0 }, out = { 0 };
	_cleanup_free_ char *path = NULL;

	for (unsigned i = 0; i < 5; i++)
		id[i] = put_version(store, 30000, i, i ? &id[i - 1] : NULL);
	path = kit_pack(store);
	kit_read(store->objects_fd, path, &file);
	file.data[1000] ^= 1;
	write_pack(store, path, file.data, file.len);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(shfs_object_read(store, &id[i], 1 << 20, &out),
		                 -EBADMSG);
	late = open_again(store);
	put_version(late, 30000, 0, NULL);
	for (unsigned i = 0; i < 5; i++)
		assert_version(late, &id[i], 30000, i);
	shfs_store_close(late);
	shfs_store_close(store);
}

/* --- packs of a stranger --- */

static void add_hostile(struct shfs_buf *b, struct frame f, const void *stored,
                        size_t len)
{
	unsigned char bytes[4096];
	size_t head = frame_head_bytes(f.kind);

	f.stored = (uint32_t)len;
	memcpy(bytes + head, stored, len);
	frame_seal(&f, bytes);
	shfs_buf_add(b, bytes, head + len);
}

/* Rings, chains without an end, deltas of nothing, sizes that nobody has. */
static void hostile_frames(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_buf_ struct shfs_buf b = { 0 }, out = { 0 };
	struct frame f = { .kind = FRAME_DELTA, .size = 100 };
	struct shfs_object_id id = { 0 };
	_cleanup_close_ int null = open("/dev/null", O_WRONLY);

	shfs_buf_add(&b, PACK_MAGIC, PACK_HEAD_BYTES);
	for (int i = 0; i < 200;
	     i++) { /* 0 of itself, 1 of 2 of 1, 3 of 4 of ... of 199 */
		memset(f.id.hash, i, 16);
		memset(f.base.hash, i == 0 ? 0 : i == 2 ? 1 : i + 1, 16);
		add_hostile(&b, f, "x", 1);
	}
	f.kind = FRAME_ZSTD;
	f.size = UINT64_MAX;
	memset(f.id.hash, 0xf0, 16);
	add_hostile(&b, f, "\x00\x58\x01\x00\x00", 5);
	f.size = 3; /* another content than its name says */
	f.kind = FRAME_RAW;
	memset(f.id.hash, 0xf1, 16);
	add_hostile(&b, f, "abc", 3);
	assert_ok(mkdirat(store->objects_fd, "packs", 0700));
	write_pack(store, "packs/stranger.pack", b.data, b.len);
	for (int i = 0; i < 256; i++) {
		int r;

		memset(id.hash, i, 16);
		r = shfs_object_read(store, &id, UINT64_MAX, &out);
		assert_true(r ==
		            (i < 200 || i == 0xf0 || i == 0xf1 ? -EBADMSG : -ENOENT));
		r = shfs_object_copy(store, &id, null);
		assert_true(r ==
		            (i < 200 || i == 0xf0 || i == 0xf1 ? -EBADMSG : -ENOENT));
	}
	/* not a file at all */
	assert_ok(mkdirat(store->objects_fd, "packs/dir.pack", 0700));
	assert_ok(symlinkat("/dev/zero", store->objects_fd, "packs/link.pack"));
	assert_ok(mknodat(store->objects_fd, "packs/pipe.pack", S_IFIFO | 0600, 0));
	assert_ok(symlinkat("/dev/zero", store->objects_fd, "packs/stranger.idx"));
	id = put_text(store, 1);
	assert_true(has_text(store, &id, 1));
	shfs_store_close(store);
}

/* Gigabytes of zeros are a small frame, and are copied without being held in memory. */
static void large_and_small(void **state)
{
	struct shfs_store *store = kit_store();
	size_t len = 300 << 20;
	char *zeros = calloc(1, len);
	struct shfs_object_id id;
	struct depths d = { 0 };
	_cleanup_close_ int null = open("/dev/null", O_WRONLY);

	assert_non_null(zeros);
	id = put_one(store, zeros, len, 1);
	free(zeros);
	kit_each_frame(store, note_depth, &d);
	assert_true(d.stored > 0 && d.stored < 100000);
	assert_ok(shfs_object_copy(store, &id, null));
	shfs_store_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(torn_at_each_byte),
		TEST(one_damaged_frame),
		TEST(failed_sync),
		TEST(adoption),
		TEST(many_openings_one_pack),
		TEST(two_producers),
		TEST(two_producers_collide),
		TEST(many_packs),
		TEST(bad_indexes),
		TEST(two_producers_one_index),
		TEST(index_lookups),
		TEST(name_again),
		TEST(chains_are_bounded),
		TEST(bases_from_the_store),
		TEST(bases_that_wait),
		TEST(damaged_base),
		TEST(hostile_frames),
		TEST(large_and_small),
	};

	return shfs_unit_main(tests, argc, argv);
}
