/* SPDX-License-Identifier: MIT */
/* Tests of store/capture/snapshot.c. */
#include "tests/unit/capturekit.h"

#include "store/capture/capture-internal.h"

/* Takes fd at this depth and returns what the journal then says. */
static struct shfs_content take(struct kit *k, int fd, enum shfs_depth depth,
                                uint64_t max_bytes, uint32_t skip)
{
	struct shfs_snapshot *s = shfs_snapshot_new(k->capture);
	_cleanup_free_ struct kit_journal *j = NULL;

	assert_int_equal(shfs_snapshot_depth(s), -1);
	shfs_snapshot_take(s, fd, depth, max_bytes, skip);
	assert_true(shfs_snapshot_wait(s, 10000));
	kit_emit_preimage(k, "it", s);
	shfs_snapshot_unref(s);
	kit_close(k);
	j = kit_read_journal(k);
	return kit_find(j, "it")->preimage.content;
}

static void assert_stat(const struct shfs_content *c, int fd)
{
	struct stat st;

	assert_ok(fstat(fd, &st));
	assert_true(c->flags & SHFS_CONTENT_KNOWN);
	assert_int_equal(c->mode, st.st_mode);
	assert_int_equal(c->size, st.st_size);
	assert_true(c->mtime_ns == shfs_timespec_ns(st.st_mtim));
	assert_true(c->ctime_ns == shfs_timespec_ns(st.st_ctim));
}

static uint64_t partial_hash(int fd)
{
	uint64_t hash = 0;
	struct stat st;

	assert_ok(fstat(fd, &st));
	assert_ok(shfs_object_partial_hash(fd, (uint64_t)st.st_size, &hash));
	return hash;
}

/* --- depths --- */

static void depth_stat(void **state)
{
	struct kit k = { 0 };
	struct shfs_content c;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = kit_file(&k, "f", 5000, 1);
	c = take(&k, fd, SHFS_DEPTH_STAT, MANY, SHFS_CONTENT_SKIP_RULE);
	assert_int_equal(c.flags, SHFS_CONTENT_KNOWN | SHFS_CONTENT_SKIP_RULE);
	assert_stat(&c, fd);
	close(fd);
	kit_end(&k);
}

static void depth_fingerprint(void **state)
{
	struct kit k = { 0 };
	struct shfs_content c;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = kit_file(&k, "f", 5000, 1);
	c = take(&k, fd, SHFS_DEPTH_FINGERPRINT, MANY, 0);
	assert_int_equal(c.flags, SHFS_CONTENT_KNOWN | SHFS_CONTENT_PHASH);
	assert_stat(&c, fd);
	assert_true(c.phash == partial_hash(fd));
	close(fd);
	kit_end(&k);
}

/* Empty, read by the caller, read by an archiver. */
static void depth_archive(void **state)
{
	static const size_t sizes[] = { 0, 1, 16384, 16385, 3000000 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct kit k = { 0 };
		struct shfs_content c;
		int fd;

		kit_begin(&k, kit_store(), 0, 0);
		fd = kit_file(&k, "f", sizes[i], i);
		c = take(&k, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
		assert_int_equal(c.flags, SHFS_CONTENT_KNOWN | SHFS_CONTENT_PHASH |
		                                  SHFS_CONTENT_OBJECT);
		assert_stat(&c, fd);
		assert_true(c.phash == partial_hash(fd));
		kit_assert_object(&k, &c, sizes[i], i);
		close(fd);
		kit_end(&k);
	}
}

static void too_large(void **state)
{
	struct kit k = { 0 };
	struct shfs_content c;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = kit_file(&k, "f", 5001, 1);
	c = take(&k, fd, SHFS_DEPTH_ARCHIVE, 5000, 0);
	assert_int_equal(c.flags, SHFS_CONTENT_KNOWN | SHFS_CONTENT_PHASH |
	                                  SHFS_CONTENT_SKIP_SIZE);
	assert_stat(&c, fd);
	assert_true(c.phash == partial_hash(fd));
	close(fd);
	kit_end(&k);
}

static void not_a_regular_file(void **state)
{
	static const enum shfs_depth depths[] = { SHFS_DEPTH_STAT, SHFS_DEPTH_FINGERPRINT,
		                                  SHFS_DEPTH_ARCHIVE };

	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		struct kit k = { 0 };
		struct shfs_content c;
		int fds[2];

		kit_begin(&k, kit_store(), 0, 0);
		assert_ok(pipe(fds));
		c = take(&k, fds[0], depths[i], MANY, 0);
		assert_int_equal(c.flags, SHFS_CONTENT_KNOWN | SHFS_CONTENT_SKIP_TYPE);
		assert_true(S_ISFIFO(c.mode));
		close(fds[0]);
		close(fds[1]);
		kit_end(&k);
	}
}

/* An fd that cannot be read: small, large, and not even an fd. */
static void unreadable(void **state)
{
	static const size_t sizes[] = { 100, 100000 };

	for (int i = 0; i < 6; i++) {
		struct kit k = { 0 };
		struct shfs_content c;
		int fd, wronly;

		kit_begin(&k, kit_store(), 0, 0);
		fd = kit_file(&k, "f", sizes[i % 2], 1);
		wronly = openat(k.dirfd, "f", i < 2 ? O_WRONLY : O_PATH);
		c = take(&k, i < 4 ? wronly : -1,
		         i == 5 ? SHFS_DEPTH_FINGERPRINT : SHFS_DEPTH_ARCHIVE, MANY, 0);
		if (i < 4) {
			assert_int_equal(c.flags,
			                 SHFS_CONTENT_KNOWN | SHFS_CONTENT_SKIP_ERROR);
			assert_stat(&c, fd);
		} else {
			assert_int_equal(c.flags, SHFS_CONTENT_SKIP_ERROR);
		}
		close(fd);
		close(wronly);
		kit_end(&k);
	}
}

/* What was read worse before is read again, what is known is not: nor a ctime that a
 * rename has set meanwhile. */
static void deepening(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	struct shfs_content c;
	struct stat first;
	int fd, wronly;

	kit_begin(&k, kit_store(), 0, 0);
	fd = kit_file(&k, "f", 5000, 1);
	wronly = openat(k.dirfd, "f", O_WRONLY);
	s = shfs_snapshot_new(k.capture);
	shfs_snapshot_take(s, fd, SHFS_DEPTH_STAT, MANY, SHFS_CONTENT_SKIP_RULE);
	assert_int_equal(shfs_snapshot_depth(s), SHFS_DEPTH_STAT);
	shfs_snapshot_take(s, fd, SHFS_DEPTH_FINGERPRINT, MANY, 0);
	assert_int_equal(shfs_snapshot_depth(s), SHFS_DEPTH_FINGERPRINT);
	assert_ok(fstat(fd, &first));
	usleep(20000);
	assert_ok(renameat(k.dirfd, "f", k.dirfd, "renamed"));
	shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, 4999, 0);
	assert_int_equal(shfs_snapshot_depth(s), SHFS_DEPTH_FINGERPRINT);
	shfs_snapshot_take(s, wronly, SHFS_DEPTH_ARCHIVE, MANY, 0);
	assert_true(shfs_snapshot_depth(s) < SHFS_DEPTH_ARCHIVE);
	shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
	assert_int_equal(shfs_snapshot_depth(s), SHFS_DEPTH_ARCHIVE);
	shfs_snapshot_take(s, -1, SHFS_DEPTH_ARCHIVE, MANY, SHFS_CONTENT_SKIP_RULE);
	shfs_snapshot_take(s, -1, SHFS_DEPTH_STAT, MANY, SHFS_CONTENT_SKIP_RULE);
	kit_emit_preimage(&k, "it", s);
	shfs_snapshot_unref(s);
	kit_close(&k);
	j = kit_read_journal(&k);
	c = kit_find(j, "it")->preimage.content;
	assert_int_equal(c.flags,
	                 SHFS_CONTENT_KNOWN | SHFS_CONTENT_PHASH | SHFS_CONTENT_OBJECT);
	assert_true(c.ctime_ns == shfs_timespec_ns(first.st_ctim));
	kit_assert_object(&k, &c, 5000, 1);
	close(fd);
	close(wronly);
	kit_end(&k);
}

static void references(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *s, *never;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = kit_file(&k, "f", 500000, 1);
	never = shfs_snapshot_new(k.capture);
	assert_true(shfs_snapshot_wait(never, 0));
	s = kit_archive(&k, fd);
	assert_ptr_equal(shfs_snapshot_ref(s), s);
	shfs_snapshot_unref(s); /* dropped while it is being read */
	shfs_snapshot_unref(s);
	shfs_snapshot_unref(NULL);
	kit_close(&k);
	shfs_snapshot_unref(never); /* after the close */
	close(fd);
	kit_end(&k);
}

/* --- waiting --- */

/* The writer of the next change is held until the bytes have been read. */
static void wait_until_read(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	struct shfs_content c;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	for (unsigned i = 0; i < 200; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		fd = kit_file(&k, name, 20000 + i, i);
		s = kit_archive(&k, fd);
		kit_emit_preimage(&k, name, s);
		assert_true(shfs_snapshot_wait(s, 10000));
		assert_int_equal(pwrite(fd, "changed", 7, 10000), 7);
		assert_ok(ftruncate(fd, 17));
		shfs_snapshot_unref(s);
		close(fd);
	}
	kit_close(&k);
	j = kit_read_journal(&k);
	for (unsigned i = 0; i < 200; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		c = kit_find(j, name)->preimage.content;
		assert_false(c.flags & SHFS_CONTENT_INCOMPLETE);
		kit_assert_object(&k, &c, 20000 + i, i);
	}
	kit_end(&k);
}

/* An archiver hangs in reading the file "it" of so many bytes. */
static int hang(struct kit *k, struct shfs_snapshot **s)
{
	int fd = kit_hang(k, "it", 5, s);

	kit_until(kit_waiting == 1);
	return fd;
}

/* Lets the reading go on, and returns what the journal then says. */
static struct shfs_content unhang(struct kit *k, struct shfs_snapshot *s, int fd)
{
	_cleanup_free_ struct kit_journal *j = NULL;

	kit_gate = 0;
	kit_emit_preimage(k, "it", s);
	shfs_snapshot_unref(s);
	close(fd);
	kit_close(k);
	j = kit_read_journal(k);
	return kit_find(j, "it")->preimage.content;
}

static void wait_is_bounded(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	struct shfs_content c;
	int64_t begin, took;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = hang(&k, &s);
	usleep(50000);
	begin = kit_now_ms();
	assert_false(shfs_snapshot_wait(s, 100));
	took = kit_now_ms() - begin;
	assert_true(took >= 99 && took < 5000);
	assert_false(shfs_snapshot_wait(s, 0));
	c = unhang(&k, s, fd); /* nothing changed after all */
	assert_false(c.flags & SHFS_CONTENT_INCOMPLETE);
	kit_assert_object(&k, &c, 100000, 5);
	kit_end(&k);
}

static void change_after_the_wait(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	struct shfs_content c;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = hang(&k, &s);
	assert_false(shfs_snapshot_wait(s, 30));
	assert_int_equal(pwrite(fd, "changed", 7, 50000), 7);
	c = unhang(&k, s, fd);
	assert_true(c.flags & SHFS_CONTENT_INCOMPLETE);
	kit_end(&k);
}

/* A wait that is given up at once: a change may fall into the tick of the last one, and
 * nobody could see it. */
static void change_within_a_tick(void **state)
{
	bool quick = false;

	for (int i = 0; i < 50 && !quick; i++) {
		int64_t begin;
		struct kit k = { 0 };
		struct shfs_snapshot *s;
		struct shfs_content c;
		int fd;

		kit_begin(&k, kit_store(), 0, 0);
		fd = kit_file(&k, "it", 20000, 5);
		begin = shfs_clock_ns(CLOCK_REALTIME);
		kit_gate = kit_inode(fd);
		s = kit_archive(&k, fd);
		while (!kit_waiting)
			;
		assert_false(shfs_snapshot_wait(s, 0));
		quick = shfs_clock_ns(CLOCK_REALTIME) - begin < 5000000;
		c = unhang(&k, s, fd);
		if (quick)
			assert_true(c.flags & SHFS_CONTENT_INCOMPLETE);
		kit_end(&k);
	}
	assert_true(quick);
}

/* Someone wrote to the file below the mount while it was read: never silently wrong. */
static void change_under_the_read(void **state)
{
	for (int how = 0; how < 4; how++) {
		struct kit k = { 0 };
		struct shfs_snapshot *s;
		struct shfs_content c;
		int fd;

		kit_begin(&k, kit_store(), 0, 0);
		fd = hang(&k, &s);
		usleep(20000);
		if (how == 0)
			assert_int_equal(pwrite(fd, "changed", 7, 50000), 7);
		else if (how == 1)
			assert_ok(ftruncate(fd, 10));
		else if (how == 2)
			assert_ok(ftruncate(fd, 200000));
		else
			assert_ok(futimens(fd, NULL));
		c = unhang(&k, s, fd);
		assert_true(c.flags & SHFS_CONTENT_INCOMPLETE);
		kit_end(&k);
	}
}

/* A chmod or rename right after the close leaves the bytes as they are. */
static void chmod_under_the_read(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	struct shfs_content c;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = hang(&k, &s);
	usleep(20000);
	assert_ok(fchmod(fd, 0640));
	assert_ok(renameat(k.dirfd, "it", k.dirfd, "renamed"));
	c = unhang(&k, s, fd);
	assert_false(c.flags & SHFS_CONTENT_INCOMPLETE);
	assert_int_equal(c.mode & 07777, 0640);
	kit_assert_object(&k, &c, 100000, 5);
	kit_end(&k);
}

/* cp -p and rsync set the times right after the close: that makes no other content. */
static void times_set_under_the_read(void **state)
{
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	struct kit k = { 0 };
	struct shfs_snapshot *s;
	struct shfs_content c;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = hang(&k, &s);
	shfs_snapshot_touch(s);
	assert_ok(futimens(fd, times));
	c = unhang(&k, s, fd);
	assert_false(c.flags & SHFS_CONTENT_INCOMPLETE);
	assert_int_equal(c.mtime_ns, SHFS_NSEC_PER_SEC);
	kit_assert_object(&k, &c, 100000, 5);
	kit_end(&k);
}

/* All archivers hang: who waits for another file reads it himself. */
static void wait_reads_itself(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct shfs_snapshot *stuck, *s;
	struct kit k = { 0 };
	int fd, other;

	kit_begin(&k, kit_store(), 0, 1);
	fd = hang(&k, &stuck);
	other = kit_file(&k, "other", 200000, 6);
	s = kit_archive(&k, other);
	assert_true(shfs_snapshot_wait(s, 100));
	assert_ok(ftruncate(other, 0));
	kit_emit_preimage(&k, "other", s);
	shfs_snapshot_unref(s);
	close(other);
	unhang(&k, stuck, fd);
	j = kit_read_journal(&k);
	kit_assert_object(&k, &kit_find(j, "other")->preimage.content, 200000, 6);
	kit_end(&k);
}

/* No descriptor is left to hand a file over with: it is read at once. */
static void no_descriptor(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct shfs_snapshot *stuck, *s;
	struct rlimit before, few;
	struct kit k = { 0 };
	int fd, other;

	kit_begin(&k, kit_store(), 0, 1);
	fd = hang(&k, &stuck); /* nobody else needs one meanwhile */
	other = kit_file(&k, "other", 200000, 6);
	s = shfs_snapshot_new(k.capture);
	assert_ok(getrlimit(RLIMIT_NOFILE, &before));
	few = before;
	few.rlim_cur = 0;
	assert_ok(setrlimit(RLIMIT_NOFILE, &few));
	shfs_snapshot_take(s, other, SHFS_DEPTH_ARCHIVE, MANY, 0);
	assert_ok(setrlimit(RLIMIT_NOFILE, &before));
	kit_emit_preimage(&k, "other", s);
	shfs_snapshot_unref(s);
	close(other);
	unhang(&k, stuck, fd);
	j = kit_read_journal(&k);
	kit_assert_object(&k, &kit_find(j, "other")->preimage.content, 200000, 6);
	kit_end(&k);
}

/* --- too much in flight --- */

static size_t small_memory(struct kit *k)
{
	size_t bytes;

	pthread_mutex_lock(&k->capture->lock);
	bytes = k->capture->small_memory;
	pthread_mutex_unlock(&k->capture->lock);
	return bytes;
}

/* Takes a small file, the n-th one; its snapshot gets to that depth. */
static void take_small(struct kit *k, unsigned n, int depth)
{
	struct shfs_snapshot *s = shfs_snapshot_new(k->capture);
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "small%u", n);
	fd = kit_file(k, name, CAPTURE_INLINE_MAX, 200 + (uint64_t)n);
	shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
	assert_int_equal(shfs_snapshot_depth(s), depth);
	kit_emit_preimage(k, name, s);
	shfs_snapshot_unref(s);
	close(fd);
}

/*
 * Many readers fill the memory while nothing can be stored: the rest is said to be cut.
 */
static void budget(void **state)
{
	enum { FILES = 8, BYTES = 12 << 20 };
	_cleanup_free_ struct kit_journal *j = NULL;
	struct shfs_snapshot *s[FILES], *stuck;
	struct kit k = { 0 };
	unsigned cut = 0, archived = 0, small = 0;
	char name[16];
	int64_t begin;
	int fd, big[FILES];

	assert_ok(shfs_config_init(&k.config));
	k.config.wait_ms = 50;
	kit_begin(&k, kit_store(), 0, 1);
	fd = hang(&k, &stuck);
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "big%d", i);
		big[i] = kit_file(&k, name, BYTES, 100 + (uint64_t)i);
	}
	begin = kit_now_ms();
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "big%d", i);
		s[i] = shfs_snapshot_new(k.capture);
		shfs_snapshot_take(s[i], big[i], SHFS_DEPTH_ARCHIVE, MANY, 0);
		shfs_snapshot_wait(s[i], 50); /* reads it, as the archiver hangs */
		kit_emit_preimage(&k, name, s[i]);
	}
	/* the large files have left some memory to the small ones, but it has an end, too
	 */
	while (small_memory(&k) < CAPTURE_SMALL_MAX)
		take_small(&k, small++, SHFS_DEPTH_ARCHIVE);
	take_small(&k, small, SHFS_DEPTH_FINGERPRINT);
	assert_true(kit_now_ms() - begin < 20000);
	unhang(&k, stuck, fd);
	j = kit_read_journal(&k);
	for (int i = 0; i < FILES; i++) {
		const struct shfs_content *c;
		snprintf(name, sizeof(name), "big%d", i);
		c = &kit_find(j, name)->preimage.content;
		if (c->flags & SHFS_CONTENT_OBJECT) {
			kit_assert_object(&k, c, BYTES, 100 + (uint64_t)i);
			archived++;
		} else {
			assert_true(c->flags & SHFS_CONTENT_SKIP_BUDGET);
			cut++;
		}
		shfs_snapshot_unref(s[i]);
		close(big[i]);
	}
	assert_int_equal(archived + cut, FILES);
	assert_true(archived >= 5); /* 64 MiB hold that many */
	assert_true(small > 0);
	snprintf(name, sizeof(name), "small%u", small - 1);
	kit_assert_object(&k, &kit_find(j, name)->preimage.content, CAPTURE_INLINE_MAX,
	                  200 + small - 1);
	snprintf(name, sizeof(name), "small%u", small);
	assert_int_equal(kit_find(j, name)->preimage.content.flags,
	                 SHFS_CONTENT_KNOWN | SHFS_CONTENT_PHASH |
	                         SHFS_CONTENT_SKIP_BUDGET);
	kit_end(&k);
}

static bool archivers_sleep(struct kit *k)
{
	bool sleep;

	pthread_mutex_lock(&k->capture->lock);
	sleep = !k->capture->n_up;
	pthread_mutex_unlock(&k->capture->lock);
	return sleep;
}

static struct shfs_snapshot *take_all(struct kit *k, int fd)
{
	struct shfs_snapshot *s = shfs_snapshot_new(k->capture);

	shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, UINT64_MAX, 0);
	return s;
}

static void *wait_long(void *arg)
{
	shfs_snapshot_wait(arg, 60000);
	return NULL;
}

/* A file takes all the memory while who waits for it reads it; when that fails, the
 * archiver goes on with the next one. */
static void lost_wakeup(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct shfs_snapshot *first, *huge, *next;
	struct kit k = { 0 };
	pthread_t waiter;
	int fds[3];

	kit_begin(&k, kit_store(), 0, 1);
	fds[0] = kit_file(&k, "first", 20000, 1);
	fds[1] = openat(k.dirfd, "huge", O_WRONLY | O_CREAT, 0600); /* not readable */
	assert_ok(ftruncate(fds[1], CAPTURE_MEMORY_MAX));
	fds[2] = kit_file(&k, "next", 20000, 3);
	kit_gate = kit_inode(fds[0]);
	kit_other_gate = kit_inode(fds[1]);
	first = take_all(&k, fds[0]);
	kit_until(kit_waiting == 1); /* the archiver */
	huge = take_all(&k, fds[1]);
	assert_ok(pthread_create(&waiter, NULL, wait_long, huge));
	kit_until(kit_waiting == 2);
	next = take_all(&k, fds[2]);
	kit_gate = 0;
	kit_until(archivers_sleep(&k));
	kit_other_gate = 0;
	assert_ok(pthread_join(waiter, NULL));
	kit_emit_preimage(&k, "next", next);
	kit_until(kit_stats(&k).records == 1);
	j = kit_read_journal(&k);
	kit_assert_object(&k, &kit_find(j, "next")->preimage.content, 20000, 3);
	shfs_snapshot_unref(first);
	shfs_snapshot_unref(huge);
	shfs_snapshot_unref(next);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	kit_end(&k);
}

/* --- many at once --- */

struct taker {
	pthread_t thread;
	struct kit *k;
	struct shfs_snapshot *shared;
	int shared_fd;
	unsigned n;
	int failed;
};

static void *take_many(void *arg)
{
	struct taker *t = arg;

	for (unsigned i = 0; i < 40; i++) {
		struct shfs_snapshot *s = shfs_snapshot_new(t->k->capture);
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "t%u-%u", t->n, i);
		fd = openat(t->k->dirfd, i % 2 ? "small" : "large", O_RDONLY);
		shfs_snapshot_take(s, fd, i % 3, MANY, 0);
		shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
		shfs_snapshot_take(t->shared, t->shared_fd, i % 3, MANY, 0);
		t->failed |= !shfs_snapshot_wait(s, 20000);
		t->failed |= !shfs_snapshot_wait(t->shared, 20000);
		t->failed |= !kit_emit_preimage(t->k, name, s);
		shfs_snapshot_unref(s);
		close(fd);
	}
	return NULL;
}

static void many_at_once(void **state)
{
	_cleanup_free_ struct kit_journal *j = NULL;
	struct taker t[6];
	struct kit k = { 0 };
	struct shfs_snapshot *shared;
	int fd, small, large;

	kit_begin(&k, kit_store(), 0, 3);
	fd = kit_file(&k, "shared", 60000, 1);
	small = kit_file(&k, "small", 1000, 2);
	large = kit_file(&k, "large", 50000, 3);
	shared = shfs_snapshot_new(k.capture);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		t[i] = (struct taker){
			.k = &k, .shared = shared, .shared_fd = fd, .n = i
		};
		assert_ok(pthread_create(&t[i].thread, NULL, take_many, &t[i]));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		assert_ok(pthread_join(t[i].thread, NULL));
		assert_int_equal(t[i].failed, 0);
	}
	kit_emit_preimage(&k, "shared", shared);
	shfs_snapshot_unref(shared);
	kit_close(&k);
	j = kit_read_journal(&k);
	assert_int_equal(j->n, 6 * 40 + 1);
	for (unsigned i = 0; i < j->n; i++) {
		const struct shfs_content *c = &j->recs[i].preimage.content;
		unsigned seed = c->size == 1000 ? 2 : c->size == 50000 ? 3 : 1;

		kit_assert_object(&k, c, c->size, seed);
	}
	close(fd);
	close(small);
	close(large);
	kit_end(&k);
}

/* --- what a file held before --- */

static void on_sync(void *arg, int error)
{
	assert_ok(error);
	atomic_store((atomic_bool *)arg, true);
}

static void archive(struct kit *k, int fd, struct shfs_snapshot *before,
                    struct shfs_snapshot **out)
{
	struct shfs_snapshot *s = shfs_snapshot_new(k->capture);
	atomic_bool synced = false;

	if (before)
		shfs_snapshot_follow(s, before);
	shfs_snapshot_take(s, fd, SHFS_DEPTH_ARCHIVE, MANY, 0);
	assert_true(shfs_snapshot_wait(s, 10000));
	kit_emit_preimage(k, "it", s);
	assert_ok(shfs_capture_sync(k->capture, on_sync, &synced));
	kit_until(synced);
	*out = s;
}

/* A version that follows another is stored as the difference, also if so much came
 * between them that it is not remembered. */
static void versions_that_follow(void **state)
{
	struct kit k = { 0 };
	struct shfs_snapshot *first, *second, *other;
	uint64_t stored;
	int fd;

	kit_begin(&k, kit_store(), 0, 0);
	fd = kit_file(&k, "f", 50000, 1);
	archive(&k, fd, NULL, &first);
	for (unsigned i = 0; i < 5; i++) {
		_cleanup_close_ int noise = kit_file(&k, "noise", 3500000, 10 + i);

		archive(&k, noise, NULL, &other);
		shfs_snapshot_unref(other);
	}
	stored = kit_stats(&k).stored_bytes;
	assert_int_equal(pwrite(fd, "change", 6, 20000), 6);
	archive(&k, fd, first, &second);
	assert_true(kit_stats(&k).stored_bytes - stored < 300);
	assert_int_equal(pwrite(fd, "change", 6, 30000), 6);
	archive(&k, fd, second, &other);
	assert_true(kit_stats(&k).stored_bytes - stored < 600);
	shfs_snapshot_unref(first);
	shfs_snapshot_unref(second);
	shfs_snapshot_unref(other);
	close(fd);
	kit_end(&k);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(depth_stat),
		cmocka_unit_test(depth_fingerprint),
		cmocka_unit_test(depth_archive),
		cmocka_unit_test(too_large),
		cmocka_unit_test(not_a_regular_file),
		cmocka_unit_test(unreadable),
		cmocka_unit_test(deepening),
		cmocka_unit_test(references),
		cmocka_unit_test(wait_until_read),
		cmocka_unit_test(wait_is_bounded),
		cmocka_unit_test(change_after_the_wait),
		cmocka_unit_test(change_within_a_tick),
		cmocka_unit_test(change_under_the_read),
		cmocka_unit_test(chmod_under_the_read),
		cmocka_unit_test(times_set_under_the_read),
		cmocka_unit_test(wait_reads_itself),
		cmocka_unit_test(no_descriptor),
		cmocka_unit_test(budget),
		cmocka_unit_test(lost_wakeup),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(versions_that_follow),
	};

	return shfs_unit_main(tests, argc, argv);
}
