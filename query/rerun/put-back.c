/* SPDX-License-Identifier: MIT */
#include "query/rerun/put-back.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "query/base/mounts.h"
#include "query/rerun/hook-log.h"
#include "query/restore/xattr.h"
#include "store/journal/journal.h"
#include "store/journal/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TMP_NAME         ".shfs-rerun-"
#define ROOM_BYTES       (1 << 20) /* beside a file that is put back */
#define MODE_BITS        07777
#define RESTORE_TMP_NAME ".shfs-restore-"

/* Accesses that change something. */
#define CHANGES "(is_written OR made_n IS NOT NULL OR NOT is_open)"
/* Processes that changed the file ?1, or made another one of it, since ?2, but not those
 * of the command ?3. */
#define OTHERS_OF(column)                                                                \
	"SELECT process_id FROM v_access WHERE " CHANGES                                 \
	" AND end_ns >= ?2 AND command_id IS NOT ?3 AND " column                         \
	" =" SHFS_SQL_FILE_ID("?1")
#define BY_OTHERS OTHERS_OF("file_id") " UNION ALL " OTHERS_OF("file2_id")

#define VERSIONS "SELECT" SHFS_VERSION_COLUMNS "FROM v_version WHERE " SHFS_SQL_FILE("?1")

/* A path that the command changed. */
struct own {
	UT_hash_handle hh;
	bool moved;   /* a directory, with all below it */
	bool written; /* its bytes */
	char path[];
};

/* A file that lies somewhere now, by its inode. */
struct there {
	uint64_t key[2];
	const struct shfs_before_file *file;
	struct there *next; /* another name of it */
	UT_hash_handle hh;
};

struct back {
	const struct shfs_put_back *how;
	struct shfs_before *before, now;
	int64_t command_id; /* 0: it was not recorded */
	struct own *own;
	struct there *there;
	struct shfs_rows *others;
	unsigned n_moved;
	bool failed;
};

enum whose { OURS, THEIRS, NOBODYS };

/* --- messages --- */

static void say_stays(struct shfs_before_file *f, const char *path, const char *why)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	if (f)
		f->left = true;
	shfs_show_path(&name, path);
	shfs_warn("%s stays as it is: %s", name.data ?: "", why);
}

static void fail_path(struct back *b, struct shfs_before_file *f, const char *path,
                      int error)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };

	if (f)
		f->left = true;
	b->failed = true;
	shfs_show_path(&name, path);
	shfs_warn("%s cannot be put back: %s", name.data ?: "", strerror(-error));
}

static struct shfs_before_file *parent_of(const struct shfs_before *before,
                                          const char *path)
{
	_cleanup_free_ char *dir = strndup(path, strrchr(path, '/') - path);

	return dir ? shfs_before_find(before, dir) : NULL;
}

/* --- whose a change is --- */

static int add_own(struct back *b, const char *path, bool moved, bool written)
{
	size_t len = strlen(path);
	struct shfs_before_file *dir = parent_of(b->before, path);
	struct own *own;

	HASH_FIND(hh, b->own, path, len, own);
	if (dir)
		dir->entries_changed = true;
	if (!own) {
		own = calloc(1, sizeof(*own) + len + 1);
		if (!own)
			return -ENOMEM;
		memcpy(own->path, path, len);
		HASH_ADD(hh, b->own, path, len, own);
		if (!own->hh.tbl) {
			free(own);
			return -ENOMEM;
		}
	}
	own->moved |= moved;
	own->written |= written;
	return 0;
}

static int load_command_id(struct back *b)
{
	int r = b->before->session
	                ? shfs_hook_log_command(b->how->index, b->before->session,
	                                        b->before->number, &b->command_id)
	                : 0;

	return MIN(r, 0);
}

/* Loads what the command changed. */
static int load_own(struct back *b)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = load_command_id(b);

	if (r || !b->command_id)
		return r;
	r = shfs_rows_open_ints(b->how->index,
	                        "SELECT path, CASE WHEN file2_id IS NULL THEN NULL"
	                        " ELSE path2 END, directory AND op = 'rename',"
	                        " is_open OR op = 'truncate'"
	                        " FROM v_access WHERE command_id = ?1 AND " CHANGES,
	                        SHFS_INTS(b->command_id), &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		bool moved = shfs_rows_int(rows, 2), written = shfs_rows_int(rows, 3);

		r = add_own(b, shfs_rows_text(rows, 0), moved, written);
		if (!r && !shfs_rows_is_null(rows, 1))
			r = add_own(b, shfs_rows_text(rows, 1), moved, written);
	}
	return r;
}

/* Is it a name that this or an earlier, killed attempt has made for a moment? */
static bool is_temporary(const struct back *b, const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	return !strncmp(name, TMP_NAME, strlen(TMP_NAME)) ||
	       (b->how->later &&
	        !strncmp(name, RESTORE_TMP_NAME, strlen(RESTORE_TMP_NAME)));
}

static bool is_written(const struct back *b, const char *path)
{
	struct own *own;

	HASH_FIND(hh, b->own, path, strlen(path), own);
	return own && own->written;
}

/* Has the command changed it, or moved a directory above it? */
static bool is_own(const struct back *b, const char *path)
{
	struct own *own;

	HASH_FIND(hh, b->own, path, strlen(path), own);
	if (own || is_temporary(b, path))
		return true;
	for (const char *end = strrchr(path, '/'); end > path;
	     end = memrchr(path, '/', end - path)) {
		HASH_FIND(hh, b->own, path, (size_t)(end - path), own);
		if (own && own->moved)
			return true;
	}
	return false;
}

static bool is_born(const struct back *b, const char *path)
{
	const struct shfs_buf *born = &b->before->born;

	for (const char *p = born->data; p && p < born->data + born->len;
	     p += strlen(p) + 1)
		if (!strcmp(p, path))
			return true;
	return false;
}

/* Has another process changed it since the command began? Not shfs itself. 1 or 0. */
static int is_changed_by_others(struct back *b, const char *path)
{
	int r = b->others ? 0 : shfs_rows_open(b->how->index, BY_OTHERS, &b->others);

	if (!r)
		r = shfs_rows_bind_str(b->others, 1, path);
	if (!r)
		r = shfs_rows_bind_int(b->others, 2, b->before->begin_ns);
	if (!r)
		r = shfs_rows_bind_int(b->others, 3, b->command_id);
	while (!r && (r = shfs_rows_next(b->others)) > 0) {
		_cleanup_process_ struct shfs_process_row process = { 0 };

		r = shfs_process_load(b->how->index, shfs_rows_int(b->others, 0),
		                      &process);
		r = r > 0 ? !shfs_ends_with(process.exe, "/shfs") : r;
	}
	shfs_rows_reset(b->others);
	return r;
}

/* Is the file not as the command left it, because something changed it while nothing was
 * recorded? 1 or 0. */
static int is_changed_unseen(const struct back *b, const char *path)
{
	const struct shfs_before_file *now = shfs_before_find(&b->now, path);
	_cleanup_version_ struct shfs_version latest = { 0 };
	int r;

	if (!b->how->later || !now || !S_ISREG(now->mode))
		return 0;
	r = shfs_version_latest(b->how->index, path, &latest);
	return r > 0 ? latest.command_id == b->command_id &&
	                       (latest.size != now->size ||
	                        latest.mtime_ns != now->mtime_ns)
	             : r;
}

/* Decides whose the change of a path is; says so if it is of the command and of
 * others. */
static int decide_whose(struct back *b, const char *path, enum whose *whose)
{
	struct shfs_before_file *f = shfs_before_find(b->before, path);
	bool own = is_own(b, path), known = f ? f->known : is_born(b, path);
	int r = is_changed_by_others(b, path);

	if (!r && own)
		r = is_changed_unseen(b, path);
	if (r < 0)
		return r;
	*whose = r ? THEIRS : own || known ? OURS : NOBODYS;
	if (r && own)
		say_stays(f, path, "it was changed by another process meanwhile");
	if (!r && !own && !known)
		say_stays(f, path,
		          "it changed while the command ran, but what changed it is not "
		          "recorded");
	return 0;
}

/* --- what has to be put back --- */

/* Reads the versions of the rows up to one that is archived: 1, or 0. */
static int read_archived(struct shfs_rows *rows, struct shfs_version *out)
{
	int r;

	while ((r = shfs_rows_next(rows)) > 0) {
		r = shfs_version_from_row(rows, out);
		if (r < 0 || ((out->flags & SHFS_CONTENT_OBJECT) &&
		              !(out->flags & SHFS_CONTENT_INCOMPLETE)))
			return r < 0 ? r : 1;
		shfs_version_clear(out);
	}
	return r;
}

int shfs_put_back_version(struct shfs_index *index, const struct shfs_before_file *f,
                          int64_t at_ns, struct shfs_version *out)
{
	_cleanup_rows_ struct shfs_rows *same = NULL, *latest = NULL;
	int r = shfs_rows_open_str(index,
	                           VERSIONS "AND size = ?2 AND mtime_ns = ?3"
	                                    " ORDER BY time_ns <= ?4 DESC, n DESC",
	                           f->path, &same);

	if (!r)
		r = shfs_rows_bind_int(same, 2, f->size);
	if (!r)
		r = shfs_rows_bind_int(same, 3, f->mtime_ns);
	if (!r)
		r = shfs_rows_bind_int(same, 4, at_ns);
	if (!r)
		r = read_archived(same, out);
	if (r)
		return r;
	/* the same bytes were written again, or its time was changed since */
	r = shfs_rows_open_str(index,
	                       VERSIONS "AND time_ns <= ?2 ORDER BY n DESC LIMIT 1",
	                       f->path, &latest);
	if (!r)
		r = shfs_rows_bind_int(latest, 2, at_ns);
	if (!r)
		r = read_archived(latest, out);
	return r <= 0 ? r : out->size == f->size;
}

static bool is_same_inode(const struct shfs_before_file *a,
                          const struct shfs_before_file *b)
{
	return a->dev == b->dev && a->ino == b->ino &&
	       (a->mode & S_IFMT) == (b->mode & S_IFMT);
}

/* Does is hold for another name of the file? Writing through one name changes all. */
static bool any_other_name(const struct back *b, const struct shfs_before_file *f,
                           bool (*is)(const struct back *b, const char *path))
{
	for (size_t i = 0; i < b->before->n && f->links > 1; i++) {
		const struct shfs_before_file *other = b->before->list[i];

		if (other != f && S_ISREG(other->mode) && is_same_inode(other, f) &&
		    is(b, other->path))
			return true;
	}
	return false;
}

/* Is it there as before, but for its mode, owner and times? */
static bool is_there(const struct back *b, const struct shfs_before_file *f)
{
	const struct shfs_before_file *now = shfs_before_find(&b->now, f->path);

	if (!now || (now->mode & S_IFMT) != (f->mode & S_IFMT))
		return false;
	if (S_ISLNK(f->mode))
		return !strcmp(now->text, f->text);
	if (!S_ISREG(f->mode))
		return S_ISDIR(f->mode) || is_same_inode(now, f);
	if (!is_same_inode(now, f) || now->size != f->size)
		return false;
	if (now->ctime_ns == f->ctime_ns)
		return true;
	return (now->mtime_ns == f->mtime_ns || is_own(b, f->path)) &&
	       !is_written(b, f->path) && !any_other_name(b, f, is_written);
}

/* The time of a directory changes with what it holds: this is not its own change. */
static bool has_attributes(const struct back *b, const struct shfs_before_file *now,
                           const struct shfs_before_file *f)
{
	bool same_time = now->mtime_ns == f->mtime_ns;

	if (S_ISLNK(f->mode))
		return same_time;
	return now->mode == f->mode && now->uid == f->uid && now->gid == f->gid &&
	       (same_time || (S_ISDIR(f->mode) && !is_own(b, f->path)));
}

static void note_needed(struct back *b, struct shfs_before_file *f)
{
	struct shfs_before_file *dir = parent_of(b->before, f->path);

	f->needed = true;
	if (dir)
		dir->entries_changed = true;
}

static int find_needed(struct back *b)
{
	for (size_t i = 0; i < b->before->n; i++) {
		struct shfs_before_file *f = b->before->list[i];
		const struct shfs_before_file *now = shfs_before_find(&b->now, f->path);
		enum whose whose = OURS;
		bool there = is_there(b, f);
		int r = 0;

		if (there && has_attributes(b, now, f))
			continue;
		if (!S_ISREG(f->mode) || !any_other_name(b, f, is_own))
			r = decide_whose(b, f->path, &whose);
		if (r)
			return r;
		f->left |= whose != OURS;
		f->changed = whose == OURS;
		if (whose == OURS && !there)
			note_needed(b, f);
	}
	return 0;
}

/* --- files that lie elsewhere now --- */

static int note_there(struct back *b)
{
	for (size_t i = 0; i < b->now.n; i++) {
		const struct shfs_before_file *now = b->now.list[i];
		uint64_t key[2] = { now->dev, now->ino };
		struct there *there, *other;

		if (!S_ISREG(now->mode))
			continue;
		there = calloc(1, sizeof(*there));
		if (!there)
			return -ENOMEM;
		memcpy(there->key, key, sizeof(key));
		there->file = now;
		HASH_FIND(hh, b->there, key, sizeof(key), other);
		if (other) {
			there->next = other->next;
			other->next = there;
			continue;
		}
		HASH_ADD(hh, b->there, key, sizeof(there->key), there);
		if (!there->hh.tbl) {
			free(there);
			return -ENOMEM;
		}
	}
	return 0;
}

/* Finds a name that the file has now, and should not have. */
static const struct shfs_before_file *find_moved(const struct back *b,
                                                 const struct shfs_before_file *f)
{
	uint64_t key[2] = { f->dev, f->ino };
	struct there *there;

	HASH_FIND(hh, b->there, key, sizeof(key), there);
	for (; there; there = there->next) {
		const struct shfs_before_file *at =
			shfs_before_find(b->before, there->file->path);

		if (there->file->size == f->size &&
		    there->file->mtime_ns == f->mtime_ns &&
		    (!at || (at->needed && !is_same_inode(at, f))) &&
		    is_own(b, there->file->path))
			return there->file;
	}
	return NULL;
}

static const char *root_of(const struct back *b, const char *path)
{
	for (size_t i = 0; i < b->before->n_roots; i++)
		if (shfs_path_is_below(path, b->before->roots[i]))
			return b->before->roots[i];
	return "";
}

/* Moves what will be put back out of the way: names may have been exchanged, and its
 * directory be new. */
static int move_aside(struct back *b, struct shfs_before_file *f)
{
	const struct shfs_before_file *now = shfs_before_find(&b->now, f->path);
	const struct shfs_before_file *at =
		now && is_same_inode(now, f) ? NULL : find_moved(b, f);
	const char *root = root_of(b, f->path);
	struct shfs_before_file *dir;

	if (!at)
		return 0;
	dir = shfs_before_find(b->before, root);
	if (dir)
		dir->entries_changed = true;
	if (asprintf(&f->moved, "%s/" TMP_NAME "%d-%u", root, (int)getpid(),
	             b->n_moved++) < 0) {
		f->moved = NULL;
		return -ENOMEM;
	}
	if (!rename(at->path, f->moved))
		return 0;
	free(TAKE_PTR(f->moved));
	return errno == ENOENT ? 0 : -errno; /* it was another file's name, and moved */
}

static int move_all_aside(struct back *b)
{
	for (size_t i = 0; i < b->before->n; i++) {
		struct shfs_before_file *f = b->before->list[i];
		int r;

		if (!f->needed || !S_ISREG(f->mode))
			continue;
		r = b->there ? 0 : note_there(b);
		if (r)
			return r;
		r = move_aside(b, f);
		if (r)
			fail_path(b, f, f->path, r);
	}
	return 0;
}

/* --- files that were not there --- */

static void remove_path(struct back *b, const struct shfs_before_file *now)
{
	struct shfs_before_file *f = shfs_before_find(b->before, now->path);
	bool directory = S_ISDIR(now->mode);

	if (!(directory ? rmdir(now->path) : unlink(now->path)) || errno == ENOENT)
		return;
	if (directory && (errno == ENOTEMPTY || errno == EEXIST))
		say_stays(f, now->path, "other files are in it");
	else
		fail_path(b, f, now->path, -errno);
}

static int remove_new(struct back *b, const struct shfs_before_file *now)
{
	struct shfs_before_file *f = shfs_before_find(b->before, now->path);
	struct shfs_before_file *dir = parent_of(b->before, now->path);
	enum whose whose;
	int r;

	if (f) {
		if (f->needed && (f->mode & S_IFMT) != (now->mode & S_IFMT))
			remove_path(b, now);
		return 0;
	}
	if (dir && dir->unread) /* it may have been there */
		return 0;
	r = decide_whose(b, now->path, &whose);
	if (r)
		return r;
	if (whose == OURS)
		remove_path(b, now);
	if (dir && whose == OURS)
		dir->entries_changed = true;
	else if (dir)
		dir->entries_left = true;
	return 0;
}

static int remove_all_new(struct back *b)
{
	int r = 0;

	for (size_t i = b->now.n; i-- && !r;)
		r = remove_new(b, b->now.list[i]);
	return r;
}

/* --- files that were there --- */

static int put_copy(struct back *b, const struct shfs_before_file *f)
{
	_cleanup_close_ int from = shfs_before_aside(b->how->place, f), to = -1, old = -1;
	_cleanup_buf_ struct shfs_buf left = { 0 };
	_cleanup_free_ char *tmp = NULL;
	int r;

	if (from < 0)
		return from;
	if (asprintf(&tmp, "%.*s/" TMP_NAME "%d", (int)(strrchr(f->path, '/') - f->path),
	             f->path, (int)getpid()) < 0) {
		tmp = NULL;
		return -ENOMEM;
	}
	to = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	old = open(f->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	r = shfs_copy_fd(from, to);
	if (!r && old >= 0)
		r = shfs_xattr_copy(old, to, &left);
	if (!r && (fsync(to) || rename(tmp, f->path)))
		r = -errno;
	if (r)
		unlink(tmp);
	return r;
}

/* Is there no room for the file? */
static bool is_full(const struct shfs_before_file *f)
{
	_cleanup_free_ char *dir = strndup(f->path, strrchr(f->path, '/') - f->path);
	struct statvfs fs;

	return dir && !statvfs(dir, &fs) &&
	       fs.f_bavail * fs.f_frsize < f->size + ROOM_BYTES;
}

/* Puts the version in place. On a full disk, there may be room only where the half of it
 * is: gives that up, and tries again later. */
static void put_version(struct back *b, struct shfs_before_file *f,
                        const struct shfs_version *version)
{
	struct shfs_restore_target target = { "/", f->path + 1 };
	_cleanup_buf_ struct shfs_buf message = { 0 };

	if (!shfs_restore(b->how->restorer, version, &target, &message)) {
		f->again = false;
		return;
	}
	if (!f->again && is_full(f) && (!unlink(f->path) || errno == ENOENT)) {
		f->again = true;
		return;
	}
	f->again = false;
	f->left = b->failed = true;
	shfs_warn("%s", message.data ?: "");
}

static int put_content(struct back *b, struct shfs_before_file *f)
{
	_cleanup_version_ struct shfs_version version = { 0 };
	int r;

	if (f->aside)
		return put_copy(b, f);
	r = shfs_put_back_version(b->how->index, f, b->before->begin_ns, &version);
	if (r > 0)
		put_version(b, f, &version);
	else if (!r)
		say_stays(f, f->path, "its earlier content is not archived");
	return MIN(r, 0);
}

/* Makes it a name of the same file as another that is there: 1, or 0. */
static int put_name(struct back *b, const struct shfs_before_file *f)
{
	for (size_t i = 0; i < b->before->n && f->links > 1; i++) {
		const struct shfs_before_file *other = b->before->list[i];

		if (other == f)
			continue;
		if (!S_ISREG(other->mode) || !is_same_inode(other, f) || other->needed ||
		    other->left)
			continue;
		if ((unlink(f->path) && errno != ENOENT) || link(other->path, f->path))
			return -errno;
		return 1;
	}
	return 0;
}

static int put_file(struct back *b, struct shfs_before_file *f)
{
	int r;

	if (f->moved)
		return rename(f->moved, f->path) ? -errno : 0;
	switch (f->mode & S_IFMT) {
	case S_IFDIR:
		return mkdir(f->path, 0700) && errno != EEXIST ? -errno : 0;
	case S_IFLNK:
		return (unlink(f->path) && errno != ENOENT) || symlink(f->text, f->path)
		               ? -errno
		               : 0;
	case S_IFREG:
		r = put_name(b, f);
		return r ? MIN(r, 0) : put_content(b, f);
	case S_IFIFO:
		return mkfifo(f->path, 0600) ? -errno : 0;
	default:
		say_stays(f, f->path, "a socket or a device cannot be made again");
		return 0;
	}
}

/* Returns the number of files to try again. */
static size_t put_files(struct back *b)
{
	size_t again = 0;

	for (size_t i = 0; i < b->before->n; i++) {
		struct shfs_before_file *f = b->before->list[i];
		int r = f->needed && !f->left ? put_file(b, f) : 0;

		if (r)
			fail_path(b, f, f->path, r);
		if (!f->left && !f->again)
			f->needed = false; /* other names can be made of it */
		again += f->again;
	}
	return again;
}

/* A mount frees the room of a removed file when it has archived it. */
static void put_all_files(struct back *b)
{
	if (!put_files(b))
		return;
	shfs_mounts_sync(b->how->store->path, true);
	put_files(b);
}

/* --- modes and times --- */

static int put_times(const struct shfs_before_file *f)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		                     shfs_ns_timespec(f->mtime_ns) };

	return utimensat(AT_FDCWD, f->path, times, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

/* The owner can be put back only with privileges; set-id bits never. */
static void put_attributes(struct back *b, struct shfs_before_file *f)
{
	struct stat st;
	int r = 0;

	if (f->left || (!f->changed && !f->entries_changed) || lstat(f->path, &st) ||
	    (st.st_mode & S_IFMT) != (f->mode & S_IFMT))
		return;
	if ((st.st_uid != f->uid || st.st_gid != f->gid) &&
	    lchown(f->path, f->uid, f->gid))
		say_stays(f, f->path, "its owner cannot be put back");
	if (!S_ISLNK(f->mode) && st.st_mode != f->mode &&
	    chmod(f->path, f->mode & MODE_BITS & ~(S_ISUID | S_ISGID)) && errno != EPERM)
		r = -errno;
	if (!r && shfs_timespec_ns(st.st_mtim) != f->mtime_ns && !f->entries_left)
		r = put_times(f);
	if (r)
		fail_path(b, f, f->path, r);
}

/* Directories come after what they hold. */
static void put_all_attributes(struct back *b)
{
	for (size_t i = b->before->n; i--;)
		put_attributes(b, b->before->list[i]);
}

/* Opens directories that the command has closed: nothing can be seen in them. */
static void open_directories(struct back *b)
{
	for (size_t i = 0; i < b->before->n; i++) {
		const struct shfs_before_file *f = b->before->list[i];
		struct stat st;

		if (S_ISDIR(f->mode) && is_own(b, f->path) && !lstat(f->path, &st) &&
		    S_ISDIR(st.st_mode) && (st.st_mode & 0700) != 0700)
			(void)!chmod(f->path, (f->mode & MODE_BITS) | 0700);
	}
}

/* Opens directories that the command has made and closed. *again: one could not be looked
 * into. */
static void open_new_directories(struct back *b, bool *again)
{
	*again = false;
	for (size_t i = 0; i < b->now.n; i++) {
		const struct shfs_before_file *now = b->now.list[i];

		if (S_ISDIR(now->mode) && (now->mode & 0700) != 0700 &&
		    !shfs_before_find(b->before, now->path) && is_own(b, now->path) &&
		    !chmod(now->path, now->mode | 0700))
			*again |= now->unread || !(now->mode & 0100);
	}
}

/* Looks at all that is there now. */
static int look_now(struct back *b)
{
	bool again = true;
	int r = 0;

	while (again && !r) {
		shfs_before_clear(&b->now);
		for (size_t i = 0; i < b->before->n_roots && !r; i++)
			r = shfs_before_add_root(&b->now, b->before->roots[i]);
		if (!r)
			r = shfs_before_look(&b->now, b->how->store);
		if (!r)
			open_new_directories(b, &again);
	}
	return r;
}

/* Opens directories in which something has to be put back, and nothing may be
 * changed. */
static void open_for_change(struct back *b)
{
	for (size_t i = 0; i < b->before->n; i++) {
		const struct shfs_before_file *f = b->before->list[i];

		if (S_ISDIR(f->mode) && f->entries_changed && !f->unread &&
		    (f->mode & 0700) != 0700)
			(void)!chmod(f->path, (f->mode & MODE_BITS) | 0700);
	}
}

/* --- all of it --- */

static int take_in_record(struct back *b)
{
	_cleanup_free_ char *hook_dir = shfs_runtime_hook_dir(b->how->store->path);

	shfs_mounts_sync(b->how->store->path, false);
	return shfs_index_ingest(b->how->index, hook_dir, NULL);
}

static int put_everything(struct back *b)
{
	int r = load_own(b);

	if (r)
		return r;
	open_directories(b);
	r = look_now(b);
	if (!r)
		r = find_needed(b);
	if (r)
		return r;
	open_for_change(b);
	r = move_all_aside(b);
	if (!r)
		r = remove_all_new(b);
	if (r)
		return r;
	put_all_files(b);
	put_all_attributes(b);
	return b->failed;
}

static void back_clear(struct back *b)
{
	struct there *there, *next_there;
	struct own *own, *next_own;

	shfs_rows_close(b->others);
	shfs_before_clear(&b->now);
	HASH_ITER (hh, b->there, there, next_there) {
		HASH_DEL(b->there, there);
		while (there) {
			struct there *next = there->next;

			free(there);
			there = next;
		}
	}
	HASH_ITER (hh, b->own, own, next_own) {
		HASH_DEL(b->own, own);
		free(own);
	}
}

/* No signal comes between: calls on a mount would end with EINTR. */
int shfs_put_back(const struct shfs_put_back *how, struct shfs_before *before)
{
	struct back b = { .how = how, .before = before };
	sigset_t all, old;
	int r;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	r = take_in_record(&b);
	/* what is recorded is what is known */
	if (r)
		shfs_warn("what the command changed may not all be known: %s",
		          strerror(-r));
	r = put_everything(&b);
	if (r >= 0) /* for who asks next */
		(void)!take_in_record(&b);
	back_clear(&b);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return r;
}
