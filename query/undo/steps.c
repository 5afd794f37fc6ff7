/* SPDX-License-Identifier: MIT */
#include "query/undo/steps.h"

#include "common/clock.h"
#include "common/io.h"
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

#define PLACE    "undo" /* the directory of the store */
#define NOTE     "steps"
#define PROGRESS "progress"
#define FORMAT   1
#define NOTE_MAX (1ULL << 31)
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

static int set_attributes(const char *path, uint32_t what, struct shfs_attributes a)
{
	_cleanup_spot_ struct spot at = { -1 };
	int r = find_spot(path, &at);

	return r ? r : shfs_attributes_set(at.dirfd, at.name, what, a);
}

static int set_xattr(const char *path, const char *name, bool there,
                     const struct shfs_buf *value)
{
	const struct shfs_bytes bytes = { there ? value->data ?: "" : NULL, value->len };
	_cleanup_spot_ struct spot at = { -1 };
	int r = find_spot(path, &at);

	return r ? r : shfs_attributes_set_xattr(at.dirfd, at.name, name, bytes);
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

/* Takes back a step that was taken, or perhaps only begun. */
static int take_back_step(const struct shfs_steps_how *how, const struct shfs_step *s)
{
	int r = 0;

	switch (s->kind) {
	case SHFS_STEP_MAKE:
		return remove_path(s->path, 0);
	case SHFS_STEP_MKDIR:
		return remove_path(s->path, AT_REMOVEDIR);
	case SHFS_STEP_MOVE:
		r = take_move(s->path2, s->path);
		return r == -ENOENT || r == -EEXIST ? 0 : r; /* it was not taken */
	case SHFS_STEP_REPLACE:
		return take_back_replace(s);
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
		                     (uint64_t)s->old_mtime_ns };

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
	uint64_t numbers[11];
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
	unpack_object(in, &s->object);
	unpack_object(in, &s->old_object);
	value = unpack_bytes(in);
	shfs_buf_add(&s->value, value.data, value.len);
	value = unpack_bytes(in);
	shfs_buf_add(&s->old_value, value.data, value.len);
	in->failed |= !s->path || *s->path != '/';
}

/* 1, or 0: there is no note. *done: how many of them were begun. */
static int load_steps(const struct shfs_steps_place *place, struct shfs_steps *out,
                      size_t *done)
{
	_cleanup_buf_ struct shfs_buf text = { 0 }, progress = { 0 };
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
	*done = 0;
	r = shfs_read_file_at(place->dirfd, PROGRESS, sizeof(uint64_t), &progress);
	if (r && r != -ENOENT)
		return r;
	if (progress.len == sizeof(uint64_t)) {
		uint64_t n;

		memcpy(&n, progress.data, sizeof(n));
		*done = MIN(n, out->n + 1);
	}
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

/* Takes back the first n steps, the last one first. */
static int take_back(const struct shfs_steps_how *how, const struct shfs_steps *steps,
                     size_t n)
{
	int worst = 0;

	for (size_t i = MIN(n, steps->commit); i--;) {
		int r = take_back_step(how, &steps->list[i]);

		if (!r)
			continue;
		say_failed(how, &steps->list[i], r);
		worst = worst ?: r;
	}
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
	return worst;
}

static int note_progress(int fd, uint64_t n)
{
	return pwrite(fd, &n, sizeof(n), 0) == sizeof(n) ? 0 : -EIO;
}

/* *half: neither all of it is done nor nothing. */
static int take_all(const struct shfs_steps_how *how, const struct shfs_steps *steps,
                    int progress, bool *half)
{
	int r = 0;
	size_t i;

	for (i = 0; i < steps->commit && !r; i++) {
		r = note_progress(progress, i + 1);
		if (!r)
			r = take_step(how, &steps->list[i]);
		if (r)
			say_failed(how, &steps->list[i], r);
	}
	if (!r)
		r = note_progress(progress, steps->commit + 1);
	if (!r)
		return take_rest(how, steps, steps->commit);
	*half = take_back(how, steps, i);
	return r;
}

int shfs_steps_take(const struct shfs_steps_how *how, struct shfs_steps *steps)
{
	_cleanup_close_ int progress = -1;
	bool half = false;
	sigset_t all, old;
	int r = save_steps(how->place, steps), dropped = 0;

	if (r)
		return r;
	progress =
		openat(how->place->dirfd, PROGRESS, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (progress < 0)
		return -errno;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	r = take_all(how, steps, progress, &half);
	if (!half) /* else the next one tries again */
		dropped = drop_note(how->place);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return r ? r : dropped;
}

int shfs_steps_end_left(const struct shfs_steps_how *how)
{
	_cleanup_steps_ struct shfs_steps steps = { 0 };
	size_t done = 0;
	int r = load_steps(how->place, &steps, &done), dropped;
	bool committed = done > steps.commit;

	if (r <= 0)
		return r;
	r = committed ? take_rest(how, &steps, steps.commit)
	              : take_back(how, &steps, done);
	dropped = r ? 0 : drop_note(how->place);
	return r ? r : dropped ? dropped : committed ? 2 : 1;
}
