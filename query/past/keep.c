/* SPDX-License-Identifier: MIT */
/* Lets something of what the changes left stay as it is (past.h). */
#include "query/past/past.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void shfs_past_keep(struct shfs_past_file *f)
{
	struct shfs_past_entry *entry = f->left;
	struct shfs_past_file *other = entry->then;

	/* it has no name before: it gets the other's list of them */
	free(f->then);
	f->then = TAKE_PTR(other->then);
	f->n_then = other->n_then;
	f->cap_then = other->cap_then;
	other->n_then = other->cap_then = 0;
	entry->then = f;
	f->changed = SHFS_PAST_CONTENT | SHFS_PAST_MODE | SHFS_PAST_OWNER;
	f->known = other->known;
	f->mode = other->mode;
	f->uid = other->uid;
	f->gid = other->gid;
}

/* Has it a name that the changes left alone? */
static bool has_kept_name(const struct shfs_past_file *f)
{
	for (size_t i = 0; i < f->n_then; i++)
		if (f->then[i]->left == f)
			return true;
	return false;
}

/* A name that nothing was known of gets a file. */
static void note_moved(struct shfs_past_entry *to, const struct shfs_past_entry *from)
{
	to->first_seq = from->first_seq;
	to->last_seq = from->last_seq;
	to->file_id = from->file_id;
}

static bool is_born_directory(const struct shfs_past_file *f)
{
	return f && f->born_ns && S_ISDIR(f->mode);
}

/* What was left in one directory was left in the other. */
static int take_left(struct shfs_past *p, const struct shfs_past_file *from,
                     struct shfs_past_file *to)
{
	int r = 0;

	for (struct shfs_past_entry *e = p->entries; e && !r; e = e->next) {
		struct shfs_past_entry *target;
		bool fresh;

		if (e->directory != from || !e->left)
			continue;
		r = shfs_past_get_entry(p, to, e->name, strlen(e->name), &target, &fresh);
		if (r)
			return r;
		if (fresh)
			note_moved(target, e);
		target->last_seq = MAX(target->last_seq, e->last_seq);
		target->left = e->left;
		if (e->left->left == e)
			e->left->left = target;
		if (e->then == e->left)
			r = shfs_past_set_then(target, e->then)
			            ?: shfs_past_set_then(e, NULL);
		e->left = NULL;
	}
	return r;
}

int shfs_past_unite_directories(struct shfs_past *p)
{
	bool again = true;
	int r = 0;

	while (again && !r) {
		again = false;
		for (struct shfs_past_entry *e = p->entries; e && !r; e = e->next) {
			struct shfs_past_file *born = e->left, *f = e->then;

			if (!is_born_directory(born) || born->n_then || !f || f->left ||
			    !S_ISDIR(f->mode) || f->n_then != 1)
				continue;
			again = true;
			e->left = f;
			f->left = e;
			f->changed |= SHFS_PAST_MODE | SHFS_PAST_OWNER | SHFS_PAST_TIME |
			              SHFS_PAST_ENTRIES;
			if (f->all_xattrs)
				f->changed |= SHFS_PAST_XATTRS;
			f->last_ns = MAX(f->last_ns, born->last_ns);
			r = take_left(p, born, f);
		}
	}
	return r;
}

static int move_added(struct shfs_past *p, const struct shfs_past_file *from,
                      struct shfs_past_file *to);

/* What was added to a directory that another one takes the place of. */
static int move_one_added(struct shfs_past *p, struct shfs_past_entry *e,
                          struct shfs_past_file *to)
{
	struct shfs_past_entry *target;
	bool fresh;
	int r = shfs_past_get_entry(p, to, e->name, strlen(e->name), &target, &fresh);

	if (r)
		return r;
	if (fresh)
		note_moved(target, e);
	if (!target->then && !target->left) {
		e->left->changed = 0;
		e->superseded = true;
		return shfs_past_set_then(target, e->left);
	}
	/* without then, another file moves away from here: both names cannot stay */
	e->superseded = target->then != NULL;
	if (is_born_directory(e->left) && target->then && S_ISDIR(target->then->mode))
		return move_added(p, e->left, target->then);
	return 0;
}

static int move_added(struct shfs_past *p, const struct shfs_past_file *from,
                      struct shfs_past_file *to)
{
	int r = 0;

	for (struct shfs_past_entry *e = p->entries; e && !r; e = e->next)
		if (e->directory == from && e->left && e->left->born_ns && !e->then)
			r = move_one_added(p, e, to);
	return r;
}

int shfs_past_keep_added(struct shfs_past *p)
{
	int r = 0;

	for (struct shfs_past_entry *e = p->entries; e && !r; e = e->next)
		if (is_born_directory(e->left) && e->then && e->then != e->left &&
		    S_ISDIR(e->then->mode))
			r = move_added(p, e->left, e->then);
	for (struct shfs_past_entry *e = p->entries; e && !r; e = e->next) {
		struct shfs_past_file *f = e->left;

		if (!f || e->then || e->superseded || (!f->born_ns && !has_kept_name(f)))
			continue;
		if (f->born_ns)
			f->changed = 0;
		r = shfs_past_set_then(e, f);
	}
	return r;
}
