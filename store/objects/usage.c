/* SPDX-License-Identifier: MIT */
#include "store/objects/usage.h"

#include "store/objects/inventory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 4

struct walk {
	struct shfs_usage *usage;
	int dirfd, depth;
	uint64_t *kind; /* counter of this directory; NULL: at the top */
};

static uint64_t *usage_kind(struct shfs_usage *u, const char *name)
{
	if (!strcmp(name, "journal"))
		return &u->journal;
	if (!strcmp(name, "objects"))
		return &u->objects;
	return strncmp(name, "index.db", 8) ? &u->other : &u->index;
}

static int usage_add_entry(void *arg, const char *name)
{
	struct walk *w = arg, below = *w;
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (w->kind == &w->usage->other && !strcmp(name, "reserve"))
		return 0; /* the reserve is empty, and deleted if room is short */
	if (fstatat(w->dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	below.kind = w->kind ? w->kind : usage_kind(w->usage, name);
	*below.kind += (uint64_t)st.st_blocks * 512;
	if (!S_ISDIR(st.st_mode) || w->depth == DEPTH_MAX)
		return 0;
	fd = openat(w->dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? 0 : -errno;
	below.dirfd = fd;
	below.depth++;
	return inventory_names(fd, NULL, usage_add_entry, &below);
}

int shfs_store_usage(struct shfs_store *store, struct shfs_usage *out)
{
	struct walk w = { .usage = out, .dirfd = store->dirfd };

	int r;

	*out = (struct shfs_usage){ 0 };
	r = inventory_names(store->dirfd, NULL, usage_add_entry, &w);
	if (r || store->index_fd < 0 || store->index_fd == store->dirfd)
		return r;
	w.dirfd = store->index_fd;
	w.kind = &out->index;
	return inventory_names(store->index_fd, NULL, usage_add_entry, &w);
}
