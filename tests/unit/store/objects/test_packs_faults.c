/* SPDX-License-Identifier: MIT */
/* Packs and puts when something fails: disks, descriptors, locks, and who comes between.
 * More tests of store/objects/packs.c, packs-commit.c, content.c and object.c. */
#include "tests/unit/packkit.h"

#include "store/objects/object-internal.h"
#include "store/objects/packs-internal.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#define KIB 1024u

/* --- system calls --- */

/* Reads of this inode fail from there on (to there), as of a disk with bad sectors. 0:
 * none. */
static ino_t bad_inode;
static off_t bad_from, bad_to;

ssize_t pread64(int fd, void *data, size_t len, off_t offset);

ssize_t pread64(int fd, void *data, size_t len, off_t offset)
{
	struct stat st;

	if (bad_inode && !fstat(fd, &st) && st.st_ino == bad_inode &&
	    (!bad_to || offset < bad_to)) {
		if (offset >= bad_from) {
			errno = EIO;
			return -1;
		}
		len = MIN(len, (size_t)(bad_from - offset));
	}
	return syscall(SYS_pread64, fd, data, len, offset);
}

/* No descriptor is left for an index that is there. */
static bool no_index_fd;

int openat64(int dirfd, const char *path, int flags, ...);

int openat64(int dirfd, const char *path, int flags, ...)
{
	size_t len = strlen(path);
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	if (no_index_fd && len > 4 && !strcmp(path + len - 4, ".idx")) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

/* Locks exclude nobody, as between network namespaces. */
static bool no_locks;

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
	return no_locks ? 0 : (int)syscall(SYS_bind, fd, address.__sockaddr__, len);
}

/* The next sync calls this first, and then fails if it shall. */
static void (*meanwhile)(void);
static bool sync_fails;
static unsigned syncs;

int fdatasync(int fd)
{
	void (*call)(void) = meanwhile;

	syncs++;
	meanwhile = NULL;
	if (call)
		call();
	if (call && sync_fails) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

/* --- helpers --- */

static uint64_t full_before;
static void (*real_hash)(const void *data, size_t len, uint8_t out[16]);

static int begin_test(void **state)
{
	full_before = packs_full_bytes;
	real_hash = shfs_object_hash;
	return 0;
}

static int end_test(void **state)
{
	packs_full_bytes = full_before;
	shfs_object_hash = real_hash;
	bad_inode = 0;
	bad_to = 0;
	no_index_fd = no_locks = sync_fails = false;
	meanwhile = NULL;
	return 0;
}

static struct shfs_put *prepare_noise(struct shfs_store *store, size_t len, uint64_t seed)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_put *put;

	kit_noise(&b, len, seed);
	assert_ok(shfs_object_put(store, b.data, b.len, 1, NULL, &put));
	return put;
}

static struct shfs_object_id put_noise(struct shfs_store *store, size_t len,
                                       uint64_t seed)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	kit_noise(&b, len, seed);
	return put_one(store, b.data, b.len, 1);
}

/* n contents, of the seeds from this one on, with one sync. */
static void put_batch(struct shfs_store *store, size_t len, uint64_t seed, unsigned n)
{
	struct shfs_put *puts[200];

	assert_true(n <= ARRAY_SIZE(puts));
	for (unsigned i = 0; i < n; i++)
		puts[i] = prepare_noise(store, len, seed + i);
	assert_ok(shfs_object_commit(store, puts, n));
	for (unsigned i = 0; i < n; i++)
		shfs_put_free(puts[i]);
}

static void assert_noise(struct shfs_store *store, const struct shfs_object_id *id,
                         size_t len, uint64_t seed)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	kit_noise(&b, len, seed);
	assert_holds(store, id, b.data, b.len);
}

static struct shfs_store *close_and_open(struct shfs_store *store)
{
	struct shfs_store *again = open_again(store);

	shfs_store_close(store);
	return again;
}

static struct stat stat_of(struct shfs_store *store, const char *path)
{
	struct stat st;

	assert_ok(fstatat(store->objects_fd, path, &st, 0));
	return st;
}

/* What the process has in memory of all packs. */
static size_t entries_in_memory(const struct shfs_store *store)
{
	size_t n = 0;

	for (size_t i = 0; i < store->packs->n; i++)
		n += store->packs->list[i]->tail.n;
	return n;
}

/* --- indexes --- */

/* A store with a pack that has an index, and goes on behind it. first: in the index. */
static struct shfs_store *continued_pack(struct shfs_object_id *first)
{
	struct shfs_store *store = kit_store();

	*first = put_noise(store, 100 * KIB, 1);
	store = close_and_open(store); /* writes the index */
	put_noise(store, 100 * KIB, 2);
	return store;
}

/* The index is gone when its producer writes it again. */
static void idx_lost(void **state)
{
	struct shfs_object_id first;
	struct shfs_store *store = continued_pack(&first);
	_cleanup_free_ char *pack = kit_pack(store), *path = index_path(pack);

	assert_ok(unlinkat(store->objects_fd, path, 0));
	store = close_and_open(store);
	assert_noise(store, &first, 100 * KIB, 1);
	shfs_store_close(store);
}

/* It cannot be opened for a moment, just then. */
static void idx_emfile(void **state)
{
	struct shfs_object_id first;
	struct shfs_store *store = continued_pack(&first);

	no_index_fd = true;
	store = close_and_open(store);
	no_index_fd = false;
	assert_noise(store, &first, 100 * KIB, 1);
	shfs_store_close(store);
}

/* An index of more than the pack has, as a backup may leave it, is not believed once a
 * producer has gone on with the pack. */
static void index_beyond(void **state)
{
	struct shfs_store *store = kit_store(), *late;
	struct shfs_object_id id;
	_cleanup_free_ char *pack = NULL;
	_cleanup_close_ int fd = -1;

	put_noise(store, 100 * KIB, 1);
	put_noise(store, 100 * KIB, 2);
	store = close_and_open(store); /* writes the index */
	pack = kit_pack(store);
	fd = openat(store->objects_fd, pack, O_WRONLY);
	assert_ok(ftruncate(fd, 100 * KIB + 200));
	id = put_noise(store, 50 * KIB, 3);
	put_noise(store, 100 * KIB, 4);
	put_noise(store, 100 * KIB, 5);
	late = open_again(store);
	assert_noise(late, &id, 50 * KIB, 3);
	shfs_store_close(late);
	shfs_store_close(store);
}

static void bad_sector_index(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id first = put_noise(store, 100 * KIB, 1), more;
	_cleanup_free_ char *pack = kit_pack(store), *path = index_path(pack);

	store = close_and_open(store); /* writes the index */
	bad_inode = stat_of(store, path).st_ino;
	bad_from = 32;
	more = put_noise(store, 5000, 2);
	assert_noise(store, &more, 5000, 2);
	assert_noise(store, &first, 100 * KIB, 1);
	shfs_store_close(store);
}

/* In the end of another's pack: what can be read of it is known, once. */
static void bad_sector_tail(void **state)
{
	struct shfs_store *store = kit_store(), *other;
	struct shfs_object_id first = put_noise(store, 500 * KIB, 1), id;
	_cleanup_free_ char *pack = kit_pack(store);
	struct stat st;
	size_t known;

	put_batch(store, 500 * KIB, 2, 10);
	st = stat_of(store, pack);
	bad_inode = st.st_ino;
	bad_from = st.st_size - 4096;
	other = open_again(store);
	put_noise(other, 5000, 20);
	known = entries_in_memory(other);
	id = put_noise(other, 5000, 21);
	assert_int_equal(entries_in_memory(other), known + 1);
	assert_noise(other, &id, 5000, 21);
	assert_noise(other, &first, 500 * KIB, 1);
	shfs_store_close(other);
	shfs_store_close(store);
}

/* One in the middle costs what lies there, and nothing behind it. */
static void bad_sector_within(void **state)
{
	struct shfs_store *store = kit_store(), *other;
	_cleanup_buf_ struct shfs_buf out = { 0 };
	_cleanup_free_ char *pack = NULL;
	struct shfs_object_id ids[8];

	for (unsigned i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = put_noise(store, 300 * KIB, i);
	pack = kit_pack(store);
	bad_inode = stat_of(store, pack).st_ino;
	bad_from = 700 * KIB;
	bad_to = 704 * KIB;
	other = open_again(store);
	for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
		if (i != 2)
			assert_noise(other, &ids[i], 300 * KIB, i);
		else
			assert_true(shfs_object_read(other, &ids[i], 300 * KIB, &out) <
			            0);
	}
	shfs_store_close(other);
	bad_inode = 0;
	other = open_again(store); /* it was not taken for all that there is */
	assert_noise(other, &ids[2], 300 * KIB, 2);
	shfs_store_close(other);
	shfs_store_close(store);
}

/* Of what another has put in full packs nothing stays in memory, as they have indexes. */
static void tails_of_others(void **state)
{
	enum { BATCH = 100, BATCHES = 20 };
	struct shfs_store *store = kit_store(), *other = open_again(store);

	packs_full_bytes = 400 * KIB;
	for (unsigned i = 0; i < BATCHES; i++) {
		put_batch(store, 1000, i * BATCH, BATCH);
		assert_ok(packs_refresh(other));
	}
	assert_in_range(entries_in_memory(other), 0, 3 * BATCH);
	shfs_store_close(other);
	shfs_store_close(store);
}

/* --- packs --- */

/* A crash right after the pack was made. */
static void empty_pack(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id id;
	char path[200];

	assert_ok(mkdirat(store->objects_fd, "packs", 0700));
	snprintf(path, sizeof(path), "packs/%s-0-000000.pack", store->host);
	assert_ok(mknodat(store->objects_fd, path, S_IFREG | 0600, 0));
	id = put_noise(store, 1000, 1);
	assert_noise(store, &id, 1000, 1);
	store = close_and_open(store);
	assert_noise(store, &id, 1000, 1);
	shfs_store_close(store);
}

static void pack_removed(void **state)
{
	struct shfs_store *store = kit_store(), *late;
	struct shfs_object_id id = put_noise(store, 1000, 1);
	_cleanup_free_ char *pack = kit_pack(store);

	assert_ok(unlinkat(store->objects_fd, pack, 0));
	id = put_noise(store, 1000, 2);
	late = open_again(store);
	assert_noise(late, &id, 1000, 2);
	shfs_store_close(late);
	shfs_store_close(store);
}

/* --- two producers --- */

static struct shfs_store *second; /* of two */
static struct shfs_object_id of_second;

static void second_puts(void)
{
	of_second = put_noise(second, 100 * KIB, 2);
}

/* Two that no lock keeps apart append to one pack, the second between the first one's
 * append and its sync. What the second was told to be durable is there. */
static void share_a_pack(int error)
{
	struct shfs_store *store = kit_store(), *late;
	struct shfs_put *put;

	no_locks = true;
	put_noise(store, 100 * KIB, 1);
	second = open_again(store);
	put_noise(second, 1000, 50);
	free(kit_pack(store)); /* there is one */
	put = prepare_noise(store, 100 * KIB, 3);
	meanwhile = second_puts;
	sync_fails = error;
	assert_int_equal(shfs_object_commit(store, &put, 1), error);
	shfs_put_free(put);
	late = close_and_open(store); /* writes the index */
	assert_noise(late, &of_second, 100 * KIB, 2);
	shfs_store_close(late);
	shfs_store_close(second);
}

static void shared_pack(void **state)
{
	share_a_pack(0);
}

static void shared_pack_eio(void **state)
{
	share_a_pack(-EIO);
}

static struct shfs_put *put_of_second;

static void second_finds(void)
{
	assert_ok(packs_refresh(second));
	put_of_second = prepare_noise(second, 1000, 5);
}

/* What the second found is cut off again, as the first one's sync failed: the second is
 * not told that it is durable. */
static void cut_meanwhile(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_put *put;

	put_noise(store, 1000, 1);
	second = open_again(store);
	put_noise(second, 1000, 2);
	put = prepare_noise(store, 1000, 5);
	meanwhile = second_finds;
	sync_fails = true;
	assert_int_equal(shfs_object_commit(store, &put, 1), -EIO);
	assert_int_equal(shfs_put_stored_bytes(put_of_second), 0); /* it was there */
	assert_int_equal(shfs_object_commit(second, &put_of_second, 1), -EIO);
	shfs_put_free(put_of_second);
	shfs_put_free(put);
	shfs_store_close(second);
	shfs_store_close(store);
}

/* What is in one pack of another is synced at once. */
static void many_syncs(void **state)
{
	struct shfs_store *store = kit_store(), *other = open_again(store);

	put_batch(store, 1000, 1, 50);
	syncs = 0;
	put_batch(other, 1000, 1, 50);
	assert_int_equal(syncs, 1);
	assert_int_equal(count_objects(store), 50);
	shfs_store_close(other);
	shfs_store_close(store);
}

/* --- deltas --- */

/* 20000 bytes of which version n changes n. */
static void version_of(struct shfs_buf *b, unsigned n)
{
	kit_noise(b, 20000, 1);
	for (unsigned i = 1; i <= n; i++)
		b->data[i * 5000] ^= 1;
}

static struct shfs_object_id put_version(struct shfs_store *store, unsigned n,
                                         const struct shfs_object_id *before)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_object_id id;
	struct shfs_put *put;

	version_of(&b, n);
	assert_ok(shfs_object_put(store, b.data, b.len, 1, before, &put));
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	shfs_put_free(put);
	return id;
}

static void damage(struct shfs_store *store, const char *path, off_t at)
{
	_cleanup_close_ int fd = openat(store->objects_fd, path, O_WRONLY);

	assert_int_equal(pwrite(fd, "damage", 6, at), 6);
}

/* A reader that finds this pack last. */
static struct shfs_store *open_and_find_last(struct shfs_store *store, const char *pack)
{
	struct shfs_store *late = open_again(store);

	assert_ok(renameat(store->objects_fd, pack, store->objects_fd, "packs/away"));
	assert_ok(packs_refresh(late));
	assert_ok(renameat(store->objects_fd, "packs/away", store->objects_fd, pack));
	assert_ok(packs_refresh(late));
	return late;
}

/* The base of a delta is itself a delta of something damaged, and was put again into
 * another pack: it is found there in whatever order packs are. */
static void healed_base(void **state)
{
	struct shfs_store *store = kit_store(), *other, *late;
	_cleanup_buf_ struct shfs_buf b = { 0 }, out = { 0 };
	_cleanup_free_ char *damaged = NULL;
	struct shfs_object_id id[3];
	struct kit_packs packs;

	for (unsigned i = 0; i < 3; i++)
		id[i] = put_version(store, i, i ? &id[i - 1] : NULL);
	damaged = kit_pack(store);
	damage(store, damaged, 1000);
	assert_int_equal(shfs_object_read(store, &id[2], 20000, &out), -EBADMSG);
	other = open_again(store);
	put_version(other, 1, NULL);
	packs = kit_packs(store);
	assert_int_equal(packs.n, 2);
	version_of(&b, 2);
	for (unsigned i = 0; i < packs.n; i++) {
		late = open_and_find_last(store, packs.names[i]);
		assert_holds(late, &id[2], b.data, b.len);
		shfs_store_close(late);
	}
	kit_packs_free(&packs);
	shfs_store_close(other);
	shfs_store_close(store);
}

/* --- puts --- */

static void same_for_all(const void *data, size_t len, uint8_t out[16])
{
	memset(out, 7, 16);
}

/* One that is too large to be read for a comparison is another, not a damaged one; one of
 * the same length is compared. */
static void collide_large(void **state)
{
	struct shfs_store *store = kit_store();
	struct shfs_object_id large, small, other;

	shfs_object_hash = same_for_all;
	large = put_noise(store, 33 << 20, 1);
	small = put_noise(store, 2 << 20, 2);
	assert_int_equal(small.nth, 1);
	other = put_noise(store, 2 << 20, 3);
	assert_int_equal(other.nth, 2);
	assert_noise(store, &large, 33 << 20, 1);
	assert_noise(store, &small, 2 << 20, 2);
	assert_noise(store, &other, 2 << 20, 3);
	shfs_store_close(store);
}

/* A delta whose base was not committed goes alone; where there is no room for that, it is
 * still what it was. */
static void settle_fails(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_put *base, *put;
	struct shfs_object_id id;
	struct rlimit before;

	kit_noise(&b, 2 << 20, 1);
	assert_ok(shfs_object_put(store, b.data, b.len, 1, NULL, &base));
	b.data[1000] ^= 1;
	assert_ok(shfs_object_put(store, b.data, b.len, 1, NULL, &put));
	before = kit_limit_files(1 << 20);
	assert_int_equal(shfs_object_commit(store, &put, 1), -EFBIG);
	assert_ok(setrlimit(RLIMIT_FSIZE, &before));
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	assert_holds(store, &id, b.data, b.len);
	shfs_put_free(base);
	shfs_put_free(put);
	shfs_store_close(store);
}

/* A small delta that waits for its commit keeps the content in memory. */
static void waiting_memory(void **state)
{
	struct shfs_store *store = kit_store();
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_put *put;

	kit_noise(&b, 500 * KIB, 1);
	put_one(store, b.data, b.len, 1);
	b.data[1000] ^= 1;
	assert_ok(shfs_object_put(store, b.data, b.len, 1, NULL, &put));
	assert_true(shfs_put_stored_bytes(put) < b.len / 2);
	assert_true(shfs_put_memory(put) >= b.len);
	shfs_put_free(put);
	shfs_store_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(idx_lost),         TEST(idx_emfile),      TEST(index_beyond),
		TEST(bad_sector_index), TEST(bad_sector_tail), TEST(bad_sector_within),
		TEST(tails_of_others),  TEST(empty_pack),      TEST(pack_removed),
		TEST(shared_pack),      TEST(shared_pack_eio), TEST(cut_meanwhile),
		TEST(many_syncs),       TEST(healed_base),     TEST(collide_large),
		TEST(settle_fails),     TEST(waiting_memory),
	};

	return shfs_unit_main(tests, argc, argv);
}
