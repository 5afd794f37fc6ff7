/* SPDX-License-Identifier: MIT */
#include "kmod-fast-path/recorder/contents.h"

#include "common/debug.h"
#include "common/io.h"
#include "store/objects/object.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <uthash.h>

#define KNOWN_MAX 65536
#define BEHIND_NS SHFS_NSEC_PER_SEC /* events later than this wait for no lease */
#define LEASE_BYTES_MAX                                                                  \
	(64u << 20) /* a longer file would hold up its next writer for long */

/* The content of a file when it was last seen. */
struct remembered {
	struct {
		uint64_t dev, ino;
	} key;
	uint64_t bytes;
	int64_t mtime_ns, ctime_ns;
	bool secret;                    /* it has a secret name */
	int64_t born_ns;                /* creation time of a file that had a secret
	                                 * name; 0: it had none */
	uint64_t path_hash;             /* of the last name in an event; 0: none */
	struct shfs_snapshot *snapshot; /* a reference */
	UT_hash_handle hh, hh_path;
};

struct shfs_contents {
	struct shfs_capture *capture;
	const struct shfs_config *config;
	struct shfs_project_rules *rules;
	int root_fd;
	bool late;
	/* CLOCK_MONOTONIC: before this time no close is waited for */
	_Atomic int64_t wait_from_ns;
	pthread_mutex_t lock;
	struct remembered *known; /* the longest unused first */
	struct remembered *by_path;
};

int shfs_contents_new(struct shfs_capture *capture, const struct shfs_config *config,
                      struct shfs_project_rules *rules, int root_fd, bool late,
                      struct shfs_contents **out)
{
	struct shfs_contents *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->capture = capture;
	c->config = config;
	c->rules = rules;
	c->root_fd = root_fd;
	c->late = late;
	pthread_mutex_init(&c->lock, NULL);
	*out = c;
	return 0;
}

/* --- remembered files; with the lock held --- */

static void forget_name(struct shfs_contents *c, struct remembered *known)
{
	if (known->path_hash)
		HASH_DELETE(hh_path, c->by_path, known);
	known->path_hash = 0;
}

static void forget_content(struct shfs_contents *c, struct remembered *known)
{
	forget_name(c, known);
	HASH_DEL(c->known, known);
	shfs_snapshot_unref(known->snapshot);
	free(known);
}

void shfs_contents_free(struct shfs_contents *c)
{
	struct remembered *known, *next;

	if (!c)
		return;
	HASH_ITER (hh, c->known, known, next)
		forget_content(c, known);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct remembered *find_content(struct shfs_contents *c,
                                       const struct shfs_event_file *file)
{
	struct remembered *known, at = { .key = { file->dev, file->ino } };

	HASH_FIND(hh, c->known, &at.key, sizeof(at.key), known);
	if (known && known->hh.next) {
		HASH_DEL(c->known, known);
		HASH_ADD(hh, c->known, key, sizeof(known->key), known);
	}
	return known;
}

static bool is_same_state(const struct remembered *known,
                          const struct shfs_event_file *file)
{
	return known->bytes == file->bytes && known->mtime_ns == file->mtime_ns;
}

static void remember_content(struct shfs_contents *c, const struct shfs_event_file *file,
                             struct shfs_snapshot *snapshot)
{
	struct remembered *known = find_content(c, file);

	if (!known) {
		if (HASH_COUNT(c->known) >= KNOWN_MAX)
			forget_content(c, c->known);
		known = calloc(1, sizeof(*known));
		if (!known)
			return;
		known->key.dev = file->dev;
		known->key.ino = file->ino;
		HASH_ADD(hh, c->known, key, sizeof(known->key), known);
	}
	shfs_snapshot_unref(known->snapshot);
	known->snapshot = shfs_snapshot_ref(snapshot);
	known->bytes = file->bytes;
	known->mtime_ns = file->mtime_ns;
	known->ctime_ns = file->ctime_ns;
}

static struct remembered *find_path(struct shfs_contents *c, uint64_t hash)
{
	struct remembered *known;

	HASH_FIND(hh_path, c->by_path, &hash, sizeof(hash), known);
	return known;
}

/* Notes that the file is at path now, and an earlier file of that name is not. */
static void note_name(struct shfs_contents *c, const struct shfs_event_file *file,
                      const char *path, bool secret)
{
	uint64_t hash = shfs_object_hash64(path, strlen(path));
	struct remembered *known, *was;

	pthread_mutex_lock(&c->lock);
	known = find_content(c, file);
	was = find_path(c, hash);
	if (was && was != known) {
		shfs_snapshot_gone(was->snapshot);
		forget_name(c, was);
	}
	if (known) {
		known->secret = secret;
		forget_name(c, known);
		known->path_hash = hash;
		HASH_ADD(hh_path, c->by_path, path_hash, sizeof(hash), known);
		if (!known->hh_path.tbl)
			known->path_hash = 0;
	}
	pthread_mutex_unlock(&c->lock);
}

void shfs_contents_gone(struct shfs_contents *c, const char *path)
{
	struct remembered *known;

	pthread_mutex_lock(&c->lock);
	known = find_path(c, shfs_object_hash64(path, strlen(path)));
	if (known) {
		shfs_snapshot_gone(known->snapshot);
		forget_name(c, known);
	}
	pthread_mutex_unlock(&c->lock);
}

/* The creation time of the file: another file may get its number. 0: unknown. */
static int64_t born_ns(int fd)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) ||
	    !(stx.stx_mask & STATX_BTIME))
		return 0;
	return stx.stx_btime.tv_sec * SHFS_NSEC_PER_SEC + stx.stx_btime.tv_nsec;
}

static bool has_been_secret(struct shfs_contents *c, const struct shfs_event_file *file,
                            int fd)
{
	const struct remembered *known;
	int64_t was_ns;

	pthread_mutex_lock(&c->lock);
	known = find_content(c, file);
	was_ns = known ? known->born_ns : 0;
	pthread_mutex_unlock(&c->lock);
	return was_ns && born_ns(fd) == was_ns;
}

static void note_secret(struct shfs_contents *c, const struct shfs_event_file *file,
                        int fd)
{
	int64_t ns = born_ns(fd);
	struct remembered *known;

	pthread_mutex_lock(&c->lock);
	known = find_content(c, file);
	if (known)
		known->born_ns = ns;
	pthread_mutex_unlock(&c->lock);
}

/* The file was written, and its new content could not be read. */
static void forget_file(struct shfs_contents *c, const struct shfs_event_file *file)
{
	struct remembered *known;

	pthread_mutex_lock(&c->lock);
	known = find_content(c, file);
	if (known && known->born_ns)
		known->bytes = UINT64_MAX; /* no state equals this one */
	else if (known)
		forget_content(c, known);
	pthread_mutex_unlock(&c->lock);
}

/* --- reading a file --- */

/* Opens a file without changing its atime, if it is the user's own. */
static int open_noatime(int dirfd, const char *path, uint64_t resolve)
{
	struct open_how how = { .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
		                         O_NOATIME,
		                .resolve = resolve };
	long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

	if (fd < 0 && errno == EPERM) {
		how.flags &= ~(uint64_t)O_NOATIME;
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
	}
	return fd < 0 ? -errno : (int)fd;
}

/* Opens the event's file. -ESTALE: its path leads to another file. */
static int open_event_file(struct shfs_contents *c, const struct shfs_event_file *file,
                           const char *path, int content_fd)
{
	char name[40];
	struct stat st;
	int fd;

	if (content_fd >= 0) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", content_fd);
		return open_noatime(AT_FDCWD, name, 0);
	}
	fd = open_noatime(c->root_fd, path, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0 || (!fstat(fd, &st) && st.st_ino == file->ino))
		return fd;
	close(fd);
	return -ESTALE;
}

static bool is_unchanged_since_event(int fd, const struct shfs_event_file *file)
{
	struct stat st;

	return !fstat(fd, &st) && (uint64_t)st.st_size == file->bytes &&
	       shfs_timespec_ns(st.st_mtim) == file->mtime_ns;
}

/* Takes a read lease, which ends with fd: a process that opens the file to write waits
 * for it. false: the file is open to write already. */
static bool lease_file(int fd, const struct shfs_event_file *file)
{
	if (fcntl(fd, F_SETLEASE, F_RDLCK))
		return errno != EAGAIN;
	if (file->bytes > LEASE_BYTES_MAX)
		fcntl(fd, F_SETLEASE, F_UNLCK);
	return true;
}

/* After this time, another change of the file gets other times. */
static int64_t tick_ns(void)
{
	struct timespec tick;

	clock_getres(CLOCK_REALTIME_COARSE, &tick);
	return 2 * shfs_timespec_ns(tick);
}

static void outlast_tick(const struct shfs_event_file *file)
{
	int64_t now_ns = shfs_clock_ns(CLOCK_REALTIME), span_ns = tick_ns();

	if (now_ns >= file->mtime_ns && now_ns < file->mtime_ns + span_ns)
		nanosleep(&(struct timespec){ .tv_nsec = span_ns }, NULL);
}

/* Is the recorder so late that the kernel may run out of room for events? */
static bool is_recorder_behind(int64_t at_ns)
{
	return shfs_clock_ns(CLOCK_REALTIME) - at_ns > BEHIND_NS;
}

/* Waits until the file can be leased. The event of a close may come before the close is
 * done; that needs the closing process to run again. Another process may keep the file
 * open, so the wait is at most half a second, and a fifth of all time. */
static bool lease_in_time(struct shfs_contents *c, int fd,
                          const struct shfs_event_file *file, int64_t at_ns)
{
	int64_t began_ns = shfs_clock_ns(CLOCK_MONOTONIC);
	int64_t span_ns = SHFS_NSEC_PER_SEC / 1000;
	bool leased = lease_file(fd, file);

	if (leased || is_recorder_behind(at_ns))
		return leased;
	if (!c->late || began_ns < c->wait_from_ns) {
		outlast_tick(file);
		return lease_file(fd, file);
	}
	for (int i = 0; i < 9 && !leased && is_unchanged_since_event(fd, file);
	     i++, span_ns *= 2) {
		nanosleep(&(struct timespec){ .tv_nsec = span_ns }, NULL);
		leased = lease_file(fd, file);
	}
	c->wait_from_ns = 5 * shfs_clock_ns(CLOCK_MONOTONIC) - 4 * began_ns;
	return leased;
}

/* Makes sure that every later change shows in the file's times, or waits for the lease;
 * not for unsure contents, which are INCOMPLETE anyway. A long write keeps the time of
 * its beginning: lseek(SEEK_DATA) waits until it is done (on xfs, read does). */
static void outlast_writes(int fd, const struct shfs_event_file *file, bool unsure)
{
	if (fcntl(fd, F_GETLEASE) == F_RDLCK)
		return;
	if (!unsure)
		outlast_tick(file);
	(void)!lseek(fd, 0, SEEK_DATA);
}

/* The content as the event alone describes it. */
static struct shfs_content content_as_told(const struct shfs_event_file *file,
                                           uint32_t flags)
{
	return (struct shfs_content){
		.flags = SHFS_CONTENT_KNOWN | flags |
		         (file->nlink > 1 ? SHFS_CONTENT_LINKED : 0),
		.mode = file->mode,
		.size = file->bytes,
		.mtime_ns = file->mtime_ns,
		.ctime_ns = file->ctime_ns,
	};
}

/* What the name of a file demands for its content. */
enum care { CARE_KEEP, CARE_IGNORE, CARE_SECRET };

static struct shfs_snapshot *capture_content(struct shfs_contents *c, int fd,
                                             struct shfs_snapshot *before, enum care care,
                                             enum shfs_depth depth, uint64_t max_bytes,
                                             uid_t author)
{
	struct shfs_snapshot *snapshot = shfs_snapshot_new(c->capture);

	if (!snapshot)
		return NULL;
	shfs_snapshot_author(snapshot, author);
	if (before)
		shfs_snapshot_follow(snapshot, before);
	if (care == CARE_SECRET)
		shfs_snapshot_take_secret(snapshot, fd, c->config->archive_max_bytes);
	else
		shfs_snapshot_take(snapshot, fd,
		                   care == CARE_IGNORE ? SHFS_DEPTH_STAT : depth,
		                   max_bytes,
		                   care == CARE_IGNORE ? SHFS_CONTENT_SKIP_RULE : 0);
	if (depth == SHFS_DEPTH_ARCHIVE)
		shfs_snapshot_wait(snapshot, c->config->wait_ms);
	return snapshot;
}

static bool is_written(enum shfs_contents_why why)
{
	return why == SHFS_CONTENTS_WRITTEN || why == SHFS_CONTENTS_LEFT;
}

/* Is the remembered content the one of the event? Drivers that report names and closes
 * out of order: a new name may come with the content as it was remembered later. */
static bool is_content_of_event(const struct shfs_contents *c,
                                const struct remembered *known,
                                const struct shfs_event_file *file,
                                enum shfs_contents_why why)
{
	if (is_written(why))
		return false;
	return is_same_state(known, file) ||
	       (c->late && why != SHFS_CONTENTS_READ && known->ctime_ns > file->ctime_ns);
}

/* The content that was taken last: a reference, or NULL. */
static struct shfs_snapshot *last_snapshot(struct shfs_contents *c,
                                           const struct shfs_event_file *file,
                                           enum shfs_contents_why why, bool *same,
                                           bool *secret)
{
	struct shfs_snapshot *snapshot = NULL;
	const struct remembered *known;

	pthread_mutex_lock(&c->lock);
	known = find_content(c, file);
	if (known) {
		snapshot = shfs_snapshot_ref(known->snapshot);
		*same = is_content_of_event(c, known, file, why);
		*secret = known->secret && is_same_state(known, file);
	}
	pthread_mutex_unlock(&c->lock);
	return snapshot;
}

/* Takes the content if it still is that of the event. NULL: it is not. */
static struct shfs_snapshot *
capture_event_file(struct shfs_contents *c, int fd, const struct shfs_event_file *file,
                   int64_t at_ns, struct shfs_snapshot *before, enum care care,
                   enum shfs_depth depth, uint64_t max_bytes, uid_t author, bool left)
{
	/* its times prove it, even if a process has it open to write */
	bool sure = left || (!c->late && at_ns - file->mtime_ns >= tick_ns());
	bool leased = sure ? lease_file(fd, file) : lease_in_time(c, fd, file, at_ns);
	struct shfs_snapshot *snapshot;

	if (has_been_secret(c, file, fd))
		care = CARE_SECRET;
	outlast_writes(fd, file, !leased && !sure);
	if (!is_unchanged_since_event(fd, file)) {
		shfs_debug(RECORDER,
		           "file %" PRIu64 ": not read: it has changed since the event",
		           (uint64_t)file->ino);
		return NULL;
	}
	snapshot = capture_content(c, fd, before, care, depth, max_bytes, author);
	if (!snapshot)
		return NULL;
	if (!is_unchanged_since_event(fd, file) || (!leased && !sure)) {
		shfs_debug(RECORDER, "file %" PRIu64 ": incomplete: %s",
		           (uint64_t)file->ino,
		           leased || sure ? "it changed while it was read"
		                          : "another process may be writing to it");
		shfs_snapshot_spoil(snapshot);
	}
	pthread_mutex_lock(&c->lock);
	remember_content(c, file, snapshot);
	pthread_mutex_unlock(&c->lock);
	if (care == CARE_SECRET)
		note_secret(c, file, fd);
	return snapshot;
}

/* The care for a content. The event of its close may come after the rename that gave the
 * file a secret name. */
static enum care care_for(struct shfs_contents *c, const char *path, enum shfs_rule rule,
                          enum shfs_contents_why why, bool was_secret)
{
	bool secret = why == SHFS_CONTENTS_RENAMED_SECRET ||
	              (rule == SHFS_RULE_IGNORE &&
	               shfs_project_rules_is_secret(c->rules, path, false));

	return secret || (was_secret && is_written(why)) ? CARE_SECRET
	       : rule == SHFS_RULE_IGNORE                ? CARE_IGNORE
	                                                 : CARE_KEEP;
}

/* Is the content in the store, by the limit of now? An earlier request does not prove
 * that: a rule or another limit may have left it out. */
static bool is_archived(const struct shfs_snapshot *snapshot, uint64_t max_bytes)
{
	return snapshot && !shfs_snapshot_is_forgotten(snapshot) &&
	       !shfs_snapshot_wants(snapshot, SHFS_DEPTH_ARCHIVE, max_bytes);
}

struct shfs_held shfs_contents_take(struct shfs_contents *c,
                                    const struct shfs_event_file *file, const char *path,
                                    int content_fd, int64_t at_ns,
                                    enum shfs_contents_why why, uid_t author)
{
	enum shfs_rule rule = shfs_project_rules_match(c->rules, path);
	bool keeps = rule == SHFS_RULE_ARCHIVE_READ ||
	             (rule != SHFS_RULE_FINGERPRINT && why != SHFS_CONTENTS_READ);
	uint64_t max_bytes = why != SHFS_CONTENTS_READ ? c->config->archive_max_bytes
	                                               : c->config->read_max_bytes;
	bool same = false, was_secret = false;
	struct shfs_snapshot *last = last_snapshot(c, file, why, &same, &was_secret);
	bool kept = is_archived(last, max_bytes);
	enum care care = care_for(c, path, rule, why, was_secret);
	struct shfs_held held = { 0 };
	_cleanup_close_ int fd = -1;

	if (last && same && care == CARE_SECRET)
		shfs_snapshot_conceal(last);
	if (last && same && (kept || !keeps || care != CARE_KEEP)) {
		if (care == CARE_SECRET)
			fd = open_event_file(c, file, path, content_fd);
		if (fd >= 0)
			note_secret(c, file, fd);
		note_name(c, file, path, care == CARE_SECRET);
		if (file->nlink > 1)
			shfs_snapshot_linked(last);
		return (struct shfs_held){ .snapshot = last };
	}
	fd = open_event_file(c, file, path, content_fd);
	if (fd >= 0)
		held.snapshot =
			capture_event_file(c, fd, file, at_ns, kept ? last : NULL, care,
		                           keeps ? SHFS_DEPTH_ARCHIVE
		                                 : SHFS_DEPTH_FINGERPRINT,
		                           max_bytes, author, why == SHFS_CONTENTS_LEFT);
	shfs_snapshot_unref(last);
	note_name(c, file, path, care == CARE_SECRET);
	if (!held.snapshot && is_written(why))
		forget_file(c, file);
	if (!held.snapshot)
		held.value = content_as_told(file, fd == -EACCES ? SHFS_CONTENT_SKIP_ERROR
		                                   : why != SHFS_CONTENTS_READ
		                                           ? SHFS_CONTENT_INCOMPLETE
		                                           : 0);
	return held;
}

static struct shfs_held found_content(struct shfs_contents *c, int fd,
                                      const struct shfs_event_file *file,
                                      enum shfs_depth depth)
{
	struct shfs_held held = {
		.snapshot =
			capture_event_file(c, fd, file, shfs_clock_ns(CLOCK_REALTIME),
		                           NULL, CARE_KEEP, depth,
		                           c->config->read_max_bytes, file->uid, false),
	};

	if (!held.snapshot)
		held.value = content_as_told(file, SHFS_CONTENT_INCOMPLETE);
	return held;
}

struct shfs_held shfs_contents_found(struct shfs_contents *c, int fd,
                                     const struct shfs_event_file *file)
{
	return found_content(c, fd, file, SHFS_DEPTH_ARCHIVE);
}

void shfs_contents_learn_secret(struct shfs_contents *c, int fd)
{
	shfs_snapshot_unref(
		capture_content(c, fd, NULL, CARE_SECRET, SHFS_DEPTH_FINGERPRINT, 0, 0));
}

/* Treats the content as secret, though its name may not be secret any more. */
static void conceal_content(struct shfs_contents *c, int fd, const struct stat *st,
                            bool secret)
{
	struct shfs_event_file file = { .ino = st->st_ino, .dev = st->st_dev };
	struct remembered *known;

	pthread_mutex_lock(&c->lock);
	known = find_content(c, &file);
	file.dev = 0; /* of the root's file system: not every driver reports it */
	known = known ? known : find_content(c, &file);
	if (known && secret)
		shfs_snapshot_conceal(known->snapshot);
	pthread_mutex_unlock(&c->lock);
	shfs_contents_learn_secret(c, fd);
}

/* Conceals the file at path, relative to the root, which was called was before. */
static void conceal_moved(struct shfs_contents *c, const char *was, const char *path)
{
	bool secret = shfs_project_rules_is_secret(c->rules, path, false);
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (secret == shfs_project_rules_is_secret(c->rules, was, false))
		return;
	fd = open_noatime(c->root_fd, path, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd >= 0 && !fstat(fd, &st))
		conceal_content(c, fd, &st, secret);
}

void shfs_contents_conceal_below(struct shfs_contents *c, const char *was,
                                 const char *path)
{
	int fd = open_noatime(c->root_fd, path, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (fd >= 0 && !dir)
		close(fd);
	while (dir && (entry = readdir(dir))) {
		_cleanup_buf_ struct shfs_buf before = { 0 }, below = { 0 };

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		shfs_buf_printf(&before, "%s/%s", was, entry->d_name);
		shfs_buf_printf(&below, "%s/%s", path, entry->d_name);
		if (before.failed || below.failed)
			break;
		if (entry->d_type == DT_DIR)
			shfs_contents_conceal_below(c, before.data, below.data);
		else if (entry->d_type == DT_REG)
			conceal_moved(c, before.data, below.data);
	}
	if (dir)
		closedir(dir);
}

void shfs_contents_conceal_unseen(struct shfs_contents *c,
                                  const struct shfs_event_file *file, const char *was,
                                  const char *path)
{
	struct remembered *known;
	struct stat st;

	if (file->ino && shfs_project_rules_is_secret(c->rules, path, false)) {
		pthread_mutex_lock(&c->lock);
		known = find_content(c, file);
		if (known)
			shfs_snapshot_conceal(known->snapshot);
		pthread_mutex_unlock(&c->lock);
	}
	if (fstatat(c->root_fd, path, &st, AT_SYMLINK_NOFOLLOW))
		return;
	if (S_ISDIR(st.st_mode))
		shfs_contents_conceal_below(c, was, path);
	else if (S_ISREG(st.st_mode))
		conceal_moved(c, was, path);
}

void shfs_contents_look(struct shfs_contents *c, const struct shfs_event_file *file,
                        const char *path)
{
	enum shfs_rule rule = shfs_project_rules_match(c->rules, path);
	_cleanup_close_ int fd = -1;
	struct shfs_event_file now = *file;
	struct stat st;

	if (rule == SHFS_RULE_IGNORE)
		return;
	fd = open_event_file(c, file, path, -1);
	if (fd < 0 || fstat(fd, &st))
		return;
	now.bytes = (uint64_t)st.st_size;
	now.mtime_ns = shfs_timespec_ns(st.st_mtim);
	shfs_snapshot_unref(found_content(c, fd, &now,
	                                  rule == SHFS_RULE_FINGERPRINT
	                                          ? SHFS_DEPTH_FINGERPRINT
	                                          : SHFS_DEPTH_ARCHIVE)
	                            .snapshot);
}

struct shfs_held shfs_contents_last(struct shfs_contents *c,
                                    const struct shfs_event_file *file)
{
	struct shfs_held held = { 0 };
	struct remembered *known;

	pthread_mutex_lock(&c->lock);
	known = find_content(c, file);
	if (known && is_same_state(known, file))
		held.snapshot = shfs_snapshot_ref(known->snapshot);
	else
		held.value = content_as_told(file, SHFS_CONTENT_INCOMPLETE);
	pthread_mutex_unlock(&c->lock);
	return held;
}

bool shfs_contents_is_changed(struct shfs_contents *c, const struct shfs_event_file *file)
{
	const struct remembered *known;
	bool changed;

	pthread_mutex_lock(&c->lock);
	known = find_content(c, file);
	changed = !known || !is_same_state(known, file);
	pthread_mutex_unlock(&c->lock);
	return changed;
}

void shfs_contents_touch(struct shfs_contents *c, const struct shfs_event_file *file)
{
	struct remembered *known;

	pthread_mutex_lock(&c->lock);
	known = find_content(c, file);
	if (known && known->bytes == file->bytes)
		known->mtime_ns = file->mtime_ns;
	pthread_mutex_unlock(&c->lock);
}
