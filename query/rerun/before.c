/* SPDX-License-Identifier: MIT */
#include "query/rerun/before.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "common/proc.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define PLACES   "rerun"  /* the directory of the store */
#define NOTE     "before" /* the files of a place */
#define NOTE_END "ended"
#define FORMAT   1
#define NOTE_MAX (1ULL << 32)

static void free_file(struct shfs_before_file *f)
{
	if (!f)
		return;
	free(f->path);
	free(f->text);
	free(f->moved);
	free(f);
}

void shfs_before_clear(struct shfs_before *b)
{
	HASH_CLEAR(hh, b->table);
	for (size_t i = 0; i < b->n; i++)
		free_file(b->list[i]);
	free(b->list);
	for (size_t i = 0; i < b->n_roots; i++)
		free(b->roots[i]);
	free(b->roots);
	free(b->session);
	shfs_buf_free(&b->born);
	*b = (struct shfs_before){ 0 };
}

int shfs_before_add_root(struct shfs_before *b, const char *root)
{
	char **roots;

	if (!strcmp(root, "/"))
		return 0;
	for (size_t i = 0; i < b->n_roots; i++)
		if (shfs_path_is_below(root, b->roots[i]))
			return 0;
	roots = reallocarray(b->roots, b->n_roots + 1, sizeof(*roots));
	if (!roots)
		return -ENOMEM;
	b->roots = roots;
	b->roots[b->n_roots] = strdup(root);
	return b->roots[b->n_roots] ? (b->n_roots++, 0) : -ENOMEM;
}

struct shfs_before_file *shfs_before_find(const struct shfs_before *b, const char *path)
{
	struct shfs_before_file *f;

	HASH_FIND_STR(b->table, path, f);
	return f;
}

/* Takes over the file. */
static int add_file(struct shfs_before *b, struct shfs_before_file *f)
{
	if (!f->path || (S_ISLNK(f->mode) && !f->text) ||
	    !MAKE_ROOM(b->list, b->n, b->cap)) {
		free_file(f);
		return -ENOMEM;
	}
	b->list[b->n++] = f;
	HASH_ADD_KEYPTR(hh, b->table, f->path, strlen(f->path), f);
	return f->hh.tbl ? 0 : -ENOMEM;
}

/* --- looking --- */

static char *read_link_text(const char *path)
{
	char text[PATH_MAX];
	ssize_t n = readlink(path, text, sizeof(text));

	return n < 0 || n == sizeof(text) ? NULL : strndup(text, n);
}

static int note_file(struct shfs_before *b, const FTSENT *e)
{
	const struct stat *st = e->fts_statp;
	struct shfs_before_file *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	*f = (struct shfs_before_file){
		.path = strdup(e->fts_path),
		.text = S_ISLNK(st->st_mode) ? read_link_text(e->fts_path) : NULL,
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.links = st->st_nlink,
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = st->st_size,
		.mtime_ns = shfs_timespec_ns(st->st_mtim),
		.ctime_ns = shfs_timespec_ns(st->st_ctim),
	};
	return add_file(b, f);
}

static int note_entry(struct shfs_before *b, const FTSENT *e)
{
	struct shfs_before_file *f;

	switch (e->fts_info) {
	case FTS_D:
	case FTS_F:
	case FTS_SL:
	case FTS_SLNONE:
	case FTS_DEFAULT:
		return note_file(b, e);
	case FTS_DNR: /* its FTS_D came before */
		f = shfs_before_find(b, e->fts_path);
		if (f)
			f->unread = true;
		return 0;
	case FTS_NS:
	case FTS_ERR: /* it has gone meanwhile, or nothing can be said of it */
		return e->fts_errno == ENOENT || e->fts_errno == EACCES ? 0
		                                                        : -e->fts_errno;
	default:
		return 0;
	}
}

static int look_below(struct shfs_before *b, const struct shfs_store *store, char *root)
{
	char *paths[] = { root, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	FTSENT *e;
	int r = fts ? 0 : -errno;

	while (!r && (errno = 0, e = fts_read(fts)))
		if (e->fts_info == FTS_D && !strcmp(e->fts_path, store->path))
			fts_set(fts, e, FTS_SKIP);
		else
			r = note_entry(b, e);
	if (!r && errno)
		r = -errno;
	if (fts)
		fts_close(fts);
	return r;
}

int shfs_before_look(struct shfs_before *b, const struct shfs_store *store)
{
	int r = 0;

	for (size_t i = 0; i < b->n_roots && !r; i++)
		r = look_below(b, store, b->roots[i]);
	return r;
}

/* --- the place --- */

static int open_places(const struct shfs_store *store)
{
	int fd;

	if (mkdirat(store->dirfd, PLACES, 0700) && errno != EEXIST)
		return -errno;
	fd = openat(store->dirfd, PLACES,
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Locks the place before it is made: so no other process finds it without its owner. */
static int open_place(const struct shfs_store *store, int places, bool make,
                      struct shfs_before_place *place)
{
	const char *process = place->name + strlen(store->host) + 1;
	char lock[64];

	snprintf(lock, sizeof(lock), "shfs-rerun-%.40s", process);
	place->lock_fd = shfs_store_lock(store->path, lock, 0);
	if (place->lock_fd < 0)
		return place->lock_fd;
	if (!make || !mkdirat(places, place->name, 0700) || errno == EEXIST)
		place->dirfd = openat(places, place->name,
		                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (place->dirfd >= 0)
		return 0;
	shfs_closep(&place->lock_fd);
	return -errno;
}

int shfs_before_open(const struct shfs_store *store, struct shfs_before_place *out)
{
	_cleanup_close_ int places = open_places(store), self = shfs_proc_open(getpid());
	struct shfs_proc_stat stat;
	char boot[37];
	int r = places < 0 ? places : self < 0 ? self : shfs_proc_read_stat(self, &stat);

	if (!r)
		r = shfs_proc_boot_id(boot);
	if (r)
		return r;
	*out = (struct shfs_before_place){ .dirfd = -1, .lock_fd = -1 };
	snprintf(out->name, sizeof(out->name), "%s-%.8s-%" PRIu32 "-%" PRIu64,
	         store->host, boot, stat.pid, stat.start_ticks);
	return open_place(store, places, true, out);
}

int shfs_before_open_left(const struct shfs_store *store, struct shfs_before_place *out)
{
	DIR *dir;
	const struct dirent *e;
	size_t len = strlen(store->host);
	int fd = openat(store->dirfd, PLACES,
	                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = 0, found = 0;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		r = errno == ENOENT ? 0 : -errno;
		shfs_closep(&fd);
		return r;
	}
	while (!found && (e = shfs_readdir(dir, &r))) {
		if (strncmp(e->d_name, store->host, len) || e->d_name[len] != '-' ||
		    strlen(e->d_name) >= sizeof(out->name))
			continue;
		*out = (struct shfs_before_place){ .dirfd = -1, .lock_fd = -1 };
		strcpy(out->name, e->d_name);
		found = open_place(store, fd, false, out);
		/* its process lives, or it was removed meanwhile */
		found = found == -EADDRINUSE || found == -ENOENT ? 0 : found ?: 1;
	}
	closedir(dir);
	return r ? r : found;
}

char *shfs_before_path(const struct shfs_store *store,
                       const struct shfs_before_place *place)
{
	char *path;

	return asprintf(&path, "%s/" PLACES "/%s", store->path, place->name) < 0 ? NULL
	                                                                         : path;
}

int shfs_before_close(const struct shfs_store *store, struct shfs_before_place *place)
{
	_cleanup_close_ int places = -1;
	int r;

	if (place->dirfd < 0)
		return 0;
	places = open_places(store);
	shfs_closep(&place->dirfd);
	r = MIN(places, 0);
	if (!r && unlinkat(places, place->name, AT_REMOVEDIR) && errno != ENOENT)
		r = -errno;
	shfs_closep(&place->lock_fd);
	return r;
}

/* --- copies --- */

static void name_copy(const struct shfs_before_file *f, char name[static 16])
{
	snprintf(name, 16, "%" PRIu32, f->aside);
}

int shfs_before_set_aside(const struct shfs_before_place *place, struct shfs_before *b,
                          struct shfs_before_file *f)
{
	_cleanup_close_ int to = -1, from = open(f->path, O_RDONLY | O_NOFOLLOW |
	                                                          O_NONBLOCK | O_CLOEXEC);
	char name[16];
	int r;

	if (from < 0)
		return -errno;
	f->aside = ++b->n_aside;
	name_copy(f, name);
	to = openat(place->dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	r = to < 0 ? -errno : shfs_copy_fd(from, to);
	return r ? r : fsync(to) ? -errno : 0;
}

int shfs_before_aside(const struct shfs_before_place *place,
                      const struct shfs_before_file *f)
{
	char name[16];
	int fd;

	name_copy(f, name);
	fd = f->aside ? openat(place->dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
	              : -1;
	return !f->aside ? -ENODATA : fd < 0 ? -errno : fd;
}

/* --- what is noted --- */

static void pack_text(struct shfs_buf *out, const char *text)
{
	shfs_buf_bytes(out, text ?: "", text ? strlen(text) + 1 : 0);
}

static void pack_file(struct shfs_buf *out, const struct shfs_before_file *f)
{
	const uint64_t numbers[] = { f->mode,
		                     f->uid,
		                     f->gid,
		                     f->links,
		                     f->dev,
		                     f->ino,
		                     f->size,
		                     (uint64_t)f->mtime_ns,
		                     (uint64_t)f->ctime_ns,
		                     f->aside };

	pack_text(out, f->path);
	pack_text(out, f->text);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		shfs_buf_u64(out, numbers[i]);
	shfs_buf_u8(out, f->known);
	shfs_buf_u8(out, f->unread);
}

int shfs_before_save(const struct shfs_before_place *place, const struct shfs_before *b)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };

	shfs_buf_u32(&out, FORMAT);
	pack_text(&out, b->session);
	shfs_buf_u64(&out, b->number);
	shfs_buf_u64(&out, b->begin_ns);
	shfs_buf_u32(&out, b->expected);
	shfs_buf_bytes(&out, b->born.data ?: "", b->born.len);
	shfs_buf_u64(&out, b->n_roots);
	for (size_t i = 0; i < b->n_roots; i++)
		pack_text(&out, b->roots[i]);
	shfs_buf_u64(&out, b->n);
	for (size_t i = 0; i < b->n; i++)
		pack_file(&out, b->list[i]);
	if (out.failed)
		return -ENOMEM;
	if (unlinkat(place->dirfd, NOTE_END, 0) && errno != ENOENT)
		return -errno;
	return shfs_write_file_at(place->dirfd, NOTE, 0600, out.data, out.len);
}

/* Returns a string that ends with a NUL; NULL: there is none, or it is damaged. */
static const char *unpack_text(struct shfs_cursor *in, size_t *len)
{
	uint32_t n = shfs_cursor_u32(in);
	const char *text = (const char *)in->p;

	*len = n;
	in->failed |= n > (size_t)(in->end - in->p) || (n && text[n - 1]);
	if (in->failed)
		return NULL;
	in->p += n;
	return n ? text : NULL;
}

static char *copy_text(struct shfs_cursor *in)
{
	size_t len;
	const char *text = unpack_text(in, &len);

	return text ? strdup(text) : NULL;
}

static int unpack_file(struct shfs_cursor *in, struct shfs_before *b)
{
	struct shfs_before_file *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->path = copy_text(in);
	f->text = copy_text(in);
	f->mode = shfs_cursor_u64(in);
	f->uid = shfs_cursor_u64(in);
	f->gid = shfs_cursor_u64(in);
	f->links = shfs_cursor_u64(in);
	f->dev = shfs_cursor_u64(in);
	f->ino = shfs_cursor_u64(in);
	f->size = shfs_cursor_u64(in);
	f->mtime_ns = shfs_cursor_u64(in);
	f->ctime_ns = shfs_cursor_u64(in);
	f->aside = shfs_cursor_u64(in);
	f->known = shfs_cursor_u8(in);
	f->unread = shfs_cursor_u8(in);
	if (!in->failed && f->path && *f->path == '/')
		return add_file(b, f);
	free_file(f);
	return -EBADMSG;
}

static int unpack_note(struct shfs_cursor *in, struct shfs_before *b)
{
	const char *born;
	uint64_t n;
	size_t len;
	int r = 0;

	if (shfs_cursor_u32(in) != FORMAT)
		return -EBADMSG;
	b->session = copy_text(in);
	b->number = shfs_cursor_u64(in);
	b->begin_ns = shfs_cursor_u64(in);
	b->expected = shfs_cursor_u32(in);
	born = unpack_text(in, &len);
	if (born)
		shfs_buf_add(&b->born, born, len);
	n = shfs_cursor_u64(in);
	for (uint64_t i = 0; i < n && !r; i++) {
		const char *root = unpack_text(in, &len);

		r = root && *root == '/' ? shfs_before_add_root(b, root) : -EBADMSG;
	}
	n = r ? 0 : shfs_cursor_u64(in);
	for (uint64_t i = 0; i < n && !r; i++)
		r = unpack_file(in, b);
	return r ? r : in->failed || in->p != in->end ? -EBADMSG : 0;
}

/* The exit status that was noted, or -1. */
static int noted_end(const struct shfs_before_place *place)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };

	return shfs_read_file_at(place->dirfd, NOTE_END, 64, &text) || !text.len
	               ? -1
	               : atoi(text.data);
}

int shfs_before_load(const struct shfs_before_place *place, struct shfs_before *out,
                     bool *ended)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	struct shfs_cursor in;
	int r = shfs_read_file_at(place->dirfd, NOTE, NOTE_MAX, &text), status;

	if (r)
		return r == -ENOENT ? 0 : r;
	in.p = (const unsigned char *)text.data;
	in.end = in.p + text.len;
	in.failed = false;
	*out = (struct shfs_before){ 0 };
	r = unpack_note(&in, out);
	if (r) {
		shfs_before_clear(out);
		return r;
	}
	status = noted_end(place);
	*ended = !status || (status > 0 && status == out->expected);
	return 1;
}

int shfs_before_drop(const struct shfs_before_place *place)
{
	int fd = openat(place->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int r = dir ? 0 : -errno;

	/* the note first: without it nothing is put back */
	if (!r && unlinkat(place->dirfd, NOTE, 0) && errno != ENOENT)
		r = -errno;
	while (!r && (e = shfs_readdir(dir, &r)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		    unlinkat(place->dirfd, e->d_name, 0) && errno != ENOENT)
			r = -errno;
	if (dir)
		closedir(dir);
	else
		shfs_closep(&fd);
	return r;
}

/* Removes a place of this host: 1; 0: its process lives, or the note is needed or
 * damaged. */
static int remove_place(const struct shfs_store *store, int places,
                        struct shfs_before_place *place)
{
	_cleanup_before_ struct shfs_before before = { 0 };
	bool ended = true;
	int closed, r = open_place(store, places, false, place);

	if (r == -EADDRINUSE || r == -ENOENT)
		return r == -ENOENT;
	if (r)
		return r;
	r = shfs_before_load(place, &before, &ended);
	r = r == -EBADMSG ? 0 : r < 0 ? r : ended;
	if (r > 0)
		r = shfs_before_drop(place) ?: 1;
	closed = shfs_before_close(store, place);
	return closed && closed != -ENOTEMPTY && r >= 0 ? closed : r;
}

int shfs_before_remove_ended(const struct shfs_store *store, char **path)
{
	_cleanup_close_ int places =
		openat(store->dirfd, PLACES,
	               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd =
		places < 0 ? -1 : openat(places, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = dir || errno == ENOENT ? 0 : -errno;
	size_t len = strlen(store->host);
	const struct dirent *e;

	*path = NULL;
	while (dir && !r && !*path && (e = shfs_readdir(dir, &r))) {
		struct shfs_before_place place = { .dirfd = -1, .lock_fd = -1 };
		bool here =
			!strncmp(e->d_name, store->host, len) && e->d_name[len] == '-';

		if (*e->d_name == '.' || strlen(e->d_name) >= sizeof(place.name))
			continue;
		strcpy(place.name, e->d_name);
		r = here ? remove_place(store, places, &place) : 0;
		if (!r)
			*path = shfs_before_path(store, &place);
		r = r < 0 ? r : r || *path ? 0 : -ENOMEM;
	}
	if (dir)
		closedir(dir);
	else
		shfs_closep(&fd);
	return r;
}

int shfs_before_note_end(int dirfd, int status)
{
	char text[16];

	snprintf(text, sizeof(text), "%d\n", status);
	return shfs_write_file_at(dirfd, NOTE_END, 0600, text, strlen(text));
}
