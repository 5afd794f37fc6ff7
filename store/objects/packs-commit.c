/* SPDX-License-Identifier: MIT */
/* Producing: chooses this process' own pack, and appends to it. */
#include "store/objects/packs-internal.h"

#include "common/debug.h"
#include "common/io.h"
#include "common/lock.h"
#include "common/proc.h"
#include "store/objects/object.h"
#include "store/objects/pruned.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define SLOTS_MAX   256        /* producers of one host at a time */
#define TAIL_MAX    (1 << 16)  /* entries in memory before the index is written again */
#define SCAN_MAX    (1 << 20)  /* bytes of any pack that may lack an index */
#define INDEX_WORTH (64 << 10) /* bytes of our full pack that are worth an index */
#define WAIT_MS     1000       /* for other producers' appends */
#define FORGET_MS   60000      /* for a process that removes records */
#define FAR_NUMBER  (1u << 20) /* of packs of a store with contents elsewhere */

/*
 * Chooses the first slot to try. On a network file system nothing is flock'ed, and hosts
 * may have the same name: so the slot depends on what limits a lock of common/lock.h, the
 * boot and the network namespace.
 */
static int first_slot(const struct packs *p, uint32_t *out)
{
	char who[37 + 20];
	struct stat st;
	int r;

	*out = 0;
	if (p->locks)
		return 0;
	r = shfs_proc_boot_id(who);
	if (!r && stat("/proc/self/ns/net", &st))
		r = -errno;
	if (r)
		return r;
	snprintf(who + 36, sizeof(who) - 36, "-%" PRIu64, (uint64_t)st.st_ino);
	*out = 1u << 31 |
	       ((uint32_t)shfs_object_hash64(who, strlen(who)) << 8 & ~0u >> 1);
	return 0;
}

/* Takes a slot, which one producer of this host can have. Without a lock, or with too
 * many producers, a random slot is taken, whose pack nobody continues. */
static int take_slot(struct shfs_store *store, struct packs *p)
{
	char source[SHFS_STORE_SOURCE_MAX], name[80];
	const char *of = source;
	uint32_t first = 0;
	int r = shfs_store_source(store->dirfd, "", source);

	if (!r)
		r = first_slot(p, &first);
	if (r)
		return r;
	if (!p->locks) /* without the device: the store may be mounted twice here */
		of = strchr(source, '-') + 1;
	for (p->slot = first; p->slot < first + SLOTS_MAX; p->slot++) {
		snprintf(name, sizeof(name), "pack-%" PRIu32 "-%s", p->slot, of);
		p->lock_fd = shfs_lock_take(name, 0);
		if (p->lock_fd != -EADDRINUSE)
			break;
	}
	if (p->lock_fd >= 0)
		return 0;
	shfs_debug(OBJECTS, "no slot is free: a pack is made that nobody continues");
	p->lock_fd = -1;
	if (getrandom(&p->slot, sizeof(p->slot), 0) != sizeof(p->slot))
		return -EIO;
	p->slot |= 1u << 31;
	return 0;
}

static void pack_name(const struct shfs_store *store, const struct packs *p, uint32_t no,
                      char out[static PACK_NAME_BYTES])
{
	snprintf(out, PACK_NAME_BYTES, "%s%s-%" PRIu32 "-%06" PRIu32 ".pack",
	         store->pulls ? PACK_PULLED_PREFIX : "", store->host, p->slot, no);
}

/* Returns the number of a pack of our slot; -1: it belongs to another producer. */
static int64_t own_number(const struct shfs_store *store, const struct packs *p,
                          const char *name)
{
	char own[PACK_NAME_BYTES];
	const char *digits = strrchr(name, '-');
	unsigned long no = digits ? strtoul(digits + 1, NULL, 10) : 0;

	if (!digits || no >= UINT32_MAX)
		return -1;
	pack_name(store, p, (uint32_t)no, own);
	return strcmp(own, name) ? -1 : (int64_t)no;
}

/* May the pack get solid frames? */
static bool takes_solid(struct packs *p, struct pack *pack)
{
	unsigned char head[PACK_HEAD_BYTES];
	int fd = pack_fd(p, pack);

	return fd >= 0 && shfs_pread_full(fd, head, sizeof(head), 0) == sizeof(head) &&
	       pack_format(head) >= 2;
}

/* Chooses the number of the first pack. Packs of this store that only a remote has
 * (away.h) have numbers too, which are not known here: so it is far away from them. */
static int first_number(struct shfs_store *store, int64_t *out)
{
	uint32_t chance;

	*out = 0;
	if (store->pulls || faccessat(store->dirfd, AWAY_NAME, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
		return -EIO;
	*out = FAR_NUMBER + chance % FAR_NUMBER;
	return 0;
}

/* Continues our newest pack, if it is not full. */
static int adopt(struct shfs_store *store, struct packs *p)
{
	struct pack *newest = NULL;
	int64_t last = -1, first;
	int r = first_number(store, &first);

	if (r)
		return r;

	for (size_t i = 0; i < p->n; i++) {
		int64_t no = own_number(store, p, p->list[i]->name);

		if (no <= last)
			continue;
		last = no;
		newest = p->list[i];
	}
	if (first && last < FAR_NUMBER) {
		newest = NULL;
		last = first - 1;
	}
	p->next = (uint32_t)(last + 1);
	/* A pack without its magic was being made: a frame must not get offset 0. */
	if (!newest || newest->gone || newest->settled || newest->unreadable ||
	    newest->scanned >= packs_full_bytes || newest->scanned < PACK_HEAD_BYTES)
		return 0;
	if (!takes_solid(p, newest)) /* of a version before */
		return 0;
	/* An index that covers more than the pack has is not used now, but would be
	 * trusted once the pack has grown. */
	if (!newest->index.covered && pack_remove_index(p, newest))
		return 0;
	p->own_fd = openat(p->dirfd, newest->name,
	                   O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (p->own_fd < 0)
		return 0; /* a new pack is made */
	/* Its last writer may have been killed before it synced. */
	if (newest->scanned > newest->durable_bytes && fdatasync(p->own_fd))
		r = -errno;
	if (r) {
		shfs_closep(&p->own_fd);
		p->own_fd = -1;
		return 0;
	}
	newest->durable_bytes = newest->scanned;
	newest->own = true;
	p->own = newest;
	shfs_debug(OBJECTS, "%s: continued from byte %" PRIu64, newest->name,
	           (uint64_t)newest->scanned);
	return 0;
}

/* Makes missing indexes. Errors are ignored: a pack needs no index. */
static void index_tails(struct shfs_store *store, struct packs *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct pack *pack = p->list[i];
		int fd;

		if (pack->gone || pack->scanned - pack->index.covered < SCAN_MAX)
			continue;
		fd = pack_fd(p, pack);
		if (fd >= 0 && !fdatasync(fd))
			(void)!pack_write_index(p, pack);
	}
}

static void forget_producer(struct packs *p)
{
	shfs_closep(&p->own_fd);
	shfs_closep(&p->lock_fd);
	p->own_fd = p->lock_fd = -1;
	if (p->own)
		p->own->own = false;
	p->own = NULL;
	p->producer = false;
}

/* Commit lock held. A forked child of a producer becomes a producer of its own. */
static int begin_producing(struct shfs_store *store, struct packs *p)
{
	pid_t pid = shfs_pid();
	int r = 0;

	shfs_assert_held(&p->commit);
	pthread_mutex_lock(&p->lock);
	if (p->producer && p->pid != pid) {
		forget_producer(p);
		shfs_closep(&p->dirfd); /* its flock is shared with the parent */
		p->dirfd = -1;
	}
	if (!p->producer) {
		r = shfs_store_share(store, FORGET_MS);
		if (!r)
			r = packs_open_dir(store, p, true);
		p->locks = !shfs_store_may_hang(store->path);
		if (!r)
			r = take_slot(store, p);
		if (!r)
			r = packs_learn(store, p);
		if (!r)
			r = adopt(store, p);
		if (r) {
			forget_producer(p);
		} else {
			p->producer = true;
			p->pid = pid;
			index_tails(store, p);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return r;
}

int packs_begin(struct shfs_store *store)
{
	struct packs *p = store->packs;
	bool begun;
	int r;

	pthread_mutex_lock(&p->lock);
	begun = p->producer && p->pid == shfs_pid();
	pthread_mutex_unlock(&p->lock);
	if (begun)
		return 0;
	pthread_mutex_lock(&p->commit);
	r = begin_producing(store, p);
	pthread_mutex_unlock(&p->commit);
	return r;
}

/* --- committing --- */

/* Waits for other producers, which hold the lock only to append; but not for ever, as one
 * may have been stopped. */
static void lock_directory(struct packs *p)
{
	for (int ms = 0; p->locks && ms < WAIT_MS; ms++) {
		if (!flock(p->dirfd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

static void unlock_directory(struct packs *p)
{
	if (p->locks)
		flock(p->dirfd, LOCK_UN);
}

/* Keeps our pack from being collected until the end of the commit. False: it is just
 * being collected. */
static bool guard_own(struct packs *p)
{
	return !p->locks || !flock(p->own_fd, LOCK_SH | LOCK_NB);
}

/* Lock held. The next batch goes into a new pack. */
static void drop_own(struct packs *p)
{
	p->own->own = false;
	p->own = NULL;
	shfs_closep(&p->own_fd);
	p->own_fd = -1;
}

/* Lock held. Scans frames that another process appended to our pack, which happens only
 * where there are no locks. */
static int catch_up(struct packs *p)
{
	struct stat st;

	shfs_assert_held(&p->lock);
	shfs_assert(!p->own == (p->own_fd < 0));
	if (!p->own)
		return 0;
	if (!guard_own(p) || fstat(p->own_fd, &st) || !st.st_nlink) {
		shfs_debug(OBJECTS, "%s is being collected: a new pack is made",
		           p->own->name);
		drop_own(p); /* nobody would find frames that we append */
		return 0;
	}
	return (uint64_t)st.st_size > p->own->scanned ? pack_scan_tail(p, p->own) : 0;
}

void packs_let_go(struct shfs_store *store)
{
	struct packs *p = store->packs;
	struct stat st;

	pthread_mutex_lock(&p->commit);
	pthread_mutex_lock(&p->lock);
	packs_drop_solids(p);
	if (p->producer && p->locks) { /* on a network it might wait for a server */
		packs_find_gone(p);
		if (p->own && !fstat(p->own_fd, &st) && !st.st_nlink)
			drop_own(p);
	}
	pthread_mutex_unlock(&p->lock);
	pthread_mutex_unlock(&p->commit);
}

int packs_commit_begin(struct shfs_store *store)
{
	struct packs *p = store->packs;
	int r;

	pthread_mutex_lock(&p->commit);
	p->appended = false;
	r = begin_producing(store, p);
	if (!r) {
		lock_directory(p);
		pthread_mutex_lock(&p->lock);
		r = packs_learn(store, p);
		if (!r)
			r = catch_up(p);
		pthread_mutex_unlock(&p->lock);
	}
	if (r) {
		unlock_directory(p);
		pthread_mutex_unlock(&p->commit);
	}
	return r;
}

static uint64_t own_bytes(struct packs *p)
{
	uint64_t bytes;

	pthread_mutex_lock(&p->lock);
	bytes = p->own ? p->own->scanned : 0;
	pthread_mutex_unlock(&p->lock);
	return bytes;
}

/* Our pack is full, or takes no more: the next batch goes into a new pack. */
static void leave_own(struct packs *p)
{
	pthread_mutex_lock(&p->lock);
	shfs_assert(p->own && p->own->own && p->own_fd >= 0);
	shfs_assert(p->own->scanned >= p->own->index.covered);
	if (p->own->scanned - p->own->index.covered >= INDEX_WORTH)
		(void)!pack_write_index(p, p->own);
	p->own->own = false;
	p->own = NULL;
	pthread_mutex_unlock(&p->lock);
	shfs_closep(&p->own_fd);
	p->own_fd = -1;
}

static int make_own(struct shfs_store *store, struct packs *p)
{
	char name[PACK_NAME_BYTES];
	int r = shfs_store_raise(store);

	if (r)
		return r;
	do {
		pack_name(store, p, p->next++, name);
		p->own_fd = openat(p->dirfd, name,
		                   O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW |
		                           O_CLOEXEC,
		                   0600);
	} while (p->own_fd < 0 && errno == EEXIST);
	if (p->own_fd < 0)
		return -errno;
	r = !guard_own(p) || fsync(p->dirfd)
	            ? -errno
	            : shfs_write_all(p->own_fd, PACK_MAGIC, PACK_HEAD_BYTES);
	pthread_mutex_lock(&p->lock);
	if (!r)
		r = packs_add(p, name, &p->own);
	if (!r) {
		p->own->own = true;
		p->own->scanned = PACK_HEAD_BYTES;
	}
	pthread_mutex_unlock(&p->lock);
	shfs_debug(OBJECTS, "%s: %s", name, r ? strerrordesc_np(-r) : "begun");
	if (!r)
		return 0;
	shfs_closep(&p->own_fd);
	p->own_fd = -1;
	unlinkat(p->dirfd, name, 0);
	return r;
}

/* Cuts off the batch, unless the pack is larger than at_most: then another process has
 * appended behind it. */
static void take_back(struct packs *p, uint64_t at_most)
{
	struct stat st;

	if (!fstat(p->own_fd, &st) && (uint64_t)st.st_size <= at_most)
		(void)!ftruncate(p->own_fd, (off_t)p->append_at);
}

static int append_once(struct shfs_store *store, struct packs *p, const void *data,
                       size_t len)
{
	struct stat st;
	int r;

	if (!p->own && (r = make_own(store, p)))
		return r;
	if (fstat(p->own_fd, &st))
		return -errno;
	p->append_at = (uint64_t)st.st_size;
	p->append_end = p->append_at + len;
	r = shfs_write_all(p->own_fd, data, len);
	if (r)
		take_back(p, p->append_at + len - 1);
	return r;
}

int packs_append(struct shfs_store *store, const void *data, size_t len)
{
	struct packs *p = store->packs;
	int r;

	shfs_assert_held(&p->commit);
	shfs_assert(p->producer && p->pid == shfs_pid());
	if (own_bytes(p) + len > packs_full_bytes && own_bytes(p) > packs_full_bytes / 2)
		leave_own(p);
	if (len > PACK_BYTES_MAX / 2)
		return -EFBIG;
	r = append_once(store, p, data, len);
	if (r == -EFBIG && p->append_at > PACK_HEAD_BYTES) { /* a limit of this process */
		leave_own(p);
		r = append_once(store, p, data, len);
	}
	p->appended = !r;
	return r;
}

void packs_commit_written(struct shfs_store *store)
{
	unlock_directory(store->packs);
}

/* Lock held. Makes the frames of the batch visible to all threads. */
static int publish_batch(struct packs *p, const struct packs_frame *frames, size_t n)
{
	int r = 0;

	shfs_assert_held(&p->lock);
	shfs_assert(p->own && p->append_at <= p->append_end);
	for (size_t i = 0; !r && i < n; i++)
		r = pack_table_add(&p->own->tail,
		                   (struct pack_entry){
					   pack_prefix(&frames[i].id),
					   (uint32_t)(p->append_at + frames[i].at) });
	if (!r)
		p->own->scanned = p->own->durable_bytes = p->append_end;
	return r;
}

int packs_commit_end(struct shfs_store *store, int error,
                     const struct packs_frame *frames, size_t n)
{
	struct packs *p = store->packs;

	if (!error && p->appended && fdatasync(p->own_fd)) {
		error = -errno;
		/* The kernel may report unwritten pages as written: nobody may read them.
		 */
		take_back(p, p->append_end);
		leave_own(p);
	} else if (!error && p->appended) {
		pthread_mutex_lock(&p->lock);
		error = publish_batch(p, frames, n);
		if (p->own->tail.n >= TAIL_MAX)
			(void)!pack_write_index(p, p->own);
		pthread_mutex_unlock(&p->lock);
		if (own_bytes(p) >= packs_full_bytes)
			leave_own(p);
	}
	if (p->own_fd >= 0 && p->locks)
		flock(p->own_fd, LOCK_UN);
	shfs_assert_held(&p->commit);
	pthread_mutex_unlock(&p->commit);
	return error;
}

void packs_end(struct packs *p)
{
	if (p->own && p->pid == shfs_pid())
		leave_own(p);
	forget_producer(p);
}
