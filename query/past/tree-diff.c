/* SPDX-License-Identifier: MIT */
#include "query/past/tree-diff.h"

#include "common/clock.h"
#include "common/quote.h"
#include "query/base/time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TROUBLE 2

struct work {
	struct shfs_store *store;
	const struct shfs_tree *tree[2];
	const struct shfs_diff_options *options;
	bool git; /* root is in .git */
	bool different, trouble;
};

/* A file at one time. */
struct side {
	struct shfs_tree_node node;
	struct shfs_tree_status status;
	bool there;
};

static void side_clear(struct side *s)
{
	shfs_tree_node_clear(&s->node);
	shfs_tree_status_clear(&s->status);
}

/* --- names --- */

struct names {
	char **list;
	size_t n, cap;
};

static int add_name(struct names *names, const char *name)
{
	if (!MAKE_ROOM(names->list, names->n, names->cap))
		return -ENOMEM;
	names->list[names->n] = strdup(name);
	return names->list[names->n++] ? 0 : -ENOMEM;
}

static int add_listed(const char *name, struct shfs_tree_node *node, void *arg)
{
	return add_name(arg, name);
}

static int add_changed(const char *name, void *arg)
{
	return add_name(arg, name);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_clear(struct names *names)
{
	while (names->n)
		free(names->list[--names->n]);
	free(names->list);
}

static bool is_directory(const struct side *s)
{
	return s->there && S_ISDIR(s->status.st.st_mode);
}

/* The names to look at: of one directory those that were changed, else all. */
static int collect_names(const struct work *w, const struct side side[2],
                         struct names *names)
{
	bool one = is_directory(&side[0]) && is_directory(&side[1]) && side[0].node.now &&
	           side[1].node.now && !strcmp(side[0].node.now, side[1].node.now);
	int r = 0;

	for (int i = 0; i < 2 && !r; i++)
		if (one)
			r = shfs_tree_list_changed(w->tree[i], &side[i].node, add_changed,
			                           names);
		else if (is_directory(&side[i]))
			r = shfs_tree_list(w->tree[i], &side[i].node, add_listed, names);
	if (names->n)
		qsort(names->list, names->n, sizeof(*names->list), compare_texts);
	return r;
}

/* --- one file --- */

static void say_file(struct work *w, const struct side *s, const char *what)
{
	_cleanup_buf_ struct shfs_buf line = { 0 };

	w->different = true;
	shfs_show_path(&line, s->node.path);
	if (S_ISDIR(s->status.st.st_mode))
		shfs_buf_char(&line, '/');
	if (S_ISLNK(s->status.st.st_mode) && s->status.text) {
		shfs_buf_str(&line, " -> ");
		shfs_quote_display(&line, s->status.text, strlen(s->status.text));
	}
	printf("%s: %s\n", line.data ?: "", what);
}

/* The bytes may lie in a file that has another name now, or had. */
static void label_side(const struct side *s, const struct shfs_tree_content *content,
                       struct shfs_diff_side *out)
{
	const struct shfs_version *v = &content->version;
	bool own = content->where == SHFS_TREE_OBJECT && !strcmp(v->path, s->node.path);

	out->label.len = 0;
	shfs_show_version(&out->label, s->node.path, own ? v->n : 0);
	shfs_buf_char(&out->label, '\t');
	shfs_time_show(&out->label, shfs_timespec_ns(s->status.st.st_mtim));
}

/* 0; 1: there is no content to show, and that is said; or a negative errno. */
static int open_side(struct work *w, const struct side *s,
                     const struct shfs_tree_content *content, struct shfs_diff_side *out)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int code;

	switch (content->where) {
	case SHFS_TREE_NOW:
		code = shfs_diff_now(s->node.now, out);
		break;
	case SHFS_TREE_OBJECT:
		code = shfs_diff_version(w->store, &content->version, out);
		break;
	case SHFS_TREE_EMPTY:
		code = shfs_diff_nothing(out);
		break;
	default:
		shfs_show_path(&shown, s->node.path);
		shfs_error("%s: %s", shown.data ?: "", content->why);
		code = TROUBLE;
	}
	if (!code)
		label_side(s, content, out);
	w->trouble |= code;
	return code ? 1 : 0;
}

static bool is_same_content(const struct side side[2],
                            const struct shfs_tree_content content[2])
{
	const struct shfs_object_id *a = &content[0].version.object,
				    *b = &content[1].version.object;

	if (content[0].where != content[1].where)
		return false;
	if (content[0].where == SHFS_TREE_NOW)
		return !strcmp(side[0].node.now, side[1].node.now);
	if (content[0].where == SHFS_TREE_OBJECT)
		return !memcmp(a->hash, b->hash, sizeof(a->hash)) && a->nth == b->nth;
	return content[0].where == SHFS_TREE_EMPTY;
}

static int run_diff(struct work *w, const struct side side[2],
                    const struct shfs_tree_content content[2])
{
	struct shfs_diff_side sides[2] = { { .fd = -1 }, { .fd = -1 } };
	int r = 0, code;

	for (int i = 0; i < 2 && !r; i++)
		r = side[i].there ? open_side(w, &side[i], &content[i], &sides[i])
		                  : shfs_diff_nothing(&sides[i]);
	if (!r) {
		fflush(stdout);
		code = shfs_diff_run(sides, w->options);
		w->different |= code == 1;
		w->trouble |= code > 1;
	}
	shfs_diff_side_clear(&sides[0]);
	shfs_diff_side_clear(&sides[1]);
	return 0;
}

static int compare_regular(struct work *w, const struct side side[2])
{
	struct shfs_tree_content content[2] = { 0 };
	int r = 0;

	for (int i = 0; i < 2 && !r; i++)
		if (side[i].there)
			r = shfs_tree_content(w->tree[i], &side[i].node, &content[i]);
	if (!r && !(side[0].there && side[1].there && is_same_content(side, content)))
		r = run_diff(w, side, content);
	shfs_tree_content_clear(&content[0]);
	shfs_tree_content_clear(&content[1]);
	return r;
}

static void compare_modes(struct work *w, const struct side side[2])
{
	const struct shfs_tree_status *a = &side[0].status, *b = &side[1].status;
	_cleanup_buf_ struct shfs_buf what = { 0 };

	if ((a->unknown | b->unknown) & SHFS_PAST_MODE || S_ISLNK(a->st.st_mode) ||
	    (a->st.st_mode & 07777) == (b->st.st_mode & 07777))
		return;
	shfs_buf_printf(&what, "mode %04o, was %04o", b->st.st_mode & 07777,
	                a->st.st_mode & 07777);
	say_file(w, &side[1], what.data ?: "");
}

static int compare_one_type(struct work *w, const struct side side[2])
{
	const struct shfs_tree_status *a = &side[0].status, *b = &side[1].status;

	compare_modes(w, side);
	if (S_ISREG(a->st.st_mode))
		return compare_regular(w, side);
	if (S_ISLNK(a->st.st_mode) && a->text && b->text && strcmp(a->text, b->text))
		say_file(w, &side[1], "another link");
	return 0;
}

/* Of a file that was there at one time alone. */
static int show_alone(struct work *w, const struct side side[2])
{
	const struct side *s = &side[side[1].there];

	if (S_ISREG(s->status.st.st_mode) && !w->options->brief)
		return compare_regular(w, side);
	say_file(w, s, side[1].there ? "new" : "removed");
	return 0;
}

static int compare_sides(struct work *w, const struct side side[2])
{
	struct side alone[2] = { 0 };
	int r;

	if (side[0].there != side[1].there)
		return show_alone(w, side);
	if ((side[0].status.st.st_mode & S_IFMT) == (side[1].status.st.st_mode & S_IFMT))
		return compare_one_type(w, side);
	alone[0] = side[0];
	r = show_alone(w, alone);
	alone[0] = (struct side){ 0 };
	alone[1] = side[1];
	return r ? r : show_alone(w, alone);
}

/* --- directories --- */

static int compare_name(struct work *w, const struct side dir[2], const char *name);

static int compare_entries(struct work *w, const struct side dir[2])
{
	struct names names = { 0 };
	int r = collect_names(w, dir, &names);

	for (size_t i = 0; i < names.n && !r; i++)
		if ((!i || strcmp(names.list[i], names.list[i - 1]) != 0) &&
		    (w->git || strcmp(names.list[i], ".git") != 0))
			r = compare_name(w, dir, names.list[i]);
	names_clear(&names);
	return r;
}

static int find_side(const struct shfs_tree *t, const struct side *dir, const char *name,
                     struct side *out)
{
	int r = is_directory(dir) ? shfs_tree_lookup(t, &dir->node, name, &out->node)
	                          : -ENOENT;

	if (!r)
		r = shfs_tree_status(t, &out->node, &out->status);
	out->there = !r;
	return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

static int compare_name(struct work *w, const struct side dir[2], const char *name)
{
	struct side side[2] = { 0 };
	int r = 0;

	for (int i = 0; i < 2 && !r; i++)
		r = find_side(w->tree[i], &dir[i], name, &side[i]);
	if (!r && (side[0].there || side[1].there))
		r = compare_sides(w, side);
	if (!r && (is_directory(&side[0]) || is_directory(&side[1])))
		r = compare_entries(w, side);
	side_clear(&side[0]);
	side_clear(&side[1]);
	return r;
}

int shfs_tree_diff(struct shfs_store *store, const struct shfs_tree *first,
                   const struct shfs_tree *second,
                   const struct shfs_diff_options *options)
{
	struct work w = { .store = store,
		          .tree = { first, second },
		          .options = options,
		          .git = shfs_path_is_version_control(first->root) };
	struct side root[2] = { 0 };
	int r = 0;

	for (int i = 0; i < 2 && !r; i++) {
		r = shfs_tree_find(w.tree[i], w.tree[i]->root, &root[i].node);
		if (!r)
			r = shfs_tree_status(w.tree[i], &root[i].node, &root[i].status);
		root[i].there = !r;
		r = r == -ENOENT || r == -ENOTDIR ? 0 : r;
	}
	if (!r && (root[0].there || root[1].there))
		r = compare_sides(&w, root);
	if (!r)
		r = compare_entries(&w, root);
	side_clear(&root[0]);
	side_clear(&root[1]);
	if (r)
		return shfs_fail_index(first->index, r);
	return w.trouble ? TROUBLE : w.different;
}
