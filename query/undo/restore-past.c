/* SPDX-License-Identifier: MIT */
#include "query/undo/restore-past.h"

#include "common/path.h"
#include "common/quote.h"
#include "query/base/time.h"
#include "query/undo/run.h"
#include "query/undo/tree-copy.h"

#include <errno.h>
#include <string.h>

static const struct shfs_undo_words words = {
	.command = "restore",
	.done = "restored",
	.heads = { "To be restored", "Restored" },
	.all_as_it_was = "Nothing to restore: all is as it was then.",
};

/* --- the paths then --- */

static int say_not_there(const struct shfs_tree *t, const char *path)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 }, when = { 0 };

	shfs_show_path(&shown, path);
	shfs_time_show(&when, t->time_ns);
	shfs_error("%s was not there at that time (%s)", shown.data ?: "",
	           when.data ?: "");
	return SHFS_EXIT_NOT_FOUND;
}

static void warn_of_before(const struct shfs_tree *t)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 }, when = { 0 };

	if (t->first_ns && t->first_ns <= t->time_ns)
		return;
	shfs_show_path(&shown, t->root);
	if (t->first_ns)
		shfs_time_show(&when, t->first_ns);
	shfs_warn("%s is recorded since %s: what was changed before is not known",
	          shown.data ?: "", when.data ?: "never");
}

/* --- what is gone, and no removal of it is recorded --- */

#define LOOKED_AT_MAX 1000 /* paths, for a warning */

/* Is a file gone from below path that the index takes to be there? Such are all after a
 * clone, as nothing was removed. Only some are looked at. 1, 0, or a negative errno. */
static int some_are_gone(struct shfs_index *index, const char *path)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	_cleanup_buf_ struct shfs_buf sql = { 0 };
	struct stat st;
	int r;

	shfs_buf_str(&sql,
	             "SELECT path FROM v_file WHERE present AND NOT directory AND ");
	shfs_sql_files_below(&sql, "file_id", 1);
	shfs_buf_printf(&sql, " LIMIT %d", LOOKED_AT_MAX);
	r = sql.failed ? -ENOMEM : shfs_rows_open_str(index, sql.data, path, &rows);
	while (!r && (r = shfs_rows_next(rows)) > 0) {
		const char *file = shfs_rows_text(rows, 0);

		r = shfs_path_is_here(file) && lstat(file, &st) && errno == ENOENT;
		if (r)
			break;
	}
	return r;
}

static void warn_of_gone(struct shfs_index *index, const char *path)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	if (some_are_gone(index, path) <= 0)
		return;
	shfs_show_path(&shown, path);
	shfs_warn("files are gone from %s, and it is not recorded who removed them: they "
	          "are left out",
	          shown.data ?: "");
	shfs_hint("shfs undelete %s brings back what is gone", shown.data ?: "");
}

static int fail_gone(const char *path)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_show_path(&shown, path);
	shfs_error("%s is not there now", shown.data ?: "");
	shfs_hint("shfs undelete %s brings back what was in it", shown.data ?: "");
	return SHFS_EXIT_NOT_FOUND;
}

/* Opens the tree at path; it must be there, unless it may be new. */
static int open_tree(struct shfs_index *index, const struct shfs_restore_past *what,
                     const char *path, struct shfs_tree *out)
{
	_cleanup_tree_node_ struct shfs_tree_node node = { 0 };
	int r = shfs_tree_open(out, index, path, -1, what->time_ns);

	if (r)
		return r == -ENOENT ? fail_gone(path) : shfs_fail_index(index, r);
	warn_of_gone(index, path);
	r = shfs_tree_find(out, path, &node);
	if ((r == -ENOENT || r == -ENOTDIR) && !what->may_be_new)
		return say_not_there(out, path);
	if (r && r != -ENOENT && r != -ENOTDIR)
		return shfs_fail_index(index, r);
	warn_of_before(out);
	return 0;
}

/* --- in place --- */

static bool is_git_wanted(const struct shfs_restore_past *what)
{
	for (size_t i = 0; i < what->n_paths; i++)
		if (shfs_path_is_version_control(what->paths[i]))
			return true;
	return what->git;
}

static bool is_worth_keeping(const struct shfs_effect *e, void *arg)
{
	return shfs_undo_may_touch(e, *(bool *)arg);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the changes of all paths; of one below another they are there already. */
static int load_effects(struct shfs_index *index, const struct shfs_restore_past *what,
                        struct shfs_effects *effects)
{
	bool git = is_git_wanted(what);
	const char *last = NULL;
	int r = 0;

	qsort(what->paths, what->n_paths, sizeof(*what->paths), compare_texts);
	for (size_t i = 0; i < what->n_paths && !r; i++) {
		if (last && shfs_path_is_below(what->paths[i], last))
			continue;
		last = what->paths[i];
		r = shfs_effects_add_tree(effects, index, last, what->time_ns);
	}
	shfs_effects_filter(effects, is_worth_keeping, &git);
	return r;
}

static int restore_in_place(struct shfs_undo_run *run,
                            const struct shfs_restore_past *what)
{
	_cleanup_effects_ struct shfs_effects effects = { 0 };
	const struct shfs_undo_options options = {
		.git = is_git_wanted(what),
		.force = what->force,
		.stay = !what->exact,
		.paths = what->paths,
		.n_paths = what->n_paths,
	};
	int r, code = 0;

	for (size_t i = 0; i < what->n_paths && !code && !what->may_be_new; i++) {
		_cleanup_tree_ struct shfs_tree tree = { 0 };

		code = open_tree(run->index, what, what->paths[i], &tree);
	}
	if (code)
		return code;
	r = load_effects(run->index, what, &effects);
	if (r)
		return shfs_fail_index(run->index, r);
	run->plan.all = true;
	run->plan.past.since_ns = what->time_ns;
	return shfs_undo_plan_and_run(run, &options, &effects);
}

/* --- elsewhere --- */

static int show_gaps(const struct shfs_tree_copy *copy, bool missing, FILE *to)
{
	bool any = false;

	for (size_t i = 0; i < copy->n_gaps; i++) {
		_cleanup_buf_ struct shfs_buf line = { 0 };

		if (copy->gaps[i].missing != missing)
			continue;
		if (!any)
			fputs(missing ? "Cannot be put back:\n" : "Not all as it was:\n",
			      to);
		any = true;
		shfs_show_path(&line, copy->gaps[i].path);
		fprintf(to, "  %s: %s\n", line.data ?: "", copy->gaps[i].why);
	}
	return any;
}

static bool is_making(const struct shfs_step *s)
{
	return s->kind == SHFS_STEP_MAKE || s->kind == SHFS_STEP_MKDIR ||
	       s->kind == SHFS_STEP_LINK;
}

static void show_steps(const struct shfs_steps *steps)
{
	printf("%s:\n", words.heads[0]);
	for (size_t i = 0; i < steps->n; i++) {
		const struct shfs_step *s = &steps->list[i];
		_cleanup_buf_ struct shfs_buf line = { 0 };
		bool link = s->kind == SHFS_STEP_LINK;

		if (!is_making(s))
			continue;
		shfs_show_path(&line, link ? s->path2 : s->path);
		if (link) {
			shfs_buf_str(&line, ", a name of ");
			shfs_show_path(&line, s->path);
		}
		printf("  %-8s %s%s\n", link ? "link" : "restore", line.data ?: "",
		       s->kind == SHFS_STEP_MKDIR ? "/" : "");
	}
}

static void json_copy(struct shfs_json *json, const struct shfs_steps *steps)
{
	shfs_json_array(json, "changes");
	for (size_t i = 0; i < steps->n; i++) {
		const struct shfs_step *s = &steps->list[i];
		bool link = s->kind == SHFS_STEP_LINK;

		if (!is_making(s))
			continue;
		shfs_json_object(json, NULL);
		shfs_json_str(json, "change", link ? "link" : "restore");
		shfs_json_str(json, "path", link ? s->path2 : s->path);
		if (link)
			shfs_json_str(json, "from", s->path);
		if (s->kind == SHFS_STEP_MKDIR)
			shfs_json_bool(json, "directory", true);
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
}

static void json_gaps(struct shfs_json *json, const struct shfs_tree_copy *copy,
                      bool missing)
{
	shfs_json_array(json, missing ? "left_alone" : "notes");
	for (size_t i = 0; i < copy->n_gaps; i++) {
		if (copy->gaps[i].missing != missing)
			continue;
		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", copy->gaps[i].path);
		shfs_json_str(json, "reason", missing ? "cannot" : "note");
		shfs_json_str(json, "text", copy->gaps[i].why);
		shfs_json_object_end(json);
	}
	shfs_json_array_end(json);
}

static int print_copy_json(const struct shfs_undo_run *run,
                           const struct shfs_tree_copy *copy)
{
	_cleanup_json_ struct shfs_json json = { 0 };

	shfs_json_begin(&json, words.command);
	shfs_json_bool(&json, "done", run->carried_out);
	json_copy(&json, &run->steps);
	json_gaps(&json, copy, true);
	json_gaps(&json, copy, false);
	return shfs_json_end(&json) ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
}

static void print_copied(const struct shfs_restore_past *what,
                         const struct shfs_tree_copy *copy)
{
	_cleanup_buf_ struct shfs_buf to = { 0 }, when = { 0 };

	shfs_show_path(&to, what->to);
	shfs_time_show(&when, what->time_ns);
	printf("Restored to %s, as it was at %s: %zu file%s, %zu director%s",
	       to.data ?: "", when.data ?: "", copy->n_files, shfs_plural(copy->n_files),
	       copy->n_directories, copy->n_directories == 1 ? "y" : "ies");
	if (copy->n_others)
		printf(", %zu other%s", copy->n_others, shfs_plural(copy->n_others));
	puts("");
}

static int take_copy(struct shfs_undo_run *run, const struct shfs_restore_past *what,
                     const struct shfs_tree_copy *copy)
{
	bool missing = false;
	int code = 0;

	for (size_t i = 0; i < copy->n_gaps; i++)
		missing |= copy->gaps[i].missing;
	if (missing && !what->partly && !what->dry_run) {
		if (what->json)
			return print_copy_json(run, copy) ?: SHFS_EXIT_REFUSED;
		show_gaps(copy, true, stderr);
		shfs_error("not all of it can be put back, so nothing is restored");
		shfs_hint("--partly puts back the rest");
		return SHFS_EXIT_REFUSED;
	}
	if (!what->dry_run)
		code = shfs_undo_take(run);
	if (code)
		return code;
	if (what->json)
		code = print_copy_json(run, copy);
	else if (what->dry_run)
		show_steps(&run->steps);
	else
		print_copied(what, copy);
	if (!what->json) {
		show_gaps(copy, false, stdout);
		show_gaps(copy, true, stdout);
		if (copy->without_git)
			shfs_hint("what is in .git is left out (--git)");
	}
	return code ?: missing ? SHFS_EXIT_REFUSED : SHFS_EXIT_OK;
}

static int restore_elsewhere(struct shfs_undo_run *run,
                             const struct shfs_restore_past *what)
{
	_cleanup_tree_ struct shfs_tree tree = { 0 };
	_cleanup_tree_copy_ struct shfs_tree_copy copy = { .steps = &run->steps,
		                                           .git = is_git_wanted(what) };
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	struct stat st;
	int code = open_tree(run->index, what, what->paths[0], &tree), r;

	if (code)
		return code;
	shfs_show_path(&shown, what->to);
	if (!lstat(what->to, &st)) {
		shfs_error("%s is there already", shown.data ?: "");
		return SHFS_EXIT_REFUSED;
	}
	if (shfs_path_is_below(what->to, what->paths[0])) {
		shfs_error("%s is in what is to be copied", shown.data ?: "");
		return SHFS_EXIT_REFUSED;
	}
	r = shfs_tree_copy_arrange(&copy, &tree, what->paths[0], what->to);
	if (r == -ENOENT)
		return fail_gone(what->paths[0]);
	return r ? shfs_fail_index(run->index, r) : take_copy(run, what, &copy);
}

int shfs_restore_past(struct shfs_context *ctx, struct shfs_index *index,
                      const struct shfs_restore_past *what)
{
	struct shfs_undo_run run = {
		.words = &words,
		.dry_run = what->dry_run,
		.patch = what->patch,
		.json = what->json,
		.partly = what->partly,
		.whole = true,
		.ctx = ctx,
		.index = index,
	};
	int code = shfs_undo_begin(&run);

	if (!code)
		code = what->to ? restore_elsewhere(&run, what)
		                : restore_in_place(&run, what);
	shfs_undo_end(&run);
	return code;
}
