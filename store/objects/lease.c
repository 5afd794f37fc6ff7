/* SPDX-License-Identifier: MIT */
/*
 * In collect/ of the store:
 *
 *     generation       u64; the present generation
 *     lease-0 lease-1  flock'ed, shared, by holders of a lease of an even or odd one
 *     condemned        u64 generation, and the ids; sorted
 *     forgotten        u64 generation, whose condemned objects are to be forgotten
 *     claims           ids
 *     lock             flock'ed by the collector
 */
#include "store/objects/lease.h"

#include "common/debug.h"
#include "common/io.h"
#include "common/proc.h"
#include "store/objects/collect.h"
#include "store/objects/object-cache.h"
#include "store/objects/packs.h"
#include "store/objects/recent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 2
#define BEGIN_TRIES                                                                      \
	5000 /* each fails by a new generation, or by a drain at that moment */
#define CLAIMS_ROOM   (1 << 16) /* bytes reserved in case the disk gets full */
#define CONDEMNED_MAX (1u << 30)

struct leases {
	pthread_mutex_t lock;
	pid_t pid;
	bool locks; /* flock may be used */
	int dirfd, generation, claims, fds[2];
	unsigned n;    /* puts and records under way */
	uint64_t held; /* generation of the lease that is held; valid if n */
	uint64_t seen; /* generation of the condemned */
	bool forgets;  /* the condemned are to be forgotten */
	struct shfs_object_id *condemned;
	_Atomic size_t n_condemned;
};

static const char *const lease_names[] = { "lease-0", "lease-1" };

static void pause_ms(int ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

static int open_collect_dir(struct shfs_store *store)
{
	int fd;

	if (mkdirat(store->dirfd, "collect", 0700) && errno != EEXIST)
		return -errno;
	fd = openat(store->dirfd, "collect",
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_lease_file(int dirfd, const char *name, int flags)
{
	int fd = openat(dirfd, name, flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

/* Reads the generation: 0 in a store where nothing was ever collected. */
static int read_generation(int fd, uint64_t *out)
{
	ssize_t n = shfs_pread_full(fd, out, sizeof(*out), 0);

	if (n < (ssize_t)sizeof(*out))
		*out = 0;
	return (int)MIN(n, 0);
}

/* --- producers --- */

struct leases *leases_new(void)
{
	struct leases *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	pthread_mutex_init(&l->lock, NULL);
	l->dirfd = l->generation = l->claims = l->fds[0] = l->fds[1] = -1;
	return l;
}

static void close_all(struct leases *l)
{
	int *fds[] = { &l->dirfd, &l->generation, &l->claims, &l->fds[0], &l->fds[1] };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		shfs_closep(fds[i]);
		*fds[i] = -1;
	}
	l->n = 0;
}

void leases_free(struct leases *l)
{
	if (!l)
		return;
	close_all(l);
	free(l->condemned);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* Lock held. A child of a producer has leases of its own. */
static int prepare_leases(struct shfs_store *store, struct leases *l)
{
	int r;

	shfs_assert_held(&l->lock);
	if (l->dirfd >= 0 && l->pid == shfs_pid())
		return 0;
	close_all(l);
	l->pid = shfs_pid();
	l->locks = !shfs_store_may_hang(store->path);
	if ((r = l->dirfd = open_collect_dir(store)) < 0 ||
	    (r = l->generation = open_lease_file(l->dirfd, "generation", O_RDONLY)) < 0 ||
	    (r = l->claims = open_lease_file(l->dirfd, "claims", O_WRONLY | O_APPEND)) <
	            0 ||
	    (r = l->fds[0] = open_lease_file(l->dirfd, lease_names[0], O_RDONLY)) < 0 ||
	    (r = l->fds[1] = open_lease_file(l->dirfd, lease_names[1], O_RDONLY)) < 0 ||
	    (r = read_generation(l->generation, &l->seen)) < 0)
		close_all(l);
	else
		l->seen--; /* nothing has been read of this generation */
	return MIN(r, 0);
}

int shfs_lease_prepare(struct shfs_store *store)
{
	struct leases *l = store->leases;
	int r;

	pthread_mutex_lock(&l->lock);
	r = prepare_leases(store, l);
	pthread_mutex_unlock(&l->lock);
	return r;
}

static int read_condemned(struct leases *l, uint64_t generation)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	struct shfs_object_id *ids = NULL;
	uint64_t of = generation;
	size_t n = 0;
	int r = shfs_read_file_at(l->dirfd, "condemned", CONDEMNED_MAX, &b);

	if (r && r != -ENOENT)
		return r;
	if (!r && b.len >= sizeof(of)) {
		memcpy(&of, b.data, sizeof(of));
		n = (b.len - sizeof(of)) / sizeof(*ids);
	}
	if (of == generation && n) {
		ids = malloc(n * sizeof(*ids));
		if (!ids)
			return -ENOMEM;
		memcpy(ids, b.data + sizeof(of), n * sizeof(*ids));
	}
	free(l->condemned);
	l->condemned = ids;
	l->n_condemned = ids ? n : 0;
	return 0;
}

static int read_forgets(struct leases *l, uint64_t generation)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	int r = shfs_read_file_at(l->dirfd, "forgotten", sizeof(generation), &b);

	l->forgets = !r && b.len == sizeof(generation) &&
	             !memcmp(b.data, &generation, sizeof(generation));
	return r == -ENOENT ? 0 : r;
}

/* Lock held. Reads the condemned objects of a new generation, and drops all that this
 * process remembers of objects, as they may have been removed. */
static int learn_generation(struct shfs_store *store, struct leases *l,
                            uint64_t generation)
{
	int r;

	shfs_assert_held(&l->lock);
	if (l->seen == generation)
		return 0;
	r = read_condemned(l, generation);
	if (!r)
		r = read_forgets(l, generation);
	if (!r)
		r = packs_relearn(store);
	if (r)
		return r;
	recents_forget(store->recents);
	object_cache_forget(store->object_cache);
	shfs_debug(OBJECTS, "collection %" PRIu64 " condemns %zu objects%s", generation,
	           (size_t)l->n_condemned, l->forgets ? ", to be forgotten" : "");
	l->seen = generation;
	return 0;
}

static int learn_now(struct shfs_store *store, struct leases *l)
{
	uint64_t g;
	int r = read_generation(l->generation, &g);

	return r ? r : learn_generation(store, l, g);
}

/* Lock held. Takes the shared lock of the present generation; one of an earlier
 * generation stays held. */
static int acquire(struct shfs_store *store, struct leases *l, uint64_t *held)
{
	for (int i = 0; i < BEGIN_TRIES; i++) {
		uint64_t g, now;
		int fd, r = read_generation(l->generation, &g);

		if (r)
			return r;
		fd = l->fds[g & 1];
		if (flock(fd, LOCK_SH | LOCK_NB)) {
			if (errno != EWOULDBLOCK && errno != EINTR)
				return -errno;
			pause_ms(POLL_MS);
			continue;
		}
		/* From here on a collection that begins waits for us. */
		r = read_generation(l->generation, &now);
		if (r || now == g) {
			r = r ? r : learn_generation(store, l, g);
			*held = g;
			return r;
		}
		if (!l->n || (l->held & 1) != (g & 1))
			flock(fd, LOCK_UN);
	}
	return -EBUSY;
}

int shfs_lease_begin(struct shfs_store *store)
{
	struct leases *l = store->leases;
	int r;

	pthread_mutex_lock(&l->lock);
	r = prepare_leases(store, l);
	if (!r && l->locks)
		r = l->n ? learn_now(store, l) : acquire(store, l, &l->held);
	if (!r)
		l->n++;
	else if (!l->n && l->locks && l->dirfd >= 0)
		for (int i = 0; i < 2; i++)
			flock(l->fds[i], LOCK_UN);
	pthread_mutex_unlock(&l->lock);
	return r;
}

void shfs_lease_keep(struct shfs_store *store)
{
	struct leases *l = store->leases;

	pthread_mutex_lock(&l->lock);
	shfs_assert(l->n);
	l->n++;
	pthread_mutex_unlock(&l->lock);
}

void shfs_lease_end(struct shfs_store *store)
{
	struct leases *l = store->leases;

	pthread_mutex_lock(&l->lock);
	if (l->pid == shfs_pid() && l->n && !--l->n && l->locks)
		flock(l->fds[l->held & 1], LOCK_UN);
	pthread_mutex_unlock(&l->lock);
}

bool shfs_lease_is_stale(struct shfs_store *store)
{
	struct leases *l = store->leases;
	uint64_t g;
	bool stale;

	pthread_mutex_lock(&l->lock);
	stale = l->n && l->locks && (read_generation(l->generation, &g) || g != l->held);
	pthread_mutex_unlock(&l->lock);
	return stale;
}

int shfs_lease_renew(struct shfs_store *store, const struct shfs_object_id *ids, size_t n)
{
	struct leases *l = store->leases;
	uint64_t held;
	int r = 0;

	pthread_mutex_lock(&l->lock);
	if (l->n && l->locks) {
		held = l->held;
		if (n)
			r = shfs_write_all(l->claims, ids, n * sizeof(*ids));
		if (!r)
			r = acquire(store, l, &held);
		if (!r && (held & 1) != (l->held & 1))
			flock(l->fds[l->held & 1], LOCK_UN);
		if (!r)
			l->held = held;
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

uint64_t shfs_lease_generation(struct shfs_store *store)
{
	struct leases *l = store->leases;
	uint64_t g = 0;

	pthread_mutex_lock(&l->lock);
	/* not on a network file system, which might keep the user waiting: there nobody
	 * records while objects are collected */
	if (!prepare_leases(store, l) && l->locks && read_generation(l->generation, &g))
		g = 0;
	pthread_mutex_unlock(&l->lock);
	return g;
}

bool lease_condemns(struct shfs_store *store, const struct shfs_object_id *id)
{
	struct leases *l = store->leases;
	bool found;

	if (!l->n_condemned)
		return false;
	pthread_mutex_lock(&l->lock);
	found = l->n_condemned && bsearch(id, l->condemned, l->n_condemned, sizeof(*id),
	                                  shfs_object_compare);
	pthread_mutex_unlock(&l->lock);
	return found;
}

int lease_forgotten(struct shfs_store *store, struct shfs_object_id **ids, size_t *n,
                    uint64_t *generation)
{
	struct leases *l = store->leases;
	int r = 0;

	pthread_mutex_lock(&l->lock);
	*n = l->forgets ? l->n_condemned : 0;
	*generation = l->seen;
	*ids = malloc(*n * sizeof(**ids) + 1);
	if (!*ids)
		r = -ENOMEM;
	else if (*n)
		memcpy(*ids, l->condemned, *n * sizeof(**ids));
	pthread_mutex_unlock(&l->lock);
	return r;
}

/* --- the collector --- */

int lease_gate_open(struct shfs_store *store, struct lease_gate *g)
{
	_cleanup_close_ int generation = -1;
	int r;

	*g = (struct lease_gate){ .dirfd = -1, .lock = -1, .leases = { -1, -1 } };
	g->locks = !shfs_store_may_hang(store->path);
	if ((r = g->dirfd = open_collect_dir(store)) < 0 ||
	    (r = g->lock = open_lease_file(g->dirfd, "lock", O_RDONLY)) < 0 ||
	    (r = g->leases[0] = open_lease_file(g->dirfd, lease_names[0], O_RDONLY)) <
	            0 ||
	    (r = g->leases[1] = open_lease_file(g->dirfd, lease_names[1], O_RDONLY)) <
	            0 ||
	    (r = generation = open_lease_file(g->dirfd, "generation", O_RDONLY)) < 0)
		goto fail;
	if (g->locks && flock(g->lock, LOCK_EX | LOCK_NB)) {
		r = errno == EWOULDBLOCK ? -EBUSY : -errno;
		goto fail;
	}
	r = read_generation(generation, &g->generation);
	if (!r)
		return 0;
fail:
	lease_gate_close(g);
	return r;
}

static int set_generation(struct lease_gate *g, uint64_t generation)
{
	_cleanup_close_ int fd = open_lease_file(g->dirfd, "generation", O_WRONLY);

	if (fd < 0)
		return fd;
	if (pwrite(fd, &generation, sizeof(generation), 0) != sizeof(generation))
		return errno ? -errno : -EIO;
	g->generation = generation;
	return 0;
}

int lease_gate_shut(struct shfs_store *store, struct lease_gate *g)
{
	int r = lease_gate_open(store, g);

	if (!r)
		/* a collector may have been killed: nothing is condemned any more */
		r = set_generation(g, g->generation + 1);
	if (r)
		lease_gate_close(g);
	return r;
}

/* Waits until nobody holds a lease of the generations with this parity. */
static int wait_for_leases(struct lease_gate *g, uint64_t generation, int wait_ms)
{
	int fd = g->leases[generation & 1];

	if (!g->locks)
		return 0;
	for (int ms = 0; flock(fd, LOCK_EX | LOCK_NB); ms += POLL_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (ms >= wait_ms)
			return -EBUSY;
		pause_ms(POLL_MS);
	}
	return flock(fd, LOCK_UN) ? -errno : 0;
}

static int write_condemned(struct lease_gate *g, const struct shfs_object_id *ids,
                           size_t n, bool forget)
{
	uint64_t next = g->generation + 1;
	_cleanup_buf_ struct shfs_buf b = { 0 };
	_cleanup_close_ int claims = open_lease_file(g->dirfd, "claims", O_WRONLY);

	if (claims < 0 || ftruncate(claims, 0))
		return claims < 0 ? claims : -errno;
	(void)!fallocate(claims, FALLOC_FL_KEEP_SIZE, 0, CLAIMS_ROOM);
	shfs_buf_add(&b, &next, sizeof(next));
	shfs_buf_add(&b, ids, n * sizeof(*ids));
	if (b.failed)
		return -ENOMEM;
	if (forget) {
		int r = shfs_write_file_at(g->dirfd, "forgotten", 0600, &next,
		                           sizeof(next));

		if (r)
			return r;
	}
	return shfs_write_file_at(g->dirfd, "condemned", 0600, b.data, b.len);
}

int lease_gate_condemn(struct lease_gate *g, const struct shfs_object_id *ids, size_t n,
                       const struct lease_condemnation *how)
{
	/* Waits for holders of a lease that an earlier collection gave up waiting for. */
	int r = wait_for_leases(g, g->generation + 1, how->wait_ms);

	if (!r)
		r = write_condemned(g, ids, n, how->forget);
	if (!r)
		r = set_generation(g, g->generation + 1);
	g->condemned = !r;
	if (!r && how->tell)
		r = how->tell(how->arg);
	return r ? r : wait_for_leases(g, g->generation - 1, how->wait_ms);
}

int lease_gate_claims(struct lease_gate *g, struct shfs_object_id **ids, size_t *n)
{
	struct shfs_buf b = { 0 };
	int r = shfs_read_file_at(g->dirfd, "claims", CONDEMNED_MAX, &b);

	if (r) {
		shfs_buf_free(&b);
		return r;
	}
	*n = b.len / sizeof(**ids);
	*ids = (struct shfs_object_id *)b.data;
	qsort(*ids, *n, sizeof(**ids), shfs_object_compare);
	return 0;
}

void lease_gate_close(struct lease_gate *g)
{
	int *fds[] = { &g->leases[0], &g->leases[1], &g->lock, &g->dirfd };

	if (g->condemned)
		(void)!set_generation(g, g->generation + 1);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		shfs_closep(fds[i]);
		*fds[i] = -1;
	}
}
