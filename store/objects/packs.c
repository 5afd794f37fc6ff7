/* SPDX-License-Identifier: MIT */
#include "store/objects/packs-internal.h"

#include "common/io.h"
#include "store/objects/objects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define OPEN_MAX       8   /* packs that are held open for reading */
#define CANDIDATES_MAX 128 /* frames with one prefix */
#define TAIL_WORTH     256 /* a tail of so many entries may be replaced by an index */
#define TAIL_MUCH      (1 << 16) /* and of so many also while the pack grows */
#define DIR_TICK_NS    (SHFS_NSEC_PER_SEC / 10)
#define SOLID_FRESH_NS SHFS_NSEC_PER_SEC
#define SOLIDS_BYTES   (8u << 20) /* memory for solid frames that were read */

uint64_t packs_full_bytes = 64u << 20;

/* --- tables --- */

static size_t table_slot(const struct pack_table *t, uint64_t prefix)
{
	return (size_t)(prefix >> 7) & (t->size - 1);
}

static void table_place(struct pack_table *t, struct pack_entry e)
{
	size_t i = table_slot(t, e.prefix);

	while (t->entries[i].offset)
		i = (i + 1) & (t->size - 1);
	t->entries[i] = e;
}

int pack_table_add(struct pack_table *t, struct pack_entry e)
{
	if (t->n * 2 >= t->size) {
		struct pack_table grown = { .size = t->size ? t->size * 2 : 64,
			                    .n = t->n };

		grown.entries = calloc(grown.size, sizeof(*grown.entries));
		if (!grown.entries)
			return -ENOMEM;
		for (size_t i = 0; i < t->size; i++)
			if (t->entries[i].offset)
				table_place(&grown, t->entries[i]);
		free(t->entries);
		*t = grown;
	}
	table_place(t, e);
	t->n++;
	return 0;
}

static void table_clear(struct pack_table *t)
{
	free(t->entries);
	*t = (struct pack_table){ 0 };
}

static size_t table_find(const struct pack_table *t, uint64_t prefix, uint32_t *offsets,
                         size_t max)
{
	size_t n = 0;

	if (!t->size)
		return 0;
	for (size_t i = table_slot(t, prefix); t->entries[i].offset && n < max;
	     i = (i + 1) & (t->size - 1))
		if (t->entries[i].prefix == prefix)
			offsets[n++] = t->entries[i].offset;
	return n;
}

/* --- one pack; with the lock held --- */

static void index_name(const struct pack *pack, char out[static PACK_NAME_BYTES])
{
	size_t stem = strlen(pack->name) - strlen(".pack");

	snprintf(out, PACK_NAME_BYTES, "%.*s.idx", (int)stem, pack->name);
}

int pack_fd(struct packs *p, struct pack *pack)
{
	if (pack->fd >= 0)
		return pack->fd;
	shfs_assert(p->n_open <= OPEN_MAX && p->n_open <= p->n);
	while (p->n_open >= OPEN_MAX) {
		struct pack *victim = p->list[p->next_close++ % p->n];

		if (victim->fd < 0)
			continue;
		close(victim->fd);
		victim->fd = -1;
		p->n_open--;
	}
	pack->fd = openat(p->dirfd, pack->name,
	                  O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (pack->fd < 0)
		return -errno;
	p->n_open++;
	return pack->fd;
}

static int tail_add_frame(void *arg, const struct frame *f, uint64_t offset)
{
	struct pack *pack = arg;

	if (offset > PACK_BYTES_MAX)
		return -EFBIG;
	if (!offset) /* no pack of shfs has a frame there; 0 marks a free entry */
		return 0;
	return pack_table_add(&pack->tail, (struct pack_entry){ pack_prefix(&f->id),
	                                                        (uint32_t)offset });
}

int pack_scan_tail(struct packs *p, struct pack *pack)
{
	int fd = pack_fd(p, pack), r;
	uint64_t end;

	if (fd < 0)
		return fd;
	r = pack_scan(fd, pack->scanned, tail_add_frame, pack, &end);
	pack->scanned =
		end; /* also after an error: frames up to there are in the table */
	pack->unreadable = pack->unreadable || r == -EIO;
	return r == -EFBIG ? 0 : r;
}

/* Drops an index that is wrong: all of the pack is scanned instead. */
static int pack_drop_index(struct packs *p, struct pack *pack)
{
	pack->index = (struct pack_index){ 0 };
	free(TAKE_PTR(pack->filter));
	table_clear(&pack->tail);
	pack->scanned = 0;
	pack->settled = false;
	return pack_scan_tail(p, pack);
}

/* Opens the index, and notes its size if it was replaced. */
static int pack_open_index(struct packs *p, struct pack *pack)
{
	char name[PACK_NAME_BYTES];
	struct pack_index now;
	int fd;

	index_name(pack, name);
	fd = pack_index_open(p->dirfd, name, &now);
	if (fd < 0)
		return fd;
	if (now.covered < pack->index.covered) { /* missing entries are not in memory */
		close(fd);
		return -EBADMSG;
	}
	if (now.covered != pack->index.covered || now.n != pack->index.n) {
		pack->index = now;
		free(TAKE_PTR(pack->filter));
	}
	return fd;
}

static int filter_add(void *arg, const struct pack_entry *entries, size_t n)
{
	struct pack *pack = arg;

	for (size_t i = 0; i < n; i++) {
		uint64_t bit = entries[i].prefix >> pack->filter_shift;

		pack->filter[bit / 8] |= (uint8_t)(1 << bit % 8);
	}
	return 0;
}

/*
 * Makes the filter: producers mostly look for objects that do not exist, and it answers
 * most of these without reading the index. It has 8 bits, or more, for each entry.
 */
static int pack_make_filter(struct pack *pack, int fd)
{
	unsigned bits = 6;
	int r;

	while (bits < 40 && (1ull << bits) < pack->index.n * 8)
		bits++;
	pack->filter = calloc(1, (1ull << bits) / 8);
	if (!pack->filter)
		return 0; /* the filter is not needed */
	pack->filter_shift = 64 - bits;
	r = pack_index_each(fd, &pack->index, filter_add, pack);
	if (r)
		free(TAKE_PTR(pack->filter));
	return r;
}

static bool filter_has(const struct pack *pack, uint64_t prefix)
{
	uint64_t bit = prefix >> pack->filter_shift;

	return !pack->filter || pack->filter[bit / 8] & 1 << bit % 8;
}

/* Gets the offsets of frames with this prefix, the newest last. */
static int pack_find(struct packs *p, struct pack *pack, uint64_t prefix,
                     uint32_t offsets[static CANDIDATES_MAX])
{
	int n = 0, r;

	if (pack->index.n && filter_has(pack, prefix)) {
		_cleanup_close_ int fd = pack_open_index(p, pack);

		r = fd < 0 ? fd : 0;
		if (!r && p->producer && !pack->filter)
			r = pack_make_filter(pack, fd);
		if (!r && filter_has(pack, prefix))
			r = pack_index_find(fd, &pack->index, prefix, offsets,
			                    CANDIDATES_MAX / 2);
		n = MAX(r, 0);
		if (r == -EBADMSG || r == -ENOENT || r == -EIO)
			r = pack_drop_index(p, pack);
		if (r < 0 && r != -EIO)
			return r;
	}
	return n + (int)table_find(&pack->tail, prefix, offsets + n,
	                           (size_t)(CANDIDATES_MAX - n));
}

int pack_remove_index(struct packs *p, const struct pack *pack)
{
	char name[PACK_NAME_BYTES];

	index_name(pack, name);
	if (unlinkat(p->dirfd, name, 0))
		return errno == ENOENT ? 0 : -errno;
	return fsync(p->dirfd) ? -errno : 0;
}

struct all_entries {
	struct pack_entry *entries;
	size_t n;
};

static int collect_entries(void *arg, const struct pack_entry *entries, size_t n)
{
	struct all_entries *all = arg;

	memcpy(all->entries + all->n, entries, n * sizeof(*entries));
	all->n += n;
	return 0;
}

/*
 * Locks a pack, shared, to write its index. Otherwise:
 *
 * 1. The collector, which locks the pack alone, removes the pack and its index.
 * 2. This process writes the index.
 * 3. Another pack gets the name, and that index is taken for its own.
 *
 * -ENOENT: the name has another pack by now.
 */
static int guard_pack(struct packs *p, const struct pack *pack)
{
	_cleanup_close_ int fd = openat(p->dirfd, pack->name,
	                                O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || (p->locks && flock(fd, LOCK_SH | LOCK_NB)) || fstat(fd, &st))
		return -errno;
	if (!st.st_nlink || pack->gone || (pack->ino && pack->ino != st.st_ino))
		return -ENOENT;
	return TAKE_FD(fd);
}

int pack_write_index(struct packs *p, struct pack *pack)
{
	_cleanup_close_ int fd = pack->index.n ? pack_open_index(p, pack) : -1;
	_cleanup_free_ struct pack_entry *entries = NULL;
	struct all_entries all = { 0 };
	char name[PACK_NAME_BYTES];
	uint64_t covered = pack->scanned;
	_cleanup_close_ int guard = guard_pack(p, pack);
	int r = MIN(guard, 0);

	if (r)
		return r;
	if (pack->unreadable)
		return -EIO;
	if (pack->index.n && fd < 0) {
		/* Its entries are not in memory: without the index all is scanned. */
		if (fd != -EBADMSG && fd != -ENOENT)
			return fd;
		r = pack_drop_index(p, pack);
		if (r)
			return r;
		covered = pack->scanned;
	}
	all.entries = entries =
		calloc(pack->index.n + pack->tail.n + 1, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	if (pack->index.n)
		r = pack_index_each(fd, &pack->index, collect_entries, &all);
	/* Another producer may have put some of the tail into the index. */
	covered = MAX(covered, pack->index.covered);
	for (size_t i = 0; i < pack->tail.size; i++)
		if (pack->tail.entries[i].offset &&
		    pack->tail.entries[i].offset >= pack->index.covered)
			entries[all.n++] = pack->tail.entries[i];
	index_name(pack, name);
	if (!r)
		r = pack_index_write(p->dirfd, name, covered, entries, all.n);
	if (r)
		return r;
	pack->index = (struct pack_index){ covered, all.n };
	free(TAKE_PTR(pack->filter));
	table_clear(&pack->tail);
	return 0;
}

/* --- the directory; with the lock held --- */

static bool is_pack(const char *name)
{
	size_t len = strlen(name);

	return len > 5 && len < PACK_NAME_BYTES && !strcmp(name + len - 5, ".pack");
}

bool shfs_pack_is_pulled(const char *name)
{
	return !strncmp(name, PACK_PULLED_PREFIX, strlen(PACK_PULLED_PREFIX));
}

static struct pack *find_pack(struct packs *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->list[i]->gone && !strcmp(p->list[i]->name, name))
			return p->list[i];
	return NULL;
}

int packs_add(struct packs *p, const char *name, struct pack **out)
{
	struct pack **list = realloc(p->list, (p->n + 1) * sizeof(struct pack *));
	struct pack *pack = calloc(1, sizeof(*pack));
	struct stat st;
	int fd;

	if (list)
		p->list = list;
	if (!list || !pack) {
		free(pack);
		return -ENOMEM;
	}
	snprintf(pack->name, sizeof(pack->name), "%s", name);
	pack->fd = -1;
	p->list[p->n++] = pack;
	fd = pack_open_index(p, pack);
	if (fd >= 0)
		close(fd);
	pack->scanned = pack->durable_bytes = pack->index.covered;
	if (!fstatat(p->dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		pack->ino = st.st_ino;
	*out = pack;
	return 0;
}

/* Drops the tail if the pack's producer has written an index since. */
static void pack_take_index(struct packs *p, struct pack *pack, uint64_t size)
{
	char name[PACK_NAME_BYTES];
	struct pack_index now;
	int fd;

	index_name(pack, name);
	fd = pack_index_open(p->dirfd, name, &now);
	shfs_closep(&fd);
	if (fd < 0 || now.covered <= pack->index.covered || now.covered > size)
		return;
	free(TAKE_PTR(pack->filter));
	table_clear(&pack->tail);
	pack->index = now;
	pack->scanned = now.covered;
	pack->durable_bytes = MAX(pack->durable_bytes, now.covered);
}

/* Stats a pack. To look again for an object that should exist, a network's server is
 * asked, not a cache. */
static int stat_pack(struct packs *p, const char *name, struct stat *out)
{
	if (p->looks_again)
		return shfs_stat_now(p->dirfd, name, out);
	return fstatat(p->dirfd, name, out, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) ? -errno
	                                                                         : 0;
}

/* Finds frames that were appended to the pack. */
static int pack_refresh(struct packs *p, struct pack *pack)
{
	struct stat st;
	int r;

	if (pack->settled || pack->own || pack->gone)
		return 0;
	r = stat_pack(p, pack->name, &st);
	if (r)
		return r == -ENOENT ? 0 : r;
	if (!S_ISREG(st.st_mode)) {
		pack->settled = true;
		return 0;
	}
	if ((uint64_t)st.st_size < pack->index.covered)
		return pack_drop_index(p, pack);
	if (pack->tail.n >= TAIL_WORTH &&
	    ((uint64_t)st.st_size <= pack->scanned || pack->tail.n >= TAIL_MUCH))
		pack_take_index(p, pack, (uint64_t)st.st_size);
	if ((uint64_t)st.st_size > pack->scanned)
		return pack_scan_tail(p, pack);
	pack->settled = pack->index.covered == (uint64_t)st.st_size &&
	                pack->index.covered >= packs_full_bytes;
	return 0;
}

int packs_open_dir(struct shfs_store *store, struct packs *p, bool create)
{
	if (p->dirfd >= 0)
		return 0;
	if (create && mkdirat(store->objects_fd, "packs", 0700) && errno != EEXIST)
		return -errno;
	if (create && fsync(store->objects_fd))
		return -errno;
	p->dirfd = openat(store->objects_fd, "packs",
	                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return p->dirfd < 0 ? -errno : 0;
}

/* Notes that the pack was collected: its objects are elsewhere, or were removed. */
static void pack_is_gone(struct packs *p, struct pack *pack)
{
	pack->gone = true;
	pack->index = (struct pack_index){ 0 };
	free(TAKE_PTR(pack->filter));
	table_clear(&pack->tail);
	shfs_assert(pack->fd < 0 || p->n_open);
	if (pack->fd >= 0)
		p->n_open--;
	shfs_closep(&pack->fd);
	pack->fd = -1;
}

void packs_find_gone(struct packs *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct pack *pack = p->list[i];
		struct stat st;
		bool there;

		if (pack->gone)
			continue;
		there = !fstatat(p->dirfd, pack->name, &st, AT_SYMLINK_NOFOLLOW);
		if (there && !pack->ino)
			pack->ino = st.st_ino;
		if (there ? pack->ino != st.st_ino : errno == ENOENT)
			pack_is_gone(p, pack);
	}
}

static bool is_seen(const struct shfs_store *store, const char *name)
{
	return is_pack(name) && !(store->hides_pulled && shfs_pack_is_pulled(name));
}

static int read_packs_directory(const struct shfs_store *store, struct packs *p)
{
	int fd = openat(p->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct pack *pack;
	int r = 0;

	if (!dir) {
		r = -errno;
		shfs_closep(&fd);
		return r;
	}
	packs_find_gone(p); /* first: another pack may have the name now */
	while (!r && (e = shfs_readdir(dir, &r)))
		if (is_seen(store, e->d_name) && !find_pack(p, e->d_name))
			r = packs_add(p, e->d_name, &pack);
	closedir(dir);
	return r;
}

/* Lists the directory if its mtime is new, or so recent that it may have changed again
 * within the same tick of its clock. */
static int find_new_packs(const struct shfs_store *store, struct packs *p)
{
	int64_t now = shfs_clock_ns(CLOCK_REALTIME);
	struct stat st;
	int r = stat_pack(p, "", &st);

	if (r)
		return r;
	if (p->dir_seen_ns && st.st_mtim.tv_sec == p->dir_mtime.tv_sec &&
	    st.st_mtim.tv_nsec == p->dir_mtime.tv_nsec &&
	    llabs(p->dir_seen_ns - shfs_timespec_ns(st.st_mtim)) > DIR_TICK_NS)
		return 0;
	r = read_packs_directory(store, p);
	if (!r) {
		p->dir_mtime = st.st_mtim;
		p->dir_seen_ns = now;
	}
	return r;
}

int packs_learn(struct shfs_store *store, struct packs *p)
{
	int r = packs_open_dir(store, p, false);

	if (r == -ENOENT)
		return 0;
	if (!r)
		r = find_new_packs(store, p);
	for (size_t i = 0; !r && i < p->n; i++) {
		r = pack_refresh(p, p->list[i]);
		if (r == -EIO) { /* frames that can be read are in the tail */
			p->read_errors++;
			r = 0;
		}
	}
	return r;
}

/* --- finding --- */

static void drop_solid(struct packs *p, struct pack_solid *s)
{
	p->solids_bytes -= s->solid ? solid_memory(s->solid) : 0;
	solid_unref(s->solid);
	*s = (struct pack_solid){ 0 };
}

void packs_drop_solids(struct packs *p)
{
	for (unsigned i = 0; i < SOLIDS_MAX; i++)
		drop_solid(p, &p->solids[i]);
}

/* Returns a solid frame that was read a moment ago, a reference; or NULL. */
static struct solid *find_solid(struct packs *p, const struct pack *pack, uint32_t offset)
{
	for (unsigned i = 0; i < SOLIDS_MAX; i++) {
		struct pack_solid *s = &p->solids[i];

		if (!s->solid || s->pack != pack || s->offset != offset)
			continue;
		if (shfs_clock_ns(CLOCK_MONOTONIC) - s->read_ns < SOLID_FRESH_NS) {
			s->used = ++p->solids_used;
			return solid_ref(s->solid);
		}
		drop_solid(p, s);
	}
	return NULL;
}

/* Makes room for a solid frame that takes so much memory; returns where. */
static struct pack_solid *make_room(struct packs *p, size_t bytes)
{
	for (;;) {
		struct pack_solid *oldest = NULL, *empty = NULL;

		for (unsigned i = 0; i < SOLIDS_MAX; i++) {
			struct pack_solid *s = &p->solids[i];

			if (!s->solid)
				empty = s;
			else if (!oldest || s->used < oldest->used)
				oldest = s;
		}
		if (empty && (!oldest || p->solids_bytes + bytes <= SOLIDS_BYTES))
			return empty;
		drop_solid(p, oldest);
	}
}

/* Keeps an intact solid frame in memory. Takes ownership of bytes, also when it fails. */
static int keep_solid(struct packs *p, const struct pack *pack, uint32_t offset,
                      unsigned char *bytes, size_t len, struct solid **out)
{
	struct solid *solid = solid_new(bytes, len);
	struct pack_solid *s;

	if (!solid) {
		free(bytes);
		return -ENOMEM;
	}
	s = make_room(p, solid_memory(solid));
	*s = (struct pack_solid){ pack, offset, shfs_clock_ns(CLOCK_MONOTONIC),
		                  ++p->solids_used, solid };
	p->solids_bytes += solid_memory(solid);
	*out = solid_ref(solid);
	return 0;
}

/* Reads the intact frame at offset, all of it. -EBADMSG: there is none. */
static int read_frame_bytes(int fd, uint32_t offset, struct frame *f, unsigned char **out)
{
	unsigned char head[FRAME_DELTA_BYTES], *bytes;
	ssize_t n = shfs_pread_full(fd, head, sizeof(head), offset);
	size_t len;

	if (n < 0)
		return (int)n;
	if (n < FRAME_HEAD_BYTES || frame_parse(head, (size_t)n, f))
		return -EBADMSG;
	len = frame_bytes(f);
	bytes = malloc(len);
	if (!bytes)
		return -ENOMEM;
	n = shfs_pread_full(fd, bytes, len, offset);
	if (n != (ssize_t)len || !frame_is_intact(bytes, len)) {
		free(bytes);
		return n < 0 ? (int)n : -EBADMSG;
	}
	*out = bytes;
	return 0;
}

/* Reads the object's frame at offset. -EBADMSG: there is no intact frame; -ENOENT: it is
 * of other objects, or the pack is gone. */
static int read_frame_at(struct packs *p, struct pack *pack, uint32_t offset,
                         const struct shfs_object_id *id, struct packed *out)
{
	unsigned char *bytes = NULL;
	int fd = pack_fd(p, pack), r = 0;
	struct frame f = { 0 };
	struct stat st;
	size_t len;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		return -errno;
	if (!st.st_nlink) { /* collected: objects that stay are elsewhere */
		pack_is_gone(p, pack);
		return -ENOENT;
	}
	out->solid = find_solid(p, pack, offset);
	if (!out->solid)
		r = read_frame_bytes(fd, offset, &f, &bytes);
	len = out->solid ? solid_frame_bytes(out->solid) : frame_bytes(&f);
	if (!r && bytes && f.kind == FRAME_SOLID)
		r = keep_solid(p, pack, offset, TAKE_PTR(bytes), len, &out->solid);
	if (!r && out->solid)
		r = solid_find(out->solid, id, &f);
	else if (!r && !shfs_object_equal(&f.id, id))
		r = -ENOENT;
	out->bytes = bytes;
	out->frame = f;
	out->pack = pack;
	out->offset = offset;
	out->durable = offset + len <= pack->durable_bytes;
	if (r)
		packed_free(out);
	return r;
}

static int find_frame(struct packs *p, const struct shfs_object_id *id, unsigned skip,
                      bool *damaged, struct packed *out)
{
	uint32_t offsets[CANDIDATES_MAX];
	uint64_t prefix = pack_prefix(id);

	for (size_t i = p->n; i-- > 0;) {
		int n = pack_find(p, p->list[i], prefix, offsets);

		while (n > 0) {
			int r = read_frame_at(p, p->list[i], offsets[--n], id, out);

			p->read_errors += r == -EIO;
			if (r == -EBADMSG || r == -EIO)
				*damaged = true;
			else if (r && r != -ENOENT) /* the pack is gone */
				return r;
			if (!r && !skip--)
				return 0;
			if (!r)
				packed_free(out);
		}
		if (n < 0 && n != -ENOENT)
			return n;
	}
	return *damaged ? -EBADMSG : -ENOENT;
}

int packs_read(struct shfs_store *store, const struct shfs_object_id *id, unsigned skip,
               struct packed *out)
{
	struct packs *p = store->packs;
	bool damaged = false;
	int r;

	if (id->nth > UINT8_MAX)
		return -ENOENT;
	pthread_mutex_lock(&p->lock);
	r = find_frame(p, id, skip, &damaged, out);
	pthread_mutex_unlock(&p->lock);
	return r;
}

unsigned packs_read_errors(struct shfs_store *store)
{
	unsigned n;

	pthread_mutex_lock(&store->packs->lock);
	n = store->packs->read_errors;
	pthread_mutex_unlock(&store->packs->lock);
	return n;
}

bool packs_may_have(struct shfs_store *store, const struct shfs_object_id *id)
{
	struct packs *p = store->packs;
	uint32_t offsets[CANDIDATES_MAX];
	int n = 0;

	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; !n && i < p->n; i++)
		n = pack_find(p, p->list[i], pack_prefix(id), offsets);
	pthread_mutex_unlock(&p->lock);
	return n != 0;
}

int packs_refresh(struct shfs_store *store)
{
	struct packs *p = store->packs;
	int r;

	pthread_mutex_lock(&p->lock);
	p->looks_again = true;
	r = packs_learn(store, p);
	p->looks_again = false;
	pthread_mutex_unlock(&p->lock);
	return r;
}

int packs_relearn(struct shfs_store *store)
{
	struct packs *p = store->packs;
	int r;

	pthread_mutex_lock(&p->lock);
	p->dir_seen_ns = 0;
	r = packs_learn(store, p);
	pthread_mutex_unlock(&p->lock);
	return r;
}

int packs_sync(struct shfs_store *store, struct pack *pack)
{
	struct packs *p = store->packs;
	struct stat st;
	bool cut = false; /* meanwhile */
	uint64_t upto;
	int fd, r = 0;

	pthread_mutex_lock(&p->lock);
	upto = pack->scanned;
	fd = openat(p->dirfd, pack->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	pthread_mutex_unlock(&p->lock);
	if (fd < 0 && errno == ENOENT) /* collected: objects that stay are durable */
		return 0;
	/* the name too: its producer may not have synced the directory yet */
	if (fd < 0 || fdatasync(fd) || fsync(p->dirfd) || fstat(fd, &st))
		r = -errno;
	else if ((cut = (uint64_t)st.st_size < upto)) /* its producer failed */
		r = -EIO;
	shfs_closep(&fd);
	pthread_mutex_lock(&p->lock);
	if (!r)
		pack->durable_bytes = MAX(pack->durable_bytes, upto);
	else if (cut)
		pack->scanned = MIN(pack->scanned, (uint64_t)st.st_size);
	pthread_mutex_unlock(&p->lock);
	return r;
}

/* --- all of it --- */

struct packs *packs_new(void)
{
	struct packs *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	pthread_mutex_init(&p->commit, NULL);
	p->dirfd = p->own_fd = p->lock_fd = -1;
	return p;
}

void packs_free(struct shfs_store *store, struct packs *p)
{
	if (!p)
		return;
	packs_end(p);
	for (size_t i = 0; i < p->n; i++) {
		struct pack *pack = p->list[i];

		shfs_closep(&pack->fd);
		free(pack->filter);
		table_clear(&pack->tail);
		free(pack);
	}
	packs_drop_solids(p);
	free(p->list);
	shfs_closep(&p->dirfd);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->commit);
	free(p);
}
