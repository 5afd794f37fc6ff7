/* SPDX-License-Identifier: MIT */
#include "store/objects/loose.h"

#include "common/clock.h"
#include "common/io.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

/*
 * The file: magic (8 bytes, the last is the format's number), u32 encoding, u32 zero, u64
 * size of the content, hash (16 bytes), then the content, encoded.
 */
#define LOOSE_MAGIC "shfsobj\1"
#define PIECE_BYTES (128 << 10)

enum encoding {
	ENCODING_RAW = 0,
	ENCODING_ZSTD = 1,
};

/* Makes the path of the object: "ab/cdef..." */
static void loose_path(const struct shfs_object_id *id, char out[static 46])
{
	char name[44];

	shfs_object_name(id, name);
	snprintf(out, 46, "%.2s/%s", name, name + 2);
}

/* --- reading --- */

struct head {
	uint32_t encoding;
	uint64_t size;
	uint8_t hash[16];
};

static int read_head(int fd, struct head *h)
{
	unsigned char raw[LOOSE_HEAD_BYTES];
	ssize_t n = shfs_pread_full(fd, raw, sizeof(raw), 0);
	struct shfs_cursor c = { raw + 8, raw + sizeof(raw), false };

	if (n < 0)
		return n;
	if (n != LOOSE_HEAD_BYTES || memcmp(raw, LOOSE_MAGIC, 8))
		return -EBADMSG;
	h->encoding = shfs_cursor_u32(&c);
	shfs_cursor_u32(&c);
	h->size = shfs_cursor_u64(&c);
	shfs_cursor_copy(&c, h->hash, sizeof(h->hash));
	return h->encoding <= ENCODING_ZSTD ? 0 : -EBADMSG;
}

int loose_open(struct shfs_store *store, const struct shfs_object_id *id, uint64_t *size)
{
	_cleanup_close_ int fd = -1;
	char path[46];
	struct head h;
	int r;

	loose_path(id, path);
	fd = openat(store->objects_fd, path,
	            O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ELOOP ? -EBADMSG : -errno;
	r = read_head(fd, &h);
	if (r)
		return r;
	if (memcmp(h.hash, id->hash, sizeof(h.hash)))
		return -EBADMSG;
	*size = h.size;
	return TAKE_FD(fd);
}

int loose_is_compressed(int fd)
{
	struct head h;
	int r = read_head(fd, &h);

	return r ? r : h.encoding == ENCODING_ZSTD;
}

int loose_each_piece(int fd, loose_piece_fn fn, void *arg)
{
	_cleanup_free_ char *in = malloc(PIECE_BYTES), *part = malloc(PIECE_BYTES);
	struct head h;
	ZSTD_DStream *ds = NULL;
	uint64_t done = 0;
	off_t off = LOOSE_HEAD_BYTES;
	int r = in && part ? read_head(fd, &h) : -ENOMEM;

	if (!r && h.encoding == ENCODING_ZSTD && !(ds = ZSTD_createDStream()))
		r = -ENOMEM;
	while (!r) {
		ssize_t n = shfs_pread_full(fd, in, PIECE_BYTES, off);
		ZSTD_inBuffer src = { in, MAX(n, 0), 0 };

		if (n <= 0) {
			r = n ? n : done == h.size ? 0 : -EBADMSG;
			break;
		}
		off += n;
		while (!r && src.pos < src.size) {
			ZSTD_outBuffer dst = { part, PIECE_BYTES, 0 };
			const void *data = part;

			if (ds && ZSTD_isError(ZSTD_decompressStream(ds, &dst, &src)))
				r = -EBADMSG;
			if (!ds) {
				data = in;
				dst.pos = src.pos = src.size;
			}
			if (dst.pos > h.size - done)
				r = -EBADMSG;
			if (!r && dst.pos)
				r = fn(arg, data, dst.pos);
			done += dst.pos;
		}
	}
	ZSTD_freeDStream(ds);
	return r;
}

/* --- which directories there are --- */

#define TICK_NS (SHFS_NSEC_PER_SEC / 10) /* more than a tick of a file system's clock */

struct loose_dirs {
	pthread_mutex_t lock;
	bool there[256];
	int64_t mtime_ns; /* of objects/ */
	int64_t seen_ns;  /* when it was listed; 0: never */
	bool unsure;      /* the store may hang: what a network shows may be old */
};

struct loose_dirs *loose_dirs_new(void)
{
	struct loose_dirs *d = calloc(1, sizeof(*d));

	if (d)
		pthread_mutex_init(&d->lock, NULL);
	return d;
}

void loose_dirs_free(struct loose_dirs *d)
{
	if (!d)
		return;
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* Lock held. A directory never goes away: it is made with the first object in it. */
static void list_dirs(struct shfs_store *store, struct loose_dirs *d)
{
	for (int i = 0; i < 256; i++) {
		char name[3];

		snprintf(name, sizeof(name), "%02x", i);
		/* one that cannot be looked at may be there */
		d->there[i] = d->there[i] ||
		              !faccessat(store->objects_fd, name, F_OK, 0) ||
		              errno != ENOENT;
	}
}

/* Lock held. The names of directories are in objects/, whose mtime shows a new one; but
 * not if it was listed within the same tick. */
static void refresh_dirs(struct shfs_store *store, struct loose_dirs *d)
{
	struct stat st;
	int64_t now = shfs_clock_ns(CLOCK_REALTIME), mtime_ns;

	if (!d->seen_ns)
		d->unsure = shfs_store_may_hang(store->path);
	if (d->unsure || fstat(store->objects_fd, &st)) {
		memset(d->there, true, sizeof(d->there));
		d->seen_ns = now;
		return;
	}
	mtime_ns = shfs_timespec_ns(st.st_mtim);
	if (d->seen_ns && mtime_ns == d->mtime_ns &&
	    llabs(d->seen_ns - mtime_ns) > TICK_NS)
		return;
	list_dirs(store, d);
	d->mtime_ns = mtime_ns;
	d->seen_ns = now;
}

void loose_refresh(struct shfs_store *store)
{
	pthread_mutex_lock(&store->loose_dirs->lock);
	refresh_dirs(store, store->loose_dirs);
	pthread_mutex_unlock(&store->loose_dirs->lock);
}

bool loose_may_have(struct shfs_store *store, const struct shfs_object_id *id)
{
	struct loose_dirs *d = store->loose_dirs;
	bool may;

	pthread_mutex_lock(&d->lock);
	if (!d->seen_ns)
		refresh_dirs(store, d);
	may = d->there[id->hash[0]];
	pthread_mutex_unlock(&d->lock);
	return may;
}

/* --- writing --- */

/* Creates a file under a name of this process; a dead process with the same pid may have
 * left one. */
static int open_temp(struct shfs_store *store, struct loose_file *file)
{
	static _Atomic unsigned counter;

	do {
		struct shfs_buf name = { 0 };

		free(file->temp);
		shfs_buf_printf(&name, "tmp-%d-%u", (int)getpid(), counter++);
		file->temp = shfs_buf_take(&name);
		if (!file->temp)
			return -ENOMEM;
		file->fd =
			openat(store->objects_fd, file->temp,
		               O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
	} while (file->fd < 0 && errno == EEXIST);
	if (file->fd >= 0)
		return 0;
	shfs_freep(&file->temp);
	file->temp = NULL;
	return -errno;
}

static int open_unnamed(struct shfs_store *store, struct loose_file *file)
{
	file->fd = openat(store->objects_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (file->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
		return -errno;
	return open_temp(store, file);
}

int loose_write(struct shfs_store *store, const struct shfs_object_id *id, uint64_t size,
                const void *bytes, size_t len, bool packed, struct loose_file *out)
{
	_cleanup_buf_ struct shfs_buf head = { 0 };
	struct loose_file file = LOOSE_FILE_NONE;
	int r;

	shfs_buf_add(&head, LOOSE_MAGIC, 8);
	shfs_buf_u32(&head, packed ? ENCODING_ZSTD : ENCODING_RAW);
	shfs_buf_u32(&head, 0);
	shfs_buf_u64(&head, size);
	shfs_buf_add(&head, id->hash, 16);
	r = head.failed ? -ENOMEM : open_unnamed(store, &file);
	if (!r)
		r = shfs_write_all(file.fd, head.data, head.len);
	if (!r)
		r = shfs_write_all(file.fd, bytes, len);
	if (r)
		loose_drop(store, &file);
	else
		*out = file;
	return r;
}

int loose_name(struct shfs_store *store, const struct loose_file *file,
               const struct shfs_object_id *id)
{
	int dirfd = store->objects_fd;
	char path[46], dir[3] = { 0 }, self[40];

	loose_path(id, path);
	memcpy(dir, path, 2);
	if (mkdirat(dirfd, dir, 0700) && errno != EEXIST)
		return -errno;
	pthread_mutex_lock(&store->loose_dirs->lock);
	store->loose_dirs->there[id->hash[0]] = true;
	pthread_mutex_unlock(&store->loose_dirs->lock);
	if (file->temp)
		return linkat(dirfd, file->temp, dirfd, path, 0) ? -errno : 0;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
	return linkat(AT_FDCWD, self, dirfd, path, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

void loose_drop(struct shfs_store *store, struct loose_file *file)
{
	if (file->temp)
		unlinkat(store->objects_fd, file->temp, 0);
	shfs_freep(&file->temp);
	shfs_closep(&file->fd);
	*file = LOOSE_FILE_NONE;
}

static int sync_dir(struct shfs_store *store, const char *name)
{
	_cleanup_close_ int fd =
		openat(store->objects_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) ? -errno : 0;
}

int loose_sync_name(struct shfs_store *store, const struct shfs_object_id *id)
{
	char name[3];
	int r;

	snprintf(name, sizeof(name), "%02x", id->hash[0]);
	r = sync_dir(store, name);
	return r ? r : sync_dir(store, ".");
}

int loose_remove(struct shfs_store *store, const struct shfs_object_id *id)
{
	char path[46];

	loose_path(id, path);
	return unlinkat(store->objects_fd, path, 0) && errno != ENOENT ? -errno : 0;
}
