/* SPDX-License-Identifier: MIT */
/* packkit.h - objects put one by one, and what lies in packs. */
#pragma once

#include "tests/unit/storekit.h"

#include "store/objects/object.h"
#include "store/objects/packs.h"
#include "store/objects/reader.h"

#include <dirent.h>

/* As another mount, or a later one. */
static inline _unused_ struct shfs_store *open_again(struct shfs_store *store)
{
	struct shfs_store *again;

	assert_ok(shfs_store_open(store->path, 0, &again));
	return again;
}

static inline _unused_ struct shfs_object_id
put_one(struct shfs_store *store, const void *data, size_t len, int level)
{
	struct shfs_put *put;
	struct shfs_object_id id;

	assert_ok(shfs_object_put(store, data, len, level, NULL, &put));
	assert_ok(shfs_object_commit(store, &put, 1));
	id = shfs_put_id(put);
	shfs_put_free(put);
	return id;
}

/* Reads parts of the object, here and there. */
static inline _unused_ void assert_parts(struct shfs_store *store,
                                         const struct shfs_object_id *id,
                                         const void *data, size_t len)
{
	_cleanup_object_reader_ struct shfs_object_reader *reader = NULL;
	_cleanup_free_ char *part = malloc(len + 1);
	uint32_t random = (uint32_t)len;

	assert_ok(shfs_object_reader_open(store, id, &reader));
	assert_int_equal(shfs_object_reader_size(reader), len);
	for (int i = 0; i < 8; i++) {
		size_t at = (random = random * 1664525 + 1013904223) % (len + 1);
		size_t wanted = (random = random * 1664525 + 1013904223) % (len + 1), n;

		assert_ok(shfs_object_reader_read(reader, at, part, wanted, &n));
		assert_int_equal(n, MIN(wanted, len - at));
		assert_memory_equal(part, (const char *)(len ? data : "") + at, n);
	}
}

static inline _unused_ void assert_holds(struct shfs_store *store,
                                         const struct shfs_object_id *id,
                                         const void *data, size_t len)
{
	_cleanup_buf_ struct shfs_buf out = { 0 }, copy = { 0 };
	_cleanup_close_ int fd = openat(store->dirfd, ".", O_TMPFILE | O_RDWR, 0600);

	assert_ok(shfs_object_read(store, id, len, &out));
	assert_int_equal(out.len, len);
	assert_memory_equal(out.data, len ? data : "", len);
	assert_true(fd >= 0);
	assert_ok(shfs_object_copy(store, id, fd));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_ok(shfs_read_fd(fd, len, &copy));
	assert_int_equal(copy.len, len);
	assert_memory_equal(copy.data, out.data, len);
	assert_parts(store, id, data, len);
}

/* Calls fn for each name in a directory below objects/ ("." for that itself). */
static inline _unused_ void kit_each_name(struct shfs_store *store, const char *dir,
                                          void (*fn)(void *arg, const char *name),
                                          void *arg)
{
	int fd = openat(store->objects_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			fn(arg, e->d_name);
	if (d)
		closedir(d);
}

struct kit_packs {
	char *names[2000]; /* below objects/ */
	unsigned n;
};

static inline _unused_ void kit_add_pack(void *arg, const char *name)
{
	struct kit_packs *p = arg;
	struct shfs_buf path = { 0 };

	if (strlen(name) < 5 || strcmp(name + strlen(name) - 5, ".pack"))
		return;
	assert_true(p->n < ARRAY_SIZE(p->names));
	shfs_buf_printf(&path, "packs/%s", name);
	p->names[p->n++] = shfs_buf_take(&path);
}

static inline _unused_ struct kit_packs kit_packs(struct shfs_store *store)
{
	struct kit_packs p = { 0 };

	kit_each_name(store, "packs", kit_add_pack, &p);
	return p;
}

static inline _unused_ void kit_packs_free(struct kit_packs *p)
{
	while (p->n)
		free(p->names[--p->n]);
}

/* The only pack, below objects/; NULL: there is none. */
static inline _unused_ char *kit_pack(struct shfs_store *store)
{
	struct kit_packs p = kit_packs(store);

	assert_true(p.n <= 1);
	return p.n ? p.names[0] : NULL;
}

static inline _unused_ char *index_path(const char *pack)
{
	char *path = strdup(pack);

	strcpy(path + strlen(path) - 5, ".idx");
	return path;
}

/* Calls fn for each frame of all packs. */
static inline _unused_ void kit_each_frame(struct shfs_store *store, pack_frame_fn fn,
                                           void *arg)
{
	struct kit_packs p = kit_packs(store);
	uint64_t end;

	for (unsigned i = 0; i < p.n; i++) {
		_cleanup_close_ int fd = openat(store->objects_fd, p.names[i], O_RDONLY);

		assert_true(fd >= 0);
		assert_ok(pack_scan(fd, 0, fn, arg, &end));
	}
	kit_packs_free(&p);
}

static inline _unused_ int kit_count_frame(void *arg, const struct frame *f,
                                           uint64_t offset)
{
	++*(unsigned *)arg;
	return 0;
}

static inline _unused_ void kit_count_name(void *arg, const char *name)
{
	++*(unsigned *)arg;
}

static inline _unused_ void kit_count_loose(void *arg, const char *name)
{
	void **args = arg;
	unsigned *n = args[1];

	if (!strcmp(name, "packs"))
		return;
	if (strlen(name) == 2)
		kit_each_name(args[0], name, kit_count_name, n);
	else
		++*n; /* not one of ours */
}

/* Intact frames, loose objects, and what else lies there. */
static inline _unused_ unsigned count_objects(struct shfs_store *store)
{
	unsigned n = 0;
	void *args[] = { store, &n };

	kit_each_frame(store, kit_count_frame, &n);
	kit_each_name(store, ".", kit_count_loose, args);
	return n;
}
