/* SPDX-License-Identifier: MIT */
#include "store/garbage.h"

#include "store/index-internal.h"
#include "store/inventory.h"
#include "store/journal.h"

#include <errno.h>

struct naming {
	bool despite_damage;
	struct shfs_objects *named; /* NULL: only look */
};

static int add_named(struct naming *n, struct shfs_record *rec)
{
	struct shfs_content *contents[3];
	int r = 0;

	forget_contents(rec, contents);
	for (int i = 0; contents[i] && !r; i++)
		if (contents[i]->flags & SHFS_CONTENT_OBJECT)
			r = shfs_objects_add(n->named, &contents[i]->object);
	return r;
}

static int visit(const struct shfs_journal_file *file, void *arg)
{
	struct naming *n = arg;
	struct shfs_segment *segment;
	struct shfs_record rec;
	int r = shfs_segment_open(file->dirfd, file->name, 0, &segment);

	if (r == -EBADMSG && (n->despite_damage || !file->size_bytes))
		return 0;
	if (r)
		return r == -ENOENT ? -EAGAIN : r;
	while ((r = shfs_segment_next(segment, &rec)) > 0)
		if (n->named && (r = add_named(n, &rec)))
			break;
	if (!r && shfs_segment_damaged(segment) && !n->despite_damage)
		r = -EBADMSG;
	shfs_segment_close(segment);
	return r;
}

int shfs_journal_is_whole(struct shfs_store *store)
{
	struct naming n = { 0 };

	return shfs_journal_walk(store, SHFS_JOURNAL_SEGMENTS, visit, &n);
}

struct sweep {
	struct shfs_objects *named, *out;
};

static int keep_unnamed(void *arg, const struct shfs_stored *object)
{
	struct sweep *s = arg;

	return shfs_objects_has(s->named, &object->id)
	               ? 0
	               : shfs_objects_add(s->out, &object->id);
}

int shfs_garbage_pick(void *arg, struct shfs_objects *out)
{
	struct shfs_garbage *g = arg;
	_cleanup_(shfs_objects_free) struct shfs_objects named = { 0 };
	struct naming n = { g->despite_damage, &named };
	struct sweep s = { &named, out };
	int r = shfs_journal_walk(g->store, SHFS_JOURNAL_SEGMENTS, visit, &n);

	shfs_objects_sort(&named);
	return r ? r : shfs_inventory(g->store, keep_unnamed, &s);
}
