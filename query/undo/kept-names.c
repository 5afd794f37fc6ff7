/* SPDX-License-Identifier: MIT */
#include "query/undo/kept-names.h"

#include "query/undo/others.h"
#include "query/undo/same.h"

#include <errno.h>
#include <fts.h>
#include <string.h>

/* Is it a file that had a name besides those that it lost, as far as its count says? */
static bool has_kept_name(const struct shfs_past_file *f)
{
	const struct shfs_undo_file *u = f->plan;

	return u && u->make && f->ino && S_ISREG(f->mode) && f->links > f->n_then;
}

struct search {
	struct shfs_undo_plan *plan;
	struct shfs_past_file **list; /* the files that are looked for */
	size_t n;
	struct shfs_past_file *root;
};

/* The directory at path, which is not moved. */
static struct shfs_past_file *find_directory(const struct shfs_undo_plan *p,
                                             const char *path)
{
	for (struct shfs_past_entry *e = p->past.entries; e; e = e->next)
		if (!shfs_undo_entry(e)->change && shfs_undo_entry(e)->path &&
		    !strcmp(shfs_undo_entry(e)->path, path))
			return e->then;
	return NULL;
}

static const struct shfs_past_entry *find_left_at(const struct shfs_undo_plan *p,
                                                  const char *path)
{
	for (struct shfs_past_entry *e = p->past.entries; e; e = e->next)
		if (e->left && shfs_undo_entry(e)->path &&
		    !strcmp(shfs_undo_entry(e)->path, path))
			return e;
	return NULL;
}

/* Did the other file hold that first? */
static bool held_first(const struct shfs_undo_file *other,
                       const struct shfs_version *held)
{
	return held->flags & SHFS_CONTENT_OBJECT &&
	       shfs_undo_is_object(&other->before, &held->object);
}

/* Makes two files one, if what is known of their contents says so: 1, or 0. The other one
 * was changed first when it held what f did, or by its name alone when f was gone. */
static int join_files(struct shfs_undo_plan *p, struct shfs_past_file *f,
                      struct shfs_past_file *other)
{
	struct shfs_undo_file *u = f->plan, *v = other->plan;
	int r;

	if (other->born_ns || !(other->changed & SHFS_PAST_CONTENT) || v->already ||
	    !(held_first(v, &u->before) ||
	      (f->changed & SHFS_PAST_CONTENT && held_first(v, &u->left))))
		return 0;
	r = shfs_past_unite(&p->past, other, f);
	if (!r)
		r = shfs_undo_load_versions(p, other, v);
	if (r)
		return r;
	u->make = false;
	shfs_undo_move_group(p, u->group, v->group);
	return 1;
}

/* Does the file at u->path hold what the file held, or what the commands left in it? The
 * latter is to be replaced. */
static int compare_kept(struct shfs_undo_plan *p, const struct shfs_past_file *f,
                        struct shfs_undo_file *u, bool *same)
{
	bool archived = true;
	int r = 0;

	*same = false;
	if (u->before.version_id)
		r = shfs_undo_compare_with(p, u, &u->before, same, &archived);
	u->already = *same;
	if (r || *same || !(f->changed & SHFS_PAST_CONTENT) || !u->left.version_id)
		return r;
	r = shfs_undo_compare_with(p, u, &u->left, same, &archived);
	if (r || !*same || archived || p->options->force)
		return r;
	return shfs_undo_add_reason(
		p, SHFS_UNDO_CANNOT, u->group, u->path,
		"its content is not archived, and would be lost (--force)", NULL);
}

static int find_file_id(struct shfs_index *index, const char *path, int64_t *file_id)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(index, "SELECT" SHFS_SQL_FILE_ID("?1"), path, &rows);

	*file_id = 0;
	if (!r && (r = shfs_rows_next(rows)) > 0)
		*file_id = shfs_rows_int(rows, 0);
	return MIN(r, 0);
}

/* The file has this name, too: it stays. */
static int take_name(struct shfs_undo_plan *p, struct shfs_past_file *f,
                     struct shfs_undo_file *u)
{
	bool between = false;
	int64_t file_id;
	int r;

	u->make = false;
	u->there = true;
	u->other_name = strdup(u->path);
	if (!u->other_name)
		return -ENOMEM;
	r = find_file_id(p->index, u->path, &file_id);
	if (!r && file_id)
		r = shfs_undo_find_others(p, file_id, f->first_seq, f->last_seq, u,
		                          &between);
	u->between |= between;
	return r;
}

/* The number of the lower file is that which a mount shows; the content decides, too. */
static int try_name(struct search *s, const FTSENT *entry)
{
	struct shfs_undo_plan *p = s->plan;
	const struct shfs_past_entry *e = NULL;

	for (size_t i = 0; i < s->n; i++) {
		struct shfs_past_file *f = s->list[i];
		struct shfs_undo_file *u = f->plan;
		bool same;
		int r = 0;

		if (f->ino != entry->fts_statp->st_ino || !u->make)
			continue;
		e = e ?: find_left_at(p, entry->fts_path);
		if (e && e->left != f)
			r = join_files(p, f, e->left);
		if (r < 0)
			return r;
		if (r)
			continue;
		u->path = strdup(entry->fts_path);
		if (!u->path)
			return -ENOMEM;
		u->root = s->root;
		u->st = *entry->fts_statp;
		r = compare_kept(p, f, u, &same);
		if (!r && same)
			r = take_name(p, f, u);
		else
			free(TAKE_PTR(u->path));
		if (r == -ENOMEM)
			return r; /* what cannot be read is not the file */
	}
	return 0;
}

static int search_below(struct search *s, char *root)
{
	char *paths[] = { root, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	FTSENT *entry;
	int r = fts ? 0 : -errno;

	while (!r && (entry = fts_read(fts)))
		if (entry->fts_info == FTS_F && entry->fts_statp->st_nlink)
			r = try_name(s, entry);
	if (fts)
		fts_close(fts);
	return r;
}

static int list_searched(struct search *s)
{
	size_t n = 0;

	for (struct shfs_past_file *f = s->plan->past.files; f; f = f->next)
		n += has_kept_name(f);
	s->list = calloc(n + 1, sizeof(*s->list));
	if (!s->list)
		return -ENOMEM;
	for (struct shfs_past_file *f = s->plan->past.files; f; f = f->next)
		if (has_kept_name(f))
			s->list[s->n++] = f;
	return 0;
}

/* Searches the project of a file, if it is not the one that was searched last. */
static int search_project_of(struct search *s, const struct shfs_undo_file *u)
{
	_cleanup_free_ char *root = NULL;
	struct shfs_past_file *directory;
	int r = u->before.version_id
	                ? shfs_version_root(s->plan->index, &u->before, &root)
	                : 0;

	directory = r > 0 ? find_directory(s->plan, root) : NULL;
	if (r < 0 || !directory || directory == s->root)
		return MIN(r, 0);
	s->root = directory;
	return search_below(s, root);
}

int shfs_undo_find_kept_names(struct shfs_undo_plan *p)
{
	struct search s = { .plan = p };
	int r = list_searched(&s);

	for (size_t i = 0; i < s.n && !r; i++) {
		struct shfs_undo_file *u = s.list[i]->plan;

		if (u->make && !u->other_name)
			r = search_project_of(&s, u);
		if (!r && u->make && !u->other_name)
			r = shfs_undo_add_reason(
				p, SHFS_UNDO_NOTE, u->group, u->then_path,
				"its other names are not found: it is a file of its own",
				NULL);
	}
	free(s.list);
	return r;
}
