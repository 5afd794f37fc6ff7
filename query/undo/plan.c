/* SPDX-License-Identifier: MIT */
#include "query/undo/plan.h"

#include "common/clock.h"
#include "common/io.h"
#include "common/path.h"
#include "common/quote.h"
#include "query/base/trusted.h"
#include "query/undo/kept-names.h"
#include "query/undo/merge.h"
#include "query/undo/others.h"
#include "query/undo/same.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define ATTRIBUTES (SHFS_PAST_MODE | SHFS_PAST_OWNER | SHFS_PAST_TIME | SHFS_PAST_XATTRS)

static bool is_left_to_git(const char *path, bool git)
{
	return shfs_path_is_version_control(path) &&
	       (!git || strstr(path, "/.git/objects/"));
}

bool shfs_undo_may_touch(const struct shfs_effect *e, bool git)
{
	return shfs_path_is_here(e->path) && !is_left_to_git(e->path, git) &&
	       (!e->file2_id || !is_left_to_git(e->path2, git));
}

/* --- groups --- */

static size_t root_of(const struct shfs_undo_plan *p, size_t group)
{
	while (p->groups[group] != group)
		group = p->groups[group];
	return group;
}

static int new_group(struct shfs_undo_plan *p, size_t *out)
{
	if (!MAKE_ROOM(p->groups, p->n_groups, p->cap_groups))
		return -ENOMEM;
	*out = p->n_groups;
	p->groups[p->n_groups] = p->n_groups;
	p->n_groups++;
	return 0;
}

static void join_groups(struct shfs_undo_plan *p, size_t a, size_t b)
{
	p->groups[root_of(p, a)] = root_of(p, b);
}

void shfs_undo_move_group(struct shfs_undo_plan *p, size_t group, size_t to)
{
	size_t from = root_of(p, group), root = root_of(p, to);

	p->groups[from] = root;
	p->blocked[root] |= p->blocked[from];
	p->wanted[root] |= p->wanted[from];
}

bool shfs_undo_is_wanted(const struct shfs_undo_plan *p, size_t group)
{
	return p->wanted[root_of(p, group)];
}

bool shfs_undo_is_done(const struct shfs_undo_plan *p, size_t group)
{
	size_t root = root_of(p, group);

	return p->wanted[root] && !p->blocked[root];
}

int shfs_undo_add_reason(struct shfs_undo_plan *p, enum shfs_undo_verdict verdict,
                         size_t group, const char *path, const char *why,
                         const struct shfs_undo_file *by)
{
	struct shfs_undo_reason *reason;

	if (!MAKE_ROOM(p->reasons, p->n_reasons, p->cap_reasons))
		return -ENOMEM;
	reason = &p->reasons[p->n_reasons++];
	*reason = (struct shfs_undo_reason){
		.verdict = verdict,
		.group = group,
		.path = strdup(path ?: "/"),
		.why = strdup(why),
		.command_id = by ? by->other_command_id : 0,
		.process_id = by ? by->other_process_id : 0,
	};
	if (verdict != SHFS_UNDO_NOTE)
		p->blocked[root_of(p, group)] = true;
	return reason->path && reason->why ? 0 : -ENOMEM;
}

/* --- what there is to look at --- */

static int plan_file(struct shfs_undo_plan *p, struct shfs_past_file *f)
{
	struct shfs_undo_file *u;

	if (!f || f->plan)
		return 0;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	f->plan = u;
	return new_group(p, &u->group);
}

static int take_path(bool (*path_of)(const struct shfs_past_entry *, struct shfs_buf *),
                     const struct shfs_past_entry *entry, char **out)
{
	struct shfs_buf path = { 0 };

	if (!path_of(entry, &path)) {
		shfs_buf_free(&path);
		return 0;
	}
	*out = shfs_buf_take(&path);
	return *out ? 0 : -ENOMEM;
}

static int plan_entry(struct shfs_undo_plan *p, struct shfs_past_entry *e)
{
	struct shfs_undo_entry *u = calloc(1, sizeof(*u));
	struct shfs_undo_file *left, *then;
	int r;

	if (!u)
		return -ENOMEM;
	e->plan = u;
	u->change = e->left != e->then;
	r = new_group(p, &u->group);
	if (!r)
		r = plan_file(p, e->left);
	if (!r)
		r = plan_file(p, e->then);
	if (!r)
		r = plan_file(p, e->directory);
	if (!r)
		r = take_path(shfs_past_path_left, e, &u->path);
	if (!r)
		r = take_path(shfs_past_path_then, e, &u->then_path);
	if (r)
		return r;
	left = shfs_undo_file(e->left);
	then = shfs_undo_file(e->then);
	if (left && !left->path && u->path && !(left->path = strdup(u->path)))
		return -ENOMEM;
	if (then && !then->then_path && u->then_path &&
	    !(then->then_path = strdup(u->then_path)))
		return -ENOMEM;
	if (left && u->change)
		join_groups(p, left->group, u->group);
	if (then && u->change)
		join_groups(p, then->group, u->group);
	return 0;
}

static int plan_all(struct shfs_undo_plan *p)
{
	int r = 0;

	for (struct shfs_past_entry *e = p->past.entries; e && !r; e = e->next)
		r = plan_entry(p, e);
	if (r)
		return r;
	p->blocked = calloc(p->n_groups + 1, sizeof(*p->blocked));
	p->wanted = calloc(p->n_groups + 1, sizeof(*p->wanted));
	return p->blocked && p->wanted ? 0 : -ENOMEM;
}

/* --- what is there now --- */

int shfs_undo_look_at(const char *path, struct stat *st)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir =
		slash == path ? strdup("/") : strndup(path, slash - path);
	_cleanup_close_ int fd = -1;
	int r = dir ? shfs_trusted_directory(dir, (struct shfs_way){ .no_own = true },
	                                     &fd)
	            : -ENOMEM;

	if (!r && fstatat(fd, slash + 1, st, AT_SYMLINK_NOFOLLOW))
		r = -errno;
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r ? r : 1;
}

int shfs_undo_compare_with(struct shfs_undo_plan *p, struct shfs_undo_file *u,
                           const struct shfs_version *left, bool *same, bool *archived)
{
	_cleanup_buf_ struct shfs_buf content = { 0 };
	_cleanup_close_ int fd =
		open(u->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool by_times = (uint64_t)u->st.st_size == left->size &&
	                shfs_timespec_ns(u->st.st_mtim) == left->mtime_ns;
	int r = fd < 0 ? -errno
	               : shfs_read_fd(fd, shfs_config_archived_max(p->config), &content);

	if (r && r != -EACCES && r != -EFBIG)
		return r;
	if (!r)
		r = shfs_object_find(p->store, content.data ?: "", content.len, &u->now);
	u->now_known = r > 0;
	*archived = r > 0 || !u->st.st_size ||
	            (by_times && left->flags & SHFS_CONTENT_OBJECT);
	*same = !left->version_id ? !(u->others & SHFS_PAST_CONTENT)
	        : r > 0 && left->flags & SHFS_CONTENT_OBJECT
	                ? shfs_undo_is_object(left, &u->now)
	                : by_times;
	return r == -EACCES || r == -EFBIG ? 0 : MIN(r, 0);
}

static bool is_same_link(const struct shfs_past_file *f, const char *path)
{
	char text[PATH_MAX];
	ssize_t n = readlink(path, text, sizeof(text));

	return !f->left_text || (n >= 0 && strlen(f->left_text) == (size_t)n &&
	                         !memcmp(text, f->left_text, n));
}

/* --- one file --- */

/* Is its content lost, or replaced? */
static bool loses_content(const struct shfs_past_file *f)
{
	return !f->n_then || f->changed & SHFS_PAST_CONTENT;
}

int shfs_undo_load_versions(struct shfs_undo_plan *p, const struct shfs_past_file *f,
                            struct shfs_undo_file *u)
{
	int r = 0;

	shfs_version_clear(&u->before);
	shfs_version_clear(&u->left);
	u->before = u->left = (struct shfs_version){ 0 };
	if (f->n)
		r = shfs_version_load(p->index, f->file_id << 32 | f->n, &u->before);
	if (r >= 0 && f->left_n)
		r = shfs_version_load(p->index, f->left_file_id << 32 | f->left_n,
		                      &u->left);
	return MIN(r, 0);
}

/* A file that took the name of another, as most programs save: with that content it can
 * stay. Makes it so, for a merge. */
static bool can_stay(struct shfs_undo_plan *p, struct shfs_past_file *f, int *error)
{
	struct shfs_past_file *then = f->left->then;
	struct shfs_undo_file *u = f->plan, *v;

	if (f->n_then)
		return true;
	if (!then || then->left || then->n_then != 1 || !(S_ISREG(then->mode)))
		return false;
	v = then->plan;
	shfs_version_clear(&u->before);
	*error = shfs_undo_load_versions(p, then, v);
	v->make = false;
	u->before = v->before;
	v->before = (struct shfs_version){ 0 };
	shfs_past_keep(f);
	shfs_undo_entry(f->left)->change = false;
	return true;
}

static int check_content(struct shfs_undo_plan *p, struct shfs_past_file *f,
                         struct shfs_undo_file *u)
{
	bool same = true, archived = true;
	int r = 0;

	if (!S_ISREG(u->st.st_mode) || !loses_content(f))
		return 0;
	r = shfs_undo_compare_with(p, u, &u->left, &same, &archived);
	if (r)
		return shfs_undo_add_reason(p, SHFS_UNDO_CANNOT, u->group, u->path,
		                            strerror(-r), NULL);
	if (!same && f->n_then && u->before.version_id) {
		r = shfs_undo_compare_with(p, u, &u->before, &u->already, &archived);
		if (r || u->already)
			return r;
	}
	if (!same && p->options->merge && u->left.version_id && can_stay(p, f, &r)) {
		u->merge = true;
		return r;
	}
	if (!same && !p->all)
		return shfs_undo_add_reason(p, SHFS_UNDO_CONFLICT, u->group, u->path,
		                            "was changed since", u);
	if (!archived && !p->options->force)
		return shfs_undo_add_reason(
			p, SHFS_UNDO_CANNOT, u->group, u->path,
			"its content is not archived, and would be lost (--force)", NULL);
	return 0;
}

static const char *type_name(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return "is a directory now";
	case S_IFLNK:
		return "is a symbolic link now";
	case S_IFREG:
		return "is a file now";
	default:
		return "is something else now";
	}
}

static bool is_type_left(const struct shfs_past_file *f, const struct stat *st)
{
	if (f->left_n || f->left_text)
		return (st->st_mode & S_IFMT) == (f->left_text ? S_IFLNK : S_IFREG);
	return !(f->mode & S_IFMT) || (st->st_mode & S_IFMT) == (f->mode & S_IFMT);
}

static bool is_involved(const struct shfs_past_file *f)
{
	return f->changed || f->n_then != 1 || !f->left || f->then[0] != f->left;
}

static int check_there(struct shfs_undo_plan *p, struct shfs_past_file *f,
                       struct shfs_undo_file *u)
{
	int r = shfs_undo_look_at(u->path, &u->st);

	if (r < 0)
		return r;
	u->there = r;
	if (!r)
		return shfs_undo_add_reason(p, SHFS_UNDO_CONFLICT, u->group, u->path,
		                            "is gone", u);
	if (!is_type_left(f, &u->st) ||
	    (S_ISLNK(u->st.st_mode) && !is_same_link(f, u->path)))
		return shfs_undo_add_reason(p, SHFS_UNDO_CONFLICT, u->group, u->path,
		                            type_name(u->st.st_mode), u);
	return check_content(p, f, u);
}

/* Which attributes of a file that stays are to be put back. */
static int choose_attributes(struct shfs_undo_plan *p, struct shfs_past_file *f,
                             struct shfs_undo_file *u)
{
	const struct stat *st = &u->st;
	uint32_t others = shfs_undo_by_others(u), todo = f->changed & f->known & ~others;
	bool same = true;
	int r = 0;

	if (f->changed & SHFS_PAST_CONTENT && !u->already)
		u->todo |= SHFS_PAST_CONTENT;
	if (u->merge)
		todo &= ~(uint32_t)SHFS_PAST_TIME;
	if (S_ISDIR(st->st_mode) && shfs_timespec_ns(st->st_mtim) > f->last_ns)
		todo &= ~(uint32_t)SHFS_PAST_TIME;
	if (todo & SHFS_PAST_MODE && (f->mode & 07777) != (st->st_mode & 07777) &&
	    !S_ISLNK(st->st_mode))
		u->todo |= SHFS_PAST_MODE;
	if (todo & SHFS_PAST_OWNER && (f->uid != st->st_uid || f->gid != st->st_gid))
		u->todo |= SHFS_PAST_OWNER;
	/* what is done in a directory changes its time */
	if (todo & SHFS_PAST_TIME &&
	    (f->mtime_ns != shfs_timespec_ns(st->st_mtim) || S_ISDIR(st->st_mode) ||
	     u->todo & SHFS_PAST_CONTENT))
		u->todo |= SHFS_PAST_TIME;
	if (todo & SHFS_PAST_XATTRS)
		r = shfs_undo_compare_xattrs(f, u->path, &same);
	if (r)
		return r;
	if (!same)
		u->todo |= SHFS_PAST_XATTRS;
	others &= f->changed & (SHFS_PAST_MODE | SHFS_PAST_OWNER | SHFS_PAST_XATTRS);
	if (others)
		r = shfs_undo_add_reason(
			p, SHFS_UNDO_NOTE, u->group, u->path,
			others & SHFS_PAST_XATTRS
				? "its extended attributes were changed since"
			: others & SHFS_PAST_OWNER ? "its owner was changed since"
						   : "its mode was changed since",
			u);
	return r;
}

/* A sentence for what is not known, but for the times of directories. */
static int note_unknown(struct shfs_undo_plan *p, const struct shfs_past_file *f,
                        const struct shfs_undo_file *u, uint32_t wanted)
{
	uint32_t unknown = wanted & ~f->known & ~(uint32_t)SHFS_PAST_ENTRIES;
	struct shfs_buf why = { 0 };
	_cleanup_free_ char *text = NULL;

	if (S_ISDIR(f->mode) || f->changed & SHFS_PAST_ENTRIES)
		unknown &= ~(uint32_t)SHFS_PAST_TIME;
	if (S_ISLNK(f->mode))
		unknown &= ~(uint32_t)SHFS_PAST_MODE;
	if (!unknown)
		return 0;
	shfs_past_show_unknown(&why, unknown);
	text = shfs_buf_take(&why);
	return text ? shfs_undo_add_reason(p, SHFS_UNDO_NOTE, u->group,
	                                   u->then_path ?: u->path, text, NULL)
	            : -ENOMEM;
}

static int note_set_id(struct shfs_undo_plan *p, const struct shfs_past_file *f,
                       const struct shfs_undo_file *u)
{
	bool wanted = u->make ? f->known & SHFS_PAST_MODE : u->todo & SHFS_PAST_MODE;

	if (!wanted || !(f->mode & (S_ISDIR(f->mode) ? S_ISUID : S_ISUID | S_ISGID)))
		return 0;
	return shfs_undo_add_reason(p, SHFS_UNDO_NOTE, u->group, u->then_path ?: u->path,
	                            "its set-id bits are not put back", NULL);
}

static int check_owner(struct shfs_undo_plan *p, const struct shfs_past_file *f,
                       const struct shfs_undo_file *u)
{
	bool wanted = u->make ? f->known & SHFS_PAST_OWNER && f->uid != geteuid()
	                      : u->todo & SHFS_PAST_OWNER && u->st.st_uid != f->uid;

	if (!wanted || !geteuid())
		return 0;
	return shfs_undo_add_reason(p, SHFS_UNDO_NOTE, u->group, u->then_path ?: u->path,
	                            "its owner cannot be put back", NULL);
}

/* Can the former content be had? */
static int check_former(struct shfs_undo_plan *p, const struct shfs_past_file *f,
                        struct shfs_undo_file *u)
{
	const struct shfs_version *v = &u->before;
	const char *why = NULL;

	u->empty = v->version_id && !v->size;
	if (!v->version_id)
		why = f->writing ? "it was being written at that time"
		                 : "what it held is not recorded";
	else if (!(v->flags & SHFS_CONTENT_OBJECT) && !u->empty)
		why = shfs_version_why_not_archived(v->flags) ?: "not archived";
	return why ? shfs_undo_add_reason(p, SHFS_UNDO_CANNOT, u->group,
	                                  u->then_path ?: u->path, why, NULL)
	           : 0;
}

static int check_making(struct shfs_undo_plan *p, struct shfs_past_file *f,
                        struct shfs_undo_file *u)
{
	switch (f->mode & S_IFMT) {
	case S_IFREG:
		return check_former(p, f, u);
	case S_IFDIR:
	case S_IFIFO:
	case S_IFSOCK:
		return 0;
	case S_IFLNK:
		return f->text ? 0
		               : shfs_undo_add_reason(
					 p, SHFS_UNDO_CANNOT, u->group, u->then_path,
					 "what the link said is not recorded", NULL);
	case S_IFCHR:
	case S_IFBLK:
		return geteuid()
		               ? shfs_undo_add_reason(p, SHFS_UNDO_CANNOT, u->group,
		                                      u->then_path,
		                                      "only root can make a device", NULL)
		               : 0;
	default:
		return shfs_undo_add_reason(p, SHFS_UNDO_CANNOT, u->group, u->then_path,
		                            "what it was is not recorded", NULL);
	}
}

/* Can all of a file that stays be put back? */
static int check_stay(struct shfs_undo_plan *p, struct shfs_past_file *f,
                      struct shfs_undo_file *u)
{
	int r = choose_attributes(p, f, u);

	if (!r && u->between && f->changed & SHFS_PAST_CONTENT && !u->already)
		r = shfs_undo_add_reason(p, SHFS_UNDO_CONFLICT, u->group, u->path,
		                         "was changed in between, too", u);
	if (!r && u->todo & SHFS_PAST_CONTENT)
		r = check_former(p, f, u);
	return r ? r : note_unknown(p, f, u, f->changed & ~SHFS_PAST_CONTENT);
}

/* What a version says of a file of which nothing else does. */
static void take_version(struct shfs_past_file *f, const struct shfs_version *v)
{
	if (!(f->mode & S_IFMT))
		f->mode |= S_IFREG;
	if (f->known & SHFS_PAST_TIME)
		return;
	f->mtime_ns = v->mtime_ns;
	f->known |= SHFS_PAST_TIME;
}

/* Looks whether it is there as the commands left it; else it is to be made. */
static int look_for_file(struct shfs_undo_plan *p, struct shfs_past_file *f)
{
	struct shfs_undo_file *u = f->plan;
	int r = shfs_undo_load_versions(p, f, u);

	if (r || !is_involved(f))
		return r;
	if (f->touched_file_id)
		r = shfs_undo_find_others(p, f->touched_file_id, f->first_seq,
		                          f->last_seq, u, &u->between);
	if (!r && u->path)
		r = check_there(p, f, u);
	u->make = f->n_then && !u->path;
	if (u->make && u->before.version_id)
		take_version(f, &u->before);
	return r;
}

/* What is to be done with it, and can that be done? */
static int check_file(struct shfs_undo_plan *p, struct shfs_past_file *f)
{
	struct shfs_undo_file *u = f->plan;
	int r = 0;

	if (!is_involved(f) || !f->n_then)
		return 0;
	if (u->there)
		r = check_stay(p, f, u);
	else if (u->make)
		r = check_making(p, f, u) ?: note_unknown(p, f, u, ATTRIBUTES);
	if (!r)
		r = note_set_id(p, f, u);
	return r ? r : check_owner(p, f, u);
}

/* --- names of one file --- */

/* Both are one file, which was changed by two names: the earlier change counts. */
static void align_names(struct shfs_past_file *f, struct shfs_past_file *g)
{
	struct shfs_undo_file *u = f->plan, *v = g->plan;

	if (u->todo & v->todo & SHFS_PAST_TIME) {
		const int time = SHFS_PAST_BIT(SHFS_PAST_TIME);

		if (f->seqs[time] < g->seqs[time])
			g->mtime_ns = f->mtime_ns;
		else
			f->mtime_ns = g->mtime_ns;
	}
	if (u->todo & v->todo & SHFS_PAST_CONTENT)
		(f->first_seq < g->first_seq ? v : u)->todo &=
			~(uint32_t)SHFS_PAST_CONTENT;
}

static bool has_names(const struct shfs_past_file *f)
{
	const struct shfs_undo_file *u = f->plan;

	return u && u->there && u->todo && S_ISREG(u->st.st_mode) && u->st.st_nlink > 1;
}

static void align_all_names(struct shfs_undo_plan *p)
{
	for (struct shfs_past_file *f = p->past.files; f; f = f->next)
		for (struct shfs_past_file *g = has_names(f) ? f->next : NULL; g;
		     g = g->next)
			if (has_names(g) &&
			    shfs_undo_file(f)->st.st_ino ==
			            shfs_undo_file(g)->st.st_ino &&
			    shfs_undo_file(f)->st.st_dev == shfs_undo_file(g)->st.st_dev)
				align_names(f, g);
}

/* --- one name --- */

static void free_left_xattrs(struct shfs_undo_file *u)
{
	for (size_t i = 0; i < u->n_left_xattrs; i++) {
		free(u->left_xattrs[i].name);
		free(u->left_xattrs[i].value);
	}
	free(u->left_xattrs);
}

/* Nothing is expected at a name that is to be given back. */
static int check_free(struct shfs_undo_plan *p, struct shfs_past_entry *e)
{
	struct shfs_undo_entry *u = e->plan;
	_cleanup_(free_left_xattrs) struct shfs_undo_file by = { 0 };
	struct stat st;
	bool between;
	int r;

	if (!u->change || e->left || !u->path)
		return 0;
	r = shfs_undo_look_at(u->path, &st);
	if (r <= 0)
		return r;
	if (S_ISDIR(st.st_mode) && S_ISDIR(e->then->mode)) {
		u->adopt = true;
		return 0;
	}
	r = shfs_undo_find_others(p, e->file_id, e->last_seq, e->last_seq, &by, &between);
	return r ? r
	         : shfs_undo_add_reason(p, SHFS_UNDO_CONFLICT, u->group, u->path,
	                                "is there again", &by);
}

static int check_name(struct shfs_undo_plan *p, struct shfs_past_entry *e)
{
	struct shfs_undo_entry *u = e->plan;
	_cleanup_(free_left_xattrs) struct shfs_undo_file by = { 0 };
	bool between;
	int r;

	if (!u->change)
		return 0;
	if (!e->doubt)
		return check_free(p, e);
	r = shfs_undo_find_others(p, e->file_id, e->first_seq, e->last_seq, &by,
	                          &between);
	return r ? r
	         : shfs_undo_add_reason(
			   p, SHFS_UNDO_CONFLICT, u->group, u->path ?: u->then_path,
			   by.others ? "was changed in between, too"
				     : "what is recorded of it does not fit together",
			   &by);
}

/* --- directories that are removed, and those that are not made --- */

static struct shfs_past_entry *find_left(const struct shfs_undo_plan *p,
                                         const struct shfs_past_file *dir,
                                         const char *name)
{
	_cleanup_buf_ struct shfs_buf key = { 0 };
	struct shfs_past_entry *e = NULL;

	shfs_buf_add(&key, (const char *)&dir, sizeof(dir));
	shfs_buf_str(&key, name);
	if (!key.failed)
		HASH_FIND(hh, p->past.table, key.data, key.len, e);
	return e && e->left ? e : NULL;
}

/* Is there a file in the directory that stays? Its name is in *name. */
static int holds_more(struct shfs_undo_plan *p, const struct shfs_past_file *dir,
                      char name[static 256])
{
	const struct shfs_undo_file *u = dir->plan;
	DIR *d = opendir(u->path);
	const struct dirent *de;
	int r = 0, more = 0;

	if (!d)
		return 0; /* it will be seen */
	while (!more && (de = shfs_readdir(d, &r))) {
		const struct shfs_past_entry *e;

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		e = find_left(p, dir, de->d_name);
		more = !e || !shfs_undo_entry(e)->change || e->then ||
		       !shfs_undo_is_done(p, shfs_undo_entry(e)->group);
		if (more)
			snprintf(name, 256, "%s", de->d_name);
	}
	closedir(d);
	return r ? r : more;
}

static int check_removal(struct shfs_undo_plan *p, const struct shfs_past_entry *e,
                         bool *again)
{
	const struct shfs_undo_entry *u = e->plan;
	const struct shfs_undo_file *dir = shfs_undo_file(e->left);
	_cleanup_buf_ struct shfs_buf why = { 0 };
	char name[256];
	int r;

	if (!u->change || !e->left || e->left->n_then || !dir->there ||
	    !S_ISDIR(dir->st.st_mode) || !shfs_undo_is_done(p, u->group))
		return 0;
	r = holds_more(p, e->left, name);
	if (r <= 0)
		return r;
	shfs_buf_str(&why, "holds ");
	shfs_quote_display(&why, name, strlen(name));
	*again = true;
	return why.failed ? -ENOMEM
	                  : shfs_undo_add_reason(p, SHFS_UNDO_CONFLICT, u->group, u->path,
	                                         why.data, NULL);
}

/* A name cannot be given back where its directory is not. */
static int check_directory(struct shfs_undo_plan *p, const struct shfs_past_entry *e,
                           bool *again)
{
	const struct shfs_undo_entry *u = e->plan;
	const struct shfs_past_file *dir = shfs_past_real(e->directory);
	const struct shfs_undo_file *d = dir->plan;

	if (!u->change || !e->then || !shfs_undo_is_done(p, u->group) || !dir->n_then)
		return 0;
	if (d->there || (d->path && !is_involved(dir)) || shfs_undo_is_done(p, d->group))
		return 0;
	*again = true;
	return shfs_undo_add_reason(p, SHFS_UNDO_CONFLICT, u->group,
	                            u->then_path ?: u->path,
	                            "its directory is not put back", NULL);
}

static int check_directories(struct shfs_undo_plan *p)
{
	bool again = true;
	int r = 0;

	while (again && !r) {
		again = false;
		for (struct shfs_past_entry *e = p->past.entries; e && !r; e = e->next) {
			r = check_removal(p, e, &again);
			if (!r)
				r = check_directory(p, e, &again);
		}
	}
	return r;
}

/* --- all of it --- */

static bool is_asked(const struct shfs_undo_plan *p, const char *path)
{
	for (size_t i = 0; i < p->options->n_paths && path; i++)
		if (shfs_path_is_below(path, p->options->paths[i]))
			return true;
	return !p->options->n_paths;
}

/* Wants the directories, too, that are to be made for it. */
static void choose_directories(struct shfs_undo_plan *p, const struct shfs_past_entry *e)
{
	const struct shfs_past_file *dir = shfs_past_real(e->directory);

	while (e->then && dir->n_then && !dir->left) {
		e = dir->then[0];
		p->wanted[root_of(p, shfs_undo_entry(e)->group)] = true;
		dir = shfs_past_real(e->directory);
	}
}

/* Wants the groups of which something lies at the paths that were asked for. */
static void choose_groups(struct shfs_undo_plan *p)
{
	for (const struct shfs_past_entry *e = p->past.entries; e; e = e->next) {
		const struct shfs_undo_entry *u = e->plan;

		if (!is_asked(p, u->path) && !is_asked(p, u->then_path))
			continue;
		p->wanted[root_of(p, u->group)] = true;
		if (u->change)
			choose_directories(p, e);
		if (e->left)
			p->wanted[root_of(p, shfs_undo_file(e->left)->group)] = true;
		if (e->then)
			p->wanted[root_of(p, shfs_undo_file(e->then)->group)] = true;
	}
	p->wanted[root_of(p, shfs_undo_file(p->past.root)->group)] = true;
}

static int check_all(struct shfs_undo_plan *p)
{
	int r = 0;

	for (struct shfs_past_file *f = p->past.files; f && !r; f = f->next)
		if (f->plan)
			r = look_for_file(p, f);
	for (struct shfs_past_entry *e = p->past.entries; e && !r; e = e->next)
		r = check_name(p, e);
	if (!r)
		r = shfs_undo_find_kept_names(p);
	for (struct shfs_past_file *f = p->past.files; f && !r; f = f->next)
		if (f->plan)
			r = check_file(p, f);
	align_all_names(p);
	if (!r)
		r = shfs_undo_merge(p);
	return r ? r : check_directories(p);
}

int shfs_undo_plan(struct shfs_undo_plan *p, const struct shfs_effects *effects)
{
	int r = shfs_past_walk(&p->past, effects);

	if (!r && p->all)
		r = shfs_past_unite_directories(&p->past);
	if (!r && p->options->stay)
		r = shfs_past_keep_added(&p->past);
	if (!r)
		r = plan_file(p, p->past.root);
	if (!r)
		r = plan_all(p);
	if (r)
		return r;
	if (p->all)
		r = shfs_undo_keep_same_files(p);
	if (r)
		return r;
	choose_groups(p);
	return check_all(p);
}

void shfs_undo_plan_clear(struct shfs_undo_plan *p)
{
	for (struct shfs_past_entry *e = p->past.entries; e; e = e->next) {
		struct shfs_undo_entry *u = e->plan;

		if (u) {
			free(u->path);
			free(u->then_path);
		}
		free(TAKE_PTR(e->plan));
	}
	for (struct shfs_past_file *f = p->past.files; f; f = f->next) {
		struct shfs_undo_file *u = f->plan;

		if (u) {
			free(u->path);
			free(u->then_path);
			shfs_version_clear(&u->before);
			shfs_version_clear(&u->left);
			shfs_buf_free(&u->merged);
			free(u->other_name);
			free_left_xattrs(u);
		}
		free(TAKE_PTR(f->plan));
	}
	for (size_t i = 0; i < p->n_reasons; i++) {
		free(p->reasons[i].path);
		free(p->reasons[i].why);
	}
	free(p->reasons);
	free(p->groups);
	free(p->blocked);
	free(p->wanted);
	shfs_past_clear(&p->past);
}
