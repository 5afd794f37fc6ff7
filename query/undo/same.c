/* SPDX-License-Identifier: MIT */
#include "query/undo/same.h"

#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

bool shfs_undo_is_object(const struct shfs_version *v, const struct shfs_object_id *id)
{
	return v->flags & SHFS_CONTENT_OBJECT &&
	       !memcmp(id->hash, v->object.hash, sizeof(id->hash)) &&
	       id->nth == v->object.nth;
}

/* Notes attributes that the file has now and had not, to be removed. */
static int add_new_xattrs(struct shfs_past_file *f, const char *path)
{
	_cleanup_free_ char *names = malloc(XATTR_LIST_MAX);
	ssize_t len = names ? llistxattr(path, names, XATTR_LIST_MAX) : -1;
	int r = names ? 0 : -ENOMEM;

	for (const char *name = names; !r && name < names + MAX(len, 0);
	     name += strlen(name) + 1)
		if (!shfs_past_find_xattr(f, name))
			r = shfs_past_no_xattr(f, name);
	return r;
}

int shfs_undo_compare_xattrs(struct shfs_past_file *f, const char *path, bool *same)
{
	_cleanup_free_ char *value = malloc(XATTR_SIZE_MAX);
	int r = value ? 0 : -ENOMEM;

	if (!r && f->all_xattrs)
		r = add_new_xattrs(f, path);
	*same = true;
	for (size_t i = 0; i < f->n_xattrs && !r && *same; i++) {
		const struct shfs_past_xattr *x = &f->xattrs[i];
		ssize_t size = lgetxattr(path, x->name, value, XATTR_SIZE_MAX);

		*same = x->value ? size == (ssize_t)x->len &&
		                           !memcmp(value, x->value, x->len)
		                 : size < 0 && errno != EACCES;
	}
	return r;
}

/* Does the file that was made at the name of f hold what f held? */
static int is_as_it_was(struct shfs_undo_plan *p, const struct shfs_past_file *f,
                        struct shfs_undo_file *there, bool *same)
{
	struct shfs_undo_file *u = f->plan;
	bool archived;
	int r;

	*same = false;
	if ((there->st.st_mode & S_IFMT) != (f->mode & S_IFMT) ||
	    (S_ISREG(f->mode) && there->st.st_nlink > 1))
		return 0;
	if (S_ISLNK(f->mode)) {
		char text[PATH_MAX];
		ssize_t n = readlink(there->path, text, sizeof(text));

		*same = f->text && n == (ssize_t)strlen(f->text) &&
		        !memcmp(text, f->text, n);
		return 0;
	}
	if (!S_ISREG(f->mode))
		return 0;
	r = shfs_undo_load_versions(p, f, u);
	if (!r && u->before.version_id && u->before.size == (uint64_t)there->st.st_size)
		r = shfs_undo_compare_with(p, there, &u->before, same, &archived);
	*same &= !r;
	return r == -ENOMEM ? r : 0;
}

/* Lets the file that was made stay; its attributes are to be those of the other. */
static void keep_file(struct shfs_past_entry *e)
{
	struct shfs_past_file *made = e->left, *f = e->then;

	shfs_past_keep(made);
	made->changed = SHFS_PAST_MODE | SHFS_PAST_OWNER | SHFS_PAST_TIME;
	made->mtime_ns = f->mtime_ns;
	if (f->all_xattrs && !S_ISLNK(f->mode)) {
		made->changed |= SHFS_PAST_XATTRS;
		shfs_past_take_xattrs(made, f);
	}
	shfs_undo_entry(e)->change = false;
}

int shfs_undo_keep_same_files(struct shfs_undo_plan *p)
{
	int r = 0;

	for (struct shfs_past_entry *e = p->past.entries; e && !r; e = e->next) {
		const struct shfs_past_file *f = e->then;
		struct shfs_undo_file *u = e->left ? e->left->plan : NULL;
		bool same;

		if (!u || !f || e->left == f || !e->left->born_ns || e->left->n_then ||
		    e->left->left != e || f->left || f->n_then != 1 || f->links > 1 ||
		    !u->path)
			continue;
		r = shfs_undo_look_at(u->path, &u->st);
		if (r <= 0)
			continue;
		r = is_as_it_was(p, f, u, &same);
		if (!r && same)
			keep_file(e);
	}
	return r;
}
