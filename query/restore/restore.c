/* SPDX-License-Identifier: MIT */
#include "query/restore/restore.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "query/base/trusted.h"
#include "query/restore/leaving.h"
#include "query/restore/restore-journal.h"
#include "query/restore/xattr.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

struct shfs_restorer {
	struct shfs_store *store; /* borrowed, as the next two */
	struct shfs_index *index;
	const struct shfs_config *config;
	struct shfs_restore_options options;
	struct shfs_restore_journal *journal;
};

/* The restoring of one file. */
struct work {
	struct shfs_restorer *restorer;
	const struct shfs_version *version;
	struct shfs_buf *message;
	bool journalled;  /* by this process: no mount sees it */
	char *path;       /* of the target, for messages */
	const char *name; /* its last part, in path */
	int dirfd;        /* -1: it does not exist yet (dry run) */

	/* the present file */
	bool exists;
	struct stat st;
	int fd; /* of a regular file that can be read, else -1 */
	bool same, archived;
	struct shfs_buf known_as; /* the version with its present content:
	                           * "config.yaml@5" */

	int tmp_fd;
	char tmp[40];         /* its name, while it exists */
	struct shfs_buf left; /* extended attributes that it did not get */
};

int shfs_restorer_new(struct shfs_store *store, struct shfs_index *index,
                      const struct shfs_config *config,
                      struct shfs_restore_options options, struct shfs_restorer **out)
{
	_cleanup_free_ struct shfs_restorer *r = calloc(1, sizeof(*r));
	int error;

	if (!r)
		return -ENOMEM;
	r->store = store;
	r->index = index;
	r->config = config;
	r->options = options;
	error = shfs_restore_journal_new(store, index, config, &r->journal);
	if (!error)
		*out = TAKE_PTR(r);
	return error;
}

void shfs_restorer_free(struct shfs_restorer *r)
{
	if (!r)
		return;
	shfs_restore_journal_free(r->journal);
	free(r);
}

static struct work work_of(struct shfs_restorer *restorer, struct shfs_buf *message)
{
	return (struct work){ .restorer = restorer,
		              .message = message,
		              .dirfd = -1,
		              .fd = -1,
		              .tmp_fd = -1 };
}

/* --- messages --- */

static void say_target(struct work *w)
{
	shfs_show_path(w->message, w->path);
}

static int refuse_target(struct work *w, const char *why)
{
	say_target(w);
	shfs_buf_printf(w->message, " %s", why);
	return SHFS_EXIT_REFUSED;
}

/* error is a negative errno. */
static int fail_target(struct work *w, const char *what, int error)
{
	say_target(w);
	shfs_buf_printf(w->message, ": %s: %s", what, strerror(-error));
	return SHFS_EXIT_FAILURE;
}

/* --- the directories above the target --- */

static bool is_plain_part(const char *part)
{
	return *part && strcmp(part, ".") && strcmp(part, "..");
}

/* Makes a directory with the mode of its last removal. If that is unknown, it is as
 * mkdir(1) makes it, but no more open than the directory in which it lies. */
static int make_directory(struct shfs_restorer *restorer, int dirfd, const char *part,
                          const char *path)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	mode_t mode = 0;
	int r = shfs_leaving_mode(restorer->index, path, &mode), known = r;

	if (!r)
		known = shfs_path_is_known(restorer->index, path);
	if (known < 0)
		return known;
	if (fstat(dirfd, &st))
		return -errno;
	if (mkdirat(dirfd, part, r ? 0700 : known ? 0700 | (st.st_mode & 0777) : 0777))
		return errno == EEXIST ? 0 : -errno;
	if (r) {
		fd = openat(dirfd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		return fd < 0 || fchmod(fd, mode) ? -errno : 0;
	}
	if (known) {
		_cleanup_buf_ struct shfs_buf shown = { 0 };

		if (fstatat(dirfd, part, &st, AT_SYMLINK_NOFOLLOW))
			return -errno;
		shfs_show_path(&shown, path);
		shfs_warn("%s has mode %04o now: its old mode is not recorded",
		          shown.data ?: "", st.st_mode & 07777);
		if (restorer->options.partly)
			*restorer->options.partly = true;
	}
	return 0;
}

/* Enters a directory, never through a link. A missing one is made unless restorer is
 * NULL. */
static int enter_directory(struct shfs_restorer *restorer, int dirfd, const char *part,
                           const char *path)
{
	int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dirfd, part, flags), r;

	if (fd < 0 && errno == ENOENT && restorer) {
		r = make_directory(restorer, dirfd, part, path);
		if (r)
			return r;
		fd = openat(dirfd, part, flags);
	}
	return fd < 0 ? -errno : fd;
}

static int open_base(const struct shfs_restore_target *target, bool make)
{
	struct shfs_way way = { .no_own = target->no_links, .make = make };
	int fd, r = shfs_trusted_directory(target->base, way, &fd);

	return r ? r : fd;
}

/* Opens the directory of the target: an fd; -ENOENT: it is missing, and not to be made
 * (restorer is NULL); -ENOTDIR: also for a link. */
static int open_parent(struct shfs_restorer *restorer,
                       const struct shfs_restore_target *target)
{
	_cleanup_free_ char *below = strdup(target->below);
	_cleanup_buf_ struct shfs_buf path = { 0 };
	int fd = below ? open_base(target, restorer != NULL) : -ENOMEM;
	char *slash, *part = below;

	shfs_buf_str(&path, strcmp(target->base, "/") ? target->base : "");
	while (fd >= 0 && (slash = strchr(part, '/'))) {
		int next = -EINVAL;

		*slash = '\0';
		shfs_buf_printf(&path, "/%s", part);
		if (is_plain_part(part))
			next = path.failed
			               ? -ENOMEM
			               : enter_directory(restorer, fd, part, path.data);
		close(fd);
		fd = next;
		part = slash + 1;
	}
	if (fd >= 0 && !is_plain_part(part)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

static int find_target(struct work *w, const struct shfs_restore_target *target)
{
	int fd = open_parent(w->restorer->options.dry_run ? NULL : w->restorer, target);

	w->path = shfs_path_join(target->base, target->below);
	if (!w->path) {
		if (fd >= 0)
			close(fd);
		return fail_target(w, "cannot restore", -ENOMEM);
	}
	w->name = strrchr(w->path, '/') + 1;
	if (fd == -ENOTDIR || fd == -ELOOP)
		return refuse_target(w,
		                     "is behind a symbolic link, or something that is no"
		                     " directory");
	if (fd == -ENOENT && w->restorer->options.dry_run)
		return 0;
	if (fd < 0)
		return fail_target(w, "cannot open its directory", fd);
	w->dirfd = fd;
	return 0;
}

/* --- the present file --- */

static bool same_state(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Finds a version with this object, of this path if there is one: such a version keeps
 * the object alive. 1 or 0. */
static int find_version_of_object(struct work *w, const struct shfs_object_id *id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	char object[44];
	int r = shfs_rows_open(
		w->restorer->index,
		"SELECT path, n FROM v_version"
		" WHERE object_key = object_key(?1) AND object = ?1"
		" ORDER BY path = ?2 DESC, time_ns DESC, version_id DESC LIMIT 1",
		&rows);

	shfs_object_name(id, object);
	if (!r)
		r = shfs_rows_bind_str(rows, 1, object);
	if (!r)
		r = shfs_rows_bind_str(rows, 2, w->path);
	if (!r)
		r = shfs_rows_next(rows);
	if (r > 0)
		shfs_show_version(&w->known_as, shfs_rows_text(rows, 0),
		                  shfs_rows_int(rows, 1));
	return r;
}

static bool is_object(const struct shfs_object_id *id, const struct shfs_version *version)
{
	return !memcmp(id->hash, version->object.hash, sizeof(id->hash)) &&
	       id->nth == version->object.nth;
}

static int compare_content(struct work *w)
{
	_cleanup_buf_ struct shfs_buf content = { 0 };
	struct shfs_object_id id;
	int r = shfs_read_fd(w->fd, shfs_config_archived_max(w->restorer->config),
	                     &content);

	if (r == -EFBIG)
		return 0;
	if (!r)
		r = shfs_object_find(w->restorer->store, content.data ? content.data : "",
		                     content.len, &id);
	if (r <= 0)
		return r;
	w->same = is_object(&id, w->version);
	r = find_version_of_object(w, &id);
	w->archived = r > 0;
	return MIN(r, 0);
}

static int inspect_present_file(struct work *w)
{
	struct stat st;
	int r;

	w->fd = openat(w->dirfd, w->name,
	               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (w->fd < 0 && errno == EACCES)
		return 0; /* it may not be archived */
	if (w->fd < 0 || fstat(w->fd, &st))
		return fail_target(w, "cannot read it", -errno);
	if (!same_state(&st, &w->st))
		return refuse_target(w, "is being changed; try again");
	r = compare_content(w);
	if (r)
		return fail_target(w, "cannot compare it with the store", r);
	return 0;
}

static int inspect_target(struct work *w)
{
	if (w->dirfd < 0)
		return 0;
	if (fstatat(w->dirfd, w->name, &w->st, AT_SYMLINK_NOFOLLOW)) {
		if (errno == ENOENT)
			return 0;
		return fail_target(w, "cannot look at it", -errno);
	}
	w->exists = true;
	if (w->restorer->options.only_absent)
		return refuse_target(w, "is there");
	switch (w->st.st_mode & S_IFMT) {
	case S_IFREG:
		return inspect_present_file(w);
	case S_IFLNK:
		if (w->restorer->options.force)
			return 0;
		return refuse_target(
			w, "is a symbolic link; --force replaces the link itself");
	case S_IFDIR:
		return refuse_target(w, "is a directory");
	default:
		return refuse_target(w, "is not a regular file");
	}
}

/* --- the new file --- */

static int make_temporary_name(struct work *w)
{
	uint64_t number;

	for (int tries = 0; tries < 16; tries++) {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -EIO;
		snprintf(w->tmp, sizeof(w->tmp), ".shfs-restore-%016llx",
		         (unsigned long long)number);
		w->tmp_fd =
			openat(w->dirfd, w->tmp,
		               O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (w->tmp_fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	w->tmp[0] = '\0';
	return -errno;
}

static int copy_xattrs(struct work *w)
{
	_cleanup_close_ int unreadable = -1;
	int fd = w->fd;

	if (fd < 0)
		fd = unreadable =
			openat(w->dirfd, w->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : shfs_xattr_copy(fd, w->tmp_fd, &w->left);
}

/* Keeps the owner if possible; if only root could, that need not succeed. */
static int set_attributes(struct work *w)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		                     { .tv_nsec = UTIME_OMIT } };
	int64_t mtime = w->version->mtime_ns;
	int r;

	if (w->exists && (w->st.st_uid != geteuid() || w->st.st_gid != getegid()) &&
	    fchown(w->tmp_fd, w->st.st_uid, w->st.st_gid) && errno != EPERM)
		return -errno;
	if (w->exists && S_ISREG(w->st.st_mode)) {
		r = copy_xattrs(w);
		if (r)
			return r;
	}
	if (fchmod(w->tmp_fd, w->version->mode & 0777))
		return -errno;
	if (mtime > 0)
		times[1] = shfs_ns_timespec(mtime);
	return futimens(w->tmp_fd, times) ? -errno : 0;
}

static int write_new(struct work *w)
{
	int r = make_temporary_name(w);

	if (r)
		return fail_target(w, "cannot make a file beside it", r);
	r = shfs_object_copy(w->restorer->store, &w->version->object, w->tmp_fd);
	if (r) {
		shfs_show_content_error(w->message, w->version, r);
		return SHFS_EXIT_FAILURE;
	}
	r = set_attributes(w);
	if (!r && fsync(w->tmp_fd))
		r = -errno;
	if (r)
		return fail_target(w, "cannot finish the new file", r);
	if (!w->left.len || w->restorer->options.force)
		return 0;
	say_target(w);
	shfs_buf_printf(w->message,
	                " would lose extended attributes: %s; --force drops them",
	                w->left.data);
	return SHFS_EXIT_REFUSED;
}

/* --- moving into place --- */

static bool is_target_unchanged(const struct work *w)
{
	struct stat st;

	if (fstatat(w->dirfd, w->name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT && !w->exists;
	return w->exists && same_state(&st, &w->st);
}

/* Renames over the target. If that did not exist, nothing may have appeared: the kernel
 * checks it if it can. */
static int rename_over(struct work *w)
{
	if (!w->exists) {
		if (!renameat2(w->dirfd, w->tmp, w->dirfd, w->name, RENAME_NOREPLACE))
			return 0;
		if (errno != EINVAL && errno != ENOSYS)
			return -errno;
	}
	if (!is_target_unchanged(w))
		return -EEXIST;
	return renameat(w->dirfd, w->tmp, w->dirfd, w->name) ? -errno : 0;
}

static void sync_directory(const struct work *w)
{
	_cleanup_close_ int fd =
		openat(w->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* a directory that cannot be read cannot be synced; the file itself is synced */
	if (fd >= 0)
		(void)!fsync(fd);
}

static int put_in_place(struct work *w)
{
	int r = 0;

	if (w->journalled && w->fd >= 0) {
		r = shfs_restore_journal_before(w->restorer->journal, w->name, w->fd);
		if (r)
			return fail_target(w, "cannot record its present content", r);
	}
	r = rename_over(w);
	if (r == -EEXIST)
		return refuse_target(w, "changed meanwhile; nothing was done");
	if (r)
		return fail_target(w, "cannot replace it", r);
	w->tmp[0] = '\0';
	sync_directory(w);
	if (w->journalled)
		r = shfs_restore_journal_made(w->restorer->journal, w->name, w->tmp_fd,
		                              !w->exists);
	if (r)
		shfs_warn("the restored file could not be recorded: %s", strerror(-r));
	return 0;
}

/* Keeps the file: its content is right, only its permission bits may be wrong. */
static int keep_content(struct work *w)
{
	mode_t mode = w->version->mode & 0777;

	if ((w->st.st_mode & 0777) != mode && !w->restorer->options.dry_run &&
	    fchmod(w->fd, mode))
		return fail_target(w, "cannot set its permissions", -errno);
	say_target(w);
	shfs_buf_str(w->message, " has the content of ");
	shfs_show_version(w->message, w->version->path, w->version->n);
	shfs_buf_str(w->message, " already");
	return 0;
}

static void say_done(struct work *w)
{
	bool dry = w->restorer->options.dry_run;

	say_target(w);
	shfs_buf_str(w->message, dry ? " would be " : " is ");
	shfs_show_version(w->message, w->version->path, w->version->n);
	shfs_buf_str(w->message, " again");
	if (!w->exists)
		return;
	if (w->archived)
		shfs_buf_printf(w->message, "; it was %s (archived)", w->known_as.data);
	else if (S_ISLNK(w->st.st_mode))
		shfs_buf_str(w->message, "; it was a symbolic link");
	else
		shfs_buf_str(w->message, "; its content was not archived before");
	if (w->left.len)
		shfs_buf_printf(w->message, "; it lost extended attributes: %s",
		                w->left.data);
	if (w->st.st_nlink > 1 && !S_ISLNK(w->st.st_mode))
		shfs_buf_printf(w->message, " (its %llu other names keep that content)",
		                (unsigned long long)w->st.st_nlink - 1);
}

static int replace_target(struct work *w)
{
	struct shfs_restorer *restorer = w->restorer;
	int r;

	if (w->same)
		return keep_content(w);
	if (w->exists && !w->archived && !restorer->options.force)
		return refuse_target(w, "has content that is not archived;"
		                        " --force overwrites it");
	if (restorer->options.dry_run) {
		say_done(w);
		return 0;
	}
	r = shfs_restore_journal_enter(restorer->journal, w->dirfd);
	if (r < 0)
		return fail_target(w, "cannot record the change", r);
	w->journalled = r;
	r = write_new(w);
	if (!r)
		r = put_in_place(w);
	if (!r)
		say_done(w);
	return r;
}

static void work_clear(struct work *w)
{
	if (w->tmp[0])
		unlinkat(w->dirfd, w->tmp, 0);
	shfs_closep(&w->tmp_fd);
	shfs_closep(&w->fd);
	shfs_closep(&w->dirfd);
	shfs_buf_free(&w->known_as);
	shfs_buf_free(&w->left);
	free(w->path);
}

int shfs_restore(struct shfs_restorer *restorer, const struct shfs_version *version,
                 const struct shfs_restore_target *target, struct shfs_buf *message)
{
	struct work w = work_of(restorer, message);
	int r;

	w.version = version;
	if (!(version->flags & SHFS_CONTENT_OBJECT)) {
		shfs_show_version(message, version->path, version->n);
		shfs_buf_printf(message, " is not archived: %s",
		                shfs_version_why_not_archived(version->flags));
		return SHFS_EXIT_FAILURE;
	}
	r = find_target(&w, target);
	if (!r)
		r = inspect_target(&w);
	if (!r)
		r = replace_target(&w);
	work_clear(&w);
	return r;
}

/* --- links and directories --- */

/* Opens the place, where nothing may exist. */
static int begin_other(struct work *w, const char *path)
{
	struct shfs_restore_target target = { "/", path + 1 };
	int r = find_target(w, &target);

	if (!r && w->dirfd >= 0 &&
	    !faccessat(w->dirfd, w->name, F_OK, AT_SYMLINK_NOFOLLOW))
		r = refuse_target(w, "is there");
	return r;
}

static int end_other(struct work *w, int r, const char *what)
{
	if (!r) {
		say_target(w);
		shfs_buf_printf(w->message, " %s %s again",
		                w->restorer->options.dry_run ? "would be" : "is", what);
		if (w->dirfd >= 0)
			sync_directory(w);
	}
	work_clear(w);
	return r;
}

int shfs_restore_link(struct shfs_restorer *restorer, const char *path, const char *text,
                      struct shfs_buf *message)
{
	struct work w = work_of(restorer, message);
	_cleanup_buf_ struct shfs_buf what = { 0 };
	int r = begin_other(&w, path);

	if (!r && !restorer->options.dry_run && symlinkat(text, w.dirfd, w.name))
		r = fail_target(&w, "cannot make the link", -errno);
	shfs_buf_str(&what, "a link to ");
	shfs_quote_display(&what, text, strlen(text));
	return end_other(&w, r, what.data ?: "");
}

int shfs_restore_directory(struct shfs_restorer *restorer, const char *path,
                           struct shfs_buf *message)
{
	struct work w = work_of(restorer, message);
	int r = begin_other(&w, path), error = 0;

	if (!r && !restorer->options.dry_run)
		error = make_directory(restorer, w.dirfd, w.name, path);
	if (error)
		r = fail_target(&w, "cannot make the directory", error);
	return end_other(&w, r, "a directory");
}

int shfs_restore_node(struct shfs_restorer *restorer, const char *path, mode_t mode,
                      dev_t rdev, struct shfs_buf *message)
{
	struct work w = work_of(restorer, message);
	int r = begin_other(&w, path);

	if (!r && !restorer->options.dry_run &&
	    mknodat(w.dirfd, w.name, (mode & S_IFMT) | 0600, rdev))
		r = fail_target(&w, "cannot make it", -errno);
	return end_other(&w, r,
	                 S_ISFIFO(mode)   ? "a FIFO"
	                 : S_ISSOCK(mode) ? "a socket"
	                                  : "a device");
}

/* A content that is too long to be archived belongs to no version. */
static int holds_version(struct shfs_restorer *restorer, int fd,
                         const struct shfs_version *version)
{
	_cleanup_buf_ struct shfs_buf content = { 0 };
	struct shfs_object_id id;
	int r = shfs_read_fd(fd, shfs_config_archived_max(restorer->config), &content);

	if (r)
		return r == -EFBIG ? 0 : r;
	r = shfs_object_find(restorer->store, content.data ? content.data : "",
	                     content.len, &id);
	return r > 0 ? is_object(&id, version) : r;
}

/* Opens other without following links: 1 and *fd if it has the version's content, or
 * 0. */
static int open_other(struct shfs_restorer *restorer, const struct shfs_version *version,
                      const char *other, int *dirfd, int *fd)
{
	const struct shfs_restore_target target = { "/", other + 1 };
	struct stat st;

	*dirfd = open_parent(NULL, &target);
	if (*dirfd < 0)
		return *dirfd;
	*fd = openat(*dirfd, strrchr(other, '/') + 1,
	             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (*fd < 0 || fstat(*fd, &st))
		return -errno;
	return S_ISREG(st.st_mode) ? holds_version(restorer, *fd, version) : 0;
}

static int make_name(struct work *w, const char *other, int other_dirfd, int other_fd)
{
	struct shfs_restore_journal *journal = w->restorer->journal;
	int r = shfs_restore_journal_enter(journal, w->dirfd), journalled = r;

	if (r < 0)
		return r;
	if (linkat(other_dirfd, strrchr(other, '/') + 1, w->dirfd, w->name, 0))
		return -errno;
	r = journalled ? shfs_restore_journal_linked(journal, w->name, other, other_fd)
	               : 0;
	if (r)
		shfs_warn("the restored name could not be recorded: %s", strerror(-r));
	return 0;
}

int shfs_restore_name(struct shfs_restorer *restorer, const struct shfs_version *version,
                      const char *path, const char *other, struct shfs_buf *message)
{
	struct work w = work_of(restorer, message);
	_cleanup_close_ int dirfd = -1, fd = -1;
	_cleanup_buf_ struct shfs_buf what = { 0 };
	int r = begin_other(&w, path), error;

	if (r)
		return end_other(&w, r, "");
	error = open_other(restorer, version, other, &dirfd, &fd);
	/* it would be restored before this one */
	if (error == -ENOENT && restorer->options.dry_run)
		error = 1;
	shfs_show_path(&what, other);
	if (error > 0 && !restorer->options.dry_run)
		error = make_name(&w, other, dirfd, fd) ?: 1;
	if (error <= 0) {
		say_target(&w);
		shfs_buf_printf(message,
		                " was another name of %s, and cannot be that again: %s",
		                what.data ?: "",
		                error ? strerror(-error)
		                      : "that has another content now");
		return end_other(&w, SHFS_EXIT_FAILURE, "");
	}
	shfs_buf_free(&what);
	shfs_buf_str(&what, "another name of ");
	shfs_show_path(&what, other);
	return end_other(&w, 0, what.data ?: "");
}
