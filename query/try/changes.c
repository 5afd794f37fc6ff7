/* SPDX-License-Identifier: MIT */
#include "query/try/changes.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "query/try/xattrs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OPAQUE "user.overlay.opaque"
#define ORIGIN "user.overlay.origin"
#define BLOCK  (128 << 10)

struct walk {
	struct shfs_changes *changes;
	int64_t began_ns;
	struct shfs_buf path; /* of the directory, with a slash at its end; "" */
};

/* Two directories of one name: dirfd -1: it is not there. */
struct pair {
	int upper, lower;
};

static int walk_directory(struct walk *w, struct pair at, bool opaque);

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && !st->st_rdev;
}

static bool is_changed_since(const struct walk *w, const struct stat *st)
{
	return shfs_timespec_ns(st->st_ctim) >= w->began_ns;
}

static int add_change(struct walk *w, struct shfs_change change, const char *name)
{
	struct shfs_changes *c = w->changes;
	_cleanup_buf_ struct shfs_buf path = { 0 };

	shfs_buf_add(&path, w->path.data ?: "", w->path.len);
	shfs_buf_str(&path, name);
	if (path.failed || !MAKE_ROOM(c->list, c->n, c->cap))
		return -ENOMEM;
	change.path = shfs_buf_take(&path);
	c->list[c->n++] = change;
	c->conflicts += change.conflict != NULL;
	return 0;
}

static int open_directory(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* A directory of the layer, which is this user's; its mode may close it. */
struct upper {
	int parent, fd;
	const char *name;
	mode_t mode; /* to be given back; 0: it was open */
};

static int open_upper(int parent, const char *name, struct upper *out)
{
	struct stat st;

	*out = (struct upper){ parent, open_directory(parent, name), name, 0 };
	if (out->fd != -EACCES || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    fchmodat(parent, name, 0700, 0))
		return MIN(out->fd, 0);
	out->mode = st.st_mode;
	out->fd = open_directory(parent, name);
	return MIN(out->fd, 0);
}

static void close_upper(struct upper *upper)
{
	if (upper->mode)
		(void)!fchmodat(upper->parent, upper->name, upper->mode & 07777, 0);
	if (upper->fd >= 0)
		close(upper->fd);
}

static bool has_xattr(int dirfd, const char *name, const char *xattr)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char proc[40];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return fd >= 0 && getxattr(proc, xattr, NULL, 0) >= 0;
}

/* --- is it as below? --- */

static int same_bytes(int a, int b)
{
	static char block[2][BLOCK];

	for (off_t at = 0;; at += BLOCK) {
		ssize_t n = shfs_pread_full(a, block[0], BLOCK, at);
		ssize_t m = n < 0 ? n : shfs_pread_full(b, block[1], BLOCK, at);

		if (m < 0 || n != m)
			return m < 0 ? (int)m : 0;
		if (memcmp(block[0], block[1], (size_t)n) != 0)
			return 0;
		if (n < BLOCK)
			return 1;
	}
}

static int same_file(struct pair at, const char *name)
{
	_cleanup_close_ int a = openat(at.upper, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int b = openat(at.lower, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	/* what cannot be read is taken for another */
	return a < 0 || b < 0 ? 0 : same_bytes(a, b);
}

static int same_link(struct pair at, const char *name)
{
	char a[PATH_MAX], b[PATH_MAX];
	ssize_t n = readlinkat(at.upper, name, a, sizeof(a));
	ssize_t m = readlinkat(at.lower, name, b, sizeof(b));

	return n >= 0 && n == m && !memcmp(a, b, (size_t)n);
}

static int same_content(struct pair at, const char *name, const struct stat *now,
                        const struct stat *then)
{
	if ((now->st_mode & S_IFMT) != (then->st_mode & S_IFMT) ||
	    now->st_size != then->st_size)
		return 0;
	if (S_ISREG(now->st_mode))
		return same_file(at, name);
	if (S_ISLNK(now->st_mode))
		return same_link(at, name);
	return now->st_rdev == then->st_rdev;
}

static int find_difference(const struct shfs_xattr_difference *d, void *arg)
{
	return 1;
}

static int same_xattrs(struct pair at, const char *name)
{
	_cleanup_close_ int a = openat(at.upper, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int b = openat(at.lower, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char now[40], then[40];
	int r;

	if (a < 0 || b < 0)
		return -errno;
	snprintf(now, sizeof(now), "/proc/self/fd/%d", a);
	snprintf(then, sizeof(then), "/proc/self/fd/%d", b);
	r = shfs_xattrs_compare(now, then, find_difference, NULL);
	return r < 0 ? r : !r;
}

static bool same_attributes(const struct stat *now, const struct stat *then)
{
	/* the time of a directory comes of its entries */
	return now->st_mode == then->st_mode && now->st_uid == then->st_uid &&
	       now->st_gid == then->st_gid &&
	       (S_ISDIR(now->st_mode) || S_ISLNK(now->st_mode) ||
	        shfs_timespec_ns(now->st_mtim) == shfs_timespec_ns(then->st_mtim));
}

/* --- what was removed --- */

/* Has something in it been changed since? */
static int is_tree_changed(struct walk *w, int dirfd, const char *name, bool *changed)
{
	struct dirent *entry;
	struct stat st;
	int r = 0, fd;
	DIR *dir;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	*changed |= is_changed_since(w, &st);
	if (!S_ISDIR(st.st_mode))
		return 0;
	fd = open_directory(dirfd, name);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -errno;
	}
	while (!r && !*changed && (entry = shfs_readdir(dir, &r)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			r = is_tree_changed(w, fd, entry->d_name, changed);
	closedir(dir);
	return r;
}

static int add_removed(struct walk *w, int lower, const char *name, bool inside);

static int add_all_removed(struct walk *w, int dirfd, const char *name)
{
	size_t len = w->path.len;
	struct dirent *entry;
	int r = 0, fd = open_directory(dirfd, name);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -errno;
	}
	shfs_buf_printf(&w->path, "%s/", name);
	while (!r && (entry = shfs_readdir(dir, &r)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			r = add_removed(w, fd, entry->d_name, true);
	closedir(dir);
	w->path.len = len;
	return r;
}

static int add_removed(struct walk *w, int lower, const char *name, bool inside)
{
	struct shfs_change change = { .kind = SHFS_CHANGE_REMOVED, .inside = inside };
	bool changed = false;
	int r;

	if (fstatat(lower, name, &change.then, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno; /* others removed it, too */
	r = inside ? 0 : is_tree_changed(w, lower, name, &changed);
	if (changed)
		change.conflict = "changed meanwhile";
	if (!r)
		r = add_change(w, change, name);
	if (!r && S_ISDIR(change.then.st_mode))
		r = add_all_removed(w, lower, name);
	return r;
}

/* --- what is there --- */

static int enter_directory(struct walk *w, struct pair at, const char *name, bool made)
{
	_cleanup_close_ int lower = made ? -1 : open_directory(at.lower, name);
	_cleanup_(close_upper) struct upper upper = { .fd = -1 };
	bool opaque = has_xattr(at.upper, name, OPAQUE);
	size_t len = w->path.len;
	int r = open_upper(at.upper, name, &upper);

	if (r || (!made && lower < 0))
		return r ? r : lower;
	shfs_buf_printf(&w->path, "%s/", name);
	r = w->path.failed ? -ENOMEM
	                   : walk_directory(w, (struct pair){ upper.fd, lower }, opaque);
	w->path.len = len;
	return r;
}

static int add_made(struct walk *w, struct pair at, const char *name,
                    struct shfs_change change)
{
	int r;

	change.kind = SHFS_CHANGE_MADE;
	r = add_change(w, change, name);
	return !r && S_ISDIR(change.now.st_mode) ? enter_directory(w, at, name, true) : r;
}

static int add_other(struct walk *w, struct pair at, const char *name,
                     struct shfs_change change)
{
	bool was_directory = S_ISDIR(change.then.st_mode);
	bool is_directory = S_ISDIR(change.now.st_mode);
	int r;

	if (was_directory && is_directory) {
		change.kind = SHFS_CHANGE_ATTRIBUTES;
		r = same_xattrs(at, name);
		if (r >= 0)
			r = r && same_attributes(&change.now, &change.then)
			            ? 0
			            : add_change(w, change, name);
		return r ? r : enter_directory(w, at, name, false);
	}
	if (was_directory || is_directory) {
		r = add_removed(w, at.lower, name, false);
		change.then = (struct stat){ 0 };
		change.conflict = NULL;
		return r ? r : add_made(w, at, name, change);
	}
	r = same_content(at, name, &change.now, &change.then);
	if (r < 0)
		return r;
	change.kind = r ? SHFS_CHANGE_ATTRIBUTES : SHFS_CHANGE_CHANGED;
	/* a file with other extended attributes is another one */
	if (r && S_ISREG(change.now.st_mode)) {
		r = same_xattrs(at, name);
		if (r < 0)
			return r;
		if (!r)
			change.kind = SHFS_CHANGE_CHANGED;
	}
	return r && same_attributes(&change.now, &change.then)
	               ? 0
	               : add_change(w, change, name);
}

static int add_entry(struct walk *w, struct pair at, const char *name)
{
	struct shfs_change change = { 0 };
	struct stat below;

	if (fstatat(at.upper, name, &change.now, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (is_whiteout(&change.now))
		return at.lower < 0 ? 0 : add_removed(w, at.lower, name, false);
	if (at.lower >= 0 &&
	    !fstatat(at.lower, name, &change.then, AT_SYMLINK_NOFOLLOW)) {
		if (!S_ISDIR(change.then.st_mode) && is_changed_since(w, &change.then))
			change.conflict = "changed meanwhile";
		return add_other(w, at, name, change);
	}
	if (at.lower >= 0 && errno != ENOENT)
		return -errno;
	/* it was copied up, here or under another name */
	if (at.lower >= 0 && !S_ISDIR(change.now.st_mode) &&
	    has_xattr(at.upper, name, ORIGIN) && !fstat(at.lower, &below) &&
	    is_changed_since(w, &below))
		change.conflict = "removed meanwhile";
	return add_made(w, at, name, change);
}

/* What an opaque directory does not show of the one below. */
static int add_hidden(struct walk *w, struct pair at)
{
	struct dirent *entry;
	struct stat st;
	int r = 0, fd = dup(at.lower);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		return -errno;
	while (!r && (entry = shfs_readdir(dir, &r)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
		    fstatat(at.upper, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			r = add_removed(w, at.lower, entry->d_name, false);
	closedir(dir);
	return r;
}

static int walk_directory(struct walk *w, struct pair at, bool opaque)
{
	struct dirent **entries = NULL;
	int n = scandirat(at.upper, ".", &entries, NULL, alphasort),
	    r = n < 0 ? -errno : 0;

	if (!r && opaque && at.lower >= 0)
		r = add_hidden(w, at);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;

		if (!r && strcmp(name, ".") && strcmp(name, ".."))
			r = add_entry(w, at, name);
		free(entries[i]);
	}
	free(entries);
	return r;
}

int shfs_changes_find(const struct shfs_layer *layer, struct shfs_changes *out)
{
	_cleanup_close_ int lower =
		open(layer->project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int upper = openat(layer->dirfd, SHFS_LAYER_PROJECT "/upper",
	                                   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk w = { .changes = out, .began_ns = layer->began_ns };
	int r;

	if (lower < 0)
		return -errno;
	if (upper < 0)
		return errno == ENOENT ? 0 : -errno; /* nothing was begun in it */
	r = walk_directory(&w, (struct pair){ upper, lower }, false);
	shfs_buf_free(&w.path);
	return r;
}

void shfs_changes_clear(struct shfs_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++)
		free(changes->list[i].path);
	free(changes->list);
}

/* --- a part of them --- */

/* Is the change at the path or below it, or (0 for a directory) above it? */
static bool belongs_to(const struct shfs_change *change, const char *dir,
                       const char *path, bool *counts)
{
	_cleanup_free_ char *own = shfs_path_join(dir, change->path);

	if (!own)
		return true;
	if (shfs_path_is_below(own, path)) {
		*counts = true;
		return true;
	}
	return change->kind == SHFS_CHANGE_MADE && S_ISDIR(change->now.st_mode) &&
	       shfs_path_is_below(path, own);
}

bool shfs_changes_select(struct shfs_changes *changes, const struct shfs_layer *layer,
                         char *const *paths, size_t n, const char **without)
{
	_cleanup_free_ bool *counts = calloc(n + 1, sizeof(*counts));
	size_t kept = 0;

	if (!n || !counts)
		return !n;
	changes->conflicts = 0;
	for (size_t i = 0; i < changes->n; i++) {
		struct shfs_change *change = &changes->list[i];
		bool belongs = false;

		for (size_t k = 0; k < n; k++)
			belongs |=
				belongs_to(change, layer->project, paths[k], &counts[k]);
		if (!belongs) {
			free(change->path);
			continue;
		}
		changes->conflicts += change->conflict != NULL;
		changes->list[kept++] = *change;
	}
	changes->n = kept;
	for (size_t k = 0; k < n; k++)
		if (!counts[k]) {
			*without = paths[k];
			return false;
		}
	return true;
}
