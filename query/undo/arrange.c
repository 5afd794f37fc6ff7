/* SPDX-License-Identifier: MIT */
/*
 * The order of the steps:
 *
 * 1. Directories in which nothing may be changed are opened for their owner.
 * 2. Contents of files that stay are replaced, under the names that they have now, or
 *    overwritten, for which a file that may not be written is opened, too.
 * 3. What is at a name that another file gets is moved aside, in its directory.
 * 4. Names are given back, those of directories before what is in them.
 * 5. Attributes of files.
 * 6. The commit. What is not needed any more is removed, that in directories first.
 * 7. Attributes of directories, as all of the former changes their times.
 */
#include "query/undo/arrange.h"

#include "common/clock.h"
#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OLD_MAX (1 << 28) /* bytes of a content that are noted, if it is not archived */

/* A name, by its directory: that may be moved meanwhile. */
struct kept {
	const struct shfs_past_file *directory;
	char name[40];
};

struct work {
	struct shfs_undo_plan *plan;
	struct shfs_steps *steps;
	uint64_t number; /* in the names of temporary files */
	struct kept *kept;
	size_t n_kept, cap_kept;
	struct shfs_past_entry **entries; /* that are changed */
	size_t n;
};

static bool is_done(const struct work *w, const struct shfs_past_file *f)
{
	return shfs_undo_is_done(w->plan, shfs_undo_file(f)->group);
}

/* --- where things are at this point --- */

static bool add_path(const struct shfs_past_file *dir, struct shfs_buf *out);

static void add_name(const struct shfs_past_file *dir, const char *name,
                     struct shfs_buf *out)
{
	add_path(dir, out);
	shfs_buf_char(out, '/');
	shfs_buf_str(out, name);
}

/* Where the file is that was left at this name. */
static void add_left(const struct shfs_past_entry *e, struct shfs_buf *out)
{
	const struct shfs_undo_entry *u = e->plan;

	add_name(shfs_past_real(e->directory), u->aside[0] ? u->aside : e->name, out);
}

static bool add_path(const struct shfs_past_file *dir, struct shfs_buf *out)
{
	const struct shfs_undo_file *u = dir->plan;

	if (u->placed)
		add_name(shfs_past_real(u->placed->directory), u->placed->name, out);
	else if (dir->left)
		add_left(dir->left, out);
	return true;
}

static char *path_of(const struct shfs_past_file *dir, const char *name)
{
	struct shfs_buf out = { 0 };

	add_name(dir, name, &out);
	return shfs_buf_take(&out);
}

static char *path_left(const struct shfs_past_entry *e)
{
	struct shfs_buf out = { 0 };

	add_left(e, &out);
	return shfs_buf_take(&out);
}

static char *path_of_file(const struct shfs_past_file *f)
{
	struct shfs_buf out = { 0 };

	add_path(f, &out);
	return shfs_buf_take(&out);
}

static void name_temporary(struct work *w, char out[static 40])
{
	snprintf(out, 40, SHFS_STEP_TMP "%016llx", (unsigned long long)w->number++);
}

static int keep_for_removal(struct work *w, const struct shfs_past_file *dir,
                            const char *name)
{
	struct kept *k;

	if (!MAKE_ROOM(w->kept, w->n_kept, w->cap_kept))
		return -ENOMEM;
	k = &w->kept[w->n_kept++];
	k->directory = dir;
	snprintf(k->name, sizeof(k->name), "%s", name);
	return 0;
}

static int add_step(struct work *w, enum shfs_step_kind kind, const char *path,
                    const char *path2, struct shfs_step **out)
{
	struct shfs_step *s =
		path ? shfs_steps_add(w->steps, kind, path, path2, NULL, NULL) : NULL;

	if (out)
		*out = s;
	return s ? 0 : -ENOMEM;
}

/* --- attributes --- */

/* Notes the status that a file has now, for going back. */
static void set_old(struct shfs_step *s, const struct stat *st)
{
	s->old_mode = st->st_mode;
	s->old_uid = st->st_uid;
	s->old_gid = st->st_gid;
	s->old_mtime_ns = shfs_timespec_ns(st->st_mtim);
}

/* What its owner has to be allowed. */
static uint32_t mode_opened(const struct stat *st)
{
	return S_ISDIR(st->st_mode) ? 0700 : 0600;
}

static int add_attributes(struct work *w, const struct shfs_past_file *f,
                          const char *path, uint32_t what)
{
	const struct shfs_undo_file *u = f->plan;
	struct shfs_step *s;

	if (!what)
		return 0;
	if (add_step(w, SHFS_STEP_ATTRIBUTES, path, NULL, &s))
		return -ENOMEM;
	s->what = what;
	s->mode = f->mode;
	s->uid = f->uid;
	s->gid = f->gid;
	s->mtime_ns = f->mtime_ns;
	if (u->there)
		set_old(s, &u->st);
	if (u->opened)
		s->old_mode |= mode_opened(&u->st);
	return 0;
}

/* Something at path that its owner may not write is opened for that, until its mode is
 * set again. */
static int open_for_writing(struct work *w, struct shfs_undo_file *u, const char *path)
{
	uint32_t mode = mode_opened(&u->st);
	struct shfs_step *s;

	if (!geteuid() || !u->there || u->opened || (u->st.st_mode & mode) == mode)
		return 0;
	if (add_step(w, SHFS_STEP_ATTRIBUTES, path, NULL, &s))
		return -ENOMEM;
	set_old(s, &u->st);
	s->what = SHFS_STEP_MODE;
	s->mode = u->st.st_mode | mode;
	u->opened = true;
	return 0;
}

static int read_old_value(const struct shfs_undo_file *u, const char *name,
                          struct shfs_step *s)
{
	ssize_t n = u->there ? lgetxattr(u->path, name, NULL, 0) : -1;

	if (n < 0)
		return 0;
	shfs_buf_reserve(&s->old_value, (size_t)n);
	if (s->old_value.failed)
		return -ENOMEM;
	n = lgetxattr(u->path, name, s->old_value.data, (size_t)n);
	if (n < 0)
		return 0;
	s->old_value.len += (size_t)n;
	s->what |= SHFS_STEP_OLD_VALUE;
	return 0;
}

static int add_xattrs(struct work *w, const struct shfs_past_file *f, const char *path)
{
	for (size_t i = 0; i < f->n_xattrs; i++) {
		const struct shfs_past_xattr *x = &f->xattrs[i];
		struct shfs_step *s = shfs_steps_add(w->steps, SHFS_STEP_XATTR, path,
		                                     NULL, NULL, x->name);

		if (!s)
			return -ENOMEM;
		if (x->value)
			s->what |= SHFS_STEP_VALUE;
		shfs_buf_add(&s->value, x->value ?: "", x->len);
		if (s->value.failed || read_old_value(f->plan, x->name, s))
			return -ENOMEM;
	}
	return 0;
}

static int add_all_attributes(struct work *w, const struct shfs_past_file *f)
{
	struct shfs_undo_file *u = f->plan;
	uint32_t todo = u->make ? f->known & ~(uint32_t)SHFS_PAST_CONTENT : u->todo;
	_cleanup_free_ char *path = path_of_file(f);
	uint32_t rest = 0;
	int r = path ? 0 : -ENOMEM;

	if (todo & SHFS_PAST_TIME)
		rest |= SHFS_STEP_TIME;
	if (!r && todo & SHFS_PAST_OWNER)
		r = add_attributes(w, f, path, SHFS_STEP_OWNER);
	if (!r && todo & SHFS_PAST_XATTRS)
		r = open_for_writing(w, u, path) ?: add_xattrs(w, f, path);
	if (todo & SHFS_PAST_MODE || u->opened)
		rest |= SHFS_STEP_MODE;
	/* an owner or an ACL changes the mode */
	if (!r && todo & (SHFS_PAST_OWNER | SHFS_PAST_XATTRS) &&
	    (f->known & SHFS_PAST_MODE) && (u->make || f->changed & SHFS_PAST_MODE))
		rest |= SHFS_STEP_MODE;
	if (!r)
		r = add_attributes(w, f, path, rest);
	/* one that others have set stays */
	if (!r && rest & SHFS_STEP_MODE && u->there && !(todo & SHFS_PAST_MODE))
		w->steps->list[w->steps->n - 1].mode = u->st.st_mode;
	return r;
}

static bool is_directory(const struct shfs_past_file *f)
{
	const struct shfs_undo_file *u = f->plan;

	return S_ISDIR(u->there ? u->st.st_mode : f->mode);
}

static int set_file_attributes(struct work *w)
{
	int r = 0;

	for (struct shfs_past_file *f = w->plan->past.files; f && !r; f = f->next)
		if (f->plan && f->n_then && !is_directory(f) && is_done(w, f) &&
		    (shfs_undo_file(f)->make || shfs_undo_file(f)->todo))
			r = add_all_attributes(w, f);
	return r;
}

static int compare_depth(const void *a, const void *b)
{
	const struct shfs_undo_file *x = (*(struct shfs_past_file *const *)a)->plan,
				    *y = (*(struct shfs_past_file *const *)b)->plan;

	/* what is in a directory has a longer path */
	return (strlen(x->order) < strlen(y->order)) -
	       (strlen(x->order) > strlen(y->order));
}

/* A directory in which a content was replaced, and nothing else was changed, keeps its
 * time. */
static int keep_time(struct work *w, const struct shfs_past_file *f)
{
	const struct shfs_undo_file *u = f->plan;
	_cleanup_free_ char *path = path_of_file(f);
	struct shfs_step *s;

	if (add_step(w, SHFS_STEP_ATTRIBUTES, path, NULL, &s))
		return -ENOMEM;
	s->what = SHFS_STEP_TIME;
	s->mtime_ns = u->own_mtime_ns;
	return 0;
}

static int set_directory_attributes(struct work *w)
{
	_cleanup_free_ struct shfs_past_file **list = NULL;
	size_t n = 0;
	int r = 0;

	for (struct shfs_past_file *f = w->plan->past.files; f; f = f->next)
		n += f->plan != NULL;
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	n = 0;
	for (struct shfs_past_file *f = w->plan->past.files; f; f = f->next) {
		struct shfs_undo_file *u = f->plan;

		if (!u || !f->n_then)
			continue;
		u->order = u->then_path ?: u->path ?: "";
		if (u->own_mtime_ns || (is_directory(f) && is_done(w, f) &&
		                        (u->make || u->todo || u->opened)))
			list[n++] = f;
	}
	qsort(list, n, sizeof(struct shfs_past_file *), compare_depth);
	for (size_t i = 0; i < n && !r; i++) {
		const struct shfs_undo_file *u = list[i]->plan;

		r = is_done(w, list[i]) && (u->make || u->todo || u->opened)
		            ? add_all_attributes(w, list[i])
		            : 0;
		if (!r && u->own_mtime_ns && !(u->todo & SHFS_PAST_TIME))
			r = keep_time(w, list[i]);
	}
	return r;
}

/* --- directories that are closed --- */

/* The first steps are the last that are taken back: they leave the time as it was. */
static int open_directory(struct work *w, struct shfs_past_file *dir)
{
	struct shfs_undo_file *u = dir->plan;
	_cleanup_free_ char *path = path_of_file(dir);
	struct shfs_step *s;
	struct stat st;

	if (u->guarded || !path || !*path)
		return path ? 0 : -ENOMEM;
	u->guarded = true;
	if (lstat(path, &st) || !S_ISDIR(st.st_mode))
		return 0;
	if (add_step(w, SHFS_STEP_ATTRIBUTES, path, NULL, &s))
		return -ENOMEM;
	s->what = SHFS_STEP_TIME;
	s->mtime_ns = shfs_timespec_ns(st.st_mtim);
	set_old(s, &st);
	if ((st.st_mode & 0700) == 0700)
		return 0;
	s->what |= SHFS_STEP_MODE;
	s->mode = st.st_mode | 0700;
	u->opened = u->there;
	return 0;
}

static int open_directories(struct work *w)
{
	int r = 0;

	for (size_t i = 0; i < w->n && !r; i++)
		r = open_directory(w, shfs_past_real(w->entries[i]->directory));
	return r;
}

/* --- contents of files that stay --- */

static void set_content(struct shfs_step *s, const struct shfs_undo_file *u)
{
	if (u->merge) {
		s->what |= SHFS_STEP_BYTES;
		shfs_buf_add(&s->value, u->merged.data ?: "", u->merged.len);
	} else if (u->before.flags & SHFS_CONTENT_OBJECT) {
		s->what |= SHFS_STEP_OBJECT;
		s->object = u->before.object;
	}
}

/* Notes what the file holds, for going back: an object, or the bytes. */
static int set_old_content(struct shfs_step *s, const struct shfs_undo_file *u)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (u->now_known || (!u->merge && u->left.flags & SHFS_CONTENT_OBJECT)) {
		s->what |= SHFS_STEP_OLD_OBJECT;
		s->old_object = u->now_known ? u->now : u->left.object;
		return 0;
	}
	fd = open(u->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	r = fd < 0 ? -errno : shfs_read_fd(fd, OLD_MAX, &s->old_value);
	if (!r || u->merge)
		return r;
	shfs_buf_free(&s->old_value); /* --force gives it up */
	return 0;
}

/* A file with several names keeps them: it is overwritten. */
static int overwrite_content(struct work *w, const struct shfs_past_file *f)
{
	struct shfs_undo_file *u = f->plan;
	struct shfs_step *s;

	if (open_for_writing(w, u, u->path) ||
	    add_step(w, SHFS_STEP_OVERWRITE, u->path, NULL, &s))
		return -ENOMEM;
	set_old(s, &u->st);
	set_content(s, u);
	return s->value.failed ? -ENOMEM : set_old_content(s, u);
}

static int note_own_time(struct shfs_past_file *dir)
{
	struct shfs_undo_file *u = dir->plan;
	_cleanup_free_ char *path = path_of_file(dir);
	struct stat st;

	if (!path)
		return -ENOMEM;
	if (dir->n_then && !(dir->changed & SHFS_PAST_ENTRIES) && !lstat(path, &st))
		u->own_mtime_ns = shfs_timespec_ns(st.st_mtim);
	return 0;
}

static int replace_content(struct work *w, const struct shfs_past_file *f)
{
	const struct shfs_undo_file *u = f->plan;
	struct shfs_past_file *dir = shfs_past_real(f->left->directory);
	_cleanup_free_ char *tmp = NULL, *kept = NULL;
	char tmp_name[40], kept_name[40];
	struct shfs_step *s;

	if (note_own_time(dir) || open_directory(w, dir))
		return -ENOMEM;
	name_temporary(w, tmp_name);
	name_temporary(w, kept_name);
	tmp = path_of(dir, tmp_name);
	kept = path_of(dir, kept_name);
	if (!tmp || !kept || add_step(w, SHFS_STEP_MAKE, tmp, u->path, &s))
		return -ENOMEM;
	s->what = SHFS_STEP_LIKE;
	s->mode = S_IFREG;
	set_content(s, u);
	if (s->value.failed ||
	    !shfs_steps_add(w->steps, SHFS_STEP_REPLACE, tmp, u->path, kept, NULL))
		return -ENOMEM;
	return keep_for_removal(w, dir, kept_name);
}

static int put_contents(struct work *w)
{
	int r = 0;

	for (struct shfs_past_file *f = w->plan->past.files; f && !r; f = f->next) {
		const struct shfs_undo_file *u = f->plan;

		if (!u || !u->there || !(u->todo & SHFS_PAST_CONTENT) || !is_done(w, f) ||
		    !f->n_then)
			continue;
		r = u->st.st_nlink > 1 || u->other_name ? overwrite_content(w, f)
		                                        : replace_content(w, f);
	}
	return r;
}

/* Files that have lost a name, and kept one that may move with a directory, get one in
 * the project's directory for a moment. */
static int keep_names(struct work *w)
{
	for (struct shfs_past_file *f = w->plan->past.files; f; f = f->next) {
		struct shfs_undo_file *u = f->plan;
		_cleanup_free_ char *path = NULL;

		if (!u || !u->other_name || !f->n_then || !is_done(w, f))
			continue;
		if (note_own_time(u->root) || open_directory(w, u->root))
			return -ENOMEM;
		name_temporary(w, u->kept);
		path = path_of(u->root, u->kept);
		if (!path || add_step(w, SHFS_STEP_LINK, u->other_name, path, NULL))
			return -ENOMEM;
	}
	return 0;
}

/* --- names --- */

static int set_making(struct shfs_step *s, const struct shfs_past_file *f)
{
	const struct shfs_undo_file *u = f->plan;

	s->mode = f->mode;
	s->rdev = f->rdev;
	if (S_ISREG(f->mode))
		set_content(s, u);
	if (S_ISLNK(f->mode) && !(s->text = strdup(f->text)))
		return -ENOMEM;
	return 0;
}

/* Can a new file take the place of one that is not needed, at once? */
static bool is_replacing(const struct shfs_past_entry *e)
{
	return !e->left->n_then && !is_directory(e->left) &&
	       shfs_undo_file(e->then)->make && !is_directory(e->then) &&
	       e->then->n_then == 1;
}

static int replace_file(struct work *w, struct shfs_past_entry *e)
{
	struct shfs_undo_entry *u = e->plan;
	const struct shfs_past_file *dir = shfs_past_real(e->directory);
	_cleanup_free_ char *path = path_left(e), *tmp = NULL, *kept = NULL;
	char name[40];
	struct shfs_step *s;

	name_temporary(w, name);
	name_temporary(w, u->aside);
	tmp = path_of(dir, name);
	kept = path_of(dir, u->aside);
	if (!path || !kept || add_step(w, SHFS_STEP_MAKE, tmp, NULL, &s) ||
	    set_making(s, e->then) ||
	    !shfs_steps_add(w->steps, SHFS_STEP_REPLACE, tmp, path, kept, NULL))
		return -ENOMEM;
	shfs_undo_file(e->then)->placed = e;
	return 0;
}

static int move_aside(struct work *w, struct shfs_past_entry *e)
{
	struct shfs_undo_entry *u = e->plan;
	_cleanup_free_ char *path = path_left(e), *aside = NULL;

	name_temporary(w, u->aside);
	aside = path_of(shfs_past_real(e->directory), u->aside);
	return path && aside ? add_step(w, SHFS_STEP_MOVE, path, aside, NULL) : -ENOMEM;
}

static int make_room(struct work *w)
{
	int r = 0;

	for (size_t i = 0; i < w->n && !r; i++) {
		struct shfs_past_entry *e = w->entries[i];

		if (e->left && e->then)
			r = is_replacing(e) ? replace_file(w, e) : move_aside(w, e);
	}
	return r;
}

/* A name that the file keeps, or has got back. */
static const struct shfs_past_entry *name_in_place(const struct shfs_past_file *f)
{
	const struct shfs_undo_file *u = f->plan;

	if (u->placed)
		return u->placed;
	for (size_t i = 0; i < f->n_then; i++)
		if (f->then[i]->left == f)
			return f->then[i];
	return NULL;
}

/* A name that the file has now, and is not to have. */
static struct shfs_past_entry *name_to_give_up(const struct work *w,
                                               const struct shfs_past_file *f)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->entries[i]->left == f && !shfs_undo_entry(w->entries[i])->moved)
			return w->entries[i];
	return NULL;
}

static int give_back_name(struct work *w, struct shfs_past_entry *e)
{
	const struct shfs_past_file *dir = shfs_past_real(e->directory);
	struct shfs_past_file *f = e->then;
	struct shfs_undo_file *u = f->plan;
	const struct shfs_past_entry *there = name_in_place(f);
	_cleanup_free_ char *path = path_of(dir, e->name), *from = NULL;
	struct shfs_past_entry *old = NULL;
	struct shfs_step *s;
	int r;

	if (shfs_undo_entry(e)->adopt) {
		u->placed = e;
		return 0;
	}
	if (there == e)
		return 0;
	if (there) {
		from = path_of(shfs_past_real(there->directory), there->name);
		r = from && path ? add_step(w, SHFS_STEP_LINK, from, path, NULL)
		                 : -ENOMEM;
	} else if (u->kept[0]) {
		from = path_of(u->root, u->kept);
		r = from && path ? add_step(w, SHFS_STEP_MOVE, from, path, NULL)
		                 : -ENOMEM;
	} else if (u->make && is_directory(f)) {
		r = add_step(w, SHFS_STEP_MKDIR, path, NULL, NULL);
	} else if (u->make) {
		r = add_step(w, SHFS_STEP_MAKE, path, NULL, &s) ?: set_making(s, f);
	} else {
		old = name_to_give_up(w, f);
		from = old ? path_left(old) : NULL;
		r = from && path ? add_step(w, SHFS_STEP_MOVE, from, path, NULL)
		                 : -ENOMEM;
		if (old)
			shfs_undo_entry(old)->moved = true;
	}
	if (!there)
		u->placed = e;
	return r;
}

static int compare_then(const void *a, const void *b)
{
	const struct shfs_undo_entry *x = (*(struct shfs_past_entry *const *)a)->plan,
				     *y = (*(struct shfs_past_entry *const *)b)->plan;
	size_t n = strlen(x->then_path ?: ""), m = strlen(y->then_path ?: "");

	return (n > m) - (n < m);
}

static int give_back_names(struct work *w)
{
	int r = 0;

	qsort(w->entries, w->n, sizeof(struct shfs_past_entry *), compare_then);
	for (size_t i = 0; i < w->n && !r; i++)
		if (w->entries[i]->then)
			r = give_back_name(w, w->entries[i]);
	return r;
}

/* --- what is not needed any more --- */

static int compare_left(const void *a, const void *b)
{
	const struct shfs_undo_entry *x = (*(struct shfs_past_entry *const *)a)->plan,
				     *y = (*(struct shfs_past_entry *const *)b)->plan;
	size_t n = strlen(x->path ?: ""), m = strlen(y->path ?: "");

	return (n < m) - (n > m);
}

static int remove_rest(struct work *w)
{
	int r = 0;

	for (size_t i = 0; i < w->n_kept && !r; i++) {
		_cleanup_free_ char *path =
			path_of(w->kept[i].directory, w->kept[i].name);

		r = add_step(w, SHFS_STEP_REMOVE, path, NULL, NULL);
	}
	qsort(w->entries, w->n, sizeof(struct shfs_past_entry *), compare_left);
	for (size_t i = 0; i < w->n && !r; i++) {
		const struct shfs_past_entry *e = w->entries[i];
		_cleanup_free_ char *path = NULL;

		if (!e->left || shfs_undo_entry(e)->moved)
			continue;
		path = path_left(e);
		r = add_step(w,
		             is_directory(e->left) ? SHFS_STEP_RMDIR : SHFS_STEP_REMOVE,
		             path, NULL, NULL);
	}
	return r;
}

static int choose_entries(struct work *w)
{
	size_t n = 0;

	for (struct shfs_past_entry *e = w->plan->past.entries; e; e = e->next)
		n++;
	w->entries = calloc(n + 1, sizeof(struct shfs_past_entry *));
	if (!w->entries)
		return -ENOMEM;
	for (struct shfs_past_entry *e = w->plan->past.entries; e; e = e->next)
		if (shfs_undo_entry(e)->change &&
		    shfs_undo_is_done(w->plan, shfs_undo_entry(e)->group))
			w->entries[w->n++] = e;
	return 0;
}

int shfs_undo_arrange(struct shfs_undo_plan *plan, struct shfs_steps *out)
{
	struct work w = { .plan = plan, .steps = out };
	int r = getrandom(&w.number, sizeof(w.number), 0) == sizeof(w.number) ? 0 : -EIO;

	w.number &= ~0xfffffffULL;
	if (!r)
		r = choose_entries(&w);
	if (!r)
		r = open_directories(&w);
	if (!r)
		r = put_contents(&w);
	if (!r)
		r = keep_names(&w);
	if (!r)
		r = make_room(&w);
	if (!r)
		r = give_back_names(&w);
	if (!r)
		r = set_file_attributes(&w);
	out->commit = out->n;
	if (!r)
		r = remove_rest(&w);
	if (!r)
		r = set_directory_attributes(&w);
	free(w.entries);
	free(w.kept);
	return r;
}
