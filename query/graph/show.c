/* SPDX-License-Identifier: MIT */
#include "query/graph/show.h"

#include "common/quote.h"

#include <errno.h>
#include <string.h>

#define SEE_ABOVE " (see above)"
#define ID_WIDTH  7  /* of an id, or a text in its place; seldom more */
#define HEAD_MIN  15 /* for an id and some of the command */
#define NAME_MIN  12
#define ARROW     " ← "
#define LINE_MIN  40 /* for a name, an arrow, an id and a note */

/* --- a tree --- */

/* The room left in the line, at least half of it; deeper trees are cut. */
static size_t room(const struct shfs_tree *t)
{
	return t->columns - MIN(3 * t->level, t->columns / 2);
}

static const char *lack(const struct shfs_graph_version *v)
{
	if (v->version.flags & SHFS_CONTENT_INCOMPLETE)
		return "  incomplete";
	if (v->version.flags & SHFS_CONTENT_PRUNED)
		return "  pruned";
	if (v->version.flags & SHFS_CONTENT_SKIPPED)
		return "  not archived";
	if (!(v->version.flags & SHFS_CONTENT_OBJECT))
		return "  fingerprint only";
	return "";
}

/* Adds the name in the room that the words after it leave, and at least most of it. */
static size_t add_branch_name(struct shfs_tree *t, const struct shfs_graph_version *v,
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

void shfs_tree_line(struct shfs_tree *t, const struct shfs_graph_version *v,
                    const char *note, bool above)
{
	size_t words = strlen(note) + strlen(lack(v)), used;

	if (v->maker)
		words += shfs_signs_width(ARROW) +
		         (above ? ID_WIDTH + strlen(SEE_ABOVE) : HEAD_MIN);
	used = add_branch_name(t, v, words) + strlen(lack(v)) + shfs_signs_width(ARROW);
	shfs_show_dim(&t->out, t->style, note);
	shfs_show_dim(&t->out, t->style, lack(v));
	if (v->maker && !t->error) {
		size_t left = above ? 0 : MAX(room(t), used) - used;

		shfs_show_signs(&t->out, ARROW);
		t->error = shfs_entry_show_head(t->index, t->style, &v->maker->entry,
		                                left, &t->out);
	}
	if (above)
		shfs_show_dim(&t->out, t->style, SEE_ABOVE);
	shfs_buf_char(&t->out, '\n');
}

void shfs_tree_command(struct shfs_tree *t, const struct shfs_graph_maker *maker,
                       const char *note)
{
	size_t words = strlen(note);

	t->error = t->error
	                   ?: shfs_entry_show_head(t->index, t->style, &maker->entry,
	                                           MAX(room(t), words) - words, &t->out);
	shfs_show_dim(&t->out, t->style, note);
	shfs_buf_char(&t->out, '\n');
}

static void begin_branch_line(struct shfs_tree *t, bool last)
{
	shfs_buf_add(&t->out, t->prefix.data, t->prefix.len);
	shfs_show_signs(&t->out, last ? "└─ " : "├─ ");
}

size_t shfs_tree_begin(struct shfs_tree *t, bool last)
{
	size_t len = t->prefix.len;

	begin_branch_line(t, last);
	shfs_show_signs(&t->prefix, last ? "   " : "│  ");
	t->level++;
	return len;
}

void shfs_tree_end(struct shfs_tree *t, size_t begun)
{
	t->level--;
	t->prefix.len = begun;
}

void shfs_tree_words(struct shfs_tree *t, const char *words, bool last)
{
	begin_branch_line(t, last);
	shfs_show_dim(&t->out, t->style, words);
	shfs_buf_char(&t->out, '\n');
}

void shfs_tree_count(struct shfs_tree *t, const char *what, size_t n, bool last)
{
	_cleanup_buf_ struct shfs_buf words = { 0 };

	if (!n)
		return;
	shfs_buf_printf(&words, "%zu %s%s", n, what, shfs_plural(n));
	if (words.failed)
		t->error = -ENOMEM;
	else
		shfs_tree_words(t, words.data, last);
}

bool shfs_tree_is_deep(const struct shfs_tree *t)
{
	return 3 * (t->level + 1) + LINE_MIN > t->columns;
}

void shfs_tree_continue(struct shfs_tree *t, const struct shfs_graph_version *v)
{
	begin_branch_line(t, true);
	shfs_buf_printf(&t->out, "%s%s %s", t->style->dim, shfs_sign("…"), t->question);
	shfs_show_version(&t->out, v->version.path, v->version.n);
	shfs_buf_printf(&t->out, "%s\n", t->style->off);
}

void shfs_tree_sum(struct shfs_tree *t, size_t commands, size_t n, const char *what)
{
	shfs_buf_printf(&t->out, "\n%s%zu command%s, %zu %s%s%s\n", t->style->dim,
	                commands, shfs_plural(commands), n, what, shfs_plural(n),
	                t->style->off);
}

int shfs_tree_finish(struct shfs_tree *t)
{
	int r = t->error           ? t->error
	        : t->prefix.failed ? -ENOMEM
	                           : (shfs_show_flush(&t->out) ? 0 : -EIO);

	shfs_buf_free(&t->out);
	shfs_buf_free(&t->prefix);
	return r;
}

/* --- JSON --- */

void shfs_json_version_name(struct shfs_json *json, const char *key,
                            const struct shfs_version *version)
{
	shfs_json_object(json, key);
	shfs_json_str(json, "path", version->path);
	shfs_json_int(json, "n", version->n);
	shfs_json_object_end(json);
}

static int json_job(struct shfs_json *json, struct shfs_index *index, int64_t job)
{
	_cleanup_process_ struct shfs_process_row row = { 0 };
	int r = shfs_process_load(index, job, &row);

	if (r <= 0)
		return r;
	shfs_json_object(json, "job");
	shfs_process_json(json, &row);
	shfs_json_object_end(json);
	return 0;
}

int shfs_json_maker(struct shfs_json *json, struct shfs_index *index,
                    const struct shfs_graph_maker *m)
{
	int r = 0;

	shfs_json_object(json, NULL);
	shfs_entry_json_head(json, &m->entry);
	if (m->entry.job)
		r = json_job(json, index, m->entry.job);
	shfs_json_array(json, "made");
	for (struct shfs_graph_version *v = m->made; v; v = v->next_made)
		shfs_json_version_name(json, NULL, &v->version);
	shfs_json_array_end(json);
	shfs_json_int(json, "left_out", m->n_left_out);
	shfs_json_array(json, "inputs");
	for (size_t i = 0; i < m->n_inputs; i++)
		shfs_json_version_name(json, NULL, &m->inputs[i]->version);
	shfs_json_array_end(json);
	return r;
}

/* --- DOT --- */

#define LABEL_WIDTH 60

void shfs_dot_string(struct shfs_buf *out, const struct shfs_buf *text)
{
	shfs_buf_char(out, '"');
	for (size_t i = 0; i < text->len; i++) {
		if (text->data[i] == '"' || text->data[i] == '\\')
			shfs_buf_char(out, '\\');
		shfs_buf_char(out, text->data[i]);
		if (text->data[i] == '&')
			shfs_buf_str(out, "amp;");
	}
	shfs_buf_char(out, '"');
	out->failed |= text->failed;
}

static void dot_node(struct shfs_buf *out, char kind, size_t number, const char *shape,
                     const struct shfs_buf *label, const char *more)
{
	shfs_buf_printf(out, "\t%c%zu [shape=%s, label=", kind, number, shape);
	shfs_dot_string(out, label);
	shfs_buf_printf(out, "%s];\n", more);
}

static void dot_version(struct shfs_buf *out, const struct shfs_graph_version *v)
{
	_cleanup_buf_ struct shfs_buf label = { 0 };

	shfs_show_version(&label, v->version.path, v->version.n);
	dot_node(out, 'v', v->number, "ellipse", &label, v->via ? "" : ", style=bold");
	for (const struct shfs_graph_version *w = v->carried; w; w = w->next_carried)
		shfs_buf_printf(out, "\tv%zu -> v%zu [style=dashed];\n", v->number,
		                w->number);
	if (v->origin)
		shfs_buf_printf(out, "\tv%zu -> v%zu [style=dashed];\n",
		                v->origin->number, v->number);
}

struct dot_programs {
	struct shfs_buf *out;
	size_t maker, n;
};

static int dot_program(const char *path, void *arg)
{
	_cleanup_buf_ struct shfs_buf label = { 0 };
	struct dot_programs *p = arg;

	shfs_quote_display(&label, path, strlen(path));
	dot_node(p->out, 'p', ++p->n, "plaintext", &label, "");
	shfs_buf_printf(p->out, "\tp%zu -> c%zu [style=dotted];\n", p->n, p->maker);
	return 0;
}

static void dot_maker(struct shfs_buf *out, const struct shfs_graph_maker *m)
{
	const struct shfs_entry *e = &m->entry;
	_cleanup_buf_ struct shfs_buf label = { 0 };

	if (e->is_process)
		shfs_show_process(&label, &e->process, LABEL_WIDTH);
	else if (e->command.hidden)
		shfs_buf_str(&label, "(text not recorded)");
	else
		shfs_show_first_line(&label, e->command.text, e->command.text_len,
		                     LABEL_WIDTH);
	dot_node(out, 'c', m->number, "box", &label, "");
	for (size_t i = 0; i < m->n_inputs; i++)
		shfs_buf_printf(out, "\tv%zu -> c%zu;\n", m->inputs[i]->number,
		                m->number);
	for (const struct shfs_graph_version *v = m->made; v; v = v->next_made)
		shfs_buf_printf(out, "\tc%zu -> v%zu;\n", m->number, v->number);
}

int shfs_graph_dot(struct shfs_graph *graph, bool programs)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	struct dot_programs p = { .out = &out };
	int r = 0;

	shfs_buf_str(&out, "digraph shfs {\n\trankdir=LR;\n");
	for (struct shfs_graph_version *v = shfs_graph_versions(graph); v && !r;
	     v = v->next) {
		dot_version(&out, v);
		r = shfs_show_flush(&out) ? 0 : -EIO;
	}
	for (struct shfs_graph_maker *m = shfs_graph_makers(graph); m && !r;
	     m = m->next) {
		dot_maker(&out, m);
		p.maker = m->number;
		if (programs)
			r = shfs_graph_programs(graph, m, dot_program, &p);
		if (!r)
			r = shfs_show_flush(&out) ? 0 : -EIO;
	}
	shfs_buf_str(&out, "}\n");
	return r ? r : shfs_show_flush(&out) ? 0 : -EIO;
}
