/* SPDX-License-Identifier: MIT */
/* Finds what steps hand on in files outside of the project. */
#include "query/export/handed.h"

#include "common/path.h"

#include <errno.h>
#include <string.h>

void shfs_handed_clear(struct shfs_handed *handed)
{
	free(handed->files);
	free(handed->uses);
	free(handed->orders);
	*handed = (struct shfs_handed){ 0 };
}

bool shfs_handed_has(const struct shfs_handed *handed, const struct shfs_step *step)
{
	for (size_t i = 0; i < handed->n_files; i++)
		if (handed->files[i].from == step)
			return true;
	for (size_t i = 0; i < handed->n_uses; i++)
		if (handed->uses[i].to == step)
			return true;
	return false;
}

static int get_file(struct shfs_handed *handed, const struct shfs_step *from,
                    const char *path, size_t *out)
{
	size_t i = 0;

	while (i < handed->n_files && (handed->files[i].from != from ||
	                               strcmp(handed->files[i].path, path) != 0))
		i++;
	*out = i;
	if (i < handed->n_files)
		return 0;
	if (!MAKE_ROOM(handed->files, handed->n_files, handed->cap_files))
		return -ENOMEM;
	handed->files[handed->n_files++] = (struct shfs_handed_file){ from, path };
	return 0;
}

static int add_use(struct shfs_handed *handed, const struct shfs_step *from,
                   const struct shfs_step *to, const char *path)
{
	size_t file;
	int r = get_file(handed, from, path, &file);

	for (size_t i = 0; i < handed->n_uses && !r; i++)
		if (handed->uses[i].to == to && handed->uses[i].file == file)
			return 0;
	if (r || !MAKE_ROOM(handed->uses, handed->n_uses, handed->cap_uses))
		return -ENOMEM;
	handed->uses[handed->n_uses++] = (struct shfs_handed_use){ to, file };
	return 0;
}

/* The next one of those that left the file for the step: the last one before `before`. */
static const struct shfs_step *find_leaver(const struct shfs_step *step, const char *path,
                                           const struct shfs_step *before)
{
	const struct shfs_step *found = NULL;

	for (size_t i = 0; i < step->n_by_way; i++) {
		const struct shfs_by_way *way = &step->by_way[i];

		if (way->left_by && way->left_by->id < before->id &&
		    !strcmp(way->path, path) && (!found || way->left_by->id > found->id))
			found = way->left_by;
	}
	return found;
}

static int add_uses(struct shfs_handed *handed, const struct shfs_step *step,
                    const char *path)
{
	const struct shfs_step *to = step, *from;
	int r = 0;

	for (; !r && (from = find_leaver(step, path, to)); to = from)
		r = add_use(handed, from, to, path);
	return r;
}

/* --- steps that use one file --- */

static bool is_order_known(const struct shfs_handed *handed, const struct shfs_step *from,
                           const struct shfs_step *to)
{
	for (size_t i = 0; i < handed->n_uses; i++)
		if (handed->uses[i].to == to &&
		    handed->files[handed->uses[i].file].from == from)
			return true;
	for (size_t i = 0; i < handed->n_orders; i++)
		if (handed->orders[i].from == from && handed->orders[i].to == to)
			return true;
	return false;
}

static int add_order(struct shfs_handed *handed, const struct shfs_step *from,
                     const struct shfs_step *to)
{
	if (from == to || is_order_known(handed, from, to))
		return 0;
	if (!MAKE_ROOM(handed->orders, handed->n_orders, handed->cap_orders))
		return -ENOMEM;
	handed->orders[handed->n_orders++] = (struct shfs_handed_order){ from, to };
	return 0;
}

static bool is_touch_outside(const struct shfs_workflow *wf,
                             const struct shfs_touch *touch)
{
	return !touch->version_id && touch->kind != SHFS_TOUCH_TEMPORARY &&
	       !shfs_touch_is_directory(touch) &&
	       !shfs_path_relative(touch->path, wf->base);
}

static int compare_touches(const void *a, const void *b)
{
	const struct shfs_touch *s = *(struct shfs_touch *const *)a,
				*t = *(struct shfs_touch *const *)b;
	int r = strcmp(s->path, t->path);

	return r ? r : (s->step->id > t->step->id) - (s->step->id < t->step->id);
}

static int add_orders(struct shfs_handed *handed, const struct shfs_workflow *wf)
{
	_cleanup_free_ struct shfs_touch **touches =
		calloc(wf->n_touches + 1, sizeof(*touches));
	size_t n = 0;
	int r = touches ? 0 : -ENOMEM;

	for (size_t i = 0; i < wf->n_touches && !r; i++)
		if (is_touch_outside(wf, &wf->touches[i]))
			touches[n++] = &wf->touches[i];
	if (n)
		qsort(touches, n, sizeof(*touches), compare_touches);
	for (size_t i = 1; i < n && !r; i++)
		if (!strcmp(touches[i - 1]->path, touches[i]->path))
			r = add_order(handed, touches[i - 1]->step, touches[i]->step);
	return r;
}

int shfs_handed_find(const struct shfs_workflow *wf, struct shfs_handed *out)
{
	struct shfs_handed handed = { 0 };
	int r = 0;

	for (size_t i = 0; i < wf->n_steps; i++)
		for (size_t k = 0; k < wf->steps[i]->n_by_way && !r; k++)
			r = add_uses(&handed, wf->steps[i], wf->steps[i]->by_way[k].path);
	if (!r)
		r = add_orders(&handed, wf);
	if (r)
		shfs_handed_clear(&handed);
	else
		*out = handed;
	return r;
}
