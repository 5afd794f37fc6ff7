/* SPDX-License-Identifier: MIT */
/*
 * Adds the names that a command looked up and did not open. A file of which only the
 * name, the size or the time was asked for has to be there; nobody recorded its content,
 * and it is taken as it lies there now. A link is as it was then.
 */
#include "query/bundle/closure.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define ONLY_SEEN_MAX (16 << 20) /* bytes */

/* The lookups of one path stand together, NOTHING first. */
static size_t count_same(const struct shfs_lookups_list *l, size_t at)
{
	size_t n = 1;

	while (at + n < l->n && !strcmp(l->list[at].path, l->list[at + n].path))
		n++;
	return n;
}

/* Adds a link as it was. */
static int add_recorded_link(struct shfs_closure *c, const struct shfs_looked_up *one)
{
	_cleanup_free_ char *place = NULL;
	int r = closure_place(c, one->path, &place);

	if (!r)
		r = closure_add_link(c, place, one->text);
	return r == -ELOOP || r == -ENOENT ? 0 : r;
}

/* Adds all links: before other paths, which lead through them. */
static int add_recorded_links(struct shfs_closure *c, const struct shfs_lookups_list *l)
{
	int r = 0;

	for (size_t i = 0, n; i < l->n && !r; i += n) {
		const struct shfs_looked_up *last;

		n = count_same(l, i);
		last = &l->list[i + n - 1];
		/* what was not there before a step has made */
		if (last->found == SHFS_FOUND_TEXT &&
		    l->list[i].found != SHFS_FOUND_NOTHING &&
		    !closure_is_of_kernel(last->path) &&
		    !shfs_closure_is_made(c, last->path))
			r = add_recorded_link(c, last);
	}
	return r;
}

/* Adds a file that was only seen. must: it is of this command. */
static int add_seen_file(struct shfs_closure *c, const char *path, bool must)
{
	struct stat st;

	if (!stat(path, &st) && S_ISREG(st.st_mode) && st.st_size > ONLY_SEEN_MAX)
		return must ? closure_add_missing(c, path,
		                                  "was only looked at, is large, and is "
		                                  "left out")
		            : 0;
	return MIN(closure_add_disk(c, path, must), 0);
}

static int add_seen_directory(struct shfs_closure *c, const char *path)
{
	_cleanup_free_ char *place = NULL;
	int r = closure_walk(c, path, &place);

	if (!r)
		r = shfs_closure_add_directory(c, place);
	return r == -ELOOP || r == -ENOENT ? 0 : r;
}

static int add_one(struct shfs_closure *c, const struct shfs_looked_up *one, bool must)
{
	switch (one->found) {
	case SHFS_FOUND_FILE:
		return add_seen_file(c, one->path, must);
	case SHFS_FOUND_DIRECTORY:
	case SHFS_FOUND_NAMES:
		return add_seen_directory(c, one->path);
	case SHFS_FOUND_OTHER:
		return must ? closure_add_missing(c, one->path,
		                                  "is no file with a content, and is "
		                                  "left out")
		            : 0;
	default:
		return 0;
	}
}

static int add_all(struct shfs_closure *c, const struct shfs_lookups_list *l,
                   struct shfs_closure_path *used, bool must)
{
	int r = 0;

	for (size_t i = 0, n; i < l->n && !r; i += n) {
		const struct shfs_looked_up *one = &l->list[i];

		n = count_same(l, i);
		if (one->found == SHFS_FOUND_NOTHING ||
		    closure_has_path(used, one->path) ||
		    closure_is_of_kernel(one->path) || shfs_closure_is_made(c, one->path))
			continue;
		for (size_t k = 0; k < n && !r; k++)
			r = add_one(c, one + k, must);
	}
	return r;
}

/* Notes the paths that the command used: they are in the closure, or missing, by that
 * use, and not by having been looked up. */
static int note_used(struct shfs_closure_path **set, const struct shfs_uses *uses)
{
	int r = 0;

	for (size_t i = 0; i < uses->n && r >= 0; i++)
		if (!uses->list[i].directory || uses->list[i].kind != SHFS_USE_READ)
			r = closure_note_path(set, uses->list[i].path);
	for (size_t i = 0; i < uses->n_temporary && r >= 0; i++)
		r = closure_note_path(set, uses->temporary[i].path);
	return MIN(r, 0);
}

int closure_begin_lookups(struct shfs_closure *c, const struct shfs_step *step,
                          struct closure_lookups *l)
{
	const int64_t id = step->entry->command.command_id;
	int r = shfs_lookups_load(c->wf->index, id, false, &l->own);

	if (!r)
		r = shfs_lookups_load(c->wf->index, id, true, &l->all);
	if (r)
		return r;
	c->guesses |= !l->own.n && !l->all.n;
	r = add_recorded_links(c, &l->own);
	return r ? r : add_recorded_links(c, &l->all);
}

int closure_add_lookups(struct shfs_closure *c, const struct closure_lookups *l,
                        const struct shfs_uses *uses)
{
	struct shfs_closure_path *used = NULL;
	int r = note_used(&used, uses);

	if (!r)
		r = add_all(c, &l->own, used, true);
	if (!r)
		r = add_all(c, &l->all, used, false);
	closure_free_paths(&used);
	return r;
}

void closure_clear_lookups(struct closure_lookups *l)
{
	shfs_lookups_clear(&l->own);
	shfs_lookups_clear(&l->all);
}
