/* SPDX-License-Identifier: MIT */
/*
 * A pack and its index: what is read from them has its hash, or is refused; a put beside
 * them is stored and read. An input that begins with 'F' is made into frames with checks,
 * as no fuzzer guesses those, one with 'I' into the index of a good pack; else it is a
 * pack.
 */
#include "tests/fuzz/fuzz.h"

#include "common/io.h"
#include "store/objects/object-internal.h"
#include "store/objects/object.h"
#include "store/objects/pack.h"
#include "store/objects/solid.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>

#define MAX_BYTES (1 << 20)
#define IDS_MAX   8
#define SOLID_MAX 6 /* contents of a solid frame */

static char dir[64];
static int packs_fd = -1;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_store(void)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct shfs_store *open_store(void)
{
	struct shfs_store *store;

	if (packs_fd < 0) {
		const char *base = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";

		snprintf(dir, sizeof(dir), "%s/shfs-fuzz-XXXXXX", base);
		FUZZ_ASSERT(mkdtemp(dir));
		atexit(remove_store);
	}
	FUZZ_ASSERT(shfs_store_open(dir, SHFS_STORE_CREATE, &store) == 0);
	if (packs_fd < 0) {
		FUZZ_ASSERT(mkdirat(store->objects_fd, "packs", 0700) == 0);
		packs_fd = openat(store->objects_fd, "packs", O_RDONLY | O_DIRECTORY);
		FUZZ_ASSERT(packs_fd >= 0);
	}
	return store;
}

static void write_file(const char *name, const struct shfs_buf *b)
{
	_cleanup_close_ int fd =
		openat(packs_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_ASSERT(fd >= 0 && shfs_write_all(fd, b->data, b->len) == 0);
}

static void add_frame(struct shfs_buf *b, struct frame *f, const void *stored)
{
	unsigned char bytes[FRAME_DELTA_BYTES + 256];
	size_t head = frame_head_bytes(f->kind);

	memcpy(bytes + head, stored, f->stored);
	frame_seal(f, bytes);
	shfs_buf_add(b, bytes, head + f->stored);
}

/*
 * Adds a solid frame that shfs might have written, but for what `flaws` says: 1: the
 * first name is another one's; 2: two contents have exchanged their lengths; 4: a stored
 * byte is wrong. Each content: a byte for its length, and its bytes.
 */
static void add_solid(struct shfs_buf *b, struct codecs *codecs, struct shfs_cursor *c,
                      uint8_t flaws)
{
	struct solid_piece pieces[SOLID_MAX];
	_cleanup_coded_ struct coded coded = { 0 };
	size_t n = 0;

	for (; n < SOLID_MAX && c->p < c->end; n++) {
		size_t len = shfs_cursor_u8(c);

		len = MIN(len, (size_t)(c->end - c->p));
		pieces[n] = (struct solid_piece){ .data = c->p, .len = len };
		shfs_object_hash(c->p, len, pieces[n].id.hash);
		c->p += len;
	}
	if (!n || solid_compress(codecs, pieces, n, 1, &coded))
		return;
	if (flaws & 1)
		memset(pieces[0].id.hash, 1, 16);
	if (flaws & 2) {
		size_t len = pieces[0].len;

		pieces[0].len = pieces[n - 1].len;
		pieces[n - 1].len = len;
	}
	if (flaws & 4 && coded.len)
		coded.bytes[coded.head + flaws % coded.len] ^= flaws;
	solid_seal(&coded, pieces, n);
	shfs_buf_add(b, coded.bytes, coded.head + coded.len);
}

/* Kind, whose name, whose base (numbers of frames), size (3 bytes), stored bytes (a byte
 * for their number): a frame. The name of the first is the hash of its bytes. Of a solid
 * frame, the base is the number of its contents; kind 4: as add_solid makes it. */
static void build_frames(const uint8_t *data, size_t size, struct codecs *codecs,
                         struct shfs_buf *b)
{
	struct shfs_cursor c = { data, data + size, false };

	shfs_buf_add(b, PACK_MAGIC, PACK_HEAD_BYTES);
	for (int n = 0; n < IDS_MAX && c.p < c.end; n++) {
		uint8_t kind = shfs_cursor_u8(&c) % 5;
		struct frame f = { .kind = kind };
		uint8_t name = shfs_cursor_u8(&c), base = shfs_cursor_u8(&c);

		if (kind == 4) {
			add_solid(b, codecs, &c, base);
			continue;
		}
		f.n_members = base;

		f.size = shfs_cursor_u8(&c) | (uint64_t)shfs_cursor_u16(&c) << 8;
		f.stored = shfs_cursor_u8(&c);
		f.stored = (uint32_t)MIN((size_t)f.stored, (size_t)(c.end - c.p));
		if (f.kind == FRAME_RAW)
			f.size = f.stored;
		memset(f.id.hash, name % IDS_MAX, 16);
		memset(f.base.hash, base % IDS_MAX, 16);
		if (name == UINT8_MAX)
			shfs_object_hash(c.p, f.stored, f.id.hash);
		f.id.nth = name >> 6;
		add_frame(b, &f, c.p);
		c.p += f.stored;
	}
}

/* Entries, and the checks of an index around them. */
static void build_index(const uint8_t *data, size_t size, struct shfs_buf *b)
{
	size_t n = MIN(size / 12, (size_t)300);

	shfs_buf_add(b, "shfsidx\1", 8);
	shfs_buf_u64(b, size % 2000);
	shfs_buf_u64(b, n);
	shfs_buf_u64(b, shfs_object_hash64(b->data, b->len));
	if (!n)
		return;
	shfs_buf_add(b, data, n * 12);
	shfs_buf_u64(b, shfs_object_hash64(data, n * 12));
}

struct ids {
	struct shfs_object_id id[IDS_MAX];
	unsigned n;
};

static int add_id(void *arg, const struct frame *f, uint64_t offset)
{
	struct ids *ids = arg;

	for (unsigned i = 0; i < ids->n; i++)
		if (!memcmp(ids->id[i].hash, f->id.hash, 16) &&
		    ids->id[i].nth == f->id.nth)
			return 0;
	ids->id[ids->n++] = f->id;
	return ids->n == IDS_MAX;
}

static void read_both(struct shfs_store *store, const struct shfs_object_id *id)
{
	static int null = -1;
	_cleanup_buf_ struct shfs_buf out = { 0 };
	uint8_t hash[16];
	int r = shfs_object_read(store, id, MAX_BYTES, &out), copied;

	if (null < 0)
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	FUZZ_ASSERT(r == 0 || r == -EBADMSG || r == -EFBIG || r == -ENOENT);
	copied = shfs_object_copy(store, id, null);
	FUZZ_ASSERT(copied == r || copied == -EBADMSG || r == -EFBIG);
	if (r)
		return;
	FUZZ_ASSERT(copied == 0);
	shfs_object_hash(out.data, out.len, hash);
	FUZZ_ASSERT(!memcmp(hash, id->hash, 16));
}

static void put_beside(struct shfs_store *store, const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	struct shfs_object_id id;
	struct shfs_put *put;

	FUZZ_ASSERT(shfs_object_put(store, data, size, 1, NULL, &put) == 0);
	FUZZ_ASSERT(shfs_object_commit(store, &put, 1) == 0);
	id = shfs_put_id(put);
	shfs_put_free(put);
	FUZZ_ASSERT(shfs_object_read(store, &id, size, &out) == 0);
	FUZZ_ASSERT(out.len == size && !memcmp(out.data, data, size));
}

/* All packs, so that inputs know nothing of one another. */
static void remove_packs(void)
{
	DIR *d = fdopendir(openat(packs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;

	FUZZ_ASSERT(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			unlinkat(packs_fd, e->d_name, 0);
	closedir(d);
}

void fuzz_pack(const uint8_t *data, size_t size)
{
	static const uint8_t good[] = "\0\xff\0\0\0\0\5hello\0\xff\0\0\0\0\5world";
	_cleanup_buf_ struct shfs_buf pack = { 0 }, index = { 0 };
	struct shfs_store *store = open_store();
	char mode = size ? (char)data[0] : 0;
	struct ids ids = { 0 };
	uint64_t end;

	if (mode == 'F')
		build_frames(data + 1, size - 1, store->codecs, &pack);
	else if (mode == 'I')
		build_frames(good, sizeof(good) - 1, store->codecs, &pack);
	else
		shfs_buf_add(&pack, data, size);
	write_file("a.pack", &pack);
	if (mode == 'I') {
		build_index(data + 1, size - 1, &index);
		write_file("a.idx", &index);
	}
	_cleanup_close_ int fd = openat(packs_fd, "a.pack", O_RDONLY | O_CLOEXEC);

	FUZZ_ASSERT(pack_scan(fd, 0, add_id, &ids, &end) >= 0);
	for (unsigned i = 0; i < ids.n; i++)
		read_both(store, &ids.id[i]);
	put_beside(store, data, MIN(size, (size_t)100));
	for (unsigned i = 0; i < ids.n; i++)
		read_both(store, &ids.id[i]);
	shfs_store_close(store);
	remove_packs();
}
