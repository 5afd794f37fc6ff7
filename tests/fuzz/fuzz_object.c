/* SPDX-License-Identifier: MIT */
/*
 * The file of an object: what is read from it has its hash, or it is refused; a put of
 * the same name heals it. The input's hash is taken as the name; an input that begins
 * with 'H' gets a head, as no fuzzer guesses hashes.
 */
#include "tests/fuzz/fuzz.h"

#include "common/io.h"
#include "store/objects/object-internal.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>

#define HEAD_BYTES 40
#define MAX_BYTES  (1 << 20)

static struct shfs_store *store;
static char dir[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_store(void)
{
	shfs_store_close(store);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void open_store(void)
{
	const char *base = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";

	snprintf(dir, sizeof(dir), "%s/shfs-fuzz-XXXXXX", base);
	FUZZ_ASSERT(mkdtemp(dir));
	FUZZ_ASSERT(shfs_store_open(dir, SHFS_STORE_CREATE, &store) == 0);
	atexit(remove_store);
}

/* 'H', the encoding, the size of the content (4 bytes, 0: as long as the rest), the rest:
 * an object of the hash of the rest. */
static void build(const uint8_t *data, size_t size, struct shfs_buf *b)
{
	struct shfs_cursor c = { data + 1, data + size, false };
	uint32_t encoding = shfs_cursor_u8(&c), len = shfs_cursor_u32(&c);
	size_t rest = (size_t)(c.end - c.p);
	uint8_t hash[16];

	shfs_object_hash(c.p, rest, hash);
	shfs_buf_add(b, "shfsobj\1", 8);
	shfs_buf_u32(b, encoding);
	shfs_buf_u32(b, 0);
	shfs_buf_u64(b, len ? len : rest);
	shfs_buf_add(b, hash, 16);
	shfs_buf_add(b, c.p, rest);
}

static void write_object(const struct shfs_object_id *id, const struct shfs_buf *b)
{
	char name[44], path[48];

	shfs_object_name(id, name);
	snprintf(path, sizeof(path), "%.2s", name);
	FUZZ_ASSERT(shfs_mkdir_p_at(store->objects_fd, path, 0700) == 0);
	snprintf(path, sizeof(path), "%.2s/%s", name, name + 2);
	_cleanup_close_ int fd =
		openat(store->objects_fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	FUZZ_ASSERT(fd >= 0);
	FUZZ_ASSERT(shfs_write_all(fd, b->data, b->len) == 0);
}

static void remove_object(const struct shfs_object_id *id)
{
	char name[44], path[48];

	shfs_object_name(id, name);
	snprintf(path, sizeof(path), "%.2s/%s", name, name + 2);
	unlinkat(store->objects_fd, path, 0);
}

/* Reads it in both ways; they must agree. Returns the error. */
static int read_both(const struct shfs_object_id *id, struct shfs_buf *out)
{
	static int null = -1;
	uint8_t hash[16];
	int r = shfs_object_read(store, id, MAX_BYTES, out), copied;

	if (null < 0)
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	FUZZ_ASSERT(r == 0 || r == -EBADMSG || r == -EFBIG);
	copied = shfs_object_copy(store, id, null);
	FUZZ_ASSERT(copied == r || (r == -EFBIG && (!copied || copied == -EBADMSG)));
	if (r)
		return r;
	shfs_object_hash(out->data, out->len, hash);
	FUZZ_ASSERT(!memcmp(hash, id->hash, 16));
	return 0;
}

static void heal(const struct shfs_object_id *id, const struct shfs_buf *content)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	struct shfs_put *put;
	struct shfs_object_id got;

	FUZZ_ASSERT(shfs_object_put(store, content->data, content->len, 1, NULL, &put) ==
	            0);
	FUZZ_ASSERT(shfs_object_commit(store, &put, 1) == 0);
	got = shfs_put_id(put);
	shfs_put_free(put);
	FUZZ_ASSERT(!memcmp(got.hash, id->hash, 16) && got.nth == id->nth);
	FUZZ_ASSERT(shfs_object_read(store, &got, MAX_BYTES, &out) == 0);
	FUZZ_ASSERT(out.len == content->len && !memcmp(out.data, content->data, out.len));
}

void fuzz_object(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf b = { 0 }, content = { 0 };
	struct shfs_object_id id = { 0 };

	if (!store)
		open_store();
	if (size > 6 && data[0] == 'H')
		build(data, size, &b);
	else
		shfs_buf_add(&b, data, size);
	if (b.len >= HEAD_BYTES)
		memcpy(id.hash, b.data + 24, 16);
	write_object(&id, &b);
	read_both(&id, &content);
	remove_object(&id);

	/* the same damage in the place of a content that comes again */
	content.len = 0;
	shfs_buf_add(&content, data, MIN(size, (size_t)100));
	shfs_object_hash(content.data, content.len, id.hash);
	write_object(&id, &b);
	heal(&id, &content);
	remove_object(&id);
}
