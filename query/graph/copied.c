/* SPDX-License-Identifier: MIT */
/*
 * A file in a directory outside of all recorded directories, to which a command copied
 * it: "cp -r . /tmp/d", then "cat /tmp/d/a". The command's words name the
 * directory, and it has read a file of that name below something, with the content that
 * lies there. Once that is gone, the names decide.
 */
#include "query/graph/internal.h"

#include "common/path.h"
#include "store/objects/object.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct copying {
	struct shfs_graph *g;
	const char *path, *below; /* below: the directory, as path ends */
	size_t best; /* length of the path of the file that was copied; 0: none yet */
	struct graph_read *read;
};

static int has_print(const char *path, const struct shfs_content *then)
{
	_cleanup_close_ int fd =
		open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct shfs_content now = { .size = then->size };
	int r = fd < 0 ? -errno
	               : shfs_object_fingerprint(fd, shfs_object_whole_max(then->flags),
	                                         &now);

	if (r)
		return r == -ENOMEM ? r : 0;
	return shfs_content_hashed_alike(now.flags, then->flags) &&
	       shfs_phash_kept(now.phash) == shfs_phash_kept(then->phash);
}

/* Does the file have this content, or is it gone? */
static int may_hold(struct shfs_graph *g, const char *path, const struct shfs_content *c)
{
	struct shfs_object_id id;
	struct stat st;
	int r;

	if (lstat(path, &st))
		return errno == ENOENT;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != c->size)
		return 0;
	if (!(c->flags & SHFS_CONTENT_NAMED))
		return c->flags & SHFS_CONTENT_PHASH ? has_print(path, c) : 0;
	r = shfs_graph_object_of_file(g, path, c->size, &id);
	return r > 0 ? !memcmp(&id, &c->object, sizeof(id)) : r;
}

static int compare_read(const struct shfs_access *a, void *arg)
{
	struct copying *c = arg;
	_cleanup_free_ char *path = NULL;
	struct shfs_version_fact v;
	size_t len, tail = strlen(c->below);
	int r;

	if (a->op || a->directory || !a->seen_n)
		return 0;
	r = shfs_facts_path(c->g->facts, a->file_id, &path);
	len = r > 0 ? strlen(path) : 0;
	if (len <= tail || path[len - tail - 1] != '/' ||
	    strcmp(path + len - tail, c->below) != 0 || (c->best && c->best <= len))
		return MIN(r, 0);
	r = shfs_facts_version(c->g->facts, a->file_id << 32 | a->seen_n, &v);
	if (r > 0)
		r = may_hold(c->g, c->path, &v.content);
	if (r <= 0)
		return r;
	c->best = len;
	*c->read = (struct graph_read){ .version_id = v.version_id,
		                        .begin_ns = shfs_access_begin_ns(a),
		                        .seq = a->seq };
	return 0;
}

int shfs_graph_copied_to(struct shfs_graph *g, int64_t process_id, const char *dir,
                         const char *path, struct graph_read *read)
{
	struct copying c = { .g = g, .path = path, .read = read };
	size_t len = strlen(dir);
	int r;

	if (!shfs_path_is_below(path, dir) || !path[len])
		return 0;
	c.below = path + len + (path[len] == '/');
	r = shfs_facts_of_process(g->facts, process_id, compare_read, &c);
	return r < 0 ? r : c.best != 0;
}
