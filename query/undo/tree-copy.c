/* SPDX-License-Identifier: MIT */
#include "query/undo/tree-copy.h"

#include "common/clock.h"
#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A file with several names: where the copy has the first of them. */
struct name {
	uint64_t key[2]; /* of what is there now dev and ino; else 0 and the past file */
	char *to;
	bool missing;
	UT_hash_handle hh;
};

/* Attributes of a directory, which are set when all is in it. */
struct directory {
	struct shfs_tree_status status;
	char *to;
};

/* A name that a file has lost, while it may have kept another: that comes first, as all
 * of its attributes are known. */
struct later {
	struct shfs_tree_node node;
	char *to;
};

struct work {
	struct shfs_tree_copy *copy;
	const struct shfs_tree *tree;
	struct name *names;
	struct directory *directories;
	size_t n_directories, cap_directories;
	const char *to; /* of the directory that is listed */
	struct later *later;
	size_t n_later, cap_later;
	bool is_late;
};

static int add_gap(struct work *w, const char *path, bool missing, const char *why)
{
	struct shfs_tree_copy *c = w->copy;
	struct shfs_tree_copy_gap *gap;

	if (!MAKE_ROOM(c->gaps, c->n_gaps, c->cap_gaps))
		return -ENOMEM;
	gap = &c->gaps[c->n_gaps++];
	*gap = (struct shfs_tree_copy_gap){ strdup(path), strdup(why), missing };
	return gap->path && gap->why ? 0 : -ENOMEM;
}

/* --- attributes --- */

static int add_attributes(struct work *w, const struct shfs_tree_status *status,
                          const char *to)
{
	const struct stat *st = &status->st;
	struct shfs_step *s = shfs_steps_add(w->copy->steps, SHFS_STEP_ATTRIBUTES, to,
	                                     NULL, NULL, NULL);

	if (!s)
		return -ENOMEM;
	s->what = SHFS_STEP_TIME;
	s->mode = st->st_mode;
	s->uid = st->st_uid;
	s->gid = st->st_gid;
	s->mtime_ns = shfs_timespec_ns(st->st_mtim);
	if (!(status->unknown & SHFS_PAST_MODE) || st->st_mode & 07777)
		s->what |= SHFS_STEP_MODE;
	if (!(status->unknown & SHFS_PAST_OWNER))
		s->what |= SHFS_STEP_OWNER;
	if (!s->mtime_ns)
		s->what &= ~(uint32_t)SHFS_STEP_TIME;
	return 0;
}

struct xattr_arg {
	struct work *w;
	const char *to;
};

static int add_xattr(const char *name, const void *value, size_t len, void *arg)
{
	struct xattr_arg *a = arg;
	struct shfs_step *s = shfs_steps_add(a->w->copy->steps, SHFS_STEP_XATTR, a->to,
	                                     NULL, NULL, name);

	if (!s)
		return -ENOMEM;
	s->what = SHFS_STEP_VALUE;
	shfs_buf_add(&s->value, value, len);
	return s->value.failed ? -ENOMEM : 0;
}

static int note_unknown(struct work *w, const struct shfs_tree_node *node,
                        const struct shfs_tree_status *status)
{
	_cleanup_buf_ struct shfs_buf why = { 0 };
	uint32_t unknown = status->unknown & ~(uint32_t)SHFS_PAST_CONTENT;

	if (S_ISLNK(status->st.st_mode))
		unknown &= ~(uint32_t)(SHFS_PAST_MODE | SHFS_PAST_XATTRS);
	if (!unknown)
		return 0;
	shfs_past_show_unknown(&why, unknown);
	if (why.failed)
		return -ENOMEM;
	return add_gap(w, node->path, false, why.data);
}

static int note_not_given(struct work *w, const struct shfs_tree_node *node,
                          const struct stat *st)
{
	int r = 0;

	if (!S_ISLNK(st->st_mode) &&
	    st->st_mode & (S_ISDIR(st->st_mode) ? S_ISUID : S_ISUID | S_ISGID))
		r = add_gap(w, node->path, false, "its set-id bits are not put back");
	if (!r && geteuid() && st->st_uid != geteuid())
		r = add_gap(w, node->path, false, "its owner cannot be put back");
	return r;
}

/* --- one file --- */

static int add_making(struct work *w, const struct shfs_tree_status *status,
                      const char *to, struct shfs_step **out)
{
	struct shfs_step *s = shfs_steps_add(w->copy->steps, SHFS_STEP_MAKE, to, NULL,
	                                     NULL, status->text);

	if (!s)
		return -ENOMEM;
	s->mode = status->st.st_mode;
	s->rdev = status->st.st_rdev;
	*out = s;
	return 0;
}

/* 1; 0: it is not made, and that is said. */
static int make_regular(struct work *w, const struct shfs_tree_node *node,
                        const struct shfs_tree_status *status, const char *to)
{
	_cleanup_tree_content_ struct shfs_tree_content content = { 0 };
	struct shfs_step *s;
	int r = shfs_tree_content(w->tree, node, &content);

	if (r)
		return r;
	if (content.where == SHFS_TREE_NOT_KEPT ||
	    content.where == SHFS_TREE_NOT_RECORDED)
		return add_gap(w, node->path, true, content.why);
	if (content.where == SHFS_TREE_NOW &&
	    faccessat(AT_FDCWD, node->now, R_OK, AT_EACCESS))
		return add_gap(w, node->path, true, strerror(errno));
	r = add_making(w, status, to, &s);
	if (r)
		return r;
	w->copy->n_files++;
	if (content.where == SHFS_TREE_OBJECT) {
		s->what |= SHFS_STEP_OBJECT;
		s->object = content.version.object;
	} else if (content.where == SHFS_TREE_NOW) {
		s->what |= SHFS_STEP_FROM;
		s->path3 = strdup(node->now);
	}
	return content.where == SHFS_TREE_NOW && !s->path3 ? -ENOMEM : 1;
}

static int make_other(struct work *w, const struct shfs_tree_node *node,
                      const struct shfs_tree_status *status, const char *to)
{
	uint32_t type = status->st.st_mode & S_IFMT;
	struct shfs_step *s;
	int r;

	if (!type)
		return add_gap(w, node->path, true, "what it was is not recorded");
	if (type == S_IFLNK && !status->text)
		return add_gap(w, node->path, true, "what the link said is not recorded");
	if ((type == S_IFCHR || type == S_IFBLK) && geteuid())
		return add_gap(w, node->path, true, "only root can make a device");
	r = add_making(w, status, to, &s);
	w->copy->n_others += !r;
	return r ? r : 1;
}

/* Finds another name of the file that was copied: *found; else notes this one. NULL: it
 * has no others. */
static int find_name(struct work *w, const struct shfs_tree_node *node,
                     const struct stat *st, const char *to, struct name **out,
                     bool *found)
{
	uint64_t key[2] = { st->st_dev, st->st_ino };
	struct name *n;

	*out = NULL;
	if (node->file && !node->file->left) {
		key[0] = 0;
		key[1] = (uintptr_t)node->file;
	}
	HASH_FIND(hh, w->names, key, sizeof(key), n);
	*out = n;
	*found = n;
	if (n)
		return 0;
	if (key[0] && st->st_nlink < 2 && !(node->file && node->file->n_then > 1))
		return 0;
	n = calloc(1, sizeof(*n));
	if (!n || !(n->to = strdup(to))) {
		free(n);
		return -ENOMEM;
	}
	memcpy(n->key, key, sizeof(key));
	HASH_ADD(hh, w->names, key, sizeof(n->key), n);
	*out = n;
	if (n->hh.tbl)
		return 0;
	free(n->to);
	free(n);
	return -ENOMEM;
}

static bool may_have_kept_name(const struct shfs_tree_node *node)
{
	return !node->now && node->file->links > node->file->n_then;
}

static int copy_later(struct work *w, const struct shfs_tree_node *node, const char *to)
{
	struct later *l;

	if (!MAKE_ROOM(w->later, w->n_later, w->cap_later))
		return -ENOMEM;
	l = &w->later[w->n_later++];
	*l = (struct later){ { node->file, strdup(node->path), NULL }, strdup(to) };
	return l->node.path && l->to ? 0 : -ENOMEM;
}

static int copy_file(struct work *w, const struct shfs_tree_node *node,
                     const struct shfs_tree_status *status, const char *to)
{
	struct xattr_arg arg = { w, to };
	struct name *name;
	bool found;
	int r = find_name(w, node, &status->st, to, &name, &found);

	if (r)
		return r;
	if (found && name->missing)
		return add_gap(w, node->path, true, "nor is its other name there");
	if (found)
		return shfs_steps_add(w->copy->steps, SHFS_STEP_LINK, name->to, to, NULL,
		                      NULL)
		               ? 0
		               : -ENOMEM;
	r = S_ISREG(status->st.st_mode) ? make_regular(w, node, status, to)
	                                : make_other(w, node, status, to);
	if (name)
		name->missing = !r;
	if (r <= 0)
		return r;
	r = note_unknown(w, node, status);
	if (!r)
		r = note_not_given(w, node, &status->st);
	if (!r && !S_ISLNK(status->st.st_mode))
		r = shfs_tree_xattrs(w->tree, node, add_xattr, &arg);
	return r ? r : add_attributes(w, status, to);
}

/* --- directories --- */

static int copy_node(struct work *w, const struct shfs_tree_node *node, const char *to);

static int copy_child(const char *name, struct shfs_tree_node *node, void *arg)
{
	struct work *w = arg;
	_cleanup_free_ char *to = NULL;

	if (!w->copy->git && !strcmp(name, ".git")) {
		w->copy->without_git = true;
		return 0;
	}
	to = shfs_path_join(w->to, name);
	return to ? copy_node(w, node, to) : -ENOMEM;
}

/* Takes over status. */
static int keep_directory(struct work *w, struct shfs_tree_status *status, const char *to)
{
	struct directory *d;

	if (!MAKE_ROOM(w->directories, w->n_directories, w->cap_directories))
		return -ENOMEM;
	d = &w->directories[w->n_directories];
	d->to = strdup(to);
	if (!d->to)
		return -ENOMEM;
	d->status = *status;
	*status = (struct shfs_tree_status){ 0 };
	w->n_directories++;
	return 0;
}

static int copy_directory(struct work *w, const struct shfs_tree_node *node,
                          struct shfs_tree_status *status, const char *to)
{
	struct xattr_arg arg = { w, to };
	const char *above = w->to;
	int r = shfs_steps_add(w->copy->steps, SHFS_STEP_MKDIR, to, NULL, NULL, NULL)
	                ? note_unknown(w, node, status)
	                : -ENOMEM;

	w->copy->n_directories++;
	w->to = to;
	if (!r)
		r = note_not_given(w, node, &status->st);
	if (!r)
		r = shfs_tree_list(w->tree, node, copy_child, w);
	w->to = above;
	/* an ACL for new files is set when all are there */
	if (!r)
		r = shfs_tree_xattrs(w->tree, node, add_xattr, &arg);
	return r ? r : keep_directory(w, status, to);
}

static int copy_node(struct work *w, const struct shfs_tree_node *node, const char *to)
{
	_cleanup_tree_status_ struct shfs_tree_status status = { 0 };
	int r = shfs_tree_status(w->tree, node, &status);

	if (r == -ENOENT || r == -ENOTDIR) /* it has gone meanwhile */
		return add_gap(w, node->path, true, strerror(-r));
	if (r)
		return r;
	if (S_ISDIR(status.st.st_mode))
		return copy_directory(w, node, &status, to);
	return may_have_kept_name(node) && !w->is_late ? copy_later(w, node, to)
	                                               : copy_file(w, node, &status, to);
}

/* Makes missing directories above path. */
static int make_above(struct work *w, const char *path)
{
	_cleanup_free_ char *above = strdup(path);
	char *slash;
	int r;

	if (!above)
		return -ENOMEM;
	slash = strrchr(above, '/');
	if (slash == above)
		return 0;
	*slash = '\0';
	if (!access(above, F_OK))
		return 0;
	r = make_above(w, above);
	return r || shfs_steps_add(w->copy->steps, SHFS_STEP_MKDIR, above, NULL, NULL,
	                           NULL)
	               ? r
	               : -ENOMEM;
}

int shfs_tree_copy_arrange(struct shfs_tree_copy *copy, const struct shfs_tree *tree,
                           const char *path, const char *to)
{
	struct work w = { .copy = copy, .tree = tree };
	struct name *n, *next;
	_cleanup_tree_node_ struct shfs_tree_node node = { 0 };
	int r = shfs_tree_find(tree, path, &node);

	if (!r)
		r = make_above(&w, to);
	if (!r)
		r = copy_node(&w, &node, to);
	w.is_late = true;
	for (size_t i = 0; i < w.n_later && !r; i++)
		r = copy_node(&w, &w.later[i].node, w.later[i].to);
	copy->steps->commit = copy->steps->n;
	/* those in a directory come before it */
	for (size_t i = 0; i < w.n_directories && !r; i++)
		r = add_attributes(&w, &w.directories[i].status, w.directories[i].to);
	for (size_t i = 0; i < w.n_directories; i++) {
		shfs_tree_status_clear(&w.directories[i].status);
		free(w.directories[i].to);
	}
	free(w.directories);
	for (size_t i = 0; i < w.n_later; i++) {
		shfs_tree_node_clear(&w.later[i].node);
		free(w.later[i].to);
	}
	free(w.later);
	HASH_ITER (hh, w.names, n, next) {
		HASH_DEL(w.names, n);
		free(n->to);
		free(n);
	}
	return r;
}

void shfs_tree_copy_clear(struct shfs_tree_copy *copy)
{
	for (size_t i = 0; i < copy->n_gaps; i++) {
		free(copy->gaps[i].path);
		free(copy->gaps[i].why);
	}
	free(copy->gaps);
	*copy = (struct shfs_tree_copy){ 0 };
}
