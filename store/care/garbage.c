/* SPDX-License-Identifier: MIT */
#include "store/care/garbage.h"

#include "common/io.h"
#include "store/care/index-check.h"
#include "store/journal/journal.h"
#include "store/objects/inventory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct naming {
	bool despite_damage;
	struct shfs_objects *named; /* NULL: only check the journal */
};

static int add_objects_named_by(const struct shfs_journal_file *file, void *arg)
{
	struct naming *n = arg;
	struct shfs_segment *segment;
	struct shfs_record rec;
	int r = shfs_segment_open(file->dirfd, file->name, 0, &segment);

	if (r == -EBADMSG && (n->despite_damage || (!file->sealed && !file->size_bytes)))
		return 0;
	if (r)
		return r == -ENOENT ? -EAGAIN : r;
	while ((r = shfs_segment_next(segment, &rec)) > 0)
		if (n->named && (r = shfs_objects_add_of(n->named, &rec)))
			break;
	if (!r && shfs_segment_damaged(segment) && !n->despite_damage)
		r = -EBADMSG;
	shfs_segment_close(segment);
	return r;
}

/* Is there a quarantine/<time>/journal/<host>/<segment>? Takes ownership of dirfd. */
static int find_segment(int dirfd, unsigned depth)
{
	DIR *dir = dirfd < 0 ? NULL : fdopendir(dirfd);
	struct dirent *e;
	int r = 0;

	if (!dir) {
		r = errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
		if (dirfd >= 0)
			close(dirfd);
		return r;
	}
	while (!r && (e = shfs_readdir(dir, &r))) {
		if (*e->d_name == '.' ||
		    (depth == 1 && strcmp(e->d_name, "journal") != 0))
			continue;
		if (depth < 3)
			r = find_segment(openat(dirfd, e->d_name,
			                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
			                                O_CLOEXEC),
			                 depth + 1);
		else if (strstr(e->d_name, ".seg"))
			r = -ENOTEMPTY;
	}
	closedir(dir);
	return r;
}

/* Looks for segments that a repair has set aside: they may name objects that no other
 * segment does. */
static int look_aside(struct shfs_store *store)
{
	return find_segment(openat(store->dirfd, REPAIR_ASIDE,
	                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
	                    0);
}

int shfs_journal_is_whole(struct shfs_store *store)
{
	struct naming n = { 0 };

	return shfs_journal_walk(store, SHFS_JOURNAL_SEGMENTS, add_objects_named_by, &n);
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
	_cleanup_objects_ struct shfs_objects named = { 0 };
	struct naming n = { g->despite_damage, &named };
	struct sweep s = { &named, out };
	int r = g->despite_damage ? 0 : look_aside(g->store);

	if (!r)
		r = shfs_journal_walk(g->store, SHFS_JOURNAL_SEGMENTS,
		                      add_objects_named_by, &n);
	shfs_objects_sort(&named);
	return r ? r : shfs_inventory(g->store, keep_unnamed, &s);
}
