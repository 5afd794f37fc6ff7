/* SPDX-License-Identifier: MIT */
#include "store/collect.h"

#include "common/io.h"
#include "store/content.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define LEVEL       6 /* of zstd, for what is stored anew */
#define WRITE_BYTES (4u << 20)
#define NEW_SUFFIX  ".new" /* of a pack that is not complete */

struct collection {
	struct shfs_store *store;
	const struct shfs_object_id *ids; /* that go; sorted */
	size_t n;
	int dirfd;  /* objects/packs */
	char **old; /* names of packs that are written anew */
	size_t n_old;
	uint32_t next; /* number of the next pack */

	int from; /* the pack that is read */
	const char *now;
	bool (*keep)(void *arg, const char *pack, uint64_t offset); /* or NULL */
	void *arg;
	/* the one that is written; fd -1: none */
	int fd;
	char name[128];
	struct shfs_buf bytes; /* that are not written yet */
	uint64_t size;
	struct pack_entry *entries;
	size_t n_entries, cap;
};

int shfs_object_compare(const void *a, const void *b)
{
	const struct shfs_object_id *x = a, *y = b;
	int c = memcmp(x->hash, y->hash, sizeof(x->hash));

	return c ? c : (x->nth > y->nth) - (x->nth < y->nth);
}

static bool goes(const struct collection *c, const struct shfs_object_id *id)
{
	return bsearch(id, c->ids, c->n, sizeof(*c->ids), shfs_object_compare);
}

static bool leans(const struct collection *c, const struct frame *f)
{
	return f->kind == FRAME_DELTA && goes(c, &f->base);
}

/* --- which packs --- */

static int is_concerned(void *arg, const struct frame *f, uint64_t offset)
{
	const struct collection *c = arg;

	return goes(c, &f->id) || leans(c, f);
}

/* The number of a pack of our host's first slot, or -1. */
static int64_t pack_number(const struct collection *c, const char *name)
{
	char prefix[80];
	int n = snprintf(prefix, sizeof(prefix), "%s-0-", c->store->host);

	return strncmp(name, prefix, (size_t)n) ? -1 : strtol(name + n, NULL, 10);
}

static int open_pack(const struct collection *c, const char *name)
{
	int fd = openat(c->dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

static int look_at_pack(struct collection *c, const char *name)
{
	_cleanup_close_ int fd = open_pack(c, name);
	uint64_t end;
	char **old;
	int r;

	if (fd < 0)
		return fd == -ELOOP ? 0 : fd;
	r = pack_scan(fd, 0, is_concerned, c, &end);
	if (r <= 0) /* what cannot be read stays, if there is nothing to take away */
		return r == -EIO ? 0 : r;
	old = reallocarray(c->old, c->n_old + 1, sizeof(*old));
	if (!old)
		return -ENOMEM;
	c->old = old;
	c->old[c->n_old] = strdup(name);
	return c->old[c->n_old++] ? 0 : -ENOMEM;
}

static bool has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n > m && n < sizeof(((struct collection *)0)->name) &&
	       !strcmp(name + n - m, suffix);
}

static int look_at_packs(struct collection *c)
{
	int fd = openat(c->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		r = -errno;
		shfs_closep(&fd);
		return r;
	}
	while (!r && (e = readdir(dir))) {
		if (has_suffix(e->d_name, ".pack" NEW_SUFFIX)) /* a crash left it */
			unlinkat(c->dirfd, e->d_name, 0);
		if (!has_suffix(e->d_name, ".pack"))
			continue;
		c->next = (uint32_t)MAX((int64_t)c->next, pack_number(c, e->d_name) + 1);
		r = c->keep ? 0 : look_at_pack(c, e->d_name);
	}
	closedir(dir);
	return r;
}

/* --- the packs that take their place --- */

static int flush(struct collection *c)
{
	int r = c->bytes.failed ? -ENOMEM
	                        : shfs_write_all(c->fd, c->bytes.data, c->bytes.len);

	c->bytes.len = 0;
	return r;
}

static void idx_name(const char *pack, char out[static 128])
{
	snprintf(out, 128, "%.*s.idx", (int)(strlen(pack) - strlen(".pack")), pack);
}

static int finish_pack(struct collection *c)
{
	char temp[160], idx[128];
	int r;

	if (c->fd < 0)
		return 0;
	snprintf(temp, sizeof(temp), "%s" NEW_SUFFIX, c->name);
	r = flush(c);
	if (!r && fsync(c->fd))
		r = -errno;
	if (!r && (renameat(c->dirfd, temp, c->dirfd, c->name) || fsync(c->dirfd)))
		r = -errno;
	idx_name(c->name, idx);
	if (!r) /* last: an index is believed, whatever pack has its name */
		r = pack_index_write(c->dirfd, idx, c->size, c->entries, c->n_entries);
	shfs_closep(&c->fd);
	c->fd = -1;
	c->n_entries = 0;
	return r;
}

static int begin_pack(struct collection *c)
{
	char temp[160];

	snprintf(c->name, sizeof(c->name), "%s-0-%06" PRIu32 ".pack", c->store->host,
	         c->next++);
	snprintf(temp, sizeof(temp), "%s" NEW_SUFFIX, c->name);
	c->fd = openat(c->dirfd, temp,
	               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c->fd < 0)
		return -errno;
	shfs_buf_add(&c->bytes, PACK_MAGIC, PACK_HEAD_BYTES);
	c->size = PACK_HEAD_BYTES;
	return 0;
}

static int note_entry(struct collection *c, const struct shfs_object_id *id)
{
	if (!MAKE_ROOM(c->entries, c->n_entries, c->cap))
		return -ENOMEM;
	c->entries[c->n_entries++] =
		(struct pack_entry){ pack_prefix(id), (uint32_t)c->size };
	return 0;
}

/* len bytes of a frame, from memory or (bytes NULL) from the pack that is read. */
static int add_frame(struct collection *c, const struct shfs_object_id *id,
                     const void *bytes, uint64_t offset, size_t len)
{
	int r = 0;

	if (c->fd >= 0 && c->size + len > packs_full_bytes)
		r = finish_pack(c);
	if (!r && c->fd < 0)
		r = begin_pack(c);
	if (!r)
		r = note_entry(c, id);
	if (r)
		return r;
	if (bytes) {
		shfs_buf_add(&c->bytes, bytes, len);
	} else {
		shfs_buf_reserve(&c->bytes, len);
		if (!c->bytes.failed &&
		    shfs_pread_full(c->from, c->bytes.data + c->bytes.len, len,
		                    (off_t)offset) != (ssize_t)len)
			return -EIO;
		c->bytes.len += len;
	}
	c->size += len;
	return c->bytes.len >= WRITE_BYTES || c->bytes.failed ? flush(c) : 0;
}

/* --- what was a delta of something that goes --- */

static int add_loose(struct collection *c, const struct shfs_object_id *id,
                     const struct content *v, const struct coded *coded)
{
	struct loose_file file = LOOSE_FILE_NONE;
	const void *bytes = v->data;
	size_t len = v->len;
	int r;

	if (coded) {
		bytes = coded->bytes + coded->head - CODEC_MAGIC_BYTES;
		len = coded->len + CODEC_MAGIC_BYTES;
	}
	r = loose_write(c->store, id, v->len, bytes, len, coded, &file);
	if (!r && fdatasync(file.fd))
		r = -errno;
	if (!r)
		r = loose_name(c->store, &file, id);
	if (!r || r == -EEXIST)
		r = loose_sync_name(c->store, id);
	loose_drop(c->store, &file);
	return r;
}

static int add_raw(struct collection *c, const struct shfs_object_id *id,
                   const struct content *v)
{
	_cleanup_buf_ struct shfs_buf frame = { 0 };
	struct frame f = {
		.kind = FRAME_RAW, .id = *id, .size = v->len, .stored = (uint32_t)v->len
	};

	if (v->len > FRAME_STORED_MAX)
		return add_loose(c, id, v, NULL);
	shfs_buf_reserve(&frame, FRAME_HEAD_BYTES + v->len);
	if (frame.failed)
		return -ENOMEM;
	memcpy(frame.data + FRAME_HEAD_BYTES, v->data, v->len);
	frame_seal(&f, (unsigned char *)frame.data);
	return add_frame(c, id, frame.data, 0, FRAME_HEAD_BYTES + v->len);
}

static int add_alone(struct collection *c, const struct shfs_object_id *id,
                     const struct content *v)
{
	_cleanup_coded_ struct coded coded = { 0 };
	struct frame f = { .kind = FRAME_ZSTD, .id = *id, .size = v->len };
	int r = 1;

	if (v->len >= 64)
		r = codec_compress(c->store->codecs, v->data, v->len, LEVEL, NULL, 0,
		                   FRAME_HEAD_BYTES, v->len, &coded);
	if (r)
		return r < 0 ? r : add_raw(c, id, v);
	if (coded.len > FRAME_STORED_MAX)
		return add_loose(c, id, v, &coded);
	f.stored = (uint32_t)coded.len;
	frame_seal(&f, coded.bytes);
	return add_frame(c, id, coded.bytes, 0, FRAME_HEAD_BYTES + coded.len);
}

static int keep_frame(void *arg, const struct frame *f, uint64_t offset)
{
	struct collection *c = arg;
	_cleanup_content_ struct content v = { 0 };
	int r = -EBADMSG;

	if (goes(c, &f->id) || (c->keep && !c->keep(c->arg, c->now, offset)))
		return 0;
	if (leans(c, f)) {
		r = content_read(c->store, &f->id, DELTA_LEN_MAX, &v);
		if (!r)
			return add_alone(c, &f->id, &v);
	}
	/* One that is damaged stays so. */
	return r != -EBADMSG && r != -ENOENT
	               ? r
	               : add_frame(c, &f->id, NULL, offset,
	                           frame_head_bytes(f->kind) + f->stored);
}

static int copy_packs(struct collection *c)
{
	int r = 0;

	for (size_t i = 0; !r && i < c->n_old; i++) {
		uint64_t end;

		c->now = c->old[i];
		c->from = open_pack(c, c->old[i]);
		if (c->from < 0)
			return c->from;
		r = pack_scan(c->from, 0, keep_frame, c, &end);
		close(TAKE_FD(c->from));
		if (r == -EIO && c->keep) /* the rest is there */
			r = 0;
	}
	return r ? r : finish_pack(c);
}

/* --- all of it --- */

static int remove_old(struct collection *c)
{
	for (size_t i = 0; i < c->n_old; i++) {
		char idx[128];

		idx_name(c->old[i], idx);
		if ((unlinkat(c->dirfd, idx, 0) && errno != ENOENT) ||
		    (unlinkat(c->dirfd, c->old[i], 0) && errno != ENOENT))
			return -errno;
	}
	return c->n_old && fsync(c->dirfd) ? -errno : 0;
}

static int remove_loose(struct collection *c)
{
	for (size_t i = 0; i < c->n; i++) {
		uint64_t size;
		int fd = loose_open(c->store, &c->ids[i], &size);

		if (fd == -ENOENT)
			continue;
		shfs_closep(&fd);
		loose_remove(c->store, &c->ids[i]);
		if (loose_sync_name(c->store, &c->ids[i]))
			return -EIO;
	}
	return 0;
}

static void collection_free(struct collection *c)
{
	for (size_t i = 0; i < c->n_old; i++)
		free(c->old[i]);
	free(c->old);
	free(c->entries);
	shfs_buf_free(&c->bytes);
	shfs_closep(&c->fd);
	shfs_closep(&c->from);
	shfs_closep(&c->dirfd);
}

int shfs_objects_remove(struct shfs_store *store, struct shfs_object_id *ids, size_t n)
{
	_cleanup_(collection_free) struct collection c = {
		.store = store,
		.ids = ids,
		.n = n,
		.dirfd = -1,
		.from = -1,
		.fd = -1,
	};
	int r = packs_refresh(store);

	if (!n || r)
		return r;
	qsort(ids, n, sizeof(*ids), shfs_object_compare);
	c.dirfd = openat(store->objects_fd, "packs",
	                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c.dirfd < 0 && errno != ENOENT)
		return -errno;
	/* All that stays is durable in its new place before anything goes. */
	if (c.dirfd >= 0)
		r = look_at_packs(&c);
	if (!r && c.dirfd >= 0)
		r = copy_packs(&c);
	if (!r)
		r = remove_old(&c);
	return r ? r : remove_loose(&c);
}

int shfs_packs_salvage(struct shfs_store *store, char *const *packs, size_t n,
                       bool (*keep)(void *arg, const char *pack, uint64_t offset),
                       void *arg)
{
	_cleanup_(collection_free) struct collection c = { .store = store,
		                                           .dirfd = -1,
		                                           .from = -1,
		                                           .fd = -1,
		                                           .keep = keep,
		                                           .arg = arg };
	int r;

	c.dirfd = openat(store->objects_fd, "packs",
	                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c.dirfd < 0)
		return -errno;
	c.old = calloc(n, sizeof(*c.old));
	if (!c.old)
		return -ENOMEM;
	for (; c.n_old < n; c.n_old++)
		if (!(c.old[c.n_old] = strdup(packs[c.n_old])))
			return -ENOMEM;
	r = look_at_packs(&c);
	if (!r)
		r = copy_packs(&c);
	return r ? r : remove_old(&c);
}

int shfs_objects_measure(struct shfs_store *store, const struct shfs_object_id *ids,
                         size_t n, uint64_t *bytes)
{
	int r = packs_refresh(store);

	*bytes = 0;
	for (size_t i = 0; i < n && !r; i++) {
		_cleanup_packed_ struct packed p = { 0 };
		struct stat st;
		uint64_t size;
		int fd;

		r = packs_read(store, &ids[i], 0, &p);
		if (!r)
			*bytes += frame_head_bytes(p.frame.kind) + p.frame.stored;
		if (r != -ENOENT && r != -EBADMSG)
			continue;
		r = 0;
		fd = loose_open(store, &ids[i], &size);
		if (fd >= 0 && !fstat(fd, &st))
			*bytes += (uint64_t)st.st_size;
		shfs_closep(&fd);
	}
	return r;
}
