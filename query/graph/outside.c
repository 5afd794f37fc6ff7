/* SPDX-License-Identifier: MIT */
/*
 * Files outside of all recorded directories, of which there is no record but the words of
 * those who used them: the arguments of a program, and what stood on its standard input.
 * A word is taken for a file if there is one of that name now; or if it is an absolute
 * path in a directory that there is, as the file may be gone.
 */
#include "query/graph/internal.h"

#include "common/operand.h"
#include "common/path.h"
#include "common/program.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 1000 /* of one maker */
#define MAKERS_MAX                                                                       \
	500 /* of a graph: of more, links in recorded directories are not followed */

struct outside {
	struct shfs_graph *g;
	const struct maker_node *m;
	struct outside_file {
		char *path;
		int64_t process_id; /* of the first one that named it */
		bool is_gone;
		bool passed_on; /* gone, and another process of the command named it */
	} * list;
	size_t n, cap;
	int64_t process_id; /* that is looked at */
};

/* --- recorded directories --- */

static int load_roots(struct shfs_graph *g)
{
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	size_t cap = 0;
	int r = g->roots ? 0
	                 : shfs_rows_open(g->index,
	                                  "SELECT DISTINCT root FROM v_producer", &rows);

	while (rows && !r && (r = shfs_rows_next(rows)) > 0) {
		char *root = strdup(shfs_rows_text(rows, 0));

		if (!root || !MAKE_ROOM(g->roots, g->n_roots, cap)) {
			free(root);
			return -ENOMEM;
		}
		g->roots[g->n_roots++] = root;
		r = 0;
	}
	return r;
}

static bool is_below_root(const struct shfs_graph *g, const char *path)
{
	for (size_t i = 0; i < g->n_roots; i++)
		if (shfs_path_is_below(path, g->roots[i]))
			return true;
	return false;
}

int shfs_graph_is_outside(struct shfs_graph *g, const char *path)
{
	return load_roots(g) ?: !is_below_root(g, path);
}

void shfs_graph_outside_free(struct shfs_graph *g)
{
	for (size_t i = 0; i < g->n_roots; i++)
		free(g->roots[i]);
	free(g->roots);
}

/* --- names --- */

/* Is it in a directory where users keep no files? */
static bool is_system(const char *path)
{
	return shfs_path_is_system(path) || shfs_path_is_below(path, "/usr") ||
	       shfs_path_is_below(path, "/etc") || shfs_path_is_below(path, "/boot") ||
	       (shfs_path_is_below(path, "/var") &&
	        !shfs_path_is_below(path, "/var/tmp"));
}

/* May an absolute path be a file that was used? */
static bool may_be_file(const char *path)
{
	_cleanup_free_ char *dir = strdup(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;
	struct stat st;

	if (!lstat(path, &st))
		return !S_ISDIR(st.st_mode) && !shfs_path_is_system(path);
	if (is_system(path) || !slash || slash == dir || !slash[1] ||
	    strpbrk(path, " \t\n*?"))
		return false;
	*slash = '\0';
	return !lstat(dir, &st) && S_ISDIR(st.st_mode);
}

/* Where a link in a recorded directory leads now; NULL: it is none. */
static char *follow_link(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISLNK(st.st_mode) ? realpath(path, NULL) : NULL;
}

/* Is an operand a file outside? 1 and its path, which the caller frees; 0. */
static int file_of_operand(struct shfs_graph *g, const char *operand, const char *cwd,
                           char **out)
{
	_cleanup_free_ char *joined = shfs_path_join(cwd, operand), *path = NULL;
	_cleanup_free_ char *target = NULL;
	struct stat st;

	path = joined ? shfs_path_absolute(joined) : NULL;
	if (!path)
		return -ENOMEM;
	if (is_below_root(g, path)) {
		target = follow_link(path);
		if (!target || is_below_root(g, target) || !may_be_file(target))
			return 0;
		*out = TAKE_PTR(target);
		return 1;
	}
	if (*operand == '/' ? !may_be_file(path)
	                    : lstat(path, &st) || S_ISDIR(st.st_mode) ||
	                              shfs_path_is_system(path))
		return 0;
	*out = TAKE_PTR(path);
	return 1;
}

/* Calls fn for what stands on standard input, output and error. */
static int each_stream(struct shfs_graph *g, int64_t streams_id, shfs_outside_fn fn,
                       void *arg)
{
	_cleanup_buf_ struct shfs_buf text = { 0 };
	int n = 0, r = streams_id ? shfs_facts_string(g->facts, streams_id, &text) : 0;

	if (r <= 0)
		return r;
	shfs_buf_u8(&text, 0);
	r = text.failed ? -ENOMEM : 0;
	for (const char *at = text.data; at < text.data + text.len && n < 3 && !r;
	     at += strlen(at) + 1, n++)
		/* a here-document is a file without a name */
		if (*at == '/' && !shfs_path_is_system(at) && !is_below_root(g, at) &&
		    !shfs_ends_with(at, " (deleted)"))
			r = fn(at, n ? OUTSIDE_STREAM_OUT : OUTSIDE_NAMED, arg);
	return r;
}

/* A process whose names are listed. */
struct naming {
	struct shfs_graph *g;
	const char *cwd;
	shfs_outside_fn fn;
	void *arg;
};

static int name_operand(const char *operand, bool is_output, void *arg)
{
	const struct naming *n = arg;
	_cleanup_free_ char *path = NULL;
	int r = file_of_operand(n->g, operand, n->cwd, &path);

	return r > 0 ? n->fn(path, is_output ? OUTSIDE_WORD_OUT : OUTSIDE_NAMED, n->arg)
	             : r;
}

/* Calls fn for a word that may name a directory outside. */
static int name_directory(const struct naming *n, const char *word)
{
	_cleanup_free_ char *joined = shfs_path_join(n->cwd, word), *path = NULL;
	struct stat st;

	path = joined ? shfs_path_absolute(joined) : NULL;
	if (!path)
		return -ENOMEM;
	if (is_below_root(n->g, path) || shfs_path_is_system(path) ||
	    (!lstat(path, &st) && !S_ISDIR(st.st_mode)))
		return 0;
	return n->fn(path, OUTSIDE_INTO, n->arg);
}

/* The last word, and one behind "-t". */
static int name_directories(const struct naming *n, const struct shfs_process_row *row)
{
	const char *name = basename(row->exe), *before = "", *end;
	int r = 0;

	if (!shfs_program_is_copier(name, strlen(name)))
		return 0;
	end = row->argv + row->argv_len;
	for (const char *word = row->argv; word < end && !r;
	     before = word, word += strlen(word) + 1)
		if (*word && *word != '-' && word > row->argv &&
		    (!strcmp(before, "-t") || word + strlen(word) + 1 >= end))
			r = name_directory(n, word);
	return r;
}

int shfs_graph_named(struct shfs_graph *g, const struct shfs_process_fact *p, bool links,
                     shfs_outside_fn fn, void *arg)
{
	_cleanup_process_ struct shfs_process_row row = { 0 };
	struct naming naming = { .g = g, .fn = fn, .arg = arg };
	int r = load_roots(g);

	if (!p->outside && !links)
		return r;
	if (!r)
		r = shfs_process_load(g->index, p->process_id, &row);
	if (r <= 0 || !shfs_path_is_here(row.cwd))
		return MIN(r, 0); /* nothing is known of what lies on another machine */
	naming.cwd = row.cwd;
	r = each_stream(g, p->streams_id, fn, arg);
	if (!r)
		r = shfs_operands_each(row.exe, row.argv, row.argv_len, name_operand,
		                       &naming);
	return r ? r : name_directories(&naming, &row);
}

/* --- of a maker --- */

/* Was it recorded as it was then? */
static bool is_input(const struct maker_node *m, const char *path)
{
	for (size_t i = 0; i < m->m.n_inputs; i++)
		if (!strcmp(m->m.inputs[i]->version.path, path))
			return true;
	return false;
}

static int add_outside(const char *path, enum outside_as as, void *arg)
{
	struct outside *o = arg;
	char *copy;

	if (as != OUTSIDE_NAMED || o->n == FILES_MAX || is_input(o->m, path))
		return 0;
	for (size_t i = 0; i < o->n; i++)
		if (!strcmp(o->list[i].path, path))
			return 0;
	copy = MAKE_ROOM(o->list, o->n, o->cap) ? strdup(path) : NULL;
	if (!copy)
		return -ENOMEM;
	o->list[o->n++] = (struct outside_file){ copy, o->process_id,
		                                 faccessat(AT_FDCWD, path, F_OK,
		                                           AT_SYMLINK_NOFOLLOW) != 0 };
	return 0;
}

static int add_names(const struct shfs_process_fact *p, void *arg)
{
	struct outside *o = arg;

	if (p->first_ns > o->m->m.until_ns)
		return 0;
	o->process_id = p->process_id;
	return shfs_graph_named(o->g, p, o->g->n_makers <= MAKERS_MAX, add_outside, o);
}

/* --- what one process of a command left for another --- */

static bool has_text(const struct shfs_buf *text, const char *part)
{
	return text->len && memmem(text->data, text->len, part, strlen(part));
}

/* Notes the files that are gone and that another process named, too: what went through
 * them is known by flows.c. */
static int note_passed_on(const struct shfs_process_fact *p, void *arg)
{
	_cleanup_buf_ struct shfs_buf words = { 0 };
	struct outside *o = arg;
	int r = shfs_facts_argv(o->g->facts, p->process_id, &words);

	shfs_buf_u8(&words, 0);
	if (r >= 0 && p->streams_id)
		r = shfs_facts_string(o->g->facts, p->streams_id, &words);
	for (size_t i = 0; i < o->n && r >= 0; i++)
		if (o->list[i].is_gone && o->list[i].process_id != p->process_id)
			o->list[i].passed_on |= has_text(&words, o->list[i].path);
	return r < 0 ? r : words.failed ? -ENOMEM : 0;
}

/* Processes of one command that are looked at. */
#define PROCESSES_MAX 2000

static int find_passed_on(struct outside *o)
{
	bool gone = false;

	for (size_t i = 0; i < o->n; i++)
		gone |= o->list[i].is_gone;
	return gone ? shfs_graph_processes(o->g, o->m->key, true, PROCESSES_MAX,
	                                   note_passed_on, o)
	            : 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct outside_file *x = a, *y = b;

	return strcmp(x->path, y->path);
}

int shfs_graph_outside(struct shfs_graph *g, const struct shfs_graph_maker *maker,
                       shfs_program_fn fn, void *arg)
{
	const struct maker_node *m = container_of(maker, struct maker_node, m);
	struct outside o = { .g = g, .m = m };
	int r = shfs_graph_processes(g, m->key, true, 0, add_names, &o)
	                ?: find_passed_on(&o);

	if (o.n)
		qsort(o.list, o.n, sizeof(*o.list), compare_names);
	for (size_t i = 0; i < o.n && !r; i++)
		r = o.list[i].passed_on ? 0 : fn(o.list[i].path, arg);
	for (size_t i = 0; i < o.n; i++)
		free(o.list[i].path);
	free(o.list);
	return r;
}
