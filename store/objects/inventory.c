/* SPDX-License-Identifier: MIT */
#include "store/objects/inventory.h"

#include "common/io.h"
#include "store/objects/loose.h"
#include "store/objects/object.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int inventory_names(int dirfd, const char *suffix, int (*fn)(void *arg, const char *name),
                    void *arg)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t m = suffix ? strlen(suffix) : 0;
	struct dirent *e;

	if (!dir) {
		r = -errno;
		shfs_closep(&fd);
		return r;
	}
	while (!r && (e = shfs_readdir(dir, &r))) {
		size_t n = strlen(e->d_name);

		if (e->d_name[0] != '.' && n > m &&
		    (!suffix || !strcmp(e->d_name + n - m, suffix)))
			r = fn(arg, e->d_name);
	}
	closedir(dir);
	return r;
}

/* --- packs --- */

struct heads {
	int fd;
	struct pack_entry *entries;
	size_t n;
};

static int take_entries(void *arg, const struct pack_entry *entries, size_t n)
{
	struct heads *h = arg;

	memcpy(h->entries + h->n, entries, n * sizeof(*entries));
	h->n += n;
	return 0;
}

/* Calls fn for the contents of a solid frame, from its head on. */
static int each_member(int fd, const struct frame *f, uint32_t offset, pack_frame_fn fn,
                       void *arg)
{
	unsigned char bytes[FRAME_HEAD_BYTES + SOLID_CONTENTS_MAX * FRAME_MEMBER_BYTES];
	size_t len = FRAME_HEAD_BYTES + f->n_members * FRAME_MEMBER_BYTES;

	if (shfs_pread_full(fd, bytes, len, offset) != (ssize_t)len ||
	    !frame_members_agree(f, bytes))
		return 0;
	return frame_each(f, bytes, fn, arg, offset);
}

static int each_head(struct heads *h, pack_frame_fn fn, void *arg)
{
	int r = 0;

	qsort(h->entries, h->n, sizeof(*h->entries), pack_entry_compare_offsets);
	for (size_t i = 0; i < h->n && !r; i++) {
		unsigned char head[FRAME_DELTA_BYTES];
		uint32_t offset = h->entries[i].offset;
		ssize_t n;
		struct frame f;

		if (i && offset == h->entries[i - 1].offset) /* of a solid frame */
			continue;
		n = shfs_pread_full(h->fd, head, sizeof(head), offset);
		if (n < FRAME_HEAD_BYTES || frame_parse(head, (size_t)n, &f))
			continue;
		r = f.kind == FRAME_SOLID ? each_member(h->fd, &f, offset, fn, arg)
		                          : fn(arg, &f, offset);
	}
	return r;
}

/* Calls fn for the frames in the index. *covered: the end of these; 0: no usable index.
 */
static int by_index(int dirfd, const char *name, int fd, pack_frame_fn fn, void *arg,
                    uint64_t *covered)
{
	_cleanup_close_ int index_fd = -1;
	struct heads h = { .fd = fd };
	struct pack_index index;
	struct stat st;
	char idx[256];
	int r;

	*covered = 0;
	snprintf(idx, sizeof(idx), "%.*s.idx", (int)(strlen(name) - strlen(".pack")),
	         name);
	index_fd = pack_index_open(dirfd, idx, &index);
	if (index_fd < 0 || fstat(fd, &st) || index.covered > (uint64_t)st.st_size)
		return 0;
	h.entries = calloc(index.n + 1, sizeof(*h.entries));
	if (!h.entries)
		return -ENOMEM;
	r = pack_index_each(index_fd, &index, take_entries, &h);
	if (r == -EBADMSG)
		r = 0;
	else if (!r && !(r = each_head(&h, fn, arg)))
		*covered = index.covered;
	free(h.entries);
	return r;
}

int inventory_pack(int dirfd, const char *name, pack_frame_fn fn, void *arg)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	uint64_t from, end;
	int r;

	if (fd < 0)
		return errno == ELOOP || errno == ENOENT ? 0 : -errno;
	r = by_index(dirfd, name, fd, fn, arg, &from);
	return r ? r : pack_scan(fd, from, fn, arg, &end);
}

/* --- all --- */

struct inventory {
	struct shfs_store *store;
	int dirfd;
	const char *dir; /* of loose objects */
	shfs_stored_fn fn;
	void *arg;
};

static int on_frame(void *arg, const struct frame *f, uint64_t offset)
{
	struct inventory *v = arg;
	struct shfs_stored s = { .id = f->id,
		                 .size = f->size,
		                 .stored = frame_share(f),
		                 .delta = f->kind == FRAME_DELTA };

	return offset ? v->fn(v->arg, &s) : 0;
}

static int on_pack(void *arg, const char *name)
{
	struct inventory *v = arg;

	return inventory_pack(v->dirfd, name, on_frame, v);
}

static int on_loose(void *arg, const char *name)
{
	struct inventory *v = arg;
	struct shfs_stored s = { .loose = true };
	_cleanup_close_ int fd = -1;
	struct stat st;
	char full[64];

	if (strlen(name) > 48)
		return 0;
	snprintf(full, sizeof(full), "%s%s", v->dir, name);
	if (shfs_object_parse(full, &s.id))
		return 0;
	fd = loose_open(v->store, &s.id, &s.size);
	if (fd < 0)
		return fd != -ENOENT && fd != -EBADMSG ? fd : 0;
	if (fstat(fd, &st))
		return -errno;
	s.stored = (uint64_t)st.st_size;
	return v->fn(v->arg, &s);
}

static int on_dir(void *arg, const char *name)
{
	struct inventory *v = arg;
	_cleanup_close_ int fd = -1;

	if (strlen(name) != 2 || strspn(name, "0123456789abcdef") != 2)
		return 0;
	fd = openat(v->store->objects_fd, name,
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	v->dir = name;
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
	return inventory_names(fd, NULL, on_loose, v);
}

int shfs_inventory(struct shfs_store *store, shfs_stored_fn fn, void *arg)
{
	_cleanup_close_ int dirfd =
		openat(store->objects_fd, "packs",
	               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct inventory v = { store, dirfd, NULL, fn, arg };
	int r = 0;

	if (dirfd >= 0)
		r = inventory_names(dirfd, ".pack", on_pack, &v);
	else if (errno != ENOENT)
		r = -errno;
	return r ? r : inventory_names(store->objects_fd, NULL, on_dir, &v);
}
