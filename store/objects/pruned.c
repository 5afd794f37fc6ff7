/* SPDX-License-Identifier: MIT */
#include "store/objects/pruned.h"

#include "common/clock.h"
#include "common/io.h"
#include "store/objects/away.h"
#include "store/objects/content.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC        "shfsprn\1"
#define HEAD         8
#define ID_BYTES     20 /* hash, u32 nth */
#define SUM          8  /* checksum of all ids, at the end */
#define AWAY_WAIT_MS 15000

struct pruned {
	const char *name; /* of the file, in the store; static */
	pthread_mutex_t lock;
	struct stat of;  /* the file that is mapped */
	int64_t seen_ns; /* when the file was looked at */
	const char *map;
	size_t len, n; /* bytes; ids, SIZE_MAX: it is damaged */
};

struct pruned *pruned_new(const char *name)
{
	struct pruned *p = calloc(1, sizeof(*p));

	if (p) {
		p->name = name;
		pthread_mutex_init(&p->lock, NULL);
	}
	return p;
}

static void unmap(struct pruned *p)
{
	if (p->map)
		munmap((void *)p->map, p->len);
	p->map = NULL;
	p->len = p->n = 0;
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

/* Returns the number of ids in a list; SIZE_MAX: it is damaged. */
static size_t count_packed_ids(const void *list, size_t len)
{
	struct shfs_cursor sum;

	if (len < HEAD + SUM || (len - HEAD - SUM) % ID_BYTES ||
	    memcmp(list, MAGIC, HEAD))
		return SIZE_MAX;
	sum = (struct shfs_cursor){ (const unsigned char *)list + len - SUM,
		                    (const unsigned char *)list + len, false };
	if (shfs_object_hash64(list, len - SUM) != shfs_cursor_u64(&sum))
		return SIZE_MAX;
	return (len - HEAD - SUM) / ID_BYTES;
}

static int map(struct pruned *p, int fd, const struct stat *st)
{
	size_t len = (size_t)st->st_size;
	const void *m;

	unmap(p);
	if (!len)
		return -EBADMSG;
	m = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED)
		return -errno;
	p->map = m;
	p->len = len;
	p->n = count_packed_ids(m, len);
	p->of = *st;
	return p->n == SIZE_MAX ? -EBADMSG : 0;
}

/* Lock held. Maps the file again if it was replaced; it is never changed in place. */
static int look_again(struct shfs_store *store, struct pruned *p)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (fstatat(store->dirfd, p->name, &st, AT_SYMLINK_NOFOLLOW)) {
		unmap(p);
		return errno == ENOENT ? 0 : -errno;
	}
	if (p->map && st.st_ino == p->of.st_ino && st.st_dev == p->of.st_dev &&
	    st.st_size == p->of.st_size && st.st_ctim.tv_sec == p->of.st_ctim.tv_sec &&
	    st.st_ctim.tv_nsec == p->of.st_ctim.tv_nsec)
		return p->n == SIZE_MAX ? -EBADMSG : 0;
	fd = openat(store->dirfd, p->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	return map(p, fd, &st);
}

static int refresh(struct shfs_store *store, struct pruned *p)
{
	int64_t now = shfs_clock_ns(CLOCK_MONOTONIC_COARSE);
	int r;

	if (!now || now == p->seen_ns)
		return 0;
	r = look_again(store, p);
	p->seen_ns = r ? 0 : now;
	return r;
}

static void unpack_id(const char *at, struct shfs_object_id *out)
{
	struct shfs_cursor c = { (const unsigned char *)at,
		                 (const unsigned char *)at + ID_BYTES, false };

	shfs_cursor_copy(&c, out->hash, sizeof(out->hash));
	out->nth = shfs_cursor_u32(&c);
}

static int compare_packed_id(const void *key, const void *at)
{
	struct shfs_object_id id;

	unpack_id(at, &id);
	return shfs_object_compare(key, &id);
}

int pruned_has(struct shfs_store *store, struct pruned *p,
               const struct shfs_object_id *id)
{
	int r;

	pthread_mutex_lock(&p->lock);
	r = refresh(store, p);
	if (!r && p->map)
		r = p->n && bsearch(id, p->map + HEAD, p->n, ID_BYTES, compare_packed_id);
	pthread_mutex_unlock(&p->lock);
	return r;
}

int shfs_object_is_pruned(struct shfs_store *store, const struct shfs_object_id *id)
{
	return pruned_has(store, store->pruned, id);
}

int shfs_object_was_pruned(struct shfs_store *store, const struct shfs_object_id *id)
{
	int r = shfs_object_is_pruned(store, id);

	if (r > 0)
		r = packs_refresh(store) ?: content_look(store, id) == -ENOENT;
	return r;
}

/* --- the list --- */

int pruned_parse(const void *list, size_t len, const struct shfs_objects *among,
                 struct shfs_objects *out)
{
	const char *at = (const char *)list + HEAD;
	size_t n = count_packed_ids(list, len),
	       left = len > HEAD ? (len - HEAD) / ID_BYTES : 0;
	int r = 0;

	for (size_t i = 0; i < MIN(n, left) && !r; i++, at += ID_BYTES) {
		struct shfs_object_id id;

		unpack_id(at, &id);
		if (!among || shfs_objects_has(among, &id))
			r = shfs_objects_add(out, &id);
	}
	shfs_objects_sort(out);
	return r ? r : n == SIZE_MAX ? -EBADMSG : 0;
}

void pruned_print(const struct shfs_objects *objects, struct shfs_buf *out)
{
	shfs_buf_add(out, MAGIC, HEAD);
	for (size_t i = 0; i < objects->n; i++) {
		shfs_buf_add(out, objects->ids[i].hash, sizeof(objects->ids[i].hash));
		shfs_buf_u32(out, objects->ids[i].nth);
	}
	if (!out->failed)
		shfs_buf_u64(out, shfs_object_hash64(out->data, out->len));
}

int pruned_load(struct shfs_store *store, struct shfs_objects *out)
{
	_cleanup_buf_ struct shfs_buf list = { 0 };
	int r = shfs_read_file_at(store->dirfd, PRUNED_NAME, INT32_MAX, &list);

	return r ? (r == -ENOENT ? 0 : r)
	         : pruned_parse(list.data ?: "", list.len, NULL, out);
}

int pruned_look(struct shfs_store *store)
{
	struct pruned *p = store->pruned;
	int r;

	pthread_mutex_lock(&p->lock);
	r = refresh(store, p);
	pthread_mutex_unlock(&p->lock);
	return r == -EBADMSG ? -ENOTRECOVERABLE : r;
}

/* Drops objects that exist: they were put again, and if lost later they were not pruned.
 */
static int drop_those_there(struct shfs_store *store, struct shfs_objects *all)
{
	size_t n = 0;
	int r = packs_refresh(store);

	for (size_t i = 0; i < all->n; i++)
		if (r || content_look(store, &all->ids[i]) == -ENOENT)
			all->ids[n++] = all->ids[i];
	all->n = n;
	return r;
}

static int pruned_list_add(struct shfs_store *store, const struct shfs_object_id *ids,
                           size_t n, bool despite_damage)
{
	_cleanup_objects_ struct shfs_objects all = { 0 };
	_cleanup_buf_ struct shfs_buf list = { 0 };
	int r = pruned_load(store, &all);

	if (r == -EBADMSG)
		r = despite_damage ? 0 : -ENOTRECOVERABLE;
	if (!r && n)
		r = drop_those_there(store, &all);
	for (size_t i = 0; i < n && !r; i++)
		r = shfs_objects_add(&all, &ids[i]);
	if (r)
		return r;
	shfs_objects_sort(&all);
	pruned_print(&all, &list);
	return list.failed ? -ENOMEM
	                   : shfs_write_file_at(store->dirfd, PRUNED_NAME, 0600,
	                                        list.data, list.len);
}

static int pruned_list_add_locked(struct shfs_store *store,
                                  const struct shfs_object_id *ids, size_t n,
                                  bool despite_damage)
{
	struct pruned *p = store->pruned;
	int r;

	pthread_mutex_lock(&p->lock);
	r = pruned_list_add(store, ids, n, despite_damage);
	p->seen_ns = 0;
	pthread_mutex_unlock(&p->lock);
	return r;
}

int pruned_add(struct shfs_store *store, const struct shfs_object_id *ids, size_t n)
{
	return pruned_list_add_locked(store, ids, n, false);
}

int pruned_mend(struct shfs_store *store)
{
	return pruned_list_add_locked(store, NULL, 0, true);
}

/* --- what only a remote has: away.h --- */

static shfs_supply_fn supply;

int shfs_object_is_away(struct shfs_store *store, const struct shfs_object_id *id)
{
	return pruned_has(store, store->away, id);
}

bool shfs_store_has_away(const char *store_path)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/" AWAY_NAME, store_path) < 0) {
		path = NULL;
		return false;
	}
	return !access(path, F_OK);
}

int away_is_whole(struct shfs_store *store)
{
	_cleanup_objects_ struct shfs_objects all = { 0 };
	int r = faccessat(store->dirfd, AWAY_NAME, F_OK, AT_SYMLINK_NOFOLLOW)
	                ? -EBADMSG
	                : away_load(store, &all);

	return r == -EBADMSG ? 0 : r ? r : 1;
}

int away_load(struct shfs_store *store, struct shfs_objects *out)
{
	_cleanup_buf_ struct shfs_buf list = { 0 };
	int r = shfs_read_file_at(store->dirfd, AWAY_NAME, INT32_MAX, &list);

	return r ? (r == -ENOENT ? 0 : r)
	         : pruned_parse(list.data ?: "", list.len, NULL, out);
}

int away_remove(int dirfd)
{
	if (unlinkat(dirfd, AWAY_NAME, 0) && errno != ENOENT)
		return -errno;
	return fsync(dirfd) ? -errno : 0;
}

int away_write(int dirfd, const struct shfs_objects *sorted)
{
	_cleanup_buf_ struct shfs_buf list = { 0 };

	pruned_print(sorted, &list);
	return list.failed
	               ? -ENOMEM
	               : shfs_write_file_at(dirfd, AWAY_NAME, 0600, list.data, list.len);
}

int away_lock(struct shfs_store *store)
{
	int lock = shfs_store_lock(store->path, AWAY_NAME, AWAY_WAIT_MS);

	return lock == -EADDRINUSE ? -EBUSY : lock;
}

int away_drop(struct shfs_store *store, const struct shfs_object_id *ids, size_t n)
{
	_cleanup_objects_ struct shfs_objects all = { 0 }, dropped = { 0 };
	_cleanup_close_ int lock = -1;
	size_t kept = 0;
	int r;

	if (!shfs_store_has_away(store->path))
		return 0;
	lock = away_lock(store);
	r = lock < 0 ? lock : away_load(store, &all);
	if (r || !all.n)
		return r == -EBADMSG ? -ENOTRECOVERABLE : r;
	for (size_t i = 0; i < n && !r; i++)
		r = shfs_objects_add(&dropped, &ids[i]);
	if (r)
		return r;
	shfs_objects_sort(&dropped);
	for (size_t i = 0; i < all.n; i++)
		if (!shfs_objects_has(&dropped, &all.ids[i]))
			all.ids[kept++] = all.ids[i];
	if (kept == all.n)
		return 0;
	all.n = kept;
	return away_write(store->dirfd, &all);
}

int shfs_away_count(struct shfs_store *store, uint64_t *out)
{
	_cleanup_objects_ struct shfs_objects all = { 0 };
	int r = away_load(store, &all);

	*out = 0;
	if (!r && all.n)
		r = packs_refresh(store);
	for (size_t i = 0; i < all.n && !r; i++)
		*out += content_look(store, &all.ids[i]) == -ENOENT;
	return r;
}

void shfs_object_supply_by(shfs_supply_fn fn)
{
	supply = fn;
}

int away_supply(struct shfs_store *store, const struct shfs_object_id *id)
{
	return supply && !supply(store, id) ? 0 : -EREMOTE;
}
