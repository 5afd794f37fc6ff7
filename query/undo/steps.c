/* SPDX-License-Identifier: MIT */
#include "query/undo/steps.h"

#include "common/clock.h"
#include "common/ids.h"
#include "common/io.h"
#include "common/proc.h"
#include "query/base/model.h"
#include "query/base/trusted.h"
#include "query/restore/xattr.h"
#include "store/objects/object.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PLACE         "undo" /* the directory of the store */
#define NOTE          "steps"
#define PROGRESS      "progress"
#define FORMAT        2
#define AHEAD         64  /* steps that may be taken, durably noted at once */
#define SYNC_EACH_MAX 512 /* steps; of more all file systems are synced */
#define NOTE_MAX      (1ULL << 31)
/* set-id bits of files are never put back */
#define MODE_BITS (07777 & ~(S_ISUID | S_ISGID))

/* --- the list --- */

static void clear_step(struct shfs_step *s)
{
	free(s->path);
	free(s->path2);
	free(s->path3);
	free(s->text);
	shfs_buf_free(&s->value);
	shfs_buf_free(&s->old_value);
}

void shfs_steps_clear(struct shfs_steps *steps)
{
	for (size_t i = 0; i < steps->n; i++)
		clear_step(&steps->list[i]);
	free(steps->list);
	*steps = (struct shfs_steps){ 0 };
}

static char *copy_text(const char *text, bool *failed)
{
	char *copy = text ? strdup(text) : NULL;

	*failed |= text && !copy;
	return copy;
}

struct shfs_step *shfs_steps_add(struct shfs_steps *steps, enum shfs_step_kind kind,
                                 const char *path, const char *path2, const char *path3,
                                 const char *text)
{
	bool failed = false;
	struct shfs_step *s;

	if (!MAKE_ROOM(steps->list, steps->n, steps->cap))
		return NULL;
	s = &steps->list[steps->n++];
	*s = (struct shfs_step){
		.kind = kind,
		.path = copy_text(path, &failed),
		.path2 = copy_text(path2, &failed),
		.path3 = copy_text(path3, &failed),
		.text = copy_text(text, &failed),
	};
	return failed ? NULL : s;
}

/* --- places in the tree --- */

/* A file by its directory, which is reached without following links. */
struct spot {
	int dirfd;
	const char *name;
};

static void spot_clear(struct spot *s)
{
	shfs_closep(&s->dirfd);
}
#define _cleanup_spot_ _cleanup_(spot_clear)

static int find_spot(const char *path, struct spot *out)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir =
		slash == path ? strdup("/") : strndup(path, slash - path);

	out->name = slash + 1;
	return dir ? shfs_trusted_directory(dir, (struct shfs_way){ .no_own = true },
	                                    &out->dirfd)
	           : -ENOMEM;
}

static bool is_there(const struct spot *s)
{
	return !faccessat(s->dirfd, s->name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static int move_spot(const struct spot *from, const struct spot *to)
{
	if (!renameat2(from->dirfd, from->name, to->dirfd, to->name, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (is_there(to))
		return -EEXIST;
	return renameat(from->dirfd, from->name, to->dirfd, to->name) ? -errno : 0;
}

/* --- making files --- */

/* Opens a file of this user, whatever its mode, which is mode. */
static int open_own(const char *path, uint32_t mode)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 || errno != EACCES || chmod(path, 0600))
		return fd;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return chmod(path, mode & 07777) ? -1 : fd;
}

static int copy_file(const struct shfs_step *s, int fd)
{
	_cleanup_close_ int from = open_own(s->text, s->mode);
	_cleanup_buf_ struct shfs_buf left = { 0 };
	struct stat st;
	int r;

	if (from < 0 || fstat(from, &st))
		return -errno;
	r = shfs_copy_fd(from, fd);
	if (!r)
		r = shfs_xattr_copy(from, fd, &left);
	if (!r && (st.st_uid != geteuid() || st.st_gid != getegid()) &&
	    fchown(fd, st.st_uid, st.st_gid) && errno != EPERM)
		r = -errno;
	if (!r && fchmod(fd, s->mode & MODE_BITS))
		r = -errno;
	if (!r && futimens(fd, (struct timespec[]){ st.st_atim, st.st_mtim }))
		r = -errno;
	return r;
}

/* Copies what a file holds; -ESTALE: it changes meanwhile. */
static int copy_bytes(const char *path, int to)
{
	_cleanup_spot_ struct spot at = { -1 };
	_cleanup_close_ int from = -1;
	struct stat before, after;
	int r = find_spot(path, &at);

	if (r)
		return r;
	from = openat(at.dirfd, at.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (from < 0 || fstat(from, &before))
		return -errno;
	if (!S_ISREG(before.st_mode))
		return -ESTALE;
	r = shfs_copy_fd(from, to);
	if (!r && fstat(from, &after))
		return -errno;
	if (!r && (before.st_size != after.st_size ||
	           shfs_timespec_ns(before.st_mtim) != shfs_timespec_ns(after.st_mtim)))
		return -ESTALE;
	return r;
}

static int fill_file(const struct shfs_steps_how *how, const struct shfs_step *s, int fd)
{
	_cleanup_buf_ struct shfs_buf left = { 0 };
	_cleanup_spot_ struct spot like = { -1 };
	_cleanup_close_ int like_fd = -1;
	struct stat st;
	int r = 0;

	if (s->what & SHFS_STEP_COPY)
		r = copy_file(s, fd);
	else if (s->what & SHFS_STEP_BYTES)
		r = shfs_write_all(fd, s->value.data ?: "", s->value.len);
	else if (s->what & SHFS_STEP_OBJECT)
		r = shfs_object_copy(how->store, &s->object, fd);
	else if (s->what & SHFS_STEP_FROM)
		r = copy_bytes(s->path3, fd);
	if (!r && s->what & SHFS_STEP_LIKE) {
		r = find_spot(s->path2, &like);
		like_fd = r ? -1
		            : openat(like.dirfd, like.name,
		                     O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (!r && (like_fd < 0 || fstat(like_fd, &st)))
			r = -errno;
		if (!r && (st.st_uid != geteuid() || st.st_gid != getegid()) &&
		    fchown(fd, st.st_uid, st.st_gid) && errno != EPERM)
			r = -errno;
		if (!r)
			r = shfs_xattr_copy(like_fd, fd, &left);
		if (!r && fchmod(fd, st.st_mode & MODE_BITS))
			r = -errno;
	}
	return r ? r : fsync(fd) ? -errno : 0;
}

/* Removes what a new file has got by its directory's default ACL. */
static int drop_acls(const struct spot *at)
{
	static const char *const names[] = { "system.posix_acl_access",
		                             "system.posix_acl_default" };
	_cleanup_close_ int fd =
		openat(at->dirfd, at->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char proc[40];

	if (fd < 0)
		return -errno;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (removexattr(proc, names[i]) && errno != ENODATA &&
		    errno != EOPNOTSUPP && errno != EACCES)
			return -errno;
	return 0;
}

static int make_file(const struct shfs_steps_how *how, const struct shfs_step *s)
{
	_cleanup_spot_ struct spot at = { -1 };
	_cleanup_close_ int fd = -1;
	int r = find_spot(s->path, &at);

	if (r)
		return r;
	if (S_ISLNK(s->mode))
		return symlinkat(s->text, at.dirfd, at.name) ? -errno : 0;
	if (!S_ISREG(s->mode))
		return mknodat(at.dirfd, at.name, (s->mode & S_IFMT) | 0600, s->rdev)
		               ? -errno
		               : drop_acls(&at);
	fd = openat(at.dirfd, at.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	            0600);
	r = fd < 0 ? -errno : fill_file(how, s, fd);
	return r || s->what & (SHFS_STEP_LIKE | SHFS_STEP_COPY) ? r : drop_acls(&at);
}

static int make_directory(const struct shfs_step *s)
{
	_cleanup_spot_ struct spot at = { -1 };
	int r = find_spot(s->path, &at);

	return r ? r : mkdirat(at.dirfd, at.name, 0700) ? -errno : drop_acls(&at);
}

static int remove_path(const char *path, int flags)
{
	_cleanup_spot_ struct spot at = { -1 };
	int r = find_spot(path, &at);

	if (r)
		return r == -ENOENT ? 0 : r;
	return unlinkat(at.dirfd, at.name, flags) && errno != ENOENT ? -errno : 0;
}

/* --- moving --- */

static int take_move(const char *from, const char *to)
{
	_cleanup_spot_ struct spot a = { -1 }, b = { -1 };
	int r = find_spot(from, &a);

	if (!r)
		r = find_spot(to, &b);
	return r ? r : move_spot(&a, &b);
}

/* The file at path2 keeps a name: path3. Where it cannot have two, path2 is missing for a
 * moment. */
static int take_replace(const struct shfs_step *s)
{
	_cleanup_spot_ struct spot new = { -1 }, at = { -1 }, kept = { -1 };
	int r = find_spot(s->path, &new);

	if (!r)
		r = find_spot(s->path2, &at);
	if (!r)
		r = find_spot(s->path3, &kept);
	if (r)
		return r;
	if (linkat(at.dirfd, at.name, kept.dirfd, kept.name, 0)) {
		r = move_spot(&at, &kept);
		return r ? r : move_spot(&new, &at);
	}
	return renameat(new.dirfd, new.name, at.dirfd, at.name) ? -errno : 0;
}

static int take_back_replace(const struct shfs_step *s)
{
	_cleanup_spot_ struct spot at = { -1 }, kept = { -1 };
	int r = find_spot(s->path2, &at);

	if (!r)
		r = find_spot(s->path3, &kept);
	if (r || !is_there(&kept))
		return r;
	if (renameat(kept.dirfd, kept.name, at.dirfd, at.name))
		return -errno;
	/* both were names of one file: then nothing is renamed */
	return unlinkat(kept.dirfd, kept.name, 0) && errno != ENOENT ? -errno : 0;
}

/* After a power cut some file systems show a file by both names. */
static int take_back_move(const struct shfs_step *s)
{
	_cleanup_spot_ struct spot at = { -1 }, was = { -1 };
	struct stat here, there;
	int r = find_spot(s->path2, &at);

	if (!r)
		r = find_spot(s->path, &was);
	if (!r)
		r = move_spot(&at, &was);
	if (r == -EEXIST && !fstatat(at.dirfd, at.name, &here, AT_SYMLINK_NOFOLLOW) &&
	    !fstatat(was.dirfd, was.name, &there, AT_SYMLINK_NOFOLLOW) &&
	    here.st_ino == there.st_ino && here.st_dev == there.st_dev)
		return unlinkat(at.dirfd, at.name, 0) ? -errno : 0;
	return r == -ENOENT || r == -EEXIST ? 0 : r; /* it was not taken */
}

static int take_link(const struct shfs_step *s)
{
	_cleanup_spot_ struct spot a = { -1 }, b = { -1 };
	int r = find_spot(s->path, &a);

	if (!r)
		r = find_spot(s->path2, &b);
	return r ? r : linkat(a.dirfd, a.name, b.dirfd, b.name, 0) ? -errno : 0;
}

/* object NULL: the content is value, or nothing. */
static int overwrite(const struct shfs_steps_how *how, const char *path,
                     const struct shfs_object_id *object, const struct shfs_buf *value)
{
	_cleanup_spot_ struct spot at = { -1 };
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r = find_spot(path, &at);

	if (r)
		return r;
	fd = openat(at.dirfd, at.name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (ftruncate(fd, 0))
		return -errno;
	if (object)
		r = shfs_object_copy(how->store, object, fd);
	else
		r = shfs_write_all(fd, value->data ?: "", value->len);
	return r ? r : fsync(fd) ? -errno : 0;
}

/* --- attributes --- */

/* Makes the attributes of a file or directory durable, if it can be opened. For writing,
 * as that does not count as a use of the file unless something is written. */
static void sync_attributes(const struct spot *at)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (fstatat(at->dirfd, at->name, &st, AT_SYMLINK_NOFOLLOW) ||
	    (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return;
	fd = openat(at->dirfd, at->name,
	            (S_ISDIR(st.st_mode) ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK |
	                    O_CLOEXEC);
	if (fd >= 0)
		(void)!fsync(fd);
}

/* Will another step give it another name? The others are synced together (make_durable).
 */
static bool is_temporary(const struct spot *at)
{
	return !strncmp(at->name, SHFS_STEP_TMP, strlen(SHFS_STEP_TMP));
}

static int set_attributes(const char *path, uint32_t what, struct shfs_attributes a)
{
	_cleanup_spot_ struct spot at = { -1 };
	int r = find_spot(path, &at);

	if (!r)
		r = shfs_attributes_set(at.dirfd, at.name, what, a);
	if (!r && is_temporary(&at))
		sync_attributes(&at);
	return r;
}

static int set_xattr(const char *path, const char *name, bool there,
                     const struct shfs_buf *value)
{
	const struct shfs_bytes bytes = { there ? value->data ?: "" : NULL, value->len };
	_cleanup_spot_ struct spot at = { -1 };
	int r = find_spot(path, &at);

	if (!r)
		r = shfs_attributes_set_xattr(at.dirfd, at.name, name, bytes);
	if (!r && is_temporary(&at))
		sync_attributes(&at);
	return r;
}

/* --- one step --- */

static int take_step(const struct shfs_steps_how *how, const struct shfs_step *s)
{
	switch (s->kind) {
	case SHFS_STEP_MAKE:
		return make_file(how, s);
	case SHFS_STEP_MKDIR:
		return make_directory(s);
	case SHFS_STEP_MOVE:
		return take_move(s->path, s->path2);
	case SHFS_STEP_REPLACE:
		return take_replace(s);
	case SHFS_STEP_LINK:
		return take_link(s);
	case SHFS_STEP_OVERWRITE:
		return overwrite(how, s->path,
		                 s->what & SHFS_STEP_OBJECT ? &s->object : NULL,
		                 &s->value);
	case SHFS_STEP_ATTRIBUTES:
		return set_attributes(s->path, s->what,
		                      (struct shfs_attributes){ s->mode, s->uid, s->gid,
		                                                s->mtime_ns });
	case SHFS_STEP_XATTR:
		return set_xattr(s->path, s->text, s->what & SHFS_STEP_VALUE, &s->value);
	case SHFS_STEP_REMOVE:
		return remove_path(s->path, 0);
	case SHFS_STEP_RMDIR:
		return remove_path(s->path, AT_REMOVEDIR);
	}
	return -EINVAL;
}

/* What is known of steps that are taken back. */
struct back {
	const struct shfs_steps_how *how;
	struct shfs_ids *inodes; /* that files had before all steps; sorted */
	int64_t booted_ns;       /* CLOCK_REALTIME; 0: the steps were taken since */
};

/* When the file was made; where the file system does not keep that: last changed. */
static int64_t birth_ns(const struct statx *stx)
{
	const struct statx_timestamp *t =
		stx->stx_mask & STATX_BTIME ? &stx->stx_btime : &stx->stx_ctime;

	return shfs_time_ns(t->tv_sec, t->tv_nsec);
}

/* Is the file that the step was about, or has made, where the step has left it? After a
 * power cut some of the last steps were not taken, whatever their note says: then a file
 * of before lies there, or one that somebody has made since. */
static bool has_left_it(const struct back *back, const struct shfs_step *s)
{
	bool names = s->kind == SHFS_STEP_MOVE || s->kind == SHFS_STEP_LINK;
	_cleanup_spot_ struct spot at = { -1 };
	struct statx stx;

	if (find_spot(names ? s->path2 : s->path, &at) ||
	    statx(at.dirfd, at.name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME,
	          &stx))
		return false;
	if (s->ino)
		return stx.stx_ino == s->ino;
	return !back->booted_ns || (!shfs_ids_has(back->inodes, (int64_t)stx.stx_ino) &&
	                            birth_ns(&stx) < back->booted_ns);
}

/* Takes back a step that was taken, or perhaps only begun. */
static int take_back_step(const struct back *back, const struct shfs_step *s)
{
	const struct shfs_steps_how *how = back->how;
	int r = 0;

	if (s->kind == SHFS_STEP_REPLACE)
		return take_back_replace(s);
	if (!has_left_it(back, s))
		return 0;
	switch (s->kind) {
	case SHFS_STEP_MAKE:
		return remove_path(s->path, 0);
	case SHFS_STEP_MKDIR:
		return remove_path(s->path, AT_REMOVEDIR);
	case SHFS_STEP_MOVE:
		return take_back_move(s);
	case SHFS_STEP_LINK:
		return remove_path(s->path2, 0);
	case SHFS_STEP_OVERWRITE:
		r = overwrite(how, s->path,
		              s->what & SHFS_STEP_OLD_OBJECT ? &s->old_object : NULL,
		              &s->old_value);
		return r ? r
		         : set_attributes(s->path, SHFS_STEP_TIME,
		                          (struct shfs_attributes){
						  .mtime_ns = s->old_mtime_ns });
	case SHFS_STEP_ATTRIBUTES:
		r = set_attributes(s->path, s->what,
		                   (struct shfs_attributes){ s->old_mode, s->old_uid,
		                                             s->old_gid,
		                                             s->old_mtime_ns });
		return r == -ENOENT ? 0 : r;
	case SHFS_STEP_XATTR:
		r = set_xattr(s->path, s->text, s->what & SHFS_STEP_OLD_VALUE,
		              &s->old_value);
		return r == -ENOENT ? 0 : r;
	default:
		return 0;
	}
}

/* --- the note --- */

int shfs_steps_open(const struct shfs_store *store, struct shfs_steps_place *out)
{
	int r;

	*out = (struct shfs_steps_place){ -1, -1 };
	out->lock_fd = shfs_store_lock(store->path, "shfs-undo", 0);
	if (out->lock_fd < 0)
		return out->lock_fd;
	if (mkdirat(store->dirfd, PLACE, 0700) && errno != EEXIST)
		r = -errno;
	else
		out->dirfd = openat(store->dirfd, PLACE,
		                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out->dirfd >= 0)
		return 0;
	r = -errno;
	shfs_steps_close(out);
	return r;
}

void shfs_steps_close(struct shfs_steps_place *place)
{
	shfs_closep(&place->dirfd);
	shfs_closep(&place->lock_fd);
}

static void pack_text(struct shfs_buf *out, const char *text)
{
	shfs_buf_bytes(out, text ?: "", text ? strlen(text) + 1 : 0);
}

static void pack_step(struct shfs_buf *out, const struct shfs_step *s)
{
	const uint64_t numbers[] = { s->kind,
		                     s->what,
		                     s->mode,
		                     s->uid,
		                     s->gid,
		                     s->old_mode,
		                     s->old_uid,
		                     s->old_gid,
		                     s->rdev,
		                     (uint64_t)s->mtime_ns,
		                     (uint64_t)s->old_mtime_ns,
		                     s->ino };

	pack_text(out, s->path);
	pack_text(out, s->path2);
	pack_text(out, s->path3);
	pack_text(out, s->text);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		shfs_buf_u64(out, numbers[i]);
	shfs_buf_bytes(out, &s->object, sizeof(s->object));
	shfs_buf_bytes(out, &s->old_object, sizeof(s->old_object));
	shfs_buf_bytes(out, s->value.data ?: "", s->value.len);
	shfs_buf_bytes(out, s->old_value.data ?: "", s->old_value.len);
}

static int save_steps(const struct shfs_steps_place *place,
                      const struct shfs_steps *steps)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_buf_u32(&out, FORMAT);
	shfs_buf_u64(&out, steps->n);
	shfs_buf_u64(&out, steps->commit);
	for (size_t i = 0; i < steps->n; i++)
		pack_step(&out, &steps->list[i]);
	if (out.failed)
		return -ENOMEM;
	if (unlinkat(place->dirfd, PROGRESS, 0) && errno != ENOENT)
		return -errno;
	return shfs_write_file_at(place->dirfd, NOTE, 0600, out.data, out.len);
}

static struct shfs_bytes unpack_bytes(struct shfs_cursor *in)
{
	size_t len = shfs_cursor_u32(in);
	struct shfs_bytes out = { (const char *)in->p, len };

	in->failed |= len > (size_t)(in->end - in->p);
	if (in->failed)
		return (struct shfs_bytes){ "", 0 };
	in->p += len;
	return out;
}

static char *unpack_text(struct shfs_cursor *in)
{
	struct shfs_bytes b = unpack_bytes(in);

	in->failed |= b.len && b.data[b.len - 1];
	return b.len && !in->failed ? strdup(b.data) : NULL;
}

static void unpack_object(struct shfs_cursor *in, struct shfs_object_id *out)
{
	struct shfs_bytes b = unpack_bytes(in);

	in->failed |= b.len != sizeof(*out);
	if (!in->failed)
		memcpy(out, b.data, b.len);
}

static void unpack_step(struct shfs_cursor *in, struct shfs_step *s)
{
	uint64_t numbers[12];
	struct shfs_bytes value;

	s->path = unpack_text(in);
	s->path2 = unpack_text(in);
	s->path3 = unpack_text(in);
	s->text = unpack_text(in);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		numbers[i] = shfs_cursor_u64(in);
	s->kind = numbers[0];
	s->what = numbers[1];
	s->mode = numbers[2];
	s->uid = numbers[3];
	s->gid = numbers[4];
	s->old_mode = numbers[5];
	s->old_uid = numbers[6];
	s->old_gid = numbers[7];
	s->rdev = numbers[8];
	s->mtime_ns = (int64_t)numbers[9];
	s->old_mtime_ns = (int64_t)numbers[10];
	s->ino = numbers[11];
	unpack_object(in, &s->object);
	unpack_object(in, &s->old_object);
	value = unpack_bytes(in);
	shfs_buf_add(&s->value, value.data, value.len);
	value = unpack_bytes(in);
	shfs_buf_add(&s->old_value, value.data, value.len);
	in->failed |= !s->path || *s->path != '/';
}

/* How far it has come: the file PROGRESS. */
struct progress {
	uint64_t begun;    /* steps; behind the commit one more than these are */
	uint64_t may_be;   /* steps that may have been taken; durable before they are */
	char boot[36 + 1]; /* the id of the boot in which it was written */
};

/* Loads the steps: 1, or 0: there is no note. */
static int load_steps(const struct shfs_steps_place *place, struct shfs_steps *out,
                      struct progress *progress)
{
	_cleanup_buf_ struct shfs_buf text = { 0 }, how_far = { 0 };
	struct shfs_cursor in;
	int r = shfs_read_file_at(place->dirfd, NOTE, NOTE_MAX, &text);

	if (r)
		return r == -ENOENT ? 0 : r;
	in = (struct shfs_cursor){ (unsigned char *)text.data,
		                   (unsigned char *)text.data + text.len, false };
	if (shfs_cursor_u32(&in) != FORMAT)
		return -EBADMSG;
	out->cap = shfs_cursor_u64(&in);
	out->commit = shfs_cursor_u64(&in);
	if (in.failed || out->cap > text.len || out->commit > out->cap)
		return out->cap = 0, -EBADMSG;
	out->list = calloc(out->cap + 1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	while (out->n < out->cap && !in.failed)
		unpack_step(&in, &out->list[out->n++]);
	if (in.failed)
		return -EBADMSG;
	*progress = (struct progress){ 0 };
	r = shfs_read_file_at(place->dirfd, PROGRESS, sizeof(*progress), &how_far);
	if (r && r != -ENOENT)
		return r;
	if (how_far.len == sizeof(*progress))
		memcpy(progress, how_far.data, sizeof(*progress));
	return 1;
}

static int drop_note(const struct shfs_steps_place *place)
{
	if (unlinkat(place->dirfd, NOTE, 0) && errno != ENOENT)
		return -errno;
	return unlinkat(place->dirfd, PROGRESS, 0) && errno != ENOENT ? -errno : 0;
}

/* --- all of them --- */

static void say_failed(const struct shfs_steps_how *how, const struct shfs_step *s,
                       int error)
{
	if (how->message->len)
		return;
	shfs_show_path(how->message,
	               s->path2 && s->kind != SHFS_STEP_MAKE ? s->path2 : s->path);
	shfs_buf_printf(how->message, ": %s", strerror(-error));
}

/* Syncs the directory of a path, unless it is that of the last one. */
static void sync_directory(const char *path, char **last)
{
	_cleanup_spot_ struct spot at = { -1 };
	_cleanup_close_ int dir = -1;
	size_t len = strrchr(path, '/') - path;

	if (*last && strlen(*last) == len && !memcmp(*last, path, len))
		return;
	free(*last);
	*last = strndup(path, len);
	if (find_spot(path, &at))
		return;
	dir = openat(at.dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		(void)!fsync(dir);
}

/* Makes what steps from `from` to `to` have done durable: in a mount it cannot be told to
 * which file systems that went. What cannot be opened is left out. */
static void make_durable(const struct shfs_steps *steps, size_t from, size_t to)
{
	_cleanup_free_ char *last = NULL;

	if (to - from > SYNC_EACH_MAX) {
		sync();
		return;
	}
	for (size_t i = from; i < to; i++) {
		const struct shfs_step *s = &steps->list[i];
		const char *paths[] = { s->path, s->path2, s->path3 };
		_cleanup_spot_ struct spot at = { -1 };

		if (s->kind == SHFS_STEP_ATTRIBUTES || s->kind == SHFS_STEP_XATTR) {
			if (!find_spot(s->path, &at))
				sync_attributes(&at);
			continue;
		}
		for (size_t k = 0; k < ARRAY_SIZE(paths); k++)
			if (paths[k])
				sync_directory(paths[k], &last);
	}
}

/* Takes back the first n steps, the last one first; booted_ns: as in struct back. */
static int take_back(const struct shfs_steps_how *how, const struct shfs_steps *steps,
                     size_t n, int64_t booted_ns)
{
	_cleanup_ids_ struct shfs_ids inodes = { 0 };
	struct back back = { .how = how, .inodes = &inodes, .booted_ns = booted_ns };
	int worst = 0;

	for (size_t i = 0; booted_ns && i < steps->commit && !worst; i++)
		worst = shfs_ids_add(&inodes, (int64_t)steps->list[i].ino);
	if (worst)
		return worst;
	shfs_ids_sort(&inodes);
	for (size_t i = MIN(n, steps->commit); i--;) {
		int r = take_back_step(&back, &steps->list[i]);

		if (!r)
			continue;
		say_failed(how, &steps->list[i], r);
		worst = worst ?: r;
	}
	make_durable(steps, 0, MIN(n, steps->commit));
	return worst;
}

/* A file that cannot be removed stays: all that was to be put back is there. */
static int take_rest(const struct shfs_steps_how *how, const struct shfs_steps *steps,
                     size_t from)
{
	int worst = 0;

	for (size_t i = MAX(from, steps->commit); i < steps->n; i++) {
		int r = take_step(how, &steps->list[i]);

		if (!r || (r == -ENOENT && steps->list[i].kind == SHFS_STEP_ATTRIBUTES))
			continue;
		say_failed(how, &steps->list[i], r);
		worst = worst ?: r;
	}
	make_durable(steps, MAX(from, steps->commit), steps->n);
	return worst;
}

/* Opens the file for the progress, with nothing begun; durable. */
static int open_progress(const struct shfs_steps_place *place, struct progress *progress)
{
	int fd = openat(place->dirfd, PROGRESS, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), r;

	if (fd < 0)
		return -errno;
	*progress = (struct progress){ 0 };
	r = shfs_proc_boot_id(progress->boot);
	if (!r)
		r = shfs_write_all(fd, progress, sizeof(*progress));
	if (!r && (fsync(fd) || fsync(place->dirfd)))
		r = -errno;
	if (!r)
		return fd;
	close(fd);
	return r;
}

/* Notes that so many steps are begun; durably, if none said so far that they may be. */
static int note_progress(int fd, struct progress *progress, uint64_t n, uint64_t ahead)
{
	bool durable = n > progress->may_be;

	progress->begun = n;
	if (durable)
		progress->may_be = n + ahead;
	if (pwrite(fd, progress, sizeof(*progress), 0) != sizeof(*progress))
		return -EIO;
	return durable && fdatasync(fd) ? -errno : 0;
}

/* *half: neither all of it is done nor nothing. */
static int take_all(const struct shfs_steps_how *how, const struct shfs_steps *steps,
                    int fd, struct progress *progress, bool *half)
{
	int r = 0;
	size_t i;

	for (i = 0; i < steps->commit && !r; i++) {
		r = note_progress(fd, progress, i + 1,
		                  MIN((size_t)AHEAD, steps->commit - i) - 1);
		if (!r)
			r = take_step(how, &steps->list[i]);
		if (r)
			say_failed(how, &steps->list[i], r);
	}
	if (!r) {
		make_durable(steps, 0, steps->commit);
		r = note_progress(fd, progress, steps->commit + 1, 0);
	}
	if (!r)
		return take_rest(how, steps, steps->commit);
	*half = take_back(how, steps, i, 0);
	return r;
}

int shfs_steps_take(const struct shfs_steps_how *how, struct shfs_steps *steps)
{
	_cleanup_close_ int fd = -1;
	struct progress progress;
	bool half = false;
	sigset_t all, old;
	int r = shfs_steps_identify(steps), dropped = 0;

	if (!r)
		r = save_steps(how->place, steps);
	if (r)
		return r;
	fd = open_progress(how->place, &progress);
	if (fd < 0)
		return fd;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	r = take_all(how, steps, fd, &progress, &half);
	if (!half) /* else the next one tries again */
		dropped = drop_note(how->place);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return r ? r : dropped;
}

int shfs_steps_end_left(const struct shfs_steps_how *how)
{
	_cleanup_steps_ struct shfs_steps steps = { 0 };
	struct progress progress = { 0 };
	char boot[sizeof(progress.boot)];
	int r = load_steps(how->place, &steps, &progress), dropped;
	bool committed = progress.begun > steps.commit, same_boot;

	if (r <= 0)
		return r;
	r = shfs_proc_boot_id(boot);
	if (r)
		return r;
	same_boot = !memcmp(boot, progress.boot, sizeof(boot));
	r = committed   ? take_rest(how, &steps, steps.commit)
	    : same_boot ? take_back(how, &steps, progress.begun, 0)
	                : take_back(how, &steps, progress.may_be,
	                            shfs_clock_ns(CLOCK_REALTIME) -
	                                    shfs_clock_ns(CLOCK_BOOTTIME));
	dropped = r ? 0 : drop_note(how->place);
	return r ? r : dropped ? dropped : committed ? 2 : 1;
}
