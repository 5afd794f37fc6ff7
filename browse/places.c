/* SPDX-License-Identifier: MIT */
/* Asks the view that a path of the file system belongs to what lies there. */
#include "browse/browse.h"

#include "common/clock.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#define FRESH_NS (1 * SHFS_NSEC_PER_SEC)
#define QUICK_MS 2000

static const struct shfs_view *const views[] = { &shfs_view_at, &shfs_view_commands,
	                                         &shfs_view_versions };

/* --- the index --- */

int shfs_browse_look(struct shfs_browse *b)
{
	struct shfs_index_state now;
	int r = shfs_index_look(b->index, &now);

	if (r || (now.changes == b->state.changes && now.rebuilt == b->state.rebuilt))
		return r;
	shfs_contents_drop(&b->contents);
	shfs_commands_drop(b);
	if (now.rebuilt != b->state.rebuilt) {
		shfs_at_drop(b);
		if (b->on_rebuilt)
			b->on_rebuilt();
	}
	b->state = now;
	b->generation++;
	return 0;
}

int shfs_browse_freshen(struct shfs_browse *b)
{
	int64_t now_ns = shfs_clock_ns(CLOCK_MONOTONIC);

	/* an answer that lacks the last moment is better than none */
	if (now_ns - b->refresher.looked_ns > FRESH_NS)
		(void)!shfs_refresher_ask(&b->refresher, false, QUICK_MS);
	return shfs_browse_look(b);
}

/* --- places --- */

void shfs_place_clear(struct shfs_place *p)
{
	free(p->text);
	shfs_version_clear(&p->version);
	*p = (struct shfs_place){ 0 };
}

static void set_status(const struct shfs_browse *b, mode_t mode, uint64_t size,
                       int64_t mtime_ns, struct stat *st)
{
	struct timespec time = shfs_ns_timespec(mtime_ns);

	*st = (struct stat){ .st_mode = mode,
		             .st_nlink = S_ISDIR(mode) ? 2 : 1,
		             .st_uid = b->uid,
		             .st_gid = b->gid,
		             .st_size = (off_t)size,
		             .st_blocks = (blkcnt_t)((size + 511) / 512),
		             .st_atim = time,
		             .st_mtim = time,
		             .st_ctim = time };
}

void shfs_place_directory(const struct shfs_browse *b, int64_t mtime_ns,
                          struct shfs_place *out)
{
	set_status(b, S_IFDIR | 0755, 0, mtime_ns ?: b->since_ns, &out->st);
}

int shfs_place_text(const struct shfs_browse *b, mode_t type, char *text, size_t len,
                    int64_t mtime_ns, struct shfs_place *out)
{
	if (!text)
		return -ENOMEM;
	set_status(b, type | (S_ISLNK(type) ? 0777 : 0644), len, mtime_ns ?: b->since_ns,
	           &out->st);
	out->where = SHFS_PLACE_TEXT;
	out->text = text;
	out->text_len = len;
	return 0;
}

void shfs_place_archived(struct shfs_place *p)
{
	const struct shfs_version *v = &p->version;

	p->flawed = v->flags & SHFS_CONTENT_INCOMPLETE;
	if (v->flags & SHFS_CONTENT_OBJECT) {
		p->where = SHFS_PLACE_OBJECT;
		p->object = v->object;
	} else if (!v->size) {
		p->where = SHFS_PLACE_TEXT;
	} else {
		p->where = SHFS_PLACE_NOWHERE;
		p->error = -ENODATA;
		p->why = shfs_version_why_not_archived(v->flags) ?: "not archived";
	}
}

void shfs_place_version(const struct shfs_browse *b, struct shfs_version *version,
                        struct shfs_place *out)
{
	set_status(b, S_IFREG | (version->mode & 07777), version->size, version->mtime_ns,
	           &out->st);
	out->version = *version;
	version->path = NULL;
	shfs_place_archived(out);
}

void shfs_names_add(struct shfs_names *names, unsigned char type, const char *name)
{
	shfs_buf_u8(&names->list, type);
	shfs_buf_add(&names->list, name, strlen(name) + 1);
}

/* --- the views --- */

/* Finds the view of a path, and the rest in it; NULL: there is none. */
static const struct shfs_view *view_of(const char *path, const char **rest)
{
	size_t len = strcspn(path, "/");

	*rest = path + len + (path[len] == '/');
	for (size_t i = 0; i < ARRAY_SIZE(views); i++)
		if (strlen(views[i]->name) == len && !memcmp(views[i]->name, path, len))
			return views[i];
	return NULL;
}

int shfs_browse_find(struct shfs_browse *b, const char *path, struct shfs_place *out)
{
	const struct shfs_view *view;
	const char *rest;

	if (!*path) {
		shfs_place_directory(b, 0, out);
		return 0;
	}
	view = view_of(path, &rest);
	return view ? view->find(b, rest, out) : -ENOENT;
}

int shfs_browse_list(struct shfs_browse *b, const char *path, struct shfs_names *out)
{
	const struct shfs_view *view;
	const char *rest;
	int r = -ENOENT;

	if (!*path) {
		for (size_t i = 0; i < ARRAY_SIZE(views); i++)
			shfs_names_add(out, DT_DIR, views[i]->name);
		r = 0;
	} else {
		view = view_of(path, &rest);
		if (view)
			r = view->list(b, rest, out);
	}
	return !r && out->list.failed ? -ENOMEM : r;
}

int shfs_browse_open_now(struct shfs_browse *b, const char *path, int *fd)
{
	const char *rest;
	const struct shfs_view *view = view_of(path, &rest);

	return view && view->open_now ? view->open_now(b, rest, fd) : -ENOENT;
}

int shfs_browse_xattrs(struct shfs_browse *b, const char *path, shfs_xattr_fn fn,
                       void *arg)
{
	const char *rest;
	const struct shfs_view *view = view_of(path, &rest);

	return view && view->xattrs ? view->xattrs(b, rest, fn, arg) : 0;
}
