/* SPDX-License-Identifier: MIT */
/* Writes and searches the index of a pack. */
#include "store/objects/pack.h"

#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/*
 * Magic (8 bytes), u64 covered, u64 n, u64 check of these; then blocks of up to 340
 * entries, each of a u64 prefix and a u32 offset, ascending, with a u64 check behind
 * them.
 */
#define INDEX_MAGIC      "shfsidx\1"
#define INDEX_HEAD_BYTES 32
#define ENTRY_BYTES      12
#define BLOCK_ENTRIES    340
#define BLOCK_BYTES      (BLOCK_ENTRIES * ENTRY_BYTES + 8)

struct block {
	uint64_t no;
	size_t n;
	struct pack_entry entries[BLOCK_ENTRIES];
};

static uint64_t n_blocks(const struct pack_index *index)
{
	return (index->n + BLOCK_ENTRIES - 1) / BLOCK_ENTRIES;
}

int pack_index_open(int dirfd, const char *name, struct pack_index *out)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	unsigned char head[INDEX_HEAD_BYTES];
	struct shfs_cursor c = { head + 8, head + sizeof(head), false };
	struct pack_index index;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return errno == ELOOP ? -EBADMSG : -errno;
	if (fstat(fd, &st))
		return -errno;
	n = shfs_pread_full(fd, head, sizeof(head), 0);
	if (n < 0)
		return (int)n;
	if (n != sizeof(head) || memcmp(head, INDEX_MAGIC, 8))
		return -EBADMSG;
	index.covered = shfs_cursor_u64(&c);
	index.n = shfs_cursor_u64(&c);
	if (shfs_cursor_u64(&c) != XXH3_64bits(head, 24) ||
	    index.n > PACK_BYTES_MAX / FRAME_MEMBER_BYTES ||
	    (uint64_t)st.st_size !=
	            sizeof(head) + index.n * ENTRY_BYTES + n_blocks(&index) * 8)
		return -EBADMSG;
	*out = index;
	return TAKE_FD(fd);
}

static int read_block(int fd, const struct pack_index *index, uint64_t no,
                      struct block *out)
{
	size_t count = MIN(index->n - no * BLOCK_ENTRIES, (uint64_t)BLOCK_ENTRIES);
	size_t len = count * ENTRY_BYTES;
	unsigned char raw[BLOCK_BYTES];
	struct shfs_cursor c = { raw, raw + len + 8, false };
	ssize_t n = shfs_pread_full(fd, raw, len + 8,
	                            (off_t)(INDEX_HEAD_BYTES + no * BLOCK_BYTES));

	if (n < 0)
		return (int)n;
	if ((size_t)n != len + 8)
		return -EBADMSG;
	for (size_t i = 0; i < count; i++) {
		out->entries[i].prefix = shfs_cursor_u64(&c);
		out->entries[i].offset = shfs_cursor_u32(&c);
	}
	out->no = no;
	out->n = count;
	return shfs_cursor_u64(&c) == XXH3_64bits_withSeed(raw, len, no) ? 0 : -EBADMSG;
}

/*
 * Finds the first block that may hold the prefix. Hashes are spread evenly, so the first
 * guess is close; chosen hashes only make it a binary search.
 */
static int find_block(int fd, const struct pack_index *index, uint64_t prefix,
                      struct block *out)
{
	uint64_t low = 0, high = n_blocks(index) - 1;
	uint64_t guess = (uint64_t)((unsigned __int128)prefix * (high + 1) >> 64);

	for (int steps = 0;; steps++) {
		int r = read_block(fd, index, guess, out);

		if (r)
			return r;
		if (out->entries[out->n - 1].prefix < prefix) {
			if (guess == high)
				return 0; /* no block may hold it */
			low = guess + 1;
			guess = steps < 3 ? low : low + (high - low) / 2;
		} else if (guess == low || out->entries[0].prefix < prefix) {
			return 0;
		} else {
			high = guess;
			guess = steps < 3 ? guess - 1 : low + (high - low) / 2;
		}
	}
}

int pack_index_find(int fd, const struct pack_index *index, uint64_t prefix,
                    uint32_t *offsets, size_t max)
{
	struct block b;
	size_t found = 0;
	int r = index->n ? find_block(fd, index, prefix, &b) : -ENOENT;

	while (!r) {
		for (size_t i = 0; i < b.n && found < max; i++)
			if (b.entries[i].prefix == prefix)
				offsets[found++] = b.entries[i].offset;
		if (b.entries[b.n - 1].prefix > prefix || b.no + 1 >= n_blocks(index) ||
		    found == max)
			break;
		r = read_block(fd, index, b.no + 1, &b);
	}
	return r && r != -ENOENT ? r : (int)found;
}

int pack_index_each(int fd, const struct pack_index *index,
                    int (*fn)(void *arg, const struct pack_entry *entries, size_t n),
                    void *arg)
{
	struct block b;
	int r = 0;

	for (uint64_t no = 0; !r && no < n_blocks(index); no++) {
		r = read_block(fd, index, no, &b);
		if (!r)
			r = fn(arg, b.entries, b.n);
	}
	return r;
}

static int compare_entries(const void *a, const void *b)
{
	const struct pack_entry *x = a, *y = b;

	if (x->prefix != y->prefix)
		return x->prefix < y->prefix ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

int pack_index_write(int dirfd, const char *name, uint64_t covered,
                     struct pack_entry *entries, size_t n)
{
	_cleanup_buf_ struct shfs_buf b = { 0 };

	qsort(entries, n, sizeof(*entries), compare_entries);
	shfs_buf_add(&b, INDEX_MAGIC, 8);
	shfs_buf_u64(&b, covered);
	shfs_buf_u64(&b, n);
	if (b.failed)
		return -ENOMEM;
	shfs_buf_u64(&b, XXH3_64bits(b.data, b.len));
	for (size_t no = 0; no * BLOCK_ENTRIES < n; no++) {
		size_t start = b.len;

		for (size_t i = no * BLOCK_ENTRIES; i < MIN(n, (no + 1) * BLOCK_ENTRIES);
		     i++) {
			shfs_buf_u64(&b, entries[i].prefix);
			shfs_buf_u32(&b, entries[i].offset);
		}
		if (b.failed)
			return -ENOMEM;
		shfs_buf_u64(&b, XXH3_64bits_withSeed(b.data + start, b.len - start, no));
	}
	return b.failed ? -ENOMEM : shfs_write_file_at(dirfd, name, 0600, b.data, b.len);
}
