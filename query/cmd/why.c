/* SPDX-License-Identifier: MIT */
/* `shfs why`: show which commands made a file, from which versions of which files. */
#include "query/base/cmd.h"
#include "query/graph/show.h"
#include "query/graph/upstream.h"
#include "query/history/version-spec.h"

#include "common/path.h"
#include "common/quote.h"

#include <errno.h>
#include <string.h>

static struct {
	struct shfs_graph_limits limits;
	bool json, dot, programs, full;
	const char *from;
} opts;

/* --- the tree --- */

static const char *source_note(const struct shfs_graph_version *v)
{
	if (v->maker || v->origin)
		return "";
	return v->version.n == 1 ? "  source" : "  changed while nothing watched";
}

/* Adds what is said behind the name of a version: how it went into a maker (NULL: it is a
 * copy of another version, or was asked for). */
static void add_note(struct shfs_buf *out, const struct shfs_graph_version *v,
                     const struct shfs_graph_maker *maker)
{
	shfs_buf_str(out, source_note(v));
	for (size_t i = 0; maker && i < maker->n_notes; i++) {
		const struct shfs_graph_note *note = &maker->notes[i];

		if (note->input != v)
			continue;
		shfs_buf_str(out, note->by_way ? "  by way of " : "  the same content");
		if (note->by_way)
			shfs_show_path(out, note->by_way);
		return;
	}
}

struct branches {
	struct shfs_tree *tree;
	size_t left; /* branches that are still to come */
	size_t listed;
};

static int count_file(const char *path, void *arg)
{
	(*(size_t *)arg)++;
	return 0;
}

static int add_file_line(struct branches *b, const char *path, const char *note)
{
	_cleanup_buf_ struct shfs_buf words = { 0 };

	shfs_show_path(&words, path);
	shfs_buf_str(&words, note);
	if (words.failed)
		return -ENOMEM;
	shfs_tree_words(b->tree, words.data, !--b->left);
	return 0;
}

static int add_program_line(const char *path, void *arg)
{
	return add_file_line(arg, path, "  program");
}

static int add_outside_line(const char *path, void *arg)
{
	struct branches *b = arg;

	return b->listed++ < SHFS_TREE_LISTED
	               ? add_file_line(b, path, "  outside, not recorded")
	               : 0;
}

/* n: number of branches that follow. */
static int add_programs(struct shfs_tree *t, struct shfs_graph *graph,
                        const struct shfs_graph_maker *maker, size_t n)
{
	struct branches b = { .tree = t, .left = n };
	int r = shfs_graph_programs(graph, maker, count_file, &b.left);

	return r ? r : shfs_graph_programs(graph, maker, add_program_line, &b);
}

/* maker: that v went into; NULL: of a copy, or of what was asked for. */
static void add_version_branch(struct shfs_tree *t, struct shfs_graph *graph,
                               const struct shfs_graph_maker *into,
                               struct shfs_graph_version *v);

static void add_branch(struct shfs_tree *t, struct shfs_graph *graph,
                       const struct shfs_graph_maker *into, struct shfs_graph_version *v,
                       bool last)
{
	size_t begun = shfs_tree_begin(t, last);

	add_version_branch(t, graph, into, v);
	shfs_tree_end(t, begun);
}

/* n: number of branches that follow. */
static int add_outside(struct shfs_tree *t, struct shfs_graph *graph,
                       const struct shfs_graph_maker *maker, size_t outside, size_t n)
{
	size_t more = outside - MIN(outside, (size_t)SHFS_TREE_LISTED);
	struct branches b = { .tree = t, .left = outside - more + !!more + n };
	int r = outside ? shfs_graph_outside(graph, maker, add_outside_line, &b) : 0;

	shfs_tree_count(t, "more outside file", more, !n);
	return r;
}

static bool is_source(const struct shfs_graph_version *v)
{
	return !v->maker && !v->origin;
}

static size_t length_of_directory(const struct shfs_graph_version *v)
{
	const char *path = v->version.path, *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

static bool is_same_directory(const struct shfs_graph_version *a,
                              const struct shfs_graph_version *b)
{
	size_t len = length_of_directory(a);

	return len == length_of_directory(b) &&
	       !memcmp(a->version.path, b->version.path, len);
}

static int compare_sources(const void *a, const void *b)
{
	const struct shfs_graph_version *x = *(struct shfs_graph_version *const *)a;
	const struct shfs_graph_version *y = *(struct shfs_graph_version *const *)b;
	size_t len = MIN(length_of_directory(x), length_of_directory(y));

	if (is_same_directory(x, y))
		return strcmp(x->version.path, y->version.path);
	return memcmp(x->version.path, y->version.path, len)
	               ?: (length_of_directory(x) > length_of_directory(y)) * 2 - 1;
}

#define FOLD_MIN 3 /* sources in one directory */

/* The end of the sources that get one line: those of one directory, if there are many. */
static size_t end_of_line(struct shfs_graph_version *const *list, size_t n, size_t i)
{
	size_t end = i + 1;

	while (end < n && is_same_directory(list[i], list[end]))
		end++;
	return end - i < FOLD_MIN ? i + 1 : end;
}

static void add_directory_line(struct shfs_tree *t, const struct shfs_graph_version *v,
                               size_t n, bool last)
{
	_cleanup_free_ char *dir = strndup(v->version.path, length_of_directory(v));
	_cleanup_buf_ struct shfs_buf words = { 0 };

	if (dir)
		shfs_show_path(&words, *dir ? dir : "/");
	shfs_buf_printf(&words, "/  %zu sources", n);
	if (!dir || words.failed)
		t->error = -ENOMEM;
	else
		shfs_tree_words(t, words.data, last);
}

/* Adds many sources, those of one directory as one line. others: branches follow. */
static void add_folded_sources(struct shfs_tree *t, struct shfs_graph *graph,
                               const struct shfs_graph_maker *maker,
                               struct shfs_graph_version **list, size_t n, bool others)
{
	size_t i = 0, end, lines = 0;

	qsort(list, n, sizeof(*list), compare_sources);
	for (; i < n && lines < SHFS_TREE_LISTED && !t->error; i = end, lines++) {
		end = end_of_line(list, n, i);
		if (end > i + 1)
			add_directory_line(t, list[i], end - i, end == n && !others);
		else
			add_branch(t, graph, maker, list[i], end == n && !others);
	}
	shfs_tree_count(t, "more source", n - i, !others);
}

/* Adds inputs, sources first: the others have branches below them. */
static void add_input_branches(struct shfs_tree *t, struct shfs_graph *graph,
                               const struct shfs_graph_maker *maker, size_t outside)
{
	size_t n = maker->n_inputs, sources = 0;
	size_t left_out = maker->n_left_out, more = maker->n_more;
	_cleanup_free_ struct shfs_graph_version **list =
		calloc(n + 1, sizeof(struct shfs_graph_version *));

	for (size_t i = 0; i < n && list; i++)
		if (is_source(maker->inputs[i]))
			list[sources++] = maker->inputs[i];
	t->error = t->error ?: list ? 0 : -ENOMEM;
	if (opts.programs)
		t->error = t->error
		                   ?: add_programs(t, graph, maker,
		                                   !!outside + left_out + more + n);
	t->error = t->error ?: add_outside(t, graph, maker, outside, left_out + more + n);
	shfs_tree_count(t, ".git file", left_out, !n && !more);
	shfs_tree_count(t, "more input", more, !n);
	if (sources > SHFS_TREE_LISTED && !opts.full && !t->error)
		add_folded_sources(t, graph, maker, list, sources, n > sources);
	else
		for (size_t i = 0; i < sources && !t->error; i++)
			add_branch(t, graph, maker, list[i], i + 1 == n);
	for (size_t i = 0, left = n - sources; i < n && !t->error; i++)
		if (!is_source(maker->inputs[i]))
			add_branch(t, graph, maker, maker->inputs[i], !--left);
}

static void add_version_branch(struct shfs_tree *t, struct shfs_graph *graph,
                               const struct shfs_graph_maker *into,
                               struct shfs_graph_version *v)
{
	struct shfs_graph_maker *maker = v->maker;
	_cleanup_buf_ struct shfs_buf note = { 0 };
	bool is_copied = !into && t->level; /* below the copy */
	size_t outside = 0;
	bool more;

	if (maker && !maker->mark && !t->error)
		t->error = shfs_graph_outside(graph, maker, count_file, &outside);
	more = maker && (maker->n_inputs || maker->n_left_out || maker->n_more ||
	                 maker->cut || outside || opts.programs);
	if (is_copied)
		shfs_buf_str(&note, "  the same content");
	add_note(&note, v, into);
	shfs_tree_line(t, v, note.data ?: "", (more && maker->mark) || v->mark);
	if (v->origin && !v->mark) {
		v->mark = true;
		add_branch(t, graph, NULL, v->origin, true);
		return;
	}
	if (!more || maker->mark || t->error)
		return;
	if (maker->cut || shfs_tree_is_deep(t)) {
		shfs_tree_continue(t, v);
		return;
	}
	maker->mark = true;
	add_input_branches(t, graph, maker, outside);
}

static void add_why_summary(struct shfs_tree *t, struct shfs_graph *graph)
{
	size_t makers = 0, sources = 0;

	for (struct shfs_graph_maker *m = shfs_graph_makers(graph); m; m = m->next)
		makers += !m->again;
	for (struct shfs_graph_version *v = shfs_graph_versions(graph); v; v = v->next)
		sources += is_source(v);
	if (makers)
		shfs_tree_sum(t, makers, sources, "source");
}

/* The last line: what may be missing. A shell's own echo has executed no program. */
static void add_outside_note(struct shfs_tree *t, struct shfs_graph *graph)
{
	size_t n = 0;

	for (struct shfs_graph_maker *m = shfs_graph_makers(graph); m && !n && !t->error;
	     m = m->next) {
		t->error = shfs_graph_outside(graph, m, count_file, &n);
		if (!t->error && !m->n_inputs && !m->n_left_out && !m->n_more && !m->cut)
			t->error = shfs_graph_programs(graph, m, count_file, &n);
	}
	if (n)
		shfs_show_dim(&t->out, t->style,
		              "files outside are known by their names alone\n");
}

static struct shfs_tree new_tree(struct shfs_context *ctx, struct shfs_index *index)
{
	shfs_context_pager(ctx);
	return (struct shfs_tree){ .index = index,
		                   .question = "shfs why ",
		                   .style = shfs_style_of(ctx),
		                   .columns = shfs_show_columns() };
}

static int show_why_tree(struct shfs_context *ctx, struct shfs_index *index,
                         struct shfs_graph *graph)
{
	struct shfs_tree t = new_tree(ctx, index);

	add_version_branch(&t, graph, NULL, shfs_graph_versions(graph));
	add_why_summary(&t, graph);
	add_outside_note(&t, graph);
	return shfs_tree_finish(&t);
}

/* --- JSON --- */

static int json_file(const char *path, void *arg)
{
	shfs_json_str(arg, NULL, path);
	return 0;
}

static int json_maker(struct shfs_json *json, struct shfs_index *index,
                      struct shfs_graph *graph, const struct shfs_graph_maker *m)
{
	int r = shfs_json_maker(json, index, m);

	shfs_json_bool(json, "cut", m->cut);
	shfs_json_array(json, "programs");
	if (!r)
		r = shfs_graph_programs(graph, m, json_file, json);
	shfs_json_array_end(json);
	shfs_json_array(json, "outside");
	if (!r)
		r = shfs_graph_outside(graph, m, json_file, json);
	shfs_json_array_end(json);
	shfs_json_object_end(json);
	return r ? r : shfs_json_flush(json) ? 0 : -EIO;
}

static int json_why(struct shfs_index *index, struct shfs_graph *graph)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	int r = 0;

	shfs_json_begin(&json, "why");
	shfs_json_version_name(&json, "target", &shfs_graph_versions(graph)->version);
	shfs_json_array(&json, "versions");
	for (struct shfs_graph_version *v = shfs_graph_versions(graph); v && !r;
	     v = v->next) {
		shfs_json_object(&json, NULL);
		shfs_version_json(&json, &v->version);
		shfs_json_bool(&json, "is_source", !v->maker && !v->origin);
		if (v->origin)
			shfs_json_version_name(&json, "copy_of", &v->origin->version);
		else
			shfs_json_null(&json, "copy_of");
		shfs_json_object_end(&json);
		r = shfs_json_flush(&json) ? 0 : -EIO;
	}
	shfs_json_array_end(&json);
	shfs_json_array(&json, "commands");
	for (struct shfs_graph_maker *m = shfs_graph_makers(graph); m && !r; m = m->next)
		r = json_maker(&json, index, graph, m);
	shfs_json_array_end(&json);
	return r ? r : shfs_json_end(&json) ? 0 : -EIO;
}

/* --- does it depend on anything below a directory? --- */

struct from {
	struct shfs_graph *graph;
	const char *dir;
	struct shfs_graph_version *found; /* a version below the directory, or */
	/* a command that executed a program there, or named a file there that is outside
	 * of all recorded directories */
	struct shfs_graph_maker *maker;
	char *program, *outside;
};

static int program_from(const char *path, void *arg)
{
	struct from *f = arg;

	if (!shfs_path_is_below(path, f->dir))
		return 0;
	f->program = strdup(path);
	return f->program ? 1 : -ENOMEM;
}

static int outside_from(const char *path, void *arg)
{
	struct from *f = arg;

	if (!shfs_path_is_below(path, f->dir))
		return 0;
	f->outside = strdup(path);
	return f->outside ? 1 : -ENOMEM;
}

/* Searches: 1, 0: nothing, or a negative errno. */
static int find_from(struct from *f)
{
	int r = 0;

	f->found = shfs_graph_versions(f->graph)->next;
	while (f->found && !shfs_path_is_below(f->found->version.path, f->dir))
		f->found = f->found->next;
	for (struct shfs_graph_maker *m = shfs_graph_makers(f->graph);
	     m && !f->found && !r; m = m->next) {
		f->maker = m;
		r = shfs_graph_programs(f->graph, m, program_from, f)
		            ?: shfs_graph_outside(f->graph, m, outside_from, f);
	}
	return r < 0 ? r : f->found || f->program || f->outside;
}

/* The end of the way from the target: the version that was found, or the result of the
 * command that ran the program. */
static struct shfs_graph_version *end_of_way(const struct from *f)
{
	return f->found ? f->found : f->maker->into;
}

/* The versions on the way in order, as via leads backwards; the caller frees it. */
static struct shfs_graph_version **way_of(const struct from *f, size_t *n)
{
	struct shfs_graph_version **way;

	*n = 0;
	for (struct shfs_graph_version *v = end_of_way(f); v; v = v->via)
		++*n;
	way = calloc(*n, sizeof(struct shfs_graph_version *));
	if (way) {
		size_t i = *n;

		for (struct shfs_graph_version *v = end_of_way(f); v; v = v->via)
			way[--i] = v;
	}
	return way;
}

static int show_way(struct shfs_context *ctx, struct shfs_index *index,
                    const struct from *f)
{
	struct shfs_tree t = new_tree(ctx, index);
	size_t n;
	_cleanup_free_ struct shfs_graph_version **way = way_of(f, &n);

	if (!way)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		shfs_tree_line(&t, way[i], source_note(way[i]), false);
	if (f->program || f->outside) {
		shfs_show_path(&t.out, f->program ?: f->outside);
		shfs_show_dim(&t.out, t.style,
		              f->program ? "  program\n" : "  outside, not recorded\n");
	}
	return shfs_tree_finish(&t);
}

static void json_way(struct shfs_json *json, struct shfs_graph_version *const *way,
                     size_t n)
{
	for (size_t i = 0; i < n; i++) {
		shfs_json_object(json, NULL);
		shfs_json_str(json, "path", way[i]->version.path);
		shfs_json_int(json, "n", way[i]->version.n);
		if (way[i]->maker) {
			shfs_json_object(json, "command");
			shfs_entry_json_head(json, &way[i]->maker->entry);
			shfs_json_object_end(json);
		} else {
			shfs_json_null(json, "command");
		}
		shfs_json_object_end(json);
	}
}

static int show_from_json(const struct from *f, bool depends)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	_cleanup_free_ struct shfs_graph_version **way = NULL;
	size_t n = 0;

	if (depends && !(way = way_of(f, &n)))
		return -ENOMEM;
	shfs_json_begin(&json, "why");
	shfs_json_version_name(&json, "target", &shfs_graph_versions(f->graph)->version);
	shfs_json_str(&json, "from", f->dir);
	shfs_json_bool(&json, "depends", depends);
	shfs_json_array(&json, "way");
	json_way(&json, way, n);
	shfs_json_array_end(&json);
	shfs_json_str(&json, "program", f->program);
	shfs_json_str(&json, "outside", f->outside);
	shfs_json_array(&json, "found");
	for (struct shfs_graph_version *v = shfs_graph_versions(f->graph)->next; v;
	     v = v->next)
		if (shfs_path_is_below(v->version.path, f->dir))
			shfs_json_version_name(&json, NULL, &v->version);
	shfs_json_array_end(&json);
	return shfs_json_end(&json) ? 0 : -EIO;
}

/* Prints that there is no dependency, as far as is recorded: of an unseen place nothing
 * is known. */
static int say_no(struct shfs_index *index, const struct from *f)
{
	_cleanup_buf_ struct shfs_buf dir = { 0 }, name = { 0 };
	const struct shfs_version *v = &shfs_graph_versions(f->graph)->version;

	shfs_show_path(&dir, f->dir);
	shfs_show_version(&name, v->path, v->n);
	if (dir.failed || name.failed)
		return -ENOMEM;
	printf("%s depends on nothing below %s\n", name.data, dir.data);
	return 0;
}

static int show_from(struct shfs_context *ctx, struct shfs_index *index, struct from *f,
                     int *code)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };
	int known, found = find_from(f);

	if (found < 0)
		return found;
	known = found ? 1 : shfs_path_is_known(index, f->dir);
	if (known < 0)
		return known;
	if (!known) {
		shfs_show_path(&shown, f->dir);
		shfs_error("%s: nothing below it was ever seen",
		           shown.data ? shown.data : "?");
		*code = SHFS_EXIT_NOT_FOUND;
		return 0;
	}
	*code = found ? SHFS_EXIT_OK : SHFS_EXIT_FAILURE;
	if (opts.json)
		return show_from_json(f, found);
	return found ? show_way(ctx, index, f) : say_no(index, f);
}

static int answer_from(struct shfs_context *ctx, struct shfs_index *index,
                       struct shfs_graph *graph, int *code)
{
	struct from f = { .graph = graph, .dir = opts.from };
	int r = show_from(ctx, index, &f, code);

	free(f.program);
	free(f.outside);
	return r;
}

/* --- the command --- */

static int answer_why(struct shfs_context *ctx, struct shfs_index *index,
                      struct shfs_graph *graph, int *code)
{
	if (opts.from)
		return answer_from(ctx, index, graph, code);
	if (opts.dot)
		return shfs_graph_dot(graph, opts.programs);
	return opts.json ? json_why(index, graph) : show_why_tree(ctx, index, graph);
}

static int check_why_options(struct shfs_context *ctx, int argc)
{
	if (!opts.dot || (!opts.json && !opts.from))
		return 0;
	shfs_error("--dot goes with neither --json nor --from");
	return SHFS_EXIT_USAGE;
}

static int run_why(struct shfs_context *ctx, struct shfs_index *index, int argc,
                   char **argv)
{
	_cleanup_version_ struct shfs_version target = { 0 };
	_cleanup_graph_ struct shfs_graph *graph = NULL;
	_cleanup_free_ char *from = NULL;
	int r, code = shfs_version_spec_find(index, argv[0], &target);

	if (code)
		return code;
	if (!opts.json && !opts.dot && !opts.from)
		opts.limits.max_versions = SHFS_TREE_VERSIONS;
	r = opts.from && !(from = shfs_operand_path(opts.from)) ? -ENOMEM : 0;
	opts.from = from;
	opts.limits.until = opts.json ? NULL : from;
	if (!r)
		r = shfs_upstream_new(index, &target, &opts.limits, &graph);
	if (!r)
		r = answer_why(ctx, index, graph, &code);
	return r ? r : code;
}

static int set_why_option(const struct shfs_option *opt, const char *value)
{
	opts.from = value;
	opts.limits.all |= shfs_path_is_version_control(value);
	return 0;
}

const struct shfs_command shfs_cmd_why = {
	.name = "why",
	.args = "FILE[@N]",
	.summary = "Show which commands made a file, from which versions of which files",
	.description = "Goes upstream to the sources, which no recorded command made. "
		       "Each command\n"
		       "is shown once, with what it read before the version was done.\n"
		       "With --from, the exit code is 0 if FILE depends on something "
		       "below DIR, 1 if\n"
		       "not.",
	.alone = true,
	.options = {
	{ "depth", 0, "N", "go back at most N commands",
	  .count = &opts.limits.max_depth },
	{ "from", 0, "DIR", "does it depend on anything below DIR?" },
	{ "programs", 0, NULL, "also show programs outside the recorded directories",
	  .flag = &opts.programs },
	{ "full", 0, NULL, "list all sources, also those of one directory",
	  .flag = &opts.full },
	{ "all", 'a', NULL, "also follow the files of version control (.git)",
	  .flag = &opts.limits.all },
	{ "dot", 0, NULL, "the graph for Graphviz", .flag = &opts.dot },
	SHFS_DB_OPTION,
	{ "json", 0, NULL, "for programs: see docs/json.md", .flag = &opts.json },
	},
	.operands = { 1, 1 },
	.option = set_why_option,
	.at_once = true,
	.check = check_why_options,
	.run_on_index = run_why,
};
