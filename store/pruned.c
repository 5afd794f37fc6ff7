/* SPDX-License-Identifier: MIT */
#include "store/pruned.h"

#include "common/clock.h"
#include "common/io.h"
#include "store/collect.h"
#include "store/content.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MAGIC    "shfsprn\1"
#define HEAD     8
#define ID_BYTES 20 /* hash, u32 nth */
#define NAME     "pruned"

struct pruned {
	pthread_mutex_t lock;
	struct stat of;  /* the file that is mapped */
	int64_t seen_ns; /* when that was looked at */
	const char *map;
	size_t len;
};

struct pruned *pruned_new(void)
{
	struct pruned *p = calloc(1, sizeof(*p));

	if (p)
		pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void unmap(struct pruned *p)
{
	if (p->map)
		munmap((void *)p->map, p->len);
	p->map = NULL;
	p->len = 0;
	p->of = (struct stat){ 0 };
}

void pruned_free(struct pruned *p)
{
	if (!p)
		return;
	unmap(p);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static int map(struct pruned *p, int fd, const struct stat *st)
{
	void *m;

	unmap(p);
	if (st->st_size < HEAD || (st->st_size - HEAD) % ID_BYTES)
		return -EBADMSG;
	m = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED)
		return -errno;
	p->map = m;
	p->len = (size_t)st->st_size;
	p->of = *st;
	return memcmp(m, MAGIC, HEAD) ? -EBADMSG : 0;
}

/* Lock held. The file is only ever replaced. */
static int refresh(struct shfs_store *store, struct pruned *p)
{
	_cleanup_close_ int fd = -1;
	int64_t now = shfs_clock_ns(CLOCK_MONOTONIC_COARSE);
	struct stat st;

	if (!now || now == p->seen_ns)
		return 0;
	p->seen_ns = now;
	if (fstatat(store->dirfd, NAME, &st, AT_SYMLINK_NOFOLLOW)) {
		unmap(p);
		return errno == ENOENT ? 0 : -errno;
	}
	if (p->map && st.st_ino == p->of.st_ino && st.st_dev == p->of.st_dev &&
	    st.st_size == p->of.st_size && st.st_ctim.tv_sec == p->of.st_ctim.tv_sec &&
	    st.st_ctim.tv_nsec == p->of.st_ctim.tv_nsec)
		return 0;
	fd = openat(store->dirfd, NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	return map(p, fd, &st);
}

static void unpack(const char *at, struct shfs_object_id *out)
{
	struct shfs_cursor c = { (const unsigned char *)at,
		                 (const unsigned char *)at + ID_BYTES, false };

	shfs_cursor_copy(&c, out->hash, sizeof(out->hash));
	out->nth = shfs_cursor_u32(&c);
}

static int compare_packed(const void *key, const void *at)
{
	struct shfs_object_id id;

	unpack(at, &id);
	return shfs_object_compare(key, &id);
}

int shfs_object_is_pruned(struct shfs_store *store, const struct shfs_object_id *id)
{
	struct pruned *p = store->pruned;
	int r;

	pthread_mutex_lock(&p->lock);
	r = refresh(store, p);
	if (!r && p->map)
		r = !!bsearch(id, p->map + HEAD, (p->len - HEAD) / ID_BYTES, ID_BYTES,
		              compare_packed);
	pthread_mutex_unlock(&p->lock);
	return r;
}

static bool is_there(struct shfs_store *store, const struct shfs_object_id *id)
{
	_cleanup_packed_ struct packed p = { 0 };
	_cleanup_close_ int fd = -1;
	uint64_t size;
	int r = packs_read(store, id, 0, &p);

	if (r != -ENOENT)
		return true;
	fd = loose_open(store, id, &size);
	return fd != -ENOENT;
}

int shfs_object_was_pruned(struct shfs_store *store, const struct shfs_object_id *id)
{
	int r = shfs_object_is_pruned(store, id);

	if (r > 0)
		r = packs_refresh(store) ?: !is_there(store, id);
	return r;
}

static void pack(const struct shfs_object_id *id, struct shfs_buf *out)
{
	shfs_buf_add(out, id->hash, sizeof(id->hash));
	shfs_buf_u32(out, id->nth);
}

/* Both lists, each id once. */
static void merge(const struct pruned *p, const struct shfs_object_id *ids, size_t n,
                  struct shfs_buf *out)
{
	const char *at = p->map ? p->map + HEAD : NULL;
	const char *end = p->map ? p->map + p->len : NULL;
	struct shfs_object_id old;

	shfs_buf_add(out, MAGIC, HEAD);
	while (n || at != end) {
		int c = 1;

		if (at != end) {
			unpack(at, &old);
			c = n ? shfs_object_compare(&old, ids) : -1;
		}
		pack(c <= 0 ? &old : ids, out);
		if (c <= 0)
			at += ID_BYTES;
		if (c >= 0) {
			ids++;
			n--;
		}
	}
}

int pruned_add(struct shfs_store *store, const struct shfs_object_id *ids, size_t n)
{
	_cleanup_buf_ struct shfs_buf all = { 0 };
	struct pruned *p = store->pruned;
	int r;

	pthread_mutex_lock(&p->lock);
	p->seen_ns = 0;
	r = refresh(store, p);
	p->seen_ns = 0;
	if (!r)
		merge(p, ids, n, &all);
	if (!r)
		r = all.failed ? -ENOMEM
		               : shfs_write_file_at(store->dirfd, NAME, 0600, all.data,
		                                    all.len);
	pthread_mutex_unlock(&p->lock);
	return r;
}
