/* SPDX-License-Identifier: MIT */
#include "browse/contents.h"

#include "store/objects/packs.h"

#include <errno.h>
#include <string.h>
#include <utlist.h>

#define KEPT_BYTES ((size_t)48 << 20)
#define KEPT_MAX   64

struct shfs_content_kept {
	struct shfs_content_kept *prev, *next;
	struct shfs_object_id id;
	struct shfs_object_reader *reader;
	size_t bytes; /* as counted in contents->bytes */
};

static void drop_one(struct shfs_contents *c, struct shfs_content_kept *kept)
{
	DL_DELETE(c->kept, kept);
	c->bytes -= kept->bytes;
	shfs_object_reader_close(kept->reader);
	free(kept);
}

void shfs_contents_drop(struct shfs_contents *c)
{
	while (c->kept)
		drop_one(c, c->kept);
	packs_let_go(c->store);
}

/* Counts what the first takes now, and drops the last ones. */
static void limit_memory(struct shfs_contents *c)
{
	struct shfs_content_kept *kept;
	unsigned n;

	c->bytes -= c->kept->bytes;
	c->kept->bytes = shfs_object_reader_memory(c->kept->reader);
	c->bytes += c->kept->bytes;
	DL_COUNT(c->kept, kept, n);
	for (; n > 1 && (n > KEPT_MAX || c->bytes > KEPT_BYTES); n--)
		drop_one(c, c->kept->prev);
}

/* Makes the object the first of those that are kept. */
static int keep_content(struct shfs_contents *c, const struct shfs_object_id *id)
{
	struct shfs_content_kept *kept;
	int r;

	DL_FOREACH (c->kept, kept) {
		if (kept->id.nth != id->nth ||
		    memcmp(kept->id.hash, id->hash, sizeof(id->hash)))
			continue;
		DL_DELETE(c->kept, kept);
		DL_PREPEND(c->kept, kept);
		return 0;
	}
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return -ENOMEM;
	kept->id = *id;
	r = shfs_object_reader_open(c->store, id, &kept->reader);
	if (r) {
		free(kept);
		return r;
	}
	DL_PREPEND(c->kept, kept);
	limit_memory(c);
	return 0;
}

int shfs_contents_check(struct shfs_contents *c, const struct shfs_object_id *id)
{
	return keep_content(c, id);
}

int shfs_contents_read(struct shfs_contents *c, const struct shfs_object_id *id,
                       uint64_t offset, void *data, size_t len, size_t *n)
{
	int r = keep_content(c, id);

	if (!r)
		r = shfs_object_reader_read(c->kept->reader, offset, data, len, n);
	if (!r)
		limit_memory(c);
	return r;
}
