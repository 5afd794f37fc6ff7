/* SPDX-License-Identifier: MIT */
/* fanotify: where a close belongs among the names. */
#include "kmod-fast-path/drivers/fanotify-internal.h"

#include "common/path.h"

#define TOUCHES_MAX 64

/* Had the process that changed the name ended before the closing process began? */
static bool ended_before_closer(struct shfs_driver *d, const struct fan_name *n,
                                const struct fan_closer *closer)
{
	bool sure;
	const struct shfs_life *life = shfs_connector_find(d->processes, n->pid, &sure);

	return life && sure && life->exit_ns && life->exit_ns < closer->start_ns;
}

/* Had the closing process ended before the process that changed the name began? */
static bool began_after_closer(struct shfs_driver *d, const struct fan_name *n,
                               const struct fan_closer *closer)
{
	bool sure;
	const struct shfs_life *life = shfs_connector_find(d->processes, n->pid, &sure);

	return life && sure && closer->exit_ns &&
	       closer->exit_ns < life->process.start_ns;
}

/* Collects the renames of the file and its new names, from index least on. */
static size_t collect_touches(const struct fan_object *object, size_t least,
                              const struct fan_name *touches[static TOUCHES_MAX])
{
	size_t count = 0;

	for (const struct fan_name *n = object->first; n && count < TOUCHES_MAX;
	     n = n->next)
		if (n->index >= least &&
		    (n->kind == FAN_NAME_RENAME || n->kind == FAN_NAME_CREATE))
			touches[count++] = n;
	return count;
}

/* Steps back over a change of a name of the file; false: the close came after it. */
static bool step_back(struct shfs_driver *d, const struct fan_name *n,
                      struct fan_closer *closer)
{
	_cleanup_free_ char *from = fan_names_then(d, n->where, n->name, n->index + 1);
	_cleanup_free_ char *to =
		n->dir2 ? fan_names_then(d, n->where2, n->name2, n->index + 1) : NULL;

	if (n->kind == FAN_NAME_CREATE)
		return from && strcmp(from, *closer->path);
	if (!from || !to || strcmp(to, *closer->path))
		return true;
	if (!fan_below(d, from) && !began_after_closer(d, n, closer))
		return false;
	free(*closer->path);
	*closer->path = TAKE_PTR(from);
	return true;
}

/* Steps a close back before a rename of a directory, if the file is in that directory. */
static bool step_back_dir(struct shfs_driver *d, const struct fan_name *dir,
                          struct fan_closer *closer, bool *exchanged)
{
	const char *rest;
	char *before;

	*exchanged = false;
	if (!dir->from || !dir->to || !shfs_path_is_below(*closer->path, dir->to))
		return true;
	if (ended_before_closer(d, dir, closer))
		return false;
	rest = shfs_path_relative(*closer->path, dir->to);
	before = shfs_path_join(dir->from, rest);
	if (!before || (!fan_below(d, before) && !began_after_closer(d, dir, closer))) {
		free(before);
		return false;
	}
	free(*closer->path);
	*closer->path = before;
	*exchanged = dir->exchanged;
	return true;
}

size_t fan_names_put(struct shfs_driver *d, const struct fan_object *object,
                     struct fan_closer *closer)
{
	const struct fan_name *touches[TOUCHES_MAX];
	size_t least = d->first_name, n_touches = 0, n_dirs = d->n_renamed_dirs;

	for (const struct fan_name *n = object ? object->first : NULL; n; n = n->next)
		if ((n->kind == FAN_NAME_CREATE && !n->is_link) ||
		    ended_before_closer(d, n, closer))
			least = n->index + 1;
	if (object)
		n_touches = collect_touches(object, least, touches);
	while (n_touches || n_dirs) {
		const struct fan_name *n = n_touches ? touches[n_touches - 1] : NULL;
		const struct fan_name *dir = n_dirs ? d->renamed_dirs[n_dirs - 1] : NULL;
		bool exchanged;

		if (dir && dir->index < least) {
			n_dirs = 0;
		} else if (n && (!dir || n->index > dir->index)) {
			if (!step_back(d, n, closer))
				return n->index + 1;
			n_touches--;
		} else {
			if (!step_back_dir(d, dir, closer, &exchanged))
				return dir->index + 1;
			n_dirs -= 1 + (exchanged && n_dirs > 1);
		}
	}
	return least;
}
