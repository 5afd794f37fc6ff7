/* SPDX-License-Identifier: MIT */
#include "store/object.h"

#include "common/io.h"
#include "store/object-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

/*
 * An object's file: magic (8 bytes, the last is the format's number), u32 encoding, u32
 * zero, u64 size of the content, hash (16 bytes), then the content, encoded.
 */
#define OBJECT_MAGIC   "shfsobj\1"
#define HEAD_BYTES     40
#define COLLISIONS_MAX 64
#define PIECE_BYTES    (128 << 10)

enum encoding {
	ENCODING_RAW = 0,
	ENCODING_ZSTD = 1,
};

struct shfs_put {
	struct shfs_store *store; /* borrowed */
	struct shfs_object_id id;
	uint64_t stored; /* bytes of the file; 0 where it was there already */
	int fd;     /* the file that has no name yet (or temp); -1: nothing to commit */
	char *temp; /* name below objects/, where there is no O_TMPFILE */
	bool heal;  /* the object of that name is damaged: replace it */
};

static void hash_xxh3(const void *data, size_t len, uint8_t out[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(data, len));
	memcpy(out, c.digest, 16);
}

void (*shfs_object_hash)(const void *data, size_t len, uint8_t out[16]) = hash_xxh3;

uint64_t shfs_object_hash64(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

void shfs_object_name(const struct shfs_object_id *id, char out[static 44])
{
	for (int i = 0; i < 16; i++)
		snprintf(out + 2 * i, 3, "%02x", id->hash[i]);
	if (id->nth)
		snprintf(out + 32, 12, "-%" PRIu32, id->nth);
}

int shfs_object_parse(const char *name, struct shfs_object_id *id)
{
	static const char hex[] = "0123456789abcdef";
	struct shfs_object_id v = { 0 };
	unsigned long nth;
	char *end;

	for (int i = 0; i < 32; i++) {
		const char *digit = name[i] ? strchr(hex, name[i]) : NULL;

		if (!digit)
			return -EINVAL;
		v.hash[i / 2] = v.hash[i / 2] << 4 | (digit - hex);
	}
	if (name[32]) {
		errno = 0;
		nth = strtoul(name + 33, &end, 10);
		if (name[32] != '-' || name[33] < '1' || name[33] > '9' || *end ||
		    errno || nth > UINT32_MAX)
			return -EINVAL;
		v.nth = nth;
	}
	*id = v;
	return 0;
}

/* "ab/cdef..." */
static void object_path(const struct shfs_object_id *id, char out[static 46])
{
	char name[44];

	shfs_object_name(id, name);
	snprintf(out, 46, "%.2s/%s", name, name + 2);
}

/* --- partial hash --- */

#define SAMPLE 256

uint64_t shfs_object_partial_hash_mem(const void *data, size_t len)
{
	unsigned char sample[3 * SAMPLE];

	if (len <= sizeof(sample))
		return XXH3_64bits(data, len);
	memcpy(sample, data, SAMPLE);
	memcpy(sample + SAMPLE, (const char *)data + len / 2 - SAMPLE / 2, SAMPLE);
	memcpy(sample + 2 * SAMPLE, (const char *)data + len - SAMPLE, SAMPLE);
	return XXH3_64bits(sample, sizeof(sample));
}

int shfs_object_partial_hash(int fd, uint64_t size, uint64_t *out)
{
	unsigned char sample[3 * SAMPLE];
	ssize_t n;

	if (size <= sizeof(sample)) {
		n = shfs_pread_full(fd, sample, size, 0);
		if (n >= 0)
			*out = XXH3_64bits(sample, n);
		return MIN(n, 0);
	}
	if ((n = shfs_pread_full(fd, sample, SAMPLE, 0)) < 0 ||
	    (n = shfs_pread_full(fd, sample + SAMPLE, SAMPLE, size / 2 - SAMPLE / 2)) <
	            0 ||
	    (n = shfs_pread_full(fd, sample + 2 * SAMPLE, SAMPLE, size - SAMPLE)) < 0)
		return n;
	*out = XXH3_64bits(sample, sizeof(sample));
	return 0;
}

/* --- reading --- */

struct head {
	uint32_t encoding;
	uint64_t size;
	uint8_t hash[16];
};

static int read_head(int fd, struct head *h)
{
	unsigned char raw[HEAD_BYTES];
	ssize_t n = shfs_pread_full(fd, raw, sizeof(raw), 0);
	struct shfs_cursor c = { raw + 8, raw + sizeof(raw), false };

	if (n < 0)
		return n;
	if (n != HEAD_BYTES || memcmp(raw, OBJECT_MAGIC, 8))
		return -EBADMSG;
	h->encoding = shfs_cursor_u32(&c);
	shfs_cursor_u32(&c);
	h->size = shfs_cursor_u64(&c);
	shfs_cursor_copy(&c, h->hash, sizeof(h->hash));
	return h->encoding <= ENCODING_ZSTD ? 0 : -EBADMSG;
}

static int open_object(struct shfs_store *store, const struct shfs_object_id *id,
                       struct head *h)
{
	_cleanup_close_ int fd = -1;
	char path[46];
	int r;

	object_path(id, path);
	fd = openat(store->objects_fd, path,
	            O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	r = read_head(fd, h);
	if (r)
		return r;
	return memcmp(h->hash, id->hash, sizeof(h->hash)) ? -EBADMSG : TAKE_FD(fd);
}

typedef int (*piece_fn)(void *arg, const void *data, size_t len);

/* Hands the content on piece by piece. Never more than the size in the head says, and all
 * of it. */
static int each_piece(int fd, const struct head *h, piece_fn fn, void *arg)
{
	_cleanup_free_ char *in = malloc(PIECE_BYTES), *part = malloc(PIECE_BYTES);
	ZSTD_DStream *ds = h->encoding == ENCODING_ZSTD ? ZSTD_createDStream() : NULL;
	uint64_t done = 0;
	off_t off = HEAD_BYTES;
	int r = in && part && (ds || h->encoding == ENCODING_RAW) ? 0 : -ENOMEM;

	while (!r) {
		ssize_t n = shfs_pread_full(fd, in, PIECE_BYTES, off);
		ZSTD_inBuffer src = { in, MAX(n, 0), 0 };

		if (n <= 0) {
			r = n ? n : done == h->size ? 0 : -EBADMSG;
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
			if (dst.pos > h->size - done)
				r = -EBADMSG;
			if (!r && dst.pos)
				r = fn(arg, data, dst.pos);
			done += dst.pos;
		}
	}
	ZSTD_freeDStream(ds);
	return r;
}

static int piece_append(void *arg, const void *data, size_t len)
{
	shfs_buf_add(arg, data, len);
	return ((struct shfs_buf *)arg)->failed ? -ENOMEM : 0;
}

int shfs_object_read(struct shfs_store *store, const struct shfs_object_id *id,
                     uint64_t max_bytes, struct shfs_buf *out)
{
	struct head h;
	_cleanup_close_ int fd = open_object(store, id, &h);
	size_t start = out->len;
	uint8_t hash[16];
	int r;

	if (fd < 0)
		return fd;
	if (h.size > max_bytes)
		return -EFBIG;
	shfs_buf_add(out, "", 0);
	r = each_piece(fd, &h, piece_append, out);
	if (!r) {
		shfs_object_hash(out->data + start, out->len - start, hash);
		r = memcmp(hash, id->hash, sizeof(hash)) ? -EBADMSG : 0;
	}
	if (r && out->data) /* nobody shall take it for the content */
		out->data[out->len = start] = '\0';
	return r;
}

struct copying {
	int fd;
	XXH3_state_t *hash;
};

static int piece_write(void *arg, const void *data, size_t len)
{
	struct copying *c = arg;

	XXH3_128bits_update(c->hash, data, len);
	return shfs_write_all(c->fd, data, len);
}

int shfs_object_copy(struct shfs_store *store, const struct shfs_object_id *id, int fd)
{
	struct head h;
	_cleanup_close_ int from = open_object(store, id, &h);
	struct copying c = { fd, XXH3_createState() };
	XXH128_canonical_t hash;
	int r = from < 0 ? from : c.hash ? 0 : -ENOMEM;

	if (!r) {
		XXH3_128bits_reset(c.hash);
		r = each_piece(from, &h, piece_write, &c);
	}
	if (!r) {
		XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(c.hash));
		/* (a test's hash is not this one, and names its objects itself) */
		if (shfs_object_hash == hash_xxh3 && memcmp(hash.digest, id->hash, 16))
			r = -EBADMSG;
	}
	XXH3_freeState(c.hash);
	return r;
}

struct comparing {
	const char *p;
	size_t left;
};

static int piece_compare(void *arg, const void *data, size_t len)
{
	struct comparing *c = arg;

	if (len > c->left || memcmp(c->p, data, len))
		return 1;
	c->p += len;
	c->left -= len;
	return 0;
}

/* Does the object of this name hold these bytes? 1 yes, 0 no: another content with the
 * same hash, -ENOENT: the name is free, -EBADMSG: the object is damaged. */
static int same_content(struct shfs_store *store, const struct shfs_object_id *id,
                        const void *data, size_t len)
{
	struct comparing c = { data, len };
	_cleanup_buf_ struct shfs_buf whole = { 0 };
	struct head h;
	_cleanup_close_ int fd = open_object(store, id, &h);
	int r;

	if (fd < 0)
		return fd;
	r = h.size == len ? each_piece(fd, &h, piece_compare, &c) : 1;
	if (r != 1)
		return r ? r : 1;
	/* It differs: another content, or this one damaged? Its own hash tells. */
	r = shfs_object_read(store, id, MAX(h.size, (uint64_t)len), &whole);
	return r == -EFBIG ? -EBADMSG : r;
}

/*
 * Finds the name for these bytes, from id->nth on. 1: they are there; 0: *id is free, or
 * taken by a damaged object (*heal).
 */
static int find_place(struct shfs_store *store, const void *data, size_t len,
                      struct shfs_object_id *id, bool *heal)
{
	for (; id->nth < COLLISIONS_MAX; id->nth++) {
		int r = same_content(store, id, data, len);

		*heal = r == -EBADMSG || r == -ELOOP;
		if (r == -ENOENT || *heal)
			return 0;
		if (r)
			return r;
	}
	return -EEXIST;
}

int shfs_object_find(struct shfs_store *store, const void *data, size_t len,
                     struct shfs_object_id *id)
{
	struct shfs_object_id v = { 0 };
	bool heal;
	int r;

	shfs_object_hash(data, len, v.hash);
	r = find_place(store, data, len, &v, &heal);
	if (r == 1)
		*id = v;
	return r;
}

/* --- writing --- */

/* A file of a name that nobody else uses; a dead process with this id may have. */
static int open_temp(struct shfs_put *put)
{
	static _Atomic unsigned counter;

	do {
		struct shfs_buf name = { 0 };

		free(put->temp);
		shfs_buf_printf(&name, "tmp-%d-%u", (int)getpid(), counter++);
		put->temp = shfs_buf_take(&name);
		if (!put->temp)
			return -ENOMEM;
		put->fd =
			openat(put->store->objects_fd, put->temp,
		               O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
	} while (put->fd < 0 && errno == EEXIST);
	if (put->fd >= 0)
		return 0;
	shfs_freep(&put->temp);
	put->temp = NULL;
	return -errno;
}

static int open_unnamed(struct shfs_put *put)
{
	put->fd =
		openat(put->store->objects_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (put->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
		return -errno;
	return open_temp(put);
}

/* Compresses data behind a head; the smaller of the two encodings. */
static int encode(const void *data, size_t len, int level, const uint8_t hash[16],
                  struct shfs_buf *out)
{
	size_t cap = len >= 64 ? ZSTD_compressBound(len) : 0, n = 0;
	_cleanup_free_ void *packed = cap ? malloc(cap) : NULL;

	if (cap && !packed)
		return -ENOMEM;
	if (cap)
		n = ZSTD_compress(packed, cap, data, len, level);
	if (ZSTD_isError(n) || n >= len)
		n = 0;
	shfs_buf_add(out, OBJECT_MAGIC, 8);
	shfs_buf_u32(out, n ? ENCODING_ZSTD : ENCODING_RAW);
	shfs_buf_u32(out, 0);
	shfs_buf_u64(out, len);
	shfs_buf_add(out, hash, 16);
	shfs_buf_add(out, n ? packed : data, n ? n : len);
	return out->failed ? -ENOMEM : 0;
}

static int put_new(struct shfs_put *put, const void *data, size_t len, int level)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };
	int r = encode(data, len, level, put->id.hash, &b);

	if (!r)
		r = open_unnamed(put);
	if (!r)
		r = shfs_write_all(put->fd, b.data, b.len);
	put->stored = b.len;
	return r;
}

int shfs_object_put(struct shfs_store *store, const void *data, size_t len, int level,
                    struct shfs_put **out)
{
	struct shfs_put *put = calloc(1, sizeof(*put));
	int r;

	if (!put)
		return -ENOMEM;
	put->store = store;
	put->fd = -1;
	shfs_object_hash(data, len, put->id.hash);
	r = find_place(store, data, len, &put->id, &put->heal);
	if (!r)
		r = put_new(put, data, len, level);
	if (r < 0) {
		shfs_put_free(put);
		return r;
	}
	*out = put;
	return 0;
}

static int give_name(const struct shfs_put *put, const char *path)
{
	int dirfd = put->store->objects_fd;
	char self[40];

	if (put->temp)
		return linkat(dirfd, put->temp, dirfd, path, 0) ? -errno : 0;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", put->fd);
	return linkat(AT_FDCWD, self, dirfd, path, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

/* The content, back from the unnamed file: two puts of one batch may be the same. */
static int reread(const struct shfs_put *put, struct shfs_buf *out)
{
	struct head h;
	int r = read_head(put->fd, &h);

	shfs_buf_add(out, "", 0);
	return r ? r : each_piece(put->fd, &h, piece_append, out);
}

/* The file keeps the name of the object alone, if it has got that. */
static void put_drop_file(struct shfs_put *put)
{
	if (put->temp)
		unlinkat(put->store->objects_fd, put->temp, 0);
	shfs_freep(&put->temp);
	put->temp = NULL;
	shfs_closep(&put->fd);
	put->fd = -1;
}

static int name_put(struct shfs_store *store, struct shfs_put *put)
{
	_cleanup_buf_ struct shfs_buf data = { 0 };
	char path[46], dir[3] = { 0 };
	int r;

	object_path(&put->id, path);
	memcpy(dir, path, 2);
	if (mkdirat(store->objects_fd, dir, 0700) && errno != EEXIST)
		return -errno;
	if (put->heal)
		unlinkat(store->objects_fd, path, 0);
	r = give_name(put, path);
	if (r != -EEXIST)
		return r;
	/* Somebody else was first since the put: with this content, or with another? */
	r = reread(put, &data);
	if (!r)
		r = find_place(store, data.data, data.len, &put->id, &put->heal);
	if (r == 1)
		put->stored = 0;
	return r == 1 ? 0 : r ? r : -EAGAIN;
}

static int sync_dir(struct shfs_store *store, const char *name)
{
	_cleanup_close_ int fd =
		openat(store->objects_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) ? -errno : 0;
}

/* Also where the object, or its directory, was there already: who made it may not have
 * come so far. */
static int sync_dirs(struct shfs_store *store, struct shfs_put **puts, size_t n)
{
	bool done[256] = { false };
	int r = n ? sync_dir(store, ".") : 0;

	for (size_t i = 0; !r && i < n; i++) {
		char name[3];

		if (done[puts[i]->id.hash[0]])
			continue;
		done[puts[i]->id.hash[0]] = true;
		snprintf(name, sizeof(name), "%02x", puts[i]->id.hash[0]);
		r = sync_dir(store, name);
	}
	return r;
}

int shfs_object_commit(struct shfs_store *store, struct shfs_put **puts, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n; i++)
		if (puts[i]->fd >= 0 && fdatasync(puts[i]->fd))
			return -errno;
	for (size_t i = 0; !r && i < n; i++) {
		if (puts[i]->fd < 0)
			continue;
		do
			r = name_put(store, puts[i]);
		while (r == -EAGAIN);
		if (r)
			break;
		put_drop_file(puts[i]);
	}
	return r ? r : sync_dirs(store, puts, n);
}

struct shfs_object_id shfs_put_id(const struct shfs_put *put)
{
	return put->id;
}

uint64_t shfs_put_stored_bytes(const struct shfs_put *put)
{
	return put->stored;
}

void shfs_put_free(struct shfs_put *put)
{
	if (!put)
		return;
	put_drop_file(put);
	free(put);
}
