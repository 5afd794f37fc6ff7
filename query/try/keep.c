/* SPDX-License-Identifier: MIT */
#include "query/try/keep.h"

#include "common/clock.h"
#include "common/path.h"
#include "query/try/xattrs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

struct work {
	const struct shfs_layer *layer;
	const struct shfs_changes *changes;
	struct shfs_steps *steps;
	char **aside; /* for each change: where what was there is kept; NULL */
	unsigned number;
};

static char *project_path(const struct work *w, const struct shfs_change *change)
{
	return shfs_path_join(w->layer->project, change->path);
}

static char *layer_path(const struct work *w, const struct shfs_change *change)
{
	struct shfs_buf path = { 0 };

	shfs_buf_printf(&path, "%s/" SHFS_LAYER_PROJECT "/upper/%s", w->layer->path,
	                change->path);
	if (!path.failed)
		return path.data;
	shfs_buf_free(&path);
	return NULL;
}

/* A name of ours in the directory of path. */
static char *temporary_path(struct work *w, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct shfs_buf out = { 0 };

	shfs_buf_printf(&out, "%.*s/" SHFS_STEP_TMP "%d-%u", (int)(slash - path), path,
	                getpid(), ++w->number);
	if (!out.failed)
		return out.data;
	shfs_buf_free(&out);
	return NULL;
}

static int add_attributes(struct work *w, const char *path, const struct stat *now,
                          const struct stat *then, uint32_t what)
{
	struct shfs_step *s =
		shfs_steps_add(w->steps, SHFS_STEP_ATTRIBUTES, path, NULL, NULL, NULL);

	if (!s)
		return -ENOMEM;
	s->what = what;
	s->mode = now->st_mode;
	s->uid = now->st_uid;
	s->gid = now->st_gid;
	s->mtime_ns = shfs_timespec_ns(now->st_mtim);
	s->old_mode = then->st_mode;
	s->old_uid = then->st_uid;
	s->old_gid = then->st_gid;
	s->old_mtime_ns = shfs_timespec_ns(then->st_mtim);
	return 0;
}

/* --- what is moved aside --- */

/* The change whose directory holds it, and is moved aside whole; or itself. */
static size_t find_top(const struct work *w, size_t i)
{
	const struct shfs_change *list = w->changes->list;

	for (size_t top = i; list[i].inside && top--;)
		if (list[top].kind == SHFS_CHANGE_REMOVED && !list[top].inside)
			return shfs_path_is_below(list[i].path, list[top].path) ? top : i;
	return i;
}

static int move_aside(struct work *w, size_t i)
{
	_cleanup_free_ char *path = project_path(w, &w->changes->list[i]);

	w->aside[i] = path ? temporary_path(w, path) : NULL;
	return w->aside[i] && shfs_steps_add(w->steps, SHFS_STEP_MOVE, path, w->aside[i],
	                                     NULL, NULL)
	               ? 0
	               : -ENOMEM;
}

/* Removes what was moved aside: what a directory held comes before it. */
static int remove_aside(struct work *w, size_t i)
{
	const struct shfs_change *change = &w->changes->list[i];
	size_t top = find_top(w, i);
	_cleanup_buf_ struct shfs_buf path = { 0 };

	shfs_buf_printf(&path, "%s%s", w->aside[top],
	                change->path + strlen(w->changes->list[top].path));
	return !path.failed && shfs_steps_add(w->steps,
	                                      S_ISDIR(change->then.st_mode)
	                                              ? SHFS_STEP_RMDIR
	                                              : SHFS_STEP_REMOVE,
	                                      path.data, NULL, NULL, NULL)
	               ? 0
	               : -ENOMEM;
}

/* --- what is made --- */

/* An earlier name of the file in the layer; NULL. */
static const struct shfs_change *find_other_name(const struct work *w, size_t i)
{
	const struct shfs_change *list = w->changes->list;

	if (!S_ISREG(list[i].now.st_mode) || list[i].now.st_nlink < 2)
		return NULL;
	for (size_t k = 0; k < i; k++)
		if (list[k].now.st_ino == list[i].now.st_ino &&
		    list[k].now.st_dev == list[i].now.st_dev &&
		    list[k].kind != SHFS_CHANGE_ATTRIBUTES)
			return &list[k];
	return NULL;
}

static int add_file(struct work *w, const struct shfs_change *change, const char *path)
{
	_cleanup_free_ char *source = layer_path(w, change);
	char target[PATH_MAX] = "";
	struct shfs_step *s;

	if (!source)
		return -ENOMEM;
	if (S_ISLNK(change->now.st_mode) &&
	    readlink(source, target, sizeof(target) - 1) < 0)
		return -errno;
	s = shfs_steps_add(w->steps, SHFS_STEP_MAKE, path, NULL, NULL,
	                   S_ISLNK(change->now.st_mode) ? target : source);
	if (!s)
		return -ENOMEM;
	s->mode = change->now.st_mode;
	s->rdev = change->now.st_rdev;
	if (S_ISREG(s->mode))
		s->what = SHFS_STEP_COPY;
	return 0;
}

/* Gives a link or a special file its attributes; a copy has them. */
static int finish_special(struct work *w, const char *path,
                          const struct shfs_change *change)
{
	uint32_t mode = S_ISLNK(change->now.st_mode) ? 0 : SHFS_STEP_MODE;

	return add_attributes(w, path, &change->now, &change->now,
	                      SHFS_STEP_TIME | SHFS_STEP_OWNER | mode);
}

static int make(struct work *w, size_t i)
{
	const struct shfs_change *change = &w->changes->list[i];
	const struct shfs_change *other = find_other_name(w, i);
	_cleanup_free_ char *path = project_path(w, change), *other_path = NULL;
	int r;

	if (!path)
		return -ENOMEM;
	if (S_ISDIR(change->now.st_mode))
		return shfs_steps_add(w->steps, SHFS_STEP_MKDIR, path, NULL, NULL, NULL)
		               ? 0
		               : -ENOMEM;
	if (other) {
		other_path = project_path(w, other);
		return other_path && shfs_steps_add(w->steps, SHFS_STEP_LINK, other_path,
		                                    path, NULL, NULL)
		               ? 0
		               : -ENOMEM;
	}
	r = add_file(w, change, path);
	return r || S_ISREG(change->now.st_mode) ? r : finish_special(w, path, change);
}

static int replace(struct work *w, size_t i)
{
	const struct shfs_change *change = &w->changes->list[i];
	_cleanup_free_ char *path = project_path(w, change), *made = NULL;
	int r;

	if (!path)
		return -ENOMEM;
	made = temporary_path(w, path);
	w->aside[i] = temporary_path(w, path);
	if (!made || !w->aside[i])
		return -ENOMEM;
	r = add_file(w, change, made);
	if (r)
		return r;
	if (!shfs_steps_add(w->steps, SHFS_STEP_REPLACE, made, path, w->aside[i], NULL))
		return -ENOMEM;
	return S_ISREG(change->now.st_mode) ? 0 : finish_special(w, path, change);
}

static int change_attributes(struct work *w, size_t i)
{
	const struct shfs_change *change = &w->changes->list[i];
	_cleanup_free_ char *path = project_path(w, change);
	uint32_t what = 0;

	if (change->now.st_mode != change->then.st_mode)
		what |= SHFS_STEP_MODE;
	if (change->now.st_uid != change->then.st_uid ||
	    change->now.st_gid != change->then.st_gid)
		what |= SHFS_STEP_OWNER;
	if (!S_ISDIR(change->now.st_mode))
		what |= SHFS_STEP_TIME;
	return path ? add_attributes(w, path, &change->now, &change->then, what)
	            : -ENOMEM;
}

struct directory {
	struct work *w;
	const char *path;
};

static int add_xattr(const struct shfs_xattr_difference *d, void *arg)
{
	const struct directory *at = arg;
	struct shfs_step *s = shfs_steps_add(at->w->steps, SHFS_STEP_XATTR, at->path,
	                                     NULL, NULL, d->name);

	if (!s)
		return -ENOMEM;
	if (d->now) {
		s->what |= SHFS_STEP_VALUE;
		shfs_buf_add(&s->value, d->now, d->now_len);
	}
	if (d->then) {
		s->what |= SHFS_STEP_OLD_VALUE;
		shfs_buf_add(&s->old_value, d->then, d->then_len);
	}
	return s->value.failed || s->old_value.failed ? -ENOMEM : 0;
}

/* Gives a directory its attributes; behind the commit, as they may close it. */
static int finish_directory(struct work *w, size_t i)
{
	const struct shfs_change *change = &w->changes->list[i];
	_cleanup_free_ char *path = project_path(w, change), *source = NULL;
	struct directory at = { w, path };
	bool made = change->kind == SHFS_CHANGE_MADE;
	int r;

	source = path ? layer_path(w, change) : NULL;
	if (!source)
		return -ENOMEM;
	r = shfs_xattrs_compare(source, made ? NULL : path, add_xattr, &at);
	if (r)
		return r;
	return made ? add_attributes(w, path, &change->now, &change->now,
	                             SHFS_STEP_MODE | SHFS_STEP_TIME | SHFS_STEP_OWNER)
	            : change_attributes(w, i);
}

static int arrange(struct work *w)
{
	const struct shfs_changes *c = w->changes;
	int r = 0;

	for (size_t i = 0; i < c->n && !r; i++)
		if (c->list[i].kind == SHFS_CHANGE_REMOVED && find_top(w, i) == i)
			r = move_aside(w, i);
	for (size_t i = 0; i < c->n && !r; i++)
		if (c->list[i].kind == SHFS_CHANGE_MADE)
			r = make(w, i);
		else if (c->list[i].kind == SHFS_CHANGE_CHANGED)
			r = replace(w, i);
	for (size_t i = c->n; i-- && !r;)
		if (c->list[i].kind == SHFS_CHANGE_ATTRIBUTES &&
		    !S_ISDIR(c->list[i].now.st_mode))
			r = change_attributes(w, i);
	w->steps->commit = w->steps->n;
	for (size_t i = c->n; i-- && !r;)
		if (c->list[i].kind == SHFS_CHANGE_REMOVED ||
		    c->list[i].kind == SHFS_CHANGE_CHANGED)
			r = remove_aside(w, i);
	for (size_t i = c->n; i-- && !r;)
		if (S_ISDIR(c->list[i].now.st_mode))
			r = finish_directory(w, i);
	return r;
}

int shfs_keep_arrange(const struct shfs_layer *layer, const struct shfs_changes *changes,
                      struct shfs_steps *steps)
{
	struct work w = { .layer = layer, .changes = changes, .steps = steps };
	int r;

	w.aside = calloc(changes->n + 1, sizeof(*w.aside));
	r = w.aside ? arrange(&w) : -ENOMEM;
	for (size_t i = 0; w.aside && i < changes->n; i++)
		free(w.aside[i]);
	free(w.aside);
	return r;
}
