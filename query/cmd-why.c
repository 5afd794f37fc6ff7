/* SPDX-License-Identifier: MIT */
#include "query/cmd.h"
#include "query/upstream.h"
#include "query/version-spec.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>

/* Sources of one command that are listed; the others are counted. */
#define SOURCES_MAX 12
/* That are looked at, but for --json: what else there is has a tree of its own. */
#define VERSIONS_MAX 500
#define SEE_ABOVE    " (see above)"
#define ID_WIDTH     7  /* of an id, or what stands for one; seldom more */
#define HEAD_MIN     15 /* of an id and some of the command */
#define NAME_MIN     12
#define ARROW_WIDTH  3
#define LINE_MIN     40 /* of a name, an arrow, an id and what is said of it */

static struct {
	size_t depth;
	bool all, json;
} opts;

/* --- the tree --- */

struct tree {
	struct shfs_index *index;
	const struct shfs_style *style;
	size_t columns;
	struct shfs_buf out, prefix; /* prefix: the branches further left */
	size_t level;
	int error;
};

/* What is left of the line; half of it or more, or the tree is not drawn further. */
static size_t room(const struct tree *t)
{
	return t->columns - MIN(3 * t->level, t->columns / 2);
}

static const char *note(const struct shfs_upstream_version *v)
{
	if (v->version.flags & SHFS_CONTENT_INCOMPLETE)
		return "  incomplete";
	if (v->version.flags & SHFS_CONTENT_SKIPPED)
		return "  not archived";
	if (!(v->version.flags & SHFS_CONTENT_OBJECT))
		return "  fingerprint only";
	return "";
}

static const char *source(const struct shfs_upstream_version *v)
{
	if (v->maker)
		return "";
	return v->version.n == 1 ? "  source" : "  changed while nothing watched";
}

/* The name has what is left beside the words behind it, and most of that. */
static size_t add_name(struct tree *t, const struct shfs_upstream_version *v,
                       size_t words)
{
	_cleanup_buf_ struct shfs_buf name = { 0 };
	size_t most = MAX(room(t), words + NAME_MIN) - words, width;

	if (v->maker)
		most = MAX(MIN(most, room(t) / 2), (size_t)NAME_MIN);
	shfs_show_version(&name, v->version.path, v->version.n);
	if (name.failed) {
		t->error = -ENOMEM;
		return 0;
	}
	width = MIN(shfs_quote_width(name.data, name.len), most);
	shfs_show_tail(&t->out, name.data, width);
	return width;
}

/* config.yaml@2 ← 4f2a91c  sed -i …; of a command that was shown the id is enough. */
static void add_line(struct tree *t, const struct shfs_upstream_version *v, bool above)
{
	size_t words = strlen(source(v)) + strlen(note(v)), used;

	if (v->maker)
		words += ARROW_WIDTH + (above ? ID_WIDTH + strlen(SEE_ABOVE) : HEAD_MIN);
	used = add_name(t, v, words) + strlen(note(v)) + ARROW_WIDTH;
	shfs_show_dim(&t->out, t->style, source(v));
	shfs_show_dim(&t->out, t->style, note(v));
	if (v->maker && !t->error) {
		size_t left = above ? 0 : MAX(room(t), used) - used;

		shfs_buf_str(&t->out, " ← ");
		t->error = shfs_entry_show_head(t->index, t->style, &v->maker->entry,
		                                left, &t->out);
	}
	if (above)
		shfs_show_dim(&t->out, t->style, SEE_ABOVE);
	shfs_buf_char(&t->out, '\n');
}

static void begin_branch(struct tree *t, bool last)
{
	shfs_buf_add(&t->out, t->prefix.data, t->prefix.len);
	shfs_buf_str(&t->out, last ? "└─ " : "├─ ");
}

static void add_version(struct tree *t, struct shfs_upstream_version *v);

static void add_branch(struct tree *t, struct shfs_upstream_version *v, bool last)
{
	size_t len = t->prefix.len;

	begin_branch(t, last);
	shfs_buf_str(&t->prefix, last ? "   " : "│  ");
	t->level++;
	add_version(t, v);
	t->level--;
	t->prefix.len = len;
}

static void add_count(struct tree *t, const char *what, size_t n, bool last)
{
	begin_branch(t, last);
	shfs_buf_printf(&t->out, "%s%zu %s%s%s\n", t->style->dim, n, what,
	                n == 1 ? "" : "s", t->style->off);
}

/* Sources first: what goes on is below them. */
static void add_inputs(struct tree *t, const struct shfs_upstream_maker *maker)
{
	size_t n = maker->n_inputs, sources = 0, listed = 0;
	size_t left_out = maker->n_left_out, more = maker->n_more;

	for (size_t i = 0; i < n; i++)
		sources += !maker->inputs[i]->maker;
	if (left_out)
		add_count(t, ".git file", left_out, !n && !more);
	if (more)
		add_count(t, "more input", more, !n);
	for (size_t i = 0; i < n && listed < SOURCES_MAX && !t->error; i++)
		if (!maker->inputs[i]->maker) {
			listed++;
			add_branch(t, maker->inputs[i], listed == n);
		}
	if (listed < sources)
		add_count(t, "more source", sources - listed, sources == n);
	for (size_t i = 0, left = n - sources; i < n && !t->error; i++)
		if (maker->inputs[i]->maker)
			add_branch(t, maker->inputs[i], !--left);
}

/* The tree is not drawn further, for it would leave the terminal. */
static void add_continuation(struct tree *t, const struct shfs_upstream_version *v)
{
	begin_branch(t, true);
	shfs_buf_printf(&t->out, "%s… shfs why ", t->style->dim);
	shfs_show_version(&t->out, v->version.path, v->version.n);
	shfs_buf_printf(&t->out, "%s\n", t->style->off);
}

static void add_version(struct tree *t, struct shfs_upstream_version *v)
{
	struct shfs_upstream_maker *maker = v->maker;
	bool more = maker &&
	            (maker->n_inputs || maker->n_left_out || maker->n_more || maker->cut);

	add_line(t, v, more && maker->mark);
	if (!more || maker->mark || t->error)
		return;
	if (maker->cut || 3 * (t->level + 1) + LINE_MIN > t->columns) {
		add_continuation(t, v);
		return;
	}
	maker->mark = true;
	add_inputs(t, maker);
}

static void add_summary(struct tree *t, struct shfs_upstream *up)
{
	size_t makers = 0, sources = 0;

	for (struct shfs_upstream_maker *m = shfs_upstream_makers(up); m; m = m->next)
		makers++;
	for (struct shfs_upstream_version *v = shfs_upstream_versions(up); v; v = v->next)
		sources += !v->maker;
	shfs_buf_printf(&t->out, "%s%zu command%s, %zu source%s%s\n", t->style->dim,
	                makers, makers == 1 ? "" : "s", sources, sources == 1 ? "" : "s",
	                t->style->off);
}

static int show_tree(struct shfs_context *ctx, struct shfs_index *index,
                     struct shfs_upstream *up)
{
	struct tree t = { .index = index };
	int r;

	shfs_context_pager(ctx);
	t.style = shfs_style_of(ctx);
	t.columns = shfs_show_columns();
	add_version(&t, shfs_upstream_versions(up));
	if (shfs_upstream_makers(up)) {
		shfs_buf_char(&t.out, '\n');
		add_summary(&t, up);
	}
	r = t.error ?: t.prefix.failed ? -ENOMEM : shfs_show_flush(&t.out) ? 0 : -EIO;
	shfs_buf_free(&t.out);
	shfs_buf_free(&t.prefix);
	return r;
}

/* --- JSON --- */

static void json_name(struct shfs_json *json, const char *key,
                      const struct shfs_version *version)
{
	shfs_json_object(json, key);
	shfs_json_str(json, "path", version->path);
	shfs_json_int(json, "n", version->n);
	shfs_json_object_end(json);
}

static void json_maker(struct shfs_json *json, const struct shfs_upstream_maker *m)
{
	shfs_json_object(json, NULL);
	shfs_entry_json_head(json, &m->entry);
	shfs_json_array(json, "made");
	for (struct shfs_upstream_version *v = m->made; v; v = v->next_made)
		json_name(json, NULL, &v->version);
	shfs_json_array_end(json);
	shfs_json_bool(json, "cut", m->cut);
	shfs_json_int(json, "left_out", m->n_left_out);
	shfs_json_array(json, "inputs");
	for (size_t i = 0; i < m->n_inputs; i++)
		json_name(json, NULL, &m->inputs[i]->version);
	shfs_json_array_end(json);
	shfs_json_object_end(json);
}

static int show_json(struct shfs_upstream *up)
{
	_cleanup_json_ struct shfs_json json = { 0 };

	shfs_json_begin(&json, "why");
	json_name(&json, "target", &shfs_upstream_versions(up)->version);
	shfs_json_array(&json, "versions");
	for (struct shfs_upstream_version *v = shfs_upstream_versions(up); v;
	     v = v->next) {
		shfs_json_object(&json, NULL);
		shfs_version_json(&json, &v->version);
		shfs_json_bool(&json, "is_source", !v->maker);
		shfs_json_object_end(&json);
	}
	shfs_json_array_end(&json);
	shfs_json_array(&json, "commands");
	for (struct shfs_upstream_maker *m = shfs_upstream_makers(up); m; m = m->next)
		json_maker(&json, m);
	shfs_json_array_end(&json);
	return shfs_json_end(&json) ? 0 : -EIO;
}

static int run(struct shfs_context *ctx, int argc, char **argv)
{
	_cleanup_version_ struct shfs_version target = { 0 };
	_cleanup_upstream_ struct shfs_upstream *up = NULL;
	int r, code = SHFS_EXIT_OK;
	struct shfs_index *index = shfs_context_index(ctx, &code);

	if (!index)
		return code;
	code = shfs_version_spec_find(index, argv[0], &target);
	if (code)
		return code;
	r = shfs_upstream_new(index, &target, opts.depth, opts.json ? 0 : VERSIONS_MAX,
	                      opts.all, &up);
	if (!r)
		r = opts.json ? show_json(up) : show_tree(ctx, index, up);
	if (r == -EIO)
		return SHFS_EXIT_FAILURE; /* main says that the output failed */
	return r ? shfs_fail_index(index, r) : SHFS_EXIT_OK;
}

static int option(struct shfs_context *ctx, const struct shfs_option *opt,
                  const char *value)
{
	char *end;

	if (!opt->arg) {
		opts.json |= !strcmp(opt->name, "json");
		opts.all |= !strcmp(opt->name, "all");
		return 0;
	}
	errno = 0;
	opts.depth = strtoul(value, &end, 10);
	if (!errno && !*end && *value >= '0' && *value <= '9' && opts.depth)
		return 0;
	shfs_error("--depth wants a number above 0");
	return SHFS_EXIT_USAGE;
}

static const struct shfs_option options[] = {
	{ "depth", 0, "N", "go back at most N commands" },
	{ "all", 'a', NULL, "also through the files of version control (.git)" },
	{ "json", 0, NULL, "for programs: see docs/json.md" },
	{ 0 },
};

const struct shfs_command shfs_cmd_why = {
	.name = "why",
	.args = "FILE[@N]",
	.summary = "Show which commands made a file, from which versions of which files",
	.description =
		"Goes upstream to the sources: what no recorded command made. Each "
		"command\n"
		"is shown with what it had read before the version was done, and once.\n"
		"Programs and libraries outside of the project are not recorded.",
	.options = options,
	.min_args = 1,
	.max_args = 1,
	.option = option,
	.run = run,
};
