/* SPDX-License-Identifier: MIT */
/* solidkit.h - a pack with a solid frame in which one name is not that of its content. */
#pragma once

#include "tests/unit/packkit.h"

#include "store/objects/object-internal.h"

struct wrong_solid {
	char texts[3][1000];
	struct shfs_object_id ids[3]; /* the second is wrong */
	uint64_t bytes;               /* of the frame, with its head */
};

/* Puts it into the pack a-1-000000.pack, the first of the store. */
static inline void put_wrong_solid(struct shfs_store *store, struct wrong_solid *out)
{
	struct solid_piece pieces[3];
	_cleanup_coded_ struct coded coded = { 0 };
	_cleanup_close_ int fd = -1;

	for (int i = 0; i < 3; i++) {
		memset(out->texts[i], 'a' + i, sizeof(out->texts[i]));
		pieces[i] = (struct solid_piece){ .data = out->texts[i], .len = 1000 };
		shfs_object_hash(pieces[i].data, pieces[i].len, pieces[i].id.hash);
	}
	pieces[1].id.hash[3] ^= 1;
	assert_ok(solid_compress(store->codecs, pieces, 3, 3, &coded));
	solid_seal(&coded, pieces, 3);
	assert_int_equal(mkdirat(store->objects_fd, "packs", 0700), 0);
	fd = openat(store->objects_fd, "packs/a-1-000000.pack", O_WRONLY | O_CREAT, 0600);
	assert_ok(shfs_write_all(fd, PACK_MAGIC, PACK_HEAD_BYTES));
	assert_ok(shfs_write_all(fd, coded.bytes, coded.head + coded.len));
	for (int i = 0; i < 3; i++)
		out->ids[i] = pieces[i].id;
	out->bytes = coded.head + coded.len;
}
