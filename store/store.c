/* SPDX-License-Identifier: MIT */
#include "store/store.h"

#include "common/io.h"
#include "common/lock.h"
#include "common/path.h"
#include "common/proc.h"
#include "store/index-dir.h"
#include "store/journal/runtime.h"
#include "store/objects/codec.h"
#include "store/objects/lease.h"
#include "store/objects/loose.h"
#include "store/objects/object-cache.h"
#include "store/objects/object.h"
#include "store/objects/packs.h"
#include "store/objects/pruned.h"
#include "store/objects/recent.h"
#include "store/trees.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#define STORE_FORMAT "2\n"
#define STORE_BEFORE "1\n" /* it has no pack of format 2 */
#define LOCK_POLL_MS 10
#define NAMES_MAX    256 /* longest path below the store that is opened */

/* Opens a directory of the store, and first makes it if create; 0700 whatever the umask.
 */
static int open_store_dir(int dirfd, const char *name, bool create)
{
	int fd;

	if (create && (mkdirat(dirfd, name, 0700) ? errno != EEXIST : fsync(dirfd)))
		return -errno;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int check_store_owner(int dirfd, bool create)
{
	struct stat st;

	if (fstat(dirfd, &st))
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM;
	if (!(st.st_mode & 077))
		return 0;
	/* An empty directory that the user made for the store is tightened, others are
	 * refused. */
	if (create && st.st_nlink == 2 && faccessat(dirfd, "format", F_OK, 0))
		return fchmod(dirfd, 0700) ? -errno : 0;
	return st.st_mode & 022 ? -EACCES : 0;
}

/* Syncs the directories above a new store, so that their names survive a power cut.
 * Errors are ignored: a directory that cannot be opened or synced was not made by us. */
static void sync_above(const char *path)
{
	_cleanup_free_ char *above = strdup(path);
	char *end;

	while (above && (end = strrchr(above, '/'))) {
		_cleanup_close_ int fd = -1;

		*end = '\0';
		fd = open(*above ? above : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			(void)!fsync(fd);
	}
}

static int write_store_format(int dirfd)
{
	return shfs_write_file_at(dirfd, "format", 0600, STORE_FORMAT,
	                          strlen(STORE_FORMAT));
}

/* Has anything been recorded there? A hook makes its own directories, journal and state,
 * before there is a store. */
static bool is_in_use(int dirfd)
{
	return !faccessat(dirfd, "objects", F_OK, 0) ||
	       !faccessat(dirfd, "log", F_OK, 0) ||
	       !faccessat(dirfd, "index.db", F_OK, 0);
}

/* Checks the file "format". -EBADMSG: it holds no number, or is missing from a store that
 * is in use. */
static int read_store_format(int dirfd)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_read_file_at(dirfd, "format", 64, &text);
	size_t digits;

	if (r == -ENOENT)
		return is_in_use(dirfd) ? -EBADMSG : r;
	if (r)
		return r == -EFBIG ? -EBADMSG : r;
	digits = strspn(text.data, "0123456789");
	if (!digits || strcmp(text.data + digits, "\n"))
		return -EBADMSG;
	return strcmp(text.data, STORE_FORMAT) && strcmp(text.data, STORE_BEFORE)
	               ? -EPROTONOSUPPORT
	               : 0;
}

int shfs_store_raise(struct shfs_store *store)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int r = shfs_read_file_at(store->dirfd, "format", 64, &text);

	if (!r && !strcmp(text.data, STORE_BEFORE))
		return write_store_format(store->dirfd);
	return r == -ENOENT || r == -EFBIG ? 0 : r; /* it is damaged: shfs repair */
}

static int check_or_make_format(const struct shfs_store *s, bool create)
{
	int r = read_store_format(s->dirfd);

	if (!create || !faccessat(s->dirfd, "format", F_OK, 0))
		return r;
	sync_above(s->path);
	/* a store in use whose format is damaged has records already */
	if (r == -ENOENT && (r = shfs_trees_init(s->dirfd)))
		return r;
	return write_store_format(s->dirfd);
}

int shfs_store_mend(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : check_store_owner(fd, false);

	if (!r)
		r = read_store_format(fd);
	return r == -EBADMSG ? write_store_format(fd) ?: 1 : r;
}

static int open_dirs(struct shfs_store *s, bool create)
{
	_cleanup_close_ int journal = -1;
	int r;

	if ((r = s->objects_fd = open_store_dir(s->dirfd, "objects", create)) < 0 ||
	    (r = journal = open_store_dir(s->dirfd, "journal", create)) < 0 ||
	    (r = s->state_fd = open_store_dir(s->dirfd, "state", create)) < 0 ||
	    (r = s->log_fd = open_store_dir(s->dirfd, "log", create)) < 0)
		return r;
	/* A store that only other hosts have written has no directory for this one. A
	 * query creates nothing: it gets the parent, which has no segments. */
	r = s->journal_fd = open_store_dir(journal, s->host, create);
	if (r == -ENOENT)
		s->journal_fd = r = TAKE_FD(journal);
	return MIN(r, 0);
}

/* Finds the directory of the index. Without one, the store is used with its journal only.
 */
static int find_index(struct shfs_store *s)
{
	struct statfs fs;

	if (!fstatfs(s->dirfd, &fs) && shfs_is_network(&fs)) {
		s->index_fd = index_dir_open(s->path, &s->index_path);
		return 0;
	}
	s->index_fd = s->dirfd;
	s->index_path = strdup(s->path);
	return s->index_path ? 0 : -ENOMEM;
}

int shfs_store_open(const char *path, enum shfs_store_flags flags,
                    struct shfs_store **out)
{
	_cleanup_store_ struct shfs_store *s = malloc(sizeof(*s));
	bool create = flags & SHFS_STORE_CREATE;
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct shfs_store){ .dirfd = -1,
		                  .objects_fd = -1,
		                  .journal_fd = -1,
		                  .state_fd = -1,
		                  .log_fd = -1,
		                  .index_fd = -1 };
	s->path = strdup(path);
	s->packs = packs_new();
	s->loose_dirs = loose_dirs_new();
	s->recents = recents_new();
	s->object_cache = object_cache_new();
	s->codecs = codecs_new();
	s->leases = leases_new();
	s->pruned = pruned_new(PRUNED_NAME);
	s->away = pruned_new(AWAY_NAME);
	if (!s->path || !s->packs || !s->loose_dirs || !s->recents || !s->object_cache ||
	    !s->codecs || !s->leases || !s->pruned || !s->away)
		return -ENOMEM;
	shfs_proc_host(s->host);
	if (strlen(path) + NAMES_MAX > PATH_MAX)
		return -ENAMETOOLONG;
	if (create && (r = shfs_mkdir_p_at(AT_FDCWD, path, 0700)))
		return r;
	s->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dirfd < 0)
		return errno == EACCES ? -EPERM : -errno;
	if ((r = check_store_owner(s->dirfd, create)) ||
	    (r = check_or_make_format(s, create)) || (r = open_dirs(s, create)) ||
	    (r = find_index(s)))
		return r;
	*out = TAKE_PTR(s);
	return 0;
}

void shfs_store_close(struct shfs_store *s)
{
	if (!s)
		return;
	packs_free(s, s->packs);
	loose_dirs_free(s->loose_dirs);
	recents_free(s->recents);
	object_cache_free(s->object_cache);
	codecs_free(s->codecs);
	leases_free(s->leases);
	pruned_free(s->pruned);
	pruned_free(s->away);
	shfs_closep(&s->objects_fd);
	shfs_closep(&s->journal_fd);
	shfs_closep(&s->state_fd);
	shfs_closep(&s->log_fd);
	if (s->index_fd != s->dirfd)
		shfs_closep(&s->index_fd);
	shfs_closep(&s->dirfd);
	free(s->index_path);
	free(s->path);
	free(s);
}

const char *shfs_store_strerror(int error)
{
	switch (abs(error)) {
	case ENOENT:
		return "there is none; shfs mount makes it";
	case EPERM:
		return "it belongs to another user; choose another with --store or "
		       "SHFS_STORE";
	case EACCES:
		return "others may write to it; run chmod go-rwx on it";
	case EPROTONOSUPPORT:
		return "a newer shfs made it; upgrade shfs";
	case EBADMSG:
		return "its file \"format\" is damaged; shfs repair writes it anew";
	case ENOSPC:
		return "no space left on its disk; make room";
	case ENOTDIR:
		return "not a directory; choose another with --store or SHFS_STORE";
	case EROFS:
		return "its file system is read-only; choose another with --store or "
		       "SHFS_STORE";
	default:
		return strerror(abs(error));
	}
}

int shfs_store_lock(const char *path, const char *what, int wait_ms)
{
	char name[80];

	snprintf(name, sizeof(name), "%s-%016" PRIx64, what,
	         shfs_object_hash64(path, strlen(path)));
	return shfs_lock_take(name, wait_ms);
}

static int lock_store_dir(struct shfs_store *store, int how, int wait_ms)
{
	if (shfs_store_may_hang(store->path))
		return 0;
	for (int ms = 0; flock(store->dirfd, how | LOCK_NB); ms += LOCK_POLL_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return errno == ENOTSUP ? 0 : -errno;
		if (ms >= wait_ms)
			return -EBUSY;
		nanosleep(&(struct timespec){ .tv_nsec = LOCK_POLL_MS * 1000000L }, NULL);
	}
	return 0;
}

int shfs_store_share(struct shfs_store *store, int wait_ms)
{
	return lock_store_dir(store, LOCK_SH, wait_ms);
}

int shfs_store_exclude(struct shfs_store *store)
{
	return lock_store_dir(store, LOCK_EX, 0);
}

void shfs_store_unshare(struct shfs_store *store)
{
	if (!shfs_store_may_hang(store->path))
		flock(store->dirfd, LOCK_UN);
}

int shfs_store_source(int dirfd, const char *path, char out[static SHFS_STORE_SOURCE_MAX])
{
	struct stat st;

	if (fstatat(dirfd, path, &st, AT_EMPTY_PATH))
		return -errno;
	snprintf(out, SHFS_STORE_SOURCE_MAX, "shfs:%" PRIx64 "-%" PRIx64,
	         (uint64_t)st.st_dev, (uint64_t)st.st_ino);
	return 0;
}

/* Calls statfs for path, or for its nearest existing parent if path does not exist yet.
 */
static bool stat_nearest(const char *path, struct statfs *out)
{
	_cleanup_free_ char *p = strdup(path);

	while (p && statfs(p, out)) {
		char *slash = strrchr(p, '/');

		if (errno != ENOENT || !slash || slash == p)
			return false;
		*slash = '\0';
	}
	return p;
}

bool shfs_store_may_hang(const char *path)
{
	struct statfs fs;

	return stat_nearest(path, &fs) && shfs_is_served(&fs);
}

bool shfs_store_is_on_network(const char *path)
{
	struct statfs fs;

	return stat_nearest(path, &fs) && shfs_is_network(&fs);
}

char *shfs_store_journal_dir(const char *base)
{
	_cleanup_free_ char *journal = shfs_path_join(base, "journal");
	char host[65];

	shfs_proc_host(host);
	return journal ? shfs_path_join(journal, host) : NULL;
}

/* Returns a directory with the layout of a store that does not keep a prompt waiting: the
 * store itself, or the runtime directory. */
static char *hook_base(const char *store_path)
{
	char *runtime =
		shfs_store_may_hang(store_path) ? shfs_runtime_dir(store_path) : NULL;

	return runtime ? runtime : strdup(store_path);
}

char *shfs_store_hook_dir(const char *store_path)
{
	_cleanup_free_ char *base = hook_base(store_path);

	return base ? shfs_store_journal_dir(base) : NULL;
}

char *shfs_store_hook_state_dir(const char *store_path)
{
	_cleanup_free_ char *base = hook_base(store_path);

	return base ? shfs_path_join(base, "state") : NULL;
}
