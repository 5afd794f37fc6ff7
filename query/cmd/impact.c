/* SPDX-License-Identifier: MIT */
/*
 * `shfs impact`: show what was made from a file: by which commands, over how many steps.
 */
#include "query/base/cmd.h"
#include "query/graph/downstream.h"
#include "query/graph/show.h"
#include "query/history/version-spec.h"

#include <errno.h>
#include <string.h>

static struct {
	struct shfs_graph_limits limits;
	bool json, dot;
} opts;

/* --- the tree --- */

/* The branches below a version, in this order. */
enum branch {
	BRANCH_RESULT,    /* that no command read */
	BRANCH_QUIET,     /* a command that made nothing */
	BRANCH_ELSEWHERE, /* a command that is shown elsewhere */
	BRANCH_ON,        /* a result from which more was made */
	BRANCHES
};

struct item {
	enum branch branch;
	struct shfs_graph_version *version;
	struct shfs_graph_maker *maker;
};

struct items {
	struct item *list;
	size_t n, cap, count[BRANCHES], more, readers, left_out;
};

static const char *const counted[BRANCHES] = {
	[BRANCH_RESULT] = "more result",
	[BRANCH_QUIET] = "more reader",
	[BRANCH_ELSEWHERE] = "other command",
};

static bool goes_on(const struct shfs_graph_version *v)
{
	return v->n_readers || v->carried || v->cut || v->n_more;
}

static int add_impact_item(struct items *items, enum branch branch,
                           struct shfs_graph_version *v, struct shfs_graph_maker *m)
{
	if (!MAKE_ROOM(items->list, items->n, items->cap))
		return -ENOMEM;
	items->list[items->n++] = (struct item){ branch, v, m };
	items->count[branch]++;
	return 0;
}

static int add_version_item(struct items *items, struct shfs_graph_version *v)
{
	return add_impact_item(items, goes_on(v) ? BRANCH_ON : BRANCH_RESULT, v, NULL);
}

/* Is the version shown below another? Those that were asked for have trees of their own,
 * if a command read them. */
static bool stands_below(const struct shfs_graph_version *v)
{
	return v->maker && (v->via || !goes_on(v));
}

static int collect_maker(struct items *items, struct shfs_graph_maker *m)
{
	size_t before = items->n;
	int r = 0;

	if (m->mark)
		return add_impact_item(items, BRANCH_ELSEWHERE, NULL, m);
	m->mark = true;
	items->more += m->n_more;
	items->left_out += m->n_left_out;
	for (struct shfs_graph_version *v = m->made; v && !r; v = v->next_made)
		if (stands_below(v))
			r = add_version_item(items, v);
	if (!r && items->n == before && !m->n_more && !m->n_left_out && !m->made)
		r = add_impact_item(items, BRANCH_QUIET, NULL, m);
	return r;
}

static int collect_impact_items(struct items *items, const struct shfs_graph_version *v)
{
	int r = 0;

	items->readers = v->n_more;
	for (size_t i = 0; i < v->n_readers && !r; i++)
		r = collect_maker(items, v->readers[i]);
	for (struct shfs_graph_version *w = v->carried; w && !r; w = w->next_carried)
		r = add_version_item(items, w);
	return r;
}

static size_t listed(const struct items *items, enum branch branch)
{
	size_t n = items->count[branch];

	return branch == BRANCH_ON ? n : MIN(n, (size_t)SHFS_TREE_LISTED);
}

static size_t lines(const struct items *items)
{
	size_t n = !!items->more + !!items->readers + !!items->left_out;

	for (enum branch b = 0; b < BRANCHES; b++)
		n += listed(items, b) + (listed(items, b) < items->count[b]);
	return n;
}

static void show_below(struct shfs_tree *t, struct shfs_graph_version *v);

static void show_item(struct shfs_tree *t, const struct item *item, bool last)
{
	size_t begun = shfs_tree_begin(t, last);

	if (item->version) {
		shfs_tree_line(t, item->version,
		               item->version->maker    ? ""
		               : item->version->joined ? "  the same content"
		                                       : "  the same, renamed",
		               false);
		show_below(t, item->version);
	} else {
		shfs_tree_command(t, item->maker,
		                  item->branch == BRANCH_QUIET ? "  made nothing"
		                                               : "  (shown elsewhere)");
	}
	shfs_tree_end(t, begun);
}

static void show_impact_items(struct shfs_tree *t, const struct items *items)
{
	size_t left = lines(items);

	shfs_tree_count(t, ".git file", items->left_out, items->left_out && !--left);
	shfs_tree_count(t, "more result", items->more, items->more && !--left);
	shfs_tree_count(t, "more reader", items->readers, items->readers && !--left);
	for (enum branch b = 0; b < BRANCHES; b++) {
		size_t most = listed(items, b), more = items->count[b] - most;

		for (size_t i = 0; i < items->n && most && !t->error; i++)
			if (items->list[i].branch == b) {
				most--;
				show_item(t, &items->list[i], !--left);
			}
		shfs_tree_count(t, counted[b], more, more && !--left);
	}
}

static void show_below(struct shfs_tree *t, struct shfs_graph_version *v)
{
	struct items items = { 0 };

	if (goes_on(v) && (v->cut || shfs_tree_is_deep(t))) {
		shfs_tree_continue(t, v);
		return;
	}
	t->error = t->error ?: collect_impact_items(&items, v);
	if (!t->error)
		show_impact_items(t, &items);
	free(items.list);
}

static void add_impact_summary(struct shfs_tree *t, struct shfs_graph *graph)
{
	size_t makers = 0, results = 0;

	for (struct shfs_graph_maker *m = shfs_graph_makers(graph); m; m = m->next)
		makers += !m->again;
	for (struct shfs_graph_version *v = shfs_graph_versions(graph); v; v = v->next)
		results += v->via || stands_below(v);
	if (makers)
		shfs_tree_sum(t, makers, results, "result");
}

static int show_impact_tree(struct shfs_context *ctx, struct shfs_index *index,
                            struct shfs_graph *graph, bool any)
{
	struct shfs_tree t = { .index = index, .question = "shfs impact " };
	bool shown = false;

	shfs_context_pager(ctx);
	t.style = shfs_style_of(ctx);
	t.columns = shfs_show_columns();
	for (struct shfs_graph_version *v = shfs_graph_versions(graph); v && !v->via;
	     v = v->next) {
		if (!goes_on(v))
			continue;
		if (shown)
			shfs_buf_char(&t.out, '\n');
		shown = true;
		shfs_tree_line(&t, v, "", false);
		show_below(&t, v);
	}
	if (!shown) {
		const struct shfs_version *first = &shfs_graph_versions(graph)->version;

		shfs_show_version(&t.out, first->path, any ? 0 : first->n);
		shfs_buf_str(&t.out, ": no recorded command has read it\n");
	}
	add_impact_summary(&t, graph);
	return shfs_tree_finish(&t);
}

/* --- JSON --- */

static void json_impact_version(struct shfs_json *json,
                                const struct shfs_graph_version *v)
{
	shfs_json_object(json, NULL);
	shfs_version_json(json, &v->version);
	if (v->via && !v->maker)
		shfs_json_version_name(json, "origin", &v->via->version);
	shfs_json_bool(json, "cut", v->cut);
	shfs_json_object_end(json);
}

static int json_impact(struct shfs_index *index, struct shfs_graph *graph)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	int r = 0;

	shfs_json_begin(&json, "impact");
	shfs_json_array(&json, "targets");
	for (struct shfs_graph_version *v = shfs_graph_versions(graph); v && !v->via;
	     v = v->next)
		shfs_json_version_name(&json, NULL, &v->version);
	shfs_json_array_end(&json);
	shfs_json_array(&json, "versions");
	for (struct shfs_graph_version *v = shfs_graph_versions(graph); v && !r;
	     v = v->next) {
		json_impact_version(&json, v);
		r = shfs_json_flush(&json) ? 0 : -EIO;
	}
	shfs_json_array_end(&json);
	shfs_json_array(&json, "commands");
	for (struct shfs_graph_maker *m = shfs_graph_makers(graph); m && !r;
	     m = m->next) {
		r = shfs_json_maker(&json, index, m);
		shfs_json_object_end(&json);
		r = r ? r : shfs_json_flush(&json) ? 0 : -EIO;
	}
	shfs_json_array_end(&json);
	return r ? r : shfs_json_end(&json) ? 0 : -EIO;
}

/* --- the command --- */

struct targets {
	struct shfs_version *list;
	size_t n, cap;
};

static int load_targets(struct shfs_rows *rows, struct targets *t)
{
	int r;

	while ((r = shfs_rows_next(rows)) > 0) {
		if (!MAKE_ROOM(t->list, t->n, t->cap))
			return -ENOMEM;
		r = shfs_version_from_row(rows, &t->list[t->n]);
		if (r < 0)
			return r;
		t->n++;
	}
	return r;
}

/* Adds all versions of the file, the latest first. */
static int add_all(struct shfs_index *index, const struct shfs_version *one,
                   struct targets *t)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_ints(index,
	                            "SELECT" SHFS_VERSION_COLUMNS
	                            "FROM v_version WHERE file_id = ?1 ORDER BY n DESC",
	                            SHFS_INTS(one->file_id), &rows);

	return r ? r : load_targets(rows, t);
}

/* Is the operand the name of a file, without a version? */
static int is_file(struct shfs_index *index, const char *operand,
                   const struct shfs_version *found)
{
	_cleanup_free_ char *path = NULL;
	int r = shfs_operand_file(index, operand, &path);

	return r > 0 ? !strcmp(path, found->path) : r;
}

static int answer_impact(struct shfs_context *ctx, struct shfs_index *index,
                         const struct shfs_version *targets, size_t n, bool any)
{
	_cleanup_graph_ struct shfs_graph *graph = NULL;
	int r;

	if (!opts.json && !opts.dot)
		opts.limits.max_versions = SHFS_TREE_VERSIONS;
	r = shfs_downstream_new(index, targets, n, &opts.limits, &graph);
	if (r)
		return r;
	if (opts.dot)
		return shfs_graph_dot(graph, false);
	return opts.json ? json_impact(index, graph)
	                 : show_impact_tree(ctx, index, graph, any);
}

static int check_impact_options(struct shfs_context *ctx, int argc)
{
	if (!opts.dot || !opts.json)
		return 0;
	shfs_error("--dot does not go with --json");
	return SHFS_EXIT_USAGE;
}

static int run_impact(struct shfs_context *ctx, struct shfs_index *index, int argc,
                      char **argv)
{
	_cleanup_version_ struct shfs_version one = { 0 };
	struct targets all = { 0 };
	int r, code = shfs_version_spec_find(index, argv[0], &one);

	if (code)
		return code;
	r = is_file(index, argv[0], &one);
	if (r > 0)
		r = add_all(index, &one, &all)
		            ?: answer_impact(ctx, index, all.list, all.n, true);
	else if (!r)
		r = answer_impact(ctx, index, &one, 1, false);
	for (size_t i = 0; i < all.n; i++)
		shfs_version_clear(&all.list[i]);
	free(all.list);
	return r;
}

const struct shfs_command shfs_cmd_impact = {
	.name = "impact",
	.args = "FILE[@N]",
	.summary =
		"Show what was made from a file, directly or not, and by which commands",
	.description = "Goes downstream: the commands that read that version (without "
		       "@N: any version),\n"
		       "what they made after that, the commands that read these results, "
		       "and so on.",
	.alone = true,
	.options = {
	{ "depth", 0, "N", "go forward at most N commands",
	  .count = &opts.limits.max_depth },
	{ "all", 'a', NULL, "also follow the files of version control (.git)",
	  .flag = &opts.limits.all },
	{ "dot", 0, NULL, "the graph for Graphviz", .flag = &opts.dot },
	SHFS_DB_OPTION,
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 1, 1 },
	.at_once = true,
	.check = check_impact_options,
	.run_on_index = run_impact,
};
