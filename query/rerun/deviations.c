/* SPDX-License-Identifier: MIT */
#include "query/rerun/deviations.h"

#include "common/path.h"
#include "common/quote.h"
#include "query/base/cmd.h"
#include "query/graph/upstream.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>

void shfs_deviations_clear(struct shfs_deviations *d)
{
	for (size_t i = 0; i < d->n_files; i++) {
		free(d->files[i].path);
		free(d->files[i].other);
	}
	for (size_t i = 0; i < d->n_edits; i++) {
		regfree(&d->edits[i].pattern);
		free(d->edits[i].text);
	}
	free(d->files);
	free(d->edits);
	*d = (struct shfs_deviations){ 0 };
}

/* --- what the user says --- */

static int fail_word(const char *option, const char *word, const char *wants)
{
	_cleanup_buf_ struct shfs_buf shown = { 0 };

	shfs_quote_display(&shown, word, strlen(word));
	shfs_error("--%s wants %s, not %s", option, wants, shown.data ?: "");
	return SHFS_EXIT_USAGE;
}

static int no_memory(void)
{
	shfs_no_memory();
	return SHFS_EXIT_FAILURE;
}

int shfs_deviations_add_file(struct shfs_deviations *d, const char *word)
{
	const char *equals = strchr(word, '=');
	_cleanup_free_ char *name = equals ? strndup(word, equals - word) : NULL;
	struct shfs_replaced *files, *last;
	struct stat st;

	if (!equals || equals == word || !equals[1])
		return fail_word("with", word, "FILE=OTHER");
	files = reallocarray(d->files, d->n_files + 1, sizeof(*files));
	if (!files || !name)
		return no_memory();
	d->files = files;
	last = &files[d->n_files++];
	*last = (struct shfs_replaced){ shfs_operand_path(name),
		                        shfs_path_absolute(equals + 1) };
	if (!last->path || !last->other)
		return no_memory();
	if (stat(last->other, &st) || !S_ISREG(st.st_mode) || access(last->other, R_OK)) {
		_cleanup_buf_ struct shfs_buf shown = { 0 };

		shfs_show_path(&shown, last->other);
		shfs_error("%s is no file that can be read", shown.data ?: "");
		return SHFS_EXIT_NOT_FOUND;
	}
	return 0;
}

int shfs_deviations_add_variable(struct shfs_deviations *d, const char *word)
{
	const char *equals = strchr(word, '=');
	_cleanup_free_ char *name = equals ? strndup(word, equals - word) : NULL;

	if (!equals || equals == word)
		return fail_word("env", word, "NAME=VALUE");
	d->environment = true;
	return name && !setenv(name, equals + 1, true) ? 0 : no_memory();
}

int shfs_deviations_add_edit(struct shfs_deviations *d, const char *word)
{
	static const char wants[] = "s/PATTERN/TEXT/ or s/PATTERN/TEXT/g";
	const char *begin = word + 2, *middle, *end;
	_cleanup_free_ char *pattern = NULL;
	struct shfs_edit *edits, *last;
	int error;

	if (*word != 's' || !word[1])
		return fail_word("arg", word, wants);
	middle = strchr(begin, word[1]);
	end = middle ? strchr(middle + 1, word[1]) : NULL;
	if (!end || middle == begin || (end[1] && strcmp(end + 1, "g") != 0))
		return fail_word("arg", word, wants);
	pattern = strndup(begin, middle - begin);
	edits = reallocarray(d->edits, d->n_edits + 1, sizeof(*edits));
	if (!pattern || !edits)
		return no_memory();
	d->edits = edits;
	last = &edits[d->n_edits];
	*last = (struct shfs_edit){ .all = end[1] };
	error = regcomp(&last->pattern, pattern, REG_EXTENDED);
	if (error) {
		char why[128];

		regerror(error, &last->pattern, why, sizeof(why));
		shfs_error("--arg: the pattern is wrong: %s", why);
		return SHFS_EXIT_USAGE;
	}
	d->n_edits++;
	last->text = strndup(middle + 1, end - middle - 1);
	return last->text ? 0 : no_memory();
}

/* --- what it is otherwise --- */

const char *shfs_deviations_other(const struct shfs_deviations *d, const char *path)
{
	for (size_t i = 0; d && i < d->n_files; i++)
		if (!strcmp(d->files[i].path, path))
			return d->files[i].other;
	return NULL;
}

static bool edit_once(const struct shfs_edit *edit, struct shfs_buf *text)
{
	_cleanup_buf_ struct shfs_buf out = { 0 };
	const char *at = text->data;
	bool edited = false;
	regmatch_t m;

	while (at && *at && (edit->all || !edited) &&
	       !regexec(&edit->pattern, at, 1, &m, edited ? REG_NOTBOL : 0) &&
	       m.rm_eo > m.rm_so) {
		shfs_buf_add(&out, at, (size_t)m.rm_so);
		shfs_buf_str(&out, edit->text);
		at += m.rm_eo;
		edited = true;
	}
	if (!edited)
		return false;
	shfs_buf_str(&out, at);
	text->len = 0;
	shfs_buf_add(text, out.data, out.len);
	text->failed |= out.failed;
	return true;
}

int shfs_deviations_edit(const struct shfs_deviations *d, struct shfs_buf *text)
{
	bool edited = false;

	for (size_t i = 0; i < d->n_edits; i++)
		edited |= edit_once(&d->edits[i], text);
	return text->failed ? -ENOMEM : edited;
}

/* --- which commands --- */

/* A command of the graph. */
struct chosen {
	int64_t id, begin_ns;
	bool differs;
	UT_hash_handle hh;
};

struct choice {
	const struct shfs_deviations *deviations;
	struct chosen *commands;
};

static struct chosen *find_chosen(struct choice *c, int64_t id)
{
	struct chosen *found;

	HASH_FIND(hh, c->commands, &id, sizeof(id), found);
	return found;
}

static void free_choice(struct choice *c)
{
	struct chosen *one, *next;

	HASH_ITER (hh, c->commands, one, next) {
		HASH_DEL(c->commands, one);
		free(one);
	}
}

/* Does it come out otherwise by itself? */
static bool differs_itself(const struct choice *c, const struct shfs_graph_maker *m)
{
	const struct shfs_deviations *d = c->deviations;

	if (d->environment)
		return true;
	for (size_t i = 0; i < m->n_inputs; i++)
		if (shfs_deviations_other(d, m->inputs[i]->version.path))
			return true;
	for (size_t i = 0; i < d->n_edits; i++)
		if (!regexec(&d->edits[i].pattern, m->entry.command.text, 0, NULL, 0))
			return true;
	return false;
}

static int note_command(struct choice *c, const struct shfs_graph_maker *m)
{
	struct chosen *one = find_chosen(c, m->entry.command.command_id);

	if (!m->entry.command.command_id)
		return 0;
	if (!one) {
		one = calloc(1, sizeof(*one));
		if (!one)
			return -ENOMEM;
		one->id = m->entry.command.command_id;
		one->begin_ns = m->entry.command.begin_ns;
		HASH_ADD(hh, c->commands, id, sizeof(one->id), one);
	}
	one->differs |= differs_itself(c, m);
	return 0;
}

/* Does an input come from a command that comes out otherwise? One that is replaced does
 * not. */
static bool differs_by_input(struct choice *c, const struct shfs_graph_maker *m)
{
	for (size_t i = 0; i < m->n_inputs; i++) {
		const struct shfs_graph_version *v = m->inputs[i];
		const struct shfs_graph_maker *by = v->maker
		                                            ?: v->origin
		                                               ? v->origin->maker
		                                               : NULL;
		const struct chosen *maker =
			by ? find_chosen(c, by->entry.command.command_id) : NULL;

		if (maker && maker->differs &&
		    !shfs_deviations_other(c->deviations, v->version.path))
			return true;
	}
	return false;
}

static void spread(struct choice *c, struct shfs_graph *graph)
{
	bool more = true;

	while (more) {
		more = false;
		for (const struct shfs_graph_maker *m = shfs_graph_makers(graph); m;
		     m = m->next) {
			struct chosen *one = find_chosen(c, m->entry.command.command_id);

			if (!one || one->differs || !differs_by_input(c, m))
				continue;
			one->differs = more = true;
		}
	}
}

static int compare_begin(const struct chosen *a, const struct chosen *b)
{
	return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

int shfs_deviations_choose(const struct shfs_deviations *d, struct shfs_index *index,
                           const struct shfs_version *targets, size_t n,
                           shfs_deviations_fn fn, void *arg)
{
	const struct shfs_graph_limits limits = { .whole = true };
	_cleanup_graph_ struct shfs_graph *graph = NULL;
	struct choice c = { .deviations = d };
	struct shfs_graph_version *unused;
	int r = shfs_upstream_new(index, &targets[0], &limits, &graph);

	for (size_t i = 1; i < n && !r; i++)
		r = shfs_upstream_add(graph, &targets[i], &unused);
	for (const struct shfs_graph_maker *m = r ? NULL : shfs_graph_makers(graph);
	     m && !r; m = m->next)
		r = note_command(&c, m);
	if (!r)
		spread(&c, graph);
	HASH_SORT(c.commands, compare_begin);
	for (const struct chosen *one = c.commands; one && !r; one = one->hh.next)
		r = one->differs ? fn(one->id, arg) : 0;
	free_choice(&c);
	return r;
}
