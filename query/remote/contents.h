/* SPDX-License-Identifier: MIT */
/*
 * contents.h - the list of the objects that a pack has, which lies on a remote beside the
 * pack: so a pull knows which pieces of a pack it needs. docs/remotes.md has the bytes.
 */
#pragma once

#include "common/buf.h"
#include "common/record.h"

#define CONTENTS_ENTRY_BYTES 48

struct packed_object {
	struct shfs_object_id id;
	bool has_base; /* it is a delta of this: */
	struct shfs_object_id base;
	uint32_t at, bytes; /* of its frame, in the pack */
};

struct contents {
	struct packed_object *list; /* sorted by id */
	size_t n, cap;
};

void contents_free(struct contents *contents);
#define _cleanup_contents_ _cleanup_(contents_free)

/* Lists the objects in the first so many bytes of a pack below dirfd. */
_must_check_ int contents_of_pack(int dirfd, const char *pack, uint64_t bytes,
                                  struct contents *out);
void contents_print(const struct contents *contents, struct shfs_buf *out);
/* -EBADMSG. */
_must_check_ int contents_parse(const void *data, size_t len, struct contents *out);
/* NULL: the pack has no such object. */
const struct packed_object *contents_find(const struct contents *contents,
                                          const struct shfs_object_id *id);
