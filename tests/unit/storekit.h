/* SPDX-License-Identifier: MIT */
/*
 * storekit.h - a store in a directory of its own, small file systems, and file helpers.
 */
#pragma once

#include "tests/unit/unit.h"

#include "common/io.h"
#include "common/path.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>

#define assert_ok(r) assert_int_equal((r), 0)

static inline _unused_ struct shfs_store *kit_store_at(const char *dir)
{
	_cleanup_free_ char *path = shfs_path_join(dir, "store");
	struct shfs_store *store;

	assert_ok(shfs_store_open(path, SHFS_STORE_CREATE, &store));
	return store;
}

static inline _unused_ struct shfs_store *kit_store(void)
{
	return kit_store_at(shfs_unit_tmpdir());
}

/* Bytes that do not compress, different for each seed. */
static inline _unused_ void kit_noise(struct shfs_buf *b, size_t len, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15 + 0x1234567;

	b->len = 0;
	while (b->len < len) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		shfs_buf_add(b, &x, MIN(len - b->len, sizeof(x)));
	}
	shfs_buf_add(b, "", 0);
	assert_false(b->failed);
}

static inline _unused_ void kit_read(int dirfd, const char *name, struct shfs_buf *out)
{
	out->len = 0;
	assert_ok(shfs_read_file_at(dirfd, name, 1 << 30, out));
}

static const char *kit_small;

static inline _unused_ void kit_small_end(void)
{
	if (kit_small)
		umount2(kit_small, MNT_DETACH);
	kit_small = NULL;
}

/* A file system of so many bytes, until kit_small_end. NULL: not allowed here. */
static inline _unused_ const char *kit_small_begin(size_t bytes)
{
	const char *dir = shfs_unit_tmpdir();
	char options[64];

	kit_small_end();
	snprintf(options, sizeof(options), "size=%zu,mode=0700", bytes);
	if (mount("tmpfs", dir, "tmpfs", 0, options))
		return NULL;
	kit_small = dir;
	atexit(kit_small_end); /* also when the test fails */
	return dir;
}

/* A file takes all the room that there is. */
static inline _unused_ void kit_fill(int dirfd, const char *name)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	static const char zeros[4096];

	assert_true(fd >= 0);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
}

/* No file may grow beyond bytes: EFBIG, as for ENOSPC in the middle of a write. */
static inline _unused_ struct rlimit kit_limit_files(size_t bytes)
{
	struct rlimit before, now;

	signal(SIGXFSZ, SIG_IGN);
	assert_ok(getrlimit(RLIMIT_FSIZE, &before));
	now = before;
	now.rlim_cur = bytes;
	assert_ok(setrlimit(RLIMIT_FSIZE, &now));
	return before;
}
