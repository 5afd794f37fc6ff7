/* SPDX-License-Identifier: MIT */
#include "store/garbage.h"

#include "store/index-check.h"
#include "store/inventory.h"
#include "store/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct naming {
	bool despite_damage;
	struct shfs_objects *named; /* NULL: only look */
};

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
		if (n->named && (r = shfs_objects_add_of(n->named, &rec)))
			break;
	if (!r && shfs_segment_damaged(segment) && !n->despite_damage)
		r = -EBADMSG;
	shfs_segment_close(segment);
	return r;
}

/* What a repair set aside may have been the only one to name a content. */
static int look_aside(struct shfs_store *store)
{
	int fd = openat(store->dirfd, REPAIR_ASIDE,
	                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = dir || errno == ENOENT ? 0 : -errno;
	struct dirent *e;

	while (dir && !r && (e = readdir(dir))) {
		char path[sizeof(e->d_name) + sizeof("/journal")];

		snprintf(path, sizeof(path), "%s/journal", e->d_name);
		if (strcmp(e->d_name, "..") && !faccessat(fd, path, F_OK, 0))
			r = -EBADMSG;
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
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
	_cleanup_objects_ struct shfs_objects named = { 0 };
	struct naming n = { g->despite_damage, &named };
	struct sweep s = { &named, out };
	int r = g->despite_damage ? 0 : look_aside(g->store);

	if (!r)
		r = shfs_journal_walk(g->store, SHFS_JOURNAL_SEGMENTS, visit, &n);
	shfs_objects_sort(&named);
	return r ? r : shfs_inventory(g->store, keep_unnamed, &s);
}
